//! What a [`super::Writer`] is asked for, and what it asks of its driver.

use std::time::Duration;

use protocol::BlockId;
use protocol::DatanodeId;
use protocol::namenode::{Call, DatanodeInfo, LocatedBlock};
use protocol::transfer::{Operation, Write};

use super::driver::Driver;
use crate::error::WriteError;

/// What the caller wants of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Goal {
    /// A block that data can be added to.
    Block,
    /// Packets are sent; a limited number may wait for acks.
    Send,
    /// The block ends: all members acknowledge its last packet.
    EndBlock,
    /// All members have everything written so far.
    Flush {
        /// On disk, on at least as many as the NameNode asks for; otherwise in memory.
        sync: bool,
        /// The NameNode lists the length.
        update_length: bool,
    },
    /// The file is complete, on disk on as many DataNodes as the NameNode asks for, and published.
    Close,
    /// A file that was not closed is deleted, or closed by a recovery if bytes of it were promised.
    GiveUp,
}

/// How often a call is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// As long as the driver tries every call.
    Usual,
    /// Once, within this time.
    Once(Duration),
}

/// What the driver does next. It reports the outcome with the named method before it asks for the next step.
#[derive(Debug)]
pub enum Step<'a, D: Driver> {
    /// Call the NameNode. -> [`super::Writer::answered`]
    Call(Call, Patience),
    /// Connect to the first member; keep the operation until it is sent with the first packet. -> [`super::Writer::opened`]
    Open {
        /// The first member.
        first: &'a DatanodeInfo,
        /// The block, with the token.
        block: &'a LocatedBlock,
        /// What the member shall do.
        write: Write,
    },
    /// Send a packet. -> [`super::Writer::sent`]
    Send(&'a D::Packet),
    /// Take an ack from the first member: wait for it, or take it only if it has arrived. -> [`super::Writer::acked`]
    TakeAck {
        /// Wait for it.
        waits: bool,
    },
    /// Have a survivor copy the acknowledged bytes to a new member. -> [`super::Writer::filled`]
    Fill {
        /// The survivor.
        survivor: &'a DatanodeInfo,
        /// The block, with the token.
        block: &'a LocatedBlock,
        /// What the survivor shall do.
        operation: Operation,
    },
    /// Wait this long, shortened by jitter. -> [`super::Writer::paused`]
    Pause(Duration),
    /// Log who failed. No outcome.
    Report {
        /// The block.
        block: BlockId,
        /// The member, unless there is none at that place.
        datanode: Option<DatanodeId>,
        /// Why.
        fault: &'a D::Fault,
    },
    /// End the connection to the first member. No outcome.
    HangUp,
    /// The connection is idle: keep it for another operation with this DataNode. No outcome.
    GiveBack(DatanodeInfo),
    /// The goal is reached, or cannot be.
    Done(Result<(), WriteError<D::CallError, D::Fault>>),
}

/// How a copy to a new member ended.
#[derive(Debug)]
pub enum Filled<F> {
    /// The new member has the bytes.
    Done,
    /// There is no connection to the survivor.
    Unreached(F),
    /// The survivor was asked, and it failed or reports that the new member did.
    Failed(F),
}
