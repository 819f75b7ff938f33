//! The pages that monitors built around Hadoop request from a DataNode, `/jmx` and `/blockScannerReport`, and those of every daemon, see [`daemon::inspect`].

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use daemon::access::Access;
use daemon::auth::Authenticator;
use daemon::params::Params;
use daemon::{beans, inspect};
use protocol::auth::{self, Key};
use protocol::namenode::DatanodeInfo;
use serde_json::{Value, json};

use crate::config::Config;
use crate::transfer::Service;

#[derive(Clone)]
struct Monitor {
    service: Arc<Service>,
    info: DatanodeInfo,
    namenode: String,
    scan_rate_bytes: u64,
    since: Instant,
}

/// The routes.
pub(crate) fn router(
    config: &Config,
    secret: &Key,
    service: &Arc<Service>,
    info: &DatanodeInfo,
) -> Router {
    let auth = Authenticator::new(secret, auth::Service::Datanode);
    let access = Access::new(auth, None, config.webhdfs.auth);
    let settings = inspect::settings("datanode", config);
    let monitor = Monitor {
        service: Arc::clone(service),
        info: info.clone(),
        namenode: config.namenode.clone(),
        scan_rate_bytes: config.scan_rate_bytes,
        since: Instant::now(),
    };
    Router::new()
        .route("/jmx", get(jmx))
        .route("/blockScannerReport", get(scanner_report))
        .with_state(monitor)
        .merge(inspect::routes(&access, settings))
}

async fn jmx(State(monitor): State<Monitor>, Params(wanted): Params<beans::Wanted>) -> Response {
    let own = [("DataNodeInfo", info(&monitor)), ("FSDatasetState", dataset(&monitor.service))];
    let own = own.map(|(name, bean)| (format!("Hadoop:service=DataNode,name={name}"), bean));
    let figures = crate::metrics::registry(&monitor.service);
    let common = beans::common("DataNode", &figures, monitor.since.elapsed());
    beans::answer(own.into_iter().chain(common), &wanted)
}

fn info(monitor: &Monitor) -> Value {
    let port = |address: &str| address.rsplit_once(':').map_or("", |(_, port)| port).to_owned();
    json!({
        "Version": env!("CARGO_PKG_VERSION"),
        "SoftwareVersion": env!("CARGO_PKG_VERSION"),
        "DatanodeHostname": monitor.info.host,
        "HttpPort": port(&monitor.info.http_address),
        "DataPort": port(&monitor.info.transfer_address),
        "NamenodeAddresses": json!({ &monitor.namenode: monitor.info.id.to_string() }).to_string(),
        "XceiverCount": monitor.service.transfer_count(),
    })
}

fn dataset(service: &Service) -> Value {
    let usage = service.store.usage_lately();
    json!({
        "Capacity": usage.capacity,
        "DfsUsed": usage.used,
        "Remaining": usage.remaining,
        "NonDfsUsed": usage.non_dfs_used,
        "NumBlocks": service.store.replica_count(),
        "NumFailedVolumes": service.store.failed_volumes().len(),
    })
}

/// The scanner's work, in the format of Hadoop's report.
async fn scanner_report(State(monitor): State<Monitor>) -> Response {
    let scans = monitor.service.store.scans();
    let text: String = [
        ("Bytes verified since restart", scans.bytes()),
        ("Blocks scanned since restart", scans.blocks()),
        ("Block scan errors since restart", scans.errors()),
        ("Current scan rate limit KBps", monitor.scan_rate_bytes >> 10),
    ]
    .map(|(name, value)| format!("{name:<34}: {value:>57}\n"))
    .concat();
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
