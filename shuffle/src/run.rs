//! Runs: files of sorted segments, one per partition, written once and read by merges.
//!
//! Invariants: dropping a run removes its file, unless it was renamed into place; segments are adjacent in partition order, and every
//! partition has one.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::codec::Codec;
use crate::error::{Result, io_error};
use crate::index::SegmentInfo;
use crate::life::Life;
use crate::merge::Merge;
use crate::segment::{SegmentReader, SegmentWriter};

/// A file that is removed with its owner.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    path: PathBuf,
    renamed: bool,
}

impl TemporaryFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, renamed: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves the file to its final name.
    pub(crate) fn rename(mut self, to: &Path) -> Result<()> {
        fs::rename(&self.path, to).map_err(io_error("rename", &self.path))?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.renamed {
            // Best effort: the directory belongs to the attempt and is removed with it.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) file: TemporaryFile,
    pub(crate) segments: Vec<SegmentInfo>,
}

impl Run {
    pub(crate) fn stored(&self) -> u64 {
        self.segments.iter().map(|segment| segment.stored).sum()
    }

    pub(crate) fn records(&self) -> u64 {
        self.segments.iter().map(|segment| segment.records).sum()
    }
}

/// Memory for writing runs, reused from one to the next.
#[derive(Debug)]
pub(crate) struct RunBuffers {
    out: Vec<u8>,
    segment: SegmentWriter,
}

impl RunBuffers {
    pub(crate) fn new(codec: Codec) -> Self {
        Self { out: Vec::new(), segment: SegmentWriter::new(codec) }
    }
}

/// Writes one run. Records come in order of (partition, key).
#[derive(Debug)]
pub(crate) struct RunWriter {
    file: File,
    temporary: TemporaryFile,
    buffers: RunBuffers,
    partitions: u32,
    segments: Vec<SegmentInfo>,
    segment_start: u64,
    flushed: u64,
}

impl RunWriter {
    pub(crate) fn create(path: PathBuf, partitions: u32, buffers: RunBuffers) -> Result<Self> {
        // Whatever has its name is not the engine's, a link to a file elsewhere for instance.
        let file = File::create_new(&path).map_err(io_error("create", &path))?;
        Ok(Self {
            file,
            temporary: TemporaryFile::new(path),
            buffers,
            partitions,
            segments: Vec::new(),
            segment_start: 0,
            flushed: 0,
        })
    }

    /// Adds a record to `partition`, which is the current one or a later one.
    #[inline]
    pub(crate) fn push(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<()> {
        debug_assert!(partition < self.partitions && self.segments.len() <= partition as usize);
        while self.segments.len() < partition as usize {
            self.close_segment()?;
        }
        self.buffers.segment.push(&mut self.buffers.out, key, value);
        if self.buffers.out.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self, sync: bool) -> Result<(Run, RunBuffers)> {
        while self.segments.len() < self.partitions as usize {
            self.close_segment()?;
        }
        self.flush()?;
        if sync {
            self.file.sync_data().map_err(io_error("sync", self.temporary.path()))?;
        }
        Ok((Run { file: self.temporary, segments: self.segments }, self.buffers))
    }

    fn close_segment(&mut self) -> Result<()> {
        let totals = self.buffers.segment.finish(&mut self.buffers.out);
        let end = self.flushed + self.buffers.out.len() as u64;
        self.segments.push(SegmentInfo {
            offset: self.segment_start,
            stored: end - self.segment_start,
            raw: totals.raw,
            records: totals.records,
        });
        self.segment_start = end;
        if self.buffers.out.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let out = &mut self.buffers.out;
        self.file.write_all(out).map_err(io_error("write to", self.temporary.path()))?;
        self.flushed += out.len() as u64;
        out.clear();
        out.shrink_to(2 * WRITE_BYTES);
        Ok(())
    }
}

/// Bytes collected before a write call (256 KiB: the cost of the call is then negligible beside that of the copy).
const WRITE_BYTES: usize = 256 << 10;

/// Decides which records of a sorted stream to write: all of them, or one per key.
pub(crate) trait SortedSink {
    /// Takes the next record in order of (partition, key).
    fn record(
        &mut self,
        out: &mut RunWriter,
        partition: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()>;

    /// Writes the record that is held back, if any.
    fn flush(&mut self, out: &mut RunWriter) -> Result<()>;
}

/// Writes every record.
#[derive(Debug)]
pub(crate) struct WriteAll;

impl SortedSink for WriteAll {
    #[inline]
    fn record(
        &mut self,
        out: &mut RunWriter,
        partition: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        out.push(partition, key, value)
    }

    fn flush(&mut self, _out: &mut RunWriter) -> Result<()> {
        Ok(())
    }
}

/// Merges `runs`, partition by partition, into `out`.
pub(crate) fn merge_runs(
    runs: &[Run],
    out: &mut RunWriter,
    sink: &mut impl SortedSink,
    life: &Life,
) -> Result<()> {
    let mut files = Vec::with_capacity(runs.len());
    for run in runs {
        let path = run.file.path();
        files.push(Arc::new(File::open(path).map_err(io_error("open", path))?));
    }
    for partition in 0..out.partitions {
        let readers = runs.iter().zip(&files).filter_map(|(run, file)| {
            let segment = run.segments[partition as usize];
            let path = run.file.path().to_owned();
            (segment.records > 0).then(|| {
                SegmentReader::in_file(Arc::clone(file), path, segment.offset, segment.stored)
            })
        });
        let mut merge = Merge::new(readers.collect())?;
        while merge.advance()? {
            life.show();
            sink.record(out, partition, merge.key(), merge.value())?;
        }
        sink.flush(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_not_written_through() {
        let scratch = tempfile::tempdir().unwrap();
        let (elsewhere, path) = (scratch.path().join("elsewhere"), scratch.path().join("run"));
        fs::write(&elsewhere, "theirs").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(RunWriter::create(path, 1, RunBuffers::new(Codec::None)).is_err());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "theirs");
    }
}
