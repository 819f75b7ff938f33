//! Queues: what each may use, uses and wants, and its waiting jobs.

use std::borrow::Cow;

use daemon::page::format;
use maud::{Markup, html};
use protocol::jobs::{JobReport, QueueReport};

use super::jobs;
use crate::server::query::Overview;

/// Jobs listed per queue; a link leads to the rest.
const JOBS_SHOWN_MAX: usize = 10;
/// Width of a bar in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 18.0;

/// The page.
pub(crate) fn page(overview: &Overview, seen: &[Cow<'_, JobReport>], now_ms: u64) -> Markup {
    let slots = overview.status.slot_count;
    let weights: u64 = overview.queues.iter().map(|queue| u64::from(queue.weight)).sum();
    html! {
        h1 { "Queues" }
        p.soft {
            (slots) " slots are shared by weight among the queues that have use for them. What a queue leaves is lent to the others."
        }
        @if overview.queues.is_empty() { p.empty { "There is no queue: the first job makes one." } } @else {
            div.legend {
                span { i.map {} "in use" } span { i.wanted {} "wanted besides" } span { i.share {} "its share now" }
            }
            (bars(&overview.queues, slots))
            h2 { "Limits" }
            (table(&overview.queues, weights))
        }
        @for queue in &overview.queues {
            @let running: Vec<&JobReport> =
                seen.iter().map(|job| &**job).filter(|job| job.queue == queue.name && !job.state.is_final()).collect();
            @if !running.is_empty() {
                h2 { (queue.name) span.soft { " · " (running.len()) " jobs" } }
                (jobs::table(&running[..running.len().min(JOBS_SHOWN_MAX)], running.len() > JOBS_SHOWN_MAX, now_ms))
                @if running.len() > JOBS_SHOWN_MAX {
                    p { a href={ "/jobs?state=running&queue=" (jobs::encoded(&queue.name)) } { "All of them" } }
                }
            }
        }
    }
}

/// One bar per queue on a common scale: its use, its further demand, and a mark at its share.
fn bars(queues: &[QueueReport], slots: u32) -> Markup {
    let most = queues.iter().map(|queue| queue.demand.max(queue.slot_count)).max().unwrap_or(0);
    let scale = f64::from(most.max(slots).max(1));
    let x = |count: f64| (count / scale * WIDTH).clamp(0.0, WIDTH).round();
    html! {
        div.queues {
            @for queue in queues {
                @let used = x(f64::from(queue.slot_count));
                @let wanted = x(f64::from(queue.demand.max(queue.slot_count)));
                @let share = x(queue.share_permille as f64 / 1000.0);
                div.queue {
                    strong { (queue.name) @if !queue.running { " " span.state.warn { "stopped" } } }
                    svg.strip viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                        aria-label={ (queue.slot_count) " slots in use, " (queue.demand) " wanted" } {
                        rect.map x="0" y="0" width=(used) height=(HEIGHT) {}
                        rect.wanted x=(used) y="0" width=(wanted - used) height=(HEIGHT) {}
                        rect.share x=((share - 2.0).max(0.0)) y="0" width="4" height=(HEIGHT) {}
                    }
                    span.soft { (queue.slot_count) " of " (permille(queue.share_permille)) " slots, " (queue.demand.saturating_sub(queue.slot_count)) " wanted besides" }
                }
            }
        }
    }
}

fn permille(thousandths: u64) -> String {
    if thousandths.is_multiple_of(1000) {
        (thousandths / 1000).to_string()
    } else {
        format!("{:.1}", thousandths as f64 / 1000.0)
    }
}

fn table(queues: &[QueueReport], weights: u64) -> Markup {
    let limit = |count: u32| if count == 0 { "–".to_owned() } else { count.to_string() };
    html! {
        div.scroll { table.cards {
            caption.unseen { "Queues" }
            thead { tr {
                th scope="col" { "Queue" } th scope="col" { "Order inside" } th.number scope="col" { "Weight" } th.number scope="col" { "Of all" }
                th.number scope="col" { "Slots at least" }
                th.number scope="col" { "At most" } th.number scope="col" { "Per user at most" } th.number scope="col" { "Jobs" }
                th.number scope="col" { "Started" } th.number scope="col" { "Started at most" }
            } }
            @for queue in queues {
                tr {
                    td.wide { a href={ "/jobs?queue=" (jobs::encoded(&queue.name)) } { (queue.name) } } td { (queue.policy) }
                    td.number { (queue.weight) }
                    td.number { (format::percent(queue.weight as f32 / weights.max(1) as f32)) }
                    td.number { (limit(queue.slots_min)) } td.number { (limit(queue.slots_max)) } td.number { (limit(queue.user_slots_max)) }
                    td.number { (queue.job_count) } td.number { (queue.started_job_count) } td.number { (limit(queue.running_jobs_max)) }
                }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::jobs::Ends;
    use crate::server::query::ListedJobs;
    use protocol::jobs::TrackerStatus;

    #[test]
    fn shares_are_marked_and_names_escaped() {
        let queue = |name: &str, slot_count, demand| QueueReport {
            name: name.to_owned(),
            running: true,
            policy: "fair".to_owned(),
            weight: 1,
            slots_min: 0,
            slots_max: 0,
            user_slots_max: 0,
            running_jobs_max: 0,
            share_permille: 1_500,
            slot_count,
            demand,
            job_count: 1,
            started_job_count: 1,
        };
        let status = TrackerStatus {
            worker_count: 1,
            slot_count: 3,
            busy_slot_count: 3,
            running_job_count: 2,
            host_count: 1,
        };
        let queues = vec![queue("\"><img src=x onerror=alert(1)>", 2, 6), queue("b", 1, 1)];
        let overview = Overview {
            change: 0,
            epoch: 1,
            started_ms: 0,
            status,
            jobs: ListedJobs::default(),
            workers: Vec::new(),
            log_dirs_left_out: Vec::new(),
            journal: journal::Stats::default(),
            ends: Ends::default(),
            queues,
        };
        let page = page(&overview, &[], 0).into_string();
        assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
        assert!(page.contains("2 of 1.5 slots, 4 wanted besides"), "{page}");
    }
}
