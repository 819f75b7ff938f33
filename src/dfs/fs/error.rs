//! What can go wrong with one argument of a shell command, in the words that scripts of Hadoop's shell look for.

use std::fmt;
use std::io;

use client::RpcError;
use client::dfs::DfsError;
use protocol::ErrorKind;

/// A failure, ready to print after `cmd: `.
#[derive(Debug)]
pub(crate) enum Failure {
    /// `` `path': text ``
    At {
        /// As the user typed it.
        path: String,
        /// What is wrong.
        text: String,
    },
    /// The text alone.
    Text(String),
    /// The arguments are wrong: printed with the usage, exit code 255.
    Usage(String),
    /// A value is wrong: printed without the usage, exit code 255.
    Value(String),
    /// Whoever read standard output left: nothing more to do, nothing to say.
    ReaderLeft,
}

impl Failure {
    /// `` `path': text ``
    pub(crate) fn at(path: impl Into<String>, text: impl Into<String>) -> Self {
        Failure::At { path: path.into(), text: text.into() }
    }

    /// A missing path.
    pub(crate) fn missing(path: impl Into<String>) -> Self {
        Failure::at(path, "No such file or directory")
    }

    /// A local file's error, named by its path or as the user typed it.
    pub(crate) fn local(path: impl AsRef<std::path::Path>, error: &io::Error) -> Self {
        let path = path.as_ref();
        let text = match error.kind() {
            io::ErrorKind::NotFound => "No such file or directory".to_owned(),
            io::ErrorKind::AlreadyExists => "File exists".to_owned(),
            io::ErrorKind::IsADirectory => "Is a directory".to_owned(),
            io::ErrorKind::NotADirectory => "Is not a directory".to_owned(),
            io::ErrorKind::DirectoryNotEmpty => "Directory is not empty".to_owned(),
            io::ErrorKind::PermissionDenied => "Permission denied".to_owned(),
            io::ErrorKind::StorageFull => "No space left on device".to_owned(),
            _ => without_number(&error.to_string()),
        };
        Failure::at(path.to_string_lossy(), text)
    }

    /// An error while writing to standard output.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::ReaderLeft,
            _ => Failure::Text(format!(
                "cannot write to standard output: {}",
                without_number(&error.to_string())
            )),
        }
    }

    /// What a daemon said about `path`: Hadoop's words for what POSIX has a name for, else the daemon's own first line.
    pub(crate) fn remote(path: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        let text = match kind_of(error) {
            Some(ErrorKind::NotFound) => "No such file or directory",
            Some(ErrorKind::AlreadyExists) => "File exists",
            Some(ErrorKind::IsDirectory) => "Is a directory",
            Some(ErrorKind::NotDirectory) if !names_what_is_above(error) => "Is not a directory",
            Some(ErrorKind::NotEmpty) => "Directory is not empty",
            _ => {
                let text = crate::connect::describe(error);
                return Failure::Text(text.lines().next().unwrap_or_default().to_owned());
            }
        };
        Failure::at(path, text)
    }
}

/// A file above the path is in the way: the daemon's own text names it.
fn names_what_is_above(error: &(dyn std::error::Error + 'static)) -> bool {
    let text = crate::connect::describe(error);
    text.contains("(is not a directory)")
        || text.contains("Parent path is not a directory: ")
        || (text.contains("rename destination parent ") && text.contains(" is a file."))
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

fn without_number(text: &str) -> String {
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::At { path, text } => write!(f, "`{path}': {text}"),
            Failure::Text(text) | Failure::Usage(text) | Failure::Value(text) => f.write_str(text),
            Failure::ReaderLeft => Ok(()),
        }
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
            (ErrorKind::PermissionDenied, "server text"),
            (ErrorKind::SafeMode, "server text"),
            (ErrorKind::StartupSafeMode, "server text"),
        ] {
            let error = RpcError::Remote(RemoteError::new(kind, "server text\nstack"));
            assert_eq!(Failure::remote("/x y", &error).to_string(), text);
        }
    }

    #[test]
    fn a_file_above_the_path_is_named() {
        for text in ["/f (is not a directory)", "Parent path is not a directory: /f x"] {
            let error = RpcError::Remote(RemoteError::new(ErrorKind::NotDirectory, text));
            assert_eq!(Failure::remote("/f/x", &error).to_string(), text);
        }
    }

    #[test]
    fn local_errors_lose_their_numbers() {
        let error = io::Error::from_raw_os_error(40);
        let text = Failure::local(std::path::Path::new("/l"), &error).to_string();
        assert!(text.starts_with("`/l': ") && !text.contains("os error"), "{text}");
    }
}
