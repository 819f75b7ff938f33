//! Comparing files on disk with their checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use protocol::BlockId;
use protocol::checksum::{self, CHUNK_BYTES, CRC_BYTES};
use protocol::meta;

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
    check_header(id, meta_file)?;
    let mut data = vec![0; STEP_BYTES.min((end - offset) as usize)];
    let mut crcs = vec![0; data.len().div_ceil(CHUNK_BYTES) * CRC_BYTES];
    let mut at = offset;
    while at < end {
        let data = &mut data[..STEP_BYTES.min((end - at) as usize)];
        let crcs = &mut crcs[..data.len().div_ceil(CHUNK_BYTES) * CRC_BYTES];
        let read = block
            .read_exact_at(data, at)
            .and_then(|()| meta_file.read_exact_at(crcs, meta::crc_position(at)));
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

/// How many bytes of the files, from the front, match their checksums.
pub(super) fn good_length(id: BlockId, block: &File, meta_file: &File) -> io::Result<u64> {
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

/// Checks the header of a meta file.
///
/// # Errors
/// [`StoreError::Meta`] or [`StoreError::Io`].
pub fn check_header(id: BlockId, meta_file: &File) -> Result<(), StoreError> {
    let mut header = [0; meta::HEADER_BYTES];
    match meta_file.read_exact_at(&mut header, 0) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Err(StoreError::Meta { block: id, source: meta::MetaError::Header });
        }
        Err(source) => return Err(StoreError::Io { block: id, source }),
    }
    meta::check_header(&header).map_err(|source| StoreError::Meta { block: id, source })
}
