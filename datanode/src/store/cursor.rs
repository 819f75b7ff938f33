//! The scanner's place in its round, kept over restarts: a DataNode that is restarted each week would otherwise verify the same replicas forever and never
//! reach the last ones.
//!
//! ```text
//! scanner 1
//! cursor <block id>, or none
//! round <begin of the round, milliseconds since the epoch>
//! crc <8 hex digits over the lines before>
//! ```
//!
//! Replaced atomically. A file that cannot be read counts as missing: the round starts over.

use std::io;
use std::path::Path;

use protocol::BlockId;

/// Name of the file in a data directory.
pub(super) const FILE: &str = "scanner";

/// The scanner's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The last replica verified in this round.
    pub block: Option<BlockId>,
    /// When the round began, milliseconds since the epoch.
    pub round_ms: u64,
}

pub(super) fn format(cursor: Cursor) -> String {
    let block = cursor.block.map_or_else(|| "none".to_owned(), |block| block.0.to_string());
    let body = format!("scanner 1\ncursor {block}\nround {}\n", cursor.round_ms);
    format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes()))
}

pub(super) fn parse(text: &str) -> Option<Cursor> {
    let (body, crc) = text.split_at(text.find("crc ")?);
    if crc != format!("crc {:08x}\n", crc32fast::hash(body.as_bytes())) {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != "scanner 1" {
        return None;
    }
    let block = match lines.next()?.strip_prefix("cursor ")? {
        "none" => None,
        number => Some(BlockId(number.parse().ok()?)),
    };
    let round_ms = lines.next()?.strip_prefix("round ")?.parse().ok()?;
    Some(Cursor { block, round_ms })
}

pub(super) fn save(directory: &Path, cursor: Cursor) -> io::Result<()> {
    sys::fs::write_atomic(&directory.join(FILE), format(cursor).as_bytes(), 0o600)
}

pub(super) fn load(directory: &Path) -> Option<Cursor> {
    parse(&sys::disk::read_to_string(&directory.join(FILE)).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_text_truncation_and_damage() {
        let cursor = Cursor { block: Some(BlockId(77)), round_ms: 1_000 };
        let body = "scanner 1\ncursor 77\nround 1000\n";
        let text = format(cursor);
        assert_eq!(text, format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes())));
        assert_eq!(parse(&text), Some(cursor));
        let none = Cursor { block: None, ..cursor };
        assert_eq!(parse(&format(none)), Some(none));
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None, "cut at {end}");
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(parse(&String::from_utf8(bytes).unwrap()), None, "flipped at {at}");
        }
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(load(directory.path()), None);
        save(directory.path(), cursor).unwrap();
        assert_eq!(load(directory.path()), Some(cursor));
    }
}
