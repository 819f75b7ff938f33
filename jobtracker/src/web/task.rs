//! One task: its attempts and its numbers beside those of the other tasks of its kind.

use daemon::page::format;
use maud::{Markup, html};
use protocol::TaskId;

use super::spread::Quantiles;
use super::{attempts, stop_buttons};
use crate::core::views::{AttemptRow, Picture};

/// The page.
pub(crate) fn page(picture: &Picture, id: TaskId, may_act: bool, now_ms: u64) -> Markup {
    let is_own = |attempt: &AttemptRow| attempt.kind == id.kind && attempt.index == id.index;
    let rows = picture.attempts.iter().enumerate();
    let own: Vec<usize> = rows.filter(|(_, row)| is_own(row)).map(|(place, _)| place).collect();
    let is_live = own.iter().any(|place| picture.attempts[*place].state.is_live());
    let job = &picture.report.id;
    html! {
        p.crumbs { a href={ "/jobs/" (job) } { (picture.report.name) } " › " a href={ "/jobs/" (job) "/attempts" } { "attempts" } }
        h1 { (id) }
        @if may_act && is_live {
            div.tools.scripted { (stop_buttons(&format!("/api/v1/jobs/{job}/tasks/{id}"), "all running attempts of this task")) }
        }
        @if own.is_empty() { p.empty { "It waits for its first attempt." } } @else {
            (attempts::rows(picture, &own, false, now_ms))
        }
        @for place in &own {
            @if let Some(text) = picture.diagnostics.get(place) {
                div.alert.bad tabindex="0" { b { (picture.attempt_id(&picture.attempts[*place])) } "\n" (text) }
            }
        }
        h2 { "Beside the other tasks" }
        (beside(picture, id))
    }
}

fn beside(picture: &Picture, id: TaskId) -> Markup {
    let metrics = picture.metrics.iter().filter(|metric| metric.kind == id.kind);
    let rows: Vec<_> = metrics
        .filter_map(|metric| {
            let own = metric.values.iter().find(|(task, _)| *task == id.index)?.1;
            let all = metric.values.iter().map(|(_, value)| *value).collect();
            Some((metric, own, Quantiles::of(all)?))
        })
        .collect();
    html! {
        @if rows.is_empty() { p.empty { "It has not finished" @if !picture.report.state.is_final() { " yet" } "." } } @else {
            div.scroll { table.cards {
                caption.unseen { "Beside the other tasks" }
                thead { tr {
                    th scope="col" { "Metric" } th.number scope="col" { "This task" } th.number scope="col" { "Median of all" }
                    th.number scope="col" { "Largest" }
                } }
                @for (metric, own, all) in &rows {
                    tr {
                        td { (metric.label) } td.number { b { (format::value(*own, metric.unit)) } }
                        td.number { (format::value(all.median, metric.unit)) } td.number { (format::value(all.max, metric.unit)) }
                    }
                }
            } }
        }
    }
}
