//! The figures of `/metrics`, all with the prefix `worker_`. Labels are kinds, states and limits, never names of jobs or users, so their
//! number stays small.

use daemon::metrics::{counters, gauges};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use protocol::TaskKind;

use crate::core::Attempts;
use crate::walls::Seen;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct KindState {
    kind: &'static str,
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Limit {
    limit: &'static str,
}

/// All figures as a registry. Every series exists before its first event, so that monitors see the first increase.
pub(crate) fn registry(
    slots: u32,
    attempts: &Attempts,
    seen: &Seen,
    shuffle_bytes: u64,
) -> Registry {
    let running = Family::<Kind, Gauge>::default();
    let (ended, exceeded) =
        (Family::<KindState, Counter>::default(), Family::<Limit, Counter>::default());
    for (kind, label) in [(TaskKind::Map, "map"), (TaskKind::Reduce, "reduce")] {
        let count = attempts.running.get(&kind).copied().unwrap_or(0);
        let gauge = running.get_or_create(&Kind { kind: label });
        gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        for state in ["succeeded", "failed", "killed"] {
            let count = attempts.ended.of(kind, state);
            ended.get_or_create(&KindState { kind: label, state }).inc_by(count);
        }
    }
    for (limit, count) in [
        ("memory", seen.too_much_memory),
        ("processes", seen.too_many_processes),
        ("disk", seen.too_much_disk),
        ("hidden", seen.hidden),
    ] {
        exceeded.get_or_create(&Limit { limit }).inc_by(count);
    }
    let mut registry = daemon::metrics::registry();
    let worker = registry.sub_registry_with_prefix("worker");
    gauges(
        worker,
        &[
            ("slots", "Tasks run at once", slots.into()),
            ("task_memory_bytes", "Memory of tasks, at the last look", seen.memory_bytes),
            (
                "task_disk_bytes",
                "Bytes on the local disk that tasks and map outputs use, at the last look",
                attempts.disk_bytes,
            ),
        ],
    );
    counters(
        worker,
        &[("shuffle_served_bytes", "Bytes of map outputs sent to reduces", shuffle_bytes)],
    );
    worker.register("attempts_running", "Attempts that run, by kind", running);
    worker.register("attempts_ended", "Attempts that ended, by kind and state", ended);
    worker.register("limits_exceeded", "Tasks ended for using too much, by limit", exceeded);
    registry
}

#[cfg(test)]
mod tests {
    use protocol::tracker::AttemptState;

    use super::*;

    #[test]
    fn golden_text() {
        let mut attempts = Attempts { disk_bytes: 4096, ..Attempts::default() };
        attempts.running.insert(TaskKind::Map, 2);
        attempts.ended.count(TaskKind::Reduce, &AttemptState::Killed);
        let done = AttemptState::MapDone { data_path: String::new(), partition_bytes: Vec::new() };
        attempts.ended.count(TaskKind::Map, &done);
        attempts.ended.count(TaskKind::Map, &AttemptState::Running);
        let seen = Seen { memory_bytes: 77, too_much_memory: 3, ..Seen::default() };
        let text = daemon::metrics::text(&registry(4, &attempts, &seen, 5));
        for line in [
            "worker_slots 4",
            "worker_attempts_running{kind=\"map\"} 2",
            "worker_attempts_running{kind=\"reduce\"} 0",
            "# TYPE worker_attempts_ended counter",
            "worker_attempts_ended_total{kind=\"map\",state=\"succeeded\"} 1",
            "worker_attempts_ended_total{kind=\"map\",state=\"failed\"} 1",
            "worker_attempts_ended_total{kind=\"reduce\",state=\"killed\"} 1",
            "worker_attempts_ended_total{kind=\"reduce\",state=\"failed\"} 0",
            "worker_task_memory_bytes 77",
            "worker_task_disk_bytes 4096",
            "worker_shuffle_served_bytes_total 5",
            "worker_limits_exceeded_total{limit=\"memory\"} 3",
            "worker_limits_exceeded_total{limit=\"processes\"} 0",
            "worker_limits_exceeded_total{limit=\"disk\"} 0",
        ] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
    }
}
