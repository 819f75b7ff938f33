//! One file of small replicas, and the place of one of them in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use sys::disk::{self, File};

use super::record::{ALIGNMENT_BYTES, HEADER_BYTES, Header, nonce_of};
use crate::error::StoreError;
use crate::store::folder::{Name, Shared, Unsynced};
use crate::store::verify;

/// Bytes that are read and written again at once.
const REWRITE_BYTES: u64 = 1 << 20;
/// Reads of a segment that may fail at a start. 256: more than a few bad places have, and a disk that takes seconds for each delays the start by minutes.
const FAILED_READS_MAX: u32 = 256;

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
    /// Bytes of the records of all [`Extent`]s in it: of its replicas, and for moments of what somebody does with one.
    used: AtomicU64,
    /// When a replica in it was deleted or moved last.
    gone: Mutex<Option<Instant>>,
    /// A replica in it is bad, and cannot be moved; for as long as none leaves it.
    is_stuck: AtomicBool,
    /// True once somebody gives up the replicas in it, because its name has vanished.
    is_given_up: AtomicBool,
}

/// Where a small replica is. As long as one exists its bytes count as used.
#[derive(Debug)]
pub(crate) struct Extent {
    segment: Arc<Segment>,
    header: Header,
}

impl Clone for Extent {
    fn clone(&self) -> Self {
        Extent::new(Arc::clone(&self.segment), self.header)
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.segment.used.fetch_sub(self.bytes(), Ordering::AcqRel);
    }
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
            used: AtomicU64::new(0),
            gone: Mutex::default(),
            is_stuck: AtomicBool::new(false),
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

    /// Bytes of the records of its replicas.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// True if a replica in it was bad when somebody wanted to move it, and none has left it since.
    pub(super) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Acquire)
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
        Ok(Extent::new(Arc::clone(self), header))
    }

    /// Removes what a failed write has left behind the last record; false if that fails, too.
    pub(super) fn cut_back(&self) -> bool {
        self.file.set_len(self.end()).is_ok()
    }

    /// Opens a file of an earlier start and returns it with its replicas; `None` if it is no segment.
    ///
    /// Records that a sync is known to have covered count whatever their data: readers and the scanner find damage. Behind those, a power cut may have left
    /// any part, so only what matches its checksums counts. A process that ended may have seen a sync of them fail: they are written again before they count.
    ///
    /// # Errors
    /// If the file cannot be read at all. A sector that the disk does not return is damage, and takes no other record than its own.
    pub(super) fn read(path: PathBuf) -> io::Result<Option<(Arc<Self>, Vec<Extent>)>> {
        let file = File::open_writable(&path)?;
        let length = file.length()?;
        let mut reading = Reading { file: &file, path: &path, is_any_read: false, failed: 0 };
        let Some(nonce) = nonce(&mut reading, length)? else { return Ok(None) };
        let headers = headers(&mut reading, nonce, length)?;
        let synced = headers.iter().map(|header| header.synced).max().unwrap_or(length);
        rewrite(&mut reading, synced.min(length)..length)?;
        file.sync_data()?;
        let end = length.next_multiple_of(ALIGNMENT_BYTES);
        let segment = Arc::new(Segment::with_end(path, file, nonce, end));
        let mut found = Vec::new();
        for header in headers.into_iter().filter(|header| !header.is_gone) {
            let extent = Extent::new(Arc::clone(&segment), header);
            if header.position < synced || extent.is_whole_and_readable()? {
                found.push(extent);
            }
        }
        Ok(Some((segment, found)))
    }
}

/// A file of an earlier start that its disk may not return as a whole.
struct Reading<'a> {
    file: &'a File,
    path: &'a Path,
    is_any_read: bool,
    failed: u32,
}

impl Reading<'_> {
    /// Reads; false if the disk returns nothing there, whoever asks. An error that passes is none.
    ///
    /// # Errors
    /// If the process or the machine lacks resources, or more cannot be read than bad places explain.
    fn read(&mut self, bytes: &mut [u8], at: u64) -> io::Result<bool> {
        let read = self.file.read_exact_at(bytes, at);
        match read.or_else(|_| self.file.read_exact_at(bytes, at)) {
            Ok(()) => {
                self.is_any_read = true;
                Ok(true)
            }
            Err(error) if sys::fs::is_shortage(&error) || self.failed >= FAILED_READS_MAX => {
                Err(error)
            }
            Err(error) => {
                self.failed += 1;
                let segment = self.path.display();
                tracing::warn!(%segment, at, %error, "cannot read a part of a file of small replicas");
                Ok(false)
            }
        }
    }

    /// What it means that nobody can tell whose records are in it.
    ///
    /// # Errors
    /// If the reason is that nothing of it can be read: then it may be read another time.
    fn without_nonce(&mut self, length: u64) -> io::Result<()> {
        let mut at = 2 * ALIGNMENT_BYTES;
        while !self.is_any_read {
            let mut sector = [0; ALIGNMENT_BYTES as usize];
            if at + ALIGNMENT_BYTES > length {
                return Err(io::Error::other("nothing of a file of small replicas can be read"));
            }
            self.read(&mut sector, at)?;
            at += ALIGNMENT_BYTES;
        }
        Ok(())
    }
}

/// What identifies the records of a segment; where its header is damaged, its first record has it, too.
fn nonce(reading: &mut Reading<'_>, length: u64) -> io::Result<Option<u64>> {
    let mut first = [0; ALIGNMENT_BYTES as usize];
    if length < ALIGNMENT_BYTES {
        return Ok(None);
    }
    if reading.read(&mut first, 0)?
        && let Some(nonce) = nonce_of(&first)
    {
        return Ok(Some(nonce));
    }
    let mut record = [0; HEADER_BYTES];
    if length >= ALIGNMENT_BYTES + HEADER_BYTES as u64
        && reading.read(&mut record, ALIGNMENT_BYTES)?
    {
        let nonce = record.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let is_its = |nonce: &u64| Header::decode(&record, *nonce, ALIGNMENT_BYTES).is_some();
        return Ok(nonce.filter(is_its));
    }
    reading.without_nonce(length)?;
    Ok(None)
}

/// All records that are there as a whole. Where one is damaged or cannot be read the search goes on behind it.
fn headers(reading: &mut Reading<'_>, nonce: u64, length: u64) -> io::Result<Vec<Header>> {
    let mut headers = Vec::new();
    let mut at = ALIGNMENT_BYTES;
    while at + HEADER_BYTES as u64 <= length {
        let mut bytes = [0; HEADER_BYTES];
        let is_read = reading.read(&mut bytes, at)?;
        let header = is_read.then(|| Header::decode(&bytes, nonce, at)).flatten();
        let header = header.filter(|header| header.data_at() + u64::from(header.length) <= length);
        at = header.map_or(at + ALIGNMENT_BYTES, |header| header.end());
        headers.extend(header);
    }
    Ok(headers)
}

/// Writes bytes once more, so that the next sync writes them to the disk: all that can be read. A disk that has no room even for that keeps them as they are.
fn rewrite(reading: &mut Reading<'_>, range: std::ops::Range<u64>) -> io::Result<()> {
    let mut bytes = vec![0; REWRITE_BYTES.min(range.end - range.start) as usize];
    let (mut at, mut step) = (range.start, REWRITE_BYTES);
    while at < range.end {
        let count = (range.end - at).min(step) as usize;
        if reading.read(&mut bytes[..count], at)? {
            match reading.file.write_all_at(&bytes[..count], at) {
                Err(error) if sys::fs::is_full(&error) => return Ok(()),
                written => written?,
            }
        } else if step > ALIGNMENT_BYTES {
            // Once more, sector by sector.
            step = ALIGNMENT_BYTES;
            continue;
        }
        at += count as u64;
    }
    Ok(())
}

impl Extent {
    fn new(segment: Arc<Segment>, header: Header) -> Self {
        let extent = Extent { segment, header };
        extent.segment.used.fetch_add(extent.bytes(), Ordering::AcqRel);
        extent
    }

    /// It is bad, and cannot be moved.
    pub(super) fn is_bad(&self) {
        self.segment.is_stuck.store(true, Ordering::Release);
    }

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
        match verify::check_header(id, &meta) {
            Ok(_) => Ok(verify::good_length(id, &block, &meta)?.length == length),
            Err(StoreError::Io { source, .. }) => Err(source),
            Err(_) => Ok(false),
        }
    }

    /// As [`Extent::is_whole`]; false as well where the disk does not return it.
    fn is_whole_and_readable(&self) -> io::Result<bool> {
        match self.is_whole().or_else(|_| self.is_whole()) {
            Err(error) if !sys::fs::is_shortage(&error) => Ok(false),
            whole => whole,
        }
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
        self.segment.is_stuck.store(false, Ordering::Release);
        *self.segment.gone.lock() = Some(disk::now(self.segment.path()));
    }
}
