//! The writing side of the log: one batch, one append and one `fdatasync` per directory.
//!
//! Invariants:
//! - txids are consecutive, within a segment and from one segment to the next;
//! - [`LogWriter::commit`] returns `Ok` only when the batch is on disk in every directory;
//! - the next batch is not written before the last one is on disk everywhere;
//! - no sector is written twice;
//! - after an error nothing more is written: recovery judges what the failed sync left behind.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, publish};
use crate::error::{JournalError, disk};
use crate::home::log_dir;
use crate::home::mark::{self, Mark, Starts};
use crate::id::{Epoch, Txid};
use crate::places::{LeftOut, Places, leave_out};
use crate::sector::{self, SECTOR_BYTES, SectorPosition};
use crate::segment::{self, Header};

/// Room that is made at once in a segment. It lasts for some thousand batches, whose syncs are shorter by a quarter because the file does
/// not grow; and little of it is wasted at a segment's end.
const RESERVE_BYTES: u64 = 1 << 20;

/// Appends batches to the newest segment in every log directory.
pub(crate) struct LogWriter {
    disk: Arc<dyn Disk>,
    /// The journal's directories, the first one first.
    homes: Vec<PathBuf>,
    /// The newest segment, open in each of `homes`.
    files: Vec<Box<dyn DiskFile>>,
    epoch: Epoch,
    /// The starts of the journal up to this one.
    starts: Starts,
    next: Txid,
    segment_first: Txid,
    segment_len: u64,
    /// How far the files have room already.
    reserved_len: u64,
    segment_bytes_max: u64,
    /// Whether the mark says that the log has ever held a record.
    is_marked: bool,
    /// The records of the batch being encoded; reused.
    stream: Vec<u8>,
    /// Their sectors; reused.
    buffer: Vec<u8>,
    failed: bool,
}

impl LogWriter {
    /// Starts a new segment at `next` in each of `homes` that works, and says so in its mark. An empty segment of that name is replaced:
    /// this start's epoch takes its place in the log.
    ///
    /// REQUIRES: the newest of `starts` is this one.
    ///
    /// # Errors
    /// The error of the first directory; mirrors that fail are left out.
    pub(crate) fn start(
        places: &Places,
        homes: Vec<PathBuf>,
        starts: Starts,
        next: Txid,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<LogWriter, JournalError> {
        let epoch = starts.newest().map_or(Epoch(0), |start| start.epoch);
        let mut writer = LogWriter {
            disk: places.disk.clone(),
            homes: Vec::new(),
            files: Vec::new(),
            epoch,
            starts,
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
        for home in homes {
            let made = writer.make_segment(&home);
            match made.and_then(|file| writer.mark(&home, false).map(|()| file)) {
                Ok(file) => {
                    writer.files.push(file);
                    writer.homes.push(home);
                }
                Err(error) => {
                    leave_out(places, &home, error, left_out)?;
                    writer.unmake_segment(&home);
                }
            }
        }
        Ok(writer)
    }

    /// Removes the new segment of a directory that is left out: an empty one would later suggest that nothing was written to the others
    /// either. If that fails, the disk can no longer be read anyway.
    fn unmake_segment(&self, home: &Path) {
        let path = log_dir(home).join(segment::file_name(self.next));
        let removed = self.disk.remove(&path).and_then(|()| self.disk.sync_dir(&log_dir(home)));
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "an empty segment stays");
            }
            _ => {}
        }
    }

    /// The directories that are written to, the first one first.
    pub(crate) fn homes(&self) -> &[PathBuf] {
        &self.homes
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
        let position = SectorPosition { segment: self.segment_first, index };
        self.buffer.clear();
        let name = (self.next, record_count);
        sector::encode(&mut self.buffer, position, name, self.epoch, &self.stream);
        self.write()?;
        self.next = Txid(self.next.0 + u64::from(record_count));
        if !self.is_marked {
            self.homes.iter().try_for_each(|home| self.mark(home, false))?;
            self.is_marked = true;
        }
        Ok(Txid(self.next.0 - 1))
    }

    /// Appends what is encoded in every directory.
    fn write(&mut self) -> Result<(), JournalError> {
        let end = self.segment_len + self.buffer.len() as u64;
        let room = RESERVE_BYTES.min(self.segment_bytes_max.saturating_sub(end));
        let reserve = (end > self.reserved_len).then(|| self.buffer.len() as u64 + room);
        for (file, home) in self.files.iter_mut().zip(&self.homes) {
            let path = || log_dir(home).join(segment::file_name(self.segment_first));
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

    /// Records durably that nothing comes after what was committed. Nothing may be committed afterwards.
    pub(crate) fn close(&mut self) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::Stopped);
        }
        self.failed = true;
        let marked: Vec<_> = self.homes.iter().map(|home| self.mark(home, true)).collect();
        marked.into_iter().collect()
    }

    fn mark(&self, home: &Path, is_closed: bool) -> Result<(), JournalError> {
        let mark = Mark { epoch: self.epoch, last: Txid(self.next.0 - 1), is_closed };
        mark::write(&*self.disk, home, mark, &self.starts)
    }

    fn roll(&mut self) -> Result<(), JournalError> {
        self.files.clear();
        for home in &self.homes {
            self.files.push(self.make_segment(home)?);
        }
        self.segment_first = self.next;
        self.segment_len = SECTOR_BYTES as u64;
        self.reserved_len = self.segment_len;
        Ok(())
    }

    fn make_segment(&self, home: &Path) -> Result<Box<dyn DiskFile>, JournalError> {
        let header = Header { first: self.next, epoch: self.epoch }.encode();
        let name = segment::file_name(self.next);
        publish(&*self.disk, &log_dir(home), &name, |file| file.append(&header))
    }
}
