//! [`Sockets`]: what the writer's machine needs of real connections: buffers of the pool, and the classes of errors.

use std::ops::{Deref, DerefMut};

use flow::error::{Class, Verdict};
use flow::window::Slot;
use flow::writer::{Buffer, Driver};
use protocol::transfer::{PACKET_DATA_BYTES, PacketHeader, Status};
use protocol::{ErrorKind, RemoteError};

use transport::{PacketPool, PooledPacket, TransferFailure};

use super::super::error::{DfsError, MemberFailure};

/// See the module.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) packets: PacketPool,
}

/// A packet to send.
#[derive(Debug)]
pub(super) struct Outgoing(PooledPacket);

impl Deref for Outgoing {
    type Target = PooledPacket;

    fn deref(&self) -> &PooledPacket {
        &self.0
    }
}

impl DerefMut for Outgoing {
    fn deref_mut(&mut self) -> &mut PooledPacket {
        &mut self.0
    }
}

impl Slot for Outgoing {
    fn header(&self) -> &PacketHeader {
        &self.0.header
    }

    fn header_mut(&mut self) -> &mut PacketHeader {
        &mut self.0.header
    }
}

impl Buffer for Outgoing {
    fn data(&self) -> &[u8] {
        self.0.data()
    }

    fn append(&mut self, bytes: &[u8]) {
        self.0.append(bytes, PACKET_DATA_BYTES);
    }

    fn seal(&mut self) {
        self.0.seal();
    }
}

impl Driver for Sockets {
    type Packet = Outgoing;
    type Fault = MemberFailure;
    type CallError = DfsError;

    fn packet(&self) -> Outgoing {
        Outgoing(self.packets.take())
    }

    fn fault(verdict: Verdict) -> MemberFailure {
        match verdict {
            Verdict::Slow => MemberFailure::Slow,
            Verdict::Refused(status) => TransferFailure::Remote(refusal(status)).into(),
            Verdict::Unexpected => TransferFailure::Unexpected.into(),
        }
    }

    fn class(fault: &MemberFailure) -> Class {
        match fault {
            MemberFailure::Slow => Class::Slow,
            MemberFailure::Transfer(TransferFailure::Remote(_)) => Class::Refused,
            MemberFailure::Transfer(_) => Class::Broken,
        }
    }

    fn disk_refusal(fault: &MemberFailure) -> Option<MemberFailure> {
        match fault {
            MemberFailure::Transfer(TransferFailure::Remote(refusal))
                if refusal.kind == ErrorKind::Storage =>
            {
                Some(TransferFailure::Remote(refusal.clone()).into())
            }
            _ => None,
        }
    }

    fn kind(error: &DfsError) -> Option<ErrorKind> {
        error.kind()
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
