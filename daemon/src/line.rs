//! The connections of a service: who may stay, and who makes room.
//!
//! A connection is a stranger's until a request on it was signed. Strangers end after some idle seconds, may have half of all connections
//! and, from one other machine, half of that; where there is no room for one more, the idle stranger that has been there longest ends.
//! So a flood of connections that ask for nothing displaces itself, and whoever asks at once gets his answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::auth::Seal;

/// How long a stranger may ask for nothing: a person's browser comes back at no cost, a flood has to be kept up.
pub(crate) const STRANGER_IDLE_MAX: Duration = Duration::from_secs(5);
/// Strangers have at most this part of all connections.
const STRANGERS_PART: usize = 2;
/// Strangers of one other machine have at most this part of all connections. On loopback everybody has the same address.
const PEER_PART: usize = 4;

/// A connection.
#[derive(Debug)]
pub struct Line {
    address: SocketAddr,
    is_trusted: AtomicBool,
    /// Requests begun, and answers whose last byte was handed over.
    begun: AtomicU64,
    answered: AtomicU64,
    /// Signs the next answer.
    seal: Mutex<Option<Seal>>,
    over: Notify,
}

impl Line {
    fn new(address: SocketAddr) -> Self {
        Line {
            address,
            is_trusted: AtomicBool::new(false),
            begun: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            seal: Mutex::new(None),
            over: Notify::new(),
        }
    }

    /// It belongs to somebody who can sign, or has shown a token.
    pub fn trust(&self) {
        self.is_trusted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted.load(Ordering::Relaxed)
    }

    /// The answer that follows is to be signed.
    pub(crate) fn seal_next(&self, seal: Seal) {
        *self.seal.lock() = Some(seal);
    }

    pub(crate) fn take_seal(&self) -> Option<Seal> {
        self.seal.lock().take()
    }

    pub(crate) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn is_idle_stranger(&self) -> bool {
        let begun = self.begun.load(Ordering::Relaxed);
        !self.is_trusted() && begun == self.answered.load(Ordering::Relaxed)
    }

    /// Waits until it has to end: it made room, or is a stranger's and was idle for too long.
    pub(crate) async fn is_over(&self, stranger_idle_max: Duration) {
        let idle = async {
            loop {
                let answered = self.answered.load(Ordering::Relaxed);
                tokio::time::sleep(stranger_idle_max).await;
                if self.is_trusted() {
                    std::future::pending::<()>().await;
                }
                if self.is_idle_stranger() && answered == self.answered.load(Ordering::Relaxed) {
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

/// All connections of a service, oldest first.
#[derive(Debug)]
pub(crate) struct Lines {
    max: usize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    next: u64,
    open: BTreeMap<u64, Arc<Line>>,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Lines { max, all: Mutex::default() })
    }

    /// Takes a connection up; `None` if there is no room that a stranger could have. Somebody may have to end for it.
    pub(crate) fn enter(self: &Arc<Self>, address: SocketAddr) -> Option<Entered> {
        let mut all = self.all.lock();
        let strangers = || all.open.values().filter(|line| !line.is_trusted());
        let is_of_peer = |line: &&Arc<Line>| line.address.ip() == address.ip();
        let is_elsewhere = !is_here(address.ip());
        // Few lines are looked at while there is room for all of them.
        let crowded = all.open.len() >= self.max / PEER_PART;
        if crowded {
            let peer_is_full = is_elsewhere
                && strangers().filter(is_of_peer).count() >= (self.max / PEER_PART).max(1);
            let is_full = strangers().count() >= (self.max / STRANGERS_PART).max(1);
            if peer_is_full || is_full {
                let of_peer = |line: &&Arc<Line>| !peer_is_full || is_of_peer(line);
                let oldest = strangers().filter(of_peer).find(|line| line.is_idle_stranger());
                oldest?.over.notify_one();
            }
        }
        let number = all.next;
        all.next += 1;
        let line = Arc::new(Line::new(address));
        all.open.insert(number, Arc::clone(&line));
        Some(Entered { lines: Arc::clone(self), number, line })
    }

    /// Has the oldest idle stranger end, if there is one.
    pub(crate) fn make_room(&self) {
        let all = self.all.lock();
        if let Some(line) = all.open.values().find(|line| line.is_idle_stranger()) {
            line.over.notify_one();
        }
    }
}

fn is_here(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// A connection that is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Entered {
    lines: Arc<Lines>,
    number: u64,
    pub(crate) line: Arc<Line>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.lines.all.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn from(machine: u8) -> SocketAddr {
        ([10, 0, 0, machine], 1).into()
    }

    fn is_over(entered: &Entered) -> bool {
        entered.line.over.notified().now_or_never().is_some()
    }

    #[tokio::test]
    async fn a_flood_displaces_itself() {
        let lines = Lines::new(16);
        let trusted = lines.enter(from(1)).unwrap();
        trusted.line.trust();
        let busy = lines.enter(from(1)).unwrap();
        busy.line.begin();
        let flood: Vec<Entered> = (0..20).map(|_| lines.enter(from(2)).unwrap()).collect();
        assert!(is_over(&flood[0]) && !is_over(&flood[19]));
        assert!(!is_over(&trusted) && !is_over(&busy));
        let other = lines.enter(from(3)).unwrap();
        assert!(!is_over(&other));
        // Where all of a machine's connections have something to do, it gets no more.
        flood.iter().for_each(|entered| entered.line.begin());
        assert!(lines.enter(from(2)).is_none());
        drop(flood);
        assert!(lines.enter(from(2)).is_some());
    }

    #[tokio::test]
    async fn an_idle_stranger_ends_and_nobody_else() {
        let lines = Lines::new(16);
        let entered = lines.enter(from(1)).unwrap();
        let idle_max = Duration::from_millis(10);
        let wait = |entered: &Entered| {
            let line = Arc::clone(&entered.line);
            tokio::time::timeout(50 * idle_max, async move { line.is_over(idle_max).await })
        };
        assert!(wait(&entered).await.is_ok());
        entered.line.begin();
        assert!(wait(&entered).await.is_err(), "a request is under way");
        entered.line.end();
        assert!(wait(&entered).await.is_ok());
        entered.line.trust();
        assert!(wait(&entered).await.is_err());
    }
}
