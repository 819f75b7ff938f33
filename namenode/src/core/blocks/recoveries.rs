//! Recoveries under way of files whose writers are gone, and the members of a pipeline that cannot take part.

use std::collections::BTreeMap;

use protocol::namenode::DatanodeState;
use protocol::{DatanodeId, InodeId};

use crate::core::inodes::Open;
use crate::core::nodes::Datanodes;

/// Recoveries under way.
#[derive(Default, Debug)]
pub struct Recoveries {
    pub(in crate::core) attempts: BTreeMap<InodeId, Attempt>,
}

/// Attempts at one recovery.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Attempt {
    pub(in crate::core) first_ms: u64,
    pub(in crate::core) last_ms: u64,
    pub(in crate::core) count: usize,
}

/// Members of the pipeline of a file's last block that are dead or unknown.
pub(in crate::core) fn away(nodes: &Datanodes, open: &Open) -> Vec<DatanodeId> {
    let is_away = |id: &DatanodeId| {
        let node = nodes.index(*id).map(|index| nodes.node(index).state);
        node.is_none_or(|state| state == DatanodeState::Dead)
    };
    open.members().filter(is_away).collect()
}
