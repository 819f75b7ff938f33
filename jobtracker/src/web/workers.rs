//! Workers: tiles by load, a table, and the page of one.

use daemon::page::{bar, format};
use maud::{Markup, html};
use protocol::address::web_url_of;
use protocol::jobs::WorkerReport;

use super::{attempts, jobs, phases};
use crate::core::views::{FailedAttempt, RunningAttempt, WorkerPicture, WorkerRow};

/// Slots drawn in a tile; more are only counted.
const SLOTS_DRAWN_MAX: u32 = 64;

/// One tile each.
pub(crate) fn tiles(workers: &[WorkerRow]) -> Markup {
    html! {
        div.tiles {
            @for WorkerRow { report: worker, lately } in workers {
                a.tile href=(address(worker)) {
                    strong { (worker.host) } " " span { (worker.http_address) }
                    div.slots aria-hidden="true" {
                        @for slot in 0..worker.slot_count.min(SLOTS_DRAWN_MAX) {
                            i.busy[slot < worker.running_count] {}
                        }
                    }
                    span { (worker.running_count) " of " (worker.slot_count) " slots" @if worker.suspect { ", late" } @if lately.is_failing() { ", failing" } }
                }
            }
        }
    }
}

/// The page.
pub(crate) fn page(workers: &[WorkerRow]) -> Markup {
    html! {
        h1 { "Workers" }
        @if workers.is_empty() { p.empty { "No worker is registered. Start one with " code { "hanno worker" } "." } }
        (tiles(workers))
        @if !workers.is_empty() { (table(workers)) }
    }
}

fn table(workers: &[WorkerRow]) -> Markup {
    html! {
        div.scroll { table.cards {
            caption.unseen { "Workers" }
            thead { tr {
                th scope="col" { "Host" } th scope="col" { "Address" } th scope="col" { "Rack" } th.number scope="col" { "Max slots" }
                th.number scope="col" { "Running tasks" }
                th.number scope="col" { "Total tasks" } th.number scope="col" { "Succeeded tasks" } th.number scope="col" { "Failures" }
                th scope="col" { "Health" }
                th.number scope="col" { "Last heard of" } th scope="col" { "Tasks are held in" }
            } }
            tbody { @for row in workers {
                @let worker = &row.report;
                tr {
                    td { (worker.host) } td { a href=(address(worker)) { (worker.http_address) } } td { (worker.rack) }
                    td.number { (worker.slot_count) } td.number { (worker.running_count) }
                    td.number { (format::count(worker.launched_count)) } td.number { (format::count(worker.succeeded_count)) }
                    td.number { (format::count(worker.failed_count)) } td { (health(row)) }
                    td.number { (format::duration(worker.silent_ms)) " ago" }
                    td.wide { details { summary { "these walls" } (worker.isolation) } }
                }
            } }
        } }
        p.soft { "Tasks are counted since the worker registered or the JobTracker started." }
    }
}

/// The page of one.
pub(crate) fn one(picture: &WorkerPicture, now_ms: u64) -> Markup {
    let worker = &picture.row.report;
    html! {
        p.crumbs { a href="/workers" { "workers" } }
        h1 { (worker.host) " " span.soft { (worker.http_address) } }
        div.scroll { table.facts {
            caption.unseen { "This worker" }
            tr { th scope="row" { "Health" } td.wide { (health(&picture.row)) ", last heard of " (format::duration(worker.silent_ms)) " ago" } }
            tr { th scope="row" { "Rack" } td { (worker.rack) } }
            tr { th scope="row" { "Slots" } td { (worker.running_count) " of " (worker.slot_count) " in use" } }
            tr {
                th scope="row" { "Tasks" }
                td {
                    (format::count(worker.launched_count)) " started, " (format::count(worker.succeeded_count)) " succeeded, "
                    (format::count(worker.failed_count)) " failed, since it registered or the JobTracker started"
                }
            }
            tr { th scope="row" { "Jobs that failed there only" } td { (worker.faults) } }
            tr { th scope="row" { "Map outputs held" } td { (format::count(picture.held_count as u64)) } }
            tr { th scope="row" { "Tasks are held in" } td.wide { (worker.isolation) } }
        } }
        h2 { "Runs now" }
        @if picture.running.is_empty() && picture.hidden_count == 0 { p.empty { "Nothing runs there." } }
        @if !picture.running.is_empty() { (running(&picture.running, now_ms)) }
        @if picture.hidden_count > 0 { p.soft { (picture.hidden_count) " tasks of jobs that are shown to their owners." } }
        h2 { "Failed there" }
        @if picture.failed.is_empty() { p.empty { "No attempt of a job that you may see failed there lately." } }
        @else { (failed(&picture.failed)) }
        p.soft { "Of the worker itself: " a href=(web_url_of(&worker.http_address)) { "charts of the last hour" } ", " a href={ (web_url_of(&worker.http_address)) "/metrics" } { "metrics" } }
    }
}

fn running(attempts: &[RunningAttempt], now_ms: u64) -> Markup {
    html! {
        div.scroll { table.cards {
            caption.unseen { "Attempts on this worker" }
            thead { tr {
                th scope="col" { "Attempt" } th scope="col" { "Job" } th scope="col" { "User" } th scope="col" { "State" }
                th scope="col" { "Start (UTC)" } th.number scope="col" { "Time" } th scope="col" { "Progress" }
            } }
            tbody { @for attempt in attempts {
                @let (id, row) = (attempt.id, &attempt.row);
                tr {
                    td { a href={ "/jobs/" (id.task.job) "/attempts/" (id) } { (id) } }
                    td.wide { a href={ "/jobs/" (id.task.job) } { (attempt.job_name) } } td { (attempt.user) }
                    td { (attempts::state(row.state)) } td { (format::time(row.started_ms)) }
                    td.number { (format::duration(row.elapsed_ms(now_ms))) }
                    td { (bar(row.progress)) (phases::beside_bar(row)) }
                }
            } }
        } }
    }
}

fn failed(attempts: &[FailedAttempt]) -> Markup {
    html! {
        div.scroll { table.cards {
            caption.unseen { "Attempts that failed on this worker" }
            thead { tr {
                th scope="col" { "Attempt" } th scope="col" { "Job" } th scope="col" { "User" } th scope="col" { "End (UTC)" }
                th scope="col" { "Reason" }
            } }
            tbody { @for attempt in attempts {
                @let id = attempt.id;
                tr {
                    td { a href={ "/jobs/" (id.task.job) "/attempts/" (id) } { (id) } }
                    td.wide { a href={ "/jobs/" (id.task.job) } { (attempt.job_name) } } td { (attempt.user) }
                    td { (format::time(attempt.finished_ms)) }
                    td.wide { (attempts::first_line(&attempt.diagnostics)) }
                }
            } }
        } }
    }
}

/// Whether it gets work, and whether what it gets succeeds.
fn health(WorkerRow { report: worker, lately }: &WorkerRow) -> Markup {
    html! {
        @if worker.drained { span.state.warn { "empty" } }
        @else if worker.excluded { span.state.warn { "being emptied" } }
        @else if worker.blacklisted { span.state.bad { "avoided by all jobs (" (worker.faults) " faults)" } }
        @else if worker.suspect { span.state.warn { "late" } }
        @else if lately.is_failing() {
            span.state.bad { "failing" } ": " (format::count(lately.failed)) " of " (format::count(lately.ended)) " in the last hour"
        }
        @else { span.state.good { "good" } }
    }
}

/// Path of a worker's page.
fn address(worker: &WorkerReport) -> String {
    format!("/workers/{}", jobs::encoded(&worker.http_address))
}

#[cfg(test)]
mod tests {
    use protocol::phase::Phase;
    use protocol::{AttemptId, JobId, TaskId, TaskKind};

    use super::*;
    use crate::core::jobs::AttemptState;
    use crate::core::views::AttemptRow;
    use crate::core::workers::Lately;

    #[test]
    fn a_worker_tells_what_it_does_and_names_stay_text() {
        let hostile = "\"><img src=x onerror=alert(1)>";
        let report = WorkerReport {
            host: hostile.to_owned(),
            http_address: "h:1\"><img".to_owned(),
            rack: hostile.to_owned(),
            slot_count: 2,
            running_count: 1,
            isolation: hostile.to_owned(),
            launched_count: 1_234,
            succeeded_count: 1_200,
            failed_count: 33,
            ..WorkerReport::default()
        };
        let job = JobId { cluster_start: 202_611_201_830, number: 1 };
        let task = TaskId { job, kind: TaskKind::Map, index: 7 };
        let row = AttemptRow {
            kind: TaskKind::Map,
            index: 7,
            number: 0,
            state: AttemptState::Running,
            worker: 0,
            started_ms: 1_000,
            finished_ms: 0,
            progress: 0.43,
            phase: Some(Phase::Map),
            gathered: None,
        };
        let id = AttemptId { task, number: 0 };
        let (job_name, user) = (hostile.to_owned(), hostile.to_owned());
        let running = vec![RunningAttempt { id, job_name, user, row }];
        let failure = FailedAttempt {
            id: AttemptId { task, number: 1 },
            job_name: hostile.to_owned(),
            user: hostile.to_owned(),
            finished_ms: 1_700_000_000_000,
            diagnostics: format!("{hostile}\nand more"),
        };
        let row = WorkerRow { report, lately: Lately { ended: 40, failed: 7 } };
        let list = page(std::slice::from_ref(&row)).into_string();
        assert!(list.contains("failing</span>: 7 of 40 in the last hour"), "{list}");
        let fine = WorkerRow { lately: Lately { ended: 400, failed: 7 }, ..row.clone() };
        let fine = page(&[fine]).into_string();
        assert!(fine.contains(">good<") && !fine.contains("failing"), "{fine}");
        assert!(list.contains("1\u{202f}200") && list.contains(">33<"), "{list}");
        assert!(list.contains("/workers/h%3A1%22%3E%3Cimg"), "{list}");
        let failed = vec![failure];
        let one = WorkerPicture { row, held_count: 5, running, hidden_count: 0, failed };
        let one = super::one(&one, 3_000).into_string();
        let failed = "attempt_202611201830_0001_m_000007_1";
        let running = "attempt_202611201830_0001_m_000007_0";
        for text in [running, failed, "2023-11-14 22:13:20", "map 43%", "2.0 s", ">5<"] {
            assert!(one.contains(text), "{text}: {one}");
        }
        for page in [list, one] {
            assert!(!page.contains("<img") && !page.contains("and more"), "{page}");
            assert!(page.contains("&lt;img"), "{page}");
        }
    }
}
