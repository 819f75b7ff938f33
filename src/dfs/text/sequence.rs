//! SequenceFiles as lines `key<TAB>value`.
//!
//! ```text
//! header   "SEQ" | version u8 = 6 | key class, value class: Text | compressed u8 | block-compressed u8
//!          | codec class: Text, if compressed | metadata: i32 count, then pairs of Text | sync marker: 16 bytes
//! record   i32 record bytes | i32 key bytes | key | value (compressed alone, if compressed)
//! marker   i32 -1 | sync marker                        (between records, and before each block)
//! block    VInt records | four buffers, each VInt bytes and compressed: key lengths, keys, value lengths, values
//! Text     VInt bytes | UTF-8            VInt   Hadoop's: one byte from -112 on, else a length code and big-endian bytes
//! ```

use std::io::{self, Cursor, Read};

use bzip2::read::MultiBzDecoder;
use flate2::read::{MultiGzDecoder, ZlibDecoder};

use super::blocks::Snappy;

/// The version that Hadoop writes since 2007.
const VERSION: u8 = 6;
/// Bytes of a sync marker.
const SYNC_BYTES: usize = 16;
/// Largest record, key, value or block buffer that is accepted.
const PIECE_BYTES_MAX: usize = 1 << 30;
/// Most pairs of metadata that are accepted.
const METADATA_MAX: i32 = 10_000;

/// A SequenceFile's records as text.
pub(super) struct Lines<R> {
    source: R,
    header: Header,
    lines: Cursor<Vec<u8>>,
}

struct Header {
    key: String,
    value: String,
    codec: Option<Codec>,
    blocks: bool,
    sync: [u8; SYNC_BYTES],
}

#[derive(Clone, Copy)]
enum Codec {
    Zlib,
    Gzip,
    Bzip2,
    Snappy,
    Zstd,
}

impl Codec {
    fn named(class: &str) -> io::Result<Self> {
        match class.rsplit('.').next().unwrap_or_default() {
            "DefaultCodec" | "DeflateCodec" => Ok(Codec::Zlib),
            "GzipCodec" => Ok(Codec::Gzip),
            "BZip2Codec" => Ok(Codec::Bzip2),
            "SnappyCodec" => Ok(Codec::Snappy),
            "ZStandardCodec" => Ok(Codec::Zstd),
            _ => Err(damaged(format!("cannot decode a SequenceFile of codec {class}"))),
        }
    }

    fn decode(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let decoder: Box<dyn Read + '_> = match self {
            Codec::Zlib => Box::new(ZlibDecoder::new(bytes)),
            Codec::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Codec::Bzip2 => Box::new(MultiBzDecoder::new(bytes)),
            Codec::Snappy => Box::new(Snappy::new(bytes)),
            Codec::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(bytes)?),
        };
        let mut out = Vec::new();
        decoder.take(PIECE_BYTES_MAX as u64).read_to_end(&mut out)?;
        Ok(out)
    }
}

impl<R: Read> Lines<R> {
    /// Reads the header.
    pub(super) fn new(mut source: R) -> io::Result<Self> {
        let mut start = [0; 4];
        source.read_exact(&mut start)?;
        if start[3] != VERSION {
            return Err(damaged(format!("SequenceFile version {} is not {VERSION}", start[3])));
        }
        let (key, value) = (read_text(&mut source)?, read_text(&mut source)?);
        let (compressed, blocks) = (read_byte(&mut source)? != 0, read_byte(&mut source)? != 0);
        let codec = match compressed {
            true => Some(Codec::named(&read_text(&mut source)?)?),
            false => None,
        };
        let pairs = read_i32(&mut source)?;
        if !(0..=METADATA_MAX).contains(&pairs) {
            return Err(damaged("metadata of a SequenceFile are damaged".to_owned()));
        }
        for _ in 0..pairs * 2 {
            read_text(&mut source)?;
        }
        let mut sync = [0; SYNC_BYTES];
        source.read_exact(&mut sync)?;
        let header = Header { key, value, codec, blocks, sync };
        Ok(Lines { source, header, lines: Cursor::default() })
    }

    /// Makes the lines of the next record or block; false at the end.
    fn advance(&mut self) -> io::Result<bool> {
        self.lines = Cursor::default();
        let mut length = match first_byte(&mut self.source)? {
            None => return Ok(false),
            Some(first) => {
                let mut rest = [0; 3];
                self.source.read_exact(&mut rest)?;
                i32::from_be_bytes([first, rest[0], rest[1], rest[2]])
            }
        };
        if length == -1 {
            let mut sync = [0; SYNC_BYTES];
            self.source.read_exact(&mut sync)?;
            if sync != self.header.sync {
                return Err(damaged("a sync marker of a SequenceFile is damaged".to_owned()));
            }
            if self.header.blocks {
                return self.block().map(|()| true);
            }
            length = match first_byte(&mut self.source)? {
                None => return Ok(false),
                Some(first) => {
                    let mut rest = [0; 3];
                    self.source.read_exact(&mut rest)?;
                    i32::from_be_bytes([first, rest[0], rest[1], rest[2]])
                }
            };
        }
        self.record(length).map(|()| true)
    }

    fn record(&mut self, length: i32) -> io::Result<()> {
        let key_length = read_i32(&mut self.source)?;
        let value_length = length
            .checked_sub(key_length)
            .ok_or_else(|| damaged("a record of a SequenceFile is damaged".to_owned()))?;
        let key = read_piece(&mut self.source, key_length.into())?;
        let mut value = read_piece(&mut self.source, value_length.into())?;
        if let Some(codec) = self.header.codec {
            value = codec.decode(&value)?;
        }
        self.line(&key, &value)
    }

    fn block(&mut self) -> io::Result<()> {
        let count = read_vint(&mut self.source)?;
        let codec = self.header.codec.unwrap_or(Codec::Zlib);
        let mut buffers = Vec::with_capacity(4);
        for _ in 0..4 {
            let length = read_vint(&mut self.source)?;
            buffers.push(codec.decode(&read_piece(&mut self.source, length)?)?);
        }
        let [key_lengths, keys, value_lengths, values] = &buffers[..] else { return Ok(()) };
        let (mut key_lengths, mut keys) = (&key_lengths[..], &keys[..]);
        let (mut value_lengths, mut values) = (&value_lengths[..], &values[..]);
        for _ in 0..count {
            let length = read_vint(&mut key_lengths)?;
            let key = read_piece(&mut keys, length)?;
            let length = read_vint(&mut value_lengths)?;
            let value = read_piece(&mut values, length)?;
            self.line(&key, &value)?;
        }
        Ok(())
    }

    fn line(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let out = self.lines.get_mut();
        show(&self.header.key, key, out)?;
        out.push(b'\t');
        show(&self.header.value, value, out)?;
        out.push(b'\n');
        Ok(())
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.lines.read(buffer)? {
                0 if buffer.is_empty() || !self.advance()? => return Ok(0),
                0 => {}
                count => return Ok(count),
            }
        }
    }
}

/// A Writable as its `toString` prints it.
fn show(class: &str, mut bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let bytes = &mut bytes;
    let text = match class.rsplit('.').next().unwrap_or_default() {
        "Text" => {
            let length = read_vint(bytes)?;
            out.extend(read_piece(bytes, length)?);
            return Ok(());
        }
        "IntWritable" => read_i32(bytes)?.to_string(),
        "LongWritable" => i64::from_be_bytes(read_array(bytes)?).to_string(),
        "ShortWritable" => i16::from_be_bytes(read_array(bytes)?).to_string(),
        "ByteWritable" => i8::from_be_bytes(read_array(bytes)?).to_string(),
        "VIntWritable" | "VLongWritable" => read_vint(bytes)?.to_string(),
        "BooleanWritable" => (read_byte(bytes)? != 0).to_string(),
        "FloatWritable" => format!("{:?}", f32::from_be_bytes(read_array(bytes)?)),
        "DoubleWritable" => format!("{:?}", f64::from_be_bytes(read_array(bytes)?)),
        "NullWritable" => "(null)".to_owned(),
        "BytesWritable" => {
            let length = read_i32(bytes)?;
            let bytes = read_piece(bytes, length.into())?;
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
        }
        _ => return Err(damaged(format!("cannot print a value of class {class}"))),
    };
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn damaged(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn first_byte(source: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok(if source.read(&mut byte)? == 0 { None } else { Some(byte[0]) })
}

fn read_array<const N: usize>(source: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_byte(source: &mut impl Read) -> io::Result<u8> {
    read_array::<1>(source).map(|[byte]| byte)
}

fn read_i32(source: &mut impl Read) -> io::Result<i32> {
    read_array(source).map(i32::from_be_bytes)
}

/// Hadoop's variable-length number.
fn read_vint(source: &mut impl Read) -> io::Result<i64> {
    let first = i8::from_be_bytes(read_array(source)?);
    let (length, negative) = match first {
        -112..=127 => return Ok(first.into()),
        -120..=-113 => (-112 - i32::from(first), false),
        _ => (-120 - i32::from(first), true),
    };
    let mut value: i64 = 0;
    for _ in 0..length {
        value = value << 8 | i64::from(read_byte(source)?);
    }
    Ok(if negative { !value } else { value })
}

/// `length` bytes; memory grows with what is there, not with what is said.
fn read_piece(source: &mut impl Read, length: i64) -> io::Result<Vec<u8>> {
    let length = u64::try_from(length)
        .ok()
        .filter(|length| *length <= PIECE_BYTES_MAX as u64)
        .ok_or_else(|| damaged("a length in a SequenceFile is damaged".to_owned()))?;
    let mut bytes = Vec::new();
    if source.by_ref().take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

fn read_text(source: &mut impl Read) -> io::Result<String> {
    let length = read_vint(source)?;
    let bytes = read_piece(source, length)?;
    String::from_utf8(bytes).map_err(|_| damaged("a text of a SequenceFile is damaged".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text(text: &str) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(text.len()).unwrap()];
        bytes.extend(text.as_bytes());
        bytes
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn header(compressed: bool, blocks: bool) -> Vec<u8> {
        let mut file = b"SEQ\x06".to_vec();
        file.extend(text("org.apache.hadoop.io.Text"));
        file.extend(text("org.apache.hadoop.io.IntWritable"));
        file.extend([u8::from(compressed), u8::from(blocks)]);
        if compressed {
            file.extend(text("org.apache.hadoop.io.compress.DefaultCodec"));
        }
        file.extend(1i32.to_be_bytes());
        file.extend([text("who"), text("me")].concat());
        file.extend([9; SYNC_BYTES]);
        file
    }

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let key = text(key);
        let mut bytes = i32::try_from(key.len() + value.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend(i32::try_from(key.len()).unwrap().to_be_bytes());
        bytes.extend([&key, value].concat());
        bytes
    }

    fn sync() -> Vec<u8> {
        [&(-1i32).to_be_bytes()[..], &[9; SYNC_BYTES]].concat()
    }

    fn block() -> Vec<u8> {
        let mut bytes = [sync(), vec![2]].concat();
        let values = [7i32.to_be_bytes(), (-1i32).to_be_bytes()].concat();
        for buffer in [vec![2, 2], [text("a"), text("b")].concat(), vec![4, 4], values] {
            let packed = deflate(&buffer);
            bytes.push(u8::try_from(packed.len()).unwrap());
            bytes.extend(packed);
        }
        bytes
    }

    fn lines(file: &[u8]) -> io::Result<String> {
        let mut out = String::new();
        Lines::new(file)?.read_to_string(&mut out)?;
        Ok(out)
    }

    #[test]
    fn records_and_blocks_become_lines() {
        let plain = [
            header(false, false),
            record("a", &7i32.to_be_bytes()),
            sync(),
            record("b", &(-1i32).to_be_bytes()),
        ]
        .concat();
        let packed = [
            header(true, false),
            record("a", &deflate(&7i32.to_be_bytes())),
            record("b", &deflate(&(-1i32).to_be_bytes())),
        ]
        .concat();
        let blocks = [header(true, true), block()].concat();
        for file in [plain, packed, blocks] {
            assert_eq!(lines(&file).unwrap(), "a\t7\nb\t-1\n");
        }
        assert_eq!(lines(&header(false, false)).unwrap(), "");
    }

    #[test]
    fn truncation_and_damage_are_errors() {
        let file = [header(true, true), block()].concat();
        let start = header(true, true).len();
        for end in 0..file.len() {
            assert!(end == start || lines(&file[..end]).is_err(), "{end}");
        }
        for at in 0..file.len() {
            let mut file = file.clone();
            file[at] ^= 0x80;
            let _ = lines(&file);
        }
    }

    #[test]
    fn writables_print_as_java_prints_them() {
        for (class, bytes, shown) in [
            ("LongWritable", &5i64.to_be_bytes()[..], "5"),
            ("VIntWritable", &[0x8f, 0xc8], "200"),
            ("VIntWritable", &[0x87, 0xc7], "-200"),
            ("DoubleWritable", &1.0f64.to_be_bytes(), "1.0"),
            ("BooleanWritable", &[1], "true"),
            ("NullWritable", &[], "(null)"),
            ("BytesWritable", &[0, 0, 0, 2, 0xab, 1], "ab 01"),
        ] {
            let mut out = Vec::new();
            show(&format!("org.apache.hadoop.io.{class}"), bytes, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), shown, "{class}");
        }
        assert!(show("com.example.Own", &[], &mut Vec::new()).is_err());
    }
}
