//! What every page needs: who is viewing it, and the name space as they may see it.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use client::namesystem::{CallOrigin, Namesystem};
use daemon::access::STATIC_USER;
use daemon::page::live::Board;
use daemon::params::{BadParameter, Given};
use daemon::session::{Actor, NamedChange, SessionError, Sessions};
use protocol::namenode::{FileStatus, ListPage, LocatedBlocks, TypedCall, calls};
use protocol::{DfsPath, ErrorKind, PathError, RemoteError};
use webhdfs::Auth;

use super::charts::Hour;
use super::relay::Relay;
use crate::service::Local;

/// What the pages need.
#[derive(Clone)]
pub(super) struct Pages {
    pub(super) web: Local,
    pub(super) sessions: Sessions,
    pub(super) relay: Relay,
    /// Notifies open pages that what they display has changed.
    pub(super) board: Board,
    /// Figures of the last hour.
    pub(super) hour: Hour,
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

    /// How long the trash keeps things, milliseconds; 0 for no trash.
    pub(super) fn trash_interval_ms(&self) -> u64 {
        self.web.service().config.trash_interval_ms
    }

    /// Reads the name space as the user for whom a page acts.
    pub(super) async fn read<C: TypedCall>(
        &self,
        user: Option<&str>,
        call: C,
    ) -> Result<C::Answer, RemoteError> {
        self.web.ask(self.viewer(user)?, CallOrigin::default(), call).await
    }

    /// What a path names; of a directory the entries after a name, limited in number.
    pub(super) async fn find(
        &self,
        user: Option<&str>,
        path: &DfsPath,
        (after, limit): (&str, u32),
    ) -> Result<Found, RemoteError> {
        let status = self.read(user, calls::Status { path: path.clone() }).await?;
        if status.directory {
            let (path, start_after) = (path.clone(), after.to_owned());
            let call = calls::List { path, start_after, limit };
            let ListPage { entries, remaining } = self.read(user, call).await?;
            return Ok(Found::Directory { status, entries, remaining });
        }
        let call = calls::Locations { path: path.clone(), offset: 0, length: u64::MAX };
        self.read(user, call).await.map(Found::File)
    }
}

/// A change that a signed-in user asks for from one of our pages. A handler extracts it first: nobody else learns anything of what the request names.
pub(super) struct Hand {
    pub(super) pages: Pages,
    pub(super) user: String,
    name: NamedChange,
}

impl FromRequestParts<Pages> for Hand {
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, pages: &Pages) -> Result<Self, SessionError> {
        let Actor(user) = Actor::from_request_parts(parts, pages).await?;
        let name = NamedChange::from_request_parts(parts, pages).await?;
        Ok(Hand { pages: pages.clone(), user, name })
    }
}

impl Hand {
    /// Changes the name space. Each call of a request has a number of its own, `step`: sent again, it gets its first answer.
    pub(super) async fn change<C: TypedCall>(
        &self,
        step: u64,
        call: C,
    ) -> Result<C::Answer, RemoteError> {
        let from = CallOrigin { call: Some(self.name.call(step)), ..CallOrigin::default() };
        self.pages.web.ask(&self.user, from, call).await
    }

    /// A call that is another one each time.
    pub(super) async fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, RemoteError> {
        self.pages.web.ask(&self.user, CallOrigin::default(), call).await
    }

    /// What is at a path.
    pub(super) async fn status(&self, path: &DfsPath) -> Result<FileStatus, RemoteError> {
        self.ask(calls::Status { path: path.clone() }).await
    }

    /// What is at a path; `None` if nothing is.
    pub(super) async fn find(&self, path: &DfsPath) -> Result<Option<FileStatus>, RemoteError> {
        match self.status(path).await {
            Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
            found => found.map(Some),
        }
    }
}

/// What a path names.
pub(super) enum Found {
    Directory { status: FileStatus, entries: Vec<FileStatus>, remaining: u64 },
    File(LocatedBlocks),
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

/// The path to change. Unlike one that is looked at, it is never the root because it was left out.
pub(super) fn changed_path(given: &Given) -> Result<String, BadParameter> {
    given.required("path", "it says what is to be changed")
}

/// The path that a query names; the root where it names none.
pub(super) fn path_of(text: &str) -> Result<DfsPath, RemoteError> {
    DfsPath::parse(if text.is_empty() { "/" } else { text }).map_err(refused_path)
}

/// The refusal of what is no path.
pub(super) fn refused_path(error: PathError) -> RemoteError {
    RemoteError::new(ErrorKind::InvalidArgument, error.to_string())
}
