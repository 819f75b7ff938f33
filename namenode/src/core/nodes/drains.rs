//! Which DataNodes must leave service or come back, how far each of them is, and what it waits for.

use std::collections::BTreeMap;

use protocol::BlockId;
use protocol::namenode::{DatanodeInfo, DrainReport};

use super::datanodes::NodeIndex;
use super::hosts::HostLists;
use crate::core::now::Now;

/// What the lists want of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::core) enum Intent {
    InService,
    Drained,
    /// It comes back with the replicas that it has.
    InMaintenance,
}

/// Sweeps under way, and what drains wait for.
#[derive(Default, Debug)]
pub struct Drains {
    pub(in crate::core) lists: HostLists,
    /// When they were read.
    pub(in crate::core) read_at: Now,
    pub(in crate::core) sweeps: BTreeMap<NodeIndex, Sweep>,
    pub(in crate::core) reports: BTreeMap<NodeIndex, DrainReport>,
    pub(in crate::core) rack_count: usize,
    /// The node whose sweep took the last step.
    pub(in crate::core) last: Option<NodeIndex>,
}

/// Progress of the sweep of one node, and what it found.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::core) struct Sweep {
    pub(in crate::core) cursor: Option<BlockId>,
    pub(in crate::core) found: DrainReport,
}

impl Drains {
    /// What the drain of a node waits for, as of the last whole sweep.
    pub fn report(&self, node: NodeIndex) -> DrainReport {
        self.reports.get(&node).copied().unwrap_or_default()
    }

    /// What the lists want of a node at a monotonic time. The end of a maintenance is the operator's wall-clock time, but steps of
    /// the clock after the lists were read do not move it.
    pub(in crate::core) fn intent(&self, info: &DatanodeInfo, now_ms: u64) -> Intent {
        match self.maintenance_end_ms(info) {
            Some(end_ms) if end_ms > now_ms => Intent::InMaintenance,
            _ if self.lists.drains(info) => Intent::Drained,
            _ => Intent::InService,
        }
    }

    /// Monotonic time of the end of a node's maintenance, milliseconds; `u64::MAX` for none.
    fn maintenance_end_ms(&self, info: &DatanodeInfo) -> Option<u64> {
        let until_ms = self.lists.maintenance_until_ms(info)?;
        let left_ms = until_ms.saturating_sub(self.read_at.wall_ms);
        Some(if until_ms == u64::MAX {
            until_ms
        } else {
            self.read_at.mono_ms.saturating_add(left_ms)
        })
    }

    /// What is left of a node's maintenance; `None` if it has no end.
    pub fn maintenance_left_ms(&self, info: &DatanodeInfo, now_ms: u64) -> Option<u64> {
        let end_ms = self.maintenance_end_ms(info).filter(|end_ms| *end_ms != u64::MAX)?;
        Some(end_ms.saturating_sub(now_ms))
    }

    /// True if the lists keep a node in maintenance.
    pub(in crate::core) fn keeps(&self, info: &DatanodeInfo, now_ms: u64) -> bool {
        self.intent(info, now_ms) == Intent::InMaintenance
    }

    /// The lists.
    pub fn lists(&self) -> &HostLists {
        &self.lists
    }
}
