//! `hanno fsck`: the health of every file below a path, in HDFS's words.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use client::dfs::{DfsClient, DfsError};
use jiff::tz::TimeZone;
use protocol::namenode::{DatanodeInfo, DatanodeState, FsckBlock, FsckFile};
use protocol::{DfsPath, ErrorKind};
use serde::Serialize;

use crate::connect::{Overrides, describe, file_system};
use crate::output::{
    EXIT_FAILED, EXIT_OK, EXIT_USAGE, java_date, print_json, report_size, unless_reader_left,
};

const USAGE: &str = "\
Usage: hanno fsck <path> [-files [-blocks [-locations | -racks]]] [--json]

  -files        every file
  -blocks       and its blocks
  -locations    and the DataNodes of each block
  -racks        and their racks

Exit codes: 0 healthy (or no such path), 1 corrupt, 255 could not run.

Examples:
  hanno fsck /
  hanno fsck /books -files -blocks -locations
";

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Request {
    path: String,
    files: bool,
    blocks: bool,
    locations: bool,
    racks: bool,
    json: bool,
    help: bool,
}

/// Runs the command line after `fsck` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let request = match parse(arguments) {
        Ok(request) => request,
        Err(text) => {
            eprint!("fsck: {text}\n{USAGE}");
            return EXIT_USAGE;
        }
    };
    if request.help {
        print!("{USAGE}");
        return EXIT_OK;
    }
    match check(&request, overrides) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fsck: {}", describe(error.as_ref()));
            EXIT_USAGE
        }
    }
}

fn parse(arguments: &[OsString]) -> Result<Request, String> {
    let mut request = Request::default();
    let mut path = None;
    let mut options_end = false;
    for argument in arguments {
        let text = argument.to_str().ok_or("a path that is not UTF-8")?;
        let option = text.trim_start_matches('-');
        match option {
            "" if text == "--" && !options_end => options_end = true,
            _ if options_end || !text.starts_with('-') => {
                if path.replace(text.to_owned()).is_some() {
                    return Err("more than one path".to_owned());
                }
            }
            "files" => request.files = true,
            "blocks" => request.blocks = true,
            "locations" => request.locations = true,
            "racks" => request.racks = true,
            "json" => request.json = true,
            "help" | "h" => request.help = true,
            _ => return Err(format!("illegal option {text}")),
        }
    }
    request.path = path.unwrap_or_else(|| "/".to_owned());
    Ok(request)
}

fn check(request: &Request, overrides: &Overrides) -> Result<u8> {
    let client = file_system(&overrides.config()?)?;
    let resolver = crate::dfs::Resolver::new(client.user(), client.namenode());
    let named = resolver.resolve(&request.path).map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let (path, started) = (named.path, Instant::now());
    let (address, user) = (client.namenode(), client.user());
    let mut out = io::BufWriter::new(io::stdout().lock());
    if !request.json {
        eprintln!("Connecting to namenode via {address}/fsck?ugi={user}&path={path}");
        let (host, now) = (sys::host::host_name(), now());
        let begin =
            format!("FSCK started by {user} (auth:SIMPLE) from {host} for path {path} at {now}\n");
        unless_reader_left(out.write_all(begin.as_bytes()))?;
    }
    let mut totals = Totals::new(&client)?;
    let mut damage = Vec::new();
    let whole = walk(&client, &path, &mut |file| {
        totals.add(file);
        note_damage(file, &mut damage);
        let mut text = String::new();
        if !request.json {
            describe_file(file, request, &mut text);
        }
        let written = out.write_all(text.as_bytes());
        unless_reader_left(written).context("cannot write to standard output")
    })?;
    let Some(directory_count) = whole else {
        unless_reader_left(writeln!(out, "\nPath '{path}' does not exist"))?;
        unless_reader_left(out.flush())?;
        return Ok(EXIT_OK);
    };
    totals.directory_count = directory_count;
    if request.json {
        drop(out);
        print_json(&totals)?;
        return Ok(totals.exit_code());
    }
    let mut text = totals.text(&damage);
    let ms = started.elapsed().as_millis();
    let state = if totals.is_healthy() { "HEALTHY" } else { "CORRUPT" };
    text.push_str(&format!("FSCK ended at {} in {ms} milliseconds\n\n\n", now()));
    text.push_str(&format!("The filesystem under path '{path}' is {state}\n"));
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    unless_reader_left(written).context("cannot write to standard output")?;
    Ok(totals.exit_code())
}

/// Hands every file below `path` to `each` while it returns true; the number of directories, or `None` if there is nothing
/// at `path`.
fn walk(
    client: &DfsClient,
    path: &DfsPath,
    each: &mut dyn FnMut(&FsckFile) -> Result<bool>,
) -> Result<Option<u64>> {
    let mut directory_count = 0;
    let mut after = None;
    loop {
        let page = match client.fsck(path, after) {
            Ok(page) => page,
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        directory_count += page.directory_count;
        for file in &page.files {
            if !each(file)? {
                return Ok(Some(directory_count));
            }
        }
        if page.next.is_none() {
            return Ok(Some(directory_count));
        }
        after = page.next;
    }
}

fn now() -> String {
    java_date(client::rpc::now_ms(), &TimeZone::system())
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
struct Totals {
    datanode_count: usize,
    rack_count: usize,
    directory_count: u64,
    file_count: u64,
    open_file_count: u64,
    length: u64,
    block_count: u64,
    block_length: u64,
    minimally_replicated_count: u64,
    over_replicated_count: u64,
    under_replicated_count: u64,
    replica_count: u64,
    wanted_replica_count: u64,
    missing_block_count: u64,
    missing_length: u64,
    corrupt_block_count: u64,
    corrupt_length: u64,
    corrupt_file_count: u64,
    missing_replica_count: u64,
    pending_replication_count: u64,
    default_replication: u16,
}

impl Totals {
    fn new(client: &DfsClient) -> Result<Self, DfsError> {
        let datanodes = client.datanodes()?;
        let status = client.cluster_status()?;
        let live = || datanodes.iter().filter(|node| node.state != DatanodeState::Dead);
        let racks: BTreeSet<&str> = live().map(|node| node.info.rack.as_str()).collect();
        Ok(Totals {
            datanode_count: live().count(),
            rack_count: racks.len(),
            pending_replication_count: status.pending_replication_count,
            default_replication: status.replication,
            ..Totals::default()
        })
    }

    fn add(&mut self, file: &FsckFile) {
        self.file_count += 1;
        self.open_file_count += u64::from(file.status.open);
        self.length += file.status.length;
        let wanted = u64::from(file.status.replication);
        let mut is_damaged = false;
        for block in complete_blocks(file) {
            let live = block.live.len() as u64;
            self.block_count += 1;
            self.block_length += block.length;
            self.replica_count += live;
            self.wanted_replica_count += wanted;
            self.minimally_replicated_count += u64::from(live > 0);
            self.over_replicated_count += u64::from(live > wanted);
            self.under_replicated_count += u64::from(live > 0 && live < wanted);
            self.missing_replica_count += if live > 0 { wanted.saturating_sub(live) } else { 0 };
            if live > 0 {
                continue;
            }
            is_damaged = true;
            if block.corrupt_count > 0 {
                self.corrupt_block_count += 1;
                self.corrupt_length += block.length;
            } else {
                self.missing_block_count += 1;
                self.missing_length += block.length;
            }
        }
        self.corrupt_file_count += u64::from(is_damaged);
    }

    fn is_healthy(&self) -> bool {
        self.missing_block_count == 0 && self.corrupt_block_count == 0
    }

    fn exit_code(&self) -> u8 {
        if self.is_healthy() { EXIT_OK } else { EXIT_FAILED }
    }

    fn text(&self, damage: &[String]) -> String {
        let state = if self.is_healthy() { "HEALTHY" } else { "CORRUPT" };
        let blocks = self.block_count;
        let average = self.block_length.checked_div(blocks).unwrap_or(0);
        let mean = if blocks == 0 { 0.0 } else { self.replica_count as f32 / blocks as f32 };
        let share = |count: u64, of: u64| {
            let percent = if of == 0 { 0.0 } else { count as f32 * 100.0 / of as f32 };
            format!("{count} ({percent:?} %)")
        };
        let of_blocks = |count| share(count, blocks);
        let mut text = damage.concat();
        text.push_str(&format!(
            "\nStatus: {state}\n \
             Number of data-nodes:\t{}\n \
             Number of racks:\t\t{}\n \
             Total dirs:\t\t\t{}\n \
             Total symlinks:\t\t0\n\n\
             Replicated Blocks:\n \
             Total size:\t{}{}\n \
             Total files:\t{}\n \
             Total blocks (validated):\t{blocks} (avg. block size {average} B)\n",
            self.datanode_count,
            self.rack_count,
            self.directory_count,
            report_bytes(self.length),
            self.open_files(),
            self.file_count,
        ));
        text.push_str(&self.starred());
        text.push_str(&format!(
            " Minimally replicated blocks:\t{}\n \
             Over-replicated blocks:\t{}\n \
             Under-replicated blocks:\t{}\n \
             Mis-replicated blocks:\t\t{}\n \
             Default replication factor:\t{}\n \
             Average block replication:\t{mean:?}\n \
             Missing blocks:\t\t{}\n \
             Corrupt blocks:\t\t{}\n \
             Missing replicas:\t\t{}\n \
             Blocks queued for replication:\t{}\n\n",
            of_blocks(self.minimally_replicated_count),
            of_blocks(self.over_replicated_count),
            of_blocks(self.under_replicated_count),
            of_blocks(0),
            self.default_replication,
            self.missing_block_count,
            self.corrupt_block_count,
            share(self.missing_replica_count, self.wanted_replica_count),
            self.pending_replication_count,
        ));
        text.push_str(ERASURE_CODED);
        text
    }

    fn open_files(&self) -> String {
        match self.open_file_count {
            0 => String::new(),
            count => format!(" (Files currently being written: {count})"),
        }
    }

    /// The starred part that damage adds.
    fn starred(&self) -> String {
        if self.is_healthy() {
            return String::new();
        }
        let stars = "  ********************************\n";
        let mut text = stars.to_owned();
        let damaged = self.missing_block_count + self.corrupt_block_count;
        let percent = damaged as f32 * 100.0 / self.block_count as f32;
        text.push_str(&format!(
            "  UNDER MIN REPL'D BLOCKS:\t{damaged} ({percent:?} %)\n  \
             MINIMAL BLOCK REPLICATION:\t1\n  CORRUPT FILES:\t{}\n",
            self.corrupt_file_count
        ));
        if self.missing_block_count > 0 {
            let (count, length) = (self.missing_block_count, self.missing_length);
            text.push_str(&format!("  MISSING BLOCKS:\t{count}\n  MISSING SIZE:\t\t{length} B\n"));
        }
        if self.corrupt_block_count > 0 {
            let (count, length) = (self.corrupt_block_count, self.corrupt_length);
            text.push_str(&format!("  CORRUPT BLOCKS: \t{count}\n  CORRUPT SIZE:\t\t{length} B\n"));
        }
        text + stars
    }
}

/// There are none, but tools look for the heading.
const ERASURE_CODED: &str = "\
Erasure Coded Block Groups:
 Total size:\t0 B
 Total files:\t0
 Total block groups (validated):\t0
 Minimally erasure-coded block groups:\t0
 Over-erasure-coded block groups:\t0
 Under-erasure-coded block groups:\t0
 Unsatisfactory placement block groups:\t0
 Average block group size:\t0.0
 Missing block groups:\t\t0
 Corrupt block groups:\t\t0
 Missing internal blocks:\t0
 Blocks queued for replication:\t0
";

fn report_bytes(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes} B") } else { format!("{bytes} B ({})", report_size(bytes)) }
}

/// The last block of a file that is being written has no settled replicas yet.
fn complete_blocks(file: &FsckFile) -> &[FsckBlock] {
    match file.blocks.split_last() {
        Some((_, complete)) if file.status.open => complete,
        _ => &file.blocks,
    }
}

/// Lines about one file with `-files`.
fn describe_file(file: &FsckFile, request: &Request, text: &mut String) {
    if !request.files && !request.blocks && !request.locations && !request.racks {
        return;
    }
    let wanted = file.status.replication;
    let is_damaged = complete_blocks(file).iter().any(|block| block.live.is_empty());
    let low = complete_blocks(file).iter().any(|block| block.live.len() < usize::from(wanted));
    let state = match (is_damaged, low, file.status.open) {
        (true, ..) => "MISSING",
        (false, true, _) => "Under replicated",
        (false, false, true) => "OPENFORWRITE",
        (false, false, false) => "OK",
    };
    let (path, length, count) = (&file.path, file.status.length, file.blocks.len());
    let _ = writeln!(
        text,
        "{path} {length} bytes, replicated: replication={wanted}, {count} block(s):  {state}"
    );
    if !request.blocks && !request.locations && !request.racks {
        return;
    }
    for (index, block) in file.blocks.iter().enumerate() {
        let live = block.live.len();
        let _ = write!(text, "{index}. {} len={} Live_repl={live}", name_of(block), block.length);
        if request.locations || request.racks {
            let replica = |node: &DatanodeInfo| {
                let DatanodeInfo { transfer_address, id, rack, .. } = node;
                if request.racks {
                    format!("{rack}/{transfer_address}")
                } else {
                    format!("DatanodeInfoWithStorage[{transfer_address},DS-{id},DISK]")
                }
            };
            let replicas: Vec<String> = block.live.iter().map(replica).collect();
            let _ = write!(text, "  [{}]", replicas.join(", "));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// Lines about what is wrong with a file.
fn note_damage(file: &FsckFile, damage: &mut Vec<String>) {
    let (path, wanted) = (&file.path, usize::from(file.status.replication));
    let (mut missing, mut missing_length) = (0, 0);
    for block in complete_blocks(file) {
        let (name, live) = (name_of(block), block.live.len());
        if live == 0 {
            if block.corrupt_count > 0 {
                damage.push(format!("\n{path}: CORRUPT blockpool block {name}\n"));
            }
            missing += 1;
            missing_length += block.length;
        } else if live < wanted {
            damage.push(format!(
                "\n{path}:  Under replicated {name}. Target Replicas is {wanted} but found {live} live replica(s), \
                 0 decommissioned replica(s), 0 decommissioning replica(s).\n"
            ));
        }
    }
    if missing > 0 {
        damage.push(format!(
            "\n{path}: MISSING {missing} blocks of total size {missing_length} B.\n"
        ));
    }
}

fn name_of(block: &FsckBlock) -> String {
    format!("blk_{}_{}", block.id, block.stamp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::namenode::FileStatus;
    use protocol::{BlockId, DatanodeId, GenerationStamp, InodeId};

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

    fn file(path: &str, replication: u16, blocks: &[(u64, u8, u16)]) -> FsckFile {
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
        };
        let block = |(index, (length, live, corrupt_count)): (usize, &(u64, u8, u16))| FsckBlock {
            id: BlockId(1_073_741_825 + index as u64),
            stamp: GenerationStamp(1001),
            length: *length,
            live: (1..=*live).map(node).collect(),
            corrupt_count: *corrupt_count,
        };
        let blocks = blocks.iter().enumerate().map(block).collect();
        FsckFile { path: DfsPath::parse(path).unwrap(), status, blocks }
    }

    fn totals(files: &[FsckFile]) -> (Totals, Vec<String>) {
        let mut totals = Totals {
            datanode_count: 3,
            rack_count: 1,
            directory_count: 2,
            default_replication: 3,
            ..Totals::default()
        };
        let mut damage = Vec::new();
        for file in files {
            totals.add(file);
            note_damage(file, &mut damage);
        }
        (totals, damage)
    }

    #[test]
    fn a_healthy_report() {
        let (totals, damage) =
            totals(&[file("/f", 3, &[(15, 3, 0)]), file("/g", 3, &[(15, 3, 0)])]);
        let text = totals.text(&damage);
        let expected = "\nStatus: HEALTHY\n Number of data-nodes:\t3\n Number of racks:\t\t1\n Total dirs:\t\t\t2\n \
            Total symlinks:\t\t0\n\nReplicated Blocks:\n Total size:\t30 B\n Total files:\t2\n \
            Total blocks (validated):\t2 (avg. block size 15 B)\n Minimally replicated blocks:\t2 (100.0 %)\n \
            Over-replicated blocks:\t0 (0.0 %)\n Under-replicated blocks:\t0 (0.0 %)\n Mis-replicated blocks:\t\t0 (0.0 %)\n \
            Default replication factor:\t3\n Average block replication:\t3.0\n Missing blocks:\t\t0\n Corrupt blocks:\t\t0\n \
            Missing replicas:\t\t0 (0.0 %)\n Blocks queued for replication:\t0\n\nErasure Coded Block Groups:\n";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(totals.exit_code(), EXIT_OK);
    }

    #[test]
    fn damage_is_told_and_decides_the_exit_code() {
        let files =
            [file("/a", 3, &[(10, 2, 0), (10, 3, 1)]), file("/b", 3, &[(7, 0, 0), (5, 0, 3)])];
        let (totals, damage) = totals(&files);
        let text = totals.text(&damage);
        for part in [
            "/a:  Under replicated blk_1073741825_1001. Target Replicas is 3 but found 2 live replica(s), 0 decom",
            "/b: CORRUPT blockpool block blk_1073741826_1001",
            "/b: MISSING 2 blocks of total size 12 B.",
            "Status: CORRUPT",
            "  UNDER MIN REPL'D BLOCKS:\t2 (50.0 %)",
            "  CORRUPT FILES:\t1",
            "  MISSING BLOCKS:\t1",
            "  CORRUPT BLOCKS: \t1",
            " Under-replicated blocks:\t1 (25.0 %)",
        ] {
            assert!(text.contains(part), "`{part}` is not in {text}");
        }
        assert_eq!(totals.exit_code(), EXIT_FAILED);
    }

    #[test]
    fn files_blocks_and_locations() {
        let request = Request { files: true, blocks: true, locations: true, ..Request::default() };
        let mut text = String::new();
        describe_file(&file("/f", 1, &[(15, 1, 0)]), &request, &mut text);
        let id = "01".repeat(16);
        assert_eq!(
            text,
            format!(
                "/f 15 bytes, replicated: replication=1, 1 block(s):  OK\n0. blk_1073741825_1001 len=15 Live_repl=1  \
                 [DatanodeInfoWithStorage[10.0.0.1:9866,DS-{id},DISK]]\n\n"
            )
        );
        let mut text = String::new();
        describe_file(
            &file("/f", 3, &[(15, 1, 0)]),
            &Request { files: true, ..Request::default() },
            &mut text,
        );
        assert_eq!(text, "/f 15 bytes, replicated: replication=3, 1 block(s):  Under replicated\n");
    }

    #[test]
    fn arguments() {
        let parse = |words: &[&str]| parse(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let request = parse(&["-files", "/a b", "-blocks"]).unwrap();
        assert_eq!(
            request,
            Request { path: "/a b".into(), files: true, blocks: true, ..Request::default() }
        );
        assert_eq!(parse(&["--", "-x"]).unwrap().path, "-x");
        assert!(parse(&["/a", "/b"]).is_err() && parse(&["-delete"]).is_err());
    }
}
