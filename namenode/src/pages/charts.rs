//! The last hour on the overview: what blocks use, and how many calls were answered.

use daemon::last_hour::{LastHour, Rate, Series};
use daemon::page::format;
use protocol::namenode::calls;

use crate::service::Local;

/// The NameNode's own figures.
const OWN: [Series; 2] = [
    Series { title: "Used by blocks", show: format::bytes },
    Series { title: "Calls answered", show: per_second },
];

/// The figures of the last hour.
pub(super) type Hour = LastHour<{ OWN.len() }>;

/// Takes samples until the NameNode ends.
pub(super) fn begin(web: &Local) -> Hour {
    let hour = Hour::new("NameNode", OWN);
    let shutdown = web.service().shutdown.clone();
    let mut rate = Rate::begin(web.service().load.answered.get());
    let web = web.clone();
    let figures = move || {
        let calls = rate.permille_per_second(web.service().load.answered.get());
        let web = web.clone();
        async move { Some([web.query(calls::Room).await.ok()?.used, calls]) }
    };
    tokio::spawn(hour.clone().record(shutdown, figures));
    hour
}

fn per_second(permille: u64) -> String {
    match permille {
        0..100_000 => format!("{:.1}/s", permille as f64 / 1000.0),
        _ => format!("{}/s", format::count(permille / 1000)),
    }
}
