//! The runners of this worker.
//!
//! ```text
//! busy with one attempt <-> idle -> leaving -> gone
//! ```
//!
//! Invariant: a runner that was asked to leave gets no further attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::pass::PASS_RENEWAL;
use protocol::{AttemptId, JobId};

use super::effect::Effect;
use super::event::RunnerId;

/// Time that an idle runner gets to exit before it is killed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Runners {
    known: BTreeMap<RunnerId, Runner>,
    count: u64,
}

#[derive(Debug)]
pub(super) struct Runner {
    pub(super) job: JobId,
    /// When it received its pass.
    passed: Duration,
    pub(super) current: Option<AttemptId>,
    idle_since: Duration,
    leaving: bool,
}

impl Runners {
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// True if any of them is the job's.
    pub(super) fn any_of(&self, job: JobId) -> bool {
        self.known.values().any(|runner| runner.job == job)
    }

    /// True if the runner has this attempt.
    pub(super) fn has(&self, id: RunnerId, attempt: AttemptId) -> bool {
        self.known.get(&id).is_some_and(|runner| runner.current == Some(attempt))
    }

    /// Gives an attempt to an idle runner of its job.
    pub(super) fn reuse(&mut self, attempt: AttemptId) -> Option<RunnerId> {
        let is_idle = |runner: &Runner| {
            runner.job == attempt.task.job && runner.current.is_none() && !runner.leaving
        };
        let (id, runner) = self.known.iter_mut().find(|(_, runner)| is_idle(runner))?;
        runner.current = Some(attempt);
        Some(*id)
    }

    /// Adds a runner that is about to start, with its attempt.
    pub(super) fn start(&mut self, attempt: AttemptId, now: Duration) -> RunnerId {
        self.count += 1;
        let id = RunnerId(self.count);
        let runner = Runner {
            job: attempt.task.job,
            passed: now,
            current: Some(attempt),
            idle_since: now,
            leaving: false,
        };
        self.known.insert(id, runner);
        id
    }

    pub(super) fn remove(&mut self, id: RunnerId) -> Option<Runner> {
        self.known.remove(&id)
    }

    /// Its attempt is over; it can take another.
    pub(super) fn free(&mut self, id: RunnerId, now: Duration) {
        if let Some(runner) = self.known.get_mut(&id) {
            runner.current = None;
            runner.idle_since = now;
        }
    }

    /// It takes no further attempt; `effect` ends it.
    pub(super) fn leave(&mut self, id: RunnerId, effect: Effect, effects: &mut Vec<Effect>) {
        if let Some(runner) = self.known.get_mut(&id) {
            runner.leaving = true;
            effects.push(effect);
        }
    }

    /// It is over, although it has not reported that yet.
    pub(super) fn lost(&mut self, id: RunnerId) {
        if let Some(runner) = self.known.get_mut(&id) {
            runner.current = None;
            runner.leaving = true;
        }
    }

    /// Ends the runners of a job, at once if they are busy.
    pub(super) fn end(&mut self, job: JobId, now: Duration, effects: &mut Vec<Effect>) {
        for (id, runner) in self.known.iter_mut().filter(|(_, runner)| runner.job == job) {
            let is_busy = runner.current.is_some();
            effects.push(if is_busy { Effect::Kill(*id) } else { Effect::Exit(*id) });
            runner.leaving = true;
            runner.idle_since = now;
        }
    }

    /// Ends the runners that have been idle for `idle_max`.
    pub(super) fn end_idle(
        &mut self,
        now: Duration,
        idle_max: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let idle = self.known.iter_mut().filter(|(_, runner)| runner.current.is_none());
        for (id, runner) in idle {
            let idle = now.saturating_sub(runner.idle_since);
            if runner.leaving && idle >= EXIT_TIMEOUT {
                effects.push(Effect::Kill(*id));
            } else if !runner.leaving && idle >= idle_max {
                effects.push(Effect::Exit(*id));
                runner.leaving = true;
                runner.idle_since = now;
            }
        }
    }

    pub(super) fn kill_all(&self, effects: &mut Vec<Effect>) {
        effects.extend(self.known.keys().map(|id| Effect::Kill(*id)));
    }

    /// Renews old passes.
    pub(super) fn renew_passes(&mut self, now: Duration, effects: &mut Vec<Effect>) {
        let is_due =
            |runner: &Runner| now.saturating_sub(runner.passed) >= PASS_RENEWAL && !runner.leaving;
        for (id, runner) in self.known.iter_mut().filter(|(_, runner)| is_due(runner)) {
            runner.passed = now;
            effects.push(Effect::RenewPass(*id));
        }
    }
}

#[cfg(test)]
impl Runners {
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }
}
