//! The worker's loop: waits, lets the core decide, and performs what it orders. The only place that holds the core.
//!
//! Invariants: effects are performed in their order; a result that is there at once is the core's next event; after the loop every
//! runner's processes are dead.

mod calls;
mod jobs;
mod links;
mod results;
mod runners;
mod surroundings;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use daemon::supervisor;
use protocol::error::chain;
use protocol::runner::SILENCE_PROPERTY;
use protocol::tracker::{Program, Work};
use protocol::{AttemptId, BinaryHash, JobId};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

use self::calls::Calls;
use self::jobs::Jobs;
use self::runners::Runners;
use crate::core::{Core, Effect, Event, News, Note, Rules, RunnerId};
use crate::input::Input;
use crate::logs;
use crate::runner::{Options, Order};

use self::surroundings::tell;
pub(crate) use self::surroundings::{SetupBase, Surroundings};

/// The core with what only this process has.
pub(crate) struct Agent {
    core: Core,
    around: Surroundings,
    calls: Calls,
    jobs: Jobs,
    runners: Runners,
    /// Turns of [`Effect::TakeOutput`].
    takes: Arc<Semaphore>,
}

/// Outputs that are taken at once: each has its whole index in memory meanwhile, some 100 MB for a million partitions.
const TAKES_MAX: usize = 2;

impl Agent {
    pub(crate) fn new(rules: Rules, around: Surroundings) -> Self {
        Agent {
            core: Core::new(rules),
            calls: Calls::new(around.jobtracker.clone(), around.inputs.clone()),
            around,
            jobs: Jobs::default(),
            runners: Runners::default(),
            takes: Arc::new(Semaphore::new(TAKES_MAX)),
        }
    }

    /// Feeds the core until it ends, which it does some time after `shutdown`.
    pub(crate) async fn run(
        mut self,
        mut inputs: mpsc::Receiver<Input>,
        shutdown: daemon::Shutdown,
    ) {
        let start = Instant::now();
        let mut is_stopping = false;
        supervisor::status("waits for the JobTracker");
        loop {
            supervisor::alive();
            let event = tokio::select! {
                () = shutdown.wait(), if !is_stopping => {
                    is_stopping = true;
                    Event::Shutdown
                }
                input = inputs.recv() => match input {
                    Some(Input::Event(event)) => event,
                    Some(Input::Over { runner, orders }) => {
                        match self.runners.over(runner, orders) {
                            Some(event) => event,
                            None => continue,
                        }
                    }
                    Some(Input::Figures(reply)) => {
                        // If the caller has left, nobody needs the answer.
                        let _ = reply.send(self.core.figures());
                        continue;
                    }
                    None => return,
                },
                () = tokio::time::sleep_until(start + self.core.wake_at()) => Event::Tick,
            };
            if self.feed(event, start).is_break() {
                return;
            }
        }
    }

    /// Feeds an event and the results that are there at once.
    fn feed(&mut self, event: Event, start: Instant) -> ControlFlow<()> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            if let Event::Runner(id, News::Gone { .. }) = &event {
                self.runners.remove(*id);
            }
            for effect in self.core.on(event, start.elapsed()) {
                if matches!(effect, Effect::End) {
                    return ControlFlow::Break(());
                }
                match self.perform(effect) {
                    // Before any news for the attempt.
                    Some(event @ Event::Undelivered { .. }) => events.push_front(event),
                    result => events.extend(result),
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Performs an effect; returns its result if that is there at once.
    fn perform(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Call { call, request, timeout } => self.calls.send(call, request, timeout),
            Effect::Prepare(attempt) => {
                return Some(Event::Prepared(attempt, self.jobs.prepare(attempt, &self.around)));
            }
            Effect::Fetch(binary, user) => return self.fetch(binary, user),
            Effect::Link(outputs) => {
                return Some(Event::Linked(links::link(&outputs, &self.around.outputs)));
            }
            Effect::Start { runner, job, program, silence_max } => {
                let options = self.options(job, *program, silence_max);
                self.runners.start(runner, options, self.around.inputs.clone());
            }
            Effect::Give { runner, attempt, work } => return self.give(runner, attempt, work),
            Effect::Announce { runner, available, obsolete } => {
                self.runners.order(runner, Order::MapOutputs { available, obsolete });
            }
            Effect::RenewPass(runner) => self.runners.renew_pass(runner, &self.around.setup),
            Effect::Exit(runner) => self.runners.order(runner, Order::Exit),
            Effect::Kill(runner) => self.runners.order(runner, Order::Kill),
            Effect::TakeOutput { attempt, data_path, partition_count } => {
                return self.take_output(attempt, data_path, partition_count);
            }
            Effect::ReadRecord(attempt) => {
                let place = self.jobs.place(attempt);
                let record = place.and_then(|place| results::read_record(attempt, place));
                return Some(Event::RecordRead(attempt, record));
            }
            Effect::DeleteAttempt(attempt) => self.jobs.clear(attempt, &self.around),
            Effect::DropOutputs(attempts) => self.drop_outputs(&attempts),
            Effect::ForgetOutputs(job) => self.around.outputs.forget_job(job),
            Effect::DeleteJob(job) => self.jobs.delete(job, &self.around),
            Effect::MeasureDisk => self.measure_disk(),
            Effect::PruneLogs => self.prune_logs(),
            Effect::Log(note) => self.log(&note),
            Effect::End => {}
        }
        None
    }

    /// Takes the output of an attempt away from the loop: its index has a line for each of perhaps a million partitions.
    fn take_output(
        &self,
        attempt: AttemptId,
        data_path: String,
        partition_count: u32,
    ) -> Option<Event> {
        let Some(place) = self.jobs.place(attempt).cloned() else {
            let gone = Err("the directory of the attempt is gone".to_owned());
            return Some(Event::OutputTaken(attempt, gone));
        };
        let (outputs, inputs) = (self.around.outputs.clone(), self.around.inputs.clone());
        let turns = Arc::clone(&self.takes);
        tokio::spawn(async move {
            let _turn = turns.acquire().await;
            let taking = tokio::task::spawn_blocking(move || {
                results::take_output(attempt, &place, &data_path, partition_count, &outputs)
            });
            let taken =
                taking.await.unwrap_or_else(|error| Err(format!("cannot take it: {error}")));
            // If the loop has ended, nobody needs the result.
            let _ = inputs.send(Input::Event(Event::OutputTaken(attempt, taken))).await;
        });
        None
    }

    /// Deletes outputs that no task needs.
    fn drop_outputs(&self, attempts: &[AttemptId]) {
        for attempt in attempts {
            if let Err(error) = self.around.outputs.drop_output(*attempt) {
                tracing::warn!(output = %attempt, %error, "cannot delete an output; it goes with its job");
            }
        }
    }

    /// Fetches an executable, unless it is there.
    fn fetch(&self, hash: BinaryHash, user: String) -> Option<Event> {
        if self.around.binaries.known(hash).is_some() {
            return Some(Event::Fetched(hash, Ok(())));
        }
        let (binaries, source) = (self.around.binaries.clone(), Arc::clone(&self.around.source));
        let inputs = self.around.inputs.clone();
        tokio::task::spawn_blocking(move || {
            let result = binaries.obtain(hash, &user, source.as_ref()).map(drop);
            let result = result.map_err(|error| chain(&error));
            tell(&inputs, Event::Fetched(hash, result));
        });
        None
    }

    fn options(&self, job: JobId, mut program: Program, silence_max: Duration) -> Options {
        let around = &self.around;
        program.properties.insert(SILENCE_PROPERTY.to_owned(), silence_max.as_millis().to_string());
        let files = self.jobs.get(job).expect("the core starts runners in prepared jobs");
        Options {
            binary: around.binaries.path(program.binary),
            job: files.place.clone(),
            user: files.user(),
            outputs: around.outputs.job_path(job),
            logs: around.logs.clone(),
            setup: around.setup.of(job, program),
            start_timeout: around.start_timeout,
            silence_max,
            log_bytes_max: around.log_bytes_max,
            watch: around.watch.clone(),
            sandbox: Arc::clone(&around.sandbox),
        }
    }

    fn give(&self, runner: RunnerId, attempt: AttemptId, work: Work) -> Option<Event> {
        let place = self.jobs.place(attempt).expect("the core gives prepared attempts").clone();
        match self.runners.give(runner, Order::Launch { attempt, work, place })? {
            Order::Launch { attempt, work, .. } => {
                Some(Event::Undelivered { runner, attempt, work })
            }
            _ => None,
        }
    }

    fn measure_disk(&self) {
        let (jobs, inputs) = (self.around.jobs.clone(), self.around.inputs.clone());
        let outputs = self.around.outputs.clone();
        tokio::task::spawn_blocking(move || {
            let used = sys::measure::measure(&jobs.path)
                .and_then(|used| Ok(used.bytes().saturating_add(outputs.used_bytes()?)));
            let used = used.inspect_err(|error| {
                tracing::warn!(%error, "cannot look at what tasks use on disk");
            });
            tell(&inputs, Event::DiskMeasured(used.ok()));
        });
    }

    fn prune_logs(&self) {
        let (root, retention) = (self.around.logs.clone(), self.around.log_retention);
        tokio::task::spawn_blocking(move || {
            if let Err(error) = logs::prune(&root.dir, retention) {
                tracing::warn!(%error, "cannot delete old logs");
            }
        });
    }

    fn log(&self, note: &Note) {
        match note {
            Note::Registered { epoch, level } => {
                supervisor::status("serves");
                tracing::info!(%epoch, %level, jobtracker = self.around.jobtracker.base(), "registered");
            }
            Note::OlderJobtracker { epoch, highest } => {
                tracing::warn!(%epoch, %highest, "an older jobtracker answers, not obeying it");
            }
            Note::OddRegistration => {
                tracing::warn!("the jobtracker gave another answer to a registration");
            }
            Note::OddPoll => tracing::warn!("the jobtracker gave another answer to a poll"),
            Note::CannotRegister(error) => {
                tracing::debug!(%error, "cannot register, trying again");
            }
            Note::RegistrationRefused(reason) => {
                tracing::error!(reason, "the jobtracker refuses this worker");
            }
            Note::CannotPoll(error) => tracing::debug!(%error, "cannot poll, trying again"),
            Note::Fenced => {
                supervisor::status("waits for the JobTracker");
                tracing::info!("fenced by the jobtracker, registering again");
            }
            Note::ReportKept(error) => {
                tracing::debug!(%error, "a report was not taken, it is kept");
            }
            Note::ReportRefused { reason, ends, fetch_failures } => {
                tracing::error!(reason, ends, fetch_failures, "the jobtracker refuses a report");
            }
            Note::RunnersLeft => tracing::warn!("some task processes did not end in time"),
        }
    }
}
