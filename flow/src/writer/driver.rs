//! What a driver brings along: buffers for packets, and errors.

use std::fmt::Debug;

use protocol::ErrorKind;

use crate::error::{Class, Verdict};
use crate::window::Slot;

/// A packet's buffer.
pub trait Buffer: Slot {
    /// The data so far.
    fn data(&self) -> &[u8];

    /// Appends data; the header counts it.
    fn append(&mut self, bytes: &[u8]);

    /// Makes it ready to be sent: its data stays as it is from now on.
    fn seal(&mut self);
}

/// What the driver of a [`super::Writer`] brings along.
pub trait Driver: Debug {
    /// A packet.
    type Packet: Buffer + Debug;
    /// Why an operation with a DataNode failed.
    type Fault: Debug;
    /// Why a call of the NameNode failed.
    type CallError: Debug;

    /// An empty packet at offset 0.
    fn packet(&self) -> Self::Packet;

    /// The error for what the machine itself found.
    fn fault(verdict: Verdict) -> Self::Fault;

    /// The class of an error.
    fn class(fault: &Self::Fault) -> Class;

    /// A copy of the error if a disk of the DataNode refused.
    fn disk_refusal(fault: &Self::Fault) -> Option<Self::Fault>;

    /// The NameNode's reason if it refused.
    fn kind(error: &Self::CallError) -> Option<ErrorKind>;
}
