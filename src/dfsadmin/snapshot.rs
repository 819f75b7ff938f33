//! Commands about snapshots: which directories may have them.

use super::session::{Command, Session, refused};
use crate::dfs::Failure;
use crate::output::say;

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "allowSnapshot", arguments: "<snapshotDir>", about: "Allow snapshots to be taken on a directory.", words: (1, 1), run: allow },
    Command { name: "disallowSnapshot", arguments: "<snapshotDir>", about: "Do not allow snapshots to be taken on a directory any more.", words: (1, 1), run: disallow },
];

fn allow(session: &Session, words: &[String]) -> Result<(), Failure> {
    let path = session.resolver.cluster_path(&words[0])?;
    session.client.allow_snapshot(&path).map_err(|error| refused(&error))?;
    say!("Allowing snapshot on {} succeeded", words[0]);
    Ok(())
}

fn disallow(session: &Session, words: &[String]) -> Result<(), Failure> {
    let path = session.resolver.cluster_path(&words[0])?;
    session.client.disallow_snapshot(&path).map_err(|error| refused(&error))?;
    say!("Disallowing snapshot on {} succeeded", words[0]);
    Ok(())
}
