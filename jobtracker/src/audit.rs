//! The audit log: who asked for a change of a job or of the JobTracker, from where, and whether it was allowed; also refused views of jobs.
//! [`daemon::audit`] stores the lines; their form is that of the NameNode's log.
//!
//! ```text
//! 2026-01-05 10:30:00,123 INFO JobTracker.audit: allowed=false⇥ugi=eve (auth:SIMPLE)⇥ip=/127.0.0.1⇥cmd=killJob⇥job=job_202601051030_0001⇥arg=null⇥proto=rpc
//! ```

use std::fmt;
use std::io;

use daemon::audit::{self, Keeping, put};
use protocol::jobs::{Answer, Argument, Call, Logged, Reply};
use protocol::{ErrorKind, JobId, RemoteError};

use crate::config::Config;

/// The prefix of each line.
const LOGGER: &str = "JobTracker.audit";
/// A view of a job, whatever part of it was requested.
const VIEW: &str = "viewJob";

/// The writer.
pub(crate) type Writer = audit::Writer<Line>;

/// Where a call came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    /// Address of the client; empty if it is not known.
    pub(crate) address: String,
    /// The protocol.
    pub(crate) protocol: &'static str,
}

/// A line to write: all but the time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    allowed: bool,
    record: Record,
    job: Option<JobId>,
}

impl fmt::Display for Line {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { allowed, record: Record { user, origin, entry }, job } = self;
        let mut text = format!("allowed={allowed}\tugi=");
        put(&mut text, user);
        text.push_str(" (auth:SIMPLE)\tip=/");
        put(&mut text, &origin.address);
        let job = job.map_or_else(|| "null".to_owned(), |job| job.to_string());
        let argument = entry.argument.as_deref().unwrap_or("null");
        text.push_str(&format!("\tcmd={}\tjob={job}\targ=", entry.command));
        put(&mut text, argument);
        write!(out, "{text}\tproto={}", origin.protocol)
    }
}

/// The subject of a call, kept while the call is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    user: String,
    origin: Origin,
    entry: Entry,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    command: &'static str,
    job: Option<JobId>,
    /// The name of a new job, the priority, the attempt.
    argument: Option<String>,
    /// True if it is logged only when refused.
    is_view: bool,
}

impl Entry {
    fn view(job: JobId) -> Self {
        Entry { command: VIEW, job: Some(job), argument: None, is_view: true }
    }

    /// `None` for reads that everybody may make.
    fn of(call: &Call) -> Option<Self> {
        let job = call.by().job();
        match call.logged() {
            Some(Logged { command, argument }) => {
                let argument = match argument {
                    Argument::Nothing => None,
                    Argument::Name(name) => Some(name.to_owned()),
                    Argument::Attempt(attempt) => Some(attempt.to_string()),
                };
                Some(Entry { command, job, argument, is_view: false })
            }
            None => job.map(Entry::view),
        }
    }
}

/// The log, if there is one. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Audit {
    queue: Option<audit::Audit<Line>>,
}

impl Audit {
    /// Opens the log and starts its writer, if the log is enabled.
    ///
    /// # Errors
    /// If the file cannot be opened or the thread cannot be started.
    pub(crate) fn start(config: &Config) -> io::Result<(Audit, Option<Writer>)> {
        if !config.audit {
            return Ok((Audit::default(), None));
        }
        let (queue, writer) = audit::Audit::start(Keeping {
            logger: LOGGER,
            directory: config.data.clone(),
            bytes_max: config.audit_bytes_max,
            files_max: config.audit_files_max,
        })?;
        Ok((Audit { queue: Some(queue) }, Some(writer)))
    }

    /// What to log of a call once it is answered.
    pub(crate) fn about(&self, user: &str, origin: &Origin, call: &Call) -> Option<Record> {
        self.queue.as_ref()?;
        let entry = Entry::of(call)?;
        Some(Record { user: user.to_owned(), origin: origin.clone(), entry })
    }

    /// Logs the outcome of a call.
    pub(crate) async fn note(&self, record: Option<Record>, answer: &Answer) {
        if let (Some(queue), Some(line)) =
            (&self.queue, record.and_then(|record| line(record, answer)))
        {
            queue.note(transport::rpc::now_ms(), line).await;
        }
    }

    /// Logs a refused view of a job; other failures are not logged.
    pub(crate) async fn view_refused(
        &self,
        (user, origin): (&str, &Origin),
        job: JobId,
        refusal: &RemoteError,
    ) {
        if refusal.kind == ErrorKind::PermissionDenied && self.queue.is_some() {
            let entry = Entry::view(job);
            let record = Record { user: user.to_owned(), origin: origin.clone(), entry };
            self.note(Some(record), &Err(refusal.clone())).await;
        }
    }
}

/// The line of an answered call; none for failures that have nothing to do with rights, as in HDFS's log.
fn line(record: Record, answer: &Answer) -> Option<Line> {
    let (allowed, job) = match answer {
        Ok(_) if record.entry.is_view => return None,
        Ok(Reply::Submitted(job)) => (true, Some(*job)),
        Ok(_) => (true, record.entry.job),
        Err(error) if error.kind == ErrorKind::PermissionDenied => (false, record.entry.job),
        Err(_) => return None,
    };
    Some(Line { allowed, record, job })
}

#[cfg(test)]
mod tests {
    use protocol::jobs::Priority;

    use super::*;

    const JOB: JobId = JobId { cluster_start: 202_601_051_030, number: 1 };

    fn text(user: &str, call: &Call, answer: &Answer) -> Option<String> {
        let origin = Origin { address: "127.0.0.1".to_owned(), protocol: "rpc" };
        let entry = Entry::of(call)?;
        let line = line(Record { user: user.to_owned(), origin, entry }, answer)?;
        Some(line.to_string())
    }

    #[test]
    fn changes_are_logged_and_views_that_were_refused() {
        let refused: Answer = Err(RemoteError::new(ErrorKind::PermissionDenied, ""));
        let failed: Answer = Err(RemoteError::new(ErrorKind::UnknownJob, ""));
        let start = "\tugi=ann (auth:SIMPLE)\tip=/127.0.0.1\tcmd=";
        let end = "\tproto=rpc";
        for (call, answer, expected) in [
            (
                Call::Kill(JOB),
                Ok(Reply::Done),
                Some("trueXkillJob\tjob=job_202601051030_0001\targ=null"),
            ),
            (
                Call::SetPriority { job: JOB, priority: Priority::High },
                refused.clone(),
                Some("falseXsetJobPriority\tjob=job_202601051030_0001\targ=HIGH"),
            ),
            (Call::RefreshQueues, refused.clone(), Some("falseXrefreshQueues\tjob=null\targ=null")),
            (
                Call::Status(JOB),
                refused.clone(),
                Some("falseXviewJob\tjob=job_202601051030_0001\targ=null"),
            ),
            (Call::Status(JOB), Ok(Reply::Done), None),
            (Call::Kill(JOB), failed, None),
            (Call::List, Ok(Reply::Done), None),
        ] {
            let expected =
                expected.map(|text| format!("allowed={}{end}", text.replacen('X', start, 1)));
            assert_eq!(text("ann", &call, &answer), expected, "{call:?}");
        }
        let forged = text("eve\nallowed=true", &Call::Kill(JOB), &refused).unwrap();
        assert!(forged.starts_with("allowed=false\tugi=eve?allowed=true (auth"), "{forged}");
    }
}
