//! Entry points for the files of a data directory, for `fuzz/`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::BlockId;
use protocol::meta;
use sys::disk::File;

use super::verify::{good_length, verify_range};
use super::{cursor, scan, volume};

/// An unnamed file that holds `bytes`.
fn file(bytes: &[u8]) -> File {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("replica-{}-{number}", std::process::id()));
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create_new(true).open(&path);
    let mut file = opened.expect("there is room for temporary files");
    fs::remove_file(&path).expect("it was just made");
    file.write_all(bytes).expect("there is room for temporary files");
    file.into()
}

/// A block file and its meta file: length of the block (two bytes), the block, the meta file. The meta file is used unchanged, and again after a valid header.
pub fn replica_files(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (block, meta_file) = rest.split_at(length);
    let behind = [&meta::header()[..meta::PREAMBLE_BYTES], meta_file].concat();
    let block_file = file(block);
    for meta_file in [meta_file, &behind] {
        let meta_file = file(meta_file);
        let good = good_length(BlockId(7), &block_file, &meta_file).expect("both can be read");
        assert!(good.length <= block.len() as u64);
        if good.by_tail.is_none() {
            let again = verify_range(BlockId(7), &block_file, &meta_file, 0, good.length, |_| ());
            assert!(good.length == 0 || again.is_ok(), "what is good verifies");
        }
    }
}

/// Headers of segments of small replicas, and of records in them.
pub fn small_segments(bytes: &[u8]) {
    super::small::read_any(bytes);
}

/// `VERSION`, the scanner's place, and file names.
pub fn volume_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let sealed = format!("{text}crc {:08x}\n", crc32fast::hash(text.as_bytes()));
    for text in [&text[..], &sealed] {
        if let Some(place) = cursor::parse(text) {
            assert_eq!(cursor::parse(&cursor::format(place)), Some(place));
        }
        if let Ok(identity) = volume::parse_version(text, Path::new("VERSION")) {
            let again = volume::format_version(identity);
            assert!(volume::parse_version(&again, Path::new("VERSION")).is_ok());
        }
    }
    if let Some((block, stamp, _)) = scan::parse_name(Path::new(&*text)) {
        assert!(text.contains(&format!("blk_{}_{}", block.0, stamp.0)));
    }
}
