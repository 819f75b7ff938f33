//! Cuts within a block: who copies its first bytes from whom, and to whom.
//!
//! A replica that is damaged somewhere may have good first bytes, and whoever sends it verifies every chunk. So damaged ones are tried, too, after the good
//! ones, and a cut can save what is before the damage.

use protocol::datanode::Command;
use protocol::namenode::DatanodeState;
use protocol::token::AccessMode;
use protocol::{BlockId, GenerationStamp};

use crate::core::blocks::{Problem, placement};
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::state::{Output, State};

impl State {
    /// DataNodes that are not dead and have a current replica of a block, the good ones first: each can lead a cut.
    pub(in crate::core) fn sources(&self, nodes: &Datanodes, block: BlockId) -> Vec<NodeIndex> {
        let good = self.blocks.holders(block).iter().copied();
        let mut all: Vec<NodeIndex> = good.chain(self.blocks.damaged_holders(block)).collect();
        all.retain(|node| nodes.node(*node).state != DatanodeState::Dead);
        all
    }

    /// Orders a block to be made of the first bytes of `source`.
    pub(super) fn order_cut(
        &mut self,
        nodes: &mut Datanodes,
        (source, block, stamp, length): (BlockId, BlockId, GenerationStamp, u64),
        (leader, count): (NodeIndex, usize),
        now: Now,
        out: &mut Output,
    ) {
        let source_stamp = self.ns.block(source).map(|info| info.stamp).unwrap_or_default();
        let targets = self.choose_cut_targets(nodes, (source, block, length), (leader, count));
        let targets = targets.into_iter().map(|node| nodes.node(node).info.clone()).collect();
        let token = self.token(block, stamp, AccessMode::Maintain, now);
        let command = Command::Cut { source, source_stamp, block, stamp, length, targets, token };
        out.commands.push((leader, command));
    }

    /// The leader and all others with a replica of `source`, as far as they have room. Each try after the first leaves one of the others out, in turn, so that
    /// a bad one delays it only for a while and the block is not on one disk alone, unless there are just two. Where too few are left to make the block safe,
    /// others are chosen as for any block.
    fn choose_cut_targets(
        &mut self,
        nodes: &Datanodes,
        (source, block, length): (BlockId, BlockId, u64),
        (leader, count): (NodeIndex, usize),
    ) -> Vec<NodeIndex> {
        let holders = self.sources(nodes, source);
        let mut others = holders.clone();
        others.retain(|index| {
            let node = nodes.node(*index);
            *index != leader && node.state == DatanodeState::Live && !node.is_full(length)
        });
        let left_out = match (count, others.len()) {
            (0, _) | (_, 0) => None,
            (_, 1) => matches!(count % 4, 1 | 2).then_some(0),
            (_, all) => Some((count - 1) % all),
        };
        left_out.map(|index| others.remove(index));
        let own = (!nodes.node(leader).is_full(length)).then_some(leader);
        let mut targets: Vec<NodeIndex> = own.into_iter().chain(others).collect();
        let replication = self.ns.block(block).map_or(0, |info| self.ns.replication_of(info));
        if targets.len() < usize::from(self.settings.durable_min.min(replication)) {
            let problem = Problem {
                nodes,
                count: usize::from(replication).saturating_sub(targets.len()),
                existing: &targets,
                excluded: &holders,
                writer_host: "",
                bytes: length,
            };
            let more = placement::choose_targets(problem, &mut self.random);
            targets.extend(more);
        }
        if targets.is_empty() {
            // It has no room now, and says so.
            targets.push(leader);
        }
        targets
    }
}
