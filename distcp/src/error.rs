//! What can go wrong with a copy.

use std::io;

use client::dfs::DfsError;
use mr_api::BoxError;
use protocol::address::AddressError;
use protocol::{ErrorKind, PathError};
use transport::RpcError;

/// A copy that cannot begin, or failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong.
    #[error("{reason}")]
    Usage {
        /// What is wrong with it.
        reason: String,
    },
    /// A path without a letter: it names neither the home directory nor the working directory.
    #[error("Can not create a Path from an empty string")]
    EmptyPath,
    /// The address of a file system without a path.
    #[error("{address} names no path; its root is {address}/")]
    NoPath {
        /// The address.
        address: String,
    },
    /// A list of sources without one.
    #[error("-f {list}: no source is named there")]
    EmptyList {
        /// The file, as it was given.
        list: String,
    },
    /// A source that does not exist.
    #[error("Input source {path} doesn't exist.")]
    NoSource {
        /// As it was given.
        path: String,
    },
    /// A pattern that nothing matches.
    #[error("{pattern} doesn't exist")]
    NoMatch {
        /// As it was given.
        pattern: String,
    },
    /// Several sources, and the target is a file.
    #[error("Multiple source being copied to a file: {target}")]
    ManyToFile {
        /// The target.
        target: String,
    },
    /// A directory, and the target is a file.
    #[error("Cannot copy {source_path}, which is not a file to {target}, which is a file")]
    DirectoryToFile {
        /// The source.
        source_path: String,
        /// The target.
        target: String,
    },
    /// The target of an atomic copy exists.
    #[error(
        "Target path for atomic-commit already exists: {target}. Cannot atomic-commit to pre-existing target-path."
    )]
    AtomicTarget {
        /// The target.
        target: String,
    },
    /// The target of an atomic copy would be there before all is copied.
    #[error(
        "Target path for atomic-commit {target} would be made before all is copied: {below} is in it"
    )]
    BelowAtomicTarget {
        /// The target.
        target: String,
        /// A directory that the copy makes before.
        below: String,
    },
    /// A target that belongs to the system, with `-delete` or `-diff`.
    #[error("{target} is where copies and jobs have their files: -delete and -diff leave it alone")]
    SystemTarget {
        /// The target.
        target: String,
    },
    /// An atomic copy that is neither where it was made nor where it shall be.
    #[error("There is neither {work} nor {target}: nothing was copied, or somebody deleted it.")]
    NoWork {
        /// Where it was made.
        work: String,
        /// The target.
        target: String,
    },
    /// Two sources would become the same file.
    #[error("File {first} and {second} would cause duplicates. Aborting")]
    Duplicate {
        /// One of them.
        first: String,
        /// The other.
        second: String,
    },
    /// A file where a directory shall be, or the other way round.
    #[error("Can't replace {target}. Target is {is}, Source is {wanted}")]
    OtherKind {
        /// The target.
        target: String,
        /// What is there.
        is: &'static str,
        /// What the source is.
        wanted: &'static str,
    },
    /// A target, or something on the way there, in whose place no file is put and behind which none is written.
    #[error(
        "{target} is {kind}: no copy goes there. Delete it, give the path of a file or directory as the target, or leave it out with -filters"
    )]
    Special {
        /// The target.
        target: String,
        /// What is there.
        kind: &'static str,
    },
    /// A source that ended early, or grew.
    #[error("Mismatch in length of source: {path} ({expected}) and target ({found})")]
    Length {
        /// The source.
        path: String,
        /// Its length in the listing.
        expected: u64,
        /// Bytes that were read.
        found: u64,
    },
    /// A source of this machine was overwritten meanwhile.
    #[error("{path} changed while it was copied")]
    Changed {
        /// The source.
        path: String,
    },
    /// A file that would be written in place while it is read.
    #[error("{target} is the source itself, and -direct would empty it before it is read")]
    OntoItself {
        /// The target.
        target: String,
    },
    /// What was written is not what was read.
    #[error("Checksum mismatch between {path} and {target}")]
    Checksum {
        /// The source.
        path: String,
        /// The target.
        target: String,
    },
    /// The target of a copy of differences changed after the snapshot that it starts from.
    #[error("The target {target} was modified since snapshot {snapshot}: {change}")]
    TargetChanged {
        /// The target.
        target: String,
        /// The snapshot.
        snapshot: String,
        /// One of the changes.
        change: String,
    },
    /// What `-diff` has moved could neither be brought to its place nor back.
    #[error("what -diff has moved is in {directory}, and the next -diff puts it back")]
    Aside {
        /// Where it is.
        directory: String,
        /// Why.
        #[source]
        source: Box<Error>,
    },
    /// A directory of `-diff` without the plan that says what belongs where.
    #[error("{path} is not there or not whole")]
    NoPlan {
        /// Of the plan.
        path: String,
    },
    /// A directory that `-diff` has made, and somebody else uses.
    #[error("{path} is not empty")]
    NotEmpty {
        /// The directory.
        path: String,
    },
    /// A kind of attributes that a place does not have.
    #[error("{what} are not supported for {place}")]
    NoAttributes {
        /// `ACLs` or `XAttrs`.
        what: &'static str,
        /// Where.
        place: String,
    },
    /// An operation on a file.
    #[error("cannot {what} {path}")]
    File {
        /// The operation.
        what: &'static str,
        /// The path, with its place.
        path: String,
        /// Why.
        #[source]
        source: PlaceError,
    },
    /// A source that cannot be read: what `-i` passes over.
    #[error("cannot read {path}")]
    Read {
        /// The source.
        path: String,
        /// Why.
        #[source]
        source: PlaceError,
    },
    /// A directory that could not be listed: likewise.
    #[error("{reason}")]
    Unlisted {
        /// What was tried, and why it failed.
        reason: String,
    },
    /// An address.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The file system of the cluster.
    #[error(transparent)]
    Cluster(#[from] DfsError),
    /// A path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The list of a task, or its order.
    #[error("the list of what to copy is damaged")]
    List(#[source] serde_json::Error),
    /// A file of the job's own.
    #[error("cannot {what} {path}")]
    Own {
        /// The operation.
        what: &'static str,
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Signals cannot be handled.
    #[error("cannot handle signals")]
    Signals(#[source] io::Error),
    /// The job.
    #[error("{}", protocol::error::chain(&**.0))]
    Job(BoxError),
}

impl Error {
    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Error::Usage { reason: reason.into() }
    }

    /// Hadoop's exit code, as a shell sees it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage { .. }
            | Error::EmptyPath
            | Error::NoPath { .. }
            | Error::EmptyList { .. }
            | Error::NoSource { .. }
            | Error::NoMatch { .. }
            | Error::ManyToFile { .. }
            | Error::DirectoryToFile { .. }
            | Error::AtomicTarget { .. }
            | Error::Special { .. }
            | Error::BelowAtomicTarget { .. }
            | Error::SystemTarget { .. }
            | Error::Address(_)
            | Error::Path(_) => EXIT_USAGE,
            Error::Duplicate { .. } => EXIT_DUPLICATE,
            Error::NoAttributes { what: ACLS, .. } => EXIT_NO_ACLS,
            Error::NoAttributes { .. } => EXIT_NO_XATTRS,
            _ => EXIT_FAILED,
        }
    }
}

/// As errors name them.
pub(crate) const ACLS: &str = "ACLs";
/// As errors name them.
pub(crate) const XATTRS: &str = "XAttrs";

/// Hadoop's -1.
const EXIT_USAGE: u8 = 255;
/// Hadoop's -2.
const EXIT_DUPLICATE: u8 = 254;
/// Hadoop's -3.
const EXIT_NO_ACLS: u8 = 253;
/// Hadoop's -4.
const EXIT_NO_XATTRS: u8 = 252;
/// Hadoop's -999.
const EXIT_FAILED: u8 = 25;

/// Why a place refused an operation.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The cluster's file system.
    #[error(transparent)]
    Cluster(DfsError),
    /// This machine's.
    #[error(transparent)]
    Machine(io::Error),
    /// Another cluster cannot be reached.
    #[error(transparent)]
    Unreachable(RpcError),
    /// Another cluster refused.
    #[error("{exception}: {message}")]
    Remote {
        /// Its exception.
        exception: String,
        /// What it says.
        message: String,
    },
    /// Another cluster's answer without an exception.
    #[error("answered with status {status}")]
    Status {
        /// Of the answer.
        status: u16,
    },
    /// Another cluster's answer is not what the operation answers.
    #[error("the answer is not one of WebHDFS")]
    Answer,
    /// A path that the place cannot have.
    #[error(transparent)]
    Path(PathError),
    /// Something of this machine that no file replaces.
    #[error("it is {kind}")]
    Special {
        /// What it is.
        kind: &'static str,
    },
    /// Another cluster calls an entry of a directory what no entry can be called.
    #[error("`{name}` is no name of a file")]
    Name {
        /// What it says.
        name: String,
    },
    /// A path that would lead elsewhere.
    #[error("`.` and `..` are no names: {path}")]
    Dots {
        /// The path.
        path: String,
    },
    /// The file has another form than the place can keep.
    #[error("this place has no {what}")]
    Lacks {
        /// What it lacks.
        what: &'static str,
    },
}

impl PlaceError {
    /// True if there is no such file.
    pub(crate) fn is_missing(&self) -> bool {
        match self {
            PlaceError::Cluster(error) => error.kind() == Some(ErrorKind::NotFound),
            PlaceError::Machine(error) => error.kind() == io::ErrorKind::NotFound,
            PlaceError::Remote { exception, .. } => exception == "FileNotFoundException",
            _ => false,
        }
    }
}

impl From<PlaceError> for io::Error {
    fn from(error: PlaceError) -> Self {
        match error {
            PlaceError::Machine(error) => error,
            PlaceError::Cluster(error) => error.into(),
            error => io::Error::other(error),
        }
    }
}

/// Short form of results here.
pub(crate) type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_hadoops() {
        let text = || "x".to_owned();
        for (error, code) in [
            (Error::usage("x"), 255),
            (Error::EmptyPath, 255),
            (Error::Duplicate { first: text(), second: text() }, 254),
            (Error::NoAttributes { what: ACLS, place: text() }, 253),
            (Error::NoAttributes { what: XATTRS, place: text() }, 252),
            (Error::Checksum { path: text(), target: text() }, 25),
        ] {
            assert_eq!(error.exit_code(), code, "{error}");
        }
    }
}
