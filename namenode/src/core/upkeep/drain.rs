//! Taking DataNodes out of service and back, for good or for a while. Their replicas stop counting, so the block manager makes others where
//! too few are left. A sweep over all their blocks finds out when the last of them is safe.
//!
//! A sweep judges every block of a node again, in bounded steps. One begins when a node's state changes: its replicas count from now on, or
//! no longer do. Another begins when a second rack appears: blocks on one rack are then misplaced. The sweep of a node that is being
//! drained begins again until it finds nothing.

use protocol::namenode::{AdminState, DatanodeState, DrainReport};
use protocol::{BlockId, DatanodeId};

use crate::core::nodes::{Datanodes, HostLists, Intent, Node, NodeIndex, Sweep};
use crate::core::now::Now;
use crate::core::state::State;

/// Blocks judged in one step, over all sweeps; some milliseconds.
const BLOCKS_PER_STEP: usize = 10_000;

impl State {
    /// Takes new lists. Returns the nodes that are no longer allowed: they count as dead.
    pub fn refresh_nodes(
        &mut self,
        nodes: &mut Datanodes,
        lists: HostLists,
        now: Now,
    ) -> Vec<NodeIndex> {
        self.set_now(now);
        self.drains.lists = lists;
        self.drains.read_at = now;
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
    pub(in crate::core) fn set_admin(&mut self, nodes: &mut Datanodes, node: NodeIndex) {
        let wanted = self.drains.intent(&nodes.node(node).info, self.blocks.reports.now_ms());
        let old = nodes.node(node).admin;
        let is_dead = nodes.node(node).state == DatanodeState::Dead;
        let admin = match (wanted, old) {
            (Intent::InService, AdminState::Normal)
            | (Intent::Drained, AdminState::DecommissionInProgress | AdminState::Decommissioned)
            | (
                Intent::InMaintenance,
                AdminState::EnteringMaintenance | AdminState::InMaintenance,
            ) => return,
            (Intent::InService, _) => AdminState::Normal,
            (Intent::Drained, _) => AdminState::DecommissionInProgress,
            // What it had is on its way out of the map, and nobody knows what it still has.
            (Intent::InMaintenance, _) if is_dead => AdminState::InMaintenance,
            (Intent::InMaintenance, _) => AdminState::EnteringMaintenance,
        };
        self.drains.reports.remove(&node);
        nodes.set_admin(node, admin);
        if old.is_maintenance() && is_dead && !admin.is_maintenance() {
            self.blocks.bury(&self.ns, nodes, node);
        }
        self.drains.sweeps.insert(node, Sweep::default());
        self.retry_stuck();
    }

    /// Ends the maintenance of nodes whose time is over. Returns who they are.
    pub(in crate::core) fn end_maintenance(&mut self, nodes: &mut Datanodes) -> Vec<NodeIndex> {
        if !nodes.is_any_away() {
            return Vec::new();
        }
        let now_ms = self.blocks.reports.now_ms();
        let over = nodes.iter().filter(|(_, node)| {
            // Few are in maintenance, and the lists are searched only for those.
            node.admin.is_maintenance()
                && self.drains.intent(&node.info, now_ms) != Intent::InMaintenance
        });
        let over: Vec<NodeIndex> = over.map(|(index, _)| index).collect();
        for node in &over {
            self.set_admin(nodes, *node);
        }
        over
    }

    /// A step of the sweeps. Returns who may be switched off from now on.
    pub(in crate::core) fn sweep(&mut self, nodes: &mut Datanodes) -> Vec<NodeIndex> {
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
            let admin = nodes.node(node).admin;
            let goal = match admin {
                AdminState::DecommissionInProgress => Some(AdminState::Decommissioned),
                AdminState::EnteringMaintenance => Some(AdminState::InMaintenance),
                _ => None,
            };
            let blocks = self.blocks.held_after(node, sweep.cursor, budget);
            for block in &blocks {
                self.blocks.evaluate(&self.ns, nodes, *block);
                if goal.is_some() {
                    self.count_unsafe(nodes, *block, admin, &mut sweep.found);
                }
            }
            sweep.cursor = blocks.last().copied();
            let whole = blocks.len() < budget;
            budget -= blocks.len();
            if !whole {
                self.drains.sweeps.insert(node, sweep);
                continue;
            }
            let Some(goal) = goal else { continue };
            sweep.found.open_file_count = self.open_files_on(nodes, node);
            let is_dead = nodes.node(node).state == DatanodeState::Dead;
            // What it had is not known any more: any block that lacks replicas may have its last one there. HDFS judges so, too.
            if is_dead && goal == AdminState::Decommissioned {
                sweep.found.low_redundancy_count += self.blocks.low_count();
                sweep.found.low_redundancy_count += self.blocks.pending_count();
                sweep.found.low_redundancy_count += u64::from(self.blocks.is_burying());
            }
            self.drains.reports.insert(node, sweep.found);
            let has_reported = nodes.node(node).reported || is_dead;
            if has_reported && sweep.found == DrainReport::default() {
                nodes.set_admin(node, goal);
                done.push(node);
            } else {
                self.drains.sweeps.insert(node, Sweep::default());
            }
        }
        done
    }

    fn count_unsafe(
        &self,
        nodes: &Datanodes,
        block: BlockId,
        admin: AdminState,
        found: &mut DrainReport,
    ) {
        let Some(info) = self.ns.block(block).filter(|info| info.complete) else { return };
        let replication = usize::from(self.ns.replication_of(info));
        let wanted = match admin {
            AdminState::EnteringMaintenance => self.blocks.maintenance_min().min(replication),
            _ => {
                let wanted = self.blocks.wanted_count(nodes, block, replication);
                wanted.min(usize::from(self.settings.replication))
            }
        };
        let serving = self.blocks.serving_count(nodes, block);
        found.low_redundancy_count += u64::from(serving < wanted);
        found.only_here_count += u64::from(serving == 0 && wanted > 0);
    }

    /// Files whose last block is being written to a node that leaves service. For a node that will return, only files that too few others
    /// in service write as well.
    fn open_files_on(&self, nodes: &Datanodes, node: NodeIndex) -> u64 {
        let Node { info, admin, .. } = nodes.node(node);
        let is_safe = |targets: &[DatanodeId]| {
            let indexes = targets.iter().filter_map(|id| nodes.index(*id));
            let serving = indexes.filter(|index| nodes.node(*index).is_serving());
            let wanted = self.blocks.maintenance_min().min(targets.len());
            *admin == AdminState::EnteringMaintenance && serving.count() >= wanted
        };
        let open = self.ns.leases.all_files().filter(|file| {
            let open = self.ns.file(*file).and_then(|file| file.open.as_deref());
            let waits = |targets: &[DatanodeId]| targets.contains(&info.id) && !is_safe(targets);
            open.is_some_and(|open| waits(&open.targets)) && self.ns.open_block(*file).is_some()
        });
        open.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use protocol::datanode::{Changes, Command};
    use protocol::namenode::{Call, Reply};

    use super::*;
    use crate::core::tests::harness::{Harness, create, replica, written};

    fn exclude(h: &mut Harness, numbers: &[u8]) {
        let exclude = numbers.iter().map(|number| format!("host{number}")).collect();
        let lists = HostLists { exclude, ..HostLists::default() };
        assert!(h.state.refresh_nodes(&mut h.nodes, lists, h.now).is_empty());
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
                let changes = Changes { received: vec![replica], ..Changes::default() };
                h.changes(target.id.0[0], &changes);
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
    fn a_dead_node_is_drained_when_no_block_lacks_replicas() {
        let mut h = Harness::with_nodes(3, 4);
        let all = [1, 2, 3, 4];
        let only = h.write("/only", 100, 1);
        let holder = h.holders(only.id)[0];
        let others: Vec<u8> = all.into_iter().filter(|number| *number != holder).collect();
        h.pass(3000, &others);
        assert_eq!(h.nodes.node(h.node(holder)).state, DatanodeState::Dead);
        exclude(&mut h, &[holder]);
        h.pass(2000, &others);
        assert_eq!(admin(&h, holder), AdminState::DecommissionInProgress, "it has the only copy");
        assert!(h.state.drains.report(h.node(holder)).low_redundancy_count > 0);
        // It comes back, and what it has is copied.
        h.register(holder);
        h.report(holder, vec![replica(&only, 100)], vec![]);
        h.commands.clear();
        h.pass(200, &all);
        assert!(copy(&mut h, 100) > 0);
        h.pass(200, &all);
        assert_eq!(admin(&h, holder), AdminState::Decommissioned);
        // One that is dead and has nothing that others lack is drained, too.
        h.pass(3000, &others[..2]);
        exclude(&mut h, &[holder, others[2]]);
        for _ in 0..5 {
            h.pass(500, &others[..2]);
            copy(&mut h, 100);
        }
        assert_eq!(admin(&h, others[2]), AdminState::Decommissioned);
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
        let Ok(Reply::OpenFiles { files, .. }) = h.read(&Call::OpenFiles { after: None }) else {
            panic!("not listed")
        };
        assert!(files.len() == 1 && files[0].holds_drain);
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
        h.call(Call::Delete { path: crate::core::tests::harness::dfs("/open"), recursive: false })
            .unwrap();
        h.pass(200, &[1, 2]);
        assert_eq!(admin(&h, holder), AdminState::Decommissioned);
        assert!(h.holders(only.id).contains(&other));
    }

    fn maintain(h: &mut Harness, entries: &[(u8, u64)]) {
        let entry = |(number, until_ms): &(u8, u64)| (format!("host{number}"), *until_ms);
        let maintenance = entries.iter().map(entry).collect();
        let lists = HostLists { maintenance, ..HostLists::default() };
        assert!(h.state.refresh_nodes(&mut h.nodes, lists, h.now).is_empty());
    }

    /// Copies that were ordered of one block.
    fn copies_of(h: &Harness, wanted: BlockId) -> usize {
        let is_copy = |command: &Command| matches!(command, Command::Replicate { block, .. } if *block == wanted);
        h.commands.iter().filter(|(_, command)| is_copy(command)).count()
    }

    #[test]
    fn a_node_in_maintenance_may_be_off_without_a_copy_and_comes_back_with_what_it_has() {
        let mut h = Harness::with_nodes(3, 4);
        let all = [1, 2, 3, 4];
        let block = h.write("/f", 100, 3);
        let kept = h.holders(block.id)[0];
        let others: Vec<u8> = all.into_iter().filter(|number| *number != kept).collect();
        maintain(&mut h, &[(kept, u64::MAX)]);
        assert_eq!(admin(&h, kept), AdminState::EnteringMaintenance);
        h.pass(200, &all);
        assert_eq!(admin(&h, kept), AdminState::InMaintenance);
        // New blocks go elsewhere, and three replicas still fit.
        let fresh = h.write("/g", 100, 3);
        assert_eq!(h.holders(fresh.id), others);
        // It is off for much longer than a dead node.
        h.pass(5000, &others);
        assert_eq!(h.nodes.node(h.node(kept)).state, DatanodeState::Dead);
        assert_eq!((copies_of(&h, block.id), h.holders(block.id).len()), (0, 3));
        let Ok(Reply::Located(located)) = h.read(&Call::Locations {
            path: crate::core::tests::harness::dfs("/f"),
            offset: 0,
            length: 100,
        }) else {
            panic!("not located")
        };
        assert_eq!(located.blocks[0].replicas.len(), 2, "readers are not sent there");
        h.state.blocks.check(&h.state.ns);
        // Back again and out of the list: no replica too many and none too few.
        h.register(kept);
        h.report(kept, vec![replica(&block, 100)], vec![]);
        maintain(&mut h, &[]);
        h.pass(500, &all);
        assert_eq!(admin(&h, kept), AdminState::Normal);
        assert_eq!((copies_of(&h, block.id), h.holders(block.id).len()), (0, 3));
    }

    #[test]
    fn a_block_without_a_replica_in_service_holds_maintenance_up_and_gets_one_copy() {
        let mut h = Harness::with_nodes(5, 4);
        let all = [1, 2, 3, 4];
        let block = h.write("/f", 100, 2);
        let holders = h.holders(block.id);
        maintain(&mut h, &[(holders[0], u64::MAX), (holders[1], u64::MAX)]);
        h.pass(300, &all);
        for number in &holders {
            assert_eq!(admin(&h, *number), AdminState::EnteringMaintenance);
            let report = h.state.drains.report(h.node(*number));
            assert_eq!((report.low_redundancy_count, report.only_here_count), (1, 1));
        }
        assert_eq!(copies_of(&h, block.id), 1, "one in service is enough");
        assert_eq!(copy(&mut h, 100), 1);
        h.pass(300, &all);
        for number in &holders {
            assert_eq!(admin(&h, *number), AdminState::InMaintenance);
        }
        // The time is over while one of them is off: what it had is gone for good, and what came meanwhile stays.
        let off = holders[0];
        let rest: Vec<u8> = all.into_iter().filter(|number| *number != off).collect();
        h.pass(3000, &rest);
        let soon = h.now.wall_ms + 1000;
        maintain(&mut h, &[(off, soon), (holders[1], soon)]);
        h.pass(900, &rest);
        assert_eq!(admin(&h, off), AdminState::InMaintenance);
        h.pass(500, &rest);
        assert_eq!(admin(&h, off), AdminState::Normal);
        let left = h.holders(block.id);
        assert!(left.len() == 2 && !left.contains(&off), "{left:?}");
    }

    #[test]
    fn a_dead_node_is_in_maintenance_at_once_and_the_list_leads_from_each_state_to_each() {
        let mut h = Harness::with_nodes(9, 3);
        h.pass(3000, &[1, 2]);
        maintain(&mut h, &[(3, u64::MAX)]);
        assert_eq!(admin(&h, 3), AdminState::InMaintenance);
        maintain(&mut h, &[(1, u64::MAX)]);
        assert_eq!(admin(&h, 3), AdminState::Normal);
        h.pass(300, &[1, 2]);
        assert_eq!(admin(&h, 1), AdminState::InMaintenance);
        exclude(&mut h, &[1]);
        assert_eq!(admin(&h, 1), AdminState::DecommissionInProgress);
        h.pass(300, &[1, 2]);
        assert_eq!(admin(&h, 1), AdminState::Decommissioned);
        let soon = h.now.wall_ms + 50;
        maintain(&mut h, &[(1, soon)]);
        assert_eq!(admin(&h, 1), AdminState::EnteringMaintenance);
        h.pass(100, &[1, 2]);
        assert_eq!(admin(&h, 1), AdminState::Normal, "its time is over");
        // A time in the past is none.
        maintain(&mut h, &[(1, 1)]);
        assert_eq!(admin(&h, 1), AdminState::Normal);
    }

    #[test]
    fn a_file_written_elsewhere_as_well_does_not_hold_maintenance_up() {
        for (replication, waits) in [(2, false), (1, true)] {
            let mut h = Harness::with_nodes(7, 3);
            let Ok(Reply::Created(open)) = h.call(create("/open", false, Some(replication), true))
            else {
                panic!("not created")
            };
            let target = open.first_block.unwrap().replicas[0].id.0[0];
            maintain(&mut h, &[(target, u64::MAX)]);
            h.pass(300, &[1, 2, 3]);
            let expected = match waits {
                true => AdminState::EnteringMaintenance,
                false => AdminState::InMaintenance,
            };
            assert_eq!(admin(&h, target), expected, "{replication} replicas");
        }
    }

    #[test]
    fn who_is_not_allowed_any_more_is_given_up() {
        let mut h = Harness::with_nodes(7, 3);
        let lists = HostLists { include: HostLists::parse("host1 host2"), ..HostLists::default() };
        let third = h.node(3);
        assert_eq!(h.state.refresh_nodes(&mut h.nodes, lists, h.now), [third]);
        assert_eq!(h.nodes.node(third).state, DatanodeState::Dead);
    }
}
