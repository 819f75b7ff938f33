//! Which waiting task goes to which free slot.
//!
//! Jobs in the order of their submission; per job maps before reduces; nearest input first over all free workers, then rack, then anywhere;
//! all free slots at once. Work per slot does not grow with the number of jobs or workers that have nothing to do with it.
//!
//! Invariants: reduces get a slot only when no map of their job waits, so they cannot keep maps from running; if a map must
//! run again while reduces that wait for it hold all slots, one of them gives way.

use protocol::tracker::{Action, Launch, Work};
use protocol::{AttemptId, JobId, TaskKind, WorkerId};

use super::pending::Level;
use super::task::{Attempt, AttemptState};
use super::{Core, Now, Output};

impl Core {
    /// Fills free slots.
    pub(crate) fn schedule(&mut self, now: Now, out: &mut Output) {
        if self.runnable.is_empty() {
            return;
        }
        let mut next = self.runnable.first().copied();
        let mut maps_left = false;
        while let Some(id) = next {
            if !self.workers.has_free() {
                break;
            }
            for level in [Level::Node, Level::Rack, Level::Any, Level::Avoided] {
                self.assign(id, TaskKind::Map, level, now, out);
            }
            let job = &self.jobs[&id];
            maps_left |= job.maps.waiting() > 0;
            if job.maps.waiting() == 0 && job.reduces_may_start() {
                for level in [Level::Any, Level::Avoided] {
                    self.assign(id, TaskKind::Reduce, level, now, out);
                }
            }
            self.refresh(id, now);
            next = self.runnable.range(after(id)..).next().copied();
        }
        // What is free may be only where these maps have failed before.
        if !self.workers.has_free() || maps_left {
            self.make_room(now, out);
        }
    }

    /// Hands tasks of one job out, one per worker and round, so that they spread.
    fn assign(&mut self, id: JobId, kind: TaskKind, level: Level, now: Now, out: &mut Output) {
        loop {
            let mut progress = false;
            if self.jobs[&id].tasks(kind).waiting() == 0 {
                return;
            }
            for worker in self.workers.free() {
                progress |= self.assign_one(id, kind, level, worker, now, out);
                if self.jobs[&id].tasks(kind).waiting() == 0 {
                    return;
                }
            }
            if !progress {
                return;
            }
        }
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
        let (Some(job), Some(place)) = (self.jobs.get_mut(&id), self.workers.worker(worker)) else {
            return false;
        };
        let base = job.number_base(self.epoch);
        let (pending, tasks) = job.tasks_mut(kind).pending_mut();
        let last_resort = level == Level::Avoided;
        if last_resort && !pending.has_retries() {
            return false;
        }
        // A task goes back to where it failed only if it has failed everywhere: a worker that fails fast is free again first.
        let others = self.workers.iter().filter(|other| last_resort && other.is_usable());
        let others: Vec<WorkerId> = others.map(|other| other.id).collect();
        let avoids = |index: u32| {
            let task = &tasks[index as usize];
            task.failed_on(worker)
                && (!last_resort || others.iter().any(|other| !task.failed_on(*other)))
        };
        let Some((index, nearness)) = pending.take(level, &place.host, &place.rack, avoids) else {
            return false;
        };
        let task = job.task_id(kind, index);
        let number = job.tasks_mut(kind).change(index, |task| {
            let number = task.next_number(base);
            task.attempts.push(Attempt {
                number,
                state: AttemptState::Running,
                worker,
                host: place.host.clone(),
                http_address: place.http_address.clone(),
                started_ms: now.wall_ms,
                finished_ms: 0,
                diagnostics: String::new(),
                progress: 0.0,
            });
            number
        });
        job.count_launch(kind, nearness);
        let work = match kind {
            TaskKind::Map => Work::Map(job.spec.splits[index as usize].clone()),
            TaskKind::Reduce => Work::Reduce(job.map_outputs()),
        };
        let attempt = AttemptId { task, number };
        let launch = Launch { attempt, program: job.program(), work };
        self.workers.occupy(worker, attempt);
        self.order_worker(worker, Action::Launch(Box::new(launch)), out);
        out.changed.insert(id);
        true
    }

    /// Of each job whose waiting maps are kept out by its own reduces, the youngest reduce gives way.
    fn make_room(&mut self, now: Now, out: &mut Output) {
        let blocked: Vec<JobId> = self
            .runnable
            .iter()
            .copied()
            .filter(|id| {
                let job = &self.jobs[id];
                job.maps.waiting() > 0 && job.maps.running() == 0 && job.reduces.running() > 0
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
                self.stop_attempt(youngest, out);
                self.refresh(id, now);
            }
        }
    }
}

fn after(id: JobId) -> JobId {
    JobId { cluster_start: id.cluster_start, number: id.number.saturating_add(1) }
}
