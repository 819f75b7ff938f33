//! Types of property values, read as Hadoop reads them, except that a value which Hadoop would silently ignore is an error.

/// A value that a property's text stands for.
pub trait Value: Sized {
    /// A description of valid texts, for messages and documentation.
    const WANTED: &'static str;
    /// Reads it; spaces around it are ignored.
    fn parse(text: &str) -> Option<Self>;
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

impl Value for u16 {
    const WANTED: &'static str = "a whole number from 0 to 65535";

    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
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

/// The last part of the name of a codec's Java class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodecClass(pub &'static str);

const CODECS: [&str; 7] = [
    "DefaultCodec",
    "DeflateCodec",
    "GzipCodec",
    "BZip2Codec",
    "ZStandardCodec",
    "Lz4Codec",
    "SnappyCodec",
];

impl Value for CodecClass {
    const WANTED: &'static str = "the class of one of DefaultCodec, DeflateCodec, GzipCodec, BZip2Codec, ZStandardCodec, Lz4Codec, SnappyCodec";

    fn parse(text: &str) -> Option<Self> {
        let name = text.trim().rsplit('.').next()?;
        CODECS.into_iter().find(|known| *known == name).map(CodecClass)
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
        assert_eq!(
            CodecClass::parse("org.apache.hadoop.io.compress.GzipCodec"),
            Some(CodecClass("GzipCodec"))
        );
    }
}
