//! `-report`: capacity, blocks and DataNodes of the cluster, laid out as Hadoop's.

use std::io::Write;

use jiff::tz::TimeZone;
use protocol::ErrorKind;
use protocol::namenode::{AdminState, ClusterStatus, DatanodeReport, DatanodeState, Room, calls};
use serde_json::{Value, json};

use super::session::{Command, Session, refused};
use crate::dfs::Failure;
use crate::output::{java_date, local_zone, print_json, report_size, unless_reader_left};

/// See the module.
pub(super) const COMMANDS: &[Command] = &[Command {
    name: "report",
    arguments: "[-live] [-dead] [-decommissioning] [-enteringmaintenance] [-inmaintenance] [-slownodes]",
    about: "Reports basic filesystem information and statistics. The options choose which DataNodes are listed.\n-slownodes lists those that are given no new blocks for a while, because a writer found that they held up its pipeline.",
    words: (0, super::MANY),
    run: report,
}];

/// A list of DataNodes in the report.
struct Section {
    /// Option that selects it.
    option: &'static str,
    title: &'static str,
    holds: fn(&DatanodeReport) -> bool,
}

/// In the order in which Hadoop prints them.
const SECTIONS: &[Section] = &[
    Section { option: "live", title: "Live", holds: |node| node.state != DatanodeState::Dead },
    Section { option: "dead", title: "Dead", holds: |node| node.state == DatanodeState::Dead },
    Section {
        option: "decommissioning",
        title: "Decommissioning",
        holds: |node| node.admin == AdminState::DecommissionInProgress,
    },
    Section {
        option: "enteringmaintenance",
        title: "Entering maintenance",
        holds: |node| node.admin == AdminState::EnteringMaintenance,
    },
    Section {
        option: "inmaintenance",
        title: "In maintenance",
        holds: |node| node.admin == AdminState::InMaintenance,
    },
];

/// Option for a list that is there only if it is asked for: it takes a call for each DataNode.
const SLOW: &str = "slownodes";

/// Between the totals and the DataNodes.
const RULE: &str = "-------------------------------------------------\n";

/// Prints the report: everything, or the sections that the words name.
pub(crate) fn report(session: &Session, words: &[String]) -> Result<(), Failure> {
    let mut wanted = Vec::new();
    for word in words {
        let mut options = SECTIONS.iter().map(|section| section.option).chain([SLOW]);
        match options.find(|option| word.trim_start_matches('-') == *option) {
            Some(option) => wanted.push(option),
            None => return Err(Failure::Usage(String::new())),
        }
    }
    let (totals, datanodes) = facts(session)?;
    let (now_ms, zone) = (transport::rpc::now_ms(), local_zone());
    let mut text = report_text(&totals, &datanodes, &wanted, now_ms, zone);
    // Anyone but the superuser sees only the totals, as in HDFS.
    let allowed = session.check_superuser();
    if allowed.is_ok() && wanted.contains(&SLOW) {
        text += &section_text("Slow", &slow(session, &datanodes)?, now_ms, zone);
    }
    let visible = match &allowed {
        Ok(()) => text.as_str(),
        Err(_) => text.find(RULE).map_or(&*text, |at| &text[..at + RULE.len()]),
    };
    let written = crate::output::out().write_all(visible.as_bytes());
    unless_reader_left(written).map_err(Failure::output)?;
    allowed
}

/// Those that writers found slow, as long as they are spared for it.
fn slow<'a>(
    session: &Session,
    datanodes: &'a [DatanodeReport],
) -> Result<Vec<&'a DatanodeReport>, Failure> {
    let mut slow = Vec::new();
    for node in datanodes {
        match session.client.ask(calls::Datanode { datanode: node.info.id }) {
            Ok(detail) => slow.extend(detail.spared_ms.map(|_| node)),
            // It has gone since it was listed, and is spared nothing any more.
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {}
            Err(error) => return Err(refused(&error)),
        }
    }
    Ok(slow)
}

/// The same as JSON.
pub(crate) fn report_as_json(session: &Session) -> Result<(), Failure> {
    print_json(&as_value(session)?).map_err(Failure::output)
}

/// The report for programs.
pub(crate) fn as_value(session: &Session) -> Result<Value, Failure> {
    let (totals, datanodes) = facts(session)?;
    report_json(&totals, &datanodes).map_err(|error| Failure::Text(error.to_string()))
}

/// Of the whole cluster.
struct Totals {
    status: ClusterStatus,
    room: Room,
}

fn facts(session: &Session) -> Result<(Totals, Vec<DatanodeReport>), Failure> {
    let status = session.client.cluster_status().map_err(|error| refused(&error))?;
    let room = session.client.room().map_err(|error| refused(&error))?;
    let datanodes = session.client.datanodes().map_err(|error| refused(&error))?;
    Ok((Totals { status, room }, datanodes))
}

/// The same for programs, ids as people write them.
fn report_json(totals: &Totals, datanodes: &[DatanodeReport]) -> serde_json::Result<Value> {
    let Totals { status, room } = totals;
    let mut totals = serde_json::to_value(status)?;
    totals["cluster"] = status.cluster.to_string().into();
    let mut nodes = serde_json::to_value(datanodes)?;
    for (index, node) in datanodes.iter().enumerate() {
        nodes[index]["info"]["id"] = node.info.id.to_string().into();
    }
    Ok(json!({ "status": totals, "room": room, "datanodes": nodes }))
}

fn report_text(
    Totals { status, room }: &Totals,
    datanodes: &[DatanodeReport],
    wanted: &[&str],
    now_ms: u64,
    zone: &TimeZone,
) -> String {
    let &Room { capacity, used, remaining, .. } = room;
    let both = |bytes: u64| format!("{bytes} ({})", report_size(bytes));
    let mut text = String::new();
    if let Some(reason) = &status.safe_mode {
        text.push_str(&format!("Safe mode is ON\n{reason}\n"));
    }
    for out in &status.log_dirs_left_out {
        text.push_str(&format!("Directory of log_dirs left out: {out}\n"));
    }
    text.push_str(&format!(
        "Configured Capacity: {}\nPresent Capacity: {}\nDFS Remaining: {}\nDFS Used: {}\nDFS Used%: {}\n\
         Replicated Blocks:\n\tUnder replicated blocks: {}\n\tBlocks with corrupt replicas: {}\n\tMissing blocks: {}\n\
         \tMissing blocks (with replication factor 1): {}\n\tLow redundancy blocks with highest priority to recover: {}\n\
         \tPending deletion blocks: {}\n{ERASURE_CODED}\n{RULE}",
        both(capacity),
        both(used + remaining),
        both(remaining),
        both(used),
        percent(used, used + remaining),
        status.low_redundancy_count,
        status.corrupt_count,
        status.missing_count,
        status.missing_single_count,
        status.urgent_count,
        status.pending_deletion_count,
    ));
    for Section { option, title, holds } in SECTIONS {
        let nodes: Vec<_> = datanodes.iter().filter(|node| holds(node)).collect();
        let asked = wanted.contains(option);
        if !asked && (nodes.is_empty() || !wanted.is_empty()) {
            continue;
        }
        text.push_str(&section_text(title, &nodes, now_ms, zone));
    }
    text
}

fn section_text(title: &str, nodes: &[&DatanodeReport], now_ms: u64, zone: &TimeZone) -> String {
    let nodes_text: String = nodes.iter().map(|node| node_text(node, now_ms, zone)).collect();
    format!("{title} datanodes ({}):\n\n{nodes_text}", nodes.len())
}

const ERASURE_CODED: &str = "\
Erasure Coded Block Groups: 
\tLow redundancy block groups: 0
\tBlock groups with corrupt internal blocks: 0
\tMissing block groups: 0
\tLow redundancy blocks with highest priority to recover: 0
\tPending deletion blocks: 0
";

fn node_text(node: &DatanodeReport, now_ms: u64, zone: &TimeZone) -> String {
    let DatanodeReport { info, capacity, used, remaining, .. } = node;
    let both = |bytes: u64| format!("{bytes} ({})", report_size(bytes));
    let rack = match info.rack.as_str() {
        "/default-rack" | "" => String::new(),
        rack => format!("Rack: {rack}\n"),
    };
    format!(
        "Name: {} ({})\nHostname: {}\n{rack}Decommission Status : {}\nConfigured Capacity: {}\nDFS Used: {}\n\
         Non DFS Used: {}\nDFS Remaining: {}\nDFS Used%: {}\nDFS Remaining%: {}\n\
         Configured Cache Capacity: 0 (0 B)\nCache Used: 0 (0 B)\nCache Remaining: 0 (0 B)\nCache Used%: 100.00%\n\
         Cache Remaining%: 0.00%\nXceivers: {}\nLast contact: {}\nLast Block Report: {}\nNum of Blocks: {}\n\n\n",
        info.transfer_address,
        info.host,
        info.host,
        node.admin.text(),
        both(*capacity),
        both(*used),
        both(node.non_dfs_used),
        both(*remaining),
        percent(*used, *capacity),
        percent(*remaining, *capacity),
        node.transfer_count,
        java_date(now_ms.saturating_sub(node.last_contact_ms), zone),
        match node.last_report_ms {
            Some(ago) => java_date(now_ms.saturating_sub(ago), zone),
            None => "Never".to_owned(),
        },
        node.block_count,
    )
}

fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{share:.2}%")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use protocol::namenode::DatanodeInfo;
    use protocol::{ClusterId, DatanodeId, Epoch};

    pub(crate) fn status() -> ClusterStatus {
        ClusterStatus {
            cluster: ClusterId([1; 16]),
            epoch: Epoch(1),
            safe_mode: None,
            inode_count: 3,
            block_count: 1,
            low_redundancy_count: 2,
            corrupt_count: 0,
            missing_count: 0,
            missing_single_count: 0,
            urgent_count: 1,
            pending_replication_count: 0,
            pending_deletion_count: 4,
            replication: 3,
            block_size: 1 << 27,
            live_count: 1,
            dead_count: 0,
            txid: 9,
            trash_interval_ms: 0,
            log_dirs_left_out: Vec::new(),
        }
    }

    pub(crate) fn node(state: DatanodeState) -> DatanodeReport {
        let info = DatanodeInfo {
            id: DatanodeId([2; 16]),
            host: "host1".to_owned(),
            transfer_address: "10.0.0.1:9866".to_owned(),
            http_address: String::new(),
            rack: "/r1".to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        };
        let (capacity, used, remaining) = (1000, 100, 800);
        let (block_count, transfer_count, last_contact_ms) = (1, 0, 5000);
        DatanodeReport {
            info,
            state,
            capacity,
            used,
            remaining,
            block_count,
            transfer_count,
            last_contact_ms,
            last_report_ms: Some(1_800_000),
            non_dfs_used: 100,
            ..DatanodeReport::default()
        }
    }

    fn totals(status: ClusterStatus) -> Totals {
        let room = Room { capacity: 1000, used: 100, non_dfs_used: 100, remaining: 800 };
        Totals { status, room }
    }

    #[test]
    fn the_report_is_hadoops() {
        let now_ms = 1_767_609_005_000;
        let totals = totals(status());
        let text = report_text(&totals, &[node(DatanodeState::Live)], &[], now_ms, &TimeZone::UTC);
        let start = "Configured Capacity: 1000 (1000 B)\nPresent Capacity: 900 (900 B)\nDFS Remaining: 800 (800 B)\n\
            DFS Used: 100 (100 B)\nDFS Used%: 11.11%\nReplicated Blocks:\n\tUnder replicated blocks: 2\n";
        assert!(text.starts_with(start), "{text}");
        let end = "Live datanodes (1):\n\nName: 10.0.0.1:9866 (host1)\nHostname: host1\nRack: /r1\n\
            Decommission Status : Normal\nConfigured Capacity: 1000 (1000 B)\nDFS Used: 100 (100 B)\n\
            Non DFS Used: 100 (100 B)\nDFS Remaining: 800 (800 B)\nDFS Used%: 10.00%\nDFS Remaining%: 80.00%\n\
            Configured Cache Capacity: 0 (0 B)\nCache Used: 0 (0 B)\nCache Remaining: 0 (0 B)\nCache Used%: 100.00%\n\
            Cache Remaining%: 0.00%\nXceivers: 0\nLast contact: Mon Jan 05 10:30:00 UTC 2026\nLast Block Report: Mon Jan 05 10:00:05 UTC 2026\nNum of Blocks: 1\n\n\n";
        assert!(text.ends_with(end), "{text}");
        let safe = ClusterStatus { safe_mode: Some("by hand".to_owned()), ..status() };
        let safe = Totals { status: safe, room: Room::default() };
        let dead = report_text(&safe, &[node(DatanodeState::Dead)], &[], now_ms, &TimeZone::UTC);
        assert!(
            dead.starts_with("Safe mode is ON\nby hand\nConfigured Capacity: 0 (0 B)\n"),
            "{dead}"
        );
        let out = ClusterStatus { log_dirs_left_out: vec!["/m: no room".to_owned()], ..status() };
        let out = Totals { status: out, room: Room::default() };
        let text = report_text(&out, &[], &[], now_ms, &TimeZone::UTC);
        assert!(
            text.starts_with("Directory of log_dirs left out: /m: no room\nConfigured"),
            "{text}"
        );
        assert!(dead.contains("Dead datanodes (1):") && !dead.contains("Live datanodes"), "{dead}");
    }

    #[test]
    fn nodes_out_of_service_have_sections_of_their_own_and_no_room() {
        let leaving = |admin| DatanodeReport { admin, ..node(DatanodeState::Live) };
        let nodes = [
            node(DatanodeState::Live),
            leaving(AdminState::EnteringMaintenance),
            leaving(AdminState::InMaintenance),
            DatanodeReport { state: DatanodeState::Dead, ..leaving(AdminState::InMaintenance) },
        ];
        let text =
            |wanted: &[&str]| report_text(&totals(status()), &nodes, wanted, 0, &TimeZone::UTC);
        let all = text(&[]);
        for part in [
            "Configured Capacity: 1000 (1000 B)\n",
            "Low redundancy blocks with highest priority to recover: 1\n",
            "Live datanodes (3):\n",
            "Dead datanodes (1):\n",
            "Entering maintenance datanodes (1):\n",
            "In maintenance datanodes (2):\n",
            "Decommission Status : Entering maintenance\n",
            "Decommission Status : In maintenance\n",
        ] {
            assert!(all.contains(part), "`{part}` is not in {all}");
        }
        let slow = text(&[SLOW]);
        assert!(
            !slow.contains("Live datanodes") && slow.ends_with(RULE),
            "others are not listed: {slow}"
        );
        let none = section_text("Slow", &[], 0, &TimeZone::UTC);
        assert_eq!(none, "Slow datanodes (0):\n\n");
        let some = text(&["inmaintenance", "decommissioning"]);
        assert!(some.contains("Decommissioning datanodes (0):"), "{some}");
        assert!(some.contains("In maintenance datanodes (2):") && !some.contains("Live datanodes"));
    }

    #[test]
    fn ids_in_json_are_text() {
        let json = report_json(&totals(status()), &[node(DatanodeState::Live)]).unwrap();
        assert_eq!(json["status"]["cluster"], "01".repeat(16));
        assert_eq!(json["datanodes"][0]["info"]["id"], "02".repeat(16));
        assert_eq!(json["datanodes"][0]["capacity"], 1000);
        assert_eq!(json["room"]["remaining"], 800);
    }
}
