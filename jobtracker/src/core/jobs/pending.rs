//! Tasks of one job that wait for a slot, found by machine, by rack, or in order, without a search through the others.
//!
//! Invariants: every waiting task is in the queue `any` and in one queue per host and rack of its split, or in `retries`; entries of tasks
//! that no longer wait are dropped when they reach the front. A task that failed on a worker is offered to that worker only at
//! [`Level::Avoided`].

use std::collections::{HashMap, VecDeque};

use protocol::jobs::Splits;

use crate::core::level::Level;

/// How many retries are searched for one that suits a worker; bounds the work per slot.
const RETRIES_SEEN_MAX: usize = 32;

/// Waiting tasks of one kind.
#[derive(Debug, Default)]
pub(crate) struct PendingTasks {
    waiting: Vec<Waiting>,
    count: u32,
    /// By task; shorter than the tasks if those from there on have no place.
    localities: Vec<Locality>,
    hosts: HashMap<String, usize>,
    racks: HashMap<String, usize>,
    by_host: Vec<VecDeque<u32>>,
    by_rack: Vec<VecDeque<u32>>,
    any: VecDeque<u32>,
    retries: VecDeque<u32>,
    /// How often any task began to wait.
    push_count: u64,
}

/// Where a task's valid entries are. Entries elsewhere are outdated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiting {
    No,
    ByPlace,
    AsRetry,
}

#[derive(Debug, Default)]
struct Locality {
    hosts: Box<[usize]>,
    racks: Box<[usize]>,
}

impl PendingTasks {
    /// Makes the queues for these splits; no task waits yet.
    pub(crate) fn of_splits(splits: &Splits) -> Self {
        let mut pending =
            PendingTasks { waiting: vec![Waiting::No; splits.len()], ..PendingTasks::default() };
        for split in 0..splits.len() {
            let hosts = splits
                .hosts_of(split)
                .map(|host| number(&mut pending.hosts, &mut pending.by_host, host));
            let hosts = hosts.collect();
            let racks = splits
                .racks_of(split)
                .map(|rack| number(&mut pending.racks, &mut pending.by_rack, rack));
            let racks = racks.collect();
            pending.localities.push(Locality { hosts, racks });
        }
        pending
    }

    /// Makes the queue for `count` tasks without a place; no task waits yet.
    pub(crate) fn anywhere(count: u32) -> Self {
        PendingTasks { waiting: vec![Waiting::No; count as usize], ..PendingTasks::default() }
    }

    /// Makes room for more tasks without a place; none of them waits yet.
    pub(crate) fn grow(&mut self, count: u32) {
        let count = self.waiting.len() + count as usize;
        self.waiting.resize(count, Waiting::No);
    }

    /// Gives a task that does not wait the machine of its input, or none.
    pub(crate) fn set_host(&mut self, task: u32, host: Option<&str>) {
        let number = host.map(|host| number(&mut self.hosts, &mut self.by_host, host));
        let least = self.localities.len().max(task as usize + 1);
        self.localities.resize_with(least, Locality::default);
        self.localities[task as usize] =
            Locality { hosts: number.into_iter().collect(), racks: Box::default() };
    }

    /// Number of waiting tasks.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// How often any task began to wait.
    pub(crate) fn push_count(&self) -> u64 {
        self.push_count
    }

    /// Adds a waiting task. `retry`: an attempt of it has failed somewhere.
    pub(crate) fn push(&mut self, task: u32, retry: bool) {
        let waiting = &mut self.waiting[task as usize];
        if *waiting != Waiting::No {
            return;
        }
        *waiting = if retry { Waiting::AsRetry } else { Waiting::ByPlace };
        self.count += 1;
        self.push_count += 1;
        if retry {
            self.retries.push_back(task);
            return;
        }
        if let Some(locality) = self.localities.get(task as usize) {
            locality.hosts.iter().for_each(|host| self.by_host[*host].push_back(task));
            locality.racks.iter().for_each(|rack| self.by_rack[*rack].push_back(task));
        }
        self.any.push_back(task);
    }

    /// Removes a waiting task, if it waits.
    pub(crate) fn remove(&mut self, task: u32) {
        if std::mem::replace(&mut self.waiting[task as usize], Waiting::No) != Waiting::No {
            self.count -= 1;
        }
    }

    /// Takes a task for a worker at `host` in `rack`; `avoids` returns whether a task must not go there because it has failed there. The
    /// returned level is the task's true nearness.
    pub(crate) fn take(
        &mut self,
        level: Level,
        host: &str,
        rack: &str,
        avoids: impl Fn(u32) -> bool,
    ) -> Option<(u32, Level)> {
        if self.count == 0 {
            return None;
        }
        let fresh = match level {
            Level::Node => match self.hosts.get(host) {
                Some(queue) => pop(&mut self.by_host[*queue], &self.waiting),
                None => None,
            },
            Level::Rack => match self.racks.get(rack) {
                Some(queue) => pop(&mut self.by_rack[*queue], &self.waiting),
                None => None,
            },
            Level::Any | Level::Avoided => {
                let retry = self.pop_retry(avoids);
                retry.or_else(|| pop(&mut self.any, &self.waiting))
            }
        };
        let task = fresh?;
        self.remove(task);
        Some((task, self.nearness(task, host, rack)))
    }

    /// True if a task waits whose input is on a machine for which `is_there` holds.
    pub(crate) fn waits_near(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let (by_host, waiting) = (&mut self.by_host, &self.waiting);
        self.hosts
            .iter()
            .any(|(host, queue)| is_there(host) && front(&mut by_host[*queue], waiting))
    }

    /// True if a task waits whose input is on this machine.
    pub(crate) fn waits_at(&mut self, host: &str) -> bool {
        let (by_host, waiting) = (&mut self.by_host, &self.waiting);
        self.hosts.get(host).is_some_and(|queue| front(&mut by_host[*queue], waiting))
    }

    /// How near a worker at `host` in `rack` is to a task's input.
    pub(crate) fn nearness(&self, task: u32, host: &str, rack: &str) -> Level {
        let Some(locality) = self.localities.get(task as usize) else { return Level::Any };
        match (self.hosts.get(host), self.racks.get(rack)) {
            (Some(host), _) if locality.hosts.contains(host) => Level::Node,
            (_, Some(rack)) if locality.racks.contains(rack) => Level::Rack,
            _ => Level::Any,
        }
    }

    /// True if failed tasks wait.
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Bytes of the tables that have an entry for each task.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>()
            + self.localities.capacity() * size_of::<Locality>()
            + self.any.capacity() * size_of::<u32>()
    }

    fn pop_retry(&mut self, avoids: impl Fn(u32) -> bool) -> Option<u32> {
        let mut position = 0;
        while position < self.retries.len().min(RETRIES_SEEN_MAX) {
            let task = self.retries[position];
            if self.waiting[task as usize] != Waiting::AsRetry {
                self.retries.remove(position);
            } else if !avoids(task) {
                self.retries.remove(position);
                return Some(task);
            } else {
                position += 1;
            }
        }
        None
    }
}

fn number(
    numbers: &mut HashMap<String, usize>,
    queues: &mut Vec<VecDeque<u32>>,
    name: &str,
) -> usize {
    if let Some(number) = numbers.get(name) {
        return *number;
    }
    let number = queues.len();
    queues.push(VecDeque::new());
    numbers.insert(name.to_owned(), number);
    number
}

/// True if a task of the queue waits; drops the entries before it that no longer do.
fn front(queue: &mut VecDeque<u32>, waiting: &[Waiting]) -> bool {
    while let Some(task) = queue.front() {
        if waiting[*task as usize] == Waiting::ByPlace {
            return true;
        }
        queue.pop_front();
    }
    false
}

fn pop(queue: &mut VecDeque<u32>, waiting: &[Waiting]) -> Option<u32> {
    loop {
        let task = queue.pop_front()?;
        if waiting[task as usize] == Waiting::ByPlace {
            return Some(task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::DfsPath;
    use protocol::jobs::Split;

    fn split(hosts: &[&str], racks: &[&str]) -> Split {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Split {
            path: DfsPath::parse("/in").unwrap(),
            offset: 0,
            length: 1,
            hosts: owned(hosts),
            racks: owned(racks),
            input: 0,
            more: Vec::new(),
        }
    }

    fn sample() -> PendingTasks {
        let splits = [
            split(&["a", "b"], &["/r1"]),
            split(&["c"], &["/r2"]),
            split(&["b"], &["/r1"]),
            split(&[], &[]),
        ];
        let mut pending = PendingTasks::of_splits(&splits.into_iter().collect());
        (0..4).for_each(|task| pending.push(task, false));
        pending
    }

    #[test]
    fn nearest_first_and_never_twice() {
        let mut pending = sample();
        let never = |_| false;
        assert_eq!(pending.take(Level::Node, "b", "/r1", never), Some((0, Level::Node)));
        assert_eq!(pending.take(Level::Node, "a", "/r1", never), None, "task 0 is taken");
        assert_eq!(pending.take(Level::Rack, "x", "/r1", never), Some((2, Level::Rack)));
        assert_eq!(pending.take(Level::Any, "x", "/r9", never), Some((1, Level::Any)));
        assert_eq!(pending.take(Level::Any, "x", "/r9", never), Some((3, Level::Any)));
        assert_eq!((pending.take(Level::Any, "x", "/r9", never), pending.len()), (None, 0));
    }

    #[test]
    fn a_task_can_be_added_and_move() {
        let mut pending = PendingTasks::anywhere(1);
        pending.grow(2);
        for (host, other) in [("a", "b"), ("b", "a")] {
            pending.set_host(2, Some(host));
            pending.push(2, false);
            assert!(pending.waits_at(host));
            assert_eq!(pending.nearness(2, other, ""), Level::Any);
            assert_eq!(pending.take(Level::Node, host, "", |_| false), Some((2, Level::Node)));
            assert!(!pending.waits_at(host));
        }
        pending.set_host(2, None);
        pending.push(2, false);
        assert_eq!(pending.nearness(2, "b", ""), Level::Any);
        assert_eq!(
            (pending.take(Level::Any, "b", "", |_| false), pending.len()),
            (Some((2, Level::Any)), 0)
        );
    }

    #[test]
    fn a_failed_task_goes_to_another_worker_if_it_can() {
        let mut pending = PendingTasks::anywhere(2);
        pending.push(0, true);
        assert_eq!(pending.take(Level::Any, "a", "/r", |_| true), None);
        assert_eq!(pending.take(Level::Any, "b", "/r", |_| false), Some((0, Level::Any)));
        pending.push(1, true);
        assert_eq!(pending.take(Level::Avoided, "a", "/r", |_| false), Some((1, Level::Any)));
    }

    #[test]
    fn requeued_tasks_are_found_again_and_counted_once() {
        let mut pending = sample();
        assert_eq!(pending.take(Level::Any, "z", "", |_| false), Some((0, Level::Any)));
        pending.push(0, false);
        pending.push(0, false);
        assert_eq!(pending.len(), 4);
        let mut taken = Vec::new();
        while let Some((task, _)) = pending.take(Level::Any, "z", "", |_| false) {
            taken.push(task);
        }
        assert_eq!(taken, [1, 2, 3, 0]);
        assert_eq!(pending.take(Level::Node, "a", "", |_| false), None);
    }
}
