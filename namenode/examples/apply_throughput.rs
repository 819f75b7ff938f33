//! Measures how fast the core applies edits, replays records, loads checkpoint rows and chooses DataNodes, and what an inode costs in
//! memory.
//!
//! `cargo run --release -p namenode --example apply_throughput -- [FILES]` (default 1,000,000 files of one block).

use std::time::Instant;

use namenode::core::blocks::{Problem, choose_targets};
use namenode::core::edit::{CallKey, Edit, Outcome, Record};
use namenode::core::nodes::Datanodes;
use namenode::core::random::Generator;
use namenode::core::state::Loaded;
use protocol::datanode::Heartbeat;
use protocol::namenode::DatanodeInfo;
use protocol::{BlockId, CallId, ClientId, ClusterId, DatanodeId, GenerationStamp, InodeId};

const FILES_PER_DIRECTORY: u64 = 1000;
/// Choices of three DataNodes that are timed.
const CHOICES: u32 = 1000;

fn main() -> anyhow::Result<()> {
    [100, 10_000].into_iter().for_each(time_choices);
    let file_count: u64 = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 1_000_000,
    };
    let mut loaded = Loaded::default();
    loaded.ns.apply(&Edit::Format {
        cluster: ClusterId([1; 16]),
        owner: "root".to_owned(),
        group: "supergroup".to_owned(),
        at_ms: 1,
    })?;
    let records = records(file_count);
    let edit_count: usize = records.iter().map(|record| record.edits.len()).sum();
    let before_bytes = resident_bytes();
    let started = Instant::now();
    for record in &records {
        for edit in &record.edits {
            loaded.ns.apply(edit)?;
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("apply:  {:.0} edits/s", edit_count as f64 / seconds);
    let bytes = resident_bytes().saturating_sub(before_bytes);
    println!("memory: {} bytes per file with its block (dirty marks included)", bytes / file_count);

    let started = Instant::now();
    let bodies: Vec<Vec<u8>> = records.iter().map(Record::encode).collect();
    println!("encode: {:.0} records/s", bodies.len() as f64 / started.elapsed().as_secs_f64());
    drop(records);

    let started = Instant::now();
    let mut rows = loaded.ns.take_rows();
    println!("rows:   {:.0} rows/s", rows.len() as f64 / started.elapsed().as_secs_f64());
    drop(loaded);

    // The order in which a checkpoint is read.
    rows.sort_unstable();
    let mut again = Loaded::default();
    let started = Instant::now();
    let row_count = rows.len();
    for (key, value) in rows {
        if let Some(value) = value {
            again.load_row(&key, &value)?;
        }
    }
    again.ns.finish_load()?;
    let seconds = started.elapsed().as_secs_f64();
    println!("load:   {:.0} rows/s, with links, totals and check", row_count as f64 / seconds);

    let mut replayed = Loaded::default();
    replayed.ns.apply(&Edit::Format {
        cluster: ClusterId([1; 16]),
        owner: "root".to_owned(),
        group: "supergroup".to_owned(),
        at_ms: 1,
    })?;
    let started = Instant::now();
    for body in &bodies {
        replayed.replay(body)?;
    }
    println!("replay: {:.0} records/s", bodies.len() as f64 / started.elapsed().as_secs_f64());
    Ok(())
}

/// Directories and files, each file in two records: created with its block, then completed.
fn records(file_count: u64) -> Vec<Record> {
    let mut records = Vec::new();
    let mut next = InodeId::ROOT.0 + 1;
    let mut directory = InodeId::ROOT;
    let mut push = |edits: Vec<Edit>| {
        let number = records.len() as u64;
        let call = CallId { client: ClientId([7; 16]), number };
        let call = Some(CallKey { call, index: 0 });
        records.push(Record { call, at_ms: 5, edits, outcome: Outcome::Done });
    };
    for number in 0..file_count {
        if number % FILES_PER_DIRECTORY == 0 {
            directory = InodeId(next);
            next += 1;
            push(vec![Edit::MakeDirectory {
                id: directory,
                parent: InodeId::ROOT,
                name: format!("directory-{number}"),
                owner: "ann".to_owned(),
                group: "supergroup".to_owned(),
                mode: 0o755,
                at_ms: 5,
            }]);
        }
        let file = InodeId(next);
        next += 1;
        let block = BlockId(BlockId::FIRST.0 + number);
        let make = Edit::MakeFile {
            id: file,
            parent: directory,
            name: format!("part-{number:010}"),
            owner: "ann".to_owned(),
            group: "supergroup".to_owned(),
            mode: 0o644,
            replication: 3,
            block_size: 128 << 20,
            holder: ClientId([7; 16]),
            at_ms: 5,
        };
        let targets = vec![DatanodeId([1; 16]), DatanodeId([2; 16]), DatanodeId([3; 16])];
        let stamp = GenerationStamp(1001 + number);
        push(vec![make, Edit::AddBlock { file, block, stamp, targets }]);
        push(vec![Edit::CommitBlock { file, block, length: 1000 }, Edit::Close { file, at_ms: 6 }]);
    }
    records
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Times the choice of three targets among `count` DataNodes, forty to a rack.
fn time_choices(count: u32) {
    let mut nodes = Datanodes::new(1000, 2000, 100);
    for number in 0..count {
        let id = DatanodeId(u128::from(number).to_be_bytes());
        let info = DatanodeInfo {
            id,
            host: format!("h{number}"),
            transfer_address: String::new(),
            http_address: String::new(),
            rack: format!("/r{}", number / 40),
            boot_id: String::new(),
            local_socket: String::new(),
        };
        let index = nodes.register(info, 0);
        let beat = Heartbeat { remaining: 1 << 40, ..Heartbeat::default() };
        nodes.heartbeat(index, &beat, 0);
    }
    let mut random = Generator::new(1);
    let started = Instant::now();
    for number in 0..CHOICES {
        let writer_host = format!("h{}", number % count);
        let problem = Problem {
            nodes: &nodes,
            count: 3,
            existing: &[],
            excluded: &[],
            writer_host: &writer_host,
            bytes: 1 << 27,
        };
        assert_eq!(choose_targets(problem, &mut random).len(), 3, "there is room everywhere");
    }
    println!("choose: {:?} for three of {count} DataNodes", started.elapsed() / CHOICES);
}
