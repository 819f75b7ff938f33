//! Bodies of requests whose heads were accepted: read within a budget of bytes and within a time limit, and compared with the signed digest.
//!
//! A body takes room as its bytes arrive, not as it announces them. The room belongs to roles, or to jobs, and each of these has a share of it; where there is
//! none for one of them, the body of whoever has most on which nothing has come for longest is given up. So no job can stop the calls of others.
//!
//! Invariants: not one byte of the body is read of a request that was not accepted; all bodies that a daemon reads at once have at most [`BYTES_MAX`] together,
//! those of tasks [`TASK_BYTES_MAX`]; room is taken before bytes are kept, and released when the message is decoded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use protocol::auth::BodyDigest;

use super::signer::{Checked, Owner, Signer};
use crate::shares::PART;
use crate::shares::room::{Notified, Place, Room, Tenant};

/// Most bytes of bodies read at once. One role alone gets three quarters: two of the largest that exist, reports of workers.
const BYTES_MAX: usize = 192 << 20;
/// Most bytes of bodies of tasks. One job alone gets three of the largest that a client of the file system sends.
const TASK_BYTES_MAX: usize = 64 << 20;
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

/// A body that arrives. Once it is whole, it is needed until it is decoded.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    over: Notified,
    is_whole: AtomicBool,
}

impl Tenant for Arriving {
    fn may_leave(&self) -> bool {
        !self.is_whole.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.over.leave();
    }
}

/// The room of a body, until this is dropped.
pub(crate) type Held = Place<Owner, Arriving>;

/// The budget.
#[derive(Debug)]
pub(crate) struct Bodies {
    trusted: Arc<Room<Owner, Arriving>>,
    tasks: Arc<Room<Owner, Arriving>>,
    /// Time for any body, and for a wait for room.
    time_min: Duration,
    /// Least bytes per second of a longer one.
    rate_min: u64,
}

impl Default for Bodies {
    fn default() -> Self {
        Bodies {
            trusted: Room::new(BYTES_MAX, PART),
            tasks: Room::new(TASK_BYTES_MAX, PART),
            time_min: TIME_MIN,
            rate_min: RATE_MIN,
        }
    }
}

impl Bodies {
    /// Reads the body of a request. The caller must keep the room until it needs nothing of the body any more.
    ///
    /// # Errors
    /// [`BodyError`].
    pub(crate) async fn read(
        &self,
        checked: &Checked,
        body: Body,
        max: usize,
    ) -> Result<(Bytes, Option<Held>), BodyError> {
        let length = checked.body.length;
        let room = match checked.signer {
            Signer::Trusted(_) => &self.trusted,
            Signer::Task(_) => &self.tasks,
        };
        let max = max.min(room.alone());
        let bytes = usize::try_from(length).ok().filter(|bytes| *bytes <= max);
        let bytes = bytes.ok_or(BodyError::TooLong { length, max })?;
        let time =
            self.time_min + Duration::from_millis(length.saturating_mul(1000) / self.rate_min);
        let arrival = Arrival {
            room,
            owner: checked.signer.owner(),
            wait_max: self.time_min,
            place: None,
            pieces: Pieces::default(),
        };
        let read = tokio::time::timeout(time, arrival.collect(body, bytes)).await;
        let (bytes, place) = read.map_err(|_| BodyError::Slow { time })??;
        if BodyDigest::of(&bytes) != checked.body {
            return Err(BodyError::Other);
        }
        Ok((bytes, place))
    }
}

/// What has come of a body.
struct Arrival<'a> {
    room: &'a Arc<Room<Owner, Arriving>>,
    owner: Owner,
    /// How long it waits for room.
    wait_max: Duration,
    /// From the first bytes on.
    place: Option<Held>,
    pieces: Pieces,
}

impl Arrival<'_> {
    /// Reads exactly `length` bytes.
    async fn collect(
        mut self,
        mut body: Body,
        length: usize,
    ) -> Result<(Bytes, Option<Held>), BodyError> {
        loop {
            let frame = match &self.place {
                None => body.frame().await,
                Some(place) => tokio::select! {
                    frame = body.frame() => frame,
                    () = place.tenant().over.is_over() => return Err(BodyError::Busy),
                },
            };
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|_| BodyError::Cut)?;
            let Ok(data) = frame.into_data() else { continue };
            if self.pieces.len() + data.len() > length {
                return Err(BodyError::Other);
            }
            self.take_room(data.len()).await?;
            self.pieces.push(data);
        }
        if let Some(place) = &self.place {
            place.tenant().is_whole.store(true, Ordering::Relaxed);
        }
        Ok((self.pieces.whole(), self.place))
    }

    async fn take_room(&mut self, bytes: usize) -> Result<(), BodyError> {
        let Some(place) = &self.place else {
            let place = self.room.wait(self.owner, bytes, Arriving::default());
            let place = tokio::time::timeout(self.wait_max, place).await;
            self.place = Some(place.map_err(|_| BodyError::Busy)?);
            return Ok(());
        };
        let grown = tokio::select! {
            grown = tokio::time::timeout(self.wait_max, place.wait_to_grow(bytes)) => grown,
            () = place.tenant().over.is_over() => Ok(false),
        };
        match grown {
            Ok(true) => {
                place.stir();
                Ok(())
            }
            _ => Err(BodyError::Busy),
        }
    }
}

/// Bytes; what comes in one piece is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    rest: BytesMut,
}

impl Pieces {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        // It grows with what came: somebody who announces much has no memory for it yet.
        self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        self.rest.extend_from_slice(&data);
    }

    fn whole(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream::{self, StreamExt};
    use protocol::JobId;
    use protocol::auth::{
        Incarnation, Key, Nonce, Occasion, Role, Service, Signature, SignedRequest,
    };
    use protocol::pass::{Pass, PassName};

    use super::*;
    use crate::auth::Authenticator;

    const REQUEST: SignedRequest<'_> = SignedRequest { method: "POST", target: "/" };

    fn occasion(to: Incarnation, body: BodyDigest) -> Occasion {
        Occasion { time_ms: now_ms(), nonce: Nonce { stream: 1, number: 1 }, to, body }
    }

    fn checked(digest: BodyDigest) -> Checked {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret, Service::Namenode);
        let key = Role::Client.key(&secret).ready();
        let on = occasion(auth.hello().incarnation, digest);
        let header = Signature::sign(&key, Role::Client, on, REQUEST).to_header();
        auth.check(Some(&header), REQUEST, &[Role::Client]).unwrap()
    }

    /// A request of a task of a job.
    fn of_job(number: u32, digest: BodyDigest) -> Checked {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret, Service::Namenode);
        let job = JobId { cluster_start: 1, number };
        let pass = PassName { job, user: "ada".to_owned(), expires_ms: u64::MAX };
        let on = occasion(auth.hello().incarnation, digest);
        let header = Signature::sign_as_task(&Pass::issue(&secret, pass), on, REQUEST).to_header();
        auth.check(Some(&header), REQUEST, &[Role::Task]).unwrap()
    }

    fn announced(length: usize) -> BodyDigest {
        let mut digest = BodyDigest::of(b"x");
        digest.length = length as u64;
        digest
    }

    /// A body that stops after its first bytes.
    fn stopping(bytes: usize) -> Body {
        let first = stream::iter([Ok::<_, Infallible>(vec![b'x'; bytes])]);
        Body::from_stream(first.chain(stream::pending()))
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
        assert_eq!(bodies.trusted.taken(), 0);
    }

    #[tokio::test]
    async fn what_does_not_come_is_given_up_and_its_room_given_back() {
        let time_min = Duration::from_millis(50);
        let trusted = Room::new(1 << 20, PART);
        let bodies = Bodies { trusted, time_min, rate_min: 1 << 20, ..Bodies::default() };
        let most = bodies.trusted.alone();
        let checked = checked(announced(most));
        let (first, second) = tokio::join!(
            bodies.read(&checked, stopping(most - 1), most),
            bodies.read(&checked, stopping(most - 1), most),
        );
        let time = Duration::from_millis(50 + 750);
        assert_eq!(first.map(drop), Err(BodyError::Slow { time }));
        assert_eq!(second.map(drop), Err(BodyError::Busy));
        assert_eq!(bodies.trusted.taken(), 0);
    }

    #[tokio::test]
    async fn bodies_that_are_announced_and_do_not_come_stop_nobody() {
        let bodies = Arc::new(Bodies::default());
        let long = 16 << 20;
        let hostile = |bytes: usize| {
            let bodies = Arc::clone(&bodies);
            async move {
                bodies.read(&of_job(1, announced(long)), stopping(bytes), long).await.map(drop)
            }
        };
        // A byte each, and as much as one job gets.
        for bytes in [1, 1, long - 1, long - 1, long - 1] {
            tokio::spawn(hostile(bytes));
        }
        let all = 2 + 3 * (long - 1);
        while bodies.tasks.taken() < all {
            tokio::task::yield_now().await;
        }
        let whole = vec![b'y'; long];
        let digest = BodyDigest::of(&whole);
        for job in [2, 3] {
            let checked = of_job(job, digest);
            let read = bodies.read(&checked, Body::from(whole.clone()), long);
            let (bytes, place) = tokio::time::timeout(TIME_MIN / 2, read).await.unwrap().unwrap();
            assert_eq!((bytes.len(), place.is_some()), (long, true));
        }
    }

    #[tokio::test]
    async fn what_is_still_gives_way_to_others_and_what_is_whole_does_not() {
        let bodies = Arc::new(Bodies { tasks: Room::new(64, PART), ..Bodies::default() });
        let (kept, still) = (of_job(1, BodyDigest::of(&[b'x'; 20])), of_job(1, announced(28)));
        let (_, place) = bodies.read(&kept, Body::from(vec![b'x'; 20]), 64).await.unwrap();
        let reading = Arc::clone(&bodies);
        let read = async move { reading.read(&still, stopping(27), 64).await.map(drop) };
        let reading = tokio::spawn(read);
        while bodies.tasks.taken() < 47 {
            tokio::task::yield_now().await;
        }
        let other = of_job(2, BodyDigest::of(&[b'y'; 40]));
        let (bytes, _held) = bodies.read(&other, Body::from(vec![b'y'; 40]), 64).await.unwrap();
        assert_eq!((bytes.len(), reading.await.unwrap()), (40, Err(BodyError::Busy)));
        assert_eq!(bodies.tasks.taken(), 60);
        drop(place);
    }
}
