//! CREATE and APPEND: the body goes through a bounded channel to a thread that writes it.

use std::io::Write;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use client::dfs::{CreateOptions, DfsWriter, Parents};
use http_body_util::BodyExt;
use protocol::ErrorKind;
use protocol::address::authority_of;
use tokio::sync::{mpsc, oneshot};

use super::{Asked, Face, Turn, panicked};
use crate::error::{Exception, WebError};
use crate::op::Op;
use crate::query::Query;
use crate::steps::create_flags;
use crate::{json, path};

/// Permission bits of a file whose request specifies none.
const FILE_MODE: u16 = 0o644;
/// Pieces of a body that wait for the writer: with pieces of at most 64 KiB, 1 MiB.
const PIECES_MAX: usize = 16;
/// Silence of a sender after which its upload is given up: as DataNodes treat silent writers.
const SILENCE_MAX: Duration = Duration::from_secs(10 * 60);

/// Messages to the writing thread. If the channel ends before `End`, the upload was cut off.
enum Piece {
    Data(Bytes),
    End,
}

impl Face {
    pub(super) async fn write(&self, asked: Asked, body: &mut Body) -> Result<Response, WebError> {
        let op = asked.op;
        let turn = self.inner.uploads.take(&asked.user).await?;
        let url = location(&asked)?;
        let (opened_sender, opened) = oneshot::channel();
        let (sender, receiver) = mpsc::channel(PIECES_MAX);
        let thread = self.inner.threads.writes.begin(move || {
            let writer = open_writer(&asked)?;
            // The handler may be gone already; then the channel ends too.
            let _ = opened_sender.send(());
            write_pieces(writer, receiver, op)
        });
        // Nothing of the body is asked for before the file is open, so that a refusal comes first.
        let pumped = match opened.await {
            Ok(()) => pump(body, sender, &turn).await,
            Err(_) => {
                drop(sender);
                Ok(())
            }
        };
        // Whoever is answered may write the same file again: by then this writer has ended its own.
        let written = thread.done().await.map_err(panicked)?;
        pumped?;
        written?;
        let headers = [(header::CONTENT_TYPE, json::BYTES)];
        if op == Op::Append {
            return Ok((StatusCode::OK, headers).into_response());
        }
        let more =
            [(header::LOCATION, url), (header::CONNECTION, HeaderValue::from_static("close"))];
        Ok((StatusCode::CREATED, headers, more).into_response())
    }
}

/// Where the file is for clients that speak Hadoop's own protocol.
fn location(asked: &Asked) -> Result<HeaderValue, WebError> {
    let namenode = authority_of(asked.client.namenode());
    let url = format!("hdfs://{namenode}{}", path::encode(&asked.path));
    HeaderValue::from_str(&url).map_err(|_| WebError::new(Exception::Io, "the path fits no header"))
}

/// Sends the body to the writer.
async fn pump(body: &mut Body, sender: mpsc::Sender<Piece>, turn: &Turn) -> Result<(), WebError> {
    let aborted =
        |why: &str| WebError::new(Exception::Io, format!("the upload was cut off: {why}"));
    loop {
        let frame = tokio::select! {
            frame = tokio::time::timeout(SILENCE_MAX, body.frame()) => frame,
            () = turn.tenant().is_over() => {
                return Err(aborted("another user needs a place, and this one has most of them"));
            }
        };
        turn.stir();
        match frame.map_err(|_| aborted("nothing came for too long"))? {
            Some(Ok(frame)) => {
                let Ok(data) = frame.into_data() else { continue };
                // A writer that failed receives nothing more; its result says why.
                if !data.is_empty() && sender.send(Piece::Data(data)).await.is_err() {
                    return Ok(());
                }
            }
            Some(Err(error)) => return Err(aborted(&protocol::error::chain(&error))),
            None => {
                let _ = sender.send(Piece::End).await;
                return Ok(());
            }
        }
    }
}

fn write_pieces(
    mut writer: DfsWriter,
    mut pieces: mpsc::Receiver<Piece>,
    op: Op,
) -> Result<(), WebError> {
    loop {
        match pieces.blocking_recv() {
            Some(Piece::Data(data)) => {
                writer.write_all(&data).map_err(|error| WebError::from_io(op, &error))?;
            }
            Some(Piece::End) => {
                return writer.close().map_err(|error| WebError::from_client(op, &error));
            }
            None => {
                // Dropped before it is closed, the writer deletes a new file, and closes an older one at the length that it promised.
                return Err(WebError::new(Exception::Io, "the upload was cut off"));
            }
        }
    }
}

fn open_writer(asked: &Asked) -> Result<DfsWriter, WebError> {
    let Asked { op, path, query, client, .. } = asked;
    let refused = |error: client::dfs::DfsError| WebError::from_client(*op, &error);
    let flags = create_flags(query)?;
    let has = |flag| flags.as_ref().is_some_and(|flags| flags.contains(&flag));
    if *op == Op::Append {
        query.integer("buffersize", 1)?;
        return client.append(path, has("NEW_BLOCK")).map_err(refused);
    }
    if flags.is_some() && !has("CREATE") {
        match client.status(path) {
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                let text = format!("Can't overwrite non-existent {path}");
                return Err(WebError::new(Exception::FileNotFound, text));
            }
            found => found.map(drop).map_err(refused)?,
        }
    }
    let overwrite = query.boolean("overwrite", false)? || has("OVERWRITE");
    client.create(path, create_options(query, overwrite)?).map_err(refused)
}

fn create_options(query: &Query, overwrite: bool) -> Result<CreateOptions, WebError> {
    query.integer("buffersize", 1)?;
    let has_parents = query.boolean("createparent", true)?;
    Ok(CreateOptions {
        overwrite,
        parents: if has_parents { Parents::All } else { Parents::None },
        replication: query.short("replication", 1)?,
        block_size: query.size("blocksize", 1)?,
        mode: query.permission("permission")?.unwrap_or(FILE_MODE),
        unmasked: query.permission("unmaskedpermission")?,
        ..CreateOptions::default()
    })
}
