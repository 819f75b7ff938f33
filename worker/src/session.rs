//! The conversation with the JobTracker: registers, then keeps one poll open at all times; starts again when fenced.

use std::time::Duration;

use client::RpcError;
use client::error::chain;
use client::rpc::{CallOptions, RpcClient};
use protocol::tracker::{Reply, Request};
use protocol::{Epoch, ErrorKind, WorkerId};
use tokio::sync::{mpsc, oneshot};

use crate::event::Event;

/// Where workers talk to the JobTracker.
pub(crate) const TARGET: &str = "/rpc/worker";
/// Pause after a failed call: the worker finds a restarted JobTracker within half a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Time beyond the JobTracker's own limit after which a poll counts as lost.
const POLL_SLACK: Duration = Duration::from_secs(10);
/// Time for a registration.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the conversation until the worker ends.
pub(crate) async fn run(jobtracker: RpcClient, worker: WorkerId, events: mpsc::Sender<Event>) {
    let mut highest = Epoch(0);
    loop {
        let (reply, snapshot) = oneshot::channel();
        if events.send(Event::Snapshot(reply)).await.is_err() {
            return;
        }
        let Ok(register) = snapshot.await else { return };
        let options = CallOptions::once(REGISTER_TIMEOUT);
        let answer = jobtracker.call(TARGET, &Request::Register(register), options).await;
        match answer {
            Ok(Reply::Registered { epoch, .. }) if epoch < highest => {
                tracing::warn!(%epoch, %highest, "an older jobtracker answers, not obeying it");
            }
            Ok(Reply::Registered { epoch, poll_ms, level }) => {
                highest = epoch;
                tracing::info!(%epoch, %level, jobtracker = jobtracker.base(), "registered");
                if events.send(Event::Registered(epoch)).await.is_err() {
                    return;
                }
                poll(&jobtracker, worker, epoch, Duration::from_millis(poll_ms), &events).await;
                if events.is_closed() {
                    return;
                }
                continue;
            }
            Ok(_) => tracing::warn!("the jobtracker gave another answer to a registration"),
            Err(error) => tracing::debug!(error = %chain(&error), "cannot register, trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Polls until fenced (or the worker ends).
async fn poll(
    jobtracker: &RpcClient,
    worker: WorkerId,
    epoch: Epoch,
    poll_max: Duration,
    events: &mpsc::Sender<Event>,
) {
    let mut received = 0;
    let options = CallOptions::once(poll_max + POLL_SLACK);
    loop {
        let request = Request::Poll { worker, epoch, received };
        match jobtracker.call(TARGET, &request, options).await {
            Ok(Reply::Actions { number, actions }) => {
                let fresh = number > received;
                received = received.max(number);
                if fresh && events.send(Event::Actions(actions)).await.is_err() {
                    return;
                }
            }
            Ok(_) => {
                tracing::warn!("the jobtracker gave another answer to a poll");
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) if is_fenced(&error) => {
                tracing::info!("fenced by the jobtracker, registering again");
                return;
            }
            Err(error) => {
                tracing::debug!(error = %chain(&error), "cannot poll, trying again");
                tokio::time::sleep(PAUSE).await;
            }
        }
        if events.is_closed() {
            return;
        }
    }
}

/// True if the JobTracker asks to register again.
pub(crate) fn is_fenced(error: &RpcError) -> bool {
    error.kind() == Some(ErrorKind::Fenced)
}
