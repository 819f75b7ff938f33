//! Receiving a replica as a member of a pipeline.
//!
//! A packet is read completely, forwarded at once, then verified and written. Its ack goes back once this member and all behind it have it. At the last packet
//! this member finalizes while those behind it do the same, so their syncs overlap. One thread does all of it: it waits for packets from the front, acks from
//! behind and its disk together.
//!
//! ```text
//! packet -> sent on -> verified -> in flight to the disk -> written ---+
//!             |                                                        +-> ack to the front
//!             +----------> behind ------------> acknowledged behind ---+
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::frame;
use protocol::namenode::DatanodeInfo;
use protocol::transfer::{Ack, Answer, Operation, PIPELINE_MEMBERS_MAX, Reply, Status, Write};
use transport::{Connection, Packet, PooledPacket, Ready, TransferFailure};

use super::{After, Service, status_of};
use crate::error::{OperationError, StoreError};
use crate::store::ReplicaWriter;

/// The rest of the pipeline.
struct Behind {
    target: DatanodeInfo,
    connection: Connection,
    /// The operation, until it is sent with the first packet.
    before: Vec<u8>,
    answered: bool,
    /// Packets that it has not acknowledged: the last ones of [`Reception::pending`].
    pending_count: usize,
    /// How long this member has waited for it to take packets and to acknowledge them.
    waited: Duration,
}

fn whole_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// A packet that is not acknowledged to the front yet.
struct Pending {
    sequence: u32,
    /// The end of its data.
    end: u64,
    /// The ack of the members behind.
    behind: Option<Ack>,
}

/// When a replica is on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// Before the ack of its last packet.
    Synced,
    /// Soon after that ack: others have it on disk already.
    SyncedBehind,
    /// Whenever the system writes it: the writer wanted no member to sync, as HDFS does by default.
    Unsynced,
}

/// The next event.
enum Event {
    /// A packet from the front.
    Packet,
    /// An ack from behind.
    Ack,
    /// The disk has finished a packet.
    Written,
}

/// A write that ended early; an ack has already reported the reason.
struct Broken;

fn cannot_write(error: &StoreError) -> Status {
    tracing::warn!(error = %client::error::chain(error), "cannot write a replica");
    error.status()
}

fn cannot_wait(error: &io::Error) -> Broken {
    tracing::error!(%error, "cannot wait for packets");
    Broken
}

struct Reception<'a> {
    service: &'a Arc<Service>,
    front: &'a mut Connection,
    /// The answer, until it is sent with the first ack.
    answer: Vec<u8>,
    behind: Option<Behind>,
    pending: VecDeque<Pending>,
    writer: Option<ReplicaWriter>,
    end: End,
    prefix_only: bool,
    last_received: bool,
}

impl Service {
    pub(super) fn write(
        self: &Arc<Self>,
        connection: &mut Connection,
        write: Write,
    ) -> Result<After, OperationError> {
        if write.pipeline.len() >= PIPELINE_MEMBERS_MAX {
            return Err(OperationError::Invalid("the pipeline is too long"));
        }
        let end = match usize::from(write.durable) {
            0 => End::Unsynced,
            durable if write.pipeline.len() < durable => End::Synced,
            _ => End::SyncedBehind,
        };
        let prefix_only = write.prefix_only;
        let stream = Arc::clone(connection.stream());
        let mut writer = self.store.write(write.block, write.stamp, write.resume, Some(stream))?;
        if end == End::Synced {
            writer.sync_ahead();
        }
        if !write.cached {
            writer.bypass_cache();
        }
        let answer: Answer = Ok(Reply::Writing);
        let mut reception = Reception {
            service: self,
            front: connection,
            answer: frame::encode(&answer),
            behind: None,
            pending: VecDeque::new(),
            writer: Some(writer),
            end,
            prefix_only,
            last_received: false,
        };
        match reception.connect_behind(write).and_then(|()| reception.run()) {
            Ok(()) => Ok(After::Keep),
            Err(Broken) => Ok(After::Close),
        }
    }
}

impl Reception<'_> {
    fn connect_behind(&mut self, mut write: Write) -> Result<(), Broken> {
        if write.pipeline.is_empty() {
            return Ok(());
        }
        let target = write.pipeline.remove(0);
        write.cached = false;
        // The members share a secret with the writer, and the key with each other.
        let (block, stamp) = (write.block, write.stamp);
        let token = self.service.token_keys.token(block, stamp, write.token);
        match self.service.peers.take(&target, (block, stamp, &token)) {
            Ok(mut connection) => {
                let before = connection.sealed(&Operation::Write(write), &token);
                let (answered, pending_count, waited) = (false, 0, Duration::ZERO);
                self.behind =
                    Some(Behind { target, connection, before, answered, pending_count, waited });
                Ok(())
            }
            Err(error) => {
                let error = client::error::chain(&error);
                tracing::warn!(target = %target.id, %error, "cannot reach the next DataNode of a pipeline");
                Err(self.fail(0, Status::Success, &[Status::Unreachable]))
            }
        }
    }

    fn run(&mut self) -> Result<(), Broken> {
        loop {
            let in_flight = self.send_acks()?;
            if self.last_received && self.pending.is_empty() {
                break;
            }
            match self.next_event(in_flight)? {
                Event::Packet => {
                    let mut packet = self.service.packets.take();
                    self.front.read_packet(&mut packet).map_err(|error| {
                        tracing::debug!(error = %client::error::chain(&error), "writer is gone");
                        Broken
                    })?;
                    self.receive(packet)?;
                }
                Event::Ack => self.take_ack()?,
                Event::Written => {}
            }
        }
        if let Some(behind) = self.behind.take() {
            self.service.peers.give_back(&behind.target, behind.connection);
        }
        if let Some(writer) = self.writer.take()
            && !self.prefix_only
        {
            writer.finalize_behind();
        }
        Ok(())
    }

    /// Number of packets in flight to the disk, the last ones of those pending.
    fn in_flight(&mut self) -> Result<usize, Broken> {
        let in_flight = self.writer.as_mut().map_or(Ok(0), ReplicaWriter::in_flight);
        in_flight.map_err(|error| {
            let status = cannot_write(&error);
            let oldest = self.pending.front().map_or(0, |pending| pending.sequence);
            self.fail(oldest, status, &[])
        })
    }

    /// Sends the acks of packets written here and acknowledged behind; returns how many are still in flight to the disk.
    fn send_acks(&mut self) -> Result<usize, Broken> {
        let in_flight = self.in_flight()?;
        while self.pending.len() > in_flight
            && let Some(Pending { sequence, end, behind }) = self.pending.front()
            && (self.behind.is_none() || behind.is_some())
        {
            if let Some(writer) = &self.writer {
                writer.note_acked(*end);
            }
            let mut ack = Ack::new(*sequence, Status::Success);
            if let (Some(told), Some(behind)) = (behind, &self.behind) {
                ack = ack.with_wait(whole_ms(behind.waited)).ahead_of(told);
            }
            self.pending.pop_front();
            self.ack(ack)?;
        }
        Ok(in_flight)
    }

    /// Waits. Time spent while only acks from behind are missing counts as waiting for those behind.
    fn next_event(&mut self, in_flight: usize) -> Result<Event, Broken> {
        let limits = self.service.limits;
        let takes_packets =
            !self.last_received && !self.writer.as_ref().is_some_and(ReplicaWriter::is_busy);
        let behind = self.behind.as_mut().filter(|behind| behind.pending_count > 0);
        if behind.as_ref().is_some_and(|behind| behind.connection.is_buffered()) {
            return Ok(Event::Ack);
        }
        if takes_packets && self.front.is_buffered() {
            return Ok(Event::Packet);
        }
        let front = takes_packets.then_some(&*self.front);
        let wake = self.writer.as_ref().and_then(ReplicaWriter::wake);
        let is_idle = self.pending.is_empty();
        let timeout = if is_idle { limits.writer_idle_max } else { limits.io_timeout };
        let connection = behind.as_ref().map(|behind| &behind.connection);
        let ready = transport::wait_for_any(front, connection, wake, timeout);
        let ready = ready.map_err(|error| cannot_wait(&error))?;
        let waits_for_behind = self.pending.len() > in_flight;
        if let (true, Some(behind)) = (waits_for_behind, behind) {
            behind.waited += ready.awake;
        }
        match ready {
            Ready { behind: true, .. } => Ok(Event::Ack),
            Ready { wake: true, .. } => Ok(Event::Written),
            Ready { front: true, .. } => Ok(Event::Packet),
            _ if is_idle => {
                tracing::info!("a writer was silent for too long");
                Err(Broken)
            }
            _ if waits_for_behind => {
                tracing::warn!("the next DataNode of a pipeline does not acknowledge in time");
                Err(self.fail_oldest(&[Status::Unreachable]))
            }
            _ => {
                tracing::warn!("the disk does not take a packet in time");
                let oldest = self.pending.front().map_or(0, |pending| pending.sequence);
                Err(self.fail(oldest, Status::Failed, &[]))
            }
        }
    }

    fn receive(&mut self, packet: PooledPacket) -> Result<(), Broken> {
        let header = packet.header;
        let pending = Pending { sequence: header.sequence, end: header.end(), behind: None };
        self.pending.push_back(pending);
        let forwarded = self.forward(&packet);
        let kept = self.keep(packet);
        if let Err(status) = kept {
            return Err(self.fail(header.sequence, status, &[]));
        }
        forwarded.map_err(|statuses| self.fail(header.sequence, Status::Success, &statuses))?;
        self.last_received = header.last;
        Ok(())
    }

    /// Forwards a packet; on failure, returns the statuses of the members behind.
    fn forward(&mut self, packet: &Packet) -> Result<(), Vec<Status>> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        behind.pending_count += 1;
        match behind.connection.send_packet(&behind.before, packet) {
            Ok(waited) => {
                behind.waited += waited;
                behind.before = Vec::new();
                Ok(())
            }
            Err(error) => {
                let error = client::error::chain(&error);
                tracing::warn!(target = %behind.target.id, %error, "lost the next DataNode of a pipeline");
                // It may have reported the reason before it failed: perhaps a member behind it is to blame.
                Err(self.last_words().unwrap_or_else(|| vec![Status::Unreachable]))
            }
        }
    }

    fn last_words(&mut self) -> Option<Vec<Status>> {
        let behind = self.behind.as_mut()?;
        if !behind.answered
            && let Err(failure) = behind.connection.read_answer()
        {
            return Some(vec![status_of(&failure)]);
        }
        behind.answered = true;
        // After the acks in flight comes the one with the reason.
        for _ in 0..behind.pending_count {
            let ack = behind.connection.read_ack().ok()?;
            if ack.failure().is_some() {
                return Some(ack.statuses().to_vec());
            }
        }
        None
    }

    /// Verifies and writes a packet; at the last one, finalizes unless that waits for a sync that nobody waits for.
    fn keep(&mut self, packet: PooledPacket) -> Result<(), Status> {
        let header = packet.header;
        if let Err(error) = packet.verify() {
            let offset = header.offset + error.offset;
            tracing::warn!(offset, "a packet was damaged on its way from the member before");
            return Err(Status::Checksum);
        }
        let log = |error: StoreError| cannot_write(&error);
        let writer = self.writer.as_mut().ok_or(Status::Refused)?;
        if header.data_bytes > 0 {
            writer.write(packet).map_err(log)?;
        }
        if !header.last {
            return if header.sync { writer.sync_entry().map_err(log) } else { Ok(()) };
        }
        if writer.length() != header.end() {
            tracing::warn!(
                length = writer.length(),
                end = header.end(),
                "a write ends within its replica"
            );
            return Err(Status::Refused);
        }
        match self.writer.take() {
            Some(writer) if self.end == End::Synced && !self.prefix_only => {
                writer.finalize().map_err(log)
            }
            Some(writer) if self.end == End::Unsynced && !self.prefix_only => {
                writer.finalize_unsynced().map_err(log)
            }
            writer => {
                self.writer = writer;
                Ok(())
            }
        }
    }

    /// Takes one ack from behind.
    fn take_ack(&mut self) -> Result<(), Broken> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        let read = if behind.answered {
            behind.connection.read_ack()
        } else {
            behind.answered = true;
            let answered = behind.connection.read_answer();
            answered.and_then(|reply| match reply {
                Reply::Writing => behind.connection.read_ack(),
                _ => Err(TransferFailure::Unexpected),
            })
        };
        let oldest = self.pending.len().saturating_sub(behind.pending_count);
        let oldest = self.pending.get_mut(oldest);
        match (read, oldest) {
            (Ok(ack), oldest) if ack.failure().is_some() => {
                let sequence = oldest.map_or(ack.sequence, |pending| pending.sequence);
                Err(self.fail(sequence, Status::Success, ack.statuses()))
            }
            (Ok(ack), Some(pending)) if ack.sequence == pending.sequence => {
                pending.behind = Some(ack);
                behind.pending_count -= 1;
                Ok(())
            }
            (Ok(_), _) => Err(self.fail_oldest(&[Status::Failed])),
            (Err(failure), _) => {
                let error = client::error::chain(&failure);
                tracing::warn!(target = %behind.target.id, %error, "lost the next DataNode of a pipeline");
                Err(self.fail_oldest(&[status_of(&failure)]))
            }
        }
    }

    fn ack(&mut self, ack: Ack) -> Result<(), Broken> {
        let sent = self.front.send_ack(&self.answer, ack).map_err(|_| Broken);
        self.answer.clear();
        sent
    }

    /// Blames members behind for the oldest packet that they have not acknowledged.
    fn fail_oldest(&mut self, behind: &[Status]) -> Broken {
        let pending_count = self.behind.as_ref().map_or(0, |behind| behind.pending_count);
        let oldest = self.pending.get(self.pending.len().saturating_sub(pending_count));
        self.fail(oldest.map_or(0, |pending| pending.sequence), Status::Success, behind)
    }

    /// Reports to the front who failed. If that does not arrive, the front sees the connection end, which has the same effect.
    fn fail(&mut self, sequence: u32, own: Status, behind: &[Status]) -> Broken {
        let _ = self.ack(Ack::new(sequence, own).followed_by(behind));
        Broken
    }
}
