//! A writer in a world in which everything fails, and what it promises nevertheless.
//!
//! Checked in every run: what is acknowledged is on all members, right and without a hole; nothing goes back behind it; what a flush promised survives a
//! recovery that any of the replicas decides; what `close` promised is complete and on disk; only those that failed are replaced; every goal ends, and in
//! success if nothing fails any more.

mod cases;
mod namenode;
mod network;

use proptest::prelude::*;
use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::Appended;
use protocol::{ClientId, DatanodeId, DfsPath, ErrorKind};

use self::namenode::{FILE, NameNode};
use self::network::{Replica, World, byte_at};
use super::{File, Goal, Step, Writer};
use crate::error::WriteError;
use crate::writer::Buffer;
use crate::writer::simulated::{CallError, Fault, Simulated};

/// More steps than any goal takes: the most are those of a close that waits for copies, or of a sync in a pipeline that nobody joins.
const STEPS_MAX: usize = 20_000;
/// Bytes of a packet in these tests.
const PACKET_BYTES: usize = 2 * CHUNK_BYTES;

type Ended = Result<(), WriteError<CallError, Fault>>;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u16),
    Flush { sync: bool, update_length: bool },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let flush = (any::<bool>(), any::<bool>())
        .prop_map(|(sync, update_length)| Op::Flush { sync, update_length: sync && update_length });
    prop::collection::vec(prop_oneof![3 => (1..6000u16).prop_map(Op::Write), 1 => flush], 0..20)
}

/// A cluster and a file.
#[derive(Clone, Copy, Debug)]
struct Scene {
    nodes: u8,
    replication: usize,
    durable_min: u16,
    block_size: u64,
    /// Bytes that the file had before it was opened at its end.
    appended: Option<u64>,
    slow: Option<u8>,
    closes: bool,
}

fn scenes() -> impl Strategy<Value = Scene> {
    let sizes = prop_oneof![Just(4096u64), Just(3000), Just(20_000), Just(1 << 20)];
    let appended = prop::option::weighted(0.3, 1..2900u64);
    let slow = prop::option::weighted(0.4, 1..4u8);
    (1..6u8, 1..4usize, 1..3u16, sizes, appended, slow, any::<bool>()).prop_map(
        |(nodes, replication, durable_min, block_size, appended, slow, closes)| {
            let durable_min = durable_min.min(replication as u16).min(nodes.into());
            Scene { nodes, replication, durable_min, block_size, appended, slow, closes }
        },
    )
}

/// A writer in its world.
struct Play {
    world: World,
    writer: Writer<Simulated>,
    /// Bytes that the file had before.
    began: u64,
    /// Bytes handed to the writer, after those.
    written: u64,
    /// Bytes that readers may rely on.
    promised: u64,
}

impl Play {
    fn new(scene: Scene, draws: Vec<u8>) -> Self {
        let mut namenode = NameNode::new(scene.nodes, scene.replication, scene.durable_min);
        let slow = scene.slow.filter(|number| *number <= scene.nodes);
        let path = DfsPath::parse("/f").unwrap();
        let length = scene.appended.unwrap_or_default();
        let targets: Vec<DatanodeId> =
            namenode.nodes.iter().copied().take(scene.replication).collect();
        let first = namenode.allot(targets.clone());
        if length == 0 {
            let (inode, block_size) = (FILE, scene.block_size);
            let file = File { path, inode, block_size, publish: None };
            let writer = Writer::create(Simulated, ClientId([1; 16]), file, Some(first));
            let world = World::new(namenode, draws, slow.map(|number| DatanodeId([number; 16])));
            return Play { world, writer, began: 0, written: 0, promised: 0 };
        }
        let (last, prior) = namenode.reopen(length);
        let mut world = World::new(namenode, draws, slow.map(|number| DatanodeId([number; 16])));
        for id in targets {
            let data: Vec<u8> = (0..length).map(byte_at).collect();
            let (stamp, on_disk) = (first.stamp, data.len());
            let replica = Replica { stamp, data, on_disk, finalized: true };
            world.nodes.get_mut(&id).unwrap().replicas.insert(first.id, replica);
        }
        world.acked.insert(first.id, length);
        let (file, block_size, last) = (FILE, scene.block_size, Some(last));
        let appended = Appended { file, block_size, length, last, prior };
        let mut writer = Writer::append(Simulated, ClientId([1; 16]), path, appended);
        let chunk = length / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        if chunk < length {
            writer.begin_at(chunk, &(chunk..length).map(byte_at).collect::<Vec<_>>());
        }
        Play { world, writer, began: length, written: length, promised: length }
    }

    /// Drives the writer to a goal.
    fn run(&mut self, goal: Goal) -> Ended {
        let is_quiet = self.world.is_quiet() && self.writer.failure_count == 0 && self.writer.open;
        self.writer.begin(goal);
        for _ in 0..STEPS_MAX {
            self.world.tick();
            if let Some(ended) = self.step() {
                // DataNodes that failed get no block of this file for a while, even if there are no others.
                let are_excluded =
                    matches!(ended, Err(WriteError::Call(CallError(Some(ErrorKind::NoDatanodes)))));
                assert!(!is_quiet || are_excluded || ended.is_ok(), "nothing fails: {ended:?}");
                return ended;
            }
            self.check_acknowledged();
        }
        panic!("{goal:?} does not end");
    }

    fn step(&mut self) -> Option<Ended> {
        let Play { world, writer, .. } = self;
        match writer.next_step(world.now) {
            Step::Call(call, _) => {
                let answer = world.call(call);
                writer.answered(answer, world.now);
            }
            Step::Open { first, block, write } => {
                let opened = world.open(first, block, write);
                writer.opened(opened);
            }
            Step::Send(packet) => {
                let sent = world.send(packet);
                writer.sent(sent);
            }
            Step::TakeAck { waits } => {
                let acked = world.take_ack(waits);
                writer.acked(acked);
            }
            Step::Fill { survivor, operation, .. } => {
                let filled = world.fill(survivor.id, &operation);
                writer.filled(filled);
            }
            Step::Pause(pause) => {
                world.now += pause;
                writer.paused();
            }
            Step::Report { datanode, fault, .. } => {
                let is_to_blame = datanode.is_some_and(|id| world.faulty.contains(&id));
                assert!(is_to_blame, "{datanode:?} is blamed: {fault:?}");
            }
            Step::HangUp => world.hang_up(),
            Step::GiveBack(first) => world.give_back(&first),
            Step::Done(ended) => return Some(ended),
        }
        None
    }

    /// What is acknowledged stays so, and every member has it.
    fn check_acknowledged(&mut self) {
        let Some(block) = &self.writer.block else { return };
        let acked = block.window.acked_length();
        let before = self.world.acked.entry(block.located.id).or_default();
        assert!(acked >= *before, "the acknowledged length shrinks from {before} to {acked}");
        *before = acked;
        let is_given_up = matches!(self.writer.ended, Some(Err(_)));
        if acked == 0 || self.writer.repair.is_some() || is_given_up {
            return;
        }
        for member in &block.located.replicas {
            let replica = self.world.nodes[&member.id].replicas.get(&block.located.id);
            let length = replica.map_or(0, |replica| replica.data.len() as u64);
            assert!(length >= acked, "{} has {length} of {acked} acknowledged bytes", member.id);
        }
    }

    fn write(&mut self, count: u64) -> Ended {
        let end = self.written + count;
        while self.written < end {
            if self.writer.needs_block() {
                self.run(Goal::Block)?;
            }
            let (packet, limit) = self.writer.packet();
            let limit = limit.min(PACKET_BYTES);
            let room = (limit - packet.data().len()) as u64;
            let upto = end.min(self.written + room);
            packet.append(&(self.written..upto).map(byte_at).collect::<Vec<_>>());
            let added = (upto - self.written) as usize;
            self.written = upto;
            if let Some(goal) = self.writer.added(added, limit) {
                self.run(goal)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, sync: bool, update_length: bool) -> Ended {
        self.run(Goal::Flush { sync, update_length })?;
        self.promised = self.written;
        assert_eq!(self.writer.position(), self.written);
        let namenode = &self.world.namenode;
        if let Some(block) = &self.writer.block {
            let (id, acked) = (block.located.id, block.window.acked_length());
            let begin = namenode.offset_of(id);
            assert!(begin + acked == self.written || acked == 0, "a flush left bytes behind");
            for member in block.located.replicas.iter().filter(|_| sync && acked > 0) {
                let replica = &self.world.nodes[&member.id].replicas[&id];
                assert!(replica.on_disk as u64 >= acked, "a sync without a disk");
            }
        }
        if let Some(open) = namenode.open.as_ref().filter(|_| self.written > self.began) {
            let begin = namenode.offset_of(open.id);
            assert!(open.prior.is_none() || begin == self.written, "the stamp is not confirmed");
            assert!(!update_length || begin + open.known == self.written, "the length is unknown");
        }
        self.check_recovery();
        Ok(())
    }

    /// A recovery without the writer keeps what was promised: the longest replica that counts decides.
    fn check_recovery(&self) {
        let namenode = &self.world.namenode;
        let Some(open) = &namenode.open else {
            return assert!(self.promised <= namenode.committed_length(), "a block is gone");
        };
        let oldest = open.prior.unwrap_or(open.stamp);
        let replicas = self.world.nodes.values().filter_map(|node| node.replicas.get(&open.id));
        let voters = replicas.filter(|replica| replica.stamp >= oldest);
        let longest = voters.map(|replica| replica.data.len() as u64).max().unwrap_or(0);
        let kept = namenode.offset_of(open.id) + longest;
        assert!(kept >= self.promised, "{} bytes were promised, {kept} are left", self.promised);
    }

    fn close(&mut self) -> Ended {
        self.run(Goal::Close)?;
        let namenode = &self.world.namenode;
        assert!(namenode.closed && namenode.committed_length() == self.written);
        for (written, durable) in &namenode.committed {
            assert!(*durable >= usize::from(namenode.durable_min));
            let unsynced = written.replicas.len() - written.receipts.len();
            for (place, id) in written.replicas.iter().enumerate() {
                let replica = &self.world.nodes[id].replicas[&written.id];
                let length = replica.data.len();
                assert_eq!((replica.stamp, length as u64), (written.stamp, written.length));
                assert!(replica.finalized && (place < unsynced || replica.on_disk == length));
            }
        }
        Ok(())
    }

    /// As a writer that is dropped.
    fn drop(&mut self) {
        let is_closed = self.world.namenode.closed && !self.writer.open;
        let ended = self.run(Goal::GiveUp);
        let namenode = &self.world.namenode;
        assert!(!namenode.deleted || self.promised == 0, "a file with promised bytes is deleted");
        if ended.is_ok() && !is_closed && !namenode.closed {
            assert!(namenode.deleted || namenode.recovers, "a file is left open");
        }
        if !namenode.deleted {
            self.check_recovery();
        }
        let again = self.run(Goal::Flush { sync: false, update_length: false });
        assert!(matches!(again, Err(WriteError::Closed)));
    }

    fn go_through(&mut self, ops: &[Op], closes: bool) -> Ended {
        for op in ops {
            match *op {
                Op::Write(count) => self.write(count.into())?,
                Op::Flush { sync, update_length } => self.flush(sync, update_length)?,
            }
        }
        if closes { self.close() } else { Ok(()) }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whatever_fails_what_is_promised_holds(
        scene in scenes(),
        ops in ops(),
        draws in prop::collection::vec(any::<u8>(), 0..800),
    ) {
        let mut play = Play::new(scene, draws);
        let ended = play.go_through(&ops, scene.closes);
        if let Err(WriteError::Closed | WriteError::Unexpected) = ended {
            panic!("{ended:?}");
        }
        play.drop();
    }
}
