//! The cluster at a glance: what runs, how busy the cluster is, what needs attention.

use std::borrow::Cow;

use daemon::page::format;
use maud::{Markup, html};
use protocol::jobs::{JobReport, JobState};

use super::{jobs, workers};
use crate::server::query::Overview;

/// Finished jobs listed.
const FINISHED_SHOWN: usize = 10;
/// Failures younger than this are news.
const NEWS_MS: u64 = 60 * 60 * 1000;

/// The page: `seen` are the jobs as the signed-in user may see them.
pub(crate) fn page(
    overview: &Overview,
    (seen, warning): (Option<&[Cow<'_, JobReport>]>, Option<&str>),
    now_ms: u64,
) -> Markup {
    let status = &overview.status;
    html! {
        h1 { "Overview" }
        @if let Some(warning) = warning { div.alert.bad { (warning) } }
        @let alerts = alerts(overview, seen.is_some(), now_ms);
        @for alert in &alerts { div.alert { (alert) } }
        div.tiles {
            a.tile href="/jobs?state=running" { b { (status.running_job_count) } span { "jobs running" } }
            a.tile href="/workers" { b { (status.busy_slot_count) " / " (status.slot_count) } span { "slots busy" } }
            a.tile href="/workers" { b { (status.worker_count) } span { "workers" } }
            a.tile href="/queues" { b { (waiting(overview)) } span { "tasks waiting" } }
        }
        @if let Some(seen) = seen { (running(seen, now_ms)) }
        h2 { "Workers" }
        (workers::tiles(&overview.workers))
        @match seen {
            Some(seen) => (finished(seen, now_ms)),
            None => p.soft { "Jobs are shown to those who are signed in: " a href="/login" { "how to sign in" } "." },
        }
    }
}

fn running(seen: &[Cow<'_, JobReport>], now_ms: u64) -> Markup {
    let running: Vec<&JobReport> =
        seen.iter().map(|job| &**job).filter(|job| !job.state.is_final()).collect();
    html! {
        h2 { "Running" }
        @if running.is_empty() { p.empty { "Nothing runs." } } @else { (jobs::table(&running, false, now_ms)) }
    }
}

fn finished(seen: &[Cow<'_, JobReport>], now_ms: u64) -> Markup {
    let finished = seen.iter().map(|job| &**job).filter(|job| job.state.is_final());
    let finished: Vec<&JobReport> = finished.take(FINISHED_SHOWN).collect();
    html! {
        h2 { "Finished lately" }
        @if finished.is_empty() { p.empty { "No job has finished yet." } } @else {
            (jobs::table(&finished, false, now_ms))
            p { a href="/jobs" { "All jobs" } }
        }
    }
}

fn waiting(overview: &Overview) -> String {
    let running = overview.jobs.figures().filter(|job| !job.state.is_final());
    let tasks = running.map(|job| u64::from(job.maps.pending) + u64::from(job.reduces.pending));
    format::count(tasks.sum())
}

fn alerts(overview: &Overview, names_queues: bool, now_ms: u64) -> Vec<String> {
    let mut alerts = Vec::new();
    if overview.status.worker_count == 0 {
        alerts
            .push("No worker is registered: jobs wait. Start one with `hanno worker`.".to_owned());
    }
    for out in &overview.log_dirs_left_out {
        alerts.push(format!(
            "The journal has a copy less, a directory of log_dirs is left out: {out}."
        ));
    }
    let workers = || overview.workers.iter().map(|worker| &worker.report);
    let late: Vec<&str> = workers()
        .filter(|worker| worker.suspect)
        .map(|worker| worker.http_address.as_str())
        .collect();
    if !late.is_empty() {
        alerts.push(format!("Late workers get no new work: {}.", late.join(", ")));
    }
    for worker in workers().filter(|worker| worker.blacklisted) {
        alerts.push(format!(
            "{} gets no new work: {} jobs failed there and succeeded elsewhere.",
            worker.http_address, worker.faults
        ));
    }
    for worker in overview.workers.iter().filter(|worker| worker.lately.is_failing()) {
        alerts.push(format!(
            "{} of {} attempts failed on {} in the last hour.",
            worker.lately.failed, worker.lately.ended, worker.report.http_address
        ));
    }
    let starved = overview.queues.iter().filter(|queue| {
        queue.running && queue.slot_count == 0 && queue.demand > 0 && queue.share_permille >= 1000
    });
    for queue in starved.filter(|_| names_queues) {
        alerts.push(format!(
            "The queue {} wants {} slots and has none of its share yet.",
            queue.name, queue.demand
        ));
    }
    let failed = overview.jobs.figures().filter(|job| {
        job.state == JobState::Failed && now_ms.saturating_sub(job.finished_ms) < NEWS_MS
    });
    match failed.count() {
        0 => {}
        1 => alerts.push("One job failed within the last hour.".to_owned()),
        count => alerts.push(format!("{count} jobs failed within the last hour.")),
    }
    alerts
}
