//! The writing side of the log: one batch, one append and one `fdatasync` per directory.
//!
//! Invariants:
//! - txids are consecutive, within a segment and from one segment to the next;
//! - [`LogWriter::commit`] returns `Ok` only when the batch is on disk in every directory;
//! - the next batch is not written before the last one is on disk everywhere;
//! - after an error nothing more is written: what the failed sync left behind is for recovery to judge.

use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{Disk, DiskFile, publish};
use crate::error::{JournalError, disk};
use crate::id::{Epoch, Txid};
use crate::record;
use crate::segment::{self, Header};

/// Room that is made at once in a segment: some ten thousand small edits, for each of which a sync is shorter by a quarter because
/// the file does not grow; and little to lose at a segment's end.
const RESERVE_BYTES: u64 = 1 << 20;

/// Appends batches to the newest segment in every log directory.
pub(crate) struct LogWriter {
    disk: Arc<dyn Disk>,
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
    /// The batch being encoded; reused.
    buffer: Vec<u8>,
    failed: bool,
}

impl LogWriter {
    /// Starts a new segment at `next`. An empty segment of that name is replaced: its place in the
    /// log is taken by this start's epoch.
    pub(crate) fn start(
        disk: Arc<dyn Disk>,
        dirs: Vec<PathBuf>,
        epoch: Epoch,
        next: Txid,
        segment_bytes_max: u64,
    ) -> Result<LogWriter, JournalError> {
        let mut writer = LogWriter {
            disk,
            dirs,
            files: Vec::new(),
            epoch,
            next,
            segment_first: next,
            segment_len: 0,
            reserved_len: 0,
            segment_bytes_max,
            buffer: Vec::new(),
            failed: false,
        };
        writer.roll()?;
        Ok(writer)
    }

    /// Makes one batch durable and returns the txid of its last record.
    ///
    /// REQUIRES: `bodies` is not empty, and each is at most `BODY_BYTES_MAX` long.
    pub(crate) fn commit(&mut self, bodies: &[Vec<u8>]) -> Result<Txid, JournalError> {
        if self.failed {
            return Err(JournalError::Stopped);
        }
        let result = self.try_commit(bodies);
        self.failed = result.is_err();
        result
    }

    fn try_commit(&mut self, bodies: &[Vec<u8>]) -> Result<Txid, JournalError> {
        self.buffer.clear();
        let mut txid = self.next;
        for (index, body) in bodies.iter().enumerate() {
            record::encode(&mut self.buffer, txid, self.epoch, index == 0, body);
            txid = txid.next();
        }
        let grown = self.segment_len + self.buffer.len() as u64;
        if grown > self.segment_bytes_max && self.next > self.segment_first {
            self.roll()?;
        }
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
        self.next = txid;
        Ok(Txid(txid.0 - 1))
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

    fn roll(&mut self) -> Result<(), JournalError> {
        let header = Header { first: self.next, epoch: self.epoch }.encode();
        let name = segment::file_name(self.next);
        self.files.clear();
        for dir in &self.dirs {
            let file = publish(&*self.disk, dir, &name, |file| file.append(&header))?;
            self.files.push(file);
        }
        self.segment_first = self.next;
        self.segment_len = header.len() as u64;
        self.reserved_len = self.segment_len;
        Ok(())
    }
}
