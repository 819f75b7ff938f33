//! Threads that sync files while their writer continues. In simulations nobody does until the simulator says so.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;

use super::volume::VolumeConfig;

/// Threads for syncs that nobody waits for.
const SYNC_THREADS: usize = 2;
/// Most of these syncs in the queue; beyond that the writer syncs itself, which slows it down to the pace of the disk.
const SYNC_QUEUE_MAX: usize = 64;
/// How long a request waits for the writer it replaces. Writers are woken by closing their socket, so only a stuck disk
/// takes that long.
const WRITER_STOP_MAX: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Debug)]
pub struct SyncThreads {
    queue: Queue,
}

#[derive(Debug)]
enum Queue {
    Threads(SyncSender<Job>),
    #[cfg(any(test, feature = "sim"))]
    ByHand(ByHand),
}

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// Jobs that are done together: the first one's sync serves all.
#[derive(Default)]
pub(super) struct Together(Mutex<Vec<Job>>);

impl Together {
    /// Adds a job; true if it is the first, so that somebody must be asked to do them.
    pub(super) fn add(&self, job: Job) -> bool {
        let mut jobs = self.0.lock();
        jobs.push(job);
        jobs.len() == 1
    }

    /// Takes them all.
    pub(super) fn take(&self) -> Vec<Job> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl std::fmt::Debug for Together {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs", self.0.lock().len())
    }
}

impl SyncThreads {
    /// The threads of a store with these data directories.
    pub(super) fn new(configs: &[VolumeConfig]) -> Self {
        #[cfg(any(test, feature = "sim"))]
        if configs.iter().any(|config| sys::disk::sim::is_simulated(&config.path)) {
            return SyncThreads { queue: Queue::ByHand(ByHand::default()) };
        }
        let _ = configs;
        SyncThreads { queue: Queue::Threads(start()) }
    }

    /// Runs `job` on a thread, or here if too many wait.
    pub(super) fn run(&self, job: Job) {
        let left = match &self.queue {
            Queue::Threads(queue) => queue.try_send(job),
            #[cfg(any(test, feature = "sim"))]
            Queue::ByHand(queue) => queue.try_send(job),
        };
        match left {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => job(),
        }
    }

    /// How long to wait for a writer that was asked to stop. In a simulation what it waits for happens now.
    pub(super) fn writer_stop_max(&self) -> Duration {
        match &self.queue {
            Queue::Threads(_) => WRITER_STOP_MAX,
            #[cfg(any(test, feature = "sim"))]
            Queue::ByHand(queue) => {
                while queue.run_next() {}
                Duration::ZERO
            }
        }
    }

    /// The jobs of a store on simulated disks.
    #[cfg(any(test, feature = "sim"))]
    pub(super) fn by_hand(&self) -> Option<&ByHand> {
        match &self.queue {
            Queue::Threads(_) => None,
            Queue::ByHand(queue) => Some(queue),
        }
    }
}

fn start() -> SyncSender<Job> {
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
    queue
}

/// Jobs that wait for the simulator.
#[cfg(any(test, feature = "sim"))]
#[derive(Default)]
pub(super) struct ByHand(Mutex<std::collections::VecDeque<Job>>);

#[cfg(any(test, feature = "sim"))]
impl ByHand {
    fn try_send(&self, job: Job) -> Result<(), TrySendError<Job>> {
        let mut jobs = self.0.lock();
        if jobs.len() == SYNC_QUEUE_MAX {
            return Err(TrySendError::Full(job));
        }
        jobs.push_back(job);
        Ok(())
    }

    /// Runs the oldest job; false if there is none.
    pub(super) fn run_next(&self) -> bool {
        let job = self.0.lock().pop_front();
        job.map(|job| job()).is_some()
    }

    /// How many wait.
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// Forgets them all.
    pub(super) fn clear(&self) {
        let jobs = std::mem::take(&mut *self.0.lock());
        drop(jobs);
    }
}

#[cfg(any(test, feature = "sim"))]
impl std::fmt::Debug for ByHand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} jobs", self.count())
    }
}
