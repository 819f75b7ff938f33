//! Leases: which client writes which files, and when it last called.
//!
//! Invariants: every open file is in exactly the lease of its holder; a lease has at least one file; `order` has one entry per lease.
//! Renewal times are not durable: after a restart every lease counts as renewed at the start. Time in which this process stood still is nobody's silence.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{ClientId, InodeId};

/// Most time between two turns that counts as silence, milliseconds: twice the longest time between two ticks. Whoever called in a longer one
/// was not heard.
const TURN_GAP_MAX_MS: u64 = 1000;

/// The table of leases.
#[derive(Default)]
pub struct Leases {
    now_ms: u64,
    leases: BTreeMap<ClientId, Lease>,
    order: BTreeSet<(u64, ClientId)>,
    /// The client that called last, and its machine; a lease that begins now is on that machine.
    last_caller: (ClientId, String),
}

struct Lease {
    renewed_ms: u64,
    /// Machine from which the holder last called; not durable either.
    host: String,
    files: BTreeSet<InodeId>,
}

impl Leases {
    /// Holder of files that the NameNode recovers.
    pub const RECOVERER: ClientId = ClientId([0; 16]);

    /// Sets the monotonic time of a turn, at which new leases begin.
    pub fn set_now(&mut self, now_ms: u64) {
        let gap_ms = now_ms.saturating_sub(self.now_ms);
        self.now_ms = now_ms;
        if gap_ms > TURN_GAP_MAX_MS {
            self.set_renewed(|renewed_ms| renewed_ms + gap_ms);
        }
    }

    /// Lets every lease begin now; for the end of a replay.
    pub fn renew_all(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        self.set_renewed(|_| now_ms);
    }

    fn set_renewed(&mut self, renewed: impl Fn(u64) -> u64) {
        self.leases.values_mut().for_each(|lease| lease.renewed_ms = renewed(lease.renewed_ms));
        let entry = |(holder, lease): (&ClientId, &Lease)| (lease.renewed_ms, *holder);
        self.order = self.leases.iter().map(entry).collect();
    }

    /// Notes that a client is alive, and where.
    pub fn renew(&mut self, holder: ClientId, host: &str, now_ms: u64) {
        self.last_caller.0 = holder;
        host.clone_into(&mut self.last_caller.1);
        let Some(lease) = self.leases.get_mut(&holder) else { return };
        if lease.host != host {
            host.clone_into(&mut lease.host);
        }
        if lease.renewed_ms != now_ms {
            self.order.remove(&(lease.renewed_ms, holder));
            lease.renewed_ms = now_ms;
            self.order.insert((now_ms, holder));
        }
    }

    /// Machine from which the holder of a lease last called; empty without a lease, or if it has not called since the start.
    pub fn host(&self, holder: ClientId) -> &str {
        self.leases.get(&holder).map_or("", |lease| &lease.host)
    }

    /// Notes that `holder` writes `file`.
    pub fn add(&mut self, holder: ClientId, file: InodeId) {
        let (renewed_ms, last_caller) = (self.now_ms, &self.last_caller);
        let lease = self.leases.entry(holder).or_insert_with(|| {
            let host = if last_caller.0 == holder { last_caller.1.clone() } else { String::new() };
            Lease { renewed_ms, host, files: BTreeSet::new() }
        });
        self.order.insert((lease.renewed_ms, holder));
        lease.files.insert(file);
    }

    /// Notes that `holder` no longer writes `file`.
    pub fn remove(&mut self, holder: ClientId, file: InodeId) {
        if let Some(lease) = self.leases.get_mut(&holder) {
            lease.files.remove(&file);
            if lease.files.is_empty() {
                self.order.remove(&(lease.renewed_ms, holder));
                self.leases.remove(&holder);
            }
        }
    }

    /// Every file being written and its holder, in order of files.
    pub fn open_files(&self) -> Vec<(InodeId, ClientId)> {
        let files_of = |(holder, lease): (&ClientId, &Lease)| {
            let holder = *holder;
            lease.files.iter().map(move |file| (*file, holder)).collect::<Vec<_>>()
        };
        let mut files: Vec<_> = self.leases.iter().flat_map(files_of).collect();
        files.sort_unstable();
        files
    }

    /// True if `holder` was silent for `limit_ms`, or has no lease.
    pub fn is_expired(&self, holder: ClientId, now_ms: u64, limit_ms: u64) -> bool {
        self.leases
            .get(&holder)
            .is_none_or(|lease| now_ms.saturating_sub(lease.renewed_ms) >= limit_ms)
    }

    /// Up to `count_max` files whose writers were silent for `limit_ms`, the longest silent first.
    pub fn expired(&self, now_ms: u64, limit_ms: u64, count_max: usize) -> Vec<InodeId> {
        self.order
            .iter()
            .take_while(|(renewed_ms, _)| now_ms.saturating_sub(*renewed_ms) >= limit_ms)
            .filter(|(_, holder)| *holder != Leases::RECOVERER)
            .flat_map(|(_, holder)| self.files(*holder))
            .take(count_max)
            .collect()
    }

    /// Files of a holder.
    pub fn files(&self, holder: ClientId) -> impl Iterator<Item = InodeId> {
        self.leases.get(&holder).into_iter().flat_map(|lease| lease.files.iter().copied())
    }

    /// All open files.
    pub fn all_files(&self) -> impl Iterator<Item = InodeId> {
        self.leases.values().flat_map(|lease| lease.files.iter().copied())
    }

    /// Open files.
    pub fn file_count(&self) -> usize {
        self.leases.values().map(|lease| lease.files.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId([1; 16]);
    const B: ClientId = ClientId([2; 16]);

    #[test]
    fn only_silent_holders_expire_and_renewal_counts() {
        let mut leases = Leases::default();
        leases.set_now(100);
        leases.add(A, InodeId(1));
        leases.add(A, InodeId(2));
        leases.add(B, InodeId(3));
        leases.renew(B, "b", 150);
        assert_eq!((leases.host(A), leases.host(B)), ("", "b"));
        assert!(leases.expired(159, 60, 10).is_empty());
        assert_eq!(leases.expired(160, 60, 10), [InodeId(1), InodeId(2)]);
        assert_eq!(leases.expired(160, 60, 1), [InodeId(1)]);
        assert_eq!(leases.expired(210, 60, 10).len(), 3);
        leases.remove(A, InodeId(1));
        leases.remove(A, InodeId(2));
        assert!(leases.is_expired(A, 100, 60) && !leases.is_expired(B, 209, 60));
        assert_eq!(leases.expired(210, 60, 10), [InodeId(3)]);
        assert_eq!(leases.file_count(), 1);
        leases.renew(A, "a", 220);
        leases.add(A, InodeId(4));
        assert_eq!(leases.host(A), "a", "from its first file on");
    }

    #[test]
    fn time_in_which_nobody_was_heard_is_nobodys_silence() {
        let mut leases = Leases::default();
        leases.set_now(100_000);
        leases.add(A, InodeId(1));
        leases.add(B, InodeId(2));
        leases.renew(B, "b", 100_400);
        leases.set_now(100_500);
        leases.set_now(190_500);
        assert!(!leases.is_expired(A, 190_500, 501) && leases.is_expired(A, 190_500, 500));
        assert!(!leases.is_expired(B, 190_500, 101) && leases.is_expired(B, 190_500, 100));
        assert_eq!(leases.expired(190_500, 100, 10), [InodeId(1), InodeId(2)]);
        // Turns as they are without a stall.
        (190_500..=195_500).step_by(1000).for_each(|now| leases.set_now(now));
        assert!(leases.is_expired(A, 195_500, 5500) && !leases.is_expired(A, 195_500, 5501));
    }
}
