//! Copies that a DataNode sends, as the daemon's [`Copying`] decides: whole replicas and parts on the NameNode's orders, prefixes to new members, the rest to
//! members of a recovery.

use datanode::core::copy::{Copying, Order, Source, Step};
use datanode::error::{OperationError, StoreError};
use datanode::transfer::OpenSource;
use protocol::namenode::DatanodeInfo;
use protocol::token::{AccessMode, BlockToken, Holder, TokenName};
use protocol::transfer::{Operation, Reply};
use protocol::{DatanodeId, ErrorKind};
use transport::PacketPool;

use super::process::{Asker, IO_TIMEOUT, Process, Sending, place_of};
use crate::net::{Conn, Message, Outbox, Part, Place};

/// Bytes of a packet: a block has more packets than may wait for acks.
const PACKET_BYTES: u64 = 512;

fn kind_of(error: StoreError) -> ErrorKind {
    OperationError::from(error).to_remote().kind
}

impl Process {
    /// Begins what another asked for.
    pub(super) fn begin_sending(
        &mut self,
        operation: &Operation,
        (from, number): (Place, u64),
        out: &mut Outbox,
    ) -> Result<(), ErrorKind> {
        let (order, target) = Order::of(operation).ok_or(ErrorKind::InvalidArgument)?;
        let targets = std::slice::from_ref(target);
        let (mode, holder) = (AccessMode::Maintain, Holder::CLUSTER);
        let token = TokenName { mode, period: 0, expires_ms: 0, holder };
        self.begin_copy(order, (targets, token), Asker::Peer(from, number), out)
    }

    /// Copies what the NameNode orders.
    pub(super) fn copy(
        &mut self,
        order: Order,
        (targets, token): (&[DatanodeInfo], &BlockToken),
        out: &mut Outbox,
    ) {
        let Some(sender) = self.session.core.sender() else { return };
        let ids: Vec<DatanodeId> = targets.iter().map(|target| target.id).collect();
        let asker = Asker::Master(sender.epoch, ids);
        if let Err(kind) = self.begin_copy(order, (targets, token.name), asker.clone(), out) {
            self.tell(&order, asker, Err(kind), out);
        }
    }

    fn begin_copy(
        &mut self,
        order: Order,
        (targets, token): (&[DatanodeInfo], TokenName),
        asker: Asker,
        out: &mut Outbox,
    ) -> Result<(), ErrorKind> {
        let source = order.source();
        if let Source::Stopped(block, _) = source {
            self.stop_writer(block);
        }
        let source = OpenSource::open(&self.store, source).map_err(kind_of)?;
        let copying: Copying<ErrorKind> = order
            .begin(source.replica(), PACKET_BYTES)
            .map_err(|unfit| OperationError::from(unfit).to_remote().kind)?;
        let Some((first, behind)) = targets.split_first() else { return Ok(()) };
        let target = place_of(first).ok_or(ErrorKind::Unavailable)?;
        let (conn, heard) = (self.next_conn(), self.now);
        let before = Some(Box::new(order.write(behind, token)));
        let sending = Sending { order, copying, source, target, before, heard, asker };
        self.sendings.insert(conn, sending);
        self.send_on(conn, out);
        Ok(())
    }

    /// Does what is next until an ack is waited for, or the copy is over.
    fn send_on(&mut self, conn: Conn, out: &mut Outbox) {
        let Some(sending) = self.sendings.get_mut(&conn) else { return };
        let ended = loop {
            match sending.copying.next_step() {
                Step::Send(piece) => {
                    let mut packet = PacketPool::default().take();
                    if let Err(error) = sending.source.read(&self.store, piece, &mut packet) {
                        sending.copying.unread(kind_of(error));
                        continue;
                    }
                    let write = sending.before.take().map(Part::Write);
                    let part = Part::Packet(packet.header, packet.data().to_vec());
                    for part in write.into_iter().chain([part]) {
                        out.stream(sending.target, self.place, conn, part);
                    }
                    sending.copying.sent(Ok(()));
                }
                Step::TakeAck => return,
                Step::Done(ended) => break ended.map_err(|_| ErrorKind::Storage),
            }
        };
        let Some(Sending { order, target, before, asker, .. }) = self.sendings.remove(&conn) else {
            return;
        };
        if ended.is_err() && before.is_none() {
            out.stream(target, self.place, conn, Part::End);
        }
        self.tell(&order, asker, ended, out);
    }

    /// A copy is over.
    fn tell(
        &mut self,
        order: &Order,
        asker: Asker,
        ended: Result<(), ErrorKind>,
        out: &mut Outbox,
    ) {
        match (asker, ended) {
            (Asker::Peer(to, number), ended) => {
                let answer = ended.map(|()| Reply::Done);
                out.send(to, Message::Told { number, answer });
            }
            (Asker::Master(epoch, targets), Ok(())) => {
                if let Some(commit) = order.done(targets.into_iter()) {
                    self.commit(commit, epoch, out);
                }
            }
            (Asker::Master(..), Err(_)) => {
                if let Some(block) = order.failed() {
                    self.store.note_failed_copy(block);
                }
            }
        }
    }

    pub(super) fn on_sending(&mut self, conn: Conn, part: Part, out: &mut Outbox) {
        let Some(sending) = self.sendings.get_mut(&conn) else { return };
        sending.heard = self.now;
        sending.copying.acked(match part {
            Part::Ack(ack) => Ok(*ack),
            _ => Err(ErrorKind::Unavailable),
        });
        self.send_on(conn, out);
    }

    pub(super) fn check_sendings(&mut self, out: &mut Outbox) {
        let now = self.now;
        let silent = self.sendings.iter().filter(|(_, it)| now > it.heard + IO_TIMEOUT);
        let silent: Vec<Conn> = silent.map(|(conn, _)| *conn).collect();
        for conn in silent {
            self.on_sending(conn, Part::End, out);
        }
    }
}
