//! The world of a writer: DataNodes that fail, refuse, are slow and come back, one connection, and faults drawn from bytes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Ack, Operation, Status, Write};
use protocol::{BlockId, DatanodeId, GenerationStamp};

use super::namenode::NameNode;
use crate::writer::Filled;
use crate::writer::simulated::{Bytes, Fault};

/// Bytes of a file, as its writer writes them.
pub(super) fn byte_at(position: u64) -> u8 {
    (position ^ (position >> 8)) as u8
}

/// Faults to come. When they are used up, everything works.
#[derive(Debug)]
pub(super) struct Draws(pub(super) VecDeque<u8>);

impl Draws {
    pub(super) fn one_in(&mut self, count: u8) -> bool {
        self.0.pop_front().is_some_and(|byte| byte % count == count - 1)
    }

    pub(super) fn pick(&mut self, count: usize) -> usize {
        self.0.pop_front().map_or(0, |byte| usize::from(byte) % count)
    }

    pub(super) fn are_over(&self) -> bool {
        self.0.is_empty()
    }
}

/// A replica: what its DataNode has received, and how much of it is on disk.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) stamp: GenerationStamp,
    pub(super) data: Vec<u8>,
    pub(super) on_disk: usize,
    pub(super) finalized: bool,
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) up: bool,
    pub(super) replicas: BTreeMap<BlockId, Replica>,
}

/// The connection to the first member, and through it to the others.
#[derive(Debug)]
struct Pipe {
    write: Write,
    members: Vec<DatanodeId>,
    begun: bool,
    next_sequence: u32,
    acks: VecDeque<Result<Ack, Fault>>,
    broken: bool,
    waits_ms: Vec<u32>,
}

/// Everything but the writer.
#[derive(Debug)]
pub(super) struct World {
    pub(super) draws: Draws,
    pub(super) nodes: BTreeMap<DatanodeId, Node>,
    pub(super) namenode: NameNode,
    pub(super) now: Instant,
    pipe: Option<Pipe>,
    /// Bytes of each block that were acknowledged to the writer.
    pub(super) acked: BTreeMap<BlockId, u64>,
    /// Holds up its pipelines until the faults are over.
    pub(super) slow: Option<DatanodeId>,
    /// Those that failed, refused or were slow at some time.
    pub(super) faulty: BTreeSet<DatanodeId>,
    /// Times that a slow member was replaced.
    pub(super) slow_replaced: usize,
}

/// What a slow member takes longer for each packet.
const SLOW: Duration = Duration::from_millis(700);

pub(super) fn info(id: DatanodeId) -> DatanodeInfo {
    DatanodeInfo { id, ..DatanodeInfo::default() }
}

impl World {
    pub(super) fn new(namenode: NameNode, draws: Vec<u8>, slow: Option<DatanodeId>) -> Self {
        let nodes = namenode.nodes.iter().map(|id| (*id, Node { up: true, ..Node::default() }));
        World {
            nodes: nodes.collect(),
            namenode,
            draws: Draws(draws.into()),
            now: Instant::now(),
            pipe: None,
            acked: BTreeMap::new(),
            slow,
            faulty: slow.into_iter().collect(),
            slow_replaced: 0,
        }
    }

    /// Time passes, and some come back.
    pub(super) fn tick(&mut self) {
        self.now += Duration::from_millis(1);
        let is_over = self.draws.are_over();
        if is_over || self.draws.one_in(12) {
            self.nodes.values_mut().for_each(|node| node.up = true);
        }
        self.slow = self.slow.filter(|_| !is_over);
    }

    /// True if nothing fails from now on.
    pub(super) fn is_quiet(&self) -> bool {
        self.draws.are_over() && self.pipe.as_ref().is_none_or(|pipe| !pipe.broken)
    }

    fn fails(&mut self, id: DatanodeId) {
        self.faulty.insert(id);
    }

    pub(super) fn open(
        &mut self,
        first: &DatanodeInfo,
        block: &LocatedBlock,
        write: Write,
    ) -> Result<(), Fault> {
        assert!(self.pipe.is_none(), "the last connection was not ended");
        let behind = write.pipeline.iter().map(|member| member.id);
        let members: Vec<DatanodeId> = std::iter::once(first.id).chain(behind).collect();
        assert!(members.iter().eq(block.replicas.iter().map(|member| &member.id)));
        assert_eq!((write.block, write.stamp), (block.id, block.stamp));
        let acked = self.acked.get(&block.id).copied().unwrap_or_default();
        let offset = write.resume.map_or(0, |resume| resume.offset);
        assert_eq!(offset, acked, "it resumes where everything is acknowledged");
        if !self.nodes[&first.id].up || self.draws.one_in(30) {
            self.fails(first.id);
            return Err(Fault::Broken);
        }
        let waits_ms = vec![0; members.len()];
        let (begun, broken, acks) = (false, false, VecDeque::new());
        self.pipe = Some(Pipe { write, members, begun, next_sequence: 0, acks, broken, waits_ms });
        Ok(())
    }

    pub(super) fn hang_up(&mut self) {
        assert!(self.pipe.take().is_some(), "there is a connection to end");
    }

    pub(super) fn give_back(&mut self, first: &DatanodeInfo) {
        let pipe = self.pipe.take().expect("there is a connection to give back");
        assert_eq!(pipe.members[0], first.id);
        assert!(pipe.acks.is_empty(), "an ack is in transit");
    }

    pub(super) fn send(&mut self, packet: &Bytes) -> Result<Duration, Fault> {
        assert!(packet.sealed);
        let mut pipe = self.pipe.take().expect("it sends on a connection");
        let sent = if pipe.broken && self.draws.one_in(2) {
            Err(Fault::Broken)
        } else {
            if !pipe.broken {
                self.deliver(&mut pipe, packet);
            }
            Ok(Duration::ZERO)
        };
        self.pipe = Some(pipe);
        sent
    }

    /// One member after the other takes the packet; the ack says which one did not.
    fn deliver(&mut self, pipe: &mut Pipe, packet: &Bytes) {
        let sequence = packet.header.sequence;
        assert_eq!(sequence, pipe.next_sequence, "packets of an operation are numbered from 0");
        pipe.next_sequence += 1;
        let begins = !std::mem::replace(&mut pipe.begun, true);
        for (place, id) in pipe.members.clone().into_iter().enumerate() {
            if self.draws.one_in(60) {
                self.nodes.get_mut(&id).unwrap().up = false;
            }
            let status = if !self.nodes[&id].up {
                Status::Unreachable
            } else if begins && !self.begin(&pipe.write, id) {
                Status::Refused
            } else if self.draws.one_in(60) {
                [Status::Full, Status::Failed, Status::Checksum, Status::Busy][self.draws.pick(4)]
            } else {
                self.write(pipe, place, packet);
                continue;
            };
            self.fails(id);
            pipe.broken = true;
            // Nobody is there to say that the first one is gone.
            match (place, status) {
                (0, Status::Unreachable) => {}
                (0, Status::Refused) => pipe.acks.push_back(Err(Fault::Refused)),
                (0, status) => pipe.acks.push_back(Ok(Ack::new(sequence, status))),
                (place, status) => {
                    let mut statuses = vec![Status::Success; place - 1];
                    statuses.push(status);
                    let ack = Ack::new(sequence, Status::Success).followed_by(&statuses);
                    pipe.acks.push_back(Ok(ack));
                }
            }
            return;
        }
        if self.draws.one_in(80) {
            self.fails(pipe.members[0]);
            pipe.broken = true;
            return;
        }
        let slow = pipe.members.iter().position(|id| Some(*id) == self.slow);
        for wait_ms in &mut pipe.waits_ms[..slow.unwrap_or(0)] {
            *wait_ms += SLOW.as_millis() as u32;
        }
        let waits_ms = pipe.waits_ms.iter().rev();
        let mut acks = waits_ms.map(|ms| Ack::new(sequence, Status::Success).with_wait(*ms));
        let last = acks.next().unwrap();
        pipe.acks.push_back(Ok(acks.fold(last, |behind, ack| ack.ahead_of(&behind))));
    }

    /// True if a DataNode lets this write begin (`datanode/src/core/replica.rs`).
    fn begin(&mut self, write: &Write, id: DatanodeId) -> bool {
        let replicas = &mut self.nodes.get_mut(&id).unwrap().replicas;
        match (replicas.get_mut(&write.block), write.resume) {
            (Some(replica), _) if replica.stamp > write.stamp => false,
            (Some(replica), Some(resume)) if replica.stamp >= resume.prior => {
                let offset = usize::try_from(resume.offset).unwrap();
                assert!(replica.data.len() >= offset, "{id}: acknowledged bytes are missing");
                replica.data.truncate(offset);
                replica.on_disk = replica.on_disk.min(offset);
                (replica.stamp, replica.finalized) = (write.stamp, false);
                true
            }
            (_, Some(resume)) if resume.offset > 0 => false,
            _ => {
                let (data, on_disk, finalized) = (Vec::new(), 0, false);
                replicas
                    .insert(write.block, Replica { stamp: write.stamp, data, on_disk, finalized });
                true
            }
        }
    }

    fn write(&mut self, pipe: &Pipe, place: usize, packet: &Bytes) {
        let node = self.nodes.get_mut(&pipe.members[place]).unwrap();
        let replica = node.replicas.get_mut(&pipe.write.block).unwrap();
        let (header, at) = (&packet.header, usize::try_from(packet.header.offset).unwrap());
        assert_eq!(at % CHUNK_BYTES, 0, "packets begin at chunks");
        assert!(at <= replica.data.len(), "a hole at {at} of {}", replica.data.len());
        let end = usize::try_from(header.end()).unwrap();
        assert!(end >= replica.data.len(), "the replica shrinks to {end}");
        replica.data.truncate(at);
        replica.data.extend_from_slice(&packet.data);
        let begin = self.namenode.offset_of(pipe.write.block);
        let is_right = |(at, byte): (usize, &u8)| *byte == byte_at(begin + at as u64);
        assert!(replica.data.iter().enumerate().all(is_right), "bytes at the wrong place");
        replica.finalized = header.last;
        let is_durable = place + usize::from(pipe.write.durable) >= pipe.members.len();
        if header.sync || (header.last && is_durable) {
            replica.on_disk = replica.data.len();
        }
    }

    pub(super) fn take_ack(&mut self, waits: bool) -> Result<Option<(Ack, Duration)>, Fault> {
        let pipe = self.pipe.as_mut().expect("it takes acks from a connection");
        let is_slow = pipe.members.iter().any(|id| Some(*id) == self.slow);
        if !waits && (is_slow || (pipe.acks.is_empty() && !pipe.broken) || self.draws.one_in(3)) {
            return Ok(None);
        }
        let waited = if is_slow && waits { SLOW } else { Duration::ZERO };
        self.now += waited;
        match pipe.acks.pop_front() {
            Some(ack) => Ok(Some((ack?, waited))),
            None => {
                assert!(pipe.broken, "no ack will ever come");
                let first = pipe.members[0];
                self.fails(first);
                Err(Fault::Broken)
            }
        }
    }

    pub(super) fn fill(&mut self, survivor: DatanodeId, operation: &Operation) -> Filled<Fault> {
        assert!(self.pipe.is_none(), "the connection to the old pipeline is ended first");
        let Operation::Transfer { block, prior, stamp, length, target, .. } = operation else {
            panic!("{operation:?}")
        };
        assert_eq!(Some(length), self.acked.get(block), "what is acknowledged is copied");
        if !self.nodes[&survivor].up || self.draws.one_in(30) {
            self.fails(survivor);
            return Filled::Unreached(Fault::Broken);
        }
        if !self.nodes[&target.id].up || self.draws.one_in(30) {
            self.fails(target.id);
            return Filled::Failed(Fault::Refused);
        }
        let source = &self.nodes[&survivor].replicas[block];
        assert!(source.stamp >= *prior && source.stamp <= *stamp, "a stale survivor");
        let data = source.data[..usize::try_from(*length).unwrap()].to_vec();
        let copy = Replica { stamp: *stamp, data, on_disk: 0, finalized: false };
        self.nodes.get_mut(&target.id).unwrap().replicas.insert(*block, copy);
        Filled::Done
    }
}
