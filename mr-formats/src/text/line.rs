//! A line of text and its words.

use std::borrow::Cow;
use std::ops::Deref;

/// A line without its end, and its position in its file. Derefs to its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line<'a> {
    /// Position of the line's first byte in its file.
    pub offset: u64,
    /// The line without `\n`, `\r\n` or `\r`.
    pub bytes: &'a [u8],
}

impl<'a> Line<'a> {
    /// The words of the line: the bytes between spaces, tabs, form feeds and line ends.
    ///
    /// ```
    /// let line = mr_api::Line { offset: 0, bytes: b" to be\tor\xff not " };
    /// let words: Vec<&[u8]> = line.words().collect();
    /// assert_eq!(words, [&b"to"[..], b"be", b"or\xff", b"not"]);
    /// ```
    #[inline]
    pub fn words(&self) -> Words<'a> {
        Words::new(self.bytes)
    }

    /// The line as text; invalid UTF-8 becomes U+FFFD.
    pub fn to_str_lossy(&self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }
}

impl Deref for Line<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

/// Iterates over the words of bytes; see [`Line::words`].
///
/// Works on 64 bytes at a time: one bit per separator, then one step per word instead of one per byte.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    bytes: &'a [u8],
    /// Where the current word began.
    start: usize,
    /// Position of the byte for bit 0 of `separators`.
    block: usize,
    /// A bit for each separator of the block that the iterator has not passed yet.
    separators: u64,
}

const BLOCK: usize = 64;

impl<'a> Words<'a> {
    /// The words of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Words { bytes, start: 0, block: 0, separators: separators_at(bytes, 0) }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            while self.separators != 0 {
                let end = self.block + self.separators.trailing_zeros() as usize;
                self.separators &= self.separators - 1;
                let start = std::mem::replace(&mut self.start, end + 1);
                if start < end {
                    return Some(&self.bytes[start..end]);
                }
            }
            self.block += BLOCK;
            if self.block >= self.bytes.len() {
                let start = std::mem::replace(&mut self.start, self.bytes.len());
                return self.bytes.get(start..).filter(|word| !word.is_empty());
            }
            self.separators = separators_at(self.bytes, self.block);
        }
    }
}

/// A bit per separator among the 64 bytes from `at` on; none beyond the end.
#[inline]
fn separators_at(bytes: &[u8], at: usize) -> u64 {
    let rest = &bytes[at..];
    match rest.first_chunk::<BLOCK>() {
        Some(block) => separators(block),
        None => {
            let mut block = [b'x'; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            separators(&block)
        }
    }
}

#[inline]
fn separators(block: &[u8; BLOCK]) -> u64 {
    let mut candidates = 0;
    for (position, word) in block.chunks_exact(8).enumerate() {
        let word = u64::from_le_bytes(word.try_into().expect("chunks of eight"));
        // Sets the high bit of each byte above 0x20: the low seven bits overflow into it, or it is set already.
        let above = ((word & LOW_BITS) + 0x5f5f_5f5f_5f5f_5f5f) | word;
        let low = !above & HIGH_BITS;
        // Gathers the eight high bits into one byte.
        candidates |= ((low >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * position);
    }
    // Rare control characters are below the space but are not separators.
    let mut unsure = candidates;
    while unsure != 0 {
        let position = unsure.trailing_zeros() as usize;
        if !is_separator(block[position]) {
            candidates &= !(1 << position);
        }
        unsure &= unsure - 1;
    }
    candidates
}

const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

#[inline]
fn is_separator(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn slow(bytes: &[u8]) -> Vec<&[u8]> {
        bytes.split(|byte| is_separator(*byte)).filter(|word| !word.is_empty()).collect()
    }

    proptest! {
        #[test]
        fn words_are_what_lies_between_separators(
            bytes in prop::collection::vec(
                prop_oneof![3 => any::<u8>(), 2 => 0u8..=0x21, 4 => b'a'..=b'c', 1 => Just(b' '), 1 => Just(0x80u8 | b' ')],
                0..300,
            ),
        ) {
            prop_assert_eq!(Words::new(&bytes).collect::<Vec<_>>(), slow(&bytes));
        }
    }

    #[test]
    fn words_at_the_edges_of_blocks() {
        for len in 0..200 {
            for space in 0..len {
                let mut bytes = vec![b'x'; len];
                bytes[space] = b' ';
                assert_eq!(Words::new(&bytes).collect::<Vec<_>>(), slow(&bytes), "{len} {space}");
            }
        }
    }
}
