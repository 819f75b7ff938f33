//! A writer's hold of its replica, for those who end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use transport::Stream;

/// How a request stops the writer that holds a replica.
#[derive(Debug)]
pub(super) struct WriterHandle {
    stream: Option<Arc<Stream>>,
    stopped: AtomicBool,
    /// Bytes that this member and all behind it have: what readers may see.
    acked: AtomicU64,
    done: Mutex<bool>,
    signal: Condvar,
}

impl WriterHandle {
    pub(super) fn new(stream: Option<Arc<Stream>>) -> Self {
        WriterHandle {
            stream,
            stopped: AtomicBool::new(false),
            acked: AtomicU64::new(0),
            done: Mutex::new(false),
            signal: Condvar::new(),
        }
    }

    /// Records that this member and all behind it have the first `end` bytes.
    pub(super) fn note_acked(&self, end: u64) {
        self.acked.fetch_max(end, Ordering::AcqRel);
    }

    /// Bytes that readers may see.
    pub(super) fn acked(&self) -> u64 {
        self.acked.load(Ordering::Acquire)
    }

    /// Wakes the writer and waits for its end; false if it has not ended in time.
    pub(super) fn stop(&self, timeout: Duration) -> bool {
        self.stopped.store(true, Ordering::Release);
        if let Some(stream) = &self.stream {
            stream.shutdown();
        }
        let deadline = Instant::now() + timeout;
        let mut done = self.done.lock();
        while !*done {
            if self.signal.wait_until(&mut done, deadline).timed_out() {
                return *done;
            }
        }
        true
    }

    /// True once somebody has asked the writer to let go.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// The writer has let go.
    pub(super) fn finish(&self) {
        *self.done.lock() = true;
        self.signal.notify_all();
    }
}
