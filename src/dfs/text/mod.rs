//! `-text`: files as text, whatever they are packed in.
//!
//! The first bytes decide (gzip, SequenceFile, zstd, bzip2), then the suffix (`.deflate`, `.snappy`, and those again). Hadoop's
//! snappy files are sequences of blocks ([`blocks`]). Everything is a stream: memory does not grow with the file.

mod blocks;
mod sequence;

use std::io::{self, BufRead, BufReader, Read};

use bzip2::read::MultiBzDecoder;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::context::{Context, Item, Screen};
use super::error::Failure;

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

/// What a file is packed in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Packing {
    Plain,
    Gzip,
    Zlib,
    Bzip2,
    Zstd,
    Snappy,
    Sequence,
}

/// Prints files as text.
pub(super) fn text(context: &Context) -> Result<(), Failure> {
    let mut screen = Screen::new()?;
    context.for_each(&context.args.operands, |item| {
        if item.status.directory {
            return Err(Failure::at(item.named.typed, "Is a directory"));
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
        Packing::Gzip => Box::new(MultiGzDecoder::new(file)),
        Packing::Zlib => Box::new(ZlibDecoder::new(file)),
        Packing::Bzip2 => Box::new(MultiBzDecoder::new(file)),
        Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(file).map_err(broken)?),
        Packing::Snappy => Box::new(blocks::Snappy::new(file)),
        Packing::Sequence => Box::new(sequence::Lines::new(file).map_err(broken)?),
    };
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        match decoded.read(&mut buffer).map_err(broken)? {
            0 => return Ok(()),
            count => screen.bytes(&buffer[..count])?,
        }
    }
}

fn packing_of(first: &[u8], name: &str) -> Packing {
    let suffix = name.rsplit_once('.').map_or("", |(_, suffix)| suffix);
    match suffix {
        _ if first.starts_with(GZIP_MAGIC) => Packing::Gzip,
        _ if first.starts_with(SEQUENCE_MAGIC) => Packing::Sequence,
        _ if first.starts_with(ZSTD_MAGIC) => Packing::Zstd,
        "bz2" | "" if first.starts_with(BZIP2_MAGIC) => Packing::Bzip2,
        "gz" if !first.is_empty() => Packing::Gzip,
        "bz2" if !first.is_empty() => Packing::Bzip2,
        "zst" if !first.is_empty() => Packing::Zstd,
        "deflate" if !first.is_empty() => Packing::Zlib,
        "snappy" => Packing::Snappy,
        _ => Packing::Plain,
    }
}

/// An error of the file system in its own words, one of the contents as damage.
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
            (&[0x1f, 0x8b, 8][..], "x", Packing::Gzip),
            (b"SEQ\x06", "x.gz", Packing::Sequence),
            (&[0x28, 0xb5, 0x2f, 0xfd], "x", Packing::Zstd),
            (b"BZh91AY", "x.bz2", Packing::Bzip2),
            (b"BZh91AY", "part-00000", Packing::Bzip2),
            (b"BZh is text", "x.txt", Packing::Plain),
            (b"x\x9c", "x.deflate", Packing::Zlib),
            (b"\0\0\0\x05", "x.snappy", Packing::Snappy),
            (b"", "x.gz", Packing::Plain),
            (b"plain", "x", Packing::Plain),
        ] {
            assert_eq!(packing_of(first, name), packing, "{name}");
        }
    }
}
