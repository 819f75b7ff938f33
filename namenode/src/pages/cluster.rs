//! The cluster at a glance, and its DataNodes.

use daemon::page::{bar, format};
use maud::{Markup, html};
use protocol::namenode::{ClusterStatus, DatanodeReport, DatanodeState, Room};

use super::datanode;

/// The overview mentions a DataNode that is this full.
const FULL_PERCENT: u64 = 90;

/// The overview.
pub(super) fn overview(
    (status, room): (&ClusterStatus, &Room),
    nodes: &[DatanodeReport],
    warning: Option<&str>,
) -> Markup {
    let &Room { capacity, used, remaining, .. } = room;
    let stale = nodes.iter().filter(|node| node.state == DatanodeState::Stale).count();
    html! {
        h1 { "Overview" }
        @if let Some(text) = warning { div.alert { (text) } }
        @for text in alerts(status, nodes) { div.alert { (text) } }
        @if alerts(status, nodes).is_empty() { div.alert.good { "All is well: no node is missing, no block lacks a replica." } }
        div.tiles {
            div.tile { b { (format::count(status.inode_count)) } span { "files and directories" } }
            div.tile { b { (format::count(status.block_count)) } span { "blocks" } }
            a.tile href="/datanodes" {
                b { (status.live_count) @if status.dead_count > 0 { span.bad { " + " (status.dead_count) " dead" } } }
                span { "live DataNodes" @if stale > 0 { ", " (stale) " stale" } }
            }
            div.tile { b { (format::bytes(remaining)) } span { "free of " (format::bytes(capacity)) } }
            div.tile { b { (format::bytes(used)) } span { "used by blocks" } }
        }
        (space(used, remaining, capacity))
        div.columns { section {
        h2 { "Blocks" }
        div.scroll { table {
            caption.unseen { "Blocks that need work" }
            (row("Under-replicated", status.low_redundancy_count, true))
            (row("With a corrupt replica", status.corrupt_count, true))
            (row("Missing: no good replica", status.missing_count, true))
            (row("Replicas being copied", status.pending_replication_count, false))
            (row("Replicas to delete", status.pending_deletion_count, false))
        } }
        } section {
        h2 { "This cluster" }
        div.scroll { table {
            caption.unseen { "This cluster" }
            tr { th scope="row" { "Cluster" } td { code { (status.cluster) } } }
            tr { th scope="row" { "Start of the NameNode" } td { (status.epoch) } }
            tr { th scope="row" { "Last durable transaction" } td { (format::count(status.txid)) } }
            tr { th scope="row" { "Replication by default" } td { (status.replication) } }
            tr { th scope="row" { "Block size by default" } td { (format::bytes(status.block_size)) } }
        } }
        } }
    }
}

/// One bar for the whole cluster's disks.
fn space(used: u64, remaining: u64, capacity: u64) -> Markup {
    let share = |part: u64| (part as f64 / capacity.max(1) as f64 * 1000.0).round();
    let other = capacity.saturating_sub(used).saturating_sub(remaining);
    html! {
        svg.strip viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label="Use of the disks" {
            rect.used x="0" y="0" width=(share(used)) height="14" { title { (format::bytes(used)) " in blocks" } }
            rect.other x=(share(used)) y="0" width=(share(other)) height="14" { title { (format::bytes(other)) " of something else" } }
        }
        div.legend {
            span { i.used {} "blocks " (format::bytes(used)) } span { i.other {} "something else " (format::bytes(other)) }
            span { i.free {} "free " (format::bytes(remaining)) }
        }
    }
}

fn row(name: &str, count: u64, is_bad: bool) -> Markup {
    html! { tr { th scope="row" { (name) } td.number { span.state.warn[is_bad && count > 0] { (format::count(count)) } } } }
}

fn alerts(status: &ClusterStatus, nodes: &[DatanodeReport]) -> Vec<String> {
    let mut alerts = Vec::new();
    if let Some(reason) = &status.safe_mode {
        alerts.push(format!("Safe mode: nothing can be changed. {reason}"));
    }
    for out in &status.log_dirs_left_out {
        alerts.push(format!(
            "The metadata has a copy less, a directory of log_dirs is left out: {out}."
        ));
    }
    if status.low_redundancy_count > 0 {
        alerts.push(format!(
            "{} blocks have too few replicas; {} copies are under way.",
            status.low_redundancy_count, status.pending_replication_count
        ));
    }
    if status.missing_count > 0 {
        alerts.push(format!(
            "{} blocks have no good replica: `hanno fsck / -list-corruptfileblocks` names their files.",
            status.missing_count
        ));
    }
    let dead: Vec<&str> = nodes
        .iter()
        .filter(|node| node.state == DatanodeState::Dead && !node.admin.is_maintenance())
        .map(|node| node.info.transfer_address.as_str())
        .collect();
    if !dead.is_empty() {
        alerts.push(format!("Dead DataNodes: {}.", dead.join(", ")));
    }
    for node in nodes.iter().filter(|node| node.state != DatanodeState::Dead) {
        let full = node.capacity.saturating_sub(node.remaining).saturating_mul(100);
        if full.checked_div(node.capacity).is_some_and(|percent| percent >= FULL_PERCENT) {
            alerts.push(format!(
                "{} ({}) has {} left.",
                node.info.host,
                node.info.transfer_address,
                format::bytes(node.remaining)
            ));
        }
    }
    alerts
}

/// The table of DataNodes.
pub(super) fn datanodes(nodes: &[DatanodeReport]) -> Markup {
    html! {
        h1 { "DataNodes" }
        div.scroll { table.cards {
            caption.unseen { "DataNodes" }
            thead { tr {
                th scope="col" { "Machine" } th scope="col" { "Address" } th scope="col" { "Rack" } th scope="col" { "State" }
                th.number scope="col" { "Capacity" } th scope="col" { "Used" }
                th.number scope="col" { "Free" } th.number scope="col" { "Blocks" } th.number scope="col" { "Transfers" }
                th.number scope="col" { "Last heard of" }
            } }
            tbody { @for node in nodes {
                tr {
                    td { a href=(datanode::address(node.info.id)) { (node.info.host) } } td { (node.info.transfer_address) } td { (node.info.rack) }
                    td {
                        (datanode::state(node))
                        @if !node.failed_volumes.is_empty() { br; span.state.bad { (node.failed_volumes.len()) " failed volumes" } }
                    }
                    td.number { (format::bytes(node.capacity)) }
                    td { (bar(node.used as f32 / node.capacity.max(1) as f32)) span.soft { " " (format::bytes(node.used)) } }
                    td.number { (format::bytes(node.remaining)) } td.number { (format::count(node.block_count)) }
                    td.number { (node.transfer_count) } td.number { (format::duration(node.last_contact_ms)) " ago" }
                }
            } }
        } }
    }
}
