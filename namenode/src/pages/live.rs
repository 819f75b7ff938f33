//! A number that changes when what open pages of the cluster display does. One check serves all of them.

use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use daemon::page::live::{self, Board};
use protocol::namenode::{DatanodeReport, calls};
use tokio::time::MissedTickBehavior;

use super::context::Pages;
use crate::service::Local;

/// How often open pages are compared with the cluster. A check costs a read of the counters and a copy of what DataNodes reported.
const PERIOD: Duration = Duration::from_secs(1);
/// Free and used space counts in steps of this size: nobody sees a smaller difference.
const SPACE_STEP_BYTES: u64 = 16 << 20;

/// Notifies the page when the list of DataNodes, or one of them, changes.
pub(super) async fn changes(State(pages): State<Pages>) -> Response {
    pages.board.changes()
}

/// Notifies the overview of the same, and of each new point of its charts.
pub(super) async fn overview_changes(State(pages): State<Pages>) -> Response {
    pages.board.changes_beside(pages.hour.board())
}

/// Checks for all open pages together, until the NameNode ends.
pub(super) async fn watch(web: Local, board: Board) {
    let shutdown = web.service().shutdown.clone();
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.wait() => return,
        }
        if board.is_watched()
            && let Some(fingerprint) = fingerprint(&web).await
        {
            board.publish(fingerprint);
        }
    }
}

/// Times that only pass do not count.
async fn fingerprint(web: &Local) -> Option<u64> {
    let status = web.query(calls::ClusterStatus).await.ok()?;
    let nodes = web.query(calls::Datanodes).await.ok()?;
    let failure_count = web.service().shared.nodes.lock().nodes.failure_count();
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
    Some(live::fingerprint_of((cluster, nodes, failure_count)))
}
