//! The worker's loop: the only place that keeps and changes the worker's state of jobs, attempts and runners.
//!
//! ```text
//! an attempt here:  waits for its executable -> has a runner -> ended -> reported (kept until the JobTracker has confirmed)
//! a runner here:    starting or busy with one attempt <-> idle -> gone
//! ```
//!
//! Invariants: the end of an attempt is reported until it is confirmed, across restarts of the JobTracker; files of a job are deleted only
//! when no process of it is left; files that a task can rename are reached through descriptors opened before the task began; after the loop
//! every runner's processes are dead.

mod attempt;
mod jobs;
mod near;
mod outbox;
mod runners;
mod surroundings;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::error::chain;
use client::rpc::CallOptions;
use protocol::jobs::Counters;
use protocol::property::keys;
use protocol::tracker::{
    Action, AttemptState, AttemptUpdate, Launch, MapOutput, Register, Reply, Request, Work,
};
use protocol::{AttemptId, BinaryHash, Epoch, JobId, RecordAt, TaskKind};
use tokio::sync::mpsc;

use self::attempt::{Reached, Running};
use self::jobs::Jobs;
use self::near::Near;
use self::outbox::Outbox;
use self::runners::Runners;
use crate::event::{Event, News, Outcome};
use crate::logs;
use crate::metrics::{Attempts, Ended};
use crate::runner::{Options, Order, merge_outputs};
use crate::scratch;
use crate::session::TARGET;

pub(crate) use self::surroundings::{SetupBase, Surroundings};

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

/// The loop's state.
pub(crate) struct Agent {
    around: Surroundings,
    epoch: Option<Epoch>,
    attempts: BTreeMap<AttemptId, Running>,
    fetching: BTreeMap<BinaryHash, Vec<AttemptId>>,
    runners: Runners,
    jobs: Jobs,
    near: Near,
    outbox: Outbox,
    pruned: Instant,
    ended: Ended,
    disk_bytes: u64,
    /// When the last measurement ended; `None` while one is under way.
    disk_seen: Option<Instant>,
}

impl Agent {
    pub(crate) fn new(around: Surroundings) -> Self {
        Agent {
            around,
            epoch: None,
            attempts: BTreeMap::new(),
            fetching: BTreeMap::new(),
            runners: Runners::default(),
            jobs: Jobs::default(),
            near: Near::default(),
            outbox: Outbox::default(),
            pruned: Instant::now(),
            ended: Ended::default(),
            disk_bytes: 0,
            disk_seen: Some(Instant::now()),
        }
    }

    /// Handles events until `shutdown`, then ends all runners.
    pub(crate) async fn run(
        mut self,
        mut events: mpsc::Receiver<Event>,
        shutdown: daemon::Shutdown,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = shutdown.wait() => break,
                event = events.recv() => match event {
                    Some(event) => self.handle(event),
                    None => break,
                },
                _ = ticks.tick() => self.tick(),
            }
        }
        self.runners.kill_all();
        let all_gone = async {
            while !self.runners.is_empty() {
                match events.recv().await {
                    Some(Event::Runner(id, News::Gone { .. })) => drop(self.runners.remove(id)),
                    Some(_) => {}
                    None => break,
                }
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, all_gone).await.is_err() {
            tracing::warn!("some task processes did not end in time");
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Actions(actions) => actions.into_iter().for_each(|action| self.obey(action)),
            Event::Snapshot(reply) => {
                self.epoch = None;
                // The session ends only when the worker stops.
                let _ = reply.send(self.snapshot());
            }
            Event::Registered(epoch) => {
                self.epoch = Some(epoch);
                self.report(false);
            }
            Event::Binary(hash, result) => self.binary(hash, &result),
            Event::Runner(id, news) => self.runner_news(id, news),
            // If the caller has left, nobody needs the answer.
            Event::Figures(reply) => drop(reply.send(self.figures())),
            Event::Disk(used) => {
                self.disk_bytes = used.unwrap_or(self.disk_bytes);
                self.disk_seen = Some(Instant::now());
            }
            Event::Reported(outcome) => {
                if self.outbox.settle(outcome) {
                    self.report(false);
                }
            }
            Event::Deleted(job) => self.jobs.deleted(job),
        }
    }

    fn obey(&mut self, action: Action) {
        match action {
            Action::Launch(launch) => self.launch(launch),
            Action::LaunchReduces { launches, mut outputs } => {
                self.bring_near(&mut outputs);
                for launch in launches {
                    let mut launch = Box::new(launch);
                    if let Work::Reduce(work) = &mut launch.work {
                        work.outputs.clone_from(&outputs);
                    }
                    self.launch(launch);
                }
            }
            Action::Kill(attempt) => self.kill(attempt),
            Action::MapOutputs { job, mut available, obsolete } => {
                // Leaves nothing behind for a job that has ended meanwhile.
                if self.jobs.get(job).is_some() {
                    self.bring_near(&mut available);
                }
                self.map_outputs(job, &available, &obsolete);
            }
            Action::ForgetJob(job) => self.forget(job),
        }
    }

    /// Makes the outputs of other workers on this machine reachable for tasks that see only the files of their job.
    fn bring_near(&mut self, outputs: &mut [MapOutput]) {
        let is_going = |output: &MapOutput| self.jobs.is_going(output.attempt.task.job);
        if self.around.sandbox.hides_files() && !outputs.iter().any(is_going) {
            self.near.bring(outputs, &self.around.register.boot_id, &self.around.outputs);
        }
    }

    fn launch(&mut self, launch: Box<Launch>) {
        let (id, hash) = (launch.attempt, launch.program.binary);
        if self.attempts.contains_key(&id) {
            return;
        }
        // It would get directories that are being deleted. It is tried again, here or elsewhere.
        if self.jobs.is_going(id.task.job) {
            return self.end(id, AttemptState::Killed, Counters::default());
        }
        let place = match self.jobs.place(id, &self.around) {
            Ok(place) => place,
            Err(error) => {
                let directory = self.around.jobs.path.join(id.task.job.to_string());
                let diagnostics = scratch::failure("make", &directory, &error);
                return self.end(id, AttemptState::Failed { diagnostics }, Counters::default());
            }
        };
        let reached = Reached::default();
        self.attempts.insert(id, Running { launch, place, runner: None, killing: false, reached });
        if let Some(binary) = self.around.binaries.known(hash) {
            return self.give_runner(id, &binary);
        }
        let waiting = self.fetching.entry(hash).or_default();
        waiting.push(id);
        if waiting.len() == 1 {
            let (binaries, source) =
                (self.around.binaries.clone(), Arc::clone(&self.around.source));
            let events = self.around.events.clone();
            tokio::task::spawn_blocking(move || {
                let result = binaries.obtain(hash, source.as_ref()).map_err(|error| chain(&error));
                // If the loop has ended, nobody needs the result.
                let _ = events.blocking_send(Event::Binary(hash, result));
            });
        }
    }

    fn binary(&mut self, hash: BinaryHash, result: &Result<PathBuf, String>) {
        for id in self.fetching.remove(&hash).unwrap_or_default() {
            if !self.attempts.contains_key(&id) {
                continue;
            }
            match result {
                Ok(binary) => self.give_runner(id, binary),
                Err(reason) => {
                    self.attempts.remove(&id);
                    let diagnostics = reason.clone();
                    self.end(id, AttemptState::Failed { diagnostics }, Counters::default());
                }
            }
        }
    }

    /// Gives an attempt an idle runner of its job, or a new one.
    fn give_runner(&mut self, id: AttemptId, binary: &Path) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(job) = self.jobs.get(id.task.job) else { return };
        let work = attempt.launch.work.clone();
        let mut order = Order::Launch { attempt: id, work, place: attempt.place.clone() };
        for (runner_id, runner) in self.runners.idle(id.task.job) {
            match runner.orders.send(order) {
                Ok(()) => {
                    runner.current = Some(id);
                    attempt.runner = Some(runner_id);
                    return;
                }
                Err(mpsc::error::SendError(back)) => order = back,
            }
        }
        let setup = self.around.setup(&attempt.launch);
        let timeout = keys::TASK_TIMEOUT.get(&attempt.launch.program.properties);
        // The JobTracker refuses jobs whose value cannot be read.
        let timeout = timeout.ok().flatten().map(|timeout| Duration::from_millis(timeout.0));
        let silence_max = timeout.unwrap_or(self.around.silence_max);
        let options = Options {
            binary: binary.to_owned(),
            job: job.place.clone(),
            user: job.user(),
            outputs: self.around.outputs.job_path(id.task.job),
            logs: self.around.logs.clone(),
            setup,
            start_timeout: self.around.start_timeout,
            silence_max,
            log_bytes_max: self.around.log_bytes_max,
            watch: self.around.watch.clone(),
            sandbox: Arc::clone(&self.around.sandbox),
        };
        let events = self.around.events.clone();
        attempt.runner = Some(self.runners.start(id, options, order, events));
    }

    fn kill(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            // Its end is on the way to the JobTracker, or it was never here.
            if !self.outbox.attempts().any(|attempt| attempt == id) {
                self.end(id, AttemptState::Killed, Counters::default());
            }
            return;
        };
        attempt.killing = true;
        match attempt.runner.and_then(|runner| self.runners.get_mut(runner)) {
            Some(runner) => runner.leave(Order::Kill),
            None => {
                self.attempts.remove(&id);
                self.end(id, AttemptState::Killed, Counters::default());
            }
        }
    }

    fn map_outputs(&mut self, job: JobId, available: &[MapOutput], obsolete: &[AttemptId]) {
        let reduces = self
            .attempts
            .iter_mut()
            .filter(|(id, _)| id.task.job == job && id.task.kind == TaskKind::Reduce);
        for (_, attempt) in reduces {
            match attempt.runner.and_then(|runner| self.runners.get_mut(runner)) {
                Some(runner) => {
                    let (available, obsolete) = (available.to_vec(), obsolete.to_vec());
                    let _ = runner.orders.send(Order::MapOutputs { available, obsolete });
                }
                None => {
                    if let Work::Reduce(work) = &mut attempt.launch.work {
                        merge_outputs(&mut work.outputs, available.to_vec(), obsolete);
                    }
                }
            }
        }
    }

    fn forget(&mut self, job: JobId) {
        self.around.outputs.forget_job(job);
        self.attempts.retain(|id, attempt| id.task.job != job || attempt.runner.is_some());
        for attempt in self.attempts.iter_mut().filter(|(id, _)| id.task.job == job) {
            attempt.1.killing = true;
        }
        self.runners.end(job);
        self.jobs.forget(job);
        self.delete_if_unused(job);
    }

    /// Deletes the files of a forgotten job once no process of it is left.
    fn delete_if_unused(&mut self, job: JobId) {
        if !self.runners.any_of(job) && self.jobs.delete_forgotten(job, &self.around) {
            self.near.forget(job);
        }
    }

    fn runner_news(&mut self, id: u64, news: News) {
        match news {
            News::Progress { attempt, progress, phase } => {
                if let Some(attempt) = self.attempts.get_mut(&attempt) {
                    attempt.reached = Reached { progress, phase: Some(phase) };
                }
            }
            News::FetchFailed(failure) => {
                if self.outbox.fetch_failed(failure) {
                    self.report(false);
                }
            }
            News::Ended { attempt, state, counters, progress, phase } => {
                if let Some(runner) = self.runners.get_mut(id) {
                    runner.free();
                    // The kernel counts a process's time over all attempts, so the next attempt gets its own process.
                    if self.around.watch.confinement().limits.cpu_seconds.is_some() {
                        runner.leave(Order::Exit);
                    }
                }
                if let Some(running) = self.attempts.remove(&attempt) {
                    let state = running.checked(attempt, state, &self.around.outputs);
                    let record = running.record(attempt, &state);
                    let reached = Reached { progress, phase: Some(phase) };
                    self.end_in(attempt, state, counters, (record, reached));
                }
            }
            News::Gone { diagnostics } => {
                let Some(runner) = self.runners.remove(id) else { return };
                let current = runner.current.and_then(|id| Some((id, self.attempts.remove(&id)?)));
                if let Some((attempt, running)) = current {
                    let mut state = if running.killing {
                        AttemptState::Killed
                    } else {
                        AttemptState::Failed { diagnostics }
                    };
                    let record = running.record(attempt, &state);
                    // The process died, so the worker adds the record. A task that reports its own failure names the record itself.
                    if let (Work::Map { split, .. }, Some(record)) = (&running.launch.work, record)
                        && let (Some(place), AttemptState::Failed { diagnostics }) =
                            (record.failure(split), &mut state)
                    {
                        *diagnostics = format!("{place}: {diagnostics}");
                    }
                    self.end_in(attempt, state, Counters::default(), (record, running.reached));
                }
                self.delete_if_unused(runner.job);
            }
        }
    }

    fn end(&mut self, attempt: AttemptId, state: AttemptState, counters: Counters) {
        self.end_in(attempt, state, counters, (None, Reached::default()));
    }

    /// An attempt is over: reports it at once and deletes its files. The worker has already taken its result.
    fn end_in(
        &mut self,
        attempt: AttemptId,
        state: AttemptState,
        counters: Counters,
        (record, reached): (Option<RecordAt>, Reached),
    ) {
        self.jobs.clear(attempt, &self.around);
        self.ended.count(attempt.task.kind, &state);
        let Reached { progress, phase } = reached;
        self.outbox.end(AttemptUpdate { attempt, state, progress, phase, counters, record });
        self.report(false);
    }

    /// Sends new updates, if the session is up and no report is under way; `all` adds the progress of running attempts.
    fn report(&mut self, all: bool) {
        let Some(epoch) = self.epoch.filter(|_| !self.outbox.is_under_way()) else { return };
        let running = |(id, running): (&AttemptId, &Running)| AttemptUpdate {
            attempt: *id,
            state: AttemptState::Running,
            progress: running.reached.progress,
            phase: running.reached.phase,
            counters: Counters::default(),
            record: None,
        };
        let progress = if all { self.attempts.iter().map(running).collect() } else { Vec::new() };
        let Some((updates, fetch_failures)) = self.outbox.next(progress) else { return };
        let worker = self.around.register.worker;
        let request = Request::Report { worker, epoch, updates, fetch_failures };
        let (jobtracker, events) = (self.around.jobtracker.clone(), self.around.events.clone());
        tokio::spawn(async move {
            let options = CallOptions::once(REPORT_TIMEOUT);
            let outcome = match jobtracker.call(TARGET, &request, options).await {
                Ok(Reply::Done) => Outcome::Taken,
                Ok(_) => Outcome::Lost,
                Err(error) if error.refuses_content() => Outcome::Refused(chain(&error)),
                Err(error) => {
                    tracing::debug!(error = %chain(&error), "a report was not taken, it is kept");
                    Outcome::Lost
                }
            };
            let _ = events.send(Event::Reported(outcome)).await;
        });
    }

    fn tick(&mut self) {
        self.report(true);
        let now = Instant::now();
        self.runners.end_idle(now, self.around.idle_max);
        self.runners.renew_passes(now, &self.around.setup);
        self.forget_idle_jobs(now);
        if self.disk_seen.is_some_and(|seen| now.saturating_duration_since(seen) >= DISK_PERIOD) {
            self.disk_seen = None;
            self.look_at_disk();
        }
        if now.saturating_duration_since(self.pruned) >= PRUNE_PERIOD {
            self.pruned = now;
            let (root, retention) = (self.around.logs.clone(), self.around.log_retention);
            tokio::task::spawn_blocking(move || {
                if let Err(error) = logs::prune(&root.dir, retention) {
                    tracing::warn!(%error, "cannot delete old logs");
                }
            });
        }
    }

    fn look_at_disk(&self) {
        let (jobs, events) = (self.around.jobs.clone(), self.around.events.clone());
        let outputs = self.around.outputs.clone();
        tokio::task::spawn_blocking(move || {
            let used = sys::measure::measure(&jobs.path)
                .and_then(|used| Ok(used.bytes().saturating_add(outputs.used_bytes()?)));
            let used = used.inspect_err(|error| {
                tracing::warn!(%error, "cannot look at what tasks use on disk");
            });
            // If the loop has ended, nobody needs the result.
            let _ = events.blocking_send(Event::Disk(used.ok()));
        });
    }

    fn figures(&self) -> Attempts {
        let mut running = BTreeMap::new();
        for id in self.attempts.keys() {
            *running.entry(id.task.kind).or_default() += 1;
        }
        Attempts { running, ended: self.ended.clone(), disk_bytes: self.disk_bytes }
    }

    fn forget_idle_jobs(&mut self, now: Instant) {
        let is_used = |job: &JobId| {
            self.attempts.keys().any(|attempt| attempt.task.job == *job)
                || self.runners.any_of(*job)
                || self.around.outputs.holds_job(*job)
        };
        let idle: Vec<JobId> = self.jobs.idle(now).filter(|job| !is_used(job)).collect();
        idle.into_iter().for_each(|job| self.forget(job));
    }

    fn snapshot(&self) -> Register {
        let ended = self.outbox.attempts();
        let running = self.attempts.keys().copied().chain(ended).collect();
        let base = &self.around.register;
        let held_outputs =
            self.around.outputs.all().into_iter().map(|(attempt, data_path)| MapOutput {
                attempt,
                http_address: base.http_address.clone(),
                boot_id: base.boot_id.clone(),
                data_path,
            });
        Register { running, held_outputs: held_outputs.collect(), ..base.clone() }
    }
}
