//! What a file holds: bytes that writers wrote to files of theirs, one part after the other.

use std::ops::Range;
use std::sync::Arc;

/// What a writer writes at a position of a file.
pub(crate) fn byte_at(file: u64, position: u64) -> u8 {
    (file.wrapping_mul(131) ^ position ^ (position >> 8).wrapping_mul(7)) as u8
}

/// The bytes of a file. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Content(Arc<[Part]>);

/// Bytes that were written to a file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    file: u64,
    bytes: Range<u64>,
}

impl Content {
    /// The first bytes of what is written to a file.
    pub(crate) fn of(file: u64, length: u64) -> Self {
        Content([Part { file, bytes: 0..length }].into_iter().filter(Part::has_bytes).collect())
    }

    pub(crate) fn length(&self) -> u64 {
        self.0.iter().map(|part| part.bytes.end - part.bytes.start).sum()
    }

    /// The byte at a position; `None` behind the end.
    pub(crate) fn byte_at(&self, position: u64) -> Option<u8> {
        let mut at = position;
        for Part { file, bytes } in self.0.iter() {
            let length = bytes.end - bytes.start;
            if at < length {
                return Some(byte_at(*file, bytes.start + at));
            }
            at -= length;
        }
        None
    }

    /// This, followed by another.
    pub(crate) fn followed_by(&self, other: &Content) -> Self {
        Content(self.0.iter().chain(other.0.iter()).cloned().collect())
    }

    /// The first bytes of it.
    pub(crate) fn cut(&self, length: u64) -> Self {
        let mut rest = length;
        let parts = self.0.iter().map(|Part { file, bytes }| {
            let end = bytes.end.min(bytes.start + rest);
            rest -= end - bytes.start;
            Part { file: *file, bytes: bytes.start..end }
        });
        Content(parts.filter(Part::has_bytes).collect())
    }
}

impl Part {
    fn has_bytes(&self) -> bool {
        !self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_are_cut() {
        let bytes = |content: &Content| -> Vec<u8> {
            (0..content.length() + 1).map_while(|at| content.byte_at(at)).collect()
        };
        let written = |file: u64, length| -> Vec<u8> {
            (0..length).map(|position| byte_at(file, position)).collect()
        };
        let joined =
            Content::of(3, 300).followed_by(&Content::of(4, 0)).followed_by(&Content::of(5, 20));
        let all = [written(3, 300), written(5, 20)].concat();
        assert_eq!((joined.length(), bytes(&joined)), (320, all.clone()));
        for length in [0, 1, 299, 300, 301, 320] {
            assert_eq!(bytes(&joined.cut(length)), all[..length as usize], "{length}");
        }
        assert_eq!(joined.cut(300), Content::of(3, 300));
        assert_eq!(
            joined.cut(100).followed_by(&Content::of(5, 20)).byte_at(100),
            Some(byte_at(5, 0))
        );
    }
}
