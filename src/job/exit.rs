//! How commands about jobs end: with wrong options, with an error, with an unknown job.

use std::ffi::OsString;

use anyhow::Result;
use clap::Parser;
use client::job::JobError;
use protocol::{ErrorKind, JobId};

use crate::connect::describe;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, end_by_clap, report};

/// Runs a command with options of its own; reports wrong ones with its usage.
pub(super) fn with_args<A: Parser>(
    name: &str,
    arguments: &[OsString],
    command: impl FnOnce(A) -> Result<u8>,
) -> u8 {
    let program = std::iter::once(OsString::from(name));
    let args = match A::try_parse_from(program.chain(arguments.iter().cloned())) {
        Ok(args) => args,
        Err(error) => return end_by_clap(&error),
    };
    command(args).unwrap_or_else(|error| {
        report!("job: {}", describe(error.as_ref()));
        EXIT_FAILED
    })
}

/// The exit code for an answer about a job: Hadoop's words for an unknown one.
pub(super) fn known(outcome: Result<(), JobError>, id: JobId) -> Result<u8> {
    match outcome {
        Ok(()) => Ok(EXIT_OK),
        Err(error) if error.kind() == Some(ErrorKind::UnknownJob) => Ok(unknown(&id.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// The exit code for text that is not a job id, or an unknown job.
pub(super) fn unknown(id: &str) -> u8 {
    report!("Could not find job {id}");
    EXIT_USAGE
}
