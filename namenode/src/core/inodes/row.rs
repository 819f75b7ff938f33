//! What rows of the checkpoint are made of: keys, values, and how blocks are written in them. A row is in its first form, or says which version it
//! has (ADR 22).

use protocol::{BlockId, GenerationStamp, InodeId};
use serde::{Deserialize, Serialize};

use crate::error::CoreError;

/// Blocks in one row: 64 take under 2 KB.
pub(in crate::core) const ROW_BLOCKS: usize = 64;

/// A changed row; `None` deletes it.
pub type Row = (Vec<u8>, Option<Vec<u8>>);

#[derive(Serialize, Deserialize)]
pub(in crate::core) struct BlockRow {
    pub(in crate::core) id: BlockId,
    pub(in crate::core) stamp: GenerationStamp,
    pub(in crate::core) length: u64,
    pub(in crate::core) complete: bool,
}

pub(in crate::core) fn id_key(prefix: u8, id: InodeId) -> Vec<u8> {
    let mut key = vec![prefix];
    key.extend(id.0.to_be_bytes());
    key
}

/// Key of a piece of what is too large for one row; big endian as all keys.
pub(in crate::core) fn chunk_key(prefix: u8, id: InodeId, chunk: usize) -> Vec<u8> {
    with_chunk(id_key(prefix, id), chunk)
}

/// A key followed by the number of a piece.
pub(in crate::core) fn with_chunk(mut key: Vec<u8>, chunk: usize) -> Vec<u8> {
    key.extend(u32::try_from(chunk).unwrap_or(u32::MAX).to_be_bytes());
    key
}

/// First bytes of a row that is not in its first form; its version follows. No row of the first form has them: it begins with a number, a length
/// or an option, and postcard writes none of these with a superfluous byte.
const VERSION_MARK: [u8; 2] = [0x80, 0];

pub(in crate::core) fn encode<T: Serialize>(row: &T) -> Vec<u8> {
    postcard::to_allocvec(row).expect("rows are plain data: encoding into memory cannot fail")
}

pub(in crate::core) fn decode<'a, T: Deserialize<'a>>(
    value: &'a [u8],
    what: &'static str,
) -> Result<T, CoreError> {
    if let Some((version, _)) = value.strip_prefix(&VERSION_MARK).and_then(<[u8]>::split_first) {
        return Err(CoreError::NewerForm { what, version: *version });
    }
    match postcard::take_from_bytes(value) {
        Ok((row, [])) => Ok(row),
        _ => Err(CoreError::BadRow(what)),
    }
}
