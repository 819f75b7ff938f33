//! Backup attempts for tasks that are much slower than their peers.
//!
//! The remaining time of an attempt is estimated from its rate so far; a stalled attempt is assumed to need at least as long as it has
//! stalled. An attempt gets a backup if it has run for a while, is slow by a margin, and a fresh attempt would be done sooner. Attempts
//! that need longest come first.
//!
//! Invariants: a backup takes only a slot that no waiting task can use or is waiting for, within all limits, never on the worker of the
//! slow attempt nor on one that is slow itself; a task has at most one backup at a time; the share of backups is capped.

use std::collections::BTreeSet;
use std::time::Duration;

use protocol::{JobId, TaskKind, WorkerId};

use super::scheduler::Assignment;
use crate::core::jobs::{AttemptState, Phase, Task};
use crate::core::level::Level;
use crate::core::workers::FreeSlots;
use crate::core::{Core, Now, Output};

/// Interval of checks: as often as workers report.
const CHECK_PERIOD: Duration = Duration::from_secs(1);
/// An attempt is slow if it will take more than this share of the usual time, in per cent. A lower limit would back up attempts that are
/// merely unlucky.
const SLOW_PERCENT: f64 = 150.0;
/// Backups of a job at once, if a tenth of its attempts is less, as in Hadoop.
const BACKUPS_MIN: u32 = 10;
/// Of this many attempts of a job, one may be a backup.
const BACKUP_SHARE: u32 = 10;
/// Least number of estimates that can stand for the usual time while no task is done.
const PEERS_MIN: usize = 3;
/// Progress below this gives no rate.
const PROGRESS_MIN: f64 = 0.01;

/// A running attempt that has no backup.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Sole {
    /// Its task.
    pub(crate) index: u32,
    pub(crate) worker: WorkerId,
    pub(crate) elapsed_ms: u64,
    /// Time since its progress last changed.
    pub(crate) stalled_ms: u64,
    /// 0 to 1.
    pub(crate) progress: f32,
}

impl Sole {
    /// Time from start to end if it continues at its rate so far; `None` if there is no rate.
    fn total_ms(&self) -> Option<f64> {
        let progress = f64::from(self.progress);
        (progress >= PROGRESS_MIN).then(|| self.elapsed_ms as f64 / progress)
    }

    /// Its estimated remaining time.
    fn remaining_ms(&self) -> f64 {
        let elapsed = self.elapsed_ms as f64;
        let by_rate = self.total_ms().map_or(elapsed / PROGRESS_MIN, |total| total - elapsed);
        by_rate.max(self.stalled_ms as f64)
    }
}

/// Which of `running` deserve a backup, those that need longest first. `usual_ms`: mean time of the finished tasks.
pub(crate) fn slow(running: &[Sole], usual_ms: Option<u64>, after: Duration) -> Vec<Sole> {
    let Some(usual) = usual_ms.map(|usual| usual as f64).or_else(|| usual_of(running)) else {
        return Vec::new();
    };
    let after_ms = after.as_millis() as f64;
    let is_slow = |sole: &&Sole| {
        let elapsed = sole.elapsed_ms as f64;
        let remaining = sole.remaining_ms();
        elapsed >= after_ms
            && (elapsed + remaining) * 100.0 > usual * SLOW_PERCENT
            && remaining > usual
    };
    let mut slow: Vec<Sole> = running.iter().filter(is_slow).copied().collect();
    slow.sort_by(|left, right| {
        right.remaining_ms().total_cmp(&left.remaining_ms()).then(left.index.cmp(&right.index))
    });
    slow
}

/// The median of the estimated times of running attempts, if enough have one.
fn usual_of(running: &[Sole]) -> Option<f64> {
    let mut totals: Vec<f64> = running.iter().filter_map(Sole::total_ms).collect();
    if totals.len() < PEERS_MIN {
        return None;
    }
    totals.sort_by(f64::total_cmp);
    Some(totals[totals.len() / 2])
}

impl Core {
    /// Starts backups on slots that nobody else can use.
    pub(crate) fn speculate(&mut self, now: Now, out: &mut Output) {
        // After a time without reports, the next reports first have to update the progress of attempts.
        let last = self.speculated.max(self.workers.deaf_until());
        if !self.workers.has_free() || now.at.saturating_sub(last) < CHECK_PERIOD {
            return;
        }
        self.speculated = now.at;
        if self.waits_near(now) {
            return;
        }
        let jobs: Vec<JobId> = self.queues.busy_jobs().collect();
        for id in jobs {
            for kind in [TaskKind::Map, TaskKind::Reduce] {
                self.back_up(id, kind, now, out);
            }
        }
    }

    fn back_up(&mut self, id: JobId, kind: TaskKind, now: Now, out: &mut Output) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.phase == Phase::Running) else {
            return;
        };
        let wanted = match kind {
            TaskKind::Map => job.settings.map_speculative && !job.is_done(),
            TaskKind::Reduce => job.settings.reduce_speculative,
        };
        let tasks = job.tasks(kind);
        if !wanted || tasks.waiting() > 0 || job.held_until > now.at {
            return;
        }
        let running: Vec<Sole> =
            tasks.live().filter_map(|(index, task)| sole(index, task, now)).collect();
        let backups = tasks.live().flat_map(|(_, task)| task.live());
        let backups = backups.filter(|attempt| attempt.speculative).count();
        let cap = BACKUPS_MIN.max(job.live_count() / BACKUP_SHARE) as usize;
        let slow = slow(&running, tasks.mean_ms(), self.rules.speculation_after);
        let slow_workers: BTreeSet<WorkerId> = slow.iter().map(|sole| sole.worker).collect();
        for sole in slow.iter().take(cap.saturating_sub(backups)) {
            let may_run_more = self.jobs.get(&id).is_some_and(|job| job.may_run_more(kind));
            if !may_run_more || !self.queues.has_room(id) {
                return;
            }
            if !self.jobs.get(&id).is_some_and(|job| job.has_inputs(kind, sole.index)) {
                continue;
            }
            let Some((worker, nearness)) = self.backup_place(id, kind, sole.index, &slow_workers)
            else {
                continue;
            };
            let index = sole.index;
            let what = Assignment { job: id, kind, index, worker, nearness, speculative: true };
            self.launch(what, now, out);
            self.refresh(id, now);
        }
    }

    /// The nearest free worker that may run a backup of a task.
    fn backup_place(
        &self,
        id: JobId,
        kind: TaskKind,
        index: u32,
        slow: &BTreeSet<WorkerId>,
    ) -> Option<(WorkerId, Level)> {
        let job = self.jobs.get(&id)?;
        let task = job.tasks(kind).task(index)?;
        let was_there = |worker| task.attempts.iter().any(|attempt| attempt.worker == worker);
        let fits = |worker: &WorkerId| {
            !slow.contains(worker) && !was_there(*worker) && !self.avoids(id, *worker)
        };
        let free = self.workers.free(&FreeSlots::Everywhere).into_iter().filter(fits);
        let near = free.filter_map(|worker| {
            let place = self.workers.worker(worker)?;
            Some((job.tasks(kind).nearness(index, &place.host, &place.rack), worker))
        });
        // Of equally near ones the first, which has the most free slots.
        near.reduce(|best, next| if next.0 < best.0 { next } else { best })
            .map(|(level, worker)| (worker, level))
    }
}

fn sole(index: u32, task: &Task, now: Now) -> Option<Sole> {
    if task.winner.is_some() {
        return None;
    }
    let mut live = task.live();
    let attempt = live.next().filter(|attempt| attempt.state == AttemptState::Running)?;
    if live.next().is_some() {
        return None;
    }
    Some(Sole {
        index,
        worker: attempt.worker,
        elapsed_ms: now.wall_ms.saturating_sub(attempt.started_ms),
        stalled_ms: now.wall_ms.saturating_sub(attempt.progressed_ms),
        progress: attempt.progress,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_secs(5);

    fn at(index: u32, seconds: u64, progress: f32, stalled: u64) -> Sole {
        Sole {
            index,
            worker: WorkerId([u8::try_from(index).unwrap(); 16]),
            elapsed_ms: seconds * 1000,
            stalled_ms: stalled * 1000,
            progress,
        }
    }

    /// A name, attempts, mean time of the finished tasks, and the attempts that get a backup.
    type Case<'a> = (&'a str, Vec<Sole>, Option<u64>, &'a [u32]);

    #[test]
    fn only_what_is_slow_by_a_margin_gets_a_backup() {
        let cases: [Case; 9] = [
            ("a tenth of the speed", vec![at(0, 10, 0.1, 0)], Some(10_000), &[0]),
            ("as fast as usual", vec![at(0, 10, 0.9, 0)], Some(10_000), &[]),
            ("slow, but nearly done", vec![at(0, 30, 0.9, 0)], Some(10_000), &[]),
            ("too young to tell", vec![at(0, 4, 0.01, 0)], Some(1_000), &[]),
            ("stands still at the end", vec![at(0, 30, 1.0, 20)], Some(10_000), &[0]),
            ("has not begun", vec![at(0, 16, 0.0, 16)], Some(10_000), &[0]),
            ("nothing to compare with", vec![at(0, 100, 0.1, 0)], None, &[]),
            (
                "compared with its peers in the first wave",
                vec![at(0, 10, 0.9, 0), at(1, 10, 0.8, 0), at(2, 10, 0.09, 0), at(3, 10, 0.9, 0)],
                None,
                &[2],
            ),
            (
                "longest first",
                vec![at(0, 20, 0.2, 0), at(1, 20, 0.1, 0), at(2, 20, 0.1, 0)],
                Some(10_000),
                &[1, 2, 0],
            ),
        ];
        for (what, running, usual, expected) in cases {
            let found: Vec<u32> =
                slow(&running, usual, AFTER).iter().map(|sole| sole.index).collect();
            assert_eq!(found, expected, "{what}");
        }
    }
}
