//! What people know of `yarn`: applications, attempts, containers, nodes and logs. An application is a job of the JobTracker, a container is an attempt
//! at one of its tasks, and a node is a worker.
//!
//! | YARN | here |
//! |---|---|
//! | `application_<start>_<n>` | `job_<start>_<n>`; both are taken everywhere |
//! | `appattempt_<start>_<n>_000001` | the job again: it has no process of its own that could die and be tried again |
//! | a container | an attempt; its id is `attempt_…` |
//! | a vcore | a slot |
//!
//! Columns and labels are those that Hadoop 3.4 prints, for scripts that cut them apart. What is not there prints `N/A`.

mod applications;
mod attempts;
mod ids;
mod logs;
mod nodes;
mod queues;
mod words;

use std::ffi::OsString;

use anyhow::Result;
use client::job::JobClient;

use crate::connect::{Overrides, describe, job_client};
use crate::generic::generic;
use crate::job;
use crate::output::{EXIT_FAILED, EXIT_OK, report, say};
use words::{Asked, Wrong, usage};

/// The helps of the commands.
pub(crate) const APPLICATION_USAGE: &str = applications::USAGE;
pub(crate) const ATTEMPT_USAGE: &str = attempts::APPLICATION_USAGE;
pub(crate) const CONTAINER_USAGE: &str = attempts::CONTAINER_USAGE;
pub(crate) const LOGS_USAGE: &str = logs::USAGE;
pub(crate) const NODE_USAGE: &str = nodes::USAGE;
pub(crate) const QUEUE_USAGE: &str = queues::USAGE;
pub(crate) const TOP_USAGE: &str = words::TOP_USAGE;

/// Runs `yarn application` and `yarn app`.
pub(crate) fn application(arguments: &[OsString], overrides: &Overrides) -> u8 {
    run(arguments, overrides, applications::USAGE, applications::parse, applications::answer)
}

/// Runs `yarn applicationattempt`.
pub(crate) fn attempt(arguments: &[OsString], overrides: &Overrides) -> u8 {
    run(arguments, overrides, attempts::APPLICATION_USAGE, attempts::parse, |client, request| {
        attempts::of_application(client, request)
    })
}

/// Runs `yarn container`.
pub(crate) fn container(arguments: &[OsString], overrides: &Overrides) -> u8 {
    run(arguments, overrides, attempts::CONTAINER_USAGE, attempts::parse_container, |c, request| {
        attempts::containers(c, request)
    })
}

/// Runs `yarn node`.
pub(crate) fn node(arguments: &[OsString], overrides: &Overrides) -> u8 {
    run(arguments, overrides, nodes::USAGE, nodes::parse, nodes::answer)
}

/// Runs `yarn queue`.
pub(crate) fn queue(arguments: &[OsString], overrides: &Overrides) -> u8 {
    run(arguments, overrides, queues::USAGE, queues::parse, queues::answer)
}

/// Runs `yarn logs`.
pub(crate) fn logs(arguments: &[OsString], overrides: &Overrides) -> u8 {
    logs::run(arguments, overrides)
}

/// Runs `yarn top`: `hanno job top` with the options of YARN's.
pub(crate) fn top(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => return usage(&text, words::TOP_USAGE),
    };
    match words::top(&words) {
        Ok(words) => {
            let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
            job::watch(&words, &overrides)
        }
        Err(Wrong(text)) => usage(&text, words::TOP_USAGE),
    }
}

/// Parses a command line and answers it.
fn run<T>(
    arguments: &[OsString],
    overrides: &Overrides,
    usage_text: &str,
    parse: impl FnOnce(&[String]) -> Result<Asked<T>, Wrong>,
    answer: impl FnOnce(&JobClient, T) -> Result<u8>,
) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => return usage(&text, usage_text),
    };
    let request = match parse(&words) {
        Ok(Asked::Do(request)) => request,
        Ok(Asked::Help) => {
            say!("{}", usage_text.trim_end());
            return EXIT_OK;
        }
        Err(Wrong(text)) => return usage(&text, usage_text),
    };
    let answered = overrides.config().and_then(|config| answer(&job_client(&config)?, request));
    answered.unwrap_or_else(|error| {
        report!("yarn: {}", describe(error.as_ref()));
        EXIT_FAILED
    })
}
