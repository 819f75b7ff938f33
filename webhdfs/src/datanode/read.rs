//! OPEN and GETFILECHECKSUM.
//!
//! A file is read step by step on blocking threads: no thread is held while the client is slow, and the next step is read
//! while the one before is sent. A replica on this machine is mapped, checked and sent from the map, without a copy.
//!
//! A checksum is read step by step, too. Each step is begun for a client that still waits; one that has gone ends it within a step.

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::dfs::checksum::{FileChecksum, Summing};
use client::dfs::{BlockSlice, DfsError, DfsReader};
use futures_util::stream;
use serde_json::json;

use super::threads::{Begun, Threads};
use super::{Asked, Face, Turn, panicked};
use crate::error::{Exception, WebError};
use crate::json;
use crate::op::Op;

/// Most bytes of one step. A stream from another DataNode gives a packet at a time; a mapped replica gives all of it. A client that writes
/// what it gets to a file is a tenth faster with steps of 4 MiB than of 1 MiB, since threads wake each other less often.
const STEP_BYTES_MAX: u64 = 4 << 20;
/// Hadoop sends the whole buffer in which it builds a checksum, with these bytes behind it; clients compare the texts.
const PADDING: &str = "00000000";

impl Face {
    pub(super) async fn open(&self, asked: Asked) -> Result<Response, WebError> {
        let offset = asked.query.size("offset", 0)?.unwrap_or(0);
        let length = asked.query.size("length", 0)?.unwrap_or(u64::MAX);
        asked.query.integer("buffersize", 1)?;
        let Asked { client, path, .. } = asked;
        let threads = &self.inner.threads.reads;
        let opened = threads.begin(move || client.open(&path).map(OffThread::new));
        let reader = opened
            .done()
            .await
            .map_err(panicked)?
            .map_err(|error| WebError::from_client(Op::Open, &error))?;
        let Some(rest) = reader.get().len().checked_sub(offset) else {
            return Err(WebError::new(Exception::EndOfFile, "Cannot seek after EOF"));
        };
        let left = rest.min(length);
        let headers = [
            (header::CONTENT_TYPE, json::BYTES),
            (header::CONTENT_LENGTH, HeaderValue::from(left)),
        ];
        if left == 0 {
            return Ok((StatusCode::OK, headers).into_response());
        }
        let next = Some(step(threads, reader, offset, left));
        let state = Reading { threads: threads.clone(), next, offset, left };
        let body = Body::from_stream(stream::try_unfold(state, Reading::advance));
        Ok((StatusCode::OK, headers, body).into_response())
    }

    pub(super) async fn checksum(&self, asked: Asked) -> Result<Response, WebError> {
        let turn = self.inner.checksums.take(&asked.user).await?;
        let sum = tokio::select! {
            sum = self.sum(asked, &turn) => sum?,
            () = turn.tenant().is_over() => {
                let text = "the checksum was given up: another user needs a place, and this one has most of them; try again";
                return Err(WebError::new(Exception::Retriable, text));
            }
        };
        let body = json!({ "FileChecksum": {
            "algorithm": sum.algorithm(),
            "bytes": format!("{}{PADDING}", sum.hex()),
            "length": FileChecksum::BYTES,
        }});
        let kind = HeaderValue::from_static("application/json; charset=utf-8");
        Ok((StatusCode::OK, [(header::CONTENT_TYPE, kind)], body.to_string()).into_response())
    }

    async fn sum(&self, asked: Asked, turn: &Turn) -> Result<FileChecksum, WebError> {
        let Asked { client, path, .. } = asked;
        let threads = &self.inner.threads.sums;
        let refused = |error: DfsError| WebError::from_client(Op::GetFileChecksum, &error);
        let opened = threads.begin(move || Summing::begin(&client, &path).map(OffThread::new));
        let mut summing = opened.done().await.map_err(panicked)?.map_err(refused)?;
        loop {
            let stepping = threads.begin(move || {
                let stepped = summing.get_mut().step();
                (summing, stepped)
            });
            let (back, stepped) = stepping.done().await.map_err(panicked)?;
            turn.stir();
            if let Some(sum) = stepped.map_err(refused)? {
                return Ok(sum);
            }
            summing = back;
        }
    }
}

/// A body being read.
struct Reading {
    threads: Threads,
    /// The step under way; `None` at the end.
    next: Option<Begun<Step>>,
    offset: u64,
    left: u64,
}

/// What a step read, and the reader for the next.
type Step = (OffThread<DfsReader>, Result<BlockSlice, DfsError>);

fn step(
    threads: &Threads,
    mut reader: OffThread<DfsReader>,
    offset: u64,
    left: u64,
) -> Begun<Step> {
    threads.begin(move || {
        let max = usize::try_from(left.min(STEP_BYTES_MAX)).expect("a step fits in memory");
        let slice = reader.get_mut().next_slice_of(offset, max, left);
        (reader, slice)
    })
}

impl Reading {
    /// The next bytes. An error ends the connection: the client sees fewer bytes than were announced.
    async fn advance(mut self) -> Result<Option<(Bytes, Self)>, std::io::Error> {
        let Some(under_way) = self.next.take() else { return Ok(None) };
        let (reader, slice) = under_way.done().await.map_err(std::io::Error::other)?;
        let slice = slice.map_err(|error| {
            let error = std::io::Error::from(error);
            tracing::warn!(error = %protocol::error::chain(&error), "a read was broken off");
            error
        })?;
        if slice.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let count = slice.len() as u64;
        self.offset += count;
        self.left = self.left.saturating_sub(count);
        if self.left > 0 {
            self.next = Some(step(&self.threads, reader, self.offset, self.left));
        }
        Ok(Some((Bytes::from_owner(Owned(slice)), self)))
    }
}

/// Bytes of a file as an owner of memory.
struct Owned(BlockSlice);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// What reads a file, dropped on a blocking thread: its end may wait for reports of bad replicas.
struct OffThread<R: Send + 'static>(Option<R>);

impl<R: Send + 'static> OffThread<R> {
    fn new(reader: R) -> Self {
        OffThread(Some(reader))
    }

    fn get(&self) -> &R {
        self.0.as_ref().expect("the reader is there until it is dropped")
    }

    fn get_mut(&mut self) -> &mut R {
        self.0.as_mut().expect("the reader is there until it is dropped")
    }
}

impl<R: Send + 'static> Drop for OffThread<R> {
    fn drop(&mut self) {
        let reader = self.0.take();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(reader))),
            Err(_) => drop(reader),
        }
    }
}
