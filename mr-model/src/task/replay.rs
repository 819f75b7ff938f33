//! An option of a repeated attempt: it can stop before a record, so that a developer can attach a debugger.
//!
//! The position of a record is written as in its error, `PATH:OFFSET` or in `map failed at PATH, byte OFFSET: …` of [`crate::Error::Map`];
//! this module reads both.

use crate::error::MAP_FAILED;

/// Property with the [`RecordPlace`] before which a map stops its process.
pub const STOP_PROPERTY: &str = "hanno.replay.stop.before";

/// Where a record of an input file begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordPlace {
    /// The file.
    pub path: String,
    /// Its first byte.
    pub offset: u64,
}

impl RecordPlace {
    /// Reads `PATH:OFFSET`.
    pub fn parse(text: &str) -> Option<Self> {
        let (path, offset) = text.rsplit_once(':')?;
        Some(RecordPlace { path: path.to_owned(), offset: offset.parse().ok()? })
    }

    /// The record at which a map failed, from its diagnostics.
    pub fn of_failure(diagnostics: &str) -> Option<Self> {
        let (_, rest) = diagnostics.split_once(MAP_FAILED)?;
        // A path can contain the words between it and the number.
        rest.match_indices(", byte ").find_map(|(at, words)| {
            let (number, _) = rest[at + words.len()..].split_once(':')?;
            Some(RecordPlace { path: rest[..at].to_owned(), offset: number.parse().ok()? })
        })
    }
}

impl std::fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.path, self.offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn the_place_in_an_error_is_found() {
        for path in ["/in", "/a: b", "/odd, byte 7", "/map failed at"] {
            let message = "at the number, byte 99: it is odd".to_owned();
            let error = Error::Map { path: path.to_owned(), offset: Some(12), message };
            let place = RecordPlace { path: path.to_owned(), offset: 12 };
            let text = format!("task failed: {error}");
            assert_eq!(RecordPlace::of_failure(&text), Some(place.clone()), "{text}");
            assert_eq!(RecordPlace::parse(&place.to_string()), Some(place));
        }
        let nowhere = Error::Map { path: "/in".to_owned(), offset: None, message: "no".to_owned() };
        assert_eq!(RecordPlace::of_failure(&nowhere.to_string()), None);
        for text in ["", "map failed at /in", "reduce of partition 1 failed at group 2: no"] {
            assert_eq!(RecordPlace::of_failure(text), None, "{text}");
        }
        for text in ["", "/in", "/in:", "/in:x", "/in:-1"] {
            assert_eq!(RecordPlace::parse(text), None, "{text}");
        }
    }
}
