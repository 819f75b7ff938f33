//! Maps of files: immutable ones for reading, and small ones that show others the progress of this process. And the size of the pages of memory.

#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; the proof is at the call")]

use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::ops::Deref;
use std::path::Path;

use memmap2::{Advice, Mmap, MmapMut, MmapOptions};

/// The content of a file that nobody changes, as a slice.
#[derive(Debug)]
pub struct MappedFile {
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the first `len` bytes of `file`.
    ///
    /// The caller promises that the file is immutable for as long as the map lives. Hanno maps only finalized replicas and finished map outputs, which are
    /// replaced by rename and removed by unlink, never written or truncated in place.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file is shorter than `len`; else the system's error.
    pub fn map(file: &File, len: usize) -> io::Result<Self> {
        if file.metadata()?.len() < len as u64 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "file is shorter than it should be",
            ));
        }
        if len == 0 {
            return Ok(MappedFile { map: None });
        }
        // SAFETY: the map is read-only and within the file's length, checked above. Its content could change only if
        // another process of the same user wrote to or truncated an immutable file; that is outside the promise above and
        // would be a defect or sabotage by someone who could as well change this process's memory.
        let map = unsafe { MmapOptions::new().len(len).map(file)? };
        // Only hints: without them the first pass over the map is only slower.
        let _ = map.advise(Advice::Sequential);
        let _ = map.advise(Advice::WillNeed);
        Ok(MappedFile { map: Some(map) })
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.map.as_deref().unwrap_or(&[])
    }
}

/// Asks for large pages where `bytes` of this process's memory lie, as far as the system has some. Their content stays what it is.
pub fn prefer_large_pages(start: *const u8, bytes: usize) {
    let skipped = start.align_offset(PAGE_BYTES).min(bytes);
    let length = (bytes - skipped) / PAGE_BYTES * PAGE_BYTES;
    if length == 0 {
        return;
    }
    let start = start.cast_mut().wrapping_add(skipped);
    // SAFETY: the call reads and writes no memory of this process, whatever the address: it changes how the system backs it. Where it has no such
    // pages, or no such memory, it refuses.
    let _ = unsafe { libc::madvise(start.cast(), length, libc::MADV_HUGEPAGE) };
}

/// The smallest page, bytes.
const PAGE_BYTES: usize = 4096;

/// Numbers in a file: storing one costs as much as a store to memory, and readers of the file see it, even after this process was killed.
#[derive(Debug)]
pub struct SharedCells {
    map: MmapMut,
}

impl SharedCells {
    /// Creates the file with room for `count` numbers.
    ///
    /// # Errors
    /// The system's error; what has the name already, even a link, is left alone.
    pub fn create(path: &Path, count: usize) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create_new(true).open(path)?;
        // Written, not just extended: the disk then has room for it, and a store cannot fail.
        file.write_all(&vec![0; count * size_of::<u64>()])?;
        // SAFETY: the file was just written to this length. If its owner truncates it meanwhile, only this process ends, by SIGBUS.
        let map = unsafe { MmapOptions::new().len(count * size_of::<u64>()).map_mut(&file)? };
        Ok(SharedCells { map })
    }

    /// The numbers.
    pub fn cells(&mut self) -> &[Cell<u64>] {
        // SAFETY: every pattern of bits is a `u64`, and the map is borrowed mutably for as long as the numbers are.
        let (before, numbers, after) = unsafe { self.map.align_to_mut::<u64>() };
        debug_assert!(before.is_empty() && after.is_empty(), "a map begins at a page");
        Cell::from_mut(numbers).as_slice_of_cells()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn shared_numbers_are_seen_in_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cells");
        let mut shared = SharedCells::create(&path, 2).unwrap();
        let cells = shared.cells();
        assert_eq!((cells.len(), cells[0].get()), (2, 0));
        cells[1].set(u64::MAX - 1);
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file, [0u64.to_ne_bytes(), (u64::MAX - 1).to_ne_bytes()].concat());
        drop(shared);
        let taken = SharedCells::create(&path, 2).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), file);
    }

    #[test]
    fn maps_what_is_there_and_refuses_more() {
        let mut file = tempfile::tempfile().unwrap();
        assert_eq!(&*MappedFile::map(&file, 0).unwrap(), b"");
        file.write_all(b"hello").unwrap();
        assert_eq!(&*MappedFile::map(&file, 5).unwrap(), b"hello");
        assert_eq!(&*MappedFile::map(&file, 2).unwrap(), b"he");
        assert_eq!(MappedFile::map(&file, 6).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
