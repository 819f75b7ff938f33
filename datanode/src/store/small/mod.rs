//! Small replicas, many in a file: a replica with files of its own costs two syncs and part of a third, in the log many share one (ADR 24).
//!
//! ```text
//! writer -> append to the current segment -> shared sync -> finalized
//!                     | full, or this process has just started
//!                     v
//!               a new segment          old ones: read, marked where replicas go, compacted, removed
//! ```
//!
//! Only complete replicas are here. One that a writer goes on with moves into files of its own first.
//!
//! Invariants: bytes of a record never change, but for the mark that it is gone; a segment in which a sync has failed, or that an earlier start has written,
//! gets no more records; a file is removed only when no replica is in it any more; nothing is acknowledged in a file that has lost its name.

mod compact;
mod record;
mod segment;

#[cfg(any(test, fuzzing))]
pub(super) use record::read_any;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use protocol::checksum::{CHUNK_BYTES, CRC_BYTES};
use protocol::{BlockId, GenerationStamp, meta};
use sys::disk::{self, File};

use super::folder::Unsynced;
use record::{Header, segment_header};
use segment::Segment;

pub(super) use segment::Extent;

/// Bytes after which a segment gets no more records. Default 64 MiB: what a compaction copies at most, and a file that a disk reads in half a second.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of a replica that may be kept here, whatever the configuration says: checksums of more do not fit their field with certainty.
pub(super) const SMALL_BYTES_MAX: u32 = 16 << 20;

/// The small replicas of one volume.
#[derive(Debug)]
pub(super) struct SmallLog {
    folder: PathBuf,
    /// False while the volume is out of service.
    is_open: AtomicBool,
    /// Held while something is written, perhaps for as long as a disk does not answer.
    inner: Mutex<Inner>,
    /// Held while replicas are moved.
    moving: Mutex<()>,
}

#[derive(Debug, Default)]
struct Inner {
    current: Option<Arc<Segment>>,
    /// All others.
    sealed: Vec<Arc<Segment>>,
    /// Number of the next segment.
    next: u64,
    buffer: Vec<u8>,
}

/// What a start finds in the folder.
pub(super) struct Found {
    pub(super) extents: Vec<Extent>,
    /// Files that are no segments.
    pub(super) strangers: Vec<PathBuf>,
}

impl Extent {
    /// The replica in it.
    pub(super) fn id(&self) -> (BlockId, GenerationStamp, u64) {
        let header = self.header();
        (header.block, header.stamp, header.length.into())
    }
}

impl SmallLog {
    /// The log in a folder that exists.
    pub(super) fn new(folder: PathBuf) -> Self {
        let (is_open, inner, moving) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        SmallLog { folder, is_open, inner, moving }
    }

    /// Takes nothing more: the volume goes out of service. Does not wait for who may be waiting for the disk.
    pub(super) fn close(&self) {
        self.is_open.store(false, Ordering::Release);
        if let Some(mut inner) = self.inner.try_lock() {
            *inner = Inner::default();
        }
    }

    /// Nobody moves replicas until this is dropped; `None` if somebody does, perhaps since before the volume went out of service.
    pub(super) fn quiet(&self) -> Option<MutexGuard<'_, ()>> {
        self.moving.try_lock()
    }

    /// As one who writes to a disk that does not answer.
    #[cfg(test)]
    pub(super) fn hold(&self) -> impl Sized + '_ {
        self.inner.lock()
    }

    /// Reads what earlier starts have left, once nobody writes any more.
    pub(super) fn open(&self) -> io::Result<Found> {
        let mut slot = self.inner.lock();
        let mut paths = disk::read_dir(&self.folder)?.collect::<io::Result<Vec<_>>>()?;
        paths.sort_unstable();
        let mut found = Found { extents: Vec::new(), strangers: Vec::new() };
        let mut inner = Inner::default();
        for path in paths {
            let Some(number) = parse_name(&path) else {
                found.strangers.push(path);
                continue;
            };
            inner.next = inner.next.max(number.saturating_add(1));
            match Segment::read(path.clone())? {
                Some((segment, extents)) => {
                    inner.sealed.push(segment);
                    found.extents.extend(extents);
                }
                None => found.strangers.push(path),
            }
        }
        *slot = inner;
        self.is_open.store(true, Ordering::Release);
        Ok(found)
    }

    /// Adds a replica; it is on disk after [`Extent::sync`].
    pub(super) fn append(
        &self,
        (block, stamp): (BlockId, GenerationStamp),
        crcs: &[u8],
        data: &[u8],
    ) -> Result<Extent, Unsynced> {
        self.append_parts((block, stamp), [&meta::header(), crcs], data)
    }

    fn append_parts(
        &self,
        (block, stamp): (BlockId, GenerationStamp),
        meta: [&[u8]; 2],
        data: &[u8],
    ) -> Result<Extent, Unsynced> {
        let mut inner = self.inner.lock();
        if !self.is_open.load(Ordering::Acquire) {
            let reason = "the data directory is out of service";
            return Err(Unsynced::Untried(io::Error::other(reason)));
        }
        let Inner { current, sealed, .. } = &mut *inner;
        sealed.extend(current.take_if(|segment| segment.end() >= SEGMENT_BYTES_MAX));
        let segment = match &inner.current {
            Some(segment) => Arc::clone(segment),
            None => self.begin_segment(&mut inner)?,
        };
        let header = Header {
            position: 0,
            synced: 0,
            block,
            stamp,
            length: data.len() as u32,
            meta_bytes: meta.iter().map(|part| part.len() as u32).sum(),
            is_gone: false,
        };
        let Inner { current, sealed, buffer, .. } = &mut *inner;
        let appended = segment.append((header, meta, data), buffer);
        if appended.is_err() && !segment.cut_back() {
            // A part of it is there, under the next record.
            sealed.extend(current.take());
        }
        appended.map_err(Unsynced::Untried)
    }

    fn begin_segment(&self, inner: &mut Inner) -> Result<Arc<Segment>, Unsynced> {
        let path = self.folder.join(format!("{:016x}", inner.next));
        inner.next += 1;
        let nonce = nonce(&path);
        let created = File::create_new(&path, 0o600).and_then(|file| {
            file.write_all_at(&segment_header(nonce), 0)?;
            Ok(file)
        });
        let file = created.map_err(Unsynced::Untried)?;
        let folder = File::open(&self.folder).map_err(Unsynced::Untried)?;
        file.sync_all().and_then(|()| folder.sync_all()).map_err(Unsynced::Failed)?;
        let segment = Arc::new(Segment::new(path, file, nonce));
        Ok(Arc::clone(inner.current.insert(segment)))
    }

    /// A sync of the segment has failed, so what is in it behind the last one that succeeded is not known; or its file has vanished.
    pub(super) fn seal(&self, extent: &Extent) {
        let mut inner = self.inner.lock();
        let Inner { current, sealed, .. } = &mut *inner;
        sealed.extend(current.take_if(|segment| extent.is_in(segment)));
    }

    /// The segments whose files somebody has removed or replaced.
    pub(super) fn lost(&self) -> Vec<Arc<Segment>> {
        let inner = self.inner.lock();
        let all = inner.sealed.iter().chain(&inner.current);
        all.filter(|segment| segment.has_vanished()).cloned().collect()
    }
}

/// Drawn anew for each segment.
fn nonce(path: &Path) -> u64 {
    #[cfg(any(test, feature = "sim"))]
    let simulated = disk::sim::random_bytes(path).and_then(|bytes| bytes.first_chunk().copied());
    #[cfg(not(any(test, feature = "sim")))]
    let (simulated, _) = (None, path);
    simulated.map_or_else(rand::random, u64::from_le_bytes)
}

fn parse_name(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let number = u64::from_str_radix(name, 16).ok()?;
    (format!("{number:016x}") == name).then_some(number)
}

/// Checksum bytes of this much data.
pub(super) fn crc_bytes(length: u64) -> usize {
    length.div_ceil(CHUNK_BYTES as u64) as usize * CRC_BYTES
}
