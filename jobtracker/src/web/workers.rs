//! Workers: tiles by load, and a table.

use daemon::page::format;
use maud::{Markup, html};
use protocol::jobs::WorkerReport;

/// Slots drawn in a tile; more are only counted.
const SLOTS_DRAWN_MAX: u32 = 64;

/// One tile each.
pub(crate) fn tiles(workers: &[WorkerReport]) -> Markup {
    html! {
        div.tiles {
            @for worker in workers {
                div.tile {
                    strong { (worker.host) } " " span { (worker.http_address) }
                    div.slots aria-hidden="true" {
                        @for slot in 0..worker.slot_count.min(SLOTS_DRAWN_MAX) {
                            i.busy[slot < worker.running_count] {}
                        }
                    }
                    span { (worker.running_count) " of " (worker.slot_count) " slots" @if worker.suspect { ", late" } }
                }
            }
        }
    }
}

/// The page.
pub(crate) fn page(workers: &[WorkerReport]) -> Markup {
    html! {
        h1 { "Workers" }
        (tiles(workers))
        div.scroll { table {
            thead { tr {
                th { "Host" } th { "Address" } th { "Rack" } th.number { "Max slots" } th.number { "Running tasks" } th { "Health" }
                th.number { "Last heard of" } th { "Tasks are held in" }
            } }
            @for worker in workers {
                tr {
                    td { (worker.host) } td { (worker.http_address) } td { (worker.rack) }
                    td.number { (worker.slot_count) } td.number { (worker.running_count) }
                    td {
                        @if worker.drained { span.state.warn { "empty" } }
                        @else if worker.excluded { span.state.warn { "being emptied" } }
                        @else if worker.blacklisted { span.state.bad { "avoided by all jobs (" (worker.faults) " faults)" } }
                        @else if worker.suspect { span.state.warn { "late" } }
                        @else { span.state.good { "good" } }
                    }
                    td.number { (format::duration(worker.silent_ms)) " ago" }
                    td.wide { (worker.isolation) }
                }
            }
        } }
    }
}
