//! A member of a pipeline: the daemon's [`Member`] and its store, on streams of the simulation.

use datanode::core::member::{Member, Silence};
use datanode::store::ReplicaWriter;
use datanode::transfer::keep;
use protocol::transfer::{Ack, PacketHeader, Status, Write};
use transport::{PacketPool, PooledPacket};

use super::process::{IO_TIMEOUT, Process, Reception, place_of};
use crate::master::token_keys;
use crate::net::{Conn, Outbox, Part, Place};

/// The packet as a connection reads it.
pub(super) fn packet_of(header: PacketHeader, data: &[u8]) -> PooledPacket {
    let mut packet = PacketPool::default().take();
    packet.header.offset = header.offset;
    packet.append(data, data.len().max(1));
    packet.header = PacketHeader { data_bytes: packet.header.data_bytes, ..header };
    packet.seal();
    packet
}

impl Process {
    pub(super) fn on_reception(&mut self, conn: Conn, from: Place, part: Part, out: &mut Outbox) {
        let now = self.now;
        if let Part::Write(write) = part {
            self.receive_write(conn, from, *write, out);
            return;
        }
        let behind = |reception: &&Reception| reception.behind == Some((conn, from));
        let owner = match self.receptions.contains_key(&conn) {
            true => Some(conn),
            false => self.receptions.iter().find(|(_, it)| behind(it)).map(|(conn, _)| *conn),
        };
        let Some(owner) = owner else {
            if !matches!(part, Part::End) {
                out.stream(from, self.place, conn, Part::End);
            }
            return;
        };
        let Some(mut reception) = self.receptions.remove(&owner) else { return };
        reception.heard = now;
        let went_on = match (part, owner == conn) {
            (Part::Packet(header, data), true) => self.receive(&mut reception, header, &data, out),
            (Part::Ack(ack), false) => reception.member.on_ack(*ack),
            (Part::Refused(status), false) => Err(reception.member.behind_failed(&[status])),
            (Part::End, false) => Err(reception.member.behind_failed(&[Status::Unreachable])),
            // The writer has gone.
            _ => {
                self.drop_behind(&reception, out);
                return;
            }
        };
        self.go_on(owner, reception, went_on, out);
    }

    fn receive_write(&mut self, conn: Conn, from: Place, mut write: Write, out: &mut Outbox) {
        let begun = write.token.mode.permits(write.mode()).then(|| {
            self.stop_writer(write.block);
            self.store.write(write.block, write.stamp, (&write).into(), None)
        });
        let Some(Ok(mut writer)) = begun else {
            out.stream(from, self.place, conn, Part::Refused(Status::Refused));
            return;
        };
        let member = Member::new(write.pipeline.len(), write.durable, write.prefix_only);
        if member.syncs_at_end() {
            writer.sync_ahead();
        }
        let (block, stamp) = (write.block, write.stamp);
        let mut behind = None;
        let mut before = None;
        if !write.pipeline.is_empty() {
            let target = write.pipeline.remove(0);
            behind = place_of(&target).map(|place| (self.next_conn(), place));
            before = Some(Box::new(write));
        }
        let (writer, heard) = (Some(writer), self.now);
        let reception =
            Reception { block, stamp, front: from, behind, before, member, writer, heard };
        self.receptions.insert(conn, reception);
    }

    #[allow(clippy::result_large_err, reason = "as `Member::on_ack`")]
    fn receive(
        &mut self,
        reception: &mut Reception,
        header: PacketHeader,
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), Ack> {
        let then = reception.member.on_packet(&header);
        if let Some((conn, place)) = reception.behind {
            if let Some(write) = reception.before.take() {
                out.stream(place, self.place, conn, Part::Write(write));
            }
            out.stream(place, self.place, conn, Part::Packet(header, data.to_vec()));
        }
        let kept = keep(&mut reception.writer, packet_of(header, data), then);
        kept.map_err(|status| reception.member.failed(Some(header.sequence), status))
    }

    /// Sends the acks that may go, and puts the write back unless it is over.
    fn go_on(
        &mut self,
        conn: Conn,
        mut reception: Reception,
        went_on: Result<(), Ack>,
        out: &mut Outbox,
    ) {
        let front = reception.front;
        let in_flight = reception.writer.as_mut().map_or(Ok(0), ReplicaWriter::in_flight);
        let ended = went_on.err().or_else(|| {
            let failed = in_flight.as_ref().err().map(|error| error.status());
            failed.map(|status| reception.member.failed(None, status))
        });
        if let Some(last) = ended {
            out.stream(front, self.place, conn, Part::Ack(Box::new(last)));
            out.stream(front, self.place, conn, Part::End);
            self.drop_behind(&reception, out);
            return;
        }
        let in_flight = in_flight.unwrap_or(0);
        let (keys, id) = (token_keys(), self.store.datanode());
        let (block, stamp) = (reception.block, reception.stamp);
        let receipt = |length| keys.receipt(id, block, stamp, length);
        while let Some((ack, end)) = reception.member.next_ack(in_flight, receipt) {
            if let Some(writer) = &reception.writer {
                writer.note_acked(end);
            }
            out.stream(front, self.place, conn, Part::Ack(Box::new(ack)));
        }
        if !reception.member.is_done() {
            self.receptions.insert(conn, reception);
            return;
        }
        if let Some(writer) = reception.writer.take() {
            writer.finalize_behind();
        }
    }

    pub(super) fn drop_behind(&self, reception: &Reception, out: &mut Outbox) {
        if let (Some((conn, place)), None) = (reception.behind, &reception.before) {
            out.stream(place, self.place, conn, Part::End);
        }
    }

    /// Ends writes in which nothing happened for too long.
    pub(super) fn check_streams(&mut self, out: &mut Outbox) {
        let now = self.now;
        let silent = self.receptions.iter().filter(|(_, it)| now > it.heard + IO_TIMEOUT);
        let silent: Vec<Conn> = silent.map(|(conn, _)| *conn).collect();
        for conn in silent {
            let Some(reception) = self.receptions.remove(&conn) else { continue };
            let blamed = match reception.member.silence(0) {
                // A writer may be silent for longer than a member.
                Silence::Writer if now <= reception.heard + IO_TIMEOUT * 5 => {
                    self.receptions.insert(conn, reception);
                    continue;
                }
                Silence::Writer => None,
                Silence::Behind => Some(reception.member.behind_failed(&[Status::Unreachable])),
                Silence::Disk => Some(reception.member.failed(None, Status::Failed)),
            };
            if let Some(last) = blamed {
                out.stream(reception.front, self.place, conn, Part::Ack(Box::new(last)));
            }
            out.stream(reception.front, self.place, conn, Part::End);
            self.drop_behind(&reception, out);
        }
        self.check_sendings(out);
    }
}
