//! The last hour on the overview: slots that were busy, jobs that ran, and what the JobTracker itself uses.

use daemon::last_hour::{LastHour, Meter, Sample, Ticks};
use daemon::page::chart::Chart;
use daemon::page::format;
use daemon::shutdown::Shutdown;
use maud::{Markup, html};
use transport::rpc::now_ms;

use crate::server::query::JobHost;

/// Figures of a sample.
const SERIES: usize = 4;
/// Where each of them is.
const BUSY: usize = 0;
const JOBS: usize = 1;
const CPU: usize = 2;
const MEMORY: usize = 3;

/// The figures of the last hour.
pub(crate) type Hour = LastHour<SERIES>;

/// Takes samples until the JobTracker ends.
pub(crate) fn begin(host: JobHost, shutdown: Shutdown) -> Hour {
    let hour = Hour::default();
    tokio::spawn(record(host, hour.clone(), shutdown));
    hour
}

async fn record(host: JobHost, hour: Hour, shutdown: Shutdown) {
    let mut meter = match Meter::begin() {
        Ok(meter) => meter,
        Err(error) => {
            tracing::warn!(error = %error, "the overview has no charts: /proc cannot be read");
            return;
        }
    };
    let mut ticks = Ticks::new(shutdown);
    while ticks.next().await {
        let status = host.view(|core, _| core.status()).await;
        let (Ok(used), Ok(status)) = (meter.read(), status) else { continue };
        let mut values = [0; SERIES];
        values[BUSY] = u64::from(status.busy_slot_count);
        values[JOBS] = u64::from(status.running_job_count);
        values[CPU] = used.cpu_permille;
        values[MEMORY] = used.resident_bytes;
        hour.keep(Sample { at_ms: now_ms(), values });
    }
}

/// The charts.
pub(crate) fn draw(samples: &[Sample<SERIES>], now_ms: u64) -> Markup {
    let chart = |title: &str, series: usize, show: fn(u64) -> String| {
        let points: Vec<(u64, u64)> =
            samples.iter().map(|sample| (sample.at_ms, sample.values[series])).collect();
        Chart { title, points: &points, show }.draw(now_ms)
    };
    html! {
        h2 { "The last hour" }
        div.charts {
            (chart("Tasks running", BUSY, format::count))
            (chart("Jobs running", JOBS, format::count))
            (chart("Processor of the JobTracker", CPU, format::cores))
            (chart("Memory of the JobTracker", MEMORY, format::bytes))
        }
    }
}
