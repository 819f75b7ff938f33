//! One job: its state, its course, why it is slow, why it failed.

use std::fmt::Write as _;

use daemon::page::{Action, action, bar, format};
use maud::{Markup, html};
use protocol::jobs::{Counters, JobReport, JobState, Priority, TaskCounts};

use super::jobs::encoded;
use super::{advice, phases, rounds, spread, state, timeline};
use crate::core::jobs::AttemptState;
use crate::core::views::Picture;

/// The page truncates arguments here: a program can get thousands of input files.
const ARGUMENTS_CHARS_MAX: usize = 2_000;

/// The page; `runs` are other runs of the same program.
pub(crate) fn page(picture: &Picture, runs: &[JobReport], may_act: bool, now_ms: u64) -> Markup {
    let report = &picture.report;
    html! {
        h1 { (report.name) }
        p.facts {
            (state(report.state)) span { (report.id) } span { (report.user) }
            span { "queue " a href={ "/jobs?queue=" (encoded(&report.queue)) } { (report.queue) } }
            span { (report.priority.name()) " priority" }
            span { "submitted " (format::time(report.submitted_ms)) " UTC" } span { (elapsed(picture, now_ms)) }
        }
        @if may_act && !report.state.is_final() { (tools(report)) }
        @if !report.diagnostics.is_empty() { div.alert.bad tabindex="0" { (report.diagnostics) } }
        (failure(picture))
        (counts(picture))
        @if let Some(progress) = &report.rounds { (rounds::section(progress)) }
        @let advice = advice::advice(picture);
        @if !advice.is_empty() {
            h2 { "Advice" }
            @for text in advice { div.alert.tip { (text) } }
        }
        @if !picture.attempts.is_empty() {
            h2 { "Timeline" }
            div.timeline tabindex="0" role="group" aria-label="Attempts over time" {
                (timeline::concurrency(picture, now_ms))
                (timeline::lanes(picture, now_ms))
            }
        }
        (phases::of_job(&report.counters))
        h2 { "Spread over tasks" }
        (spread::table(picture))
        (spread::partitions(picture))
        (spread::hot_keys(picture))
        (others(report, runs))
        details #counters { summary { "Counters" } (counters(&report.counters)) }
        details #configuration { summary { "Configuration" } (configuration(picture)) }
        p.soft {
            "To keep: " a href={ "/jobs/" (report.id) "/report.html" } { "this page as one file" } ", "
            a href={ "/jobs/" (report.id) "/trace.json" } { "the timeline for ui.perfetto.dev or chrome://tracing" } "."
        }
    }
}

fn tools(report: &JobReport) -> Markup {
    let url = format!("/api/v1/jobs/{}", report.id);
    let question =
        format!("Kill the job {} ({})? What it has made so far is lost.", report.name, report.id);
    let kill = Action { confirm: Some(&question), danger: true, ..Action::default() };
    html! {
        div.tools.scripted {
            (action("DELETE", &url, "Kill", &kill))
            label {
                "Priority "
                select name="priority" data-method="PATCH" data-url=(url) {
                    @for each in Priority::ALL { option value=(each.name()) selected[each == report.priority] { (each.name()) } }
                }
            }
        }
    }
}

/// From the message of a failed job to the attempt behind it.
fn failure(picture: &Picture) -> Markup {
    let failed = picture.attempts.iter().filter(|row| row.state == AttemptState::Failed);
    let last = failed
        .filter(|_| picture.report.state == JobState::Failed)
        .max_by_key(|row| row.finished_ms);
    html! {
        @if let Some(row) = last {
            @let id = picture.attempt_id(row);
            @let page = format!("/jobs/{}/attempts/{id}", picture.report.id);
            p {
                "The last attempt that failed: " a href=(page) { (id) } " on " (picture.workers[row.worker as usize].host) ", with its log. "
                code { "hanno job replay " (id) } " runs it again on your machine."
            }
        }
    }
}

fn others(report: &JobReport, runs: &[JobReport]) -> Markup {
    html! {
        @if !runs.is_empty() {
            h2 { "Other runs" }
            div.scroll { table.cards {
                caption.unseen { "Other runs" }
                thead { tr {
                    th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Submitted (UTC)" } th.number scope="col" { "Time" }
                    th scope="col" { "Comparison" }
                } }
                @for run in runs {
                    tr {
                        td { a href={ "/jobs/" (run.id) } { (run.id) } } td { (state(run.state)) } td { (format::time(run.submitted_ms)) }
                        td.number { @if run.finished_ms > 0 { (format::duration(run.finished_ms.saturating_sub(run.submitted_ms))) } }
                        td { a href={ "/compare?a=" (run.id) "&b=" (report.id) } { "compare" } }
                    }
                }
            } }
        }
    }
}

fn elapsed(picture: &Picture, now_ms: u64) -> String {
    let report = &picture.report;
    let end = if report.finished_ms == 0 { now_ms } else { report.finished_ms };
    let text = format::duration(end.saturating_sub(report.submitted_ms));
    if report.state.is_final() { format!("took {text}") } else { format!("running for {text}") }
}

fn counts(picture: &Picture) -> Markup {
    let report = &picture.report;
    let launched = picture.launched;
    let attempts = format!("/jobs/{}/attempts", report.id);
    let row = |kind: &str, share: f32, counts: &TaskCounts| {
        let failed = format!("{attempts}?kind={kind}&state=FAILED");
        let killed = format!("{attempts}?kind={kind}&state=KILLED");
        html! {
            tr {
                td { a href={ (attempts) "?kind=" (kind) } { (kind) } } td { (bar(share)) }
                td.number { (counts.total) } td.number { (counts.pending) } td.number { (counts.running) }
                td.number { (counts.completed) }
                td.number { a href=(failed) { (counts.failed_attempts) } " / " a href=(killed) { (counts.killed_attempts) } }
            }
        }
    };
    html! {
        div.scroll { table.cards {
            caption.unseen { "Tasks by kind" }
            thead { tr {
                th scope="col" { "Kind" } th scope="col" { "% Complete" } th.number scope="col" { "Num Tasks" } th.number scope="col" { "Pending" }
                th.number scope="col" { "Running" }
                th.number scope="col" { "Complete" } th.number scope="col" { "Failed / killed attempts" }
            } }
            (row("map", report.map_progress, &report.maps))
            (row("reduce", report.reduce_progress, &report.reduces))
        } }
        p.soft {
            "Maps read their input on the same machine " (launched.node_local) " times, in the same rack " (launched.rack_local)
            " times, from elsewhere " (launched.other_local) " times."
            @if report.read_records_per_s > 0 || report.read_bytes_per_s > 0 {
                " Running maps read " b { (format::count(report.read_records_per_s)) " records" } " and "
                b { (format::bytes(report.read_bytes_per_s)) } " a second."
            }
            @if launched.map_reruns > 0 { " Maps run again because their output was lost: " (launched.map_reruns) "." }
        }
    }
}

/// Counters by group.
pub(crate) fn counters(counters: &Counters) -> Markup {
    html! {
        div.scroll { table {
            caption.unseen { "Counters" }
            @for (group, names) in &counters.0 {
                tr { th colspan="2" scope="colgroup" { (group) } }
                @for (name, value) in names { tr { th scope="row" { (name) } td.number { (format::count(*value)) } } }
            }
        } }
    }
}

fn configuration(picture: &Picture) -> Markup {
    let mut arguments = String::new();
    for argument in &picture.args {
        let _ = write!(arguments, "{argument:?} ");
    }
    let cut: String = arguments.chars().take(ARGUMENTS_CHARS_MAX).collect();
    html! {
        div.scroll { table {
            caption.unseen { "Configuration" }
            @for (name, value) in &picture.properties { tr { th scope="row" { code { (name) } } td.wide { code { (value) } } } }
            tr { th scope="row" { "Output" } td.wide { code { (picture.report.output) } } }
            tr { th scope="row" { "Arguments" } td.wide { code { (cut) @if cut.len() < arguments.len() { "…" } } } }
            tr { th scope="row" { "Executable (SHA-256)" } td.wide { code { (picture.binary) } } }
            tr { th scope="row" { "Stage of the program" } td { (picture.stage) } }
            tr { th scope="row" { "Attempts per map at most" } td { (picture.attempts_max[0]) } }
            tr { th scope="row" { "Attempts per reduce at most" } td { (picture.attempts_max[1]) } }
            tr { th scope="row" { "Number of reduces" } td { (picture.reduce_plan) } }
            tr { th scope="row" { "Reduces start when so many maps are done" } td { (f64::from(picture.slow_start_permille) / 10.0) "%" } }
        } }
    }
}
