//! Answers that are written while they are sent, so their size needs no memory.
//!
//! Invariants: an answer that could not be written completely is aborted, so that nobody takes it for complete. Readers that take nothing hold a part of the
//! process's threads, for a short time.

use std::io::{self, BufWriter, Write};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};

/// Bytes sent in one piece.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces written ahead of the network.
const PIECES_AHEAD: usize = 4;
/// A reader that takes nothing for this long is given up, because it holds a thread.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Answers that are written at once: an eighth of the threads for such work. Those beyond wait.
const WRITERS_MAX: usize = 64;
/// The threads of all answers.
static WRITERS: Semaphore = Semaphore::const_new(WRITERS_MAX);

/// A body that `write` produces on a blocking thread.
pub(super) fn body(write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static) -> Body {
    let begun = async {
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        // It is never closed.
        let place = WRITERS.acquire().await.ok();
        begin(write, sender, place);
        stream::unfold(Some(receiver), |receiver| async move {
            let mut receiver = receiver?;
            match receiver.recv().await {
                Some(Some(piece)) => Some((Ok(piece), Some(receiver))),
                Some(None) => None,
                None => Some((Err(io::Error::from(io::ErrorKind::UnexpectedEof)), None)),
            }
        })
    };
    Body::from_stream(stream::once(begun).flatten())
}

/// Writes on a thread, which gives `place` back when it is done.
fn begin(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
    sender: mpsc::Sender<Option<Bytes>>,
    place: Option<SemaphorePermit<'static>>,
) {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let mut out = BufWriter::with_capacity(PIECE_BYTES, Pieces { sender, runtime });
        let done =
            write(&mut out).and_then(|()| out.flush()).and_then(|()| out.get_mut().send(None));
        if let Err(error) = done {
            // Discards the buffer, which its drop would otherwise write.
            drop(out.into_parts());
            tracing::debug!(%error, "an answer was not written to its end");
        }
    });
}

/// Sends the written bytes as pieces; `None` is the end.
struct Pieces {
    sender: mpsc::Sender<Option<Bytes>>,
    runtime: Handle,
}

impl Pieces {
    fn send(&self, piece: Option<Bytes>) -> io::Result<()> {
        // The timer must be created within the runtime.
        let sent = async { self.sender.send_timeout(piece, STALL_MAX).await };
        self.runtime.block_on(sent).map_err(|error| match error {
            mpsc::error::SendTimeoutError::Timeout(_) => io::ErrorKind::TimedOut.into(),
            mpsc::error::SendTimeoutError::Closed(_) => io::ErrorKind::BrokenPipe.into(),
        })
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(Some(Bytes::copy_from_slice(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::to_bytes;

    #[tokio::test]
    async fn bytes_come_whole_or_with_an_error() {
        let text: Vec<u8> = (0..PIECE_BYTES * 20 + 7).map(|at| (at % 251) as u8).collect();
        let expected = text.clone();
        let written = body(move |out| text.chunks(1000).try_for_each(|piece| out.write_all(piece)));
        assert_eq!(to_bytes(written, usize::MAX).await.unwrap(), expected);
        assert!(to_bytes(body(|_| Ok(())), usize::MAX).await.unwrap().is_empty());
        let cut = body(|out| {
            out.write_all(&[7; PIECE_BYTES * 2])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(to_bytes(cut, usize::MAX).await.is_err());
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_begins_nothing() {
        let (begun, mut was_begun) = mpsc::channel(1);
        drop(body(move |_| begun.try_send(()).map_err(io::Error::other)));
        assert!(was_begun.recv().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_left_ends_the_writing() {
        let (ended, end) = tokio::sync::oneshot::channel();
        let endless = body(move |out| {
            let error = loop {
                if let Err(error) = out.write_all(&[7; PIECE_BYTES]) {
                    break error;
                }
            };
            ended.send(error.kind()).unwrap();
            Err(error)
        });
        let mut pieces = endless.into_data_stream();
        pieces.next().await.unwrap().unwrap();
        drop(pieces);
        assert_eq!(end.await.unwrap(), io::ErrorKind::BrokenPipe);
    }
}
