//! The block manager with simulated DataNodes that hold plain sets, a hand-driven clock and seeded faults. After the faults the
//! cluster must converge: every file has exactly the replicas it wants, all of them really there and good.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::datanode::{Changes, Command, Replica};
use protocol::namenode::{BadReplica, Call, LocatedBlock, ReplicaMove, Reply};
use protocol::{BlockId, DatanodeId, ErrorKind, GenerationStamp};

use super::harness::{Harness, create, dfs, replica, written_durably};
use crate::core::nodes::HostLists;
use crate::core::random::Generator;

/// Steps between visits of a scanner, on average.
const SCAN_EVERY: usize = 20;
const NODES: u8 = 6;

/// A DataNode: what is on its disk.
#[derive(Default)]
struct Disk {
    replicas: BTreeMap<BlockId, (Replica, bool)>,
    alive: bool,
    registered: bool,
}

struct Cluster {
    h: Harness,
    disks: BTreeMap<u8, Disk>,
    messages: VecDeque<(u8, Changes)>,
    random: Generator,
    files: BTreeMap<String, (BlockId, GenerationStamp, u64, u16)>,
    /// Calls that end files and were answered with "try again".
    unfinished: Vec<(u64, Call)>,
}

impl Cluster {
    fn new(seed: u64) -> Cluster {
        let disk = || Disk { alive: true, registered: true, ..Disk::default() };
        Cluster {
            h: Harness::with_nodes(seed, NODES),
            disks: (1..=NODES).map(|number| (number, disk())).collect(),
            messages: VecDeque::new(),
            random: Generator::new(seed),
            files: BTreeMap::new(),
            unfinished: Vec::new(),
        }
    }

    fn alive(&self) -> Vec<u8> {
        self.disks.iter().filter(|(_, disk)| disk.alive).map(|(number, _)| *number).collect()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.random.below(from.len())])
    }

    /// Writes a file that all members of its pipeline keep.
    fn write(&mut self, path: &str, replication: u16) {
        self.write_through(path, replication, false);
    }

    fn write_through(&mut self, path: &str, replication: u16, faulty: bool) {
        let length = 10 + self.random.next_number() % 900;
        let call = create(path, true, Some(replication), true);
        let Ok(Reply::Created(created)) = self.h.call(call) else { panic!("not created") };
        let block: LocatedBlock = created.first_block.unwrap();
        // The last two members sync before they acknowledge; another may report early, late, or lose what it has and start anew.
        let (mut lost, unsynced_count) = (Vec::new(), block.replicas.len().saturating_sub(2));
        for (place, info) in block.replicas.iter().enumerate() {
            let number = info.id.0[0];
            let received = vec![replica(&block, length)];
            let fate = if place >= unsynced_count || !faulty { 1 } else { self.random.below(3) };
            match fate {
                0 => self.say(number, Changes { received, ..Changes::default() }),
                1 => self.h.changes(number, &Changes { received, ..Changes::default() }),
                _ => {
                    lost.push(number);
                    continue;
                }
            }
            let disk = self.disks.get_mut(&number).unwrap();
            disk.replicas.insert(block.id, (replica(&block, length), true));
        }
        for number in lost {
            if self.disks[&number].alive {
                self.come_back(number);
            }
        }
        let last = written_durably(&block, length, usize::from(replication.min(2)));
        let complete = Call::Complete { file: created.file, last: Some(last), publish: None };
        match self.h.call(complete.clone()) {
            Ok(Reply::Done) => {}
            // Its pipeline was short: it ends when a copy is there.
            Err(error) if error.kind == ErrorKind::NotReplicatedYet => {
                self.unfinished.push((self.h.number(), complete));
            }
            other => panic!("{other:?}"),
        }
        self.files.insert(path.to_owned(), (block.id, block.stamp, length, replication));
    }

    fn say(&mut self, number: u8, changes: Changes) {
        self.messages.push_back((number, changes));
    }

    /// Delivers what DataNodes said; some late, some twice. Each has one message under way at a time, so what follows a late one
    /// is late as well.
    fn deliver(&mut self, faulty: bool) {
        let mut late = BTreeSet::new();
        for _ in 0..self.messages.len() {
            let Some((number, changes)) = self.messages.pop_front() else { break };
            if late.contains(&number) || (faulty && self.random.below(4) == 0) {
                late.insert(number);
                self.messages.push_back((number, changes));
                continue;
            }
            if !self.disks[&number].registered {
                continue;
            }
            self.h.changes(number, &changes);
            if faulty && self.random.below(5) == 0 {
                self.h.changes(number, &changes);
            }
        }
    }

    fn obey(&mut self, faulty: bool) {
        let commands = std::mem::take(&mut self.h.commands);
        for (node, command) in commands {
            let number = self.h.nodes.node(node).info.id.0[0];
            if !self.disks[&number].alive {
                continue;
            }
            match command {
                Command::Delete(doomed) => self.delete(number, &doomed),
                Command::Replicate { block, stamp, targets, .. } => {
                    let source = self.disks[&number].replicas.get(&block).copied();
                    let Some((replica, true)) = source.filter(|(r, _)| r.stamp == stamp) else {
                        if let Some((bad, false)) = source {
                            self.say(number, Changes { bad: vec![bad], ..Changes::default() });
                        }
                        continue;
                    };
                    for target in targets {
                        let target = target.id.0[0];
                        let refused = faulty && self.random.below(4) == 0;
                        let disk = self.disks.get_mut(&target).unwrap();
                        if !disk.alive || refused {
                            let copies_failed = vec![block];
                            self.say(number, Changes { copies_failed, ..Changes::default() });
                            break;
                        }
                        disk.replicas.insert(block, (replica, true));
                        let received = vec![replica];
                        self.say(target, Changes { received, ..Changes::default() });
                    }
                }
                Command::Verify(doubted) => {
                    let replicas = &self.disks[&number].replicas;
                    let is_bad = |(block, stamp): &(BlockId, GenerationStamp)| {
                        let found =
                            replicas.get(block).filter(|(r, good)| r.stamp == *stamp && !good);
                        found.map(|(replica, _)| *replica)
                    };
                    let bad: Vec<_> = doubted.iter().filter_map(is_bad).collect();
                    self.say(number, Changes { bad, ..Changes::default() });
                }
                Command::Recover { .. }
                | Command::ReportAll
                | Command::Cut { .. }
                | Command::SetBalancerBandwidth(_)
                | Command::ShutDown => {}
            }
        }
    }

    fn delete(&mut self, number: u8, doomed: &[(BlockId, GenerationStamp)]) {
        let mut deleted = Vec::new();
        for (block, stamp) in doomed {
            let good_elsewhere = self.disks.iter().any(|(other, disk)| {
                *other != number && disk.replicas.get(block).is_some_and(|(_, good)| *good)
            });
            let wanted = self.files.values().any(|(id, ..)| id == block);
            let disk = self.disks.get_mut(&number).unwrap();
            let newer = disk.replicas.get(block).is_some_and(|(replica, _)| replica.stamp > *stamp);
            assert!(
                good_elsewhere || !wanted,
                "the last good replica of {block} was to be deleted"
            );
            // As a DataNode does: a newer replica is another one, and is not reported as deleted.
            if !newer {
                disk.replicas.remove(block);
                deleted.push(*block);
            }
        }
        self.say(number, Changes { deleted, ..Changes::default() });
    }

    fn step(&mut self, faulty: bool) {
        let alive = self.alive();
        self.h.pass(100, &alive);
        self.obey(faulty);
        self.deliver(faulty);
        for number in 1..=NODES {
            let index = self.h.node(number);
            let dead = self.h.nodes.node(index).state == protocol::namenode::DatanodeState::Dead;
            let disk = self.disks.get_mut(&number).unwrap();
            if dead {
                disk.registered = false;
            }
            if disk.alive && !disk.registered {
                self.come_back(number);
            }
            if self.random.below(SCAN_EVERY) == 0 {
                self.scan(number);
            }
        }
        for (number, call) in std::mem::take(&mut self.unfinished) {
            match self.h.call_again(number, call.clone()) {
                Err(error) if error.kind == ErrorKind::NotReplicatedYet => {
                    self.unfinished.push((number, call));
                }
                // Done, or the file was deleted meanwhile.
                _ => {}
            }
        }
        self.h.state.blocks.check(&self.h.state.ns);
    }

    /// The scanner of a DataNode comes by: an order to verify may have been lost with its process.
    fn scan(&mut self, number: u8) {
        let disk = &self.disks[&number];
        if disk.alive && disk.registered {
            let bad = disk.replicas.values().filter(|(_, good)| !good);
            let bad: Vec<_> = bad.map(|(replica, _)| *replica).collect();
            self.say(number, Changes { bad, ..Changes::default() });
        }
    }

    fn come_back(&mut self, number: u8) {
        // What was said before the registration is void.
        self.messages.retain(|(sender, _)| *sender != number);
        self.h.register(number);
        let disk = self.disks.get_mut(&number).unwrap();
        disk.registered = true;
        let all = disk.replicas.values().map(|(replica, _)| *replica).collect();
        self.h.report(number, all, vec![]);
    }

    /// One random fault. Never more than one DataNode is down, and never the last good replica is damaged.
    fn fault(&mut self) {
        let alive = self.alive();
        match self.random.below(9) {
            0 if alive.len() == usize::from(NODES) => {
                let victim = self.pick(&alive).unwrap();
                self.disks.get_mut(&victim).unwrap().alive = false;
            }
            1 | 2 => {
                for disk in self.disks.values_mut() {
                    disk.alive = true;
                }
            }
            3 => self.corrupt(),
            4 => {
                let paths: Vec<String> = self.files.keys().cloned().collect();
                let place = self.random.below(paths.len().max(1));
                let Some(path) = paths.get(place).cloned() else { return };
                self.files.remove(&path);
                let call = Call::Delete { path: dfs(&path), recursive: false };
                assert_eq!(self.h.call(call), Ok(Reply::Flag(true)));
            }
            5 => {
                let paths: Vec<String> = self.files.keys().cloned().collect();
                let place = self.random.below(paths.len().max(1));
                let Some(path) = paths.get(place).cloned() else { return };
                let replication = 2 + u16::try_from(self.random.below(3)).unwrap();
                self.files.get_mut(&path).unwrap().3 = replication;
                let call = Call::SetReplication { path: dfs(&path), replication };
                assert_eq!(self.h.call(call), Ok(Reply::Flag(true)));
            }
            6 => {
                // One DataNode at most leaves service, or comes back; another one goes into maintenance, perhaps for a moment only.
                let mut host = || {
                    let number = 1 + self.random.below(2 * usize::from(NODES));
                    format!("host{number}")
                };
                let (exclude, kept) = ([host()].into(), host());
                let until_ms = match self.random.below(2) {
                    0 => u64::MAX,
                    _ => self.h.now.wall_ms + self.random.next_number() % 5000,
                };
                let maintenance = [(kept, until_ms)].into();
                let lists = HostLists { exclude, maintenance, ..HostLists::default() };
                self.h.state.refresh_nodes(&mut self.h.nodes, lists, self.h.now);
            }
            7 => {
                let wanted: Vec<ReplicaMove> = self
                    .files
                    .values()
                    .filter_map(|(block, ..)| {
                        let from = *self.h.holders(*block).first()?;
                        let to = DatanodeId([1 + from % NODES; 16]);
                        Some(ReplicaMove { block: *block, from: DatanodeId([from; 16]), to })
                    })
                    .collect();
                assert!(matches!(self.h.call(Call::MoveReplicas(wanted)), Ok(Reply::Moves(_))));
            }
            _ => {
                // A replica of an old stamp turns up again.
                let blocks: Vec<_> = self.files.values().copied().collect();
                let place = self.random.below(blocks.len().max(1));
                let Some(&(block, stamp, length, _)) = blocks.get(place) else { return };
                let number = self.pick(&alive).unwrap();
                let disk = self.disks.get_mut(&number).unwrap();
                if disk.registered && !disk.replicas.contains_key(&block) {
                    let stale = Replica { block, stamp: GenerationStamp(stamp.0 - 1), length };
                    disk.replicas.insert(block, (stale, false));
                    self.say(number, Changes { received: vec![stale], ..Changes::default() });
                }
            }
        }
    }

    fn corrupt(&mut self) {
        let blocks: Vec<_> = self.files.values().copied().collect();
        let place = self.random.below(blocks.len().max(1));
        let Some(&(block, stamp, ..)) = blocks.get(place) else { return };
        let good: Vec<u8> = self
            .disks
            .iter()
            .filter(|(_, disk)| {
                disk.alive
                    && disk.replicas.get(&block).is_some_and(|(r, good)| *good && r.stamp == stamp)
            })
            .map(|(number, _)| *number)
            .collect();
        if good.len() < 2 {
            return;
        }
        let number = self.pick(&good).unwrap();
        let known = self.h.holders(block);
        // Only if the NameNode knows of another good one, which it must keep.
        if !known.iter().any(|other| *other != number && good.contains(other)) {
            return;
        }
        self.disks.get_mut(&number).unwrap().replicas.get_mut(&block).unwrap().1 = false;
        let bad = BadReplica { block, stamp, datanode: DatanodeId([number; 16]) };
        assert_eq!(self.h.call(Call::ReportBadReplicas(vec![bad])), Ok(Reply::Done));
    }

    fn converged(&self) -> Result<(), String> {
        let mut wanted = BTreeSet::new();
        for (path, &(block, stamp, length, replication)) in &self.files {
            let mut good = Vec::new();
            for (number, disk) in &self.disks {
                match disk.replicas.get(&block) {
                    Some((r, true)) if r.stamp == stamp && r.length == length => good.push(*number),
                    Some(other) => return Err(format!("{path} has {other:?} on {number}")),
                    None => {}
                }
            }
            if good.len() != usize::from(replication) || good != self.h.holders(block) {
                let known = self.h.holders(block);
                return Err(format!(
                    "{path}: {good:?} on disk, {known:?} known, {replication} wanted"
                ));
            }
            wanted.insert(block);
        }
        let on_disk = self.disks.values().flat_map(|disk| disk.replicas.keys().copied());
        match on_disk.into_iter().find(|block| !wanted.contains(block)) {
            Some(block) => Err(format!("{block} should be deleted")),
            None => Ok(()),
        }
    }
}

fn run(seed: u64) {
    let mut cluster = Cluster::new(seed);
    for number in 0..25 {
        cluster.write_through(&format!("/f{number}"), 2 + (number % 3), true);
        cluster.step(false);
    }
    for round in 0..60 {
        cluster.fault();
        if round % 10 == 0 {
            cluster.write_through(&format!("/late{round}"), 3, true);
        }
        cluster.step(true);
    }
    for disk in cluster.disks.values_mut() {
        disk.alive = true;
    }
    let h = &mut cluster.h;
    h.state.refresh_nodes(&mut h.nodes, HostLists::default(), h.now);
    let mut last = Err("never looked".to_owned());
    for _ in 0..400 {
        cluster.step(false);
        last = cluster.converged();
        let status = (
            cluster.h.state.blocks.low_count(),
            cluster.h.state.blocks.pending_count(),
            cluster.h.state.blocks.doomed_count(),
            cluster.h.state.blocks.corrupt_count(),
        );
        if last.is_ok() && status == (0, 0, 0, 0) && cluster.unfinished.is_empty() {
            return;
        }
        if last.is_ok() {
            last = Err(format!("low, pending, doomed, corrupt: {status:?}"));
        }
    }
    panic!("seed {seed} did not converge: {last:?}");
}

#[test]
fn every_seed_converges() {
    needs::seeds::for_each(100, run);
}

#[test]
fn the_last_copy_comes_first_and_streams_are_limited() {
    let mut cluster = Cluster::new(3);
    for number in 0..30 {
        cluster.write(&format!("/three{number}"), 3);
    }
    for number in 0..10 {
        cluster.write(&format!("/two{number}"), 2);
    }
    let victim = cluster.h.holders(cluster.files["/two0"].0)[0];
    cluster.disks.get_mut(&victim).unwrap().alive = false;
    let alive = cluster.alive();
    cluster.h.commands.clear();
    cluster.h.pass(2100, &alive);
    let order: Vec<(crate::core::nodes::NodeIndex, BlockId)> = cluster
        .h
        .commands
        .iter()
        .filter_map(|(node, command)| match command {
            Command::Replicate { block, .. } => Some((*node, *block)),
            _ => None,
        })
        .collect();
    let is_two = |block: &BlockId| {
        cluster.files.iter().any(|(path, (id, ..))| id == block && path.starts_with("/two"))
    };
    let urgent = order.iter().take_while(|(_, block)| is_two(block)).count();
    assert!(urgent >= 1, "blocks with one copy left come first: {order:?}");
    assert!(order.iter().skip(urgent).all(|(_, block)| !is_two(block)));
    let mut per_source: BTreeMap<_, usize> = BTreeMap::new();
    order.iter().for_each(|(node, _)| *per_source.entry(*node).or_default() += 1);
    assert!(per_source.values().all(|count| *count <= 2), "{per_source:?}");
}

#[test]
fn a_copy_that_its_source_cannot_send_is_ordered_again_at_the_next_tick() {
    let mut cluster = Cluster::new(3);
    cluster.write("/f", 2);
    let block = cluster.files["/f"].0;
    let victim = cluster.h.holders(block)[0];
    cluster.disks.get_mut(&victim).unwrap().alive = false;
    let alive = cluster.alive();
    let copies = |cluster: &mut Cluster| {
        let commands = std::mem::take(&mut cluster.h.commands);
        let replicate = |(node, command)| match command {
            Command::Replicate { block: copied, .. } if copied == block => Some(node),
            _ => None,
        };
        commands.into_iter().filter_map(replicate).collect::<Vec<_>>()
    };
    cluster.h.commands.clear();
    cluster.h.pass(2100, &alive);
    for _ in 0..3 {
        let sources = copies(&mut cluster);
        let [source] = sources[..] else { panic!("one copy is ordered: {sources:?}") };
        let number = cluster.h.nodes.node(source).info.id.0[0];
        let copies_failed = vec![block];
        cluster.h.changes(number, &Changes { copies_failed, ..Changes::default() });
        assert_eq!(copies(&mut cluster), [], "not at once");
        assert_eq!(cluster.h.nodes.node(source).outgoing, 0);
        cluster.h.pass(100, &alive);
    }
}

#[test]
fn a_bad_replica_is_replaced_even_if_its_node_is_the_only_place() {
    let mut cluster = Cluster::new(1);
    cluster.write("/f", NODES.into());
    let (block, stamp, ..) = cluster.files["/f"];
    assert_eq!(cluster.h.holders(block).len(), usize::from(NODES));
    cluster.disks.get_mut(&2).unwrap().replicas.get_mut(&block).unwrap().1 = false;
    let bad = BadReplica { block, stamp, datanode: DatanodeId([2; 16]) };
    let good = BadReplica { datanode: DatanodeId([3; 16]), ..bad };
    cluster.h.call(Call::ReportBadReplicas(vec![bad, good])).unwrap();
    assert_eq!(
        cluster.h.holders(block).len(),
        usize::from(NODES),
        "a client's word is looked into"
    );
    cluster.obey(false);
    cluster.deliver(false);
    assert_eq!(cluster.h.holders(block).len(), usize::from(NODES) - 1);
    for _ in 0..30 {
        cluster.step(false);
    }
    assert_eq!(cluster.converged(), Ok(()));
}

#[test]
fn nothing_is_deleted_while_all_replicas_are_bad() {
    let mut cluster = Cluster::new(1);
    cluster.write("/f", 3);
    let (block, ..) = cluster.files["/f"];
    for number in cluster.h.holders(block) {
        let bad = vec![cluster.disks[&number].replicas[&block].0];
        cluster.h.changes(number, &Changes { bad, ..Changes::default() });
    }
    for _ in 0..50 {
        let alive = cluster.alive();
        cluster.h.pass(100, &alive);
    }
    assert!(cluster.h.commands.is_empty());
    let all = Call::Locations { path: dfs("/f"), offset: 0, length: 10 };
    match cluster.h.call(all) {
        Ok(Reply::Located(located)) => {
            assert!(located.blocks[0].corrupt);
            assert_eq!(located.blocks[0].replicas.len(), 3);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn unknown_replicas_go_after_a_grace_unless_there_are_too_many() {
    let unknown = |count: u64, first: u64| -> Vec<Replica> {
        let replica =
            |number| Replica { block: BlockId(number), stamp: GenerationStamp(1001), length: 1 };
        (first..first + count).map(replica).collect()
    };
    let past = BlockId::FIRST.0;
    for (replicas, deleted) in [
        (unknown(100, past), true),
        (unknown(101, past), false),
        (unknown(1, past + 1_000_000), false),
    ] {
        let mut h = Harness::new(1);
        // Two hundred blocks were handed out and their files deleted.
        h.register(1);
        for number in 0..200 {
            h.write(&format!("/f{number}"), 10, 1);
        }
        h.call(Call::Delete { path: dfs("/f0"), recursive: false }).unwrap();
        for number in 0..200 {
            h.call(Call::Delete { path: dfs(&format!("/f{number}")), recursive: false }).unwrap();
        }
        h.work();
        h.commands.clear();
        h.register(2);
        let count = replicas.len();
        h.report(2, replicas, vec![]);
        h.pass(200, &[1, 2]);
        let node = h.node(2);
        let orders = |h: &Harness| -> usize {
            let of_two = h.commands.iter().filter(|(to, _)| *to == node);
            of_two
                .map(|(_, command)| match command {
                    Command::Delete(doomed) => doomed.len(),
                    _ => 0,
                })
                .sum()
        };
        assert_eq!(orders(&h), 0, "not before the grace is over");
        h.pass(200, &[1, 2]);
        assert_eq!(orders(&h), if deleted { count } else { 0 });
    }
}

/// The copy of a block whose order to be deleted names an older stamp, because the file was deleted in between.
#[test]
fn a_replica_of_a_later_stamp_than_the_doomed_one_goes_too() {
    let mut h = Harness::new(1);
    let node = h.register(1);
    for name in ["/f", "/g"] {
        h.write(name, 10, 1);
    }
    h.call(Call::Delete { path: dfs("/f"), recursive: false }).unwrap();
    h.work();
    let orders = |h: &Harness| -> Vec<(BlockId, GenerationStamp)> {
        let of_node = h.commands.iter().filter(|(to, _)| *to == node);
        of_node
            .flat_map(|(_, command)| match command {
                Command::Delete(doomed) => doomed.clone(),
                _ => Vec::new(),
            })
            .collect()
    };
    let (block, stamp) = orders(&h)[0];
    let later = GenerationStamp(stamp.0 + 1);
    h.commands.clear();
    h.register(1);
    h.report(1, vec![Replica { block, stamp: later, length: 10 }], vec![]);
    h.pass(400, &[1]);
    assert!(orders(&h).contains(&(block, later)), "{:?}", h.commands);
}
