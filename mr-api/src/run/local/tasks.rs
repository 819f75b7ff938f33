//! The tasks of one job, on threads.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use mr_formats::sources::LocalSource;
use mr_formats::{Source, SplitRange};
use mr_model::runner::{
    JobSettings, LocalFiles, MapPart, MapResult, MapTarget, MapTask, OpenFile, RecordCursor,
    ReduceTask, Sampling, Scratch, Stage, TASK_COUNTERS, TaskState, map_options, reduce_options,
    side_file,
};
use mr_model::task::{Context, Output, TaskCounts};
use mr_model::{Error, Result};
use protocol::jobs::Counters;
use protocol::property::Properties;
use protocol::{AttemptId, JobId, TaskId, TaskKind};
use shuffle::{BufferPool, MapOutput, SegmentInfo, SegmentSource};

use super::open::open;
use super::undo;
use crate::run::progress::Progress;
use crate::run::{address, debugger, options};

/// Interval between progress checks.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);

/// Input of one map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LocalSplit {
    /// Which of the job's inputs it belongs to.
    pub(super) input: u32,
    /// Files and their parts.
    pub(super) parts: Vec<(PathBuf, SplitRange)>,
}

impl LocalSplit {
    fn map_parts(&self) -> Vec<MapPart> {
        let part = |(path, range): &(PathBuf, SplitRange)| MapPart {
            path: path.display().to_string(),
            range: *range,
        };
        self.parts.iter().map(part).collect()
    }
}

fn open_part(part: &MapPart) -> Result<Box<dyn Source>> {
    Ok(Box::new(LocalSource::new(open(Path::new(&part.path))?)))
}

/// Opens files for user code.
fn opener() -> Arc<OpenFile> {
    Arc::new(|path| Ok(Box::new(open(&address::of_machine(path)?)?)))
}

/// Key ranges of the reduces, if the job's output is sorted as a whole.
pub(super) fn boundaries(
    settings: &JobSettings,
    splits: &[LocalSplit],
    reduces: u32,
    properties: &Properties,
    side_files: &BTreeMap<String, PathBuf>,
) -> Result<Option<String>> {
    let Some(sampler) = settings.sampler.as_deref() else { return Ok(None) };
    let parts: Vec<_> = splits.iter().map(|split| (split.input, split.map_parts())).collect();
    let (splits, directory, open) = (&parts[..], Scratch::new("sample")?, opener());
    let _unfinished = undo::directory(directory.path());
    let (properties, side_files) = (properties.clone(), side_files.clone());
    Sampling { settings, sampler, splits, reduces, properties, directory, side_files, open }
        .boundaries(&open_part)
        .map(Some)
}

pub(super) struct JobRun<'a> {
    pub(super) stage: &'a dyn Stage,
    pub(super) job: JobId,
    /// Directory for attempts.
    pub(super) temporary: PathBuf,
    /// Directory for what attempts need while they run.
    pub(super) scratch: PathBuf,
    pub(super) splits: Vec<LocalSplit>,
    pub(super) reduces: u32,
    pub(super) memory_bytes: usize,
    pub(super) merge_factor: usize,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) pool: BufferPool,
    pub(super) side_files: BTreeMap<String, PathBuf>,
    /// Set when another job of the plan failed.
    pub(super) ended: &'a AtomicBool,
}

impl JobRun<'_> {
    /// Runs maps, then reduces; returns their counters.
    pub(super) fn run(&self, thread_count: usize, progress: &mut Progress) -> Result<Counters> {
        if let Some(spec) = self.stage.rounds() {
            spec.check(self.reduces).map_err(Error::from)?;
        }
        [&self.temporary, &self.scratch].into_iter().try_for_each(|path| undo::make(path))?;
        let map_count = self.splits.len() as u32;
        let maps = self.contexts(TaskKind::Map, 0..map_count);
        let outputs = run_all(
            thread_count,
            self.ended,
            &maps,
            |index, context| self.map(index, context),
            |share| progress.update(share, 0.0),
        )?;
        let outputs: Vec<MapOutput> = outputs.into_iter().flatten().collect();
        let mut counters = Counters::default();
        maps.iter().for_each(|context| counters.merge(&TaskState::of(context).counters()));
        if let Some(spec) = self.stage.rounds() {
            self.rounds(spec, outputs, thread_count, progress, &mut counters)?;
        } else {
            let reduces = self.contexts(TaskKind::Reduce, 0..self.reduces);
            run_all(
                thread_count,
                self.ended,
                &reduces,
                |index, context| self.reduce(index as u32, context, &outputs),
                |share| progress.update(1.0, share),
            )?;
            reduces.iter().for_each(|context| counters.merge(&TaskState::of(context).counters()));
        }
        // As in Hadoop, a job without reduces stays at 0 of them.
        progress.update(1.0, if self.reduces == 0 { 0.0 } else { 1.0 });
        Ok(counters)
    }

    pub(super) fn contexts(&self, kind: TaskKind, tasks: Range<u32>) -> Vec<Context> {
        let context = |index: u32| {
            let task = TaskId { job: self.job, kind, index };
            Context::new(AttemptId { task, number: 0 }, self.properties.clone())
        };
        tasks.map(context).collect()
    }

    pub(super) fn directory(&self, context: &Context) -> Result<PathBuf> {
        let directory = self.temporary.join(context.attempt().to_string());
        undo::make(&directory)?;
        let work = fs::canonicalize(&self.scratch).map_err(Error::file("read", &self.scratch))?;
        let work = work.join(context.attempt().to_string());
        undo::make(&work)?;
        side_file::link(&self.side_files, &work)?;
        let task = TaskState::of(context);
        task.set_directory(work, self.side_files.clone());
        task.set_output_directory(directory.display().to_string());
        task.set_open(opener());
        let maps = self.splits.len() as u32;
        task.set_task_counts(TaskCounts { maps, reduces: self.reduces });
        Ok(directory)
    }

    fn output(&self, directory: &Path, context: &Context) -> Result<Output> {
        self.output_of(directory, context, context.attempt().task.index)
    }

    /// The output of a task with this number in the names of its files.
    pub(super) fn output_of(
        &self,
        directory: &Path,
        context: &Context,
        number: u32,
    ) -> Result<Output> {
        let files = Box::new(LocalFiles(directory.to_owned()));
        let options = self.stage.settings().output_options.clone();
        Output::numbered(files, options, context.clone(), number)
    }

    fn map(&self, index: usize, context: &Context) -> Result<Option<MapOutput>> {
        let split = &self.splits[index];
        let directory = self.directory(context)?;
        let target = if self.reduces == 0 {
            MapTarget::Output(Box::new(self.output(&directory, context)?))
        } else {
            let (memory_bytes, merge_factor) = (self.memory_bytes, self.merge_factor);
            let codec = options::map_codec(&self.properties)?;
            let work = context.directory().to_owned();
            let options = map_options(work, self.reduces, memory_bytes, merge_factor, codec);
            MapTarget::Shuffle { options, pool: self.pool.clone() }
        };
        let cells = [Cell::new(0), Cell::new(0)];
        let life = TaskState::of(context).life();
        let cursor = RecordCursor::new([&cells[0], &cells[1]], &[], debugger::stop_before, life);
        let result = self.stage.run_map(MapTask {
            context: context.clone(),
            input: split.input,
            parts: split.map_parts(),
            open: &open_part,
            cursor: &cursor,
            target,
        })?;
        match result {
            MapResult::Shuffle(output) => Ok(Some(output)),
            MapResult::Output { .. } => Ok(None),
        }
    }

    fn reduce(&self, partition: u32, context: &Context, outputs: &[MapOutput]) -> Result<()> {
        let directory = self.directory(context)?;
        let Segments { sources, records, stored } = Segments::of(outputs, partition);
        let task = TaskState::of(context);
        task.add_to(TASK_COUNTERS, "REDUCE_SHUFFLE_BYTES", stored);
        task.add_to(TASK_COUNTERS, "SHUFFLED_MAPS", outputs.len() as u64);
        let output = self.output(&directory, context)?;
        let work = context.directory().to_owned();
        let options = reduce_options(work, self.memory_bytes, self.merge_factor);
        let context = context.clone();
        let task = ReduceTask { context, partition, sources, records, options, output };
        Ok(self.stage.run_reduce(task)?)
    }
}

/// The segments of a partition in the outputs of tasks, in their order.
#[derive(Default)]
pub(super) struct Segments {
    pub(super) sources: Vec<SegmentSource>,
    pub(super) records: u64,
    /// Bytes.
    pub(super) stored: u64,
}

impl Segments {
    pub(super) fn of<'a>(
        outputs: impl IntoIterator<Item = &'a MapOutput>,
        partition: u32,
    ) -> Segments {
        let mut segments = Segments::default();
        outputs.into_iter().for_each(|output| segments.add(output, partition));
        segments
    }

    /// Adds one, unless it is empty.
    pub(super) fn add(&mut self, output: &MapOutput, partition: u32) {
        let SegmentInfo { offset, stored, records, .. } = output.segments[partition as usize];
        if records > 0 {
            self.records += records;
            self.stored += stored;
            self.sources.push(SegmentSource::Path { path: output.data.clone(), offset, stored });
        }
    }
}

/// Runs one task per context on `thread_count` threads; returns the results in order, or the first failure. No task begins once `ended` is
/// set. `watch` receives the mean progress.
pub(super) fn run_all<T: Send>(
    thread_count: usize,
    ended: &AtomicBool,
    contexts: &[Context],
    run: impl Fn(usize, &Context) -> Result<T> + Sync,
    mut watch: impl FnMut(f32),
) -> Result<Vec<T>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let results: Mutex<Vec<Option<T>>> = Mutex::new(contexts.iter().map(|_| None).collect());
    let (sender, receiver) = mpsc::channel();
    let work = |sender: mpsc::Sender<Result<()>>| {
        while !stop.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(context) = contexts.get(index) else { break };
            let result = run(index, context).map(|result| {
                TaskState::of(context).set_progress(1.0);
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results[index] = Some(result);
            });
            if sender.send(result).is_err() {
                break;
            }
        }
    };
    let mut failure = None;
    std::thread::scope(|scope| {
        for _ in 0..thread_count.min(contexts.len()) {
            let sender = sender.clone();
            let work = &work;
            scope.spawn(move || work(sender));
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(PROGRESS_PAUSE) {
                Ok(Err(error)) => {
                    stop.store(true, Ordering::Relaxed);
                    failure.get_or_insert(error);
                }
                Ok(Ok(())) | Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
            let sum: f32 = contexts.iter().map(|context| TaskState::of(context).progress()).sum();
            watch(sum / contexts.len().max(1) as f32);
        }
    });
    if let Some(error) = failure {
        return Err(error);
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    // Unless this job failed, only a task that did not begin lacks a result.
    results.into_iter().collect::<Option<_>>().ok_or_else(|| Error::PlanFailed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_task_begins_once_another_job_of_the_plan_failed() {
        let context = |index| {
            let job = JobId { cluster_start: 0, number: 1 };
            let task = TaskId { job, kind: TaskKind::Map, index };
            Context::new(AttemptId { task, number: 0 }, Properties::new())
        };
        let (contexts, ended) = ([0, 1, 2, 3].map(context), AtomicBool::new(false));
        let run = |index: usize, _: &Context| {
            assert!(index < 2, "task {index} began");
            ended.store(index == 1, Ordering::Relaxed);
            Ok(index)
        };
        let error = run_all(1, &ended, &contexts, run, |_| ()).unwrap_err();
        assert!(matches!(error.downcast_ref(), Some(Error::PlanFailed)), "{error}");
        assert_eq!(
            run_all(2, &AtomicBool::new(false), &contexts, |i, _| Ok(i), |_| ()).unwrap(),
            [0, 1, 2, 3]
        );
    }
}
