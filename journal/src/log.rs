//! The writing side of the log: one batch, one append and one `fdatasync` per directory.
//!
//! Invariants:
//! - txids are consecutive, within a segment and from one segment to the next;
//! - [`LogWriter::commit`] returns `Ok` only when the batch is on disk in every directory;
//! - the next batch is not written before the last one is on disk everywhere;
//! - no sector is written twice;
//! - after an error nothing more is written: what the failed sync left behind is for recovery to judge.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, publish};
use crate::error::{JournalError, disk};
use crate::id::{Epoch, Txid};
use crate::mark::Mark;
use crate::recover::{LeftOut, Places};
use crate::sector::{self, Place, SECTOR_BYTES};
use crate::segment::{self, Header};

/// Room that is made at once in a segment: some thousand batches, for each of which a sync is shorter by a quarter because
/// the file does not grow; and little to lose at a segment's end.
const RESERVE_BYTES: u64 = 1 << 20;

/// Appends batches to the newest segment in every log directory.
pub(crate) struct LogWriter {
    disk: Arc<dyn Disk>,
    /// The journal's directory.
    dir: PathBuf,
    dirs: Vec<PathBuf>,
    /// The newest segment, open in each of `dirs`.
    files: Vec<Box<dyn DiskFile>>,
    epoch: Epoch,
    next: Txid,
    segment_first: Txid,
    segment_len: u64,
    /// How far the files have room already.
    reserved_len: u64,
    segment_bytes_max: u64,
    /// Whether the mark tells that the log has ever held a record.
    is_marked: bool,
    /// The records of the batch being encoded; reused.
    stream: Vec<u8>,
    /// Their sectors; reused.
    buffer: Vec<u8>,
    failed: bool,
}

impl LogWriter {
    /// Starts a new segment at `next` in each of `dirs` that works, and says so in the mark. An empty segment of that name is
    /// replaced: its place in the log is taken by this start's epoch.
    ///
    /// # Errors
    /// What the first directory said, if none works.
    pub(crate) fn start(
        places: &Places,
        dirs: Vec<PathBuf>,
        epoch: Epoch,
        next: Txid,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<LogWriter, JournalError> {
        let mut writer = LogWriter {
            disk: places.disk.clone(),
            dir: places.dir.clone(),
            dirs: Vec::new(),
            files: Vec::new(),
            epoch,
            next,
            segment_first: next,
            segment_len: SECTOR_BYTES as u64,
            reserved_len: SECTOR_BYTES as u64,
            segment_bytes_max: places.segment_bytes_max,
            is_marked: next > Txid(1),
            stream: Vec::new(),
            buffer: Vec::new(),
            failed: false,
        };
        let mut failed = Vec::new();
        for dir in dirs {
            match writer.make_segment(&dir) {
                Ok(file) => {
                    writer.files.push(file);
                    writer.dirs.push(dir);
                }
                Err(error) => failed.push((dir, error)),
            }
        }
        crate::recover::leave_out(failed, writer.dirs.len(), left_out)?;
        writer.mark(false)?;
        Ok(writer)
    }

    /// The directories that are written to.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// Makes one batch durable and returns the txid of its last record.
    ///
    /// REQUIRES: `bodies` is not empty, each is at most `BODY_BYTES_MAX` long, and with their lengths they are at most
    /// `STREAM_BYTES_MAX`.
    pub(crate) fn commit(&mut self, bodies: &[Vec<u8>]) -> Result<Txid, JournalError> {
        if self.failed {
            return Err(JournalError::Stopped);
        }
        let result = self.try_commit(bodies);
        self.failed = result.is_err();
        result
    }

    fn try_commit(&mut self, bodies: &[Vec<u8>]) -> Result<Txid, JournalError> {
        self.stream.clear();
        bodies.iter().for_each(|body| segment::put_record(&mut self.stream, body));
        assert!(self.stream.len() <= sector::STREAM_BYTES_MAX, "batches are cut before");
        let bytes = (sector::sectors_of(self.stream.len()) * SECTOR_BYTES) as u64;
        if self.segment_len + bytes > self.segment_bytes_max && self.next > self.segment_first {
            self.roll()?;
        }
        let record_count = u32::try_from(bodies.len()).expect("each takes bytes of the stream");
        let index = self.segment_len / SECTOR_BYTES as u64;
        let place = Place { segment: self.segment_first, index };
        self.buffer.clear();
        let name = (self.next, record_count);
        sector::encode(&mut self.buffer, place, name, self.epoch, &self.stream);
        self.write()?;
        self.next = Txid(self.next.0 + u64::from(record_count));
        if !self.is_marked {
            self.mark(false)?;
            self.is_marked = true;
        }
        Ok(Txid(self.next.0 - 1))
    }

    /// Appends what is encoded in every directory.
    fn write(&mut self) -> Result<(), JournalError> {
        let end = self.segment_len + self.buffer.len() as u64;
        let room = RESERVE_BYTES.min(self.segment_bytes_max.saturating_sub(end));
        let reserve = (end > self.reserved_len).then(|| self.buffer.len() as u64 + room);
        for (file, dir) in self.files.iter_mut().zip(&self.dirs) {
            let path = || dir.join(segment::file_name(self.segment_first));
            if let Some(bytes) = reserve {
                file.reserve(bytes).map_err(|error| disk("make room in", path())(error))?;
            }
            file.append(&self.buffer).map_err(|error| disk("append to", path())(error))?;
            file.sync().map_err(|error| disk("sync", path())(error))?;
        }
        self.reserved_len = reserve.map_or(self.reserved_len, |bytes| self.segment_len + bytes);
        self.segment_len = end;
        Ok(())
    }

    /// Begins a new segment unless the last one is still empty; returns the first txid of the last segment.
    pub(crate) fn roll_now(&mut self) -> Result<Txid, JournalError> {
        if self.failed {
            return Err(JournalError::Stopped);
        }
        if self.next > self.segment_first {
            let rolled = self.roll();
            self.failed = rolled.is_err();
            rolled?;
        }
        Ok(self.segment_first)
    }

    /// Says durably that nothing comes after what was committed. Nothing may be committed then.
    pub(crate) fn close(&mut self) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Stopped);
        }
        self.failed = true;
        self.mark(true)
    }

    fn mark(&self, is_closed: bool) -> Result<(), JournalError> {
        let mark = Mark { epoch: self.epoch, last: Txid(self.next.0 - 1), is_closed };
        mark.write(&*self.disk, &self.dir)
    }

    fn roll(&mut self) -> Result<(), JournalError> {
        self.files.clear();
        for dir in &self.dirs {
            self.files.push(self.make_segment(dir)?);
        }
        self.segment_first = self.next;
        self.segment_len = SECTOR_BYTES as u64;
        self.reserved_len = self.segment_len;
        Ok(())
    }

    fn make_segment(&self, dir: &std::path::Path) -> Result<Box<dyn DiskFile>, JournalError> {
        let header = Header { first: self.next, epoch: self.epoch }.encode();
        publish(&*self.disk, dir, &segment::file_name(self.next), |file| file.append(&header))
    }
}
