//! What every page needs: who is viewing it, and the name space as they may see it.

use axum::extract::FromRef;
use axum::http::{HeaderMap, StatusCode};
use daemon::access::STATIC_USER;
use daemon::page::live::Board;
use daemon::session::{SessionError, Sessions};
use protocol::namenode::{Answer, Call, FileStatus, LocatedBlocks, Reply};
use protocol::{DfsPath, ErrorKind, RemoteError};
use webhdfs::Auth;
use webhdfs::namenode::{CallOrigin, Namesystem};

use super::relay::Relay;
use crate::service::Web;

/// What the pages need.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) web: Web,
    pub(super) sessions: Sessions,
    pub(super) relay: Relay,
    /// Notifies open pages that the cluster looks different.
    pub(super) board: Board,
}

impl FromRef<Pages> for Sessions {
    fn from_ref(pages: &Pages) -> Self {
        pages.sessions.clone()
    }
}

impl Pages {
    /// The user who is viewing the page.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<String> {
        self.sessions.user(headers)
    }

    /// The user as whom files are read.
    ///
    /// # Errors
    /// If nobody is signed in, where names are not believed.
    pub(super) fn viewer<'a>(&self, user: Option<&'a str>) -> Result<&'a str, RemoteError> {
        match (user, self.web.service().config.webhdfs.auth) {
            (Some(user), _) => Ok(user),
            (None, Auth::Simple) => Ok(STATIC_USER),
            (None, Auth::Token) => {
                Err(RemoteError::new(ErrorKind::Unauthenticated, SessionError::Missing.to_string()))
            }
        }
    }

    /// Reads the name space as the user for whom a page acts.
    pub(super) async fn read(&self, user: Option<&str>, call: Call) -> Answer {
        self.web.call(self.viewer(user)?, CallOrigin::default(), call).await
    }

    /// What a path names; of a directory the entries after a name, limited in number.
    pub(super) async fn find(
        &self,
        user: Option<&str>,
        path: &DfsPath,
        (after, limit): (&str, u32),
    ) -> Result<Found, RemoteError> {
        let Reply::Status(status) = self.read(user, Call::Status(path.clone())).await? else {
            return Err(unexpected());
        };
        if status.directory {
            let (path, start_after) = (path.clone(), after.to_owned());
            let call = Call::List { path, start_after, limit };
            return match self.read(user, call).await? {
                Reply::Listing { entries, remaining } => {
                    Ok(Found::Directory { status, entries, remaining })
                }
                _ => Err(unexpected()),
            };
        }
        let call = Call::Locations { path: path.clone(), offset: 0, length: u64::MAX };
        match self.read(user, call).await? {
            Reply::Located(located) => Ok(Found::File(located)),
            _ => Err(unexpected()),
        }
    }
}

/// What a path names.
pub(super) enum Found {
    Directory { status: FileStatus, entries: Vec<FileStatus>, remaining: u64 },
    File(LocatedBlocks),
}

pub(super) fn unexpected() -> RemoteError {
    RemoteError::new(ErrorKind::Internal, "an answer of another kind")
}

/// The HTTP status of a refusal.
pub(super) fn status_of(error: &RemoteError) -> StatusCode {
    match error.kind {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        ErrorKind::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorKind::AlreadyExists => StatusCode::CONFLICT,
        ErrorKind::Unavailable | ErrorKind::SafeMode | ErrorKind::StartupSafeMode => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The path that a query names; the root where it names none.
pub(super) fn path_of(text: &str) -> Result<DfsPath, RemoteError> {
    DfsPath::parse(if text.is_empty() { "/" } else { text })
        .map_err(|error| RemoteError::new(ErrorKind::InvalidArgument, error.to_string()))
}
