//! Commands about block reports.

use protocol::namenode::calls;

use super::nodes;
use super::session::{Command, Session};
use crate::dfs::Failure;
use crate::output::say;

/// See the module.
#[rustfmt::skip]
pub(super) const COMMANDS: &[Command] = &[
    Command { name: "triggerBlockReport", arguments: "[-incremental] <datanode_host:port>", about: "Trigger a block report for the DataNode. With -incremental, what changed since the last is sent, which DataNodes\ndo at once here anyway.", words: (1, 2), run: trigger },
];

fn trigger(session: &Session, words: &[String]) -> Result<(), Failure> {
    let (incremental, name) = match words {
        [flag, name] if flag == "-incremental" => (true, name),
        [name] if !name.starts_with('-') => (false, name),
        _ => return Err(Failure::Usage(String::new())),
    };
    let node = nodes::find(session, name)?;
    say!(
        "Triggering {} block report on {name}.",
        if incremental { "an incremental" } else { "a full" }
    );
    session.ask(calls::TriggerBlockReport { datanode: node.info.id })
}
