//! A file being sent: bytes that are written here leave through a request that waits for them.
//!
//! Invariants: at most [`PIECES_MAX`] pieces wait; the file is complete only if [`Writer::finish`] is called, since a body that breaks off makes the
//! server give the file up, and any other end breaks it off.

use std::io::{self, Write};

use bytes::Bytes;
use client::interrupt::Undo;
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use transport::RpcError;
use transport::rpc::runtime;
use transport::web::{self, Answer, Method, Trust};

use super::request::{accepted, whole};
use crate::error::PlaceError;
use crate::places::files::{Outcome, Writer};

/// Pieces that wait to be sent; a piece is what was written at once.
const PIECES_MAX: usize = 4;

/// What goes into a body.
enum Piece {
    Bytes(Bytes),
    /// The file is complete.
    End,
}

/// The body of a request: it ends well after [`Piece::End`] alone. Where no more comes before that, it breaks off.
fn body(waiting: mpsc::Receiver<Piece>) -> impl Stream<Item = io::Result<Bytes>> {
    stream::unfold(Some(waiting), |waiting| async move {
        let mut waiting = waiting?;
        match waiting.recv().await {
            Some(Piece::Bytes(bytes)) => Some((Ok(bytes), Some(waiting))),
            Some(Piece::End) => None,
            None => Some((Err(io::ErrorKind::Interrupted.into()), None)),
        }
    })
}

/// See the module.
pub(super) struct Upload {
    /// `None` once the file is given up or complete.
    pieces: Option<mpsc::Sender<Piece>>,
    answer: Option<JoinHandle<Result<Answer, RpcError>>>,
}

impl Upload {
    pub(super) fn begin(method: Method, location: String) -> Self {
        let (pieces, waiting) = mpsc::channel(PIECES_MAX);
        let body = body(waiting);
        let answer =
            runtime().spawn(async move { web::send(Trust::Named, method, &location, body).await });
        Upload { pieces: Some(pieces), answer: Some(answer) }
    }

    /// Waits for the answer.
    fn end(&mut self) -> Outcome<()> {
        self.pieces = None;
        let Some(answer) = self.answer.take() else { return Err(PlaceError::Answer) };
        let answer = runtime().block_on(answer).map_err(|_| PlaceError::Answer)?;
        whole(accepted(answer)?).map(|_| ())
    }
}

/// Hands a piece to the request; false if that has ended.
#[expect(clippy::disallowed_methods, reason = "a task's own thread waits for its own request")]
fn send(pieces: &mpsc::Sender<Piece>, piece: Piece) -> bool {
    pieces.blocking_send(piece).is_ok()
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let sent = match &self.pieces {
            Some(pieces) => send(pieces, Piece::Bytes(piece)),
            None => false,
        };
        if sent {
            return Ok(bytes.len());
        }
        // The request has ended before the file has: its answer says why.
        match self.end() {
            Ok(()) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Writer for Upload {
    fn undo(&self, _keep: bool) -> Undo {
        // Its body breaks off with the process.
        Box::new(|| Ok(()))
    }

    fn finish(mut self: Box<Self>) -> Outcome<()> {
        if let Some(pieces) = &self.pieces {
            // If the request has ended already, its answer says why.
            let _ = send(pieces, Piece::End);
        }
        self.end()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[test]
    fn a_body_ends_well_only_if_somebody_says_so() {
        for (is_complete, count) in [(true, 0), (true, PIECES_MAX - 1), (false, PIECES_MAX)] {
            let (pieces, waiting) = mpsc::channel(PIECES_MAX);
            (0..count).for_each(|_| pieces.try_send(Piece::Bytes("a".into())).ok().unwrap());
            if is_complete {
                pieces.try_send(Piece::End).ok().unwrap();
            }
            drop(pieces);
            let all: Vec<io::Result<Bytes>> = runtime().block_on(body(waiting).collect());
            assert_eq!(all.iter().filter(|piece| piece.is_ok()).count(), count);
            assert_eq!(all.last().is_none_or(|piece| piece.is_ok()), is_complete);
        }
    }
}
