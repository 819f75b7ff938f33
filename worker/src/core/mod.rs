//! The worker as a pure state machine: an [`Event`] and the time go in, [`Effect`]s come out.
//!
//! ```text
//! an attempt here:  prepared -> its executable fetched -> has a runner -> ended and checked -> reported until confirmed
//! a runner here:    busy with one attempt <-> idle -> leaving -> gone
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`event`], [`effect`], [`rules`] | its face |
//! | `session` | registration and polls |
//! | `orders` | what the JobTracker orders |
//! | `ends` | what runners report, and what the JobTracker learns of it |
//! | `attempt`, `runners`, `jobs`, `near`, `outbox` | what the worker knows |
//! | [`figures`] | what monitors see of it |
//!
//! Time is the duration since the worker's start. A caller feeds one event after the other, performs the effects of each in their order,
//! and feeds [`Event::Tick`] at [`Core::wake_at`]. Names stand for what only the caller has: attempts for directories, hashes for
//! executables, numbers for processes and calls.
//!
//! Invariants: the end of an attempt is reported until it is confirmed, across restarts of the JobTracker; files of a job are deleted only
//! when no process of it is left; a runner has one attempt at a time and an attempt one runner; one poll is open at all times, unless orders
//! wait for links; once stopped, nothing follows but the ends of runners.

mod attempt;
pub mod effect;
mod ends;
pub mod event;
pub mod figures;
mod jobs;
mod near;
mod orders;
mod outbox;
pub mod rules;
mod runners;
mod session;

#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use protocol::tracker::{Action, MapOutput, Register, Request};
use protocol::{AttemptId, BinaryHash, JobId};

pub use self::effect::{Effect, Note};
pub use self::event::{Answer, CallNumber, Event, News, RunnerId};
pub use self::figures::{Attempts, Ended};
pub use self::rules::Rules;

pub(crate) use self::attempt::merge_outputs;
pub(crate) use self::rules::data_name;
#[cfg(test)]
pub(crate) use self::rules::data_path;

use self::attempt::Attempt;
use self::jobs::Jobs;
use self::near::Near;
use self::outbox::Outbox;
use self::runners::Runners;
use self::session::{REGISTER_TIMEOUT, Session};

/// Interval of progress reports and checks for idle runners.
const TICK: Duration = Duration::from_secs(1);
/// Time for one report.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval of the search for old logs.
const PRUNE_PERIOD: Duration = Duration::from_secs(600);
/// Interval of measuring the tasks' use of the disk, which reads the metadata of every file.
const DISK_PERIOD: Duration = Duration::from_secs(5);
/// Time for runners to end when the worker stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// The state of a worker. See the module.
#[derive(Debug)]
pub struct Core {
    rules: Rules,
    now: Duration,
    /// What follows from the current event.
    effects: Vec<Effect>,
    calls: u64,
    session: Session,
    /// Orders to obey, in their order; at most those of one poll beside those that wait for links.
    backlog: VecDeque<Action>,
    /// The first of them waits for links.
    is_linking: bool,
    attempts: BTreeMap<AttemptId, Attempt>,
    fetching: BTreeMap<BinaryHash, String>,
    runners: Runners,
    jobs: Jobs,
    /// Attempts of maps and of rounds whose output is held here.
    held: BTreeSet<AttemptId>,
    near: Near,
    outbox: Outbox,
    /// The report under way.
    reporting: Option<CallNumber>,
    tick_at: Duration,
    pruned: Duration,
    ended: Ended,
    disk_bytes: u64,
    /// When the last measurement ended; `None` while one is under way.
    disk_seen: Option<Duration>,
    /// When the worker ends, whether its runners have ended or not; set when it is to stop.
    stop_at: Option<Duration>,
    has_ended: bool,
}

impl Core {
    /// A worker that begins at time zero.
    pub fn new(rules: Rules) -> Self {
        Core {
            rules,
            now: Duration::ZERO,
            effects: Vec::new(),
            calls: 0,
            session: Session::default(),
            backlog: VecDeque::new(),
            is_linking: false,
            attempts: BTreeMap::new(),
            fetching: BTreeMap::new(),
            runners: Runners::default(),
            jobs: Jobs::default(),
            held: BTreeSet::new(),
            near: Near::default(),
            outbox: Outbox::default(),
            reporting: None,
            tick_at: Duration::ZERO,
            pruned: Duration::ZERO,
            ended: Ended::default(),
            disk_bytes: 0,
            disk_seen: Some(Duration::ZERO),
            stop_at: None,
            has_ended: false,
        }
    }

    /// What follows from an event at a time.
    pub fn on(&mut self, event: Event, now: Duration) -> Vec<Effect> {
        self.now = self.now.max(now);
        if self.stop_at.is_some() {
            self.stopping(event);
        } else {
            self.handle(event);
            self.converse();
        }
        std::mem::take(&mut self.effects)
    }

    /// When [`Event::Tick`] is due, if nothing else happens before.
    pub fn wake_at(&self) -> Duration {
        if let Some(stop_at) = self.stop_at {
            return stop_at;
        }
        let call_at = self.session.call_at().filter(|_| self.backlog.is_empty());
        call_at.map_or(self.tick_at, |call_at| call_at.min(self.tick_at))
    }

    /// For monitors.
    pub fn figures(&self) -> Attempts {
        let mut running = BTreeMap::new();
        for id in self.attempts.keys() {
            *running.entry(id.task.kind).or_default() += 1;
        }
        Attempts { running, ended: self.ended.clone(), disk_bytes: self.disk_bytes }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => self.tick(),
            Event::Shutdown => self.stop(),
            Event::Answered { call, answer } => self.answered(call, answer),
            Event::Prepared(attempt, result) => self.prepared(attempt, result),
            Event::Fetched(binary, result) => self.fetched(binary, &result),
            Event::Linked(attempts) => self.linked(attempts),
            Event::Runner(id, news) => self.runner_news(id, news),
            Event::Undelivered { runner, attempt, work } => {
                self.undelivered(runner, attempt, work);
            }
            Event::OutputTaken(attempt, result) => self.output_taken(attempt, result),
            Event::RecordRead(attempt, record) => self.record_read(attempt, record),
            Event::DiskMeasured(used) => {
                self.disk_bytes = used.unwrap_or(self.disk_bytes);
                self.disk_seen = Some(self.now);
            }
            Event::JobDeleted(job) => self.jobs.deleted(job),
        }
    }

    fn answered(&mut self, call: CallNumber, answer: Answer) {
        if self.reporting == Some(call) {
            return self.reported(answer);
        }
        if !self.session.waits_for(call) {
            return;
        }
        let followed = self.session.answered(answer, self.now);
        self.effects.extend(followed.note.map(Effect::Log));
        if followed.is_registered {
            self.report(false);
        }
        // Polls again before it obeys: the JobTracker learns at once that the orders are here.
        self.converse();
        self.backlog.extend(followed.actions);
        self.obey_waiting();
    }

    /// Registers or polls, if that is due. Orders come first: a registration names the attempts that they began.
    fn converse(&mut self) {
        let is_due = self.session.call_at().is_some_and(|call_at| self.now >= call_at);
        if !is_due || !self.backlog.is_empty() || self.stop_at.is_some() {
            return;
        }
        let worker = self.rules.register.worker;
        let call = match self.session.epoch() {
            None => self.call(Request::Register(self.registration()), REGISTER_TIMEOUT),
            Some(epoch) => {
                let received = self.session.received();
                let request = Request::Poll { worker, epoch, received };
                self.call(request, self.session.poll_timeout())
            }
        };
        self.session.called(call);
    }

    fn call(&mut self, request: Request, timeout: Duration) -> CallNumber {
        self.calls += 1;
        let call = CallNumber(self.calls);
        self.effects.push(Effect::Call { call, request, timeout });
        call
    }

    fn registration(&self) -> Register {
        let base = &self.rules.register;
        let ended = self.outbox.attempts();
        let running = self.attempts.keys().copied().chain(ended).collect();
        let held_outputs = self.held.iter().map(|attempt| MapOutput {
            attempt: *attempt,
            http_address: base.http_address.clone(),
            boot_id: base.boot_id.clone(),
            data_path: self.rules.data_path(*attempt),
        });
        Register { running, held_outputs: held_outputs.collect(), ..base.clone() }
    }

    fn tick(&mut self) {
        if self.now < self.tick_at {
            return;
        }
        self.tick_at = self.now + TICK;
        self.report(true);
        self.runners.end_idle(self.now, self.rules.idle_max, &mut self.effects);
        self.runners.renew_passes(self.now, &mut self.effects);
        self.forget_idle_jobs();
        if self.disk_seen.is_some_and(|seen| self.now.saturating_sub(seen) >= DISK_PERIOD) {
            self.disk_seen = None;
            self.effects.push(Effect::MeasureDisk);
        }
        if self.now.saturating_sub(self.pruned) >= PRUNE_PERIOD {
            self.pruned = self.now;
            self.effects.push(Effect::PruneLogs);
        }
    }

    fn forget_idle_jobs(&mut self) {
        // The first order may be about one of them.
        if self.is_linking {
            return;
        }
        let is_used = |job: &JobId| {
            self.attempts.keys().any(|attempt| attempt.task.job == *job)
                || self.runners.any_of(*job)
                || self.held.iter().any(|attempt| attempt.task.job == *job)
        };
        let idle: Vec<JobId> = self.jobs.idle(self.now).filter(|job| !is_used(job)).collect();
        idle.into_iter().for_each(|job| self.forget(job));
    }

    /// Ends all runners, and then the worker.
    fn stop(&mut self) {
        self.stop_at = Some(self.now + STOP_TIMEOUT);
        self.runners.kill_all(&mut self.effects);
        self.end_if_alone();
    }

    fn stopping(&mut self, event: Event) {
        if let Event::Runner(id, News::Gone { .. }) = event {
            self.runners.remove(id);
        }
        self.end_if_alone();
        let is_late = self.stop_at.is_some_and(|stop_at| self.now >= stop_at);
        if is_late && !self.has_ended {
            self.has_ended = true;
            self.effects.extend([Effect::Log(Note::RunnersLeft), Effect::End]);
        }
    }

    fn end_if_alone(&mut self) {
        if self.runners.is_empty() && !self.has_ended {
            self.has_ended = true;
            self.effects.push(Effect::End);
        }
    }
}
