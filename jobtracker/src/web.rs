//! The pages: all jobs, and one job with its tasks and attempts. Read-only; every text is escaped by maud.

use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};
use protocol::jobs::{JobReport, JobState, TaskCounts, TaskReport};

use crate::server::Overview;

/// Where the style sheet is served.
pub(crate) const STYLE_PATH: &str = "/style.css";
/// The style sheet.
pub(crate) const STYLE: &str = include_str!("style.css");
/// Tasks drawn on the page of a job; the rest is counted. Keeps the page quick for jobs of any size.
const TASKS_SHOWN_MAX: usize = 2_000;

/// All jobs and workers.
pub(crate) fn jobs(overview: &Overview) -> Markup {
    let status = &overview.status;
    let content = html! {
        p {
            (status.worker_count) " workers, " (status.busy_slot_count) " of " (status.slot_count)
            " slots busy, " (status.running_job_count) " jobs running"
        }
        h2 { "Jobs" }
        table {
            tr {
                th { "Job" } th { "Name" } th { "User" } th { "State" } th { "Maps" } th { "Reduces" }
                th { "Submitted" } th { "Finished" }
            }
            @for job in &overview.jobs {
                tr {
                    td { a href={ "/jobs/" (job.id) } { (job.id) } }
                    td { (job.name) } td { (job.user) } td { (state(job)) }
                    td { (progress(job.map_progress, &job.maps)) }
                    td { (progress(job.reduce_progress, &job.reduces)) }
                    td { (time(job.submitted_ms)) } td { (time(job.finished_ms)) }
                }
            }
        }
        h2 { "Workers" }
        table {
            tr { th { "Host" } th { "Address" } th { "Slots" } th { "Busy" } th { "Health" } }
            @for (host, address, slots, busy, suspect) in &overview.workers {
                tr {
                    td { (host) } td { (address) } td { (slots) } td { (busy) }
                    td { @if *suspect { "late" } @else { "good" } }
                }
            }
        }
    };
    frame("JobTracker", &content)
}

/// One job.
pub(crate) fn job(job: &JobReport, tasks: &[TaskReport]) -> Markup {
    let content = html! {
        p { a href="/" { "All jobs" } }
        table {
            tr { th { "Name" } td { (job.name) } }
            tr { th { "User" } td { (job.user) } }
            tr { th { "State" } td { (state(job)) } }
            tr { th { "Output" } td { (job.output) } }
            tr { th { "Submitted" } td { (time(job.submitted_ms)) } }
            tr { th { "Finished" } td { (time(job.finished_ms)) } }
            @if !job.diagnostics.is_empty() { tr { th { "Diagnostics" } td { (job.diagnostics) } } }
        }
        h2 { "Tasks" }
        table {
            tr {
                th { "Kind" } th { "Progress" } th { "Tasks" } th { "Pending" } th { "Running" } th { "Complete" }
                th { "Failed/killed attempts" }
            }
            @for (kind, share, counts) in
                [("map", job.map_progress, &job.maps), ("reduce", job.reduce_progress, &job.reduces)]
            {
                tr {
                    td { (kind) } td { (percent(share)) } td { (counts.total) } td { (counts.pending) }
                    td { (counts.running) } td { (counts.completed) }
                    td { (counts.failed_attempts) " / " (counts.killed_attempts) }
                }
            }
        }
        (attempts(tasks))
        h2 { "Counters" }
        table {
            @for (group, names) in &job.counters.0 {
                tr { th colspan="2" { (group) } }
                @for (name, value) in names { tr { td { (name) } td { (value) } } }
            }
        }
    };
    frame(&job.id, &content)
}

fn attempts(tasks: &[TaskReport]) -> Markup {
    let hidden = tasks.len().saturating_sub(TASKS_SHOWN_MAX);
    html! {
        table {
            tr {
                th { "Attempt" } th { "State" } th { "Machine" } th { "Start" } th { "Finish" } th { "Errors" } th { "Logs" }
            }
            @for attempt in tasks.iter().take(TASKS_SHOWN_MAX).flat_map(|task| &task.attempts) {
                tr {
                    td { (attempt.id) } td { (attempt.state) } td { (attempt.host) }
                    td { (time(attempt.started_ms)) } td { (time(attempt.finished_ms)) }
                    td { (attempt.diagnostics) } td { a href=(attempt.log_url) { "logs" } }
                }
            }
        }
        @if hidden > 0 { p { (hidden) " more tasks are not shown." } }
    }
}

fn frame(title: &str, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (title) " - Hanno" }
                link rel="stylesheet" href=(STYLE_PATH);
            }
            body { h1 { (title) } (content) }
        }
    }
}

fn state(job: &JobReport) -> &'static str {
    match job.state {
        JobState::Running => "RUNNING",
        JobState::Committing => "COMMITTING",
        JobState::Succeeded => "SUCCEEDED",
        JobState::Failed => "FAILED",
        JobState::Killed => "KILLED",
    }
}

fn progress(share: f32, counts: &TaskCounts) -> Markup {
    html! { (percent(share)) " (" (counts.completed) "/" (counts.total) ")" }
}

fn percent(share: f32) -> String {
    format!("{:.0}%", f64::from(share) * 100.0)
}

fn time(ms: u64) -> String {
    if ms == 0 {
        return String::new();
    }
    let stamp = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    stamp.map(|stamp| stamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::DfsPath;
    use protocol::jobs::Counters;

    #[test]
    fn hostile_names_are_escaped() {
        let hostile = "<script>alert(1)</script>";
        let report = JobReport {
            id: "job_202611201830_0001".to_owned(),
            name: hostile.to_owned(),
            user: hostile.to_owned(),
            state: JobState::Failed,
            maps: TaskCounts::default(),
            reduces: TaskCounts::default(),
            map_progress: 0.5,
            reduce_progress: 0.0,
            submitted_ms: 1_700_000_000_000,
            finished_ms: 0,
            counters: Counters::default(),
            diagnostics: hostile.to_owned(),
            output: DfsPath::parse("/out<b>").unwrap(),
        };
        let page = job(&report, &[]).into_string();
        assert!(!page.contains("<script>") && !page.contains("<b>"), "{page}");
        assert!(page.contains("2023-11-14 22:13:20 UTC") && page.contains("50%"), "{page}");
    }
}
