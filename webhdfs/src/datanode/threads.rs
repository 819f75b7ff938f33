//! Blocking threads, for each kind of work so many.
//!
//! The runtime has [`POOL`] threads for all that blocks, and begins what it is given in order, whether or not anybody still waits for it. So nothing is
//! given to it before there is a thread: work waits here, where it is dropped with the request that wants it.
//!
//! Invariants: all kinds together have fewer threads than there are, so that none waits for another; work of a kind never has more threads than the kind,
//! also not when its requests are gone; work whose request is gone is not begun.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinHandle};

/// Blocking threads of the runtime: tokio's own number.
const POOL: usize = 512;
/// For OPEN: opening a file, or reading a step of it. Mostly the bytes are in memory, and a step takes milliseconds.
const READS_MAX: usize = 128;
/// For checksums: one step each. They read all of a file and compute at its full speed, so more would only take processors from others.
pub(super) const SUMS_MAX: usize = 8;
/// Uploads at once: each has a thread and a window of packets (8 MiB). More wait their turn. One user alone gets three quarters.
pub(super) const UPLOADS_MAX: usize = 256;
/// For uploads: one each from its beginning to its end, and some for those that were given up and have not ended.
const WRITES_MAX: usize = UPLOADS_MAX + 64;

// What else blocks has the rest: orders of the NameNode, readers that end.
const _: () = assert!(READS_MAX + SUMS_MAX + WRITES_MAX <= POOL - 32);

/// The threads of each kind.
#[derive(Debug)]
pub(super) struct Kinds {
    pub(super) reads: Threads,
    pub(super) sums: Threads,
    pub(super) writes: Threads,
}

impl Kinds {
    pub(super) fn new() -> Self {
        Kinds {
            reads: Threads::new(READS_MAX),
            sums: Threads::new(SUMS_MAX),
            writes: Threads::new(WRITES_MAX),
        }
    }
}

/// The threads of one kind of work. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Threads(Arc<Semaphore>);

impl Threads {
    fn new(max: usize) -> Self {
        Threads(Arc::new(Semaphore::new(max)))
    }

    /// Has `work` done as soon as there is a thread for it. It is not begun any more once the answer is dropped; what is begun goes on to its end.
    pub(super) fn begin<T, W>(&self, work: W) -> Begun<T>
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        match Arc::clone(&self.0).try_acquire_owned() {
            Ok(thread) => Begun::on(thread, work),
            Err(_) => {
                let threads = Arc::clone(&self.0);
                Begun::Later(tokio::spawn(async move {
                    let thread = threads.acquire_owned().await.expect("it is never closed");
                    Begun::on(thread, work).done().await
                }))
            }
        }
    }
}

/// Work that was begun, or will be.
#[derive(Debug)]
pub(super) enum Begun<T> {
    /// It has a thread.
    Now(JoinHandle<T>),
    /// It waits for one.
    Later(JoinHandle<Result<T, JoinError>>),
}

impl<T: Send + 'static> Begun<T> {
    fn on<W: FnOnce() -> T + Send + 'static>(thread: OwnedSemaphorePermit, work: W) -> Self {
        Begun::Now(tokio::task::spawn_blocking(move || {
            let done = work();
            drop(thread);
            done
        }))
    }
}

impl<T> Begun<T> {
    /// What became of it.
    ///
    /// # Errors
    /// If it panicked, or the daemon stops.
    pub(super) async fn done(mut self) -> Result<T, JoinError> {
        match &mut self {
            Begun::Now(work) => work.await,
            Begun::Later(work) => work.await?,
        }
    }
}

impl<T> Drop for Begun<T> {
    fn drop(&mut self) {
        match self {
            Begun::Now(work) => work.abort(),
            Begun::Later(work) => work.abort(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn work_waits_for_a_thread_of_its_kind_and_is_dropped_with_its_request() {
        let (one, other) = (Threads::new(1), Threads::new(1));
        let (go, gone) = mpsc::channel::<()>();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let first = one.begin(move || {
            started.send(()).unwrap();
            gone.recv().unwrap();
        });
        has_started.await.unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counting = || {
            let count = Arc::clone(&count);
            move || count.fetch_add(1, Ordering::SeqCst)
        };
        let (dropped, kept) = (one.begin(counting()), one.begin(counting()));
        // Another kind has threads of its own meanwhile.
        assert_eq!(other.begin(|| 7).done().await.unwrap(), 7);
        assert_eq!(count.load(Ordering::SeqCst), 0);
        drop(dropped);
        go.send(()).unwrap();
        first.done().await.unwrap();
        assert_eq!(kept.done().await.unwrap(), 0, "it is the first to count");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_kind_has_no_more_threads_than_its_own_also_when_its_requests_are_gone() {
        const MAX: usize = 3;
        let threads = Threads::new(MAX);
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let begin = || {
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            threads.begin(move || {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                now.fetch_sub(1, Ordering::SeqCst);
            })
        };
        for round in 0..50 {
            let begun: Vec<Begun<()>> = (0..20).map(|_| begin()).collect();
            for (number, work) in begun.into_iter().enumerate() {
                // Every second one is dropped, whether or not it runs.
                if (number + round) % 2 == 0 {
                    work.done().await.unwrap();
                }
            }
        }
        let all = threads.0.acquire_many(3).await.unwrap();
        assert!((1..=MAX).contains(&most.load(Ordering::SeqCst)), "{most:?}");
        drop(all);
    }

    #[tokio::test]
    async fn a_thread_is_given_back_after_a_panic() {
        let threads = Threads::new(1);
        assert!(
            threads.begin::<(), _>(|| panic!("on purpose")).done().await.unwrap_err().is_panic()
        );
        assert_eq!(threads.begin(|| 7).done().await.unwrap(), 7);
    }
}
