//! Test data that is the same in every run.

use std::collections::HashMap;

use needs::random::Random;
use sha2::{Digest, Sha256};

/// `len` bytes that depend on `seed` and do not compress or repeat.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678);
    let mut data = Vec::with_capacity(len + 8);
    while data.len() < len {
        data.extend_from_slice(&random.bits().to_le_bytes());
    }
    data.truncate(len);
    data
}

/// A text of about `len` bytes: words of a skewed vocabulary, lines of 5 to 15 words, all the separators WordCount knows.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut data = Vec::with_capacity(len + 200);
    while data.len() < len {
        for _ in 0..5 + random.bits() % 11 {
            let word = random.bits() % (1 << (1 + random.bits() % 12));
            data.extend_from_slice(format!("w{word:x}é").as_bytes());
            data.push(*b" \t \x0c ".get((random.bits() % 5) as usize).unwrap_or(&b' '));
        }
        data.extend_from_slice(if random.bits().is_multiple_of(7) { b"\r\n" } else { b"\n" });
    }
    data
}

/// WordCount by the obvious program: `word<TAB>count`, sorted by bytes.
pub(crate) fn word_count(text: &[u8]) -> Vec<u8> {
    let mut counts: HashMap<&[u8], u64> = HashMap::new();
    for word in text.split(|byte| b" \t\n\r\x0c".contains(byte)).filter(|word| !word.is_empty()) {
        *counts.entry(word).or_default() += 1;
    }
    let mut lines: Vec<Vec<u8>> = counts
        .iter()
        .map(|(word, count)| [word, format!("\t{count}\n").as_bytes()].concat())
        .collect();
    lines.sort_unstable();
    lines.concat()
}

/// The lines of `text`, sorted by bytes.
pub(crate) fn sorted_lines(text: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines.concat()
}

pub(crate) fn sha256(data: &[u8]) -> [u8; 32] {
    Sha256::digest(data).into()
}

/// A small deterministic generator for choices in tests.
#[derive(Debug)]
pub(crate) struct Choices(Random);

impl Choices {
    /// Those of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Choices(Random::new(seed))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.bits() % end
    }
}
