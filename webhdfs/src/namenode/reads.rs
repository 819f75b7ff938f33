//! Operations that only read: status, listings, totals, locations, defaults.

use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::namesystem::{CallOrigin, Namesystem};
use futures_util::stream;
use protocol::DfsPath;
use protocol::namenode::{
    ClusterStatus, FileStatus, LIST_ENTRIES_MAX, ListPage, LocatedBlocks, calls,
};

use super::{Asked, Face};
use crate::error::WebError;
use crate::json::status::{self, FileStatusJson};
use crate::json::{self, named};
use crate::op::Op;

impl<N: Namesystem> Face<N> {
    pub(super) async fn read(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        match asked.op {
            // There are no links: what is at a path is what it leads to.
            Op::GetFileStatus | Op::GetFileLinkStatus => {
                let status = self.status(asked).await?;
                Ok(json::ok(&named("FileStatus", FileStatusJson::from(&status))))
            }
            Op::ListStatus => self.list(asked).await,
            Op::ListStatusBatch => self.list_batch(asked).await,
            Op::GetContentSummary | Op::GetQuotaUsage => self.totals(asked).await,
            Op::GetHomeDirectory => Ok(json::path(&format!("/user/{}", asked.user))),
            Op::GetTrashRoot => Ok(json::path(&format!("/user/{}/.Trash", asked.user))),
            Op::GetServerDefaults => {
                Ok(json::ok(&status::server_defaults(&self.cluster(asked).await?)))
            }
            Op::GetBlockLocations | Op::GetFileBlockLocations => self.locations(asked).await,
            _ => self.read_special(asked).await,
        }
    }

    pub(super) async fn cluster(&self, asked: &Asked<'_>) -> Result<ClusterStatus, WebError> {
        self.ask(asked, calls::ClusterStatus).await
    }

    pub(super) async fn status(&self, asked: &Asked<'_>) -> Result<FileStatus, WebError> {
        self.ask(asked, calls::Status { path: asked.path.clone() }).await
    }

    async fn page(&self, asked: &Asked<'_>, start_after: String) -> Result<ListPage, WebError> {
        self.page_of(asked, asked.path.clone(), start_after).await
    }

    /// A page of a directory other than the requested one.
    pub(super) async fn page_of(
        &self,
        asked: &Asked<'_>,
        path: DfsPath,
        start_after: String,
    ) -> Result<ListPage, WebError> {
        self.ask(asked, calls::List { path, start_after, limit: LIST_ENTRIES_MAX }).await
    }

    /// The whole directory, streamed page by page: a large one takes no more memory than a small one.
    async fn list(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        const HEAD: &[u8] = br#"{"FileStatuses":{"FileStatus":["#;
        const TAIL: &[u8] = b"]}}";
        let ListPage { entries, remaining } = self.page(asked, String::new()).await?;
        let mut first = HEAD.to_vec();
        first.extend_from_slice(&status::entries(&entries));
        let headers = [(header::CONTENT_TYPE, json::CONTENT_TYPE)];
        if remaining == 0 {
            first.extend_from_slice(TAIL);
            return Ok((StatusCode::OK, headers, first).into_response());
        }
        let pages = Pages {
            face: self.clone(),
            path: asked.path.clone(),
            user: asked.user.clone(),
            address: asked.address(),
            next: entries.last().map(|entry| entry.name.clone()),
        };
        let rest = stream::try_unfold(pages, Pages::step);
        let first = stream::once(async move { Ok(Bytes::from(first)) });
        let tail = stream::once(async { Ok(Bytes::from_static(TAIL)) });
        let body = futures_util::StreamExt::chain(first, rest);
        let body = Body::from_stream(futures_util::StreamExt::chain(body, tail));
        Ok((StatusCode::OK, headers, body).into_response())
    }

    async fn list_batch(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let start_after = asked.query.text("startafter").unwrap_or_default().to_owned();
        let ListPage { entries, remaining } = self.page(asked, start_after).await?;
        let mut body =
            br#"{"DirectoryListing":{"partialListing":{"FileStatuses":{"FileStatus":["#.to_vec();
        body.extend_from_slice(&status::entries(&entries));
        body.extend_from_slice(format!("]}}}},\"remainingEntries\":{remaining}}}}}").as_bytes());
        Ok((StatusCode::OK, [(header::CONTENT_TYPE, json::CONTENT_TYPE)], body).into_response())
    }

    async fn totals(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let call = calls::ContentSummary { path: asked.path.clone() };
        let summary = self.ask(asked, call).await?;
        if asked.op == Op::GetQuotaUsage {
            return Ok(json::ok(&status::quota_usage(&summary)));
        }
        let directory = summary.directory_count > 0;
        Ok(json::ok(&status::content_summary(&summary, directory)))
    }

    /// The blocks of `asked.path` that overlap a range.
    pub(super) async fn located(
        &self,
        asked: &Asked<'_>,
        offset: u64,
        length: u64,
    ) -> Result<LocatedBlocks, WebError> {
        let path = asked.path.clone();
        self.ask(asked, calls::Locations { path, offset, length }).await
    }
}

/// The further pages of a listing.
struct Pages<N> {
    face: Face<N>,
    path: DfsPath,
    user: String,
    address: Option<IpAddr>,
    /// Name after which the next page begins; `None` at the end.
    next: Option<String>,
}

impl<N: Namesystem> Pages<N> {
    /// The next page as JSON, begun with a comma. An error ends the connection: the client sees an unfinished body.
    async fn step(mut self) -> Result<Option<(Bytes, Self)>, protocol::RemoteError> {
        let Some(start_after) = self.next.take() else { return Ok(None) };
        let path = self.path.clone();
        let call = calls::List { path, start_after, limit: LIST_ENTRIES_MAX };
        let from = CallOrigin { address: self.address, ..CallOrigin::default() };
        let ListPage { entries, remaining } =
            self.face.inner.namesystem.ask(&self.user, from, call).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        if remaining > 0 {
            self.next = entries.last().map(|entry| entry.name.clone());
        }
        let mut bytes = vec![b','];
        bytes.extend_from_slice(&status::entries(&entries));
        Ok(Some((Bytes::from(bytes), self)))
    }
}
