//! What can go wrong in a journal. Nothing here is retried inside the crate: a caller that sees an
//! error from a running journal stops (exit code 75, the supervisor starts it again and recovery
//! decides).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::id::{Epoch, Txid};

/// Why the journal cannot open or continue.
#[derive(Debug, Error)]
pub enum JournalError {
    /// Another process works on the directory.
    #[error(
        "{} is in use by {}; stop it first",
        .path.display(),
        .pid.map_or("another process".to_string(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// Who holds it, if it could be read.
        pid: Option<u32>,
    },

    /// There is nothing of a journal.
    #[error("{} holds no metadata of a NameNode or JobTracker", .dir.display())]
    Nothing {
        /// The directory.
        dir: PathBuf,
    },

    /// The operating system refused something.
    #[error("cannot {action} {}", .path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Its answer.
        #[source]
        source: io::Error,
    },

    /// Log records that were once on disk are damaged, and there is no other copy.
    #[error(
        "log file {} is damaged at byte {offset} (record {txid}) and no other copy of it is good; \
         run `hanno admin metadata repair --dir {}`: it tells what would be lost",
        .path.display(), .dir.display()
    )]
    LogDamaged {
        /// The segment.
        path: PathBuf,
        /// First byte that is not good.
        offset: u64,
        /// The record that should be there.
        txid: Txid,
        /// The journal's directory.
        dir: PathBuf,
    },

    /// Log records are where the disk returns nothing, and there is no other copy.
    #[error(
        "log file {} cannot be read at byte {offset} (record {txid}) and no other copy of it is good; \
         make it readable, or run `hanno admin metadata repair --dir {}`: it tells what would be lost",
        .path.display(), .dir.display()
    )]
    LogUnread {
        /// The segment.
        path: PathBuf,
        /// First byte that cannot be read.
        offset: u64,
        /// The record that should be there.
        txid: Txid,
        /// The journal's directory.
        dir: PathBuf,
        /// What the system says.
        #[source]
        source: Arc<io::Error>,
    },

    /// Log records are missing.
    #[error(
        "log records {from} to {to} are missing in {}; put the log files back, or \
         run `hanno admin metadata repair --dir {}`: it tells what would be lost",
        .log_dir.display(), .dir.display()
    )]
    LogGap {
        /// First missing record.
        from: Txid,
        /// Last missing record.
        to: Txid,
        /// Where they should be (the first log directory).
        log_dir: PathBuf,
        /// The journal's directory.
        dir: PathBuf,
    },

    /// The log ends before a record that is known to have been in it, and nobody knows what came after that.
    #[error(
        "the log in {} ends at record {last} although record {proven} was in it; put the log files back, or \
         run `hanno admin metadata repair --dir {}`: it tells what would be lost",
        .log_dir.display(), .dir.display()
    )]
    LogEnded {
        /// The last record that is there.
        last: Txid,
        /// A record that was on disk.
        proven: Txid,
        /// Where the log should be (the first log directory).
        log_dir: PathBuf,
        /// The journal's directory.
        dir: PathBuf,
    },

    /// The directory was used before, but its log is gone, or the part of it that the last start wrote.
    #[error(
        "{} does not hold the log that the last start of {} wrote (epoch {epoch}): records may be lost; put the log back, or \
         run `hanno admin metadata repair --dir {}`: it tells what would be lost",
        .log_dir.display(), .dir.display(), .dir.display()
    )]
    LogMissing {
        /// Where it should be (the first log directory).
        log_dir: PathBuf,
        /// The journal's directory.
        dir: PathBuf,
        /// The last start that is known.
        epoch: Epoch,
    },

    /// Two directories do not belong together.
    #[error(
        "{} and {} hold different journals, or one that went on apart in each; take one out of `log_dirs`, or move aside what it \
         holds: an empty directory is filled from the others",
        .dir.display(), .other.display()
    )]
    OtherJournal {
        /// One of them.
        dir: PathBuf,
        /// The other; it has the newer start.
        other: PathBuf,
    },

    /// The first directory is empty, and a mirror that may hold what was in it cannot be read.
    #[error(
        "{} holds nothing, and {}, which may hold what was in it, does not work ({reason}); mount it, or take it out of `log_dirs`",
        .dir.display(), .mirror.display()
    )]
    MirrorNeeded {
        /// The first directory.
        dir: PathBuf,
        /// The mirror.
        mirror: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A file was written in another layout.
    #[error("{} has layout version {version}; this program knows only version {known}", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The version it states.
        version: u32,
        /// The version that is known.
        known: u32,
    },

    /// The checkpoint store failed while running.
    #[error("the checkpoint store failed")]
    Store(#[source] StoreError),

    /// An image could not be read back.
    #[error("image {} is not usable: {what}", .path.display())]
    ImageDamaged {
        /// The image.
        path: PathBuf,
        /// Which part is wrong.
        what: &'static str,
    },

    /// A file that is not part of a log.
    #[error(
        "{} is no file of a log; one is named `<first record, 20 digits>.log`, and keeps its name when it is copied",
        .path.display()
    )]
    NotALogFile {
        /// The file.
        path: PathBuf,
    },

    /// Records of a file that is read alone are damaged.
    #[error(
        "log file {} is damaged at byte {offset} (record {txid}); read the directory of its journal instead: other copies may be whole",
        .path.display()
    )]
    LogFileDamaged {
        /// The file.
        path: PathBuf,
        /// First byte that is not good.
        offset: u64,
        /// The record that should be there.
        txid: Txid,
    },

    /// The owner did not accept a checkpoint row.
    #[error("the checkpoint as of record {applied} was not accepted")]
    Restore {
        /// What the checkpoint contains.
        applied: Txid,
        /// The owner's reason.
        #[source]
        source: RecoverError,
    },

    /// The owner did not accept a log record.
    #[error("log record {txid} was not accepted")]
    Replay {
        /// The record.
        txid: Txid,
        /// The owner's reason.
        #[source]
        source: RecoverError,
    },

    /// A record or a row breaks a limit; a fault of the caller.
    #[error("{what} of {bytes} bytes is over the limit of {bytes_max} bytes")]
    TooLarge {
        /// "log record body", "checkpoint key" or "checkpoint value".
        what: &'static str,
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },

    /// A changed row uses the key that the journal keeps for itself; a fault of the caller.
    #[error("a checkpoint row uses the journal's own key")]
    KeyReserved,

    /// A thread of the journal panicked.
    #[error("the journal's {thread} thread panicked")]
    Panicked {
        /// Its name.
        thread: &'static str,
    },

    /// The journal was closed, or stopped after an earlier error.
    #[error("the journal has stopped")]
    Stopped,
}

/// Why the checkpoint store is not usable. At start-up this leads to a rebuild, later to a stop.
#[derive(Debug, Error)]
pub enum StoreError {
    /// sled returned an error.
    #[error("sled in {} failed", .path.display())]
    Sled {
        /// Its directory.
        path: PathBuf,
        /// Its reason.
        #[source]
        source: Box<sled::Error>,
    },

    /// sled's file is locked although we hold the journal's own lock.
    #[error("sled in {} is in use", .path.display())]
    InUse {
        /// Its directory.
        path: PathBuf,
    },

    /// sled panicked.
    #[error("sled in {} panicked", .path.display())]
    Panicked {
        /// Its directory.
        path: PathBuf,
    },

    /// A file operation beside sled failed.
    #[error("cannot {action} {}", .path.display())]
    Disk {
        /// What was tried.
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },

    /// The file under sled was replaced while it was open.
    #[error("{} is no longer the file that was opened", .path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },

    /// The thread that reads could not be started.
    #[error("cannot start a thread to read it")]
    Thread(#[source] io::Error),

    /// Reading ended early because a row was not accepted.
    #[error("its rows are not wanted any more")]
    NotWanted,

    /// Rows, but no description of them: a restore that was cut off, or a foreign database.
    #[error("it holds rows but not the row that describes them")]
    NotDescribed,

    /// The describing row is damaged.
    #[error("the row that describes it is damaged")]
    MetaDamaged,

    /// A page of rows is damaged, or is not where it belongs.
    #[error("one of its pages is damaged")]
    PageDamaged,

    /// Rows are missing, stale or too many.
    #[error("it holds {found} rows where {expected} are due, or their contents differ")]
    RowsDiffer {
        /// Rows that the description promises.
        expected: u64,
        /// Rows that are there.
        found: u64,
    },

    /// The row consumer stopped the walk.
    #[error("its rows were not accepted")]
    NotAccepted(#[source] RecoverError),
}

/// The owner's reason for not accepting a row or record.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RecoverError(Box<dyn std::error::Error + Send + Sync>);

impl RecoverError {
    /// Wraps any error or text.
    pub fn new(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RecoverError {
        RecoverError(reason.into())
    }
}

/// Adds what was tried, and on what, to an `io::Error`.
pub(crate) fn disk(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.into();
    move |source| JournalError::Disk { action, path, source }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        out.push_str(": ");
        out.push_str(&error.to_string());
        source = error.source();
    }
    out
}
