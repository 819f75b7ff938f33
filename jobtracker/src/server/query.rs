//! Users' queries: one job, or the list of them.
//!
//! Invariant: a query about a job names it, so one check of the right to view it comes before every answer. The list has only outlines of
//! jobs that the viewer may not see.

use std::borrow::Cow;
use std::sync::Arc;

use daemon::groups::Membership;
use protocol::jobs::{
    Counters, JobReport, JobState, QueueReport, TaskCounts, TrackerStatus, WorkerReport,
};
use protocol::{AttemptId, JobId, RemoteError, TaskId};
use tokio::sync::{oneshot, watch};

use crate::core::rights::{Administrators, Caller, Whose};
use crate::core::views::{AttemptPicture, Picture};

/// The user who asks, with known groups.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    user: String,
    known: Membership,
}

impl Viewer {
    /// A user whom [`daemon::access`] identified or for whom a call is signed.
    pub(crate) fn new(user: String, known: Membership) -> Self {
        Viewer { user, known }
    }

    /// The name.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(super) fn caller(&self) -> Caller<'_> {
        let Membership { groups, is_superuser } = &self.known;
        Caller { user: &self.user, groups, is_superuser: *is_superuser }
    }
}

/// The channel of an answer.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, RemoteError>>;

/// A query about one job.
pub(crate) enum JobQuery {
    /// Its news from now on.
    Watch(JobId, Reply<watch::Receiver<Arc<JobReport>>>),
    /// Its page; `None` if it is over and the viewer (`true`) has kept its picture.
    Picture(JobId, bool, Reply<Option<Box<Picture>>>),
    /// Other jobs of its name, at most this many.
    OtherRuns(JobId, usize, Reply<Vec<JobReport>>),
    /// The page of an attempt.
    Attempt(AttemptId, Reply<AttemptPicture>),
    /// Counters of its maps and of its reduces.
    Counters(JobId, Reply<[Counters; 2]>),
    /// Counters of a task.
    TaskCounters(TaskId, Reply<Counters>),
    /// Only the right to view a job that is known only from its history.
    Permission(JobId, Whose, Reply<()>),
}

impl JobQuery {
    /// The job.
    pub(crate) fn job(&self) -> JobId {
        match self {
            JobQuery::Watch(job, _)
            | JobQuery::Picture(job, ..)
            | JobQuery::OtherRuns(job, ..)
            | JobQuery::Counters(job, _)
            | JobQuery::Permission(job, ..) => *job,
            JobQuery::Attempt(attempt, _) => attempt.task.job,
            JobQuery::TaskCounters(task, _) => task.job,
        }
    }
}

/// The data of the start page and `/healthz`.
pub(crate) struct Overview {
    /// The number of the last change that watchers had seen when this was made.
    pub(crate) change: u64,
    pub(crate) epoch: u64,
    /// When this process began, milliseconds since the epoch.
    pub(crate) started_ms: u64,
    pub(crate) status: TrackerStatus,
    pub(crate) workers: Vec<WorkerReport>,
    pub(crate) queues: Vec<QueueReport>,
    /// Directories of `log_dirs` that are left out, each with the reason.
    pub(crate) log_dirs_left_out: Vec<String>,
    pub(crate) jobs: ListedJobs,
}

/// All jobs, newest first, with the users who may see them.
#[derive(Default)]
pub(crate) struct ListedJobs {
    administrators: Administrators,
    listed: Vec<(JobReport, Whose)>,
}

/// The figures of a job for users who may not know which job it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) state: JobState,
    pub(crate) finished_ms: u64,
    pub(crate) maps: TaskCounts,
    pub(crate) reduces: TaskCounts,
}

impl ListedJobs {
    /// Jobs, and who may view each besides these administrators.
    pub(crate) fn new((administrators, listed): (Administrators, Vec<(JobReport, Whose)>)) -> Self {
        ListedJobs { administrators, listed }
    }

    /// As `viewer` is allowed to see them.
    pub(crate) fn seen_by(&self, viewer: &Viewer) -> Vec<Cow<'_, JobReport>> {
        let caller = viewer.caller();
        let jobs = self.listed.iter().map(|(report, whose)| {
            match self.administrators.allow(&caller, whose) {
                true => Cow::Borrowed(report),
                false => Cow::Owned(report.clone().outline()),
            }
        });
        jobs.collect()
    }

    /// Their numbers, for everybody.
    pub(crate) fn figures(&self) -> impl Iterator<Item = Figures> + '_ {
        self.listed.iter().map(|(report, _)| Figures {
            state: report.state,
            finished_ms: report.finished_ms,
            maps: report.maps,
            reduces: report.reduces,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::core::rights::Operation;

    /// These jobs, of owners who give nobody else access.
    pub(crate) fn listed(reports: Vec<JobReport>) -> ListedJobs {
        let whose = |report: &JobReport| {
            Whose::new((&report.user, &report.queue), &BTreeMap::new(), Operation::View)
        };
        let listed = reports.into_iter().map(|report| {
            let whose = whose(&report);
            (report, whose)
        });
        ListedJobs::new((Administrators::default(), listed.collect()))
    }

    fn viewer(user: &str, is_superuser: bool) -> Viewer {
        Viewer::new(user.to_owned(), Membership { groups: [].into(), is_superuser })
    }

    #[test]
    fn of_the_jobs_of_others_a_user_sees_outlines() {
        let (mut anns, mut bobs) =
            (crate::web::tests::report("ann", 1, 2), crate::web::tests::report("bob", 1, 0));
        for report in [&mut anns, &mut bobs] {
            report.counters.add("g", "n", 1);
            report.diagnostics = "secret".to_owned();
        }
        let jobs = listed(vec![anns.clone(), bobs.clone()]);
        let outline = JobReport {
            name: String::new(),
            counters: Counters::default(),
            diagnostics: String::new(),
            output: protocol::DfsPath::root(),
            is_outline: true,
            ..bobs.clone()
        };
        let seen = |viewer: &Viewer| -> Vec<JobReport> {
            jobs.seen_by(viewer).into_iter().map(Cow::into_owned).collect()
        };
        assert_eq!(seen(&viewer("ann", false)), [anns.clone(), outline]);
        assert_eq!(seen(&viewer("root", true)), [anns, bobs]);
        assert!(seen(&viewer("eve", false)).iter().all(|report| report.is_outline));
        assert_eq!(jobs.figures().count(), 2);
    }
}
