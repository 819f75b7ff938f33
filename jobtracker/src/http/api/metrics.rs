//! `/metrics` in the OpenMetrics text format, from one snapshot of the state. Labels are only states and kinds, never names of users or
//! jobs, so their number stays small. Every series exists before its first event, so that monitors see the first increase.

use std::time::Duration;

use daemon::metrics::{LogFigures, gauges};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};
use protocol::jobs::JobState;

use crate::server::query::{Figures, Overview};

/// All states of jobs.
const STATES: [JobState; 5] = [
    JobState::Running,
    JobState::Committing,
    JobState::Succeeded,
    JobState::Failed,
    JobState::Killed,
];

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct State {
    state: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct TaskKindState {
    kind: &'static str,
    state: &'static str,
}

/// The figures at `now_ms`, milliseconds since the epoch.
pub(super) fn registry(overview: &Overview, now_ms: u64) -> Registry {
    let mut registry = daemon::metrics::registry();
    let mr = registry.sub_registry_with_prefix("mr");
    jobs(mr, overview);
    waits(mr, overview, now_ms);
    workers(mr, overview);
    journal(mr, overview);
    registry
}

fn jobs(registry: &mut Registry, overview: &Overview) {
    let jobs = Family::<State, Gauge>::default();
    let tasks = Family::<TaskKindState, Gauge>::default();
    for state in STATES {
        jobs.get_or_create(&State { state: name(state) }).set(0);
    }
    let ended = Family::<State, Counter>::default();
    let ends = overview.ends;
    for (state, count) in
        [("succeeded", ends.succeeded), ("failed", ends.failed), ("killed", ends.killed)]
    {
        ended.get_or_create(&State { state }).inc_by(count);
    }
    let [mut maps, mut reduces] = [[0_i64; 3]; 2];
    for job in overview.jobs.figures() {
        jobs.get_or_create(&State { state: name(job.state) }).inc();
        for (sums, counts) in [(&mut maps, &job.maps), (&mut reduces, &job.reduces)] {
            // Nothing of a job that is over waits any more.
            let pending = if job.state.is_final() { 0 } else { counts.pending };
            for (sum, count) in sums.iter_mut().zip([pending, counts.running, counts.completed]) {
                *sum += i64::from(count);
            }
        }
    }
    for (kind, sums) in [("map", maps), ("reduce", reduces)] {
        for (state, sum) in ["pending", "running", "completed"].into_iter().zip(sums) {
            tasks.get_or_create(&TaskKindState { kind, state }).set(sum);
        }
    }
    registry.register("jobs", "Jobs known, by state", jobs);
    registry.register("jobs_ended", "Jobs that ended since the start, by state", ended);
    registry.register("tasks", "Tasks of jobs known, by kind and state", tasks);
}

/// Jobs that wait for the first slot, and the longest wait of one.
fn waits(registry: &mut Registry, overview: &Overview, now_ms: u64) {
    let waiting = || overview.jobs.figures().filter(is_waiting);
    gauges(
        registry,
        &[("jobs_waiting", "Jobs of which no task runs or is done", waiting().count() as u64)],
    );
    let longest = waiting().map(|job| now_ms.saturating_sub(job.submitted_ms)).max().unwrap_or(0);
    registry.register_with_unit(
        "job_wait_max",
        "Time since the submission of the job that waits longest",
        Unit::Seconds,
        ConstGauge::new(Duration::from_millis(longest).as_secs_f64()),
    );
}

fn is_waiting(job: &Figures) -> bool {
    let begun = [job.maps, job.reduces].iter().any(|tasks| tasks.running + tasks.completed > 0);
    job.state == JobState::Running && !begun
}

fn workers(registry: &mut Registry, overview: &Overview) {
    let (slots, workers) = (Family::<State, Gauge>::default(), Family::<State, Gauge>::default());
    let status = &overview.status;
    let free = status.slot_count.saturating_sub(status.busy_slot_count);
    slots.get_or_create(&State { state: "busy" }).set(i64::from(status.busy_slot_count));
    slots.get_or_create(&State { state: "free" }).set(i64::from(free));
    for (state, is_late) in [("live", false), ("late", true)] {
        let count =
            overview.workers.iter().filter(|worker| worker.report.suspect == is_late).count();
        workers.get_or_create(&State { state }).set(i64::try_from(count).unwrap_or(i64::MAX));
    }
    registry.register("slots", "Task slots of all workers", slots);
    registry.register("workers", "Workers, by liveness", workers);
    let failing = overview.workers.iter().filter(|worker| worker.lately.is_failing()).count();
    let blacklisted = overview.workers.iter().filter(|worker| worker.report.blacklisted).count();
    let draining = overview.workers.iter().filter(|worker| worker.report.excluded).count();
    gauges(
        registry,
        &[
            (
                "workers_failing",
                "Workers on which many attempts of the last hour failed",
                failing as u64,
            ),
            (
                "workers_blacklisted",
                "Workers that get no work for their faults",
                blacklisted as u64,
            ),
            ("workers_draining", "Workers that are being drained", draining as u64),
        ],
    );
}

fn journal(registry: &mut Registry, overview: &Overview) {
    let journal::Stats { commits, commit_time, image_failures, .. } = overview.journal;
    let left_out = overview.log_dirs_left_out.len() as u64;
    LogFigures { commits, commit_time, image_failures, left_out }.register(registry);
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
    use crate::core::jobs::Ends;
    use crate::core::views::WorkerRow;
    use crate::core::workers::Lately;
    use crate::server::query::tests::listed;
    use crate::web::tests::report;
    use protocol::jobs::{JobReport, TrackerStatus, WorkerReport};

    fn overview(jobs: Vec<JobReport>) -> Overview {
        let status = TrackerStatus {
            worker_count: 0,
            slot_count: 4,
            busy_slot_count: 2,
            running_job_count: 1,
            host_count: 0,
        };
        let bad = WorkerRow {
            report: WorkerReport { suspect: true, blacklisted: true, ..WorkerReport::default() },
            lately: Lately { ended: 9, failed: 9 },
        };
        Overview {
            change: 0,
            epoch: 1,
            started_ms: 0,
            status,
            jobs: listed(jobs),
            workers: vec![WorkerRow::default(), bad],
            log_dirs_left_out: Vec::new(),
            journal: journal::Stats {
                commits: 4,
                commit_time: Duration::from_millis(500),
                ..journal::Stats::default()
            },
            ends: Ends { succeeded: 3, failed: 2, killed: 0 },
            queues: Vec::new(),
        }
    }

    #[test]
    fn golden_text() {
        let mut job = report("<a>", 1000, 0);
        job.maps.running = 2;
        let text = daemon::metrics::text(&registry(&overview(vec![job]), 61_000));
        for line in [
            "# TYPE mr_jobs gauge",
            "mr_jobs{state=\"running\"} 1",
            "mr_jobs{state=\"failed\"} 0",
            "# TYPE mr_jobs_ended counter",
            "mr_jobs_ended_total{state=\"failed\"} 2",
            "mr_jobs_ended_total{state=\"killed\"} 0",
            "mr_jobs_waiting 0",
            "mr_job_wait_max_seconds 0.0",
            "mr_tasks{kind=\"map\",state=\"running\"} 2",
            "mr_tasks{kind=\"reduce\",state=\"pending\"} 0",
            "mr_slots{state=\"free\"} 2",
            "mr_workers{state=\"live\"} 1",
            "mr_workers{state=\"late\"} 1",
            "mr_workers_failing 1",
            "mr_workers_blacklisted 1",
            "mr_workers_draining 0",
            "mr_journal_commits_total 4",
            "mr_journal_commit_seconds_total 0.5",
            "mr_journal_directories_left_out 0",
        ] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("<a>"), "{text}");
    }

    #[test]
    fn the_longest_wait_is_of_a_job_without_a_task() {
        let (first, mut begun) = (report("a", 31_000, 0), report("b", 1000, 0));
        begun.maps.completed = 1;
        let jobs = vec![first, begun, report("c", 41_000, 0), report("d", 1000, 2000)];
        let text = daemon::metrics::text(&registry(&overview(jobs), 61_000));
        for line in ["mr_jobs_waiting 2", "mr_job_wait_max_seconds 30.0"] {
            assert!(text.lines().any(|other| other == line), "`{line}` is not in:\n{text}");
        }
    }
}
