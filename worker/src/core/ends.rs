//! Reports of runners, and the ends of attempts: from what a process says to what the JobTracker learns.
//!
//! Invariants: a runner speaks of the attempt that it has, and of no other; an attempt ends once; the JobTracker learns of an end after the
//! worker has taken the result.

use protocol::rounds::RoundWork;
use protocol::tracker::{AttemptState, AttemptUpdate, Reply, Request, Work};
use protocol::{AttemptId, RecordAt};

use super::attempt::{Attempt, Ending, Reached, Stage};
use super::effect::{Effect, Note};
use super::event::{Answer, News, RunnerId};
use super::outbox::Outcome;
use super::{Core, REPORT_TIMEOUT};

impl Core {
    pub(super) fn runner_news(&mut self, id: RunnerId, news: News) {
        match news {
            News::Progress { attempt, progress, phase, counters }
                if self.runners.has(id, attempt) =>
            {
                if let Some(attempt) = self.attempts.get_mut(&attempt) {
                    attempt.reached = Reached { progress, phase: Some(phase) };
                    attempt.counters = counters;
                }
            }
            News::Status { attempt, text } if self.runners.has(id, attempt) => {
                if let Some(attempt) = self.attempts.get_mut(&attempt) {
                    attempt.status = text;
                }
            }
            News::FetchFailed(failure) if self.runners.has(id, failure.reduce) => {
                if self.outbox.fetch_failed(failure) {
                    self.report(false);
                }
            }
            News::Ended { attempt, state, counters, progress, phase }
                if self.runners.has(id, attempt) =>
            {
                self.runners.free(id, self.now);
                // The kernel counts a process's time over all attempts, so the next attempt gets its own process.
                if !self.rules.reuses_runners {
                    self.runners.leave(id, Effect::Exit(id), &mut self.effects);
                }
                let reached = Reached { progress, phase: Some(phase) };
                self.conclude(attempt, Ending { counters, ..Ending::new(state, reached) });
            }
            News::Gone { diagnostics } => self.gone(id, diagnostics),
            // It is over, or was never the runner's.
            News::Progress { .. }
            | News::Status { .. }
            | News::FetchFailed(_)
            | News::Ended { .. } => {}
        }
    }

    fn gone(&mut self, id: RunnerId, diagnostics: String) {
        let Some(runner) = self.runners.remove(id) else { return };
        let current = runner.current.and_then(|id| Some((id, self.attempts.get(&id)?)));
        if let Some((id, attempt)) = current {
            let state = match attempt.killing {
                true => AttemptState::Killed,
                false => AttemptState::Failed { diagnostics },
            };
            let ending = Ending { has_died: true, ..Ending::new(state, attempt.reached) };
            self.conclude(id, ending);
        }
        self.delete_if_unused(runner.job);
    }

    /// The process of an attempt has ended it: checks what it left, if that matters for its end.
    fn conclude(&mut self, id: AttemptId, mut ending: Ending) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.is_forgotten && reported_path(&mut ending.state).is_some() {
            ending.state = AttemptState::Killed;
        }
        let check = match (&ending.state, &attempt.launch.work) {
            (AttemptState::MapDone { data_path, .. }, _) => Effect::TakeOutput {
                attempt: id,
                data_path: data_path.clone(),
                partition_count: attempt.launch.program.partition_count,
            },
            (AttemptState::RoundDone { data_path, .. }, Work::Round(work)) => Effect::TakeOutput {
                attempt: id,
                data_path: data_path.clone(),
                partition_count: RoundWork::output_partitions(work.partition_count),
            },
            (AttemptState::Failed { .. }, Work::Map { .. }) => Effect::ReadRecord(id),
            _ => {
                self.attempts.remove(&id);
                return self.end_in(id, ending, None);
            }
        };
        self.effects.push(check);
        attempt.stage = Stage::Concluding(Box::new(ending));
    }

    /// The output of a map or of a task of a round is taken, or cannot be used.
    pub(super) fn output_taken(&mut self, id: AttemptId, result: Result<Vec<u64>, String>) {
        let Some(Attempt { launch, stage: Stage::Concluding(ending), is_forgotten, .. }) =
            self.attempts.get_mut(&id)
        else {
            return;
        };
        let Some(path) = reported_path(&mut ending.state) else { return };
        match result {
            // Its output goes with its job.
            Ok(_) if *is_forgotten => ending.state = AttemptState::Killed,
            Ok(sizes) => {
                self.held.insert(id);
                *path = self.rules.data_path(id);
                if let AttemptState::MapDone { partition_bytes, .. } = &mut ending.state {
                    *partition_bytes = if launch.program.sizes_wanted { sizes } else { Vec::new() };
                }
            }
            Err(diagnostics) => ending.state = AttemptState::Failed { diagnostics },
        }
        match (&ending.state, &launch.work) {
            (AttemptState::Failed { .. }, Work::Map { .. }) => {
                self.effects.push(Effect::ReadRecord(id));
            }
            _ => self.end_checked(id, None),
        }
    }

    /// The record that a map was processing when it failed, as its process named it.
    pub(super) fn record_read(&mut self, id: AttemptId, record: Option<RecordAt>) {
        let Some(Attempt { launch, stage: Stage::Concluding(ending), .. }) =
            self.attempts.get_mut(&id)
        else {
            return;
        };
        let (AttemptState::Failed { diagnostics }, Work::Map { split, .. }) =
            (&mut ending.state, &launch.work)
        else {
            return;
        };
        // A record of another split is no record.
        let place = record.and_then(|record| record.failure(split));
        let record = record.filter(|_| place.is_some());
        // The process died, so the worker adds the record. A task that reports its own failure names the record itself.
        if let Some(place) = place.filter(|_| ending.has_died) {
            *diagnostics = format!("{place}: {diagnostics}");
        }
        self.end_checked(id, record);
    }

    fn end_checked(&mut self, id: AttemptId, record: Option<RecordAt>) {
        if let Some(Attempt { stage: Stage::Concluding(ending), .. }) = self.attempts.remove(&id) {
            self.end_in(id, *ending, record);
            self.delete_if_unused(id.task.job);
        }
    }

    /// An attempt ends that no process ran, or none any more.
    pub(super) fn end(&mut self, id: AttemptId, state: AttemptState) {
        self.end_in(id, Ending::new(state, Reached::default()), None);
    }

    /// An attempt is over: reports it at once and deletes its files. The worker has already taken its result.
    fn end_in(&mut self, id: AttemptId, ending: Ending, record: Option<RecordAt>) {
        let Ending { state, counters, reached: Reached { progress, phase }, .. } = ending;
        if self.jobs.touch(id.task.job, self.now) {
            self.effects.push(Effect::DeleteAttempt(id));
        }
        self.ended.count(id.task.kind, &state);
        let attempt = id;
        let status = String::new();
        let update = AttemptUpdate { attempt, state, progress, phase, counters, record, status };
        self.outbox.end(update);
        self.report(false);
    }

    /// Sends new updates, if the session is up and no report is under way; `all` adds the progress of running attempts.
    pub(super) fn report(&mut self, all: bool) {
        let Some(epoch) = self.session.epoch().filter(|_| !self.outbox.is_under_way()) else {
            return;
        };
        let running = |(id, attempt): (&AttemptId, &Attempt)| AttemptUpdate {
            attempt: *id,
            state: AttemptState::Running,
            progress: attempt.reached.progress,
            phase: attempt.reached.phase,
            counters: attempt.counters.clone(),
            record: None,
            status: attempt.status.clone(),
        };
        let progress = if all { self.attempts.iter().map(running).collect() } else { Vec::new() };
        let Some((updates, fetch_failures)) = self.outbox.next(progress) else { return };
        let worker = self.rules.register.worker;
        let request = Request::Report { worker, epoch, updates, fetch_failures };
        self.reporting = Some(self.call(request, REPORT_TIMEOUT));
    }

    /// The answer to a report.
    pub(super) fn reported(&mut self, answer: Answer) {
        self.reporting = None;
        let outcome = match answer {
            Answer::Reply(Reply::Done) => Outcome::Taken,
            Answer::Reply(_) => Outcome::Lost,
            Answer::Refused(reason) => {
                let (ends, fetch_failures) = self.outbox.sent();
                let note = Note::ReportRefused { reason: reason.clone(), ends, fetch_failures };
                self.effects.push(Effect::Log(note));
                Outcome::Refused(reason)
            }
            Answer::Fenced(reason) | Answer::Lost(reason) => {
                self.effects.push(Effect::Log(Note::ReportKept(reason)));
                Outcome::Lost
            }
        };
        if self.outbox.settle(outcome) {
            self.report(false);
        }
    }
}

/// The path of the output that an attempt made for other tasks, if it made one.
fn reported_path(state: &mut AttemptState) -> Option<&mut String> {
    match state {
        AttemptState::MapDone { data_path, .. } | AttemptState::RoundDone { data_path, .. } => {
            Some(data_path)
        }
        AttemptState::Running
        | AttemptState::OutputDone { .. }
        | AttemptState::Failed { .. }
        | AttemptState::Killed => None,
    }
}
