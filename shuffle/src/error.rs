//! Errors of the engine, and where they come from.
//!
//! Invariant: damage found in stored bytes always names its origin and the byte offset in it, so the caller can report the right map output
//! as lost.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Result of the engine's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure of a sort, spill, merge or read.
#[derive(Debug, Error)]
pub enum Error {
    /// The operating system refused an operation on a file.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// The attempted action, as a verb: "create", "write to", ...
        operation: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The disk for intermediate files is full.
    #[error(
        "cannot {operation} {}: the disk of {} is full; free space there, or give the worker a `data` directory on a larger disk",
        path.display(),
        path.parent().unwrap_or(path).display()
    )]
    DiskFull {
        /// The attempted action, as a verb.
        operation: &'static str,
        /// The file concerned.
        path: PathBuf,
    },
    /// A source given as an open file could not be read.
    #[error("cannot read shuffle source {index} at byte {offset}")]
    SourceIo {
        /// Position in the list of sources.
        index: usize,
        /// Offset at which the read began.
        offset: u64,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Stored bytes differ from those written.
    #[error("{origin} is corrupt at byte {offset}: {damage}")]
    Corrupt {
        /// The origin of the bytes.
        origin: Origin,
        /// Offset in the file (or in the fetched segment) of the damaged structure.
        offset: u64,
        /// The violated rule.
        damage: Damage,
    },
    /// A key or value is longer than the formats can hold.
    #[error(
        "record of {key_bytes} key bytes and {value_bytes} value bytes exceeds the limit of {RECORD_BYTES_MAX} bytes"
    )]
    RecordTooLarge {
        /// Length of the key.
        key_bytes: usize,
        /// Length of the value.
        value_bytes: usize,
    },
    /// The job's combiner failed.
    #[error("the combiner failed")]
    Combiner {
        /// The combiner's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The caller (or a custom partitioner) named a partition that does not exist.
    #[error("partition {partition} does not exist: the job has {partitions}")]
    PartitionOutOfRange {
        /// The partition named.
        partition: u32,
        /// How many there are.
        partitions: u32,
    },
    /// The combiner could not read back a value that it had written itself.
    #[error("cannot decode an accumulator of the combiner")]
    Combine {
        /// The combiner's error.
        #[from]
        source: DecodeError,
    },
    /// An option is outside its range.
    #[error("option {option} is invalid: {reason}")]
    InvalidOption {
        /// Name of the field.
        option: &'static str,
        /// Why it is invalid.
        reason: &'static str,
    },
}

/// Most bytes of a record's key and value together (1 GiB + 64 MiB): a value of 1 GiB is supported, and every block length fits 32 bits.
pub const RECORD_BYTES_MAX: usize = (1 << 30) + (64 << 20);

/// Accumulator bytes that a combiner cannot decode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct DecodeError {
    /// The expectation that was not met.
    pub reason: &'static str,
}

impl DecodeError {
    /// Makes an error that names what was expected.
    pub const fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

/// The origin of damaged bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file known by its path.
    File(PathBuf),
    /// The source at this position in the list given to the reduce side, or (for a lone segment) position 0.
    Source(usize),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Source(index) => write!(f, "shuffle source {index}"),
        }
    }
}

/// Kinds of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Damage {
    /// The bytes end before the structure does.
    #[error("truncated")]
    Truncated,
    /// Bytes follow the end of the structure.
    #[error("bytes after the end")]
    TrailingBytes,
    /// The magic number is wrong.
    #[error("wrong magic number")]
    Magic,
    /// Written by an unknown version of the format.
    #[error("unknown format version {0}")]
    Version(u32),
    /// The codec number is unknown.
    #[error("unknown codec {0}")]
    Codec(u8),
    /// A header's checksum does not match.
    #[error("header checksum mismatch")]
    HeaderChecksum,
    /// A payload's checksum does not match.
    #[error("payload checksum mismatch")]
    PayloadChecksum,
    /// A length contradicts another length or a limit.
    #[error("impossible length")]
    Length,
    /// The payload does not decompress to the announced length.
    #[error("payload does not decompress")]
    Compression,
    /// A record inside a block is malformed.
    #[error("malformed record")]
    Record,
    /// The end record's totals differ from those of the blocks.
    #[error("totals do not match the records read")]
    Totals,
}

/// Adds operation and file to a failed call; for a full disk the error names the remedy.
pub fn io_error(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::DiskFull { operation, path }
            }
            _ => Error::Io { operation, path, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_names_directory_and_remedy() {
        let fail =
            |kind: io::ErrorKind| io_error("write to", Path::new("/data/j/spill-1"))(kind.into());
        let text = fail(io::ErrorKind::StorageFull).to_string();
        assert!(
            text.contains("/data/j/spill-1: the disk of /data/j is full; free space"),
            "{text}"
        );
        assert_eq!(fail(io::ErrorKind::Other).to_string(), "cannot write to /data/j/spill-1");
    }
}
