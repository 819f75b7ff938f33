//! `-text`: files as text, whatever their format.
//!
//! The first bytes decide (gzip, SequenceFile, Avro, zstd, bzip2), then the suffix (`.deflate`, `.snappy`, `.lz4`, and those again). Everything is a stream: memory does not grow with the file.

mod avro;
mod lines;
mod sequence;

use std::io::{self, BufRead, BufReader, Read};

use mr_api::codec::FileCodec;

use self::lines::{Lines, Records};
use crate::dfs::context::{Context, Screen};
use crate::dfs::fs::{Failure, Item, Problem};

/// Bytes read ahead: enough for every magic number, and few calls for the rest.
const BUFFER_BYTES: usize = 256 << 10;
/// First bytes of a gzip file: its magic number and the only method there is.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b, 8];
/// First bytes of a Zstandard frame.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// First bytes of a bzip2 file; the level follows, a digit.
const BZIP2_MAGIC: &[u8] = b"BZh";
/// What follows the level of a bzip2 file: a block, or its end.
const BZIP2_MARKS: [&[u8]; 2] =
    [&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
/// First bytes of a SequenceFile; the version follows.
const SEQUENCE_MAGIC: &[u8] = b"SEQ";
/// A byte from here on is text, and no version of a SequenceFile: the newest is 6.
const SEQUENCE_VERSIONS_END: u8 = b'\t';

/// The format of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Plain,
    By(FileCodec),
    Sequence,
    Avro,
}

/// Prints files as text.
pub(super) fn text(context: &Context) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        if item.status.directory {
            return Err(Failure::at(item.named.typed, Problem::IsDirectory));
        }
        print(context, &item, &mut screen)
    })?;
    screen.flush()
}

fn print(context: &Context, item: &Item, screen: &mut Screen) -> Result<(), Failure> {
    let broken = |error: io::Error| refused(&item.named.typed, &error);
    let mut file = BufReader::with_capacity(BUFFER_BYTES, context.store.open(&item.named)?);
    let first = file.fill_buf().map_err(broken)?;
    let packing = packing_of(first, item.named.path.name().unwrap_or_default());
    let mut decoded: Box<dyn Read + '_> = match packing {
        Packing::Plain => Box::new(file),
        Packing::By(codec) => codec.decoder(file).map_err(broken)?,
        Packing::Sequence => Box::new(Lines::of(sequence::Records::new(file).map_err(broken)?)),
        Packing::Avro => Box::new(Lines::of(avro::Records::new(file).map_err(broken)?)),
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match decoded.read(&mut buffer).map_err(broken)? {
            0 => return Ok(()),
            count => screen.bytes(&buffer[..count])?,
        }
    }
}

impl<R: Read> Records for avro::Records<R> {
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        self.append(line)
    }
}

fn packing_of(first: &[u8], name: &str) -> Packing {
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    match suffix {
        _ if first.starts_with(GZIP_MAGIC) => Packing::By(FileCodec::Gzip),
        _ if is_sequence(first) => Packing::Sequence,
        _ if first.starts_with(avro::MAGIC) => Packing::Avro,
        _ if first.starts_with(ZSTD_MAGIC) => Packing::By(FileCodec::Zstd),
        "" if is_bzip2(first) => Packing::By(FileCodec::Bzip2),
        "gz" if !first.is_empty() => Packing::By(FileCodec::Gzip),
        "bz2" if !first.is_empty() => Packing::By(FileCodec::Bzip2),
        "zst" if !first.is_empty() => Packing::By(FileCodec::Zstd),
        "deflate" if !first.is_empty() => Packing::By(FileCodec::Deflate),
        "snappy" => Packing::By(FileCodec::Snappy),
        "lz4" => Packing::By(FileCodec::Lz4),
        _ => Packing::Plain,
    }
}

/// A text may begin with the same letters.
fn is_sequence(first: &[u8]) -> bool {
    let version = first.strip_prefix(SEQUENCE_MAGIC).and_then(<[u8]>::first);
    version.is_some_and(|version| *version < SEQUENCE_VERSIONS_END)
}

/// A text may begin with the same letters, and even the same digit.
fn is_bzip2(first: &[u8]) -> bool {
    match first.strip_prefix(BZIP2_MAGIC) {
        Some([b'1'..=b'9', rest @ ..]) => BZIP2_MARKS.iter().any(|mark| rest.starts_with(mark)),
        _ => false,
    }
}

/// An error of the file system in its own words, an error of the contents as damage.
fn refused(path: &str, error: &io::Error) -> Failure {
    match error.get_ref() {
        Some(inner) if inner.is::<client::dfs::DfsError>() => Failure::remote(path, inner),
        _ => Failure::at(path, format!("Input/output error: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_decide_and_then_the_suffix() {
        for (first, name, packing) in [
            (&[0x1f, 0x8b, 8][..], "x", Packing::By(FileCodec::Gzip)),
            (b"SEQ\x06", "x.gz", Packing::Sequence),
            (&[0x28, 0xb5, 0x2f, 0xfd], "x", Packing::By(FileCodec::Zstd)),
            (b"Obj\x01\x04", "x", Packing::Avro),
            (b"Obj is text", "x.avro", Packing::Plain),
            (b"BZh91AY", "x.bz2", Packing::By(FileCodec::Bzip2)),
            (b"BZh91AY&SY and more", "part-00000", Packing::By(FileCodec::Bzip2)),
            (b"BZh1\x17\x72\x45\x38\x50\x90", "part-00000", Packing::By(FileCodec::Bzip2)),
            (b"BZh is text", "part-00000", Packing::Plain),
            (b"BZh0\x17\x72\x45\x38\x50\x90", "part-00000", Packing::Plain),
            (b"BZh9 lives", "part-00000", Packing::Plain),
            (b"BZh", "part-00000", Packing::Plain),
            (b"BZh is text", "x.txt", Packing::Plain),
            (b"SEQUENCE 1", "part-00000", Packing::Plain),
            (b"SEQ\n", "part-00000", Packing::Plain),
            (b"SEQ", "part-00000", Packing::Plain),
            (b"\x1f\x8b", "part-00000", Packing::Plain),
            (b"x\x9c", "x.deflate", Packing::By(FileCodec::Deflate)),
            (b"\0\0\0\x05", "x.snappy", Packing::By(FileCodec::Snappy)),
            (b"", "x.gz", Packing::Plain),
            (b"plain", "x", Packing::Plain),
        ] {
            assert_eq!(packing_of(first, name), packing, "{name}");
        }
    }
}
