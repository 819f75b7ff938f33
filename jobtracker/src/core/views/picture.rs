//! The data of one job's pages, in a form that is quick to make: the host makes it, a handler draws it.
//!
//! Invariant: a row of an attempt holds no text of its own, so the picture of a job of a hundred thousand tasks takes milliseconds; the
//! texts (machines, diagnostics) are stored beside the rows.

use std::collections::{BTreeMap, HashMap};

use daemon::page::format::Unit;
use foldhash::fast::FixedState;
use protocol::jobs::{Counters, JobReport, Splits};
use protocol::phase::{self, Phase};
use protocol::tracker::HotKey;
use protocol::{AttemptId, ErrorKind, JobId, RemoteError, TaskId, TaskKind, WorkerId};

use super::report::job_report;
use crate::core::Core;
use crate::core::jobs::{Attempt, AttemptState, Job, Launched, Standing, Task};

/// Group of the engine's own counters.
pub(crate) const TASK_GROUP: &str = "org.apache.hadoop.mapreduce.TaskCounter";

/// Counters of tasks whose distribution over the tasks is displayed: kind, name, label, unit.
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
    /// For maps and for reduces.
    pub(crate) attempts_max: [u32; 2],
    /// The maps' input, if the job still has its splits.
    pub(crate) input: Option<InputSize>,
    pub(crate) slow_start_permille: u16,
    /// How the number of reduces is chosen.
    pub(crate) reduce_plan: String,
    pub(crate) properties: BTreeMap<String, String>,
    pub(crate) launched: Launched,
    /// Workers that attempts refer to: machine and address.
    pub(crate) workers: Vec<WorkerName>,
    /// Maps first, in task order, attempts oldest first.
    pub(crate) attempts: Vec<AttemptRow>,
    /// Why attempts failed or were killed, by index in `attempts`.
    pub(crate) diagnostics: BTreeMap<usize, String>,
    /// What running attempts say that they do, by index in `attempts`.
    pub(crate) statuses: BTreeMap<usize, String>,
    pub(crate) metrics: Vec<Metric>,
    /// The keys with the most records of all reduces, and their partitions.
    pub(crate) hot_keys: Vec<(u32, HotKey)>,
}

/// The size of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InputSize {
    pub(crate) file_count: u64,
    pub(crate) bytes: u64,
}

fn input_size(splits: &Splits) -> Option<InputSize> {
    let (file_count, bytes) = splits.input_size();
    (file_count > 0).then_some(InputSize { file_count, bytes })
}

/// A worker on which attempts ran.
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
    /// Index in [`Picture::workers`].
    pub(crate) worker: u32,
    pub(crate) started_ms: u64,
    /// 0 while it runs.
    pub(crate) finished_ms: u64,
    pub(crate) progress: f32,
    /// Its phase, or the last one if it ended without a result.
    pub(crate) phase: Option<Phase>,
    /// For a reduce whose output counts: how long it took to fetch its input, and to merge it through the disk.
    pub(crate) gathered: Option<Gathered>,
}

/// The phases of a reduce before its reduce function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Gathered {
    pub(crate) shuffle_ms: u32,
    pub(crate) merge_ms: u32,
}

impl AttemptRow {
    /// When it had fetched its input, and when that was merged.
    pub(crate) fn gathered_at(&self) -> Option<(u64, u64)> {
        let Gathered { shuffle_ms, merge_ms } = self.gathered?;
        // Rounding must not move a phase beyond the end.
        let shuffled = (self.started_ms + u64::from(shuffle_ms)).min(self.finished_ms);
        Some((shuffled, (shuffled + u64::from(merge_ms)).min(self.finished_ms)))
    }

    /// How long it ran, or has been running.
    pub(crate) fn elapsed_ms(&self, now_ms: u64) -> u64 {
        let end = if self.finished_ms == 0 { now_ms } else { self.finished_ms };
        end.saturating_sub(self.started_ms)
    }
}

/// A metric of each finished task.
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
    /// Its input: the split, or nothing for a reduce (and for a job that is over).
    pub(crate) input: Option<String>,
    pub(crate) is_winner: bool,
    pub(crate) is_pending: bool,
    /// Its counters, if it runs or its output counts; those of other attempts are not kept.
    pub(crate) counters: Counters,
    /// What it says that it does while it runs.
    pub(crate) status: String,
}

impl Core {
    /// A job for its pages.
    pub(crate) fn picture(&self, id: JobId) -> Result<Picture, RemoteError> {
        let job = self.known(id)?;
        let mut picture = Picture {
            id,
            report: job_report(job),
            binary: job.spec.binary.to_string(),
            args: job.spec.args.clone(),
            stage: job.spec.stage,
            attempts_max: [TaskKind::Map, TaskKind::Reduce].map(|kind| job.attempts_max(kind)),
            input: input_size(&job.spec.splits),
            slow_start_permille: job.spec.slow_start_permille,
            reduce_plan: job.reduce_plan.text(job.spec.reduce_count),
            properties: job.spec.properties.clone(),
            launched: job.launched,
            workers: Vec::new(),
            attempts: Vec::new(),
            diagnostics: BTreeMap::new(),
            statuses: BTreeMap::new(),
            metrics: metrics(job),
            hot_keys: job.hot_keys.clone(),
        };
        let mut places = Places::default();
        let timed = [Phase::Shuffle, Phase::ReduceMerge];
        let timed = timed.map(|phase| job.sums.find(phase::GROUP, phase.counter()));
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            let tasks = job.tasks(kind);
            picture.attempts.reserve((tasks.completed() + tasks.running()) as usize);
            for (index, task) in tasks.iter() {
                picture.add(kind, index, task, (timed, &mut places));
            }
        }
        for (place, row) in
            picture.attempts.iter().enumerate().filter(|(_, row)| row.state.is_live())
        {
            let status = job.live.status(picture.attempt_id(row));
            if !status.is_empty() {
                picture.statuses.insert(place, status.to_owned());
            }
        }
        Ok(picture)
    }

    /// True if a job is over: its picture will not change any more.
    pub(crate) fn is_over(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.final_state().is_some())
    }

    /// The counters of the winners of a job's maps, and of its reduces.
    pub(crate) fn counters_by_kind(&self, id: JobId) -> Result<[Counters; 2], RemoteError> {
        let job = self.known(id)?;
        Ok([TaskKind::Map, TaskKind::Reduce].map(|kind| {
            let tasks = job.tasks(kind).iter();
            job.sums.sum_of(tasks.filter_map(|(_, task)| Some(&task.winner.as_ref()?.tally)))
        }))
    }

    /// The counters of a task's winner; empty before there is one.
    pub(crate) fn task_counters(&self, id: TaskId) -> Result<Counters, RemoteError> {
        let job = self.known(id.job)?;
        let winner = job.task(id).and_then(|task| task.winner.as_ref());
        Ok(job.sums.sum_of(winner.iter().map(|winner| &winner.tally)))
    }

    /// One attempt of a job.
    pub(crate) fn attempt_picture(&self, id: AttemptId) -> Result<AttemptPicture, RemoteError> {
        let job = self.known(id.task.job)?;
        let unknown =
            || RemoteError::new(ErrorKind::UnknownJob, format!("Could not find attempt {id}"));
        let (task, attempt) = job.task(id.task).zip(job.attempt(id)).ok_or_else(unknown)?;
        let split = job.spec.splits.get(id.task.index as usize);
        let input = split.filter(|_| id.task.kind == TaskKind::Map).map(|split| {
            let first = format!("{}:{}+{}", split.path, split.offset, split.length);
            match split.more.len() {
                0 => first,
                1 => format!("{first} and another file"),
                more => format!("{first} and {more} more files"),
            }
        });
        let winner = task.winner.as_ref().filter(|winner| winner.number == id.number);
        Ok(AttemptPicture {
            counters: match winner {
                Some(winner) => job.sums.sum_of(std::iter::once(&winner.tally)),
                None => job.live.counters(id),
            },
            status: job.live.status(id).to_owned(),
            is_winner: winner.is_some(),
            row: row(id.task.kind, id.task.index, attempt, 0),
            worker: WorkerName {
                host: attempt.host.clone(),
                http_address: attempt.http_address.clone(),
            },
            diagnostics: attempt.diagnostics.clone(),
            input,
            is_pending: job.is_active() && task.standing() == Standing::Pending,
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

    /// The reduce of a partition.
    pub(crate) fn reduce_id(&self, index: u32) -> TaskId {
        TaskId { job: self.id, kind: TaskKind::Reduce, index }
    }

    /// The task of an attempt.
    pub(crate) fn task_id(&self, row: &AttemptRow) -> TaskId {
        TaskId { job: self.id, kind: row.kind, index: row.index }
    }

    /// Why the attempt with this index ended, or what it says that it does; empty if neither is known.
    pub(crate) fn text_of(&self, place: usize) -> &str {
        let text = self.diagnostics.get(&place).or_else(|| self.statuses.get(&place));
        text.map_or("", String::as_str)
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
        (timed, places): ([Option<u32>; 2], &mut Places<'a>),
    ) {
        for attempt in &task.attempts {
            let worker = places.of(attempt, &mut self.workers);
            if !attempt.diagnostics.is_empty() {
                self.diagnostics.insert(self.attempts.len(), attempt.diagnostics.clone());
            }
            let winner = task
                .winner
                .as_ref()
                .filter(|winner| kind == TaskKind::Reduce && winner.number == attempt.number);
            let gathered = winner.map(|winner| {
                let ms = |id: Option<u32>| {
                    let micros = id.and_then(|id| winner.tally.value(id)).unwrap_or(0);
                    u32::try_from(micros / 1000).unwrap_or(u32::MAX)
                };
                Gathered { shuffle_ms: ms(timed[0]), merge_ms: ms(timed[1]) }
            });
            self.attempts.push(AttemptRow { gathered, ..row(kind, index, attempt, worker) });
        }
    }
}

/// The indexes of workers in [`Picture::workers`]. Most attempts are found by a number, not by a text.
#[derive(Default)]
struct Places<'a> {
    by_id: HashMap<WorkerId, u32, FixedState>,
    by_address: HashMap<&'a str, u32>,
}

impl<'a> Places<'a> {
    fn of(&mut self, attempt: &'a Attempt, workers: &mut Vec<WorkerName>) -> u32 {
        if let Some(place) = self.by_id.get(&attempt.worker) {
            return *place;
        }
        let next = u32::try_from(workers.len()).expect("fewer workers than attempts");
        let place = *self.by_address.entry(attempt.http_address.as_str()).or_insert(next);
        if place == next {
            workers.push(WorkerName {
                host: attempt.host.clone(),
                http_address: attempt.http_address.clone(),
            });
        }
        self.by_id.insert(attempt.worker, place);
        place
    }
}

/// The row of an attempt, without the figures of its task.
pub(crate) fn row(kind: TaskKind, index: u32, attempt: &Attempt, worker: u32) -> AttemptRow {
    AttemptRow {
        kind,
        index,
        number: attempt.number,
        state: attempt.state,
        worker,
        started_ms: attempt.started_ms,
        finished_ms: attempt.finished_ms,
        progress: attempt.progress,
        phase: attempt.phase,
        gathered: None,
    }
}

/// Collects all metrics in one pass over the tasks.
fn metrics(job: &Job) -> Vec<Metric> {
    let phases = Phase::ALL.map(|phase| {
        (phase::GROUP, (phase.kind(), phase.counter(), phase.label(), Unit::Microseconds))
    });
    let all = METRICS.map(|metric| (TASK_GROUP, metric)).into_iter().chain(phases);
    let mut found = Vec::new();
    let mut places = [TaskKind::Map, TaskKind::Reduce].map(|_| vec![None; job.sums.len()]);
    for (group, (kind, name, label, unit)) in all {
        let Some(id) = job.sums.find(group, name) else { continue };
        places[usize::from(kind == TaskKind::Reduce)][id as usize] = Some(found.len());
        let values = Vec::with_capacity(job.tasks(kind).len() as usize);
        found.push(Metric { kind, name, label, unit, values });
    }
    for (kind, places) in [TaskKind::Map, TaskKind::Reduce].into_iter().zip(places) {
        for (index, task) in job.tasks(kind).iter() {
            let Some(winner) = &task.winner else { continue };
            for (id, value) in winner.tally.iter() {
                if let Some(place) = places[id as usize] {
                    found[place].values.push((index, value));
                }
            }
        }
    }
    found.retain(|metric| !metric.values.is_empty());
    found.sort_by_key(|metric| metric.kind);
    found
}
