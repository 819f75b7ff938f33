//! `hanno fsck`: the health of every file below a path, in HDFS's words.
//!
//! Files come from the NameNode in pages; totals, texts and repairs are this side's. The exit code is HDFS's: 0 healthy or no such
//! path, 1 corrupt, 255 could not run.

mod actions;
mod lines;
mod totals;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::Instant;

use anyhow::{Context, Result};
use client::dfs::DfsClient;
use jiff::tz::TimeZone;
use protocol::namenode::{AdminState, BlockInfo, Call, DOT_SNAPSHOT, FsckFile, Reply};
use protocol::{BlockId, DfsPath, ErrorKind};

use self::totals::Totals;
use crate::connect::{Overrides, describe, file_system};
use crate::output::{
    EXIT_FAILED, EXIT_OK, EXIT_USAGE, java_date, print_json, say, unless_reader_left,
};

const USAGE: &str = "\
Usage: hdfs fsck <path> [-list-corruptfileblocks | [-move | -delete | -openforwrite] [-files [-blocks [-locations | -racks | \
-replicaDetails]]]] [-includeSnapshots] [-blockId <blk_Id>] [--json]
\t<path>\tstart checking from this path
\t-move\tcopy what is left of corrupted files to /lost+found
\t-delete\tdelete corrupted files
\t-files\tprint out files being checked
\t-openforwrite\tprint out files opened for write
\t-includeSnapshots\tinclude snapshot data if the given path indicates a snapshottable directory
\t-list-corruptfileblocks\tprint out list of missing blocks and files they belong to
\t-files -blocks\tprint out block report
\t-files -blocks -locations\tprint out locations for every block
\t-files -blocks -racks\tprint out network topology for data-node locations
\t-files -blocks -replicaDetails\tprint out each replica details
\t-blockId\tprint out which file this blockId belongs to, locations (nodes, racks) of this block

By default fsck does not check files opened for write, use -openforwrite to report such files. They are usually tagged CORRUPT or \
HEALTHY depending on their block allocation status.
";

/// Exit codes of `-blockId` that HDFS has for the state of the last replica's DataNode.
const EXIT_DECOMMISSIONED: u8 = 2;
const EXIT_DECOMMISSIONING: u8 = 3;

/// What is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Request {
    path: String,
    files: bool,
    blocks: bool,
    locations: bool,
    racks: bool,
    replica_details: bool,
    open_for_write: bool,
    list_corrupt: bool,
    moves: bool,
    deletes: bool,
    snapshots: bool,
    block_ids: Vec<String>,
    json: bool,
    help: bool,
}

/// Runs the command line after `fsck` and returns the exit code.
pub(crate) fn run(arguments: &[OsString], overrides: &Overrides) -> u8 {
    let parsed = crate::hadoop::generic(arguments, overrides)
        .and_then(|(words, overrides)| Ok((parse(&words)?, overrides)));
    let (request, overrides) = match parsed {
        Ok(parsed) => parsed,
        Err(text) => {
            eprint!("fsck: {text}\n{USAGE}");
            return EXIT_USAGE;
        }
    };
    if request.help {
        say!("{}", USAGE.trim_end());
        return EXIT_OK;
    }
    let outcome = match (&request.block_ids[..], request.list_corrupt) {
        ([], false) => check(&request, &overrides),
        ([], true) => list_corrupt(&request, &overrides),
        (ids, _) => look_up(ids, &overrides),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("fsck: {}", describe(error.as_ref()));
        EXIT_USAGE
    })
}

fn parse(words: &[String]) -> Result<Request, String> {
    let mut request = Request::default();
    let mut path = None;
    let mut options_end = false;
    let mut words = words.iter().peekable();
    while let Some(text) = words.next() {
        let option = text.trim_start_matches('-');
        match option {
            "" if text == "--" && !options_end => options_end = true,
            _ if options_end || !text.starts_with('-') => {
                if path.replace(text.clone()).is_some() {
                    return Err(format!("can only operate on one path at a time '{text}'"));
                }
            }
            "files" => request.files = true,
            "blocks" => request.blocks = true,
            "locations" => request.locations = true,
            "racks" => request.racks = true,
            "replicaDetails" => request.replica_details = true,
            "openforwrite" => request.open_for_write = true,
            "list-corruptfileblocks" => request.list_corrupt = true,
            "move" => request.moves = true,
            "delete" => request.deletes = true,
            "includeSnapshots" => request.snapshots = true,
            // There is one storage type, no maintenance, and no replication to force.
            "storagepolicies" | "maintenance" | "replicate" | "upgradedomains" => {}
            "blockId" => {
                let is_id = |word: &&String| !word.starts_with('-');
                while let Some(id) = words.next_if(is_id) {
                    request.block_ids.extend(id.split_whitespace().map(str::to_owned));
                }
                if request.block_ids.is_empty() {
                    return Err("-blockId needs a block".to_owned());
                }
            }
            "json" => request.json = true,
            "help" | "h" => request.help = true,
            _ => return Err(format!("Illegal option '{text}'")),
        }
    }
    request.path = path.unwrap_or_else(|| "/".to_owned());
    Ok(request)
}

/// Contact with the NameNode, told on standard error as HDFS tells it.
fn connect(overrides: &Overrides, query: &str) -> Result<DfsClient> {
    let client = file_system(&overrides.config()?)?;
    eprintln!("Connecting to namenode via {}/fsck?ugi={}{query}", client.namenode(), client.user());
    Ok(client)
}

fn path_of(client: &DfsClient, text: &str) -> Result<DfsPath> {
    let resolver = crate::dfs::Resolver::new(client.user(), client.namenode());
    resolver.resolve(text).map(|named| named.path).map_err(|failure| anyhow::anyhow!("{failure}"))
}

fn begin(client: &DfsClient, what: &str) -> String {
    let (user, host) = (client.user(), sys::host::host_name());
    format!("FSCK started by {user} (auth:SIMPLE) from {host}{what} at {}\n", now())
}

fn check(request: &Request, overrides: &Overrides) -> Result<u8> {
    let client = if request.json {
        file_system(&overrides.config()?)?
    } else {
        connect(overrides, &query_of(request))?
    };
    let path = path_of(&client, &request.path)?;
    let started = Instant::now();
    let mut out = io::BufWriter::new(io::stdout().lock());
    if !request.json {
        unless_reader_left(out.write_all(begin(&client, &format!(" for path {path}")).as_bytes()))?;
    }
    let mut totals = Totals::new(&client)?;
    let mut damage = Vec::new();
    let whole = walk(&client, (&path, request.snapshots), &mut |file| {
        totals.add(file, request.open_for_write);
        if request.open_for_write || !file.status.open {
            lines::note_damage(file, &mut damage);
        }
        let mut text = String::new();
        if !request.json {
            lines::describe_file(file, request, &mut text);
        }
        // What a snapshot has is read-only.
        let is_former = file.path.elements().any(|element| element == DOT_SNAPSHOT);
        if actions::is_damaged(file) && !is_former {
            if request.moves {
                actions::salvage(&client, file)?;
            }
            if request.deletes {
                client.delete(&file.path, false)?;
            }
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

/// The address that HDFS's tool would fetch.
fn query_of(request: &Request) -> String {
    let mut query = String::new();
    for (is_on, name) in [
        (request.moves, "move"),
        (request.deletes, "delete"),
        (request.files, "files"),
        (request.blocks, "blocks"),
        (request.locations, "locations"),
        (request.racks, "racks"),
        (request.replica_details, "replicadetails"),
        (request.open_for_write, "openforwrite"),
        (request.list_corrupt, "listcorruptfileblocks"),
        (request.snapshots, "includeSnapshots"),
    ] {
        if is_on {
            query.push_str(&format!("&{name}=1"));
        }
    }
    query + "&path=" + &request.path.replace('/', "%2F")
}

/// `-list-corruptfileblocks`: blocks without a good replica, and their files.
fn list_corrupt(request: &Request, overrides: &Overrides) -> Result<u8> {
    let client = connect(overrides, &query_of(request))?;
    let path = path_of(&client, &request.path)?;
    let (mut text, mut file_count) = (String::new(), 0u64);
    let whole = walk(&client, (&path, request.snapshots), &mut |file| {
        file_count += u64::from(actions::is_damaged(file));
        for block in lines::complete_blocks(file).iter().filter(|block| block.live.is_empty()) {
            text.push_str(&format!("blk_{}\t{}\n", block.id, file.path));
        }
        Ok(true)
    })?;
    let mut out = io::stdout().lock();
    if whole.is_none() {
        unless_reader_left(writeln!(out, "\nPath '{path}' does not exist"))?;
        return Ok(EXIT_OK);
    }
    if file_count > 0 {
        text.insert_str(0, &format!("The list of corrupt blocks under path '{path}' are:\n"));
    }
    text.push_str(&format!("The filesystem under path '{path}' has {file_count} CORRUPT files\n"));
    unless_reader_left(out.write_all(text.as_bytes()))?;
    Ok(if file_count == 0 { EXIT_OK } else { EXIT_USAGE })
}

/// `-blockId`: what is known of single blocks.
fn look_up(ids: &[String], overrides: &Overrides) -> Result<u8> {
    let client = connect(overrides, &format!("&blockId={}", ids.join("+")))?;
    let mut text = begin(&client, "") + "\n";
    let mut code = EXIT_OK;
    for id in ids {
        code = EXIT_OK;
        let Some(block) = block_of(id) else {
            text.push_str(&format!("Incorrect blockId format: {id}\n"));
            continue;
        };
        match client.call(Call::BlockInfo(block)) {
            Ok(Reply::BlockInfo(info)) => code = describe_block(&info, &mut text),
            Ok(_) => return Err(client::dfs::DfsError::Unexpected.into()),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => {
                text.push_str(&format!("Block {id} does not exist\n"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    unless_reader_left(io::stdout().lock().write_all(text.as_bytes()))?;
    Ok(code)
}

/// Facts of a block and the state of each replica; as HDFS's, the exit code is that of the last replica.
fn describe_block(info: &BlockInfo, text: &mut String) -> u8 {
    let (wanted, live) = (usize::from(info.replication), info.live.len());
    let drained = |state| info.drained.iter().filter(move |(_, admin)| *admin == state).count();
    text.push_str(&format!(
        "Block Id: blk_{}\nBlock belongs to: {}\nNo. of Expected Replica: {wanted}\nNo. of live Replica: {live}\n\
         No. of excess Replica: {}\nNo. of stale Replica: 0\nNo. of decommissioned Replica: {}\n\
         No. of decommissioning Replica: {}\nNo. of corrupted Replica: {}\n",
        info.id,
        info.path,
        live.saturating_sub(wanted),
        drained(AdminState::Decommissioned),
        drained(AdminState::DecommissionInProgress),
        info.corrupt.len(),
    ));
    let live = info.live.iter().map(|node| (node, ("HEALTHY", EXIT_OK)));
    let drained = info.drained.iter().map(|(node, admin)| match admin {
        AdminState::Normal => (node, ("HEALTHY", EXIT_OK)),
        AdminState::DecommissionInProgress => (node, ("DECOMMISSIONING", EXIT_DECOMMISSIONING)),
        AdminState::Decommissioned => (node, ("DECOMMISSIONED", EXIT_DECOMMISSIONED)),
    });
    let corrupt = info.corrupt.iter().map(|node| (node, ("CORRUPT", EXIT_FAILED)));
    let mut code = EXIT_FAILED;
    for (node, (state, of_state)) in live.chain(drained).chain(corrupt) {
        let (host, rack) = (&node.host, &node.rack);
        text.push_str(&format!("Block replica on datanode/rack: {host}{rack} is {state}\n"));
        code = of_state;
    }
    code
}

/// `blk_7` or `blk_7_1001`; the generation stamp does not matter.
fn block_of(text: &str) -> Option<BlockId> {
    let rest = text.strip_prefix("blk_")?;
    let (id, stamp) = rest.split_once('_').unwrap_or((rest, "0"));
    stamp.parse::<u64>().ok()?;
    id.parse().ok().map(BlockId)
}

/// Hands every file below `path` to `each` while it returns true, and with `snapshots` those in the snapshots of directories there;
/// the number of directories, or `None` if there is nothing at `path`.
fn walk(
    client: &DfsClient,
    (path, snapshots): (&DfsPath, bool),
    each: &mut dyn FnMut(&FsckFile) -> Result<bool>,
) -> Result<Option<u64>> {
    let Some((mut directory_count, mut goes_on)) = walk_tree(client, path, each)? else {
        return Ok(None);
    };
    let tops = if snapshots { snapshots_below(client, path)? } else { Vec::new() };
    for top in tops {
        if !goes_on {
            break;
        }
        // A snapshot may be deleted meanwhile.
        if let Some((count, more)) = walk_tree(client, &top, each)? {
            directory_count += count;
            goes_on = more;
        }
    }
    Ok(Some(directory_count))
}

/// The snapshots of all directories at and below a path that have any.
fn snapshots_below(client: &DfsClient, path: &DfsPath) -> Result<Vec<DfsPath>> {
    let Reply::Snapshottable(roots) = client.call(Call::SnapshottableDirectories)? else {
        return Err(client::dfs::DfsError::Unexpected.into());
    };
    let mut tops = Vec::new();
    for root in roots.into_iter().filter(|root| root.path.starts_with(path)) {
        let all = root.path.join(DOT_SNAPSHOT)?;
        for entry in client.list(&all) {
            tops.push(all.join(&entry?.name)?);
        }
    }
    Ok(tops)
}

/// One tree: the number of its directories, and whether `each` wants more.
fn walk_tree(
    client: &DfsClient,
    path: &DfsPath,
    each: &mut dyn FnMut(&FsckFile) -> Result<bool>,
) -> Result<Option<(u64, bool)>> {
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
                return Ok(Some((directory_count, false)));
            }
        }
        if page.next.is_none() {
            return Ok(Some((directory_count, true)));
        }
        after = page.next;
    }
}

fn now() -> String {
    java_date(client::rpc::now_ms(), &TimeZone::system())
}

#[cfg(test)]
pub(super) mod tests {
    use super::lines::{describe_file, note_damage};
    use super::*;
    use protocol::namenode::FileStatus;
    use protocol::namenode::{DatanodeInfo, FsckBlock};
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

    pub(crate) fn file(path: &str, replication: u16, blocks: &[(u64, u8, u16)]) -> FsckFile {
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
            totals.add(file, false);
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
        let parse = |words: &[&str]| {
            parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        let request = parse(&["-files", "/a b", "-blocks"]).unwrap();
        assert_eq!(
            request,
            Request { path: "/a b".into(), files: true, blocks: true, ..Request::default() }
        );
        assert_eq!(parse(&["--", "-x"]).unwrap().path, "-x");
        let request = parse(&["-blockId", "blk_1 blk_2", "blk_3", "-files"]).unwrap();
        assert_eq!(request.block_ids, ["blk_1", "blk_2", "blk_3"]);
        assert!(parse(&["/", "-delete"]).unwrap().deletes);
        for words in [&["/a", "/b"][..], &["-foo"], &["-blockId"]] {
            assert!(parse(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_block_is_described_replica_by_replica() {
        let info = BlockInfo {
            id: BlockId(7),
            path: DfsPath::parse("/f").unwrap(),
            replication: 2,
            live: vec![node(1)],
            corrupt: vec![node(2)],
            drained: Vec::new(),
        };
        let mut text = String::new();
        assert_eq!(describe_block(&info, &mut text), EXIT_FAILED, "as the last line");
        assert!(
            text.starts_with("Block Id: blk_7\nBlock belongs to: /f\nNo. of Expected Replica: 2\n")
        );
        assert!(text.contains("datanode/rack: h1/r1 is HEALTHY\n"), "{text}");
        assert!(text.ends_with("datanode/rack: h2/r1 is CORRUPT\n"), "{text}");
        for (admin, state, code) in [
            (AdminState::Decommissioned, "DECOMMISSIONED", 2),
            (AdminState::DecommissionInProgress, "DECOMMISSIONING", 3),
        ] {
            let (drained, corrupt) = (vec![(node(3), admin)], Vec::new());
            let info = BlockInfo { drained, corrupt, ..info.clone() };
            let mut text = String::new();
            assert_eq!(describe_block(&info, &mut text), code);
            assert!(text.ends_with(&format!("datanode/rack: h3/r1 is {state}\n")), "{text}");
            assert!(text.contains("No. of live Replica: 1\n"));
        }
        let healthy = BlockInfo { corrupt: Vec::new(), ..info.clone() };
        assert_eq!(describe_block(&healthy, &mut text), EXIT_OK);
        let lost = BlockInfo { live: Vec::new(), ..healthy };
        assert_eq!(describe_block(&lost, &mut text), EXIT_FAILED);
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
