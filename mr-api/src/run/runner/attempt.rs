//! One attempt: a map or a reduce with its files.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Instant;

use client::ClientConfig;
use client::dfs::{CreateOptions, DfsClient, Parents};
use mr_model::runner::{
    INPUT_COUNTERS, LocalFiles, MapResult, MapTarget, MapTask, OutputFile, OutputFiles, Planned,
    RecordCursor, ReduceTask, Skipped, Stage, TaskState, map_options, phases, reduce_options,
    side_file,
};
use mr_model::task::{Context, Output, TaskCounts};
use mr_model::{Error, Result};
use protocol::counters::FILE_SYSTEM_GROUP;
use protocol::phase::Phase;
use protocol::record::{PLACE_BYTES, RECORD_FILE, SKIP_DIRECTORY};
use protocol::runner::Setup;
use protocol::tracker::{AttemptState, FetchFailure, Program, ReduceWork, Work};
use protocol::{AttemptId, DfsPath, RecordAt};
use shuffle::BufferPool;
use sys::broker::Broker;
use sys::map::SharedCells;
use transport::rpc::PassHolder;

use super::channel::Channel;
use super::fetch::Fetcher;
use super::gather::{Gather, News};
use crate::run::dfs::{DfsOutput, Traffic, counting_opener, map_parts, open_part};
use crate::run::{debugger, options, side_files};

/// How often a reduce restarts because of a damaged map output before the attempt fails.
pub(super) const DAMAGED_INPUTS_MAX: u32 = 10;

/// What all attempts of this process share.
pub(crate) struct Host {
    pub(crate) setup: Setup,
    pub(crate) pass: PassHolder,
    pub(super) stage: Box<dyn Stage>,
    pub(super) dfs: DfsClient,
    traffic: Arc<Traffic>,
    side_files: BTreeMap<String, PathBuf>,
    pub(super) pool: BufferPool,
    pub(super) memory_bytes: usize,
    pub(super) merge_factor: usize,
}

/// What an attempt receives besides its work.
pub(crate) struct Launched {
    pub(crate) context: Context,
    pub(crate) directory: PathBuf,
    pub(crate) news: mpsc::Receiver<News>,
    pub(crate) self_news: mpsc::Sender<News>,
    pub(crate) channel: Channel,
}

/// What a task process has before it knows its job: its side files are there already, because the job's function may read them.
pub(crate) struct Ground {
    pub(crate) setup: Setup,
    pass: PassHolder,
    dfs: DfsClient,
    side_files: BTreeMap<String, PathBuf>,
}

impl Ground {
    /// `arrived` hears of the bytes of side files that are there.
    pub(crate) fn new(
        setup: Setup,
        broker: Option<Arc<Broker>>,
        arrived: &dyn Fn(&str, u64),
    ) -> Result<Self> {
        let program = &setup.program;
        let pass = PassHolder::new(setup.pass.clone());
        let config = ClientConfig {
            namenode: Some(setup.namenode.clone()),
            user: Some(program.user.clone()),
            host: Some(setup.host.clone()),
            pass: Some(pass.clone()),
            broker,
            ..ClientConfig::default()
        };
        let dfs = DfsClient::connect(&config)?;
        let files = program.properties.get(side_files::FILES_PROPERTY).map(String::as_str);
        let side_files = side_files::localise(&dfs, files, &std::env::current_dir()?, arrived)?;
        Ok(Ground { setup, pass, dfs, side_files })
    }
}

impl Host {
    pub(crate) fn new(ground: Ground, mut plan: Planned) -> Result<Self> {
        let Ground { setup, pass, dfs, side_files } = ground;
        let program = &setup.program;
        let given = usize::try_from(setup.memory_bytes_max).unwrap_or(usize::MAX);
        let wanted = options::sort_bytes(&program.properties)?.unwrap_or(given);
        let memory_bytes = wanted.min(given);
        Ok(Host {
            traffic: Arc::default(),
            side_files,
            dfs,
            stage: plan.graph.stages.swap_remove(program.stage as usize),
            pool: BufferPool::new(memory_bytes.saturating_mul(2))
                .advising(sys::map::prefer_large_pages),
            memory_bytes,
            merge_factor: options::merge_factor(&program.properties)?,
            setup,
            pass,
        })
    }

    /// Runs one attempt to its end.
    pub(crate) fn run(&self, work: Work, launched: Launched) -> Result<AttemptState> {
        let (context, program) = (&launched.context, &self.setup.program);
        side_file::link(&self.side_files, &launched.directory)?;
        let task = TaskState::of(context);
        task.set_directory(launched.directory.clone(), self.side_files.clone());
        task.set_task_counts(TaskCounts {
            maps: program.map_count,
            reduces: work_reduces(&work, program),
        });
        let output = self.output_directory(context.attempt())?;
        let local = self.setup.local_output.clone();
        task.set_output_directory(local.unwrap_or_else(|| output.to_string()));
        task.set_user(program.user.clone());
        let before = self.traffic.so_far();
        task.set_open(counting_opener(&self.dfs, Arc::clone(&self.traffic)));
        task.set_services(Arc::new(self.dfs.clone()));
        let context = context.clone();
        let state = match work {
            Work::Map { split, skip } => self.map(split, &skip, &launched),
            Work::Reduce(work) => self.reduce(work, launched),
            Work::Round(work) => self.round(*work, launched),
        }?;
        self.count_file_system(TaskState::of(&context), before);
        Ok(state)
    }

    /// Counts what the attempt has read and written in the cluster's file system: its inputs, files that its code opened, and its outputs.
    fn count_file_system(&self, task: &TaskState, before: [u64; 2]) {
        let [opened, written] = self.traffic.so_far();
        let [opened, written] = [opened - before[0], written - before[1]];
        let read = task.counted(INPUT_COUNTERS, "BYTES_READ").saturating_add(opened);
        for (name, bytes) in [("HDFS_BYTES_READ", read), ("HDFS_BYTES_WRITTEN", written)] {
            if bytes > 0 {
                task.add_to(FILE_SYSTEM_GROUP, name, bytes);
            }
        }
    }

    fn map(
        &self,
        split: protocol::jobs::Split,
        skip: &[RecordAt],
        launched: &Launched,
    ) -> Result<AttemptState> {
        let context = &launched.context;
        let output_directory = self.output_directory(context.attempt())?;
        let target = if self.setup.program.partition_count == 0 {
            MapTarget::Output(Box::new(self.output(&output_directory, context)?))
        } else {
            let (memory_bytes, merge_factor) = (self.memory_bytes, self.merge_factor);
            let partitions = self.setup.program.partition_count;
            let directory = launched.directory.clone();
            let codec = options::map_codec(&self.setup.program.properties)?;
            let options = map_options(directory, partitions, memory_bytes, merge_factor, codec);
            MapTarget::Shuffle { options, pool: self.pool.clone() }
        };
        let parts = map_parts(&split);
        let paths: Vec<String> = parts.iter().map(|part| part.path.clone()).collect();
        let mut shared = share_place(&launched.directory)?;
        let [number, offset] = shared.cells() else {
            return Err("the place of a map is two numbers".into());
        };
        let life = TaskState::of(context).life();
        let record = RecordCursor::new([number, offset], skip, debugger::stop_before, life);
        let result = self.stage.run_map(MapTask {
            context: context.clone(),
            input: split.input,
            parts,
            open: &|part| open_part(&self.dfs, part),
            cursor: &record,
            target,
        })?;
        self.write_skipped(&record.skipped.take(), &paths, &output_directory, context)?;
        Ok(match result {
            MapResult::Shuffle(output) => {
                let data_path = output.data.to_string_lossy().into_owned();
                AttemptState::MapDone { data_path, partition_bytes: Vec::new() }
            }
            MapResult::Output { .. } => {
                AttemptState::OutputDone { directory: output_directory, hot_keys: Vec::new() }
            }
        })
    }

    /// Writes the records that a map skipped to the place where they are found when the job is done: `_logs/skip/<task>` below the job's
    /// output.
    fn write_skipped(
        &self,
        skipped: &[Skipped],
        paths: &[String],
        directory: &DfsPath,
        context: &Context,
    ) -> Result<()> {
        if skipped.is_empty() || self.setup.local_output.is_some() {
            return Ok(());
        }
        let path = directory.join(&format!("{SKIP_DIRECTORY}/{}", context.attempt().task))?;
        let parents = parents_of(directory);
        let options =
            CreateOptions { parents, ..options::output_file(&self.setup.program.properties)? };
        let mut file = self.dfs.create(&path, options).map_err(Error::dfs("create", &path))?;
        for record in skipped {
            let input = &paths[record.record.part as usize];
            file.write_all(record.line(input).as_bytes())?;
        }
        Ok(file.close().map_err(Error::dfs("write", &path))?)
    }

    fn reduce(&self, work: ReduceWork, launched: Launched) -> Result<AttemptState> {
        let Launched { context, directory, news, self_news, channel } = launched;
        let attempt = context.attempt();
        let output_directory = self.output_directory(attempt)?;
        // Merges as many maps at once as with a single partition.
        let merge_factor = self.merge_factor.saturating_mul(work.partitions.len());
        let fetcher = Fetcher::new(
            (&self.setup, &self.pass),
            (attempt, work.partitions),
            &directory,
            self.memory_bytes,
            self_news,
        );
        let outputs = Arc::unwrap_or_clone(work.outputs);
        let mut gather = Gather::new(0..self.setup.program.map_count, outputs);
        for _ in 0..DAMAGED_INPUTS_MAX {
            let begin = phases::clock();
            let inputs = fetcher.gather(&mut gather, &news, &channel, &context)?;
            let shuffled = phases::clock().saturating_sub(begin);
            phases::spent(TaskState::of(&context), Phase::Shuffle, shuffled);
            let records = inputs.iter().map(|input| input.records).sum();
            let (maps, sources): (Vec<AttemptId>, Vec<_>) = inputs
                .into_iter()
                .flat_map(|input| input.sources.into_iter().map(move |source| (input.map, source)))
                .unzip();
            let task = ReduceTask {
                context: context.clone(),
                partition: attempt.task.index,
                sources,
                records,
                options: reduce_options(directory.clone(), self.memory_bytes, merge_factor),
                output: self.output(&output_directory, &context)?,
            };
            let mark = TaskState::of(&context).mark();
            match self.stage.run_reduce(task) {
                Ok(()) => {
                    let hot_keys = TaskState::of(&context).hot_keys();
                    return Ok(AttemptState::OutputDone { directory: output_directory, hot_keys });
                }
                Err(Error::DamagedInput { index, reason }) => {
                    let map = maps[index];
                    TaskState::of(&context).return_to(&mark);
                    TaskState::of(&context).add("FAILED_SHUFFLE", 1);
                    channel.fetch_failed(FetchFailure {
                        reduce: attempt,
                        map,
                        diagnostics: reason,
                    });
                    gather.restart(map, Instant::now());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::TooManyDamagedInputs { count: DAMAGED_INPUTS_MAX }.into())
    }

    /// `<output>/_temporary/<attempt>`.
    pub(super) fn output_directory(&self, attempt: AttemptId) -> Result<DfsPath> {
        Ok(self.setup.program.output.join(&format!("_temporary/{attempt}"))?)
    }

    fn output(&self, directory: &DfsPath, context: &Context) -> Result<Output> {
        self.output_of(directory, context, context.attempt().task.index)
    }

    /// The output of a task with this number in the names of its files.
    pub(super) fn output_of(
        &self,
        directory: &DfsPath,
        context: &Context,
        number: u32,
    ) -> Result<Output> {
        let settings = self.stage.settings().output_options.clone();
        if let Some(local) = &self.setup.local_output {
            let files = Box::new(LocalFiles(local.into()));
            return Output::numbered(files, settings, context.clone(), number);
        }
        let mut options = options::output_file(&self.setup.program.properties)?;
        options.replication = settings.replication.or(options.replication);
        let (dfs, directory) = (self.dfs.clone(), directory.clone());
        let traffic = Arc::clone(&self.traffic);
        let files = DfsFiles { dfs, traffic, directory, options, is_made: Cell::new(false) };
        Output::numbered(Box::new(files), settings, context.clone(), number)
    }
}

/// The file in which an attempt publishes its position.
fn share_place(directory: &Path) -> Result<SharedCells> {
    let path = directory.join(RECORD_FILE);
    let count = PLACE_BYTES / size_of::<u64>();
    Ok(SharedCells::create(&path, count).map_err(Error::file("create", &path))?)
}

/// Number of the job's reduces, if chosen; for a map of a job whose reduces are not chosen yet, its partitions.
fn work_reduces(work: &Work, program: &Program) -> u32 {
    match work {
        Work::Map { .. } => program.partition_count,
        Work::Reduce(work) => work.reduce_count,
        Work::Round(work) => work.partition_count,
    }
}

/// The directories that an attempt makes: its own and those below it.
pub(super) fn parents_of(directory: &DfsPath) -> Parents {
    Parents::Below(directory.parent().unwrap_or_else(DfsPath::root))
}

/// Output files of an attempt in the file system of the cluster. The attempt may outlive its job; then it does not bring back directories
/// that the job's end has removed.
struct DfsFiles {
    dfs: DfsClient,
    traffic: Arc<Traffic>,
    directory: DfsPath,
    /// How each is made, but for the directories above it.
    options: CreateOptions,
    /// The directory exists.
    is_made: Cell<bool>,
}

impl OutputFiles for DfsFiles {
    fn create(&self, name: &str) -> Result<Box<dyn OutputFile>> {
        let path = self.directory.join(name)?;
        let parents = match self.is_made.get() && !name.contains('/') {
            true => Parents::None,
            false => parents_of(&self.directory),
        };
        let options = CreateOptions { parents, ..self.options.clone() };
        let writer = self.dfs.create(&path, options).map_err(Error::dfs("create", &path))?;
        self.is_made.set(true);
        Ok(Box::new(DfsOutput(writer, Arc::clone(&self.traffic))))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn the_place_of_a_map_is_no_file_elsewhere() {
        let scratch = tempfile::tempdir().unwrap();
        let (copy, attempt) = (scratch.path().join("copy"), scratch.path().join("attempt"));
        fs::write(&copy, "the only one").unwrap();
        fs::create_dir(&attempt).unwrap();
        symlink(&copy, attempt.join(RECORD_FILE)).unwrap();
        assert!(share_place(&attempt).is_err());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "the only one");
        fs::remove_file(attempt.join(RECORD_FILE)).unwrap();
        assert_eq!(share_place(&attempt).unwrap().cells().len(), 2);
    }
}
