//! [`OpenBlock`]: the block being written, its packets in transit through one pipeline, and the answers of the members.

use std::time::Duration;

use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{
    Operation, PacketHeader, Reply as TransferReply, Resume, Status, Write as WriteOperation,
};
use protocol::{DatanodeId, ErrorKind, GenerationStamp, RemoteError};

use super::super::link::Link;
use super::super::slow::Pace;
use super::super::window::{Acked, Slot, Window};
use transport::{Connection, PooledPacket, TransferFailure};

/// Packets sent ahead of their acks: the client's buffer is this many MiB. Each of three hops holds up to three: one arriving, one waiting for the disk, one
/// being written; others are in transit.
const PACKETS_IN_FLIGHT_MAX: usize = 12;

/// The block being written.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) located: LocatedBlock,
    /// Stamp under which the acknowledged bytes were acknowledged.
    pub(super) prior: GenerationStamp,
    pub(super) resume: Option<Resume>,
    /// Members that still have to get the acknowledged bytes: none of them counts as a survivor.
    unfilled: Vec<DatanodeId>,
    pub(super) connection: Option<Connection>,
    answered: bool,
    pub(super) window: Window<PooledPacket>,
    /// Bytes handed to the window.
    pub(super) length: u64,
    /// How long this writer has waited for the pipeline to take and acknowledge packets while it had more to do.
    waited: Duration,
    pace: Pace,
    /// The member that holds up the others, from the last rounds that named one; kept until it is replaced.
    slow: Option<usize>,
    /// True if a slow one was replaced: this block then keeps its members.
    slow_replaced: bool,
}

/// A member of the pipeline that failed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) member: usize,
    pub(super) cause: TransferFailure,
}

/// How long to continue sending and waiting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Everything is sent; acks may be outstanding.
    Sent,
    /// Everything is acknowledged.
    Acked,
}

impl Slot for PooledPacket {
    fn header(&self) -> &PacketHeader {
        &self.header
    }

    fn header_mut(&mut self) -> &mut PacketHeader {
        &mut self.header
    }
}

impl OpenBlock {
    pub(super) fn new(located: LocatedBlock) -> Self {
        OpenBlock {
            prior: located.stamp,
            located,
            resume: None,
            unfilled: Vec::new(),
            connection: None,
            answered: false,
            window: Window::new(),
            length: 0,
            waited: Duration::ZERO,
            pace: Pace::default(),
            slow: None,
            slow_replaced: false,
        }
    }

    /// A block of which the members have a part under the stamp `prior`.
    pub(super) fn resumed(located: LocatedBlock, prior: GenerationStamp) -> Self {
        let length = located.length;
        OpenBlock {
            prior,
            resume: Some(Resume { prior, offset: length }),
            window: Window::resumed(length),
            length,
            ..OpenBlock::new(located)
        }
    }

    /// How many members, from the end, sync before they acknowledge the last packet.
    pub(super) fn durable(&self) -> u16 {
        let members = u16::try_from(self.located.replicas.len()).unwrap_or(u16::MAX);
        self.located.durable_min.min(members)
    }

    /// The members that have the acknowledged bytes, without the one that failed.
    pub(super) fn survivors(&self, failed: Option<DatanodeId>) -> Vec<DatanodeInfo> {
        let has_all = |replica: &&DatanodeInfo| {
            Some(replica.id) != failed && !self.unfilled.contains(&replica.id)
        };
        self.located.replicas.iter().filter(has_all).cloned().collect()
    }

    /// Starts a different block instead, of which nobody has any bytes.
    pub(super) fn begin_anew(&mut self, located: LocatedBlock) {
        (self.prior, self.resume) = (located.stamp, None);
        self.move_to(located, &[]);
        self.unfilled.clear();
    }

    /// Continues elsewhere; only `survivors` have the acknowledged bytes.
    pub(super) fn move_to(&mut self, located: LocatedBlock, survivors: &[DatanodeInfo]) {
        let is_survivor = |id: &DatanodeId| survivors.iter().any(|survivor| survivor.id == *id);
        let members = located.replicas.iter().map(|replica| replica.id);
        self.unfilled = members.filter(|id| !is_survivor(id)).collect();
        self.located = located;
        self.connection = None;
        self.window.restart();
        (self.waited, self.pace, self.slow) = (Duration::ZERO, Pace::default(), None);
    }

    pub(super) fn transmit(&mut self, link: &Link, until: Until) -> Result<(), Failure> {
        let first = |cause| Failure { member: 0, cause };
        let mut before = Vec::new();
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let Some(datanode) = self.located.replicas.first() else {
                    return Err(first(TransferFailure::Unexpected));
                };
                let permit = self.located.permit();
                let mut connection = link.datanodes.take(datanode, permit).map_err(first)?;
                before = connection.sealed(&self.operation(link), &self.located.token);
                self.answered = false;
                connection
            }
        };
        loop {
            while self.window.in_flight() > 0 && connection.is_readable() {
                self.read_ack(&mut connection)?;
            }
            if until == Until::Sent
                && let Some(member) = self.take_slow()
            {
                return Err(Failure { member, cause: TransferFailure::Slow });
            }
            if self.window.in_flight() < PACKETS_IN_FLIGHT_MAX
                && let Some(packet) = self.window.next_unsent()
            {
                match connection.send_packet(&before, packet) {
                    Ok(waited) => self.waited += waited,
                    Err(cause) => {
                        let told = self.last_words(&mut connection);
                        return Err(told.unwrap_or_else(|| first(cause)));
                    }
                }
                before = Vec::new();
                continue;
            }
            let done = match until {
                Until::Sent => self.window.in_flight() < PACKETS_IN_FLIGHT_MAX,
                Until::Acked => self.window.is_empty(),
            };
            if done {
                // An operation that was not sent yet starts over with the first packet.
                self.connection = before.is_empty().then_some(connection);
                return Ok(());
            }
            self.waited += connection.wait_readable().map_err(first)?;
            self.read_ack(&mut connection)?;
        }
    }

    /// The slow member to replace: one per block, and only while enough others sync their replicas.
    fn take_slow(&mut self) -> Option<usize> {
        let members = self.located.replicas.len();
        let member = self.slow.take().filter(|member| *member < members)?;
        if self.slow_replaced || members <= usize::from(self.located.durable_min.max(1)) {
            return None;
        }
        self.slow_replaced = true;
        Some(member)
    }

    fn operation(&self, link: &Link) -> Operation {
        Operation::Write(WriteOperation {
            block: self.located.id,
            stamp: self.located.stamp,
            token: self.located.token.name,
            client: link.id,
            resume: self.resume,
            prefix_only: false,
            pipeline: self.located.replicas.get(1..).unwrap_or_default().to_vec(),
            durable: self.durable(),
            cached: true,
        })
    }

    fn read_ack(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        let first = |cause| Failure { member: 0, cause };
        if !self.answered {
            match connection.read_answer().map_err(first)? {
                TransferReply::Writing => self.answered = true,
                _ => return Err(first(TransferFailure::Unexpected)),
            }
        }
        let ack = connection.read_ack().map_err(first)?;
        match self.window.on_ack(&ack, self.located.replicas.len()) {
            Acked::Packet(_) => {
                self.prior = self.located.stamp;
                let waited_ms = u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX);
                // Acks come in bursts: one that names nobody does not clear the suspect.
                self.slow = self.pace.note(waited_ms, ack.waits_ms()).or(self.slow);
                Ok(())
            }
            Acked::Failed { member, status } => {
                Err(Failure { member, cause: TransferFailure::Remote(refusal(status)) })
            }
            Acked::Nonsense => Err(first(TransferFailure::Unexpected)),
        }
    }

    /// The pipeline's answer before it broke.
    fn last_words(&mut self, connection: &mut Connection) -> Option<Failure> {
        while self.window.in_flight() > 0 {
            if let Err(failure) = self.read_ack(connection) {
                let told = matches!(failure.cause, TransferFailure::Remote(_));
                return told.then_some(failure);
            }
        }
        None
    }

    /// Has a survivor copy the acknowledged bytes to the new members.
    pub(super) fn fill_replacements(&mut self, link: &Link, acked: u64) -> Result<(), Failure> {
        let has_all = |replica: &DatanodeInfo| !self.unfilled.contains(&replica.id);
        let position = self.located.replicas.iter().position(has_all);
        let Some((source, survivor)) =
            position.and_then(|at| Some((at, self.located.replicas.get(at)?)))
        else {
            return Err(Failure { member: 0, cause: TransferFailure::Unexpected });
        };
        for (member, target) in self.located.replicas.iter().enumerate() {
            if !self.unfilled.contains(&target.id) {
                continue;
            }
            let transfer = Operation::Transfer {
                block: self.located.id,
                prior: self.prior,
                stamp: self.located.stamp,
                length: acked,
                target: target.clone(),
                token: self.located.token.name,
            };
            let datanodes = &link.datanodes;
            let connection = datanodes.take(survivor, self.located.permit());
            let mut connection = connection.map_err(|cause| Failure { member: source, cause })?;
            match connection.ask(&transfer, &self.located.token) {
                Ok(TransferReply::Done) => datanodes.give_back(survivor, connection),
                Ok(_) => {
                    return Err(Failure { member: source, cause: TransferFailure::Unexpected });
                }
                Err(cause @ TransferFailure::Remote(_)) => return Err(Failure { member, cause }),
                Err(cause) => return Err(Failure { member: source, cause }),
            }
        }
        self.unfilled.clear();
        Ok(())
    }
}

fn refusal(status: Status) -> RemoteError {
    let (kind, text) = match status {
        Status::Success | Status::Failed => (ErrorKind::Storage, "it cannot write"),
        Status::Checksum => (ErrorKind::Storage, "it received damaged data"),
        Status::Unreachable => (ErrorKind::Unavailable, "it cannot be reached"),
        Status::Busy => (ErrorKind::Unavailable, "it has too many transfers"),
        Status::Refused => (ErrorKind::InvalidArgument, "it refused the write"),
        Status::Full => {
            (ErrorKind::Storage, "its disks are full: delete files, or add disks or datanodes")
        }
    };
    RemoteError::new(kind, text)
}
