//! Orders to DataNodes: copies of blocks with too few replicas, deletions.

use protocol::datanode::Command;
use protocol::namenode::DatanodeState;
use protocol::token::AccessMode;
use protocol::{BlockId, GenerationStamp};

use crate::core::blocks::{Low, Problem, placement};
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::state::{Output, State};

/// Blocks examined for copies in one step; more than are ordered, because holders of the first may be busy.
const BLOCKS_PER_STEP: usize = 2_000;
/// Copies ordered in one step.
const COPIES_PER_STEP: usize = 500;
/// Deletions ordered in one step, and most in one command.
const DELETIONS_PER_STEP: usize = 10_000;
/// Blocks without a possible target that are tried again per tick.
const STUCK_PER_TICK: usize = 1_000;

/// What came of trying to order a copy.
enum Ordered {
    Yes,
    /// Nobody can take a copy.
    NoTarget,
    /// Every holder is busy, or there is none.
    NoSource,
}

impl State {
    /// Orders what can be ordered. True if there is more to order at once.
    pub(in crate::core) fn schedule(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> bool {
        let mut ordered = 0;
        if std::mem::take(&mut self.blocks.low.changed) {
            for block in self.blocks.low.ready(BLOCKS_PER_STEP) {
                if ordered >= COPIES_PER_STEP {
                    self.blocks.low.changed = true;
                    break;
                }
                match self.order_copy(nodes, block, now, out) {
                    Ordered::Yes => ordered += 1,
                    Ordered::NoSource if !self.is_any_holder_alive(nodes, block) => {
                        self.blocks.low.set_stuck(block);
                    }
                    Ordered::NoSource => {}
                    Ordered::NoTarget => self.blocks.low.set_stuck(block),
                }
            }
        }
        let deletions = self.order_deletions(now, out);
        ordered >= COPIES_PER_STEP || deletions >= DELETIONS_PER_STEP
    }

    fn is_any_holder_alive(&self, nodes: &Datanodes, block: BlockId) -> bool {
        let mut holders = self.blocks.holders(block).iter();
        holders.any(|node| nodes.node(*node).state != DatanodeState::Dead)
    }

    fn order_copy(
        &mut self,
        nodes: &mut Datanodes,
        block: BlockId,
        now: Now,
        out: &mut Output,
    ) -> Ordered {
        let Some(info) = self.ns.block(block).copied() else { return Ordered::NoTarget };
        let holders = self.blocks.holders(block).to_vec();
        let streams_max = self.settings.replication_streams;
        let Some(source) = placement::choose_source(nodes, &holders, streams_max) else {
            return Ordered::NoSource;
        };
        let replication = usize::from(self.ns.replication_of(&info));
        let expected = self.blocks.wanted_count(nodes, block, replication);
        // Replicas on nodes out of service do not count, but their nodes cannot take another.
        let (mut existing, drained): (Vec<NodeIndex>, Vec<NodeIndex>) =
            holders.into_iter().partition(|node| nodes.node(*node).is_serving());
        existing.extend(self.blocks.pending.targets(block));
        let corrupt: Vec<NodeIndex> =
            self.blocks.corrupt_replicas(block).map(|(node, _)| node).collect();
        let excluded = [&corrupt[..], &drained].concat();
        let mut count = expected.saturating_sub(existing.len());
        let mut racks: Vec<&str> = Vec::new();
        if count == 0 && self.blocks.low.level_of(block) == Some(Low::MISPLACED) {
            // One more, on another rack; then one of this rack is too many.
            racks.extend(existing.iter().map(|index| nodes.node(*index).info.rack.as_str()));
            count = 1;
        }
        let doomed = &self.blocks.doomed;
        let mut targets = placement::choose_targets_among(
            Problem {
                nodes,
                count,
                existing: &existing,
                excluded: &excluded,
                writer_host: "",
                bytes: info.length,
            },
            |index| {
                !doomed.is_doomed(index, block)
                    && !racks.contains(&nodes.node(index).info.rack.as_str())
            },
            &mut self.random,
        );
        if targets.is_empty() {
            // Nobody else has room: a node with a bad replica writes a good one beside it and then replaces it.
            let can_repair = |node: &NodeIndex| {
                nodes.node(*node).state == DatanodeState::Live
                    && nodes.node(*node).is_serving()
                    && !existing.contains(node)
            };
            targets = corrupt.into_iter().filter(can_repair).take(count).collect();
        }
        if targets.is_empty() {
            return Ordered::NoTarget;
        }
        let deadline_ms = now.mono_ms.saturating_add(self.settings.pending_timeout_ms);
        for &target in &targets {
            nodes.note_chosen(target, info.length);
            self.blocks.pending.insert(nodes, block, (source, target), deadline_ms);
        }
        let command = Command::Replicate {
            block,
            stamp: info.stamp,
            targets: targets.iter().map(|target| nodes.node(*target).info.clone()).collect(),
            token: self.token(block, info.stamp, AccessMode::Maintain, now),
            balancing: false,
        };
        out.commands.push((source, command));
        self.blocks.evaluate(&self.ns, nodes, block);
        Ordered::Yes
    }

    fn order_deletions(&mut self, now: Now, out: &mut Output) -> usize {
        let retry_ms = self.settings.delete_retry_ms;
        let orders = self.blocks.doomed.take(now.mono_ms, retry_ms, DELETIONS_PER_STEP);
        let count = orders.len();
        let mut batch: Vec<(BlockId, GenerationStamp)> = Vec::new();
        let mut orders = orders.into_iter().peekable();
        while let Some((node, block, stamp)) = orders.next() {
            batch.push((block, stamp));
            if orders.peek().is_none_or(|(next, ..)| *next != node) {
                out.commands.push((node, Command::Delete(std::mem::take(&mut batch))));
            }
        }
        count
    }

    /// Puts late copies back into the queue and tries again what had no target.
    pub(in crate::core) fn retry_late(&mut self, nodes: &mut Datanodes, now: Now) {
        for block in self.blocks.pending.expire(nodes, now.mono_ms) {
            self.blocks.evaluate(&self.ns, nodes, block);
        }
        if nodes.count(DatanodeState::Live) > 1 {
            self.retry_stuck();
        }
    }

    /// Tries some of the blocks again that had no target.
    pub(in crate::core) fn retry_stuck(&mut self) {
        self.blocks.low.retry_stuck(STUCK_PER_TICK);
    }
}
