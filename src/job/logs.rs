//! `hanno job logs`: what attempts wrote on standard output and error, once or as it grows.
//!
//! Invariant: each byte of a log is printed once, after a line that names its attempt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use client::job::JobClient;
use protocol::jobs::AttemptReport;
use protocol::{AttemptId, ErrorKind, JobId};

use super::exit::{unknown, with_args};
use crate::connect::{Overrides, describe, job_client};
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, unless_reader_left};

/// Pause between checks of running attempts: as long as between their reports.
const FOLLOW_PAUSE: Duration = Duration::from_secs(1);

/// Print what the attempts of a job wrote on standard output and error.
#[derive(Parser)]
#[command(
    name = "hanno job logs",
    after_help = "Examples:
  hanno job logs job_202611201830_0001
  hanno job logs --failed job_202611201830_0001
  hanno job logs --follow attempt_202611201830_0001_m_000005_0"
)]
struct Args {
    /// A job, or one attempt
    id: String,
    /// Of the job only this attempt
    attempt: Option<String>,
    /// Only of attempts that failed
    #[arg(long)]
    failed: bool,
    /// Go on with what is written, until the job is over
    #[arg(long, short)]
    follow: bool,
}

/// Runs the command line after `job logs` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    with_args("hanno job logs", arguments, |args: Args| print(&args, overrides))
}

fn print(args: &Args, overrides: &Overrides) -> Result<u8> {
    let text = args.attempt.as_ref().unwrap_or(&args.id);
    let attempt = text.parse::<AttemptId>().ok();
    let job = attempt.map(|attempt| attempt.task.job).or_else(|| args.id.parse().ok());
    let Some(job) = job else { return Ok(unknown(&args.id)) };
    if args.attempt.is_some() && (attempt.is_none() || args.id.parse::<JobId>().ok() != Some(job)) {
        report!("job: {text} is no attempt of {}", args.id);
        return Ok(EXIT_USAGE);
    }
    let client = job_client(&overrides.config()?)?;
    let mut logs = Logs { client: &client, code: EXIT_OK, printed: BTreeMap::new(), last: None };
    loop {
        let over = match client.status(job) {
            Ok(report) => report.state.is_final(),
            Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => {
                return Ok(unknown(&job.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        if !logs.print_new(args, job, attempt)? || over || !args.follow {
            return Ok(logs.code);
        }
        thread::sleep(FOLLOW_PAUSE);
    }
}

struct Logs<'a> {
    client: &'a JobClient,
    code: u8,
    /// Bytes of each attempt that were printed; `None` once it is over.
    printed: BTreeMap<String, Option<usize>>,
    /// The attempt whose log was printed last.
    last: Option<String>,
}

impl Logs<'_> {
    /// Prints what is new; false if nobody reads it any more.
    fn print_new(&mut self, args: &Args, job: JobId, only: Option<AttemptId>) -> Result<bool> {
        let only = only.map(|attempt| attempt.to_string());
        let tasks = self.client.tasks(job)?;
        let mut attempts = tasks.iter().flat_map(|task| &task.attempts);
        if let Some(only) = only.as_ref().filter(|only| !attempts.any(|at| at.id == **only)) {
            report!("Could not find attempt {only}");
            self.code = EXIT_FAILED;
            return Ok(false);
        }
        for attempt in tasks.iter().flat_map(|task| &task.attempts) {
            let wanted = only.as_ref().is_none_or(|only| *only == attempt.id)
                && (!args.failed || attempt.state == "FAILED");
            if wanted && !unless_reader_left(self.attempt(attempt)).context("cannot write")? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn attempt(&mut self, attempt: &AttemptReport) -> io::Result<()> {
        let AttemptReport { id, state, host, log_url, .. } = attempt;
        let Some(printed) = *self.printed.entry(id.clone()).or_insert(Some(0)) else {
            return Ok(());
        };
        let over = state != "RUNNING";
        let length = match self.client.log(log_url) {
            Ok(log) => {
                let new = log.get(printed..).unwrap_or_default();
                let mut out = crate::output::out();
                if self.last.as_ref() != Some(id) && (over || !new.is_empty()) {
                    writeln!(out, "=== {id} {state} on {host}")?;
                    self.last = Some(id.clone());
                }
                out.write_all(new)?;
                out.flush()?;
                log.len()
            }
            // It has written nothing yet; if its worker is gone, that is reported when the attempt
            // ends.
            Err(_) if !over => printed,
            Err(error) => {
                self.code = EXIT_FAILED;
                report!("job: the log of {id} is gone: {}", describe(&error));
                printed
            }
        };
        self.printed.insert(id.clone(), (!over).then_some(length));
        Ok(())
    }
}
