//! Sorted segments written beside a map output, which then become its last partitions.
//!
//! Invariant: the output has either its own partitions alone or all of them: its index is replaced by rename after the data is there.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::codec::Codec;
use crate::error::{Result, io_error};
use crate::index::{SegmentInfo, write_index};
use crate::life::Life;
use crate::output::MapOutput;
use crate::run::{Run, RunBuffers, RunWriter, TemporaryFile};
use crate::writer::check_record;

/// A segment of records that come in order.
#[derive(Debug)]
pub struct SideSegment {
    writer: RunWriter,
}

impl SideSegment {
    /// Creates the file `name` in `dir`; it goes with this value.
    pub fn create(dir: &Path, name: &str, codec: Codec) -> Result<Self> {
        let writer = RunWriter::create(dir.join(name), 1, RunBuffers::new(codec))?;
        Ok(Self { writer })
    }

    /// Adds a record whose key is not below the one before.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_record(key, value)?;
        self.writer.push(0, key, value)
    }
}

impl MapOutput {
    /// Adds these segments as further partitions, in this order; shows life meanwhile.
    pub fn with_partitions(mut self, segments: Vec<SideSegment>, life: &Life) -> Result<Self> {
        let data = OpenOptions::new().append(true).open(&self.data);
        let mut data = data.map_err(io_error("open", &self.data))?;
        for segment in segments {
            let (run, _) = segment.writer.finish(false)?;
            self.append(&mut data, &run, life)?;
        }
        let temporary = TemporaryFile::new(index_in_progress(&self.index));
        write_index(&self.index, temporary.path(), &self.segments, false)?;
        Ok(self)
    }

    fn append(&mut self, data: &mut File, run: &Run, life: &Life) -> Result<()> {
        let path = run.file.path();
        let mut from = File::open(path).map_err(io_error("open", path))?;
        // The kernel copies from file to file where it can.
        let mut copied = 1;
        while copied > 0 {
            life.show();
            let mut part = (&mut from).take(COPIED_BYTES);
            copied = io::copy(&mut part, data).map_err(io_error("write to", &self.data))?;
        }
        let base = self.segments.last().map_or(0, |last| last.offset + last.stored);
        let moved =
            |segment: &SegmentInfo| SegmentInfo { offset: base + segment.offset, ..*segment };
        self.segments.extend(run.segments.iter().map(moved));
        self.stats.materialized_bytes += run.stored();
        Ok(())
    }
}

/// Bytes copied between two signs of life (64 MiB: a busy disk takes some seconds).
const COPIED_BYTES: u64 = 64 << 20;

fn index_in_progress(index: &Path) -> PathBuf {
    index.with_extension("index-tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::read_index;
    use crate::output::MapOutputOptions;
    use crate::reduce::{ReduceInput, ReduceOptions};
    use crate::segment::SegmentSource;
    use crate::writer::MapOutputWriter;

    fn records(output: &MapOutput, partition: usize, dir: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
        let SegmentInfo { offset, stored, .. } = output.segments[partition];
        let source = SegmentSource::Path { path: output.data.clone(), offset, stored };
        let options = ReduceOptions {
            dir: dir.to_owned(),
            name: "read".to_owned(),
            memory_bytes_max: 1 << 20,
            merge_factor: 2,
            codec: Codec::None,
            group_prefix: None,
        };
        let mut input = ReduceInput::new(vec![source], options).unwrap();
        let mut records = Vec::new();
        while input.next_group().unwrap() {
            while let Some(value) = input.next_value().unwrap().map(<[u8]>::to_vec) {
                records.push((input.key().to_vec(), value));
            }
        }
        records
    }

    #[test]
    fn segments_beside_an_output_become_its_last_partitions() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path();
        let options = MapOutputOptions {
            partitions: 2,
            dir: dir.to_owned(),
            name: "out".to_owned(),
            memory_bytes_max: 1 << 20,
            merge_factor: 2,
            codec: Codec::Lz4,
            partition_seed: 0,
            sync: false,
        };
        let mut writer = MapOutputWriter::new(options).unwrap();
        writer.emit(1, b"message", b"m").unwrap();
        let (mut state, fixed) = (
            SideSegment::create(dir, "state", Codec::None).unwrap(),
            SideSegment::create(dir, "fixed", Codec::Lz4).unwrap(),
        );
        for number in 0..100_000u32 {
            state.push(&number.to_be_bytes(), b"value").unwrap();
        }
        let (output, life) = (writer.finish().unwrap(), Life::default());
        let output = output.with_partitions(vec![state, fixed], &life).unwrap();
        assert!(life.take());
        assert_eq!(read_index(&output.index).unwrap(), output.segments);
        assert_eq!(output.data.metadata().unwrap().len(), output.stats.materialized_bytes);
        assert_eq!(records(&output, 0, dir), []);
        assert_eq!(records(&output, 1, dir), [(b"message".to_vec(), b"m".to_vec())]);
        let states = records(&output, 2, dir);
        assert_eq!((states.len(), &states[99_999].0[..]), (100_000, &99_999u32.to_be_bytes()[..]));
        assert_eq!(records(&output, 3, dir), []);
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["out.data", "out.index"], "nothing else is left");
    }
}
