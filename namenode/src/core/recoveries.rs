//! Recoveries of files whose writers are gone that are under way, and who of a pipeline cannot take part.

use std::collections::BTreeMap;

use protocol::namenode::DatanodeState;
use protocol::{DatanodeId, InodeId};

use super::datanodes::Datanodes;
use super::inode::Open;

/// Recoveries under way.
#[derive(Default, Debug)]
pub struct Recoveries {
    pub(super) attempts: BTreeMap<InodeId, Attempt>,
}

/// Tries at one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
    pub(super) count: usize,
}

/// Those who were in the pipeline of a file's last block that are dead or not known.
pub(super) fn away(nodes: &Datanodes, open: &Open) -> Vec<DatanodeId> {
    let is_away = |id: &DatanodeId| {
        let node = nodes.index(*id).map(|index| nodes.node(index).state);
        node.is_none_or(|state| state == DatanodeState::Dead)
    };
    open.members().filter(is_away).collect()
}
