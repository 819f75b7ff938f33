//! The file `mirrors` in a journal's first directory: the further directories that hold the journal, so that a later reader finds all of it.
//!
//! ```text
//! magic "HANNODIR" | layout u32 = 1 | count u32 | (length u32 | path)* | crc32 of these u32
//! ```
//!
//! Little endian. A path below the journal's directory is kept relative to it, so that a directory can be moved. Without the file
//! there are none.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::bytes::u32_at;
use crate::disk::{self, Disk, publish};
use crate::error::JournalError;
use crate::home::sealed;

/// Saves the mirrors, if they have changed.
pub(crate) fn remember(disk: &dyn Disk, dir: &Path, dirs: &[PathBuf]) -> Result<(), JournalError> {
    let is_default = dirs.is_empty();
    let bytes = encode(dir, dirs);
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    let is_known = if names.iter().any(|name| name == NAME) {
        disk::salvage(disk, &dir.join(NAME))?.bytes == bytes
    } else {
        is_default
    };
    if is_known {
        return Ok(());
    }
    publish(disk, dir, NAME, |file| file.append(&bytes)).map(drop)
}

/// The mirrors of the journal in `dir`.
///
/// # Errors
/// [`JournalError::Foreign`] for another layout; errors of the system. A file that is damaged or cannot be read counts as none and is noted.
pub(crate) fn read(
    disk: &dyn Disk,
    dir: &Path,
    notes: &mut Vec<String>,
) -> Result<Vec<PathBuf>, JournalError> {
    let names = disk.list(dir).map_err(crate::error::disk("list", dir))?;
    if !names.iter().any(|name| name == NAME) {
        return Ok(Vec::new());
    }
    let path = dir.join(NAME);
    match decode(&disk::salvage(disk, &path)?.bytes) {
        Ok(Some(paths)) => Ok(paths.into_iter().map(|path| dir.join(path)).collect()),
        Ok(None) => {
            notes.push(format!(
                "{} is damaged: only {} is looked at",
                path.display(),
                dir.display()
            ));
            Ok(Vec::new())
        }
        Err(version) => Err(JournalError::Foreign { path, version, known: LAYOUT }),
    }
}

pub(crate) fn encode(dir: &Path, dirs: &[PathBuf]) -> Vec<u8> {
    let mut out = sealed::begin(MAGIC, LAYOUT);
    out.extend_from_slice(&(dirs.len() as u32).to_le_bytes());
    for path in dirs {
        let path = path.strip_prefix(dir).unwrap_or(path).as_os_str().as_bytes();
        out.extend_from_slice(&(path.len() as u32).to_le_bytes());
        out.extend_from_slice(path);
    }
    sealed::seal(out)
}

/// `None` if it is damaged; `Err` is the version of another layout.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Vec<PathBuf>>, u32> {
    Ok(sealed::open(bytes, MAGIC, LAYOUT)?.and_then(paths))
}

fn paths(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let count = u32_at(bytes, 12)?;
    let (mut at, mut out) = (16, Vec::new());
    for _ in 0..count {
        let len = u32_at(bytes, at)? as usize;
        let path = bytes.get(at + 4..(at + 4).checked_add(len)?)?;
        out.push(PathBuf::from(OsString::from_vec(path.to_vec())));
        at += 4 + len;
    }
    (at == bytes.len()).then_some(out)
}

const NAME: &str = "mirrors";
const MAGIC: &[u8; 8] = b"HANNODIR";
const LAYOUT: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn dirs() -> Vec<PathBuf> {
        ["/j/log", "/m"].map(PathBuf::from).to_vec()
    }

    #[test]
    fn golden_bytes() {
        let bytes = encode(Path::new("/j"), &dirs());
        let want = b"HANNODIR\x01\0\0\0\x02\0\0\0\x03\0\0\0log\x02\0\0\0/m";
        assert_eq!(bytes[..bytes.len() - 4], want[..]);
        assert_eq!(decode(&bytes), Ok(Some(["log", "/m"].map(PathBuf::from).to_vec())));
    }

    #[test]
    fn each_truncation_and_each_flipped_bit_is_noticed() {
        let good = encode(Path::new("/j"), &dirs());
        for cut in 0..good.len() {
            assert_eq!(decode(&good[..cut]), Ok(None), "cut at {cut}");
        }
        for bit in 0..good.len() * 8 {
            let mut flipped = good.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), Ok(None), "bit {bit}");
        }
    }
}
