//! Decoders of untrusted bytes, for `fuzz/`: the files of a journal. Where a format has checksums, the bytes also become the content of a
//! file whose checksums fit.

use std::io::{self, Cursor};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::disk::{Disk, DiskFile, ReadFile};
use crate::home::mark;
use crate::home::mirrors;
use crate::id::{Epoch, Txid};
use crate::image;
use crate::sector::{self, PAYLOAD_LEN, SECTOR_BYTES, SectorPosition};
use crate::segment::{self, Header};
use crate::store::page;

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("journal_segment", journal_segment),
    ("journal_page", journal_page),
    ("journal_image", journal_image),
    ("journal_marks", journal_marks),
];

/// Bytes taken one after the other; zeros after the last.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A small number, or one near the largest.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX - u64::from(self.byte()),
            254 => u64::from(u32::MAX) - u64::from(self.byte()),
            253 => u64::from(self.byte()) << 8 | u64::from(self.byte()),
            small => u64::from(small),
        }
    }

    fn fill(&mut self, out: &mut [u8]) {
        let (now, rest) = self.0.split_at(self.0.len().min(out.len()));
        out[..now.len()].copy_from_slice(now);
        self.0 = rest;
    }
}

const FIRST: Txid = Txid(7);
/// Most sectors of a generated segment.
const SECTORS_MAX: usize = 64;

fn sector_of(input: &mut Input<'_>, position: SectorPosition) -> [u8; SECTOR_BYTES] {
    let mut sector = [0; SECTOR_BYTES];
    match input.byte() % 8 {
        0 => {}
        1 => input.fill(&mut sector),
        kind => {
            let (first, record_count) = (Txid(input.number()), input.number() as u32);
            let (sector_count, index) = (input.number() as u32, input.number() as u32);
            let (epoch, used) = (Epoch(input.number()), input.number() as u16);
            let length = usize::from(used).min(PAYLOAD_LEN);
            let mut payload = [0; PAYLOAD_LEN];
            input.fill(&mut payload[..length]);
            let batch = sector::BatchName { first, record_count, sector_count };
            sector = sector::sealed(position, (used, epoch, batch, index), &payload);
            if kind == 2 {
                sector[usize::from(input.byte())] ^= 1;
            }
        }
    }
    sector
}

/// The records that a scan reports.
fn records(copies: &[&[u8]]) -> (segment::Scan, Vec<(Txid, Epoch, Vec<u8>)>) {
    let mut records = Vec::new();
    let mut see = |txid, epoch, body: &[u8]| records.push((txid, epoch, body.to_vec()));
    let scan = segment::scan(copies, FIRST, &mut see).expect("the header is of this layout");
    (scan, records)
}

/// A segment as it is, and one of sectors whose checksums fit, in one copy or two.
pub fn journal_segment(bytes: &[u8]) {
    let _ = segment::scan(&[bytes], FIRST, &mut |_, _, _| ());
    let mut input = Input(bytes);
    let has_two = input.byte() % 2 == 1;
    let header = Header { first: FIRST, epoch: Epoch(1) }.encode();
    let mut copies = [header.to_vec(), header.to_vec()];
    for index in 1..SECTORS_MAX as u64 {
        if input.0.is_empty() {
            break;
        }
        let sector = sector_of(&mut input, SectorPosition { segment: FIRST, index });
        copies[0].extend_from_slice(&sector);
        match has_two {
            true => copies[1].extend_from_slice(&sector_of(
                &mut input,
                SectorPosition { segment: FIRST, index },
            )),
            false => copies[1].extend_from_slice(&sector),
        }
    }
    let copies = [&copies[0][..], &copies[1][..]];
    let (scan, good) = records(&copies);
    assert_eq!(scan.record_count, good.len() as u64);
    assert!(good.iter().all(|(txid, ..)| *txid >= FIRST));
    assert!(good.windows(2).all(|pair| pair[0].0 < pair[1].0), "records in their order");
    let whole = segment::merged(&copies, FIRST, &scan);
    let (again, same) = records(&[&whole]);
    assert_eq!(same, good, "what is written anew has the same records");
    assert!(again.torn.is_none() || scan.torn.is_none());
}

/// A page of rows: stored, stored with its checksum, and raw.
pub fn journal_page(bytes: &[u8]) {
    let (key, value) = bytes.split_at(bytes.len().min(2));
    let _ = page::decode(key, value, &mut Vec::new());
    let mut sealed = vec![0; 4];
    sealed.extend_from_slice(value);
    let crc = crc32fast::hash(value).to_le_bytes();
    sealed[..4].copy_from_slice(&crc);
    let _ = page::decode(key, &sealed, &mut Vec::new());
    if let Some((first, _)) = page::Rows::of(bytes).next() {
        let (first, mut raw) = (first.to_vec(), Vec::new());
        if page::decode(&first, &page::encode(bytes), &mut raw).is_some() {
            assert_eq!(raw, bytes);
            assert_eq!(page::cut(bytes, true).concat(), bytes);
        }
    }
}

/// One file, whatever its name.
struct One(Vec<u8>);

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// An image is read from front to back.
impl ReadFile for Cursor<Vec<u8>> {
    fn length(&self) -> io::Result<u64> {
        refused()
    }

    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        refused()
    }
}

impl Disk for One {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn list(&self, _: &Path) -> io::Result<Vec<String>> {
        refused()
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn ReadFile>> {
        Ok(Box::new(Cursor::new(self.0.clone())))
    }

    fn create(&self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn settle(&self, _: &Path, _: u64, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }
}

fn rows_of(file: Vec<u8>) -> Option<u64> {
    let mut count = 0;
    let mut see = |_: &[u8], _: &[u8]| {
        count += 1;
        Ok(())
    };
    let info = image::read(&One(file), &PathBuf::from("image"), &mut see).ok()?;
    assert_eq!(info.row_count, count);
    Some(count)
}

/// An image as it is, and one whose checksums fit: the bytes give the length (two bytes) and the number of rows (one) of each section.
pub fn journal_image(bytes: &[u8]) {
    rows_of(bytes.to_vec());
    let mut file = b"HANNOIMG\x01\0\0\0".to_vec();
    file.extend_from_slice(&[3; 16]);
    file.extend_from_slice(&crc32fast::hash(&file).to_le_bytes());
    let (mut rest, mut row_count) = (bytes, 0);
    while let Some(([low, high, rows], behind)) = rest.split_first_chunk::<3>() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        file.extend_from_slice(&(length as u32).to_le_bytes());
        file.extend_from_slice(&u32::from(*rows).to_le_bytes());
        file.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        file.extend_from_slice(payload);
        row_count += u64::from(*rows);
        rest = behind;
    }
    file.extend_from_slice(&[0; 12]);
    file.extend_from_slice(&row_count.to_le_bytes());
    let digest = Sha256::digest(&file);
    file.extend_from_slice(&digest);
    if let Some(count) = rows_of(file) {
        assert_eq!(count, row_count);
    }
}

/// The files `epoch` and `mirrors`, as they are and with their checksums.
pub fn journal_marks(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    sealed.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    for bytes in [bytes, &sealed] {
        if let Ok(Some((mark, starts))) = mark::decode(bytes) {
            let again = mark::decode(&mark::encode(mark, &starts));
            assert!(matches!(again, Ok(Some((same, _))) if same == mark));
        }
        if let Ok(Some(paths)) = mirrors::decode(bytes) {
            let dir = Path::new("/journal");
            assert!(mirrors::decode(&mirrors::encode(dir, &paths)).is_ok());
        }
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
