//! Read-only maps of immutable files.

#![allow(unsafe_code, reason = "mapping a file is unsafe by nature; the proof is at the call")]

use std::fs::File;
use std::io;
use std::ops::Deref;

use memmap2::{Advice, Mmap, MmapOptions};

/// The content of a file that nobody changes, as a slice.
#[derive(Debug)]
pub struct MappedFile {
    map: Option<Mmap>,
}

impl MappedFile {
    /// Maps the first `len` bytes of `file`.
    ///
    /// The caller promises that the file is immutable for as long as the map lives: Hanno maps finalized replicas and
    /// finished map outputs only, which are replaced by rename and removed by unlink, never written or cut in place.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file is shorter than `len`; else what the system says.
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
        // Only hints: without them the first pass over the map is merely slower.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

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
