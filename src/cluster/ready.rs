//! When a cluster accepts work: the NameNode is out of safe mode with all DataNodes, the JobTracker has its workers.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::job;
use protocol::auth::Role;
use protocol::jobs::calls;
use protocol::{CallId, namenode};
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};

use super::child::Progress;
use super::layout::{Plan, Ports, url};
use crate::connect::random_client;
use crate::output::report;

/// Pause between checks: short beside the start of a process, and cheap.
const POLL_PAUSE: Duration = Duration::from_millis(4);
/// Time for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Time after which the user learns what the start waits for, and how often that is repeated.
const PATIENCE: Duration = Duration::from_secs(10);
/// A daemon that ends this often in a row before the cluster is ready will not start at all.
const ENDS_MAX: u32 = 5;

/// Returns when the cluster accepts work.
pub(super) async fn wait(plan: &Plan, ports: &Ports, progress: &Progress) -> Result<()> {
    let namenode = RpcClient::new(&url(ports.namenode), Role::Client, None)?;
    let jobtracker = RpcClient::new(&url(ports.jobtracker), Role::Client, None)?;
    let mut reported = Instant::now();
    loop {
        let missing = match namenode_missing(&namenode, plan).await {
            None => jobtracker_missing(&jobtracker, plan).await,
            missing => missing,
        };
        let Some(missing) = missing else {
            progress.set_ready();
            return Ok(());
        };
        if let Some(text) = progress.failed_at_least(ENDS_MAX) {
            bail!("giving up: {text}");
        }
        if reported.elapsed() >= PATIENCE {
            report!("hanno cluster: still waiting: {missing}");
            reported = Instant::now();
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// What the NameNode still waits for.
async fn namenode_missing(rpc: &RpcClient, plan: &Plan) -> Option<String> {
    if let Err(error) = rpc.health().await {
        return Some(describe(&error));
    }
    let request =
        namenode::Request::new(random_client(), 1, "hanno", "", namenode::Call::ClusterStatus);
    let status = match rpc.call("/rpc", &request, CallOptions::once(ANSWER_MAX)).await {
        Ok(namenode::Reply::Cluster(status)) => status,
        Ok(_) => return Some("the NameNode is of another version".to_owned()),
        Err(error) => return Some(describe(&error)),
    };
    if status.live_count < u32::from(plan.datanode_count) {
        return Some(format!("{} of {} DataNodes are up", status.live_count, plan.datanode_count));
    }
    status.safe_mode
}

/// What the JobTracker still waits for.
async fn jobtracker_missing(rpc: &RpcClient, plan: &Plan) -> Option<String> {
    if let Err(error) = rpc.health().await {
        return Some(describe(&error));
    }
    let call = CallId { client: random_client(), number: 1 };
    let options = CallOptions::once(ANSWER_MAX);
    match job::ask(rpc, (call, "hanno"), calls::TrackerStatus, options).await {
        Ok(status) => {
            let wanted = plan.worker_slots.len();
            let few = (status.worker_count as usize) < wanted;
            few.then(|| format!("{} of {wanted} workers are up", status.worker_count))
        }
        Err(error) => Some(describe(&error)),
    }
}

fn describe(error: &RpcError) -> String {
    protocol::error::chain(error)
}
