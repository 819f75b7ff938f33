//! All maps or all reduces of a job, with running totals.
//!
//! Invariant: tasks change only through [`TaskSet::change`], which keeps the totals and the queue of waiting tasks correct: a task waits
//! exactly while it is [`Standing::Pending`] and not held back (until the queue is closed at the job's end).

use std::collections::BTreeSet;

use protocol::jobs::TaskCounts;

use super::pending::PendingTasks;
use super::task::{AttemptState, Standing, Task};
use crate::core::level::Level;

/// A task to which nothing has happened yet.
static FRESH: Task = Task { attempts: Vec::new(), winner: None };

/// Tasks by number. One to which nothing has happened takes as much room as a pointer: a short submission can ask for a million.
#[derive(Debug)]
pub(crate) struct Tasks(Vec<Option<Box<Task>>>);

impl Tasks {
    /// One task; `None` if the number does not exist.
    pub(crate) fn get(&self, index: u32) -> Option<&Task> {
        self.0.get(index as usize).map(|task| task.as_deref().unwrap_or(&FRESH))
    }

    /// A task to change.
    ///
    /// REQUIRES: `index` is the number of a task.
    fn make(&mut self, index: u32) -> &mut Task {
        self.0[index as usize].get_or_insert_default()
    }

    fn grow(&mut self, count: u32) {
        self.0.resize_with(self.0.len() + count as usize, || None);
    }
}

/// Tasks of one kind.
#[derive(Debug)]
pub(crate) struct TaskSet {
    tasks: Tasks,
    pending: PendingTasks,
    /// Tasks that wait for no slot yet; shorter than the tasks if none from there on is held back.
    held: Vec<bool>,
    open: bool,
    completed: u32,
    running: u32,
    failed_attempts: u32,
    killed_attempts: u32,
    progress: f64,
    /// Tasks with attempts that hold slots.
    live: BTreeSet<u32>,
    live_attempts: u32,
    /// Number of winners, and how long they took together, milliseconds.
    timed: u32,
    timed_ms: u64,
    /// How long all attempts that are over took together, milliseconds.
    spent_ms: u64,
}

/// What one task adds to the totals.
struct Share {
    standing: Standing,
    failed: u32,
    killed: u32,
    live: u32,
    winner_ms: Option<u64>,
    spent_ms: u64,
    progress: f64,
}

impl TaskSet {
    /// All tasks wait; `pending` knows their places.
    pub(crate) fn new(count: u32, mut pending: PendingTasks) -> Self {
        (0..count).for_each(|task| pending.push(task, false));
        let mut tasks = Tasks(Vec::new());
        tasks.grow(count);
        TaskSet {
            tasks,
            pending,
            held: Vec::new(),
            open: true,
            completed: 0,
            running: 0,
            failed_attempts: 0,
            killed_attempts: 0,
            progress: 0.0,
            live: BTreeSet::new(),
            live_attempts: 0,
            timed: 0,
            timed_ms: 0,
            spent_ms: 0,
        }
    }

    /// Number of tasks.
    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.tasks.0.len()).expect("task numbers are u32")
    }

    /// Tasks with a winner.
    pub(crate) fn completed(&self) -> u32 {
        self.completed
    }

    /// Tasks with an attempt that holds a slot and no winner.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// Attempts that hold a slot.
    pub(crate) fn live_attempts(&self) -> u32 {
        self.live_attempts
    }

    /// Tasks with attempts that hold slots, in order.
    pub(crate) fn live(&self) -> impl Iterator<Item = (u32, &Task)> {
        self.live.iter().filter_map(|index| Some((*index, self.task(*index)?)))
    }

    /// Mean time of the winners, milliseconds.
    pub(crate) fn mean_ms(&self) -> Option<u64> {
        self.timed_ms.checked_div(u64::from(self.timed))
    }

    /// How long all attempts that are over took together, milliseconds.
    pub(crate) fn spent_ms(&self) -> u64 {
        self.spent_ms
    }

    /// Tasks that wait for a slot.
    pub(crate) fn waiting(&self) -> u32 {
        if self.open { self.pending.len() } else { 0 }
    }

    /// How often a task began to wait for a slot.
    pub(crate) fn push_count(&self) -> u64 {
        self.pending.push_count()
    }

    /// True if every task has a winner.
    pub(crate) fn is_done(&self) -> bool {
        self.completed == self.len()
    }

    /// How near a worker at `host` in `rack` is to a task's input.
    pub(crate) fn nearness(&self, index: u32, host: &str, rack: &str) -> Level {
        self.pending.nearness(index, host, rack)
    }

    /// True if tasks that have failed before wait.
    pub(crate) fn has_retries(&self) -> bool {
        self.pending.has_retries()
    }

    /// One task; `None` if the number does not exist.
    pub(crate) fn task(&self, index: u32) -> Option<&Task> {
        self.tasks.get(index)
    }

    /// All tasks in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Task)> {
        (0..self.len()).filter_map(|index| Some((index, self.task(index)?)))
    }

    /// The queue of waiting tasks and the tasks.
    pub(crate) fn pending_mut(&mut self) -> (&mut PendingTasks, &Tasks) {
        (&mut self.pending, &self.tasks)
    }

    /// Changes a task.
    ///
    /// REQUIRES: `index` is the number of a task.
    pub(crate) fn change<R>(&mut self, index: u32, change: impl FnOnce(&mut Task) -> R) -> R {
        let task = self.tasks.make(index);
        let before = share(task);
        let result = change(task);
        let after = share(task);
        let count = |standing, share: &Share| u32::from(share.standing == standing);
        self.completed = self.completed + count(Standing::Completed, &after)
            - count(Standing::Completed, &before);
        self.running =
            self.running + count(Standing::Running, &after) - count(Standing::Running, &before);
        self.failed_attempts = self.failed_attempts + after.failed - before.failed;
        self.killed_attempts = self.killed_attempts + after.killed - before.killed;
        self.progress += after.progress - before.progress;
        self.live_attempts = self.live_attempts + after.live - before.live;
        if after.live > 0 {
            self.live.insert(index);
        } else {
            self.live.remove(&index);
        }
        let timed =
            |share: &Share| (u32::from(share.winner_ms.is_some()), share.winner_ms.unwrap_or(0));
        let ((old, old_ms), (new, new_ms)) = (timed(&before), timed(&after));
        (self.timed, self.timed_ms) = (self.timed + new - old, self.timed_ms + new_ms - old_ms);
        self.spent_ms = self.spent_ms.wrapping_add(after.spent_ms).wrapping_sub(before.spent_ms);
        if self.open {
            self.queue(index);
        }
        result
    }

    /// Adds tasks, which are held back.
    pub(crate) fn grow(&mut self, count: u32) {
        let (old, new) = (self.tasks.0.len(), self.tasks.0.len() + count as usize);
        self.tasks.grow(count);
        self.held.resize(old, false);
        self.held.resize(new, true);
        if self.open {
            self.pending.grow(count);
        }
    }

    /// Holds a task back from waiting for a slot, or no longer.
    ///
    /// REQUIRES: `index` is the number of a task.
    pub(crate) fn hold(&mut self, index: u32, is_held: bool) {
        let least = self.held.len().max(index as usize + 1);
        self.held.resize(least, false);
        self.held[index as usize] = is_held;
        if self.open {
            self.queue(index);
        }
    }

    /// Gives a task the machine of its input, or none; it must be held back.
    pub(crate) fn set_host(&mut self, index: u32, host: Option<&str>) {
        if self.open {
            self.pending.set_host(index, host);
        }
    }

    /// Lets a task wait exactly if it should.
    fn queue(&mut self, index: u32) {
        let Some(task) = self.tasks.get(index) else { return };
        let is_held = self.held.get(index as usize) == Some(&true);
        match task.standing() {
            Standing::Pending if !is_held => {
                self.pending.push(index, task.count(AttemptState::Failed) > 0);
            }
            _ => self.pending.remove(index),
        }
    }

    /// Removes all waiting tasks; none will wait any more.
    pub(crate) fn close(&mut self) {
        self.open = false;
        self.pending = PendingTasks::default();
    }

    /// Totals for people.
    pub(crate) fn counts(&self) -> TaskCounts {
        TaskCounts {
            total: self.len(),
            pending: self.len() - self.completed - self.running,
            running: self.running,
            completed: self.completed,
            failed_attempts: self.failed_attempts,
            killed_attempts: self.killed_attempts,
        }
    }

    /// Mean progress, 0 to 1; 1 exactly if all are done (or there is none).
    pub(crate) fn progress(&self) -> f32 {
        if self.is_done() {
            return 1.0;
        }
        (self.progress / f64::from(self.len())).clamp(0.0, 0.999_9) as f32
    }
}

fn share(task: &Task) -> Share {
    Share {
        standing: task.standing(),
        failed: task.count(AttemptState::Failed),
        killed: task.count(AttemptState::Killed),
        live: u32::try_from(task.live().count()).expect("attempt numbers are u32"),
        winner_ms: task.winner_ms(),
        spent_ms: task.spent_ms(),
        progress: f64::from(task.progress()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room of a task that waits, bytes: the pointer to it, its place in the queue, and its mark there. The queue may have grown to twice its length.
    const WAITING_BYTES_MAX: usize = 24;

    #[test]
    fn a_task_that_waits_takes_few_bytes() {
        let count = 10_000;
        let set = TaskSet::new(count, PendingTasks::anywhere(count));
        let bytes = set.tasks.0.capacity() * size_of::<Option<Box<Task>>>() + set.pending.bytes();
        assert!(bytes <= count as usize * WAITING_BYTES_MAX, "{bytes}");
        assert!(set.iter().all(|(_, task)| task.standing() == Standing::Pending));
        assert_eq!((set.iter().count(), set.waiting()), (count as usize, count));
        assert!(set.task(count).is_none());
    }
}
