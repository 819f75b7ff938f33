//! Copies many files at once: one thread walks the tree, several copy.
//!
//! The queue between them is bounded, so a tree of millions of files costs almost no memory. A space quota counts each block that is being written as a whole
//! one: what it refuses while other files are being copied is tried again when nothing else is.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// Most files that wait to be tried again, as many as may wait for a thread.
const DEFERRED_MAX: usize = QUEUE_MAX;

/// One file to copy.
pub(super) trait Repeatable {
    /// False if its bytes can be read only once.
    fn can_repeat(&self) -> bool;
}

/// Hands files to the copying threads.
pub(super) struct Queue<'a, T> {
    sender: SyncSender<Queued<T>>,
    grouped: Option<Grouped<T>>,
    pending: Arc<Pending>,
    /// Where the operands of the command go.
    claimed: RefCell<BTreeSet<FsPath>>,
    /// Tries again what was deferred.
    repeat: &'a dyn Fn(),
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

impl<'a, T> Queue<'a, T> {
    fn new(
        sender: SyncSender<Queued<T>>,
        grouped: Option<Grouped<T>>,
        repeat: &'a dyn Fn(),
    ) -> Self {
        let (pending, claimed) = Default::default();
        Queue { sender, grouped, pending, claimed, repeat }
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
        (self.repeat)();
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

/// What the threads of a copy share.
struct Crew<'a, T, C> {
    context: &'a Context,
    progress: Progress,
    copy: C,
    /// Files that are being copied, and that were begun.
    active: AtomicUsize,
    begun: AtomicUsize,
    /// Files that may have been refused only because of others.
    deferred: Mutex<Vec<T>>,
}

impl<'a, T: Repeatable, C: Fn(&[T], &Progress) -> Vec<Result<(), Failure>>> Crew<'a, T, C> {
    fn new(context: &'a Context, copy: C) -> Self {
        let (active, begun, deferred) = Default::default();
        Crew { context, progress: Progress::new(), copy, active, begun, deferred }
    }

    fn copy(&self, queued: Vec<Queued<T>>) {
        let open = |Queued { task, ticket }| (task, ticket);
        let (tasks, tickets): (Vec<T>, Vec<Ticket>) = queued.into_iter().map(open).unzip();
        let count = tasks.len();
        let begun = self.begun.fetch_add(count, Ordering::SeqCst);
        let others = self.active.fetch_add(count, Ordering::SeqCst);
        let outcomes = (self.copy)(&tasks, &self.progress);
        let was_alone =
            count == 1 && others == 0 && self.begun.load(Ordering::SeqCst) == begun + count;
        self.active.fetch_sub(count, Ordering::SeqCst);
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            let is_refused = matches!(outcome, Err(Failure::SpaceQuota(_)));
            match is_refused && !was_alone && task.can_repeat() {
                true => self.defer(task, outcome),
                false => self.tell(outcome),
            }
        }
        drop(tickets);
    }

    fn defer(&self, task: T, outcome: Result<(), Failure>) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        if deferred.len() < DEFERRED_MAX {
            return deferred.push(task);
        }
        drop(deferred);
        self.tell(outcome);
    }

    /// Copies what was deferred, one after the other, while nothing else is copied.
    fn repeat(&self) {
        let mut deferred = self.deferred.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = std::mem::take(&mut *deferred);
        drop(deferred);
        for task in tasks {
            let outcomes = (self.copy)(&[task], &self.progress);
            outcomes.into_iter().for_each(|outcome| self.tell(outcome));
        }
    }

    fn tell(&self, outcome: Result<(), Failure>) {
        match outcome {
            Ok(()) => self.progress.file(),
            Err(failure) => self.progress.suspend(|| self.context.report(&failure)),
        }
    }
}

/// Runs `walk` here and `copy` on several threads for everything that `walk` pushes. Failures of single files are
/// reported and do not stop the others.
pub(super) fn run<T: Repeatable + Send>(
    context: &Context,
    sizes: Sizes,
    walk: impl FnOnce(&Queue<'_, T>) -> Result<(), Failure>,
    copy: impl Fn(&T, &Progress) -> Result<(), Failure> + Sync,
) -> Result<(), Failure> {
    let each = |tasks: &[T], progress: &Progress| {
        tasks.iter().map(|task| copy(task, progress)).collect::<Vec<_>>()
    };
    let crew = Crew::new(context, each);
    let (sender, receiver) = sync_channel::<Queued<T>>(sizes.queue);
    let receiver = Mutex::new(receiver);
    let walked = thread::scope(|scope| {
        for _ in 0..sizes.threads {
            scope.spawn(|| {
                while let Some(queued) = next_some(&receiver, 1) {
                    crew.copy(queued);
                }
            });
        }
        // The queue is dropped with the walk: the threads end when it is empty.
        walk(&Queue::new(sender, None, &|| crew.repeat()))
    });
    crew.repeat();
    crew.progress.end();
    walked
}

/// As [`run`]; files for which `joins` is true are handed to `copy` in groups, others one by one. It returns an outcome for each.
pub(super) fn run_grouped<T: Repeatable + Send>(
    context: &Context,
    sizes: Sizes,
    joins: fn(&T) -> bool,
    walk: impl FnOnce(&Queue<'_, T>) -> Result<(), Failure>,
    copy: impl Fn(&[T], &Progress) -> Vec<Result<(), Failure>> + Sync,
) -> Result<(), Failure> {
    let crew = Crew::new(context, copy);
    let (sender, receiver) = sync_channel(sizes.queue);
    let (group_sender, group_receiver) = sync_channel(sizes.queue);
    let receivers = [(1, Mutex::new(receiver)), (GROUP_FILES_MAX, Mutex::new(group_receiver))];
    let group_threads = GROUP_THREADS_MAX.min(sizes.threads / 2).max(1);
    let walked = thread::scope(|scope| {
        for number in 0..sizes.threads {
            let (most, receiver) = &receivers[usize::from(number < group_threads)];
            let crew = &crew;
            scope.spawn(move || {
                while let Some(queued) = next_some(receiver, *most) {
                    crew.copy(queued);
                }
            });
        }
        let grouped = Some(Grouped { sender: group_sender, joins });
        walk(&Queue::new(sender, grouped, &|| crew.repeat()))
    });
    crew.repeat();
    crew.progress.end();
    walked
}

/// The next task, and more if they wait already.
fn next_some<T>(receiver: &Mutex<Receiver<T>>, most: usize) -> Option<Vec<T>> {
    // A copying thread that panics does so outside the lock.
    let receiver = receiver.lock().unwrap_or_else(PoisonError::into_inner);
    let mut tasks = vec![receiver.recv().ok()?];
    tasks.extend(receiver.try_iter().take(most - 1));
    Some(tasks)
}
