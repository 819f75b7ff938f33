//! The distribution of numbers over the tasks of a job: quantiles per metric, and bytes per partition with the largest ones named.

use daemon::page::format::{self, Unit};
use maud::{Markup, html};
use protocol::TaskKind;

use crate::core::jobs::AttemptState;
use crate::core::views::Picture;

/// Partitions drawn one by one; more are drawn in groups by their maximum.
const BARS_MAX: usize = 240;
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 110.0;
/// Widest bar, so that a job of two reduces is not drawn as two walls.
const BAR_WIDTH_MAX: f64 = 60.0;

/// Five points of a distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Quantiles {
    pub(crate) min: u64,
    pub(crate) p25: u64,
    pub(crate) median: u64,
    pub(crate) p75: u64,
    pub(crate) p95: u64,
    pub(crate) max: u64,
}

impl Quantiles {
    /// The quantiles of any numbers; `None` without any.
    pub(crate) fn of(mut values: Vec<u64>) -> Option<Quantiles> {
        let last = values.len().checked_sub(1)?;
        let (min, max) = (values.iter().copied().min()?, values.iter().copied().max()?);
        // Numbers below one point stay below it, so the search for the next covers only the rest: no sort of a hundred thousand.
        let mut done = 0;
        let mut at = |percent: usize| {
            let place = last * percent / 100;
            let found = *values[done..].select_nth_unstable(place - done).1;
            done = place;
            found
        };
        Some(Quantiles { min, p25: at(25), median: at(50), p75: at(75), p95: at(95), max })
    }
}

/// Times of the successful attempts of a kind, milliseconds.
pub(crate) fn durations(picture: &Picture, kind: TaskKind) -> Vec<u64> {
    let done = picture
        .attempts
        .iter()
        .filter(|attempt| attempt.kind == kind && attempt.state == AttemptState::Succeeded);
    done.map(|attempt| attempt.elapsed_ms(0)).collect()
}

/// The table of all metrics.
pub(crate) fn table(picture: &Picture) -> Markup {
    let mut rows: Vec<(&str, &str, Unit, Quantiles)> = Vec::new();
    for (kind, name) in [(TaskKind::Map, "map"), (TaskKind::Reduce, "reduce")] {
        if let Some(quantiles) = Quantiles::of(durations(picture, kind)) {
            rows.push((name, "Time", Unit::Milliseconds, quantiles));
        }
        for metric in picture.metrics.iter().filter(|metric| metric.kind == kind) {
            let values = metric.values.iter().map(|(_, value)| *value).collect();
            if let Some(quantiles) = Quantiles::of(values) {
                rows.push((name, metric.label, metric.unit, quantiles));
            }
        }
    }
    html! {
        @if rows.is_empty() {
            p.empty { "No task has finished" @if !picture.report.state.is_final() { " yet" } "." }
        } @else {
            div.scroll { table.cards {
                caption.unseen { "Spread of times and amounts over tasks" }
                thead { tr {
                    th scope="col" { "Tasks" } th scope="col" { "Metric" }
                    @for name in ["Min", "25%", "Median", "75%", "95%", "Max"] { th.number scope="col" { (name) } }
                } }
                @for (kind, label, unit, q) in &rows {
                    tr {
                        td { (kind) } td { (label) }
                        @for number in [q.min, q.p25, q.median, q.p75, q.p95, q.max] {
                            td.number { (format::value(number, *unit)) }
                        }
                    }
                }
            } }
        }
    }
}

/// Bytes that each reduce fetched; the chart makes skew visible.
pub(crate) fn partitions(picture: &Picture) -> Markup {
    let shuffled = picture.metrics.iter().find(|metric| metric.name == "REDUCE_SHUFFLE_BYTES");
    let Some(metric) = shuffled.filter(|metric| metric.values.len() > 1) else { return html! {} };
    let group = metric.values.len().div_ceil(BARS_MAX);
    let bars: Vec<(u32, u64)> = metric
        .values
        .chunks(group)
        .filter_map(|chunk| chunk.iter().copied().max_by_key(|(_, bytes)| *bytes))
        .collect();
    let (largest, most) = bars.iter().copied().max_by_key(|(_, bytes)| *bytes).unwrap_or_default();
    let values = metric.values.iter().map(|(_, bytes)| *bytes).collect();
    let median = Quantiles::of(values).map_or(0, |quantiles| quantiles.median);
    let width = (WIDTH / bars.len() as f64).min(BAR_WIDTH_MAX);
    html! {
        h2 { "Bytes per partition" }
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Shuffled bytes of each reduce" {
            @for (place, (partition, bytes)) in bars.iter().enumerate() {
                @let height = (HEIGHT - 4.0) * *bytes as f64 / most.max(1) as f64;
                rect.bar x=(width * place as f64 + 0.5) y=(HEIGHT - height) width=((width - 1.0).max(1.0)) height=(height) {
                    title { "partition " (partition) ": " (format::bytes(*bytes)) }
                }
            }
        }
        p.soft {
            "Partition " (largest) " has most, " (format::bytes(most)) "; the median is " (format::bytes(median)) "."
            @if group > 1 { " Each bar is the largest of " (group) " partitions." }
        }
    }
}

/// Records of a partition whose reduce is done.
pub(super) fn records_of(picture: &Picture, partition: u32) -> Option<u64> {
    let records = picture.metrics.iter().find(|metric| metric.name == "REDUCE_INPUT_RECORDS");
    let values = &records?.values;
    let place = values.binary_search_by_key(&partition, |(task, _)| *task).ok()?;
    Some(values[place].1)
}

/// Keys that have a large share of their partition's records: why a partition is large.
pub(crate) fn hot_keys(picture: &Picture) -> Markup {
    html! {
        @if !picture.hot_keys.is_empty() {
            h2 { "Hot keys" }
            div.scroll { table.cards {
                caption.unseen { "Keys with most records" }
                thead { tr {
                    th scope="col" { "Key" } th.number scope="col" { "Partition" } th.number scope="col" { "Records" }
                    th.number scope="col" { "Of its partition" }
                } }
                @for (partition, key) in &picture.hot_keys {
                    tr {
                        td.wide { code { (key.text) } }
                        td.number { a href={ "/jobs/" (picture.report.id) "/tasks/" (picture.reduce_id(*partition)) } { (partition) } }
                        td.number { (format::count(key.records)) }
                        td.number {
                            @if let Some(all) = records_of(picture, *partition) { (format::percent(key.records as f32 / all.max(1) as f32)) }
                        }
                    }
                }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_members_in_order() {
        assert_eq!(Quantiles::of(vec![]), None);
        let one = Quantiles { min: 7, p25: 7, median: 7, p75: 7, p95: 7, max: 7 };
        assert_eq!(Quantiles::of(vec![7]), Some(one));
        let all = Quantiles { min: 0, p25: 25, median: 50, p75: 75, p95: 95, max: 100 };
        assert_eq!(Quantiles::of((0..=100).rev().collect()), Some(all));
        let same = Quantiles { min: 4, p25: 4, median: 4, p75: 4, p95: 4, max: 9 };
        assert_eq!(Quantiles::of(vec![4, 9, 4, 4]), Some(same));
    }
}
