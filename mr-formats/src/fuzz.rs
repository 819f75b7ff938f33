//! Decoders that accept any bytes, for `fuzz/`: input files.

use std::io::{self, Read};

use crate::bzip2_split::SplitReader;
use crate::codec::FileCodec;
use crate::sequence::{Compression, SequenceReader, SequenceWriter};
use crate::{Format, Lines, Source, SplitRange, TextRules, writable};

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("text_lines", text_lines),
    ("sequence_files", sequence_files),
    ("codecs", codecs),
    ("bzip2_splits", bzip2_splits),
    ("writables", writables),
];

/// The bytes of a file, a few at a time.
struct Pieces<'a> {
    bytes: &'a [u8],
    piece: usize,
    rules: TextRules,
}

impl Source for Pieces<'_> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        Ok(&rest[..rest.len().min(self.piece)])
    }

    fn length(&self) -> Option<u64> {
        Some(self.bytes.len() as u64)
    }

    fn text(&self) -> TextRules {
        self.rules.clone()
    }
}

fn lines(source: &mut Pieces<'_>, start: u64, end: u64) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    let read = Lines.read(SplitRange { start, end }, source, &mut |at, line| {
        found.push((at, line.bytes.to_vec()));
        Ok(())
    });
    read.expect("every text has lines");
    found
}

/// Text cut into splits: each line is in one of them. The input begins with the bytes of a piece, the bytes of a split, and the length of a
/// delimiter, which follows.
pub fn text_lines(bytes: &[u8]) {
    let Some(([piece, split, delimiter], rest)) = bytes.split_first_chunk::<3>() else { return };
    let (delimiter, text) = rest.split_at(rest.len().min(usize::from(delimiter % 4)));
    let delimiter = (!delimiter.is_empty()).then(|| delimiter.into());
    let rules = TextRules { delimiter, ..TextRules::default() };
    let can_cut = rules.can_cut();
    let mut source = Pieces { bytes: text, piece: usize::from(*piece).max(1), rules };
    let whole = lines(&mut source, 0, text.len() as u64);
    if can_cut {
        let (mut parts, step) = (Vec::new(), u64::from(*split).max(1));
        for start in (0..text.len() as u64).step_by(step as usize) {
            let end = (start + step).min(text.len() as u64);
            parts.extend(lines(&mut source, start, end));
        }
        assert_eq!(parts, whole);
    }
}

/// SequenceFiles: a whole file and a split of it, then a file written from pairs.
pub fn sequence_files(bytes: &[u8]) {
    let read = |reader: io::Result<SequenceReader<&[u8]>>| -> io::Result<usize> {
        let (mut reader, mut count) = (reader?, 0);
        while let Some((key, value)) = reader.next_pair()? {
            count += key.len() + value.len();
        }
        Ok(count)
    };
    let _ = read(SequenceReader::new(bytes));
    let middle = bytes.len() as u64 / 2;
    let from = |at: u64| bytes.get(at as usize..).unwrap_or_default();
    let _ = read(SequenceReader::split(middle, u64::MAX, from));
    let mut writer = SequenceWriter::new(Vec::new(), "key", "value", Compression::None, [0x5a; 16])
        .expect("memory takes everything");
    for pair in bytes.chunks(40) {
        let (key, value) = pair.split_at(pair.len() / 3);
        writer.push(key, value).expect("memory takes everything");
    }
    let file = writer.end().expect("memory takes everything");
    assert_eq!(read(SequenceReader::new(&file[..])).expect("it is as it was written"), bytes.len());
}

/// Most raw bytes read of one small file.
const RAW_BYTES_MAX: u64 = 1 << 20;

/// Compressed files: the first byte selects the codec.
pub fn codecs(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let codec = match kind % 6 {
        0 => FileCodec::Gzip,
        1 => FileCodec::Deflate,
        2 => FileCodec::Bzip2,
        3 => FileCodec::Zstd,
        4 => FileCodec::Lz4,
        _ => FileCodec::Snappy,
    };
    let mut raw = Vec::new();
    if codec.decompress(bytes, RAW_BYTES_MAX, &mut raw).is_ok() {
        assert!(raw.len() as u64 <= RAW_BYTES_MAX);
    }
    if matches!(codec, FileCodec::Lz4 | FileCodec::Snappy) {
        let stored = codec.compress(bytes).expect("memory takes everything");
        let mut raw = Vec::new();
        codec.decompress(&stored, bytes.len() as u64, &mut raw).expect("it was compressed so");
        assert_eq!(raw, bytes);
    }
}

/// Splits of bzip2 files, unchanged and after the start of a file and of its first block.
pub fn bzip2_splits(bytes: &[u8]) {
    let behind = [&b"BZh9\x31\x41\x59\x26\x53\x59"[..], bytes].concat();
    for file in [bytes, &behind[..]] {
        let mut source = Pieces { bytes: file, piece: 100, rules: TextRules::default() };
        let length = file.len() as u64;
        for split in [(0, length), (length / 2, length), (0, length / 2)] {
            let split = SplitRange { start: split.0, end: split.1 };
            let Ok(reader) = SplitReader::open(&mut source, split) else { continue };
            let mut raw = Vec::new();
            let _ = reader.take(RAW_BYTES_MAX).read_to_end(&mut raw);
        }
    }
}

/// Values of SequenceFiles: the name of a class up to a zero byte, then a value.
pub fn writables(bytes: &[u8]) {
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (class, value) = (String::from_utf8_lossy(&bytes[..at]), &bytes[at..]);
    let value = value.get(1..).unwrap_or_default();
    for class in [class.to_string(), format!("org.apache.hadoop.io.{class}")] {
        let _ = writable::show(&class, value, &mut Vec::new());
    }
    let mut rest = value;
    if let Ok(number) = writable::take_vint(&mut rest) {
        let mut shortest = Vec::new();
        writable::put_vint(number, &mut shortest);
        assert_eq!(writable::take_vint(&mut &shortest[..]), Ok(number));
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
