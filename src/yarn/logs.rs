//! `yarn logs`: what `hanno job logs` prints, asked for with YARN's options.

use std::ffi::OsString;

use protocol::{AttemptId, JobId};

use super::ids;
use super::words::{Asked, Takes, Wrong, options, usage};
use crate::connect::{Overrides, describe, job_client};
use crate::generic::generic;
use crate::job;
use crate::output::{EXIT_FAILED, EXIT_OK, EXIT_USAGE, report, say};

pub(super) const USAGE: &str = "\
Usage: yarn logs -applicationId ID [-containerId CONTAINER] [-appOwner USER]
       yarn logs -containerId CONTAINER

  -applicationId ID       what all attempts of a job wrote; application_… or job_…
  -containerId CONTAINER  only this attempt, as `yarn container -list' shows it: attempt_…
  -appOwner USER          only if this user owns the job
";

#[derive(Debug, PartialEq, Eq)]
struct Request {
    job: JobId,
    attempt: Option<AttemptId>,
    owner: Option<String>,
}

pub(super) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let (words, overrides) = match generic(arguments, overrides) {
        Ok(found) => found,
        Err(text) => return usage(&text, USAGE),
    };
    let request = match parse(&words) {
        Ok(Asked::Do(request)) => request,
        Ok(Asked::Help) => {
            say!("{}", USAGE.trim_end());
            return EXIT_OK;
        }
        Err(Wrong(text)) => return usage(&text, USAGE),
    };
    if let Some(owner) = &request.owner
        && let Err(code) = owned(&request, owner, &overrides)
    {
        return code;
    }
    let id = request.attempt.map_or(request.job.to_string(), |attempt| attempt.to_string());
    job::logs::run(&[OsString::from(id)], &overrides)
}

fn parse(words: &[String]) -> Result<Asked<Request>, Wrong> {
    let known =
        [("-applicationId", Takes::One), ("-containerId", Takes::One), ("-appOwner", Takes::One)];
    let Asked::Do(given) = options("logs", &known, words)? else { return Ok(Asked::Help) };
    let value = |name: &str| given.get(name).and_then(|values| values.first()).copied();
    let job = value("-applicationId").map(ids::job).transpose()?;
    let attempt = value("-containerId").map(ids::container).transpose()?;
    let of_attempt = attempt.map(|attempt| attempt.task.job);
    let Some(job) = job.or(of_attempt) else {
        return Err(Wrong::new("-applicationId ID or -containerId CONTAINER is needed"));
    };
    if of_attempt.is_some_and(|of| of != job) {
        return Err(Wrong::new("-containerId is an attempt of another job than -applicationId"));
    }
    Ok(Asked::Do(Request { job, attempt, owner: value("-appOwner").map(str::to_owned) }))
}

/// Fails with an exit code if somebody else owns the job.
fn owned(request: &Request, owner: &str, overrides: &Overrides) -> Result<(), u8> {
    let job = overrides.config().and_then(|config| Ok(job_client(&config)?.status(request.job)?));
    match job {
        Ok(job) if job.user == owner => Ok(()),
        Ok(job) => {
            report!("yarn: {} belongs to {}, not to {owner}", job.id, job.user);
            Err(EXIT_USAGE)
        }
        Err(error) => {
            report!("yarn: {}", describe(error.as_ref()));
            Err(EXIT_FAILED)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::asked;
    use super::*;

    #[test]
    fn a_job_or_one_of_its_attempts() {
        let parse = |line: &str| asked(parse, line);
        let (job, attempt) =
            ("application_202611201830_0001", "attempt_202611201830_0001_m_000005_0");
        let request = parse(&format!("-applicationId {job} -containerId {attempt}")).unwrap();
        assert_eq!((request.job.number, request.attempt.is_some()), (1, true));
        assert_eq!(parse(&format!("-containerId {attempt}")).unwrap(), request);
        for (line, expected) in [
            ("-appOwner ann".to_owned(), "is needed"),
            (format!("-applicationId {job} -size 10"), "-size is not supported"),
            (format!("-applicationId job_202611201830_0002 -containerId {attempt}"), "another job"),
            ("-help".to_owned(), "help"),
        ] {
            assert!(parse(&line).unwrap_err().contains(expected), "{line}");
        }
    }
}
