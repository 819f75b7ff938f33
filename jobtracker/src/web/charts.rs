//! The last hour on the overview: tasks and jobs that ran.

use daemon::last_hour::{LastHour, Series};
use daemon::page::format;
use daemon::shutdown::Shutdown;

use crate::server::query::JobHost;

/// The JobTracker's own figures.
const OWN: [Series; 2] = [
    Series { title: "Tasks running", show: format::count },
    Series { title: "Jobs running", show: format::count },
];

/// The figures of the last hour.
pub(crate) type Hour = LastHour<{ OWN.len() }>;

/// Without a sample.
pub(crate) fn empty() -> Hour {
    Hour::new("JobTracker", OWN)
}

/// Takes samples until the JobTracker ends.
pub(crate) fn begin(host: JobHost, shutdown: Shutdown) -> Hour {
    let hour = empty();
    let figures = move || {
        let host = host.clone();
        async move {
            let status = host.view(|core, _| core.status()).await.ok()?;
            Some([u64::from(status.busy_slot_count), u64::from(status.running_job_count)])
        }
    };
    tokio::spawn(hour.clone().record(shutdown, figures));
    hour
}
