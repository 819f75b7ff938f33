//! Who follows jobs, and which reports are sent to them.
//!
//! Invariant: a report leaves as [`News`] or with a new receiver, and the machine releases both once what they say is committed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use protocol::jobs::JobReport;
use protocol::{JobId, RemoteError};
use tokio::sync::watch;

use crate::core::{Core, Now};

/// Least time between two reports on a running job: ten a second are plenty for the eye.
const NEWS_PAUSE: Duration = Duration::from_millis(100);

/// Receives the reports on a job.
pub(crate) type Reports = watch::Receiver<Arc<JobReport>>;
/// The answer to who wants them.
pub(crate) type Watching = Result<Reports, RemoteError>;

/// A report for all who follow a job.
pub(crate) struct News {
    sender: watch::Sender<Arc<JobReport>>,
    report: Arc<JobReport>,
}

impl News {
    pub(super) fn send(self) {
        self.sender.send_replace(self.report);
    }
}

struct Watched {
    sender: watch::Sender<Arc<JobReport>>,
    /// When the last report was made, on the host's clock.
    last: Duration,
    is_postponed: bool,
}

/// See the module.
#[derive(Default)]
pub(super) struct Watchers {
    jobs: HashMap<JobId, Watched>,
}

impl Watchers {
    /// Adds one, who begins with a report.
    pub(super) fn add(&mut self, core: &Core, job: JobId, now: Now) -> Watching {
        let watched = match self.jobs.entry(job) {
            Entry::Occupied(watched) => watched.into_mut(),
            Entry::Vacant(place) => place.insert(Watched {
                sender: watch::Sender::new(Arc::new(core.job_report(job)?)),
                last: now.at,
                is_postponed: false,
            }),
        };
        let mut reports = watched.sender.subscribe();
        reports.mark_changed();
        Ok(reports)
    }

    /// A report on a job that changed, if somebody follows it and the last one was long enough ago.
    pub(super) fn news(&mut self, core: &Core, job: JobId, now: Now) -> Option<News> {
        let watched = self.jobs.get_mut(&job)?;
        let is_early = now.at.saturating_sub(watched.last) < NEWS_PAUSE;
        watched.is_postponed = is_early && !core.is_over(job);
        if watched.is_postponed {
            return None;
        }
        watched.last = now.at;
        let report = Arc::new(core.job_report(job).ok()?);
        Some(News { sender: watched.sender.clone(), report })
    }

    /// Jobs with postponed news. Forgets those that nobody follows any more.
    pub(super) fn postponed(&mut self) -> impl Iterator<Item = JobId> {
        self.jobs.retain(|_, watched| watched.sender.receiver_count() > 0);
        self.jobs.iter().filter(|(_, watched)| watched.is_postponed).map(|(job, _)| *job)
    }
}
