//! The checksum file that Hadoop keeps beside a local file, `.name.crc`: `"crc\0" | u32 512 | a CRC-32 for each 512 bytes`, big-endian.
//!
//! Invariant: beside a file that was written here is no checksum file of what was there before: Hadoop refuses to read a file whose checksums are others.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use protocol::checksum::{CHUNK_BYTES, append_crcs};

/// How every checksum file begins.
const MAGIC: &[u8; 4] = b"crc\0";
/// Permissions of new files, less the process's mask.
const FILE_MODE: u32 = 0o666;

/// Files named like checksum files that this process has copied: they stay, whichever file is beside them.
static COPIED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The checksums of bytes that come in order.
pub(crate) struct Checksums {
    out: Vec<u8>,
    /// Start of a chunk that is not complete yet.
    partial: Vec<u8>,
}

impl Default for Checksums {
    fn default() -> Self {
        let chunk = u32::try_from(CHUNK_BYTES).expect("512 fits");
        let out = [&MAGIC[..], &chunk.to_be_bytes()].concat();
        Checksums { out, partial: Vec::with_capacity(CHUNK_BYTES) }
    }
}

impl Checksums {
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = CHUNK_BYTES - self.partial.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.partial.extend_from_slice(now);
            bytes = later;
            if self.partial.len() == CHUNK_BYTES {
                append_crcs(&self.partial, &mut self.out);
                self.partial.clear();
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / CHUNK_BYTES * CHUNK_BYTES);
        append_crcs(whole, &mut self.out);
        self.partial.extend_from_slice(rest);
    }

    fn finish(mut self) -> Vec<u8> {
        append_crcs(&self.partial, &mut self.out);
        self.out
    }

    /// Writes them beside the file that they are of. If that fails, nothing is left there.
    ///
    /// # Errors
    /// The checksum file, and the system's error.
    pub(crate) fn write_beside(self, file: &Path) -> Result<(), (PathBuf, io::Error)> {
        let path = beside(file);
        let bytes = self.finish();
        let written = sys::fs::create_anew(&path, FILE_MODE);
        written.and_then(|mut file| file.write_all(&bytes)).map_err(|error| {
            let _ = fs::remove_file(&path);
            (path, error)
        })
    }
}

/// A file is about to be written here. If it is named like a checksum file, it is nobody's checksum file but a copy.
pub(crate) fn begin(target: &Path) {
    let name = target.file_name().unwrap_or_default().as_encoded_bytes();
    if name.starts_with(b".") && name.ends_with(b".crc") {
        COPIED.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned());
    }
}

/// The file gets other bytes now: the checksum file of those before goes, if there is one.
///
/// # Errors
/// The checksum file, and the system's error.
pub(crate) fn remove_beside(file: &Path) -> Result<(), (PathBuf, io::Error)> {
    let path = beside(file);
    // Held to the end: meanwhile none is copied there.
    let copied = COPIED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_one = || -> io::Result<bool> {
        if !fs::symlink_metadata(&path)?.is_file() {
            return Ok(false);
        }
        let mut magic = [0; MAGIC.len()];
        sys::fs::open_input(&path)?.read_exact(&mut magic)?;
        Ok(magic == *MAGIC)
    };
    if copied.contains(&path) || !is_one().unwrap_or(false) {
        return Ok(());
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err((path, error)),
        _ => Ok(()),
    }
}

/// `.name.crc` beside `name`.
fn beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".crc");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_files_do_not_depend_on_pieces() {
        let data: Vec<u8> = (0..1500u32).map(|n| (n % 251) as u8).collect();
        let mut expected = b"crc\0\0\0\x02\0".to_vec();
        data.chunks(512).for_each(|chunk| append_crcs(chunk, &mut expected));
        for piece in [1, 511, 512, 700, 1500] {
            let mut sums = Checksums::default();
            data.chunks(piece).for_each(|piece| sums.update(piece));
            assert_eq!(sums.finish(), expected, "{piece}");
        }
        assert_eq!(Checksums::default().finish(), b"crc\0\0\0\x02\0");
        assert_eq!(beside(Path::new("/a/b")), Path::new("/a/.b.crc"));
    }

    #[test]
    fn only_checksum_files_go_that_are_not_copies() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let has = |name: &str| fs::symlink_metadata(path(name)).is_ok();
        Checksums::default().write_beside(&path("f")).unwrap();
        assert!(has(".f.crc"));
        remove_beside(&path("f")).unwrap();
        assert!(!has(".f.crc"));
        remove_beside(&path("f")).unwrap();
        fs::write(path(".other.crc"), "a file of the user").unwrap();
        fs::create_dir(path(".directory.crc")).unwrap();
        Checksums::default().write_beside(&path("copied")).unwrap();
        begin(&path(".copied.crc"));
        begin(&path("plain"));
        for name in ["other", "directory", "copied"] {
            remove_beside(&path(name)).unwrap();
            assert!(has(&format!(".{name}.crc")), "{name}");
        }
    }
}
