//! One reading of the whole state, from which all figures of an answer are made.

use std::time::Duration;

use journal::Stats;
use protocol::namenode::{ClusterStatus, DatanodeReport, Room};

use crate::service::Load;
use crate::startup::Progress;

/// One reading of the whole state.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) status: ClusterStatus,
    pub(super) room: Room,
    pub(super) nodes: Vec<DatanodeReport>,
    pub(super) journal: Stats,
    pub(super) load: Load,
    /// `host:port` of the NameNode.
    pub(super) address: String,
    pub(super) up: Duration,
    pub(super) startup: Progress,
}

impl Picture {
    /// Sum over the DataNodes whose room counts, as HDFS: those that are dead or leave service have none to give.
    pub(super) fn sum(&self, of: impl Fn(&DatanodeReport) -> u64) -> u64 {
        let serving = self.nodes.iter().filter(|node| node.is_in_service());
        serving.map(of).fold(0, u64::saturating_add)
    }

    pub(super) fn total(&self, of: impl Fn(&DatanodeReport) -> u64) -> u64 {
        self.nodes.iter().map(of).fold(0, u64::saturating_add)
    }

    pub(super) fn count(&self, of: impl Fn(&DatanodeReport) -> bool) -> u64 {
        self.nodes.iter().filter(|node| of(node)).count() as u64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::startup::Work;
    use protocol::namenode::{DatanodeInfo, DatanodeState};

    /// A cluster of two DataNodes, one of them dead.
    pub(crate) fn picture() -> Picture {
        let node = |name: &str, state| DatanodeReport {
            info: DatanodeInfo {
                host: name.to_owned(),
                transfer_address: format!("{name}:9866"),
                http_address: format!("{name}:9864"),
                rack: "/r1".to_owned(),
                ..DatanodeInfo::default()
            },
            state,
            capacity: 1000,
            used: 300,
            remaining: 600,
            non_dfs_used: 100,
            block_count: 5,
            last_contact_ms: 1500,
            ..DatanodeReport::default()
        };
        let load = Load::default();
        load.reads.observe(0.0002);
        load.refused.inc();
        Picture {
            status: ClusterStatus {
                inode_count: 12,
                block_count: 5,
                low_redundancy_count: 2,
                urgent_count: 1,
                live_count: 1,
                dead_count: 1,
                txid: 77,
                ..ClusterStatus::default()
            },
            room: Room { capacity: 1000, used: 300, non_dfs_used: 100, remaining: 600 },
            nodes: vec![node("a", DatanodeState::Live), node("b", DatanodeState::Dead)],
            journal: Stats::default(),
            load,
            address: "nn:9870".to_owned(),
            up: Duration::from_secs(90),
            startup: Progress {
                load: Work { count: 12, time: Duration::from_millis(300) },
                replay: Work { count: 3, time: Duration::from_millis(20) },
                wait: Duration::from_secs(4),
                is_over: true,
            },
        }
    }
}
