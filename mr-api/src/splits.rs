//! Cutting files into splits: a pure function of sizes and limits.
//!
//! `split size = max(min, min(max, block size))`; a file is cut while more than 1.1 split sizes remain, so the last split may be
//! up to a tenth longer. An empty file is one empty split.

/// Where to cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SplitLimits {
    /// `mapreduce.input.fileinputformat.split.minsize`, bytes; default 1.
    pub(crate) min: u64,
    /// `mapreduce.input.fileinputformat.split.maxsize`, bytes; unlimited by default.
    pub(crate) max: u64,
}

impl Default for SplitLimits {
    fn default() -> Self {
        SplitLimits { min: 1, max: u64::MAX }
    }
}

/// `(offset, length)` of the splits of one file.
pub(crate) fn split_file(length: u64, block_bytes: u64, limits: SplitLimits) -> Vec<(u64, u64)> {
    let split = limits.min.max(limits.max.min(block_bytes)).max(1);
    let mut splits = Vec::new();
    let mut offset = 0;
    // remaining / split > 1.1, in whole numbers
    while (u128::from(length - offset)) * 10 > u128::from(split) * 11 {
        splits.push((offset, split));
        offset += split;
    }
    if offset < length || length == 0 {
        splits.push((offset, length - offset));
    }
    splits
}

/// True for files that are no input: `_SUCCESS`, `.crc`, ...
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['_', '.'])
}

/// True if `text` has characters that make it a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Matches a name against a pattern of `*` (any characters) and `?` (one character).
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((star_p, star_n)) => {
                    star = Some((star_p, star_n + 1));
                    p = star_p + 1;
                    n = star_n + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_cut_by_the_rule() {
        let cut = |length, block| split_file(length, block, SplitLimits::default());
        assert_eq!(cut(0, 10), [(0, 0)]);
        assert_eq!(cut(10, 10), [(0, 10)]);
        assert_eq!(cut(11, 10), [(0, 11)], "a tenth more is no split of its own");
        assert_eq!(cut(12, 10), [(0, 10), (10, 2)]);
        assert_eq!(cut(31, 10), [(0, 10), (10, 10), (20, 11)]);
        assert_eq!(split_file(30, 10, SplitLimits { min: 20, max: u64::MAX }), [(0, 20), (20, 10)]);
        assert_eq!(split_file(6, 10, SplitLimits { min: 1, max: 3 }), [(0, 3), (3, 3)]);
        assert_eq!(split_file(6, 10, SplitLimits { min: 4, max: 3 }), [(0, 4), (4, 2)]);
        assert_eq!(split_file(u64::MAX, u64::MAX, SplitLimits::default()).len(), 1);
    }

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a?c*", "abcd", true),
            ("a?c", "ac", false),
            ("*a*b", "xaxab", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(is_hidden("_SUCCESS") && is_hidden(".x") && !is_hidden("part-r-00000"));
    }
}
