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
/// First bytes of a gzip file.
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// First bytes of a Zstandard frame.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// First bytes of a bzip2 file.
const BZIP2_MAGIC: &[u8] = b"BZh";
/// First bytes of a SequenceFile; the version follows.
const SEQUENCE_MAGIC: &[u8] = b"SEQ";

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
        _ if first.starts_with(SEQUENCE_MAGIC) => Packing::Sequence,
        _ if first.starts_with(avro::MAGIC) => Packing::Avro,
        _ if first.starts_with(ZSTD_MAGIC) => Packing::By(FileCodec::Zstd),
        "bz2" | "" if first.starts_with(BZIP2_MAGIC) => Packing::By(FileCodec::Bzip2),
        "gz" if !first.is_empty() => Packing::By(FileCodec::Gzip),
        "bz2" if !first.is_empty() => Packing::By(FileCodec::Bzip2),
        "zst" if !first.is_empty() => Packing::By(FileCodec::Zstd),
        "deflate" if !first.is_empty() => Packing::By(FileCodec::Deflate),
        "snappy" => Packing::By(FileCodec::Snappy),
        "lz4" => Packing::By(FileCodec::Lz4),
        _ => Packing::Plain,
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
            (b"BZh91AY", "part-00000", Packing::By(FileCodec::Bzip2)),
            (b"BZh is text", "x.txt", Packing::Plain),
            (b"x\x9c", "x.deflate", Packing::By(FileCodec::Deflate)),
            (b"\0\0\0\x05", "x.snappy", Packing::By(FileCodec::Snappy)),
            (b"", "x.gz", Packing::Plain),
            (b"plain", "x", Packing::Plain),
        ] {
            assert_eq!(packing_of(first, name), packing, "{name}");
        }
    }
}
