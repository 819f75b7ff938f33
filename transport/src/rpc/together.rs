//! Requests that calls of a lane share ([`protocol::wire::bundle`]). A call of a busy process costs a part of a request, and one of an idle process waits for
//! nobody.
//!
//! Invariant: a call whose bundle came to nothing is sent alone, so its outcome is its own.

use std::time::Duration;

use bytes::Bytes;
use protocol::wire::bundle;
use tokio::runtime::Handle;

use super::lane::{Entered, Lane, Waiting};
use super::{RpcClient, runtime};
use crate::error::RpcError;

/// A request of a lane that is under way. When it ends, however it ends, those who wait go on.
struct UnderWay<'a> {
    client: &'a RpcClient,
    lane: Lane,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let next = self.client.inner.lanes.next(self.lane);
        if next.is_empty() {
            return;
        }
        let (client, lane) = (self.client.clone(), self.lane);
        let sending = async move {
            let _under_way = UnderWay { client: &client, lane };
            client.send_together(next).await;
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
        let answer = match self.inner.lanes.enter(lane, message, timeout) {
            Entered::Beside => return self.exchange(bundle::ALONE, message, timeout).await,
            Entered::Goes => {
                let _under_way = UnderWay { client: self, lane };
                return self.exchange(bundle::ALONE, message, timeout).await;
            }
            Entered::Waits(answer) => answer,
        };
        match tokio::time::timeout(timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) => self.exchange(bundle::ALONE, message, timeout).await,
            Err(_) => Err(RpcError::Silent { address: self.base().to_owned(), limit: timeout }),
        }
    }

    /// Sends calls in one request and hands out the answers. Whoever gets none goes alone.
    async fn send_together(&self, calls: Vec<Waiting>) {
        let timeout = calls.iter().map(|call| call.timeout).max().unwrap_or_default();
        let is_one = calls.len() == 1;
        let exchanged = match &calls[..] {
            [call] => self.exchange(bundle::ALONE, &call.message, timeout).await,
            calls => {
                let mut body = Vec::new();
                calls.iter().for_each(|call| bundle::append(&mut body, &call.message));
                self.exchange(bundle::TARGET, &Bytes::from(body), timeout).await
            }
        };
        let bytes = match exchanged {
            Ok(bytes) => bytes,
            Err(error) => {
                let (daemon, error) = (self.base(), protocol::error::chain(&error));
                tracing::debug!(daemon, error, "calls that shared a request go on alone");
                return;
            }
        };
        let answers = if is_one { Ok(vec![&bytes[..]]) } else { bundle::messages(&bytes) };
        match answers {
            Ok(answers) if answers.len() == calls.len() => {
                for (call, answer) in calls.into_iter().zip(answers) {
                    // A caller that is gone has given up.
                    let _ = call.answer.send(bytes.slice_ref(answer));
                }
            }
            _ => tracing::warn!(daemon = self.base(), "not one answer for each call of a request"),
        }
    }
}
