//! Comparing files on disk with their checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use protocol::BlockId;
use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::meta::{self, Layout, TAIL_BYTES, TAILS, Tail};

use crate::error::StoreError;

/// Data that is read at once; its checksums are read along.
const STEP_BYTES: usize = 1 << 20;

/// Verifies whole chunks from `offset` (a chunk's begin) until `end`, calling `each` after every step with the bytes it read.
/// The file may go on behind `end` only if `end` is a chunk's end.
///
/// # Errors
/// [`StoreError::Corrupt`] with the offset of the first bad chunk, also where the files are too short.
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

/// What of a replica its files prove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Good {
    /// Bytes from the front.
    pub length: u64,
    /// What proves the last of them where the checksum in its place does not, and where that is in the meta file.
    pub by_tail: Option<(Tail, u64)>,
}

/// How many bytes of the files, from the front, are provably what was written.
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

/// How many bytes from the front match the checksums of their chunks.
fn good_chunks(id: BlockId, block: &File, meta_file: &File) -> io::Result<u64> {
    let length = block.metadata()?.len();
    match verify_range(id, block, meta_file, 0, length, |_| ()) {
        Ok(()) => Ok(length),
        Err(StoreError::Corrupt { offset, .. }) => {
            // The step that failed may have been cut short by a missing checksum; chunks before it are good.
            let mut good = offset;
            while verify_range(
                id,
                block,
                meta_file,
                good,
                (good + CHUNK_BYTES as u64).min(length),
                |_| (),
            )
            .is_ok()
                && good < length
            {
                good = (good + CHUNK_BYTES as u64).min(length);
            }
            Ok(good)
        }
        Err(StoreError::Io { source, .. }) => Err(source),
        Err(_) => Ok(0),
    }
}

/// The tails of a meta file, by their places.
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

/// True if the bytes of its chunk are there and are those of the tail.
fn is_proved(block: &File, tail: Tail) -> io::Result<bool> {
    let mut bytes = [0; CHUNK_BYTES];
    let bytes = &mut bytes[..tail.chunk_bytes()];
    match block.read_exact_at(bytes, tail.chunk_begin()) {
        Ok(()) => Ok(tail.proves(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Checks the header of a meta file and tells where things are in it.
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
