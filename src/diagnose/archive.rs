//! An archive that `tar -xzf` unpacks: headers of ustar (POSIX.1-1988), 512 bytes each, then the bytes of the file up to the next multiple of 512; two empty
//! blocks end it. All of it is packed by gzip. Only what is needed here can be written: plain files with short names.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Bytes of a block, a header among them.
const BLOCK_BYTES: usize = 512;
/// Bytes of a name: the field has a zero byte behind it.
const NAME_BYTES_MAX: usize = 99;
/// Only the owner reads what was packed.
const MODE: u64 = 0o600;

/// An archive under way.
pub(super) struct Archive<W: Write> {
    out: GzEncoder<W>,
    /// Time of all files, seconds since the epoch.
    modified_s: u64,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W, modified_s: u64) -> Self {
        Archive { out: GzEncoder::new(out, Compression::default()), modified_s }
    }

    /// Adds a file.
    ///
    /// # Errors
    /// `InvalidInput` for a name that does not fit; otherwise those of writing.
    pub(super) fn add(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let header = header(name, bytes.len() as u64, self.modified_s)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, name.to_owned()))?;
        self.out.write_all(&header)?;
        self.out.write_all(bytes)?;
        let rest = bytes.len().next_multiple_of(BLOCK_BYTES) - bytes.len();
        self.out.write_all(&[0; BLOCK_BYTES][..rest])
    }

    /// Ends the archive and returns what it was written to.
    ///
    /// # Errors
    /// Those of writing.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK_BYTES])?;
        self.out.finish()
    }
}

/// The header of a file; `None` if the name or a number does not fit.
fn header(name: &str, size: u64, modified_s: u64) -> Option<[u8; BLOCK_BYTES]> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut header = [0; BLOCK_BYTES];
    header[..name.len()].copy_from_slice(name.as_bytes());
    for (at, digits, value) in
        [(100, 7, MODE), (108, 7, 0), (116, 7, 0), (124, 11, size), (136, 11, modified_s)]
    {
        let text = format!("{value:0digits$o}");
        if text.len() > digits {
            return None;
        }
        header[at..at + digits].copy_from_slice(text.as_bytes());
    }
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    // The sum is taken as if its own field held spaces.
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().copied().map(u32::from).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Some(header)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn unpacked(archive: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(archive).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn files_follow_their_headers_in_whole_blocks() {
        let mut archive = Archive::new(Vec::new(), 0o1234);
        archive.add("a/b.txt", b"hello").unwrap();
        archive.add("empty", b"").unwrap();
        archive.add("full", &[7; BLOCK_BYTES]).unwrap();
        let bytes = unpacked(&archive.finish().unwrap());
        assert_eq!(bytes.len(), 7 * BLOCK_BYTES);
        let block = |number: usize| &bytes[number * BLOCK_BYTES..(number + 1) * BLOCK_BYTES];
        assert!(block(0).starts_with(b"a/b.txt\0") && block(1).starts_with(b"hello\0"));
        assert!(block(2).starts_with(b"empty\0") && block(3).starts_with(b"full\0"));
        assert_eq!(block(4), [7; BLOCK_BYTES]);
        assert!(block(5).iter().chain(block(6)).all(|byte| *byte == 0));
        let first = block(0);
        assert_eq!(&first[100..108], b"0000600\0");
        assert_eq!(
            (&first[124..136], &first[136..148]),
            (&b"00000000005\0"[..], &b"00000001234\0"[..])
        );
        assert_eq!(&first[257..265], b"ustar\x0000");
        let sum = u32::from_str_radix(std::str::from_utf8(&first[148..154]).unwrap(), 8).unwrap();
        let others = first[..148].iter().chain(&first[156..]).copied().map(u32::from);
        assert_eq!(sum, others.sum::<u32>() + 8 * u32::from(b' '));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut archive = Archive::new(Vec::new(), 0);
        for name in ["", &"x".repeat(NAME_BYTES_MAX + 1)] {
            let error = archive.add(name, b"").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name}");
        }
        archive.add(&"x".repeat(NAME_BYTES_MAX), b"").unwrap();
        assert_eq!(header("a", 1 << 33, 0), None);
        assert_eq!(header("a", 0, 1 << 33), None);
    }
}
