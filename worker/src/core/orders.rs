//! Orders of the JobTracker: from a launch to an attempt with a runner, stops, news for reduces, the end of a job.

use std::sync::Arc;
use std::time::Duration;

use protocol::property::keys;
use protocol::tracker::{Action, AttemptState, Launch, MapOutput, Program, Work};
use protocol::{AttemptId, BinaryHash, JobId};

use super::Core;
use super::attempt::{Attempt, Stage, merge_outputs};
use super::effect::Effect;
use super::event::RunnerId;

impl Core {
    /// Obeys orders until one has to wait for links.
    pub(super) fn obey_waiting(&mut self) {
        while !self.is_linking
            && let Some(action) = self.backlog.pop_front()
        {
            let missing = self.missing_links(&action);
            if missing.is_empty() {
                self.obey(action);
            } else {
                self.is_linking = true;
                self.backlog.push_front(action);
                self.effects.push(Effect::Link(missing));
            }
        }
    }

    /// Links are made, or cannot be: the order that waited for them is obeyed either way.
    pub(super) fn linked(&mut self, attempts: Vec<AttemptId>) {
        if !self.is_linking {
            return;
        }
        self.is_linking = false;
        self.near.linked(attempts);
        if let Some(action) = self.backlog.pop_front() {
            self.obey(action);
        }
        self.obey_waiting();
    }

    /// The outputs of other workers on this machine that tasks cannot reach yet, although the order makes them need them.
    fn missing_links(&self, action: &Action) -> Vec<MapOutput> {
        let (outputs, fixed) = match action {
            Action::LaunchReduces { outputs, .. } => (outputs.as_slice(), None),
            Action::Launch(launch) => match &launch.work {
                Work::Round(work) => (work.inputs.as_slice(), work.fixed.as_ref()),
                Work::Map { .. } | Work::Reduce(_) => return Vec::new(),
            },
            // Leaves nothing behind for a job that has ended meanwhile.
            Action::MapOutputs { job, available, .. } if self.jobs.is_known(*job) => {
                (available.as_slice(), None)
            }
            _ => return Vec::new(),
        };
        let fixed = fixed.map(std::slice::from_ref).unwrap_or_default();
        let is_going = |output: &MapOutput| self.jobs.is_going(output.attempt.task.job);
        if !self.rules.links_outputs || outputs.iter().chain(fixed).any(is_going) {
            return Vec::new();
        }
        let mut missing = self.near.missing(outputs, &self.rules);
        // In round 1 it is one of the inputs, too.
        let is_new =
            |output: &MapOutput| missing.iter().all(|other| other.attempt != output.attempt);
        let fixed: Vec<MapOutput> =
            self.near.missing(fixed, &self.rules).into_iter().filter(is_new).collect();
        missing.extend(fixed);
        missing
    }

    fn obey(&mut self, action: Action) {
        match action {
            Action::Launch(mut launch) => {
                if let Work::Round(work) = &mut launch.work {
                    let inputs: &mut Vec<MapOutput> = Arc::make_mut(&mut work.inputs);
                    self.near.bring(inputs, &self.rules);
                    self.near.bring(work.fixed.as_mut_slice(), &self.rules);
                }
                self.launch(launch);
            }
            Action::LaunchReduces { launches, mut outputs } => {
                self.near.bring(&mut outputs, &self.rules);
                let outputs = Arc::new(outputs);
                for launch in launches {
                    let mut launch = Box::new(launch);
                    if let Work::Reduce(work) = &mut launch.work {
                        work.outputs = Arc::clone(&outputs);
                    }
                    self.launch(launch);
                }
            }
            Action::Kill(attempt) => self.kill(attempt),
            Action::MapOutputs { job, mut available, obsolete } => {
                self.near.bring(&mut available, &self.rules);
                self.map_outputs(job, &available, &obsolete);
            }
            Action::ForgetJob(job) => self.forget(job),
            Action::DropOutputs { attempts } => self.drop_outputs(attempts),
        }
    }

    fn launch(&mut self, mut launch: Box<Launch>) {
        let id = launch.attempt;
        if self.attempts.contains_key(&id) {
            return;
        }
        // It would get directories that are being deleted. It is tried again, here or elsewhere.
        if self.jobs.is_going(id.task.job) {
            return self.end(id, AttemptState::Killed);
        }
        self.jobs.begin(id.task.job, self.now);
        self.share_program(&mut launch);
        self.attempts.insert(id, Attempt::new(launch));
        self.effects.push(Effect::Prepare(id));
    }

    /// Each launch arrives with the description of its job, which may be long: those that say the same share one.
    fn share_program(&self, launch: &mut Launch) {
        let of_job = self.attempts.iter().filter(|(id, _)| id.task.job == launch.attempt.task.job);
        let mut known = of_job.map(|(_, attempt)| &attempt.launch.program);
        if let Some(same) = known.find(|known| **known == launch.program) {
            launch.program = Arc::clone(same);
        }
    }

    /// The directory of an attempt exists, or cannot be made.
    pub(super) fn prepared(&mut self, id: AttemptId, result: Result<(), String>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if !matches!(attempt.stage, Stage::Preparing) {
            return;
        }
        match result {
            Ok(()) => {
                attempt.stage = Stage::Fetching;
                let program = Arc::clone(&attempt.launch.program);
                if !self.fetching.contains_key(&program.binary) {
                    self.fetch(&program);
                }
            }
            Err(diagnostics) => {
                self.attempts.remove(&id);
                self.end(id, AttemptState::Failed { diagnostics });
            }
        }
    }

    fn fetch(&mut self, program: &Program) {
        self.fetching.insert(program.binary, program.user.clone());
        self.effects.push(Effect::Fetch(program.binary, program.user.clone()));
    }

    /// An executable is there, or cannot be obtained. What one user has not says nothing of another's files.
    pub(super) fn fetched(&mut self, binary: BinaryHash, result: &Result<(), String>) {
        let Some(user) = self.fetching.remove(&binary) else { return };
        let waits = |attempt: &Attempt| {
            matches!(attempt.stage, Stage::Fetching) && attempt.launch.program.binary == binary
        };
        let waiting = self.attempts.iter().filter(|(_, attempt)| waits(attempt));
        let waiting: Vec<(AttemptId, Arc<Program>)> =
            waiting.map(|(id, attempt)| (*id, Arc::clone(&attempt.launch.program))).collect();
        for (id, program) in waiting {
            match result {
                Ok(()) => self.give(id),
                Err(reason) if program.user == user => {
                    self.attempts.remove(&id);
                    let diagnostics = reason.clone();
                    self.end(id, AttemptState::Failed { diagnostics });
                }
                Err(_) if self.fetching.contains_key(&binary) => {}
                Err(_) => self.fetch(&program),
            }
        }
    }

    /// Gives an attempt an idle runner of its job, or a new one.
    fn give(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let runner = self.runners.reuse(id).unwrap_or_else(|| {
            let runner = self.runners.start(id, self.now);
            let program = &attempt.launch.program;
            self.effects.push(Effect::Start {
                runner,
                job: id.task.job,
                program: Box::new(Program::clone(program)),
                silence_max: silence_max(program).unwrap_or(self.rules.silence_max),
            });
            runner
        });
        attempt.stage = Stage::Running(runner);
        let work = attempt.hand_over();
        self.effects.push(Effect::Give { runner, attempt: id, work });
    }

    /// A runner was over before it got its attempt: another one gets it.
    pub(super) fn undelivered(&mut self, runner: RunnerId, id: AttemptId, work: Work) {
        if !self.runners.has(runner, id) {
            return;
        }
        self.runners.lost(runner);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.killing {
            self.attempts.remove(&id);
            return self.end(id, AttemptState::Killed);
        }
        attempt.launch.work = work;
        self.give(id);
    }

    fn kill(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.get_mut(&id) else {
            // Its end is on the way to the JobTracker, or it was never here.
            if !self.outbox.attempts().any(|attempt| attempt == id) {
                self.end(id, AttemptState::Killed);
            }
            return;
        };
        match attempt.stage {
            Stage::Preparing | Stage::Fetching => {
                self.attempts.remove(&id);
                self.end(id, AttemptState::Killed);
            }
            Stage::Running(runner) => {
                attempt.killing = true;
                self.runners.leave(runner, Effect::Kill(runner), &mut self.effects);
            }
            // It has ended.
            Stage::Concluding(_) => {}
        }
    }

    fn map_outputs(&mut self, job: JobId, available: &[MapOutput], obsolete: &[AttemptId]) {
        // A task of a round has all that it needs from its launch on.
        let takes_news = |attempt: &Attempt| matches!(attempt.launch.work, Work::Reduce(_));
        let reduces = self
            .attempts
            .iter_mut()
            .filter(|(id, attempt)| id.task.job == job && takes_news(attempt));
        for (_, attempt) in reduces {
            let waits = attempt.waits();
            if let Some(runner) = attempt.runner() {
                let (available, obsolete) = (available.to_vec(), obsolete.to_vec());
                self.effects.push(Effect::Announce { runner, available, obsolete });
            } else if waits && let Work::Reduce(work) = &mut attempt.launch.work {
                merge_outputs(&mut work.outputs, available.to_vec(), obsolete);
            }
        }
    }

    /// Deletes outputs that no task needs any more: those made here, and the links to others.
    fn drop_outputs(&mut self, attempts: Vec<AttemptId>) {
        let mut here = attempts;
        here.retain(|attempt| self.held.remove(attempt) | self.near.drop_output(*attempt));
        if !here.is_empty() {
            self.effects.push(Effect::DropOutputs(here));
        }
    }

    /// A job is over: its runners end, then its files go.
    pub(super) fn forget(&mut self, job: JobId) {
        self.held.retain(|attempt| attempt.task.job != job);
        self.effects.push(Effect::ForgetOutputs(job));
        self.attempts.retain(|id, attempt| id.task.job != job || !attempt.waits());
        for (_, attempt) in self.attempts.iter_mut().filter(|(id, _)| id.task.job == job) {
            (attempt.killing, attempt.is_forgotten) = (true, true);
        }
        self.runners.end(job, self.now, &mut self.effects);
        self.jobs.forget(job);
        self.delete_if_unused(job);
    }

    /// Deletes the files of a forgotten job once no process of it is left, and nothing of what they left is being taken.
    pub(super) fn delete_if_unused(&mut self, job: JobId) {
        let mut of_job = self.attempts.iter().filter(|(id, _)| id.task.job == job);
        let is_taking = of_job.any(|(_, attempt)| matches!(attempt.stage, Stage::Concluding(_)));
        if is_taking || self.runners.any_of(job) || !self.jobs.leave_forgotten(job) {
            return;
        }
        self.near.forget(job);
        if self.jobs.delete(job) {
            self.effects.push(Effect::DeleteJob(job));
        }
    }
}

/// What a job says of silence. The JobTracker refuses jobs whose value cannot be read.
fn silence_max(program: &Program) -> Option<Duration> {
    let timeout = keys::TASK_TIMEOUT.get(&program.properties).ok().flatten();
    timeout.map(|timeout| Duration::from_millis(timeout.0))
}
