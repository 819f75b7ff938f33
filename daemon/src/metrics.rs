//! `/metrics` in the OpenMetrics text format: every daemon's figures of its process, and the answer made from a registry.
//!
//! Each request builds a registry from the current state. Labels are kinds and states, never names of users, paths or jobs, which keeps their number small.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::descriptors;

/// Media type of the text.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Classes of answers, by the first digit of their status.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Answers of this process to requests over HTTP, by class; like its processor time they belong to the process.
static ANSWERS: [AtomicU64; CLASSES.len()] = [const { AtomicU64::new(0) }; CLASSES.len()];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Class {
    class: &'static str,
}

/// Counts an answer of this process.
pub(crate) fn note_answer(status: StatusCode) {
    if let Some(count) = ANSWERS.get(usize::from(status.as_u16() / 100).wrapping_sub(1)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn answers() -> Family<Class, Counter> {
    let answers = Family::<Class, Counter>::default();
    for (class, count) in CLASSES.into_iter().zip(&ANSWERS) {
        answers.get_or_create(&Class { class }).inc_by(count.load(Ordering::Relaxed));
    }
    answers
}

/// A registry with the figures of this process, under their customary names; figures that the system does not provide are left out.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.register(
        "http_responses",
        "Answers over HTTP, by the class of their status",
        answers(),
    );
    let Ok(usage) = sys::process::own_usage() else { return registry };
    let gauge = |value: u64| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    registry.register_with_unit(
        "process_resident_memory",
        "Resident memory",
        Unit::Bytes,
        gauge(usage.resident_bytes),
    );
    registry.register_with_unit(
        "process_cpu",
        "Time on processors, user and system",
        Unit::Seconds,
        ConstCounter::new(usage.cpu_time.as_secs_f64()),
    );
    registry.register("process_open_fds", "Open descriptors", gauge(usage.open_files));
    let descriptors_max = u64::try_from(descriptors::max()).unwrap_or(u64::MAX);
    registry.register("process_max_fds", "Most open descriptors", gauge(descriptors_max));
    registry.register("process_threads", "Threads", gauge(usage.threads));
    registry
}

/// Registers gauges `(name, help, value)`; one larger than the format holds is clamped to the largest.
pub fn gauges(registry: &mut Registry, figures: &[(&str, &str, u64)]) {
    for (name, help, value) in figures {
        let value = i64::try_from(*value).unwrap_or(i64::MAX);
        registry.register(*name, *help, ConstGauge::new(value));
    }
}

/// Registers counters `(name, help, value)`.
pub fn counters(registry: &mut Registry, figures: &[(&str, &str, u64)]) {
    for (name, help, value) in figures {
        registry.register(*name, *help, ConstCounter::new(*value));
    }
}

/// What a daemon that keeps a log tells of it.
#[derive(Clone, Copy, Debug)]
pub struct LogFigures {
    /// Syncs.
    pub commits: u64,
    /// Time spent in writing and syncing.
    pub commit_time: Duration,
    /// Images that could not be written.
    pub image_failures: u64,
    /// Directories of `log_dirs` that are left out.
    pub left_out: u64,
}

impl LogFigures {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        counters(
            registry,
            &[
                ("journal_commits", "Syncs of the log; each makes a group durable", self.commits),
                ("journal_image_failures", "Images that could not be written", self.image_failures),
            ],
        );
        registry.register_with_unit(
            "journal_commit",
            "Time spent in writing and syncing the log",
            Unit::Seconds,
            ConstCounter::new(self.commit_time.as_secs_f64()),
        );
        let help = "Directories of log_dirs that are left out";
        gauges(registry, &[("journal_directories_left_out", help, self.left_out)]);
    }
}

/// The answer to `GET /metrics`.
pub fn answer(registry: &Registry) -> Response {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(registry)).into_response()
}

/// A registry as text.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing into memory cannot fail");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_class() {
        let count = |class: &str| -> u64 {
            let begin = format!("http_responses_total{{class=\"{class}\"}} ");
            let text = text(&registry());
            let line = text.lines().find_map(|line| line.strip_prefix(&begin)).map(str::to_owned);
            line.unwrap_or_else(|| panic!("no {class} in {text}")).parse().unwrap()
        };
        // Other tests of this process answer requests, too.
        let before = CLASSES.map(count);
        for status in [200, 404, 500, 503] {
            note_answer(StatusCode::from_u16(status).unwrap());
        }
        note_answer(StatusCode::from_u16(999).unwrap());
        for (class, (before, least)) in
            CLASSES.into_iter().zip(before.into_iter().zip([0, 1, 0, 1, 2]))
        {
            assert!(count(class) >= before + least, "{class}");
        }
    }

    #[test]
    fn the_process_is_in_every_registry() {
        let mut registry = registry();
        let daemon = registry.sub_registry_with_prefix("daemon");
        gauges(daemon, &[("things", "Things", u64::MAX)]);
        counters(daemon, &[("deeds", "Deeds", 3)]);
        let text = text(&registry);
        for name in [
            "process_resident_memory_bytes ",
            "process_cpu_seconds_total ",
            "process_open_fds ",
            "process_max_fds ",
            "process_threads ",
            "daemon_things 9223372036854775807",
            "daemon_deeds_total 3",
            "# EOF",
        ] {
            assert!(text.lines().any(|line| line.starts_with(name)), "`{name}` is not in:\n{text}");
        }
    }
}
