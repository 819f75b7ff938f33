//! What open pages of the cluster show, as a number that differs when they would look different.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use daemon::page::live;
use protocol::namenode::{Call, DatanodeReport, Reply};

use super::{Pages, look};

/// How often an open page is compared with the cluster. A look costs a read of the counters and a copy of what DataNodes told.
const PERIOD: Duration = Duration::from_secs(1);
/// Free and used space is told when it moves by so much: below, nobody sees a difference.
const SPACE_STEP_BYTES: u64 = 16 << 20;

/// Tells when the overview or the DataNodes look different.
pub(super) async fn changes(State(pages): State<Pages>) -> Response {
    live::changes(PERIOD, move || {
        let pages = pages.clone();
        async move { looks(&pages).await }
    })
}

/// Times that only pass do not count.
async fn looks(pages: &Pages) -> Option<u64> {
    let Ok(Reply::Cluster(status)) = look(&pages.web, Call::ClusterStatus).await else {
        return None;
    };
    let Ok(Reply::Datanodes(nodes)) = look(&pages.web, Call::Datanodes).await else {
        return None;
    };
    let cluster = (
        &status.safe_mode,
        [status.inode_count, status.block_count, status.low_redundancy_count],
        [status.corrupt_count, status.missing_count, status.pending_replication_count],
        status.pending_deletion_count,
    );
    let node = |node: &DatanodeReport| {
        let counts = (node.block_count, node.transfer_count, node.failed_volumes.len());
        (node.state as u8, node.admin as u8, node.used / SPACE_STEP_BYTES, counts)
    };
    let nodes: Vec<_> = nodes.iter().map(node).collect();
    Some(live::number_of((cluster, nodes)))
}
