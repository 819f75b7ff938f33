//! What must wait for the log: releases and views, let out in the order of txids.
//!
//! Invariants:
//! - nothing leaves under a txid before the log reported it, or a later one, committed;
//! - everything leaves in the order of txids, and within one txid in the order in which it came, whichever thread lets it out: while one
//!   thread lets out, others leave their part to it;
//! - after the end nothing leaves: all that waits, and all that comes, is dropped.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use journal::Txid;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::error::End;
use crate::log::Follower;

/// Something that waits for the edits before it.
pub trait Release: Send + 'static {
    /// The part of it that the machine must handle; [`std::convert::Infallible`] if there never is one.
    type Due: Send + 'static;

    /// Lets it out, or gives back what needs the state. Often on the log's thread: must not wait.
    fn release(self) -> Option<Self::Due>;
}

/// Something that waits.
pub(crate) enum Waiting<R> {
    Release(R),
    /// A reader, who has the answer already.
    View(oneshot::Sender<()>),
}

/// All that waits.
pub(crate) struct Gate<R: Release> {
    /// Views of transactions up to here pass; zero after the end.
    open: AtomicU64,
    queue: Mutex<Queue<R>>,
    end: Arc<OnceLock<End>>,
    wake: Wake,
    on_end: Wake,
}

/// Called when the machine has something to take, or at the end.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

struct Queue<R: Release> {
    committed: u64,
    /// Ascending by txid.
    waiting: VecDeque<(u64, Vec<Waiting<R>>)>,
    /// Let out, for the machine.
    due: Vec<R::Due>,
    /// Whether the machine was woken for `due`.
    is_woken: bool,
    is_letting_out: bool,
}

impl<R: Release> Gate<R> {
    /// `wake` is called when something is due for the machine, `on_end` at the end.
    pub(crate) fn new(end: Arc<OnceLock<End>>, wake: Wake, on_end: Wake) -> Self {
        let queue = Queue {
            committed: 0,
            waiting: VecDeque::new(),
            due: Vec::new(),
            is_woken: false,
            is_letting_out: false,
        };
        Gate { open: AtomicU64::new(0), queue: Mutex::new(queue), end, wake, on_end }
    }

    /// Holds back what a turn leads to; returns what is due for the machine now.
    pub(crate) fn push(&self, txid: Txid, waiting: Vec<Waiting<R>>) -> Vec<R::Due> {
        let mut queue = self.queue.lock();
        if !waiting.is_empty() {
            if self.end.get().is_some() {
                drop(queue);
                // This notifies receivers, so not under the lock.
                drop(waiting);
                return Vec::new();
            }
            let place = queue.place(txid.0);
            match place.is_empty() {
                true => *place = waiting,
                false => place.extend(waiting),
            }
            Self::let_out(&mut queue);
        }
        queue.is_woken = false;
        std::mem::take(&mut queue.due)
    }

    /// Returns once `txid` is committed.
    pub(crate) async fn passed(&self, txid: Txid) -> Result<(), End> {
        if self.open.load(Ordering::Acquire) >= txid.0 {
            return Ok(());
        }
        let (sender, passed) = oneshot::channel();
        {
            let mut queue = self.queue.lock();
            if let Some(end) = self.end.get() {
                return Err(end.clone());
            }
            queue.place(txid.0).push(Waiting::View(sender));
            self.let_out_and_wake(queue);
        }
        passed.await.map_err(|_| self.end())
    }

    /// The last committed transaction.
    pub(crate) fn txid(&self) -> Txid {
        Txid(self.queue.lock().committed)
    }

    /// Ends all waiting, for good; the first reason counts.
    pub(crate) fn close(&self, end: End) {
        let dropped = {
            let mut queue = self.queue.lock();
            if self.end.set(end).is_err() {
                return;
            }
            self.open.store(0, Ordering::Release);
            (std::mem::take(&mut queue.waiting), std::mem::take(&mut queue.due))
        };
        drop(dropped);
        (self.on_end)();
    }

    fn end(&self) -> End {
        self.end.get().cloned().unwrap_or(End::Stopping)
    }

    fn let_out_and_wake(&self, mut queue: MutexGuard<'_, Queue<R>>) {
        Self::let_out(&mut queue);
        let wakes = !queue.due.is_empty() && !std::mem::replace(&mut queue.is_woken, true);
        drop(queue);
        if wakes {
            (self.wake)();
        }
    }

    /// Lets out all that may leave, unlocked.
    fn let_out(queue: &mut MutexGuard<'_, Queue<R>>) {
        if std::mem::replace(&mut queue.is_letting_out, true) {
            return;
        }
        loop {
            let committed = queue.committed;
            let count = queue.waiting.partition_point(|(txid, _)| *txid <= committed);
            if count == 0 {
                break;
            }
            let leaving: Vec<_> = queue.waiting.drain(..count).collect();
            let due: Vec<R::Due> = MutexGuard::unlocked(queue, || {
                leaving.into_iter().flat_map(|(_, all)| all).filter_map(Waiting::let_out).collect()
            });
            queue.due.extend(due);
        }
        queue.is_letting_out = false;
    }
}

impl<R: Release> Waiting<R> {
    pub(crate) fn let_out(self) -> Option<R::Due> {
        match self {
            Waiting::Release(release) => release.release(),
            Waiting::View(sender) => {
                // A reader that is gone has lost its connection.
                let _ = sender.send(());
                None
            }
        }
    }
}

impl<R: Release> Follower for Gate<R> {
    fn committed(&self, txid: Txid) {
        let mut queue = self.queue.lock();
        if self.end.get().is_some() {
            return;
        }
        queue.committed = queue.committed.max(txid.0);
        self.open.store(queue.committed, Ordering::Release);
        self.let_out_and_wake(queue);
    }

    fn ended(&self, end: End) {
        self.close(end);
    }
}

impl<R: Release> Queue<R> {
    /// The list of what waits for `txid`.
    fn place(&mut self, txid: u64) -> &mut Vec<Waiting<R>> {
        let index = self.waiting.partition_point(|(other, _)| *other < txid);
        if self.waiting.get(index).is_none_or(|(other, _)| *other != txid) {
            self.waiting.insert(index, (txid, Vec::new()));
        }
        &mut self.waiting[index].1
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    /// What became of releases: their number, and whether they left.
    type Fates = Arc<Mutex<Vec<(u64, bool)>>>;

    /// Notes when it leaves, and when it is dropped instead.
    struct Noted {
        number: u64,
        fates: Fates,
        has_left: bool,
    }

    impl Release for Noted {
        type Due = u64;

        fn release(mut self) -> Option<u64> {
            self.has_left = true;
            self.fates.lock().push((self.number, true));
            self.number.is_multiple_of(3).then_some(self.number)
        }
    }

    impl Drop for Noted {
        fn drop(&mut self) {
            if !self.has_left {
                self.fates.lock().push((self.number, false));
            }
        }
    }

    fn gate() -> Gate<Noted> {
        Gate::new(Arc::default(), Box::new(|| {}), Box::new(|| {}))
    }

    #[derive(Clone, Debug)]
    enum Act {
        /// A turn of this many edits leads to this many releases.
        Turn(u64, u64),
        /// A reader saw a transaction so far back.
        View(u64),
        /// The log commits this many more, up to what it has.
        Commit(u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            (0..3u64, 0..4u64).prop_map(|(edits, releases)| Act::Turn(edits, releases)),
            (0..4u64).prop_map(Act::View),
            (0..5u64).prop_map(Act::Commit),
        ];
        prop::collection::vec(act, 0..60)
    }

    proptest! {
        #[test]
        fn nothing_leaves_early_or_out_of_order_and_the_end_drops_the_rest(acts in acts()) {
            let (gate, fates) = (gate(), Fates::default());
            let (mut txid, mut committed, mut number) = (0, 0, 0);
            // By the model: number of each release and its transaction, in the order of leaving.
            let mut all: Vec<(u64, u64)> = Vec::new();
            let mut due = Vec::new();
            let mut views = Vec::new();
            for act in acts {
                match act {
                    Act::Turn(edits, releases) => {
                        txid += edits;
                        let numbers = number..number + releases;
                        number += releases;
                        let noted = |number| Noted { number, fates: fates.clone(), has_left: false };
                        let waiting = numbers.clone().map(|n| Waiting::Release(noted(n))).collect();
                        due.extend(gate.push(Txid(txid), waiting));
                        all.extend(numbers.map(|number| (number, txid)));
                    }
                    Act::View(back) => {
                        let seen = txid.saturating_sub(back);
                        let (sender, receiver) = oneshot::channel();
                        gate.push(Txid(seen), vec![Waiting::View(sender)]);
                        views.push((seen, receiver));
                    }
                    Act::Commit(more) => {
                        committed = txid.min(committed + more);
                        gate.committed(Txid(committed));
                    }
                }
                let left: Vec<(u64, bool)> =
                    all.iter().filter(|(_, at)| *at <= committed).map(|(n, _)| (*n, true)).collect();
                prop_assert_eq!(&*fates.lock(), &left);
                for (seen, receiver) in &mut views {
                    prop_assert_eq!(receiver.is_terminated() || receiver.try_recv().is_ok(), *seen <= committed);
                }
            }
            gate.close(End::Lost);
            gate.committed(Txid(txid));
            let fates = fates.lock();
            prop_assert_eq!(fates.len(), all.len());
            for ((number, at), (found, has_left)) in all.iter().zip(&*fates) {
                prop_assert_eq!((found, *has_left), (number, *at <= committed));
            }
        }
    }

    /// The log commits while the host pushes: whichever thread lets out, all leave in order, and what is due is announced or taken.
    #[test]
    fn two_threads_let_out_in_one_order() {
        const TURNS: u64 = 20_000;
        let (fates, woken) = (Fates::default(), Arc::new(AtomicU64::new(0)));
        let wake = {
            let woken = Arc::clone(&woken);
            move || {
                woken.fetch_add(1, Ordering::SeqCst);
            }
        };
        let gate = Arc::new(Gate::new(Arc::default(), Box::new(wake), Box::new(|| {})));
        let appended = Arc::new(AtomicU64::new(0));
        let log = {
            let (gate, appended) = (Arc::clone(&gate), Arc::clone(&appended));
            thread::spawn(move || {
                let mut committed = 0;
                while committed < TURNS {
                    committed = appended.load(Ordering::Acquire);
                    gate.committed(Txid(committed));
                }
            })
        };
        let mut due = Vec::new();
        for number in 1..=TURNS {
            appended.store(number, Ordering::Release);
            let noted = Noted { number, fates: fates.clone(), has_left: false };
            due.extend(gate.push(Txid(number), vec![Waiting::Release(noted)]));
        }
        log.join().unwrap();
        let woken = woken.load(Ordering::SeqCst);
        let rest = gate.push(Txid(TURNS), Vec::new());
        assert!(rest.is_empty() || woken > 0);
        due.extend(rest);
        assert_eq!(due, (1..=TURNS).filter(|number| number.is_multiple_of(3)).collect::<Vec<_>>());
        assert_eq!(*fates.lock(), (1..=TURNS).map(|number| (number, true)).collect::<Vec<_>>());
    }
}
