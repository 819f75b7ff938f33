//! Moves of replicas for the balancer: copy, then delete, so that a block never has fewer replicas than before.
//!
//! ```text
//! asked -> would break a rule -> Refused
//!   |
//!   v copy ordered, noted in `Blocks::moves`
//! Moving -> arrived: the old one is the excess -> Moved
//!   |
//!   +-> given up (deadline, a node dies, the block goes) -> Refused
//! ```

use protocol::datanode::Command;
use protocol::namenode::{
    AdminState, BlockOn, DatanodeState, LIST_ENTRIES_MAX, MoveState, ReplicaMove,
};
use protocol::token::AccessMode;
use protocol::{BlockId, DatanodeId, ErrorKind, RemoteError};

use crate::core::blocks::placement;
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::state::{Output, State};
use crate::error::refuse;

/// Copies that one DataNode sends for the balancer at once, beside the copies that blocks need; as HDFS's 50 concurrent moves
/// would be a tenth of that per disk.
const MOVES_PER_SOURCE_MAX: u32 = 8;

impl State {
    /// Begins moves.
    pub(in crate::core) fn move_replicas(
        &mut self,
        nodes: &mut Datanodes,
        moves: &[ReplicaMove],
        now: Now,
        out: &mut Output,
    ) -> Result<Vec<MoveState>, RemoteError> {
        if moves.len() > LIST_ENTRIES_MAX as usize {
            let text = format!("more than {LIST_ENTRIES_MAX} moves in one call");
            return Err(refuse(ErrorKind::LimitExceeded, text));
        }
        let begun = moves.iter().map(|wanted| match self.begin_move(nodes, *wanted, now, out) {
            Some(()) => MoveState::Moving,
            None => MoveState::Refused,
        });
        Ok(begun.collect())
    }

    fn begin_move(
        &mut self,
        nodes: &mut Datanodes,
        wanted: ReplicaMove,
        now: Now,
        out: &mut Output,
    ) -> Option<()> {
        let block = wanted.block;
        let info = self.ns.block(block).copied().filter(|info| info.complete)?;
        let (from, to) = (nodes.index(wanted.from)?, nodes.index(wanted.to)?);
        let holders = self.blocks.holders(block);
        let target = nodes.node(to);
        let source = nodes.node(from);
        let can_begin = holders.contains(&from)
            && !holders.contains(&to)
            && self.blocks.corrupt_replica_count(block) == 0
            && self.blocks.pending.targets(block).next().is_none()
            && self.blocks.serving_count(nodes, block)
                >= usize::from(self.ns.replication_of(&info))
            && !self.blocks.doomed.is_doomed(to, block)
            && target.state == DatanodeState::Live
            && target.admin == AdminState::Normal
            && target.free() >= info.length
            && source.state == DatanodeState::Live
            && source.outgoing < self.settings.replication_streams.max(MOVES_PER_SOURCE_MAX)
            && placement::keeps_rules(nodes, holders, from, to);
        if !can_begin {
            return None;
        }
        let deadline_ms = now.mono_ms.saturating_add(self.settings.pending_timeout_ms);
        nodes.note_chosen(to, info.length);
        self.blocks.pending.insert(nodes, block, (from, to), deadline_ms);
        self.blocks.moves.insert(block, (from, to));
        let command = Command::Replicate {
            block,
            stamp: info.stamp,
            targets: vec![nodes.node(to).info.clone()],
            token: self.token(block, info.stamp, AccessMode::Maintain, now),
            balancing: true,
        };
        out.commands.push((from, command));
        Some(())
    }

    /// States of moves.
    pub(in crate::core) fn move_states(
        &self,
        nodes: &Datanodes,
        moves: &[ReplicaMove],
    ) -> Vec<MoveState> {
        let state = |wanted: &ReplicaMove| {
            let pair = nodes.index(wanted.from).zip(nodes.index(wanted.to));
            let Some((from, to)) = pair else { return MoveState::Refused };
            let coming = self.blocks.pending.targets(wanted.block).any(|target| target == to);
            let holders = self.blocks.holders(wanted.block);
            if holders.contains(&to) && !holders.contains(&from) {
                MoveState::Moved
            } else if coming && self.blocks.moves.get(&wanted.block) == Some(&(from, to)) {
                MoveState::Moving
            } else {
                MoveState::Refused
            }
        };
        moves.iter().map(state).collect()
    }

    /// A page of the complete blocks on a DataNode.
    pub(in crate::core) fn blocks_on(
        &self,
        nodes: &Datanodes,
        datanode: DatanodeId,
        after: Option<BlockId>,
        limit: u32,
    ) -> Result<Vec<BlockOn>, RemoteError> {
        let Some(node) = nodes.index(datanode) else {
            let text = format!("there is no DataNode {datanode}");
            return Err(refuse(ErrorKind::NotFound, text));
        };
        let limit = limit.clamp(1, LIST_ENTRIES_MAX) as usize;
        let blocks = self.blocks.held_after(node, after, limit);
        let length = |block: BlockId| self.ns.block(block).map_or(0, |info| info.length);
        let on = blocks.into_iter().map(|block| BlockOn { block, length: length(block) });
        Ok(on.collect())
    }

    /// Limits what all live DataNodes send for the balancer.
    pub(in crate::core) fn set_balancer_bandwidth(
        &self,
        nodes: &Datanodes,
        bytes: u64,
        out: &mut Output,
    ) -> Result<(), RemoteError> {
        if bytes == 0 {
            let text = "Bandwidth should be a positive integer";
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let live = nodes.iter().filter(|(_, node)| node.state != DatanodeState::Dead);
        let orders =
            live.map(|(index, _): (NodeIndex, _)| (index, Command::SetBalancerBandwidth(bytes)));
        out.commands.extend(orders);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use protocol::datanode::Changes;
    use protocol::namenode::{Call, Reply};

    use super::*;
    use crate::core::tests::harness::{Harness, replica};

    fn id(number: u8) -> DatanodeId {
        DatanodeId([number; 16])
    }

    fn states(h: &mut Harness, call: Call) -> Vec<MoveState> {
        match h.call(call) {
            Ok(Reply::Moves(states)) => states,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_replica_is_copied_then_deleted_and_racks_are_kept() {
        // Odd and even numbers are in different racks.
        let mut h = Harness::with_nodes(11, 6);
        let block = h.write("/x", 100, 2);
        let [a, b] = h.holders(block.id)[..] else { panic!("two holders") };
        assert_ne!(a % 2, b % 2, "two racks");
        let same_rack = (1..=6).find(|n| n % 2 == a % 2 && *n != a).unwrap();
        let other_rack = (1..=6).find(|n| n % 2 == b % 2 && *n != b).unwrap();
        let to = |to: u8| ReplicaMove { block: block.id, from: id(a), to: id(to) };
        let wanted = vec![to(other_rack), to(b), to(99), to(same_rack), to(same_rack)];
        let expected = [
            MoveState::Refused,
            MoveState::Refused,
            MoveState::Refused,
            MoveState::Moving,
            MoveState::Refused,
        ];
        assert_eq!(states(&mut h, Call::MoveReplicas(wanted)), expected);
        assert_eq!(states(&mut h, Call::MoveStates(vec![to(same_rack)])), [MoveState::Moving]);
        assert_eq!(h.holders(block.id), [a, b].map(|n| n), "nothing is deleted before it arrives");
        let received = vec![replica(&block, 100)];
        h.changes(same_rack, &Changes { received, ..Changes::default() });
        let mut left = vec![same_rack, b];
        left.sort_unstable();
        assert_eq!(h.holders(block.id), left);
        assert_eq!(states(&mut h, Call::MoveStates(vec![to(same_rack)])), [MoveState::Moved]);
    }

    #[test]
    fn a_move_that_never_arrives_changes_nothing() {
        let mut h = Harness::with_nodes(12, 6);
        let block = h.write("/x", 100, 2);
        let [a, b] = h.holders(block.id)[..] else { panic!("two holders") };
        let to = (1..=6).find(|n| n % 2 == a % 2 && *n != a).unwrap();
        let wanted = vec![ReplicaMove { block: block.id, from: id(a), to: id(to) }];
        assert_eq!(states(&mut h, Call::MoveReplicas(wanted.clone())), [MoveState::Moving]);
        h.pass(1500, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(states(&mut h, Call::MoveStates(wanted)), [MoveState::Refused]);
        assert_eq!(h.holders(block.id), [a, b]);
        assert!(h.state.blocks.moves.is_empty());
    }
}
