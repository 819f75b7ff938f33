//! The last hour on the overview: what blocks use, how many calls were answered, and what the NameNode itself uses.

use daemon::last_hour::{LastHour, Meter, Rate, Sample, Ticks};
use daemon::page::chart::Chart;
use daemon::page::format;
use maud::{Markup, html};
use protocol::namenode::calls;
use transport::rpc::now_ms;

use crate::service::Local;

/// Figures of a sample.
const SERIES: usize = 4;
/// Where each of them is.
const USED: usize = 0;
const CALLS: usize = 1;
const CPU: usize = 2;
const MEMORY: usize = 3;

/// The figures of the last hour.
pub(super) type Hour = LastHour<SERIES>;

/// Takes samples until the NameNode ends.
pub(super) async fn record(web: Local, hour: Hour) {
    let answered = || web.service().load.answered.get();
    let mut meter = match Meter::begin() {
        Ok(meter) => meter,
        Err(error) => {
            tracing::warn!(error = %error, "the overview has no charts: /proc cannot be read");
            return;
        }
    };
    let mut rate = Rate::begin(answered());
    let mut ticks = Ticks::new(web.service().shutdown.clone());
    while ticks.next().await {
        let (Ok(used), Ok(room)) = (meter.read(), web.query(calls::Room).await) else { continue };
        let mut values = [0; SERIES];
        values[USED] = room.used;
        values[CALLS] = rate.permille_per_second(answered());
        values[CPU] = used.cpu_permille;
        values[MEMORY] = used.resident_bytes;
        hour.keep(Sample { at_ms: now_ms(), values });
    }
}

/// The charts.
pub(super) fn draw(samples: &[Sample<SERIES>], now_ms: u64) -> Markup {
    let chart = |title: &str, series: usize, show: fn(u64) -> String| {
        let points: Vec<(u64, u64)> =
            samples.iter().map(|sample| (sample.at_ms, sample.values[series])).collect();
        Chart { title, points: &points, show }.draw(now_ms)
    };
    html! {
        h2 { "The last hour" }
        div.charts {
            (chart("Used by blocks", USED, format::bytes))
            (chart("Calls answered", CALLS, per_second))
            (chart("Processor of the NameNode", CPU, format::cores))
            (chart("Memory of the NameNode", MEMORY, format::bytes))
        }
    }
}

fn per_second(permille: u64) -> String {
    match permille {
        0..100_000 => format!("{:.1}/s", permille as f64 / 1000.0),
        _ => format!("{}/s", format::count(permille / 1000)),
    }
}
