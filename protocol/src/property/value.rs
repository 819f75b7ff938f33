//! Types of property values, read as Hadoop reads them, except that a value which Hadoop would silently ignore is an error.

use crate::jobs::ATTEMPTS_MAX;
use crate::modes::umask_of;
use crate::namenode::{BLOCK_SIZE_MAX, REPLICATION_MAX};

/// A value that a property's text stands for.
pub trait Value: Sized {
    /// A description of valid texts, for messages and documentation.
    const WANTED: &'static str;
    /// Reads it; spaces around it are ignored.
    fn parse(text: &str) -> Option<Self>;
    /// The part of an invalid text that is at fault.
    fn culprit(text: &str) -> &str {
        text
    }
}

impl Value for String {
    const WANTED: &'static str = "text";

    fn parse(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl Value for bool {
    const WANTED: &'static str = "true or false";

    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            text if text.eq_ignore_ascii_case("true") => Some(true),
            text if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }
}

impl Value for u32 {
    const WANTED: &'static str = "a whole number from 0";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl Value for u64 {
    const WANTED: &'static str = "a whole number from 0";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

/// A number of which 0 and less is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit(pub u32);

impl Value for Limit {
    const WANTED: &'static str = "a whole number; 0 or less is no limit";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().map(|most: i64| Limit(clamped(most)))
    }
}

/// A number of which less than 0 is no limit, and 0 is a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound(pub Option<u32>);

impl Value for Bound {
    const WANTED: &'static str = "a whole number; less than 0 is no limit";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().map(|most: i64| Bound((most >= 0).then(|| clamped(most))))
    }
}

/// A number of which Hadoop's largest means all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Most(pub u32);

impl Value for Most {
    const WANTED: &'static str = "a whole number from 0 to 9223372036854775807";

    fn parse(text: &str) -> Option<Self> {
        let most: i64 = text.trim().parse().ok()?;
        (most >= 0).then(|| Most(clamped(most)))
    }
}

/// The nearest number that a counter of 32 bits holds.
fn clamped(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// Permission bits that new files and directories do not get, unless a default access control list takes its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Umask(pub u16);

impl Default for Umask {
    /// Hadoop's: others may read, nobody else may write.
    fn default() -> Self {
        Umask(0o022)
    }
}

impl Umask {
    /// Permission bits of a new file, after and before the umask.
    pub fn of_file(self) -> (u16, Option<u16>) {
        (0o666 & !self.0, Some(0o666))
    }

    /// Permission bits of a new directory, after and before the umask.
    pub fn of_directory(self) -> (u16, Option<u16>) {
        (0o777 & !self.0, Some(0o777))
    }
}

impl Value for Umask {
    const WANTED: &'static str = "a mask like 022 or u=rwx,g=rx,o=";

    fn parse(text: &str) -> Option<Self> {
        umask_of(text.trim()).map(Umask)
    }
}

/// Attempts of a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attempts(pub u32);

impl Value for Attempts {
    const WANTED: &'static str = "a whole number from 1 to 100";

    fn parse(text: &str) -> Option<Self> {
        let count = text.trim().parse().ok()?;
        (1..=ATTEMPTS_MAX).contains(&count).then_some(Attempts(count))
    }
}

/// Runs that are merged at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MergeFactor(pub u32);

impl Value for MergeFactor {
    const WANTED: &'static str = "a whole number from 2";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|factor| *factor > 1).map(MergeFactor)
    }
}

/// Replicas of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replicas(pub u16);

impl Value for Replicas {
    const WANTED: &'static str = "a whole number from 1 to 512";

    fn parse(text: &str) -> Option<Self> {
        let count = text.trim().parse().ok()?;
        (1..=REPLICATION_MAX).contains(&count).then_some(Replicas(count))
    }
}

/// Bytes of the blocks of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSize(pub u64);

impl Value for BlockSize {
    const WANTED: &'static str = "a number of bytes from 1 to 1t, as 134217728 or 128m";

    fn parse(text: &str) -> Option<Self> {
        let size = Size::parse(text)?.0;
        (1..=BLOCK_SIZE_MAX).contains(&size).then_some(BlockSize(size))
    }
}

/// What names of output files begin with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BaseName(pub String);

/// The longest such name, bytes: a part's number and an extension still fit an element of a path.
const BASE_NAME_BYTES_MAX: usize = 200;

impl Value for BaseName {
    const WANTED: &'static str =
        "up to 200 letters, digits, `-`, `_` and `.`, the first of them a letter, a digit or `-`";

    fn parse(text: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_name = (1..=BASE_NAME_BYTES_MAX).contains(&text.len())
            && !text.starts_with(['_', '.'])
            && text.chars().all(allowed);
        is_name.then(|| BaseName(text.to_owned()))
    }
}

impl Value for crate::jobs::Priority {
    const WANTED: &'static str = "one of VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW, DEFAULT";

    fn parse(text: &str) -> Option<Self> {
        Self::from_name(text.trim())
    }
}

/// At least one of something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Count(pub u32);

impl Value for Count {
    const WANTED: &'static str = "a whole number from 1";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|count| *count > 0).map(Count)
    }
}

/// Memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Megabytes(u32);

impl Megabytes {
    /// The same in bytes.
    pub fn bytes(self) -> usize {
        (self.0 as usize) << 20
    }
}

/// The largest amount: an address of Hadoop's buffer can name less.
const MEGABYTES_MAX: u32 = 1 << 20;

impl Value for Megabytes {
    const WANTED: &'static str = "a whole number of mebibytes from 1 to 1048576";

    fn parse(text: &str) -> Option<Self> {
        let count = text.trim().parse().ok()?;
        (1..=MEGABYTES_MAX).contains(&count).then_some(Megabytes(count))
    }
}

/// Time in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Millis(pub u64);

impl Value for Millis {
    const WANTED: &'static str = "a whole number of milliseconds from 0";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().map(Millis)
    }
}

/// A part of a whole, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Share(pub f64);

impl Value for Share {
    const WANTED: &'static str = "a number from 0 to 1";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|share| (0.0..=1.0).contains(share)).map(Share)
    }
}

/// Bytes; `128m` is 128 MiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

impl Value for Size {
    const WANTED: &'static str = "a number of bytes, as 134217728 or 128m";

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let last = text.chars().last()?;
        let (digits, shift) = match "kmgtpe".find(last.to_ascii_lowercase()) {
            Some(at) => (&text[..text.len() - 1], 10 * (at as u32 + 1)),
            None => (text, 0),
        };
        let count: u64 = digits.parse().ok()?;
        count.checked_mul(1 << shift).map(Size)
    }
}

/// How SequenceFiles are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompressType {
    /// Not at all.
    None,
    /// Each value.
    Record,
    /// Many records at once.
    Block,
}

impl Value for CompressType {
    const WANTED: &'static str = "one of NONE, RECORD, BLOCK";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_uppercase().as_str() {
            "NONE" => Some(CompressType::None),
            "RECORD" => Some(CompressType::Record),
            "BLOCK" => Some(CompressType::Block),
            _ => None,
        }
    }
}

/// How records are encoded on the pipe of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PipeEncoding {
    /// Lines.
    #[default]
    Text,
    /// Lengths and bytes.
    Raw,
    /// Values with their types.
    Typed,
}

impl Value for PipeEncoding {
    const WANTED: &'static str = "one of text, rawbytes, typedbytes";

    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "text" => Some(PipeEncoding::Text),
            "rawbytes" => Some(PipeEncoding::Raw),
            "typedbytes" => Some(PipeEncoding::Typed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_hadoop_reads_them() {
        assert_eq!(Size::parse(" 128m "), Some(Size(128 << 20)));
        assert_eq!(Size::parse("1K"), Some(Size(1024)));
        assert_eq!(Size::parse("99999999999e"), None);
        assert_eq!((Size::parse(""), Size::parse("m"), Size::parse("é")), (None, None, None));
        assert_eq!(bool::parse("TRUE"), Some(true));
        assert_eq!(Count::parse("0"), None);
        assert_eq!(Megabytes::parse("64").map(Megabytes::bytes), Some(64 << 20));
        assert_eq!(Share::parse("NaN"), None);
    }

    #[test]
    fn numbers_end_where_the_engine_does() {
        assert_eq!(Limit::parse("-1"), Some(Limit(0)));
        assert_eq!(
            (Bound::parse("-1"), Bound::parse("0")),
            (Some(Bound(None)), Some(Bound(Some(0))))
        );
        assert_eq!(Most::parse("9223372036854775807"), Some(Most(u32::MAX)));
        assert_eq!((Most::parse("-1"), Most::parse("9223372036854775808")), (None, None));
        assert!(Attempts::WANTED.ends_with(&ATTEMPTS_MAX.to_string()));
        assert_eq!((Attempts::parse("0"), Attempts::parse("101")), (None, None));
        assert!(Replicas::WANTED.ends_with(&REPLICATION_MAX.to_string()));
        assert_eq!((Replicas::parse("0"), Replicas::parse("513")), (None, None));
        assert_eq!((BlockSize::parse("0"), BlockSize::parse("7e")), (None, None));
        assert_eq!(BlockSize::parse("1t"), Some(BlockSize(BLOCK_SIZE_MAX)));
        assert_eq!(MergeFactor::parse("1"), None);
        let longest = "x".repeat(BASE_NAME_BYTES_MAX);
        assert!(BaseName::parse(&longest).is_some() && BaseName::WANTED.contains("200"));
        for name in ["", "a/b", "_a", ".a", "a b", &format!("{longest}x")] {
            assert_eq!(BaseName::parse(name), None, "{name}");
        }
    }
}
