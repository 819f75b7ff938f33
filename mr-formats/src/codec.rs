//! Compressed files, recognised by their extension.
//!
//! | extension | |
//! |---|---|
//! | `.gz` | gzip, several members in a row too; zeros behind the last are padding |
//! | `.deflate` | zlib, Hadoop's default codec, several streams in a row too; likewise |
//! | `.bz2` | bzip2, several streams in a row too |
//! | `.zst` | Zstandard, several frames in a row too |
//! | `.lz4`, `.snappy` | Hadoop's blocks: u32 raw length, then pieces of u32 stored length and bytes until it is reached |
//!
//! Invariants: reading accepts any bytes, and damage and a cut-off end are errors; a block's length is checked before memory is allocated
//! for it.

use std::io::{self, BufRead, BufReader, Read, Write};

use protocol::property::{CodecClass, Value};

/// Largest block of Hadoop's framing that is accepted (64 MiB); Hadoop writes 256 KiB.
const BLOCK_BYTES_MAX: usize = 64 << 20;
/// Stored bytes read at a time, as flate2 does itself.
const READ_BYTES: usize = 32 << 10;
/// Raw bytes in a written block: Hadoop's default.
const BLOCK_BYTES: usize = 256 << 10;
/// Zstandard's own default, as in Hadoop.
const ZSTD_LEVEL: i32 = 3;

/// A compression of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileCodec {
    /// `.gz`
    Gzip,
    /// `.deflate`
    Deflate,
    /// `.bz2`
    Bzip2,
    /// `.zst`
    Zstd,
    /// `.lz4`
    Lz4,
    /// `.snappy`
    Snappy,
}

const ALL: [(FileCodec, &str, &str); 6] = [
    (FileCodec::Gzip, "gz", "GzipCodec"),
    (FileCodec::Deflate, "deflate", "DefaultCodec"),
    (FileCodec::Bzip2, "bz2", "BZip2Codec"),
    (FileCodec::Zstd, "zst", "ZStandardCodec"),
    (FileCodec::Lz4, "lz4", "Lz4Codec"),
    (FileCodec::Snappy, "snappy", "SnappyCodec"),
];

impl FileCodec {
    /// The codec of a file, by its extension; `None` if it is not compressed.
    pub fn of_path(path: &str) -> Option<FileCodec> {
        let (_, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
        ALL.iter().find(|(_, known, _)| *known == extension).map(|(codec, ..)| *codec)
    }

    /// The codec of a Java class like `org.apache.hadoop.io.compress.GzipCodec`.
    pub fn of_class(class: &str) -> Option<FileCodec> {
        let CodecClass(name) = CodecClass::parse(class)?;
        let name = if name == "DeflateCodec" { "DefaultCodec" } else { name };
        ALL.iter().find(|(.., known)| *known == name).map(|(codec, ..)| *codec)
    }

    /// Extension of its files, without a dot.
    pub fn extension(self) -> &'static str {
        ALL.iter().find(|(codec, ..)| *codec == self).map_or("", |(_, extension, _)| extension)
    }

    /// Hadoop's class.
    pub fn class(self) -> String {
        let name = ALL.iter().find(|(codec, ..)| *codec == self).map_or("", |(.., name)| name);
        format!("org.apache.hadoop.io.compress.{name}")
    }

    /// Reads a file with this path, whose stored bytes are `from`: decompressed if its name ends as that of a compressed file.
    ///
    /// # Errors
    /// If no decoder can be made.
    pub fn reader<'a>(path: &str, from: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        match Self::of_path(path) {
            Some(codec) => codec.decoder(from),
            None => Ok(Box::new(from)),
        }
    }

    /// Reads the compressed data in `from`.
    ///
    /// # Errors
    /// If no decoder can be made.
    pub fn decoder<'a>(self, from: impl Read + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            // A gzip file has at least one member; no bytes are no zlib stream.
            FileCodec::Gzip => {
                let first = flate2::bufread::GzDecoder::new(buffered(from));
                Box::new(Streams { stream: Some(first), from: None, behind: Behind::Nothing })
            }
            FileCodec::Deflate => Box::new(Streams::<_, flate2::bufread::ZlibDecoder<_>> {
                stream: None,
                from: Some(buffered(from)),
                behind: Behind::Nothing,
            }),
            FileCodec::Bzip2 => Box::new(bzip2::read::MultiBzDecoder::new(from)),
            FileCodec::Zstd => Box::new(zstd::stream::read::Decoder::new(from)?),
            FileCodec::Lz4 | FileCodec::Snappy => Box::new(BlockReader::new(self, from)),
        })
    }

    /// Compresses into `to`.
    ///
    /// # Errors
    /// If no encoder can be made.
    pub fn encoder<W: Write + Send + 'static>(self, to: W) -> io::Result<Box<dyn Encoder<W>>> {
        Ok(match self {
            FileCodec::Gzip => {
                Box::new(flate2::write::GzEncoder::new(to, flate2::Compression::default()))
            }
            FileCodec::Deflate => {
                Box::new(flate2::write::ZlibEncoder::new(to, flate2::Compression::default()))
            }
            FileCodec::Bzip2 => {
                Box::new(bzip2::write::BzEncoder::new(to, bzip2::Compression::best()))
            }
            FileCodec::Zstd => Box::new(zstd::stream::write::Encoder::new(to, ZSTD_LEVEL)?),
            FileCodec::Lz4 | FileCodec::Snappy => {
                Box::new(BlockWriter { codec: self, to, raw: Vec::with_capacity(BLOCK_BYTES) })
            }
        })
    }

    /// Compresses all of `raw`.
    ///
    /// # Errors
    /// If no encoder can be made.
    pub fn compress(self, raw: &[u8]) -> io::Result<Vec<u8>> {
        let mut encoder = self.encoder(Vec::new())?;
        encoder.write_all(raw)?;
        encoder.end()
    }

    /// Appends the decompressed data of `stored`, `raw_bytes_max` bytes at most.
    ///
    /// # Errors
    /// If it is damaged or holds more.
    pub fn decompress(
        self,
        stored: &[u8],
        raw_bytes_max: u64,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let before = out.len();
        let mut decoder = self.decoder(stored)?.take(raw_bytes_max.saturating_add(1));
        decoder.read_to_end(out)?;
        if (out.len() - before) as u64 > raw_bytes_max {
            return Err(damaged("a compressed piece holds more than is allowed"));
        }
        Ok(())
    }
}

/// A writer that compresses; call [`Encoder::end`] when done.
pub trait Encoder<W>: Write + Send {
    /// Writes the remaining data and returns the target.
    ///
    /// # Errors
    /// Errors of the target.
    fn end(self: Box<Self>) -> io::Result<W>;
}

macro_rules! encoder {
    ($($type:ty),*) => {$(
        impl<W: Write + Send + 'static> Encoder<W> for $type {
            fn end(self: Box<Self>) -> io::Result<W> {
                (*self).finish()
            }
        }
    )*};
}

encoder!(
    flate2::write::GzEncoder<W>,
    flate2::write::ZlibEncoder<W>,
    bzip2::write::BzEncoder<W>,
    zstd::stream::write::Encoder<'static, W>
);

/// A decoder of one stream, which leaves what follows in what it reads from.
trait Single<B>: Read {
    fn of(from: B) -> Self;
    fn into_inner(self) -> B;
}

macro_rules! single {
    ($($type:ident),*) => {$(
        impl<B: BufRead> Single<B> for flate2::bufread::$type<B> {
            fn of(from: B) -> Self {
                flate2::bufread::$type::new(from)
            }

            fn into_inner(self) -> B {
                flate2::bufread::$type::into_inner(self)
            }
        }
    )*};
}

single!(GzDecoder, ZlibDecoder);

fn buffered<R: Read>(from: R) -> BufReader<R> {
    BufReader::with_capacity(READ_BYTES, from)
}

/// Reads streams, one after the other. No stream begins with a zero: those behind the last fill its file up to a whole record of a tape or sector of a disk.
struct Streams<B, D> {
    /// The one that is being read.
    stream: Option<D>,
    /// Between two of them.
    from: Option<B>,
    behind: Behind,
}

/// What was read last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Behind {
    Nothing,
    Stream,
    /// Nothing else may follow.
    Zeros,
}

impl<B: BufRead, D: Single<B>> Streams<B, D> {
    /// Begins the next stream; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        while let Some(from) = &mut self.from {
            let bytes = from.fill_buf()?;
            let (count, other) = (bytes.len(), bytes.iter().position(|byte| *byte != 0));
            match (self.behind, other) {
                _ if count == 0 => return Ok(false),
                (Behind::Nothing, _) | (Behind::Stream, Some(0)) => {
                    self.stream = self.from.take().map(D::of);
                }
                (Behind::Stream | Behind::Zeros, None) => {
                    from.consume(count);
                    self.behind = Behind::Zeros;
                }
                _ => return Err(damaged("something follows the zeros behind its end")),
            }
        }
        Ok(self.stream.is_some())
    }
}

impl<B: BufRead, D: Single<B>> Read for Streams<B, D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(stream) = &mut self.stream {
                let count = stream.read(buffer)?;
                if count > 0 {
                    return Ok(count);
                }
                self.from = self.stream.take().map(D::into_inner);
                self.behind = Behind::Stream;
            }
            if !self.begin()? {
                return Ok(0);
            }
        }
    }
}

/// Reads Hadoop's blocks.
struct BlockReader<R> {
    codec: FileCodec,
    from: R,
    raw: Vec<u8>,
    at: usize,
    /// Raw bytes of the current block that remain.
    left: usize,
}

impl<R: Read> BlockReader<R> {
    fn new(codec: FileCodec, from: R) -> Self {
        BlockReader { codec, from, raw: Vec::new(), at: 0, left: 0 }
    }

    /// Decodes the next piece; false at the end.
    fn piece(&mut self) -> io::Result<bool> {
        while self.left == 0 {
            match self.length()? {
                Some(length) => self.left = length,
                None => return Ok(false),
            }
        }
        let length = self.length()?.ok_or_else(|| damaged("cut off in a block"))?;
        let mut stored = Vec::new();
        self.from.by_ref().take(length as u64).read_to_end(&mut stored)?;
        if stored.len() < length {
            return Err(damaged("cut off in a block"));
        }
        let size = match self.codec {
            FileCodec::Snappy => snap::raw::decompress_len(&stored).map_err(io::Error::other)?,
            _ => self.left,
        };
        if size > self.left {
            return Err(damaged("a piece is longer than its block"));
        }
        self.raw.resize(size, 0);
        let count = match self.codec {
            FileCodec::Snappy => snap::raw::Decoder::new()
                .decompress(&stored, &mut self.raw)
                .map_err(io::Error::other)?,
            _ => lz4_flex::block::decompress_into(&stored, &mut self.raw)
                .map_err(io::Error::other)?,
        };
        self.raw.truncate(count);
        (self.at, self.left) = (0, self.left - count);
        Ok(true)
    }

    fn length(&mut self) -> io::Result<Option<usize>> {
        let (mut bytes, mut filled) = ([0; 4], 0);
        while filled < 4 {
            match self.from.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(damaged("cut off in a length")),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match u32::from_be_bytes(bytes) as usize {
            length if length <= BLOCK_BYTES_MAX => Ok(Some(length)),
            _ => Err(damaged("a block is longer than 64 MiB")),
        }
    }
}

impl<R: Read> Read for BlockReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.raw.len() {
            if !self.piece()? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.raw.len() - self.at);
        buffer[..count].copy_from_slice(&self.raw[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Writes Hadoop's blocks, one piece each.
struct BlockWriter<W> {
    codec: FileCodec,
    to: W,
    raw: Vec<u8>,
}

impl<W: Write> BlockWriter<W> {
    fn block(&mut self) -> io::Result<()> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let stored = match self.codec {
            FileCodec::Snappy => {
                snap::raw::Encoder::new().compress_vec(&self.raw).map_err(io::Error::other)?
            }
            _ => lz4_flex::block::compress(&self.raw),
        };
        self.to.write_all(&(self.raw.len() as u32).to_be_bytes())?;
        self.to.write_all(&(stored.len() as u32).to_be_bytes())?;
        self.to.write_all(&stored)?;
        self.raw.clear();
        Ok(())
    }
}

impl<W: Write> Write for BlockWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(BLOCK_BYTES - self.raw.len());
        self.raw.extend_from_slice(&bytes[..count]);
        if self.raw.len() == BLOCK_BYTES {
            self.block()?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<W: Write + Send + 'static> Encoder<W> for BlockWriter<W> {
    fn end(mut self: Box<Self>) -> io::Result<W> {
        self.block()?;
        Ok(self.to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As tapes and block devices pad what they store.
    #[test]
    fn zeros_behind_the_last_stream_are_padding() {
        let raw = b"some text".repeat(100);
        for codec in [FileCodec::Gzip, FileCodec::Deflate] {
            let stored = codec.compress(&raw).unwrap();
            let read = |parts: &[&[u8]]| {
                let mut back = Vec::new();
                codec.decompress(&parts.concat(), u64::MAX, &mut back).map(|()| back)
            };
            for count in [1, 3, 512, READ_BYTES, 3 * READ_BYTES + 1] {
                let zeros = vec![0; count];
                assert!(read(&[&stored, &zeros]).unwrap() == raw, "{codec:?} {count}");
                let double = read(&[&stored, &stored, &zeros]).unwrap();
                assert!(double == raw.repeat(2), "{codec:?} {count}");
                // Whoever put them there did not pad.
                assert!(read(&[&stored, &zeros, b"junk"]).is_err(), "{codec:?} {count}");
                assert!(read(&[&stored, &zeros, &stored]).is_err(), "{codec:?} {count}");
                // The last bytes of a length may be zeros themselves.
                let cut = &stored[..stored.len() - 3];
                assert!(read(&[cut, &zeros, &zeros]).is_err(), "{codec:?} {count}");
            }
        }
        assert!(FileCodec::Gzip.decompress(b"", 9, &mut Vec::new()).is_err(), "no member");
        for codec in [FileCodec::Gzip, FileCodec::Deflate] {
            assert!(codec.decompress(&[0; 9], 9, &mut Vec::new()).is_err(), "{codec:?}");
        }
    }

    #[test]
    fn every_codec_reads_what_it_wrote_and_refuses_what_is_cut_off() {
        let raw: Vec<u8> = (0..700_000u32).map(|n| (n / 7 % 251) as u8).collect();
        for (codec, extension, _) in ALL {
            assert_eq!(FileCodec::of_path(&format!("/a.b/c.{extension}")), Some(codec));
            assert_eq!(FileCodec::of_class(&codec.class()), Some(codec));
            let other = codec.class().replace("org.apache.hadoop", "com.foo");
            assert_eq!(FileCodec::of_class(&other), None, "{other}");
            let stored = codec.compress(&raw).unwrap();
            assert!(stored.len() < raw.len() / 2, "{codec:?}");
            let mut back = Vec::new();
            codec.decompress(&stored, raw.len() as u64, &mut back).unwrap();
            assert!(back == raw, "{codec:?}");
            // As `getmerge` joins parts, an empty one between them.
            let joined = [&stored[..], &codec.compress(b"").unwrap(), &stored].concat();
            back.clear();
            codec.decompress(&joined, 2 * raw.len() as u64, &mut back).unwrap();
            assert!(back == raw.repeat(2), "{codec:?}");
            let junk = [&stored[..], b"junk behind it"].concat();
            assert!(codec.decompress(&junk, u64::MAX, &mut Vec::new()).is_err(), "{codec:?}");
            assert!(codec.decompress(&stored, 1000, &mut Vec::new()).is_err(), "{codec:?}");
            for cut in [1, stored.len() / 2, stored.len() - 1] {
                let cut_off = codec.decompress(&stored[..cut], u64::MAX - 1, &mut Vec::new());
                assert!(cut_off.is_err(), "{codec:?} cut at {cut}");
            }
        }
        assert_eq!(FileCodec::of_path("/a.gz/b"), None);
    }
}
