//! Which waiting task goes to which free slot.
//!
//! Queues and jobs come in the order of [`super::queues`]; in each job, maps before reduces. The nearest input over all free workers comes
//! first, then rack, then anywhere; all free slots are handled at once. A job without input near a free slot declines the slot for a while
//! (delay scheduling), so that the next job can have it. News that can change nothing (progress) causes no scheduling. Work per slot does
//! not grow with the number of unrelated jobs or workers.
//!
//! Invariants: reduces get a slot only when no map of their job waits, so they cannot keep maps from running. If a map must run again while
//! reduces that wait for it hold all slots, or all that they may, one of them gives way. A job that has waited long enough for a near slot
//! is not skipped again for nearness. What a job or a task prefers delays it for a bounded time while a slot is free that it may have.

use std::time::Duration;

use protocol::tracker::{Action, Launch, Work};
use protocol::{AttemptId, JobId, TaskKind, WorkerId};

use super::queues::QueueId;
use crate::core::jobs::{Attempt, AttemptState, Patience, StopReason};
use crate::core::level::Level;
use crate::core::workers::FreeSlots;
use crate::core::{Core, Now, Output};

/// How long a failed task waits for a worker where it has not failed, and a job for one that it does not avoid, while others have free slots.
/// 30 s: most tasks end sooner, so such a worker gets a slot; tasks that take hours there hold up nobody.
const ELSEWHERE_MAX: Duration = Duration::from_secs(30);

/// The result of offering a slot to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offer {
    /// One of its tasks starts there.
    Taken,
    /// It has no use for it.
    Declined,
    /// The job takes the slot once farther slots are offered too; no later job may have it first.
    Reserved,
}

/// A task for a worker.
pub(crate) struct Assignment {
    pub(crate) job: JobId,
    pub(crate) kind: TaskKind,
    pub(crate) index: u32,
    pub(crate) worker: WorkerId,
    pub(crate) nearness: Level,
    pub(crate) speculative: bool,
}

impl Core {
    /// Fills free slots.
    pub(crate) fn schedule(&mut self, now: Now, out: &mut Output) {
        self.queues.resize(self.workers.usable_slots());
        if self.to_offer.is_nowhere() {
            return;
        }
        let mut free = self.to_offer.take();
        if self.runnable.is_empty() {
            return;
        }
        // Giving out slots can create new demand: the last map that starts makes room for its reduces.
        while !free.is_nowhere() {
            self.fill_all(&free, now, out);
            free = self.to_offer.take();
        }
        self.make_room(now, out);
    }

    /// Offers these slots, the nearest level first.
    fn fill_all(&mut self, free: &FreeSlots, now: Now, out: &mut Output) {
        for far in [Level::Node, Level::Rack, Level::Any, Level::Avoided] {
            self.fill(far, free, now, out);
        }
    }

    /// Gives out tasks, one per worker and round, so that they spread, until no slot is free or no job may have one.
    fn fill(&mut self, far: Level, free: &FreeSlots, now: Now, out: &mut Output) {
        let mut progress = true;
        while progress && self.queues.has_next() {
            progress = false;
            // Only a taken slot changes which job is next.
            let mut order = self.queues.order();
            for worker in self.workers.free(free) {
                if self.give(worker, &order, far, now, out) {
                    progress = true;
                    order = self.queues.order();
                    if order.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// Offers a slot of `worker` to the jobs of the queues, in this order. True if one took it.
    fn give(
        &mut self,
        worker: WorkerId,
        order: &[QueueId],
        far: Level,
        now: Now,
        out: &mut Output,
    ) -> bool {
        for queue in order {
            let mut last = None;
            while let Some(rank) = self.queues.next_ready(*queue, last) {
                last = Some(rank);
                match self.offer(rank.job, worker, far, now, out) {
                    Offer::Taken => {
                        self.refresh(rank.job, now);
                        return true;
                    }
                    Offer::Declined => {}
                    Offer::Reserved => return false,
                }
            }
        }
        false
    }

    fn offer(
        &mut self,
        id: JobId,
        worker: WorkerId,
        far: Level,
        now: Now,
        out: &mut Output,
    ) -> Offer {
        let is_avoided = self.avoids(id, worker);
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.wants_slot()) else {
            return Offer::Declined;
        };
        if is_avoided {
            let since = *job.avoiding_since.get_or_insert(now.at);
            if now.at.saturating_sub(since) < ELSEWHERE_MAX {
                return Offer::Declined;
            }
            if far < Level::Avoided {
                return Offer::Reserved;
            }
        }
        let kind = if job.maps.waiting() > 0 { TaskKind::Map } else { TaskKind::Reduce };
        let offer = match job.has_places(kind) {
            true => self.offer_near(id, kind, worker, far, now, out),
            false => self.offer_reduce(id, worker, far, now, out),
        };
        if let (Offer::Taken, false, Some(job)) = (offer, is_avoided, self.jobs.get_mut(&id)) {
            job.avoiding_since = None;
        }
        offer
    }

    fn offer_reduce(
        &mut self,
        id: JobId,
        worker: WorkerId,
        far: Level,
        now: Now,
        out: &mut Output,
    ) -> Offer {
        for level in [Level::Any, Level::Avoided] {
            if level <= far.max(Level::Any)
                && self.assign_one(id, TaskKind::Reduce, level, worker, now, out)
            {
                return Offer::Taken;
            }
        }
        Offer::Declined
    }

    /// Offers a slot for a task that should run near its input.
    fn offer_near(
        &mut self,
        id: JobId,
        kind: TaskKind,
        worker: WorkerId,
        far: Level,
        now: Now,
        out: &mut Output,
    ) -> Offer {
        if self.assign_one(id, kind, Level::Node, worker, now, out) {
            return Offer::Taken;
        }
        self.lose_patience(id, kind, now);
        let farthest = self.patience_level(id, now);
        for level in [Level::Rack, Level::Any, Level::Avoided] {
            // A failed task has lost its place and waits for no near slot.
            let may = level <= farthest || self.jobs[&id].tasks(kind).has_retries();
            if level <= far && may && self.assign_one(id, kind, level, worker, now, out) {
                return Offer::Taken;
            }
        }
        if far < Level::Any && farthest >= Level::Any { Offer::Reserved } else { Offer::Declined }
    }

    /// How far from its input a job accepts a slot for a map, or for a task of a round, now.
    fn patience_level(&self, id: JobId, now: Now) -> Level {
        let job = &self.jobs[&id];
        let wait = job.settings.locality_wait.unwrap_or(self.rules.locality_wait);
        match job.patience {
            Patience::Over => Level::Avoided,
            _ if wait.is_zero() => Level::Avoided,
            Patience::Fresh => Level::Node,
            Patience::Since(begin) => match now.at.saturating_sub(begin) {
                waited if waited >= wait * 2 => Level::Avoided,
                waited if waited >= wait => Level::Rack,
                _ => Level::Node,
            },
        }
    }

    /// True if a job declines free slots for a while because they are not near its input.
    pub(crate) fn waits_near(&self, now: Now) -> bool {
        self.queues.next_jobs().any(|id| {
            let job = &self.jobs[&id];
            let waits = |kind| job.has_places(kind) && job.tasks(kind).waiting() > 0;
            matches!(job.patience, Patience::Since(_))
                && [TaskKind::Map, TaskKind::Reduce].into_iter().any(waits)
                && self.patience_level(id, now) < Level::Any
        })
    }

    /// A job was offered a slot that is not on a machine with its input.
    fn lose_patience(&mut self, id: JobId, kind: TaskKind, now: Now) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.patience == Patience::Fresh) else {
            return;
        };
        let (pending, _) = job.tasks_mut(kind).pending_mut();
        let near = pending.waits_near(|host| self.workers.is_at(host));
        job.patience = if near { Patience::Since(now.at) } else { Patience::Over };
        if !near {
            self.to_offer.everywhere();
        }
    }

    /// True if a worker that a job does not avoid has a free slot.
    fn has_free_for(&self, id: JobId) -> bool {
        self.workers.free(&FreeSlots::Everywhere).into_iter().any(|worker| !self.avoids(id, worker))
    }

    /// Workers that a job does not avoid.
    fn usable_for(&self, id: JobId) -> Vec<WorkerId> {
        let usable = self.workers.iter().filter(|worker| worker.is_usable());
        usable.map(|worker| worker.id).filter(|worker| !self.avoids(id, *worker)).collect()
    }

    fn assign_one(
        &mut self,
        id: JobId,
        kind: TaskKind,
        level: Level,
        worker: WorkerId,
        now: Now,
        out: &mut Output,
    ) -> bool {
        let last_resort = level == Level::Avoided;
        if last_resort && !self.jobs.get(&id).is_some_and(|job| job.tasks(kind).has_retries()) {
            return false;
        }
        // A task returns to a worker where it failed only if it has failed on all, or has waited: a worker that fails fast is the first to be
        // free again.
        let others = if last_resort { self.usable_for(id) } else { Vec::new() };
        let (Some(job), Some(place)) = (self.jobs.get_mut(&id), self.workers.worker(worker)) else {
            return false;
        };
        let has_places = job.has_places(kind);
        let (pending, tasks) = job.tasks_mut(kind).pending_mut();
        let avoids = |index: u32| {
            tasks.get(index).is_some_and(|task| {
                task.failed_on(worker)
                    && (!last_resort
                        || task.failed_within(ELSEWHERE_MAX, now.wall_ms)
                            && others.iter().any(|other| !task.failed_on(*other)))
            })
        };
        let Some((index, nearness)) = pending.take(level, &place.host, &place.rack, avoids) else {
            return false;
        };
        if has_places && nearness == Level::Node {
            let is_near = |host: &str| self.workers.is_at(host);
            if pending.waits_at(&place.host) || pending.waits_near(is_near) {
                job.patience = Patience::Fresh;
            } else {
                // The slots that it declined for nearer ones are worth offering again: no nearer one can come.
                job.patience = Patience::Over;
                self.to_offer.everywhere();
            }
        }
        let speculative = false;
        self.launch(Assignment { job: id, kind, index, worker, nearness, speculative }, now, out);
        true
    }

    /// Starts an attempt.
    ///
    /// REQUIRES: job, task and worker exist, the worker has a free slot, and no limit of the job or its queue is reached.
    pub(crate) fn launch(&mut self, what: Assignment, now: Now, out: &mut Output) {
        let Assignment { job: id, kind, index, worker, nearness, speculative } = what;
        let (Some(job), Some(place)) = (self.jobs.get_mut(&id), self.workers.worker(worker)) else {
            return;
        };
        debug_assert!(job.may_run_more(kind) && self.queues.has_room(id), "{id} is at its limit");
        let base = job.number_base(self.epoch);
        let task = job.task_id(kind, index);
        let number = job.tasks_mut(kind).change(index, |task| {
            let number = task.next_number(base);
            task.attempts.push(Attempt {
                speculative,
                nearness: (kind == TaskKind::Map).then_some(nearness),
                ..Attempt::begin(number, worker, (&place.host, &place.http_address), now.wall_ms)
            });
            number
        });
        job.count_launch(kind, Some(nearness), speculative);
        let work = match kind {
            TaskKind::Map => Work::Map {
                split: job
                    .spec
                    .splits
                    .get(index as usize)
                    .expect("an unfinished job has its splits"),
                skip: job.skip_list(task, number),
            },
            TaskKind::Reduce => match job.round_work(index) {
                Some(work) => Work::Round(Box::new(work)),
                // Filled in when the order leaves: the lists of all reduces starting at once would need most of the memory.
                None => Work::Reduce(job.reduce_work(index, Vec::new())),
            },
        };
        let attempt = AttemptId { task, number };
        let launch = Launch { attempt, program: job.shared_program(), work };
        self.occupy(worker, attempt);
        self.order_worker(worker, Action::Launch(Box::new(launch)), out);
        out.changed.insert(id);
    }

    /// In each job whose own reduces keep its waiting maps out, the youngest reduce gives way.
    fn make_room(&mut self, now: Now, out: &mut Output) {
        let blocked: Vec<JobId> = self
            .runnable
            .iter()
            .copied()
            .filter(|id| {
                let job = &self.jobs[id];
                let is_kept_out = || {
                    !self.has_free_for(*id)
                        || !self.queues.has_room(*id)
                        || self.patience_level(*id, now) >= Level::Any
                };
                // Tasks of rounds wait for no map, and end by themselves.
                job.rounds.is_none()
                    && job.maps.waiting() > 0
                    && job.maps.running() == 0
                    && job.reduces.running() > 0
                    && is_kept_out()
            })
            .collect();
        for id in blocked {
            let live = self.jobs[&id].live_attempts();
            let state = |attempt: &AttemptId| self.jobs[&id].attempt(*attempt).map(|a| a.state);
            if live.iter().any(|attempt| state(attempt) == Some(AttemptState::Killing)) {
                continue;
            }
            let started = |attempt: &AttemptId| {
                self.jobs[&id].attempt(*attempt).map(|found| (found.started_ms, *attempt))
            };
            if let Some(youngest) = live.iter().copied().max_by_key(|attempt| started(attempt)) {
                self.stop_attempt(youngest, StopReason::Room, out);
                self.refresh(id, now);
            }
        }
    }
}
