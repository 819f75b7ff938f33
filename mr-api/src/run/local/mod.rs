//! Runs a plan in this process, with the same engine as the cluster: for `--local` and for tests.
//!
//! Invariants: the output directory appears only if nothing was there, and is removed again if the plan fails; it has `_SUCCESS` exactly if
//! it is complete. Task order never affects the output. A signal leaves as little as a failure ([`undo`]).

pub(crate) mod files;
pub(crate) mod open;
mod rounds;
mod tasks;
pub(crate) mod undo;

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use mr_formats::codec::FileCodec;
use mr_formats::{TextRules, rows};
use mr_model::job::{Finished, Plan};
use mr_model::runner::{
    BOUNDARIES_PROPERTY, Graph, InputPaths, OpenFn, OutputPath, Planned, SideFile, Stage,
    output_property, say,
};
use mr_model::{Error, Result};
use protocol::JobId;
use protocol::error::chain;
use protocol::jobs::Counters;
use protocol::property::{Properties, present_name};
use shuffle::BufferPool;

use crate::run::inputs::Subdirectories;
use crate::run::options::Options;
use crate::run::progress::Progress;
use crate::run::side_files::{self, SideFiles};
use crate::run::{address, options};
use tasks::{JobRun, LocalSplit};

/// Memory of the sort buffer or combiner table of one map: a million distinct words fit.
const MEMORY_BYTES_DEFAULT: usize = 256 << 20;
/// Local files have no blocks. A split is at most this long, which bounds the work that a failure loses and keeps progress visible.
const SPLIT_BYTES_MAX: u64 = 512 << 20;
/// And at least this long, unless `split.maxsize` says otherwise: less is not worth a sort of its own.
const SPLIT_BYTES_MIN: u64 = 16 << 20;

/// Runs plans in this process.
///
/// ```
/// use mr_api::{Job, LocalRunner, Sum, text, text_out};
///
/// # let scratch = tempfile::tempdir()?;
/// let (input, output) = (scratch.path().join("in"), scratch.path().join("out"));
/// std::fs::write(&input, "b a b\n")?;
/// let job = Job::new("count")
///     .input(text([input.to_string_lossy()]))
///     .map_fn::<String, u64, _>(|line, out| {
///         line.to_str_lossy().split_whitespace().try_for_each(|word| out.emit(word, 1u64))
///     })
///     .combine(Sum)
///     .reduce(Sum)
///     .reducers(1)
///     .output(text_out(output.to_string_lossy()));
/// LocalRunner::new().run(job)?;
/// assert_eq!(std::fs::read_to_string(output.join("part-r-00000"))?, "a\t1\nb\t2\n");
/// # Ok::<(), mr_api::BoxError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LocalRunner {
    thread_count: usize,
    /// Instead of what properties and defaults say.
    memory_bytes: Option<usize>,
    merge_factor: Option<usize>,
    split_bytes: Option<u64>,
    options: Options,
}

impl Default for LocalRunner {
    fn default() -> Self {
        LocalRunner::new()
    }
}

impl LocalRunner {
    /// One thread per core, plenty of memory, no progress on the terminal.
    pub fn new() -> Self {
        let options = Options { quiet: true, ..Options::default() };
        LocalRunner {
            thread_count: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: None,
            merge_factor: None,
            split_bytes: None,
            options,
        }
    }

    /// For a program that its user started: signals are watched from now on.
    pub(crate) fn from_options(options: &Options) -> Result<Self, Error> {
        undo::watch()?;
        let default = LocalRunner::new();
        Ok(LocalRunner {
            thread_count: options.local.flatten().unwrap_or(default.thread_count).max(1),
            options: options.clone(),
            ..default
        })
    }

    /// How many tasks run at once.
    pub fn threads(mut self, count: usize) -> Self {
        self.thread_count = count.max(1);
        self
    }

    /// Cuts files into splits of at most this many bytes.
    pub fn split_bytes(mut self, bytes: u64) -> Self {
        self.split_bytes = Some(bytes.max(1));
        self
    }

    /// So little memory that nearly every record spills and merges take several passes: for tests.
    pub fn tiny_memory(mut self) -> Self {
        self.memory_bytes = Some(1);
        self.merge_factor = Some(2);
        self
    }

    /// Sets the number of reduce tasks of every job, overriding the job unless that has [`Always`](crate::Always) so many; with 0 the maps' pairs are the output.
    pub fn reducers(mut self, count: u32) -> Self {
        self.options.reducers = Some(count);
        self
    }

    /// Sets a job property.
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.options.properties.insert(present_name(name).to_owned(), value.to_owned());
        self
    }

    /// Gives every task a side file, as `--files` does.
    ///
    /// # Errors
    /// If `path` has no usable name.
    pub fn side_file(mut self, path: &str) -> Result<Self> {
        self.options.side_files.push(SideFile::parse(path)?);
        Ok(self)
    }

    /// Runs all jobs of the plan; returns the counters of each.
    ///
    /// # Errors
    /// The first failure; the plan's output directories are then removed.
    pub fn run(&self, plan: impl Into<Plan>) -> Result<Vec<Counters>> {
        Ok(self.run_keeping(plan.into().into(), None)?.0)
    }

    /// As [`LocalRunner::run`]; returns the directory of the last output, too. If that is an intermediate one, it is `kept`.
    pub(crate) fn run_keeping(
        &self,
        Planned { graph: plan, after }: Planned,
        kept: Option<PathBuf>,
    ) -> Result<(Vec<Counters>, PathBuf)> {
        for stage in &plan.stages {
            SideFiles::of_job(stage.settings(), &self.options)?;
        }
        let mut outputs = self.outputs(&plan, kept.as_deref())?;
        let (made, ended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let run_stage = |index: usize| {
            let splits = self.splits(&plan, index, &outputs)?;
            let output = &outputs[index];
            let unfinished = undo::output(output)?;
            made.lock().unwrap_or_else(PoisonError::into_inner).push((index, unfinished));
            let mut properties = self.options.of_job(plan.stages[index].settings()).for_run();
            for need in &plan.needs[index] {
                let output = outputs[*need].display().to_string();
                properties.insert(output_property(*need), output);
            }
            options::stay_on_one_machine(&mut properties)?;
            self.run_stage(&*plan.stages[index], index, output, splits, properties, &ended)
        };
        let run = plan.run_stages(run_stage, || ended.store(true, Ordering::Relaxed));
        let intermediate = |index: &usize| {
            plan.stages[*index].settings().output == OutputPath::Intermediate
                && Some(&outputs[*index]) != kept.as_ref()
        };
        let made = made.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (index, _unfinished) in made {
            if run.is_ok() && !intermediate(&index) {
                continue;
            }
            // The outcome of the jobs matters more than this error.
            if let Err(error) = remove_dir(&outputs[index]) {
                say(format_args!("{}\n", chain(&error)));
            }
        }
        let counters = run?;
        if let (Some(after), Some(output)) = (after, outputs.last()) {
            let mut all = Counters::default();
            counters.iter().for_each(|counters| all.merge(counters));
            after(&mut finished(output, all)?)?;
        }
        Ok((counters, outputs.pop().ok_or(Error::NoPrevious)?))
    }

    /// Output directories of all stages; none exists yet.
    fn outputs(&self, plan: &Graph, kept: Option<&Path>) -> Result<Vec<PathBuf>> {
        let last = plan.stages.last().map(|stage| &stage.settings().output);
        let last = match (last, kept) {
            (Some(OutputPath::Path(last)), _) => address::of_machine(last)?,
            (Some(OutputPath::Intermediate), Some(kept)) => kept.to_owned(),
            _ => return Err(Error::usage("the last job of a plan needs an output path").into()),
        };
        let mut outputs = Vec::new();
        for (index, stage) in plan.stages.iter().enumerate() {
            let path = match &stage.settings().output {
                OutputPath::Path(path) => address::of_machine(path)?,
                OutputPath::Intermediate if index + 1 == plan.stages.len() => last.clone(),
                OutputPath::Intermediate => {
                    let name = last.file_name().unwrap_or_default().to_string_lossy();
                    last.with_file_name(format!(".{name}.stage-{index}-{}", std::process::id()))
                }
            };
            let found = path.try_exists().map_err(Error::file("look for", &path))?;
            if found {
                return Err(Error::OutputExists { path: path.display().to_string() }.into());
            }
            outputs.push(path);
        }
        Ok(outputs)
    }

    fn splits(&self, plan: &Graph, index: usize, outputs: &[PathBuf]) -> Result<Vec<LocalSplit>> {
        let stage = &plan.stages[index];
        let options = self.options.of_job(stage.settings());
        let inner = Subdirectories::of_job(&options)?;
        let rules = TextRules::of_job(&options.properties)?;
        let mut limits = options.split_limits()?;
        limits.max = self.split_bytes.unwrap_or(limits.max);
        let mut inputs = Vec::new();
        for input in &stage.settings().inputs {
            let paths = match &input.paths {
                InputPaths::Paths(paths) => {
                    let of_machine = paths.iter().map(|path| address::of_machine(path));
                    of_machine.collect::<Result<_>>()?
                }
                InputPaths::Rows { .. } => Vec::new(),
                InputPaths::Previous | InputPaths::Outputs(_) => {
                    let read = plan.read_by(index, &input.paths)?;
                    read.into_iter().map(|index| outputs[index].clone()).collect()
                }
            };
            inputs.push((files::expand(&paths, inner)?, input));
        }
        let total: u64 = inputs.iter().flat_map(|(files, _)| files).map(|file| file.length).sum();
        let share = total.div_ceil(self.thread_count as u64);
        let block_bytes = share.clamp(SPLIT_BYTES_MIN, SPLIT_BYTES_MAX);
        let mut all = Vec::new();
        for (number, (files, input)) in inputs.iter().enumerate() {
            if let InputPaths::Rows { rows, maps } = input.paths {
                let split = |range| LocalSplit {
                    input: number as u32,
                    parts: vec![(PathBuf::from("rows"), range)],
                };
                all.extend(rows::ranges(rows, maps).map(split));
            }
            let splits = files::splits(files, (number as u32, input), block_bytes, limits, &rules)?;
            let packing =
                options.packing(self.thread_count as u32, limits.split_bytes(block_bytes))?;
            all.extend(if input.cut.may_be_packed() {
                files::pack_small(splits, packing)
            } else {
                splits
            });
        }
        options.check_map_count(all.len())?;
        Ok(all)
    }

    fn run_stage(
        &self,
        stage: &dyn Stage,
        index: usize,
        output: &Path,
        splits: Vec<LocalSplit>,
        mut properties: Properties,
        ended: &AtomicBool,
    ) -> Result<Counters> {
        let settings = stage.settings();
        let options = self.options.of_job(settings);
        let reduces = match stage.is_map_only() {
            true => 0,
            false => {
                let wanted = settings.reducers.number(options.reducers()?);
                wanted.unwrap_or(self.thread_count as u32)
            }
        };
        let name = options.name()?.unwrap_or_else(|| settings.name.clone());
        let number = index as u32 + 1;
        let mut progress = Progress::new(self.options.quiet, self.options.voice);
        progress.start_local(number, &name, splits.len(), reduces);
        let (side_files, scratch) =
            (SideFiles::of_job(settings, &self.options)?, output.join(SCRATCH));
        let side_files = side_files::local(&side_files, &scratch)?;
        if let Some(boundaries) =
            tasks::boundaries(settings, &splits, reduces, &properties, &side_files)?
        {
            properties.insert(BOUNDARIES_PROPERTY.to_owned(), boundaries);
        }
        let memory_bytes = match self.memory_bytes {
            Some(bytes) => bytes,
            None => options::sort_bytes(&properties)?.unwrap_or(MEMORY_BYTES_DEFAULT),
        };
        let merge_factor = match self.merge_factor {
            Some(factor) => factor,
            None => options::merge_factor(&properties)?,
        };
        let run = JobRun {
            stage,
            job: JobId { cluster_start: 0, number },
            temporary: output.join(TEMPORARY),
            splits,
            reduces,
            memory_bytes,
            merge_factor,
            properties,
            pool: BufferPool::new(2 * memory_bytes * self.thread_count)
                .advising(sys::map::prefer_large_pages),
            side_files,
            scratch,
            ended,
        };
        let counters = run.run(self.thread_count, &mut progress)?;
        remove_dir(&run.scratch)?;
        commit(output)?;
        progress.finish(&name, &counters);
        Ok(counters)
    }
}

const TEMPORARY: &str = "_temporary";
/// Spills, map outputs, links to side files, programs among them; removed before the commit.
const SCRATCH: &str = "_scratch";

/// Moves the files of all attempts up, removes `_temporary` and marks success.
fn commit(output: &Path) -> Result<(), Error> {
    let temporary = output.join(TEMPORARY);
    for attempt in files::read_dir(&temporary)? {
        for part in files::read_dir(&attempt)? {
            let name = part.file_name().unwrap_or_default().to_owned();
            fs::rename(&part, output.join(name)).map_err(Error::file("rename", &part))?;
        }
    }
    remove_dir(&temporary)?;
    let success = output.join("_SUCCESS");
    File::create(&success).map_err(Error::file("create", &success))?;
    Ok(())
}

fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn finished(output: &Path, counters: Counters) -> Result<Finished<'static>> {
    let mut parts = Vec::new();
    for file in files::expand(&[output.to_owned()], Subdirectories::Ignored)? {
        let open = move || -> Result<Box<dyn Read>> {
            let opened = open::open(&file.path)?;
            Ok(FileCodec::reader(&file.path.to_string_lossy(), opened)?)
        };
        parts.push(Box::new(open) as Box<OpenFn<'static>>);
    }
    Ok(Finished::new(counters, parts))
}
