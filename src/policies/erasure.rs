//! `hdfs ec`: files are replicated, so there is no policy of erasure coding to list, and no file has one.

use std::ffi::OsString;

use super::{Command, Family, PATH};
use crate::absent;
use crate::connect::Overrides;
use crate::dfs::Failure;
use crate::dfsadmin::{Session, refused};
use crate::output::say;
use crate::reference::Outline;

static FAMILY: Family = Family { name: "ec", commands: COMMANDS, absent: absent::EC };

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    Command { name: "-listPolicies", options: &[], missing: &[], about: "Lists all erasure coding policies: there are none.", run: list_policies },
    Command { name: "-getPolicy", options: &[PATH], missing: &["Please specify the path with -path."], about: "Get the erasure coding policy of a file or directory: none has one, they are replicated.", run: get },
    Command { name: "-listCodecs", options: &[], missing: &[], about: "Lists all erasure coding codecs and coders: there are none.", run: list_codecs },
];

/// Runs the command line after `ec` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    FAMILY.run(arguments, overrides)
}

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    FAMILY.outline()
}

fn list_policies(session: &Session, _: &[String]) -> Result<(), Failure> {
    check_cluster(session)?;
    say!("There is no erasure coding policies in the cluster.");
    Ok(())
}

fn list_codecs(session: &Session, _: &[String]) -> Result<(), Failure> {
    check_cluster(session)?;
    say!("No erasure coding codecs are supported on the cluster.");
    Ok(())
}

/// The answer is the same everywhere; but Hadoop asks the cluster, and fails if there is none.
fn check_cluster(session: &Session) -> Result<(), Failure> {
    session.client.cluster_status().map(drop).map_err(|error| refused(&error))
}

fn get(session: &Session, values: &[String]) -> Result<(), Failure> {
    let [path] = values else { return Err(Failure::Usage(String::new())) };
    let place = session.resolver.cluster_path(path)?;
    match session.client.try_status(&place).map_err(|error| refused(&error))? {
        None => Err(Failure::Text(format!("Path not found: {path}"))),
        Some(_) => {
            say!("The erasure coding policy of {path} is unspecified");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{EXIT_FAILED, EXIT_OK};

    /// Hadoop 3.4's own list.
    #[test]
    fn every_command_of_hadoops_is_here_or_told_to_be_absent() {
        let names = "-listPolicies -addPolicies -getPolicy -removePolicy -setPolicy -unsetPolicy -listCodecs -enablePolicy -disablePolicy \
                     -verifyClusterSetup";
        let names: Vec<&str> = names.split_whitespace().collect();
        for name in &names {
            let is_absent = absent::EC.iter().any(|absent| absent.name == *name);
            assert!(COMMANDS.iter().any(|command| command.name == *name) != is_absent, "{name}");
        }
        assert_eq!(names.len(), COMMANDS.len() + absent::EC.len());
    }

    #[test]
    fn what_would_change_something_is_refused() {
        for (words, code) in [
            (&["-setPolicy", "-path", "/a"][..], EXIT_FAILED),
            (&["-enablePolicy"], EXIT_FAILED),
            (&["-getPolicy"], EXIT_FAILED),
            (&["-help", "-getPolicy"], EXIT_OK),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &Overrides::default()), code, "{words:?}");
        }
    }
}
