//! The messages to the NameNode: changes gathered while one is in flight, and full reports cut into parts.

use std::collections::{BTreeMap, BTreeSet};

use protocol::BlockId;
use protocol::datanode::{Changes, FullReport, REPORT_REPLICAS_MAX, Replica as ReportedReplica};

use super::replica::Replica;

/// Changes not yet reported to the NameNode. Of several changes to one block, only the last is reported.
#[derive(Debug, Default)]
pub struct PendingChanges {
    changes: BTreeMap<BlockId, Option<ReportedReplica>>,
    bad: BTreeMap<BlockId, ReportedReplica>,
    unfinished: BTreeMap<BlockId, ReportedReplica>,
    copies_failed: BTreeSet<BlockId>,
}

impl PendingChanges {
    /// A replica was finalized.
    pub fn received(&mut self, replica: &Replica) {
        self.changes.insert(replica.block, Some(reported(replica)));
        self.unfinished.remove(&replica.block);
    }

    /// A replica is gone.
    pub fn deleted(&mut self, block: BlockId) {
        self.changes.insert(block, None);
        self.bad.remove(&block);
        self.unfinished.remove(&block);
    }

    /// A replica was left by its writer before it was complete.
    pub fn unfinished(&mut self, replica: &Replica) {
        self.unfinished.insert(replica.block, reported(replica));
    }

    /// A replica cannot be read or fails its checksums.
    pub fn bad(&mut self, replica: &Replica) {
        self.bad.insert(replica.block, reported(replica));
    }

    /// A copy that was ordered could not be sent.
    pub fn copy_failed(&mut self, block: BlockId) {
        self.copies_failed.insert(block);
    }

    /// True if there is nothing to report.
    fn is_empty(&self) -> bool {
        self.changes.is_empty()
            && self.bad.is_empty()
            && self.unfinished.is_empty()
            && self.copies_failed.is_empty()
    }

    /// What fits into one message; `None` if there is nothing.
    pub fn take(&mut self) -> Option<Changes> {
        if self.is_empty() {
            return None;
        }
        let mut message = Changes::default();
        let mut room = REPORT_REPLICAS_MAX;
        for (block, change) in pop(&mut self.changes, &mut room) {
            match change {
                Some(replica) => message.received.push(replica),
                None => message.deleted.push(block),
            }
        }
        message.bad.extend(pop(&mut self.bad, &mut room).map(|(_, replica)| replica));
        message.unfinished.extend(pop(&mut self.unfinished, &mut room).map(|(_, replica)| replica));
        while room > 0
            && let Some(block) = self.copies_failed.pop_first()
        {
            message.copies_failed.push(block);
            room -= 1;
        }
        Some(message)
    }

    /// Takes back a message that did not arrive; changes made since then take precedence.
    pub fn give_back(&mut self, message: Changes) {
        for replica in message.bad {
            if !matches!(self.changes.get(&replica.block), Some(None)) {
                self.bad.entry(replica.block).or_insert(replica);
            }
        }
        for replica in message.received {
            self.changes.entry(replica.block).or_insert(Some(replica));
        }
        for block in message.deleted {
            self.changes.entry(block).or_insert(None);
        }
        for replica in message.unfinished {
            if !self.changes.contains_key(&replica.block) {
                self.unfinished.entry(replica.block).or_insert(replica);
            }
        }
        self.copies_failed.extend(message.copies_failed);
    }
}

/// Takes entries in order, as far as there is room for them.
fn pop<V>(from: &mut BTreeMap<BlockId, V>, room: &mut usize) -> impl Iterator<Item = (BlockId, V)> {
    std::iter::from_fn(move || {
        *room = room.checked_sub(1)?;
        let entry = from.pop_first();
        *room += usize::from(entry.is_none());
        entry
    })
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
