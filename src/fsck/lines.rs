//! Lines about single files and blocks.

use std::fmt::Write as _;

use protocol::namenode::{DatanodeInfo, FsckBlock, FsckFile, ReplicaState};

use super::request::Request;

/// The blocks to check: the last block of a file being written has no settled replicas yet.
pub(super) fn complete_blocks(file: &FsckFile) -> &[FsckBlock] {
    match file.blocks.split_last() {
        Some((_, complete)) if file.status.open => complete,
        _ => &file.blocks,
    }
}

/// True if there are replicas of a block and all of them are bad.
pub(super) fn is_corrupt(block: &FsckBlock) -> bool {
    block.good_count() == 0 && block.corrupt_count() > 0
}

/// How many replicas count towards the wanted number. As in HDFS, those in maintenance count only with `-maintenance`.
pub(super) fn counted(block: &FsckBlock, maintenance: bool) -> usize {
    block.count(|state| match state {
        ReplicaState::EnteringMaintenance | ReplicaState::InMaintenance => maintenance,
        state => state.is_good(),
    })
}

/// All output about one file: its line and its blocks with `-files`, and its problems in any case.
pub(super) fn describe_file(file: &FsckFile, request: &Request, pool: &str, text: &mut String) {
    let open = file.status.open;
    if open && !request.open_for_write {
        if let Some(line) = waiting(file) {
            let _ = write!(text, "\n{line}");
        }
        return;
    }
    let is_listed = request.files || open;
    let (path, wanted) = (&file.path, usize::from(file.status.replication));
    if is_listed {
        let (length, count) = (file.status.length, file.blocks.len());
        let state = if open { ", OPENFORWRITE" } else { "" };
        let _ = write!(
            text,
            "{path} {length} bytes, replicated: replication={wanted}, {count} block(s){state}: "
        );
    }
    let mut problems = 0;
    if let Some(line) = waiting(file) {
        let _ = write!(text, "\n{line}");
        problems += 1;
    }
    let (mut missing, mut corrupt) = ((0, 0), (0, 0));
    for block in complete_blocks(file) {
        if is_corrupt(block) {
            corrupt = (corrupt.0 + 1, corrupt.1 + block.length);
            let _ = writeln!(text, "\n{path}: CORRUPT blockpool {pool} block blk_{}", block.id);
        } else if block.good_count() == 0 {
            missing = (missing.0 + 1, missing.1 + block.length);
        }
        problems += note_problems(file, block, (request, pool, is_listed), text);
    }
    if file.lost_bytes > 0 {
        let _ = writeln!(
            text,
            "\n{path}: CORRUPT: {} bytes that a writer had synced are lost behind its end. Copy what is left, then delete it.",
            file.lost_bytes
        );
        problems += 1;
    }
    for (name, (count, length)) in [("MISSING", missing), ("CORRUPT", corrupt)] {
        match (count, is_listed) {
            (0, _) => {}
            (_, true) => {
                let _ = writeln!(text, " {name} {count} blocks of total size {length} B");
            }
            (_, false) => {
                let _ = write!(text, "\n{path}: {name} {count} blocks of total size {length} B.");
            }
        }
    }
    if is_listed && missing.0 + corrupt.0 + problems == 0 {
        text.push_str(" OK\n");
    }
    if request.files && request.blocks {
        describe_blocks(file, request, pool, text);
    }
}

/// The line about a file whose recovery waits for dead DataNodes.
fn waiting(file: &FsckFile) -> Option<String> {
    (!file.awaited.is_empty()).then(|| {
        format!(
            "{}: WAITING: its writer is gone, and its last block may need DataNodes that are dead: {}. \
             It is closed when they are back, or without what they have after the hard limit of leases.\n",
            file.path,
            file.awaited.join(", ")
        )
    })
}

/// Lines about a block that has too few replicas, or all on one rack; how many there are.
fn note_problems(
    file: &FsckFile,
    block: &FsckBlock,
    (request, pool, is_listed): (&Request, &str, bool),
    text: &mut String,
) -> u64 {
    let (path, wanted) = (&file.path, usize::from(file.status.replication));
    let mut problems = 0;
    if block.good_count() > 0 && counted(block, request.maintenance) < wanted {
        let of = |wanted| block.count(|state| state == wanted);
        if !is_listed {
            let _ = write!(text, "\n{path}: ");
        }
        let _ = write!(
            text,
            " Under replicated {}. Target Replicas is {wanted} but found {} live replica(s), \
             {} decommissioned replica(s), {} decommissioning replica(s)",
            name_of(block, pool),
            block.live_count(),
            of(ReplicaState::Decommissioned),
            of(ReplicaState::Decommissioning),
        );
        if request.maintenance {
            let entering = of(ReplicaState::EnteringMaintenance);
            let inside = of(ReplicaState::InMaintenance);
            let _ = write!(
                text,
                ", {entering} entering maintenance replica(s) and {inside} in maintenance replica(s)"
            );
        }
        text.push_str(".\n");
        problems += 1;
    }
    if block.misplaced {
        if !is_listed {
            if problems == 0 {
                text.push('\n');
            }
            let _ = write!(text, "{path}: ");
        }
        let _ = writeln!(
            text,
            " Replica placement policy is violated for {}. Block should be additionally replicated on 1 more rack(s).",
            name_of(block, pool)
        );
        problems += 1;
    }
    problems
}

/// The blocks of a file, one a line.
fn describe_blocks(file: &FsckFile, request: &Request, pool: &str, text: &mut String) {
    let complete_count = complete_blocks(file).len();
    for (index, block) in file.blocks.iter().enumerate() {
        let is_complete = index < complete_count;
        if !is_complete {
            text.push_str("\nUnder Construction Block:\n");
        }
        let _ = write!(text, "{index}. {} len={}", name_of(block, pool), block.length);
        if is_complete && block.good_count() == 0 && !is_corrupt(block) {
            text.push_str(" MISSING!\n");
            continue;
        }
        let _ = match is_complete {
            true => write!(text, " Live_repl={}", block.live_count()),
            false => write!(text, " Expected_repl={}", block.replicas.len()),
        };
        if request.locations || request.racks || request.replica_details || request.upgrade_domains
        {
            let replicas: Vec<String> =
                block.replicas.iter().map(|replica| show(replica, request)).collect();
            let _ = write!(text, "  [{}]", replicas.join(", "));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// A replica as `-locations`, `-racks`, `-upgradedomains` or `-replicaDetails` displays it.
fn show((node, state): &(DatanodeInfo, ReplicaState), request: &Request) -> String {
    let DatanodeInfo { transfer_address, id, rack, .. } = node;
    let place = match request.racks {
        true => format!("{rack}/{transfer_address}"),
        false => format!("DatanodeInfoWithStorage[{transfer_address},DS-{id},DISK]"),
    };
    // There are no upgrade domains here.
    let place = if request.upgrade_domains { place + "(ud=undefined)" } else { place };
    if !request.replica_details {
        return place;
    }
    let state = match state {
        ReplicaState::Decommissioned => "DECOMMISSIONED",
        ReplicaState::Decommissioning => "DECOMMISSIONING",
        ReplicaState::EnteringMaintenance if request.maintenance => "ENTERING MAINTENANCE",
        ReplicaState::InMaintenance if request.maintenance => "IN MAINTENANCE",
        ReplicaState::Corrupt(_) => "CORRUPT",
        ReplicaState::Excess => "EXCESS",
        ReplicaState::Stale => "STALE_NODE",
        ReplicaState::Live | ReplicaState::EnteringMaintenance | ReplicaState::InMaintenance => {
            "LIVE"
        }
    };
    format!("{place}({state})")
}

/// A block with its pool and generation stamp.
fn name_of(block: &FsckBlock, pool: &str) -> String {
    format!("{pool}:blk_{}_{}", block.id, block.stamp)
}
