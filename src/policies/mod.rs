//! `hdfs storagepolicies` and `hdfs ec`: Hadoop's options, words and exit codes: 0 done, 1 wrong usage, 2 failed.
//!
//! A [`Family`] is one such command with its own commands. What it does not have is refused by name.

pub(crate) mod erasure;
pub(crate) mod storage;

use std::ffi::OsString;

use crate::absent::{self, Absent};
use crate::connect::Overrides;
use crate::dfs::Failure;
use crate::dfsadmin::Session;
use crate::generic::generic;
use crate::output::{EXIT_FAILED, EXIT_OK, report, report_text, say};
use crate::reference::{Outline, Word};

/// A call that failed.
const EXIT_REFUSED: u8 = 2;

/// A command of commands.
struct Family {
    name: &'static str,
    commands: &'static [Command],
    /// Commands of Hadoop's that are not here, with their dashes.
    absent: &'static [Absent],
}

/// One command, by its option.
struct Command {
    name: &'static str,
    /// Its options, each with the name of its value.
    options: &'static [(&'static str, &'static str)],
    /// The messages for missing options.
    missing: &'static [&'static str],
    about: &'static str,
    run: fn(&Session, &[String]) -> Result<(), Failure>,
}

const PATH: (&str, &str) = ("-path", "<path>");

impl Family {
    /// Runs the command line after its name and returns the exit code.
    fn run(&self, arguments: &[OsString], overrides: &Overrides) -> u8 {
        let (words, overrides) = match generic(arguments, overrides) {
            Ok(found) => found,
            Err(text) => {
                report!("{}: {text}", self.name);
                return EXIT_FAILED;
            }
        };
        let Some((name, rest)) = words.split_first() else {
            report_text!("{}", self.usage());
            return EXIT_FAILED;
        };
        if name == "-help" {
            return self.help(rest);
        }
        let Some(command) = self.commands.iter().find(|command| command.name == name) else {
            return self.refuse(name);
        };
        let values = match command.values_of(rest) {
            Ok(values) => values,
            Err(text) => {
                report!("{text}\nUsage: {}", command.synopsis());
                return EXIT_FAILED;
            }
        };
        match Session::open(&overrides).and_then(|session| (command.run)(&session, &values)) {
            Ok(()) | Err(Failure::ReaderLeft) => EXIT_OK,
            Err(failure) => {
                report!("{}: {failure}", self.name);
                EXIT_REFUSED
            }
        }
    }

    fn refuse(&self, name: &str) -> u8 {
        if absent::refuse(self.name, name, self.absent) {
            return EXIT_FAILED;
        }
        report!("Can't understand command '{name}'");
        if !name.starts_with('-') {
            report!("Command names must start with dashes.");
        }
        report_text!("{}", self.usage());
        EXIT_FAILED
    }

    fn usage(&self) -> String {
        let mut text = format!("Usage: hdfs {} [COMMAND]\n", self.name);
        for command in self.commands {
            text.push_str(&format!("          {}\n", command.synopsis()));
        }
        text + "          [-help <command-name>]\n"
    }

    /// The commands for completions and the manual page.
    fn outline(&self) -> Outline {
        let option = |(name, _): &(&str, &str)| Word { takes_value: true, ..Word::new(*name, "") };
        let command = |command: &Command| {
            let options = command.options.iter().map(option).collect();
            (Word::new(command.name, command.about), options)
        };
        let help = (Word::new("-help", "describe commands"), Vec::new());
        let descriptions = self.commands.iter().map(|command| command.description());
        Outline {
            help: descriptions.fold(self.usage(), |text, command| text + "\n" + &command),
            options: Vec::new(),
            commands: self.commands.iter().map(command).chain([help]).collect(),
            is_dash_optional: false,
        }
    }

    fn help(&self, names: &[String]) -> u8 {
        let describe = |command: &Command| say!("{}", command.description());
        let Some(name) = names.first() else {
            self.commands.iter().for_each(describe);
            return EXIT_OK;
        };
        if let [_, more, ..] = names {
            report!("{} -help describes one command, not {more} too.", self.name);
            return EXIT_FAILED;
        }
        let wanted = name.trim_start_matches('-');
        let is_wanted = |command: &&Command| command.name.trim_start_matches('-') == wanted;
        match self.commands.iter().find(is_wanted) {
            Some(command) => {
                describe(command);
                EXIT_OK
            }
            None => {
                report!("Unknown command '{name}'.");
                EXIT_FAILED
            }
        }
    }
}

impl Command {
    /// The values of its options, in its own order.
    fn values_of(&self, words: &[String]) -> Result<Vec<String>, String> {
        let mut values = vec![None; self.options.len()];
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let Some(at) = self.options.iter().position(|(option, _)| option == word) else {
                return Err(format!("Can't understand argument: {word}"));
            };
            if values[at].is_some() {
                return Err(format!("option {word} is given twice"));
            }
            values[at] = rest.next().cloned();
            if values[at].is_none() {
                return Err(format!("option {word} requires 1 argument."));
            }
        }
        let missing = values.iter().position(Option::is_none);
        match missing.and_then(|at| self.missing.get(at)) {
            Some(text) => Err((*text).to_owned()),
            None => Ok(values.into_iter().flatten().collect()),
        }
    }

    fn synopsis(&self) -> String {
        let options = self.options.iter().map(|(option, value)| format!(" {option} {value}"));
        format!("[{}{}]", self.name, options.collect::<String>())
    }

    fn description(&self) -> String {
        format!("{}\n\n{}\n", self.synopsis(), self.about)
    }
}
