//! A JobTracker as a worker sees it: epochs, numbered orders that are repeated until they are acknowledged, slots, confirmed ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::jobs::Split;
use protocol::level::FeatureLevel;
use protocol::rounds::RoundWork;
use protocol::tracker::{
    Action, AttemptState, AttemptUpdate, Launch, MapOutput, Program, ReduceWork, Register, Reply,
    Request, Work,
};
use protocol::{AttemptId, BinaryHash, DfsPath, Epoch, JobId, TaskId, TaskKind};

use super::super::event::Answer;
use super::machine::{MACHINE, SLOTS};

/// Of so many tasks that are no maps, one is of a round.
const ROUND_EVERY: u32 = 4;

/// See the module.
pub(super) struct JobTracker {
    pub(super) epoch: u64,
    is_registered: bool,
    number: u64,
    in_flight: Option<(u64, Vec<Action>)>,
    queue: Vec<Action>,
    /// Attempts that hold a slot of the worker.
    pub(super) live: BTreeSet<AttemptId>,
    /// All that it ever ordered to run.
    pub(super) ordered: BTreeSet<AttemptId>,
    pub(super) over: BTreeSet<JobId>,
    /// Map outputs that it announced and did not revoke.
    outputs: BTreeMap<JobId, Vec<MapOutput>>,
    /// Tasks of rounds whose output the worker reported.
    made: BTreeSet<AttemptId>,
    count: u32,
    /// Refuses reports that have the result of such an attempt.
    pub(super) poison: BTreeSet<AttemptId>,
}

impl JobTracker {
    pub(super) fn new() -> Self {
        JobTracker {
            epoch: 1,
            is_registered: false,
            number: 0,
            in_flight: None,
            queue: Vec::new(),
            live: BTreeSet::new(),
            ordered: BTreeSet::new(),
            over: BTreeSet::new(),
            outputs: BTreeMap::new(),
            made: BTreeSet::new(),
            count: 0,
            poison: BTreeSet::new(),
        }
    }

    /// It dies and starts again: what it ordered is in its journal, what it queued is not.
    pub(super) fn restart(&mut self) {
        self.epoch += 1;
        self.fence();
    }

    /// It takes the worker for lost.
    pub(super) fn fence(&mut self) {
        self.is_registered = false;
        self.queue.clear();
        self.in_flight = None;
    }

    pub(super) fn is_idle(&self) -> bool {
        self.is_registered && self.queue.is_empty() && self.in_flight.is_none()
    }

    pub(super) fn has_slot(&self) -> bool {
        self.is_registered && self.live.len() < SLOTS as usize
    }

    pub(super) fn order(&mut self, action: Action) {
        self.queue.push(action);
    }

    /// Orders an attempt; reduces come with the map outputs known so far.
    pub(super) fn launch(&mut self, job: JobId, kind: TaskKind, binary: u8) -> AttemptId {
        self.over.remove(&job);
        self.count += 1;
        let mut launch = launch(job, kind, self.count, binary);
        let id = launch.attempt;
        self.live.insert(id);
        self.ordered.insert(id);
        let outputs = self.outputs.entry(job).or_default().clone();
        if let Work::Round(work) = &mut launch.work {
            work.fixed = outputs.first().cloned();
            work.inputs = Arc::new(outputs);
            self.queue.push(Action::Launch(Box::new(launch)));
            return id;
        }
        self.queue.push(match kind {
            TaskKind::Map => Action::Launch(Box::new(launch)),
            TaskKind::Reduce => Action::LaunchReduces { launches: vec![launch], outputs },
        });
        id
    }

    /// Announces an output of a worker on this or another machine.
    pub(super) fn announce(&mut self, job: JobId, is_near: bool) {
        self.count += 1;
        let attempt = attempt(job, TaskKind::Map, self.count);
        let output = MapOutput {
            attempt,
            http_address: "10.0.0.9:1".to_owned(),
            boot_id: if is_near { MACHINE } else { "elsewhere" }.to_owned(),
            data_path: format!("/other/{job}/{attempt}.data"),
        };
        self.outputs.entry(job).or_default().push(output.clone());
        self.queue.push(Action::MapOutputs { job, available: vec![output], obsolete: Vec::new() });
    }

    /// Revokes the oldest output.
    pub(super) fn revoke(&mut self, job: JobId) {
        let Some(outputs) = self.outputs.get_mut(&job).filter(|outputs| !outputs.is_empty()) else {
            return;
        };
        let obsolete = vec![outputs.remove(0).attempt];
        self.queue.push(Action::MapOutputs { job, available: Vec::new(), obsolete });
    }

    /// Nobody needs what tasks of rounds made, and if nothing of the job runs, what was announced.
    pub(super) fn drop_outputs(&mut self, job: JobId) {
        let made = self.made.iter().copied().filter(|attempt| attempt.task.job == job);
        let mut attempts: Vec<AttemptId> = made.collect();
        self.made.retain(|attempt| attempt.task.job != job);
        if !self.live.iter().any(|attempt| attempt.task.job == job) {
            let announced = self.outputs.remove(&job).unwrap_or_default();
            attempts.extend(announced.into_iter().map(|output| output.attempt));
        }
        self.queue.push(Action::DropOutputs { attempts });
    }

    /// The job is over. Its attempts that still run give their slots back at once.
    pub(super) fn forget(&mut self, job: JobId) {
        self.over.insert(job);
        self.outputs.remove(&job);
        self.live.retain(|attempt| attempt.task.job != job);
        self.queue.push(Action::ForgetJob(job));
    }

    /// Answers a request. `adopts` says of attempts that run on a registering worker whether they may go on.
    pub(super) fn answer(&mut self, request: &Request, adopts: &mut dyn FnMut() -> bool) -> Answer {
        let fenced = || Answer::Fenced("register again".to_owned());
        match request {
            Request::Register(register) => Answer::Reply(self.register(register, adopts)),
            Request::Poll { epoch, received, .. } => {
                if !self.is_registered || epoch.0 != self.epoch {
                    return fenced();
                }
                if self.in_flight.as_ref().is_some_and(|(number, _)| number <= received) {
                    self.in_flight = None;
                }
                if self.in_flight.is_none() && !self.queue.is_empty() {
                    self.number += 1;
                    self.in_flight = Some((self.number, std::mem::take(&mut self.queue)));
                }
                let (number, actions) = self.in_flight.clone().unwrap_or((*received, Vec::new()));
                Answer::Reply(Reply::Actions { number, actions })
            }
            Request::Report { epoch, updates, .. } => {
                if !self.is_registered || epoch.0 != self.epoch {
                    return fenced();
                }
                let is_poison = |update: &AttemptUpdate| {
                    let is_short =
                        matches!(update.state, AttemptState::Failed { .. } | AttemptState::Running);
                    self.poison.contains(&update.attempt) && !is_short
                };
                if updates.iter().any(is_poison) {
                    return Answer::Refused("too much".to_owned());
                }
                updates.iter().for_each(|update| self.update(update));
                Answer::Reply(Reply::Done)
            }
        }
    }

    fn update(&mut self, update: &AttemptUpdate) {
        let id = update.attempt;
        if self.over.contains(&id.task.job) {
            return self.queue.push(Action::ForgetJob(id.task.job));
        }
        match (&update.state, self.live.contains(&id)) {
            (AttemptState::Running, true) => {}
            (AttemptState::Running, false) => self.queue.push(Action::Kill(id)),
            (state, _) => {
                if matches!(state, AttemptState::RoundDone { .. }) {
                    self.made.insert(id);
                }
                self.live.remove(&id);
            }
        }
    }

    fn register(&mut self, register: &Register, adopts: &mut dyn FnMut() -> bool) -> Reply {
        self.fence();
        self.is_registered = true;
        self.number = 0;
        self.live.retain(|attempt| register.running.contains(attempt));
        for attempt in &register.running {
            let job = attempt.task.job;
            if self.over.contains(&job) {
                self.queue.push(Action::Kill(*attempt));
                self.queue.push(Action::ForgetJob(job));
            } else {
                self.live.insert(*attempt);
                if !adopts() {
                    self.queue.push(Action::Kill(*attempt));
                }
            }
        }
        for output in &register.held_outputs {
            if self.over.contains(&output.attempt.task.job) {
                self.queue.push(Action::ForgetJob(output.attempt.task.job));
            }
        }
        // A reduce may have missed news.
        for (job, outputs) in &self.outputs {
            let (job, available) = (*job, outputs.clone());
            self.queue.push(Action::MapOutputs { job, available, obsolete: Vec::new() });
        }
        Reply::Registered { epoch: Epoch(self.epoch), poll_ms: 1_000, level: FeatureLevel::FIRST }
    }
}

/// True for the tasks that are of a round: some of those that are no maps.
pub(super) fn is_of_a_round(attempt: AttemptId) -> bool {
    attempt.task.kind == TaskKind::Reduce && attempt.task.index.is_multiple_of(ROUND_EVERY)
}

pub(super) fn attempt(job: JobId, kind: TaskKind, index: u32) -> AttemptId {
    AttemptId { task: TaskId { job, kind, index }, number: 0 }
}

pub(super) fn launch(job: JobId, kind: TaskKind, index: u32, binary: u8) -> Launch {
    let program = Program {
        user: if job.number == 0 { "ann" } else { "bob" }.to_owned(),
        binary: BinaryHash([binary; 32]),
        args: Vec::new(),
        stage: 0,
        fingerprint: 1,
        properties: BTreeMap::new(),
        partition_count: 2,
        sizes_wanted: index.is_multiple_of(2),
        map_count: 1,
        output: DfsPath::parse("/out").unwrap(),
    };
    let split = Split {
        path: DfsPath::parse("/in").unwrap(),
        offset: 0,
        length: 100,
        hosts: Vec::new(),
        racks: Vec::new(),
        input: 0,
        more: Vec::new(),
    };
    let work = match kind {
        TaskKind::Map => Work::Map { split, skip: Vec::new() },
        TaskKind::Reduce if is_of_a_round(attempt(job, kind, index)) => {
            Work::Round(Box::new(RoundWork {
                round: 1,
                partition: 0,
                partition_count: 1,
                is_last: false,
                keeps: false,
                kept: None,
                inputs: Arc::default(),
                fixed: None,
                summaries: Vec::new(),
            }))
        }
        TaskKind::Reduce => {
            Work::Reduce(ReduceWork { partitions: 0..1, reduce_count: 1, outputs: Arc::default() })
        }
    };
    Launch { attempt: attempt(job, kind, index), program: Arc::new(program), work }
}
