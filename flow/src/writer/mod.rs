//! [`Writer`]: the life of a file being written, block after block, as packets through pipelines of DataNodes.
//!
//! A limited number of packets waits for acks, which bounds the buffer. When a member of the pipeline fails, the NameNode assigns a new generation stamp and,
//! if it can, a replacement. A survivor sends the acknowledged bytes to the replacement, and the writer sends the rest again. A member that holds up all others
//! is replaced like one that failed, and the writer reports it to the NameNode.
//!
//! What is under way is nested, and the innermost decides the next step:
//!
//! ```text
//! goal (a block, a flush, the end of the file) ──► widening a pipeline that is too short ──► sending ──► repair after a failure
//! ```
//!
//! Invariants: what a goal promises is acknowledged by all members of the pipeline, under a stamp that the NameNode knows; the acknowledged length of a block
//! never shrinks; failures without progress are counted, so every goal ends.

mod driver;
mod ending;
mod goal;
mod open_block;
mod phase;
mod repair;
mod sending;
#[cfg(any(test, feature = "sim"))]
pub mod simulated;
mod step;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use protocol::namenode::{Appended, DatanodeInfo, LocatedBlock, Publish, Reply, WrittenBlock};
use protocol::transfer::PACKET_DATA_BYTES;
use protocol::{BlockId, ClientId, DatanodeId, DfsPath, ErrorKind, GenerationStamp, InodeId};

use self::open_block::OpenBlock;
use self::phase::{Phase, Repair, Sending, Turn, Widening};
use crate::error::WriteError;
use crate::window::Slot;

pub use self::driver::{Buffer, Driver};
pub use self::step::{Filled, Goal, Patience, Step};

/// How long a DataNode that failed gets no block of this file, as HDFS (dfs.client.write.exclude.nodes.cache.expiry.interval). Writing a file can take longer
/// than a DataNode's outage.
const EXCLUDED_FOR: Duration = Duration::from_secs(600);

/// The file that is written.
#[derive(Clone, Debug)]
pub struct File {
    /// The path it was opened at.
    pub path: DfsPath,
    /// Its id.
    pub inode: InodeId,
    /// Bytes per block; at least one.
    pub block_size: u64,
    /// Where closing publishes it, if not at its path.
    pub publish: Option<Publish>,
}

/// See the module.
#[derive(Debug)]
pub struct Writer<D: Driver> {
    driver: D,
    client: ClientId,
    file: File,
    block: Option<OpenBlock<D::Packet>>,
    packet: Option<D::Packet>,
    previous: Option<WrittenBlock>,
    position: u64,
    /// DataNodes that failed, and when.
    excluded: Vec<(DatanodeId, Instant)>,
    failure_count: u32,
    /// The error of the last disk that refused a replica of this file.
    refused_by_disk: Option<D::Fault>,
    open: bool,
    /// True if somebody was promised bytes.
    promised: bool,
    /// Block and stamp under which the NameNode knows that the pipeline works, and whether it knows that something is on disk.
    confirmed: Option<(BlockId, GenerationStamp, bool)>,
    /// Bytes on disk of the block being written.
    synced: u64,
    phase: Phase,
    widening: Option<Widening>,
    sending: Option<Sending<D::Fault>>,
    repair: Option<Repair<D::Fault>>,
    /// What becomes of a connection that this writer no longer uses.
    parting: Option<Parting>,
    /// How the goal ended, until the driver knows.
    ended: Option<Result<(), ErrorOf<D>>>,
}

/// The error of a driver's writer.
type ErrorOf<D> = WriteError<<D as Driver>::CallError, <D as Driver>::Fault>;

/// The end of a connection.
#[derive(Debug)]
enum Parting {
    HangUp,
    GiveBack(DatanodeInfo),
}

impl<D: Driver> Writer<D> {
    /// A new file; `first_block` if the NameNode has allotted one with it.
    pub fn create(
        driver: D,
        client: ClientId,
        file: File,
        first_block: Option<LocatedBlock>,
    ) -> Self {
        Writer {
            driver,
            client,
            file,
            block: first_block.map(OpenBlock::new),
            packet: None,
            previous: None,
            position: 0,
            excluded: Vec::new(),
            failure_count: 0,
            refused_by_disk: None,
            open: true,
            promised: false,
            confirmed: None,
            synced: 0,
            phase: Phase::Idle,
            widening: None,
            sending: None,
            repair: None,
            parting: None,
            ended: None,
        }
    }

    /// A file opened at its end. If its last block has room, packets begin at the last chunk boundary: the bytes of a partial chunk go first ([`Writer::begin_at`]).
    pub fn append(driver: D, client: ClientId, path: DfsPath, appended: Appended) -> Self {
        let Appended { file, block_size, length, last, prior } = appended;
        let file = File { path, inode: file, block_size: block_size.max(1), publish: None };
        let synced = last.as_ref().map_or(0, |located| located.length);
        Writer {
            position: length,
            promised: true,
            synced,
            block: last.map(|located| OpenBlock::resumed(located, prior)),
            ..Writer::create(driver, client, file, None)
        }
    }

    /// The path it was opened at.
    pub fn path(&self) -> &DfsPath {
        &self.file.path
    }

    /// The file.
    pub fn inode(&self) -> InodeId {
        self.file.inode
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The DataNodes of the block being written, in the order in which its packets reach them; none between blocks.
    pub fn pipeline(&self) -> &[DatanodeInfo] {
        self.block.as_ref().map_or(&[], |block| &block.located.replicas)
    }

    /// The next packet begins here in the block, with these bytes, which were written before.
    pub fn begin_at(&mut self, offset: u64, bytes: &[u8]) {
        let mut packet = begin_packet(&self.driver, offset);
        packet.append(bytes);
        self.packet = Some(packet);
    }

    /// True if data needs [`Goal::Block`] first.
    pub fn needs_block(&self) -> bool {
        !self.open || self.block.is_none()
    }

    /// The packet to add data to, and how much data it can hold in all. The caller reports what it added with [`Writer::added`].
    pub fn packet(&mut self) -> (&mut D::Packet, usize) {
        let begin = self.block.as_ref().map_or(0, |block| block.length);
        let packet = self.packet.get_or_insert_with(|| begin_packet(&self.driver, begin));
        let rest_of_block = self.file.block_size.saturating_sub(packet.header().offset);
        let limit =
            PACKET_DATA_BYTES.min(usize::try_from(rest_of_block).unwrap_or(PACKET_DATA_BYTES));
        (packet, limit)
    }

    /// Notes that `count` bytes were added to a packet that holds `limit`; returns what is to be done next.
    pub fn added(&mut self, count: usize, limit: usize) -> Option<Goal> {
        self.position += count as u64;
        let header = self.packet.as_ref()?.header();
        if header.end() >= self.file.block_size {
            return Some(Goal::EndBlock);
        }
        (header.data_bytes as usize == limit).then_some(Goal::Send)
    }

    /// Takes up a goal; [`Writer::next_step`] names the steps to it.
    pub fn begin(&mut self, goal: Goal) {
        self.ended = None;
        match goal {
            Goal::GiveUp => self.begin_giving_up(),
            _ if !self.open => self.ended = Some(Err(WriteError::Closed)),
            Goal::Block if self.block.is_some() => self.succeed(),
            Goal::Block => self.phase = Phase::Adding,
            Goal::Send => {
                self.push_packet(false, false);
                self.sending = Some(Sending::until_sent());
                self.phase = Phase::Sending;
            }
            Goal::EndBlock => self.phase = Phase::ends_block(false),
            Goal::Close => self.phase = Phase::ends_block(true),
            Goal::Flush { sync, update_length } => self.phase = Phase::flushes(sync, update_length),
        }
    }

    /// The next step.
    pub fn next_step(&mut self, now: Instant) -> Step<'_, D> {
        let turn = loop {
            if let Some(turn) = self.turn(now) {
                break turn;
            }
        };
        self.step(turn)
    }

    /// What is next; `None` if only the state has changed.
    fn turn(&mut self, now: Instant) -> Option<Turn> {
        if self.parting.is_some() {
            Some(Turn::Part)
        } else if self.ended.is_some() {
            Some(Turn::Done)
        } else if self.repair.is_some() {
            self.repair_turn(now)
        } else if self.sending.is_some() {
            self.sending_turn()
        } else if self.widening.is_some() {
            self.widening_turn()
        } else {
            self.goal_turn(now)
        }
    }

    fn step(&mut self, turn: Turn) -> Step<'_, D> {
        match (turn, &mut self.block) {
            (Turn::Call(call, patience), _) => Step::Call(call, patience),
            (Turn::Pause(pause), _) => Step::Pause(pause),
            (Turn::TakeAck { waits }, _) => Step::TakeAck { waits },
            (Turn::Part, _) => match self.parting.take() {
                Some(Parting::GiveBack(datanode)) => Step::GiveBack(datanode),
                _ => Step::HangUp,
            },
            (Turn::Done, _) => Step::Done(self.ended.take().unwrap_or(Ok(()))),
            (Turn::Open, Some(block)) => Step::Open {
                write: block.write_to_members(self.client),
                first: &block.located.replicas[0],
                block: &block.located,
            },
            (Turn::Send, Some(block)) => {
                Step::Send(block.window.next_unsent().expect("a packet waits: `has_unsent`"))
            }
            (Turn::Fill { survivor, member }, Some(block)) => Step::Fill {
                operation: block.fill_operation(block.located.replicas[member].clone()),
                survivor: &block.located.replicas[survivor],
                block: &block.located,
            },
            (Turn::Report, Some(block)) => match &self.repair {
                Some(Repair::Reported(failure)) => Step::Report {
                    block: block.located.id,
                    datanode: block.located.replicas.get(failure.member).map(|member| member.id),
                    fault: &failure.fault,
                },
                _ => unreachable!("only a failure is reported"),
            },
            (Turn::Open | Turn::Send | Turn::Fill { .. } | Turn::Report, None) => {
                unreachable!("these are turns of a block")
            }
        }
    }

    /// Reports the answer to a call.
    pub fn answered(&mut self, answer: Result<Reply, D::CallError>, now: Instant) {
        if self.repair.is_some() {
            self.repair_answered(answer);
        } else {
            self.goal_answered(answer, now);
        }
    }

    /// Reports that a pause is over.
    pub fn paused(&mut self) {
        if self.repair.is_some() {
            self.repair_paused();
        } else if self.widening.is_some() {
            self.widening_paused();
        } else if let Phase::Completing { pauses, .. } = &mut self.phase {
            *pauses = false;
        }
    }

    fn succeed(&mut self) {
        self.phase = Phase::Idle;
        self.ended = Some(Ok(()));
    }

    fn fail(&mut self, error: ErrorOf<D>) {
        (self.widening, self.sending, self.repair) = (None, None, None);
        self.phase = Phase::Idle;
        self.ended = Some(Err(error));
    }

    /// Ends the connection to the first member, if there is one.
    fn hang_up(&mut self) {
        if self.block.as_mut().is_some_and(|block| std::mem::take(&mut block.connected)) {
            self.parting = Some(Parting::HangUp);
        }
    }

    /// DataNodes that failed this writer recently.
    fn exclude(&mut self, now: Instant) -> Vec<DatanodeId> {
        self.excluded.retain(|(_, since)| now.saturating_duration_since(*since) < EXCLUDED_FOR);
        self.excluded.iter().map(|(id, _)| *id).collect()
    }

    /// Why too few DataNodes have a block on disk, if disks have given the reason: the NameNode only knows that they do not.
    fn explain(&mut self, error: D::CallError) -> ErrorOf<D> {
        let waits = D::kind(&error) == Some(ErrorKind::NotReplicatedYet);
        let last = self.block.as_ref().map(|block| block.located.id);
        let last = last.or(self.previous.as_ref().map(|block| block.id));
        match (self.refused_by_disk.take(), last) {
            (Some(fault), Some(block)) if waits => WriteError::Block { block, fault },
            _ => WriteError::Call(error),
        }
    }

    fn push_packet(&mut self, last: bool, sync: bool) {
        let (Some(block), Some(mut packet)) = (&mut self.block, self.packet.take()) else { return };
        packet.header_mut().last = last;
        packet.header_mut().sync = sync;
        packet.seal();
        block.length = packet.header().end();
        block.window.push(packet);
    }
}

fn begin_packet<D: Driver>(driver: &D, offset: u64) -> D::Packet {
    let mut packet = driver.packet();
    packet.header_mut().offset = offset;
    packet
}
