//! Lanes: the calls of one process that wait for each other, so that they share requests.
//!
//! Invariants: at most [`UNDER_WAY_MAX`] requests of a lane are under way, and while a call waits, so many are; a call waits only behind calls of its lane,
//! which are answered as soon as it is.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use protocol::wire::bundle;
use tokio::sync::oneshot;

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

/// A call that waits for its place in a request.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) message: Bytes,
    pub(super) timeout: Duration,
    pub(super) answer: oneshot::Sender<Bytes>,
}

/// What a call does in its lane.
pub(super) enum Entered {
    /// It is too long to share a request, and goes alone.
    Beside,
    /// It goes at once, as a request; [`Lanes::next`] must be asked when that has come back.
    Goes,
    /// It waits for its answer. If that never comes, it goes alone.
    Waits(oneshot::Receiver<Bytes>),
}

impl Lanes {
    pub(super) fn enter(&self, lane: Lane, message: &Bytes, timeout: Duration) -> Entered {
        if message.len() > bundle::MESSAGE_BYTES_MAX {
            return Entered::Beside;
        }
        let mut queue = self.of(lane).lock();
        if queue.under_way < UNDER_WAY_MAX {
            queue.under_way += 1;
            return Entered::Goes;
        }
        let (answer, receiver) = oneshot::channel();
        queue.waiting.push_back(Waiting { message: message.clone(), timeout, answer });
        Entered::Waits(receiver)
    }

    /// A request has come back: the calls of the next one, which is under way now; none if none waits.
    pub(super) fn next(&self, lane: Lane) -> Vec<Waiting> {
        let mut queue = self.of(lane).lock();
        let mut next = Vec::new();
        while next.len() < bundle::MESSAGES_MAX
            && let Some(waiting) = queue.waiting.pop_front()
        {
            // A caller that does not wait any more need not be answered.
            if !waiting.answer.is_closed() {
                next.push(waiting);
            }
        }
        if next.is_empty() {
            queue.under_way -= 1;
        }
        next
    }

    fn of(&self, lane: Lane) -> &Mutex<Queue> {
        match lane {
            Lane::Reads => &self.reads,
            Lane::Changes => &self.changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(1);

    fn enter(lanes: &Lanes, number: u8) -> Option<oneshot::Receiver<Bytes>> {
        match lanes.enter(Lane::Reads, &Bytes::from(vec![number]), TIME) {
            Entered::Goes => None,
            Entered::Waits(receiver) => Some(receiver),
            Entered::Beside => panic!("a short message"),
        }
    }

    fn numbers(calls: &[Waiting]) -> Vec<u8> {
        calls.iter().map(|call| call.message[0]).collect()
    }

    #[test]
    fn calls_wait_only_while_enough_are_under_way_and_go_together_in_their_order() {
        let lanes = Lanes::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let mut waiting: Vec<_> = (1..=5).map(|number| enter(&lanes, number).unwrap()).collect();
        assert!(matches!(lanes.enter(Lane::Changes, &Bytes::new(), TIME), Entered::Goes));
        // Whoever gave up is not sent.
        drop(waiting.remove(1));
        let next = lanes.next(Lane::Reads);
        assert_eq!(numbers(&next), [1, 3, 4, 5]);
        // Their request is under way: a further call waits.
        let _late = enter(&lanes, 6).unwrap();
        assert_eq!(numbers(&lanes.next(Lane::Reads)), [6]);
        (0..UNDER_WAY_MAX).for_each(|_| assert!(lanes.next(Lane::Reads).is_empty()));
        assert!(enter(&lanes, 7).is_none(), "none is under way any more");
    }

    #[test]
    fn a_request_has_room_for_so_many() {
        let lanes = Lanes::default();
        (0..UNDER_WAY_MAX).for_each(|_| assert!(enter(&lanes, 0).is_none()));
        let count = bundle::MESSAGES_MAX + 2;
        let _waiting: Vec<_> = (0..count).map(|_| enter(&lanes, 1).unwrap()).collect();
        assert_eq!(lanes.next(Lane::Reads).len(), bundle::MESSAGES_MAX);
        assert_eq!(lanes.next(Lane::Reads).len(), 2);
    }

    #[test]
    fn long_messages_go_beside_their_lane() {
        let lanes = Lanes::default();
        let message = |bytes| Bytes::from(vec![0; bytes]);
        let enter = |bytes| lanes.enter(Lane::Reads, &message(bytes), TIME);
        (0..UNDER_WAY_MAX)
            .for_each(|_| assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX), Entered::Goes)));
        assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX), Entered::Waits(_)));
        assert!(matches!(enter(bundle::MESSAGE_BYTES_MAX + 1), Entered::Beside));
    }
}
