//! Bodies of requests whose heads were accepted: read within a budget of bytes and within a time limit, and compared with the signed digest.
//!
//! Invariants: not one byte of the body is read of a request that was not accepted; all bodies that a daemon reads at once have at most [`BYTES_MAX`] together,
//! those of tasks [`TASK_BYTES_MAX`], so no task can hold up requests of others; room is reserved before the first byte and released when the message is
//! decoded.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use protocol::auth::BodyDigest;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::signer::{Checked, Signer};

/// Most bytes of bodies read at once: two of the largest that exist, reports of workers.
const BYTES_MAX: usize = 128 << 20;
/// Most bytes of bodies of tasks: two of the largest that a client of the file system sends.
const TASK_BYTES_MAX: usize = 32 << 20;
/// Time for any body. Most arrive with their head.
const TIME_MIN: Duration = Duration::from_secs(10);
/// Least speed of a longer one, bytes per second: a slow line between two sites.
const RATE_MIN: u64 = 512 << 10;

/// Why a body was not read, or not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    /// Longer than the route accepts.
    #[error("the request has {length} bytes; at most {max} are taken here")]
    TooLong {
        /// The declared length, bytes.
        length: u64,
        /// The limit, bytes.
        max: usize,
    },
    /// The budget was in use the whole time.
    #[error("too many requests are being read: try again")]
    Busy,
    /// It did not arrive in time.
    #[error("the request's body did not come within {} s", time.as_secs())]
    Slow {
        /// The limit.
        time: Duration,
    },
    /// The connection broke.
    #[error("the request's body ended early")]
    Cut,
    /// Its length or digest is not the signed one.
    #[error("the request's body is not what was signed")]
    Other,
}

/// The budget.
#[derive(Debug)]
pub(crate) struct Bodies {
    trusted: Semaphore,
    tasks: Semaphore,
    /// Time for any body, and for a wait for room.
    time_min: Duration,
    /// Least bytes per second of a longer one.
    rate_min: u64,
}

impl Default for Bodies {
    fn default() -> Self {
        Bodies {
            trusted: Semaphore::new(BYTES_MAX),
            tasks: Semaphore::new(TASK_BYTES_MAX),
            time_min: TIME_MIN,
            rate_min: RATE_MIN,
        }
    }
}

impl Bodies {
    /// Reads the body of a request. The caller must keep the permit until it needs nothing of the body any more.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) async fn read(
        &self,
        checked: &Checked,
        body: Body,
        max: usize,
    ) -> Result<(Bytes, SemaphorePermit<'_>), BodyError> {
        let length = checked.body.length;
        let (room, all) = match checked.signer {
            Signer::Trusted(_) => (&self.trusted, BYTES_MAX),
            Signer::Task(_) => (&self.tasks, TASK_BYTES_MAX),
        };
        let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= max.min(all));
        let bytes = bytes.ok_or(BodyError::TooLong { length, max: max.min(all) })?;
        let permits = u32::try_from(bytes).expect("the budget has fewer than 4 GiB");
        let time =
            self.time_min + Duration::from_millis(length.saturating_mul(1000) / self.rate_min);
        let reading = async {
            let permit = room.acquire_many(permits);
            let permit = tokio::time::timeout(self.time_min, permit).await;
            let permit = permit.map_err(|_| BodyError::Busy)?.map_err(|_| BodyError::Busy)?;
            Ok((collect(body, bytes).await?, permit))
        };
        let read = tokio::time::timeout(time, reading).await;
        let (bytes, permit) = read.map_err(|_| BodyError::Slow { time })??;
        if BodyDigest::of(&bytes) != checked.body {
            return Err(BodyError::Other);
        }
        Ok((bytes, permit))
    }
}

/// Reads exactly `length` bytes; a body that arrives in one piece is not copied.
async fn collect(mut body: Body, length: usize) -> Result<Bytes, BodyError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Cut)?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > length {
            return Err(BodyError::Other);
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if !first.is_empty() {
            // The budget has granted the room; the allocator takes memory only where something is written.
            rest.reserve(length);
            rest.extend_from_slice(&std::mem::take(&mut first));
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use protocol::auth::{Key, Occasion, Role, Service, Signature, SignedRequest};

    use super::*;
    use crate::auth::Authenticator;

    fn checked(digest: BodyDigest) -> Checked {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret, Service::Namenode);
        let nonce = protocol::auth::Nonce { stream: 1, number: 1 };
        let to = auth.hello().incarnation;
        let on = Occasion { time_ms: now_ms(), nonce, to, body: digest };
        let request = SignedRequest { method: "POST", target: "/" };
        let key = Role::Client.key(&secret).ready();
        let header = Signature::sign(&key, Role::Client, on, request).to_header();
        auth.check(Some(&header), request, &[Role::Client]).unwrap()
    }

    fn now_ms() -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis()).unwrap()
    }

    fn pieces(pieces: &'static [&'static [u8]]) -> Body {
        Body::from_stream(stream::iter(pieces.iter().map(|piece| Ok::<_, Infallible>(*piece))))
    }

    #[tokio::test]
    async fn a_body_is_what_was_signed() {
        let bodies = Bodies::default();
        let checked = checked(BodyDigest::of(b"abcdef"));
        for (sent, expected) in [
            (pieces(&[b"abcdef"]), Ok(())),
            (pieces(&[b"a", b"bcd", b"", b"ef"]), Ok(())),
            (pieces(&[b"abcdeF"]), Err(BodyError::Other)),
            (pieces(&[b"abc"]), Err(BodyError::Other)),
            (pieces(&[b"abc", b"def", b"g"]), Err(BodyError::Other)),
            (pieces(&[]), Err(BodyError::Other)),
        ] {
            let read = bodies.read(&checked, sent, 100).await;
            assert_eq!(read.map(|(bytes, _)| assert_eq!(bytes, "abcdef")), expected);
        }
        let refused = bodies.read(&checked, pieces(&[b"abcdef"]), 5).await.map(drop);
        assert_eq!(refused, Err(BodyError::TooLong { length: 6, max: 5 }));
        assert_eq!(bodies.trusted.available_permits(), BYTES_MAX);
    }

    #[tokio::test]
    async fn what_does_not_come_is_given_up_and_its_room_given_back() {
        let time_min = Duration::from_millis(50);
        let bodies = Bodies { time_min, rate_min: 1 << 30, ..Bodies::default() };
        let waiting = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let mut long = BodyDigest::of(b"x");
        long.length = BYTES_MAX as u64;
        let checked = checked(long);
        let (first, second) = tokio::join!(
            bodies.read(&checked, waiting(), BYTES_MAX),
            bodies.read(&checked, waiting(), BYTES_MAX),
        );
        let time = Duration::from_millis(50 + 125);
        assert_eq!(first.map(drop), Err(BodyError::Slow { time }));
        assert_eq!(second.map(drop), Err(BodyError::Busy));
        assert_eq!(bodies.trusted.available_permits(), BYTES_MAX);
    }
}
