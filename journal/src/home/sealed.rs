//! The frame around the small files of a directory: `magic [8] | layout u32 | fields | crc32 of all before u32`, little endian.

use crate::bytes::u32_at;

/// Bytes before the first field.
const HEAD_LEN: usize = 12;

/// A file without its fields.
pub(crate) fn begin(magic: &[u8; 8], layout: u32) -> Vec<u8> {
    let mut out = magic.to_vec();
    out.extend_from_slice(&layout.to_le_bytes());
    out
}

/// Ends a file whose fields are written.
pub(crate) fn seal(mut out: Vec<u8>) -> Vec<u8> {
    out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
    out
}

/// All but the checksum, so fields have the same offsets as in the file; `None` if it is damaged, `Err` is the version of another layout.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    layout: u32,
) -> Result<Option<&'a [u8]>, u32> {
    let Some((body, sum)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
    let is_whole = u32::from_le_bytes(*sum) == crc32fast::hash(body);
    if !is_whole || !body.starts_with(magic) || body.len() < HEAD_LEN {
        return Ok(None);
    }
    match u32_at(body, magic.len()) {
        Some(found) if found != layout => Err(found),
        _ => Ok(Some(body)),
    }
}
