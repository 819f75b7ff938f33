//! Serving replicas: packets with checksums for any reader, descriptors for readers on this machine.

use protocol::frame;
use protocol::transfer::{Answer, Read, Reply};
use protocol::{BlockId, GenerationStamp};
use transport::Connection;

use super::serve::{self, Serving};
use super::{After, Service, Turn};
use crate::error::OperationError;

impl Service {
    pub(super) fn read(
        &self,
        connection: &mut Connection,
        turn: &Turn,
        read: &Read,
    ) -> Result<After, OperationError> {
        let mut serving = Serving::begin(&self.store, read)?;
        let answer: Answer = Ok(Reply::Reading { length: serving.length() });
        let mut before = frame::encode(&answer);
        let mut packet = self.packets.take();
        loop {
            if let Err(error) = serving.next_packet(&mut packet) {
                // There is no room for an answer within a stream: the reader sees it end.
                return if before.is_empty() { Ok(After::Close) } else { Err(error.into()) };
            }
            connection.send_packet(&before, &packet)?;
            turn.stir();
            self.traffic.note_sent(packet.header.data_bytes);
            if packet.header.last {
                return Ok(After::Keep);
            }
            before.clear();
        }
    }

    pub(super) fn pass_descriptors(
        &self,
        connection: &mut Connection,
        block: BlockId,
        stamp: GenerationStamp,
    ) -> Result<After, OperationError> {
        let opened = self.store.open_at_least(block, stamp).map_err(OperationError::from);
        let usable = opened.and_then(|replica| {
            if !replica.replica.is_finalized() {
                return Err(OperationError::Invalid("only finalized replicas may be mapped"));
            }
            serve::check_meta(&self.store, &replica)?;
            Ok(replica)
        });
        let usable = usable.and_then(|replica| match connection.passes_files() {
            true => Ok(replica),
            false => Err(OperationError::Invalid("descriptors need a Unix socket")),
        });
        let replica = match usable {
            Ok(replica) => replica,
            Err(error) => return self.answer(connection, Err(error)),
        };
        let length = replica.replica.length;
        let files = replica.block.real().and_then(|data| Ok([data, replica.meta.real()?]));
        match files {
            Ok(files) => connection.send_descriptors(length, files)?,
            Err(_) => {
                let error = OperationError::Invalid("a small replica has no files of its own");
                return self.answer(connection, Err(error));
            }
        }
        Ok(After::Keep)
    }
}
