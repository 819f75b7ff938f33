//! HDFS's queues: low redundancy, pending, and invalidate (called doomed here). They hold ids only; `Blocks` decides.
//!
//! ```text
//! too few replicas -> low (by level) -> no room anywhere -> stuck -> (a node comes, space is freed) -> low
//!                      |
//!                      v copy ordered
//!                    pending -> arrived -> out
//!                      | deadline over, or source or target dead -> low
//!                      v the source could not send it
//!                    stuck, until the next tick
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use hashbrown::HashMap;
use protocol::{BlockId, GenerationStamp};

use crate::core::nodes::{Datanodes, NodeIndex};

/// Late replicas that are remembered: some megabytes. Few copies are late, and fewer of those come at all.
const LATE_MAX: usize = 100_000;

/// Blocks with too few replicas.
#[derive(Default, Debug)]
pub struct Low {
    levels: HashMap<BlockId, u8>,
    /// How many are at each level.
    counts: [u64; Low::LEVELS],
    ready: BTreeSet<(u8, BlockId)>,
    stuck: BTreeSet<BlockId>,
    /// Where [`Low::retry_stuck`] continues, so that blocks which stay stuck do not hold up others.
    retry_from: BlockId,
    /// Set when there may be copies to order again: a block became ready, or a source became free.
    pub(in crate::core) changed: bool,
}

impl Low {
    /// Copied first: one replica left, or none in service.
    pub const URGENT: u8 = 0;
    /// Copied last: enough replicas, but all on one rack.
    pub const MISPLACED: u8 = 4;
    /// No good replica, and only one was wanted.
    pub const MISSING_SINGLE: u8 = 5;
    const LEVELS: usize = 6;

    /// The urgency of a block with `live` good replicas where `expected` are wanted: 0 is copied first.
    pub fn level(live: usize, expected: usize) -> u8 {
        match live {
            0 if expected == 1 => Low::MISSING_SINGLE,
            0 => 3,
            1 if expected > 1 => 0,
            _ if live * 3 < expected => 1,
            _ => 2,
        }
    }

    /// Queues a block, or moves it to another level.
    pub fn insert(&mut self, block: BlockId, level: u8) {
        if self.levels.get(&block) == Some(&level) && !self.stuck.contains(&block) {
            return;
        }
        self.remove(block);
        self.levels.insert(block, level);
        self.counts[usize::from(level)] += 1;
        self.ready.insert((level, block));
        self.changed = true;
    }

    /// Takes a block out.
    pub fn remove(&mut self, block: BlockId) {
        if let Some(level) = self.levels.remove(&block) {
            self.counts[usize::from(level)] -= 1;
            self.ready.remove(&(level, block));
            self.stuck.remove(&block);
        }
    }

    /// Sets a block aside until [`Low::retry_stuck`].
    pub fn set_stuck(&mut self, block: BlockId) {
        if let Some(level) = self.levels.get(&block) {
            self.ready.remove(&(*level, block));
            self.stuck.insert(block);
        }
    }

    /// Makes up to `count_max` blocks that were set aside ready again.
    pub fn retry_stuck(&mut self, count_max: usize) {
        let behind = self.stuck.range(self.retry_from..);
        let turn: Vec<BlockId> =
            behind.chain(self.stuck.range(..self.retry_from)).take(count_max).copied().collect();
        for block in turn {
            self.stuck.remove(&block);
            self.retry_from = BlockId(block.0.saturating_add(1));
            if let Some(level) = self.levels.get(&block) {
                self.ready.insert((*level, block));
                self.changed = true;
            }
        }
    }

    /// Up to `count_max` blocks to work on, the most endangered first.
    pub fn ready(&self, count_max: usize) -> Vec<BlockId> {
        self.ready.iter().take(count_max).map(|(_, block)| *block).collect()
    }

    /// The urgency of a block in the queue.
    pub fn level_of(&self, block: BlockId) -> Option<u8> {
        self.levels.get(&block).copied()
    }

    /// Blocks with too few replicas.
    pub fn count(&self) -> usize {
        self.levels.len()
    }

    /// The number of them at a level.
    pub fn count_at(&self, level: u8) -> u64 {
        self.counts.get(usize::from(level)).copied().unwrap_or(0)
    }
}

/// Replicas on their way: copies that were ordered, and acknowledged replicas that are not known to be on disk.
#[derive(Default, Debug)]
pub struct Pending {
    copies: HashMap<BlockId, Vec<Copy>>,
    deadlines: BTreeSet<(u64, BlockId, NodeIndex)>,
    /// Those whose deadline has passed, the oldest first: they are not awaited, and may come nevertheless.
    late: BTreeSet<(BlockId, NodeIndex)>,
    late_order: VecDeque<(BlockId, NodeIndex)>,
}

/// All nodes of a block in a set of pairs.
fn all_of(block: BlockId) -> RangeInclusive<(BlockId, NodeIndex)> {
    (block, NodeIndex(0))..=(block, NodeIndex(u32::MAX))
}

/// One replica under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Copy {
    target: NodeIndex,
    /// Who sends it; `None` if its writer has sent all of it.
    source: Option<NodeIndex>,
    deadline_ms: u64,
}

impl Pending {
    /// Notes a copy that was ordered.
    pub fn insert(
        &mut self,
        nodes: &mut Datanodes,
        block: BlockId,
        (source, target): (NodeIndex, NodeIndex),
        deadline_ms: u64,
    ) {
        nodes.node_mut(source).outgoing += 1;
        let copy = Copy { target, source: Some(source), deadline_ms };
        self.copies.entry(block).or_default().push(copy);
        self.deadlines.insert((deadline_ms, block, target));
    }

    /// Notes that `target` acknowledged a block that it will report once it is on disk.
    pub fn insert_arrival(&mut self, block: BlockId, target: NodeIndex, deadline_ms: u64) {
        self.copies.entry(block).or_default().push(Copy { target, source: None, deadline_ms });
        self.deadlines.insert((deadline_ms, block, target));
    }

    /// Nodes that acknowledged a block and have not reported it.
    pub fn arrivals(&self, block: BlockId) -> impl Iterator<Item = NodeIndex> {
        let copies = self.copies.get(&block).into_iter().flatten();
        copies.filter(|copy| copy.source.is_none()).map(|copy| copy.target)
    }

    /// Gives up the arrival of a replica that its node does not have.
    pub fn remove_arrival(&mut self, nodes: &mut Datanodes, block: BlockId, node: NodeIndex) {
        self.remove_if(nodes, block, |copy| copy.source.is_none() && copy.target == node);
    }

    /// Targets of a block's copies.
    pub fn targets(&self, block: BlockId) -> impl Iterator<Item = NodeIndex> {
        self.copies.get(&block).into_iter().flatten().map(|copy| copy.target)
    }

    /// True if a replica on this node was ordered, or acknowledged by it, however late it is.
    pub fn has_asked(&self, block: BlockId, node: NodeIndex) -> bool {
        self.late.contains(&(block, node)) || self.targets(block).any(|target| target == node)
    }

    /// Ends the copy to a target, arrived or not.
    pub fn remove(&mut self, nodes: &mut Datanodes, block: BlockId, target: NodeIndex) {
        self.late.remove(&(block, target));
        self.remove_if(nodes, block, |copy| copy.target == target);
    }

    /// Ends the copies of a block from a source that turned out to be bad.
    pub fn remove_source(&mut self, nodes: &mut Datanodes, block: BlockId, source: NodeIndex) {
        self.remove_if(nodes, block, |copy| copy.source == Some(source));
    }

    /// Ends all copies of a block.
    pub fn remove_block(&mut self, nodes: &mut Datanodes, block: BlockId) {
        let late: Vec<_> = self.late.range(all_of(block)).copied().collect();
        for it in &late {
            self.late.remove(it);
        }
        self.remove_if(nodes, block, |_| true);
    }

    fn remove_if(
        &mut self,
        nodes: &mut Datanodes,
        block: BlockId,
        condition: impl Fn(&Copy) -> bool,
    ) {
        let Some(copies) = self.copies.get_mut(&block) else { return };
        copies.retain(|copy| {
            let ends = condition(copy);
            if ends {
                if let Some(source) = copy.source {
                    let source = nodes.node_mut(source);
                    source.outgoing = source.outgoing.saturating_sub(1);
                }
                self.deadlines.remove(&(copy.deadline_ms, block, copy.target));
            }
            !ends
        });
        if copies.is_empty() {
            self.copies.remove(&block);
        }
    }

    /// Ends the copies whose deadline has passed; returns their blocks.
    pub fn expire(&mut self, nodes: &mut Datanodes, now_ms: u64) -> Vec<BlockId> {
        let mut blocks = Vec::new();
        while let Some(&(deadline_ms, block, target)) = self.deadlines.first()
            && deadline_ms <= now_ms
        {
            self.remove(nodes, block, target);
            self.deadlines.remove(&(deadline_ms, block, target));
            self.note_late((block, target));
            blocks.push(block);
        }
        blocks
    }

    fn note_late(&mut self, it: (BlockId, NodeIndex)) {
        if self.late.insert(it) {
            self.late_order.push_back(it);
        }
        while self.late_order.len() > LATE_MAX {
            if let Some(oldest) = self.late_order.pop_front() {
                self.late.remove(&oldest);
            }
        }
    }

    /// Ends the copies from or to a node; returns their blocks. There are few: streams are limited.
    pub fn remove_node(&mut self, nodes: &mut Datanodes, node: NodeIndex) -> Vec<BlockId> {
        let mut blocks: Vec<BlockId> = self
            .copies
            .iter()
            .filter(|(_, copies)| copies.iter().any(|copy| copy.is_of(node)))
            .map(|(block, _)| *block)
            .collect();
        blocks.sort_unstable();
        for &block in &blocks {
            self.remove_if(nodes, block, |copy| copy.is_of(node));
        }
        blocks
    }

    /// Copies under way.
    pub fn count(&self) -> usize {
        self.deadlines.len()
    }
}

impl Copy {
    fn is_of(&self, node: NodeIndex) -> bool {
        self.target == node || self.source == Some(node)
    }
}

/// Replicas to delete.
#[derive(Default, Debug)]
pub struct Doomed {
    /// When the order was given, per node and block.
    nodes: BTreeMap<NodeIndex, BTreeMap<BlockId, Doom>>,
    unsent: BTreeSet<(NodeIndex, BlockId)>,
    sent: VecDeque<(u64, NodeIndex, BlockId)>,
    count: usize,
}

#[derive(Debug)]
struct Doom {
    stamp: GenerationStamp,
    sent_ms: Option<u64>,
}

impl Doomed {
    /// Queues a replica for deletion, with all that are older: an earlier order for a later one stays.
    pub fn insert(&mut self, node: NodeIndex, block: BlockId, stamp: GenerationStamp) {
        let blocks = self.nodes.entry(node).or_default();
        let later = blocks.get(&block).map_or(stamp, |doom| doom.stamp.max(stamp));
        if blocks.insert(block, Doom { stamp: later, sent_ms: None }).is_none() {
            self.count += 1;
        }
        self.unsent.insert((node, block));
    }

    /// True if a replica up to this stamp is queued or its deletion was ordered.
    pub fn contains(&self, node: NodeIndex, block: BlockId, stamp: GenerationStamp) -> bool {
        self.nodes
            .get(&node)
            .and_then(|blocks| blocks.get(&block))
            .is_some_and(|doom| stamp <= doom.stamp)
    }

    /// True if a node still has a doomed replica of a block, of any stamp: it is no place for a new one.
    pub fn is_doomed(&self, node: NodeIndex, block: BlockId) -> bool {
        self.nodes.get(&node).is_some_and(|blocks| blocks.contains_key(&block))
    }

    /// Notes that a replica is gone.
    pub fn remove(&mut self, node: NodeIndex, block: BlockId) {
        if let Some(blocks) = self.nodes.get_mut(&node)
            && blocks.remove(&block).is_some()
        {
            self.count -= 1;
            self.unsent.remove(&(node, block));
            if blocks.is_empty() {
                self.nodes.remove(&node);
            }
        }
    }

    /// Orders all deletions of a node again: it was restarted and may have lost them.
    pub fn send_again(&mut self, node: NodeIndex) {
        for (block, doom) in self.nodes.get_mut(&node).into_iter().flatten() {
            doom.sent_ms = None;
            self.unsent.insert((node, *block));
        }
    }

    /// Forgets a node.
    pub fn remove_node(&mut self, node: NodeIndex) {
        let Some(blocks) = self.nodes.remove(&node) else { return };
        self.count -= blocks.len();
        for block in blocks.into_keys() {
            self.unsent.remove(&(node, block));
        }
    }

    /// Up to `count_max` orders to send now; those unanswered for `retry_ms` are repeated.
    pub fn take(
        &mut self,
        now_ms: u64,
        retry_ms: u64,
        count_max: usize,
    ) -> Vec<(NodeIndex, BlockId, GenerationStamp)> {
        while let Some(&(sent_ms, node, block)) = self.sent.front()
            && sent_ms.saturating_add(retry_ms) <= now_ms
        {
            self.sent.pop_front();
            let doom = self.nodes.get(&node).and_then(|blocks| blocks.get(&block));
            if doom.is_some_and(|doom| doom.sent_ms == Some(sent_ms)) {
                self.unsent.insert((node, block));
            }
        }
        let mut orders = Vec::new();
        while orders.len() < count_max
            && let Some((node, block)) = self.unsent.pop_first()
        {
            let doom = self.nodes.get_mut(&node).and_then(|blocks| blocks.get_mut(&block));
            if let Some(doom) = doom {
                doom.sent_ms = Some(now_ms);
                self.sent.push_back((now_ms, node, block));
                orders.push((node, block, doom.stamp));
            }
        }
        orders
    }

    /// Nodes that must delete a replica of a block, each with the highest stamp to delete.
    pub fn of(&self, block: BlockId) -> impl Iterator<Item = (NodeIndex, GenerationStamp)> {
        self.nodes.iter().filter_map(move |(node, blocks)| Some((*node, blocks.get(&block)?.stamp)))
    }

    /// Replicas to delete.
    pub fn count(&self) -> usize {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_names_the_latest_stamp_that_is_doomed() {
        let mut doomed = Doomed::default();
        let (node, block) = (NodeIndex(0), BlockId(7));
        for stamp in [3, 5, 4] {
            doomed.insert(node, block, GenerationStamp(stamp));
        }
        assert_eq!(doomed.count, 1);
        assert!(doomed.contains(node, block, GenerationStamp(5)));
        assert!(!doomed.contains(node, block, GenerationStamp(6)));
        assert_eq!(doomed.take(0, 10, 10), [(node, block, GenerationStamp(5))]);
    }
}
