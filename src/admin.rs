//! `hanno admin` and Hadoop's `dfsadmin`: the state of the cluster, safe mode, a look at metadata on disk.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Subcommand, ValueEnum};
use client::dfs::DfsClient;
use jiff::tz::TimeZone;
use journal::admin::Entry;
use protocol::namenode::{ClusterStatus, DatanodeReport, DatanodeState, SafeModeAction};
use serde_json::{Value, json};

use crate::connect::{Overrides, describe, file_system};
use crate::output::{
    EXIT_FAILED, EXIT_OK, EXIT_USAGE, java_date, print_json, report_size, unless_reader_left,
};

/// Pause between looks of `safemode wait`.
const WAIT_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a key, value or record that `metadata dump` shows.
const DUMP_BYTES_MAX: usize = 256;

/// Commands of `hanno admin`.
#[derive(Subcommand)]
pub(crate) enum AdminCommand {
    /// Capacity, blocks and DataNodes of the cluster
    #[command(after_help = "Example:\n  hanno admin report\n  hanno admin report --json")]
    Report {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Look at safe mode, turn it on or off
    #[command(after_help = "Example:\n  hanno admin safemode get")]
    Safemode {
        /// What to do
        action: SafeMode,
    },
    /// Look at a NameNode's or JobTracker's metadata on disk; the daemon must be stopped
    #[command(subcommand)]
    Metadata(MetadataCommand),
}

/// Commands of `hanno admin metadata`.
#[derive(Subcommand)]
pub(crate) enum MetadataCommand {
    /// Check every byte
    #[command(after_help = "Example:\n  hanno admin metadata verify --dir ~/hanno/namenode-1")]
    Verify {
        /// The daemon's data directory
        #[arg(long)]
        dir: PathBuf,
    },
    /// Print every row and record
    #[command(after_help = "Example:\n  hanno admin metadata dump --dir ~/hanno/namenode-1")]
    Dump {
        /// The daemon's data directory
        #[arg(long)]
        dir: PathBuf,
    },
}

/// What to do about safe mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SafeMode {
    /// Only ask
    Get,
    /// Refuse changes
    Enter,
    /// Allow changes
    Leave,
    /// Return when changes are allowed
    Wait,
}

/// Runs a command of `hanno admin` and returns the exit code.
pub(crate) fn run(command: &AdminCommand, overrides: &Overrides) -> u8 {
    let outcome = match command {
        AdminCommand::Report { json } => report(overrides, *json),
        AdminCommand::Safemode { action } => safe_mode(overrides, *action),
        AdminCommand::Metadata(MetadataCommand::Verify { dir }) => verify(dir),
        AdminCommand::Metadata(MetadataCommand::Dump { dir }) => dump(dir),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("admin: {}", describe(error.as_ref()));
        EXIT_FAILED
    })
}

/// `hdfs dfsadmin`: the commands that exist here, with Hadoop's exit code for failures.
pub(crate) fn dfsadmin(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let words: Vec<String> =
        arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (name, outcome) = match words[..] {
        ["-report", ..] => ("report", report(overrides, false)),
        ["-safemode", action] => match SafeMode::from_str(action, true) {
            Ok(action) => ("safemode", safe_mode(overrides, action)),
            Err(_) => return dfsadmin_usage(),
        },
        _ => return dfsadmin_usage(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{name}: {}", describe(error.as_ref()));
            EXIT_USAGE
        }
    }
}

fn dfsadmin_usage() -> u8 {
    eprintln!("Usage: hdfs dfsadmin [-report] [-safemode enter | leave | get | wait]");
    EXIT_USAGE
}

fn report(overrides: &Overrides, json: bool) -> Result<u8> {
    let client = file_system(&overrides.config()?)?;
    let (status, datanodes) = (client.cluster_status()?, client.datanodes()?);
    if json {
        print_json(&report_json(&status, &datanodes)?)?;
        return Ok(EXIT_OK);
    }
    let text = report_text(&status, &datanodes, client::rpc::now_ms(), &TimeZone::system());
    unless_reader_left(io::stdout().lock().write_all(text.as_bytes()))?;
    Ok(EXIT_OK)
}

/// The same for programs, ids as people write them.
fn report_json(status: &ClusterStatus, datanodes: &[DatanodeReport]) -> Result<Value> {
    let mut shown = serde_json::to_value(status)?;
    shown["cluster"] = status.cluster.to_string().into();
    let mut nodes = serde_json::to_value(datanodes)?;
    for (index, node) in datanodes.iter().enumerate() {
        nodes[index]["info"]["id"] = node.info.id.to_string().into();
    }
    Ok(json!({ "status": shown, "datanodes": nodes }))
}

fn report_text(
    status: &ClusterStatus,
    datanodes: &[DatanodeReport],
    now_ms: u64,
    zone: &TimeZone,
) -> String {
    let (live, dead): (Vec<_>, Vec<_>) =
        datanodes.iter().partition(|node| node.state != DatanodeState::Dead);
    let sum = |part: fn(&DatanodeReport) -> u64| live.iter().map(|node| part(node)).sum::<u64>();
    let (capacity, used, remaining) =
        (sum(|node| node.capacity), sum(|node| node.used), sum(|node| node.remaining));
    let both = |bytes: u64| format!("{bytes} ({})", report_size(bytes));
    let mut text = String::new();
    if let Some(reason) = &status.safe_mode {
        text.push_str(&format!("Safe mode is ON\n{reason}\n"));
    }
    text.push_str(&format!(
        "Configured Capacity: {}\nPresent Capacity: {}\nDFS Remaining: {}\nDFS Used: {}\nDFS Used%: {}\n\
         Replicated Blocks:\n\tUnder replicated blocks: {}\n\tBlocks with corrupt replicas: {}\n\tMissing blocks: {}\n\
         \tMissing blocks (with replication factor 1): 0\n\tLow redundancy blocks with highest priority to recover: 0\n\
         \tPending deletion blocks: {}\n{ERASURE_CODED}\n-------------------------------------------------\n",
        both(capacity),
        both(used + remaining),
        both(remaining),
        both(used),
        percent(used, used + remaining),
        status.low_redundancy_count,
        status.corrupt_count,
        status.missing_count,
        status.pending_deletion_count,
    ));
    for (title, nodes) in [("Live", live), ("Dead", dead)] {
        if nodes.is_empty() {
            continue;
        }
        text.push_str(&format!("{title} datanodes ({}):\n\n", nodes.len()));
        for node in nodes {
            text.push_str(&node_text(node, now_ms, zone));
        }
    }
    text
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
        "Name: {} ({})\nHostname: {}\n{rack}Decommission Status : Normal\nConfigured Capacity: {}\nDFS Used: {}\n\
         Non DFS Used: {}\nDFS Remaining: {}\nDFS Used%: {}\nDFS Remaining%: {}\n\
         Configured Cache Capacity: 0 (0 B)\nCache Used: 0 (0 B)\nCache Remaining: 0 (0 B)\nCache Used%: 100.00%\n\
         Cache Remaining%: 0.00%\nXceivers: {}\nLast contact: {}\nNum of Blocks: {}\n\n\n",
        info.transfer_address,
        info.host,
        info.host,
        both(*capacity),
        both(*used),
        both(capacity.saturating_sub(used + remaining)),
        both(*remaining),
        percent(*used, *capacity),
        percent(*remaining, *capacity),
        node.transfer_count,
        java_date(now_ms.saturating_sub(node.last_contact_ms), zone),
        node.block_count,
    )
}

fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{share:.2}%")
}

fn safe_mode(overrides: &Overrides, action: SafeMode) -> Result<u8> {
    let client = file_system(&overrides.config()?)?;
    let is_on = match action {
        SafeMode::Get => client.safe_mode(SafeModeAction::Get)?,
        SafeMode::Enter => client.safe_mode(SafeModeAction::Enter)?,
        SafeMode::Leave => client.safe_mode(SafeModeAction::Leave)?,
        SafeMode::Wait => wait_until_off(&client)?,
    };
    println!("Safe mode is {}", if is_on { "ON" } else { "OFF" });
    Ok(EXIT_OK)
}

fn wait_until_off(client: &DfsClient) -> Result<bool> {
    while client.safe_mode(SafeModeAction::Get)? {
        thread::sleep(WAIT_PAUSE);
    }
    Ok(false)
}

/// The journal of a daemon lies in its data directory, or in `journal` below.
fn journal_dir(dir: &Path) -> Result<PathBuf> {
    if !dir.is_dir() {
        bail!("{} is not a directory", dir.display());
    }
    let below = dir.join("journal");
    Ok(if below.is_dir() { below } else { dir.to_owned() })
}

fn verify(dir: &Path) -> Result<u8> {
    let report = journal::admin::verify(&journal_dir(dir)?)?;
    println!("log: records {} to {}, epoch {}", report.log_first, report.log_last, report.epoch);
    match report.store_applied {
        Some(applied) => println!("checkpoint: as of {applied}, {} rows", report.store_rows),
        None => println!("checkpoint: none that is usable"),
    }
    for (applied, rows) in &report.images {
        println!("image: as of {applied}, {rows} rows");
    }
    match report.start_from {
        Some(base) => println!("the next start begins from {base}"),
        None => println!("the next start would refuse"),
    }
    for problem in &report.problems {
        println!("problem: {problem}");
    }
    let is_sound = report.problems.is_empty() && report.start_from.is_some();
    println!("{}", if is_sound { "everything is whole" } else { "NOT everything is whole" });
    Ok(if is_sound { EXIT_OK } else { EXIT_FAILED })
}

fn dump(dir: &Path) -> Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    journal::admin::dump(&journal_dir(dir)?, &mut |entry| {
        if written.is_ok() {
            written = out.write_all(entry_text(entry).as_bytes());
        }
        Ok(())
    })?;
    unless_reader_left(written.and_then(|()| out.flush()))?;
    Ok(EXIT_OK)
}

fn entry_text(entry: Entry<'_>) -> String {
    match entry {
        Entry::Row { key, value } => format!("row {} = {}\n", shown(key), shown(value)),
        Entry::Record { txid, epoch, body } => {
            format!("record {txid} epoch {epoch} {}\n", shown(body))
        }
    }
}

/// Text as text, other bytes as `\x..`, long ones cut.
fn shown(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(DUMP_BYTES_MAX)];
    let rest = bytes.len() - cut.len();
    let tail = if rest > 0 { format!(" (and {rest} bytes)") } else { String::new() };
    format!("{}{tail}", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::namenode::DatanodeInfo;
    use protocol::{ClusterId, DatanodeId, Epoch};

    fn status() -> ClusterStatus {
        ClusterStatus {
            cluster: ClusterId([1; 16]),
            epoch: Epoch(1),
            safe_mode: None,
            inode_count: 3,
            block_count: 1,
            low_redundancy_count: 2,
            corrupt_count: 0,
            missing_count: 0,
            pending_replication_count: 0,
            pending_deletion_count: 4,
            replication: 3,
            block_size: 1 << 27,
            live_count: 1,
            dead_count: 0,
            txid: 9,
            trash_interval_ms: 0,
        }
    }

    fn node(state: DatanodeState) -> DatanodeReport {
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
        }
    }

    #[test]
    fn the_report_is_hadoops() {
        let now_ms = 1_767_609_005_000;
        let text = report_text(&status(), &[node(DatanodeState::Live)], now_ms, &TimeZone::UTC);
        let start = "Configured Capacity: 1000 (1000 B)\nPresent Capacity: 900 (900 B)\nDFS Remaining: 800 (800 B)\n\
            DFS Used: 100 (100 B)\nDFS Used%: 11.11%\nReplicated Blocks:\n\tUnder replicated blocks: 2\n";
        assert!(text.starts_with(start), "{text}");
        let end = "Live datanodes (1):\n\nName: 10.0.0.1:9866 (host1)\nHostname: host1\nRack: /r1\n\
            Decommission Status : Normal\nConfigured Capacity: 1000 (1000 B)\nDFS Used: 100 (100 B)\n\
            Non DFS Used: 100 (100 B)\nDFS Remaining: 800 (800 B)\nDFS Used%: 10.00%\nDFS Remaining%: 80.00%\n\
            Configured Cache Capacity: 0 (0 B)\nCache Used: 0 (0 B)\nCache Remaining: 0 (0 B)\nCache Used%: 100.00%\n\
            Cache Remaining%: 0.00%\nXceivers: 0\nLast contact: Mon Jan 05 10:30:00 UTC 2026\nNum of Blocks: 1\n\n\n";
        assert!(text.ends_with(end), "{text}");
        let safe = ClusterStatus { safe_mode: Some("by hand".to_owned()), ..status() };
        let dead = report_text(&safe, &[node(DatanodeState::Dead)], now_ms, &TimeZone::UTC);
        assert!(
            dead.starts_with("Safe mode is ON\nby hand\nConfigured Capacity: 0 (0 B)\n"),
            "{dead}"
        );
        assert!(dead.contains("Dead datanodes (1):") && !dead.contains("Live datanodes"), "{dead}");
    }

    #[test]
    fn ids_in_json_are_text() {
        let json = report_json(&status(), &[node(DatanodeState::Live)]).unwrap();
        assert_eq!(json["status"]["cluster"], "01".repeat(16));
        assert_eq!(json["datanodes"][0]["info"]["id"], "02".repeat(16));
        assert_eq!(json["datanodes"][0]["capacity"], 1000);
    }

    #[test]
    fn dumps_are_text() {
        assert_eq!(shown(b"a\x00\"\xff"), r#"a\x00\"\xff"#);
        assert!(shown(&[b'x'; 300]).ends_with("x (and 44 bytes)"));
    }
}
