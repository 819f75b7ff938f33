//! What a member of a pipeline does with a packet that has come.

use protocol::transfer::Status;
use transport::PooledPacket;

use crate::core::member::Then;
use crate::error::StoreError;
use crate::store::ReplicaWriter;

/// Logs why a replica cannot be written; returns the status for the writer.
pub(super) fn cannot_write(error: &StoreError) -> Status {
    tracing::warn!(error = %protocol::error::chain(error), "cannot write a replica");
    error.status()
}

/// Verifies and writes a packet, and does what follows. A replica that is complete has no writer afterwards.
///
/// # Errors
/// The status for the writer; the reason is logged.
pub fn keep(
    writer: &mut Option<ReplicaWriter>,
    packet: PooledPacket,
    then: Then,
) -> Result<(), Status> {
    let header = packet.header;
    if let Err(error) = packet.verify() {
        let offset = header.offset + error.offset;
        tracing::warn!(offset, "a packet was damaged on its way from the member before");
        return Err(Status::Checksum);
    }
    let log = |error: StoreError| cannot_write(&error);
    let open = writer.as_mut().ok_or(Status::Refused)?;
    if header.data_bytes > 0 {
        open.write(packet).map_err(log)?;
    }
    if header.last && open.length() != header.end() {
        let (length, end) = (open.length(), header.end());
        tracing::warn!(length, end, "a write ends within its replica");
        return Err(Status::Refused);
    }
    let ended = match then {
        Then::Go => None,
        Then::Sync => Some(open.sync_entry()),
        Then::Leave => writer.take().map(ReplicaWriter::leave),
        Then::Finalize => writer.take().map(ReplicaWriter::finalize),
        Then::FinalizeUnsynced => writer.take().map(ReplicaWriter::finalize_unsynced),
    };
    ended.unwrap_or(Ok(())).map_err(log)
}
