//! Tells open pages when the cluster looks different.

use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use protocol::namenode::{Call, Reply};

use super::{Pages, look};

/// How often an open page is compared with the cluster. A look costs a read of the counters.
const PERIOD: Duration = Duration::from_secs(1);
/// Free and used space is told when it moves by so much: below, nobody sees a difference.
const SPACE_STEP_BYTES: u64 = 16 << 20;

/// `change` whenever the overview or the DataNodes look different.
pub(super) async fn changes(State(pages): State<Pages>) -> Response {
    let changes = stream::unfold((pages, None), |(pages, mut shown)| async move {
        loop {
            let seen = Some(looks(&pages).await?);
            if shown.is_some() && seen != shown {
                let event = Event::default().event("change").data("");
                return Some((Ok::<_, Infallible>(event), (pages, seen)));
            }
            shown = seen;
            tokio::time::sleep(PERIOD).await;
        }
    });
    Sse::new(changes).keep_alive(KeepAlive::default()).into_response()
}

/// A number that differs when a page would look different; times that only pass do not count.
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
    let node = |node: &protocol::namenode::DatanodeReport| {
        let counts = (node.block_count, node.transfer_count, node.failed_volumes.len());
        (node.state as u8, node.admin as u8, node.used / SPACE_STEP_BYTES, counts)
    };
    let nodes: Vec<_> = nodes.iter().map(node).collect();
    Some(BuildHasherDefault::<DefaultHasher>::new().hash_one((cluster, nodes)))
}
