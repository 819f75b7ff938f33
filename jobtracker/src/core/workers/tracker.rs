//! Workers' reports: registration, news of attempts, failed fetches; and the loss of a worker.

use std::collections::BTreeSet;

use protocol::jobs::{Counters, JobState};
use protocol::phase::Phase;
use protocol::tracker::{
    Action, AttemptState as Reported, AttemptUpdate, FetchFailure, HotKey, Launch, MapOutput,
    PATH_BYTES_MAX, Register, Work, shortened, status_text,
};
use protocol::{
    AttemptId, DfsPath, Epoch, ErrorKind, FeatureLevel, JobId, RecordAt, RemoteError, TaskKind,
    WorkerId,
};

use crate::core::edit::{Edit, Made, Ran};
use crate::core::jobs::{Attempt, AttemptState, Job, StopReason, TEMPORARY};
use crate::core::{Core, Effect, Now, Output, order};

/// Most slots of a worker; bounds the damage of a wrong configuration.
const SLOTS_MAX: u32 = 4096;

impl Core {
    /// A worker's first contact, or its return.
    pub(crate) fn register(
        &mut self,
        register: &Register,
        now: Now,
    ) -> Result<Output, RemoteError> {
        check(register, self.level)?;
        let mut out = Output::default();
        let id = register.worker;
        if let Some(old) = self.workers.predecessor(&register.http_address, id) {
            self.lose_worker(old, now, &mut out);
        }
        self.workers.register(register, now.at);
        self.to_offer.everywhere();
        let believed = self.workers.worker(id).map(|worker| worker.running.clone());
        for attempt in believed.unwrap_or_default() {
            if !register.running.contains(&attempt) {
                self.stopped(attempt, "its worker no longer runs it", now, &mut out);
            }
        }
        let mut fed = BTreeSet::new();
        for attempt in &register.running {
            let job = attempt.task.job;
            if self.attach(id, *attempt, register, now, &mut out)
                && attempt.task.kind == TaskKind::Reduce
                && self.jobs[&job].rounds.is_none()
            {
                fed.insert(job);
            }
        }
        for job in fed {
            let outputs = self.jobs[&job].map_outputs();
            self.workers.push_outputs(id, job, &outputs, None);
            out.wake.insert(id);
        }
        for output in &register.held_outputs {
            self.attach_output(id, output, &mut out);
        }
        let held: Vec<AttemptId> =
            register.held_outputs.iter().map(|output| output.attempt).collect();
        for map in self.map_outputs.held_by(id) {
            if !held.contains(&map) {
                self.lose_output(id, map, None, now, &mut out);
            }
        }
        self.schedule(now, &mut out);
        Ok(out)
    }

    /// News of attempts. The sender must be registered under this epoch.
    pub(crate) fn report(
        &mut self,
        worker: WorkerId,
        epoch: Epoch,
        updates: Vec<AttemptUpdate>,
        fetch_failures: Vec<FetchFailure>,
        now: Now,
    ) -> Result<Output, RemoteError> {
        self.contact(worker, epoch, now)?;
        let mut out = Output::default();
        for update in updates {
            self.update(worker, update, now, &mut out);
        }
        for failure in fetch_failures {
            self.fetch_failed(&failure, now, &mut out);
        }
        self.schedule(now, &mut out);
        Ok(out)
    }

    /// A sign of life. True if the worker was suspect.
    pub(crate) fn contact(
        &mut self,
        worker: WorkerId,
        epoch: Epoch,
        now: Now,
    ) -> Result<bool, RemoteError> {
        let known = self
            .workers
            .worker(worker)
            .is_some_and(|worker| worker.liveness != super::table::Liveness::Expected);
        if epoch != self.epoch || !known {
            return Err(RemoteError::new(ErrorKind::Fenced, "Not registered; register again"));
        }
        let is_back = self.workers.seen(worker, now.at);
        if is_back {
            self.to_offer.everywhere();
        }
        Ok(is_back)
    }

    /// Orders for a worker that polls.
    pub(crate) fn take_actions(
        &mut self,
        worker: WorkerId,
        received: u64,
    ) -> Option<(u64, Vec<Action>)> {
        let (number, waiting) = self.workers.take_actions(worker, received)?;
        let mut actions: Vec<Action> = Vec::with_capacity(waiting.len());
        for action in waiting {
            match action {
                Action::Launch(launch) if matches!(launch.work, Work::Reduce(_)) => {
                    self.add_reduce(*launch, &mut actions);
                }
                action => actions.push(action),
            }
        }
        Some((number, actions))
    }

    /// Reduces of a job that start at once share one list of map outputs: separate lists would cost maps times reduces.
    fn add_reduce(&self, launch: Launch, actions: &mut Vec<Action>) {
        let job = launch.attempt.task.job;
        for action in actions.iter_mut() {
            if let Action::LaunchReduces { launches, .. } = action
                && launches.first().is_some_and(|first| first.attempt.task.job == job)
            {
                return launches.push(launch);
            }
        }
        let outputs = self.jobs.get(&job).map(Job::map_outputs).unwrap_or_default();
        actions.push(Action::LaunchReduces { launches: vec![launch], outputs });
    }

    /// A worker is gone: its attempts are killed, and its map outputs that are still needed are made again.
    pub(crate) fn lose_worker(&mut self, id: WorkerId, now: Now, out: &mut Output) {
        let Some(worker) = self.workers.worker(id) else { return };
        for attempt in worker.running.clone() {
            self.stopped(attempt, "its worker is lost", now, out);
        }
        self.workers.remove(id);
        for map in self.map_outputs.held_by(id) {
            self.lose_output(id, map, None, now, out);
        }
    }

    /// Adopts an attempt that a worker reports as running. True if it continues.
    fn attach(
        &mut self,
        worker: WorkerId,
        id: AttemptId,
        register: &Register,
        now: Now,
        out: &mut Output,
    ) -> bool {
        let Some(job) = self.jobs.get_mut(&id.task.job).filter(|job| job.final_state().is_none())
        else {
            self.order_worker(worker, Action::Kill(id), out);
            self.order_worker(worker, Action::ForgetJob(id.task.job), out);
            return false;
        };
        let wanted = job.is_active()
            && job.task(id.task).is_some_and(|task| {
                let old = task.attempt(id.number).map(|attempt| (attempt.state, attempt.worker));
                task.winner.is_none()
                    && job.has_inputs(id.task.kind, id.task.index)
                    && old.is_none_or(|(state, at)| {
                        at == worker
                            && matches!(state, AttemptState::Running | AttemptState::Killed)
                    })
            });
        if !wanted {
            self.order_worker(worker, Action::Kill(id), out);
            return false;
        }
        let place = (&*register.host, &*register.http_address);
        let attempt = Attempt::begin(id.number, worker, place, now.wall_ms);
        if job.attempt(id).is_none() {
            job.count_launch(id.task.kind, None, false);
        }
        job.tasks_mut(id.task.kind).change(id.task.index, |task| {
            match task.attempt_mut(id.number) {
                Some(old) => {
                    old.state = AttemptState::Running;
                    old.stop = None;
                    old.diagnostics.clear();
                    old.finished_ms = 0;
                }
                None => task.attempts.push(attempt),
            }
        });
        self.occupy(worker, id);
        self.stop_as_asked(id, out);
        out.changed.insert(id.task.job);
        self.refresh(id.task.job, now);
        true
    }

    fn attach_output(&mut self, worker: WorkerId, output: &MapOutput, out: &mut Output) {
        let id = output.attempt;
        match self.jobs.get(&id.task.job) {
            Some(job) if job.final_state().is_none() => {
                let is_winner = job
                    .task(id.task)
                    .and_then(|task| task.winner.as_ref())
                    .is_some_and(|winner| winner.number == id.number);
                // Of one that is live, the end is on its way.
                let is_live = job.attempt(id).is_some_and(|attempt| attempt.state.is_live());
                let is_round = id.task.kind == TaskKind::Reduce && job.is_active() && !is_live;
                if is_winner && job.needs_output(id.task) {
                    self.map_outputs.insert(worker, id);
                } else if is_round {
                    self.order_worker(worker, Action::DropOutputs { attempts: vec![id] }, out);
                }
            }
            _ => self.order_worker(worker, Action::ForgetJob(id.task.job), out),
        }
    }

    fn update(&mut self, worker: WorkerId, update: AttemptUpdate, now: Now, out: &mut Output) {
        let AttemptUpdate { attempt: id, state, progress, phase, counters, record, status } =
            update;
        let progress = if progress.is_finite() { progress.clamp(0.0, 1.0) } else { 0.0 };
        let known = self.jobs.get(&id.task.job).filter(|job| job.final_state().is_none());
        let Some(job) = known else {
            self.order_worker(worker, Action::ForgetJob(id.task.job), out);
            return;
        };
        let live = job
            .attempt(id)
            .filter(|attempt| attempt.worker == worker && attempt.state.is_live())
            .map(|attempt| attempt.state);
        let is_doomed =
            job.attempt(id).is_some_and(|attempt| attempt.stop == Some(StopReason::UserFails));
        if live.is_some() {
            self.note_progress(id, (progress, phase), now);
        }
        match (live, state) {
            (Some(_), Reported::Running) => {
                if let Some(job) = self.jobs.get_mut(&id.task.job) {
                    job.note_live(id, &counters, status_text(&status), now.wall_ms);
                }
                out.changed.insert(id.task.job);
            }
            (Some(_), Reported::MapDone { data_path, partition_bytes }) => {
                let made = self.map_output(worker, id, data_path, partition_bytes);
                self.attempt_done(worker, id, made, counters, now, out);
            }
            (Some(_), Reported::OutputDone { directory, hot_keys }) => {
                let made = self.files(id, directory, hot_keys);
                self.attempt_done(worker, id, made, counters, now, out);
            }
            (Some(_), Reported::RoundDone { data_path, summary, measure, kept }) => {
                match self.admit_summary(id, summary) {
                    Ok(summary) => {
                        let made = (summary, measure, kept);
                        let made = self.round_output(worker, id, data_path, made);
                        self.attempt_done(worker, id, made, counters, now, out);
                    }
                    Err(reason) => self.fail_job_by(worker, id, &reason.to_string(), now, out),
                }
            }
            (Some(AttemptState::Killing), Reported::Failed { .. } | Reported::Killed)
                if is_doomed =>
            {
                self.attempt_failed(worker, id, StopReason::UserFails.text(), None, now, out);
            }
            (Some(AttemptState::Killing), Reported::Failed { .. })
            | (Some(_), Reported::Killed) => {
                self.stopped(id, "stopped", now, out);
            }
            (Some(_), Reported::Failed { diagnostics }) => {
                self.attempt_failed(worker, id, &diagnostics, record, now, out);
            }
            (None, Reported::Running) => self.order_worker(worker, Action::Kill(id), out),
            (None, Reported::OutputDone { directory, .. }) => self.discard(id, directory, out),
            (None, Reported::RoundDone { kept, .. }) => self.discard_round(worker, id, kept, out),
            (None, Reported::MapDone { .. } | Reported::Failed { .. } | Reported::Killed) => {}
        }
    }

    /// Records the progress of a live attempt.
    fn note_progress(&mut self, id: AttemptId, (progress, phase): (f32, Option<Phase>), now: Now) {
        let Some(job) = self.jobs.get_mut(&id.task.job) else { return };
        let phase = phase.filter(|phase| phase.kind() == id.task.kind);
        // A task's own report is limited to the range from 0 to 1.
        let progress = if progress.is_nan() { 0.0 } else { progress.clamp(0.0, 1.0) };
        job.change_attempt(id, |attempt| {
            attempt.phase = phase.or(attempt.phase);
            if progress > attempt.progress {
                attempt.progress = progress;
                attempt.progressed_ms = now.wall_ms;
            }
        });
    }

    /// The output of a finished map, or why its report is wrong.
    fn map_output(
        &self,
        worker: WorkerId,
        id: AttemptId,
        data_path: String,
        mut partition_bytes: Vec<u64>,
    ) -> Result<Made, String> {
        let job = &self.jobs[&id.task.job];
        if id.task.kind != TaskKind::Map || job.spec.reduce_count == 0 {
            return Err("reported a map output, which this task does not make".to_owned());
        }
        if !job.reduce_plan.is_open() {
            partition_bytes = Vec::new();
        } else if partition_bytes.len() != job.spec.reduce_count as usize {
            let (reported, count) = (partition_bytes.len(), job.spec.reduce_count);
            return Err(format!("reported the sizes of {reported} partitions, not of {count}"));
        }
        let output = self.output(worker, id, data_path)?;
        Ok(Made::MapOutput { output, partition_bytes })
    }

    /// The place of an output that a worker holds.
    pub(super) fn output(
        &self,
        worker: WorkerId,
        id: AttemptId,
        data_path: String,
    ) -> Result<MapOutput, String> {
        if data_path.len() > PATH_BYTES_MAX {
            return Err("reported a map output under too long a path".to_owned());
        }
        let worker = self.workers.worker(worker).ok_or("its worker is unknown")?;
        Ok(MapOutput {
            attempt: id,
            http_address: worker.http_address.clone(),
            boot_id: worker.boot_id.clone(),
            data_path,
        })
    }

    /// The files that an attempt wrote, or why they cannot be its own.
    fn files(
        &self,
        id: AttemptId,
        directory: DfsPath,
        mut hot_keys: Vec<HotKey>,
    ) -> Result<Made, String> {
        let job = &self.jobs[&id.task.job];
        if id.task.kind == TaskKind::Map && job.spec.reduce_count > 0 {
            return Err(
                "reported files, which a map of a job with reduces does not write".to_owned()
            );
        }
        if !is_attempt_directory(&job.spec.output, id, &directory) {
            return Err(format!("reported {directory}, which is not its directory"));
        }
        if let Some(rounds) = &job.rounds {
            rounds.check_end(id.task.index, true)?;
        }
        // A task's report of its keys is a user's text: it is limited to the size that the engine produces.
        hot_keys.truncate(HotKey::COUNT_MAX);
        hot_keys.retain(|key| key.text.chars().count() <= HotKey::CHARS_MAX);
        Ok(Made::Files { directory, hot_keys })
    }

    fn attempt_done(
        &mut self,
        worker: WorkerId,
        id: AttemptId,
        made: Result<Made, String>,
        counters: Counters,
        now: Now,
        out: &mut Output,
    ) {
        let made = match made {
            Ok(made) => made,
            Err(reason) => return self.attempt_failed(worker, id, &reason, None, now, out),
        };
        let job = &self.jobs[&id.task.job];
        let decided = job.task(id.task).is_some_and(|task| task.winner.is_some());
        if decided || !job.is_active() {
            match made {
                Made::MapOutput { .. } => {}
                Made::Files { directory, .. } => self.discard(id, directory, out),
                Made::RoundOutput { kept, .. } => self.discard_round(worker, id, kept, out),
            }
            return self.stopped(id, "another attempt was faster", now, out);
        }
        if let Err(excess) = job.sums.admit(&counters, job.task_count()) {
            return self.fail_job_by(worker, id, &excess.to_string(), now, out);
        }
        let needed_from = job.needed_from();
        let Some(ran) = self.ran(id, now) else { return };
        self.release(worker, id);
        self.workers.count_end(worker, id, true, now.at);
        let output = match &made {
            Made::MapOutput { output, .. } | Made::RoundOutput { output, .. } => {
                Some(output.clone())
            }
            Made::Files { .. } => None,
        };
        self.commit(Edit::AttemptSucceeded { attempt: id, ran, made, counters }, out);
        let rivals: Vec<AttemptId> = self.jobs[&id.task.job]
            .task(id.task)
            .into_iter()
            .flat_map(|task| &task.attempts)
            .filter(|attempt| attempt.state == AttemptState::Running)
            .map(|attempt| AttemptId { task: id.task, number: attempt.number })
            .collect();
        rivals.into_iter().for_each(|rival| self.stop_attempt(rival, StopReason::Rival, out));
        if let Some(output) = output {
            if self.jobs[&id.task.job].needs_output(id.task) {
                self.map_outputs.insert(worker, id);
            } else if matches!(id.task.kind, TaskKind::Reduce) {
                self.order_worker(worker, Action::DropOutputs { attempts: vec![id] }, out);
            }
            self.announce(id.task.job, Some(&output), None, out);
        }
        if self.jobs[&id.task.job].needed_from() > needed_from {
            self.drop_outputs(id.task.job, out);
        }
        self.finish_if_done(id.task.job, now, out);
        self.refresh(id.task.job, now);
    }

    /// Further attempts would report as much: the job fails at once, as in Hadoop.
    fn fail_job_by(
        &mut self,
        worker: WorkerId,
        id: AttemptId,
        reason: &str,
        now: Now,
        out: &mut Output,
    ) {
        self.attempt_failed(worker, id, reason, None, now, out);
        if self.jobs[&id.task.job].is_active() {
            self.end(id.task.job, JobState::Failed, &format!("{reason}; {id}"), now, out);
        }
    }

    fn attempt_failed(
        &mut self,
        worker: WorkerId,
        id: AttemptId,
        diagnostics: &str,
        record: Option<RecordAt>,
        now: Now,
        out: &mut Output,
    ) {
        let Some(ran) = self.ran(id, now) else { return };
        self.release(worker, id);
        self.workers.count_end(worker, id, false, now.at);
        let diagnostics = shortened(diagnostics.to_owned());
        let reached = self.reached(id);
        let recorded = diagnostics.clone();
        self.commit(
            Edit::AttemptFailed { attempt: id, ran, diagnostics: recorded, record, reached },
            out,
        );
        if self.avoids(id.task.job, worker) {
            // The job avoids only the worst, so perhaps no longer one that has free slots.
            self.to_offer.everywhere();
        }
        self.fail_job_if_exhausted(id, &diagnostics, now, out);
        self.clean_up_if_stopped(id.task.job, out);
        self.refresh(id.task.job, now);
    }

    fn fail_job_if_exhausted(
        &mut self,
        id: AttemptId,
        diagnostics: &str,
        now: Now,
        out: &mut Output,
    ) {
        let job = &self.jobs[&id.task.job];
        let Some(task) = job.task(id.task) else { return };
        let failed = task.count(AttemptState::Failed);
        let bad = job.bad_records(id.task);
        let reason = if job.settings.skip_max > 0 && bad.len() > job.settings.skip_max as usize {
            format!(
                "Task {} met {} bad records and may leave out {} (mapreduce.map.skip.maxrecords); the last attempt, {id}: {diagnostics}",
                id.task,
                bad.len(),
                job.settings.skip_max
            )
        } else {
            let times = if failed == 1 { "once".to_owned() } else { format!("{failed} times") };
            format!("Task {} failed {times}; the last attempt, {id}: {diagnostics}", id.task)
        };
        if job.is_active() && task.winner.is_none() && job.is_exhausted(id.task) {
            self.end(id.task.job, JobState::Failed, &reason, now, out);
        }
    }

    /// An attempt ended without a result and without fault of its own.
    fn stopped(&mut self, id: AttemptId, why: &str, now: Now, out: &mut Output) {
        self.mark_killed(id, why, now, out);
        out.changed.insert(id.task.job);
        self.clean_up_if_stopped(id.task.job, out);
        self.refresh(id.task.job, now);
    }

    /// Removes the files of an attempt that is not the winner of its task.
    pub(super) fn discard(&mut self, id: AttemptId, directory: DfsPath, out: &mut Output) {
        let Some(job) = self.jobs.get(&id.task.job) else { return };
        let is_needed = job.is_winner(id) || job.is_kept(id.task, &directory);
        if !is_needed && is_attempt_directory(&job.spec.output, id, &directory) {
            order(job, Effect::DeleteAttempt(directory), out);
        }
    }

    fn fetch_failed(&mut self, failure: &FetchFailure, now: Now, out: &mut Output) {
        let FetchFailure { reduce, map, diagnostics } = failure;
        let Some(job) = self.jobs.get(&map.task.job).filter(|job| job.needs_map_outputs()) else {
            return;
        };
        let reporter_runs = reduce.task.job == map.task.job
            && job.attempt(*reduce).is_some_and(|attempt| attempt.state.is_live());
        let holder = job.attempt(*map).map(|attempt| attempt.worker);
        let holder = holder.filter(|_| job.is_winner(*map) && job.needs_output(map.task));
        let (running, is_in_rounds) = (job.reduces.running(), job.rounds.is_some());
        match holder.filter(|_| reporter_runs) {
            Some(worker) if self.map_outputs.report_failure(*map, *reduce, running) => {
                let reason =
                    format!("Too many fetch failures; the last, of {reduce}: {diagnostics}");
                self.lose_output(worker, *map, Some(shortened(reason)), now, out);
            }
            // No news will tell it of another.
            None if reporter_runs && is_in_rounds => {
                self.stop_attempt(*reduce, StopReason::InputLost, out);
            }
            _ => {}
        }
    }

    /// The output of a finished map or task of a round is gone; it runs again.
    fn lose_output(
        &mut self,
        worker: WorkerId,
        map: AttemptId,
        failed: Option<String>,
        now: Now,
        out: &mut Output,
    ) {
        self.map_outputs.remove(worker, map);
        let id = map.task.job;
        if !self.jobs.get(&id).is_some_and(Job::needs_map_outputs) {
            return;
        }
        self.commit(Edit::OutputLost { attempt: map, failed: failed.clone() }, out);
        self.announce(id, None, Some(map), out);
        self.stop_without_inputs(id, out);
        if let Some(diagnostics) = failed {
            self.fail_job_if_exhausted(map, &diagnostics, now, out);
        }
        self.refresh(id, now);
    }

    /// Sends news of a job's map outputs to the workers that run its reduces.
    fn announce(
        &mut self,
        id: JobId,
        new: Option<&MapOutput>,
        gone: Option<AttemptId>,
        out: &mut Output,
    ) {
        // Tasks of rounds have all that they need from their start on.
        let takes_news = |job: &&Job| job.rounds.is_none() && job.reduces.running() > 0;
        let Some(job) = self.jobs.get(&id).filter(takes_news) else { return };
        let live = job.reduces.live().flat_map(|(_, task)| task.live());
        let live = live.filter(|attempt| attempt.state == AttemptState::Running);
        let workers: BTreeSet<WorkerId> = live.map(|attempt| attempt.worker).collect();
        let new = new.map(std::slice::from_ref).unwrap_or_default();
        for worker in workers {
            self.workers.push_outputs(worker, id, new, gone);
            out.wake.insert(worker);
        }
    }

    pub(crate) fn ran(&self, id: AttemptId, now: Now) -> Option<Ran> {
        let attempt = self.jobs.get(&id.task.job)?.attempt(id)?;
        Some(Ran {
            worker: attempt.worker,
            host: attempt.host.clone(),
            http_address: attempt.http_address.clone(),
            started_ms: attempt.started_ms,
            finished_ms: now.wall_ms,
            speculative: attempt.speculative,
            nearness: attempt.nearness,
        })
    }
}

fn check(register: &Register, level: FeatureLevel) -> Result<(), RemoteError> {
    let refuse = |reason: String| Err(RemoteError::new(ErrorKind::InvalidArgument, reason));
    RemoteError::check_version(register.version, protocol::tracker::VERSION)?;
    if let Err(unsupported) = register.levels.check(level) {
        return refuse(unsupported.to_string());
    }
    if register.slot_count == 0 || register.slot_count > SLOTS_MAX {
        return refuse(format!("A worker has between 1 and {SLOTS_MAX} slots"));
    }
    Ok(())
}

/// True for `<output>/_temporary/<attempt>`.
pub(super) fn is_attempt_directory(output: &DfsPath, id: AttemptId, directory: &DfsPath) -> bool {
    output.join(&format!("{TEMPORARY}/{id}")).is_ok_and(|expected| expected == *directory)
}
