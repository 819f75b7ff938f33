//! One job as its pages show it, in a form that is quick to make: the loop makes it, a handler draws it.
//!
//! Invariant: a row of an attempt holds no text of its own, so that a job of a hundred thousand tasks is pictured in milliseconds; the
//! texts (machines, diagnostics) are beside the rows.

use std::collections::{BTreeMap, HashMap};

use daemon::page::format::Unit;
use protocol::jobs::{Counters, JobReport};
use protocol::{AttemptId, ErrorKind, JobId, RemoteError, TaskId, TaskKind};

use super::Core;
use super::job::{Job, Launched};
use super::report::{job_report, unknown_job};
use super::task::{AttemptState, Standing, Task};

/// Group of the engine's own counters.
const TASK_GROUP: &str = "org.apache.hadoop.mapreduce.TaskCounter";

/// Counters of tasks whose spread over the tasks is shown: kind, name, label, unit.
const METRICS: [(TaskKind, &str, &str, Unit); 7] = [
    (TaskKind::Map, "MAP_INPUT_RECORDS", "Input records", Unit::Count),
    (TaskKind::Map, "MAP_OUTPUT_BYTES", "Output bytes", Unit::Bytes),
    (TaskKind::Map, "SPILLED_RECORDS", "Spilled records", Unit::Count),
    (TaskKind::Reduce, "REDUCE_SHUFFLE_BYTES", "Shuffled bytes", Unit::Bytes),
    (TaskKind::Reduce, "REDUCE_INPUT_GROUPS", "Input groups", Unit::Count),
    (TaskKind::Reduce, "REDUCE_INPUT_RECORDS", "Input records", Unit::Count),
    (TaskKind::Reduce, "REDUCE_OUTPUT_RECORDS", "Output records", Unit::Count),
];

/// A job.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) id: JobId,
    pub(crate) report: JobReport,
    /// Hash of the executable.
    pub(crate) binary: String,
    pub(crate) args: Vec<String>,
    pub(crate) stage: u32,
    pub(crate) attempts_max: u32,
    pub(crate) slow_start_permille: u16,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) launched: Launched,
    /// Workers that attempts name: machine and address.
    pub(crate) workers: Vec<WorkerName>,
    /// Maps first, in task order, attempts oldest first.
    pub(crate) attempts: Vec<AttemptRow>,
    /// Why attempts failed or were killed, by place in `attempts`.
    pub(crate) diagnostics: BTreeMap<usize, String>,
    pub(crate) metrics: Vec<Metric>,
}

/// Where attempts ran.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WorkerName {
    pub(crate) host: String,
    pub(crate) http_address: String,
}

/// One attempt.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct AttemptRow {
    pub(crate) kind: TaskKind,
    pub(crate) index: u32,
    pub(crate) number: u32,
    pub(crate) state: AttemptState,
    /// Place in [`Picture::workers`].
    pub(crate) worker: u32,
    pub(crate) started_ms: u64,
    /// 0 while it runs.
    pub(crate) finished_ms: u64,
    pub(crate) progress: f32,
}

impl AttemptRow {
    /// How long it ran, or has been running.
    pub(crate) fn elapsed_ms(&self, now_ms: u64) -> u64 {
        let end = if self.finished_ms == 0 { now_ms } else { self.finished_ms };
        end.saturating_sub(self.started_ms)
    }
}

/// A number of each finished task.
#[derive(Debug)]
pub(crate) struct Metric {
    pub(crate) kind: TaskKind,
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) unit: Unit,
    /// Task and value, in task order.
    pub(crate) values: Vec<(u32, u64)>,
}

/// An attempt in full.
#[derive(Debug)]
pub(crate) struct AttemptPicture {
    pub(crate) row: AttemptRow,
    pub(crate) worker: WorkerName,
    pub(crate) diagnostics: String,
    /// What it was given: the split, or nothing for a reduce (and for a job that is over).
    pub(crate) input: Option<String>,
    pub(crate) is_winner: bool,
    pub(crate) is_pending: bool,
    /// What it counted, if its output counts; of others nothing is kept.
    pub(crate) counters: Counters,
}

impl Core {
    /// A job for its pages.
    pub(crate) fn picture(&self, id: JobId) -> Result<Picture, RemoteError> {
        let job = self.jobs.get(&id).ok_or_else(|| unknown_job(id))?;
        let mut picture = Picture {
            id,
            report: job_report(job),
            binary: job.spec.binary.to_string(),
            args: job.spec.args.clone(),
            stage: job.spec.stage,
            attempts_max: job.spec.attempts_max,
            slow_start_permille: job.spec.slow_start_permille,
            properties: job.spec.properties.clone(),
            launched: job.launched,
            workers: Vec::new(),
            attempts: Vec::new(),
            diagnostics: BTreeMap::new(),
            metrics: metrics(job),
        };
        let mut places = HashMap::new();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            for (index, task) in job.tasks(kind).iter() {
                picture.add(kind, index, task, &mut places);
            }
        }
        Ok(picture)
    }

    /// What the winners of a job's maps counted, and those of its reduces.
    pub(crate) fn counters_by_kind(&self, id: JobId) -> Result<[Counters; 2], RemoteError> {
        let job = self.jobs.get(&id).ok_or_else(|| unknown_job(id))?;
        Ok([TaskKind::Map, TaskKind::Reduce].map(|kind| {
            let tasks = job.tasks(kind).iter();
            job.sums.sum_of(tasks.filter_map(|(_, task)| Some(&task.winner.as_ref()?.tally)))
        }))
    }

    /// What the winner of a task counted; nothing before there is one.
    pub(crate) fn task_counters(&self, id: TaskId) -> Result<Counters, RemoteError> {
        let job = self.jobs.get(&id.job).ok_or_else(|| unknown_job(id.job))?;
        let winner = job.task(id).and_then(|task| task.winner.as_ref());
        Ok(job.sums.sum_of(winner.iter().map(|winner| &winner.tally)))
    }

    /// One attempt of a job.
    pub(crate) fn attempt_picture(&self, id: AttemptId) -> Result<AttemptPicture, RemoteError> {
        let job = self.jobs.get(&id.task.job).ok_or_else(|| unknown_job(id.task.job))?;
        let unknown =
            || RemoteError::new(ErrorKind::UnknownJob, format!("Could not find attempt {id}"));
        let (task, attempt) = job.task(id.task).zip(job.attempt(id)).ok_or_else(unknown)?;
        let split = job.spec.splits.get(id.task.index as usize);
        let input = split
            .filter(|_| id.task.kind == TaskKind::Map)
            .map(|split| format!("{}:{}+{}", split.path, split.offset, split.length));
        let winner = task.winner.as_ref().filter(|winner| winner.number == id.number);
        Ok(AttemptPicture {
            counters: job.sums.sum_of(winner.iter().map(|winner| &winner.tally)),
            is_winner: winner.is_some(),
            row: row(id.task.kind, id.task.index, attempt, 0),
            worker: WorkerName {
                host: attempt.host.clone(),
                http_address: attempt.http_address.clone(),
            },
            diagnostics: attempt.diagnostics.clone(),
            input,
            is_pending: task.standing() == Standing::Pending,
        })
    }
}

impl Picture {
    /// How many tasks of a kind there are.
    pub(crate) fn task_count(&self, kind: TaskKind) -> u32 {
        match kind {
            TaskKind::Map => self.report.maps.total,
            TaskKind::Reduce => self.report.reduces.total,
        }
    }

    /// The task of an attempt.
    pub(crate) fn task_id(&self, row: &AttemptRow) -> TaskId {
        TaskId { job: self.id, kind: row.kind, index: row.index }
    }

    /// An attempt.
    pub(crate) fn attempt_id(&self, row: &AttemptRow) -> AttemptId {
        AttemptId { task: self.task_id(row), number: row.number }
    }

    fn add<'a>(
        &mut self,
        kind: TaskKind,
        index: u32,
        task: &'a Task,
        places: &mut HashMap<&'a str, u32>,
    ) {
        for attempt in &task.attempts {
            let next = u32::try_from(places.len()).expect("fewer workers than attempts");
            let worker = *places.entry(attempt.http_address.as_str()).or_insert(next);
            if worker == next {
                self.workers.push(WorkerName {
                    host: attempt.host.clone(),
                    http_address: attempt.http_address.clone(),
                });
            }
            if !attempt.diagnostics.is_empty() {
                self.diagnostics.insert(self.attempts.len(), attempt.diagnostics.clone());
            }
            self.attempts.push(row(kind, index, attempt, worker));
        }
    }
}

fn row(kind: TaskKind, index: u32, attempt: &super::task::Attempt, worker: u32) -> AttemptRow {
    AttemptRow {
        kind,
        index,
        number: attempt.number,
        state: attempt.state,
        worker,
        started_ms: attempt.started_ms,
        finished_ms: attempt.finished_ms,
        progress: attempt.progress,
    }
}

fn metrics(job: &Job) -> Vec<Metric> {
    let mut found = Vec::new();
    for (kind, name, label, unit) in METRICS {
        let Some(id) = job.sums.find(TASK_GROUP, name) else { continue };
        let values = job
            .tasks(kind)
            .iter()
            .filter_map(|(index, task)| Some((index, task.winner.as_ref()?.tally.value(id)?)));
        let values: Vec<(u32, u64)> = values.collect();
        if !values.is_empty() {
            found.push(Metric { kind, name, label, unit, values });
        }
    }
    found
}
