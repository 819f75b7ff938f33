//! The messages to the NameNode: changes gathered while one is in flight, and full reports cut into parts.
//!
//! Invariant: of each block the last state counts, whatever became of the messages that told earlier ones. So there is one entry for each block, and one rule for
//! what follows upon what (`Last::then`).

use std::collections::{BTreeMap, BTreeSet};

use protocol::BlockId;
use protocol::datanode::{Changes, FullReport, REPORT_REPLICAS_MAX, Replica as ReportedReplica};

use super::replica::Replica;

/// Changes not yet reported to the NameNode. Of several changes to one block, only the last is reported.
///
/// There are never more entries than blocks that had a replica here since the NameNode was last heard: it alone makes new ones.
#[derive(Debug, Default)]
pub struct PendingChanges {
    changes: BTreeMap<BlockId, Last>,
    /// No states of replicas: the NameNode waits for the end of its orders.
    copies_failed: BTreeSet<BlockId>,
}

/// The state of a block here that the NameNode does not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// There is no replica.
    Deleted,
    /// There is one.
    Held {
        replica: ReportedReplica,
        /// `None`: the NameNode knows it, and not that it is bad.
        news: Option<News>,
        is_bad: bool,
    },
}

/// What the NameNode is to be told of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Finalized,
    Unfinished,
}

impl Last {
    fn held(replica: ReportedReplica, news: News) -> Self {
        Last::Held { replica, news: Some(news), is_bad: false }
    }

    fn bad(replica: ReportedReplica) -> Self {
        Last::Held { replica, news: None, is_bad: true }
    }

    /// The state after this one and then `next`: that alone, unless it says no more than that the same replica is bad.
    fn then(self, next: Last) -> Last {
        match (self, next) {
            (
                Last::Held { replica, news, .. },
                Last::Held { replica: bad, news: None, is_bad: true },
            ) if replica.stamp == bad.stamp => Last::Held { replica, news, is_bad: true },
            (_, next) => next,
        }
    }

    /// Entries in a message.
    fn count(self) -> usize {
        match self {
            Last::Deleted => 1,
            Last::Held { news, is_bad, .. } => usize::from(news.is_some()) + usize::from(is_bad),
        }
    }

    fn put(self, block: BlockId, message: &mut Changes) {
        match self {
            Last::Deleted => message.deleted.push(block),
            Last::Held { replica, news, is_bad } => {
                match news {
                    Some(News::Finalized) => message.received.push(replica),
                    Some(News::Unfinished) => message.unfinished.push(replica),
                    None => {}
                }
                if is_bad {
                    message.bad.push(replica);
                }
            }
        }
    }
}

impl PendingChanges {
    /// A replica was finalized.
    pub fn received(&mut self, replica: &Replica) {
        self.add(replica.block, Last::held(reported(replica), News::Finalized));
    }

    /// A replica is gone.
    pub fn deleted(&mut self, block: BlockId) {
        self.add(block, Last::Deleted);
    }

    /// A replica was left by its writer before it was complete.
    pub fn unfinished(&mut self, replica: &Replica) {
        self.add(replica.block, Last::held(reported(replica), News::Unfinished));
    }

    /// A replica cannot be read or fails its checksums.
    pub fn bad(&mut self, replica: &Replica) {
        self.add(replica.block, Last::bad(reported(replica)));
    }

    /// A copy that was ordered could not be sent, or a recovery not be led to its end.
    pub fn copy_failed(&mut self, block: BlockId) {
        self.copies_failed.insert(block);
    }

    fn add(&mut self, block: BlockId, next: Last) {
        let last = self.changes.get(&block).map_or(next, |before| before.then(next));
        self.changes.insert(block, last);
    }

    /// True if there is nothing to report.
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.copies_failed.is_empty()
    }

    /// What fits into one message; `None` if there is nothing.
    pub fn take(&mut self) -> Option<Changes> {
        if self.is_empty() {
            return None;
        }
        let mut message = Changes::default();
        let mut room = REPORT_REPLICAS_MAX;
        while let Some(next) = self.changes.first_entry()
            && let Some(left) = room.checked_sub(next.get().count())
        {
            let (block, last) = next.remove_entry();
            last.put(block, &mut message);
            room = left;
        }
        while room > 0
            && let Some(block) = self.copies_failed.pop_first()
        {
            message.copies_failed.push(block);
            room -= 1;
        }
        Some(message)
    }

    /// Takes back a message that did not arrive; changes made since then follow upon it.
    pub fn give_back(&mut self, message: Changes) {
        let mut told = PendingChanges::default();
        // In the order in which the NameNode takes them.
        let finalized = message.received.into_iter().map(|one| (one, News::Finalized));
        let unfinished = message.unfinished.into_iter().map(|one| (one, News::Unfinished));
        finalized
            .chain(unfinished)
            .for_each(|(one, news)| told.add(one.block, Last::held(one, news)));
        message.deleted.into_iter().for_each(|block| told.deleted(block));
        message.bad.into_iter().for_each(|one| told.add(one.block, Last::bad(one)));
        for (block, before) in told.changes {
            let last = self.changes.get(&block).map_or(before, |next| before.then(*next));
            self.changes.insert(block, last);
        }
        self.copies_failed.extend(message.copies_failed);
    }
}

/// A full report in parts, ascending by block id over all of them; at least one part.
pub fn full_report(mut replicas: Vec<Replica>) -> Vec<FullReport> {
    replicas.sort_unstable_by_key(|replica| replica.block);
    let part = |(number, replicas): (usize, &[Replica])| {
        let (finalized, unfinished): (Vec<&Replica>, Vec<&Replica>) =
            replicas.iter().partition(|replica| replica.was_finalized());
        FullReport {
            part: u32::try_from(number).expect("a report has far fewer parts than 2^32"),
            last: false,
            finalized: finalized.into_iter().map(reported).collect(),
            unfinished: unfinished.into_iter().map(reported).collect(),
        }
    };
    let mut parts: Vec<FullReport> =
        replicas.chunks(REPORT_REPLICAS_MAX).enumerate().map(part).collect();
    if parts.is_empty() {
        parts.push(part((0, &[])));
    }
    if let Some(last) = parts.last_mut() {
        last.last = true;
    }
    parts
}

fn reported(replica: &Replica) -> ReportedReplica {
    ReportedReplica { block: replica.block, stamp: replica.stamp, length: replica.length }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::replica::State;
    use protocol::GenerationStamp;

    fn replica(block: u64, stamp: u64, state: State) -> Replica {
        Replica { block: BlockId(block), stamp: GenerationStamp(stamp), length: 7, state }
    }

    #[test]
    fn the_last_change_of_a_block_is_told_even_after_a_lost_message() {
        let mut pending = PendingChanges::default();
        pending.received(&replica(1, 1, State::Finalized));
        pending.received(&replica(2, 1, State::Finalized));
        pending.bad(&replica(2, 1, State::Finalized));
        pending.deleted(BlockId(2));
        pending.copy_failed(BlockId(3));
        let message = pending.take().unwrap();
        assert!(pending.is_empty());
        assert_eq!((message.received.len(), &message.deleted[..]), (1, &[BlockId(2)][..]));
        assert!(message.bad.is_empty());
        pending.bad(&replica(4, 1, State::Finalized));
        pending.bad(&replica(5, 1, State::Finalized));
        let bad = pending.take().unwrap();
        pending.deleted(BlockId(1));
        pending.deleted(BlockId(4));
        pending.give_back(bad);
        pending.give_back(message);
        let again = pending.take().unwrap();
        let deleted = [1, 2, 4].map(BlockId).to_vec();
        assert_eq!((again.received.len(), again.deleted), (0, deleted));
        let bad: Vec<BlockId> = again.bad.iter().map(|replica| replica.block).collect();
        assert_eq!(bad, [BlockId(5)], "what is gone is not bad");
        assert_eq!(again.copies_failed, [BlockId(3)]);
    }

    #[test]
    fn a_replica_that_is_good_again_is_not_told_to_be_bad() {
        let one = replica(1, 1, State::Finalized);
        let mut pending = PendingChanges::default();
        pending.bad(&one);
        pending.received(&one);
        let message = pending.take().unwrap();
        assert_eq!((message.received.len(), message.bad.len()), (1, 0));
        // Nor after its message was lost.
        let mut pending = PendingChanges::default();
        pending.bad(&one);
        let lost = pending.take().unwrap();
        pending.received(&one);
        pending.give_back(lost);
        let message = pending.take().unwrap();
        assert_eq!((message.received.len(), message.bad.len()), (1, 0));
        // One that the NameNode does not know yet is told, and then that it is bad.
        pending.received(&one);
        pending.bad(&one);
        let message = pending.take().unwrap();
        assert_eq!((message.received.len(), message.bad.len()), (1, 1));
    }

    /// What a NameNode that takes messages as ours does believes of the blocks.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    struct Model(BTreeMap<BlockId, (ReportedReplica, bool, bool)>);

    impl Model {
        fn take(&mut self, message: &Changes) {
            for one in &message.received {
                self.0.insert(one.block, (*one, true, false));
            }
            for block in &message.deleted {
                self.0.remove(block);
            }
            for one in &message.unfinished {
                self.0.insert(one.block, (*one, false, false));
            }
            for one in &message.bad {
                let known =
                    self.0.get_mut(&one.block).filter(|(known, ..)| known.stamp == one.stamp);
                known.into_iter().for_each(|(.., is_bad)| *is_bad = true);
            }
        }
    }

    proptest::proptest! {
        /// Messages arrive, arrive without an answer, or are lost, and are given back at any later time before the next.
        #[test]
        fn in_the_end_the_namenode_knows_the_last_state_of_each_block(
            steps in proptest::collection::vec((0..7u8, 1..4u64, 1..3u64), 0..60)
        ) {
            let (mut pending, mut here, mut there) =
                (PendingChanges::default(), Model::default(), Model::default());
            let mut lost = None;
            for (what, block, stamp) in steps {
                let one = replica(block, stamp, State::Finalized);
                let mut change = Changes::default();
                match what {
                    0 => {
                        pending.received(&one);
                        change.received.push(reported(&one));
                    }
                    1 => {
                        pending.deleted(one.block);
                        change.deleted.push(one.block);
                    }
                    2 => {
                        pending.unfinished(&one);
                        change.unfinished.push(reported(&one));
                    }
                    // The store reports only what is there.
                    3 => if let Some((known, ..)) = here.0.get(&one.block).copied() {
                        pending.bad(&Replica { stamp: known.stamp, ..one });
                        change.bad.push(known);
                    },
                    _ if lost.is_some() => lost.take().into_iter().for_each(|one| pending.give_back(one)),
                    4 => pending.take().iter().for_each(|message| there.take(message)),
                    _ => {
                        lost = pending.take();
                        lost.iter().filter(|_| what == 5).for_each(|message| there.take(message));
                    }
                }
                here.take(&change);
            }
            lost.into_iter().for_each(|one| pending.give_back(one));
            while let Some(message) = pending.take() {
                let mut blocks: Vec<BlockId> = message.deleted.clone();
                blocks.extend(message.received.iter().chain(&message.unfinished).map(|r| r.block));
                let count = blocks.len();
                blocks.sort_unstable();
                blocks.dedup();
                proptest::prop_assert_eq!(blocks.len(), count, "one state of each");
                there.take(&message);
            }
            proptest::prop_assert_eq!(here, there);
        }
    }

    /// A DataNode loses a disk with all its replicas at once.
    #[test]
    fn changes_are_as_many_messages_as_the_namenode_takes() {
        let mut pending = PendingChanges::default();
        let count = REPORT_REPLICAS_MAX as u64;
        (0..count + 7).for_each(|block| pending.deleted(BlockId(block)));
        pending.bad(&replica(count + 7, 1, State::Finalized));
        pending.copy_failed(BlockId(1));
        let messages: Vec<Changes> = std::iter::from_fn(|| pending.take()).collect();
        let counts: Vec<usize> = messages.iter().map(Changes::count).collect();
        assert_eq!(counts, [REPORT_REPLICAS_MAX, 9]);
        let deleted = messages.iter().flat_map(|message| &message.deleted);
        assert!(deleted.copied().eq((0..count + 7).map(BlockId)));
        assert_eq!((messages[1].bad.len(), messages[1].copies_failed.len()), (1, 1));
    }

    #[test]
    fn reports_are_cut_in_order_and_end_once() {
        for count in [0, 1, REPORT_REPLICAS_MAX, REPORT_REPLICAS_MAX + 1] {
            let state = |n| if n % 3 == 0 { State::Unfinished } else { State::Finalized };
            let replicas = (0..count as u64).rev().map(|n| replica(n, 1, state(n))).collect();
            let parts = full_report(replicas);
            assert_eq!(parts.iter().filter(|part| part.last).count(), 1);
            assert!(parts.last().unwrap().last);
            let mut all: Vec<BlockId> = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                assert_eq!(part.part as usize, number);
                let mut blocks: Vec<_> = part.finalized.iter().map(|r| r.block).collect();
                blocks.extend(part.unfinished.iter().map(|r| r.block));
                assert!(blocks.len() <= REPORT_REPLICAS_MAX);
                blocks.sort_unstable();
                all.extend(blocks);
            }
            assert!(all.is_sorted() && all.len() == count);
        }
    }
}
