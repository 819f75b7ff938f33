//! A file being sent: bytes that are written here leave through a request that waits for them.
//!
//! Invariants: at most [`PIECES_MAX`] pieces wait; the file is complete only if [`Writer::finish`] is called, since a body that breaks off makes the
//! server give the file up.

use std::io::{self, Write};

use bytes::Bytes;
use client::interrupt::Undo;
use futures_util::stream;
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

/// A piece, or that no more will come although the file is not complete.
type Piece = Result<Bytes, io::Error>;

/// See the module.
pub(super) struct Upload {
    /// `None` once all is sent.
    pieces: Option<mpsc::Sender<Piece>>,
    answer: Option<JoinHandle<Result<Answer, RpcError>>>,
}

impl Upload {
    pub(super) fn begin(method: Method, location: String) -> Self {
        let (pieces, waiting) = mpsc::channel::<Piece>(PIECES_MAX);
        let body =
            stream::unfold(
                waiting,
                |mut waiting| async move { Some((waiting.recv().await?, waiting)) },
            );
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

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = Bytes::copy_from_slice(bytes);
        let sent = match &self.pieces {
            Some(pieces) => pieces.blocking_send(Ok(piece)).is_ok(),
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
        self.end()
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(pieces) = self.pieces.take() {
            // The request ends with an error, whether this arrives or not.
            let _ = pieces.try_send(Err(io::ErrorKind::Interrupted.into()));
            if let Some(answer) = self.answer.take() {
                answer.abort();
            }
        }
    }
}
