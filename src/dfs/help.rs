//! `-help`, `-usage` and the texts of usage errors, laid out as Hadoop's.

use super::args::Opt;
use super::command::Command;
use super::commands::{all, named};
use super::context::Screen;
use super::fs::Failure;
use crate::output::report;
use crate::reference::{Outline, Word, described, options_in};

/// How every usage begins.
const PROGRAM: &str = "Usage: hadoop fs [generic options]";
/// The two commands that describe all others.
const ABOUT_COMMANDS: &str = "\t[-help [cmd ...]]\n\t[-usage [cmd ...]]\n";
/// How the general usage ends.
const GENERIC: &str = "\
Generic options supported are:
-conf <configuration file>        specify an application configuration file
-D <property=value>               define a value for a given property
-fs <hanno://namenode:port>       specify default filesystem URL to use, overrides 'fs.defaultFS' property from configurations.
-jt <local|resourcemanager:port>  specify a ResourceManager
-files <file1,...>                specify a comma-separated list of files to be copied to the map reduce cluster
-libjars <jar1,...>               specify a comma-separated list of jar files to be included in the classpath
-archives <archive1,...>          specify a comma-separated list of archives to be unarchived on the compute machines

The general command line syntax is:
command [genericOptions] [commandOptions]

";
/// Help that Hadoop's shell lacks.
const EXAMPLES: &str = "\
The same commands work without the dash and under the names `hanno dfs', `hdfs dfs' and `hadoop fs'; `--' ends the options.
Relative paths begin at /user/<you>. Globs: * ? [a-c] [^a] {a,b}, quoted so that your shell leaves them alone.

Examples:
  hanno dfs -mkdir -p /books
  hanno dfs -put moby-dick.txt /books
  generate | hanno dfs -put - /books/generated
  hanno dfs -ls -R -h /books
  hanno dfs -get '/books/*.txt' .
  hanno dfs -D dfs.replication=2 -D dfs.blocksize=64m -put big /big
  hanno dfs -help put
";

/// Usage of one command.
pub(super) fn usage(command: &Command) -> String {
    format!("{PROGRAM} {}", synopsis(command))
}

fn synopsis(command: &Command) -> String {
    format!("-{} {}", command.name, command.arguments).trim_end().to_owned()
}

/// Usage of all commands.
pub(super) fn general() -> String {
    let mut text = format!("{PROGRAM}\n");
    for command in visible() {
        text.push_str(&format!("\t[{}]\n", synopsis(command)));
    }
    text.push_str(ABOUT_COMMANDS);
    text.push('\n');
    text.push_str(GENERIC);
    text.push_str(EXAMPLES);
    text
}

/// The shell for completions and its manual page.
pub(crate) fn outline() -> Outline {
    let about = |name: &str, help: &str| {
        let is_it = |(left, _): &(String, String)| left.split([' ', ',']).any(|word| word == name);
        described(help).into_iter().find(is_it).map(|(_, about)| about).unwrap_or_default()
    };
    let option = |command: &Command, option: &Opt| {
        let dashes = if option.name == "json" { "--" } else { "-" };
        let name = format!("{dashes}{}", option.name);
        let about = about(&name, command.about);
        Word { takes_value: option.takes_value, ..Word::new(name, &about) }
    };
    let command = |command: &'static Command| {
        let options = command.options.iter().map(|opt| option(command, opt)).collect();
        (Word::new(format!("-{}", command.name), command.about), options)
    };
    let asked = ["help", "usage"].map(|name| (Word::new(format!("-{name}"), ""), Vec::new()));
    let mut help = general();
    visible().for_each(|command| help.push_str(&description(command)));
    Outline {
        help,
        options: GENERIC.lines().flat_map(options_in).collect(),
        commands: visible().map(command).chain(asked).collect(),
        is_dash_optional: true,
    }
}

fn visible() -> impl Iterator<Item = &'static Command> {
    all().into_iter().filter(|command| !command.deprecated)
}

/// `-help` (with descriptions) and `-usage`, for the commands named or for all. False if one of them is unknown.
pub(super) fn print(names: &[std::ffi::OsString], descriptions: bool) -> Result<bool, Failure> {
    let mut screen = Screen::new()?;
    if names.is_empty() {
        screen.print(&general())?;
    }
    if names.is_empty() && descriptions {
        for command in visible() {
            describe(command, &mut screen)?;
        }
    }
    for name in names {
        let name = name.to_string_lossy();
        let bare = name.trim_start_matches('-');
        match named(bare) {
            Some(command) if descriptions => describe(command, &mut screen)?,
            Some(command) => screen.line(format_args!("{}", usage(command)))?,
            None if matches!(bare, "help" | "usage") => {
                screen.line(format_args!("{PROGRAM} -{bare} [cmd ...]"))?;
            }
            None => {
                screen.flush()?;
                let asked = if descriptions { "help" } else { "usage" };
                report!("-{asked}: `{name}': Unknown command\n{PROGRAM} -{asked} [cmd ...]");
                return Ok(false);
            }
        }
    }
    screen.flush()?;
    Ok(true)
}

fn describe(command: &Command, screen: &mut Screen) -> Result<(), Failure> {
    screen.print(&description(command))
}

fn description(command: &Command) -> String {
    let mut text = format!("{} :\n", synopsis(command));
    for line in command.about.lines() {
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    text + "\n"
}
