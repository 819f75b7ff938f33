//! Paths in little room: files of a job are neighbours in few directories, and have names that a program numbered.
//!
//! Invariants: what is shared is whole characters of the path before; all paths of a list have at most [`PATHS_BYTES_MAX`] together, so a short list never
//! becomes a large one.

use serde::{Deserialize, Serialize};

use crate::DfsPath;

/// Most bytes of the paths of a list: half a million of 128 bytes.
pub const PATHS_BYTES_MAX: usize = 64 << 20;

/// A path, by what it shares with the one before it in its list; the first follows an empty one.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShortPath {
    /// Bytes that both begin with.
    pub head: u32,
    /// What is its own.
    pub own: String,
    /// Bytes that both end with, behind `head` in both.
    pub tail: u32,
}

/// Paths that are none, or too long together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a list of paths that are none, or of more than {PATHS_BYTES_MAX} bytes")]
pub struct ShortPathsError;

/// The paths in short.
pub fn shorten(paths: &[DfsPath]) -> Vec<ShortPath> {
    let before = std::iter::once("").chain(paths.iter().map(DfsPath::as_str));
    paths
        .iter()
        .map(DfsPath::as_str)
        .zip(before)
        .map(|(path, before)| short(path, before))
        .collect()
}

fn short(path: &str, before: &str) -> ShortPath {
    let same = |(one, other): &(u8, u8)| one == other;
    let pairs = path.bytes().zip(before.bytes());
    let head = path.floor_char_boundary(pairs.take_while(same).count());
    let pairs = path[head..].bytes().rev().zip(before[head..].bytes().rev());
    let tail = pairs.take_while(same).count();
    let end = path.ceil_char_boundary(path.len() - tail);
    let length = |bytes: usize| u32::try_from(bytes).expect("a path is short");
    let own = path[head..end].to_owned();
    ShortPath { head: length(head), own, tail: length(path.len() - end) }
}

/// The paths that these are short for.
///
/// # Errors
/// [`ShortPathsError`].
pub fn lengthen(short: Vec<ShortPath>) -> Result<Vec<DfsPath>, ShortPathsError> {
    let mut all: Vec<DfsPath> = Vec::with_capacity(short.len());
    let mut bytes = 0;
    for ShortPath { head, own, tail } in short {
        let before = all.last().map_or("", DfsPath::as_str);
        let (head, rest) = before.split_at_checked(head as usize).ok_or(ShortPathsError)?;
        let behind = rest.len().checked_sub(tail as usize).ok_or(ShortPathsError)?;
        let (_, tail) = rest.split_at_checked(behind).ok_or(ShortPathsError)?;
        bytes += head.len() + own.len() + tail.len();
        if bytes > PATHS_BYTES_MAX {
            return Err(ShortPathsError);
        }
        let text = [head, &own, tail].concat();
        all.push(DfsPath::try_from(text).map_err(|_| ShortPathsError)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> DfsPath {
        DfsPath::parse(text).unwrap()
    }

    fn shortened(texts: &[&str]) -> Vec<(u32, String, u32)> {
        let short = shorten(&texts.iter().map(|text| path(text)).collect::<Vec<_>>());
        short.into_iter().map(|ShortPath { head, own, tail }| (head, own, tail)).collect()
    }

    #[test]
    fn neighbours_share_their_directory_and_what_a_program_wrote_behind_a_number() {
        let own = |head, own: &str, tail| (head, own.to_owned(), tail);
        let short = shortened(&["/a/part-09-x.gz", "/a/part-10-x.gz", "/a/part-10-x.gz", "/b"]);
        let whole = own(0, "/a/part-09-x.gz", 0);
        assert_eq!(short, [whole, own(8, "10", 5), own(15, "", 0), own(1, "b", 0)]);
        // Both letters begin with the same byte, and end with the same one.
        assert_eq!(shortened(&["/é", "/è"])[1], own(1, "è", 0));
        assert_eq!(shortened(&["/é", "/ƀé"])[1], own(1, "ƀ", 2));
        assert_eq!(shortened(&["/aa", "/aaa"])[1], own(3, "a", 0));
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        let short = |head, own: &str, tail| ShortPath { head, own: own.to_owned(), tail };
        for second in [
            short(6, "", 0),
            short(3, "x", 2),
            short(3, "x", u32::MAX),
            short(u32::MAX, "x", 0),
            short(0, "/x", 2),
            short(0, "x", 0),
            short(4, "/\u{0}", 0),
        ] {
            let list = vec![short(0, "/aéa", 0), second.clone()];
            assert_eq!(lengthen(list), Err(ShortPathsError), "{second:?}");
        }
        let long = format!("/{}", vec!["x".repeat(200); 39].join("/"));
        let again = short(u32::try_from(long.len()).unwrap(), "", 0);
        let count = PATHS_BYTES_MAX / long.len();
        let mut list = vec![short(0, &long, 0)];
        list.extend(vec![again.clone(); count - 1]);
        assert_eq!(lengthen(list.clone()).unwrap().len(), count);
        list.push(again);
        assert_eq!(lengthen(list), Err(ShortPathsError));
    }

    proptest! {
        #[test]
        fn what_was_shortened_is_what_it_was(
            texts in prop::collection::vec("(/[abéèƀ]{1,3}){1,3}", 0..12),
        ) {
            let paths: Vec<DfsPath> = texts.iter().map(|text| path(text)).collect();
            prop_assert_eq!(lengthen(shorten(&paths)), Ok(paths));
        }
    }
}
