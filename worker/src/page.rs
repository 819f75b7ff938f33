//! The worker's own page: what it is, and charts of the last hour.

use std::sync::atomic::Ordering;

use daemon::Shutdown;
use daemon::last_hour::{LastHour, Rate, Series};
use daemon::page::format;
use daemon::page::node::{self, NodePage};
use transport::rpc::now_ms;

use crate::config::Config;
use crate::http::Shared;

/// The worker's own figures.
const OWN: [Series; 4] = [
    Series { title: "Attempts running", show: format::count },
    Series { title: "Memory of tasks", show: format::bytes },
    Series { title: "Local disk of tasks and map outputs", show: format::bytes },
    Series { title: "Map outputs sent to reduces", show: format::byte_rate },
];

/// The page of the worker on `host`, which others reach at `address`. Its figures are taken until `shutdown`.
pub(crate) fn of(
    (config, shared): (&Config, &Shared),
    (host, address): (String, String),
    shutdown: Shutdown,
) -> NodePage<{ OWN.len() }> {
    let hour = LastHour::new("worker", OWN).with_machine();
    let mut served = Rate::begin(shared.served.load(Ordering::Relaxed));
    let of_figures = shared.clone();
    let figures = move || {
        let sent = served.per_second(of_figures.served.load(Ordering::Relaxed));
        let shared = of_figures.clone();
        async move {
            let attempts = shared.attempts().await?;
            let running = attempts.running.values().sum();
            Some([running, shared.watch.seen().memory_bytes, attempts.disk_bytes, sent])
        }
    };
    tokio::spawn(hour.clone().record(shutdown, figures));
    NodePage {
        name: "Hanno worker",
        host,
        master: (node::of_master(&config.jobtracker, "/workers"), "JobTracker"),
        facts: vec![
            node::version(),
            node::since(now_ms()),
            ("Address", address),
            ("Rack", config.rack.clone()),
            ("Slots", shared.slot_count.to_string()),
            ("Tasks are confined by", shared.isolation.clone()),
        ],
        hour,
    }
}
