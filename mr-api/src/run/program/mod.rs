//! A driver that is a program: ordinary code that runs one plan after the other and reads what they made.
//!
//! ```text
//! driver   the program's function ─► Cluster::run(step, parameters) ─► bytes of the parameters ─► the step makes a plan of them
//! worker   step and bytes of the command line ─► the step makes the same plan of them ─► tasks
//! ```
//!
//! Invariants: a plan is made of the bytes that are sent, in the driver too, so that both see the same values; a step has no captures
//! (checked by the compiler); a worker never runs the program's function.

mod done;
mod place;
mod steps;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use mr_model::job::Plan;
use mr_model::runner::{OutputPath, Planned, say};
use mr_model::{Error, Result};
use protocol::jobs::{Counters, JobReport};
use protocol::property::Scope;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::args::Args;
use super::driver::ran::{Output, Ran};
use super::entry::{EXIT_USAGE, print_failure, print_local, report, words};
use super::local::LocalRunner;
use super::options::Options;
use super::printing::print_json;
use super::session::Session;
use super::shipped::Shipped;
use super::{conf, runner, unread};
pub use done::Done;
use place::Place;
use steps::{Order, Step, Steps};

/// A driver that is a program: a function that runs plans, looks at what came out, and goes on as it likes. For a loop until nothing
/// changes, a sweep over parameters, a pipeline.
///
/// Workers start the same executable to run tasks, and must build the same plan there, without the loop around it. So a plan is made by a
/// *step*: a function of its parameters that captures nothing. [`Program::step`] names it, [`Cluster::run`] runs it. The parameters are any
/// type that is [`serde::Serialize`] and [`serde::Deserialize`]. The driver serialises them, makes the plan of the serialised form, and
/// sends that to the workers, which do the same. A step with captures does not compile; environment variables that it reads have the
/// driver's values on workers.
///
/// ```no_run
/// use std::process::ExitCode;
///
/// use mr_api::job::CompleteJob;
/// use mr_api::{Args, Cluster, Job, Program, Result, Sum, intermediate, text, text_out};
/// use serde::{Deserialize, Serialize};
///
/// fn main() -> ExitCode {
///     Program::new("Usage: halve IN OUT\n").step(halve).main(drive)
/// }
///
/// /// Halves the numbers until none is above 100.
/// fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
///     let (inputs, output) = args.inputs_and_output()?;
///     let mut done = cluster.run(halve, &Halve { inputs, output: None })?;
///     while done.counters().value("Halve", "large") > 0 {
///         done = cluster.run(halve, &Halve { inputs: vec![done.path().to_owned()], output: None })?;
///     }
///     cluster.run(halve, &Halve { inputs: vec![done.path().to_owned()], output: Some(output) })?;
///     Ok(())
/// }
///
/// #[derive(Serialize, Deserialize)]
/// struct Halve {
///     inputs: Vec<String>,
///     output: Option<String>,
/// }
///
/// fn halve(step: Halve) -> Result<CompleteJob> {
///     Ok(Job::new("halve")
///         .input(text(step.inputs))
///         .map_fn::<u64, (), _>(|line, out| {
///             let half = line.to_str_lossy().parse::<u64>()? / 2;
///             out.counter("Halve", "large").add(u64::from(half > 100));
///             out.emit(half, ())
///         })
///         .output(step.output.map_or(intermediate(), text_out)))
/// }
/// ```
pub struct Program {
    help: String,
    steps: Steps,
}

impl Program {
    /// A program without steps; `help` is its usage text, as for [`main`](crate::main).
    pub fn new(help: impl Into<String>) -> Self {
        Program { help: help.into(), steps: Steps::default() }
    }

    /// Names a step, so that workers find it.
    ///
    /// A closure with captures is refused by the compiler: workers could not know what it captured.
    pub fn step<F, P, J>(mut self, step: F) -> Self
    where
        F: Fn(P) -> Result<J> + Copy + Send + Sync + 'static,
        P: Serialize + DeserializeOwned,
        J: Into<Plan>,
    {
        self.steps.add(step);
        self
    }

    /// Runs the program: `drive` in the driver, tasks in a process that a worker started.
    ///
    /// Exit codes: 0 if `drive` succeeded, 1 if it or a job failed, 2 for a wrong command line.
    pub fn main(self, drive: impl FnOnce(&mut Args, &Cluster) -> Result<()>) -> ExitCode {
        let Program { help, steps } = self;
        let words = words(std::env::args_os().skip(1));
        let outcome = words.and_then(|words| run(&words, steps, drive));
        ExitCode::from(report(&help, outcome, EXIT_USAGE))
    }
}

fn run(
    words: &[String],
    steps: Steps,
    drive: impl FnOnce(&mut Args, &Cluster) -> Result<()>,
) -> Result<()> {
    let words = conf::expand(words)?;
    if let Some(worker) = runner::Worker::of_environment()? {
        let (mut shipped, rest) = Shipped::take(&words);
        return runner::run(worker, || {
            let order = Order::take(rest)?;
            shipped.around(|_| steps.plan(&order))
        });
    }
    let (mut args, options) = Args::parse(&words)?;
    args.shipped = Shipped::of_program();
    for warning in options.check(Scope::Jobs)?.into_iter().chain(unread::of_place(&options)) {
        say(format_args!("{warning}\n"));
    }
    let json = options.json;
    let ended = Cluster::begin(options, words, steps).and_then(|cluster| {
        drive(&mut args, &cluster)?;
        if json { cluster.print() } else { Ok(()) }
    });
    if let Err(error) = &ended
        && json
    {
        print_failure(error);
    }
    ended
}

/// Where the steps of a [`Program`] run: a cluster, an embedded one, or with `--local` this process.
///
/// Several threads may run steps at once.
pub struct Cluster {
    place: Place,
    /// None for tests, where no worker builds a step.
    steps: Option<Steps>,
    words: Vec<String>,
    /// For `--json`.
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    report: Option<JobReport>,
    counters: Counters,
}

impl Cluster {
    fn begin(options: Options, words: Vec<String>, steps: Steps) -> Result<Self> {
        let place = match options.local {
            Some(_) => Place::here(LocalRunner::from_options(&options)?),
            None => Place::Cluster(Box::new(Session::begin(options)?)),
        };
        Ok(Cluster { place, steps: Some(steps), words, last: Mutex::default() })
    }

    /// This process, for tests of a program's function; it may run any step.
    ///
    /// ```
    /// use mr_api::job::{CompleteJob, rows};
    /// use mr_api::{Cluster, Job, LocalRunner, Result, intermediate};
    ///
    /// fn squares(count: u64) -> Result<CompleteJob> {
    ///     let job = Job::new("squares").input(rows(count, 2));
    ///     Ok(job.map_fn::<u64, u64, _>(|row, out| out.emit(row, row * row)).output(intermediate()))
    /// }
    ///
    /// let cluster = Cluster::local(LocalRunner::new());
    /// assert_eq!(cluster.run(squares, &3)?.lines()?, ["0\t0", "1\t1", "2\t4"]);
    /// # Ok::<(), mr_api::BoxError>(())
    /// ```
    pub fn local(runner: LocalRunner) -> Self {
        Cluster {
            place: Place::here(runner),
            steps: None,
            words: Vec::new(),
            last: Mutex::default(),
        }
    }

    /// Runs the plan that `step` makes of `parameters`, and waits for its end.
    ///
    /// The last job may have an [`intermediate`](crate::intermediate) output. It lasts as long as the returned [`Done`], whose
    /// [`path`](Done::path) is an input for other steps.
    ///
    /// # Errors
    /// The first failure of a job, the step's own, and parameters of more than 64 KiB: send such with
    /// [`Job::side_file`](crate::Job::side_file).
    pub fn run<F, P, J>(&self, step: F, parameters: &P) -> Result<Done<'_>>
    where
        F: Fn(P) -> Result<J> + Copy + Send + Sync + 'static,
        P: Serialize + DeserializeOwned,
        J: Into<Plan>,
    {
        let step = Step::new(step);
        let order = match &self.steps {
            Some(steps) => steps.order(&step, parameters)?,
            None => Order::of(&step, 0, parameters)?,
        };
        let mut shipped = Shipped::default();
        let plan = Planned::from(shipped.around(|_| step.plan(&order))?);
        let last = plan.graph.stages.last().map(|stage| &stage.settings().output);
        let is_intermediate = last == Some(&OutputPath::Intermediate);
        let ran = match &self.place {
            Place::Here { runner, .. } => {
                let kept = is_intermediate.then(|| self.place.kept()).transpose()?;
                let (counters, output) = runner.run_keeping(plan, kept)?;
                let mut all = Counters::default();
                counters.iter().for_each(|of_job| all.merge(of_job));
                Ran { counters: all, report: None, output: Output::Machine(output) }
            }
            Place::Cluster(session) => {
                let words = [&shipped.words()[..], &order.words(), &self.words].concat();
                session.run(plan, &words, true)?
            }
        };
        let Ran { counters, report, output } = ran;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.counters.merge(&counters);
        last.report = report;
        drop(last);
        Ok(Done::new(&self.place, counters, output, is_intermediate))
    }

    /// Refuses an output path that exists. A job does that too, but perhaps after an hour of others.
    ///
    /// # Errors
    /// If it exists, or if that cannot be found out.
    pub fn check_new(&self, output: &str) -> Result<()> {
        match &self.place {
            Place::Cluster(session) => session.check_new(output),
            Place::Here { .. } => {
                let path = super::address::of_machine(output)?;
                match path.try_exists().map_err(Error::file("look for", &path))? {
                    true => Err(Error::OutputExists { path: output.to_owned() }.into()),
                    false => Ok(()),
                }
            }
        }
    }

    /// What `--json` prints at the end: the report of the last job, or the counters of all.
    fn print(&self) -> Result<()> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (&self.place, &last.report) {
            (Place::Here { .. }, _) => print_local(last.counters.clone()),
            (Place::Cluster(_), report) => print_json(report),
        }
    }
}
