//! Decoders of untrusted bytes, for `fuzz/`: records of the journal, rows of the checkpoint, files of earlier versions, and files that operators keep.

use jiff::tz::TimeZone;
use protocol::{ClusterId, InodeId};

use crate::core::edit::{Edit, Record};
use crate::core::nodes::HostLists;
use crate::core::state::Loaded;
use crate::{migration, topology, trash};

use pieces::piece;

#[path = "../../fuzz/pieces.rs"]
mod pieces;

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("namenode_records", namenode_records),
    ("namenode_rows", namenode_rows),
    ("nodes_in_maintenance", nodes_in_maintenance),
    ("operators_lists", operators_lists),
    ("token_lists", token_lists),
];

/// Records one after the other, over a root directory: each is a length and a body.
pub fn namenode_records(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }
    let mut loaded = Loaded::default();
    let (owner, group) = ("root".to_owned(), "root".to_owned());
    let format = Edit::Format { cluster: ClusterId([7; 16]), owner, group, at_ms: 1 };
    loaded.ns.apply(&format).expect("an empty namespace is formatted");
    let mut rest = bytes;
    while let Some(body) = piece(&mut rest) {
        if loaded.replay(body).is_err() {
            return;
        }
    }
    let _ = (loaded.ns.take_rows(), loaded.retry.take_rows(1));
    let _ = loaded.ns.features(InodeId::ROOT);
}

/// Rows one after the other: length and key, length and value.
pub fn namenode_rows(bytes: &[u8]) {
    let (mut loaded, mut rest) = (Loaded::default(), bytes);
    while let (Some(key), Some(value)) = (piece(&mut rest), piece(&mut rest)) {
        if loaded.load_row(key, value).is_err() {
            return;
        }
    }
    if loaded.ns.finish_load().is_ok() {
        for (id, _) in loaded.ns.all() {
            let _ = (loaded.ns.path_of(id), loaded.ns.is_within(id, InodeId::ROOT));
        }
        let _ = (loaded.ns.take_rows(), loaded.retry.take_rows(1));
    }
}

/// Files of nodes in maintenance of earlier versions, as they are and with a header that fits.
pub fn nodes_in_maintenance(bytes: &[u8]) {
    let mut sealed = b"HNKP\x01\0\0\0".to_vec();
    sealed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    sealed.extend_from_slice(bytes);
    for bytes in [bytes, &sealed] {
        let _ = migration::decode_node(bytes);
    }
}

/// Lists of tokens, as they are and with a checksum that fits.
pub fn token_lists(bytes: &[u8]) {
    let crc = format!("crc32 {:08x}\n", crc32fast::hash(bytes));
    for bytes in [bytes, &[bytes, crc.as_bytes()].concat()] {
        let _ = migration::parse_tokens(bytes);
    }
}

/// Lists of hosts, racks of machines, names of checkpoints of the trash.
pub fn operators_lists(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = HostLists::parse_hosts(&text);
    let _ = topology::find_in_table(&text, &["host1", "10.0.0.1"]);
    let zone = TimeZone::UTC;
    if let Some(at_ms) = trash::checkpoint_time(&text, &zone) {
        let name = trash::checkpoint_name(at_ms, &zone);
        assert_eq!(trash::checkpoint_time(&name, &zone), Some(at_ms));
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
