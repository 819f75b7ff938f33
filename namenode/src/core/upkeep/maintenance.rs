//! Nodes in maintenance over a restart of the NameNode: what is logged of each, and how it is restored while the node is off.
//!
//! A node that is switched off cannot report to a NameNode that starts meanwhile: without this its replicas would be unknown and copied
//! again at once, and nobody would see that it is missing.
//!
//! Invariant: what is restored is a report that the node could have sent; when the node comes back, its own report replaces it.

use std::collections::BTreeMap;

use protocol::datanode::{FullReport, Replica};
use protocol::namenode::{AdminState, DatanodeInfo};
use protocol::{BlockId, DatanodeId};

use crate::core::blocks::Taken;
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::standing::{NodeAway, REPLICAS_PER_ROW, ReplicaAway, StandingEdit};
use crate::core::state::{Output, State};
use crate::error::CoreError;

/// Replicas that are logged in one step: a record of one to two megabytes, some ten milliseconds.
const REPLICAS_PER_STEP: usize = 200 * REPLICAS_PER_ROW;

impl State {
    /// The nodes that are in maintenance.
    pub fn nodes_in_maintenance(&self, nodes: &Datanodes) -> Vec<NodeIndex> {
        if !nodes.is_any_away() {
            return Vec::new();
        }
        let kept = nodes.iter().filter(|(_, node)| node.admin == AdminState::InMaintenance);
        kept.map(|(index, _)| index).collect()
    }

    /// Logs, in bounded steps, what the nodes hold that are in maintenance, and forgets those that no longer are.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub(in crate::core) fn keep_maintenance(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let kept = self.nodes_in_maintenance(nodes);
        if kept.is_empty() && self.standing.away.is_empty() {
            return Ok(());
        }
        let kept: BTreeMap<DatanodeId, NodeIndex> =
            kept.into_iter().map(|node| (nodes.node(node).info.id, node)).collect();
        let over = self.standing.away.ids().filter(|id| !kept.contains_key(id));
        let mut edits: Vec<StandingEdit> =
            over.map(|datanode| StandingEdit::ForgetNode { datanode }).collect();
        let next = kept.into_iter().find(|(id, _)| !self.standing.away.is_whole(*id));
        if let Some((datanode, node)) = next {
            let progress = self.standing.away.progress(datanode);
            if progress.is_none() {
                edits.push(StandingEdit::KeepNode(stored(&nodes.node(node).info)));
            }
            let replicas = self.good_replicas(node, progress.flatten());
            keep_replicas(datanode, &replicas, &mut edits);
            if replicas.len() < REPLICAS_PER_STEP {
                edits.push(StandingEdit::KeptNode { datanode });
            }
        }
        if edits.is_empty() {
            return Ok(());
        }
        self.commit_standing(nodes, edits, now, out)?;
        if let Some((datanode, _)) = next {
            self.standing.away.release(datanode);
        }
        Ok(())
    }

    /// The next replicas of a node after a block. Those that are being written are not good yet.
    fn good_replicas(&self, node: NodeIndex, after: Option<BlockId>) -> Vec<ReplicaAway> {
        let first = BlockId(after.map_or(0, |block| block.0.saturating_add(1)));
        let held = self.blocks.held(node).into_iter();
        let replica = |block| {
            let info = self.ns.block(block).filter(|info| info.complete)?;
            Some(ReplicaAway { block, stamp: info.stamp, length: info.length })
        };
        let held = held.flat_map(|held| held.range(first..=BlockId(u64::MAX)));
        held.filter_map(replica).take(REPLICAS_PER_STEP).collect()
    }

    /// Restores, as silent, the nodes in maintenance that the log knows. Returns who they are, and how many replicas each has.
    pub fn restore_maintenance(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
    ) -> Vec<(DatanodeId, usize)> {
        let mut restored = Vec::new();
        for (node, replicas) in self.standing.away.take_whole() {
            let (datanode, count) = (node.id, replicas.len());
            if self.restore_node(nodes, (node, replicas), now) {
                restored.push((datanode, count));
            }
        }
        restored
    }

    /// Logs a node in maintenance that an earlier version kept in a file, unless the log has it.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub fn adopt_node(
        &mut self,
        nodes: &mut Datanodes,
        (node, replicas): (NodeAway, Vec<ReplicaAway>),
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let datanode = node.id;
        if self.standing.away.is_whole(datanode) {
            return Ok(());
        }
        self.commit_standing(nodes, vec![StandingEdit::KeepNode(node)], now, out)?;
        for step in replicas.chunks(REPLICAS_PER_STEP) {
            let mut edits = Vec::new();
            keep_replicas(datanode, step, &mut edits);
            self.commit_standing(nodes, edits, now, out)?;
        }
        self.commit_standing(nodes, vec![StandingEdit::KeptNode { datanode }], now, out)
    }

    /// Restores a node. False if the lists do not keep it any more.
    fn restore_node(
        &mut self,
        nodes: &mut Datanodes,
        (node, replicas): (NodeAway, Vec<ReplicaAway>),
        now: Now,
    ) -> bool {
        self.set_now(now);
        let info = info(node);
        if !self.drains.keeps(&info, now.mono_ms) {
            return false;
        }
        let known = replicas.into_iter().filter(|replica| self.ns.block(replica.block).is_some());
        let report = FullReport {
            part: 0,
            last: true,
            // Blocks deleted since then must not look like a sign of older metadata.
            finalized: known
                .map(|ReplicaAway { block, stamp, length }| Replica { block, stamp, length })
                .collect(),
            unfinished: Vec::new(),
        };
        let node = nodes.register(info, now.mono_ms);
        self.note_registered(nodes, node);
        let mut from = 0;
        while let Ok(Taken::Slice { next }) =
            self.blocks.take_report(&self.ns, nodes, node, (&report, from))
        {
            from = next;
        }
        nodes.node_mut(node).ever_reported = false;
        nodes.set_admin(node, AdminState::InMaintenance);
        nodes.give_up(node);
        self.blocks.set_aside(&self.ns, nodes, node);
        true
    }
}

fn keep_replicas(datanode: DatanodeId, replicas: &[ReplicaAway], edits: &mut Vec<StandingEdit>) {
    let pieces = replicas.chunks(REPLICAS_PER_ROW);
    let piece =
        |piece: &[ReplicaAway]| StandingEdit::KeepReplicas { datanode, replicas: piece.to_vec() };
    edits.extend(pieces.map(piece));
}

fn stored(info: &DatanodeInfo) -> NodeAway {
    let DatanodeInfo { id, host, transfer_address, http_address, rack, boot_id, local_socket } =
        info.clone();
    NodeAway { id, host, transfer_address, http_address, rack, boot_id, local_socket }
}

fn info(node: NodeAway) -> DatanodeInfo {
    let NodeAway { id, host, transfer_address, http_address, rack, boot_id, local_socket } = node;
    DatanodeInfo { id, host, transfer_address, http_address, rack, boot_id, local_socket }
}

#[cfg(test)]
mod tests {
    use protocol::BlockId;
    use protocol::datanode::Command;
    use protocol::namenode::DatanodeState;

    use super::*;
    use crate::core::nodes::HostLists;
    use crate::core::random::Generator;
    use crate::core::safe_mode::SafeMode;
    use crate::core::standing::Standing;
    use crate::core::tests::harness::{Harness, dfs, replica, settings};
    use protocol::namenode::Call;

    fn copies_of(h: &Harness, wanted: BlockId) -> usize {
        let is_copy = |command: &Command| matches!(command, Command::Replicate { block, .. } if *block == wanted);
        h.commands.iter().filter(|(_, command)| is_copy(command)).count()
    }

    fn maintain(h: &mut Harness, number: Option<u8>) {
        let maintenance = number.map(|number| (format!("host{number}"), u64::MAX));
        let lists =
            HostLists { maintenance: maintenance.into_iter().collect(), ..HostLists::default() };
        assert!(h.state.refresh_nodes(&mut h.nodes, lists, h.now).is_empty());
    }

    /// A NameNode that starts again with what was logged, or without what was logged of nodes in maintenance; with the nodes in `up`.
    fn restarted(
        h: &Harness,
        is_known: bool,
        lists_keep: Option<u8>,
        up: &[(u8, Vec<Replica>)],
    ) -> Harness {
        let mut next = Harness::new(7);
        next.now = h.now;
        next.state = State::new(h.replay(), settings(), Generator::new(8), h.now);
        next.state.safe_mode = SafeMode::Off;
        maintain(&mut next, lists_keep);
        if is_known {
            let restored = next.state.restore_maintenance(&mut next.nodes, next.now);
            assert_eq!(restored.len(), usize::from(lists_keep.is_some()));
        } else {
            next.state.standing = Standing::default();
        }
        for (number, replicas) in up {
            next.register(*number);
            next.report(*number, replicas.clone(), vec![]);
        }
        next
    }

    #[test]
    fn a_node_that_is_off_while_the_namenode_restarts_keeps_its_replicas() {
        let mut h = Harness::with_nodes(3, 4);
        let all = [1, 2, 3, 4];
        let (block, gone) = (h.write("/f", 100, 3), h.write("/gone", 100, 3));
        let off = *h.holders(block.id).iter().find(|n| h.holders(gone.id).contains(n)).unwrap();
        let others: Vec<u8> = all.into_iter().filter(|number| *number != off).collect();
        maintain(&mut h, Some(off));
        assert!(
            h.state.nodes_in_maintenance(&h.nodes).is_empty(),
            "it may not be switched off yet"
        );
        h.pass(200, &all);
        assert_eq!(h.state.nodes_in_maintenance(&h.nodes), [h.node(off)]);
        let kept = h.replay().standing.away.take_whole().remove(0);
        assert_eq!(kept.0.id, h.nodes.node(h.node(off)).info.id);
        let expected = [&block, &gone].map(|block| ReplicaAway {
            block: block.id,
            stamp: block.stamp,
            length: 100,
        });
        assert_eq!(kept.1, expected);
        assert!(h.state.standing.away.take_whole()[0].1.is_empty(), "the block manager has them");
        h.call(Call::Delete { path: dfs("/gone"), recursive: false }).unwrap();

        let has = |number: &u8| match h.holders(block.id).contains(number) {
            true => vec![replica(&block, 100)],
            false => vec![],
        };
        let up: Vec<_> = others.iter().map(|number| (*number, has(number))).collect();
        let mut next = restarted(&h, true, Some(off), &up);
        next.pass(5000, &others);
        let node = next.nodes.node(next.node(off));
        assert_eq!((node.admin, node.state), (AdminState::InMaintenance, DatanodeState::Dead));
        assert_eq!((copies_of(&next, block.id), next.holders(block.id).len()), (0, 3));
        next.state.blocks.check(&next.state.ns);
        // Back again and out of the list: no replica too many and none too few.
        next.register(off);
        next.report(off, vec![replica(&block, 100)], vec![]);
        maintain(&mut next, None);
        next.pass(500, &all);
        assert_eq!(next.nodes.node(next.node(off)).admin, AdminState::Normal);
        assert_eq!((copies_of(&next, block.id), next.holders(block.id).len()), (0, 3));

        // Without what was saved, or when the list keeps it no longer, there is a copy to make.
        for mut next in [restarted(&h, false, Some(off), &up), restarted(&h, true, None, &up)] {
            next.pass(500, &others);
            assert!(copies_of(&next, block.id) > 0);
            assert!(next.state.standing.away.is_empty(), "forgotten");
        }
    }
}
