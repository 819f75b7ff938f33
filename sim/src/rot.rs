//! Bits of replicas that flip, and what DataNodes may say of it.
//!
//! A replica is damaged only where others of its block are good, and only of a full block. Of one that is appended to, the damaged replica could be the one
//! that goes on, and the good ones are then too old.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use needs::random::Random;
use protocol::datanode::{Report, Request};
use protocol::{BlockId, checksum, meta};
use sys::disk::sim::Machine;

use crate::client::BLOCK_BYTES;
use crate::net::{Message, Outbox};
use crate::node::Node;

/// Good replicas of a block that must be there, beside the one that is damaged.
const OTHERS_MIN: usize = 2;

/// Flips a bit of a finalized replica of a DataNode; false if none of them can be damaged now.
pub(crate) fn flip(nodes: &mut [Node], number: usize, random: &mut Random) -> bool {
    let is_full = |path: &PathBuf| {
        let bytes = nodes[number].machine.bytes(path);
        bytes.is_ok_and(|bytes| bytes.len() as u64 == BLOCK_BYTES)
    };
    let own: Vec<PathBuf> = finalized(&nodes[number]).into_iter().filter(is_full).collect();
    let Some(block) = random.pick(&own) else { return false };
    let name = block.file_name().unwrap_or_default().to_owned();
    let others = nodes.iter().filter(|node| node.number != number);
    let good = others.filter(|node| {
        let same = finalized(node).into_iter().find(|path| path.file_name() == Some(&name));
        same.is_some_and(|path| is_good(&node.machine, &path))
    });
    if good.count() < OTHERS_MIN {
        return false;
    }
    let path = if random.one_in(4) { meta_of(&block) } else { block };
    let (at, bit) = (random.bits() as usize, random.below(8));
    let flipped = nodes[number].machine.tamper(&path, |bytes| {
        let length = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at % length) {
            *byte ^= 1 << bit;
        }
    });
    nodes[number].flipped.extend(block_of(&name));
    flipped.is_ok()
}

/// Checks that what a DataNode reports as bad is so because a bit flipped, unless it is good and only could not be read.
pub(crate) fn check_bad(node: &Node, out: &Outbox) {
    let changes = out.messages.iter().filter_map(|(_, message)| match message {
        Message::Node { request, .. } => match request.as_ref() {
            Request::Report { report: Report::Changes(changes), .. } => Some(changes),
            _ => None,
        },
        _ => None,
    });
    for bad in changes.flat_map(|changes| &changes.bad) {
        let name = OsString::from(format!("blk_{}_{}", bad.block, bad.stamp));
        let same = finalized(node).into_iter().find(|path| path.file_name() == Some(&name));
        let is_lost = same.is_some_and(|path| !is_good(&node.machine, &path));
        let is_known = !is_lost || node.flipped.contains(&bad.block);
        assert!(is_known, "node {} has damaged {bad:?} itself", node.number);
    }
}

/// The block files of a DataNode's finalized replicas.
fn finalized(node: &Node) -> Vec<PathBuf> {
    let files = node.roots.iter().flat_map(|root| node.machine.files(root));
    let is_block = |path: &PathBuf| {
        let is_finalized = path.components().any(|part| part.as_os_str() == "finalized");
        is_finalized && path.extension().is_none()
    };
    files.filter(is_block).collect()
}

/// The block of a replica by the name of its block file.
fn block_of(name: &OsString) -> Option<BlockId> {
    let (block, _) = name.to_str()?.strip_prefix("blk_")?.split_once('_')?;
    block.parse().ok().map(BlockId)
}

fn meta_of(block: &Path) -> PathBuf {
    block.with_extension("meta")
}

/// True if the bytes of a replica match their checksums, as a reader would see them.
fn is_good(machine: &Machine, block: &Path) -> bool {
    let (Ok(data), Ok(meta)) = (machine.bytes(block), machine.bytes(&meta_of(block))) else {
        return false;
    };
    let header = meta.first_chunk::<{ meta::PREAMBLE_BYTES }>();
    let Some(Ok(layout)) = header.map(|header| meta::check_header(header)) else { return false };
    let begin = usize::try_from(layout.crc_position(0)).unwrap_or(usize::MAX);
    let crcs = meta.get(begin..).unwrap_or_default();
    checksum::verify(&data, crcs).is_ok()
}
