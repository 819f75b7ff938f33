//! Queries: the ways of handlers to the host, who asks, and the overview of all jobs.
//!
//! Invariants: a handler has no way to the state but [`JobHost::view`], so no answer leaves before what it says is committed. The list of
//! jobs has only outlines of those that the viewer may not see.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::groups::Membership;
use host::{End, Handle};
use parking_lot::Mutex;
use protocol::RemoteError;
use protocol::jobs::{JobReport, JobState, QueueReport, TaskCounts, TrackerStatus};
use tokio::sync::oneshot;

use super::{Event, JobTracker, stopping};
use crate::core::jobs::Ends;
use crate::core::rights::{Administrators, Caller, Whose};
use crate::core::views::WorkerRow;
use crate::core::{Core, Now};

/// How long a copy of the overview is used for the other pages notified of the same change.
const OVERVIEW_KEPT_MAX: Duration = Duration::from_secs(1);

/// The handlers' ways to the host. Its handle stays in here.
#[derive(Clone)]
pub(crate) struct JobHost {
    handle: Handle<JobTracker>,
}

impl JobHost {
    /// The ways to the host of this handle.
    pub(crate) fn new(handle: Handle<JobTracker>) -> Self {
        JobHost { handle }
    }

    /// Queries the state; the answer returns once what it says is committed.
    pub(crate) async fn view<T>(
        &self,
        query: impl FnOnce(&Core, Now) -> T,
    ) -> Result<T, RemoteError> {
        let now = self.handle.now();
        self.handle.view(|state, _| query(&state.core, now)).await.map_err(ended)
    }

    /// Sends the machine an event and waits for its answer.
    pub(crate) async fn ask<T>(
        &self,
        event: impl FnOnce(oneshot::Sender<T>) -> Event,
    ) -> Result<T, RemoteError> {
        self.handle.ask(event).await.map_err(ended)
    }
}

/// The answer once the host has ended.
fn ended(_: End) -> RemoteError {
    stopping()
}

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

    /// The user, as the core knows callers.
    pub(crate) fn caller(&self) -> Caller<'_> {
        let Membership { groups, is_superuser } = &self.known;
        Caller { user: &self.user, groups, is_superuser: *is_superuser }
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
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) queues: Vec<QueueReport>,
    /// Directories of `log_dirs` that are left out, each with the reason.
    pub(crate) log_dirs_left_out: Vec<String>,
    /// Figures of the journal since the start.
    pub(crate) journal: journal::Stats,
    /// Jobs that ended since the start.
    pub(crate) ends: Ends,
    pub(crate) jobs: ListedJobs,
}

/// The last copy of the overview, for the other pages notified of the same change. Clones share it.
///
/// Invariant: it is used within a view, which alone has a core. It is no newer than what that view sees, so it is committed with that.
#[derive(Clone, Default)]
pub(crate) struct LastOverview(Arc<Mutex<Option<CachedOverview>>>);

struct CachedOverview {
    made: Instant,
    overview: Arc<Overview>,
}

impl LastOverview {
    /// The copy, if it is as new as a change that watchers have seen; else `make` makes another.
    pub(crate) fn since(
        &self,
        change: u64,
        core: &Core,
        make: impl FnOnce(&Core) -> Overview,
    ) -> Arc<Overview> {
        let mut last = self.0.lock();
        let is_new = |cached: &CachedOverview| {
            cached.overview.change >= change && cached.made.elapsed() <= OVERVIEW_KEPT_MAX
        };
        if !last.as_ref().is_some_and(is_new) {
            *last = None;
        }
        let make = || CachedOverview { made: Instant::now(), overview: Arc::new(make(core)) };
        Arc::clone(&last.get_or_insert_with(make).overview)
    }
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
    pub(crate) submitted_ms: u64,
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
            submitted_ms: report.submitted_ms,
            finished_ms: report.finished_ms,
            maps: report.maps,
            reduces: report.reduces,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use protocol::jobs::Counters;

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
