//! Copies that a DataNode sends: whole replicas on the NameNode's orders, prefixes to new members, the rest to members of a recovery.

use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::DatanodeInfo;
use protocol::token::{BlockToken, TokenName};
use protocol::transfer::{Operation, PacketHeader, Reply, Resume, Write};
use protocol::{BlockId, ClientId, ErrorKind, GenerationStamp};

use datanode::error::StoreError;
use datanode::store::{OpenReplica, verify_range};

use super::process::{After, IO_TIMEOUT, Process, Sending, place_of};
use crate::net::{Conn, Message, Outbox, Part, Place};

/// Bytes of a packet.
const PACKET_BYTES: u64 = 1024;

impl Process {
    /// Begins what another asked for.
    pub(super) fn begin_sending(
        &mut self,
        operation: &Operation,
        (from, number): (Place, u64),
        out: &mut Outbox,
    ) -> Result<(), ErrorKind> {
        let refused = |_| ErrorKind::Storage;
        let then = After::Tell(from, number);
        match operation {
            Operation::Transfer { block, prior, stamp, length, target, token } => {
                self.stop_writer(*block);
                let replica = self.store.open_stopped(*block, *prior..=*stamp).map_err(refused)?;
                if replica.replica.length < *length {
                    return Err(ErrorKind::InvalidArgument);
                }
                let write = Write {
                    prefix_only: true,
                    durable: 0,
                    ..write_to((*block, *stamp, *token), vec![])
                };
                self.send_copy(&replica, target, (write, 0..*length), then, out)
            }
            Operation::CompleteReplica { block, prior, stamp, offset, target, token } => {
                let replica = self.store.open_replica(*block, *stamp).map_err(refused)?;
                let length = replica.replica.length;
                if !replica.replica.is_finalized() || *offset >= length {
                    return Err(ErrorKind::InvalidArgument);
                }
                let resume = Some(Resume { prior: *prior, offset: *offset, after_break: true });
                let write = Write { resume, ..write_to((*block, *stamp, *token), vec![]) };
                let begin = offset - offset % CHUNK_BYTES as u64;
                self.send_copy(&replica, target, (write, begin..length), then, out)
            }
            _ => Err(ErrorKind::InvalidArgument),
        }
    }

    /// Copies a finalized replica to others.
    pub(super) fn replicate(
        &mut self,
        block: BlockId,
        stamp: GenerationStamp,
        (targets, token): (Vec<DatanodeInfo>, BlockToken),
        out: &mut Outbox,
    ) {
        let Some((first, rest)) = targets.split_first() else { return };
        let begun = match self.store.open_replica(block, stamp) {
            Ok(replica) if replica.replica.is_finalized() => {
                let write = write_to((block, stamp, token.name), rest.to_vec());
                let length = replica.replica.length;
                self.send_copy(&replica, first, (write, 0..length), After::Report(block), out)
            }
            _ => Err(ErrorKind::Storage),
        };
        if begun.is_err() {
            self.store.note_failed_copy(block);
        }
    }

    fn send_copy(
        &mut self,
        replica: &OpenReplica,
        target: &DatanodeInfo,
        (write, range): (Write, std::ops::Range<u64>),
        then: After,
        out: &mut Outbox,
    ) -> Result<(), ErrorKind> {
        let place = place_of(target).ok_or(ErrorKind::InvalidArgument)?;
        let id = replica.replica.block;
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let (block, meta) = (&replica.block, &replica.meta);
        let read = verify_range(id, block, meta, range.start, range.end, |_| ());
        let read = read.and_then(|_| {
            let read = block.read_exact_at(&mut bytes, range.start);
            read.map_err(|error| StoreError::io(id, error))
        });
        if let Err(error) = read {
            self.store.note_unread(&replica.replica, &error);
            return Err(ErrorKind::Storage);
        }
        let conn = self.next_conn();
        out.stream(place, self.place, conn, Part::Write(Box::new(write)));
        let mut sequence = 0;
        let mut at = range.start;
        loop {
            let count = (range.end - at).min(PACKET_BYTES);
            let from = (at - range.start) as usize;
            let last = at + count == range.end;
            let data_bytes = count as u32;
            let header = PacketHeader { data_bytes, sequence, offset: at, last, sync: false };
            let data = bytes[from..from + count as usize].to_vec();
            out.stream(place, self.place, conn, Part::Packet(header, data));
            sequence += 1;
            at += count;
            if last {
                break;
            }
        }
        let unacked_count = sequence as usize;
        self.sendings.insert(conn, Sending { target: place, unacked_count, heard: self.now, then });
        Ok(())
    }

    pub(super) fn on_sending(&mut self, conn: Conn, part: Part, out: &mut Outbox) {
        let Some(sending) = self.sendings.get_mut(&conn) else { return };
        sending.heard = self.now;
        match part {
            Part::Ack(ack) if ack.failure().is_none() => {
                sending.unacked_count -= 1;
                if sending.unacked_count == 0 {
                    self.end_sending(conn, true, out);
                }
            }
            _ => self.end_sending(conn, false, out),
        }
    }

    fn end_sending(&mut self, conn: Conn, is_done: bool, out: &mut Outbox) {
        let Some(sending) = self.sendings.remove(&conn) else { return };
        if !is_done {
            out.stream(sending.target, self.place, conn, Part::End);
        }
        match sending.then {
            After::Tell(to, number) => {
                let answer = if is_done { Ok(Reply::Done) } else { Err(ErrorKind::Storage) };
                out.send(to, Message::Told { number, answer });
            }
            After::Report(block) if !is_done => self.store.note_failed_copy(block),
            After::Report(_) => {}
        }
    }

    pub(super) fn check_sendings(&mut self, out: &mut Outbox) {
        let now = self.now;
        let silent = self.sendings.iter().filter(|(_, it)| now > it.heard + IO_TIMEOUT);
        let silent: Vec<Conn> = silent.map(|(conn, _)| *conn).collect();
        silent.into_iter().for_each(|conn| self.end_sending(conn, false, out));
    }
}

/// A new replica on the receiver and on the `rest` of a pipeline; all of them sync it.
fn write_to(
    (block, stamp, token): (BlockId, GenerationStamp, TokenName),
    rest: Vec<DatanodeInfo>,
) -> Write {
    Write {
        block,
        stamp,
        token,
        client: ClientId::default(),
        resume: None,
        prefix_only: false,
        durable: u16::try_from(rest.len() + 1).unwrap_or(u16::MAX),
        pipeline: rest,
        cached: false,
    }
}
