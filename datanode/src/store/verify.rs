//! Comparing files on disk with their checksums.

use std::io;
use std::ops::Range;

use protocol::BlockId;
use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::meta::{self, Layout, TAIL_BYTES, TAILS, Tail};
use sys::disk::File;

use crate::error::StoreError;

/// Data read at once, with its checksums.
const STEP_BYTES: usize = 1 << 20;
/// Reads of a chunk that a writer adds to. One is enough unless it is cut off or its checksum replaced at that very moment; a few more never meet that again.
const OPEN_READS_MAX: usize = 5;

/// Verifies whole chunks from `offset` (the start of a chunk) to `end`, calling `each` after every step with the bytes it read. The file may continue past
/// `end` only if `end` is the end of a chunk.
///
/// # Errors
/// [`StoreError::Corrupt`] with the offset of the first bad chunk, also if the files are too short.
pub fn verify_range(
    id: BlockId,
    block: &File,
    meta_file: &File,
    offset: u64,
    end: u64,
    mut each: impl FnMut(u64),
) -> Result<(), StoreError> {
    let layout = check_header(id, meta_file)?;
    let mut data = vec![0; STEP_BYTES.min((end - offset) as usize)];
    let mut crcs = vec![0; data.len().div_ceil(CHUNK_BYTES) * CRC_BYTES];
    let mut at = offset;
    while at < end {
        let data = &mut data[..STEP_BYTES.min((end - at) as usize)];
        let crcs = &mut crcs[..data.len().div_ceil(CHUNK_BYTES) * CRC_BYTES];
        let read = block
            .read_exact_at(data, at)
            .and_then(|()| meta_file.read_exact_at(crcs, layout.crc_position(at)));
        match read {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(StoreError::Corrupt { block: id, offset: at });
            }
            Err(source) => return Err(StoreError::Io { block: id, source }),
        }
        checksum::verify(data, crcs)
            .map_err(|error| StoreError::Corrupt { block: id, offset: at + error.offset })?;
        at += data.len() as u64;
        each(data.len() as u64);
    }
    Ok(())
}

/// The part of a replica that its files prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Good {
    /// Bytes from the start.
    pub length: u64,
    /// The tail that proves the last of them where the stored checksum does not, and the position of that checksum in the meta file.
    pub by_tail: Option<(Tail, u64)>,
}

/// How many bytes from the start of the files are provably those that were written.
pub(super) fn good_length(id: BlockId, block: &File, meta_file: &File) -> io::Result<Good> {
    let none = Good { length: 0, by_tail: None };
    let layout = match check_header(id, meta_file) {
        Ok(layout) => layout,
        Err(StoreError::Io { source, .. }) => return Err(source),
        Err(_) => return Ok(none),
    };
    let mut good = Good { length: good_chunks(id, block, meta_file)?, ..none };
    for tail in tails(meta_file, layout)?.into_iter().flatten() {
        let within = tail.chunk_begin() <= good.length && good.length < tail.length;
        if within && is_proved(block, tail)? {
            let at = layout.crc_position(tail.chunk_begin());
            good = Good { length: tail.length, by_tail: Some((tail, at)) };
        }
    }
    Ok(good)
}

/// How many bytes from the start match the checksums of their chunks.
fn good_chunks(id: BlockId, block: &File, meta_file: &File) -> io::Result<u64> {
    let length = block.length()?;
    let Some(mut good) = first_bad(id, block, meta_file, 0..length)? else { return Ok(length) };
    // A missing checksum may have cut the failed step short; chunks before it are good.
    while good < length {
        let end = (good + CHUNK_BYTES as u64).min(length);
        if first_bad(id, block, meta_file, good..end)?.is_some() {
            break;
        }
        good = end;
    }
    Ok(good)
}

/// How many bytes from the start can be read and match the checksums of their chunks.
///
/// # Errors
/// If the process or the machine lacks resources.
pub(super) fn readable_length(id: BlockId, block: &File, meta_file: &File) -> io::Result<u64> {
    let (length, mut good) = (block.length()?, 0);
    while good < length {
        let end = (good + CHUNK_BYTES as u64).min(length);
        match verify_range(id, block, meta_file, good, end, |_| ()) {
            Ok(()) => good = end,
            Err(StoreError::Io { source, .. }) if sys::fs::is_shortage(&source) => {
                return Err(source);
            }
            Err(_) => break,
        }
    }
    Ok(good)
}

/// Where the step of [`verify_range`] begins whose bytes do not match their checksums. What cannot be read is not bad.
fn first_bad(
    id: BlockId,
    block: &File,
    meta_file: &File,
    range: Range<u64>,
) -> io::Result<Option<u64>> {
    match verify_range(id, block, meta_file, range.start, range.end, |_| ()) {
        Ok(()) => Ok(None),
        Err(StoreError::Corrupt { offset, .. }) => Ok(Some(offset)),
        Err(StoreError::Meta { .. }) => Ok(Some(range.start)),
        Err(StoreError::Io { source, .. } | StoreError::Shortage { source, .. }) => Err(source),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// The tails of a meta file, in the order of their positions.
pub(super) fn tails(meta_file: &File, layout: Layout) -> io::Result<[Option<Tail>; TAILS]> {
    let mut tails = [None; TAILS];
    for (tail, at) in tails.iter_mut().zip(layout.tail_positions()) {
        let mut bytes = [0; TAIL_BYTES];
        match meta_file.read_exact_at(&mut bytes, at) {
            Ok(()) => *tail = Tail::decode(bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tails)
}

/// True if the bytes of the tail's chunk exist and match the tail.
fn is_proved(block: &File, tail: Tail) -> io::Result<bool> {
    let mut bytes = [0; CHUNK_BYTES];
    let bytes = &mut bytes[..tail.chunk_bytes()];
    match block.read_exact_at(bytes, tail.chunk_begin()) {
        Ok(()) => Ok(tail.proves(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads the first bytes of a chunk that a writer may be adding to, and which it had before: they, or they and some that follow, match the stored checksum or
/// a tail.
///
/// # Errors
/// [`StoreError::Corrupt`] if nothing proves them.
pub fn read_open_chunk(
    (id, layout): (BlockId, Layout),
    (block, meta_file): (&File, &File),
    begin: u64,
    wanted: &mut [u8],
) -> Result<(), StoreError> {
    let io_error = |source| StoreError::Io { block: id, source };
    let mut chunk = [0; CHUNK_BYTES];
    for _ in 0..OPEN_READS_MAX {
        // The checksums first: bytes are written before their checksum, so what it covers is there by now.
        let mut crc = [0; CRC_BYTES];
        let crc = match meta_file.read_exact_at(&mut crc, layout.crc_position(begin)) {
            Ok(()) => Some(u32::from_be_bytes(crc)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(io_error(error)),
        };
        let tails = tails(meta_file, layout).map_err(io_error)?;
        let there = block.length().map_err(io_error)?.saturating_sub(begin);
        let chunk = &mut chunk[..there.min(CHUNK_BYTES as u64) as usize];
        match block.read_exact_at(chunk, begin) {
            Ok(()) => {}
            // A recovery cuts it off.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            Err(error) => return Err(io_error(error)),
        }
        let Some(first) = chunk.get(..wanted.len()) else { continue };
        let by_tail = tails.into_iter().flatten().any(|tail| {
            let is_enough = tail.chunk_begin() == begin && tail.chunk_bytes() >= wanted.len();
            is_enough && chunk.get(..tail.chunk_bytes()).is_some_and(|bytes| tail.proves(bytes))
        });
        if by_tail || crc.is_some_and(|crc| proves_prefix(crc, chunk, wanted.len())) {
            wanted.copy_from_slice(first);
            return Ok(());
        }
    }
    Err(StoreError::Corrupt { block: id, offset: begin })
}

/// True if a checksum is that of the first `least` bytes or of some more.
fn proves_prefix(crc: u32, bytes: &[u8], least: usize) -> bool {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&bytes[..least]);
    let mut more = bytes[least..].chunks(1);
    loop {
        if hasher.clone().finalize() == crc {
            return true;
        }
        let Some(next) = more.next() else { return false };
        hasher.update(next);
    }
}

/// Checks the header of a meta file and returns its layout.
///
/// # Errors
/// [`StoreError::Meta`] or [`StoreError::Io`].
pub fn check_header(id: BlockId, meta_file: &File) -> Result<Layout, StoreError> {
    let mut header = [0; meta::PREAMBLE_BYTES];
    match meta_file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(StoreError::Meta { block: id, source: meta::MetaError::Header });
        }
        Err(source) => return Err(StoreError::Io { block: id, source }),
    }
    meta::check_header(&header).map_err(|source| StoreError::Meta { block: id, source })
}
