//! `hanno dfsadmin` (`hdfs dfsadmin`): the operator's commands, with Hadoop's options, words and exit codes.
//!
//! [`GROUPS`] joins tables of commands. A command gets a [`Session`]; its output and its errors are Hadoop's. Exit code 0, or 255 for usage errors and failures
//! alike.

mod blocks;
mod nodes;
mod quota;
pub(crate) mod report;
mod session;
mod snapshot;
mod state;

pub(crate) use self::session::{Session, refused, unexpected};
pub(crate) use self::state::safe_mode;

use std::ffi::OsString;

use self::session::{Command, MANY};
use crate::absent;
use crate::connect::Overrides;
use crate::dfs::Failure;
use crate::generic::generic;
use crate::output::{EXIT_OK, EXIT_USAGE, report, report_text, say};
use crate::reference::{Outline, Word, options_in};

/// Every command, by subject. A new subject is one more line here.
static GROUPS: &[&[Command]] = &[
    report::COMMANDS,
    state::COMMANDS,
    nodes::COMMANDS,
    blocks::COMMANDS,
    quota::COMMANDS,
    snapshot::COMMANDS,
];

fn all() -> impl Iterator<Item = &'static Command> {
    GROUPS.iter().flat_map(|group| group.iter())
}

/// Runs the command line after `dfsadmin` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => {
            report!("{text}");
            return EXIT_USAGE;
        }
    };
    let Some((typed, rest)) = words.split_first() else {
        report_text!("{}", usage());
        return EXIT_USAGE;
    };
    let name = typed.trim_start_matches('-');
    if name == "help" {
        return help(rest);
    }
    let Some(command) = all().find(|command| command.name == name) else {
        if absent::refuse("dfsadmin", name, absent::DFSADMIN) {
            return EXIT_USAGE;
        }
        report_text!("{name}: Unknown command\n{}", usage());
        return EXIT_USAGE;
    };
    if let Some(option) = unknown_option(command, rest) {
        report!("{name}: Illegal option {option}");
        report!("{}", usage_of(command));
        return EXIT_USAGE;
    }
    let (min, max) = command.words;
    if rest.len() < min || rest.len() > max {
        // For a command with any number of words, Hadoop's message counts them.
        if max == MANY {
            report!("{name}: Not enough arguments: expected {min} but got {}", rest.len());
        }
        report!("{}", usage_of(command));
        return EXIT_USAGE;
    }
    match Session::open(&overrides).and_then(|session| (command.run)(&session, rest)) {
        Ok(()) | Err(Failure::ReaderLeft) => EXIT_OK,
        Err(Failure::Usage(text)) => {
            if !text.is_empty() {
                report!("{name}: {text}");
            }
            report!("{}", usage_of(command));
            EXIT_USAGE
        }
        Err(failure) => {
            report!("{name}: {failure}");
            EXIT_USAGE
        }
    }
}

/// A word that looks like an option but is none of this command's: its usage line lists them all.
fn unknown_option<'a>(command: &Command, words: &'a [String]) -> Option<&'a str> {
    let known = |word: &str| {
        let mut options = command.arguments.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        options.any(|option| option == word)
    };
    let is_option = |word: &&String| {
        let rest = word.strip_prefix('-').unwrap_or_default();
        // Numbers may be negative, and get their own error message.
        rest.starts_with(|c: char| !c.is_ascii_digit())
    };
    words.iter().find(|word| is_option(word) && !known(word)).map(String::as_str)
}

fn synopsis(command: &Command) -> String {
    format!("-{} {}", command.name, command.arguments).trim_end().to_owned()
}

fn usage_of(command: &Command) -> String {
    format!("Usage: hdfs dfsadmin [{}]", synopsis(command))
}

fn usage() -> String {
    let mut text = "Usage: hdfs dfsadmin\nNote: Administrative commands can only be run as the HDFS superuser.\n".to_owned();
    for command in all() {
        text.push_str(&format!("\t[{}]\n", synopsis(command)));
    }
    text + "\t[-help [cmd]]\n"
}

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    let command = |command: &Command| {
        (Word::new(format!("-{}", command.name), command.about), options_in(command.arguments))
    };
    let help = (Word::new("-help", "describe commands"), Vec::new());
    Outline {
        help: all().fold(usage() + "\n", |text, command| text + &description(command) + "\n"),
        options: Vec::new(),
        commands: all().map(command).chain([help]).collect(),
        is_dash_optional: true,
    }
}

fn description(command: &Command) -> String {
    format!("{}:\n\t{}\n", synopsis(command), command.about.replace('\n', "\n\t"))
}

fn help(names: &[String]) -> u8 {
    let mut all_known = true;
    let describe = |command: &Command| say!("{}", description(command));
    if names.is_empty() {
        say!("hdfs dfsadmin performs DFS administrative commands.\n");
        all().for_each(describe);
    }
    for name in names {
        match all().find(|command| command.name == name.trim_start_matches('-')) {
            Some(command) => describe(command),
            None => {
                all_known = false;
                report!("{name}: Unknown command");
            }
        }
    }
    if all_known { EXIT_OK } else { EXIT_USAGE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_a_command_does_not_have_is_named() {
        let unknown = |name: &str, words: &[&str]| {
            let command = all().find(|command| command.name == name).unwrap();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            unknown_option(command, &words).map(str::to_owned)
        };
        for (name, words, expected) in [
            ("metasave", &["-x"][..], Some("-x")),
            ("metasave", &["x"], None),
            ("fetchImage", &["-force", "/d"], Some("-force")),
            ("report", &["-live", "-dead"], None),
            ("report", &["-live", "-alive"], Some("-alive")),
            ("listOpenFiles", &["-path", "/a", "-block"], Some("-block")),
            ("setQuota", &["-5", "/a"], None),
            ("setSpaceQuota", &["5", "-storageType", "DISK", "/a"], None),
            ("refreshNodes", &["-now"], Some("-now")),
        ] {
            assert_eq!(unknown(name, words).as_deref(), expected, "{name} {words:?}");
        }
    }

    /// Hadoop 3.4's own list.
    #[test]
    fn every_command_of_hadoops_is_here_or_told_to_be_absent() {
        let names = "report safemode saveNamespace rollEdits restoreFailedStorage refreshNodes setQuota clrQuota setSpaceQuota clrSpaceQuota \
                     finalizeUpgrade rollingUpgrade upgrade refreshServiceAcl refreshUserToGroupsMappings refreshSuperUserGroupsConfiguration \
                     refreshCallQueue refresh reconfig printTopology refreshNamenodes getVolumeReport deleteBlockPool setBalancerBandwidth \
                     getBalancerBandwidth fetchImage allowSnapshot disallowSnapshot provisionSnapshotTrash shutdownDatanode evictWriters \
                     getDatanodeInfo metasave triggerBlockReport listOpenFiles";
        let names: Vec<&str> = names.split_whitespace().collect();
        for name in &names {
            let is_absent = absent::DFSADMIN.iter().any(|absent| absent.name == *name);
            assert!(all().any(|command| command.name == *name) != is_absent, "{name}");
        }
        let absent = absent::DFSADMIN.iter().map(|absent| absent.name);
        all().map(|command| command.name).chain(absent).for_each(|name| {
            assert!(names.contains(&name), "{name}");
        });
    }

    #[test]
    fn names_are_unique_and_mistakes_are_255() {
        let mut names: Vec<&str> = all().map(|command| command.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for words in [
            &[][..],
            &["-foo"],
            &["-safemode"],
            &["-metasave"],
            &["-metasave", "-x"],
            &["-fetchImage", "--force"],
            &["-help", "foo"],
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &Overrides::default()), EXIT_USAGE, "{words:?}");
        }
    }
}
