//! Takes slots back from queues that have more than their share, for queues that have had much less than theirs for long.
//!
//! Invariants: a queue gives only the slots beyond its share, its newest attempts first (which loses the least work), and only slots that
//! others can use. No queue gives twice for the same need, because a queue's patience begins anew after each preemption and stopping
//! attempts count as free. No queue gives for a need that limits forbid to fill, because a queue's demand excludes it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use protocol::{AttemptId, JobId};

use super::queues::Queue;
use super::shares::{Claim, PER_SLOT, shares};
use crate::core::jobs::{AttemptState, StopReason};
use crate::core::workers::Worker;
use crate::core::{Core, Now, Output};

/// Interval of comparing shares; the timeout counts in these steps.
const COMPARE_PERIOD: Duration = Duration::from_millis(500);

/// The state of a queue.
pub(crate) struct Standing {
    name: String,
    slots: u64,
    pub(crate) demand: u64,
    /// In thousandths of a slot.
    pub(crate) share: u64,
    least: u64,
}

/// What a queue holds.
#[derive(Default)]
struct Holding {
    /// Attempts whose slots others could use: by start time, newest last.
    running: Vec<(u64, AttemptId)>,
    /// Slots of attempts without an order to stop.
    kept: u64,
    /// Slots that others can use once the attempts ordered to stop have stopped.
    stopping: u64,
}

impl Core {
    /// Compares the slots of queues with their shares, and stops attempts where the difference has been large for long.
    pub(crate) fn preempt(&mut self, now: Now, out: &mut Output) {
        let timeout = self.rules.preemption_timeout;
        if timeout.is_zero() || now.at.saturating_sub(self.compared) < COMPARE_PERIOD {
            return;
        }
        self.compared = now.at;
        if self.runnable.is_empty() || self.workers.has_free() {
            return self.queues.sate();
        }
        let standings = self.standings();
        let mut missing = 0;
        for standing in &standings {
            let Some(queue) = self.queues.queue_mut(&standing.name) else { continue };
            if !standing.is_hungry() {
                queue.hungry_since = None;
                continue;
            }
            let since = *queue.hungry_since.get_or_insert(now.at);
            if now.at.saturating_sub(since) >= timeout {
                queue.hungry_since = Some(now.at);
                missing += (standing.share / PER_SLOT).max(standing.least) - standing.slots;
            }
        }
        if missing > 0 {
            self.take_back(missing, &standings, out);
        }
    }

    /// Stops attempts of queues that have more than their share, the one with the largest excess first, until `missing` slots are free or
    /// about to be.
    fn take_back(&mut self, missing: u64, standings: &[Standing], out: &mut Output) {
        let mut left = missing;
        let mut over = BinaryHeap::new();
        for (queue, standing) in self.queues.iter().zip(standings) {
            let Holding { running, kept, stopping } = self.holding(queue);
            // Slots that a hungry queue gives up itself are part of what it lacks.
            left = left.saturating_sub(if standing.is_hungry() { 0 } else { stopping });
            let excess = kept.saturating_sub(standing.share.div_ceil(PER_SLOT));
            over.push((excess, Reverse(standing.name.as_str()), running));
        }
        while left > 0 {
            let Some((excess, name, mut running)) = over.pop() else { return };
            if let (1.., Some((_, attempt))) = (excess, running.pop()) {
                left -= 1;
                self.stop_attempt(attempt, StopReason::Preempted, out);
                out.changed.insert(attempt.task.job);
                over.push((excess - 1, name, running));
            }
        }
    }

    fn holding(&self, queue: &Queue) -> Holding {
        let mut holding = Holding::default();
        for job in queue.jobs.iter().filter_map(|id| self.jobs.get(id)) {
            for id in job.live_attempts() {
                let Some(attempt) = job.attempt(id) else { continue };
                let worker = self.workers.worker(attempt.worker);
                let is_usable = worker.is_some_and(Worker::is_usable);
                let is_running = attempt.state == AttemptState::Running;
                holding.kept += u64::from(is_running);
                match (is_running, is_usable) {
                    (true, true) => holding.running.push((attempt.started_ms, id)),
                    (false, true) => holding.stopping += 1,
                    (_, false) => {}
                }
            }
        }
        holding.running.sort_unstable();
        holding
    }

    /// The states of all queues, by name.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        let slot_total = self.queues.slot_total();
        let demand = |queue| self.queues.demand(queue, |job| self.demand(job));
        let demands: Vec<u64> = self.queues.iter().map(demand).collect();
        let parts = self.queues.iter().zip(&demands);
        let claims: Vec<Claim> =
            parts.map(|(queue, demand)| queue.claim(*demand, slot_total)).collect();
        let shares = shares(&claims, slot_total);
        let parts = self.queues.iter().zip(demands).zip(claims.iter().zip(shares));
        let standing =
            |((queue, demand), (claim, share)): ((&Queue, u64), (&Claim, u64))| Standing {
                name: queue.name.clone(),
                slots: u64::from(queue.slots),
                demand,
                share,
                least: claim.least,
            };
        parts.map(standing).collect()
    }

    /// Slots that a job holds or could use.
    fn demand(&self, id: JobId) -> u32 {
        let Some(job) = self.jobs.get(&id) else { return 0 };
        if self.runnable.contains(&id) { job.demand() } else { job.live_count() }
    }
}

impl Standing {
    /// True if the queue has less than its minimum, or less than half of its share.
    fn is_hungry(&self) -> bool {
        self.slots < self.least
            || self.slots * PER_SLOT * 2 < self.share && self.slots < self.share / PER_SLOT
    }
}
