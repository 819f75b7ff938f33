//! Commands about quotas: how many names and how many bytes (times replicas) a directory may have.

use client::dfs::DfsError;
use protocol::ErrorKind;
use protocol::namenode::{QuotaChange, calls};

use super::session::{Command, MANY, Session, refused};
use crate::dfs::{Failure, Problem, size};
use crate::output::report;

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "setQuota", arguments: "<quota> <dirname>...<dirname>", about: "Set the quota <quota> for each directory <dirname>: a hard limit on the number of names in the tree.", words: (2, MANY), run: set_names },
    Command { name: "clrQuota", arguments: "<dirname>...<dirname>", about: "Clear the quota for each directory <dirname>. It is no error if a directory has none.", words: (1, MANY), run: clear_names },
    Command { name: "setSpaceQuota", arguments: "<quota> [-storageType <storagetype>] <dirname>...<dirname>", about: "Set the space quota <quota> for each directory <dirname>: a hard limit on the bytes of all replicas of all files\nin the tree. It can be given with a suffix: 50g, 2t. Quotas of one storage type are not\nsupported: -storageType is refused.", words: (2, MANY), run: set_space },
    Command { name: "clrSpaceQuota", arguments: "[-storageType <storagetype>] <dirname>...<dirname>", about: "Clear the space quota for each directory <dirname>. It is no error if a directory has none.", words: (1, MANY), run: clear_space },
];

fn set_names(session: &Session, words: &[String]) -> Result<(), Failure> {
    check_words(words)?;
    let names = size(&words[0]).ok_or_else(|| not_a_quota(&words[0]))?;
    if names == 0 {
        let text = format!("Invalid values for quota : 0 and {}", i64::MAX);
        return Err(Failure::Usage(text));
    }
    change(session, &words[1..], (QuotaChange::Set(names), QuotaChange::Keep), "setQuota")
}

fn clear_names(session: &Session, words: &[String]) -> Result<(), Failure> {
    check_words(words)?;
    change(session, words, (QuotaChange::Clear, QuotaChange::Keep), "clrQuota")
}

fn set_space(session: &Session, words: &[String]) -> Result<(), Failure> {
    check_words(words)?;
    let space = size(&words[0]).ok_or_else(|| not_a_quota(&words[0]))?;
    change(session, &words[1..], (QuotaChange::Keep, QuotaChange::Set(space)), "setSpaceQuota")
}

fn clear_space(session: &Session, words: &[String]) -> Result<(), Failure> {
    check_words(words)?;
    change(session, words, (QuotaChange::Keep, QuotaChange::Clear), "clrSpaceQuota")
}

fn not_a_quota(text: &str) -> Failure {
    Failure::Usage(format!("\"{text}\" is not a valid value for a quota."))
}

/// Refuses options, of which there are none: a quota of one type of storage would be stored as one for all types.
fn check_words(words: &[String]) -> Result<(), Failure> {
    match words.iter().find(|word| word.starts_with('-')) {
        Some(option) if option == "-storageType" => Err(Failure::Text(
            "-storageType is not supported: a space quota is of all types of storage together"
                .to_owned(),
        )),
        Some(option) => Err(Failure::Usage(format!("Illegal option {option}"))),
        None => Ok(()),
    }
}

fn change(
    session: &Session,
    directories: &[String],
    (names, space): (QuotaChange, QuotaChange),
    command: &str,
) -> Result<(), Failure> {
    let mut last: Result<(), Failure> = Ok(());
    for typed in directories {
        let changed = session.directories(typed).and_then(|found| {
            let mut last = Ok(());
            for (typed, path) in found {
                let call = calls::SetQuota { path, names, space };
                keep_last(
                    &mut last,
                    session.client.ask(call).map_err(|e| failure(&typed, &e)),
                    command,
                );
            }
            last
        });
        keep_last(&mut last, changed, command);
    }
    last
}

/// Tries every directory; the caller reports the last failure, this function the earlier ones.
fn keep_last(last: &mut Result<(), Failure>, outcome: Result<(), Failure>, command: &str) {
    if let Err(failure) = outcome
        && let Err(earlier) = std::mem::replace(last, Err(failure))
    {
        report!("{command}: {earlier}");
    }
}

fn failure(directory: &str, error: &DfsError) -> Failure {
    match error.kind() {
        Some(ErrorKind::NotFound) => {
            Failure::Text(format!("Directory does not exist: {directory}"))
        }
        Some(ErrorKind::NotDirectory | ErrorKind::ParentNotDirectory) => {
            Failure::at(directory, Problem::NotDirectory)
        }
        _ => refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_is_taken_for_a_directory() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for line in [
            "-storageType DISK /d",
            "5g /d -storageType SSD",
            "5g -x /d",
            "5g -storagetype DISK /d",
        ] {
            assert!(check_words(&words(line)).is_err(), "{line}");
        }
        assert!(check_words(&words("5g /d /e")).is_ok());
    }
}
