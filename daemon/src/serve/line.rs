//! A connection of an HTTP service, as one of its [`Guests`](super::guests::Guests). It is a stranger's until a request on it was signed; until then it ends
//! after some idle seconds.
//!
//! A request in progress protects a connection while its body or its answer moves. An answer without an end protects none: it goes on until somebody needs the
//! place.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::address::{url_of, web_url_of};
use protocol::auth::Fingerprint;
use tokio::sync::Notify;

use super::guests::Guest;
use crate::auth::Seal;
use crate::shares::room::Tenant;

/// How long a stranger may send no request: a person's browser reconnects at no cost, while a flood has to keep going.
pub(crate) const STRANGER_IDLE_MAX: Duration = Duration::from_secs(5);

/// How long a request of a stranger protects its connection while nothing of it moves: longer than any answer takes to make and to send on in pieces.
const STRANGER_STILL_MAX: Duration = Duration::from_secs(5);

/// The same for somebody who is known: most calls wait less for their answer.
const KNOWN_STILL_MAX: Duration = Duration::from_secs(10);

/// A connection.
#[derive(Debug)]
pub struct Line {
    begun_at: Instant,
    /// A hash of whoever has proven something.
    owner: OnceLock<u64>,
    /// When a request began or something of one moved, in milliseconds since `begun_at`.
    moved_ms: AtomicU64,
    /// The answer has no end.
    is_endless: AtomicBool,
    /// Requests begun, and answers whose last byte was sent.
    begun: AtomicU64,
    answered: AtomicU64,
    /// Signs the next answer.
    seal: Mutex<Option<Seal>>,
    over: Notify,
}

impl Default for Line {
    fn default() -> Self {
        Line {
            begun_at: Instant::now(),
            owner: OnceLock::new(),
            moved_ms: AtomicU64::default(),
            is_endless: AtomicBool::default(),
            begun: AtomicU64::default(),
            answered: AtomicU64::default(),
            seal: Mutex::default(),
            over: Notify::default(),
        }
    }
}

impl Line {
    /// Marks it as belonging to `owner`, who can sign, or has presented a token. The first one stays.
    pub fn trust(&self, owner: impl Hash) {
        self.owner.get_or_init(|| {
            let mut hasher = DefaultHasher::new();
            owner.hash(&mut hasher);
            hasher.finish()
        });
    }

    /// True if something was proven on it.
    pub(crate) fn is_trusted(&self) -> bool {
        self.owner.get().is_some()
    }

    /// Has the next answer signed.
    pub(crate) fn seal_next(&self, seal: Seal) {
        *self.seal.lock() = Some(seal);
    }

    pub(crate) fn take_seal(&self) -> Option<Seal> {
        self.seal.lock().take()
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.stir();
    }

    pub(crate) fn end(&self) {
        self.is_endless.store(false, Ordering::Relaxed);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that something of a request or of its answer moves.
    pub(crate) fn stir(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Notes that the present answer has no end.
    pub(crate) fn stream(&self) {
        self.is_endless.store(true, Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun_at.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// True if no request is in progress.
    fn is_waiting(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        begun == self.answered.load(Ordering::Relaxed)
    }

    fn is_still(&self) -> bool {
        let still_ms = self.now_ms().saturating_sub(self.moved_ms.load(Ordering::Relaxed));
        let still_max = if self.is_trusted() { KNOWN_STILL_MAX } else { STRANGER_STILL_MAX };
        u128::from(still_ms) >= still_max.as_millis()
    }

    /// Waits until it must end: it made room, or it is a stranger's and was idle for too long.
    pub(crate) async fn is_over(&self, stranger_idle_max: Duration) {
        let idle = async {
            loop {
                let answered = self.answered.load(Ordering::Relaxed);
                tokio::time::sleep(stranger_idle_max).await;
                if self.is_trusted() {
                    std::future::pending::<()>().await;
                }
                if self.is_waiting() && answered == self.answered.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        tokio::select! {
            () = idle => {}
            () = self.over.notified() => {}
        }
    }
}

impl Guest for Line {
    type Owner = u64;

    fn owner(&self) -> Option<&u64> {
        self.owner.get()
    }

    fn is_idle(&self) -> bool {
        self.is_waiting() || self.is_endless.load(Ordering::Relaxed) || self.is_still()
    }

    fn leave(&self) {
        self.over.notify_one();
    }
}

/// A stream of events on a stranger's connection.
impl Tenant for Arc<Line> {
    fn may_leave(&self) -> bool {
        true
    }

    fn leave(&self) {
        Guest::leave(&**self);
    }
}

/// Who sent a request: an extension of every request.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The remote address.
    pub address: SocketAddr,
    /// The daemon's certificate on its connection; `None` if that is not encrypted.
    pub certificate: Option<Fingerprint>,
    /// The connection.
    pub line: Arc<Line>,
}

impl Peer {
    /// The URL of another daemon, at `host:port`, for whoever sent this request: encrypted, unless it stays on this machine or its sender cannot encrypt.
    pub fn url_of(&self, authority: &str) -> String {
        let is_from_here = self.address.ip().to_canonical().is_loopback();
        match self.certificate.is_some() || is_from_here {
            true => web_url_of(authority),
            false => url_of(authority),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_can_encrypt_is_sent_where_it_must() {
        let seen = Some(Fingerprint([1; 32]));
        for (address, certificate, there) in [
            ("10.0.0.1:5", seen, "https://dn:9864"),
            ("127.0.0.1:5", None, "https://dn:9864"),
            ("10.0.0.1:5", None, "http://dn:9864"),
        ] {
            let (address, line) = (address.parse().unwrap(), Arc::default());
            let peer = Peer { address, certificate, line };
            assert_eq!(peer.url_of("dn:9864"), there);
            assert_eq!(peer.url_of("127.0.0.1:9864"), "http://127.0.0.1:9864");
        }
    }

    #[tokio::test]
    async fn an_idle_stranger_ends_and_nobody_else() {
        let line = Arc::new(Line::default());
        let idle_max = Duration::from_millis(10);
        let wait = || {
            let line = Arc::clone(&line);
            tokio::time::timeout(50 * idle_max, async move { line.is_over(idle_max).await })
        };
        assert!(wait().await.is_ok());
        line.begin();
        assert!(wait().await.is_err(), "a request is under way");
        line.end();
        assert!(wait().await.is_ok());
        line.trust("ann");
        assert!(wait().await.is_err());
        line.leave();
        assert!(wait().await.is_ok(), "it makes room");
    }

    #[test]
    fn a_request_protects_a_stranger_while_it_moves_and_has_an_end() {
        let line = Line::default();
        assert!(line.is_idle());
        line.begin();
        assert!(!line.is_idle());
        line.stream();
        assert!(line.is_idle(), "an answer without an end");
        line.end();
        line.begin();
        assert!(!line.is_idle());
        let still = Line { begun_at: line.begun_at - STRANGER_STILL_MAX, ..Line::default() };
        still.begun.fetch_add(1, Ordering::Relaxed);
        assert!(still.is_idle(), "nothing moves");
        still.stir();
        assert!(!still.is_idle());
        still.moved_ms.store(0, Ordering::Relaxed);
        still.trust("ann");
        assert!(!still.is_idle(), "who is known may take longer");
    }
}
