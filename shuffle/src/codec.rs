//! Compression of one block.
//!
//! Invariant: stored bytes are never longer than the raw bytes; a block that does not shrink is stored uncompressed.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};

use crate::error::Damage;

/// How the payload of a block is compressed. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// Stored uncompressed.
    None,
    /// LZ4 block format, no length prefix.
    #[default]
    Lz4,
}

impl Codec {
    pub(crate) const fn to_byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
        }
    }

    pub(crate) const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Lz4),
            _ => None,
        }
    }

    /// True if `stored` bytes of this codec can stand for `raw` bytes. Checked before memory is allocated.
    pub(crate) fn lengths_possible(self, stored: usize, raw: usize) -> bool {
        match self {
            Self::None => stored == raw,
            Self::Lz4 => raw / LZ4_EXPANSION_MAX <= stored,
        }
    }

    /// Appends the compressed form of `raw` to `out` and returns the codec that was used in the end.
    pub(crate) fn compress(self, raw: &[u8], out: &mut Vec<u8>) -> Self {
        let start = out.len();
        if self == Self::Lz4 {
            out.resize(start + get_maximum_output_size(raw.len()), 0);
            if let Ok(stored) = compress_into(raw, &mut out[start..])
                && stored < raw.len()
            {
                out.truncate(start + stored);
                return Self::Lz4;
            }
            out.truncate(start);
        }
        out.extend_from_slice(raw);
        Self::None
    }

    /// Fills `out` with exactly `raw` bytes decompressed from `stored`.
    pub(crate) fn decompress(
        self,
        stored: &[u8],
        raw: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Damage> {
        if !self.lengths_possible(stored.len(), raw) {
            return Err(Damage::Length);
        }
        match self {
            Self::None => {
                out.clear();
                out.extend_from_slice(stored);
            }
            Self::Lz4 => {
                out.resize(raw, 0);
                let filled = decompress_into(stored, out).map_err(|_| Damage::Compression)?;
                if filled != raw {
                    return Err(Damage::Compression);
                }
            }
        }
        Ok(())
    }
}

/// One stored byte of LZ4 stands for at most 255 raw bytes (a run-length byte of a match).
const LZ4_EXPANSION_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_never_grows() {
        let noise: Vec<u8> =
            (0..5000u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
        for raw in [vec![], vec![7u8], vec![0u8; 100_000], noise] {
            for codec in [Codec::None, Codec::Lz4] {
                let mut stored = vec![1, 2, 3];
                let used = codec.compress(&raw, &mut stored);
                assert!(stored.len() - 3 <= raw.len());
                let mut back = vec![9; 10];
                used.decompress(&stored[3..], raw.len(), &mut back).unwrap();
                assert_eq!(back, raw);
            }
        }
    }

    #[test]
    fn lengths_are_checked_before_memory_is_taken() {
        let mut out = Vec::new();
        assert_eq!(Codec::Lz4.decompress(&[0; 4], 1 << 40, &mut out), Err(Damage::Length));
        assert_eq!(Codec::None.decompress(&[0; 4], 5, &mut out), Err(Damage::Length));
        assert_eq!(out.capacity(), 0);
        assert_eq!(Codec::Lz4.decompress(&[0x10], 1, &mut out), Err(Damage::Compression));
    }
}
