//! Lines about single files and blocks.

use std::fmt::Write as _;

use protocol::namenode::{DatanodeInfo, FsckBlock, FsckFile};

use super::Request;

/// The last block of a file that is being written has no settled replicas yet.
pub(super) fn complete_blocks(file: &FsckFile) -> &[FsckBlock] {
    match file.blocks.split_last() {
        Some((_, complete)) if file.status.open => complete,
        _ => &file.blocks,
    }
}

/// Lines about one file with `-files`, or because it is open and `-openforwrite` asks for those.
pub(super) fn describe_file(file: &FsckFile, request: &Request, text: &mut String) {
    let open = file.status.open;
    if !(request.files || request.open_for_write && open) {
        return;
    }
    let wanted = file.status.replication;
    let is_damaged = complete_blocks(file).iter().any(|block| block.live.is_empty());
    let low = complete_blocks(file).iter().any(|block| block.live.len() < usize::from(wanted));
    let state = match (is_damaged, low) {
        (true, _) => "MISSING",
        (false, true) => "Under replicated",
        (false, false) => "OK",
    };
    let state = if open { format!("OPENFORWRITE:  {state}") } else { format!(" {state}") };
    let (path, length, count) = (&file.path, file.status.length, file.blocks.len());
    let _ = writeln!(
        text,
        "{path} {length} bytes, replicated: replication={wanted}, {count} block(s): {state}"
    );
    if !request.blocks {
        return;
    }
    for (index, block) in file.blocks.iter().enumerate() {
        let live = block.live.len();
        let _ = write!(text, "{index}. {} len={} Live_repl={live}", name_of(block), block.length);
        let replicas: Vec<String> =
            block.live.iter().filter_map(|node| replica(node, request)).collect();
        if !replicas.is_empty() {
            let _ = write!(text, "  [{}]", replicas.join(", "));
        }
        text.push('\n');
    }
    text.push('\n');
}

/// A replica as `-locations`, `-racks` or `-replicaDetails` shows it.
fn replica(node: &DatanodeInfo, request: &Request) -> Option<String> {
    let DatanodeInfo { transfer_address, id, rack, .. } = node;
    let storage = || format!("DatanodeInfoWithStorage[{transfer_address},DS-{id},DISK]");
    if request.racks {
        return Some(format!("{rack}/{transfer_address}"));
    }
    if request.replica_details {
        return Some(format!("{}(LIVE)", storage()));
    }
    request.locations.then(storage)
}

/// Lines about what is wrong with a file.
pub(super) fn note_damage(file: &FsckFile, damage: &mut Vec<String>) {
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

pub(super) fn name_of(block: &FsckBlock) -> String {
    format!("blk_{}_{}", block.id, block.stamp)
}
