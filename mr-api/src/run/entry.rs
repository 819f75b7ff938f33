//! The one entry of a job program, which decides the role of this process: driver, local runner or task runner.

use std::ffi::OsString;
use std::process::ExitCode;

use mr_model::job::Plan;
use mr_model::runner::{Planned, say};
use mr_model::{BoxError, Error, Result};
use protocol::error::chain;
use protocol::jobs::{Counters, JobState};
use protocol::property::Scope;
use serde::Serialize;

use super::args::{Args, OPTIONS_HELP};
use super::local::LocalRunner;
use super::options::Options;
use super::printing::{print, print_json};
use super::shipped::Shipped;
use super::{conf, runner, session, unread};

/// Runs a job program.
///
/// `build` makes the plan from the arguments. Workers start the same executable with the same arguments and call it again, to get its
/// closures. Environment variables that it reads by name have the driver's values there. [`Args::file`] sends a file along, [`Args::once`]
/// a value that must not be made twice, such as a time or a seed. It must depend on nothing else: a plan that differs fails the job at
/// once, with a message that names the difference.
///
/// `help` is the program's own usage text; the description of the job options follows it.
///
/// Exit codes: 0 if all jobs succeeded, 1 if one failed, 2 for a wrong command line.
pub fn main(help: &str, build: impl Fn(&mut Args) -> Result<Plan>) -> ExitCode {
    let outcome = words(std::env::args_os().skip(1)).and_then(|words| run(&words, &build));
    ExitCode::from(report(help, outcome, EXIT_USAGE))
}

/// The arguments of this process. One that is not UTF-8 is refused: replaced, it would name another file.
pub(crate) fn words(given: impl Iterator<Item = OsString>) -> Result<Vec<String>> {
    let word = |word: OsString| {
        word.into_string().map_err(|word| {
            Error::usage(format!("argument {word:?} is not UTF-8, and paths here are")).into()
        })
    };
    given.map(word).collect()
}

/// A job failed.
pub(crate) const EXIT_FAILED: u8 = 1;
/// The command line is wrong.
pub(crate) const EXIT_USAGE: u8 = 2;

/// True if nothing went wrong: the help is what was asked for.
pub(crate) fn asks_help(error: &BoxError) -> bool {
    matches!(error.downcast_ref(), Some(Error::HelpAsked))
}

/// Prints the outcome and returns its exit code, which for a wrong command line is `usage`.
pub(crate) fn report(help: &str, outcome: Result<()>, usage: u8) -> u8 {
    let outcome = match outcome {
        Err(error) if asks_help(&error) => {
            print(&format!("{help}\n{OPTIONS_HELP}")).map_err(BoxError::from)
        }
        outcome => outcome,
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => match error.downcast_ref::<Error>() {
            Some(Error::Usage { .. } | Error::Property(_)) => {
                say(format_args!("{}\n", chain(&*error)));
                usage
            }
            _ => {
                say(format_args!("{}\n", chain(&*error)));
                EXIT_FAILED
            }
        },
    }
}

fn run(words: &[String], build: &dyn Fn(&mut Args) -> Result<Plan>) -> Result<(), BoxError> {
    let words = conf::expand(words)?;
    let (mut shipped, words) = Shipped::take(&words);
    let (mut args, options) = Args::parse(words)?;
    start(words, options, Scope::Jobs, || {
        let plan = shipped.around(|shipped| {
            args.shipped = std::mem::take(shipped);
            let plan = build(&mut args);
            *shipped = std::mem::take(&mut args.shipped);
            plan
        })?;
        Ok((plan, shipped))
    })
}

/// Drives the plan that `build` makes, or runs its tasks if a worker started this process. `words` is the whole command line: workers
/// start the executable with it.
pub(crate) fn start(
    words: &[String],
    mut options: Options,
    scope: Scope,
    build: impl FnOnce() -> Result<(Plan, Shipped)>,
) -> Result<()> {
    if let Some(worker) = runner::Worker::of_environment()? {
        return runner::run(worker, || Ok(build()?.0));
    }
    let mut warnings = options.check(scope)?;
    warnings.append(&mut options.warnings);
    let (plan, shipped) = build()?;
    let plan = Planned::from(plan);
    options.side_files.extend(shipped.side_files()?);
    warnings.extend(unread::of_place(&options));
    warnings.extend(unread::of_plan(&options, &plan.graph)?);
    for warning in warnings {
        say(format_args!("{warning}\n"));
    }
    let ended = match options.local {
        Some(_) => run_locally(plan, &options),
        None => session::run(plan, &options, &[&shipped.words(), words].concat()),
    };
    if let Err(error) = &ended
        && options.json
    {
        print_failure(error);
    }
    ended
}

/// Prints what `--json` shows of a failure.
pub(crate) fn print_failure(error: &BoxError) {
    let id = error.downcast_ref().and_then(Error::job).unwrap_or_default();
    let failed = FailedJob { state: JobState::Failed, id, error: chain(&**error) };
    if let Err(unprinted) = print_json(&failed) {
        say(format_args!("{}\n", chain(&*unprinted)));
    }
}

/// Prints what `--json` shows of jobs that ran in this process.
pub(crate) fn print_local(counters: Counters) -> Result<()> {
    print_json(&LocalJob { state: JobState::Succeeded, counters })
}

fn run_locally(plan: Planned, options: &Options) -> Result<()> {
    let mut counters = Counters::default();
    let (of_jobs, _) = LocalRunner::from_options(options)?.run_keeping(plan, None)?;
    of_jobs.iter().for_each(|of_job| counters.merge(of_job));
    match options.json {
        true => print_local(counters),
        false => Ok(()),
    }
}

/// The output of `--json` for a job that failed.
#[derive(Serialize)]
struct FailedJob<'a> {
    state: JobState,
    /// Empty if none was submitted.
    id: &'a str,
    error: String,
}

/// The output of `--json` for a job that ran in this process.
#[derive(Serialize)]
struct LocalJob {
    state: JobState,
    counters: Counters,
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn what_is_no_text_is_refused_by_name() {
        let of = |bytes: &[u8]| words([OsString::from_vec(bytes.to_vec())].into_iter());
        assert_eq!(of("é".as_bytes()).unwrap(), ["é"]);
        let error = of(b"in\xffput").unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(r#"argument "in\xFFput" is not UTF-8"#), "{text}");
        assert!(matches!(error.downcast_ref(), Some(Error::Usage { .. })));
    }
}
