//! What can go wrong in the NameNode, apart from refusals: those travel as [`protocol::RemoteError`].

use std::io;
use std::path::PathBuf;

use host::Failure;
use protocol::level::Unsupported;
use protocol::{BlockId, DatanodeId, ErrorKind, InodeId, RemoteError};
use thiserror::Error;

/// Why the NameNode cannot start or continue.
#[derive(Debug, Error)]
pub enum Error {
    /// A value of the configuration makes no sense.
    #[error("config: {key} {problem}")]
    Config {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The journal did not open or stopped.
    #[error("the journal of the namespace failed")]
    Journal(#[source] journal::JournalError),
    /// The journal stopped while running: nothing was answered that was not durable, and recovery decides about the rest.
    #[error("the journal of the namespace stopped: {reason}")]
    JournalStopped {
        /// The reason that the journal gave.
        reason: String,
    },
    /// The service could not be offered.
    #[error("the service failed")]
    Service(#[source] daemon::ServeError),
    /// The data directory is not usable.
    #[error("cannot {action} {}", .path.display())]
    Directory {
        /// What was tried.
        action: &'static str,
        /// On which directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The file is not a list of DataNodes.
    #[error("{} is not a list of DataNodes: {problem}", .path.display())]
    Hosts {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The system does not answer a question about this machine.
    #[error("cannot {action}")]
    Host {
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The namespace is not consistent.
    #[error("the namespace is not usable")]
    Namespace(#[source] CoreError),
    /// A thread of the NameNode panicked.
    #[error("the NameNode's loop panicked")]
    LoopPanicked,
}

impl From<Failure<CoreError>> for Error {
    fn from(failure: Failure<CoreError>) -> Self {
        match failure {
            Failure::Log(end) => Error::JournalStopped { reason: end.to_string() },
            Failure::Machine(defect) => Error::Namespace(defect),
            Failure::Thread(source) => Error::Host { action: "start the host's thread", source },
            Failure::Panicked => Error::LoopPanicked,
        }
    }
}

/// Why an edit, a record or a row does not fit the namespace. Live this is a defect; at start it is damage.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum CoreError {
    /// A journal record is malformed.
    #[error("a journal record is malformed")]
    BadRecord,
    /// A newer program wrote a record or a row.
    #[error(
        "{what} has a form of version {version}, which this program does not know: a newer one wrote it"
    )]
    NewerForm {
        /// What was read.
        what: &'static str,
        /// Its version.
        version: u8,
    },
    /// The journal is at a feature level that this program does not support.
    #[error(transparent)]
    Level(#[from] Unsupported),
    /// A checkpoint row is malformed.
    #[error("a checkpoint row of {0} is malformed")]
    BadRow(&'static str),
    /// An edit names an inode that does not exist or is of the wrong kind.
    #[error("inode {inode} is not there or not {expected}")]
    NoInode {
        /// The inode.
        inode: InodeId,
        /// What it should be.
        expected: &'static str,
    },
    /// An edit makes what exists already.
    #[error("inode {inode} or its name exists already")]
    Exists {
        /// The inode.
        inode: InodeId,
    },
    /// An edit names a block that is not the last, open one of its file.
    #[error("block {block} is not the open block of inode {inode}")]
    NotLastBlock {
        /// The file.
        inode: InodeId,
        /// The block.
        block: BlockId,
    },
    /// An inode's parent is not a directory, or has another child of that name.
    #[error("inode {inode} does not hang in the tree: parent {parent}")]
    Detached {
        /// The inode.
        inode: InodeId,
        /// Its parent.
        parent: InodeId,
    },
    /// Some inodes are in a ring, not reachable from the root.
    #[error("{count} inodes are not reachable from the root")]
    Unreachable {
        /// How many.
        count: u64,
    },
    /// A block belongs to two files or a file's block is missing.
    #[error("block {block} of inode {inode} is inconsistent")]
    BadBlock {
        /// The file.
        inode: InodeId,
        /// The block.
        block: BlockId,
    },
    /// A counter is behind an id in use.
    #[error("the counter of {0} is behind an id in use")]
    Counter(&'static str),
    /// An edit names a delegation token that is not in the list.
    #[error("there is no delegation token {number}")]
    NoToken {
        /// Its number.
        number: u32,
    },
    /// An edit or a row names a DataNode that is not in maintenance.
    #[error("DataNode {datanode} is not in maintenance")]
    NoNode {
        /// The DataNode.
        datanode: DatanodeId,
    },
    /// There is no root or no cluster id although there are rows.
    #[error("the namespace has no root or no cluster id")]
    NoRoot,
}

/// A refusal.
pub(crate) fn refuse(kind: ErrorKind, message: impl Into<String>) -> RemoteError {
    RemoteError::new(kind, message)
}
