//! Calls of one process that travel together: while earlier ones are on their way, further ones wait, and then share a request ([`protocol::bundle`]). So a
//! call of a busy process costs a part of a request, and one of an idle process waits for nobody.
//!
//! Invariants: at most [`UNDER_WAY_MAX`] requests of a lane are under way, and while a call waits, so many are; each call waits only behind calls of its
//! lane, which are answered as soon as it is; a call whose bundle came to nothing is sent alone, so its outcome is its own.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use protocol::bundle;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{RpcClient, runtime};
use crate::error::RpcError;

/// Requests of a lane that are under way at once: the daemon works on one while others are on the network or wait for the disk. Of 1, 2, 4 and 8 this is the
/// fastest with 8 clients and with 32.
const UNDER_WAY_MAX: usize = 4;

/// Calls that are answered equally soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// They read a little of the state.
    Reads,
    /// They wait for the log.
    Changes,
}

/// The lanes of a client.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    reads: Mutex<Queue>,
    changes: Mutex<Queue>,
}

#[derive(Debug, Default)]
struct Queue {
    under_way: usize,
    waiting: VecDeque<Waiting>,
}

/// A call that waits for a place in a bundle.
#[derive(Debug)]
struct Waiting {
    message: Bytes,
    timeout: Duration,
    answer: oneshot::Sender<Bytes>,
}

impl Queue {
    /// The next bundle; if there is none, one request less is under way.
    fn next(&mut self) -> Vec<Waiting> {
        let mut bundle = Vec::new();
        while bundle.len() < bundle::MESSAGES_MAX
            && let Some(waiting) = self.waiting.pop_front()
        {
            // A caller that does not wait any more need not be answered.
            if !waiting.answer.is_closed() {
                bundle.push(waiting);
            }
        }
        if bundle.is_empty() {
            self.under_way -= 1;
        }
        bundle
    }
}

impl Lanes {
    fn of(&self, lane: Lane) -> &Mutex<Queue> {
        match lane {
            Lane::Reads => &self.reads,
            Lane::Changes => &self.changes,
        }
    }
}

/// Whether a message may share a request.
pub(super) fn is_shared(target: &str, message: &[u8]) -> bool {
    target == bundle::ALONE && message.len() <= bundle::MESSAGE_BYTES_MAX
}

/// A request that is under way. Its end lets those go on who wait, however it ends.
struct UnderWay<'a> {
    client: &'a RpcClient,
    lane: Lane,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let next = self.client.inner.lanes.of(self.lane).lock().next();
        if next.is_empty() {
            return;
        }
        let (client, lane) = (self.client.clone(), self.lane);
        let sending = async move {
            let _under_way = UnderWay { client: &client, lane };
            client.send_bundle(next).await;
        };
        // A caller's own runtime is nearer, but this may be the end of one.
        match Handle::try_current() {
            Ok(current) => drop(current.spawn(sending)),
            Err(_) => drop(runtime().spawn(sending)),
        }
    }
}

impl RpcClient {
    /// Sends a message in a lane and returns the daemon's answer, encoded.
    pub(super) async fn exchange_in(
        &self,
        lane: Lane,
        message: &Bytes,
        timeout: Duration,
    ) -> Result<Bytes, RpcError> {
        let shared = {
            let mut queue = self.inner.lanes.of(lane).lock();
            match queue.under_way < UNDER_WAY_MAX {
                true => {
                    queue.under_way += 1;
                    None
                }
                false => {
                    let (answer, receiver) = oneshot::channel();
                    queue.waiting.push_back(Waiting { message: message.clone(), timeout, answer });
                    Some(receiver)
                }
            }
        };
        let Some(shared) = shared else {
            let _under_way = UnderWay { client: self, lane };
            return self.exchange(bundle::ALONE, message, timeout).await;
        };
        match tokio::time::timeout(timeout, shared).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => self.exchange(bundle::ALONE, message, timeout).await,
            Err(_) => Err(RpcError::Silent { address: self.base().to_owned(), limit: timeout }),
        }
    }

    /// Sends a bundle and hands out the answers. Whoever gets none sends alone.
    async fn send_bundle(&self, calls: Vec<Waiting>) {
        let timeout = calls.iter().map(|call| call.timeout).max().unwrap_or_default();
        if let [_] = &calls[..] {
            for Waiting { message, answer, .. } in calls {
                if let Ok(bytes) = self.exchange(bundle::ALONE, &message, timeout).await {
                    let _ = answer.send(bytes);
                }
            }
            return;
        }
        let mut body = Vec::new();
        calls.iter().for_each(|call| bundle::append(&mut body, &call.message));
        let bytes = match self.exchange(bundle::TARGET, &Bytes::from(body), timeout).await {
            Ok(bytes) => bytes,
            Err(error) => {
                let (daemon, error) = (self.base(), protocol::error::chain(&error));
                tracing::debug!(daemon, error, "calls that shared a request go on alone");
                return;
            }
        };
        match bundle::messages(&bytes) {
            Ok(answers) if answers.len() == calls.len() => {
                for (Waiting { answer, .. }, found) in calls.into_iter().zip(answers) {
                    let _ = answer.send(bytes.slice_ref(found));
                }
            }
            _ => tracing::warn!(daemon = self.base(), "not one answer for each call of a request"),
        }
    }
}
