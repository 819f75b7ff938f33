//! What monitors ask for: `/metrics` for Prometheus ([`metrics`]), `/jmx`, `/isActive` and `/startupProgress` for what was built
//! around Hadoop ([`jmx`]); and `/fsck` ([`fsck`]).
//!
//! All but the last are made from one look at the state, without a signature, and name no user and no path.

mod fsck;
mod jmx;
mod metrics;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use daemon::auth::Authenticator;
use daemon::beans;
use journal::Stats;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use protocol::namenode::{Answer, Call, ClusterStatus, DatanodeReport, Reply};

use crate::http::Web;
use crate::pages;
use crate::startup::Progress;

/// Upper bounds of the classes that calls are counted in, seconds: from a read in memory to a sync on a busy disk.
const CLASSES_S: [f64; 12] =
    [0.0001, 0.0003, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.0, 10.0];

/// Calls answered since the start.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    reads: Histogram,
    changes: Histogram,
    refused: Counter,
}

impl Default for Load {
    fn default() -> Self {
        let classes = || Histogram::new(CLASSES_S);
        Load { reads: classes(), changes: classes(), refused: Counter::default() }
    }
}

impl Load {
    /// Counts a call that began at `begin`.
    pub(crate) fn note(&self, is_read: bool, begin: Instant, answer: &Answer) {
        let kind = if is_read { &self.reads } else { &self.changes };
        kind.observe(begin.elapsed().as_secs_f64());
        if answer.is_err() {
            self.refused.inc();
        }
    }
}

/// One look at everything.
#[derive(Debug)]
struct Picture {
    status: ClusterStatus,
    nodes: Vec<DatanodeReport>,
    journal: Stats,
    load: Load,
    /// `host:port` of the NameNode.
    address: String,
    up: Duration,
    startup: Progress,
}

impl Picture {
    /// Over the DataNodes whose room counts, as HDFS: those that are dead or leave service have none to give.
    fn sum(&self, of: impl Fn(&DatanodeReport) -> u64) -> u64 {
        let serving = self.nodes.iter().filter(|node| node.is_in_service());
        serving.map(of).fold(0, u64::saturating_add)
    }

    fn total(&self, of: impl Fn(&DatanodeReport) -> u64) -> u64 {
        self.nodes.iter().map(of).fold(0, u64::saturating_add)
    }

    fn count(&self, of: impl Fn(&DatanodeReport) -> bool) -> u64 {
        self.nodes.iter().filter(|node| of(node)).count() as u64
    }
}

#[derive(Clone)]
struct Monitor {
    web: Web,
    address: String,
}

/// The routes.
pub(crate) fn router(web: Web, auth: Authenticator, address: String) -> Router {
    let config = Arc::clone(&web.service().config);
    let checks = fsck::Fsck::new(auth, config, &address);
    Router::new().route("/fsck", get(fsck::fsck)).with_state(checks).merge(figures(web, address))
}

fn figures(web: Web, address: String) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/prom", get(metrics))
        .route("/jmx", get(jmx))
        .route("/isActive", get(is_active))
        .route("/startupProgress", get(startup_progress))
        .with_state(Monitor { web, address })
}

impl Monitor {
    async fn picture(&self) -> Result<Picture, Response> {
        let look = |call| pages::look(&self.web, call);
        let (status, nodes) = match (look(Call::ClusterStatus).await, look(Call::Datanodes).await) {
            (Ok(Reply::Cluster(status)), Ok(Reply::Datanodes(nodes))) => (*status, nodes),
            (Err(error), _) | (_, Err(error)) => {
                return Err((StatusCode::SERVICE_UNAVAILABLE, error.message).into_response());
            }
            _ => return Err(StatusCode::INTERNAL_SERVER_ERROR.into_response()),
        };
        let service = self.web.service();
        Ok(Picture {
            status,
            nodes,
            journal: service.journal.stats(),
            load: service.load.clone(),
            address: self.address.clone(),
            up: Duration::from_millis(service.shared.clock.now().mono_ms),
            startup: service.shared.startup.progress(),
        })
    }
}

async fn metrics(State(monitor): State<Monitor>) -> Result<Response, Response> {
    Ok(daemon::metrics::answer(&metrics::registry(&monitor.picture().await?)))
}

/// What load balancers ask of Hadoop's NameNodes; there is no standby.
async fn is_active() -> &'static str {
    "I am Active!"
}

async fn startup_progress(State(monitor): State<Monitor>) -> Result<Response, Response> {
    Ok(Json(jmx::startup_progress(&monitor.picture().await?)).into_response())
}

async fn jmx(
    State(monitor): State<Monitor>,
    Query(wanted): Query<beans::Wanted>,
) -> Result<Response, Response> {
    Ok(beans::answer(jmx::beans(&monitor.picture().await?), &wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::startup::Work;
    use protocol::namenode::{DatanodeInfo, DatanodeState};

    /// A cluster of two DataNodes, one of them dead.
    pub(super) fn picture() -> Picture {
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
                live_count: 1,
                dead_count: 1,
                txid: 77,
                ..ClusterStatus::default()
            },
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
