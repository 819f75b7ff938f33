//! `hanno dfs`: Hadoop's file system shell.
//!
//! [`COMMANDS`] is the whole of it: name, options, help and function of each command. Arguments are parsed by [`args`], because
//! Hadoop's options have one dash and many letters. Every operand is processed even if one fails; what failed is one line on
//! standard error, and the exit code is 1 at the end.

mod args;
mod checksum;
mod context;
mod error;
mod get;
mod glob;
mod help;
mod interrupt;
mod list;
mod local;
mod mode;
mod namespace;
mod path;
mod pool;
mod progress;
mod properties;
mod put;
mod read;
mod stat;
mod store;
mod usage;

use std::ffi::OsString;

use self::args::{Format, Opt, Parsed, flag, value};
use self::context::Context;
use self::error::Failure;

use self::properties::Properties;
use self::store::Store;
use crate::connect::{self, Overrides};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE};

pub(crate) use self::path::Resolver;

/// A command of the shell.
struct Command {
    name: &'static str,
    /// Options and operands, for the usage line.
    arguments: &'static str,
    about: &'static str,
    options: &'static [Opt],
    min: usize,
    max: usize,
    deprecated: bool,
    run: fn(&Context) -> Result<(), Failure>,
}

/// No limit on operands.
const MANY: usize = usize::MAX;

const PUT_OPTIONS: &[Opt] = &[flag("f"), flag("p"), flag("l"), flag("d"), value("t"), value("q")];
const GET_OPTIONS: &[Opt] =
    &[flag("f"), flag("p"), flag("ignoreCrc"), flag("crc"), value("t"), value("q")];
const PUT_ABOUT: &str = "Copy local files and trees into the cluster; the source - is standard input.\n\
    -f replaces, -p keeps times, owner and mode, -l makes one replica, -d writes under the final name at once,\n\
    -t N copies N files at a time.";
const GET_ABOUT: &str = "Copy files and trees of the cluster to this machine.\n\
    -f replaces, -p keeps times and mode, -t N copies N files at a time.";
const LS_OPTIONS: &[Opt] = &[
    flag("C"),
    flag("d"),
    flag("h"),
    flag("q"),
    flag("R"),
    flag("t"),
    flag("S"),
    flag("r"),
    flag("u"),
    flag("e"),
    flag("json"),
];
const COUNT_OPTIONS: &[Opt] =
    &[flag("q"), flag("h"), flag("v"), flag("u"), flag("x"), flag("json")];

/// All commands, by name.
#[rustfmt::skip]
static COMMANDS: &[Command] = &[
    Command { name: "cat", arguments: "[-ignoreCrc] <src> ...", about: "Print files.", options: &[flag("ignoreCrc")], min: 1, max: MANY, deprecated: false, run: read::cat },
    Command { name: "checksum", arguments: "[-v] <src> ...", about: "Print HDFS's checksum of each file.", options: &[flag("v")], min: 1, max: MANY, deprecated: false, run: read::checksum },
    Command { name: "chgrp", arguments: "[-R] GROUP PATH...", about: "Change the group; -R of everything below too.", options: &[flag("R")], min: 2, max: MANY, deprecated: false, run: mode::chown },
    Command { name: "chmod", arguments: "[-R] <MODE[,MODE]... | OCTALMODE> PATH...", about: "Change permissions: 755, u+rw, a+X,o-w; -R of everything below too.", options: &[flag("R")], min: 2, max: MANY, deprecated: false, run: mode::chmod },
    Command { name: "chown", arguments: "[-R] [OWNER][:[GROUP]] PATH...", about: "Change owner and group; -R of everything below too.", options: &[flag("R")], min: 2, max: MANY, deprecated: false, run: mode::chown },
    Command { name: "copyFromLocal", arguments: "[-f] [-p] [-l] [-d] [-t <thread count>] <localsrc> ... <dst>", about: "As -put.", options: PUT_OPTIONS, min: 1, max: MANY, deprecated: false, run: put::put },
    Command { name: "copyToLocal", arguments: "[-f] [-p] [-t <thread count>] <src> ... <localdst>", about: "As -get.", options: GET_OPTIONS, min: 1, max: MANY, deprecated: false, run: get::get },
    Command { name: "count", arguments: "[-q] [-h] [-v] [-u] [--json] <path> ...", about: "Print the number of directories, files and bytes below each path.\n-h human sizes, -v a header, -q and -u quotas.", options: COUNT_OPTIONS, min: 1, max: MANY, deprecated: false, run: usage::count },
    Command { name: "df", arguments: "[-h] [<path> ...]", about: "Print capacity and free space.", options: &[flag("h")], min: 0, max: MANY, deprecated: false, run: usage::df },
    Command { name: "du", arguments: "[-s] [-h] [-v] [-x] [--json] <path> ...", about: "Print the bytes of each entry: of one replica, and of all.\n-s one line for each path, -h human sizes, -v a header.", options: &[flag("s"), flag("h"), flag("v"), flag("x"), flag("json")], min: 0, max: MANY, deprecated: false, run: usage::du },
    Command { name: "dus", arguments: "[-h] <path> ...", about: "As -du -s.", options: &[flag("h"), flag("json")], min: 0, max: MANY, deprecated: true, run: usage::du },
    Command { name: "get", arguments: "[-f] [-p] [-t <thread count>] <src> ... <localdst>", about: GET_ABOUT, options: GET_OPTIONS, min: 1, max: MANY, deprecated: false, run: get::get },
    Command { name: "getmerge", arguments: "[-nl] [-skip-empty-file] <src> ... <localdst>", about: "Join files into one local file; -nl ends each with a newline.", options: &[flag("nl"), flag("skip-empty-file")], min: 2, max: MANY, deprecated: false, run: get::getmerge },
    Command { name: "head", arguments: "<file>", about: "Print the first kilobyte.", options: &[], min: 1, max: 1, deprecated: false, run: read::head },
    Command { name: "ls", arguments: "[-C] [-d] [-h] [-q] [-R] [-t] [-S] [-r] [-u] [--json] [<path> ...]", about: "List files and directories.\n-R everything below, -h human sizes, -d directories themselves, -C paths only, -q unprintable characters as ?,\n-t newest first, -S largest first, -r in reverse, -u access times.", options: LS_OPTIONS, min: 0, max: MANY, deprecated: false, run: list::ls },
    Command { name: "lsr", arguments: "<path> ...", about: "As -ls -R.", options: &[flag("h"), flag("json")], min: 0, max: MANY, deprecated: true, run: list::ls },
    Command { name: "mkdir", arguments: "[-p] <path> ...", about: "Make directories; -p with their parents, and it is fine if they exist.", options: &[flag("p")], min: 1, max: MANY, deprecated: false, run: namespace::mkdir },
    Command { name: "moveFromLocal", arguments: "[-f] [-p] [-l] [-d] [-t <thread count>] <localsrc> ... <dst>", about: "As -put; the local files are deleted.", options: PUT_OPTIONS, min: 1, max: MANY, deprecated: false, run: put::put },
    Command { name: "mv", arguments: "<src> ... <dst>", about: "Rename; into <dst> if that is a directory.", options: &[], min: 2, max: MANY, deprecated: false, run: namespace::mv },
    Command { name: "put", arguments: "[-f] [-p] [-l] [-d] [-t <thread count>] [ - | <localsrc> ... ] <dst>", about: PUT_ABOUT, options: PUT_OPTIONS, min: 1, max: MANY, deprecated: false, run: put::put },
    Command { name: "rm", arguments: "[-f] [-r|-R] [-skipTrash] [-safely] <src> ...", about: "Delete; -r directories with everything below, -f without complaint if there is nothing,\n-safely asks before it deletes many files.", options: &[flag("f"), flag("r"), flag("R"), flag("skipTrash"), flag("safely")], min: 0, max: MANY, deprecated: false, run: namespace::rm },
    Command { name: "rmdir", arguments: "[--ignore-fail-on-non-empty] <dir> ...", about: "Delete empty directories.", options: &[flag("ignore-fail-on-non-empty")], min: 1, max: MANY, deprecated: false, run: namespace::rmdir },
    Command { name: "rmr", arguments: "<src> ...", about: "As -rm -r.", options: &[flag("f"), flag("skipTrash")], min: 1, max: MANY, deprecated: true, run: namespace::rm },
    Command { name: "setrep", arguments: "[-R] [-w] <rep> <path> ...", about: "Set the number of replicas of files and of all files below directories; -w waits until they are there.", options: &[flag("R"), flag("w")], min: 2, max: MANY, deprecated: false, run: namespace::setrep },
    Command { name: "stat", arguments: "[format] [--json] <path> ...", about: "Print facts: %a mode, %A permissions, %b size, %F type, %g group, %n name, %o block size, %r replicas,\n%u owner, %x %X access time, %y %Y modification time. Default %y.", options: &[flag("json")], min: 1, max: MANY, deprecated: false, run: stat::stat },
    Command { name: "tail", arguments: "[-f] [-s <milliseconds>] <file>", about: "Print the last kilobyte; -f goes on with what is added.", options: &[flag("f"), value("s")], min: 1, max: 1, deprecated: false, run: read::tail },
    Command { name: "test", arguments: "-[defswrz] <path>", about: "Answer with exit code 0 or 1: -d is a directory, -e exists, -f is a file, -s is not empty, -z has size 0,\n-w may be written, -r may be read.", options: &[flag("d"), flag("e"), flag("f"), flag("s"), flag("w"), flag("r"), flag("z")], min: 1, max: 1, deprecated: false, run: stat::test },
    Command { name: "text", arguments: "[-ignoreCrc] <src> ...", about: "Print files, gzip ones decoded.", options: &[flag("ignoreCrc")], min: 1, max: MANY, deprecated: false, run: read::text },
    Command { name: "touchz", arguments: "<path> ...", about: "Make empty files.", options: &[], min: 1, max: MANY, deprecated: false, run: namespace::touchz },
];

fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
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
            _ => EXIT_FAILED,
        };
    }
    let Some(command) = find(name) else {
        eprintln!("{typed}: Unknown command");
        eprint!("{}", help::general());
        return EXIT_USAGE;
    };
    if let [only] = rest
        && only == "--help"
    {
        return run(&["-help".into(), command.name.into()], overrides);
    }
    let format = Format {
        options: command.options,
        min: command.min,
        max: command.max,
        unknown_is_operand: command.name == "chmod",
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
    eprintln!("Usage: {}", help::usage(command));
    EXIT_USAGE
}

/// Finds the NameNode: named by `-fs`, else by a path, else configured.
fn context(
    command: &'static Command,
    parsed: Parsed,
    overrides: &Overrides,
) -> Result<Context, Failure> {
    let wrong = |error: anyhow::Error| Failure::Text(connect::describe(error.as_ref()));
    let properties = Properties::new(&parsed.properties)?;
    let mut config = overrides.config().map_err(wrong)?;
    if let Some(address) = named_address(&parsed) {
        config.namenode = Some(address);
    }
    let store = Store::connect(&config).map_err(wrong)?;
    let resolver = Resolver::new(store.user(), store.base());
    Ok(Context::new(command.name, store, resolver, parsed, properties))
}

fn named_address(parsed: &Parsed) -> Option<String> {
    if let Some(text) = &parsed.file_system {
        let plain = || text.starts_with("http://").then(|| text.clone());
        return path::named_namenode(text).or_else(plain);
    }
    parsed.operands.iter().filter_map(|operand| operand.to_str()).find_map(path::named_namenode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_sorted_and_usages_name_them() {
        assert!(COMMANDS.is_sorted_by_key(|command| command.name.to_ascii_lowercase()));
        let put = find("put").unwrap();
        assert!(help::usage(put).starts_with("hadoop fs [generic options] -put [-f]"));
        let general = help::general();
        assert!(
            COMMANDS.iter().all(|c| c.deprecated != general.contains(&format!("  -{} ", c.name)))
        );
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
    }
}
