//! `hanno fsck`: the health of every file below a path, in HDFS's words.
//!
//! Files come from the NameNode in pages; totals, texts and repairs are this side's. The exit code is HDFS's: 0 healthy or no such path, 1 corrupt, 255 could
//! not run or not do all that it should, and with `--json` no such path; with `-blockId` 2 to 5 for the admin state of the last replica's DataNode.

mod actions;
mod lines;
mod request;
mod totals;
mod walk;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write;
use std::net::UdpSocket;
use std::time::Instant;

use anyhow::{Context, Result};
use client::dfs::DfsClient;
use protocol::address::authority_of;
use protocol::namenode::{BlockInfo, DOT_SNAPSHOT, ReplicaState, calls};
use protocol::{BlockId, DfsPath, ErrorKind};
use serde::Serialize;

use self::request::{Request, USAGE};
use self::totals::Totals;
use self::walk::{Entry, walk};
use crate::connect::{Overrides, describe, file_system};
use crate::output::{
    Buffered, EXIT_FAILED, EXIT_OK, EXIT_USAGE, java_date, local_zone, print_json, report,
    report_text, say, unless_reader_left,
};
use crate::reference::Outline;

/// Exit codes of `-blockId` that HDFS has for the state of the last replica's DataNode.
const EXIT_DECOMMISSIONED: u8 = 2;
const EXIT_DECOMMISSIONING: u8 = 3;
const EXIT_IN_MAINTENANCE: u8 = 4;
const EXIT_ENTERING_MAINTENANCE: u8 = 5;

/// The options for completions and the manual page.
pub(crate) fn outline() -> Outline {
    Outline::with_options(USAGE)
}

/// Runs the command line after `fsck` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let parsed = crate::generic::generic(arguments, overrides)
        .and_then(|(words, overrides)| Ok((Request::parse(&words)?, overrides)));
    // As Hadoop's: its first word is no generic option.
    if arguments.first().is_none_or(|first| first == "-files") {
        report_text!("{USAGE}");
        return EXIT_USAGE;
    }
    let (request, overrides) = match parsed {
        Ok(parsed) => parsed,
        Err(text) => {
            report_text!("fsck: {text}\n{USAGE}");
            return EXIT_USAGE;
        }
    };
    if request.help {
        say!("{}", USAGE.trim_end());
        return EXIT_OK;
    }
    if request.json {
        crate::output::only_json();
    }
    let outcome = match (&request.block_ids[..], request.list_corrupt) {
        ([], false) => check(&request, &overrides),
        ([], true) => list_corrupt(&request, &overrides),
        _ => look_up(&request, &overrides),
    };
    outcome.unwrap_or_else(|error| {
        report!("fsck: {}", describe(error.as_ref()));
        EXIT_USAGE
    })
}

/// Contacts the NameNode, and reports that on standard error as HDFS does.
fn connect(overrides: &Overrides, query: &str) -> Result<DfsClient> {
    let client = file_system(&overrides.config()?)?;
    report!("Connecting to namenode via {}/fsck?ugi={}{query}", client.namenode(), client.user());
    Ok(client)
}

fn path_of(client: &DfsClient, text: &str) -> Result<DfsPath> {
    let resolver = crate::dfs::Resolver::new(client.user(), client.site());
    resolver.cluster_path(text).map_err(|failure| anyhow::anyhow!("{failure}"))
}

fn begin(client: &DfsClient, what: &str) -> String {
    let (user, from) = (client.user(), own_address(client.namenode()));
    format!("FSCK started by {user} (auth:SIMPLE) from /{from}{what} at {}\n", now())
}

/// This machine's address as the NameNode sees it.
fn own_address(namenode: &str) -> String {
    // Connecting a datagram socket sends nothing; it only determines the route.
    let way = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect(authority_of(namenode))?;
        socket.local_addr()
    });
    way.map_or_else(|_| sys::host::host_name(), |address| address.ip().to_string())
}

fn check(request: &Request, overrides: &Overrides) -> Result<u8> {
    let client = if request.json {
        file_system(&overrides.config()?)?
    } else {
        connect(overrides, &request.query())?
    };
    let path = path_of(&client, &request.path)?;
    let started = Instant::now();
    if request.json {
        return examine(request, (&client, &path), started);
    }
    let beginning = begin(&client, &format!(" for path {path}")) + "\n";
    unless_reader_left(crate::output::out().write_all(beginning.as_bytes()))?;
    examine(request, (&client, &path), started).or_else(|error| {
        let ms = started.elapsed().as_millis();
        say!("FSCK ended at {} in {ms} milliseconds\n{}\n\n", now(), describe(error.as_ref()));
        say!("Fsck on path '{path}' FAILED");
        Ok(EXIT_USAGE)
    })
}

fn examine(
    request: &Request,
    (client, path): (&DfsClient, &DfsPath),
    started: Instant,
) -> Result<u8> {
    let mut out = Buffered::new()?;
    let (mut totals, mut all_done) = (Totals::new(client)?, true);
    let whole = walk(client, (path, request.snapshots), &mut |entry| {
        let mut text = String::new();
        let file = match entry {
            Entry::File(file) => file,
            Entry::Directory(directory) => {
                if request.files && !request.json {
                    text = format!("{directory} <dir>\n");
                }
                return unless_reader_left(out.write_all(text.as_bytes()))
                    .context("cannot write to standard output");
            }
        };
        totals.add(file, (request.open_for_write, request.maintenance));
        if !request.json {
            lines::describe_file(file, request, &totals.pool, &mut text);
        }
        // Files in a snapshot are read-only.
        let is_former = file.path.elements().any(|element| element == DOT_SNAPSHOT);
        if actions::is_damaged(file) && !is_former {
            all_done &= actions::repair(client, request, file);
        }
        let written = out.write_all(text.as_bytes());
        unless_reader_left(written).context("cannot write to standard output")
    })?;
    let Some(directory_count) = whole else {
        if request.json {
            return Err(missing(path));
        }
        unless_reader_left(writeln!(out, "\nPath '{path}' does not exist"))?;
        unless_reader_left(out.flush())?;
        return Ok(EXIT_OK);
    };
    totals.directory_count = directory_count;
    let code = if all_done { totals.exit_code() } else { EXIT_USAGE };
    if request.json {
        drop(out);
        print_json(&totals)?;
        return Ok(code);
    }
    let mut text = totals.text();
    if request.storage_policies {
        text.push_str(&totals.storage_policies_text());
    }
    let ms = started.elapsed().as_millis();
    let state = if totals.is_healthy() { "HEALTHY" } else { "CORRUPT" };
    text.push_str(&format!("FSCK ended at {} in {ms} milliseconds\n\n\n", now()));
    text.push_str(&format!("The filesystem under path '{path}' is {state}\n"));
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    unless_reader_left(written).context("cannot write to standard output")?;
    Ok(code)
}

/// With `--json` this is an error: there is nothing that a document could tell of.
fn missing(path: &DfsPath) -> anyhow::Error {
    anyhow::anyhow!("Path '{path}' does not exist")
}

/// `-list-corruptfileblocks`: blocks without a good replica, and their files.
fn list_corrupt(request: &Request, overrides: &Overrides) -> Result<u8> {
    let client = connect(overrides, &request.query())?;
    let path = path_of(&client, &request.path)?;
    let mut found = Vec::new();
    let whole = walk(&client, (&path, request.snapshots), &mut |entry| {
        let Entry::File(file) = entry else { return Ok(true) };
        for block in lines::complete_blocks(file).iter().filter(|block| block.good_count() == 0) {
            let (block, path) = (format!("blk_{}", block.id), file.path.clone());
            found.push(CorruptBlock { block, path });
        }
        Ok(true)
    })?;
    let code = if found.is_empty() { EXIT_OK } else { EXIT_USAGE };
    if request.json {
        whole.ok_or_else(|| missing(&path))?;
        print_json(&found)?;
        return Ok(code);
    }
    let mut out = crate::output::out();
    if whole.is_none() {
        unless_reader_left(writeln!(out, "\nPath '{path}' does not exist"))?;
        return Ok(EXIT_OK);
    }
    let mut text = String::new();
    if !found.is_empty() {
        text.push_str(&format!("The list of corrupt blocks under path '{path}' are:\n"));
    }
    for CorruptBlock { block, path } in &found {
        text.push_str(&format!("{block}\t{path}\n"));
    }
    let block_count = found.len();
    text.push_str(&format!(
        "The filesystem under path '{path}' has {block_count} CORRUPT blocks\n"
    ));
    unless_reader_left(out.write_all(text.as_bytes()))?;
    Ok(code)
}

/// A block without a good replica, and its file.
#[derive(Serialize)]
struct CorruptBlock {
    block: String,
    path: DfsPath,
}

/// What `-blockId --json` prints of each block; the facts are `null` for one that does not exist.
#[derive(Serialize)]
struct FoundBlock<'a> {
    block: &'a str,
    facts: Option<BlockInfo>,
}

/// `-blockId --json`.
fn look_up_json(ids: &[String], client: &DfsClient) -> Result<u8> {
    let mut all = Vec::new();
    for id in ids {
        let block = block_of(id).with_context(|| format!("Incorrect blockId format: {id}"))?;
        let facts = match client.ask(calls::BlockInfo { block }) {
            Ok(info) => Some(info),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        all.push(FoundBlock { block: id, facts });
    }
    print_json(&all)?;
    Ok(if all.iter().all(|found| found.facts.is_some()) { EXIT_OK } else { EXIT_FAILED })
}

/// `-blockId`: facts about single blocks.
fn look_up(request: &Request, overrides: &Overrides) -> Result<u8> {
    let (ids, maintenance) = (&request.block_ids, request.maintenance);
    let client = connect(overrides, &format!("&blockId={}", ids.join("+")))?;
    if request.json {
        return look_up_json(ids, &client);
    }
    let mut text = begin(&client, "");
    let mut code = EXIT_OK;
    for id in ids {
        code = EXIT_OK;
        let Some(block) = block_of(id) else {
            text.push_str(&format!("Incorrect blockId format: {id}\n"));
            continue;
        };
        text.push('\n');
        match client.ask(calls::BlockInfo { block }) {
            Ok(info) => code = describe_block(&info, (id, maintenance), &mut text),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                text.push_str(&format!("Block {id} does not exist\n"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    unless_reader_left(crate::output::out().write_all(text.as_bytes()))?;
    Ok(code)
}

/// Facts of a block and the state of each replica; as HDFS's, the exit code is that of the last replica.
fn describe_block(info: &BlockInfo, (id, maintenance): (&str, bool), text: &mut String) -> u8 {
    let count = |is_counted: fn(ReplicaState) -> bool| {
        info.replicas.iter().filter(|(_, state)| is_counted(*state)).count()
    };
    let mut line = |name: &str, value: &dyn Display| {
        text.push_str(&format!("{name}: {value}\n"));
    };
    line("Block Id", &id);
    line("Block belongs to", &info.path);
    line("No. of Expected Replica", &info.replication);
    line("No. of live Replica", &count(ReplicaState::is_live));
    line("No. of excess Replica", &count(|state| state == ReplicaState::Excess));
    line("No. of stale Replica", &count(|state| state == ReplicaState::Stale));
    line("No. of decommissioned Replica", &count(|state| state == ReplicaState::Decommissioned));
    line("No. of decommissioning Replica", &count(|state| state == ReplicaState::Decommissioning));
    if maintenance {
        let entering = count(|state| state == ReplicaState::EnteringMaintenance);
        line("No. of entering maintenance Replica", &entering);
        line("No. of in maintenance Replica", &count(|state| state == ReplicaState::InMaintenance));
    }
    line("No. of corrupted Replica", &count(|state| matches!(state, ReplicaState::Corrupt(_))));
    let mut code = EXIT_FAILED;
    for (node, state) in &info.replicas {
        let (words, of_state) = words_of(*state, maintenance);
        let (host, rack) = (&node.host, &node.rack);
        text.push_str(&format!("Block replica on datanode/rack: {host}{rack} is {words}\n"));
        code = of_state;
    }
    code
}

/// HDFS's words for a replica, and their exit code. Maintenance appears only on request.
fn words_of(state: ReplicaState, maintenance: bool) -> (String, u8) {
    let (words, code) = match state {
        ReplicaState::Corrupt(reason) => {
            return (format!("CORRUPT\t ReasonCode: {}", reason.text()), EXIT_FAILED);
        }
        ReplicaState::Decommissioned => ("DECOMMISSIONED", EXIT_DECOMMISSIONED),
        ReplicaState::Decommissioning => ("DECOMMISSIONING", EXIT_DECOMMISSIONING),
        ReplicaState::EnteringMaintenance if maintenance => {
            ("ENTERING MAINTENANCE", EXIT_ENTERING_MAINTENANCE)
        }
        ReplicaState::InMaintenance if maintenance => ("IN MAINTENANCE", EXIT_IN_MAINTENANCE),
        ReplicaState::Stale => ("STALE", EXIT_USAGE),
        ReplicaState::Live
        | ReplicaState::Excess
        | ReplicaState::EnteringMaintenance
        | ReplicaState::InMaintenance => ("HEALTHY", EXIT_OK),
    };
    (words.to_owned(), code)
}

/// `blk_7` or `blk_7_1001`; the generation stamp does not matter.
fn block_of(text: &str) -> Option<BlockId> {
    let rest = text.strip_prefix("blk_")?;
    let (id, stamp) = rest.split_once('_').unwrap_or((rest, "0"));
    stamp.parse::<u64>().ok()?;
    id.parse().ok().map(BlockId)
}

fn now() -> String {
    java_date(transport::rpc::now_ms(), local_zone())
}

#[cfg(test)]
pub(super) mod tests {
    use super::lines::describe_file;
    use super::walk::entries;
    use super::*;
    use protocol::namenode::{
        CorruptReason, DatanodeInfo, FileStatus, FsckBlock, FsckFile, FsckPage,
    };
    use protocol::{BlockId, DatanodeId, GenerationStamp, InodeId};

    const POOL: &str = "BP-1";
    const BAD: ReplicaState = ReplicaState::Corrupt(CorruptReason::CorruptionReported);

    fn node(number: u8) -> DatanodeInfo {
        DatanodeInfo {
            id: DatanodeId([number; 16]),
            host: format!("h{number}"),
            transfer_address: format!("10.0.0.{number}:9866"),
            http_address: String::new(),
            rack: "/r1".to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        }
    }

    pub(crate) fn file(path: &str, replication: u16, blocks: &[(u64, u8, u8)]) -> FsckFile {
        let status = FileStatus {
            name: String::new(),
            inode: InodeId(20_000),
            directory: false,
            length: blocks.iter().map(|(length, ..)| length).sum(),
            replication,
            block_size: 1 << 27,
            owner: String::new(),
            group: String::new(),
            mode: 0o644,
            mtime_ms: 0,
            atime_ms: 0,
            children_count: 0,
            open: false,
            has_acl: false,
            snapshottable: false,
            storage_policy: None,
        };
        let block = |(index, (length, live, corrupt)): (usize, &(u64, u8, u8))| FsckBlock {
            id: BlockId(1_073_741_825 + index as u64),
            stamp: GenerationStamp(1001),
            length: *length,
            replicas: (1..=live + corrupt)
                .map(|number| {
                    (node(number), if number <= *live { ReplicaState::Live } else { BAD })
                })
                .collect(),
            misplaced: false,
        };
        let blocks = blocks.iter().enumerate().map(block).collect();
        FsckFile {
            path: DfsPath::parse(path).unwrap(),
            status,
            blocks,
            lost_bytes: 0,
            awaited: Vec::new(),
        }
    }

    /// The totals of all files.
    fn whole(files: &[FsckFile], request: &Request) -> (Totals, String) {
        let mut totals = Totals {
            datanode_count: 3,
            rack_count: 1,
            directory_count: 2,
            default_replication: 3,
            ..Totals::default()
        };
        let mut text = String::new();
        for file in files {
            totals.add(file, (request.open_for_write, request.maintenance));
            describe_file(file, request, POOL, &mut text);
        }
        text.push_str(&totals.text());
        (totals, text)
    }

    #[test]
    fn a_file_that_lost_synced_bytes_is_corrupt_until_it_is_gone() {
        let lost = FsckFile { lost_bytes: 20, ..file("/f", 3, &[(80, 3, 0)]) };
        let (totals, text) = whole(&[lost, file("/g", 3, &[(15, 3, 0)])], &Request::default());
        let line = "\n/f: CORRUPT: 20 bytes that a writer had synced are lost behind its end. Copy what is left, then delete it.\n";
        assert!(text.contains(line) && text.contains("Status: CORRUPT"), "{text}");
        assert!(
            text.contains("  CORRUPT FILES:\t1\n  CUT OFF FILES:\t1\n  CUT OFF SIZE:\t\t20 B\n"),
            "{text}"
        );
        assert_eq!((totals.exit_code(), totals.corrupt_block_count), (EXIT_FAILED, 0));
    }

    #[test]
    fn a_file_whose_recovery_waits_for_dead_datanodes_is_told_with_and_without_openforwrite() {
        let mut waiting = FsckFile {
            awaited: vec!["a:9866".to_owned(), "b:9866".to_owned()],
            ..file("/f", 3, &[(80, 0, 0)])
        };
        waiting.status.open = true;
        let line = "/f: WAITING: its writer is gone, and its last block may need DataNodes that are dead: a:9866, b:9866. \
             It is closed when they are back, or without what they have after the hard limit of leases.\n";
        for open_for_write in [false, true] {
            let request = Request { open_for_write, ..Request::default() };
            let (totals, text) = whole(&[waiting.clone(), file("/g", 3, &[(15, 3, 0)])], &request);
            assert!(text.contains(line) && text.contains("Status: HEALTHY"), "{text}");
            assert!(text.contains("\n Files that wait for dead data-nodes:\t1\n"), "{text}");
            assert!(!text.contains(" OK\n"), "{text}");
            assert_eq!((totals.exit_code(), totals.waiting_file_count), (EXIT_OK, 1));
        }
    }

    #[test]
    fn a_healthy_report() {
        let files = [file("/f", 3, &[(1500, 3, 0)]), file("/g", 3, &[(15, 3, 0)])];
        let (totals, text) = whole(&files, &Request::default());
        let expected = "\nStatus: HEALTHY\n Number of data-nodes:\t3\n Number of racks:\t\t1\n Total dirs:\t\t\t2\n \
            Total symlinks:\t\t0\n\nReplicated Blocks:\n Total size:\t1515 B\n Total files:\t2\n \
            Total blocks (validated):\t2 (avg. block size 757 B)\n Minimally replicated blocks:\t2 (100.0 %)\n \
            Over-replicated blocks:\t0 (0.0 %)\n Under-replicated blocks:\t0 (0.0 %)\n Mis-replicated blocks:\t\t0 (0.0 %)\n \
            Default replication factor:\t3\n Average block replication:\t3.0\n Missing blocks:\t\t0\n Corrupt blocks:\t\t0\n \
            Missing replicas:\t\t0 (0.0 %)\n Blocks queued for replication:\t0\n\nErasure Coded Block Groups:\n";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(totals.exit_code(), EXIT_OK);
        let (_, empty) = whole(&[], &Request::default());
        assert!(empty.contains("Total blocks (validated):\t0\n Minimally replicated blocks:\t0\n"));
    }

    #[test]
    fn damage_is_told_and_decides_the_exit_code() {
        let files =
            [file("/a", 3, &[(10, 2, 0), (10, 3, 1)]), file("/b", 3, &[(7, 0, 0), (5, 0, 3)])];
        let (totals, text) = whole(&files, &Request::default());
        for part in [
            "\n/a:  Under replicated BP-1:blk_1073741825_1001. Target Replicas is 3 but found 2 live replica(s), 0 decommissioned replica(s), 0 decommissioning replica(s).\n",
            "\n/b: CORRUPT blockpool BP-1 block blk_1073741826\n",
            "\n/b: MISSING 1 blocks of total size 7 B.\n/b: CORRUPT 1 blocks of total size 5 B.\nStatus: CORRUPT",
            "  UNDER MIN REPL'D BLOCKS:\t2 (50.0 %)",
            "  CORRUPT FILES:\t1",
            "  MISSING BLOCKS:\t1",
            "  CORRUPT BLOCKS: \t1",
            " Under-replicated blocks:\t1 (25.0 %)",
        ] {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
        assert_eq!(totals.exit_code(), EXIT_FAILED);
        let (_, text) = whole(&files, &Request { files: true, blocks: true, ..Request::default() });
        for part in [
            "/a 20 bytes, replicated: replication=3, 2 block(s):  Under replicated BP-1:blk_1073741825_1001. Target",
            "/b 12 bytes, replicated: replication=3, 2 block(s): \n/b: CORRUPT blockpool BP-1 block blk_1073741826\n MISSING 1 blocks of total size 7 B\n CORRUPT 1 blocks of total size 5 B\n",
            "0. BP-1:blk_1073741825_1001 len=7 MISSING!\n1. BP-1:blk_1073741826_1001 len=5 Live_repl=0\n",
        ] {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
    }

    #[test]
    fn replicas_on_nodes_out_of_service_are_named_and_those_in_maintenance_count_if_asked_for() {
        let mut file = file("/f", 3, &[(10, 3, 0)]);
        file.blocks[0].replicas[1].1 = ReplicaState::InMaintenance;
        file.blocks[0].replicas[2].1 = ReplicaState::Decommissioned;
        let (_, text) = whole(std::slice::from_ref(&file), &Request::default());
        for part in [
            "found 1 live replica(s), 1 decommissioned replica(s), 0 decommissioning replica(s).\n",
            " DecommissionedReplicas:\t1\n InMaintenanceReplicas:\t1\n Blocks queued",
            " Under-replicated blocks:\t1 (100.0 %)",
        ] {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
        let request = Request {
            maintenance: true,
            files: true,
            blocks: true,
            replica_details: true,
            ..Request::default()
        };
        let (_, text) = whole(std::slice::from_ref(&file), &request);
        assert!(text.contains("1 block(s):  OK\n"), "{text}");
        assert!(text.contains("DISK](IN MAINTENANCE), ") && text.contains("(DECOMMISSIONED)]"));
        file.status.replication = 4;
        let (_, text) = whole(&[file], &request);
        let part = ", 0 entering maintenance replica(s) and 1 in maintenance replica(s).\n";
        assert!(text.contains(part), "{text}");
    }

    #[test]
    fn directories_come_where_the_walk_met_them() {
        let path = |text: &str| DfsPath::parse(text).unwrap();
        let page = FsckPage {
            files: vec![file("/a/f", 1, &[]), file("/c", 1, &[])],
            directories: vec![(path("/"), 0), (path("/a"), 0), (path("/b"), 1), (path("/d"), 2)],
            next: None,
        };
        let names: Vec<String> = entries(&page)
            .map(|entry| match entry {
                Entry::Directory(path) => path.to_string(),
                Entry::File(file) => file.path.to_string(),
            })
            .collect();
        assert_eq!(names, ["/", "/a", "/a/f", "/b", "/c", "/d"]);
    }

    #[test]
    fn files_blocks_and_locations() {
        let request = Request { files: true, blocks: true, locations: true, ..Request::default() };
        let mut text = String::new();
        describe_file(&file("/f", 1, &[(15, 1, 0)]), &request, POOL, &mut text);
        let id = "01".repeat(16);
        assert_eq!(
            text,
            format!(
                "/f 15 bytes, replicated: replication=1, 1 block(s):  OK\n0. BP-1:blk_1073741825_1001 len=15 Live_repl=1  \
                 [DatanodeInfoWithStorage[10.0.0.1:9866,DS-{id},DISK]]\n\n"
            )
        );
        let mut open = file("/f", 3, &[(15, 1, 0)]);
        open.status.open = true;
        let mut text = String::new();
        describe_file(&open, &request, POOL, &mut text);
        assert_eq!(text, "", "files being written are not looked at");
        let request = Request { open_for_write: true, ..request };
        describe_file(&open, &request, POOL, &mut text);
        let begin = "/f 15 bytes, replicated: replication=3, 1 block(s), OPENFORWRITE:  OK\n\nUnder Construction Block:\n0. ";
        assert!(text.starts_with(begin) && text.contains(" Expected_repl=1  ["), "{text}");
    }

    #[test]
    fn a_block_is_described_replica_by_replica() {
        let info = |replicas: &[(u8, ReplicaState)]| BlockInfo {
            id: BlockId(7),
            path: DfsPath::parse("/f").unwrap(),
            replication: 2,
            replicas: replicas.iter().map(|(number, state)| (node(*number), *state)).collect(),
        };
        let describe = |replicas: &[(u8, ReplicaState)], maintenance| {
            let mut text = String::new();
            let code = describe_block(&info(replicas), ("blk_7_1001", maintenance), &mut text);
            (code, text)
        };
        let live = (1, ReplicaState::Live);
        let (code, text) = describe(&[live, (2, BAD)], false);
        assert_eq!(code, EXIT_FAILED, "as the last line");
        assert_eq!(
            text,
            "Block Id: blk_7_1001\nBlock belongs to: /f\nNo. of Expected Replica: 2\nNo. of live Replica: 1\n\
             No. of excess Replica: 0\nNo. of stale Replica: 0\nNo. of decommissioned Replica: 0\n\
             No. of decommissioning Replica: 0\nNo. of corrupted Replica: 1\n\
             Block replica on datanode/rack: h1/r1 is HEALTHY\n\
             Block replica on datanode/rack: h2/r1 is CORRUPT\t ReasonCode: CORRUPTION_REPORTED\n"
        );
        for (state, maintenance, words, code) in [
            (ReplicaState::Decommissioned, false, "DECOMMISSIONED", 2),
            (ReplicaState::Decommissioning, false, "DECOMMISSIONING", 3),
            (ReplicaState::InMaintenance, true, "IN MAINTENANCE", 4),
            (ReplicaState::EnteringMaintenance, true, "ENTERING MAINTENANCE", 5),
            (ReplicaState::InMaintenance, false, "HEALTHY", 0),
            (ReplicaState::Stale, false, "STALE", 255),
            (ReplicaState::Excess, false, "HEALTHY", 0),
            (
                ReplicaState::Corrupt(CorruptReason::SizeMismatch),
                false,
                "CORRUPT\t ReasonCode: SIZE_MISMATCH",
                1,
            ),
        ] {
            let (found, text) = describe(&[live, (3, state)], maintenance);
            assert_eq!(found, code, "{state:?}");
            assert!(text.ends_with(&format!("datanode/rack: h3/r1 is {words}\n")), "{text}");
        }
        let (_, text) = describe(&[(1, ReplicaState::EnteringMaintenance)], true);
        let part = "No. of entering maintenance Replica: 1\nNo. of in maintenance Replica: 0\nNo. of corrupted";
        assert!(text.contains(part), "{text}");
        assert_eq!(describe(&[], false).0, EXIT_FAILED);
    }

    #[test]
    fn blocks_have_names_with_or_without_a_stamp() {
        for (text, id) in [
            ("blk_7", Some(7)),
            ("blk_1073741825_1001", Some(1_073_741_825)),
            ("7", None),
            ("blk_", None),
            ("blk_x", None),
            ("blk_7_", None),
            ("blk_7_x", None),
        ] {
            assert_eq!(block_of(text), id.map(BlockId), "{text}");
        }
    }
}
