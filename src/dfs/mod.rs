//! `hanno dfs`: Hadoop's file system shell.
//!
//! [`GROUPS`] is the whole of it: tables with name, options, help and function of each command. Arguments are parsed by [`args`],
//! because Hadoop's options have one dash and many letters. Every operand is processed even if one fails; what failed is one line on
//! standard error, and the exit code is 1 at the end.

mod args;
mod commands;
mod context;
mod copy;
mod error;
mod find;
mod get;
mod glob;
mod help;
mod interrupt;
mod list;
mod local;
mod machine;
mod mode;
mod namespace;
mod path;
mod place;
mod pool;
mod progress;
mod properties;
mod publish;
mod put;
mod read;
mod rewrite;
mod rights;
mod snapshot;
mod stat;
mod store;
mod text;
mod touch;
mod trash;
mod usage;
mod xml;

use std::ffi::OsString;

use self::args::{Format, Opt, Parsed};
use self::context::Context;
pub(crate) use self::error::Failure;

use self::properties::Properties;
use self::store::Store;
use crate::connect::{self, Overrides};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE};

pub(crate) use self::path::{Resolver, named_namenode};
pub(crate) use self::properties::size;

/// A command of the shell.
struct Command {
    /// Without its dash.
    name: &'static str,
    /// Options and operands, for the usage line.
    arguments: &'static str,
    /// The text of `-help`, several lines.
    about: &'static str,
    options: &'static [Opt],
    /// Fewest operands.
    min: usize,
    /// Most operands, or [`MANY`].
    max: usize,
    /// Works, but is left out of the general help.
    deprecated: bool,
    run: fn(&Context) -> Result<(), Failure>,
}

/// No limit on operands.
const MANY: usize = usize::MAX;

/// Every command, by the file or subject that brings it. A new family of commands is one more line here.
static GROUPS: &[&[Command]] =
    &[commands::COMMANDS, rewrite::COMMANDS, rights::COMMANDS, snapshot::COMMANDS];

/// All commands, by name.
fn all() -> Vec<&'static Command> {
    let mut all: Vec<&Command> = GROUPS.iter().flat_map(|group| group.iter()).collect();
    all.sort_by_key(|command| command.name.to_ascii_lowercase());
    all
}

fn named(name: &str) -> Option<&'static Command> {
    GROUPS.iter().flat_map(|group| group.iter()).find(|command| command.name == name)
}

/// What Hadoop tells to use instead of a deprecated command.
fn replacement(name: &str) -> Option<&'static str> {
    match name {
        "dus" => Some("du -s"),
        "lsr" => Some("ls -R"),
        "rmr" => Some("-rm -r"),
        _ => None,
    }
}

/// Runs the command line after `dfs` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let mut parsed = Parsed::default();
    let rest = match args::generic(arguments, &mut parsed) {
        Ok(rest) => rest,
        Err(error) => {
            eprintln!("{error}");
            return EXIT_USAGE;
        }
    };
    let Some((typed, rest)) = rest.split_first() else {
        eprint!("{}", help::general());
        return EXIT_USAGE;
    };
    let typed = typed.to_string_lossy();
    let name = typed.strip_prefix('-').unwrap_or(&typed);
    if let "help" | "usage" | "-help" | "h" = name {
        return match help::print(rest, name != "usage") {
            Ok(true) | Err(Failure::ReaderLeft) => EXIT_OK,
            Ok(false) => EXIT_USAGE,
            Err(_) => EXIT_FAILED,
        };
    }
    let Some(command) = named(name) else {
        eprintln!("{typed}: Unknown command");
        eprint!("{}", help::general());
        return EXIT_USAGE;
    };
    if let Some(instead) = replacement(command.name) {
        eprintln!("{}: DEPRECATED: Please use '{instead}' instead.", command.name);
    }
    if let [only] = rest
        && only == "--help"
    {
        return run(&["-help".into(), command.name.into()], overrides);
    }
    let format = Format {
        options: command.options,
        min: command.min,
        max: command.max,
        unknown_is_operand: matches!(command.name, "chmod" | "find"),
    };
    if let Err(error) = args::parse(rest, &format, &mut parsed) {
        return usage_error(command, &error.to_string());
    }
    let context = match context(command, parsed, overrides) {
        Ok(context) => context,
        Err(failure) => return end(command, Err(failure), false),
    };
    let outcome = (command.run)(&context);
    end(command, outcome, context.has_failed())
}

fn end(command: &Command, outcome: Result<(), Failure>, has_failed: bool) -> u8 {
    match outcome {
        Ok(()) if !has_failed => EXIT_OK,
        Ok(()) => EXIT_FAILED,
        Err(Failure::ReaderLeft) => EXIT_OK,
        Err(Failure::Usage(text)) => usage_error(command, &text),
        Err(Failure::Value(text)) => {
            eprintln!("{}: {text}", command.name);
            EXIT_USAGE
        }
        Err(failure) => {
            eprintln!("{}: {failure}", command.name);
            EXIT_FAILED
        }
    }
}

fn usage_error(command: &Command, text: &str) -> u8 {
    eprintln!("-{}: {text}", command.name);
    eprintln!("{}", help::usage(command));
    EXIT_USAGE
}

/// Finds the NameNode: named by `-fs`, else by a path, else configured.
fn context(
    command: &'static Command,
    parsed: Parsed,
    overrides: &Overrides,
) -> Result<Context, Failure> {
    let wrong = |error: anyhow::Error| Failure::Text(connect::describe(error.as_ref()));
    let mut parsed = parsed;
    parsed.properties = xml::joined(&parsed)?;
    let properties = Properties::new(&parsed.properties)?;
    let mut config = overrides.config().map_err(wrong)?;
    if let Some(address) = named_address(&parsed) {
        config.namenode = Some(address);
    }
    config.short_circuit = properties.short_circuit.or(config.short_circuit);
    let is_machine_default = is_machine_default(&parsed);
    let names_machine = |operand: &OsString| operand.to_str().is_some_and(path::has_machine_scheme);
    let store = Store::new(config);
    if !is_machine_default && !parsed.operands.iter().any(names_machine) {
        // Else the first path of the cluster makes first contact, if there is one.
        store.client()?;
    }
    let resolver = Resolver::new(&store.user(), store.base());
    let resolver = resolver.with_machine_default(is_machine_default);
    Ok(Context::new(command.name, store, resolver, parsed, properties))
}

/// True if the file system of paths without a scheme is this machine's.
fn is_machine_default(parsed: &Parsed) -> bool {
    let configured = || {
        let mut properties = parsed.properties.iter().rev();
        properties.find(|(key, _)| key == "fs.defaultFS").map(|(_, value)| value)
    };
    parsed
        .file_system
        .as_ref()
        .or_else(configured)
        .is_some_and(|text| path::has_machine_scheme(text))
}

fn named_address(parsed: &Parsed) -> Option<String> {
    if let Some(text) = &parsed.file_system {
        let plain = || text.starts_with("http://").then(|| text.clone());
        return named_namenode(text).or_else(plain);
    }
    let typed =
        parsed.operands.iter().filter_map(|operand| operand.to_str()).find_map(named_namenode);
    let configured = || {
        let default = |(key, value): &(String, String)| {
            (key == "fs.defaultFS").then(|| named_namenode(value)).flatten()
        };
        parsed.properties.iter().rev().find_map(default)
    };
    typed.or_else(configured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_usages_name_them() {
        let names: Vec<&str> = all().iter().map(|command| command.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let put = named("put").unwrap();
        assert!(help::usage(put).starts_with("Usage: hadoop fs [generic options] -put [-f]"));
        let general = help::general();
        assert!(all().iter().all(|c| c.deprecated != general.contains(&format!("\t[-{}", c.name))));
    }

    #[test]
    fn usage_errors_are_255() {
        let overrides = Overrides::default();
        for words in
            [&[][..], &["foo"], &["-ls", "-z"], &["mkdir"], &["-touchz"], &["-D", "x", "-ls"]]
        {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &overrides), EXIT_USAGE, "{words:?}");
        }
    }

    #[test]
    fn addresses_in_arguments_win() {
        let mut parsed = Parsed::default();
        parsed.operands.extend(["/a".into(), "hanno://h:1/x".into()]);
        assert_eq!(named_address(&parsed).as_deref(), Some("http://h:1"));
        parsed.file_system = Some("webhdfs://g:2".to_owned());
        assert_eq!(named_address(&parsed).as_deref(), Some("http://g:2"));
        parsed.file_system = Some("http://g:3".to_owned());
        assert_eq!(named_address(&parsed).as_deref(), Some("http://g:3"));
        assert!(!is_machine_default(&parsed));
        parsed.file_system = Some("file:///".to_owned());
        assert!(is_machine_default(&parsed));
    }
}
