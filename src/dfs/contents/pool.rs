//! Copies many files at once: one thread walks the tree, several copy.
//!
//! The queue between them is bounded, so a tree of millions of files costs almost no memory.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::progress::Progress;
use crate::dfs::context::Context;
use crate::dfs::fs::Failure;

/// Files waiting for a thread.
const QUEUE_MAX: usize = 256;
/// Default threads of a copy: most of a small file's time is spent waiting for disks and answers.
const THREADS_DEFAULT: usize = 32;
/// Most threads that a user may choose.
const THREADS_MAX: usize = 512;

/// Hands files to the copying threads.
pub(super) struct Queue<T> {
    sender: SyncSender<T>,
}

impl<T> Queue<T> {
    /// Waits for room.
    pub(super) fn push(&self, task: T) -> Result<(), Failure> {
        let gone = |_| Failure::Text("the copying threads ended early".to_owned());
        self.sender.send(task).map_err(gone)
    }
}

/// Number of threads from `-t`.
pub(super) fn thread_count(context: &Context) -> Result<usize, Failure> {
    let Some(text) = context.args.value("t") else { return Ok(THREADS_DEFAULT) };
    match text.parse::<i32>() {
        // As in Hadoop: an invalid number counts as one.
        Ok(count) => Ok(usize::try_from(count).unwrap_or(1).clamp(1, THREADS_MAX)),
        Err(_) => Err(Failure::Usage(format!("For input string: \"{text}\""))),
    }
}

/// Runs `walk` here and `copy` on `threads` threads for everything that `walk` pushes. Failures of single files are
/// reported and do not stop the others.
pub(super) fn run<T: Send>(
    context: &Context,
    threads: usize,
    walk: impl FnOnce(&Queue<T>) -> Result<(), Failure>,
    copy: impl Fn(T, &Progress) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let progress = Progress::new();
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let receiver = Mutex::new(receiver);
    let walked = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(task) = next(&receiver) {
                    match copy(task, &progress) {
                        Ok(()) => progress.file(),
                        Err(failure) => progress.suspend(|| context.report(&failure)),
                    }
                }
            });
        }
        // The queue is dropped with the walk: the threads end when it is empty.
        walk(&Queue { sender })
    });
    progress.end();
    walked
}

fn next<T>(receiver: &Mutex<Receiver<T>>) -> Option<T> {
    // A copying thread that panics does so outside the lock.
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
