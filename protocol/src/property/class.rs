//! Java classes that properties and options name, known by their full names: a class of the same last name from elsewhere does something else.

use super::value::Value;

/// True if `text` names the class `last` of one of `packages`: in full, or by its last part alone.
pub fn is_class(text: &str, packages: &[&str], last: &str) -> bool {
    let text = text.trim();
    let of = |package: &&str| text.strip_prefix(package)?.strip_prefix('.').filter(|t| *t == last);
    text == last || packages.iter().any(|package| of(package).is_some())
}

/// The last part of the name of a codec's class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodecClass(pub &'static str);

const CODEC_PACKAGES: [&str; 1] = ["org.apache.hadoop.io.compress"];
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
    const WANTED: &'static str = "one of DefaultCodec, DeflateCodec, GzipCodec, BZip2Codec, ZStandardCodec, Lz4Codec, SnappyCodec of org.apache.hadoop.io.compress";

    fn parse(text: &str) -> Option<Self> {
        CODECS.into_iter().find(|last| is_class(text, &CODEC_PACKAGES, last)).map(CodecClass)
    }
}

/// The packages of Hadoop's partitioners and of its comparator of fields.
const FIELD_PACKAGES: [&str; 2] =
    ["org.apache.hadoop.mapred.lib", "org.apache.hadoop.mapreduce.lib.partition"];

/// Which reduce a key goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Partitioner {
    /// By the hash of the key.
    Hash,
    /// By fields of the key.
    KeyField,
}

impl Value for Partitioner {
    const WANTED: &'static str = "HashPartitioner or KeyFieldBasedPartitioner of org.apache.hadoop.mapred.lib or org.apache.hadoop.mapreduce.lib.partition";

    fn parse(text: &str) -> Option<Self> {
        let is = |last| is_class(text, &FIELD_PACKAGES, last);
        match text {
            _ if is("HashPartitioner") => Some(Partitioner::Hash),
            _ if is("KeyFieldBasedPartitioner") => Some(Partitioner::KeyField),
            _ => None,
        }
    }
}

/// The order of keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparator {
    /// By bytes.
    Bytes,
    /// By fields.
    KeyField,
}

impl Value for Comparator {
    const WANTED: &'static str = "KeyFieldBasedComparator of org.apache.hadoop.mapred.lib or org.apache.hadoop.mapreduce.lib.partition, or org.apache.hadoop.io.Text$Comparator";

    fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "org.apache.hadoop.io.Text$Comparator" => Some(Comparator::Bytes),
            _ if is_class(text, &FIELD_PACKAGES, "KeyFieldBasedComparator") => {
                Some(Comparator::KeyField)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_known_by_their_full_names() {
        for text in ["org.apache.hadoop.io.compress.GzipCodec", " GzipCodec "] {
            assert_eq!(CodecClass::parse(text), Some(CodecClass("GzipCodec")), "{text}");
        }
        for text in
            ["com.foo.GzipCodec", ".GzipCodec", "org.apache.hadoop.io.compressGzipCodec", ""]
        {
            assert_eq!(CodecClass::parse(text), None, "{text}");
        }
        for package in FIELD_PACKAGES {
            let of = |last: &str| format!("{package}.{last}");
            let partitioner = Partitioner::parse(&of("KeyFieldBasedPartitioner"));
            assert_eq!(partitioner, Some(Partitioner::KeyField));
            let comparator = Comparator::parse(&of("KeyFieldBasedComparator"));
            assert_eq!(comparator, Some(Comparator::KeyField));
        }
        assert_eq!(Partitioner::parse("com.foo.KeyFieldBasedPartitioner"), None);
        assert_eq!(Comparator::parse("com.foo.KeyFieldBasedComparator"), None);
        assert_eq!(Comparator::parse("com.foo.Text$Comparator"), None);
    }
}
