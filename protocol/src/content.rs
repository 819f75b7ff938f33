//! The hash that identifies executables and files of jobs. Its pieces are hashed separately, so several threads can share a file. An executable is hashed at
//! the start of every job, and that takes most of the time of a small job.
//!
//! ```text
//! hash = SHA-256("hanno content 1\n" | SHA-256(piece)* | bytes u64, big endian)
//! ```
//!
//! Every piece but the last has [`PIECE_BYTES`]; empty content has no piece.

use sha2::{Digest, Sha256};

use crate::BinaryHash;

/// Bytes of one piece.
pub const PIECE_BYTES: usize = 1 << 20;
/// Separates this hash from other hashes of the same bytes.
const DOMAIN: &[u8] = b"hanno content 1\n";

/// Hash of one piece.
pub type PieceHash = [u8; 32];

/// Hashes one piece.
pub fn piece(bytes: &[u8]) -> PieceHash {
    Sha256::digest(bytes).into()
}

/// The hash of content that consists of these pieces, `bytes` in all.
pub fn join<'a>(pieces: impl IntoIterator<Item = &'a PieceHash>, bytes: u64) -> BinaryHash {
    let mut outer = Sha256::new_with_prefix(DOMAIN);
    pieces.into_iter().for_each(|piece| outer.update(piece));
    finish(outer, bytes)
}

/// Hashes bytes as they arrive.
#[derive(Clone)]
pub struct Hasher {
    outer: Sha256,
    inner: Sha256,
    bytes: u64,
}

impl Hasher {
    /// A hasher that has seen nothing yet.
    pub fn new() -> Self {
        Hasher { outer: Sha256::new_with_prefix(DOMAIN), inner: Sha256::new(), bytes: 0 }
    }

    /// Adds bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let filled = (self.bytes % PIECE_BYTES as u64) as usize;
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - filled));
            self.inner.update(now);
            self.bytes += now.len() as u64;
            if filled + now.len() == PIECE_BYTES {
                self.outer.update(self.inner.finalize_reset());
            }
            bytes = later;
        }
    }

    /// The hash of everything added.
    pub fn finish(mut self) -> BinaryHash {
        if !self.bytes.is_multiple_of(PIECE_BYTES as u64) {
            self.outer.update(self.inner.finalize());
        }
        finish(self.outer, self.bytes)
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Hasher::new()
    }
}

fn finish(outer: Sha256, bytes: u64) -> BinaryHash {
    BinaryHash(outer.chain_update(bytes.to_be_bytes()).finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_hashes() {
        for (bytes, expected) in [(&b""[..], EMPTY), (b"abc", ABC)] {
            let mut hasher = Hasher::new();
            hasher.update(bytes);
            assert_eq!(hasher.finish().to_string(), expected);
        }
    }

    const EMPTY: &str = "e52a9d10d9be85003b46731b0de43b8d4564184fd62f07a0ca8f04d30354a5e7";
    const ABC: &str = "1756d64293d06adb27bd0e85e03dc2c0816be727c456a9ab865338d2390ed593";

    #[test]
    fn in_whatever_steps_and_pieces_the_hash_is_the_same() {
        let bytes: Vec<u8> = (0..2 * PIECE_BYTES + 77).map(|n| (n % 251) as u8).collect();
        for length in
            [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, bytes.len()]
        {
            let bytes = &bytes[..length];
            let pieces: Vec<PieceHash> = bytes.chunks(PIECE_BYTES).map(piece).collect();
            let joined = join(&pieces, length as u64);
            for step in [700_001, PIECE_BYTES, usize::MAX] {
                let mut hasher = Hasher::new();
                bytes.chunks(step.min(length.max(1))).for_each(|part| hasher.update(part));
                assert_eq!(hasher.finish(), joined, "{length} bytes in steps of {step}");
            }
        }
    }

    #[test]
    fn what_differs_has_another_hash() {
        let of = |bytes: &[u8]| {
            join(&bytes.chunks(PIECE_BYTES).map(piece).collect::<Vec<_>>(), bytes.len() as u64)
        };
        let zeros = vec![0; PIECE_BYTES + 1];
        let hashes = [of(b""), of(b"\0"), of(&zeros[..PIECE_BYTES]), of(&zeros), of(&piece(b"\0"))];
        for (index, hash) in hashes.iter().enumerate() {
            assert!(!hashes[index + 1..].contains(hash));
        }
    }
}
