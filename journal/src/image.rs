//! The exported image: every row of the checkpoint as of one txid, in one file that checks itself.
//!
//! ```text
//! header    magic "HANNOIMG" | layout u32 = 1 | applied txid u64 | epoch u64 | crc32 of these u32
//! section*  payload length u32 (1 ..= SECTION_BYTES_MAX) | rows u32 | crc32 of the payload u32 | payload
//!           payload: (key length u32 | value length u32 | key | value)*
//! end       0 u32 | 0 u32 | 0 u32
//! trailer   rows u64 | sha256 of everything before it, 32 bytes
//! ```
//!
//! Little endian; rows in key order. Layout version 1 is the first. Written by the checkpointer, read by
//! `recover` and `admin`. A file appears under its name (`<applied txid>.image`) only when it is whole
//! and on disk.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::bytes::{u32_at, u64_at};
use crate::disk::{Disk, DiskFile, publish};
use crate::error::{JournalError, RecoverError, StoreError, disk};
use crate::id::{Epoch, Txid};
use crate::store::{KEY_BYTES_MAX, Store, VALUE_BYTES_MAX};

/// What an image says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageInfo {
    /// The last record that it contains.
    pub applied: Txid,
    /// The start that wrote that record.
    pub epoch: Epoch,
    /// How many rows it has.
    pub row_count: u64,
}

/// Called for each row that is read.
pub type SeeRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), RecoverError> + 'a;

/// The file name of the image as of `applied`.
pub(crate) fn file_name(applied: Txid) -> String {
    format!("{:020}.image", applied.0)
}

/// The images in `dir`, newest first.
pub(crate) fn list(disk_: &dyn Disk, dir: &Path) -> Result<Vec<(Txid, PathBuf)>, JournalError> {
    let names = disk_.list(dir).map_err(disk("list", dir))?;
    let mut out: Vec<_> = names
        .iter()
        .filter_map(|name| {
            let digits = name.strip_suffix(".image").filter(|digits| digits.len() == 20)?;
            Some((Txid(digits.parse().ok()?), dir.join(name)))
        })
        .collect();
    out.sort_unstable_by(|a, b| b.cmp(a));
    Ok(out)
}

/// Writes the image of all rows in `store` and returns its path once it is on disk.
pub(crate) fn write(
    disk_: &dyn Disk,
    dir: &Path,
    store: &Store,
    section_bytes: usize,
) -> Result<PathBuf, JournalError> {
    let name = file_name(store.applied());
    let mut failed = None;
    let written = publish(disk_, dir, &name, |file| {
        let mut writer = Writer::start(file, store.applied(), store.epoch(), section_bytes)?;
        let walked = store.for_each_row(&mut |key, value| {
            writer.row(key, value).map_err(|source| StoreError::Disk {
                action: "write",
                path: dir.join(&name),
                source,
            })
        });
        match walked {
            Ok(()) => writer.finish(),
            Err(error) => {
                failed = Some(error);
                Err(io::Error::other("the rows could not be written"))
            }
        }
    });
    match (failed, written) {
        (Some(error), _) => Err(JournalError::Store(error)),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Ok(dir.join(name)),
    }
}

/// Copies an image into `dir`.
pub(crate) fn copy(disk_: &dyn Disk, from: &Path, dir: &Path) -> Result<(), JournalError> {
    let name = from.file_name().and_then(|name| name.to_str());
    let name = name.expect("images are listed by text names");
    let mut input = disk_.open(from).map_err(disk("open", from))?;
    let mut chunk = vec![0; COPY_BYTES];
    let written = publish(disk_, dir, name, |file| {
        loop {
            match input.read(&mut chunk)? {
                0 => return Ok(()),
                len => file.append(&chunk[..len])?,
            }
        }
    });
    written.map(drop)
}

struct Writer<'a> {
    file: &'a mut dyn DiskFile,
    hash: Sha256,
    section: Vec<u8>,
    section_bytes: usize,
    section_rows: u32,
    rows: u64,
}

impl<'a> Writer<'a> {
    fn start(
        file: &'a mut dyn DiskFile,
        applied: Txid,
        epoch: Epoch,
        section_bytes: usize,
    ) -> io::Result<Writer<'a>> {
        let mut header = Vec::with_capacity(HEADER_LEN);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&LAYOUT.to_le_bytes());
        header.extend_from_slice(&applied.0.to_le_bytes());
        header.extend_from_slice(&epoch.0.to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        let mut writer = Writer {
            file,
            hash: Sha256::new(),
            section: Vec::with_capacity(section_bytes + ROW_BYTES_MAX),
            section_bytes: section_bytes.min(SECTION_BYTES_MAX - ROW_BYTES_MAX),
            section_rows: 0,
            rows: 0,
        };
        writer.put(&header)?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.append(bytes)
    }

    fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.section.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.section.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.section.extend_from_slice(key);
        self.section.extend_from_slice(value);
        self.section_rows += 1;
        self.rows += 1;
        if self.section.len() >= self.section_bytes { self.end_section() } else { Ok(()) }
    }

    fn end_section(&mut self) -> io::Result<()> {
        let mut head = [0; SECTION_HEAD_LEN];
        head[..4].copy_from_slice(&(self.section.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&self.section_rows.to_le_bytes());
        head[8..].copy_from_slice(&crc32fast::hash(&self.section).to_le_bytes());
        let section = std::mem::take(&mut self.section);
        self.put(&head)?;
        self.put(&section)?;
        self.section = section;
        self.section.clear();
        self.section_rows = 0;
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if !self.section.is_empty() {
            self.end_section()?;
        }
        let rows = self.rows.to_le_bytes();
        self.put(&[0; SECTION_HEAD_LEN])?;
        self.put(&rows)?;
        let digest = self.hash.clone().finalize();
        self.file.append(&digest)
    }
}

/// Reads an image from front to back, passing each row to `row`, and checks all of it.
///
/// Rows are passed on before the whole file is known to be good: on an error, discard them.
pub(crate) fn read(
    disk_: &dyn Disk,
    path: &Path,
    row: &mut SeeRow<'_>,
) -> Result<ImageInfo, JournalError> {
    let input = disk_.open(path).map_err(disk("open", path))?;
    let mut reader = Reader { input: io::BufReader::new(input), hash: Sha256::new(), path };
    let header: [u8; HEADER_LEN] = reader.array("header")?;
    let field = |at| u64_at(&header, at).expect("the header has this field");
    let crc = u32_at(&header, HEADER_LEN - 4).expect("the header has a crc");
    if &header[..8] != MAGIC || crc32fast::hash(&header[..HEADER_LEN - 4]) != crc {
        return Err(reader.damaged("header"));
    }
    let layout = u32_at(&header, 8).expect("the header has a layout version");
    if layout != LAYOUT {
        return Err(JournalError::Foreign {
            path: path.to_owned(),
            version: layout,
            known: LAYOUT,
        });
    }
    let applied = Txid(field(12));
    let mut rows = 0;
    let mut payload = Vec::new();
    loop {
        let head: [u8; SECTION_HEAD_LEN] = reader.array("section head")?;
        let part = |at| u32_at(&head, at).expect("the section head has three fields");
        let (len, section_rows, crc) = (part(0) as usize, part(4), part(8));
        if len == 0 {
            break;
        }
        if len > SECTION_BYTES_MAX {
            return Err(reader.damaged("section length"));
        }
        payload.resize(len, 0);
        reader.fill(&mut payload, "section")?;
        if crc32fast::hash(&payload) != crc {
            return Err(reader.damaged("section checksum"));
        }
        let row_count = read_rows(&payload, row)
            .map_err(|source| JournalError::Restore { applied, source })?
            .ok_or_else(|| reader.damaged("section contents"))?;
        if row_count != section_rows {
            return Err(reader.damaged("section row count"));
        }
        rows += u64::from(row_count);
    }
    let stated = u64::from_le_bytes(reader.array("row count")?);
    let digest = reader.hash.clone().finalize();
    let trailer: [u8; 32] = reader.array("trailer")?;
    let mut rest = [0; 1];
    let more = reader.input.read(&mut rest).map_err(disk("read", path))?;
    if stated != rows || trailer[..] != digest[..] || more != 0 {
        return Err(reader.damaged("sha256"));
    }
    Ok(ImageInfo { applied, epoch: Epoch(field(20)), row_count: rows })
}

/// Passes on each row of one section; `None` if the payload does not divide into rows.
fn read_rows(payload: &[u8], row: &mut SeeRow<'_>) -> Result<Option<u32>, RecoverError> {
    let mut at = 0;
    let mut count = 0;
    while at < payload.len() {
        let (Some(key_len), Some(value_len)) = (u32_at(payload, at), u32_at(payload, at + 4))
        else {
            return Ok(None);
        };
        let key_end = (at + 8).saturating_add(key_len as usize);
        let end = key_end.saturating_add(value_len as usize);
        let (Some(key), Some(value)) = (payload.get(at + 8..key_end), payload.get(key_end..end))
        else {
            return Ok(None);
        };
        row(key, value)?;
        count += 1;
        at = end;
    }
    Ok(Some(count))
}

struct Reader<'a> {
    input: io::BufReader<Box<dyn Read + Send>>,
    hash: Sha256,
    path: &'a Path,
}

impl Reader<'_> {
    fn fill(&mut self, out: &mut [u8], what: &'static str) -> Result<(), JournalError> {
        self.input.read_exact(out).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.damaged(what),
            _ => disk("read", self.path)(error),
        })?;
        self.hash.update(&*out);
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], JournalError> {
        let mut out = [0; N];
        self.fill(&mut out, what)?;
        Ok(out)
    }

    fn damaged(&self, what: &'static str) -> JournalError {
        JournalError::ImageDamaged { path: self.path.to_owned(), what }
    }
}

/// Images kept in a directory: two, so that one can be found bad.
pub(crate) const IMAGES_KEPT: usize = 2;

/// Usual payload of a section, in bytes: 1 MiB. Large enough that its head costs nothing, small
/// enough to be held in memory.
pub(crate) const SECTION_BYTES: usize = 1 << 20;

/// Largest payload that a reader accepts, in bytes.
const SECTION_BYTES_MAX: usize = SECTION_BYTES + ROW_BYTES_MAX;

/// Bytes that a copy reads at once: 1 MiB, enough to keep a disk busy.
const COPY_BYTES: usize = 1 << 20;

const ROW_BYTES_MAX: usize = 8 + KEY_BYTES_MAX + VALUE_BYTES_MAX;
const MAGIC: &[u8; 8] = b"HANNOIMG";
const LAYOUT: u32 = 1;
const HEADER_LEN: usize = 32;
const SECTION_HEAD_LEN: usize = 12;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sim::{SimKvPlace, SimWorld};
    use crate::store::KvPlace;

    /// A machine with an image of `rows` rows in sections of about 40 bytes.
    fn image_of(rows: u8) -> (SimWorld, PathBuf) {
        let world = SimWorld::new(1);
        let kv = SimKvPlace::new(&world).open(&mut Vec::new()).unwrap();
        let mut store = Store::load(kv, &mut |_, _| Ok(())).unwrap();
        let changes: BTreeMap<_, _> =
            (0..rows).map(|row| (vec![row], Some(vec![row; 5]))).collect();
        store.apply(changes, Txid(9), Epoch(2)).unwrap();
        let path = write(&world, Path::new("/i"), &store, 40).unwrap();
        (world, path)
    }

    fn rows_in(world: &SimWorld, path: &Path) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, JournalError> {
        let mut rows = BTreeMap::new();
        let info = read(world, path, &mut |key, value| {
            rows.insert(key.to_vec(), value.to_vec());
            Ok(())
        })?;
        assert_eq!((info.applied, info.epoch), (Txid(9), Epoch(2)));
        assert_eq!(info.row_count, rows.len() as u64);
        Ok(rows)
    }

    #[test]
    fn golden_bytes() {
        let (world, path) = image_of(1);
        assert_eq!(path, Path::new("/i/00000000000000000009.image"));
        let bytes = crate::disk::read(&world, &path).unwrap();
        assert_eq!(bytes[..28], *b"HANNOIMG\x01\0\0\0\x09\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
        assert_eq!(bytes[32..40], *b"\x0e\0\0\0\x01\0\0\0");
        assert_eq!(bytes[44..58], *b"\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes[58..78], *b"\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
        assert_eq!(bytes[78..], Sha256::digest(&bytes[..78])[..]);
    }

    #[test]
    fn round_trip() {
        for rows in [0, 1, 2, 3, 40] {
            let (world, path) = image_of(rows);
            let want: BTreeMap<_, _> = (0..rows).map(|row| (vec![row], vec![row; 5])).collect();
            assert_eq!(rows_in(&world, &path).unwrap(), want);
            assert_eq!(list(&world, Path::new("/i")).unwrap(), [(Txid(9), path)]);
        }
    }

    #[test]
    fn each_truncation_each_flipped_bit_and_any_surplus_is_noticed() {
        let (world, path) = image_of(6);
        let bytes = crate::disk::read(&world, &path).unwrap();
        let check = |bad: Vec<u8>, what: String| {
            let world = world.fork();
            world.tamper(&path, |bytes| *bytes = bad);
            let error = rows_in(&world, &path).expect_err(&what);
            assert!(matches!(error, JournalError::ImageDamaged { .. }), "{what}: {error:?}");
        };
        for cut in 0..bytes.len() {
            check(bytes[..cut].to_vec(), format!("cut at {cut}"));
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            check(flipped, format!("bit {bit}"));
        }
        check([&bytes[..], &[0]].concat(), "one byte more".into());
    }

    #[test]
    fn a_newer_layout_is_named() {
        let (world, path) = image_of(1);
        world.tamper(&path, |bytes| {
            bytes[8] = 2;
            let crc = crc32fast::hash(&bytes[..28]);
            bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        });
        let error = rows_in(&world, &path).expect_err("version 2");
        assert!(matches!(error, JournalError::Foreign { version: 2, .. }), "{error:?}");
    }
}
