//! Copies many files at once: one thread walks the tree, several copy.
//!
//! The queue between them is bounded, so a tree of millions of files costs almost no memory.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use client::dfs::SMALL_FILES_MAX;

use super::progress::Progress;
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, FsPath};
use crate::output::report;

/// Default files waiting for a thread, as in Hadoop.
const QUEUE_DEFAULT: usize = 1024;
/// Most files waiting that a user may choose: each takes a few hundred bytes.
const QUEUE_MAX: usize = 1 << 16;
/// Default threads of a copy: most of a small file's time is spent waiting for disks and answers.
const THREADS_DEFAULT: usize = 32;
/// Most threads that a user may choose.
const THREADS_MAX: usize = 512;

/// Threads of a copy that take files in groups: with few of them, others queue up meanwhile, and groups become large.
const GROUP_THREADS_MAX: usize = 4;
/// Most files of a group.
const GROUP_FILES_MAX: usize = SMALL_FILES_MAX;

/// Hands files to the copying threads.
pub(super) struct Queue<T> {
    sender: SyncSender<Queued<T>>,
    grouped: Option<Grouped<T>>,
    pending: Arc<Pending>,
    /// Where the operands of the command go.
    claimed: RefCell<BTreeSet<FsPath>>,
}

/// Where files go that can be copied together.
struct Grouped<T> {
    sender: SyncSender<Queued<T>>,
    /// Which these are.
    joins: fn(&T) -> bool,
}

/// A file that waits or is being copied.
struct Queued<T> {
    task: T,
    ticket: Ticket,
}

/// The number of [`Ticket`]s.
#[derive(Default)]
struct Pending {
    count: Mutex<usize>,
    is_none: Condvar,
}

/// Lives until its file is copied.
struct Ticket(Arc<Pending>);

impl Ticket {
    fn of(pending: &Arc<Pending>) -> Self {
        *pending.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Ticket(Arc::clone(pending))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut count = self.0.count.lock().unwrap_or_else(PoisonError::into_inner);
        *count -= 1;
        if *count == 0 {
            self.0.is_none.notify_all();
        }
    }
}

impl<T> Queue<T> {
    fn new(sender: SyncSender<Queued<T>>, grouped: Option<Grouped<T>>) -> Self {
        let (pending, claimed) = Default::default();
        Queue { sender, grouped, pending, claimed }
    }

    /// An operand goes to `target`. If an earlier one of the command goes there too, waits until that is copied. So what is there decides, as if the later
    /// operand were a command of its own.
    pub(super) fn claim(&self, target: &FsPath) {
        if self.claimed.borrow_mut().insert(target.clone()) {
            return;
        }
        let Pending { count, is_none } = &*self.pending;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        // A panic elsewhere does not invalidate a number; the guard is not needed afterwards.
        drop(is_none.wait_while(count, |count| *count > 0).unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for room.
    pub(super) fn push(&self, task: T) -> Result<(), Failure> {
        let gone = |_| Failure::Text("the copying threads ended early".to_owned());
        let ticket = Ticket::of(&self.pending);
        match &self.grouped {
            Some(Grouped { sender, joins }) if joins(&task) => {
                sender.send(Queued { task, ticket }).map_err(gone)
            }
            _ => self.sender.send(Queued { task, ticket }).map_err(gone),
        }
    }
}

/// How many files are copied, and how many wait.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    threads: usize,
    queue: usize,
}

impl Sizes {
    /// From `-t` and `-q`. As in Hadoop, too few threads mean one, and too short a queue the default.
    pub(super) fn of(context: &Context) -> Result<Self, Failure> {
        let (threads, queue) = (context.args.value("t"), context.args.value("q"));
        let threads = threads.map(|text| number(context, ("-t", text), THREADS_MAX)).transpose()?;
        let queue = queue.map(|text| number(context, ("-q", text), QUEUE_MAX)).transpose()?;
        Ok(Sizes {
            threads: threads.map_or(THREADS_DEFAULT, |count| count.max(1)),
            queue: queue.filter(|count| *count > 0).unwrap_or(QUEUE_DEFAULT),
        })
    }

    /// True if files are copied one after the other.
    pub(super) fn is_one_at_a_time(self) -> bool {
        self.threads == 1
    }

    /// One file after the other.
    pub(super) fn one_at_a_time(self) -> Self {
        Sizes { threads: 1, ..self }
    }
}

/// The value of an option; a warning says if it is cut. A negative one counts as zero.
fn number(context: &Context, (option, text): (&str, &str), max: usize) -> Result<usize, Failure> {
    let given = text.parse::<i32>();
    let given = given.map_err(|_| Failure::Usage(format!("For input string: \"{text}\"")))?;
    let given = usize::try_from(given).unwrap_or_default();
    if given > max {
        report!("{}: {option} {given}: {max} is used, the most there can be", context.command);
    }
    Ok(given.min(max))
}

/// Runs `walk` here and `copy` on several threads for everything that `walk` pushes. Failures of single files are
/// reported and do not stop the others.
pub(super) fn run<T: Send>(
    context: &Context,
    sizes: Sizes,
    walk: impl FnOnce(&Queue<T>) -> Result<(), Failure>,
    copy: impl Fn(T, &Progress) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let progress = Progress::new();
    let (sender, receiver) = sync_channel::<Queued<T>>(sizes.queue);
    let receiver = Mutex::new(receiver);
    let walked = thread::scope(|scope| {
        for _ in 0..sizes.threads {
            scope.spawn(|| {
                while let Some(Queued { task, ticket }) = next(&receiver) {
                    match copy(task, &progress) {
                        Ok(()) => progress.file(),
                        Err(failure) => progress.suspend(|| context.report(&failure)),
                    }
                    drop(ticket);
                }
            });
        }
        // The queue is dropped with the walk: the threads end when it is empty.
        walk(&Queue::new(sender, None))
    });
    progress.end();
    walked
}

/// As [`run`]; files for which `joins` is true are handed to `copy` in groups, others one by one. It returns an outcome for each.
pub(super) fn run_grouped<T: Send>(
    context: &Context,
    sizes: Sizes,
    joins: fn(&T) -> bool,
    walk: impl FnOnce(&Queue<T>) -> Result<(), Failure>,
    copy: impl Fn(Vec<T>, &Progress) -> Vec<Result<(), Failure>> + Sync,
) -> Result<(), Failure> {
    let progress = Progress::new();
    let (sender, receiver) = sync_channel(sizes.queue);
    let (group_sender, group_receiver) = sync_channel(sizes.queue);
    let receivers = [(1, Mutex::new(receiver)), (GROUP_FILES_MAX, Mutex::new(group_receiver))];
    let group_threads = GROUP_THREADS_MAX.min(sizes.threads / 2).max(1);
    let walked = thread::scope(|scope| {
        for number in 0..sizes.threads {
            let (most, receiver) = &receivers[usize::from(number < group_threads)];
            let (progress, copy) = (&progress, &copy);
            scope.spawn(move || {
                while let Some(queued) = next_some(receiver, *most) {
                    let open = |Queued { task, ticket }| (task, ticket);
                    let (tasks, tickets): (_, Vec<Ticket>) = queued.into_iter().map(open).unzip();
                    for outcome in copy(tasks, progress) {
                        match outcome {
                            Ok(()) => progress.file(),
                            Err(failure) => progress.suspend(|| context.report(&failure)),
                        }
                    }
                    drop(tickets);
                }
            });
        }
        walk(&Queue::new(sender, Some(Grouped { sender: group_sender, joins })))
    });
    progress.end();
    walked
}

/// The next task, and more if they wait already.
fn next_some<T>(receiver: &Mutex<Receiver<T>>, most: usize) -> Option<Vec<T>> {
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tasks = vec![receiver.recv().ok()?];
    tasks.extend(receiver.try_iter().take(most - 1));
    Some(tasks)
}

fn next<T>(receiver: &Mutex<Receiver<T>>) -> Option<T> {
    // A copying thread that panics does so outside the lock.
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
