//! `/metrics` in the OpenMetrics text format, from one snapshot of the state. Labels are only states and kinds, never names of users or
//! jobs, so their number stays small.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use protocol::jobs::JobState;

use crate::server::query::Overview;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct TaskKindState {
    kind: &'static str,
    state: &'static str,
}

/// The figures.
pub(super) fn registry(overview: &Overview) -> Registry {
    let (jobs, tasks) =
        (Family::<State, Gauge>::default(), Family::<TaskKindState, Gauge>::default());
    let (slots, workers) = (Family::<State, Gauge>::default(), Family::<State, Gauge>::default());
    for job in overview.jobs.figures() {
        jobs.get_or_create(&State { state: name(job.state) }).inc();
        for (kind, counts) in [("map", &job.maps), ("reduce", &job.reduces)] {
            for (state, count) in [
                ("pending", counts.pending),
                ("running", counts.running),
                ("completed", counts.completed),
            ] {
                tasks.get_or_create(&TaskKindState { kind, state }).inc_by(i64::from(count));
            }
        }
    }
    let status = &overview.status;
    let free = status.slot_count.saturating_sub(status.busy_slot_count);
    slots.get_or_create(&State { state: "busy" }).set(i64::from(status.busy_slot_count));
    slots.get_or_create(&State { state: "free" }).set(i64::from(free));
    for worker in &overview.workers {
        let state = if worker.report.suspect { "late" } else { "live" };
        workers.get_or_create(&State { state }).inc();
    }
    let mut registry = daemon::metrics::registry();
    let mr = registry.sub_registry_with_prefix("mr");
    mr.register("jobs", "Jobs known, by state", jobs);
    mr.register("tasks", "Tasks of jobs known, by kind and state", tasks);
    mr.register("slots", "Task slots of all workers", slots);
    mr.register("workers", "Workers, by liveness", workers);
    let left_out: Gauge = Gauge::default();
    left_out.set(i64::try_from(overview.log_dirs_left_out.len()).unwrap_or(i64::MAX));
    mr.register(
        "journal_directories_left_out",
        "Directories of log_dirs that are left out",
        left_out,
    );
    registry
}

fn name(state: JobState) -> &'static str {
    match state {
        JobState::Running => "running",
        JobState::Committing => "committing",
        JobState::Succeeded => "succeeded",
        JobState::Failed => "failed",
        JobState::Killed => "killed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::query::tests::listed;
    use crate::web::tests::report;
    use protocol::jobs::TrackerStatus;

    #[test]
    fn golden_text() {
        let mut job = report("<a>", 1, 0);
        job.maps.running = 2;
        let status = TrackerStatus {
            worker_count: 0,
            slot_count: 4,
            busy_slot_count: 2,
            running_job_count: 1,
            host_count: 0,
        };
        let overview = Overview {
            change: 0,
            epoch: 1,
            started_ms: 0,
            status,
            jobs: listed(vec![job]),
            workers: Vec::new(),
            log_dirs_left_out: Vec::new(),
            queues: Vec::new(),
        };
        let text = daemon::metrics::text(&registry(&overview));
        for line in [
            "# TYPE mr_jobs gauge",
            "mr_jobs{state=\"running\"} 1",
            "mr_tasks{kind=\"map\",state=\"running\"} 2",
            "mr_slots{state=\"free\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("<a>"), "{text}");
    }
}
