//! What can go wrong with one argument of a shell command, in the words that scripts for Hadoop's shell expect.

use std::fmt;
use std::io;

use client::dfs::DfsError;
use protocol::{ErrorKind, PathError};
use transport::RpcError;

use crate::output::{unless_reader_left, without_number};

/// A failure of one argument; its kind stays until it is printed after `cmd: `.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `` `path': problem ``
    At {
        /// As the user typed it.
        path: String,
        /// What is wrong.
        problem: Problem,
    },
    /// A file lies above the path, in the daemon's words, which name that file.
    FileAbove(String),
    /// There is not enough space for the blocks of a file, in the daemon's words: each that is being written counts as whole.
    SpaceQuota(String),
    /// The text alone.
    Text(String),
    /// The arguments are wrong: printed with the usage, exit code 255.
    Usage(String),
    /// A value is wrong: printed without the usage, exit code 255.
    Value(String),
    /// The reader of standard output left, or it cannot be written, which `main` tells: there is nothing more to do or print.
    ReaderLeft,
}

/// What is wrong with a path, in Hadoop's words for POSIX errors.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("No such file or directory")]
    Missing,
    #[error("File exists")]
    Exists,
    #[error("Is a directory")]
    IsDirectory,
    #[error("Is not a directory")]
    NotDirectory,
    #[error("Directory is not empty")]
    NotEmpty,
    #[error("Permission denied")]
    Denied,
    #[error("No space left on device")]
    NoSpace,
    /// Anything else; no code depends on it.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Problem::Other(text)
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Self {
        Problem::Other(text.to_owned())
    }
}

impl Failure {
    /// `` `path': problem ``
    pub(crate) fn at(path: impl Into<String>, problem: impl Into<Problem>) -> Self {
        Failure::At { path: path.into(), problem: problem.into() }
    }

    /// An operand without a character.
    pub(crate) fn empty_path() -> Self {
        Failure::Usage("Can not create a Path from an empty string".to_owned())
    }

    /// A missing path.
    pub(crate) fn missing(path: impl Into<String>) -> Self {
        Failure::at(path, Problem::Missing)
    }

    /// The problem with the path, if the failure is one.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        match self {
            Failure::At { problem, .. } => Some(problem),
            _ => None,
        }
    }

    /// A local file's error, named by its path or as the user typed it.
    pub(crate) fn local(path: impl AsRef<std::path::Path>, error: &io::Error) -> Self {
        let path = path.as_ref();
        let problem = match error.kind() {
            io::ErrorKind::NotFound => Problem::Missing,
            io::ErrorKind::AlreadyExists => Problem::Exists,
            io::ErrorKind::IsADirectory => Problem::IsDirectory,
            io::ErrorKind::NotADirectory => Problem::NotDirectory,
            io::ErrorKind::DirectoryNotEmpty => Problem::NotEmpty,
            io::ErrorKind::PermissionDenied => Problem::Denied,
            io::ErrorKind::StorageFull => Problem::NoSpace,
            _ => Problem::Other(without_number(&error.to_string())),
        };
        Failure::at(path.to_string_lossy(), problem)
    }

    /// An error of standard output: of writing, which is told at the end of the process, or of using it at all.
    pub(crate) fn output(error: io::Error) -> Self {
        match unless_reader_left(Err(error)) {
            Ok(_) => Failure::ReaderLeft,
            Err(error) => {
                let reason = without_number(&error.to_string());
                Failure::Text(format!("cannot use standard output: {reason}"))
            }
        }
    }

    /// A daemon's error about `path`: Hadoop's words for POSIX errors, otherwise the first line of the daemon's own message.
    pub(crate) fn remote(path: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let text = crate::connect::describe(error);
        let words = || text.lines().next().unwrap_or_default().to_owned();
        let problem = match kind_of(error) {
            Some(ErrorKind::NotFound) => Problem::Missing,
            Some(ErrorKind::AlreadyExists) => Problem::Exists,
            Some(ErrorKind::IsDirectory) => Problem::IsDirectory,
            Some(ErrorKind::ParentNotDirectory) => return Failure::FileAbove(words()),
            Some(ErrorKind::SpaceQuotaExceeded) => return Failure::SpaceQuota(words()),
            Some(ErrorKind::NotDirectory) => Problem::NotDirectory,
            Some(ErrorKind::NotEmpty) => Problem::NotEmpty,
            // Its words name a temporary file, if any.
            Some(ErrorKind::LeaseExpired) => Problem::Other(words()),
            _ => return Failure::Text(words()),
        };
        Failure::at(path, problem)
    }
}

/// The daemon's reason anywhere in the chain of causes.
pub(crate) fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let mut cause = Some(error);
    while let Some(current) = cause {
        if let Some(refusal) = current.downcast_ref::<protocol::RemoteError>() {
            return Some(refusal.kind);
        }
        if let Some(kind) = current.downcast_ref::<RpcError>().and_then(RpcError::kind) {
            return Some(kind);
        }
        if let Some(kind) = current.downcast_ref::<DfsError>().and_then(DfsError::kind) {
            return Some(kind);
        }
        cause = current.source();
    }
    None
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Failure::Text(error.to_string())
    }
}

/// One line, whatever names and others' messages hold.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Failure::At { path, problem } => format!("`{path}': {problem}"),
            Failure::FileAbove(text)
            | Failure::SpaceQuota(text)
            | Failure::Text(text)
            | Failure::Usage(text)
            | Failure::Value(text) => text.clone(),
            Failure::ReaderLeft => return Ok(()),
        };
        f.write_str(&text.replace('\n', "\\n").replace('\r', "\\r"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::RemoteError;

    #[test]
    fn refusals_speak_hadoops_words() {
        for (kind, text) in [
            (ErrorKind::NotFound, "`/x y': No such file or directory"),
            (ErrorKind::AlreadyExists, "`/x y': File exists"),
            (ErrorKind::IsDirectory, "`/x y': Is a directory"),
            (ErrorKind::NotDirectory, "`/x y': Is not a directory"),
            (ErrorKind::NotEmpty, "`/x y': Directory is not empty"),
            (ErrorKind::LeaseExpired, "`/x y': server text"),
            (ErrorKind::PermissionDenied, "server text"),
            (ErrorKind::SpaceQuotaExceeded, "server text"),
            (ErrorKind::SafeMode, "server text"),
            (ErrorKind::StartupSafeMode, "server text"),
        ] {
            let error = RpcError::Remote(RemoteError::new(kind, "server text\nstack"));
            assert_eq!(Failure::remote("/x y", &error).to_string(), text);
        }
    }

    #[test]
    fn a_file_above_the_path_is_named() {
        let text = "/f (is not a directory)";
        let error = RpcError::Remote(RemoteError::new(ErrorKind::ParentNotDirectory, text));
        let failure = Failure::remote("/f/x", &error);
        assert!(matches!(failure, Failure::FileAbove(_)));
        assert_eq!(failure.to_string(), text);
    }

    #[test]
    fn a_failure_is_one_line() {
        for failure in [Failure::missing("a\nb\r"), Failure::Text("a\nb\r".to_owned())] {
            let text = failure.to_string();
            assert!(text.contains("a\\nb\\r") && text.lines().count() == 1, "{text}");
        }
    }

    #[test]
    fn local_errors_lose_their_numbers() {
        let error = io::Error::from_raw_os_error(40);
        let text = Failure::local(std::path::Path::new("/l"), &error).to_string();
        assert!(text.starts_with("`/l': ") && !text.contains("os error"), "{text}");
    }
}
