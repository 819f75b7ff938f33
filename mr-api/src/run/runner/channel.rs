//! Messages from the threads of a task process to its worker.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mr_model::runner::say;
use protocol::frame;
use protocol::runner::{FROM_RUNNER_BYTES_MAX, FromRunner};
use protocol::tracker::FetchFailure;

/// Pause between life signs: four a second at most.
pub(super) const REPORT_PAUSE: Duration = Duration::from_millis(250);

/// The connection to the worker, shared by threads.
#[derive(Clone)]
pub(crate) struct Channel {
    stream: Arc<Mutex<UnixStream>>,
}

impl Channel {
    pub(super) fn new(stream: UnixStream) -> Self {
        Channel { stream: Arc::new(Mutex::new(stream)) }
    }

    pub(super) fn send(&self, message: &FromRunner) -> io::Result<()> {
        let frame = frame::encode_within(message, FROM_RUNNER_BYTES_MAX)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&frame)
    }

    /// Sends `message`; without the worker there is nothing left to do, so a failure ends the process.
    pub(super) fn send_or_exit(&self, message: &FromRunner) {
        if let Err(error) = self.send(message) {
            say(format_args!("lost the worker: {error}\n"));
            std::process::exit(1);
        }
    }

    pub(super) fn fetch_failed(&self, failure: FetchFailure) {
        self.send_or_exit(&FromRunner::FetchFailed(failure));
    }
}
