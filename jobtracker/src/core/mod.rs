//! The JobTracker as a pure state machine: inputs and the time go in, an [`Output`] comes out.
//!
//! | room or file | what |
//! |---|---|
//! | [`jobs`] | jobs and their tasks, as tables |
//! | [`slots`] | which job is next for a slot, and which has too much |
//! | [`workers`] | workers, their slots, the map outputs that they hold |
//! | [`views`] | the state for people and clients |
//! | [`submit`] | how a job is accepted |
//! | [`unfinished`] | how many jobs and tasks there are, and may be |
//! | [`rights`], [`checks`] | who may do what |
//! | [`edit`] | durable facts |
//!
//! Invariants:
//! - durable facts change only through [`Core::apply`], live and on replay alike; the caller of the core makes the edits of an
//!   [`Output`] durable before anything else in it leaves;
//! - one edit decides each task ([`edit::Edit::AttemptSucceeded`]); an attempt that reports later loses and its files are deleted;
//! - no slot is given twice: an attempt holds its slot from its launch until its worker reports its end or is lost.

mod checks;
pub(crate) mod edit;
pub(crate) mod jobs;
mod level;
pub(crate) mod rights;
pub(crate) mod slots;
mod stored;
pub(crate) mod submit;
pub(crate) mod unfinished;
pub(crate) mod views;
pub(crate) mod workers;

#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The time, passed in.
pub(crate) use host::Now;
use protocol::jobs::{JobState, Priority};
use protocol::level::Supported;
use protocol::property::Umask;
use protocol::rounds::RoundsSpec;
use protocol::tracker::Action;
use protocol::{
    AttemptId, CallId, DfsPath, Epoch, ErrorKind, FeatureLevel, JobId, RemoteError, TaskKind,
    WorkerId,
};
#[cfg(test)]
pub(crate) use simulation::spec;

use edit::{Edit, Reached, Submitted};
use jobs::{AttemptState, Ends, Job, Phase, StopReason, TaskOutput};
use rights::Administrators;
use slots::{QueueRules, Queues};
use unfinished::{Bounds, Unfinished};
use workers::{FreeSlots, MapOutputs, Workers};

/// Rules that do not change while the core runs.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// No sign of life for this long: no new work.
    pub(crate) suspect_after: Duration,
    /// No sign of life for this long: lost.
    pub(crate) dead_after: Duration,
    /// After a restart, running jobs start nothing for this long: workers first report what they still run.
    pub(crate) settle: Duration,
    /// How long an ending job waits for its attempts to stop before it removes their files.
    pub(crate) stop_wait: Duration,
    /// Finished jobs kept.
    pub(crate) history_job_count_max: usize,
    /// Tasks of finished jobs kept.
    pub(crate) history_task_count_max: u64,
    /// Jobs that are not over, and their tasks.
    pub(crate) bounds: Bounds,
    /// How long a map waits for a slot on the machine of its input, then as long again for one in its rack.
    pub(crate) locality_wait: Duration,
    /// How long a queue may have much less than its share before others must give; zero means without limit.
    pub(crate) preemption_timeout: Duration,
    /// An attempt that has run for less time gets no backup.
    pub(crate) speculation_after: Duration,
    /// Faults of a worker after which no job uses it.
    pub(crate) worker_faults_max: u32,
    /// Each time this has passed, one fault of a worker is forgiven.
    pub(crate) worker_forgive: Duration,
    /// Jobs that name no queue go to a queue of their user.
    pub(crate) queue_per_user: bool,
    /// Queues with rules of their own.
    pub(crate) queues: BTreeMap<String, QueueRules>,
    /// Who may change the jobs of others.
    pub(crate) administrators: Administrators,
}

/// Work on the file system that the core orders. Effects of one job run one after the other.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Effect {
    /// Create the output directory and `_temporary` in it.
    Setup {
        /// It may have been created before a restart.
        resumed: bool,
    },
    /// Publish the files of the winners.
    Commit {
        /// Directories of the winners.
        winners: Vec<DfsPath>,
        /// It may have been begun before a restart.
        resumed: bool,
    },
    /// Remove the job's files.
    Cleanup,
    /// Remove the files of an attempt that lost.
    DeleteAttempt(DfsPath),
}

/// An effect and the job it is for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct EffectOrder {
    /// The job.
    pub(crate) job: JobId,
    /// Acting user.
    pub(crate) user: String,
    /// Its output directory.
    pub(crate) output: DfsPath,
    /// Permission bits that what is made does not get.
    pub(crate) umask: Umask,
    /// What to do.
    pub(crate) effect: Effect,
}

/// The result of an effect; transient failures have been retried before.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum EffectDone {
    /// Setup.
    Setup(Result<(), RemoteError>),
    /// Commit.
    Commit(Result<(), RemoteError>),
    /// Clean-up, as far as it could be done.
    Cleanup,
}

/// The result of an input. Edits first; everything else only after they are durable.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// To persist, in order.
    pub(crate) edits: Vec<Edit>,
    /// To do on the file system.
    pub(crate) effects: Vec<EffectOrder>,
    /// Jobs whose pages are now out of date.
    pub(crate) changed: BTreeSet<JobId>,
    /// Workers with orders waiting.
    pub(crate) wake: BTreeSet<WorkerId>,
    /// Submissions decided.
    pub(crate) submitted: Vec<(JobId, Result<(), RemoteError>)>,
}

/// The JobTracker's state.
#[derive(Debug)]
pub(crate) struct Core {
    rules: Rules,
    epoch: Epoch,
    cluster_start: u64,
    level: FeatureLevel,
    next_number: u32,
    jobs: BTreeMap<JobId, Job>,
    calls: BTreeMap<CallId, JobId>,
    /// Jobs not final, by output directory.
    outputs_claimed: BTreeMap<DfsPath, JobId>,
    unfinished: Unfinished,
    history: VecDeque<JobId>,
    history_task_count: u64,
    /// Jobs that ended since this start.
    ends: Ends,
    /// Jobs with tasks that may start, oldest first.
    runnable: BTreeSet<JobId>,
    /// Jobs to check again at a tick: held or waiting for attempts to stop.
    waiting: BTreeSet<JobId>,
    workers: Workers,
    map_outputs: MapOutputs,
    queues: Queues,
    /// The free slots to offer at the next scheduling.
    to_offer: FreeSlots,
    /// When shares were last compared.
    compared: Duration,
    /// When the last search for slow attempts ran.
    speculated: Duration,
}

impl Core {
    /// An empty state; [`Core::apply`] replays the journal into it, then [`Core::recovered`] begins work.
    pub(crate) fn new(rules: Rules) -> Self {
        Core {
            queues: Queues::new(rules.queues.clone(), rules.queue_per_user),
            to_offer: FreeSlots::Everywhere,
            compared: Duration::ZERO,
            speculated: Duration::ZERO,
            rules,
            epoch: Epoch(0),
            cluster_start: 0,
            level: FeatureLevel::FIRST,
            next_number: 1,
            jobs: BTreeMap::new(),
            calls: BTreeMap::new(),
            outputs_claimed: BTreeMap::new(),
            unfinished: Unfinished::default(),
            history: VecDeque::new(),
            history_task_count: 0,
            ends: Ends::default(),
            runnable: BTreeSet::new(),
            waiting: BTreeSet::new(),
            workers: Workers::default(),
            map_outputs: MapOutputs::default(),
        }
    }

    /// The epoch of this start of the JobTracker.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Jobs that ended since this start.
    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// The job with this id, if known.
    pub(crate) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id)
    }

    /// The feature level of the log.
    pub(crate) fn level(&self) -> FeatureLevel {
        self.level
    }

    /// The job that a caller names.
    pub(crate) fn known(&self, id: JobId) -> Result<&Job, RemoteError> {
        let unknown =
            || RemoteError::new(ErrorKind::UnknownJob, format!("Could not find job {id}"));
        self.jobs.get(&id).ok_or_else(unknown)
    }

    /// Applies a durable fact, live or replayed.
    pub(crate) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::Founded { cluster_start } => self.cluster_start = *cluster_start,
            Edit::LevelSet { level } => self.level = *level,
            Edit::Submitted(submitted) => self.enter(submitted, None),
            Edit::SubmittedInRounds { submitted, rounds } => self.enter(submitted, Some(*rounds)),
            Edit::Accepted(submitted) | Edit::Admitted(submitted) => {
                self.enter(submitted, submitted.spec.rounds);
            }
            Edit::Refused { job } | Edit::Retired { job } => self.forget(*job),
            Edit::AttemptSucceeded { .. }
            | Edit::AttemptFailed { .. }
            | Edit::AttemptKilled { .. }
            | Edit::OutputLost { .. }
            | Edit::Committing { .. }
            | Edit::Ending { .. }
            | Edit::KillAsked { .. }
            | Edit::ReducesChosen { .. }
            | Edit::StopAsked { .. } => {
                if let Some(job) = edit.job().and_then(|id| self.jobs.get_mut(&id)) {
                    job.apply(edit);
                }
            }
            Edit::Prioritized { job: id, priority } => {
                if let Some(job) = self.jobs.get_mut(id) {
                    job.apply(edit);
                    self.queues.set_priority(*id, *priority);
                }
            }
            Edit::Ended { job: id, .. } => {
                self.queues.leave(*id);
                self.unfinished.leave(*id);
                if let Some(job) = self.jobs.get_mut(id) {
                    job.apply(edit);
                    self.history.push_back(*id);
                    self.history_task_count += task_count(job);
                    let output = job.spec.output.clone();
                    self.release_output(*id, &output);
                }
            }
        }
    }

    /// A job was accepted.
    fn enter(&mut self, submitted: &Submitted, rounds: Option<RoundsSpec>) {
        self.next_number = self.next_number.max(submitted.job.number.saturating_add(1));
        self.calls.insert(submitted.call, submitted.job);
        self.outputs_claimed.insert(submitted.spec.output.clone(), submitted.job);
        let job = Job::new(submitted, rounds);
        self.unfinished.enter(job.id, &job.user, &job.spec);
        self.queues.enter(job.id, &job.queue, &job.user, job.priority);
        self.jobs.insert(submitted.job, job);
    }

    /// Begins work after replay. `cluster_start` tells this start from every other one, in the ids of its jobs. Their numbers go on, but a journal that comes back
    /// from a backup has forgotten which were used since.
    pub(crate) fn recovered(&mut self, epoch: Epoch, cluster_start: u64, now: Now) -> Output {
        let mut out = Output::default();
        self.epoch = epoch;
        let is_first = self.cluster_start == 0;
        if cluster_start > self.cluster_start {
            self.commit(Edit::Founded { cluster_start }, &mut out);
        }
        if is_first {
            self.commit(Edit::LevelSet { level: Supported::OWN.newest }, &mut out);
        }
        let unfinished: Vec<JobId> = self
            .jobs
            .values()
            .filter(|job| job.final_state().is_none())
            .map(|job| job.id)
            .collect();
        for id in unfinished {
            self.resume(id, now, &mut out);
        }
        for worker in self.map_outputs.holders().collect::<Vec<_>>() {
            self.workers.expect(worker, now.at);
        }
        out
    }

    /// Time has passed: handles late workers and jobs that waited.
    pub(crate) fn tick(&mut self, now: Now) -> Output {
        let mut out = Output::default();
        self.workers.listen(now.at);
        let gone = self.workers.expire(now.at, self.rules.suspect_after, self.rules.dead_after);
        for worker in gone {
            self.lose_worker(worker, now, &mut out);
        }
        for id in self.waiting.clone() {
            let Some(job) = self.jobs.get(&id) else { continue };
            if job.stop_deadline.is_some_and(|deadline| now.at >= deadline) {
                self.clean_up(id, &mut out);
            }
            self.refresh(id, now);
        }
        // The passage of time alone lets a job accept a farther slot.
        self.to_offer.everywhere();
        self.workers.forgive(now.at, self.rules.worker_forgive, self.rules.worker_faults_max);
        self.workers.pardon();
        self.schedule(now, &mut out);
        self.preempt(now, &mut out);
        self.speculate(now, &mut out);
        out
    }

    /// An effect is done.
    pub(crate) fn effect_done(&mut self, id: JobId, done: EffectDone, now: Now) -> Output {
        let mut out = Output::default();
        let Some(job) = self.jobs.get_mut(&id) else { return out };
        match (job.phase, done) {
            (Phase::Preparing, EffectDone::Setup(Ok(()))) => {
                job.phase = Phase::Running;
                let killer = job.kill_asked.clone();
                out.submitted.push((id, Ok(())));
                if let Some(killer) = killer {
                    self.end(id, JobState::Killed, &killed_by(&killer), now, &mut out);
                }
                self.finish_if_done(id, now, &mut out);
            }
            (Phase::Preparing, EffectDone::Setup(Err(error))) if job.epoch != self.epoch => {
                let diagnostics = format!("The job could not go on after a restart: {error}");
                out.submitted.push((id, Ok(())));
                self.end(id, JobState::Failed, &diagnostics, now, &mut out);
            }
            (Phase::Preparing, EffectDone::Setup(Err(error))) => {
                self.runnable.remove(&id);
                self.waiting.remove(&id);
                out.submitted.push((id, Err(error)));
                self.commit(Edit::Refused { job: id }, &mut out);
            }
            (Phase::Committing, EffectDone::Commit(Ok(()))) => {
                self.finish(id, JobState::Succeeded, now, &mut out);
            }
            (Phase::Committing, EffectDone::Commit(Err(error))) => {
                let diagnostics = format!("Job commit failed: {error}");
                self.end(id, JobState::Failed, &diagnostics, now, &mut out);
            }
            (Phase::Ending(outcome), EffectDone::Cleanup) => {
                self.finish(id, outcome, now, &mut out);
            }
            _ => {}
        }
        self.refresh(id, now);
        self.schedule(now, &mut out);
        out
    }

    /// `user` asks for the end of a job. It is granted only if the job ends as killed: one that ends otherwise, or publishes its output, is not.
    pub(crate) fn kill(&mut self, id: JobId, user: &str, now: Now) -> Result<Output, RemoteError> {
        let mut out = Output::default();
        let job = self.known(id)?;
        let refuse = |text| Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        match job.phase {
            // It was accepted before the restart: a repeated submission gets just that answer.
            Phase::Preparing if job.epoch != self.epoch => {
                out.submitted.push((id, Ok(())));
                self.end(id, JobState::Killed, &killed_by(user), now, &mut out);
            }
            Phase::Preparing if job.kill_asked.is_some() => {}
            Phase::Preparing => {
                self.commit(Edit::KillAsked { job: id, user: user.to_owned() }, &mut out);
            }
            Phase::Running => self.end(id, JobState::Killed, &killed_by(user), now, &mut out),
            Phase::Committing => {
                return refuse(format!("Job {id} cannot be killed: it is publishing its output"));
            }
            Phase::Ending(JobState::Killed) | Phase::Ended(JobState::Killed) => {}
            Phase::Ending(state) | Phase::Ended(state) => {
                let end = if state == JobState::Succeeded { "succeeded" } else { "failed" };
                return refuse(format!("Job {id} cannot be killed: it has already {end}"));
            }
        }
        self.schedule(now, &mut out);
        Ok(out)
    }

    /// A user makes a job more or less urgent.
    pub(crate) fn set_priority(
        &mut self,
        id: JobId,
        priority: Priority,
        now: Now,
    ) -> Result<Output, RemoteError> {
        let mut out = Output::default();
        let job = self.known(id)?;
        if job.final_state().is_some() {
            let text = format!("Job {id} is over; its priority cannot change");
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        if job.priority != priority {
            self.commit(Edit::Prioritized { job: id, priority }, &mut out);
            self.schedule(now, &mut out);
        }
        Ok(out)
    }

    /// Replaces the rules of queues and the administrators; refused if a queue with jobs would disappear.
    pub(crate) fn set_queues(
        &mut self,
        rules: BTreeMap<String, QueueRules>,
        administrators: Administrators,
        now: Now,
    ) -> Result<Output, String> {
        self.queues.configure(rules.clone())?;
        self.rules.queues = rules;
        self.rules.administrators = administrators;
        self.to_offer.everywhere();
        let mut out = Output::default();
        self.schedule(now, &mut out);
        Ok(out)
    }

    /// A user ends an attempt; with `fail` it counts against its task's limit.
    pub(crate) fn stop_by_user(
        &mut self,
        id: AttemptId,
        fail: bool,
        now: Now,
    ) -> Result<Output, RemoteError> {
        let mut out = Output::default();
        let job = self.known(id.task.job)?;
        let refuse = |text| Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        match job.attempt(id).map(|attempt| (attempt.state, attempt.stop)) {
            None => return refuse(format!("Could not find attempt {id}")),
            Some((AttemptState::Running, _)) => {
                self.commit(Edit::StopAsked { attempt: id, fail }, &mut out);
                self.stop_as_asked(id, &mut out);
            }
            Some((AttemptState::Killing, Some(reason)))
                if fail && reason != StopReason::UserFails =>
            {
                let why = reason.text();
                return refuse(format!("Attempt {id} cannot fail: it is being killed ({why})"));
            }
            Some((AttemptState::Killing, _)) => {}
            Some((state, _)) => {
                return refuse(format!("Attempt {id} does not run: it is {}", state.name()));
            }
        }
        self.schedule(now, &mut out);
        Ok(out)
    }

    /// Applies an edit and adds it to the output, to be persisted.
    fn commit(&mut self, edit: Edit, out: &mut Output) {
        self.apply(&edit);
        out.changed.extend(edit.job());
        out.edits.push(edit);
    }

    /// Continues an unfinished job after a restart.
    fn resume(&mut self, id: JobId, now: Now, out: &mut Output) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        match job.phase {
            Phase::Preparing if job.kill_asked.is_some() => {
                let diagnostics = job.kill_asked.as_deref().map(killed_by).unwrap_or_default();
                self.end(id, JobState::Killed, &diagnostics, now, out);
            }
            Phase::Preparing | Phase::Running => {
                job.phase = Phase::Preparing;
                job.held_until = now.at + self.rules.settle;
                self.waiting.insert(id);
                for (holder, attempt) in job.held_outputs() {
                    self.map_outputs.insert(holder, attempt);
                }
                order(job, Effect::Setup { resumed: true }, out);
            }
            Phase::Committing => {
                let winners = winners(job);
                order(job, Effect::Commit { winners, resumed: true }, out);
            }
            Phase::Ending(_) => order(job, Effect::Cleanup, out),
            Phase::Ended(_) => {}
        }
    }

    /// Moves a job on: to its reduces if its maps are done, to its commit if all its work is done.
    fn finish_if_done(&mut self, id: JobId, now: Now, out: &mut Output) {
        if let Some(ends) = self.jobs.get(&id).and_then(Job::reduces_to_choose) {
            self.commit(Edit::ReducesChosen { job: id, ends }, out);
        }
        let Some(job) = self.jobs.get(&id) else { return };
        if job.phase != Phase::Running || !job.is_done() {
            return;
        }
        self.commit(Edit::Committing { job: id }, out);
        self.stop_attempts(id, out);
        self.map_outputs.forget_job(id);
        self.refresh(id, now);
        let Some(job) = self.jobs.get(&id) else { return };
        order(job, Effect::Commit { winners: winners(job), resumed: false }, out);
    }

    /// Ends a job without output: stops its attempts, then removes their files.
    fn end(&mut self, id: JobId, outcome: JobState, diagnostics: &str, now: Now, out: &mut Output) {
        let diagnostics = diagnostics.to_owned();
        self.commit(Edit::Ending { job: id, outcome, diagnostics }, out);
        self.map_outputs.forget_job(id);
        self.stop_attempts(id, out);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.stop_deadline = Some(now.at + self.rules.stop_wait);
            self.waiting.insert(id);
        }
        self.clean_up_if_stopped(id, out);
        self.refresh(id, now);
    }

    fn clean_up_if_stopped(&mut self, id: JobId, out: &mut Output) {
        let Some(job) = self.jobs.get(&id) else { return };
        let waits = matches!(job.phase, Phase::Ending(_)) && job.stop_deadline.is_some();
        if waits && job.live_count() == 0 {
            self.clean_up(id, out);
        }
    }

    fn clean_up(&mut self, id: JobId, out: &mut Output) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.stop_deadline = None;
            order(job, Effect::Cleanup, out);
        }
    }

    /// Makes a job final and retires the oldest jobs of the history.
    fn finish(&mut self, id: JobId, state: JobState, now: Now, out: &mut Output) {
        let Some(job) = self.jobs.get(&id) else { return };
        let live = job.live_attempts();
        self.note_faults(id, state, now);
        for attempt in live {
            self.mark_killed(attempt, "the job is over", now, out);
        }
        // With the attempts that end now.
        let counters = self.jobs.get(&id).map(Job::counters).unwrap_or_default();
        self.ends.note(state);
        self.commit(Edit::Ended { job: id, state, finished_ms: now.wall_ms, counters }, out);
        self.map_outputs.forget_job(id);
        self.refresh(id, now);
        // A limit of its queue may have held up other jobs.
        self.to_offer.everywhere();
        let workers: Vec<WorkerId> = self.workers.iter().map(|worker| worker.id).collect();
        for worker in workers {
            self.order_worker(worker, Action::ForgetJob(id), out);
        }
        while self.history.len() > self.rules.history_job_count_max
            || self.history.len() > 1 && self.history_task_count > self.rules.history_task_count_max
        {
            let Some(oldest) = self.history.front().copied() else { break };
            self.commit(Edit::Retired { job: oldest }, out);
        }
    }

    /// Orders the workers of all live attempts of a job to stop them.
    fn stop_attempts(&mut self, id: JobId, out: &mut Output) {
        let Some(job) = self.jobs.get(&id) else { return };
        for attempt in job.live_attempts() {
            self.stop_attempt(attempt, StopReason::JobOver, out);
        }
    }

    /// Stops a running attempt if a user has asked for that.
    fn stop_as_asked(&mut self, attempt: AttemptId, out: &mut Output) {
        let job = self.jobs.get(&attempt.task.job);
        if let Some(reason) = job.and_then(|job| job.stop_asked.get(&attempt).copied()) {
            self.stop_attempt(attempt, reason, out);
        }
    }

    /// Orders the worker of a running attempt to stop it.
    fn stop_attempt(&mut self, attempt: AttemptId, reason: StopReason, out: &mut Output) {
        let Some(job) = self.jobs.get_mut(&attempt.task.job) else { return };
        let Some(worker) = job
            .attempt(attempt)
            .filter(|found| found.state == AttemptState::Running)
            .map(|found| found.worker)
        else {
            return;
        };
        job.change_attempt(attempt, |found| {
            found.state = AttemptState::Killing;
            found.stop = Some(reason);
        });
        self.order_worker(worker, Action::Kill(attempt), out);
    }

    /// An attempt stopped, or its worker is lost: it gives back its slot and does not count against the limit.
    fn mark_killed(&mut self, attempt: AttemptId, why: &str, now: Now, out: &mut Output) {
        let job = self.jobs.get(&attempt.task.job);
        let live = job.and_then(|job| job.attempt(attempt)).filter(|found| found.state.is_live());
        let Some((worker, stop)) = live.map(|found| (found.worker, found.stop)) else { return };
        let Some(ran) = self.ran(attempt, now) else { return };
        let diagnostics = stop.map_or_else(|| why.to_owned(), |stop| stop.text().to_owned());
        let reached = self.reached(attempt);
        self.commit(Edit::AttemptKilled { attempt, ran, diagnostics, reached }, out);
        self.release(worker, attempt);
    }

    /// The progress of an attempt that is about to end without a result.
    fn reached(&self, id: AttemptId) -> Reached {
        let attempt = self.jobs.get(&id.task.job).and_then(|job| job.attempt(id));
        attempt.map_or_else(Reached::default, |attempt| Reached {
            phase: attempt.phase,
            progress: attempt.progress,
        })
    }

    fn order_worker(&mut self, worker: WorkerId, action: Action, out: &mut Output) {
        if self.workers.push(worker, action) {
            out.wake.insert(worker);
        }
    }

    fn occupy(&mut self, worker: WorkerId, attempt: AttemptId) {
        if self.workers.occupy(worker, attempt) {
            self.queues.occupy(attempt.task.job);
        }
    }

    fn release(&mut self, worker: WorkerId, attempt: AttemptId) {
        self.to_offer.at(worker);
        if self.workers.release(worker, attempt) && self.queues.release(attempt.task.job) {
            self.to_offer.everywhere();
        }
    }

    /// Keeps `runnable` and `waiting` correct for a job that changed.
    fn refresh(&mut self, id: JobId, now: Now) {
        let Some(job) = self.jobs.get_mut(&id) else {
            self.runnable.remove(&id);
            self.waiting.remove(&id);
            return;
        };
        let held = job.held_until > now.at;
        if job.phase == Phase::Running && !held && job.wants_slot() {
            if job.wants_news() | self.runnable.insert(id) {
                self.to_offer.everywhere();
            }
            self.queues.set_ready(id, true);
        } else {
            job.avoiding_since = None;
            self.runnable.remove(&id);
            self.queues.set_ready(id, false);
        }
        if !(held && job.is_active()) && job.stop_deadline.is_none() {
            self.waiting.remove(&id);
        }
    }

    fn forget(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.queues.leave(id);
        self.unfinished.leave(id);
        self.calls.remove(&job.call);
        self.release_output(id, &job.spec.output);
        if let Some(position) = self.history.iter().position(|other| *other == id) {
            self.history.remove(position);
            self.history_task_count -= task_count(&job);
        }
    }

    fn release_output(&mut self, id: JobId, output: &DfsPath) {
        if self.outputs_claimed.get(output) == Some(&id) {
            self.outputs_claimed.remove(output);
        }
    }
}

fn killed_by(user: &str) -> String {
    format!("Job killed by {user}")
}

fn task_count(job: &Job) -> u64 {
    u64::from(job.maps.len()) + u64::from(job.reduces.len())
}

fn order(job: &Job, effect: Effect, out: &mut Output) {
    let (user, output) = (job.user.clone(), job.spec.output.clone());
    let umask = job.settings.umask;
    out.effects.push(EffectOrder { job: job.id, user, output, umask, effect });
}

/// Directories of the attempts whose files are the job's output.
fn winners(job: &Job) -> Vec<DfsPath> {
    let kind = if job.spec.reduce_count > 0 { TaskKind::Reduce } else { TaskKind::Map };
    let directories =
        job.tasks(kind).iter().filter_map(|(_, task)| match &task.winner.as_ref()?.output {
            TaskOutput::Files(directory) => Some(directory.clone()),
            TaskOutput::Map(_) => None,
        });
    directories.chain(job.skip_logs()).collect()
}
