//! Receiving a replica as a member of a pipeline ([`Member`]).
//!
//! A packet is read completely, forwarded at once, then verified and written. Its ack goes back once this member and all behind it have it. At the last packet
//! this member finalizes while those behind it do the same, so their syncs overlap. One thread does all of it: it waits for packets from the front, acks from
//! behind and its disk together.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use protocol::frame;
use protocol::namenode::DatanodeInfo;
use protocol::transfer::{Ack, Answer, PIPELINE_MEMBERS_MAX, Reply, Status, Write};
use protocol::{BlockId, GenerationStamp};
use transport::{Connection, Packet, Pipe, PooledPacket, Ready, TransferFailure};

use super::keep::{cannot_write, keep};
use super::{After, Service, Turn, status_of};
use crate::core::member::{Member, Silence};
use crate::error::OperationError;
use crate::store::ReplicaWriter;

/// How long to wait for what a member said before its connection broke: it is on its way, or lost with it.
const LAST_WORDS_WAIT_MAX: Duration = Duration::from_secs(1);

/// The next member of the pipeline.
struct Behind {
    target: DatanodeInfo,
    pipe: Pipe,
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

fn cannot_wait(error: &io::Error) -> Broken {
    tracing::error!(%error, "cannot wait for packets");
    Broken
}

struct Reception<'a> {
    service: &'a Arc<Service>,
    turn: &'a Turn,
    front: &'a mut Connection,
    /// The answer, until it is sent with the first ack.
    answer: Vec<u8>,
    behind: Option<Behind>,
    /// Members behind this one.
    behind_count: usize,
    member: Member,
    block: (BlockId, GenerationStamp),
    writer: Option<ReplicaWriter>,
}

impl Service {
    pub(super) fn write(
        self: &Arc<Self>,
        connection: &mut Connection,
        turn: &Turn,
        write: Write,
    ) -> Result<After, OperationError> {
        if write.pipeline.len() >= PIPELINE_MEMBERS_MAX {
            return Err(OperationError::Invalid("the pipeline is too long"));
        }
        let member = Member::new(write.pipeline.len(), write.durable, write.prefix_only);
        let stream = Arc::clone(connection.stream());
        let mut writer =
            self.store.write(write.block, write.stamp, (&write).into(), Some(stream))?;
        if member.syncs_at_end() {
            writer.sync_ahead();
        }
        if !write.cached {
            writer.bypass_cache();
        }
        let answer: Answer = Ok(Reply::Writing);
        let mut reception = Reception {
            service: self,
            turn,
            front: connection,
            answer: frame::encode(&answer),
            behind: None,
            behind_count: write.pipeline.len(),
            member,
            block: (write.block, write.stamp),
            writer: Some(writer),
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
        let token = self.service.token_keys.token(write.block, write.stamp, write.token);
        match Pipe::open(&self.service.peers, &target, &token, write) {
            Ok(pipe) => {
                self.behind = Some(Behind { target, pipe });
                Ok(())
            }
            Err(error) => {
                let error = protocol::error::chain(&error);
                tracing::warn!(target = %target.id, %error, "cannot reach the next DataNode of a pipeline");
                Err(self.end(self.member.behind_failed(&[Status::Unreachable])))
            }
        }
    }

    fn run(&mut self) -> Result<(), Broken> {
        loop {
            let in_flight = self.send_acks()?;
            if self.member.is_done() {
                break;
            }
            match self.next_event(in_flight)? {
                Event::Packet => {
                    let mut packet = self.service.packets.take();
                    self.front.read_packet(&mut packet).map_err(|error| {
                        tracing::debug!(error = %protocol::error::chain(&error), "writer is gone");
                        Broken
                    })?;
                    self.turn.stir();
                    self.service.traffic.note_received(packet.header.data_bytes);
                    self.receive(packet)?;
                }
                Event::Ack => self.take_ack()?,
                Event::Written => {}
            }
        }
        if let Some(behind) = self.behind.take() {
            self.service.peers.give_back(&behind.target, behind.pipe.into_connection());
        }
        if let Some(writer) = self.writer.take() {
            writer.finalize_behind();
        }
        Ok(())
    }

    /// Number of packets in flight to the disk, the last ones of those pending.
    fn in_flight(&mut self) -> Result<usize, Broken> {
        let in_flight = self.writer.as_mut().map_or(Ok(0), ReplicaWriter::in_flight);
        in_flight.map_err(|error| {
            let status = cannot_write(&error);
            self.end(self.member.failed(None, status))
        })
    }

    /// Sends the acks of packets written here and acknowledged behind; returns how many are still in flight to the disk.
    fn send_acks(&mut self) -> Result<usize, Broken> {
        let in_flight = self.in_flight()?;
        let (service, block) = (self.service, self.block);
        let receipt = |length| service.receipt(block, length);
        while let Some((ack, end)) = self.member.next_ack(in_flight, receipt) {
            if let Some(writer) = &self.writer {
                writer.note_acked(end);
            }
            self.ack(ack)?;
        }
        Ok(in_flight)
    }

    /// Waits. Time spent while only acks from behind are missing counts as waiting for those behind.
    fn next_event(&mut self, in_flight: usize) -> Result<Event, Broken> {
        let limits = self.service.limits;
        let takes_packets = self.member.takes_packets()
            && !self.writer.as_ref().is_some_and(ReplicaWriter::is_busy);
        let behind = self.behind.as_ref().filter(|_| self.member.pending_behind() > 0);
        let behind = behind.map(|behind| behind.pipe.connection());
        if behind.is_some_and(Connection::is_buffered) {
            return Ok(Event::Ack);
        }
        if takes_packets && self.front.is_buffered() {
            return Ok(Event::Packet);
        }
        let front = takes_packets.then_some(&*self.front);
        let wake = self.writer.as_ref().and_then(ReplicaWriter::wake);
        let is_idle = self.member.is_idle();
        let working = transport::behind_timeout(limits.io_timeout, self.behind_count);
        let timeout = if is_idle { limits.writer_idle_max } else { working };
        let ready = transport::wait_for_any(front, behind, wake, timeout);
        let ready = ready.map_err(|error| cannot_wait(&error))?;
        if behind.is_some() && self.member.waits_for_behind(in_flight) {
            self.member.note_wait(ready.awake);
        }
        match ready {
            Ready { behind: true, .. } => Ok(Event::Ack),
            Ready { wake: true, .. } => Ok(Event::Written),
            Ready { front: true, .. } => Ok(Event::Packet),
            _ => Err(self.silent(in_flight)),
        }
    }

    /// Ends a write in which nothing happened for too long.
    fn silent(&mut self, in_flight: usize) -> Broken {
        match self.member.silence(in_flight) {
            Silence::Writer => {
                tracing::info!("a writer was silent for too long");
                Broken
            }
            Silence::Behind => {
                tracing::warn!("the next DataNode of a pipeline does not acknowledge in time");
                self.end(self.member.behind_failed(&[Status::Unreachable]))
            }
            Silence::Disk => {
                tracing::warn!("the disk does not take a packet in time");
                self.end(self.member.failed(None, Status::Failed))
            }
        }
    }

    fn receive(&mut self, packet: PooledPacket) -> Result<(), Broken> {
        let sequence = packet.header.sequence;
        let then = self.member.on_packet(&packet.header);
        let forwarded = self.forward(&packet);
        if let Err(status) = keep(&mut self.writer, packet, then) {
            return Err(self.end(self.member.failed(Some(sequence), status)));
        }
        forwarded.map_err(|statuses| self.end(self.member.not_sent_on(sequence, &statuses)))
    }

    /// Forwards a packet; on failure, returns the statuses of the members behind.
    fn forward(&mut self, packet: &Packet) -> Result<(), Vec<Status>> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        match behind.pipe.send(packet) {
            Ok(waited) => {
                self.member.note_wait(waited);
                Ok(())
            }
            Err(failure) => {
                let error = protocol::error::chain(&failure);
                tracing::warn!(target = %behind.target.id, %error, "lost the next DataNode of a pipeline");
                // It may have reported the reason before it failed: perhaps a member behind it is to blame. One that is silent says nothing any more, and
                // whoever waits at this member would take it for the one that hangs.
                let is_silent = matches!(failure, TransferFailure::Silent(_));
                let words = if is_silent { None } else { self.last_words() };
                Err(words.unwrap_or_else(|| vec![Status::Unreachable]))
            }
        }
    }

    fn last_words(&mut self) -> Option<Vec<Status>> {
        let behind = self.behind.as_mut()?;
        behind.pipe.connection().stream().set_timeouts(LAST_WORDS_WAIT_MAX).ok()?;
        if let Err(failure) = behind.pipe.take_answer() {
            return Some(vec![status_of(&failure)]);
        }
        // After the acks in flight comes the one with the reason.
        for _ in 0..self.member.pending_behind() {
            let ack = behind.pipe.take_ack().ok()?;
            if ack.failure().is_some() {
                return Some(ack.statuses().to_vec());
            }
        }
        None
    }

    /// Takes one ack from behind.
    fn take_ack(&mut self) -> Result<(), Broken> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        match behind.pipe.take_ack() {
            Ok(ack) => self.member.on_ack(ack).map_err(|last| self.end(last)),
            Err(failure) => {
                let error = protocol::error::chain(&failure);
                tracing::warn!(target = %behind.target.id, %error, "lost the next DataNode of a pipeline");
                Err(self.end(self.member.behind_failed(&[status_of(&failure)])))
            }
        }
    }

    fn ack(&mut self, ack: Ack) -> Result<(), Broken> {
        let sent = self.front.send_ack(&self.answer, ack).map_err(|_| Broken);
        self.answer.clear();
        sent
    }

    /// Sends the last ack, which reports a failure. If it does not arrive, the front sees the connection end, which has the same effect.
    fn end(&mut self, last: Ack) -> Broken {
        let _ = self.ack(last);
        Broken
    }
}
