//! All commands as one definition of clap's, Hadoop's among them. Nothing parses with it.

use clap::{Arg, ArgAction, Command, ValueHint};

use super::outline::{Outline, Word};
use crate::hadoop;

/// Stands before the name of an option that has one dash and many letters, which clap does not know.
pub(super) const ONE_DASH: char = '\u{1}';

/// Commands after whose names the addresses of daemons may stand, too.
const WITH_ADDRESSES: [&str; 2] = ["admin", "bench"];
/// The options for these addresses.
const ADDRESSES: [&str; 2] = ["namenode", "jobtracker"];

/// The definition of this program under one of its names; `hanno` is what clap parses.
pub(super) fn of(program: &str, hanno: Command) -> Command {
    let root = match program {
        "hanno" => self::hanno(hanno),
        _ => of_hadoop(program),
    };
    root.disable_help_subcommand(true)
}

/// `hanno` with Hadoop's commands as they are.
fn hanno(mut root: Command) -> Command {
    let addresses: Vec<Arg> = root
        .get_arguments()
        .filter(|arg| ADDRESSES.contains(&arg.get_id().as_str()))
        .cloned()
        .collect();
    for name in ADDRESSES {
        // Hadoop's commands do not take them after their names.
        root = root.mut_arg(name, |arg| arg.global(false));
    }
    for name in WITH_ADDRESSES {
        root = root.mut_subcommand(name, |command| command.args(addresses.clone()));
    }
    for command in hadoop::COMMANDS.iter().filter(|command| command.name != "version") {
        let described = described(command);
        root = match root.find_subcommand(command.name) {
            Some(_) => root.mut_subcommand(command.name, |_| described),
            None => root.subcommand(described),
        };
    }
    root.about("HDFS and MapReduce as one binary")
}

/// `hdfs` and the others, with the options of Hadoop's scripts.
fn of_hadoop(program: &str) -> Command {
    let value = |name: &'static str, hint| Arg::new(name).long(name).value_hint(hint);
    Command::new(program.to_owned())
        .about(format!("the commands of Hadoop's {program}, done by hanno"))
        .version(env!("CARGO_PKG_VERSION"))
        .arg(value("config", ValueHint::DirPath).help("Directory of Hadoop's configuration files"))
        .arg(value("loglevel", ValueHint::Other).help("Is accepted without effect"))
        .subcommands(hadoop::of_program(program).map(described))
}

fn described(command: &hadoop::Command) -> Command {
    let Outline { options, commands, is_dash_optional, .. } = (command.outline)();
    let mut described = bare(command.name, command.about).args(options.iter().map(option));
    if commands.is_empty() {
        described = described.arg(operands());
    }
    for (word, options) in &commands {
        let mut child = bare(&word.name, &word.about);
        let plain = word.name.trim_start_matches('-');
        if is_dash_optional && plain != word.name {
            child = child.visible_alias(plain.to_owned());
        }
        described = described.subcommand(child.args(options.iter().map(option)).arg(operands()));
    }
    described
}

fn bare(name: &str, about: &str) -> Command {
    Command::new(name.to_owned())
        .about(about.to_owned())
        .disable_help_flag(true)
        .disable_help_subcommand(true)
}

/// Files of this machine, for want of knowing others.
fn operands() -> Arg {
    Arg::new("OPERANDS").num_args(0..).value_hint(ValueHint::AnyPath)
}

fn option(word: &Word) -> Arg {
    let action = if word.takes_value { ArgAction::Set } else { ArgAction::SetTrue };
    let arg = Arg::new(word.name.clone()).help(word.about.clone()).action(action);
    let letters = word.name.trim_start_matches('-');
    let mut chars = letters.chars();
    match (word.name.starts_with("--"), chars.next(), chars.next()) {
        (true, ..) => arg.long(letters.to_owned()),
        (false, Some(letter), None) => arg.short(letter),
        (false, ..) => arg.long(format!("{ONE_DASH}{letters}")),
    }
}
