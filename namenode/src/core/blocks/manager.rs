//! The block manager: which DataNode holds which replica, and what follows from that.
//!
//! Invariants:
//! - `replicas` holds good replicas (right stamp, right length as far as known) of known blocks; `corrupt` the bad and the stale ones; a node is in
//!   at most one of the two for a block, and in `held` exactly if it is in one of them;
//! - `present` counts the complete blocks with a good replica;
//! - after every change of a block [`Blocks::evaluate`] has put it into the right queues: that is the one place that decides;
//! - a replica that came unasked is doomed before any that was there or was asked for;
//! - the last good replica is never doomed, and no corrupt one while there are only corrupt ones.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use hashbrown::HashMap;
use protocol::datanode::Replica;
use protocol::namenode::{CorruptReason, DatanodeState};
use protocol::{BlockId, DatanodeId, GenerationStamp};

use super::block_set::BlockSet;
use super::placement;
use super::redundancy::{Doomed, Low, Pending};
use super::replica_set::ReplicaSet;
use super::unsettled::{Reports, Sighting};
use crate::core::inodes::Table;
use crate::core::namespace::{Block, Effect, Namespace};
use crate::core::nodes::{Datanodes, NodeIndex};

/// Replicas of a dead node that leave the map in one step; bounds the hold of the lock to a few milliseconds.
const BURY_PER_STEP: usize = 2_000;
/// Good replicas beside which stale ones are needless, or all if fewer are wanted: as many as a close waits for by default. Where disks are full there may be no
/// more for long, and the space of the stale ones is needed.
const STALE_UNTIL: usize = 2;

/// True for a replica that is not the current one.
fn is_stale(reason: CorruptReason) -> bool {
    reason == CorruptReason::GenstampMismatch
}

/// Who acknowledged a block that is complete now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// DataNodes in pipeline order.
    pub replicas: Vec<DatanodeId>,
    /// How many of them, from the end, had it on disk when they acknowledged.
    pub durable_count: usize,
}

impl Acknowledged {
    /// All of them have it on disk.
    pub fn durable(replicas: Vec<DatanodeId>) -> Self {
        Acknowledged { durable_count: replicas.len(), replicas }
    }
}

/// The block manager.
#[derive(Default)]
pub struct Blocks {
    replicas: Table<BlockId, ReplicaSet>,
    corrupt: BTreeMap<BlockId, BTreeMap<NodeIndex, CorruptReason>>,
    held: Vec<BlockSet>,
    present: u64,
    dying: VecDeque<NodeIndex>,
    /// Replicas that must be in service where others are on nodes in maintenance.
    maintenance_min: usize,
    /// Whether all blocks have been examined since the start.
    pub(super) survey: Survey,
    /// Replicas that are being moved: from, to.
    pub(in crate::core) moves: BTreeMap<BlockId, (NodeIndex, NodeIndex)>,
    /// Too few replicas.
    pub(in crate::core) low: Low,
    /// Copies under way.
    pub(in crate::core) pending: Pending,
    /// Replicas to delete.
    pub(in crate::core) doomed: Doomed,
    /// Facts from reports that are not settled yet.
    pub(in crate::core) reports: Reports,
}

/// Progress of the search, after a start, for blocks with too few replicas; see `survey`.
#[derive(Debug)]
pub(super) enum Survey {
    /// Replicas are only counted.
    Counting {
        /// When safe mode ended, monotonic milliseconds.
        since_ms: Option<u64>,
    },
    /// First ids of the pages that are left, the next one last.
    Walking(Vec<BlockId>),
    /// Over: from here on every change of a block puts it into its queue.
    Done,
}

impl Default for Survey {
    /// An empty namespace needs none.
    fn default() -> Self {
        Survey::Done
    }
}

impl Blocks {
    /// Knows of no replica.
    pub fn new(maintenance_min: u16) -> Self {
        Blocks { maintenance_min: usize::from(maintenance_min), ..Blocks::default() }
    }

    /// Good replicas of a block.
    pub fn holders(&self, block: BlockId) -> &[NodeIndex] {
        self.replicas.get(&block).map_or(&[], ReplicaSet::as_slice)
    }

    /// Nodes with a replica of a block that is current but damaged: most of its bytes may be good.
    pub fn damaged_holders(&self, block: BlockId) -> impl Iterator<Item = NodeIndex> {
        let damaged = self.corrupt_replicas(block).filter(|(_, reason)| !is_stale(*reason));
        damaged.map(|(node, _)| node)
    }

    /// The same, each with the reason why it is taken for bad.
    pub fn corrupt_replicas(
        &self,
        block: BlockId,
    ) -> impl Iterator<Item = (NodeIndex, CorruptReason)> {
        self.corrupt.get(&block).into_iter().flatten().map(|(node, reason)| (*node, *reason))
    }

    /// How many replicas of a block are known to be corrupt or stale.
    pub fn corrupt_replica_count(&self, block: BlockId) -> usize {
        self.corrupt.get(&block).map_or(0, BTreeMap::len)
    }

    /// Complete blocks with a good replica.
    pub fn present_count(&self) -> u64 {
        self.present
    }

    /// Blocks with too few replicas.
    pub fn low_count(&self) -> u64 {
        self.low.count() as u64
    }

    /// Blocks with a corrupt replica.
    pub fn corrupt_count(&self) -> u64 {
        self.corrupt.len() as u64
    }

    /// Copies under way.
    pub fn pending_count(&self) -> u64 {
        self.pending.count() as u64
    }

    /// Replicas to delete.
    pub fn doomed_count(&self) -> u64 {
        self.doomed.count() as u64
    }

    /// Replicas a node is believed to hold, in order.
    pub fn held(&self, node: NodeIndex) -> Option<&BlockSet> {
        self.held.get(node.0 as usize)
    }

    /// Up to `count_max` of these after a block.
    pub fn held_after(
        &self,
        node: NodeIndex,
        after: Option<BlockId>,
        count_max: usize,
    ) -> Vec<BlockId> {
        let first = BlockId(after.map_or(0, |block| block.0.saturating_add(1)));
        let held = self.held(node).into_iter();
        held.flat_map(|held| held.range(first..=BlockId(u64::MAX))).take(count_max).collect()
    }

    /// Good replicas of a block on nodes in service.
    pub fn serving_count(&self, nodes: &Datanodes, block: BlockId) -> usize {
        let holders = self.holders(block);
        if !nodes.is_any_away() {
            return holders.len();
        }
        holders.iter().filter(|node| nodes.node(**node).is_serving()).count()
    }

    /// How many of `replication` replicas must be on nodes in service now. Replicas on nodes in maintenance will return: they are not made
    /// anew while the minimum is in service.
    pub fn wanted_count(&self, nodes: &Datanodes, block: BlockId, replication: usize) -> usize {
        if !nodes.is_any_away() {
            return replication;
        }
        let holders = self.holders(block).iter();
        let kept = holders.filter(|node| nodes.node(**node).admin.is_maintenance()).count();
        replication.saturating_sub(kept).max(self.maintenance_min.min(replication))
    }

    /// The minimum number of replicas in service while others are on nodes in maintenance.
    pub(in crate::core) fn maintenance_min(&self) -> usize {
        self.maintenance_min
    }

    fn held_mut(&mut self, node: NodeIndex) -> &mut BlockSet {
        let place = node.0 as usize;
        if self.held.len() <= place {
            self.held.resize_with(place + 1, BlockSet::default);
        }
        &mut self.held[place]
    }

    /// Notes a good replica.
    pub fn add_good(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        node: NodeIndex,
    ) {
        let complete = ns.block(block).is_some_and(|info| info.complete);
        self.add_good_of(ns, nodes, (block, complete), node);
    }

    fn add_good_of(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        (block, complete): (BlockId, bool),
        node: NodeIndex,
    ) {
        self.drop_corrupt(block, node);
        // It replaced an older one, whose deletion the DataNode no longer reports.
        self.doomed.remove(node, block);
        let set = self.replicas.get_or_default(block);
        let was_empty = set.as_slice().is_empty();
        if set.insert(node) {
            self.held_mut(node).insert(block);
            self.present += u64::from(was_empty && complete);
        }
        self.pending.remove(nodes, block, node);
        self.low.changed = true;
        self.evaluate(ns, nodes, block);
    }

    /// Forgets a replica, good or corrupt.
    pub fn forget(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        node: NodeIndex,
    ) {
        self.drop_good(ns, block, node);
        self.drop_corrupt(block, node);
        self.held_mut(node).remove(&block);
        self.evaluate(ns, nodes, block);
    }

    /// Notes that a replica is bad; it stays where it is until the block is safe without it.
    pub fn mark_corrupt(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        (node, reason): (NodeIndex, CorruptReason),
    ) {
        let was_held = self.held_mut(node).contains(&block);
        if !was_held && !self.pending.targets(block).any(|target| target == node) {
            return;
        }
        self.hold_back(ns, block, (node, reason));
        self.pending.remove(nodes, block, node);
        self.pending.remove_source(nodes, block, node);
        self.evaluate(ns, nodes, block);
    }

    /// Notes a replica with an older stamp. Like a corrupt one it stays until the block is safe without it: whoever went on with the block may have done so on a
    /// damaged replica, and then its bytes are the last good ones.
    pub(super) fn mark_stale(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        node: NodeIndex,
    ) {
        self.hold_back(ns, block, (node, CorruptReason::GenstampMismatch));
        // It has none of what it acknowledged. A copy that comes to it replaces what it has.
        self.pending.remove_arrival(nodes, block, node);
        self.evaluate(ns, nodes, block);
    }

    /// Counts a replica as bad, and no longer as good.
    fn hold_back(
        &mut self,
        ns: &Namespace,
        block: BlockId,
        (node, reason): (NodeIndex, CorruptReason),
    ) {
        self.drop_good(ns, block, node);
        self.held_mut(node).insert(block);
        self.corrupt.entry(block).or_default().insert(node, reason);
    }

    fn drop_good(&mut self, ns: &Namespace, block: BlockId, node: NodeIndex) {
        let Some(set) = self.replicas.get_mut(&block) else { return };
        if set.remove(node) && set.as_slice().is_empty() {
            self.replicas.remove(&block);
            let complete = ns.block(block).is_some_and(|info| info.complete);
            self.present -= u64::from(complete);
        }
    }

    fn drop_corrupt(&mut self, block: BlockId, node: NodeIndex) {
        if let Some(set) = self.corrupt.get_mut(&block) {
            set.remove(&node);
            if set.is_empty() {
                self.corrupt.remove(&block);
            }
        }
    }

    /// Takes a replica off the map and orders its deletion.
    fn doom(&mut self, ns: &Namespace, block: BlockId, node: NodeIndex, stamp: GenerationStamp) {
        self.drop_good(ns, block, node);
        self.drop_corrupt(block, node);
        self.held_mut(node).remove(&block);
        self.doomed.insert(node, block, stamp);
    }

    /// Puts a block into the queues where it belongs.
    pub fn evaluate(&mut self, ns: &Namespace, nodes: &mut Datanodes, block: BlockId) {
        if self.is_counting() {
            return;
        }
        let Some(info) = ns.block(block).copied().filter(|info| info.complete) else {
            self.low.remove(block);
            self.moves.remove(&block);
            self.pending.remove_block(nodes, block);
            return;
        };
        let expected = usize::from(ns.replication_of(&info));
        let wanted = self.wanted_count(nodes, block, expected);
        let mut live = self.serving_count(nodes, block);
        let coming = self.pending.targets(block).count();
        if let Some(from) = self.end_move(block)
            && live > expected
        {
            self.doom(ns, block, from, info.stamp);
            live -= 1;
        }
        if live > expected {
            for node in self.excess(nodes, block, live - expected) {
                self.doom(ns, block, node, info.stamp);
            }
        }
        self.doom_needless(ns, (block, info.stamp), (live, expected));
        if live + coming < wanted {
            let only_drained = live == 0 && !self.holders(block).is_empty();
            let level = if only_drained { Low::URGENT } else { Low::level(live, expected) };
            self.low.insert(block, level);
        } else if coming == 0 && placement::is_misplaced(nodes, self.holders(block)) {
            self.low.insert(block, Low::MISPLACED);
        } else {
            self.low.remove(block);
        }
    }

    /// Which of too many replicas go: first those that nobody has asked for, so that none of them takes the place of one that was there.
    fn excess(&self, nodes: &Datanodes, block: BlockId, count: usize) -> Vec<NodeIndex> {
        let mut serving = self.holders(block).to_vec();
        serving.retain(|node| nodes.node(*node).is_serving());
        let unasked = serving.iter().filter(|node| self.reports.is_unasked(**node, block));
        let spared = serving.len().saturating_sub(1);
        let mut excess: Vec<NodeIndex> = unasked.take(count.min(spared)).copied().collect();
        serving.retain(|node| !excess.contains(node));
        excess.extend(placement::choose_excess(nodes, &serving, count - excess.len()));
        excess
    }

    /// Orders the deletion of corrupt and stale replicas that a block with so many good ones does not need.
    fn doom_needless(
        &mut self,
        ns: &Namespace,
        (block, stamp): (BlockId, GenerationStamp),
        (live, expected): (usize, usize),
    ) {
        if expected == 0 || live < expected.min(STALE_UNTIL) {
            return;
        }
        for (node, reason) in self.corrupt_replicas(block).collect::<Vec<_>>() {
            if is_stale(reason) {
                // A copy may come to its node meanwhile.
                let older = GenerationStamp(stamp.0.saturating_sub(1));
                self.doom(ns, block, node, older);
            } else if live >= expected {
                self.doom(ns, block, node, stamp);
            }
        }
    }

    /// Forgets the move of a block once it is over. Returns the node that must lose its replica if the new one has arrived.
    fn end_move(&mut self, block: BlockId) -> Option<NodeIndex> {
        let (from, to) = *self.moves.get(&block)?;
        let holders = self.holders(block);
        let arrived = holders.contains(&to);
        let goes_on = self.pending.targets(block).any(|target| target == to);
        if arrived || !goes_on {
            self.moves.remove(&block);
        }
        (arrived && self.holders(block).contains(&from)).then_some(from)
    }

    /// Applies the effects of edits. `written` names the DataNodes that acknowledged a completed block. Only those that had it on disk
    /// count at once; the others are awaited for `arrival_ms`.
    pub fn follow(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        effects: Vec<Effect>,
        (written, arrival_ms): (&HashMap<BlockId, Acknowledged>, u64),
    ) {
        for effect in effects {
            match effect {
                Effect::Completed(block) => {
                    // Early replicas were not counted as present: take them out and judge them again.
                    self.clear(block);
                    if let Some(written) = written.get(&block) {
                        self.take_acknowledged(ns, nodes, block, (written, arrival_ms));
                    }
                    for sighting in self.reports.take_open(block) {
                        let held = self.holders(block).contains(&sighting.node);
                        let stamp = ns.block(block).map(|info| info.stamp);
                        let coming = self.pending.arrivals(block).any(|n| n == sighting.node);
                        // A node that acknowledged the newest stamp no longer has an older replica.
                        let superseded = coming && stamp > Some(sighting.replica.stamp);
                        match sighting.finalized {
                            _ if held || superseded => {}
                            true => self.take_replica(ns, nodes, sighting),
                            false => {
                                self.take_unfinished(ns, nodes, sighting.node, sighting.replica)
                            }
                        }
                    }
                    self.evaluate(ns, nodes, block);
                }
                Effect::Restamped(block) => self.clear(block),
                Effect::Reopened(block, stamp, length) => {
                    self.reopen(ns, nodes, Replica { block, stamp, length });
                }
                Effect::Removed { block, stamp, complete, targets } => {
                    let targets = targets.iter().filter_map(|id| nodes.index(*id)).collect();
                    self.remove_block(nodes, block, (stamp, complete), targets);
                }
                Effect::Replication(file) => {
                    let blocks = ns.blocks_of(file);
                    blocks.into_iter().for_each(|block| self.evaluate(ns, nodes, block));
                }
            }
        }
    }

    fn take_acknowledged(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        (written, arrival_ms): (&Acknowledged, u64),
    ) {
        let deadline_ms = self.reports.now_ms().saturating_add(arrival_ms);
        let cached_count = written.replicas.len().saturating_sub(written.durable_count);
        for (place, id) in written.replicas.iter().enumerate() {
            let node = nodes.index(*id);
            let alive = |node: &NodeIndex| nodes.node(*node).state != DatanodeState::Dead;
            let Some(node) = node.filter(alive) else { continue };
            if place >= cached_count {
                self.reports.note_acknowledged(node, block);
                self.add_good(ns, nodes, block, node);
            } else if !self.pending.targets(block).any(|target| target == node) {
                self.pending.insert_arrival(block, node, deadline_ms);
            }
        }
    }

    /// Nodes that acknowledged a complete block and have not reported it yet.
    pub fn arrivals(&self, block: BlockId) -> impl Iterator<Item = NodeIndex> {
        self.pending.arrivals(block)
    }

    /// Reopens a complete block for writing: its replicas are now like those of any open block, and are stale once it is complete again. So are those that
    /// were on their way.
    fn reopen(&mut self, ns: &Namespace, nodes: &mut Datanodes, replica: Replica) {
        let block = replica.block;
        self.present -= u64::from(!self.holders(block).is_empty());
        for node in self.holders(block).to_vec() {
            self.reports.note_open(Sighting::reported(node, replica));
        }
        self.pending.remove_block(nodes, block);
        self.clear(block);
        self.evaluate(ns, nodes, block);
    }

    /// Forgets the replicas of a block that was not complete.
    fn clear(&mut self, block: BlockId) {
        for node in self.replicas.remove(&block).unwrap_or_default().as_slice().to_vec() {
            self.held_mut(node).remove(&block);
        }
    }

    fn remove_block(
        &mut self,
        nodes: &mut Datanodes,
        block: BlockId,
        (stamp, complete): (GenerationStamp, bool),
        targets: Vec<NodeIndex>,
    ) {
        let good = self.replicas.remove(&block).unwrap_or_default();
        self.present -= u64::from(complete && !good.as_slice().is_empty());
        let mut all: BTreeSet<NodeIndex> = good.as_slice().iter().copied().collect();
        all.extend(self.corrupt.remove(&block).unwrap_or_default().into_keys());
        all.extend(self.pending.targets(block));
        all.extend(targets);
        let mut all: BTreeMap<_, _> = all.into_iter().map(|node| (node, stamp)).collect();
        // A recovery that did not end here may have given them a later stamp.
        for Sighting { node, replica, .. } in self.reports.take_open(block) {
            let latest = all.entry(node).or_insert(stamp);
            *latest = replica.stamp.max(*latest);
        }
        self.low.remove(block);
        self.moves.remove(&block);
        self.pending.remove_block(nodes, block);
        for (node, stamp) in all {
            self.held_mut(node).remove(&block);
            if nodes.node(node).state != DatanodeState::Dead {
                self.doomed.insert(node, block, stamp);
            }
        }
    }

    /// Settles a replica that a DataNode says it has finalized.
    pub(super) fn take_replica(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        sighting: Sighting,
    ) {
        match ns.block(sighting.replica.block).copied() {
            Some(info) => self.take_known(ns, nodes, sighting, info),
            None => self.reports.note_unknown(sighting),
        }
    }

    /// Judges a replica of a block of the namespace: `info`.
    pub(super) fn take_known(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        sighting: Sighting,
        info: Block,
    ) {
        let Sighting { node, replica, is_change, .. } = sighting;
        let block = replica.block;
        if self.doomed.contains(node, block, replica.stamp) {
            return;
        }
        if !info.complete {
            self.reports.note_open(sighting);
            return;
        }
        if replica.stamp < info.stamp {
            // What its node reported itself it can lose again: a disk fails, and another comes back with an older replica. A full report may be from before.
            let is_late = self.holders(block).contains(&node)
                && match is_change {
                    true => self.reports.is_unconfirmed(node, block),
                    false => self.reports.is_recent(node, block),
                };
            if !is_late {
                self.mark_stale(ns, nodes, block, node);
            }
            return;
        }
        self.reports.confirm(node, block);
        if replica.stamp > info.stamp {
            // Newer than this metadata knows: kept, not counted.
        } else if replica.length != info.length {
            self.held_mut(node).insert(block);
            self.mark_corrupt(ns, nodes, block, (node, CorruptReason::SizeMismatch));
        } else if !self.damaged_holders(block).any(|damaged| damaged == node)
            || self.pending.targets(block).any(|target| target == node)
        {
            // A damaged replica counts as good again only after a copy to its node was ordered and arrived.
            let is_asked = !is_change
                || self.holders(block).contains(&node)
                || self.pending.has_asked(block, node);
            self.reports.note_asked(node, block, is_asked);
            self.add_good_of(ns, nodes, (block, true), node);
        }
    }

    /// A DataNode deleted a replica.
    pub fn note_deleted(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        block: BlockId,
        node: NodeIndex,
    ) {
        self.doomed.remove(node, block);
        self.reports.forget(node, block);
        self.pending.remove_arrival(nodes, block, node);
        self.forget(ns, nodes, block, node);
    }

    /// A DataNode is dead: its replicas leave the map step by step.
    pub fn bury(&mut self, ns: &Namespace, nodes: &mut Datanodes, node: NodeIndex) {
        self.set_aside(ns, nodes, node);
        self.dying.push_back(node);
    }

    /// True while replicas of dead DataNodes are still in the map.
    pub fn is_burying(&self) -> bool {
        !self.dying.is_empty()
    }

    /// A DataNode that will return is silent: its replicas count as present until it does.
    pub fn set_aside(&mut self, ns: &Namespace, nodes: &mut Datanodes, node: NodeIndex) {
        self.doomed.remove_node(node);
        self.reports.forget_node(node);
        for block in self.pending.remove_node(nodes, node) {
            self.evaluate(ns, nodes, block);
        }
    }

    /// A DataNode registered, perhaps again: what is left of its replicas stands until its report. Copies from and to it ended
    /// with the process that ran them.
    pub fn revive(&mut self, ns: &Namespace, nodes: &mut Datanodes, node: NodeIndex) {
        self.dying.retain(|dying| *dying != node);
        for block in self.pending.remove_node(nodes, node) {
            self.evaluate(ns, nodes, block);
        }
        self.reports.begin(node);
        self.doomed.send_again(node);
    }

    /// One step of burying. True if something is left.
    pub fn bury_step(&mut self, ns: &Namespace, nodes: &mut Datanodes) -> bool {
        let Some(&node) = self.dying.front() else { return false };
        for _ in 0..BURY_PER_STEP {
            let Some(block) = self.held_mut(node).pop_last() else {
                self.dying.pop_front();
                break;
            };
            self.drop_good(ns, block, node);
            self.drop_corrupt(block, node);
            self.evaluate(ns, nodes, block);
        }
        !self.dying.is_empty()
    }

    /// Compares all tables with one another; for tests.
    #[cfg(test)]
    pub(in crate::core) fn check(&self, ns: &Namespace) {
        let mut pairs = BTreeSet::new();
        let mut present = 0;
        for (block, set) in self.replicas.iter() {
            assert!(!set.as_slice().is_empty());
            present += u64::from(ns.block(block).expect("known block").complete);
            pairs.extend(set.as_slice().iter().map(|node| (*node, block)));
        }
        for (block, bad) in &self.corrupt {
            assert!(!bad.is_empty());
            for node in bad.keys() {
                assert!(pairs.insert((*node, *block)), "good and corrupt at once");
            }
        }
        let held: BTreeSet<(NodeIndex, BlockId)> = (0..)
            .zip(&self.held)
            .flat_map(|(node, blocks)| blocks.iter().map(move |block| (NodeIndex(node), block)))
            .collect();
        assert_eq!(held, pairs);
        assert_eq!(self.present, present);
    }
}
