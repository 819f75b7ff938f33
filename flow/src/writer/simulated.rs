//! What the driver of a simulated writer brings along: packets in memory, and errors that are nothing but their class.

use protocol::ErrorKind;
use protocol::transfer::{PacketHeader, Status};

use super::driver::{Buffer, Driver};
use crate::error::{Class, Verdict};
use crate::window::Slot;

/// A packet with its data.
#[derive(Debug, Default)]
pub struct Bytes {
    /// Its header.
    pub header: PacketHeader,
    /// Its data.
    pub data: Vec<u8>,
    /// It was handed over.
    pub sealed: bool,
}

impl Slot for Bytes {
    fn header(&self) -> &PacketHeader {
        &self.header
    }

    fn header_mut(&mut self) -> &mut PacketHeader {
        &mut self.header
    }
}

impl Buffer for Bytes {
    fn data(&self) -> &[u8] {
        &self.data
    }

    fn append(&mut self, bytes: &[u8]) {
        assert!(!self.sealed, "a packet that was handed over is changed");
        self.data.extend_from_slice(bytes);
        self.header.data_bytes = self.data.len() as u32;
    }

    fn seal(&mut self) {
        self.sealed = true;
    }
}

/// Why an operation with a DataNode failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Found by the writer.
    Found(Verdict),
    /// It refused to take an operation.
    Refused,
    /// No connection, or it broke.
    Broken,
}

/// Why a call failed: the NameNode's reason, if it has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CallError(pub Option<ErrorKind>);

/// The driver.
#[derive(Debug)]
pub struct Simulated;

impl Driver for Simulated {
    type Packet = Bytes;
    type Fault = Fault;
    type CallError = CallError;

    fn packet(&self) -> Bytes {
        Bytes::default()
    }

    fn fault(verdict: Verdict) -> Fault {
        Fault::Found(verdict)
    }

    fn class(fault: &Fault) -> Class {
        match fault {
            Fault::Found(Verdict::Slow) => Class::Slow,
            Fault::Found(Verdict::Refused(_)) | Fault::Refused => Class::Refused,
            Fault::Found(Verdict::Unexpected) | Fault::Broken => Class::Broken,
        }
    }

    fn disk_refusal(fault: &Fault) -> Option<Fault> {
        let is_disk =
            matches!(fault, Fault::Found(Verdict::Refused(Status::Full | Status::Failed)));
        is_disk.then_some(*fault)
    }

    fn kind(error: &CallError) -> Option<ErrorKind> {
        error.0
    }
}
