//! Requests that calls of a lane share ([`protocol::wire::bundle`]). A call of a busy process costs a part of a request, and one of an idle process waits for
//! nobody.
//!
//! Invariants: a call whose bundle came to nothing is sent alone, so its outcome is its own; whatever becomes of a call, it ends within its time for one try; a
//! place among the requests under way is handed on or given back, also by a runtime that ends.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::auth::Incarnation;
use protocol::wire::bundle;
use tokio::sync::oneshot;

use super::lane::{Call, Entered, Lane, Turn, Waiting};
use super::{RpcClient, UnderWay};
use crate::error::RpcError;

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
    pub(super) async fn send_together(&self, calls: Vec<Waiting<UnderWay>>) {
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
        self.inner.contact.known().map(|hello| hello.incarnation)
    }

    /// Messages that may share a request: one alone where the process that answers now has refused to know bundles.
    pub(super) fn messages_max(&self) -> usize {
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
