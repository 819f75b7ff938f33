//! The part of an executable that a job needs: everything that is loaded, without symbols and debug sections.
//!
//! ```text
//! front   the file to the end of its last segment, byte for byte but for the place of the section table in the ELF header
//! tail    names of sections, section table with empty entries for the sections that are gone
//! ```
//!
//! Invariants: program headers, and everything that they name, keep their content and place. A file without the layout that linkers use is left unchanged. That
//! layout has 64 bits, little endian; everything that is not loaded comes after everything that is; nothing comes after the sections.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// ELF, 64 bits, little endian, version 1.
const MAGIC: &[u8] = b"\x7fELF\x02\x01\x01";
const HEADER_BYTES: u64 = 64;
const SEGMENT_BYTES: usize = 56;
const SECTION_BYTES: usize = 64;
/// Most bytes of section names: a linker writes hundreds; a file with more than these is left unchanged.
const NAMES_BYTES_MAX: u64 = 1 << 20;
/// Where the ELF header has the position of the section table.
const SECTIONS_AT: usize = 40;
/// Where an entry of the section table has the position of the section.
const OFFSET_AT: usize = 24;
/// `SHT_NULL`.
const NULL: u32 = 0;
/// `SHT_SYMTAB`.
const SYMTAB: u32 = 2;
/// `SHT_NOBITS`: the section has no bytes in the file.
const NOBITS: u32 = 8;
/// `SHF_ALLOC`: the section is loaded.
const LOADED: u64 = 2;

/// An executable reduced to its loaded parts.
pub(super) struct Stripped {
    /// Replaces the first bytes of the file.
    pub(super) head: Vec<u8>,
    /// Bytes of the file that are kept, from its start.
    pub(super) front_bytes: u64,
    /// The bytes behind them.
    pub(super) tail: Vec<u8>,
}

/// The file of this many bytes without symbols and debug sections; `None` if it has none or must be left unchanged.
pub(super) fn strip(file: &File, bytes: u64) -> Option<Stripped> {
    let read = |at: u64, length: u64| {
        let mut found = vec![0; usize::try_from(length).ok()?];
        let is_within = at.checked_add(length)? <= bytes;
        (is_within && file.read_exact_at(&mut found, at).is_ok()).then_some(found)
    };
    let mut head = read(0, HEADER_BYTES)?;
    let is_known = head.starts_with(MAGIC)
        && usize::from(u16_at(&head, 54)) == SEGMENT_BYTES
        && usize::from(u16_at(&head, 58)) == SECTION_BYTES;
    if !is_known {
        return None;
    }
    let segments_at = u64_at(&head, 32);
    let segments = read(segments_at, u64::from(u16_at(&head, 56)) * SEGMENT_BYTES as u64)?;
    let mut front_bytes = HEADER_BYTES.max(segments_at + segments.len() as u64);
    for segment in segments.chunks_exact(SEGMENT_BYTES) {
        front_bytes = front_bytes.max(u64_at(segment, 8).checked_add(u64_at(segment, 32))?);
    }
    let sections_at = u64_at(&head, SECTIONS_AT);
    let mut sections = read(sections_at, u64::from(u16_at(&head, 60)) * SECTION_BYTES as u64)?;
    let names_number = usize::from(u16_at(&head, 62));
    let names = sections.chunks_exact(SECTION_BYTES).nth(names_number)?;
    let (names_at, names_bytes) = place(names);
    if sections_at < front_bytes || names_bytes > NAMES_BYTES_MAX {
        return None;
    }
    let names = read(names_at, names_bytes)?;
    let (mut end, mut is_useful) = (sections_at + sections.len() as u64, false);
    for section in sections.chunks_exact(SECTION_BYTES) {
        let kind = u32_at(section, 4);
        if kind == NULL || kind == NOBITS {
            continue;
        }
        let (at, bytes) = place(section);
        let section_end = at.checked_add(bytes)?;
        let is_in_place =
            if is_loaded(section) { section_end <= front_bytes } else { at >= front_bytes };
        if !is_in_place {
            return None;
        }
        end = end.max(section_end);
        let name = names.get(u32_at(section, 0) as usize..)?;
        is_useful |= !is_loaded(section) && (kind == SYMTAB || name.starts_with(b".debug_"));
    }
    if end != bytes || !is_useful {
        return None;
    }
    for (number, section) in sections.chunks_exact_mut(SECTION_BYTES).enumerate() {
        if number == names_number {
            section[OFFSET_AT..][..8].copy_from_slice(&front_bytes.to_le_bytes());
        } else if !is_loaded(section) {
            section.fill(0);
        }
    }
    let sections_at = (front_bytes + names_bytes).next_multiple_of(8);
    head[SECTIONS_AT..][..8].copy_from_slice(&sections_at.to_le_bytes());
    let mut tail = names;
    tail.resize((sections_at - front_bytes) as usize, 0);
    tail.extend(sections);
    Some(Stripped { head, front_bytes, tail })
}

/// Position and length of a section.
fn place(section: &[u8]) -> (u64, u64) {
    (u64_at(section, OFFSET_AT), u64_at(section, 32))
}

fn is_loaded(section: &[u8]) -> bool {
    u64_at(section, 8) & LOADED != 0
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("within a header"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("within a header"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use crate::job::Content;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn entry(name: u32, kind: u32, flags: u64, (at, bytes): (u64, u64)) -> Vec<u8> {
        let mut entry = [name.to_le_bytes(), kind.to_le_bytes()].concat();
        entry.extend([flags, 0, at, bytes, 0, 1, 0].map(u64::to_le_bytes).concat());
        entry
    }

    const NAMES: &[u8] = b"\0.text\0.debug_info\0.symtab\0.shstrtab\0";
    const TEXT: &[u8] = b"all that is loaded";
    /// Where the text begins.
    const TEXT_AT: u64 = HEADER_BYTES + SEGMENT_BYTES as u64;

    /// Header, one segment, `.text`, then `.debug_info`, `.symtab`, names and the table.
    fn program() -> Vec<u8> {
        let text = (TEXT_AT, TEXT.len() as u64);
        let debug = (text.0 + text.1, 1000);
        let symbols = (debug.0 + debug.1, 500);
        let names = (symbols.0 + symbols.1, NAMES.len() as u64);
        let table_at = names.0 + names.1;
        let mut file = MAGIC.to_vec();
        file.resize(16, 0);
        file.extend([2u16, 62, 1, 0].map(u16::to_le_bytes).concat());
        file.extend([0, HEADER_BYTES, table_at].map(u64::to_le_bytes).concat());
        file.extend([0u16, 0, 64, 56, 1, 64, 5, 4].map(u16::to_le_bytes).concat());
        let segment = [0x5_0000_0001, 0, 0, 0, text.0 + text.1, text.0 + text.1, 4096];
        file.extend(segment.map(u64::to_le_bytes).concat());
        file.extend(TEXT);
        file.extend(vec![b'd'; 1000]);
        file.extend(vec![b's'; 500]);
        file.extend(NAMES);
        file.extend(entry(0, NULL, 0, (0, 0)));
        file.extend(entry(1, 1, LOADED, text));
        file.extend(entry(7, 1, 0, debug));
        file.extend(entry(19, SYMTAB, 0, symbols));
        file.extend(entry(27, 3, 0, names));
        file
    }

    #[test]
    fn what_is_loaded_stays_and_the_rest_goes() {
        let bytes = program();
        let stripped = strip(&file(&bytes), bytes.len() as u64).unwrap();
        let front = TEXT_AT as usize + TEXT.len();
        assert_eq!(stripped.front_bytes, front as u64);
        let mut head = bytes[..64].to_vec();
        let table_at = (front + NAMES.len()).next_multiple_of(8);
        head[SECTIONS_AT..][..8].copy_from_slice(&(table_at as u64).to_le_bytes());
        assert_eq!(stripped.head, head, "only the place of the table differs");
        assert!(stripped.tail.starts_with(NAMES));
        let table = &stripped.tail[table_at - front..];
        let text = entry(1, 1, LOADED, (TEXT_AT, TEXT.len() as u64));
        let names = entry(27, 3, 0, (front as u64, NAMES.len() as u64));
        assert_eq!(table, [vec![0; 64], text, vec![0; 128], names].concat());
        // The result is already stripped.
        let again = [&stripped.head, &bytes[64..front], &stripped.tail].concat();
        assert!(strip(&file(&again), again.len() as u64).is_none());
    }

    #[test]
    fn a_file_of_another_layout_is_left_as_it_is() {
        let sound = program();
        let is_left = |bytes: &[u8]| strip(&file(bytes), bytes.len() as u64).is_none();
        assert!(!is_left(&sound));
        assert!(is_left(b"") && is_left(b"#!/bin/sh\nexec true\n"));
        assert!(is_left(&[&sound[..], b"an archive"].concat()), "something is behind the sections");
        for length in 0..sound.len() {
            assert!(is_left(&sound[..length]), "cut off at {length}");
        }
        let table_at = u64_at(&sound, SECTIONS_AT) as usize;
        let with = |at: usize, value: &[u8]| {
            let mut bytes = sound.clone();
            bytes[at..][..value.len()].copy_from_slice(value);
            bytes
        };
        for (what, at, value) in [
            ("32 bits", 4, &[1][..]),
            ("big endian", 5, &[2]),
            ("other entries", 58, &[40]),
            ("no sections", 60, &[0]),
            ("names that are no section", 62, &[9]),
            ("a segment over everything", 64 + 32, &10_000u64.to_le_bytes()),
            ("a segment without end", 64 + 32, &[0xff; 8]),
            ("debug lines that are loaded", table_at + 2 * 64 + 8, &[2]),
            ("symbols amid what is loaded", table_at + 3 * 64 + OFFSET_AT, &1u64.to_le_bytes()),
            ("a section without end", table_at + 3 * 64 + 32, &[0xff; 8]),
            ("a name that is none", table_at + 2 * 64, &[0xff; 4]),
        ] {
            assert!(is_left(&with(at, value)), "{what}");
        }
    }

    /// Whatever the tables say, there is no panic, and whatever is loaded stays.
    #[test]
    fn any_byte_of_the_tables_may_be_wrong() {
        let sound = program();
        let tables = (0..TEXT_AT as usize).chain(u64_at(&sound, SECTIONS_AT) as usize..sound.len());
        for at in tables {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = sound.clone();
                bytes[at] = value;
                let Some(stripped) = strip(&file(&bytes), bytes.len() as u64) else { continue };
                let kept = stripped.front_bytes as usize;
                assert!(kept >= TEXT_AT as usize && kept + stripped.tail.len() < bytes.len());
                let segment_end = u64_at(&bytes, 64 + 8) + u64_at(&bytes, 64 + 32);
                assert!(segment_end <= kept as u64, "byte {at} is {value}");
            }
        }
    }

    /// This test itself is a program as linkers make them, with symbols unless the profile strips it.
    #[test]
    fn a_stripped_program_runs() {
        let path = std::env::current_exe().unwrap();
        let content = Content::of_program(&path).unwrap();
        assert!(content.bytes() <= path.metadata().unwrap().len());
        let directory = tempfile::tempdir().unwrap();
        let copy = directory.path().join("copy");
        let mut bytes = vec![0; content.bytes() as usize];
        content.read_exact_at(&mut bytes, 0).unwrap();
        std::fs::write(&copy, bytes).unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o700)).unwrap();
        let output = Command::new(&copy).arg("--list").output().unwrap();
        let listed = String::from_utf8_lossy(&output.stdout);
        assert!(listed.contains("a_stripped_program_runs: test"), "{listed}");
    }
}
