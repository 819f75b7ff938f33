//! Lanes: the calls of one process that wait for each other, so that they share requests.
//!
//! Invariants: at most [`UNDER_WAY_MAX`] requests of a lane are under way, and while a call waits, so many are. A call waits only behind calls of its lane, which
//! are answered as soon as it is, and no longer than [`WAIT_MAX`]: then it leaves its lane. One whose bundle came to nothing waits for a place like any other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use protocol::wire::bundle;
use tokio::sync::oneshot;

/// Requests of a lane that are under way at once: the daemon works on one while others are on the network or wait for the disk. Of 1, 2, 4 and 8 this is the
/// fastest with 8 clients and with 32.
const UNDER_WAY_MAX: usize = 4;
/// Longest wait for a place, default 100 ms. Calls of a lane are answered within milliseconds, so a lane that does not move for so long is held up by requests
/// that hang, and nobody else's call shall wait for them. Where a daemon is only slow, calls lose no more by it than what a shared request spares.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Calls that are answered equally soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// They read a little of the state.
    Reads,
    /// They wait for the log.
    Changes,
}

/// The lanes of a client. `P` is a place among the requests that are under way.
#[derive(Debug)]
pub(super) struct Lanes<P> {
    reads: Mutex<Queue<P>>,
    changes: Mutex<Queue<P>>,
    /// [`WAIT_MAX`], but for tests.
    pub(super) wait_max: Duration,
}

impl<P> Default for Lanes<P> {
    fn default() -> Self {
        Lanes { reads: Mutex::default(), changes: Mutex::default(), wait_max: WAIT_MAX }
    }
}

#[derive(Debug)]
struct Queue<P> {
    under_way: usize,
    waiting: VecDeque<Waiting<P>>,
    /// Number of the next call that waits.
    next: u64,
}

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Queue { under_way: 0, waiting: VecDeque::new(), next: 0 }
    }
}

/// A call of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    pub(super) message: &'a Bytes,
    /// When its caller gives up.
    pub(super) deadline: Instant,
    /// It shares no request: one that it shared came to nothing.
    pub(super) goes_alone: bool,
}

/// A call that waits for its place in a request.
#[derive(Debug)]
pub(super) struct Waiting<P> {
    pub(super) message: Bytes,
    pub(super) deadline: Instant,
    pub(super) turn: oneshot::Sender<Turn<P>>,
    goes_alone: bool,
    number: u64,
}

/// How a call's wait ends.
#[derive(Debug)]
pub(super) enum Turn<P> {
    /// It was in a request, and this is its answer.
    Answered(Bytes),
    /// It goes as a request of its own.
    Goes(P),
}

/// What a call does in its lane.
pub(super) enum Entered<P> {
    /// It is too long to share a request, and goes alone.
    Beside,
    /// It goes at once, as a request; [`Lanes::next`] must be asked when that has come back.
    Goes,
    /// It waits for its turn, under this number. If that never comes, its request came to nothing.
    Waits(u64, oneshot::Receiver<Turn<P>>),
}

impl<P> Lanes<P> {
    pub(super) fn enter(&self, lane: Lane, call: Call<'_>) -> Entered<P> {
        if call.message.len() > bundle::MESSAGE_BYTES_MAX {
            return Entered::Beside;
        }
        let mut queue = self.of(lane).lock();
        if queue.under_way < UNDER_WAY_MAX {
            queue.under_way += 1;
            return Entered::Goes;
        }
        let (turn, receiver) = oneshot::channel();
        let number = queue.next;
        queue.next += 1;
        let Call { message, deadline, goes_alone } = call;
        let message = message.clone();
        queue.waiting.push_back(Waiting { message, deadline, turn, goes_alone, number });
        Entered::Waits(number, receiver)
    }

    /// A call does not wait any longer; false if it is in a request already.
    pub(super) fn leave(&self, lane: Lane, number: u64) -> bool {
        let mut queue = self.of(lane).lock();
        let at = queue.waiting.iter().position(|waiting| waiting.number == number);
        at.and_then(|at| queue.waiting.remove(at)).is_some()
    }

    /// A request has come back: the calls of the next one, which is under way now, at most so many; none if none waits.
    pub(super) fn next(&self, lane: Lane, messages_max: usize) -> Vec<Waiting<P>> {
        let mut queue = self.of(lane).lock();
        let mut next: Vec<Waiting<P>> = Vec::new();
        while next.len() < messages_max
            && let Some(waiting) = queue.waiting.pop_front()
        {
            if waiting.goes_alone && !next.is_empty() {
                queue.waiting.push_front(waiting);
                break;
            }
            let is_whole = waiting.goes_alone;
            // A caller that does not wait any more need not be answered.
            if !waiting.turn.is_closed() {
                next.push(waiting);
                if is_whole {
                    break;
                }
            }
        }
        if next.is_empty() {
            queue.under_way -= 1;
        }
        next
    }

    fn of(&self, lane: Lane) -> &Mutex<Queue<P>> {
        match lane {
            Lane::Reads => &self.reads,
            Lane::Changes => &self.changes,
        }
    }

    /// Requests that are under way, and calls that wait.
    #[cfg(test)]
    pub(super) fn counts(&self, lane: Lane) -> (usize, usize) {
        let queue = self.of(lane).lock();
        (queue.under_way, queue.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(message: &Bytes) -> Call<'_> {
        Call { message, deadline: Instant::now(), goes_alone: false }
    }

    type Wait = (u64, oneshot::Receiver<Turn<()>>);

    fn enter_as(lanes: &Lanes<()>, number: u8, goes_alone: bool) -> Option<Wait> {
        let message = Bytes::from(vec![number]);
        match lanes.enter(Lane::Reads, Call { goes_alone, ..call(&message) }) {
            Entered::Goes => None,
            Entered::Waits(number, receiver) => Some((number, receiver)),
            Entered::Beside => panic!("a short message"),
        }
    }

    fn enter(lanes: &Lanes<()>, number: u8) -> Option<Wait> {
        enter_as(lanes, number, false)
    }

    fn next_of(lanes: &Lanes<()>) -> Vec<Waiting<()>> {
        lanes.next(Lane::Reads, bundle::MESSAGES_MAX)
    }

    fn numbers(calls: &[Waiting<()>]) -> Vec<u8> {
        calls.iter().map(|call| call.message[0]).collect()
    }

    #[test]
    fn calls_wait_only_while_enough_are_under_way_and_go_together_in_their_order() {
        let lanes = Lanes::<()>::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let mut waiting: Vec<_> = (1..=5).map(|number| enter(&lanes, number).unwrap()).collect();
        assert!(matches!(lanes.enter(Lane::Changes, call(&Bytes::new())), Entered::Goes));
        // Whoever gave up is not sent.
        drop(waiting.remove(1));
        let next = next_of(&lanes);
        assert_eq!(numbers(&next), [1, 3, 4, 5]);
        // Their request is under way: a further call waits.
        let _late = enter(&lanes, 6).unwrap();
        assert_eq!(numbers(&next_of(&lanes)), [6]);
        (0..UNDER_WAY_MAX).for_each(|_| assert!(next_of(&lanes).is_empty()));
        assert!(enter(&lanes, 7).is_none(), "none is under way any more");
    }

    #[test]
    fn a_request_has_room_for_so_many() {
        let lanes = Lanes::<()>::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let count = bundle::MESSAGES_MAX + 2;
        let _waiting: Vec<_> = (0..count).map(|_| enter(&lanes, 1).unwrap()).collect();
        assert_eq!(next_of(&lanes).len(), bundle::MESSAGES_MAX);
        assert_eq!(next_of(&lanes).len(), 2);
    }

    #[test]
    fn calls_whose_bundle_came_to_nothing_have_a_place_each_and_nobody_else_in_it() {
        let lanes = Lanes::<()>::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let alone = [false, true, true, false, false];
        let _waiting: Vec<_> =
            (1..).zip(alone).map(|(n, alone)| enter_as(&lanes, n, alone).unwrap()).collect();
        for expected in [&[1][..], &[2], &[3], &[4, 5]] {
            assert_eq!(numbers(&next_of(&lanes)), expected);
            assert_eq!(lanes.counts(Lane::Reads).0, UNDER_WAY_MAX);
        }
        // Where the daemon takes no bundles, neither do others.
        let _waiting: Vec<_> = (6..=7).map(|n| enter(&lanes, n).unwrap()).collect();
        assert_eq!(numbers(&lanes.next(Lane::Reads, 1)), [6]);
        assert_eq!(numbers(&lanes.next(Lane::Reads, 1)), [7]);
    }

    #[test]
    fn a_call_leaves_its_lane_unless_it_is_in_a_request() {
        let lanes = Lanes::<()>::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let waiting: Vec<_> = (1..=3).map(|n| enter(&lanes, n).unwrap()).collect();
        assert!(lanes.leave(Lane::Reads, waiting[1].0));
        assert!(!lanes.leave(Lane::Reads, waiting[1].0));
        assert_eq!(numbers(&next_of(&lanes)), [1, 3]);
        assert!(!lanes.leave(Lane::Reads, waiting[0].0), "it is under way");
    }

    #[test]
    fn long_messages_go_beside_their_lane() {
        let lanes = Lanes::<()>::default();
        let message = |bytes| Bytes::from(vec![0; bytes]);
        let enter = |bytes| lanes.enter(Lane::Reads, call(&message(bytes)));
        (0..UNDER_WAY_MAX)
            .for_each(|_| assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX), Entered::Goes)));
        assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX), Entered::Waits(..)));
        assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX + 1), Entered::Beside));
    }
}
