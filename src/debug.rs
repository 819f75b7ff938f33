//! `hanno debug` (`hdfs debug`): what an administrator needs when something is stuck.

use std::ffi::OsString;
use std::time::Duration;

use protocol::{DfsPath, ErrorKind};

use crate::connect::{Overrides, describe, file_system};
use crate::output::{EXIT_FAILED, EXIT_OK, say, tell, tell_text};

const USAGE: &str = "\
Usage: hdfs debug <command> [arguments]

These commands are for advanced users only.

recoverLease -path <path> [-retries <num-retries>]
";
/// Pause between tries.
const RETRY_PAUSE: Duration = Duration::from_millis(5000);

/// Runs the command line after `debug` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let Some((command, rest)) = arguments.split_first() else {
        tell_text!("{USAGE}");
        return EXIT_OK;
    };
    match command.to_str() {
        Some("recoverLease" | "-recoverLease") => recover_lease(rest, overrides),
        Some("help" | "-help" | "--help") => {
            say!("{}", USAGE.trim_end());
            EXIT_OK
        }
        _ => {
            tell!("Unknown command {}", command.to_string_lossy());
            tell_text!("{USAGE}");
            EXIT_FAILED
        }
    }
}

/// The value behind an option.
fn value_of<'a>(arguments: &'a [OsString], option: &str) -> Option<&'a str> {
    let at = arguments.iter().position(|argument| argument == option)?;
    arguments.get(at + 1)?.to_str()
}

fn recover_lease(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let Some(text) = value_of(arguments, "-path") else {
        tell!("You must supply a -path argument to recoverLease.");
        return EXIT_FAILED;
    };
    let tries_max = match value_of(arguments, "-retries").map(str::parse::<u32>) {
        None => 1,
        Some(Ok(count)) => count.max(1),
        Some(Err(error)) => {
            tell!("Failed to parse the argument to -retries: {error}");
            return EXIT_FAILED;
        }
    };
    let path = match DfsPath::parse(text) {
        Ok(path) => path,
        Err(error) => {
            tell!("recoverLease got exception: {error}");
            return EXIT_FAILED;
        }
    };
    let client = match overrides.config().and_then(|config| file_system(&config)) {
        Ok(client) => client,
        Err(error) => {
            tell!("{}", describe(error.as_ref()));
            return EXIT_FAILED;
        }
    };
    for number in 1..=tries_max {
        match client.recover_lease(&path) {
            Ok(true) => {
                say!("recoverLease SUCCEEDED on {text}");
                return EXIT_OK;
            }
            Ok(false) => tell!("recoverLease returned false."),
            Err(error) => {
                tell!("recoverLease got exception: {}", describe(&error));
                if error.kind() == Some(ErrorKind::NotFound) {
                    tell!("Giving up on recoverLease for {text} after 1 try.");
                    return EXIT_FAILED;
                }
            }
        }
        if number < tries_max {
            tell!("Retrying in {} ms...", RETRY_PAUSE.as_millis());
            std::thread::sleep(RETRY_PAUSE);
            tell!("Retry #{number}");
        }
    }
    let tries = if tries_max == 1 { "try" } else { "tries" };
    tell!("Giving up on recoverLease for {text} after {tries_max} {tries}.");
    EXIT_FAILED
}
