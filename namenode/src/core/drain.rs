//! Taking DataNodes out of service and back: their replicas stop counting, so that the block manager makes others, and a sweep
//! over all their blocks tells when the last of them is safe.
//!
//! A sweep judges every block of a node anew, in bounded steps. One begins when a node's state changes (its replicas count from
//! now on, or do not any more), and when a second rack appears (blocks on one rack are then misplaced). The sweep of a node that
//! is being drained begins again until it finds nothing.

use std::collections::BTreeMap;

use protocol::BlockId;
use protocol::namenode::{AdminState, DatanodeState, DrainReport};

use super::datanodes::{Datanodes, NodeIndex};
use super::hosts::HostLists;
use super::state::State;

/// Blocks judged in one step, over all sweeps; some milliseconds.
const BLOCKS_PER_STEP: usize = 10_000;

/// Sweeps under way, and what drains wait for.
#[derive(Default, Debug)]
pub struct Drains {
    lists: HostLists,
    sweeps: BTreeMap<NodeIndex, Sweep>,
    reports: BTreeMap<NodeIndex, DrainReport>,
    rack_count: usize,
    /// Whose sweep was looked at last.
    last: Option<NodeIndex>,
}

#[derive(Clone, Copy, Default, Debug)]
struct Sweep {
    cursor: Option<BlockId>,
    found: DrainReport,
}

impl Drains {
    /// What the drain of a node waits for, as of the last whole sweep.
    pub fn report(&self, node: NodeIndex) -> DrainReport {
        self.reports.get(&node).copied().unwrap_or_default()
    }

    /// The lists.
    pub fn lists(&self) -> &HostLists {
        &self.lists
    }
}

impl State {
    /// Takes new lists. Returns the nodes that may not be here any more: they are as good as dead.
    pub fn refresh_nodes(&mut self, nodes: &mut Datanodes, lists: HostLists) -> Vec<NodeIndex> {
        self.drains.lists = lists;
        let all: Vec<NodeIndex> = nodes.iter().map(|(index, _)| index).collect();
        let mut disallowed = Vec::new();
        for node in all {
            let info = &nodes.node(node).info;
            if !self.drains.lists.allows(info) && nodes.node(node).state != DatanodeState::Dead {
                nodes.give_up(node);
                self.blocks.bury(&self.ns, nodes, node);
                disallowed.push(node);
            }
            self.set_admin(nodes, node);
        }
        disallowed
    }

    /// Brings a node's state in line with the lists.
    pub(super) fn set_admin(&mut self, nodes: &mut Datanodes, node: NodeIndex) {
        let drained = self.drains.lists.drains(&nodes.node(node).info);
        let admin = match (drained, nodes.node(node).admin) {
            (true, AdminState::Normal) => AdminState::DecommissionInProgress,
            (false, AdminState::DecommissionInProgress | AdminState::Decommissioned) => {
                self.drains.reports.remove(&node);
                AdminState::Normal
            }
            _ => return,
        };
        nodes.set_admin(node, admin);
        self.drains.sweeps.insert(node, Sweep::default());
        self.retry_stuck();
    }

    /// A step of the sweeps. Returns who is decommissioned from now on.
    pub(super) fn sweep(&mut self, nodes: &mut Datanodes) -> Vec<NodeIndex> {
        let rack_count = nodes.rack_count();
        if rack_count > 1 && self.drains.rack_count <= 1 {
            for (index, _) in nodes.iter() {
                self.drains.sweeps.entry(index).or_default();
            }
        }
        self.drains.rack_count = rack_count;
        let (mut done, mut budget) = (Vec::new(), BLOCKS_PER_STEP);
        // Round robin, so that a long drain holds up no other.
        let mut order: Vec<NodeIndex> = self.drains.sweeps.keys().copied().collect();
        let start = order.partition_point(|node| Some(*node) <= self.drains.last);
        order.rotate_left(start);
        for node in order {
            if budget == 0 {
                break;
            }
            let Some(mut sweep) = self.drains.sweeps.remove(&node) else { continue };
            self.drains.last = Some(node);
            let draining = nodes.node(node).admin == AdminState::DecommissionInProgress;
            let blocks = self.blocks.held_after(node, sweep.cursor, budget);
            for block in &blocks {
                self.blocks.evaluate(&self.ns, nodes, *block);
                if draining {
                    self.count_unsafe(nodes, *block, &mut sweep.found);
                }
            }
            sweep.cursor = blocks.last().copied();
            let whole = blocks.len() < budget;
            budget -= blocks.len();
            if !whole {
                self.drains.sweeps.insert(node, sweep);
                continue;
            }
            if !draining {
                continue;
            }
            sweep.found.open_file_count = self.open_files_on(nodes, node);
            self.drains.reports.insert(node, sweep.found);
            let told = nodes.node(node).reported || nodes.node(node).state == DatanodeState::Dead;
            if told && sweep.found == DrainReport::default() {
                nodes.set_admin(node, AdminState::Decommissioned);
                done.push(node);
            } else {
                self.drains.sweeps.insert(node, Sweep::default());
            }
        }
        done
    }

    fn count_unsafe(&self, nodes: &Datanodes, block: BlockId, found: &mut DrainReport) {
        let Some(info) = self.ns.block(block).filter(|info| info.complete) else { return };
        let wanted = self.ns.replication_of(info).min(self.settings.replication);
        let serving = self.blocks.serving_count(nodes, block);
        found.low_redundancy_count += u64::from(serving < usize::from(wanted));
        found.only_here_count += u64::from(serving == 0 && wanted > 0);
    }

    /// Files whose last block is being written to a node.
    fn open_files_on(&self, nodes: &Datanodes, node: NodeIndex) -> u64 {
        let id = nodes.node(node).info.id;
        let open = self.ns.leases.all_files().filter(|file| {
            let open = self.ns.file(*file).and_then(|file| file.open.as_deref());
            open.is_some_and(|open| open.targets.contains(&id))
                && self.ns.open_block(*file).is_some()
        });
        open.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use protocol::datanode::{Changes, Command};
    use protocol::namenode::{Call, Reply};

    use super::super::harness::{EPOCH, Harness, create, replica, written};
    use super::*;

    fn exclude(h: &mut Harness, numbers: &[u8]) {
        let exclude = numbers.iter().map(|number| format!("host{number}")).collect();
        let lists = HostLists { exclude, ..HostLists::default() };
        assert!(h.state.refresh_nodes(&mut h.nodes, lists).is_empty());
    }

    fn admin(h: &Harness, number: u8) -> AdminState {
        h.nodes.node(h.node(number)).admin
    }

    /// Carries out the copies that were ordered.
    fn copy(h: &mut Harness, length: u64) -> usize {
        let commands = std::mem::take(&mut h.commands);
        let mut count = 0;
        for (_, command) in commands {
            let Command::Replicate { block, stamp, targets, .. } = command else { continue };
            for target in targets {
                let replica = protocol::datanode::Replica { block, stamp, length };
                let datanode = target.id;
                let changes = Changes {
                    datanode,
                    epoch: EPOCH,
                    received: vec![replica],
                    ..Changes::default()
                };
                h.changes(datanode.0[0], &changes);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn a_node_is_drained_when_every_block_is_safe_without_it_and_comes_back() {
        let mut h = Harness::with_nodes(3, 4);
        let all = [1, 2, 3, 4];
        let blocks: Vec<_> = (0..5).map(|n| h.write(&format!("/{n}"), 100, 3)).collect();
        let drained = h.holders(blocks[0].id)[0];
        exclude(&mut h, &[drained]);
        assert_eq!(admin(&h, drained), AdminState::DecommissionInProgress);
        h.pass(100, &all);
        let node = h.node(drained);
        assert!(h.state.drains.report(node).low_redundancy_count > 0);
        assert!(h.commands.iter().all(|(_, command)| match command {
            Command::Replicate { targets, .. } =>
                targets.iter().all(|target| target.id.0[0] != drained),
            _ => true,
        }));
        while copy(&mut h, 100) > 0 {
            h.pass(100, &all);
        }
        h.pass(200, &all);
        assert_eq!(admin(&h, drained), AdminState::Decommissioned);
        for block in &blocks {
            let others = h.holders(block.id).iter().filter(|holder| **holder != drained).count();
            assert_eq!(others, 3);
        }
        // Back in service there is one replica too many.
        exclude(&mut h, &[]);
        h.pass(200, &all);
        assert_eq!(admin(&h, drained), AdminState::Normal);
        assert!(blocks.iter().all(|block| h.holders(block.id).len() == 3));
    }

    #[test]
    fn the_only_copy_and_an_open_file_hold_a_drain_up() {
        let mut h = Harness::with_nodes(5, 2);
        let only = h.write("/only", 100, 1);
        let holder = h.holders(only.id)[0];
        let other = 3 - holder;
        let Ok(Reply::Created(open)) = h.call(create("/open", false, Some(2), true)) else {
            panic!("not created")
        };
        let block = open.first_block.unwrap();
        exclude(&mut h, &[holder]);
        // The other one is away: nobody can take the copy.
        h.pass(1100, &[holder]);
        let node = h.node(holder);
        let waits = DrainReport { low_redundancy_count: 1, only_here_count: 1, open_file_count: 1 };
        assert_eq!(h.state.drains.report(node), waits);
        // What was ordered while it was still believed to be there has come to nothing.
        h.commands.clear();
        h.pass(1100, &[1, 2]);
        assert!(copy(&mut h, 100) > 0);
        h.pass(200, &[1, 2]);
        assert_eq!(admin(&h, holder), AdminState::DecommissionInProgress, "a file is open there");
        let last = Some(written(&block, 50));
        h.call(Call::Complete { file: open.file, last, publish: None }).unwrap();
        let received = vec![replica(&block, 50)];
        for number in [1, 2] {
            let received = received.clone();
            h.changes(number, &Changes { received, ..Changes::default() });
        }
        h.call(Call::Delete { path: super::super::harness::dfs("/open"), recursive: false })
            .unwrap();
        h.pass(200, &[1, 2]);
        assert_eq!(admin(&h, holder), AdminState::Decommissioned);
        assert!(h.holders(only.id).contains(&other));
    }

    #[test]
    fn who_is_not_allowed_any_more_is_given_up() {
        let mut h = Harness::with_nodes(7, 3);
        let lists = HostLists { include: HostLists::parse("host1 host2"), ..HostLists::default() };
        let third = h.node(3);
        assert_eq!(h.state.refresh_nodes(&mut h.nodes, lists), [third]);
        assert_eq!(h.nodes.node(third).state, DatanodeState::Dead);
    }
}
