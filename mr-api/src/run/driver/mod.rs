//! The driver's role on a cluster: submits each job of a plan once the jobs it needs have succeeded, and watches them.
//!
//! Invariants: the driver stages paths of this machine ([`staging`]); it submits nothing if an output exists or an input does not;
//! intermediate outputs are deleted when the plan is over; a driver that is stopped leaves its jobs running and prints how to end them; a
//! plan that fails leaves none.

pub(super) mod behind;
pub(super) mod embedded;
mod inputs;
pub(super) mod names;
pub(super) mod ran;
mod running;
pub(super) mod staging;

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use client::dfs::DfsClient;
use client::job::{Content, JobClient, upload};
use mr_formats::codec::FileCodec;
use mr_model::job::Finished;
use mr_model::runner::{
    BOUNDARIES_PROPERTY, DESCRIPTION_PROPERTY, Graph, InputPaths, JobSettings, OpenFn, OutputPath,
    Planned, Sampling, Scratch, fingerprint, output_property, say,
};
use mr_model::{Error, Result};
use protocol::error::chain;
use protocol::jobs::{Counters, JobReport, JobSpec, JobState, Split};
use protocol::namenode::SafeModeAction;
use protocol::property::Properties;
use protocol::sizing::{self, PARTITION_INPUT_BYTES_MIN, ReduceSizing};
use protocol::{BinaryHash, DfsPath, JobId};

use crate::run::dfs::{map_parts, open_part, opener};
use crate::run::inputs::Subdirectories;
use crate::run::options::{self, ATTEMPTS_DEFAULT, Options};
use crate::run::progress::Progress;
use crate::run::side_files::{self, SideFiles};
use behind::Afterwards;
use names::Names;
use ran::{Connected, Output, Ran};
use running::Running;

/// Pause before the NameNode is asked again whether it has left safe mode, which takes seconds or a person.
const SAFE_MODE_PAUSE: Duration = Duration::from_secs(1);

/// Runs one plan.
pub(in crate::run) struct Driver<'a> {
    pub(in crate::run) dfs: DfsClient,
    jobs: JobClient,
    options: &'a Options,
    words: &'a [String],
    /// Where an intermediate output of the last job goes, which stays after the plan.
    kept: Option<DfsPath>,
    afterwards: Afterwards<'a>,
    running: Running,
}

impl<'a> Driver<'a> {
    pub(in crate::run) fn new(
        Connected { dfs, jobs }: Connected,
        options: &'a Options,
        words: &'a [String],
        kept: Option<DfsPath>,
        afterwards: Afterwards<'a>,
    ) -> Self {
        Driver { dfs, jobs, options, words, kept, afterwards, running: Running::default() }
    }

    /// Runs all jobs.
    pub(in crate::run) fn run(&self, plan: Planned, names: &Names) -> Result<Ran> {
        let Planned { graph: plan, after } = plan;
        let outputs = self.outputs(&plan, names)?;
        let result = self.run_stages(&plan, names, &outputs);
        for (stage, output) in plan.stages.iter().zip(&outputs) {
            let stays = result.is_ok() && self.kept.as_ref() == Some(output);
            if stage.settings().output == OutputPath::Intermediate && !stays {
                // The outcome of the jobs matters more than this error.
                if let Err(error) = self.dfs.delete(output, true) {
                    say(format_args!("cannot delete {output}: {}\n", chain(&error)));
                }
            }
        }
        let mut reports = result?;
        let mut counters = Counters::default();
        reports.iter().for_each(|report| counters.merge(&report.counters));
        let output = outputs.last().cloned().ok_or(Error::NoPrevious)?;
        if let Some(after) = after {
            after(&mut self.finished(&output, counters.clone())?)?;
        }
        Ok(Ran { counters, report: reports.pop(), output: Output::Cluster(output) })
    }

    fn run_stages(
        &self,
        plan: &Graph,
        names: &Names,
        outputs: &[DfsPath],
    ) -> Result<Vec<JobReport>> {
        // Jobs that wait for no other are split first, so a missing input is found before anything is submitted.
        let mut first = Vec::new();
        for (index, needs) in plan.needs.iter().enumerate() {
            let splits = needs.is_empty().then(|| self.splits(plan, index, names, outputs));
            first.push(Mutex::new(splits.transpose()?));
        }
        let (_, binary) = upload(&self.dfs, &Content::of_program(&std::env::current_exe()?)?)?;
        let run = |index: usize| {
            let known = first[index].lock().unwrap_or_else(PoisonError::into_inner).take();
            let splits = match known {
                Some(splits) => splits,
                None => self.splits(plan, index, names, outputs)?,
            };
            let spec = self.spec(plan, index, binary, splits, outputs)?;
            self.run_job(spec, &mut Progress::new(self.options.quiet, self.options.voice))
        };
        plan.run_stages(run, || self.running.fail(|id| self.kill(id)))
    }

    /// Ends a job because another of the plan failed.
    fn kill(&self, id: JobId) {
        // It may be over; the reported failure is the other job's.
        let _ = self.jobs.kill(id);
    }

    /// Output directories of all stages; none exists yet.
    fn outputs(&self, plan: &Graph, names: &Names) -> Result<Vec<DfsPath>> {
        let last = plan.stages.last().map(|stage| &stage.settings().output);
        let last = match (last, &self.kept) {
            (Some(OutputPath::Path(last)), _) => names.output(last)?,
            (Some(OutputPath::Intermediate), Some(kept)) => kept.clone(),
            _ => return Err(Error::usage("the last job of a plan needs an output path").into()),
        };
        let mut outputs = Vec::new();
        for (index, stage) in plan.stages.iter().enumerate() {
            let path = match &stage.settings().output {
                OutputPath::Path(path) => names.output(path)?,
                OutputPath::Intermediate if index + 1 == plan.stages.len() => last.clone(),
                OutputPath::Intermediate => {
                    let parent = last.parent().unwrap_or_else(DfsPath::root);
                    let name = last.name().unwrap_or_default();
                    parent.join(&format!(".{name}.stage-{index}-{}", self.dfs.id()))?
                }
            };
            let found = self.dfs.try_status(&path).map_err(Error::dfs("look for", &path))?;
            if found.is_some() {
                return Err(Error::OutputExists { path: path.to_string() }.into());
            }
            outputs.push(path);
        }
        Ok(outputs)
    }

    fn splits(
        &self,
        plan: &Graph,
        index: usize,
        names: &Names,
        outputs: &[DfsPath],
    ) -> Result<Vec<Split>> {
        let stage = &plan.stages[index];
        let options = self.options.of_job(stage.settings());
        let cutting = inputs::Cutting::of_job(&options)?;
        let (mut all, mut found) = (Vec::new(), Vec::new());
        for (number, input) in stage.settings().inputs.iter().enumerate() {
            let paths = match &input.paths {
                InputPaths::Paths(paths) => names.inputs(paths)?,
                InputPaths::Previous | InputPaths::Outputs(_) => {
                    let read = plan.read_by(index, &input.paths)?;
                    read.into_iter().map(|index| outputs[index].clone()).collect()
                }
                InputPaths::Rows { rows, maps } => {
                    all.extend(inputs::row_splits(*rows, *maps, number as u32));
                    continue;
                }
            };
            found.push((number as u32, input, inputs::expand(&self.dfs, &paths, cutting.inner)?));
        }
        let slots = || Ok(self.jobs.tracker()?.slot_count);
        all.extend(inputs::all_splits(&self.dfs, &found, cutting, slots)?);
        options.check_map_count(all.len())?;
        Ok(all)
    }

    fn spec(
        &self,
        plan: &Graph,
        index: usize,
        binary: BinaryHash,
        splits: Vec<Split>,
        outputs: &[DfsPath],
    ) -> Result<JobSpec> {
        let stage = &plan.stages[index];
        let settings = stage.settings();
        let description = plan.description(index);
        let fingerprint = fingerprint(&description);
        let options = self.options.of_job(settings);
        let mut properties = options.for_run();
        if !stage.is_map_only() && self.jobs.tracker()?.host_count == 1 {
            options::stay_on_one_machine(&mut properties)?;
        }
        properties.insert(DESCRIPTION_PROPERTY.to_owned(), description);
        for need in &plan.needs[index] {
            properties.insert(output_property(*need), outputs[*need].to_string());
        }
        let side_files = SideFiles::of_job(settings, self.options)?;
        if !side_files.is_empty() {
            let stored = side_files::submit(&self.dfs, &side_files)?;
            properties.insert(side_files::FILES_PROPERTY.to_owned(), stored);
        }
        let rounds = stage.rounds();
        let wanted = settings.reducers.number(options.reducers()?);
        let (reduce_count, sizing) = match (stage.is_map_only(), wanted) {
            (true, _) => (0, None),
            (false, Some(count)) => (count, None),
            (false, None) if rounds.is_some() => (self.round_partitions(&splits)?, None),
            (false, None) => self.partitions(&splits)?,
        };
        if let Some(rounds) = rounds {
            rounds.check(reduce_count).map_err(Error::from)?;
        }
        if let Some(boundaries) =
            self.boundaries(settings, &splits, reduce_count, properties.clone())?
        {
            properties.insert(BOUNDARIES_PROPERTY.to_owned(), boundaries);
        }
        Ok(JobSpec {
            name: options.name()?.unwrap_or_else(|| settings.name.clone()),
            binary,
            args: self.words.to_vec(),
            stage: index as u32,
            fingerprint,
            splits: splits.into_iter().collect(),
            reduce_count,
            output: outputs[index].clone(),
            attempts_max: ATTEMPTS_DEFAULT,
            slow_start_permille: options.slow_start_permille()?,
            properties,
            sizing,
            rounds,
        })
    }

    /// Key ranges of the reduces, if the job's output is sorted as a whole.
    fn boundaries(
        &self,
        settings: &JobSettings,
        splits: &[Split],
        reduce_count: u32,
        properties: Properties,
    ) -> Result<Option<String>> {
        let Some(sampler) = settings.sampler.as_deref() else { return Ok(None) };
        let parts: Vec<_> = splits.iter().map(|split| (split.input, map_parts(split))).collect();
        let directory = Scratch::new("sample")?;
        let stored = properties.get(side_files::FILES_PROPERTY).map(String::as_str);
        let side_files = side_files::localise(&self.dfs, stored, directory.path(), &|_, _| {})?;
        let (splits, open) = (&parts[..], opener(&self.dfs));
        let sampling = Sampling {
            settings,
            sampler,
            splits,
            reduces: reduce_count,
            properties,
            directory,
            side_files,
            open,
        };
        sampling.boundaries(&|part| open_part(&self.dfs, part)).map(Some)
    }

    /// Number of partitions from which the JobTracker makes reduces; a small job has one, which leaves nothing to choose.
    fn partitions(&self, splits: &[Split]) -> Result<(u32, Option<ReduceSizing>)> {
        let bytes: u64 = splits.iter().map(split_bytes).sum();
        if bytes <= PARTITION_INPUT_BYTES_MIN {
            return Ok((1, None));
        }
        let sizing = ReduceSizing { slot_count: self.jobs.tracker()?.slot_count };
        let count = sizing.partitions(bytes, splits.len());
        Ok((count, (count > 1).then_some(sizing)))
    }

    /// Number of tasks of each round; all slots work, unless the job is small.
    fn round_partitions(&self, splits: &[Split]) -> Result<u32> {
        let bytes: u64 = splits.iter().map(split_bytes).sum();
        match bytes <= PARTITION_INPUT_BYTES_MIN {
            true => Ok(1),
            false => Ok(sizing::round_partitions(bytes, self.jobs.tracker()?.slot_count)),
        }
    }

    /// Waits while the NameNode is in safe mode: the submission would wait until the output directory can be made, and not say why. Whoever cannot ask goes on; the
    /// submission tells what is wrong.
    fn wait_for_writes(&self, progress: &mut Progress) {
        let is_safe = || self.dfs.safe_mode(SafeModeAction::Get).unwrap_or(false);
        if !is_safe() {
            return;
        }
        progress.say("The NameNode is in safe mode: the job waits until it is left");
        while is_safe() {
            thread::sleep(SAFE_MODE_PAUSE);
        }
    }

    fn run_job(&self, spec: JobSpec, progress: &mut Progress) -> Result<JobReport> {
        let (maps, reduces) = (spec.splits.len(), (spec.reduce_count, spec.sizing.is_some()));
        self.wait_for_writes(progress);
        let note = self.afterwards.behind.note(self.afterwards.of_submission());
        let id = self.running.submit(|| Ok(self.jobs.submit(spec)?), |id| self.kill(id))?;
        note.set(self.afterwards.of_job(id));
        let page = format!("{}/jobs/{id}", self.jobs.address());
        progress.start((id, &page), maps, reduces);
        if self.options.detached {
            return Ok(self.jobs.status(id)?);
        }
        let report = self.jobs.watch(id, |report| {
            if let Some(count) = progress.new_failures(report) {
                self.name_failures(id, count, progress);
            }
            progress.report(report);
        });
        drop(note);
        self.running.remove(id);
        let report = report?;
        progress.end(&report);
        match report.state {
            JobState::Succeeded => Ok(report),
            JobState::Killed => Err(Error::JobKilled { name: report.id }.into()),
            _ => Err(Error::JobFailed { name: report.id, diagnostics: report.diagnostics }.into()),
        }
    }

    /// Names the attempts of a job that failed until now.
    fn name_failures(&self, id: JobId, count: u32, progress: &mut Progress) {
        // Whoever cannot ask names them later.
        let Ok(tasks) = self.jobs.tasks(id) else { return };
        let attempts = tasks.iter().flat_map(|task| &task.attempts);
        let failed = attempts.filter(|attempt| attempt.state == ATTEMPT_FAILED);
        progress.name_failures(count, failed);
    }

    /// Fetches outputs, which stay on the cluster if Ctrl-C comes first.
    pub(in crate::run) fn fetching(
        &self,
        fetch: impl FnOnce(&DfsClient) -> Result<()>,
    ) -> Result<()> {
        let needs_note = !self.afterwards.fetch_commands.is_empty();
        let _note = needs_note.then(|| self.afterwards.behind.note(self.afterwards.of_fetch()));
        fetch(&self.dfs)
    }

    fn finished(&self, output: &DfsPath, counters: Counters) -> Result<Finished<'_>> {
        let mut parts = Vec::new();
        for (path, _) in files(&self.dfs, output)? {
            let dfs = &self.dfs;
            let open = move || -> Result<Box<dyn std::io::Read>> {
                let file = dfs.open(&path).map_err(Error::dfs("open", &path))?;
                Ok(FileCodec::reader(&path.to_string(), file)?)
            };
            parts.push(Box::new(open) as Box<OpenFn<'_>>);
        }
        Ok(Finished::new(counters, parts))
    }
}

/// The files of an output and their lengths, in the order of their names.
pub(crate) fn files(dfs: &DfsClient, output: &DfsPath) -> Result<Vec<(DfsPath, u64)>> {
    let files = inputs::expand(dfs, std::slice::from_ref(output), Subdirectories::Ignored)?;
    Ok(files.into_iter().map(|(path, file)| (path, file.length)).collect())
}

/// Bytes of all parts of a split.
fn split_bytes(split: &Split) -> u64 {
    split.length + split.more.iter().map(|part| part.length).sum::<u64>()
}

/// [`protocol::jobs::AttemptReport::state`] of an attempt that failed.
const ATTEMPT_FAILED: &str = "FAILED";
/// Exit code after Ctrl-C, as in shells.
pub(super) const INTERRUPTED: i32 = 130;
