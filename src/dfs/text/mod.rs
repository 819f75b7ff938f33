//! `-text`: files as text, whatever they are packed in.
//!
//! The first bytes decide (gzip, SequenceFile, Avro, zstd, bzip2), then the suffix (`.deflate`, `.snappy`, `.lz4`, and those again). Everything is a stream: memory does not grow with the file.

mod avro;
mod sequence;

use std::io::{self, BufRead, BufReader, Cursor, Read};

use mr_api::codec::FileCodec;

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
    By(FileCodec),
    Sequence,
    Avro,
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

/// Records of a file, each of which is a line.
trait Records {
    /// Appends the next one; false at the end.
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool>;
}

impl<R: Read> Records for avro::Records<R> {
    fn append(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        self.append(line)
    }
}

/// Records as text.
struct Lines<R> {
    records: R,
    /// The one that is being handed out.
    line: Cursor<Vec<u8>>,
}

impl<R: Records> Lines<R> {
    fn of(records: R) -> Self {
        Lines { records, line: Cursor::default() }
    }

    /// Makes the next line; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.set_position(0);
        let line = self.line.get_mut();
        line.clear();
        let is_there = self.records.append(line)?;
        if is_there {
            line.push(b'\n');
        }
        Ok(is_there)
    }
}

impl<R: Records> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.line.read(buffer)? {
                0 if buffer.is_empty() || !self.advance()? => return Ok(0),
                0 => {}
                count => return Ok(count),
            }
        }
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
