//! Inputs that are several records or rows. Included by each module whose decoders take such.

/// Takes a piece off the front whose length its first two bytes say.
pub(super) fn piece<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (piece, rest) = rest.split_at(length);
    *bytes = rest;
    Some(piece)
}
