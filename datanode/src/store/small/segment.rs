//! One file of small replicas, and the place of one of them in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use sys::disk::{self, File};

use super::record::{ALIGNMENT_BYTES, HEADER_BYTES, Header, nonce_of};
use crate::store::folder::{Name, Shared, Unsynced};
use crate::store::verify;

/// Bytes that are read and written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct Segment {
    name: Name,
    file: Arc<File>,
    nonce: u64,
    /// The end of its records.
    written: AtomicU64,
    /// The end of what a sync has covered.
    synced: AtomicU64,
    syncs: Shared,
    /// How a sync failed: the system reports that once, and success to the next one. So there is no next one.
    failure: Mutex<Option<io::ErrorKind>>,
    /// When a replica in it was deleted or moved last.
    gone: Mutex<Option<Instant>>,
    /// True once somebody gives up the replicas in it, because its name has vanished.
    is_given_up: AtomicBool,
}

/// Where a small replica is.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    segment: Arc<Segment>,
    header: Header,
}

impl Segment {
    /// A file with nothing but its header, which is on disk.
    pub(super) fn new(path: PathBuf, file: File, nonce: u64) -> Self {
        Segment::with_end(path, file, nonce, ALIGNMENT_BYTES)
    }

    fn with_end(path: PathBuf, file: File, nonce: u64, end: u64) -> Self {
        Segment {
            name: Name::new(path),
            file: Arc::new(file),
            nonce,
            written: AtomicU64::new(end),
            synced: AtomicU64::new(end),
            syncs: Shared::default(),
            failure: Mutex::default(),
            gone: Mutex::default(),
            is_given_up: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.name.path()
    }

    /// True if somebody has removed or replaced the file: no start will find what is in it. Where nobody can tell now, it is still there.
    pub(super) fn has_vanished(&self) -> bool {
        self.name.has_vanished()
            || (self.name.check(&self.file).is_err() && self.name.has_vanished())
    }

    /// The end of its records.
    pub(super) fn end(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// When a replica in it was deleted or moved last, as far as this process knows.
    pub(super) fn last_gone(&self) -> Option<Instant> {
        *self.gone.lock()
    }

    /// Writes a record at the end; of one thread at a time. `buffer` is empty afterwards or not: it is only memory.
    pub(super) fn append(
        self: &Arc<Self>,
        (mut header, meta, data): (Header, [&[u8]; 2], &[u8]),
        buffer: &mut Vec<u8>,
    ) -> io::Result<Extent> {
        header.position = self.end();
        header.synced = self.synced.load(Ordering::Acquire);
        buffer.clear();
        buffer.extend_from_slice(&header.encode(self.nonce));
        meta.iter().for_each(|part| buffer.extend_from_slice(part));
        buffer.extend_from_slice(data);
        buffer.resize((header.end() - header.position) as usize, 0);
        self.file.write_cached_at(buffer, header.position)?;
        self.written.store(header.end(), Ordering::Release);
        Ok(Extent { segment: Arc::clone(self), header })
    }

    /// Removes what a failed write has left behind the last record; false if that fails, too.
    pub(super) fn cut_back(&self) -> bool {
        self.file.set_len(self.end()).is_ok()
    }

    /// Opens a file of an earlier start and returns it with its replicas; `None` if it is no segment.
    ///
    /// Records that a sync is known to have covered count whatever their data: readers and the scanner find damage. Behind those, a power cut may have left
    /// any part, so only what matches its checksums counts. A process that ended may have seen a sync of them fail: they are written again before they count.
    pub(super) fn read(path: PathBuf) -> io::Result<Option<(Arc<Self>, Vec<Extent>)>> {
        let file = File::open_writable(&path)?;
        let length = file.length()?;
        let Some(nonce) = nonce(&file, length)? else { return Ok(None) };
        let headers = headers(&file, nonce, length)?;
        let synced = headers.iter().map(|header| header.synced).max().unwrap_or(length);
        rewrite(&file, synced.min(length)..length)?;
        file.sync_data()?;
        let end = length.next_multiple_of(ALIGNMENT_BYTES);
        let segment = Arc::new(Segment::with_end(path, file, nonce, end));
        let mut found = Vec::new();
        for header in headers.into_iter().filter(|header| !header.is_gone) {
            let extent = Extent { segment: Arc::clone(&segment), header };
            if header.position < synced || extent.is_whole()? {
                found.push(extent);
            }
        }
        Ok(Some((segment, found)))
    }
}

/// What identifies the records of a segment; where its header is damaged, its first record has it, too.
fn nonce(file: &File, length: u64) -> io::Result<Option<u64>> {
    let mut first = [0; ALIGNMENT_BYTES as usize];
    if length < ALIGNMENT_BYTES {
        return Ok(None);
    }
    file.read_exact_at(&mut first, 0)?;
    if let Some(nonce) = nonce_of(&first) {
        return Ok(Some(nonce));
    }
    let mut record = [0; HEADER_BYTES];
    if length < ALIGNMENT_BYTES + HEADER_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut record, ALIGNMENT_BYTES)?;
    let nonce = record.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    Ok(nonce.filter(|nonce| Header::decode(&record, *nonce, ALIGNMENT_BYTES).is_some()))
}

/// All records that are there as a whole. Where one is damaged the search goes on behind it.
fn headers(file: &File, nonce: u64, length: u64) -> io::Result<Vec<Header>> {
    let mut headers = Vec::new();
    let mut at = ALIGNMENT_BYTES;
    while at + HEADER_BYTES as u64 <= length {
        let mut bytes = [0; HEADER_BYTES];
        file.read_exact_at(&mut bytes, at)?;
        let header = Header::decode(&bytes, nonce, at);
        let header = header.filter(|header| header.data_at() + u64::from(header.length) <= length);
        at = header.map_or(at + ALIGNMENT_BYTES, |header| header.end());
        headers.extend(header);
    }
    Ok(headers)
}

/// Writes bytes once more, so that the next sync writes them to the disk. A disk that has no room even for that keeps them as they are.
fn rewrite(file: &File, range: std::ops::Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; REWRITE_BYTES.min(range.end - range.start) as usize];
    let mut at = range.start;
    while at < range.end {
        let count = (range.end - at).min(REWRITE_BYTES) as usize;
        file.read_exact_at(&mut bytes[..count], at)?;
        match file.write_all_at(&bytes[..count], at) {
            Err(error) if sys::fs::is_full(&error) => return Ok(()),
            written => written?,
        }
        at += count as u64;
    }
    Ok(())
}

impl Extent {
    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    pub(super) fn is_in(&self, segment: &Arc<Segment>) -> bool {
        Arc::ptr_eq(&self.segment, segment)
    }

    /// True if both are one place.
    pub(super) fn is(&self, other: &Extent) -> bool {
        self.is_in(&other.segment) && self.header.position == other.header.position
    }

    /// Bytes of its record.
    pub(super) fn bytes(&self) -> u64 {
        self.header.end() - self.header.position
    }

    /// Its data and its checksums, as two files.
    pub(crate) fn open(&self) -> (File, File) {
        let (meta_at, data_at) = (self.header.meta_at(), self.header.data_at());
        let data_end = data_at + u64::from(self.header.length);
        let part = |range| File::part(&self.segment.file, range);
        (part(data_at..data_end), part(meta_at..data_at))
    }

    /// Its checksums, then its data.
    pub(crate) fn contents(&self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut meta = vec![0; self.header.meta_bytes as usize];
        let mut data = vec![0; self.header.length as usize];
        self.segment.file.read_exact_at(&mut meta, self.header.meta_at())?;
        self.segment.file.read_exact_at(&mut data, self.header.data_at())?;
        Ok((meta, data))
    }

    fn is_whole(&self) -> io::Result<bool> {
        let (block, meta) = self.open();
        let length = u64::from(self.header.length);
        let id = self.header.block;
        Ok(verify::good_length(id, &block, &meta)?.length == length
            && verify::check_header(id, &meta).is_ok())
    }

    /// Returns once it is on disk, in a file that a start will find.
    ///
    /// # Errors
    /// [`Unsynced`].
    pub(crate) fn sync(&self) -> Result<(), Unsynced> {
        let segment = &self.segment;
        if segment.synced.load(Ordering::Acquire) >= self.header.end() {
            // The sync of others had it, perhaps long ago.
            return self.check_name();
        }
        let synced = segment.syncs.sync_with(|| {
            let mut failure = segment.failure.lock();
            if let Some(kind) = *failure {
                return Err(io::Error::new(kind, "an earlier sync of the segment failed"));
            }
            let end = segment.end();
            let synced = segment.file.sync_data();
            // After the sync: what counts is that the bytes of this group have a name now.
            synced
                .and_then(|()| segment.name.check(&segment.file))
                .inspect_err(|error| *failure = Some(error.kind()))?;
            segment.synced.fetch_max(end, Ordering::AcqRel);
            Ok(())
        });
        synced.map_err(|error| segment.name.unsynced(error))
    }

    /// Checks that the end of this process would not take it away, for those who want no sync.
    ///
    /// # Errors
    /// [`Unsynced`].
    pub(crate) fn check_name(&self) -> Result<(), Unsynced> {
        let Segment { name, file, .. } = &*self.segment;
        name.check(file).map_err(|error| name.unsynced(error))
    }

    /// True for the first who finds that its segment has vanished, and has to give up what else is in it.
    pub(crate) fn begin_giving_up(&self) -> bool {
        !self.segment.is_given_up.swap(true, Ordering::AcqRel)
    }

    /// Marks it as deleted or moved. Not synced: after a crash it may be there again, as a file in the trash would.
    pub(crate) fn discard(&self) {
        let (at, bytes) = self.header.gone();
        if let Err(error) = self.segment.file.write_all_at(&bytes, at) {
            let path = self.segment.path().display();
            tracing::warn!(segment = %path, block = %self.header.block, %error, "cannot delete a small replica");
        }
        *self.segment.gone.lock() = Some(disk::now(self.segment.path()));
    }
}
