//! Two runs side by side: what took longer, what was more.

use std::collections::BTreeSet;

use daemon::page::format::{self, Unit};
use daemon::params::{BadParameter, Given, Parameters};
use maud::{Markup, html};
use protocol::TaskKind;

use super::spread::{Quantiles, durations};
use super::{state, timeline};
use crate::core::views::Picture;

/// Other runs offered for comparison.
pub(crate) const RUNS_MAX: usize = 5;
/// Differences below this are noise, and not coloured.
const NOISE_PERCENT: f64 = 10.0;

/// Which jobs.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) a: String,
    pub(crate) b: String,
}

impl Parameters for Query {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let job = |name: &'static str| {
            let why = "two jobs are compared, ?a=JOB&b=JOB".to_owned();
            let missing = BadParameter::Missing { name: name.to_owned(), why };
            Ok(given.text(name)?.ok_or(missing)?.to_owned())
        };
        let (a, b) = (job("a"), job("b"));
        Ok(Query { a: a?, b: b? })
    }
}

/// One number of both runs.
struct Row {
    label: String,
    unit: Unit,
    values: [u64; 2],
}

/// The page.
pub(crate) fn page(a: &Picture, b: &Picture, now_ms: u64) -> Markup {
    let both = [a, b];
    html! {
        h1 { (a.report.name) @if a.report.name != b.report.name { " and " (b.report.name) } }
        div.columns {
            @for (letter, picture) in ["A", "B"].iter().zip(both) {
                section {
                    h2 { (letter) ": " a href={ "/jobs/" (picture.report.id) } { (picture.report.id) } }
                    p { (state(picture.report.state)) " · " (picture.report.user) " · " (format::time(picture.report.submitted_ms)) " UTC" }
                    @if !picture.attempts.is_empty() { (timeline::concurrency(picture, now_ms)) }
                }
            }
        }
        h2 { "Time and tasks" }
        (table("Times", &times(both, now_ms)))
        @let changed = settings(both);
        @if !changed.is_empty() {
            h2 { "Different configuration" }
            div.scroll { table.cards {
                caption.unseen { "Different configuration" }
                thead { tr { th scope="col" { "Key" } th scope="col" { "A" } th scope="col" { "B" } } }
                @for (name, values) in &changed {
                    tr { td { code { (name) } } @for value in values { td.wide { code { (value) } } } }
                }
            } }
        }
        h2 { "Counters that differ" }
        @let counters = counters(both);
        @if counters.is_empty() { p.empty { "All are the same." } } @else { (table("Counters that differ", &counters)) }
    }
}

fn table(caption: &str, rows: &[Row]) -> Markup {
    html! {
        div.scroll { table.cards {
            caption.unseen { (caption) }
            thead { tr {
                th scope="col" { "What" } th.number scope="col" { "A" } th.number scope="col" { "B" }
                th.number scope="col" { "B against A" }
            } }
            @for row in rows {
                tr {
                    td.wide { (row.label) }
                    @for value in row.values { td.number { (format::value(value, row.unit)) } }
                    td.number { (difference(row)) }
                }
            }
        } }
    }
}

/// Times are coloured: more is worse. For other numbers nobody can say.
fn difference(row: &Row) -> Markup {
    let [a, b] = row.values;
    if a == b {
        return html! { span.soft { "same" } };
    }
    if a == 0 {
        return html! { "new" };
    }
    let percent = (b as f64 - a as f64) / a as f64 * 100.0;
    let class = match row.unit {
        Unit::Milliseconds | Unit::Microseconds if percent > NOISE_PERCENT => "state bad",
        Unit::Milliseconds | Unit::Microseconds if percent < -NOISE_PERCENT => "state good",
        _ => "",
    };
    html! { span class=(class) { (format!("{percent:+.0}%")) } }
}

fn times(both: [&Picture; 2], now_ms: u64) -> Vec<Row> {
    let whole = |picture: &Picture| {
        let report = &picture.report;
        let end = if report.finished_ms == 0 { now_ms } else { report.finished_ms };
        end.saturating_sub(report.submitted_ms)
    };
    let mut rows = vec![Row {
        label: "Whole job".to_owned(),
        unit: Unit::Milliseconds,
        values: both.map(whole),
    }];
    for (kind, name) in [(TaskKind::Map, "maps"), (TaskKind::Reduce, "reduces")] {
        let count = |picture: &Picture| u64::from(picture.task_count(kind));
        rows.push(Row {
            label: format!("Number of {name}"),
            unit: Unit::Count,
            values: both.map(count),
        });
        let quantiles = both.map(|picture| Quantiles::of(durations(picture, kind)));
        if quantiles.iter().all(Option::is_none) {
            continue;
        }
        for (label, of) in [
            ("median time of", (|q| q.median) as fn(Quantiles) -> u64),
            ("95% of times of", |q| q.p95),
            ("longest time of", |q| q.max),
        ] {
            let values = quantiles.map(|quantiles| quantiles.map_or(0, of));
            rows.push(Row { label: format!("{label} {name}"), unit: Unit::Milliseconds, values });
        }
    }
    let failed = |picture: &Picture| {
        let report = &picture.report;
        u64::from(report.maps.failed_attempts) + u64::from(report.reduces.failed_attempts)
    };
    rows.push(Row {
        label: "Failed attempts".to_owned(),
        unit: Unit::Count,
        values: both.map(failed),
    });
    let workers = |picture: &Picture| picture.workers.len() as u64;
    rows.push(Row {
        label: "Workers used".to_owned(),
        unit: Unit::Count,
        values: both.map(workers),
    });
    rows
}

/// The settings that differ, by name.
fn settings(both: [&Picture; 2]) -> Vec<(&str, [&str; 2])> {
    let names: BTreeSet<&str> =
        both.iter().flat_map(|picture| picture.properties.keys()).map(String::as_str).collect();
    let values = |name| both.map(|picture| picture.properties.get(name).map(String::as_str));
    let all = names.into_iter().map(|name| (name, values(name)));
    let differ = all.filter(|(_, [a, b])| a != b);
    differ.map(|(name, values)| (name, values.map(|value| value.unwrap_or("–")))).collect()
}

fn counters(both: [&Picture; 2]) -> Vec<Row> {
    let mut rows = Vec::new();
    let all = [&both[0].report.counters.0, &both[1].report.counters.0];
    let groups: BTreeSet<&String> = all.iter().flat_map(|groups| groups.keys()).collect();
    for group in groups {
        let of_group = all.iter().filter_map(|groups| groups.get(group));
        let names: BTreeSet<&String> = of_group.flat_map(|names| names.keys()).collect();
        for name in names {
            let values = both.map(|picture| picture.report.counters.value(group, name));
            if values[0] != values[1] {
                let short = group.rsplit('.').next().unwrap_or(group);
                let unit = if name.ends_with("_MICROS") {
                    Unit::Microseconds
                } else if name.ends_with("_MILLIS") || name.ends_with("_MILLISECONDS") {
                    Unit::Milliseconds
                } else if name.contains("BYTES") {
                    Unit::Bytes
                } else {
                    Unit::Count
                };
                rows.push(Row { label: format!("{short}: {name}"), unit, values });
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::picture;

    #[test]
    fn what_differs_is_told_and_coloured_where_more_is_worse() {
        let (mut a, mut b) = (picture(Vec::new(), 0, 1_000), picture(Vec::new(), 0, 2_000));
        a.report.counters.add("g", "SAME", 1);
        b.report.counters.add("g", "SAME", 1);
        b.report.counters.add("g", "FILE_BYTES", 2_048);
        b.properties.insert("mapreduce.job.reduces".to_owned(), "7".to_owned());
        let page = page(&a, &b, 0).into_string();
        assert!(page.contains("state bad\">+100%"), "{page}");
        assert!(page.contains("g: FILE_BYTES") && !page.contains("SAME"), "{page}");
        assert!(page.contains("mapreduce.job.reduces"), "{page}");
    }
}
