//! The cluster at a glance: what runs, how busy it is, what needs attention.

use daemon::page::format;
use maud::{Markup, html};
use protocol::jobs::{JobReport, JobState};

use super::{jobs, workers};
use crate::server::Overview;

/// Finished jobs shown.
const FINISHED_SHOWN: usize = 10;
/// Failures younger than this are news.
const NEWS_MS: u64 = 60 * 60 * 1000;

/// The page.
pub(crate) fn page(overview: &Overview, now_ms: u64) -> Markup {
    let status = &overview.status;
    let (running, finished): (Vec<&JobReport>, Vec<&JobReport>) =
        overview.jobs.iter().partition(|job| !job.state.is_final());
    let finished = &finished[..finished.len().min(FINISHED_SHOWN)];
    html! {
        h1 { "Overview" }
        div.tiles {
            div.tile { b { (running.len()) } span { "jobs running" } }
            div.tile { b { (status.busy_slot_count) " / " (status.slot_count) } span { "slots busy" } }
            div.tile { b { (status.worker_count) } span { "workers" } }
            div.tile { b { (waiting(&running)) } span { "tasks waiting" } }
        }
        @for alert in alerts(overview, now_ms) { div.alert { (alert) } }
        h2 { "Running" }
        @if running.is_empty() { p.soft { "Nothing runs." } } @else { (jobs::table(&running, now_ms)) }
        h2 { "Workers" }
        (workers::tiles(&overview.workers))
        h2 { "Finished lately" }
        @if finished.is_empty() { p.soft { "No job has finished yet." } } @else {
            (jobs::table(finished, now_ms))
            p { a href="/jobs" { "All jobs" } }
        }
    }
}

fn waiting(running: &[&JobReport]) -> String {
    let tasks =
        running.iter().map(|job| u64::from(job.maps.pending) + u64::from(job.reduces.pending));
    format::count(tasks.sum())
}

fn alerts(overview: &Overview, now_ms: u64) -> Vec<String> {
    let mut alerts = Vec::new();
    if overview.status.worker_count == 0 {
        alerts
            .push("No worker is registered: jobs wait. Start one with `hanno worker`.".to_owned());
    }
    let late: Vec<&str> = overview
        .workers
        .iter()
        .filter(|worker| worker.suspect)
        .map(|worker| worker.http_address.as_str())
        .collect();
    if !late.is_empty() {
        alerts.push(format!("Late workers get no new work: {}.", late.join(", ")));
    }
    let failed = overview.jobs.iter().filter(|job| {
        job.state == JobState::Failed && now_ms.saturating_sub(job.finished_ms) < NEWS_MS
    });
    match failed.count() {
        0 => {}
        1 => alerts.push("One job failed within the last hour.".to_owned()),
        count => alerts.push(format!("{count} jobs failed within the last hour.")),
    }
    alerts
}
