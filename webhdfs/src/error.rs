//! Errors as WebHDFS clients see them: a Hadoop exception by its class name, an HTTP status and one line of text.
//!
//! The Java client rebuilds the exception from the class name, Python clients check the simple name and parts of the text: both are Hadoop's own.

use std::error::Error;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use protocol::error::UnexpectedReply;
use protocol::{DfsPath, ErrorKind, PathError, RemoteError};
use serde::Serialize;

use crate::op::Op;

/// A Hadoop exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of Hadoop's classes, see `class`")]
pub enum Exception {
    FileNotFound,
    FileAlreadyExists,
    ParentNotDirectory,
    PathIsNotDirectory,
    PathIsNotEmptyDirectory,
    PathComponentTooLong,
    InvalidPath,
    AccessControl,
    Authorization,
    InvalidToken,
    /// No credentials where they are needed.
    Unauthenticated,
    Io,
    EndOfFile,
    BlockMissing,
    NotReplicatedYet,
    SafeMode,
    AlreadyBeingCreated,
    RecoveryInProgress,
    LeaseExpired,
    NsQuotaExceeded,
    DsQuotaExceeded,
    Acl,
    Snapshot,
    SnapshotAccessControl,
    Retriable,
    IllegalArgument,
    HadoopIllegalArgument,
    UnsupportedOperation,
    /// A defect of ours.
    Runtime,
}

impl Exception {
    /// Full name of the Java class.
    pub fn class(self) -> &'static str {
        match self {
            Exception::FileNotFound => "java.io.FileNotFoundException",
            Exception::FileAlreadyExists => "org.apache.hadoop.fs.FileAlreadyExistsException",
            Exception::ParentNotDirectory => "org.apache.hadoop.fs.ParentNotDirectoryException",
            Exception::PathIsNotDirectory => "org.apache.hadoop.fs.PathIsNotDirectoryException",
            Exception::PathIsNotEmptyDirectory => {
                "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException"
            }
            Exception::PathComponentTooLong => {
                "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException"
            }
            Exception::InvalidPath => "org.apache.hadoop.fs.InvalidPathException",
            Exception::AccessControl | Exception::Unauthenticated => {
                "org.apache.hadoop.security.AccessControlException"
            }
            Exception::Authorization => {
                "org.apache.hadoop.security.authorize.AuthorizationException"
            }
            Exception::InvalidToken => {
                "org.apache.hadoop.security.token.SecretManager$InvalidToken"
            }
            Exception::Io => "java.io.IOException",
            Exception::EndOfFile => "java.io.EOFException",
            Exception::BlockMissing => "org.apache.hadoop.hdfs.BlockMissingException",
            Exception::NotReplicatedYet => {
                "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException"
            }
            Exception::SafeMode => "org.apache.hadoop.hdfs.server.namenode.SafeModeException",
            Exception::AlreadyBeingCreated => {
                "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException"
            }
            Exception::RecoveryInProgress => {
                "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException"
            }
            Exception::LeaseExpired => {
                "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException"
            }
            Exception::NsQuotaExceeded => {
                "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException"
            }
            Exception::DsQuotaExceeded => {
                "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException"
            }
            Exception::Acl => "org.apache.hadoop.hdfs.protocol.AclException",
            Exception::Snapshot => "org.apache.hadoop.hdfs.protocol.SnapshotException",
            Exception::SnapshotAccessControl => {
                "org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException"
            }
            Exception::Retriable => "org.apache.hadoop.ipc.RetriableException",
            Exception::IllegalArgument => "java.lang.IllegalArgumentException",
            Exception::HadoopIllegalArgument => "org.apache.hadoop.HadoopIllegalArgumentException",
            Exception::UnsupportedOperation => "java.lang.UnsupportedOperationException",
            Exception::Runtime => "java.lang.RuntimeException",
        }
    }

    /// Name of the class without its package and outer class.
    pub fn simple_name(self) -> &'static str {
        self.class().rsplit(['.', '$']).next().unwrap_or_default()
    }

    /// HTTP status: 404 for absent files, 400 for what is not well formed, 403 for every other `IOException`.
    pub fn status(self) -> StatusCode {
        match self {
            Exception::FileNotFound => StatusCode::NOT_FOUND,
            Exception::Unauthenticated => StatusCode::UNAUTHORIZED,
            Exception::IllegalArgument
            | Exception::HadoopIllegalArgument
            | Exception::InvalidPath
            | Exception::UnsupportedOperation => StatusCode::BAD_REQUEST,
            Exception::Runtime => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::FORBIDDEN,
        }
    }
}

/// A refused request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: {message}", exception.simple_name())]
pub struct WebError {
    /// Its kind.
    pub exception: Exception,
    /// For people; the shell prints its first line.
    pub message: String,
}

impl WebError {
    /// An error of this kind with this text.
    pub fn new(exception: Exception, message: impl Into<String>) -> Self {
        WebError { exception, message: message.into() }
    }

    /// An `IllegalArgumentException`.
    pub fn illegal(message: impl Into<String>) -> Self {
        WebError::new(Exception::IllegalArgument, message)
    }

    /// A parameter whose value cannot be used.
    pub fn parameter(name: &str, problem: impl AsRef<str>) -> Self {
        let problem = problem.as_ref();
        WebError::illegal(format!("Invalid value for webhdfs parameter \"{name}\": {problem}"))
    }

    /// The operation cannot be done here.
    pub fn unsupported(message: impl Into<String>) -> Self {
        WebError::new(Exception::UnsupportedOperation, message)
    }

    /// A daemon's refusal of `op`. There are few kinds, so one kind becomes different exceptions where HDFS has different ones.
    pub fn from_remote(op: Op, error: RemoteError) -> Self {
        WebError::new(exception_of(op, error.kind), error.message)
    }

    /// A failure of the client side, e.g. of a DataNode that writes on somebody's behalf.
    pub fn from_client(op: Op, error: &client::dfs::DfsError) -> Self {
        let message = protocol::error::chain(error);
        match error.kind() {
            Some(kind) => WebError::new(exception_of(op, kind), message),
            None => match error {
                client::dfs::DfsError::Unreachable { .. }
                | client::dfs::DfsError::Corrupt { .. } => {
                    WebError::new(Exception::BlockMissing, message)
                }
                _ => WebError::new(Exception::Io, message),
            },
        }
    }

    /// A failure of reading or writing a stream; the client's errors are inside it.
    pub fn from_io(op: Op, error: &std::io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| {
            let inner: &(dyn Error + 'static) = inner;
            inner.downcast_ref::<client::dfs::DfsError>()
        });
        match inner {
            Some(inner) => WebError::from_client(op, inner),
            None => WebError::new(Exception::Io, protocol::error::chain(error)),
        }
    }

    /// An invalid path.
    pub fn path(text: &str, error: &PathError) -> Self {
        let long = text.split('/').position(|e| e.len() > protocol::path::ELEMENT_BYTES_MAX);
        if let Some(index) = long {
            let elements: Vec<&str> = text.split('/').collect();
            let parent = elements[..index].join("/");
            let parent = if parent.is_empty() { "/" } else { &parent };
            let name = elements[index];
            let text = format!(
                "The maximum path component name limit of {name} in directory {parent} is exceeded: limit={} length={}",
                protocol::path::ELEMENT_BYTES_MAX,
                name.len()
            );
            return WebError::new(Exception::PathComponentTooLong, text);
        }
        WebError::new(Exception::InvalidPath, error.to_string())
    }

    /// The answer.
    pub fn response(&self) -> Response {
        let body = Body {
            remote_exception: RemoteException {
                exception: self.exception.simple_name(),
                java_class_name: self.exception.class(),
                message: &self.message,
            },
        };
        let bytes = serde_json::to_vec(&body).expect("three texts always serialise");
        let kind = HeaderValue::from_static("application/json;charset=utf-8");
        (self.exception.status(), [(header::CONTENT_TYPE, kind)], bytes).into_response()
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        self.response()
    }
}

/// The exception for a refusal of `op`.
fn exception_of(op: Op, kind: ErrorKind) -> Exception {
    match kind {
        ErrorKind::NotFound | ErrorKind::IsDirectory => Exception::FileNotFound,
        ErrorKind::AlreadyExists => Exception::FileAlreadyExists,
        ErrorKind::NotDirectory => Exception::PathIsNotDirectory,
        ErrorKind::ParentNotDirectory => match op {
            // Operations that make a name are refused because a file is in the way, ...
            Op::Create
            | Op::Mkdirs
            | Op::Rename
            | Op::Concat
            | Op::SetQuota
            | Op::AllowSnapshot
            | Op::DisallowSnapshot
            | Op::CreateSnapshot
            | Op::RenameSnapshot
            | Op::DeleteSnapshot
            | Op::GetSnapshotDiff
            | Op::GetSnapshotDiffListing => Exception::ParentNotDirectory,
            // ... all others because the caller may not pass there.
            _ => Exception::AccessControl,
        },
        ErrorKind::NotEmpty => Exception::PathIsNotEmptyDirectory,
        ErrorKind::PermissionDenied => Exception::AccessControl,
        ErrorKind::SafeMode | ErrorKind::StartupSafeMode => Exception::SafeMode,
        ErrorKind::AlreadyBeingCreated => Exception::AlreadyBeingCreated,
        ErrorKind::LeaseExpired => Exception::LeaseExpired,
        ErrorKind::RecoveryInProgress => Exception::RecoveryInProgress,
        ErrorKind::NotReplicatedYet => Exception::NotReplicatedYet,
        ErrorKind::MissingBlock => Exception::BlockMissing,
        ErrorKind::InvalidArgument => match op {
            // Limits of replication and block size, and impossible renames, are plain IOExceptions in HDFS.
            Op::Create | Op::SetReplication | Op::Rename => Exception::Io,
            Op::Concat | Op::Truncate | Op::SetStoragePolicy | Op::UnsetStoragePolicy => {
                Exception::HadoopIllegalArgument
            }
            Op::ModifyAclEntries | Op::RemoveAclEntries | Op::SetAcl | Op::RemoveDefaultAcl => {
                Exception::Acl
            }
            Op::GetXattrs | Op::SetXattr | Op::RemoveXattr => Exception::Io,
            _ => Exception::IllegalArgument,
        },
        ErrorKind::NamespaceQuotaExceeded => Exception::NsQuotaExceeded,
        ErrorKind::SpaceQuotaExceeded => Exception::DsQuotaExceeded,
        ErrorKind::Snapshot => Exception::Snapshot,
        ErrorKind::ReadOnlySnapshot => Exception::SnapshotAccessControl,
        ErrorKind::TooLarge => Exception::HadoopIllegalArgument,
        ErrorKind::InvalidName => Exception::InvalidPath,
        ErrorKind::NameTooLong => Exception::PathComponentTooLong,
        ErrorKind::Unavailable => Exception::Retriable,
        ErrorKind::Internal => Exception::Runtime,
        ErrorKind::NoDatanodes
        | ErrorKind::LimitExceeded
        | ErrorKind::Unauthenticated
        | ErrorKind::Fenced
        | ErrorKind::UnknownJob
        | ErrorKind::Storage => Exception::Io,
    }
}

impl From<UnexpectedReply> for WebError {
    fn from(error: UnexpectedReply) -> Self {
        WebError::new(Exception::Runtime, error.to_string())
    }
}

/// The text for an absent path where an operation needs one.
pub fn not_found(path: &DfsPath) -> WebError {
    WebError::new(Exception::FileNotFound, format!("File does not exist: {path}"))
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "RemoteException")]
    remote_exception: RemoteException<'a>,
}

#[derive(Serialize)]
struct RemoteException<'a> {
    exception: &'a str,
    #[serde(rename = "javaClassName")]
    java_class_name: &'a str,
    message: &'a str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_status() {
        for (exception, name, status) in [
            (Exception::FileNotFound, "FileNotFoundException", 404),
            (Exception::AccessControl, "AccessControlException", 403),
            (Exception::Authorization, "AuthorizationException", 403),
            (Exception::InvalidToken, "InvalidToken", 403),
            (Exception::Unauthenticated, "AccessControlException", 401),
            (Exception::Io, "IOException", 403),
            (Exception::EndOfFile, "EOFException", 403),
            (Exception::SafeMode, "SafeModeException", 403),
            (Exception::PathComponentTooLong, "PathComponentTooLongException", 403),
            (Exception::InvalidPath, "InvalidPathException", 400),
            (Exception::IllegalArgument, "IllegalArgumentException", 400),
            (Exception::HadoopIllegalArgument, "HadoopIllegalArgumentException", 400),
            (Exception::UnsupportedOperation, "UnsupportedOperationException", 400),
            (Exception::Runtime, "RuntimeException", 500),
        ] {
            assert_eq!((exception.simple_name(), exception.status().as_u16()), (name, status));
        }
    }

    #[test]
    fn a_kind_is_the_exception_of_its_operation() {
        let cases = [
            (Op::Create, ErrorKind::InvalidArgument, Exception::Io),
            (Op::Concat, ErrorKind::InvalidArgument, Exception::HadoopIllegalArgument),
            (Op::SetOwner, ErrorKind::InvalidArgument, Exception::IllegalArgument),
            (Op::SetXattr, ErrorKind::InvalidArgument, Exception::Io),
            (Op::CreateSnapshot, ErrorKind::InvalidName, Exception::InvalidPath),
            (Op::CreateSnapshot, ErrorKind::NameTooLong, Exception::PathComponentTooLong),
            (Op::SetXattr, ErrorKind::TooLarge, Exception::HadoopIllegalArgument),
            (Op::Open, ErrorKind::IsDirectory, Exception::FileNotFound),
            (Op::Mkdirs, ErrorKind::AlreadyExists, Exception::FileAlreadyExists),
            (Op::Mkdirs, ErrorKind::ParentNotDirectory, Exception::ParentNotDirectory),
            (Op::SetQuota, ErrorKind::NotDirectory, Exception::PathIsNotDirectory),
            (Op::Create, ErrorKind::ParentNotDirectory, Exception::ParentNotDirectory),
            (Op::Delete, ErrorKind::ParentNotDirectory, Exception::AccessControl),
            (Op::GetFileStatus, ErrorKind::ParentNotDirectory, Exception::AccessControl),
        ];
        for (op, kind, exception) in cases {
            let error = WebError::from_remote(op, RemoteError::new(kind, "text"));
            assert_eq!(error, WebError::new(exception, "text"));
        }
    }

    #[test]
    fn long_names_have_their_own_exception() {
        let name = "x".repeat(300);
        let path = format!("/d/{name}/y");
        let error = WebError::path(&path, &DfsPath::parse(&path).unwrap_err());
        assert_eq!(error.exception, Exception::PathComponentTooLong);
        assert!(error.message.ends_with("in directory /d is exceeded: limit=255 length=300"));
        let error = WebError::path("/a/../b", &DfsPath::parse("/a/../b").unwrap_err());
        assert_eq!(error.exception, Exception::InvalidPath);
    }
}
