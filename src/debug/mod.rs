//! `hanno debug` (`hdfs debug`): commands for an administrator when something is stuck.

mod meta;

use std::ffi::OsString;
use std::time::Duration;

use protocol::ErrorKind;

use crate::absent;
use crate::connect::{Overrides, describe, file_system};
use crate::dfs::Resolver;
use crate::generic::texts;
use crate::output::{EXIT_FAILED, EXIT_OK, report, report_text, say};
use crate::reference::{Outline, Word, options_in};

const USAGE: &str = "\
Usage: hdfs debug <command> [arguments]

These commands are for advanced users only.

verifyMeta -meta <metadata-file> [-block <block-file>]
computeMeta -block <block-file> -out <output-metadata-file>
recoverLease -path <path> [-retries <num-retries>]
";
/// Pause between tries.
const RETRY_PAUSE: Duration = Duration::from_millis(5000);

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    let command = |line: &str| {
        let (name, rest) = line.split_once(" -")?;
        Some((Word::new(name, ""), options_in(&format!("-{rest}"))))
    };
    Outline { commands: USAGE.lines().filter_map(command).collect(), ..Outline::plain(USAGE) }
}

/// Runs the command line after `debug` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let Some((command, rest)) = arguments.split_first() else {
        report_text!("{USAGE}");
        return EXIT_OK;
    };
    let name = command.to_string_lossy();
    let name = name.trim_start_matches('-');
    match name {
        "recoverLease" => recover_lease(rest, overrides),
        "verifyMeta" => with_texts(rest, meta::verify),
        "computeMeta" => with_texts(rest, meta::compute),
        "help" => {
            say!("{}", USAGE.trim_end());
            EXIT_OK
        }
        _ if absent::refuse("debug", name, absent::DEBUG) => EXIT_FAILED,
        _ => {
            report!("Unknown command {}", command.to_string_lossy());
            report_text!("{USAGE}");
            EXIT_FAILED
        }
    }
}

fn with_texts(words: &[OsString], command: fn(&[String]) -> u8) -> u8 {
    match texts(words) {
        Ok(words) => command(&words),
        Err(text) => {
            report!("debug: {text}");
            EXIT_FAILED
        }
    }
}

/// The arguments of `recoverLease`: the path, and how often to try.
fn lease_arguments(arguments: &[OsString]) -> Result<(&str, u32), String> {
    let (mut path, mut tries_max) = (None, 1);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let word = word.to_str().ok_or("an argument that is not UTF-8")?;
        let mut value = || {
            let value = words.next().and_then(|value| value.to_str());
            value.ok_or_else(|| format!("option {word} requires 1 argument."))
        };
        match word {
            "-path" => path = Some(value()?),
            "-retries" => {
                let count = value()?.parse::<u32>().map_err(|error| {
                    format!("Failed to parse the argument to -retries: {error}")
                })?;
                tries_max = count.max(1);
            }
            _ => return Err(format!("recoverLease: unknown option {word}")),
        }
    }
    let missing = "You must supply a -path argument to recoverLease.";
    Ok((path.ok_or(missing)?, tries_max))
}

fn recover_lease(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (text, tries_max) = match lease_arguments(arguments) {
        Ok(parsed) => parsed,
        Err(text) => {
            report!("{text}");
            return EXIT_FAILED;
        }
    };
    let client = match overrides.config().and_then(|config| file_system(&config)) {
        Ok(client) => client,
        Err(error) => {
            report!("{}", describe(error.as_ref()));
            return EXIT_FAILED;
        }
    };
    let path = match Resolver::new(client.user(), client.site()).cluster_path(text) {
        Ok(path) => path,
        Err(failure) => {
            report!("recoverLease got exception: {failure}");
            return EXIT_FAILED;
        }
    };
    for number in 1..=tries_max {
        match client.recover_lease(&path) {
            Ok(true) => {
                say!("recoverLease SUCCEEDED on {text}");
                return EXIT_OK;
            }
            Ok(false) => report!("recoverLease returned false."),
            Err(error) => {
                report!("recoverLease got exception: {}", describe(&error));
                if error.kind() == Some(ErrorKind::NotFound) {
                    report!("Giving up on recoverLease for {text} after 1 try.");
                    return EXIT_FAILED;
                }
            }
        }
        if number < tries_max {
            report!("Retrying in {} ms...", RETRY_PAUSE.as_millis());
            std::thread::sleep(RETRY_PAUSE);
            report!("Retry #{number}");
        }
    }
    let tries = if tries_max == 1 { "try" } else { "tries" };
    report!("Giving up on recoverLease for {text} after {tries_max} {tries}.");
    EXIT_FAILED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_known_or_named() {
        let told = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            lease_arguments(&words).map(|(path, tries)| (path.to_owned(), tries))
        };
        assert_eq!(told(&["-path", "/a"]), Ok(("/a".to_owned(), 1)));
        assert_eq!(told(&["-retries", "3", "-path", "/a"]), Ok(("/a".to_owned(), 3)));
        for (words, part) in [
            (&[][..], "-path"),
            (&["-path"], "option -path requires"),
            (&["-path", "/a", "-force"], "unknown option -force"),
            (&["/a"], "unknown option /a"),
            (&["-path", "/a", "-retries", "x"], "-retries"),
        ] {
            let text = told(words).unwrap_err();
            assert!(text.contains(part), "{words:?}: {text}");
        }
    }
}
