//! The one entry of a job program, which decides what this process is: driver, local runner or task runner.

use std::process::ExitCode;

use client::error::chain;
use protocol::runner::SOCKET_VARIABLE;

use crate::Result;
use crate::args::{Args, OPTIONS_HELP};
use crate::error::{BoxError, Error};
use crate::local::LocalRunner;
use crate::options::Options;
use crate::plan::Plan;
use crate::{driver, runner};

/// Runs a job program.
///
/// `build` makes the plan of the arguments. It must depend on nothing else: workers start the same executable with the same arguments and
/// call it again, and a plan that comes out different fails the job at once, saying what differs.
///
/// `help` is the program's own usage; the job options are described behind it.
///
/// Exit codes: 0 if all jobs succeeded, 1 if one failed, 2 for a wrong command line.
pub fn main(help: &str, build: impl Fn(&mut Args) -> Result<Plan>) -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match run(&words, &build) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => match error.downcast_ref::<Error>() {
            Some(Error::HelpAsked) => {
                print!("{help}\n{OPTIONS_HELP}");
                ExitCode::SUCCESS
            }
            Some(Error::Usage { .. }) => {
                eprintln!("{}", chain(&*error));
                ExitCode::from(2)
            }
            _ => {
                eprintln!("{}", chain(&*error));
                ExitCode::FAILURE
            }
        },
    }
}

fn run(words: &[String], build: &dyn Fn(&mut Args) -> Result<Plan>) -> Result<(), BoxError> {
    let (mut args, options) = Args::parse(words)?;
    if let Ok(socket) = std::env::var(SOCKET_VARIABLE) {
        return runner::run(&socket, || build(&mut args));
    }
    let plan = build(&mut args)?;
    for warning in options.warnings() {
        eprintln!("{warning}");
    }
    match options.local {
        Some(_) => run_locally(plan, &options),
        None => driver::run(plan, &options, words),
    }
}

fn run_locally(plan: Plan, options: &Options) -> Result<()> {
    LocalRunner::from_options(options)?.run(plan).map(|_| ())
}
