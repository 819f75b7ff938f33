//! Nodes in maintenance over a restart of the NameNode: what is saved of each, and how it is restored while the node is off.
//!
//! A node that is switched off cannot report to a NameNode that starts meanwhile: without this its replicas would be unknown and copied
//! again at once, and nobody would see that it is missing.
//!
//! Invariant: what is restored is a report that the node could have sent; when the node comes back, its own report replaces it.

use protocol::datanode::{FullReport, Replica};
use protocol::namenode::{AdminState, DatanodeInfo};
use serde::{Deserialize, Serialize};

use crate::core::blocks::Taken;
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::state::State;

/// A node in maintenance and what it holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeInMaintenance {
    /// Who.
    pub info: DatanodeInfo,
    /// Its good replicas, ascending by block.
    pub replicas: Vec<Replica>,
}

impl State {
    /// The nodes that are in maintenance.
    pub fn nodes_in_maintenance(&self, nodes: &Datanodes) -> Vec<NodeIndex> {
        if !nodes.is_any_away() {
            return Vec::new();
        }
        let kept = nodes.iter().filter(|(_, node)| node.admin == AdminState::InMaintenance);
        kept.map(|(index, _)| index).collect()
    }

    /// What to save of a node.
    pub fn node_in_maintenance(&self, nodes: &Datanodes, node: NodeIndex) -> NodeInMaintenance {
        let held = self.blocks.held_after(node, None, usize::MAX).into_iter();
        let replica = |block| {
            let info = self.ns.block(block).filter(|info| info.complete)?;
            Some(Replica { block, stamp: info.stamp, length: info.length })
        };
        NodeInMaintenance {
            info: nodes.node(node).info.clone(),
            replicas: held.filter_map(replica).collect(),
        }
    }

    /// Restores, as silent, a node that was in maintenance when the NameNode ended. False if the lists do not keep it any more.
    pub fn restore_node(
        &mut self,
        nodes: &mut Datanodes,
        kept: NodeInMaintenance,
        now: Now,
    ) -> bool {
        self.set_now(now);
        if !self.drains.keeps(&kept.info, now.mono_ms) {
            return false;
        }
        let report = FullReport {
            datanode: kept.info.id,
            epoch: self.settings.epoch,
            part: 0,
            last: true,
            // Blocks deleted since then must not look like a sign of older metadata.
            finalized: kept
                .replicas
                .into_iter()
                .filter(|r| self.ns.block(r.block).is_some())
                .collect(),
            unfinished: Vec::new(),
        };
        let node = nodes.register(kept.info, now.mono_ms);
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

#[cfg(test)]
mod tests {
    use protocol::BlockId;
    use protocol::datanode::Command;
    use protocol::namenode::DatanodeState;

    use super::*;
    use crate::core::nodes::HostLists;
    use crate::core::random::Generator;
    use crate::core::safe_mode::SafeMode;
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

    /// A NameNode that starts again with what was saved; with the nodes in `up`.
    fn restarted(
        h: &Harness,
        kept: Option<NodeInMaintenance>,
        lists_keep: Option<u8>,
        up: &[(u8, Vec<Replica>)],
    ) -> Harness {
        let mut next = Harness::new(7);
        next.now = h.now;
        next.state = State::new(h.replay(), settings(), Generator::new(8), h.now);
        next.state.safe_mode = SafeMode::Off;
        maintain(&mut next, lists_keep);
        if let Some(kept) = kept {
            let now = next.now;
            let taken = next.state.restore_node(&mut next.nodes, kept, now);
            assert_eq!(taken, lists_keep.is_some());
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
        let kept = h.state.node_in_maintenance(&h.nodes, h.node(off));
        assert_eq!(kept.replicas, [replica(&block, 100), replica(&gone, 100)]);
        h.call(Call::Delete { path: dfs("/gone"), recursive: false }).unwrap();

        let has = |number: &u8| match h.holders(block.id).contains(number) {
            true => vec![replica(&block, 100)],
            false => vec![],
        };
        let up: Vec<_> = others.iter().map(|number| (*number, has(number))).collect();
        let mut next = restarted(&h, Some(kept.clone()), Some(off), &up);
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
        for mut next in [restarted(&h, None, Some(off), &up), restarted(&h, Some(kept), None, &up)]
        {
            next.pass(500, &others);
            assert!(copies_of(&next, block.id) > 0);
        }
    }
}
