//! The page of one DataNode: what it is, its volumes, and what went wrong there.

use daemon::page::{bar, format};
use maud::{Markup, html};
use protocol::DatanodeId;
use protocol::address::web_url_of;
use protocol::namenode::{
    AdminState, DatanodeDetail, DatanodeReport, DatanodeState, NodeFailureKind, Volume,
};

/// Path of a DataNode's page.
pub(super) fn address(id: DatanodeId) -> String {
    format!("/datanodes/{id}")
}

/// The page.
pub(super) fn page(detail: &DatanodeDetail, now_ms: u64) -> Markup {
    let node = &detail.report;
    html! {
        p.crumbs { a href="/datanodes" { "DataNodes" } }
        h1 { (node.info.host) " " span.soft { (node.info.transfer_address) } }
        (facts(detail, now_ms))
        h2 { "Volumes" }
        @if detail.volumes.is_empty() { p.empty { "It has not told its volumes since the NameNode started." } }
        @else { (volumes(&detail.volumes, now_ms.saturating_sub(node.last_contact_ms))) }
        h2 { "Failures" }
        (failures(detail))
    }
}

fn facts(detail: &DatanodeDetail, now_ms: u64) -> Markup {
    let node = &detail.report;
    let reserved = detail.volumes.iter().map(|volume| volume.reserved);
    let reserved = reserved.fold(0, u64::saturating_add);
    html! {
        div.scroll { table.facts {
            caption.unseen { "This DataNode" }
            tr { th scope="row" { "State" } td.wide { (state(node)) ", last heard of " (format::duration(node.last_contact_ms)) " ago" } }
            tr { th scope="row" { "Id" } td.wide { code { (node.info.id) } } }
            tr { th scope="row" { "Address" } td.wide { (node.info.transfer_address) } }
            @if !node.info.http_address.is_empty() {
                tr { th scope="row" { "Its own page, with charts" } td.wide { a href=(web_url_of(&node.info.http_address)) { (node.info.http_address) } } }
            }
            tr { th scope="row" { "Rack" } td.wide { (node.info.rack) } }
            tr { th scope="row" { "Version" } td.wide { @if detail.program.is_empty() { "not told" } @else { "Hanno " (detail.program) } } }
            tr { th scope="row" { "Capacity" } td.wide { (format::bytes(node.capacity)) ", beside " (format::bytes(reserved)) " reserved for other programs" } }
            tr { th scope="row" { "Used by blocks" } td.wide { (bar(node.used as f32 / node.capacity.max(1) as f32)) span.soft { " " (format::bytes(node.used)) } } }
            tr { th scope="row" { "Used by something else" } td.wide { (format::bytes(node.non_dfs_used)) } }
            tr { th scope="row" { "Free" } td.wide { (format::bytes(node.remaining)) } }
            tr { th scope="row" { "Blocks" } td.wide { (format::count(node.block_count)) ", " (last_report(node, now_ms)) } }
            tr { th scope="row" { "Transfers" } td.wide { (node.transfer_count) } }
        } }
        p.soft {
            "Capacity and free space are those of its disks. Other DataNodes on the same disks have them, too; the overview counts each disk once."
        }
    }
}

fn last_report(node: &DatanodeReport, now_ms: u64) -> String {
    match node.last_report_ms {
        Some(ago_ms) => {
            format!("all reported at {} (UTC)", format::time(now_ms.saturating_sub(ago_ms)))
        }
        None => "not all reported yet".to_owned(),
    }
}

/// As they were at `told_ms`.
fn volumes(volumes: &[Volume], told_ms: u64) -> Markup {
    html! {
        div.scroll { table.cards {
            caption.unseen { "Volumes" }
            thead { tr {
                th scope="col" { "Path" } th scope="col" { "State" } th.number scope="col" { "Capacity" } th.number scope="col" { "Used" }
                th.number scope="col" { "Free" } th.number scope="col" { "Reserved" } th scope="col" { "Device" }
            } }
            tbody { @for volume in volumes { tr #{ "volume-" (volume.path) } {
                td.wide { code { (volume.path) } }
                @match &volume.failure {
                    Some(failure) => {
                        td.wide {
                            span.state.bad { "failed" } " " (format::time(told_ms.saturating_sub(failure.age_ms))) " (UTC): " (failure.reason)
                        }
                        @for _ in 0..4 { td.number { } } td { }
                    }
                    None => {
                        td.wide { span.state.good { "in service" } }
                        td.number { (format::bytes(volume.capacity)) } td.number { (format::bytes(volume.used)) }
                        td.number { (format::bytes(volume.remaining)) } td.number { (format::bytes(volume.reserved)) }
                        td { @match volume.device { Some(device) => (device), None => "not told" } }
                    }
                }
            } } }
        } }
    }
}

fn failures(detail: &DatanodeDetail) -> Markup {
    let failed = detail.report.failed_volumes.len();
    let count = detail.bad_replica_count.saturating_add(detail.slow_count);
    let hidden = count.saturating_sub(detail.failures.len() as u64);
    html! {
        @if failed == 0 && count == 0 { p.empty { "Nothing went wrong there since the NameNode started." } }
        @if failed > 0 { div.alert { (failed) " of its volumes " (if failed == 1 { "is" } else { "are" }) " out of service, see above." } }
        @if let Some(left_ms) = detail.spared_ms {
            div.alert { "It held up a pipeline. For " (format::duration(left_ms)) " it gets new blocks only where there are not enough others." }
        }
        @if count > 0 {
            p.facts {
                span { (format::count(detail.bad_replica_count)) " bad replicas that it reported" }
                span { (format::count(detail.slow_count)) " reports of writers that it is slow" }
                span { "since the NameNode started" }
            }
            div.scroll { table.cards {
                caption.unseen { "Last failures" }
                thead { tr { th scope="col" { "Time (UTC)" } th scope="col" { "What" } } }
                tbody { @for failure in &detail.failures { tr {
                    td { (format::time(failure.at_ms)) }
                    td.wide {
                        @match failure.kind {
                            NodeFailureKind::BadReplica(block) => { "its replica of block " code { (block) } " is damaged, missing or unreadable" },
                            NodeFailureKind::Slow => "a writer found that it holds up a pipeline",
                        }
                    }
                } } }
            } }
            @if hidden > 0 { p.soft { (format::count(hidden)) " earlier ones are only counted." } }
        }
    }
}

/// Whether it is alive, and its service state unless that is normal.
pub(super) fn state(node: &DatanodeReport) -> Markup {
    let (class, name) = match node.state {
        DatanodeState::Dead if node.admin.is_maintenance() => ("warn", "dead"),
        DatanodeState::Live => ("good", "live"),
        DatanodeState::Stale => ("warn", "stale"),
        DatanodeState::Dead => ("bad", "dead"),
    };
    html! {
        span class={ "state " (class) } { (name) }
        @if node.admin != AdminState::Normal {
            " " span.state { (node.admin.title().to_lowercase()) }
            @if let Some(left_ms) = node.maintenance_left_ms { " for " (format::duration(left_ms)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::BlockId;
    use protocol::namenode::{DatanodeInfo, NodeFailure, VolumeFailure};

    use super::*;

    const HOSTILE: &str = "\"><img src=x onerror=alert(1)>";

    fn detail() -> DatanodeDetail {
        let info = DatanodeInfo {
            id: DatanodeId([7; 16]),
            host: HOSTILE.to_owned(),
            transfer_address: HOSTILE.to_owned(),
            http_address: HOSTILE.to_owned(),
            rack: HOSTILE.to_owned(),
            ..DatanodeInfo::default()
        };
        let report = DatanodeReport {
            info,
            capacity: 100 << 30,
            used: 25 << 30,
            remaining: 50 << 30,
            last_contact_ms: 2_000,
            ..DatanodeReport::default()
        };
        DatanodeDetail { report, program: HOSTILE.to_owned(), ..DatanodeDetail::default() }
    }

    #[test]
    fn a_node_tells_its_volumes_and_failures_and_names_stay_text() {
        let mut detail = detail();
        let quiet = page(&detail, 9_000_000).into_string();
        assert!(quiet.contains("has not told its volumes"), "{quiet}");
        assert!(quiet.contains("Nothing went wrong there"), "{quiet}");
        let failure = VolumeFailure { reason: HOSTILE.to_owned(), age_ms: 1_000 };
        detail.report.failed_volumes = vec!["/b".to_owned()];
        detail.volumes = vec![
            Volume { path: HOSTILE.to_owned(), reserved: 3 << 30, ..Volume::default() },
            Volume { path: "/b".to_owned(), failure: Some(failure), ..Volume::default() },
        ];
        detail.bad_replica_count = 1_200;
        detail.slow_count = 1;
        detail.spared_ms = Some(60_000);
        let kind = NodeFailureKind::BadReplica(BlockId(42));
        detail.failures = vec![NodeFailure { at_ms: 1_700_000_000_000, kind }];
        let page = page(&detail, 1_700_000_003_000).into_string();
        for text in [
            "3.0 GiB",
            // Told 2 s ago that it had failed 1 s before.
            "2023-11-14 22:13:20 (UTC): &quot;&gt;&lt;img",
            "2023-11-14 22:13:20</td>",
            "1 of its volumes is out of service",
            "For 1 min 00 s",
            "1\u{202f}200 bad replicas",
            "1\u{202f}200 earlier ones",
            "25%",
        ] {
            assert!(page.contains(text), "`{text}` is not in {page}");
        }
        assert!(!page.contains("<img"), "{page}");
        assert_eq!(address(DatanodeId([7; 16])), format!("/datanodes/{}", "07".repeat(16)));
    }
}
