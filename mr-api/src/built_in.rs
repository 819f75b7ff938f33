//! Jobs that are part of a program which does other things, too, as `hanno distcp` is of `hanno`.
//!
//! The program decides by its command line what to do. A worker starts it with the words of the job; [`run_tasks`] then runs tasks, and nothing else of
//! the program runs. A built-in job is trusted like the program: its tasks may do all that the job's owner may ([`file_system`]).

use client::dfs::DfsClient;
use mr_model::job::Plan;
use mr_model::runner::TaskState;
use mr_model::{Context, Result};
use protocol::JobId;
use protocol::jobs::Counters;
use protocol::property::{Key, Scope, Value};

use crate::run::{LocalRunner, Options, runner, session};

/// How a built-in job runs.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `http://host:port` of the NameNode, instead of the configured one.
    pub namenode: Option<String>,
    /// `http://host:port` of the JobTracker, instead of the configured one.
    pub jobtracker: Option<String>,
    /// As `-fs` names it.
    pub file_system: Option<String>,
    /// `NAME=VALUE`, as `-D` takes them.
    pub properties: Vec<String>,
    /// In this process, with so many threads.
    pub local: Option<usize>,
    /// Return once the job is submitted.
    pub detached: bool,
}

impl Settings {
    /// The value of a property, if it is given.
    ///
    /// # Errors
    /// If a property is not `NAME=VALUE`, or does not take its value.
    pub fn value<T: Value>(&self, key: Key<T>) -> Result<Option<T>> {
        Ok(self.options()?.value(key)?)
    }

    fn options(&self) -> Result<Options> {
        let mut options = Options {
            namenode: self.namenode.clone(),
            jobtracker: self.jobtracker.clone(),
            file_system: self.file_system.clone(),
            local: self.local.map(Some),
            detached: self.detached,
            ..Options::default()
        };
        for property in &self.properties {
            options.set(property)?;
        }
        Ok(options)
    }
}

/// What a job that has run, or was submitted, leaves.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its id; `None` if it ran in this process.
    pub job: Option<JobId>,
    /// Its counters so far.
    pub counters: Counters,
}

/// True if a worker started this process to run tasks.
pub fn is_task() -> bool {
    runner::is_task()
}

/// Runs the tasks of the job that `build` makes, until the worker wants no more. For a process that [`is_task`].
///
/// # Errors
/// If the job is not the submitted one, or the worker says something else than it should.
pub fn run_tasks(build: impl FnOnce() -> Result<Plan>) -> Result<()> {
    match runner::Worker::of_environment()? {
        Some(worker) => runner::run(worker, build),
        None => Ok(()),
    }
}

/// Runs a plan of one job. Workers start this program with `words`. Progress and counters go to standard error.
///
/// # Errors
/// If the job cannot be run, or fails.
pub fn run(words: &[String], settings: &Settings, plan: impl Into<Plan>) -> Result<Ended> {
    let options = settings.options()?;
    for warning in options.check(Scope::Jobs)? {
        mr_model::runner::say(format_args!("{warning}\n"));
    }
    let plan = plan.into();
    if options.local.is_some() {
        let mut counters = Counters::default();
        let all = LocalRunner::from_options(&options)?.run(plan)?;
        all.into_iter().for_each(|of_job| counters.merge(&of_job));
        return Ok(Ended { job: None, counters });
    }
    let ran = session::Session::begin(options)?.run(plan.into(), words, false)?;
    let job = ran.report.and_then(|report| report.id.parse().ok());
    Ok(Ended { job, counters: ran.counters })
}

/// The file system of the cluster with the rights of the job's owner; `None` in a job that runs in the driver.
pub fn file_system(context: &Context) -> Option<DfsClient> {
    TaskState::of(context).services::<DfsClient>().map(|dfs| (*dfs).clone())
}

/// Tells how much of the task is done, 0 to 1; the task is alive.
pub fn progress(context: &Context, share: f64) {
    TaskState::of(context).set_progress(share);
}
