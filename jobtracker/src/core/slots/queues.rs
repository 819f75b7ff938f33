//! Queues (Hadoop's pools): which job is next when a slot is free.
//!
//! A queue below its minimum comes first, then the queue with the fewest slots for its weight. Within a fair queue the job with the fewest
//! slots for its priority comes first, within a FIFO queue the most urgent, oldest job. Among equals, the job that has waited longest since
//! its last slot comes first: otherwise one slot for two jobs would always go to the same job.
//!
//! Invariants: a queue's slots are the sum of its jobs' slots, and of its users'; a queue exists while it is configured or holds a job; the
//! order depends only on numbers, names and ids, not on what happened in between; jobs that a limit keeps from a slot are not among the
//! candidates, so checking a full queue costs nothing however many jobs wait in it.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::jobs::Priority;
use protocol::{ErrorKind, JobId, RemoteError};
use serde::{Deserialize, Serialize};

use super::shares::Claim;

/// The queue of jobs that name none, unless each user has one of their own.
pub(crate) const DEFAULT_QUEUE: &str = "default";

/// How the jobs of a queue share its slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// All at once; each step of priority doubles or halves a job's part.
    #[default]
    Fair,
    /// By priority, then by age.
    Fifo,
}

impl Policy {
    /// The name in the configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Policy::Fair => "fair",
            Policy::Fifo => "fifo",
        }
    }
}

/// Rules of a queue, as configured. Every key has a default; a limit of 0 is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueueRules {
    /// `fair` or `fifo`. Default `fair`.
    pub policy: Policy,
    /// Its part of the cluster relative to other queues, at least 1. Default 1.
    pub weight: u32,
    /// Slots that it gets first if it can use them. Default 0.
    pub slots_min: u32,
    /// Most slots of its jobs together. Default 0.
    pub slots_max: u32,
    /// Most slots of its jobs together, in per cent of those of all workers that may get work. Default 0.
    pub percent_max: u32,
    /// Most slots of one user's jobs in it together. Default 0.
    pub user_slots_max: u32,
    /// The same in per cent of the slots of all workers that may get work. Default 0.
    pub user_percent_max: u32,
    /// Most of its jobs that run at once. Default 0.
    pub running_jobs_max: u32,
    /// True if it accepts jobs. Default true.
    pub running: bool,
}

impl Default for QueueRules {
    fn default() -> Self {
        QueueRules {
            policy: Policy::Fair,
            weight: 1,
            slots_min: 0,
            slots_max: 0,
            percent_max: 0,
            user_slots_max: 0,
            user_percent_max: 0,
            running_jobs_max: 0,
            running: true,
        }
    }
}

impl QueueRules {
    /// Most slots of the queue on a cluster with this many.
    pub(crate) fn cap(&self, slot_total: u64) -> u64 {
        limit(self.slots_max, self.percent_max, slot_total)
    }

    /// Most slots of one user in the queue on a cluster with this many.
    pub(crate) fn user_cap(&self, slot_total: u64) -> u64 {
        limit(self.user_slots_max, self.user_percent_max, slot_total)
    }
}

/// The smaller of both limits; a percentage never means no slot at all.
fn limit(count: u32, percent: u32, slot_total: u64) -> u64 {
    let count = if count == 0 { u64::MAX } else { u64::from(count) };
    if percent == 0 {
        return count;
    }
    count.min((slot_total * u64::from(percent)).div_ceil(100).max(1))
}

/// Number of a queue; queues are numbered as they appear.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct QueueId(u32);

/// Rank of a job among the jobs of its queue that could use a slot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rank {
    /// Slots for its priority; 0 in a FIFO queue.
    load: u64,
    priority: Reverse<Priority>,
    /// When it got its last slot, counted in slots: among equals, the job that has waited longest comes first. 0 in a FIFO queue.
    served: u64,
    /// The job.
    pub(crate) job: JobId,
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: String,
    pub(crate) rules: QueueRules,
    /// Slots that its jobs hold.
    pub(crate) slots: u32,
    /// Jobs not over.
    pub(crate) jobs: BTreeSet<JobId>,
    /// Jobs not over that have started a task.
    pub(crate) started: u32,
    /// Since when it has had much less than its share.
    pub(crate) hungry_since: Option<Duration>,
    /// When it got its last slot, counted in slots.
    served: u64,
    users: BTreeMap<String, u32>,
    /// Jobs that could use a slot and may have one more within the limits on jobs and users.
    ready: BTreeSet<Rank>,
}

/// A job in its queue.
#[derive(Debug)]
struct Member {
    queue: QueueId,
    user: String,
    priority: Priority,
    slots: u32,
    served: u64,
    started: bool,
    ready: bool,
}

/// All queues.
#[derive(Debug)]
pub(crate) struct Queues {
    configured: BTreeMap<String, QueueRules>,
    per_user: bool,
    ids: BTreeMap<String, QueueId>,
    all: BTreeMap<QueueId, Queue>,
    members: BTreeMap<JobId, Member>,
    next: u32,
    /// Slots given so far.
    given: u64,
    /// Slots of the cluster that can be given; percentage limits refer to it.
    slot_total: u64,
}

impl Queues {
    /// The configured queues. `per_user`: jobs that name no queue go to their user's queue, otherwise to [`DEFAULT_QUEUE`].
    pub(crate) fn new(configured: BTreeMap<String, QueueRules>, per_user: bool) -> Self {
        let mut queues = Queues {
            per_user,
            ids: BTreeMap::new(),
            all: BTreeMap::new(),
            members: BTreeMap::new(),
            next: 0,
            given: 0,
            slot_total: 0,
            configured,
        };
        let names: Vec<String> = queues.configured.keys().cloned().collect();
        for name in names {
            queues.open(&name);
        }
        queues.open(DEFAULT_QUEUE);
        queues
    }

    /// Replaces the rules. A queue with jobs cannot be removed.
    pub(crate) fn configure(&mut self, rules: BTreeMap<String, QueueRules>) -> Result<(), String> {
        let is_lost = |queue: &&Queue| {
            let known = |all: &BTreeMap<String, QueueRules>| all.contains_key(&queue.name);
            !queue.jobs.is_empty() && known(&self.configured) && !known(&rules)
        };
        if let Some(queue) = self.all.values().find(is_lost) {
            return Err(format!(
                "The queues stay as they are: {} has {} jobs; give it `running = false` and take it away when they are over",
                queue.name,
                queue.jobs.len()
            ));
        }
        self.configured = rules;
        let is_lasting = |name: &str| name == DEFAULT_QUEUE || self.configured.contains_key(name);
        self.all.retain(|_, queue| !queue.jobs.is_empty() || is_lasting(&queue.name));
        self.ids.retain(|_, id| self.all.contains_key(id));
        for queue in self.all.values_mut() {
            queue.rules = self.configured.get(&queue.name).copied().unwrap_or_default();
        }
        let names: Vec<String> = self.configured.keys().cloned().collect();
        for name in &names {
            self.open(name);
        }
        let all: Vec<QueueId> = self.all.keys().copied().collect();
        all.into_iter().for_each(|id| self.list(id));
        Ok(())
    }

    /// The queue for a job of `user` that requests `wanted`.
    pub(crate) fn admit(&self, wanted: Option<&str>, user: &str) -> Result<String, RemoteError> {
        let own = if self.per_user { user } else { DEFAULT_QUEUE };
        let name = wanted.unwrap_or(own);
        let refuse = |reason| Err(RemoteError::new(ErrorKind::InvalidArgument, reason));
        if !self.ids.contains_key(name) && name != own {
            let known: Vec<&str> = self.ids.keys().map(String::as_str).collect();
            return refuse(format!("Queue {name} does not exist; there are {}", known.join(", ")));
        }
        match self.configured.get(name) {
            Some(rules) if !rules.running => refuse(format!("Queue {name} is not running")),
            _ => Ok(name.to_owned()),
        }
    }

    /// A job is added to a queue.
    pub(crate) fn enter(&mut self, job: JobId, queue: &str, user: &str, priority: Priority) {
        let id = self.open(queue);
        if let Some(queue) = self.all.get_mut(&id) {
            queue.jobs.insert(job);
        }
        let member = Member {
            queue: id,
            user: user.to_owned(),
            priority,
            slots: 0,
            served: 0,
            started: false,
            ready: false,
        };
        self.members.insert(job, member);
    }

    /// A job is over.
    ///
    /// REQUIRES: it holds no slot.
    pub(crate) fn leave(&mut self, job: JobId) {
        self.change(job, |queue, member| {
            queue.jobs.remove(&job);
            queue.started -= u32::from(member.started);
            (member.ready, member.started) = (false, false);
        });
        let Some(member) = self.members.remove(&job) else { return };
        debug_assert_eq!(member.slots, 0, "{job} leaves with slots");
        let Some(queue) = self.all.get(&member.queue) else { return };
        let is_lasting = queue.name == DEFAULT_QUEUE || self.configured.contains_key(&queue.name);
        if queue.jobs.is_empty() && !is_lasting {
            self.ids.remove(&queue.name);
            self.all.remove(&member.queue);
        }
    }

    /// A job becomes more or less urgent.
    pub(crate) fn set_priority(&mut self, job: JobId, priority: Priority) {
        self.change(job, |_, member| member.priority = priority);
    }

    /// A job can use a slot now, or cannot.
    pub(crate) fn set_ready(&mut self, job: JobId, ready: bool) {
        self.change(job, |_, member| member.ready = ready);
    }

    /// A job takes a slot.
    pub(crate) fn occupy(&mut self, job: JobId) {
        self.given += 1;
        let given = self.given;
        self.change(job, |queue, member| {
            queue.slots += 1;
            queue.served = given;
            queue.started += u32::from(!member.started);
            match queue.users.get_mut(&member.user) {
                Some(slots) => *slots += 1,
                None => {
                    queue.users.insert(member.user.clone(), 1);
                }
            }
            member.slots += 1;
            member.served = given;
            member.started = true;
        });
    }

    /// A job gives a slot back. True if jobs may continue that a limit of the queue held up.
    pub(crate) fn release(&mut self, job: JobId) -> bool {
        let queue = self.members.get(&job).and_then(|member| self.all.get(&member.queue));
        let was_full = queue.is_some_and(|queue| queue.is_full(self.slot_total));
        let is_limit_left = self.change(job, |queue, member| {
            queue.slots -= 1;
            member.slots -= 1;
            if let Some(slots) = queue.users.get_mut(&member.user) {
                *slots -= 1;
                if *slots == 0 {
                    queue.users.remove(&member.user);
                }
            }
        });
        was_full || is_limit_left
    }

    /// The cluster has this many slots to give now.
    pub(crate) fn resize(&mut self, slot_total: u64) {
        if std::mem::replace(&mut self.slot_total, slot_total) == slot_total {
            return;
        }
        let parts = self.all.iter().filter(|(_, queue)| queue.rules.user_percent_max > 0);
        for id in parts.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.list(id);
        }
    }

    /// Slots that the cluster has to give.
    pub(crate) fn slot_total(&self) -> u64 {
        self.slot_total
    }

    /// True if some job could use a slot and may have it.
    pub(crate) fn has_next(&self) -> bool {
        self.all.values().any(|queue| queue.has_next(self.slot_total))
    }

    /// Queues with jobs that could use a slot and may have one more, neediest first.
    pub(crate) fn order(&self) -> Vec<QueueId> {
        let may = |(_, queue): &(&QueueId, &Queue)| queue.has_next(self.slot_total);
        let mut order: Vec<(&QueueId, &Queue)> = self.all.iter().filter(may).collect();
        order.sort_by(|(_, left), (_, right)| need(left, right));
        order.into_iter().map(|(id, _)| *id).collect()
    }

    /// The job after `last` in a queue that could use a slot and may have one more.
    pub(crate) fn next_ready(&self, queue: QueueId, last: Option<Rank>) -> Option<Rank> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = last.map_or(Unbounded, Excluded);
        self.all.get(&queue)?.ready.range((from, Unbounded)).next().copied()
    }

    /// All jobs that could use a slot and may have one more.
    pub(crate) fn next_jobs(&self) -> impl Iterator<Item = JobId> {
        let queues = self.all.values().filter(|queue| queue.has_next(self.slot_total));
        queues.flat_map(|queue| &queue.ready).map(|rank| rank.job)
    }

    /// True if a job may have one slot more within the limits of its queue.
    pub(crate) fn has_room(&self, job: JobId) -> bool {
        let Some(member) = self.members.get(&job) else { return false };
        self.all.get(&member.queue).is_some_and(|queue| {
            !queue.is_full(self.slot_total) && queue.admits(member, self.slot_total)
        })
    }

    /// Slots that the jobs of a queue hold or may get. `wanted`: the slots that a job holds or could use.
    pub(crate) fn demand(&self, queue: &Queue, wanted: impl Fn(JobId) -> u32) -> u64 {
        let user_cap = queue.rules.user_cap(self.slot_total);
        let mut by_user = BTreeMap::<&str, u64>::new();
        for job in &queue.jobs {
            if let Some(member) = self.members.get(job).filter(|member| member.started) {
                *by_user.entry(&member.user).or_default() += u64::from(wanted(*job));
            }
        }
        let mut starts = match queue.rules.running_jobs_max {
            0 => u32::MAX,
            jobs_max => jobs_max.saturating_sub(queue.started),
        };
        for rank in &queue.ready {
            let Some(member) = self.members.get(&rank.job) else { continue };
            let used = by_user.entry(&member.user).or_default();
            if !member.started && starts > 0 && *used < user_cap {
                *used += u64::from(wanted(rank.job));
                starts -= 1;
            }
        }
        by_user.values().map(|used| (*used).min(user_cap)).sum()
    }

    /// All queues, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> {
        self.ids.values().filter_map(|id| self.all.get(id))
    }

    /// A queue.
    pub(crate) fn queue_mut(&mut self, name: &str) -> Option<&mut Queue> {
        self.ids.get(name).and_then(|id| self.all.get_mut(id))
    }

    /// Jobs that hold slots, in order.
    pub(crate) fn busy_jobs(&self) -> impl Iterator<Item = JobId> {
        self.members.iter().filter(|(_, member)| member.slots > 0).map(|(job, _)| *job)
    }

    /// Clears the patience of all queues: none of them is hungry.
    pub(crate) fn sate(&mut self) {
        self.all.values_mut().for_each(|queue| queue.hungry_since = None);
    }

    /// Slots that a job holds.
    #[cfg(test)]
    pub(crate) fn slots(&self, job: JobId) -> u32 {
        self.members.get(&job).map_or(0, |member| member.slots)
    }

    fn open(&mut self, name: &str) -> QueueId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let id = QueueId(self.next);
        self.next += 1;
        let rules = self.configured.get(name).copied().unwrap_or_default();
        let queue = Queue {
            name: name.to_owned(),
            rules,
            slots: 0,
            jobs: BTreeSet::new(),
            started: 0,
            hungry_since: None,
            served: 0,
            users: BTreeMap::new(),
            ready: BTreeSet::new(),
        };
        self.ids.insert(name.to_owned(), id);
        self.all.insert(id, queue);
        id
    }

    /// Changes a job and its queue. True if the change reaches or leaves a limit, which can concern all jobs of the queue.
    fn change(&mut self, job: JobId, change: impl FnOnce(&mut Queue, &mut Member)) -> bool {
        let Some(member) = self.members.get_mut(&job) else { return false };
        let id = member.queue;
        let Some(queue) = self.all.get_mut(&id) else { return false };
        queue.ready.remove(&rank(job, member, queue.rules.policy));
        let before = queue.limits(&member.user, self.slot_total);
        change(queue, member);
        if queue.limits(&member.user, self.slot_total) != before {
            self.list(id);
            return true;
        }
        if member.ready && queue.admits(member, self.slot_total) {
            queue.ready.insert(rank(job, member, queue.rules.policy));
        }
        false
    }

    /// Lists again the candidates of a queue.
    fn list(&mut self, id: QueueId) {
        let Some(ready) = self.all.get(&id).map(|queue| self.listing(queue)) else { return };
        if let Some(queue) = self.all.get_mut(&id) {
            queue.ready = ready;
        }
    }

    fn listing(&self, queue: &Queue) -> BTreeSet<Rank> {
        let listed = |job: &JobId| {
            let member = self.members.get(job).filter(|member| member.ready)?;
            let may = queue.admits(member, self.slot_total);
            may.then(|| rank(*job, member, queue.rules.policy))
        };
        queue.jobs.iter().filter_map(listed).collect()
    }
}

impl Queue {
    /// Its claim when its jobs can have `demand` slots in all.
    pub(crate) fn claim(&self, demand: u64, slot_total: u64) -> Claim {
        let demand = demand.min(self.rules.cap(slot_total));
        Claim {
            weight: self.rules.weight,
            least: u64::from(self.rules.slots_min).min(demand),
            most: demand,
        }
    }

    fn has_next(&self, slot_total: u64) -> bool {
        !self.ready.is_empty() && !self.is_full(slot_total)
    }

    fn is_full(&self, slot_total: u64) -> bool {
        u64::from(self.slots) >= self.rules.cap(slot_total)
    }

    /// Whether one more job may start, and whether a user may have one more slot.
    fn limits(&self, user: &str, slot_total: u64) -> (bool, bool) {
        let jobs_max = self.rules.running_jobs_max;
        let used = self.users.get(user).copied().unwrap_or(0);
        (
            jobs_max == 0 || self.started < jobs_max,
            u64::from(used) < self.rules.user_cap(slot_total),
        )
    }

    /// True if the limits on jobs and users let a job have one more slot.
    fn admits(&self, member: &Member, slot_total: u64) -> bool {
        let (one_more_job, one_more_slot) = self.limits(&member.user, slot_total);
        one_more_slot && (member.started || one_more_job)
    }
}

fn rank(job: JobId, member: &Member, policy: Policy) -> Rank {
    let (load, served) = match policy {
        Policy::Fair => (u64::from(member.slots) * divisor(member.priority), member.served),
        Policy::Fifo => (0, 0),
    };
    Rank { load, priority: Reverse(member.priority), served, job }
}

/// One step of priority is worth twice the slots.
fn divisor(priority: Priority) -> u64 {
    match priority {
        Priority::VeryHigh => 1,
        Priority::High => 2,
        Priority::Normal => 4,
        Priority::Low => 8,
        Priority::VeryLow => 16,
    }
}

/// The needier queue first: below its minimum, then by slots relative to its minimum or its weight.
fn need(left: &Queue, right: &Queue) -> Ordering {
    let is_needy = |queue: &Queue| queue.slots < queue.rules.slots_min;
    // Smaller fraction first: a/b < c/d as a·d < c·b.
    let fraction = |queue: &Queue, part: u32| (u64::from(queue.slots), u64::from(part.max(1)));
    let part =
        |queue: &Queue| if is_needy(queue) { queue.rules.slots_min } else { queue.rules.weight };
    let ((a, b), (c, d)) = (fraction(left, part(left)), fraction(right, part(right)));
    let by_need = is_needy(right).cmp(&is_needy(left));
    by_need
        .then((a * d).cmp(&(c * b)))
        .then(left.served.cmp(&right.served))
        .then_with(|| left.name.cmp(&right.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Queues {
        /// The incremental state must match a full recount of all jobs.
        pub(crate) fn check(&self) {
            for queue in self.all.values() {
                let members = || queue.jobs.iter().map(|job| &self.members[job]);
                assert_eq!(queue.ready, self.listing(queue), "{}", queue.name);
                assert_eq!(
                    queue.slots,
                    members().map(|member| member.slots).sum::<u32>(),
                    "{}",
                    queue.name
                );
                assert_eq!(queue.slots, queue.users.values().sum::<u32>(), "{}", queue.name);
                let started = members().filter(|member| member.started).count();
                assert_eq!(queue.started as usize, started, "{}", queue.name);
            }
        }
    }

    fn job(number: u32) -> JobId {
        JobId { cluster_start: 1, number }
    }

    fn queues(rules: &[(&str, QueueRules)]) -> Queues {
        let rules = rules.iter().map(|(name, rules)| ((*name).to_owned(), *rules));
        Queues::new(rules.collect(), true)
    }

    /// Gives out `count` slots of `total` to jobs with unlimited demand; returns the slots of each job.
    fn hand_out(queues: &mut Queues, count: u32, total: u64, jobs: &[JobId]) -> Vec<u32> {
        queues.resize(total);
        for _ in 0..count {
            let next = queues.order().into_iter().find_map(|queue| queues.next_ready(queue, None));
            assert_eq!(next.is_some(), queues.has_next());
            let Some(next) = next else { break };
            queues.occupy(next.job);
        }
        jobs.iter().map(|job| queues.slots(*job)).collect()
    }

    struct Case {
        what: &'static str,
        rules: Vec<(&'static str, QueueRules)>,
        /// Queue, user, priority.
        jobs: Vec<(&'static str, &'static str, Priority)>,
        slots: u32,
        expected: Vec<u32>,
    }

    fn cases() -> Vec<Case> {
        use Priority::Normal;
        let plain = QueueRules::default();
        let mut cases = by_policy();
        cases.extend([
            Case {
                what: "users share alike, not jobs",
                rules: vec![],
                jobs: vec![("ann", "ann", Normal), ("ann", "ann", Normal), ("bob", "bob", Normal)],
                slots: 8,
                expected: vec![2, 2, 4],
            },
            Case {
                what: "by weight",
                rules: vec![("big", QueueRules { weight: 3, ..plain })],
                jobs: vec![("big", "ann", Normal), ("bob", "bob", Normal)],
                slots: 8,
                expected: vec![6, 2],
            },
            Case {
                what: "a minimum comes first",
                rules: vec![
                    ("a", QueueRules { weight: 100, ..plain }),
                    ("urgent", QueueRules { slots_min: 3, ..plain }),
                ],
                jobs: vec![("a", "ann", Normal), ("urgent", "bob", Normal)],
                slots: 5,
                expected: vec![2, 3],
            },
            Case {
                what: "two minima are filled in proportion",
                rules: vec![
                    ("a", QueueRules { slots_min: 2, ..plain }),
                    ("b", QueueRules { slots_min: 6, ..plain }),
                ],
                jobs: vec![("a", "ann", Normal), ("b", "bob", Normal)],
                slots: 4,
                expected: vec![1, 3],
            },
            Case {
                what: "a cap leaves the rest to others, in slots and in per cent",
                rules: vec![
                    ("a", QueueRules { slots_max: 2, ..plain }),
                    ("b", QueueRules { percent_max: 10, ..plain }),
                ],
                jobs: vec![("a", "ann", Normal), ("b", "bob", Normal), ("cid", "cid", Normal)],
                slots: 10,
                expected: vec![2, 1, 7],
            },
            Case {
                what: "a user's cap within a queue",
                rules: vec![("a", QueueRules { user_slots_max: 2, ..plain })],
                jobs: vec![("a", "ann", Normal), ("a", "ann", Normal), ("a", "bob", Normal)],
                slots: 10,
                expected: vec![1, 1, 2],
            },
        ]);
        cases
    }

    fn by_policy() -> Vec<Case> {
        use Priority::{High, Low, Normal, VeryHigh};
        let plain = QueueRules::default();
        vec![
            Case {
                what: "first in, first out, the urgent before",
                rules: vec![("a", QueueRules { policy: Policy::Fifo, ..plain })],
                jobs: vec![("a", "ann", Normal), ("a", "bob", High), ("a", "cid", VeryHigh)],
                slots: 7,
                expected: vec![0, 0, 7],
            },
            Case {
                what: "a priority doubles or halves a fair part",
                rules: vec![],
                jobs: vec![("ann", "ann", High), ("ann", "ann", Normal), ("ann", "ann", Low)],
                slots: 14,
                expected: vec![8, 4, 2],
            },
            Case {
                what: "so many jobs at once",
                rules: vec![("a", QueueRules { running_jobs_max: 1, ..plain })],
                jobs: vec![("a", "ann", Normal), ("a", "bob", Normal)],
                slots: 4,
                expected: vec![4, 0],
            },
        ]
    }

    #[test]
    fn slots_go_to_who_is_next() {
        for Case { what, rules, jobs, slots, expected } in cases() {
            let mut queues = queues(&rules);
            let mut ids = Vec::new();
            for (number, (queue, user, priority)) in (1..).zip(jobs) {
                queues.enter(job(number), queue, user, priority);
                queues.set_ready(job(number), true);
                ids.push(job(number));
            }
            assert_eq!(hand_out(&mut queues, slots, u64::from(slots), &ids), expected, "{what}");
            for (id, count) in ids.iter().zip(expected) {
                for _ in 0..count {
                    queues.release(*id);
                }
                queues.leave(*id);
            }
            let left: Vec<(&str, u32)> =
                queues.iter().map(|queue| (queue.name.as_str(), queue.slots)).collect();
            assert_eq!(left.len(), rules.len() + 1, "{what}: queues of users are gone: {left:?}");
            assert!(left.iter().all(|(_, slots)| *slots == 0), "{what}: {left:?}");
        }
    }

    #[test]
    fn what_its_limits_forbid_a_queue_neither_offers_nor_claims() {
        let jobs_max = QueueRules { running_jobs_max: 1, ..QueueRules::default() };
        let user_max = QueueRules { user_slots_max: 2, ..QueueRules::default() };
        let percent = QueueRules { user_percent_max: 10, ..QueueRules::default() };
        // The slots that ann's first job has got, then the demand of the queue when each job wants 5 in all, and the next job.
        let cases: [(&str, QueueRules, u32, u64, Option<u32>); 7] = [
            ("none", QueueRules::default(), 1, 20, Some(2)),
            ("one job, not started", jobs_max, 0, 5, Some(1)),
            ("one job, started", jobs_max, 1, 5, Some(1)),
            ("a user's slots, nearly", user_max, 1, 4, Some(2)),
            ("a user's slots, all", user_max, 2, 4, Some(3)),
            ("a user's part of 20", percent, 2, 4, Some(3)),
            ("a user's part, nearly", percent, 1, 4, Some(2)),
        ];
        for (what, rules, held, demand, next) in cases {
            let mut queues = queues(&[("a", rules)]);
            for (number, user) in [(1, "ann"), (2, "ann"), (3, "bob"), (4, "bob")] {
                queues.enter(job(number), "a", user, Priority::Normal);
                queues.set_ready(job(number), true);
            }
            queues.resize(20);
            (0..held).for_each(|_| queues.occupy(job(1)));
            let id = queues.ids["a"];
            assert_eq!(queues.demand(&queues.all[&id], |_| 5), demand, "{what}");
            let first = |queues: &Queues| queues.next_ready(id, None).map(|rank| rank.job.number);
            assert_eq!(first(&queues), next, "{what}");
            assert_eq!(queues.order().len(), usize::from(next.is_some()), "{what}");
            for _ in 0..held {
                queues.release(job(1));
            }
            queues.leave(job(1));
            assert_eq!(first(&queues), Some(2), "{what}: whoever had to wait is next");
        }
    }

    #[test]
    fn a_larger_cluster_raises_limits_in_per_cent() {
        let mut queues =
            queues(&[("a", QueueRules { user_percent_max: 10, ..QueueRules::default() })]);
        queues.enter(job(1), "a", "ann", Priority::Normal);
        queues.set_ready(job(1), true);
        assert_eq!(hand_out(&mut queues, 20, 20, &[job(1)]), [2]);
        assert!(!queues.has_next() && !queues.has_room(job(1)));
        assert_eq!(hand_out(&mut queues, 20, 30, &[job(1)]), [3]);
        queues.resize(31);
        assert!(queues.has_next());
        queues.resize(30);
        assert!(!queues.has_next());
    }

    #[test]
    fn a_changed_priority_counts_at_once() {
        let mut queues =
            queues(&[("a", QueueRules { policy: Policy::Fifo, ..QueueRules::default() })]);
        for number in [1, 2] {
            queues.enter(job(number), "a", "ann", Priority::Normal);
            queues.set_ready(job(number), true);
        }
        queues.set_priority(job(2), Priority::High);
        assert_eq!(hand_out(&mut queues, 1, 4, &[job(1), job(2)]), [0, 1]);
        queues.set_ready(job(2), false);
        assert_eq!(hand_out(&mut queues, 1, 4, &[job(1), job(2)]), [1, 1]);
    }

    #[test]
    fn jobs_are_admitted_or_refused() {
        let stopped = QueueRules { running: false, ..QueueRules::default() };
        let mut queues = queues(&[("etl", QueueRules::default()), ("old", stopped)]);
        let admit =
            |queues: &Queues, wanted| queues.admit(wanted, "ann").map_err(|error| error.message);
        assert_eq!(admit(&queues, None), Ok("ann".to_owned()));
        assert_eq!(admit(&queues, Some("etl")), Ok("etl".to_owned()));
        assert_eq!(admit(&queues, Some("default")), Ok("default".to_owned()));
        assert_eq!(admit(&queues, Some("ann")), Ok("ann".to_owned()));
        assert_eq!(admit(&queues, Some("old")), Err("Queue old is not running".to_owned()));
        assert_eq!(
            admit(&queues, Some("elt")),
            Err("Queue elt does not exist; there are default, etl, old".to_owned())
        );
        queues.per_user = false;
        assert_eq!(admit(&queues, None), Ok("default".to_owned()));
        assert!(admit(&queues, Some("ann")).is_err());
    }
}
