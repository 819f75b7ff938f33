//! How writing and reading fail. The errors of a driver are inside, untouched; it turns all of them into those of its users.

use protocol::BlockId;
use protocol::transfer::Status;

/// Why a file cannot be written on. `C` is the driver's error of a call, `F` that of a DataNode.
#[derive(Debug)]
pub enum WriteError<C, F> {
    /// The file was closed or given up.
    Closed,
    /// The NameNode refused, or cannot be reached.
    Call(C),
    /// The NameNode answered something that was not asked for.
    Unexpected,
    /// A block could not be written, whatever was tried.
    Block {
        /// The block.
        block: BlockId,
        /// The last failure.
        fault: F,
    },
}

/// What a machine itself finds wrong with a DataNode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It works, but holds up everybody else.
    Slow,
    /// It refused by an ack.
    Refused(Status),
    /// It answered something that was not asked for.
    Unexpected,
}

/// What a machine must know of a failure of a DataNode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// It works, but holds up everybody else.
    Slow,
    /// It refused, and gave a reason.
    Refused,
    /// It cannot be reached, its connection broke, or it breaks the rules.
    Broken,
}

/// Why a file cannot be read on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// The file is shorter than when it was opened.
    Short {
        /// Offset in the file.
        offset: u64,
    },
    /// No replica of a block can be read.
    Unreachable {
        /// The block.
        block: BlockId,
    },
}
