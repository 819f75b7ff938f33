//! Workers, file system and journal around a [`Core`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use protocol::jobs::{Counters, JobSpec, JobState, Split};
use protocol::level::Supported;
use protocol::rounds::{RoundWork, Summary};
use protocol::tracker::{
    Action, AttemptState as Reported, AttemptUpdate, FetchFailure, Launch, MapOutput, Register,
    Work,
};
use protocol::{
    AttemptId, BinaryHash, CallId, ClientId, DfsPath, Epoch, ErrorKind, JobId, RemoteError,
    TaskKind, WorkerId,
};

use super::rounds::RoundLaws;
use crate::core::edit::Edit;
use crate::core::jobs::AttemptState;
use crate::core::jobs::TEMPORARY;
use crate::core::rights::{AccessList, Administrators, Caller};
use crate::core::submit::Submission;
use crate::core::unfinished::{Bounds, Load};
use crate::core::workers::DEAF_MAX;
use crate::core::{Core, Effect, EffectDone, EffectOrder, Now, Output, Rules};

pub(super) const RULES: Rules = Rules {
    suspect_after: Duration::from_secs(5),
    dead_after: Duration::from_secs(30),
    settle: Duration::from_secs(2),
    stop_wait: Duration::from_secs(10),
    history_job_count_max: 20,
    history_task_count_max: 1_000,
    bounds: Bounds {
        all: Load { jobs: 1_000, tasks: 4_000_000 },
        user: Load { jobs: 1_000, tasks: 2_000_000 },
    },
    locality_wait: Duration::from_millis(500),
    preemption_timeout: Duration::from_secs(10),
    speculation_after: Duration::from_secs(5),
    worker_faults_max: 2,
    worker_forgive: Duration::from_secs(3_600),
    queue_per_user: true,
    queues: BTreeMap::new(),
    administrators: Administrators { cluster: AccessList::NOBODY, queues: BTreeMap::new() },
};

/// A caller who may see everything.
pub(super) const ROOT: Caller<'_> = Caller { user: "root", groups: &[], is_superuser: true };

/// A running reduce's knowledge of map outputs, or the work of a task of a round.
pub(super) struct Running {
    pub(super) outputs: BTreeMap<u32, MapOutput>,
    pub(super) map_count: u32,
    pub(super) round: Option<RoundWork>,
}

pub(super) struct SimWorker {
    pub(super) register: Register,
    pub(super) epoch: Option<Epoch>,
    pub(super) received: u64,
    pub(super) running: BTreeMap<AttemptId, Running>,
    /// For each reduce launched here: its partitions, and the number of reduces.
    pub(super) reduced: Vec<(AttemptId, Range<u32>, u32)>,
    pub(super) held: BTreeSet<AttemptId>,
    pub(super) unconfirmed: Vec<AttemptUpdate>,
    pub(super) failures: Vec<FetchFailure>,
}

pub(super) struct World {
    pub(super) rules: Rules,
    pub(super) core: Core,
    pub(super) now: Now,
    pub(super) starts: u64,
    pub(super) edits: Vec<Edit>,
    pub(super) workers: BTreeMap<WorkerId, SimWorker>,
    pub(super) effects: BTreeMap<JobId, VecDeque<EffectOrder>>,
    pub(super) submissions: BTreeMap<JobId, Result<(), RemoteError>>,
    /// Jobs whose commit has begun, with their winners at that time.
    pub(super) published: BTreeMap<JobId, Vec<DfsPath>>,
    /// Directories that attempts reported as complete.
    pub(super) complete: BTreeSet<DfsPath>,
    pub(super) deleted: BTreeSet<DfsPath>,
    pub(super) launched: Vec<AttemptId>,
    pub(super) rounds: RoundLaws,
    worker_count: u8,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(RULES)
    }

    pub(super) fn with(rules: Rules) -> Self {
        let mut world = World {
            core: Core::new(rules.clone()),
            rules,
            now: Now { at: Duration::ZERO, wall_ms: 1_000_000 },
            starts: 0,
            edits: Vec::new(),
            workers: BTreeMap::new(),
            effects: BTreeMap::new(),
            submissions: BTreeMap::new(),
            published: BTreeMap::new(),
            complete: BTreeSet::new(),
            deleted: BTreeSet::new(),
            launched: Vec::new(),
            rounds: RoundLaws::default(),
            worker_count: 0,
        };
        world.restart();
        world
    }

    /// The JobTracker dies and starts again from its journal.
    pub(super) fn restart(&mut self) {
        self.starts += 1;
        self.core = Core::new(self.rules.clone());
        self.edits.iter().for_each(|edit| self.core.apply(edit));
        self.effects.clear();
        let out =
            self.core.recovered(Epoch(self.starts), 20_261_120_183_000 + self.starts, self.now);
        self.take(out);
        self.workers.values_mut().for_each(|worker| worker.epoch = None);
    }

    pub(super) fn take(&mut self, out: Output) {
        let live: Vec<AttemptId> =
            self.core.workers.iter().flat_map(|worker| worker.running.iter().copied()).collect();
        assert_eq!(live.len(), live.iter().collect::<BTreeSet<_>>().len(), "a slot per attempt");
        let in_queues: u32 = self.core.queues.iter().map(|queue| queue.slots).sum();
        assert_eq!(in_queues as usize, live.len(), "queues count every slot");
        self.core.queues.check();
        let unfinished = self.core.jobs.values().filter(|job| job.final_state().is_none());
        assert!(self.core.unfinished.jobs().eq(unfinished.map(|job| job.id)));
        self.core.workers.check();
        self.check_look();
        out.edits.iter().for_each(|edit| self.rounds.note(edit));
        self.core.jobs.values().for_each(|job| self.rounds.check(job));
        self.edits.extend(out.edits);
        for order in out.effects {
            if let Effect::Commit { winners, .. } = &order.effect {
                self.check_commit(&order, winners);
            }
            self.effects.entry(order.job).or_default().push_back(order);
        }
        self.submissions.extend(out.submitted);
    }

    /// A slot that the scheduler did not check would not have been taken.
    fn check_look(&mut self) {
        if !self.core.to_offer.is_nowhere() {
            return;
        }
        self.core.to_offer.everywhere();
        let mut out = Output::default();
        self.core.schedule(self.now, &mut out);
        assert!(out.changed.is_empty(), "a look everywhere leads to {out:?}");
    }

    /// Nothing is published twice with different content, and only complete files of one winner per task.
    fn check_commit(&mut self, order: &EffectOrder, winners: &[DfsPath]) {
        let job = self.core.job(order.job).unwrap();
        if job.rounds.is_some() {
            return self.check_last_round(order, winners);
        }
        self.check_reduces(job);
        let tasks = if job.spec.reduce_count > 0 { job.reduces.len() } else { job.maps.len() };
        let names: BTreeSet<String> = winners
            .iter()
            .map(|winner| winner.name().unwrap().parse::<AttemptId>().unwrap().task.to_string())
            .collect();
        assert_eq!((winners.len(), names.len()), (tasks as usize, tasks as usize));
        for winner in winners {
            assert!(self.complete.contains(winner) && !self.deleted.contains(winner), "{winner}");
        }
        if let Some(before) = self.published.insert(order.job, winners.to_vec()) {
            assert_eq!(before, winners, "the winners never change");
        }
    }

    /// The files of one round are published, of a task for each partition.
    fn check_last_round(&mut self, order: &EffectOrder, winners: &[DfsPath]) {
        let job = self.core.job(order.job).unwrap();
        let count = job.spec.reduce_count;
        let first = job.reduces.len() - count;
        let names = winners.iter().map(|winner| winner.name().unwrap().parse::<AttemptId>());
        let tasks: Vec<u32> = names.map(|attempt| attempt.unwrap().task.index).collect();
        assert_eq!(tasks, (first..first + count).collect::<Vec<_>>());
        let is_early = job.spec.rounds.is_some_and(|rounds| first < rounds.last * count);
        self.rounds.seen.ended_early += usize::from(is_early);
        for winner in winners {
            assert!(self.complete.contains(winner) && !self.deleted.contains(winner), "{winner}");
        }
        if let Some(before) = self.published.insert(order.job, winners.to_vec()) {
            assert_eq!(before, winners, "the winners never change");
        }
    }

    /// One task reduces every partition, and each attempt of it had the same partitions.
    fn check_reduces(&self, job: &crate::core::jobs::Job) {
        assert!(!job.reduce_plan.is_open(), "reduces were chosen");
        let count = job.reduces.len();
        let ranges: Vec<_> = (0..count).map(|index| job.reduce_plan.partitions(index)).collect();
        let all: Vec<u32> = ranges.iter().cloned().flatten().collect();
        assert_eq!(all, (0..job.spec.reduce_count).collect::<Vec<_>>());
        for (attempt, partitions, told) in self.workers.values().flat_map(|worker| &worker.reduced)
        {
            if attempt.task.job == job.id {
                assert_eq!(*partitions, ranges[attempt.task.index as usize], "{attempt}");
                assert_eq!(*told, count, "{attempt}");
            }
        }
    }

    /// The journal alone gives the live state.
    pub(super) fn check_replay(&self) {
        let mut replayed = Core::new(self.rules.clone());
        self.edits.iter().for_each(|edit| replayed.apply(edit));
        assert_eq!(digest(&replayed), digest(&self.core));
        assert_eq!(replayed.history, self.core.history);
        assert_eq!(replayed.next_number, self.core.next_number);
        for job in self.core.jobs.values() {
            let again = replayed.job(job.id).unwrap();
            for kind in [TaskKind::Map, TaskKind::Reduce] {
                for (index, task) in job.tasks(kind).iter() {
                    let killed = task.attempts.iter().filter(|a| a.state == AttemptState::Killed);
                    for attempt in killed {
                        let id =
                            AttemptId { task: job.task_id(kind, index), number: attempt.number };
                        let found =
                            again.attempt(id).map(|a| (a.state, &a.diagnostics, a.finished_ms));
                        let told = (attempt.state, &attempt.diagnostics, attempt.finished_ms);
                        assert_eq!(found, Some(told), "{id} is in the history after a restart");
                    }
                }
            }
        }
    }

    /// Time passes, and the loop checks it as often as in production.
    pub(super) fn advance(&mut self, time: Duration) {
        let mut left = time;
        while left > DEAF_MAX {
            self.stand_still(DEAF_MAX);
            left -= DEAF_MAX;
        }
        self.stand_still(left);
    }

    /// Time passes, and the loop does not check it.
    pub(super) fn pass(&mut self, time: Duration) {
        self.now.at += time;
        self.now.wall_ms += u64::try_from(time.as_millis()).unwrap();
    }

    /// Time passes while this process is stopped.
    pub(super) fn stand_still(&mut self, time: Duration) {
        self.pass(time);
        let out = self.core.tick(self.now);
        self.take(out);
    }

    pub(super) fn add_worker(&mut self, host: &str, slot_count: u32) -> WorkerId {
        self.worker_count += 1;
        let worker = WorkerId([self.worker_count; 16]);
        let register = Register {
            version: protocol::tracker::VERSION,
            levels: Supported::OWN,
            worker,
            host: host.to_owned(),
            rack: format!("/rack-{}", host.len() % 2),
            boot_id: host.to_owned(),
            http_address: format!("{host}:{}", self.worker_count),
            slot_count,
            isolation: String::new(),
            running: Vec::new(),
            held_outputs: Vec::new(),
        };
        let sim = SimWorker {
            reduced: Vec::new(),
            register,
            epoch: None,
            received: 0,
            running: BTreeMap::new(),
            held: BTreeSet::new(),
            unconfirmed: Vec::new(),
            failures: Vec::new(),
        };
        self.workers.insert(worker, sim);
        worker
    }

    /// A worker's registration.
    pub(super) fn snapshot(&self, id: WorkerId) -> Register {
        let worker = &self.workers[&id];
        let ended = worker.unconfirmed.iter().map(|update| update.attempt);
        let held = worker.held.iter().map(|attempt| worker.output(*attempt));
        Register {
            running: worker.running.keys().copied().chain(ended).collect(),
            held_outputs: held.collect(),
            ..worker.register.clone()
        }
    }

    /// One round of a worker: registers if necessary, polls, reports ended attempts.
    pub(super) fn contact(&mut self, id: WorkerId, confirm: bool) {
        if self.workers[&id].epoch.is_none() {
            let register = self.snapshot(id);
            let out = self.core.register(&register, self.now).unwrap();
            let epoch = self.core.epoch();
            let worker = self.workers.get_mut(&id).unwrap();
            (worker.epoch, worker.received) = (Some(epoch), 0);
            self.take(out);
        }
        self.report(id, confirm);
        self.poll(id);
        self.report(id, confirm);
    }

    fn poll(&mut self, id: WorkerId) {
        let worker = self.workers.get_mut(&id).unwrap();
        let Some(epoch) = worker.epoch else { return };
        if self.core.contact(id, epoch, self.now).is_err() {
            worker.epoch = None;
            return;
        }
        let again = self.core.take_actions(id, worker.received);
        let twice = self.core.take_actions(id, worker.received);
        assert_eq!(format!("{again:?}"), format!("{twice:?}"), "sent again until received");
        let Some((number, actions)) = again else { return };
        assert!(number > worker.received);
        worker.received = number;
        for action in actions {
            if let Action::DropOutputs { attempts } = &action {
                self.rounds.seen.dropped += attempts.len();
            }
            worker.obey(action, &mut self.launched);
        }
        for (attempt, running) in &worker.running {
            if let Some(work) = &running.round {
                self.rounds.check_work(*attempt, work);
                let kept = work.kept.iter();
                assert!(kept.clone().all(|dir| self.complete.contains(dir)), "{kept:?}");
                assert!(kept.clone().all(|dir| !self.deleted.contains(dir)), "{kept:?}");
            }
        }
        let slots = worker.register.slot_count as usize;
        assert!(worker.running.len() <= slots, "{} of {slots} slots", worker.running.len());
    }

    /// Sends a report; without `confirm` the answer gets lost and everything is sent again later.
    pub(super) fn report(&mut self, id: WorkerId, confirm: bool) {
        let worker = self.workers.get_mut(&id).unwrap();
        let Some(epoch) = worker.epoch else { return };
        let (updates, failures) = (worker.unconfirmed.clone(), worker.failures.clone());
        for update in &updates {
            if let Reported::OutputDone { directory, .. }
            | Reported::RoundDone { kept: Some(directory), .. } = &update.state
            {
                self.complete.insert(directory.clone());
            }
        }
        match self.core.report(id, epoch, updates, failures, self.now) {
            Ok(out) => {
                if confirm {
                    worker.unconfirmed.clear();
                    worker.failures.clear();
                }
                self.take(out);
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Fenced);
                worker.epoch = None;
            }
        }
    }

    /// A running attempt succeeds, as far as possible.
    pub(super) fn succeed(&mut self, id: WorkerId, attempt: AttemptId) {
        let job = self.core.job(attempt.task.job);
        let output = job.map(|job| {
            let sized = job.spec.sizing.map_or(0, |_| job.spec.reduce_count);
            (job.spec.output.clone(), job.spec.reduce_count, sized)
        });
        let Some((output, reduce_count, sized)) = output else { return self.fail(id, attempt) };
        let running = &self.workers[&id].running[&attempt];
        if let Some(work) = &running.round {
            return self.end_round(id, attempt, work.clone());
        }
        if attempt.task.kind == TaskKind::Reduce && reduce_count > 0 {
            if running.outputs.len() < running.map_count as usize {
                return;
            }
            let lost =
                running.outputs.values().find(|output| !self.is_held(output.attempt)).cloned();
            if let Some(lost) = lost {
                let failure = FetchFailure {
                    reduce: attempt,
                    map: lost.attempt,
                    diagnostics: "connection refused".to_owned(),
                };
                return self.workers.get_mut(&id).unwrap().failures.push(failure);
            }
        }
        let worker = self.workers.get_mut(&id).unwrap();
        let state = if attempt.task.kind == TaskKind::Map && reduce_count > 0 {
            worker.held.insert(attempt);
            let partition_bytes = sizes(attempt.task.index, sized);
            Reported::MapDone { data_path: format!("/data/{attempt}"), partition_bytes }
        } else {
            let directory = output.join(&format!("{TEMPORARY}/{attempt}")).unwrap();
            Reported::OutputDone { directory, hot_keys: Vec::new() }
        };
        worker.end(attempt, state);
    }

    pub(super) fn fail(&mut self, id: WorkerId, attempt: AttemptId) {
        let diagnostics = "poison record".to_owned();
        self.workers.get_mut(&id).unwrap().end(attempt, Reported::Failed { diagnostics });
    }

    /// A task of a round succeeds, or reports an input that is lost. Half of the jobs end early: the summaries name a round.
    fn end_round(&mut self, id: WorkerId, attempt: AttemptId, work: RoundWork) {
        let inputs = work.inputs.iter().chain(&work.fixed);
        if let Some(lost) = inputs.clone().find(|output| !self.is_held(output.attempt)) {
            let (reduce, map) = (attempt, lost.attempt);
            let failure =
                FetchFailure { reduce, map, diagnostics: "connection refused".to_owned() };
            return self.workers.get_mut(&id).unwrap().failures.push(failure);
        }
        let job = self.core.job(attempt.task.job).unwrap();
        let directory = job.spec.output.join(&format!("{TEMPORARY}/{attempt}")).unwrap();
        let stop_at = job.spec.fingerprint;
        let worker = self.workers.get_mut(&id).unwrap();
        let is_last = work.is_last || work.summaries.iter().any(|summary| summary.bytes[0] == 1);
        let state = if is_last {
            Reported::OutputDone { directory, hot_keys: Vec::new() }
        } else {
            worker.held.insert(attempt);
            let stops = u8::from(u64::from(work.round) == stop_at && work.partition == 0);
            // Another attempt would say something else.
            let number = u8::try_from(attempt.number % 251).unwrap();
            let partition = u8::try_from(work.partition).unwrap();
            Reported::RoundDone {
                data_path: format!("/data/{attempt}"),
                summary: Summary { bytes: vec![stops, partition, number] },
                measure: (work.round > 0).then_some(1.0 / f64::from(work.round)),
                kept: work.keeps.then_some(directory),
            }
        };
        worker.end(attempt, state);
    }

    /// An output is gone from a worker's disk, and the worker does not know.
    pub(super) fn lose_output(&mut self, id: WorkerId, attempt: AttemptId) {
        self.workers.get_mut(&id).unwrap().held.remove(&attempt);
    }

    /// A running attempt reports any end.
    pub(super) fn end_as(&mut self, id: WorkerId, attempt: AttemptId, state: Reported) {
        self.workers.get_mut(&id).unwrap().end(attempt, state);
    }

    fn is_held(&self, attempt: AttemptId) -> bool {
        self.workers.values().any(|worker| worker.held.contains(&attempt))
    }

    /// The oldest effect of a job ends.
    pub(super) fn do_effect(&mut self, job: JobId) {
        let Some(order) = self.effects.get_mut(&job).and_then(VecDeque::pop_front) else { return };
        let done = match order.effect {
            Effect::Setup { .. } => EffectDone::Setup(Ok(())),
            Effect::Commit { .. } => EffectDone::Commit(Ok(())),
            Effect::Cleanup => EffectDone::Cleanup,
            Effect::DeleteAttempt(directory) => {
                self.deleted.insert(directory);
                return;
            }
        };
        let out = self.core.effect_done(job, done, self.now);
        self.take(out);
    }

    pub(super) fn do_all_effects(&mut self) {
        let jobs: Vec<JobId> = self.effects.keys().copied().collect();
        for job in jobs {
            while self.effects.get(&job).is_some_and(|queue| !queue.is_empty()) {
                self.do_effect(job);
            }
        }
    }

    pub(super) fn submit(&mut self, number: u64, spec: JobSpec) -> Result<JobId, RemoteError> {
        self.submit_as("ann", number, spec)
    }

    pub(super) fn submit_as(
        &mut self,
        user: &str,
        number: u64,
        spec: JobSpec,
    ) -> Result<JobId, RemoteError> {
        let call = CallId { client: ClientId([9; 16]), number };
        match self.core.submit(call, user, spec, self.now)? {
            Submission::Known(job) => Ok(job),
            Submission::Waiting(job, out) => {
                self.take(out);
                Ok(job)
            }
        }
    }

    /// The attempts that a worker runs.
    pub(super) fn running(&self, worker: WorkerId) -> Vec<AttemptId> {
        self.workers[&worker].running.keys().copied().collect()
    }

    /// Names the machines to drain.
    pub(super) fn exclude(&mut self, hosts: &[&str]) {
        let names = hosts.iter().map(|host| (*host).to_owned()).collect();
        let out = self.core.set_excluded(names, self.now);
        self.take(out);
    }

    pub(super) fn state(&self, job: JobId) -> Option<JobState> {
        self.core.job(job).and_then(|job| job.final_state())
    }
}

impl SimWorker {
    fn obey(&mut self, action: Action, launched: &mut Vec<AttemptId>) {
        match action {
            Action::Launch(launch) => {
                let Launch { attempt, program, work } = *launch;
                let mut round = None;
                let outputs = match work {
                    Work::Map { .. } => Vec::new(),
                    Work::Round(work) => {
                        round = Some(*work);
                        Vec::new()
                    }
                    Work::Reduce(work) => {
                        self.reduced.push((attempt, work.partitions, work.reduce_count));
                        Arc::unwrap_or_clone(work.outputs)
                    }
                };
                let outputs = outputs.into_iter().map(|o| (o.attempt.task.index, o)).collect();
                let running = Running { outputs, map_count: program.map_count, round };
                assert!(self.running.insert(attempt, running).is_none(), "launched once");
                launched.push(attempt);
            }
            Action::LaunchReduces { launches, outputs } => {
                let outputs = Arc::new(outputs);
                for mut launch in launches {
                    if let Work::Reduce(work) = &mut launch.work {
                        work.outputs = Arc::clone(&outputs);
                    }
                    self.obey(Action::Launch(Box::new(launch)), launched);
                }
            }
            Action::Kill(attempt) => self.end(attempt, Reported::Killed),
            Action::MapOutputs { job, available, obsolete } => {
                for (attempt, running) in &mut self.running {
                    if attempt.task.job == job && attempt.task.kind == TaskKind::Reduce {
                        running.outputs.retain(|_, output| !obsolete.contains(&output.attempt));
                        let fresh = available.iter().map(|o| (o.attempt.task.index, o.clone()));
                        running.outputs.extend(fresh);
                    }
                }
            }
            Action::DropOutputs { attempts } => {
                self.held.retain(|attempt| !attempts.contains(attempt));
            }
            Action::ForgetJob(job) => {
                self.running.retain(|attempt, _| attempt.task.job != job);
                self.held.retain(|attempt| attempt.task.job != job);
            }
        }
    }

    fn end(&mut self, attempt: AttemptId, state: Reported) {
        if self.running.remove(&attempt).is_some() || state == Reported::Killed {
            let mut counters = Counters::default();
            counters.add("test", "attempts", 1);
            self.unconfirmed.push(AttemptUpdate {
                attempt,
                state,
                progress: 1.0,
                phase: None,
                counters,
                record: None,
                status: String::new(),
            });
        }
    }

    fn output(&self, attempt: AttemptId) -> MapOutput {
        MapOutput {
            attempt,
            http_address: self.register.http_address.clone(),
            boot_id: self.register.boot_id.clone(),
            data_path: format!("/data/{attempt}"),
        }
    }
}

/// A job with a map for each of these hosts.
pub(crate) fn spec(number: u64, hosts: &[&str], reduce_count: u32) -> JobSpec {
    let split = |host: &&str| Split {
        path: DfsPath::parse("/in").unwrap(),
        offset: 0,
        length: 1,
        hosts: vec![(*host).to_owned()],
        racks: vec![format!("/rack-{}", host.len() % 2)],
        input: 0,
        more: Vec::new(),
    };
    JobSpec {
        name: format!("job {number}"),
        binary: BinaryHash([1; 32]),
        args: Vec::new(),
        stage: 0,
        fingerprint: 7,
        splits: hosts.iter().map(split).collect(),
        reduce_count,
        output: DfsPath::parse(&format!("/out-{number}")).unwrap(),
        attempts_max: 4,
        slow_start_permille: 50,
        properties: BTreeMap::new(),
        sizing: None,
        rounds: None,
    }
}

/// Sizes that a map reports for this many partitions, in a job whose reduces are chosen.
pub(super) fn sizes(map: u32, partition_count: u32) -> Vec<u64> {
    (0..partition_count).map(|partition| u64::from(1 + map + 3 * partition) << 20).collect()
}

/// The durable part of the state, as text.
fn digest(core: &Core) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for job in core.jobs.values() {
        let phase = if job.is_active() { "active".to_owned() } else { format!("{:?}", job.phase) };
        writeln!(
            text,
            "{} {phase} {} {} {} {:?} {:?} {:?} {:?}",
            job.id,
            job.diagnostics,
            job.finished_ms,
            job.queue,
            job.priority,
            job.failures,
            job.kill_asked,
            job.stop_asked
        )
        .unwrap();
        writeln!(text, "  {:?}", job.reduce_plan).unwrap();
        writeln!(
            text,
            "  {}",
            job.rounds.as_ref().map(|rounds| rounds.digest()).unwrap_or_default()
        )
        .unwrap();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            for (index, task) in job.tasks(kind).iter() {
                let winner = task.winner.as_ref().map(|winner| winner.number);
                let decided = task.attempts.iter().filter(|attempt| {
                    matches!(attempt.state, AttemptState::Failed | AttemptState::Succeeded)
                });
                let mut decided: Vec<_> =
                    decided.map(|a| (a.number, a.state, a.finished_ms)).collect();
                decided.sort_by_key(|(number, ..)| *number);
                writeln!(text, "  {kind:?} {index} {winner:?} {decided:?}").unwrap();
            }
        }
        if job.final_state().is_none() {
            writeln!(text, "  {:?}", job.sums.totals()).unwrap();
        }
    }
    text
}
