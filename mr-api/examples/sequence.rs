//! Prints a SequenceFile's header and number of records, or copies it with another compression: for exchanging files with Hadoop.
//!
//! ```text
//! sequence show FILE
//! sequence copy FROM TO none|record|block [gz|deflate|bz2|snappy|lz4|zst]
//! ```

use std::fs::File;
use std::io::{BufReader, BufWriter, Error, Result, Write};

use mr_api::codec::FileCodec;
use mr_api::sequence::{Compression, SequenceReader, SequenceWriter};

/// Mark of the copies: any sixteen bytes that data will not hold by accident.
const SYNC: [u8; 16] = [
    0x8f, 0x3a, 0xd1, 0x5c, 0x77, 0xe9, 0x02, 0xb4, 0x61, 0xfe, 0x90, 0x2d, 0xc8, 0x13, 0x5b, 0xa6,
];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match &words[..] {
        ["show", file] => {
            let mut reader = SequenceReader::new(BufReader::new(File::open(file)?))?;
            let (mut count, mut bytes) = (0u64, 0);
            while let Some((key, value)) = reader.next_pair()? {
                (count, bytes) = (count + 1, bytes + key.len() + value.len());
            }
            println!("{:?}\n{count} records, {bytes} bytes", reader.header());
            Ok(())
        }
        ["copy", from, to, compression] => copy(from, to, compression, "deflate"),
        ["copy", from, to, compression, codec] => copy(from, to, compression, codec),
        _ => Err(Error::other("see the first lines of examples/sequence.rs")),
    }
}

fn copy(from: &str, to: &str, compression: &str, codec: &str) -> Result<()> {
    let codec = FileCodec::of_path(&format!("x.{codec}"));
    let codec = codec.ok_or_else(|| Error::other("an unknown codec"))?;
    let compression = match compression {
        "none" => Compression::None,
        "record" => Compression::Record(codec),
        "block" => Compression::Block(codec),
        _ => return Err(Error::other("none, record or block")),
    };
    let mut reader = SequenceReader::new(BufReader::new(File::open(from)?))?;
    let (key, value) = (reader.header().key_class.clone(), reader.header().value_class.clone());
    let target = BufWriter::new(File::create(to)?);
    let mut writer = SequenceWriter::new(target, &key, &value, compression, SYNC)?;
    while let Some((key, value)) = reader.next_pair()? {
        writer.push(key, value)?;
    }
    writer.end()?.flush()
}
