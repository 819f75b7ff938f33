//! Splits of bzip2 files: each line in exactly one of them, whatever the cuts, the blocks, the streams and the line ends.

use std::io;

use proptest::prelude::*;

use super::*;
use crate::codec::FileCodec;
use crate::input::Format;
use crate::sources::DecodedSource;
use crate::text::Lines;

/// Hands out slices of at most this many bytes.
struct Chopped<'a>(&'a [u8], usize);

impl Source for Chopped<'_> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        let rest = &self.0[(offset as usize).min(self.0.len())..];
        Ok(&rest[..rest.len().min(self.1)])
    }

    fn length(&self) -> Option<u64> {
        Some(self.0.len() as u64)
    }
}

/// One stream, in blocks of 100,000 bytes.
fn stream(raw: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    io::Write::write_all(&mut encoder, raw).unwrap();
    encoder.finish().unwrap()
}

fn lines_of_split(
    file: &[u8],
    split: SplitRange,
    slice: usize,
) -> crate::error::Result<Vec<Vec<u8>>> {
    let mut source = Chopped(file, slice);
    let mut decoded = DecodedSource::enter(split, &mut source)?;
    let mut lines = Vec::new();
    let range = SplitRange { start: split.start, end: u64::MAX };
    Lines.read(range, &mut decoded, &mut |_, line| {
        lines.push(line.to_vec());
        Ok(())
    })?;
    Ok(lines)
}

fn lines(file: &[u8], split_bytes: u64, slice: usize) -> Vec<Vec<u8>> {
    let length = file.len() as u64;
    let starts = (0..length).step_by(split_bytes as usize);
    starts
        .flat_map(|start| {
            let split = SplitRange { start, end: (start + split_bytes).min(length) };
            lines_of_split(file, split, slice).unwrap()
        })
        .collect()
}

/// The lines of the whole file, from the decoder of whole files.
fn whole(file: &[u8]) -> Vec<Vec<u8>> {
    let mut raw = Vec::new();
    FileCodec::Bzip2.decompress(file, u64::MAX - 1, &mut raw).unwrap();
    let mut lines = Vec::new();
    Lines
        .read(
            SplitRange { start: 0, end: u64::MAX },
            &mut Chopped(&raw, 1 << 20),
            &mut |_, line| {
                lines.push(line.to_vec());
                Ok(())
            },
        )
        .unwrap();
    lines
}

/// Streams of a few bytes: cuts fall on every position of a line, and lines span several streams.
#[test]
fn every_split_size_reads_the_same_lines_of_small_streams() {
    for pieces in [
        &["one\ntwo\nthr", "ee\n", "\n", "four\r", "\nfive\r\n", "six"][..],
        &["a", "b", "c", "d\n", "\r", "\r\n\n", "e"],
        &["", "x\n", "", "y"],
        &["\n"],
        &["no end of line", " at all"],
        &["ends with cr\r", "\r", "\n\n"],
        &[""],
    ] {
        let file: Vec<u8> = pieces.iter().flat_map(|piece| stream(piece.as_bytes())).collect();
        let expected = whole(&file);
        for split_bytes in 1..=file.len() as u64 {
            for slice in [1, 7, 1 << 20] {
                let found = lines(&file, split_bytes, slice);
                assert_eq!(found, expected, "{pieces:?} in splits of {split_bytes}");
            }
        }
    }
}

/// A text of several blocks in one stream, which begin at any bit.
#[test]
fn blocks_of_one_stream_are_found_at_any_bit() {
    for end in ["\n", "\r", "\r\n"] {
        let raw: String = (0..40_000u64)
            .map(|n| format!("{:x}{end}", (n * n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30))
            .collect();
        let file = stream(raw.as_bytes());
        let mut source = Chopped(&file, 1 << 20);
        let mut scanner = Scanner::new(&mut source, 0);
        let marks: Vec<Mark> = std::iter::from_fn(|| scanner.next().unwrap()).collect();
        assert!(marks.len() >= 4 && marks[0] == Mark { bit: 32, is_block: true }, "{marks:?}");
        assert!(marks.iter().any(|mark| mark.bit % 8 != 0), "{marks:?}");
        let expected = whole(&file);
        assert_eq!(expected.len(), 40_000);
        for split_bytes in [5, 6, 100_003, file.len() as u64 - 1, file.len() as u64] {
            if split_bytes > 6 {
                let found = lines(&file, split_bytes, 1000);
                assert!(found == expected, "{} lines in splits of {split_bytes}", found.len());
            }
        }
        // Cuts around the start of each block.
        for mark in &marks[1..] {
            for cut in mark.byte().saturating_sub(1)..mark.byte() + 8 {
                let mut found = Vec::new();
                for (start, end) in [(0, cut), (cut, file.len() as u64)] {
                    found.extend(lines_of_split(&file, SplitRange { start, end }, 4096).unwrap());
                }
                assert!(found == expected, "cut at {cut} beside {mark:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_split_size_reads_the_same_random_lines(
        pieces in prop::collection::vec(
            prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), any::<u8>()], 0..12),
            1..6),
        slice in 1usize..100,
    ) {
        let file: Vec<u8> = pieces.iter().flat_map(|piece| stream(piece)).collect();
        let expected = whole(&file);
        for split_bytes in 1..=file.len() as u64 {
            prop_assert_eq!(&lines(&file, split_bytes, slice), &expected);
        }
    }
}

/// A false start of a block within a block: the reader joins both parts into the block.
#[test]
fn a_false_mark_within_a_block_is_passed_over() {
    let raw: String = (0..5000).map(|n| format!("{n}\n")).collect();
    let file = stream(raw.as_bytes());
    let mut source = Chopped(&file, 1 << 20);
    let split = SplitRange { start: 0, end: file.len() as u64 };
    let mut reader = SplitReader::open(&mut source, split).unwrap();
    let block = reader.next.unwrap();
    let end = reader.scanner.next().unwrap().unwrap();
    assert!(!end.is_block);
    let middle = Mark { bit: (block.bit + end.bit) / 2, is_block: true };
    let part = reader.scanner.stream(block, middle);
    let mut nothing = Vec::new();
    assert!(BzDecoder::new(Cursor::new(part)).read_to_end(&mut nothing).is_err());
    assert!(nothing.is_empty(), "nothing comes out of a part of a block");
    // Sets the state as if the scanner had stopped there; it continues to the true end.
    reader.scanner.seen = middle.byte() as usize + 8;
    reader.tried = Some((block, middle));
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert!(found == raw.as_bytes());
}

#[test]
fn damage_and_a_cut_off_end_are_errors() {
    let raw: String = (0..60_000u64).map(|n| format!("{:x}\n", n * n * n)).collect();
    let file = stream(raw.as_bytes());
    let all = |file: &[u8]| {
        lines_of_split(file, SplitRange { start: 0, end: file.len() as u64 }, 1 << 20)
    };
    assert_eq!(all(&file).unwrap().len(), 60_000);
    for cut in [1, 3, 9, file.len() / 2, file.len() - 5] {
        let error = all(&file[..file.len() - cut]).unwrap_err().to_string();
        assert!(error.contains("cut off"), "cut by {cut}: {error}");
    }
    for at in [0, 8, 2000, file.len() / 2] {
        let mut damaged = file.clone();
        damaged[at] ^= 0x10;
        assert!(all(&damaged).is_err(), "a flipped bit at {at}");
    }
    let mut followed = file.clone();
    followed.extend_from_slice(b"something else");
    assert!(all(&followed).unwrap_err().to_string().contains("something else follows"));
    assert!(all(b"not compressed at all").unwrap_err().to_string().contains("not a bzip2 file"));
}

/// The bits of `file` without those from one mark to another.
fn without(file: &[u8], from: Mark, to: Mark) -> Vec<u8> {
    let bits = |range: std::ops::Range<u64>| {
        range.map(|bit| file[(bit / 8) as usize] >> (7 - bit % 8) & 1)
    };
    let left: Vec<u8> = bits(0..from.bit).chain(bits(to.bit..file.len() as u64 * 8)).collect();
    left.chunks(8)
        .map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit) << (8 - byte.len()))
        .collect()
}

#[test]
fn a_stream_without_one_of_its_blocks_is_damaged() {
    let raw: String = (0..60_000u64).map(|n| format!("{:x}\n", n * n * n)).collect();
    let file = stream(raw.as_bytes());
    let mut source = Chopped(&file, 1 << 20);
    let mut scanner = Scanner::new(&mut source, 0);
    let marks: Vec<Mark> = std::iter::from_fn(|| scanner.next().unwrap()).collect();
    assert!(marks.len() > 4, "{marks:?}");
    let small = stream(b"a line\n");
    for pair in marks.windows(2) {
        let cut = without(&file, pair[0], pair[1]);
        let behind_another = [&small[..], &cut].concat();
        for (file, start) in [(&cut, 0), (&behind_another, 0), (&behind_another, 6)] {
            let split = SplitRange { start, end: file.len() as u64 };
            let error = lines_of_split(file, split, 1 << 20).unwrap_err().to_string();
            assert!(error.contains("than its checksum says"), "{pair:?} from {start}: {error}");
        }
    }
    let mut wrong = small.clone();
    let at = wrong.len() - 3;
    wrong[at] ^= 0x10;
    assert!(lines_of_split(&wrong, SplitRange { start: 0, end: 100 }, 1 << 20).is_err());
}
