//! Requests that calls of a lane share ([`protocol::wire::bundle`]). A call of a busy process costs a part of a request, and one of an idle process waits for
//! nobody.
//!
//! Invariants: a call whose bundle came to nothing is sent alone, so its outcome is its own; whatever becomes of a call, it ends within its time for one try; a
//! place among the requests under way is handed on or given back, also by a runtime that ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::auth::Incarnation;
use protocol::wire::bundle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::lane::{Call, Entered, Lane, Turn, Waiting};
use super::{RpcClient, runtime};
use crate::error::RpcError;

/// A request of a lane that is under way. When it ends, however it ends, those who wait go on.
#[derive(Debug)]
pub(super) struct UnderWay {
    client: RpcClient,
    lane: Lane,
    /// False while it is in a task that has not run yet. A runtime that ends drops those, and every later one.
    has_begun: bool,
}

impl UnderWay {
    /// The place that a call was given by its lane. From now on it is handed on, whatever happens.
    fn new(client: &RpcClient, lane: Lane) -> Self {
        UnderWay { client: client.clone(), lane, has_begun: true }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let messages_max = self.client.messages_max();
        let mut next = self.client.inner.lanes.next(self.lane, messages_max);
        let Some(first) = next.pop() else { return };
        let mut place = UnderWay::new(&self.client, self.lane);
        if next.is_empty() {
            // If its caller is gone, the place comes back, and is handed on as it is dropped.
            drop(first.turn.send(Turn::Goes(place)));
            return;
        }
        next.push(first);
        place.has_begun = false;
        // The place is in the task from the beginning: one that is dropped before it runs hands it on, too.
        let sending = async move {
            place.has_begun = true;
            place.client.send_together(next).await;
        };
        // A caller's own runtime is nearer, but this may be the end of one.
        match Handle::try_current() {
            Ok(current) if self.has_begun => drop(current.spawn(sending)),
            _ => drop(runtime().spawn(sending)),
        }
    }
}

/// How the wait of a call ends.
enum Waited {
    Turn(Turn<UnderWay>),
    /// Its lane does not move.
    HeldUp,
    /// The request that it was in came to nothing.
    Failed,
    /// Its time is over.
    Over,
}

impl RpcClient {
    /// Sends a message in a lane and returns the daemon's answer, encoded.
    pub(super) async fn exchange_in(
        &self,
        lane: Lane,
        message: &Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RpcError> {
        let deadline = Instant::now() + timeout;
        let mut call = Call { message, deadline, goes_alone: false };
        let _place = loop {
            let (number, turn) = match self.inner.lanes.enter(lane, call) {
                Entered::Beside => break None,
                Entered::Goes => break Some(UnderWay::new(self, lane)),
                Entered::Waits(number, turn) => (number, turn),
            };
            match self.wait_in(lane, number, (turn, deadline)).await {
                Waited::Turn(Turn::Answered(answer)) => return Ok(answer),
                Waited::Turn(Turn::Goes(place)) => break Some(place),
                Waited::HeldUp => break None,
                Waited::Failed => call.goes_alone = true,
                Waited::Over => return Err(self.silent(timeout)),
            }
        };
        match left(deadline) {
            Duration::ZERO => Err(self.silent(timeout)),
            left => self.exchange(bundle::ALONE, message, left).await,
        }
    }

    async fn wait_in(
        &self,
        lane: Lane,
        number: u64,
        (mut turn, deadline): (oneshot::Receiver<Turn<UnderWay>>, Instant),
    ) -> Waited {
        let lanes = &self.inner.lanes;
        let for_place = left(deadline).min(lanes.wait_max);
        let waited = match tokio::time::timeout(for_place, &mut turn).await {
            Err(_) if lanes.leave(lane, number) => return Waited::HeldUp,
            Err(_) => tokio::time::timeout(left(deadline), turn).await,
            waited => waited,
        };
        match waited {
            Ok(Ok(turn)) => Waited::Turn(turn),
            Ok(Err(_)) => Waited::Failed,
            Err(_) => Waited::Over,
        }
    }

    /// Sends calls in one request and hands out the answers. Whoever gets none goes alone.
    async fn send_together(&self, calls: Vec<Waiting<UnderWay>>) {
        let deadline = calls.iter().map(|call| call.deadline).max();
        let mut body = Vec::new();
        calls.iter().for_each(|call| bundle::append(&mut body, &call.message));
        let to = self.incarnation();
        let timeout = deadline.map_or(Duration::ZERO, left);
        let bytes = match self.exchange(bundle::TARGET, &Bytes::from(body), timeout).await {
            Ok(bytes) => bytes,
            Err(error) => {
                self.note_failed_bundle(to, &error);
                let (daemon, error) = (self.base(), protocol::error::chain(&error));
                tracing::debug!(daemon, error, "calls that shared a request go on alone");
                return;
            }
        };
        match bundle::messages(&bytes) {
            Ok(answers) if answers.len() == calls.len() => {
                for (call, answer) in calls.into_iter().zip(answers) {
                    // A caller that is gone has given up.
                    let _ = call.turn.send(Turn::Answered(bytes.slice_ref(answer)));
                }
            }
            _ => tracing::warn!(daemon = self.base(), "not one answer for each call of a request"),
        }
    }

    /// The process that answers there, as far as this one knows.
    fn incarnation(&self) -> Option<Incarnation> {
        self.inner.known.read().map(|hello| hello.incarnation)
    }

    /// Messages that may share a request: one alone where the process that answers now has refused to know bundles.
    fn messages_max(&self) -> usize {
        let without = *self.inner.without_bundles.lock();
        let is_without = without.is_some() && without == self.incarnation();
        if is_without { 1 } else { bundle::MESSAGES_MAX }
    }

    /// A daemon that has no such route says so to each bundle, until another one takes its place.
    fn note_failed_bundle(&self, to: Option<Incarnation>, error: &RpcError) {
        let has_no_route = matches!(error, RpcError::Status { status: 404 | 405, .. });
        // Where another one came meanwhile, nobody knows which of them it was.
        if has_no_route && to == self.incarnation() {
            *self.inner.without_bundles.lock() = to;
        }
    }

    fn silent(&self, limit: Duration) -> RpcError {
        RpcError::Silent { address: self.base().to_owned(), limit }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
