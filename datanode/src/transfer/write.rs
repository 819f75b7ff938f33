//! Receiving a replica as a member of a pipeline.
//!
//! A packet is read whole, sent on at once, then verified and written; its ack goes back when this member and all behind it
//! have it. At the last packet this member finalizes while those behind it do the same, so their syncs overlap. One thread
//! does all of it: it waits for packets from the front and acks from behind together.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use client::dfs::transfer::{Connection, Packet, TransferFailure};
use protocol::frame;
use protocol::namenode::DatanodeInfo;
use protocol::token::AccessMode;
use protocol::transfer::{Ack, Answer, Operation, PIPELINE_MEMBERS_MAX, Reply, Status, Write};

use super::{After, Service, status_of};
use crate::error::{OperationError, StoreError};
use crate::store::ReplicaWriter;

/// The rest of the pipeline.
struct Behind {
    target: DatanodeInfo,
    connection: Connection,
    /// The operation, until it was sent with the first packet.
    before: Vec<u8>,
    answered: bool,
    /// Packets that it has not acknowledged.
    pending: VecDeque<u32>,
    /// Where the data of these packets ends.
    ends: VecDeque<u64>,
    /// How long this member has waited for it to take packets and to acknowledge them.
    waited: Duration,
}

fn whole_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

/// A write that ended early; an ack has told why.
struct Broken;

fn cannot_wait(error: &io::Error) -> Broken {
    tracing::error!(%error, "cannot wait for packets");
    Broken
}

struct Reception<'a> {
    service: &'a Arc<Service>,
    front: &'a mut Connection,
    /// The answer, until it was sent with the first ack.
    answer: Vec<u8>,
    behind: Option<Behind>,
    writer: Option<ReplicaWriter>,
    durable: bool,
    prefix_only: bool,
    last_received: bool,
}

impl Service {
    pub(super) fn write(
        self: &Arc<Self>,
        connection: &mut Connection,
        write: Write,
    ) -> Result<After, OperationError> {
        self.check(&write.token, write.block, write.stamp, AccessMode::Write)?;
        if write.pipeline.len() >= PIPELINE_MEMBERS_MAX {
            return Err(OperationError::Invalid("the pipeline is too long"));
        }
        let durable = write.durable > 0;
        let prefix_only = write.prefix_only;
        let stream = Arc::clone(connection.stream());
        let mut writer = self.store.write(write.block, write.stamp, write.resume, Some(stream))?;
        if durable {
            writer.sync_ahead();
        }
        let answer: Answer = Ok(Reply::Writing);
        let mut reception = Reception {
            service: self,
            front: connection,
            answer: frame::encode(&answer),
            behind: None,
            writer: Some(writer),
            durable,
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
        write.durable = write.durable.saturating_sub(1);
        match self.service.peers.take(&target) {
            Ok(connection) => {
                let before = frame::encode(&Operation::Write(write));
                let (pending, ends) = (VecDeque::new(), VecDeque::new());
                let answered = false;
                let waited = Duration::ZERO;
                self.behind =
                    Some(Behind { target, connection, before, answered, pending, ends, waited });
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
        let mut packet = self.service.packets.take();
        loop {
            if self.is_drained() {
                break;
            }
            if self.last_received || self.is_ack_next()? {
                self.relay_ack()?;
                continue;
            }
            self.front.read_packet(&mut packet).map_err(|error| {
                tracing::debug!(error = %client::error::chain(&error), "writer is gone");
                Broken
            })?;
            self.receive(&packet)?;
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

    fn is_drained(&self) -> bool {
        self.last_received && self.behind.as_ref().is_none_or(|behind| behind.pending.is_empty())
    }

    /// Waits until a packet or an ack can be read; true for an ack. What is waited with acks missing counts as waiting for them.
    fn is_ack_next(&mut self) -> Result<bool, Broken> {
        let limits = self.service.limits;
        let behind = self.behind.as_mut().filter(|behind| !behind.pending.is_empty());
        if behind.as_ref().is_some_and(|behind| behind.connection.is_buffered()) {
            return Ok(true);
        }
        if self.front.is_buffered() {
            return Ok(false);
        }
        let front = self.front.as_fd();
        let Some(behind) = behind else {
            return match sys::poll::wait_readable([front], limits.writer_idle_max) {
                Ok([true]) => Ok(false),
                Ok([false]) => {
                    tracing::info!("a writer was silent for too long");
                    Err(Broken)
                }
                Err(error) => Err(cannot_wait(&error)),
            };
        };
        let sockets = [front, behind.connection.as_fd()];
        let wait = sys::poll::wait_readable_awake(sockets, limits.io_timeout)
            .map_err(|error| cannot_wait(&error))?;
        behind.waited += wait.awake;
        if wait.ready == [false, false] {
            tracing::warn!("the next DataNode of a pipeline does not acknowledge in time");
            return Err(self.fail_oldest(&[Status::Unreachable]));
        }
        Ok(wait.ready[1])
    }

    fn receive(&mut self, packet: &Packet) -> Result<(), Broken> {
        let header = packet.header;
        let forwarded = self.forward(packet);
        let kept = self.keep(packet);
        if let Err(status) = kept {
            return Err(self.fail(header.sequence, status, &[]));
        }
        forwarded.map_err(|statuses| self.fail(header.sequence, Status::Success, &statuses))?;
        self.last_received = header.last;
        if self.behind.is_none() {
            if let Some(writer) = &self.writer {
                writer.note_acked(header.end());
            }
            return self.ack(Ack::new(header.sequence, Status::Success));
        }
        Ok(())
    }

    /// Sends a packet on; else tells the statuses of the members behind.
    fn forward(&mut self, packet: &Packet) -> Result<(), Vec<Status>> {
        let Some(behind) = &mut self.behind else { return Ok(()) };
        behind.pending.push_back(packet.header.sequence);
        behind.ends.push_back(packet.header.end());
        match behind.connection.send_packet(&behind.before, packet) {
            Ok(waited) => {
                behind.waited += waited;
                behind.before = Vec::new();
                Ok(())
            }
            Err(error) => {
                let error = client::error::chain(&error);
                tracing::warn!(target = %behind.target.id, %error, "lost the next DataNode of a pipeline");
                // It may have said why before it went: perhaps a member behind it is to blame.
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
        // Acks that were under way are followed by the one that tells.
        for _ in 0..behind.pending.len() {
            let ack = behind.connection.read_ack().ok()?;
            if ack.failure().is_some() {
                return Some(ack.statuses().to_vec());
            }
        }
        None
    }

    /// Verifies and writes a packet; at the last one, finalizes if that must be on disk.
    fn keep(&mut self, packet: &Packet) -> Result<(), Status> {
        let header = packet.header;
        if let Err(error) = packet.verify() {
            let offset = header.offset + error.offset;
            tracing::warn!(offset, "a packet was damaged on its way from the member before");
            return Err(Status::Checksum);
        }
        let log = |error: StoreError| {
            tracing::warn!(error = %client::error::chain(&error), "cannot write a replica");
            error.status()
        };
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
            Some(writer) if self.durable && !self.prefix_only => writer.finalize().map_err(log),
            writer => {
                self.writer = writer;
                Ok(())
            }
        }
    }

    /// Passes on one ack from behind.
    fn relay_ack(&mut self) -> Result<(), Broken> {
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
        let expected = behind.pending.front().copied();
        match read {
            Ok(ack) if ack.failure().is_some() => {
                let sequence = expected.unwrap_or(ack.sequence);
                Err(self.fail(sequence, Status::Success, ack.statuses()))
            }
            Ok(ack) if Some(ack.sequence) == expected => {
                behind.pending.pop_front();
                let end = behind.ends.pop_front();
                if let (Some(writer), Some(end)) = (&self.writer, end) {
                    writer.note_acked(end);
                }
                let own = Ack::new(ack.sequence, Status::Success);
                let own = own.with_wait(whole_ms(behind.waited));
                self.ack(own.ahead_of(&ack))
            }
            Ok(_) => Err(self.fail_oldest(&[Status::Failed])),
            Err(failure) => {
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

    fn fail_oldest(&mut self, behind: &[Status]) -> Broken {
        let oldest = self.behind.as_ref().and_then(|behind| behind.pending.front().copied());
        self.fail(oldest.unwrap_or(0), Status::Success, behind)
    }

    /// Tells the front who failed. If that does not arrive, the front sees the connection end, which says as much.
    fn fail(&mut self, sequence: u32, own: Status, behind: &[Status]) -> Broken {
        let _ = self.ack(Ack::new(sequence, own).followed_by(behind));
        Broken
    }
}
