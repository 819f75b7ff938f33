//! One job: its description, its state, its tasks.
//!
//! Invariants: durable facts change only through [`Job::apply`], the same for a live edit and a replayed one; a restart may lose without
//! harm whatever is not journalled (running attempts, progress).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use protocol::counters::{COUNTERS_OF_JOBS, JOB_GROUP};
use protocol::jobs::{Counters, JobSpec, JobState, Priority, Splits};
use protocol::rounds::RoundsSpec;
use protocol::tracker::{HotKey, MapOutput, Program, ReduceWork};
use protocol::{AttemptId, CallId, Epoch, JobId, TaskId, TaskKind, WorkerId};

use super::counters::{CounterSums, Tally};
use super::live::LiveNews;
use super::pending::PendingTasks;
use super::reduce_plan::ReducePlan;
use super::rounds::Rounds;
use super::settings::Settings;
use super::task::{Attempt, AttemptState, StopReason, Task, TaskOutput, Winner};
use super::task_set::TaskSet;
use crate::core::edit::{Edit, Made, Ran, Reached, Submitted};
use crate::core::level::Level;

/// Most hot keys kept of a job.
const HOT_KEYS_MAX: usize = 20;
/// Directory below a job's output that holds the directories of its attempts.
pub(crate) const TEMPORARY: &str = "_temporary";
/// Most splits of a job kept after its end: about 2 MB.
pub(crate) const SPLITS_KEPT_MAX: usize = 10_000;
/// Attempt numbers of a job grow by this at each start of the JobTracker, so that no number is used twice.
const ATTEMPTS_PER_START: u32 = 1000;

/// Life of a job inside the JobTracker.
///
/// ```text
/// Preparing -> Running -> Committing -> Ended(Succeeded)
///     |           |            |
///     |           +------------+--> Ending -> Ended(Failed | Killed)
///     +-> (refused: forgotten)
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its output directory is being created; after a restart: verified.
    Preparing,
    /// Tasks run or wait.
    Running,
    /// All tasks are done; the output is being published.
    Committing,
    /// It has failed or was killed; its attempts are being stopped and its files removed.
    Ending(JobState),
    /// Final.
    Ended(JobState),
}

/// Attempts started, by nearness of their input. Rebuilt approximately after a restart.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Launched {
    pub(crate) maps: u64,
    pub(crate) reduces: u64,
    pub(crate) node_local: u64,
    pub(crate) rack_local: u64,
    pub(crate) other_local: u64,
    pub(crate) map_reruns: u64,
    pub(crate) speculative: u64,
    pub(crate) speculative_won: u64,
}

/// How long a job has waited for slots next to its input.
///
/// ```text
/// Fresh -> Since(first slot that was not) -> taken as farther slots come
///   |  ^------------ a map starts on its input's machine --+
///   +-> Over: no such slot can come
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// No farther slot was offered yet.
    Fresh,
    /// Declined a farther slot at this moment for the first time.
    Since(Duration),
    /// Accepts any slot.
    Over,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) call: CallId,
    pub(crate) user: String,
    pub(crate) queue: String,
    pub(crate) priority: Priority,
    pub(crate) settings: Settings,
    pub(crate) submitted_ms: u64,
    pub(crate) finished_ms: u64,
    pub(crate) epoch: Epoch,
    pub(crate) spec: JobSpec,
    pub(crate) phase: Phase,
    pub(crate) diagnostics: String,
    pub(crate) maps: TaskSet,
    /// Until they are chosen, one for each partition.
    pub(crate) reduces: TaskSet,
    pub(crate) reduce_plan: ReducePlan,
    /// `None` if the job has reduces.
    pub(crate) rounds: Option<Rounds>,
    pub(crate) sums: CounterSums,
    pub(crate) live: LiveNews,
    pub(crate) final_counters: Option<Counters>,
    pub(crate) launched: Launched,
    /// Nothing starts before this moment (after a restart, workers first report what still runs).
    pub(crate) held_until: Duration,
    /// While ending: when to stop waiting for attempts to stop. `None` once the clean-up is under way.
    pub(crate) stop_deadline: Option<Duration>,
    /// The user who asked for its end while it was being prepared.
    pub(crate) kill_asked: Option<String>,
    /// Attempts that a user asked to end, and why.
    pub(crate) stop_asked: BTreeMap<AttemptId, StopReason>,
    pub(crate) patience: Patience,
    /// Since when it has declined slots of workers that it avoids and got none of another; `None` while it wants none.
    pub(crate) avoiding_since: Option<Duration>,
    /// The keys with the most records of all reduces, and their partitions.
    pub(crate) hot_keys: Vec<(u32, HotKey)>,
    /// Failed attempts by worker.
    pub(crate) failures: BTreeMap<WorkerId, u32>,
    /// Its demand at the last query: how often a map and a reduce had begun to wait, and whether it was the turn of reduces.
    wanted: (u64, u64, bool),
    /// What the orders that wait for workers share.
    program: Weak<Program>,
}

impl Job {
    /// A job as submitted, live or from the journal.
    pub(crate) fn new(submitted: &Submitted, rounds: Option<RoundsSpec>) -> Self {
        let spec = JobSpec { rounds, ..submitted.spec.clone() };
        let map_count = u32::try_from(spec.splits.len()).expect("the number of splits is limited");
        let settings = Settings::parse(&spec.properties).unwrap_or_default();
        let mut job = Job {
            id: submitted.job,
            call: submitted.call,
            user: submitted.user.clone(),
            queue: submitted.queue.clone(),
            priority: settings.priority,
            settings,
            submitted_ms: submitted.submitted_ms,
            finished_ms: 0,
            epoch: submitted.epoch,
            phase: Phase::Preparing,
            diagnostics: String::new(),
            maps: TaskSet::new(map_count, PendingTasks::of_splits(&spec.splits)),
            reduces: TaskSet::new(spec.reduce_count, PendingTasks::anywhere(spec.reduce_count)),
            reduce_plan: ReducePlan::new(&spec),
            rounds: spec.rounds.map(|rounds| Rounds::new(rounds, spec.reduce_count)),
            sums: CounterSums::default(),
            live: LiveNews::default(),
            final_counters: None,
            launched: Launched::default(),
            held_until: Duration::ZERO,
            stop_deadline: None,
            kill_asked: None,
            stop_asked: BTreeMap::new(),
            patience: Patience::Fresh,
            avoiding_since: None,
            hot_keys: Vec::new(),
            failures: BTreeMap::new(),
            wanted: (0, 0, false),
            program: Weak::new(),
            spec,
        };
        job.begin_rounds();
        job
    }

    /// True while attempts may run and win.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Preparing | Phase::Running)
    }

    /// The final state, if it has one.
    pub(crate) fn final_state(&self) -> Option<JobState> {
        match self.phase {
            Phase::Ended(state) => Some(state),
            _ => None,
        }
    }

    /// True if finished maps are still needed.
    pub(crate) fn needs_map_outputs(&self) -> bool {
        self.is_active() && self.spec.reduce_count > 0 && !self.is_done()
    }

    /// True if what a task made for other tasks is still needed.
    pub(crate) fn needs_output(&self, task: TaskId) -> bool {
        let is_needed = match (task.kind, &self.rounds) {
            (TaskKind::Map, _) => true,
            (TaskKind::Reduce, Some(rounds)) => rounds.needs_output(task.index),
            (TaskKind::Reduce, None) => false,
        };
        is_needed && self.needs_map_outputs()
    }

    /// True if tasks of a kind have places near which they should run.
    pub(crate) fn has_places(&self, kind: TaskKind) -> bool {
        kind == TaskKind::Map || self.rounds.is_some()
    }

    /// Mean progress of the reduces, 0 to 1; of all rounds that there may be. As in Hadoop, a job without reduces stays at 0.
    pub(crate) fn reduce_progress(&self) -> f32 {
        if self.spec.reduce_count == 0 {
            return 0.0;
        }
        let Some(rounds) = &self.rounds else { return self.reduces.progress() };
        if rounds.is_done() {
            return 1.0;
        }
        let so_far = f64::from(self.reduces.progress()) * f64::from(self.reduces.len());
        (so_far / rounds.task_count_max() as f64).clamp(0.0, 0.999_9) as f32
    }

    /// True if all work is done.
    pub(crate) fn is_done(&self) -> bool {
        match &self.rounds {
            Some(rounds) => rounds.is_done(),
            None if self.spec.reduce_count > 0 => self.reduces.is_done(),
            None => self.maps.is_done(),
        }
    }

    /// True if enough maps are done for reduces to start: all of them, until reduces are chosen.
    pub(crate) fn reduces_may_start(&self) -> bool {
        if self.reduce_plan.is_open() {
            return false;
        }
        // Those that may not start are held back.
        if self.rounds.is_some() {
            return true;
        }
        let done = u64::from(self.maps.completed()) * 1000;
        done >= u64::from(self.spec.slow_start_permille) * u64::from(self.maps.len())
    }

    /// True if a task could start now, within the job's own limits. Reduces wait until the last map has started.
    pub(crate) fn wants_slot(&self) -> bool {
        if self.maps.waiting() > 0 {
            let needed = self.spec.reduce_count == 0 || !self.is_done();
            return needed && self.may_run_more(TaskKind::Map);
        }
        self.reduces.waiting() > 0
            && self.reduces_may_start()
            && self.may_run_more(TaskKind::Reduce)
    }

    /// True if it wants slots that it did not want at the last query.
    pub(crate) fn wants_news(&mut self) -> bool {
        let wanted = (self.maps.push_count(), self.reduces.push_count(), self.maps.waiting() == 0);
        std::mem::replace(&mut self.wanted, wanted) != wanted
    }

    /// True if its own limit lets one more attempt of a kind run.
    pub(crate) fn may_run_more(&self, kind: TaskKind) -> bool {
        self.tasks(kind).live_attempts() < self.limit(kind)
    }

    /// Slots that it holds or could use now, within its own limits, before further tasks are done.
    ///
    /// REQUIRES: [`Job::wants_slot`].
    pub(crate) fn demand(&self) -> u32 {
        let capped = |kind, waiting: u32| {
            let wanted = self.tasks(kind).live_attempts().saturating_add(waiting);
            (wanted.min(self.limit(kind)), wanted <= self.limit(kind))
        };
        let (maps, all_start) = capped(TaskKind::Map, self.maps.waiting());
        let is_turn = all_start && self.reduces_may_start();
        let waiting = if is_turn { self.reduces.waiting() } else { 0 };
        maps.saturating_add(capped(TaskKind::Reduce, waiting).0)
    }

    /// Most attempts of a kind at once.
    fn limit(&self, kind: TaskKind) -> u32 {
        let limit = match kind {
            TaskKind::Map => self.settings.map_limit,
            TaskKind::Reduce => self.settings.reduce_limit,
        };
        if limit == 0 { u32::MAX } else { limit }
    }

    /// All tasks.
    pub(crate) fn task_count(&self) -> usize {
        self.maps.len() as usize + self.reduces.len() as usize
    }

    /// The tasks of a kind.
    pub(crate) fn tasks(&self, kind: TaskKind) -> &TaskSet {
        match kind {
            TaskKind::Map => &self.maps,
            TaskKind::Reduce => &self.reduces,
        }
    }

    /// The tasks of a kind.
    pub(crate) fn tasks_mut(&mut self, kind: TaskKind) -> &mut TaskSet {
        match kind {
            TaskKind::Map => &mut self.maps,
            TaskKind::Reduce => &mut self.reduces,
        }
    }

    /// A task.
    pub(crate) fn task(&self, task: TaskId) -> Option<&Task> {
        self.tasks(task.kind).task(task.index)
    }

    /// An attempt.
    pub(crate) fn attempt(&self, attempt: AttemptId) -> Option<&Attempt> {
        self.task(attempt.task)?.attempt(attempt.number)
    }

    /// True for the winner of its task.
    pub(crate) fn is_winner(&self, id: AttemptId) -> bool {
        let winner = self.task(id.task).and_then(|task| task.winner.as_ref());
        winner.is_some_and(|winner| winner.number == id.number)
    }

    /// Changes an attempt that exists.
    pub(crate) fn change_attempt(&mut self, id: AttemptId, change: impl FnOnce(&mut Attempt)) {
        if self.attempt(id).is_none() {
            return;
        }
        self.tasks_mut(id.task.kind).change(id.task.index, |task| {
            if let Some(attempt) = task.attempt_mut(id.number) {
                change(attempt);
            }
        });
    }

    /// Id of a task of this job.
    pub(crate) fn task_id(&self, kind: TaskKind, index: u32) -> TaskId {
        TaskId { job: self.id, kind, index }
    }

    /// Attempts that hold a slot.
    pub(crate) fn live_attempts(&self) -> Vec<AttemptId> {
        let mut live = Vec::new();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            for (index, task) in self.tasks(kind).live() {
                live.extend(task.live().map(|attempt| AttemptId {
                    task: self.task_id(kind, index),
                    number: attempt.number,
                }));
            }
        }
        live
    }

    /// Attempts that hold a slot.
    pub(crate) fn live_count(&self) -> u32 {
        self.maps.live_attempts() + self.reduces.live_attempts()
    }

    /// First attempt number of this start of the JobTracker.
    pub(crate) fn number_base(&self, epoch: Epoch) -> u32 {
        let starts = epoch.0.saturating_sub(self.epoch.0);
        u32::try_from(starts).unwrap_or(u32::MAX).saturating_mul(ATTEMPTS_PER_START)
    }

    /// Outputs of the maps done so far, in task order.
    pub(crate) fn map_outputs(&self) -> Vec<MapOutput> {
        let outputs =
            self.maps.iter().filter_map(|(_, task)| match &task.winner.as_ref()?.output {
                TaskOutput::Map(output) => Some(output.clone()),
                TaskOutput::Files(_) => None,
            });
        outputs.collect()
    }

    /// The outputs that tasks still need, with the workers that should have them.
    pub(crate) fn held_outputs(&self) -> Vec<(WorkerId, AttemptId)> {
        let mut held = Vec::new();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            for (index, task) in self.tasks(kind).iter() {
                let id = self.task_id(kind, index);
                let Some(winner) = task.winner.as_ref().filter(|_| self.needs_output(id)) else {
                    continue;
                };
                if let (TaskOutput::Map(_), Some(attempt)) =
                    (&winner.output, task.attempt(winner.number))
                {
                    held.push((attempt.worker, AttemptId { task: id, number: winner.number }));
                }
            }
        }
        held
    }

    /// The work of a reduce, with these outputs.
    pub(crate) fn reduce_work(&self, index: u32, outputs: Vec<MapOutput>) -> ReduceWork {
        let partitions = self.reduce_plan.partitions(index);
        ReduceWork { partitions, reduce_count: self.reduces.len(), outputs: Arc::new(outputs) }
    }

    /// The reduces for the maps' output, if it is time to choose them.
    pub(crate) fn reduces_to_choose(&self) -> Option<Vec<u32>> {
        let is_time = self.phase == Phase::Running && self.maps.is_done();
        is_time.then(|| self.reduce_plan.choose()).flatten()
    }

    /// What a worker needs to start its program. All orders that wait for workers share it: it may be long, and the orders many.
    pub(crate) fn shared_program(&mut self) -> Arc<Program> {
        let is_open = self.reduce_plan.is_open();
        let known = self.program.upgrade().filter(|known| known.sizes_wanted == is_open);
        known.unwrap_or_else(|| {
            let program = Arc::new(self.program());
            self.program = Arc::downgrade(&program);
            program
        })
    }

    /// A copy of what a worker needs to start its program.
    pub(crate) fn program(&self) -> Program {
        Program {
            user: self.user.clone(),
            binary: self.spec.binary,
            args: self.spec.args.clone(),
            stage: self.spec.stage,
            fingerprint: self.spec.fingerprint,
            properties: self.spec.properties.clone(),
            partition_count: self.spec.reduce_count,
            sizes_wanted: self.reduce_plan.is_open(),
            map_count: self.maps.len(),
            output: self.spec.output.clone(),
        }
    }

    /// Counts an attempt that starts.
    pub(crate) fn count_launch(
        &mut self,
        kind: TaskKind,
        nearness: Option<Level>,
        speculative: bool,
    ) {
        self.launched.speculative += u64::from(speculative);
        match kind {
            TaskKind::Reduce => self.launched.reduces += 1,
            TaskKind::Map => {
                self.launched.maps += 1;
                match nearness {
                    Some(Level::Node) => self.launched.node_local += 1,
                    Some(Level::Rack) => self.launched.rack_local += 1,
                    Some(Level::Any | Level::Avoided) => self.launched.other_local += 1,
                    None => {}
                }
            }
        }
    }

    /// Sums over the winners and over the job.
    pub(crate) fn counters(&self) -> Counters {
        if let Some(counters) = &self.final_counters {
            return counters.clone();
        }
        let mut counters = self.sums.totals();
        let (maps, reduces) = (self.maps.counts(), self.reduces.counts());
        for (name, value) in [
            ("TOTAL_LAUNCHED_MAPS", self.launched.maps),
            ("TOTAL_LAUNCHED_REDUCES", self.launched.reduces),
            ("DATA_LOCAL_MAPS", self.launched.node_local),
            ("RACK_LOCAL_MAPS", self.launched.rack_local),
            ("OTHER_LOCAL_MAPS", self.launched.other_local),
            ("MAP_RERUNS", self.launched.map_reruns),
            ("NUM_FAILED_MAPS", u64::from(maps.failed_attempts)),
            ("NUM_FAILED_REDUCES", u64::from(reduces.failed_attempts)),
            ("NUM_KILLED_MAPS", u64::from(maps.killed_attempts)),
            ("NUM_KILLED_REDUCES", u64::from(reduces.killed_attempts)),
            ("MILLIS_MAPS", self.maps.spent_ms()),
            ("MILLIS_REDUCES", self.reduces.spent_ms()),
            // A task has one slot, and a slot is a core.
            ("SLOTS_MILLIS_MAPS", self.maps.spent_ms()),
            ("SLOTS_MILLIS_REDUCES", self.reduces.spent_ms()),
            ("VCORES_MILLIS_MAPS", self.maps.spent_ms()),
            ("VCORES_MILLIS_REDUCES", self.reduces.spent_ms()),
        ] {
            if value > 0 {
                counters.add(JOB_GROUP, name, value);
            }
        }
        let speculative = [self.launched.speculative, self.launched.speculative_won];
        for ((group, name), value) in COUNTERS_OF_JOBS.into_iter().zip(speculative) {
            if value > 0 {
                counters.add(group, name, value);
            }
        }
        counters
    }

    /// The same with what running attempts have counted so far.
    pub(crate) fn counters_so_far(&self) -> Counters {
        let mut counters = self.counters();
        if self.final_counters.is_none() {
            self.live.add_to(&mut counters);
        }
        counters
    }

    /// Takes what a running attempt has counted and says. Of a task with several attempts the oldest counts.
    pub(crate) fn note_live(
        &mut self,
        id: AttemptId,
        counters: &Counters,
        status: String,
        now_ms: u64,
    ) {
        let oldest = self.task(id.task).and_then(|task| task.live().next());
        if let Some(attempt) = oldest.filter(|attempt| attempt.number == id.number) {
            let elapsed_ms = now_ms.saturating_sub(attempt.started_ms);
            self.live.note(id, counters, status, elapsed_ms);
        }
    }

    /// Applies a durable fact about this job, live or replayed. Facts about tasks it does not have are ignored.
    pub(crate) fn apply(&mut self, edit: &Edit) {
        match edit {
            Edit::AttemptSucceeded { attempt, ran, made, counters } => {
                if self.task(attempt.task).is_some_and(|task| task.winner.is_none()) {
                    let tally = self.sums.add(counters);
                    self.win(*attempt, ran, made, tally);
                }
            }
            Edit::AttemptFailed { attempt, ran, diagnostics, record, reached } => {
                if !self.is_excused(attempt.task, *record) {
                    *self.failures.entry(ran.worker).or_default() += 1;
                }
                self.end_attempt(*attempt, ran, AttemptState::Failed, (diagnostics, *reached));
                self.change_attempt(*attempt, |attempt| attempt.record = *record);
            }
            Edit::AttemptKilled { attempt, ran, diagnostics, reached } => {
                self.end_attempt(*attempt, ran, AttemptState::Killed, (diagnostics, *reached));
            }
            Edit::OutputLost { attempt, failed } => self.lose_output(*attempt, failed.as_deref()),
            Edit::ReducesChosen { ends, .. } => {
                self.reduce_plan = ReducePlan::Chosen(ends.clone());
                let count = u32::try_from(ends.len()).expect("no more reduces than partitions");
                self.reduces = TaskSet::new(count, PendingTasks::anywhere(count));
            }
            Edit::Committing { .. } => self.phase = Phase::Committing,
            Edit::Ending { outcome, diagnostics, .. } => {
                self.phase = Phase::Ending(*outcome);
                self.diagnostics.clone_from(diagnostics);
                self.maps.close();
                self.reduces.close();
            }
            Edit::Ended { state, finished_ms, counters, .. } => {
                self.phase = Phase::Ended(*state);
                self.finished_ms = *finished_ms;
                self.final_counters = Some(counters.clone());
                self.maps.close();
                self.reduces.close();
                self.forget_places();
                self.rounds.iter_mut().for_each(Rounds::end);
                self.stop_asked.clear();
            }
            Edit::Prioritized { priority, .. } => self.priority = *priority,
            Edit::KillAsked { user, .. } => self.kill_asked = Some(user.clone()),
            Edit::StopAsked { attempt, fail } => {
                let reason = if *fail { StopReason::UserFails } else { StopReason::User };
                self.stop_asked.insert(*attempt, reason);
            }
            Edit::Founded { .. }
            | Edit::LevelSet { .. }
            | Edit::Submitted(_)
            | Edit::SubmittedInRounds { .. }
            | Edit::Accepted(_)
            | Edit::Admitted(_)
            | Edit::Refused { .. }
            | Edit::Retired { .. } => {}
        }
    }

    /// An attempt decides its task, which has no winner.
    fn win(&mut self, id: AttemptId, ran: &Ran, made: &Made, tally: Tally) {
        let output = match made {
            Made::MapOutput { output, partition_bytes } => {
                self.reduce_plan.add(id.task.index, partition_bytes);
                TaskOutput::Map(output.clone())
            }
            Made::Files { directory, hot_keys } => {
                self.note_hot_keys(id.task.index, hot_keys);
                TaskOutput::Files(directory.clone())
            }
            Made::RoundOutput { output, .. } => TaskOutput::Map(output.clone()),
        };
        self.launched.speculative_won += u64::from(ran.speculative);
        let winner = Winner { number: id.number, output, tally };
        let tasks = self.tasks_mut(id.task.kind);
        // Comes first, so that the task does not wait for a slot in between.
        tasks.change(id.task.index, |task| task.winner = Some(winner));
        let reached = Reached { phase: None, progress: 1.0 };
        self.end_attempt(id, ran, AttemptState::Succeeded, ("", reached));
        self.note_won(id.task.kind, id.task.index, made);
    }

    /// Records the hot keys of a reduce; keeps those with the most records.
    fn note_hot_keys(&mut self, partition: u32, hot_keys: &[HotKey]) {
        self.hot_keys.extend(hot_keys.iter().map(|key| (partition, key.clone())));
        self.hot_keys.sort_by(|(a_at, a), (b_at, b)| (b.records, a_at).cmp(&(a.records, b_at)));
        self.hot_keys.truncate(HOT_KEYS_MAX);
    }

    /// The hosts of splits are no longer needed. The splits themselves are kept for running an attempt again, unless there are too many.
    fn forget_places(&mut self) {
        let splits = &mut self.spec.splits;
        match splits.len() > SPLITS_KEPT_MAX {
            true => *splits = Splits::default(),
            false => splits.forget_places(),
        }
    }

    fn end_attempt(
        &mut self,
        id: AttemptId,
        ran: &Ran,
        state: AttemptState,
        (diagnostics, reached): (&str, Reached),
    ) {
        if self.task(id.task).is_none() {
            return;
        }
        self.live.forget(id);
        if self.attempt(id).is_none() {
            self.count_launch(id.task.kind, ran.nearness, ran.speculative);
        }
        let ended = Attempt {
            number: id.number,
            state,
            worker: ran.worker,
            host: ran.host.clone(),
            http_address: ran.http_address.clone(),
            started_ms: ran.started_ms,
            finished_ms: ran.finished_ms,
            diagnostics: diagnostics.to_owned(),
            progress: reached.progress,
            progressed_ms: ran.finished_ms,
            stop: None,
            speculative: ran.speculative,
            nearness: ran.nearness,
            record: None,
            phase: reached.phase,
        };
        self.tasks_mut(id.task.kind).change(id.task.index, |task| {
            match task.attempt_mut(id.number) {
                Some(attempt) => *attempt = ended,
                None => task.attempts.push(ended),
            }
        });
    }

    fn lose_output(&mut self, id: AttemptId, failed: Option<&str>) {
        if !self.is_winner(id) {
            return;
        }
        self.launched.map_reruns += u64::from(id.task.kind == TaskKind::Map);
        let winner = self.tasks_mut(id.task.kind).change(id.task.index, |task| {
            if let Some(attempt) = task.attempt_mut(id.number) {
                match failed {
                    Some(diagnostics) => {
                        attempt.state = AttemptState::Failed;
                        attempt.diagnostics = diagnostics.to_owned();
                    }
                    None => {
                        attempt.state = AttemptState::Killed;
                        attempt.diagnostics =
                            "its worker is lost, and its output with it".to_owned();
                    }
                }
            }
            task.winner.take()
        });
        if let Some(winner) = winner {
            self.sums.subtract(&winner.tally);
            self.note_lost(id.task.kind, id.task.index);
        }
    }
}
