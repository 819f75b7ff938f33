//! `hdfs storagepolicies`. Setting a policy prints on standard error which part of it has no effect.

use std::ffi::OsString;

use protocol::storage::StoragePolicy;

use super::{Command, Family, PATH};
use crate::connect::Overrides;
use crate::dfs::Failure;
use crate::dfsadmin::{Session, refused};
use crate::output::{report, say};
use crate::reference::Outline;

static FAMILY: Family = Family { name: "storagepolicies", commands: COMMANDS, absent: &[] };

/// Runs the command line after `storagepolicies` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    FAMILY.run(arguments, overrides)
}

/// The commands for completions and the manual page.
pub(crate) fn outline() -> Outline {
    FAMILY.outline()
}

#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    Command { name: "-listPolicies", options: &[], missing: &[], about: "List all the existing block storage policies.", run: list },
    Command { name: "-setStoragePolicy", options: &[PATH, ("-policy", "<policy>")], missing: &["Please specify the path for setting the storage policy.", "Please specify the policy name."], about: "Set the storage policy of a file or directory. All storage here is DISK: a policy that needs other storage is refused,\none that prefers it is kept.", run: set },
    Command { name: "-getStoragePolicy", options: &[PATH], missing: &["Please specify the path with -path."], about: "Get the storage policy of a file or directory.", run: get },
    Command { name: "-unsetStoragePolicy", options: &[PATH], missing: &["Please specify the path from which to unset the storage policy."], about: "Unset the storage policy of a file or directory; that of the directory above counts again.", run: unset },
    Command { name: "-satisfyStoragePolicy", options: &[PATH], missing: &["Please specify the path to satisfy storage policy."], about: "Refused: all storage here is DISK, so there is nowhere to move replicas to.", run: satisfy },
];

fn list(session: &Session, _: &[String]) -> Result<(), Failure> {
    // They are the same everywhere; but Hadoop asks the cluster, and fails if there is none.
    session.client.cluster_status().map_err(|error| refused(&error))?;
    say!("Block Storage Policies:");
    StoragePolicy::ALL.iter().for_each(|policy| say!("\t{policy}"));
    Ok(())
}

fn set(session: &Session, values: &[String]) -> Result<(), Failure> {
    let [path, name] = values else { return Err(Failure::Usage(String::new())) };
    let policy = StoragePolicy::of_name(name)
        .ok_or_else(|| Failure::Text(format!("Cannot find a block policy with the name {name}")))?;
    change(session, path, Some(policy))?;
    say!("Set storage policy {name} on {path}");
    if let Some(text) = policy.unhonoured() {
        report!("storagepolicies: warning: {text}");
    }
    Ok(())
}

fn unset(session: &Session, values: &[String]) -> Result<(), Failure> {
    let [path] = values else { return Err(Failure::Usage(String::new())) };
    change(session, path, None)?;
    say!("Unset storage policy from {path}");
    Ok(())
}

fn change(session: &Session, path: &str, policy: Option<StoragePolicy>) -> Result<(), Failure> {
    let place = session.resolver.cluster_path(path)?;
    session.client.set_storage_policy(&place, policy).map_err(|error| refused(&error))
}

fn get(session: &Session, values: &[String]) -> Result<(), Failure> {
    let [path] = values else { return Err(Failure::Usage(String::new())) };
    let place = session.resolver.cluster_path(path)?;
    let status = session.client.try_status(&place).map_err(|error| refused(&error))?;
    match status {
        None => Err(Failure::Text(format!("File/Directory does not exist: {path}"))),
        Some(status) => {
            match status.storage_policy {
                Some(policy) => say!("The storage policy of {path}:\n{policy}"),
                None => say!("The storage policy of {path} is unspecified"),
            }
            Ok(())
        }
    }
}

fn satisfy(_: &Session, _: &[String]) -> Result<(), Failure> {
    let text = "-satisfyStoragePolicy is not supported: all storage here is DISK, so there is nowhere to move replicas to";
    Err(Failure::Text(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::{EXIT_FAILED, EXIT_OK};

    #[test]
    fn options_come_in_any_order_and_what_is_missing_or_unknown_is_named() {
        let values = |name: &str, words: &[&str]| {
            let command = COMMANDS.iter().find(|command| command.name == name).unwrap();
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            command.values_of(&words)
        };
        let both = vec!["/a".to_owned(), "HOT".to_owned()];
        let set = "-setStoragePolicy";
        assert_eq!(values(set, &["-policy", "HOT", "-path", "/a"]), Ok(both));
        for (name, words, text) in [
            (set, &["-path", "/a"][..], "Please specify the policy name."),
            (set, &["-policy", "HOT"], "Please specify the path for setting the storage policy."),
            (set, &["-path", "/a", "-policy"], "option -policy requires 1 argument."),
            ("-getStoragePolicy", &["/a"], "Can't understand argument: /a"),
            ("-getStoragePolicy", &[], "Please specify the path with -path."),
            ("-listPolicies", &["-path"], "Can't understand argument: -path"),
        ] {
            assert_eq!(values(name, words).unwrap_err(), text, "{name} {words:?}");
        }
        for command in COMMANDS {
            assert_eq!(command.options.len(), command.missing.len(), "{}", command.name);
        }
    }

    #[test]
    fn wrong_usage_is_1() {
        for (words, code) in [
            (&[][..], EXIT_FAILED),
            (&["listPolicies"], EXIT_FAILED),
            (&["-x"], EXIT_FAILED),
            (&["-setStoragePolicy"], EXIT_FAILED),
            (&["-help"], EXIT_OK),
            (&["-help", "x"], EXIT_FAILED),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(run(&words, &Overrides::default()), code, "{words:?}");
        }
    }
}
