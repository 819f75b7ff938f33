//! Attempts: a filtered, paged table of a job's attempts, and one attempt with its log.

use daemon::page::{bar, format};
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use protocol::phase::Phase;
use protocol::{AttemptId, TaskKind};

use super::jobs::page_number;
use super::phases;
use crate::core::jobs::AttemptState;
use crate::core::views::{AttemptPicture, AttemptRow, Picture};

/// From this share on, the page displays the remaining time.
const FORECAST_PROGRESS_MIN: f64 = 0.05;
/// Attempts per page.
const PAGE_ROWS: usize = 200;
/// Which attempts, as the form offers them; without a word all.
const KINDS: [(&str, &str); 3] = [("", "maps and reduces"), ("map", "maps"), ("reduce", "reduces")];
const STATES: [(&str, &str); 5] = [
    ("", "any state"),
    ("RUNNING", "running"),
    ("SUCCEEDED", "succeeded"),
    ("FAILED", "failed"),
    ("KILLED", "killed"),
];
const SORTS: [(&str, &str); 3] =
    [("", "by task"), ("time", "longest first"), ("start", "by start")];

/// The requested part of the table; it is in the address, so it can be sent to a colleague.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    kind: &'static str,
    state: &'static str,
    host: String,
    sort: &'static str,
    page: usize,
}

impl Parameters for Query {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let words = |options: &[(&'static str, &str)]| -> Vec<&'static str> {
            options.iter().map(|(word, _)| *word).filter(|word| !word.is_empty()).collect()
        };
        Ok(Query {
            kind: given.word("kind", &words(&KINDS))?,
            state: given.word("state", &words(&STATES))?,
            host: given.text_or_empty("host")?,
            sort: given.word("sort", &words(&SORTS))?,
            page: page_number(given)?,
        })
    }
}

/// A state, coloured.
pub(crate) fn state(state: AttemptState) -> Markup {
    let class = match state {
        AttemptState::Running | AttemptState::Killing => "run",
        AttemptState::Succeeded => "good",
        AttemptState::Failed => "bad",
        AttemptState::Killed => "warn",
    };
    html! { span class={ "state " (class) } { (state.name()) } }
}

fn kind_name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Map => "map",
        TaskKind::Reduce => "reduce",
    }
}

/// The table of a job's attempts.
pub(crate) fn table(picture: &Picture, query: &Query, now_ms: u64) -> Markup {
    let chosen = choose(picture, query, now_ms);
    let pages = chosen.len().div_ceil(PAGE_ROWS).max(1);
    let page = query.page.min(pages - 1);
    let rows = &chosen[page * PAGE_ROWS..chosen.len().min((page + 1) * PAGE_ROWS)];
    let job = &picture.report.id;
    html! {
        p.crumbs { a href={ "/jobs/" (job) } { (picture.report.name) } " › attempts" }
        h1 { "Attempts" }
        (filter(query))
        p.soft { (format::count(chosen.len() as u64)) " of " (format::count(picture.attempts.len() as u64)) " attempts" }
        @if rows.is_empty() { p.empty { "No attempt is like that." } } @else { (self::rows(picture, rows, pages > 1, now_ms)) }
        (pager(query, page, pages))
    }
}

/// A table of some attempts, by their indexes; `is_part`: others are on further pages.
pub(crate) fn rows(picture: &Picture, places: &[usize], is_part: bool, now_ms: u64) -> Markup {
    let job = &picture.report.id;
    html! {
        div.scroll { table.cards data-fixed[is_part] {
            caption.unseen { "Attempts" }
            thead { tr {
                th scope="col" { "Attempt" } th scope="col" { "State" } th scope="col" { "Machine" } th scope="col" { "Start (UTC)" }
                th.number scope="col" { "Time" } th scope="col" { "Progress" }
                th scope="col" { "Error or status" }
            } }
            @for place in places {
                @let attempt = &picture.attempts[*place];
                @let id = picture.attempt_id(attempt);
                tr {
                    td { a href={ "/jobs/" (job) "/attempts/" (id) } { (id) } }
                    td { (state(attempt.state)) }
                    td { (picture.workers[attempt.worker as usize].host) }
                    td { (format::time(attempt.started_ms)) }
                    td.number { (format::duration(attempt.elapsed_ms(now_ms))) }
                    td { (bar(attempt.progress)) (phases::beside_bar(attempt)) }
                    td.wide { (first_line(picture.text_of(*place))) }
                }
            }
        } }
    }
}

fn choose(picture: &Picture, query: &Query, now_ms: u64) -> Vec<usize> {
    let fits = |attempt: &AttemptRow| {
        (query.kind.is_empty() || query.kind == kind_name(attempt.kind))
            && (query.state.is_empty() || query.state == attempt.state.name())
            && picture.workers[attempt.worker as usize].host.contains(&query.host)
    };
    let rows = picture.attempts.iter().enumerate();
    let mut chosen: Vec<usize> =
        rows.filter(|(_, attempt)| fits(attempt)).map(|(place, _)| place).collect();
    match query.sort {
        "time" => chosen
            .sort_by_key(|place| std::cmp::Reverse(picture.attempts[*place].elapsed_ms(now_ms))),
        "start" => chosen.sort_by_key(|place| picture.attempts[*place].started_ms),
        _ => {}
    }
    chosen
}

fn filter(query: &Query) -> Markup {
    let choice = |name: &str, value: &str, options: &[(&str, &str)]| {
        html! {
            select name=(name) aria-label=(name) {
                @for (option, text) in options {
                    option value=(option) selected[*option == value] { (text) }
                }
            }
        }
    };
    html! {
        form.filter method="get" {
            (choice("kind", query.kind, &KINDS))
            (choice("state", query.state, &STATES))
            (choice("sort", query.sort, &SORTS))
            input type="search" name="host" value=(query.host) placeholder="machine" aria-label="machine";
            button { "Show" }
        }
    }
}

fn pager(query: &Query, page: usize, pages: usize) -> Markup {
    let target = |page: usize| {
        let pairs = [
            ("kind", query.kind),
            ("state", query.state),
            ("host", query.host.as_str()),
            ("sort", query.sort),
        ];
        let mut text = format!("?page={page}");
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            text.push_str(&format!("&{name}={}", super::jobs::encoded(value)));
        }
        text
    };
    html! {
        @if pages > 1 {
            p {
                @if page > 0 { a href=(target(page - 1)) { "← previous" } " " }
                "page " (page + 1) " of " (pages)
                @if page + 1 < pages { " " a href=(target(page + 1)) { "next →" } }
            }
        }
    }
}

/// When a running map is likely to be done: a map's progress is its share of the input, which a reduce's is not.
fn remaining(row: &AttemptRow, now_ms: u64) -> Markup {
    let has_forecast = row.state.is_live() && row.phase == Some(Phase::Map);
    let share = f64::from(row.progress);
    html! {
        @if has_forecast && share >= FORECAST_PROGRESS_MIN {
            @let rest = row.elapsed_ms(now_ms) as f64 * (1.0 - share) / share;
            " " span.soft { "about " (format::duration(rest as u64)) " left" }
        }
    }
}

/// When a reduce had fetched its input, and when it had merged it.
fn gathered(row: &AttemptRow) -> Markup {
    html! {
        @if let Some((shuffled, merged)) = row.gathered_at() {
            tr { th scope="row" { "Shuffle finished" } td { (format::time(shuffled)) " (after " (format::duration(shuffled.saturating_sub(row.started_ms))) ")" } }
            tr { th scope="row" { "Sort finished" } td { (format::time(merged)) " (after " (format::duration(merged.saturating_sub(shuffled))) ")" } }
        }
    }
}

/// The first line of a text.
pub(crate) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or("")
}

/// The log of an attempt, or why it is unavailable.
pub(crate) enum Log {
    Text(String),
    Missing(String),
}

/// One attempt.
pub(crate) fn one(
    id: AttemptId,
    attempt: &AttemptPicture,
    log: &Log,
    may_act: bool,
    now_ms: u64,
) -> Markup {
    let row = &attempt.row;
    let job = id.task.job;
    html! {
        p.crumbs {
            a href={ "/jobs/" (job) } { (job) } " › " a href={ "/jobs/" (job) "/attempts" } { "attempts" } " › "
            a href={ "/jobs/" (job) "/tasks/" (id.task) } { "task " (id.task.index) }
        }
        h1 { (id) }
        @if may_act && row.state.is_live() {
            div.tools.scripted { (super::stop_buttons(&format!("/api/v1/jobs/{job}/attempts/{id}"), "this attempt")) }
        }
        @if !attempt.diagnostics.is_empty() { div.alert.bad tabindex="0" { (attempt.diagnostics) } }
        div.scroll { table.facts {
            caption.unseen { "This attempt" }
            tr { th scope="row" { "State" } td { (state(row.state)) @if attempt.is_winner { " (its output counts)" } } }
            tr { th scope="row" { "Machine" } td { (attempt.worker.host) " " span.soft { (attempt.worker.http_address) } } }
            @if let Some(input) = &attempt.input { tr { th scope="row" { "Input" } td.wide { code { (input) } } } }
            tr { th scope="row" { "Start (UTC)" } td { (format::time(row.started_ms)) } }
            @if row.finished_ms > 0 { tr { th scope="row" { "Finish (UTC)" } td { (format::time(row.finished_ms)) } } }
            tr { th scope="row" { "Time" } td { (format::duration(row.elapsed_ms(now_ms))) } }
            tr {
                th scope="row" { "Progress" }
                td { (bar(row.progress)) (remaining(row, now_ms)) }
            }
            @if !attempt.status.is_empty() { tr { th scope="row" { "Status" } td.wide { (attempt.status) } } }
            @if let Some(words) = phases::reached_in_words(row) {
                tr { th scope="row" { @if row.state.is_live() { "Phase" } @else { "Ended in" } } td { (words) } }
            }
            (gathered(row))
            @if attempt.is_pending { tr { th scope="row" { "Task" } td { "waits for another attempt" } } }
        } }
        (phases::of_attempt(row.kind, &attempt.counters))
        h2 { "Log" @if row.state.is_live() { " " span.chip { "follows while it runs" } } }
        @match log {
            Log::Text(text) if text.is_empty() => { p.empty { "Nothing was written" @if row.state.is_live() { " yet" } "." } }
            Log::Text(text) => { pre.log tabindex="0" { (text) } }
            Log::Missing(reason) => { p.empty { (reason) } }
        }
        @if !attempt.counters.0.is_empty() {
            details #counters { summary { "Counters" } (super::job::counters(&attempt.counters)) }
        }
        p.soft { "From a terminal: " code { "hanno job -logs " (job) } ", and to run it again there: " code { "hanno job replay " (id) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::picture;

    #[test]
    fn ids_are_hadoops() {
        let row = AttemptRow {
            kind: TaskKind::Reduce,
            index: 7,
            number: 2,
            state: AttemptState::Running,
            worker: 0,
            started_ms: 0,
            finished_ms: 0,
            progress: 0.0,
            phase: None,
            gathered: None,
        };
        assert_eq!(
            picture(Vec::new(), 0, 0).attempt_id(&row).to_string(),
            "attempt_202611201830_0001_r_000007_2"
        );
    }
}
