//! All jobs known, filtered and sorted; the choice is in the address.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;

use daemon::page::{bar, format};
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use protocol::jobs::{JobReport, JobState};

use super::state;

/// Jobs per page.
const PAGE_ROWS: usize = 100;
const HOUR_MS: u64 = 60 * 60 * 1000;
/// Most hours back; the whole time of the clock.
const HOURS_MAX: u64 = u64::MAX / HOUR_MS;
/// What a job's state may be required to be.
const STATES: [&str; 4] = ["running", "succeeded", "failed", "killed"];
/// What jobs are ordered by, except for their age.
const SORTS: [&str; 3] = ["time", "name", "user"];

/// The requested part of the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub(crate) state: &'static str,
    pub(crate) user: String,
    pub(crate) queue: String,
    /// Submitted within this many hours.
    pub(crate) within: Option<u64>,
    pub(crate) q: String,
    pub(crate) sort: &'static str,
    pub(crate) page: usize,
}

impl Parameters for Query {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        Ok(Query {
            state: given.word("state", &STATES)?,
            user: given.text_or_empty("user")?,
            queue: given.text_or_empty("queue")?,
            within: given.number("within", 1..=HOURS_MAX)?,
            q: given.text_or_empty("q")?,
            sort: given.word("sort", &SORTS)?,
            page: page_number(given)?,
        })
    }
}

/// The wanted page of a table, counted from 0. Past the last one, the last one is shown, and named as such.
pub(crate) fn page_number(given: &Given) -> Result<usize, BadParameter> {
    let page = given.number("page", 0..=u64::from(u32::MAX))?.unwrap_or(0);
    Ok(usize::try_from(page).unwrap_or(usize::MAX))
}

/// The page.
pub(crate) fn page(jobs: &[Cow<'_, JobReport>], query: &Query, now_ms: u64) -> Markup {
    let chosen = choose(jobs, query, now_ms);
    let pages = chosen.len().div_ceil(PAGE_ROWS).max(1);
    let page = query.page.min(pages - 1);
    let rows = &chosen[page * PAGE_ROWS..chosen.len().min((page + 1) * PAGE_ROWS)];
    html! {
        h1 { "Jobs" }
        (filter(query))
        p.soft { (chosen.len()) " of " (jobs.len()) " jobs; press / to search" }
        @if jobs.is_empty() { p.empty { "No job was submitted yet." } }
        @else if rows.is_empty() { p.empty { "No job is like that." } } @else { (table(rows, pages > 1, now_ms)) }
        @if pages > 1 {
            p {
                @for number in 0..pages {
                    @if number == page { strong { (number + 1) } } @else { a href=(address(query, number)) { (number + 1) } }
                    " "
                }
            }
        }
    }
}

/// A table of jobs; `is_part`: others are on further pages.
pub(crate) fn table(jobs: &[&JobReport], is_part: bool, now_ms: u64) -> Markup {
    html! {
        div.scroll { table.cards data-fixed[is_part] {
            caption.unseen { "Jobs" }
            thead { tr {
                th scope="col" { "Jobid" } th scope="col" { "State" } th scope="col" { "Name" } th scope="col" { "Map % Complete" }
                th scope="col" { "Reduce % Complete" } th.number scope="col" { "Time" }
                th scope="col" { "User" } th scope="col" { "Queue" } th scope="col" { "Priority" } th scope="col" { "Submitted (UTC)" }
            } }
            @for job in jobs {
                tr {
                    td { @if job.is_outline { (job.id) } @else { a href={ "/jobs/" (job.id) } { (job.id) } } }
                    td { (state(job.state)) }
                    td.wide { @if job.is_outline { span.soft { "shown to its owner" } } @else { (job.name) } }
                    td { (bar(job.map_progress)) " " span.soft { (job.maps.completed) "/" (job.maps.total) } }
                    td { (bar(job.reduce_progress)) " " span.soft { (job.reduces.completed) "/" (job.reduces.total) } }
                    td.number { (format::duration(elapsed_ms(job, now_ms))) }
                    td { (job.user) } td { (job.queue) } td { (job.priority.name()) } td { (format::time(job.submitted_ms)) }
                }
            }
        } }
    }
}

fn elapsed_ms(job: &JobReport, now_ms: u64) -> u64 {
    let end = if job.finished_ms == 0 { now_ms } else { job.finished_ms };
    end.saturating_sub(job.submitted_ms)
}

fn choose<'a>(jobs: &'a [Cow<'_, JobReport>], query: &Query, now_ms: u64) -> Vec<&'a JobReport> {
    let wanted = query.q.to_lowercase();
    let fits = |job: &&JobReport| {
        let state = match query.state {
            "" => true,
            "running" => !job.state.is_final(),
            "succeeded" => job.state == JobState::Succeeded,
            "failed" => job.state == JobState::Failed,
            "killed" => job.state == JobState::Killed,
            _ => false,
        };
        let texts = [&job.name, &job.id, &job.user, &job.queue];
        let text = || texts.iter().any(|text| text.to_lowercase().contains(&wanted));
        let hours = query.within.unwrap_or(HOURS_MAX);
        state
            && (query.user.is_empty() || job.user == query.user)
            && (query.queue.is_empty() || job.queue == query.queue)
            && now_ms.saturating_sub(job.submitted_ms) <= hours.saturating_mul(HOUR_MS)
            && (wanted.is_empty() || text())
    };
    let mut chosen: Vec<&JobReport> = jobs.iter().map(|job| &**job).filter(fits).collect();
    match query.sort {
        "time" => chosen.sort_by_key(|job| Reverse(elapsed_ms(job, now_ms))),
        "name" => chosen.sort_by(|a, b| a.name.cmp(&b.name)),
        "user" => chosen.sort_by(|a, b| a.user.cmp(&b.user)),
        _ => {}
    }
    chosen
}

fn filter(query: &Query) -> Markup {
    let states = [
        ("", "any state"),
        ("running", "running"),
        ("succeeded", "succeeded"),
        ("failed", "failed"),
        ("killed", "killed"),
    ];
    let sorts =
        [("", "newest first"), ("time", "longest first"), ("name", "by name"), ("user", "by user")];
    let times = [
        ("", "any time"),
        ("1", "the last hour"),
        ("24", "the last day"),
        ("168", "the last week"),
    ];
    let within = query.within.map(|hours| hours.to_string()).unwrap_or_default();
    html! {
        form.filter method="get" {
            input type="search" name="q" value=(query.q) placeholder="name, id, user or queue" aria-label="name, id, user or queue";
            input name="user" value=(query.user) placeholder="user" aria-label="user" size="10";
            input name="queue" value=(query.queue) placeholder="queue" aria-label="queue" size="10";
            (choice("state", query.state, &states))
            (choice("within", &within, &times))
            (choice("sort", query.sort, &sorts))
            button { "Show" }
        }
    }
}

fn choice(name: &str, chosen: &str, options: &[(&str, &str)]) -> Markup {
    html! {
        select name=(name) aria-label=(name) {
            @for (value, text) in options { option value=(value) selected[*value == chosen] { (text) } }
        }
    }
}

fn address(query: &Query, page: usize) -> String {
    let within = query.within.map(|hours| hours.to_string()).unwrap_or_default();
    let pairs = [
        ("state", query.state),
        ("user", &query.user),
        ("queue", &query.queue),
        ("within", &within),
        ("q", &query.q),
        ("sort", query.sort),
    ];
    let mut text = format!("?page={page}");
    for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
        let _ = write!(text, "&{name}={}", encoded(value));
    }
    text
}

/// Encodes a value for a query.
pub(crate) fn encoded(value: &str) -> impl std::fmt::Display {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::report;
    use daemon::params::understand;

    fn jobs() -> Vec<JobReport> {
        let mut jobs = Vec::new();
        for (number, (name, user, state, finished_ms)) in [
            ("Word Count", "alice", JobState::Succeeded, 5_000),
            ("grep", "bob", JobState::Running, 0),
            ("sort", "alice", JobState::Failed, 9_000),
        ]
        .into_iter()
        .enumerate()
        {
            let mut job = report(name, 1_000, finished_ms);
            job.id = format!("job_202611201830_{number:04}");
            (job.user, job.state) = (user.to_owned(), state);
            jobs.push(job);
        }
        jobs
    }

    #[test]
    fn filters_and_orders() {
        let jobs: Vec<Cow<'_, JobReport>> = jobs().into_iter().map(Cow::Owned).collect();
        let names = |query: Query| -> Vec<String> {
            choose(&jobs, &query, 3_000).iter().map(|job| job.name.clone()).collect()
        };
        let query = Query::default;
        assert_eq!(names(Query { q: "word".into(), ..query() }), ["Word Count"]);
        assert_eq!(names(Query { q: "_0002".into(), ..query() }), ["sort"]);
        assert_eq!(names(Query { user: "alice".into(), ..query() }), ["Word Count", "sort"]);
        assert_eq!(names(Query { state: "running", ..query() }), ["grep"]);
        assert_eq!(names(Query { sort: "time", ..query() }), ["sort", "Word Count", "grep"]);
        assert_eq!(names(Query { queue: "default".into(), ..query() }).len(), 3);
        let later = |query: &Query| choose(&jobs, query, 1_000 + 2 * HOUR_MS).len();
        assert_eq!(later(&Query { within: Some(1), ..query() }), 0);
        assert_eq!(later(&Query { within: Some(24), ..query() }), 3);
    }

    #[test]
    fn what_the_form_offers_is_what_is_taken() {
        let read = |text: &str| understand::<Query>(text).map(|(query, _)| query);
        let form = filter(&Query::default()).into_string();
        for (name, words) in
            [("state", &STATES[..]), ("sort", &SORTS), ("within", &["1", "24", "168"])]
        {
            for word in words {
                assert!(form.contains(&format!("<option value=\"{word}\"")), "{word}");
                assert!(read(&format!("{name}={word}&q=&user=")).is_ok(), "{name}={word}");
            }
            for wrong in ["odd", "RUNNING", "-1", "0"] {
                let refused = read(&format!("{name}={wrong}")).unwrap_err().to_string();
                assert!(refused.contains(name) && refused.contains(wrong), "{refused}");
            }
        }
        assert!(read("page=-1").is_err() && read("page=x").is_err() && read("page=3").is_ok());
    }

    #[test]
    fn addresses_are_encoded() {
        let query = Query { q: "a&b=\"<".into(), ..Query::default() };
        assert_eq!(address(&query, 2), "?page=2&q=a%26b%3D%22%3C");
    }
}
