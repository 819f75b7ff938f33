//! Receiving several small blocks as a member of a pipeline ([`WriteMany`]).
//!
//! ```text
//! packet of a block -> sent on -> verified, held      until all have come
//! then              -> all appended, one sync -> acks from behind taken -> acks to the front
//! ```
//!
//! A block that fails here or behind is reported in its ack, and the others go on. Each block has a [`Member`] of its own, as if it came alone.
//!
//! Invariant: a connection on which a packet is missing or too many acks are expected is not kept.

use std::sync::Arc;

use protocol::frame;
use protocol::namenode::DatanodeInfo;
use protocol::transfer::{
    Ack, Answer, MoreBlock, PIPELINE_MEMBERS_MAX, Reply, Status, WRITE_MANY_BYTES_MAX, Write,
    WriteMany,
};
use protocol::{BlockId, GenerationStamp};
use transport::{Connection, Pipe, PooledPacket};

use super::keep::{cannot_write, keep};
use super::{After, Service, Turn, status_of};
use crate::core::member::{Member, Then};
use crate::error::OperationError;
use crate::store::ReplicaWriter;

/// One of the blocks.
struct Incoming {
    block: (BlockId, GenerationStamp),
    member: Member,
    /// `None` once it is complete, or cannot be written.
    writer: Option<ReplicaWriter>,
    then: Then,
    /// Why it cannot be written here.
    failure: Option<Status>,
    sequence: u32,
}

/// The next member of the pipeline.
struct Behind {
    target: DatanodeInfo,
    /// What the members behind say of each block once they cannot be reached any more.
    lost: Option<Status>,
    pipe: Option<Pipe>,
}

impl Service {
    pub(super) fn write_many(
        self: &Arc<Self>,
        connection: &mut Connection,
        turn: &Turn,
        writes: WriteMany,
    ) -> Result<After, OperationError> {
        let Write { pipeline, resume, prefix_only, .. } = &writes.first;
        if pipeline.len() >= PIPELINE_MEMBERS_MAX {
            return Err(OperationError::Invalid("the pipeline is too long"));
        }
        if resume.is_some() || *prefix_only {
            return Err(OperationError::Invalid("blocks that are written together are new"));
        }
        let mut behind = self.connect_behind_many(&writes);
        let mut blocks = self.begin_many(connection, writes);
        for block in &mut blocks {
            let mut packet = self.packets.take();
            connection.read_packet(&mut packet)?;
            turn.stir();
            self.traffic.note_received(packet.header.data_bytes);
            if !packet.header.last || packet.header.data_bytes > WRITE_MANY_BYTES_MAX {
                return Err(OperationError::Invalid("a block of several is one small packet"));
            }
            block.sequence = packet.header.sequence;
            block.then = block.member.on_packet(&packet.header);
            if let Some(behind) = &mut behind {
                behind.send(&packet);
            }
            block.keep(packet);
        }
        finalize(&mut blocks);
        let answer: Answer = Ok(Reply::Writing);
        let mut before = frame::encode(&answer);
        for block in &mut blocks {
            let acked = behind.as_mut().map(Behind::take_ack);
            connection.send_ack(&before, block.ack(self, acked))?;
            before.clear();
        }
        if let Some(Behind { target, lost: None, pipe: Some(pipe) }) = behind {
            self.peers.give_back(&target, pipe.into_connection());
        }
        for block in blocks.into_iter().filter(|block| block.failure.is_none()) {
            block.writer.into_iter().for_each(ReplicaWriter::finalize_behind);
        }
        Ok(After::Keep)
    }

    fn connect_behind_many(&self, writes: &WriteMany) -> Option<Behind> {
        let mut first = writes.first.clone();
        if first.pipeline.is_empty() {
            return None;
        }
        let target = first.pipeline.remove(0);
        first.cached = false;
        // The members share secrets with the writer, and the key with each other.
        let token = self.token_keys.token(first.block, first.stamp, first.token);
        let more: Vec<_> = writes
            .more
            .iter()
            .map(|it| (it.block, it.stamp, self.token_keys.token(it.block, it.stamp, it.token)))
            .collect();
        let (lost, pipe) = match Pipe::open_many(&self.peers, &target, (first, &token), &more) {
            Ok(pipe) => (None, Some(pipe)),
            Err(error) => {
                let error = protocol::error::chain(&error);
                tracing::warn!(target = %target.id, %error, "cannot reach the next DataNode of a pipeline");
                (Some(Status::Unreachable), None)
            }
        };
        Some(Behind { target, lost, pipe })
    }

    fn begin_many(self: &Arc<Self>, connection: &Connection, writes: WriteMany) -> Vec<Incoming> {
        let WriteMany { first, more } = writes;
        let others = more.into_iter().map(|MoreBlock { block, stamp, token, .. }| Write {
            block,
            stamp,
            token,
            ..first.clone()
        });
        let writes: Vec<Write> = [first.clone()].into_iter().chain(others).collect();
        let begin = |write: Write| {
            let stream = Arc::clone(connection.stream());
            let begun = self.store.write(write.block, write.stamp, (&write).into(), Some(stream));
            let failure = begun.as_ref().err().map(cannot_write);
            Incoming {
                block: (write.block, write.stamp),
                member: Member::new(write.pipeline.len(), write.durable, false),
                writer: begun.ok(),
                then: Then::Go,
                failure,
                sequence: 0,
            }
        };
        writes.into_iter().map(begin).collect()
    }
}

impl Incoming {
    /// Verifies and writes the packet; what follows comes later, for all blocks at once.
    fn keep(&mut self, packet: PooledPacket) {
        if self.failure.is_none()
            && let Err(status) = keep(&mut self.writer, packet, Then::Go)
        {
            (self.failure, self.writer) = (Some(status), None);
        }
    }

    /// The ack to the front, after that of the members behind.
    fn ack(&mut self, service: &Service, acked: Option<Result<Ack, Status>>) -> Ack {
        if let Some(status) = self.failure {
            return self.member.failed(Some(self.sequence), status);
        }
        let heard = match acked {
            Some(Ok(ack)) => self.member.on_ack(ack),
            Some(Err(status)) => Err(self.member.behind_failed(&[status])),
            None => Ok(()),
        };
        if let Err(last) = heard {
            return last;
        }
        match self.member.next_ack(0, |length| service.receipt(self.block, length)) {
            Some((ack, end)) => {
                if let Some(writer) = &self.writer {
                    writer.note_acked(end);
                }
                ack
            }
            None => self.member.failed(Some(self.sequence), Status::Failed),
        }
    }
}

/// Completes the blocks that are to be complete before they are acknowledged.
fn finalize(blocks: &mut [Incoming]) {
    for block in blocks.iter_mut().filter(|block| block.then == Then::FinalizeUnsynced) {
        if let Some(Err(error)) = block.writer.take().map(ReplicaWriter::finalize_unsynced) {
            block.failure = Some(cannot_write(&error));
        }
    }
    let synced = blocks.iter_mut().filter(|block| block.then == Then::Finalize);
    let (open, writers): (Vec<&mut Incoming>, Vec<ReplicaWriter>) = synced
        .filter_map(|block| {
            let writer = block.writer.take()?;
            Some((block, writer))
        })
        .unzip();
    for (block, ended) in open.into_iter().zip(ReplicaWriter::finalize_all(writers)) {
        block.failure = ended.err().as_ref().map(cannot_write);
    }
}

impl Behind {
    /// Sends a packet on; members that cannot be reached any more are reported with the acks.
    fn send(&mut self, packet: &PooledPacket) {
        if let (None, Some(pipe)) = (self.lost, &mut self.pipe)
            && let Err(error) = pipe.send(packet)
        {
            let error = protocol::error::chain(&error);
            tracing::warn!(target = %self.target.id, %error, "lost the next DataNode of a pipeline");
            self.lost = Some(Status::Unreachable);
        }
    }

    /// The ack of the members behind for the next block.
    fn take_ack(&mut self) -> Result<Ack, Status> {
        let (None, Some(pipe)) = (self.lost, &mut self.pipe) else {
            return Err(self.lost.unwrap_or(Status::Unreachable));
        };
        pipe.take_ack().map_err(|failure| {
            let error = protocol::error::chain(&failure);
            tracing::warn!(target = %self.target.id, %error, "lost the next DataNode of a pipeline");
            let status = status_of(&failure);
            self.lost = Some(status);
            status
        })
    }
}
