//! Threads that sync files while their writer continues.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, mpsc};

use parking_lot::Mutex;

/// Threads for syncs that nobody waits for.
const SYNC_THREADS: usize = 2;
/// Most of these syncs in the queue; beyond that the writer syncs itself, which slows it down to the pace of the disk.
const SYNC_QUEUE_MAX: usize = 64;

/// See the module.
#[derive(Debug)]
pub struct SyncThreads {
    queue: SyncSender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl SyncThreads {
    pub(super) fn new() -> Self {
        let (queue, jobs) = sync_channel::<Job>(SYNC_QUEUE_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for number in 0..SYNC_THREADS {
            let jobs: Arc<Mutex<mpsc::Receiver<Job>>> = Arc::clone(&jobs);
            let run = move || {
                loop {
                    let job = jobs.lock().recv();
                    match job {
                        Ok(job) => job(),
                        Err(mpsc::RecvError) => return,
                    }
                }
            };
            std::thread::Builder::new()
                .name(format!("sync-{number}"))
                .spawn(run)
                .expect("the system can start a thread at the start of the daemon");
        }
        SyncThreads { queue }
    }

    /// Runs `job` on a thread, or here if too many wait.
    pub(super) fn run(&self, job: Job) {
        match self.queue.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => job(),
        }
    }
}
