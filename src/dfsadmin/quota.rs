//! Commands about quotas: how many names and how many bytes (times replicas) a directory may have.

use protocol::ErrorKind;
use protocol::namenode::{Call, QuotaChange};

use super::{Command, MANY, Session, refused};
use crate::connect;
use crate::dfs::{Failure, size};

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "setQuota", arguments: "<quota> <dirname>...<dirname>", about: "Set the quota <quota> for each directory <dirname>: a hard limit on the number of names in the tree.", words: (2, MANY), run: set_names },
    Command { name: "clrQuota", arguments: "<dirname>...<dirname>", about: "Clear the quota for each directory <dirname>. It is no error if a directory has none.", words: (1, MANY), run: clear_names },
    Command { name: "setSpaceQuota", arguments: "<quota> [-storageType <storagetype>] <dirname>...<dirname>", about: "Set the space quota <quota> for each directory <dirname>: a hard limit on the bytes of all replicas of all files\nin the tree. It can be given with a suffix: 50g, 2t.", words: (2, MANY), run: set_space },
    Command { name: "clrSpaceQuota", arguments: "[-storageType <storagetype>] <dirname>...<dirname>", about: "Clear the space quota for each directory <dirname>. It is no error if a directory has none.", words: (1, MANY), run: clear_space },
];

fn set_names(session: &Session, words: &[String]) -> Result<(), Failure> {
    let names = words[0].parse().map_err(|_| not_a_quota(&words[0]))?;
    if names == 0 {
        let text = format!("Invalid values for quota : 0 and {}", i64::MAX);
        return Err(Failure::Usage(text));
    }
    change(session, &words[1..], (QuotaChange::Set(names), QuotaChange::Keep), "setQuota")
}

fn clear_names(session: &Session, words: &[String]) -> Result<(), Failure> {
    change(session, words, (QuotaChange::Clear, QuotaChange::Keep), "clrQuota")
}

fn set_space(session: &Session, words: &[String]) -> Result<(), Failure> {
    let space = size(&words[0]).ok_or_else(|| not_a_quota(&words[0]))?;
    let directories = without_type(&words[1..])?;
    change(session, directories, (QuotaChange::Keep, QuotaChange::Set(space)), "setSpaceQuota")
}

fn clear_space(session: &Session, words: &[String]) -> Result<(), Failure> {
    let directories = without_type(words)?;
    change(session, directories, (QuotaChange::Keep, QuotaChange::Clear), "clrSpaceQuota")
}

fn not_a_quota(text: &str) -> Failure {
    Failure::Usage(format!("\"{text}\" is not a valid value for a quota."))
}

/// Every replica is on the one type of storage there is, so only that type can be named.
fn without_type(words: &[String]) -> Result<&[String], Failure> {
    match words {
        [flag, kind, rest @ ..] if flag == "-storageType" => match kind.as_str() {
            "DISK" | "disk" if !rest.is_empty() => Ok(rest),
            _ => Err(Failure::Text(format!("Storage type {kind} is not available."))),
        },
        _ => Ok(words),
    }
}

fn change(
    session: &Session,
    directories: &[String],
    (names, space): (QuotaChange, QuotaChange),
    command: &str,
) -> Result<(), Failure> {
    let mut last: Result<(), Failure> = Ok(());
    for directory in directories {
        let changed = session.resolver.cluster_path(directory).and_then(|path| {
            let call = Call::SetQuota { path, names, space };
            match session.client.call(call) {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                    Err(Failure::Text(format!("Directory does not exist: {directory}")))
                }
                Err(error) if error.kind() == Some(ErrorKind::NotDirectory) => {
                    Err(Failure::at(directory, "Is not a directory"))
                }
                Err(error) => {
                    let text = connect::describe(&error);
                    let first = text.lines().next().unwrap_or_default();
                    match first.is_empty() {
                        true => Err(refused(&error)),
                        false => Err(Failure::Text(first.to_owned())),
                    }
                }
            }
        });
        // Every directory is tried; the last failure is told by the caller, earlier ones here.
        if let Err(failure) = changed
            && let Err(earlier) = std::mem::replace(&mut last, Err(failure))
        {
            eprintln!("{command}: {earlier}");
        }
    }
    last
}
