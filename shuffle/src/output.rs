//! Map output: options, spills, the final merge, and its data and index file.
//!
//! Invariants: `NAME.data` and `NAME.index` appear by rename and only when complete; spill files are gone when `finish` returns, whether it
//! failed or not; a single spill becomes the output without being read again.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::codec::Codec;
use crate::error::{Error, Result, io_error};
use crate::index::{PARTITIONS_MAX, SegmentInfo, write_index};
use crate::life::Life;
use crate::merge::next_pass;
use crate::run::{Run, RunBuffers, RunWriter, SortedSink, TemporaryFile, merge_runs};
use crate::segment::READER_BYTES;

/// How one map attempt's output is sorted and stored.
#[derive(Debug, Clone)]
pub struct MapOutputOptions {
    /// Number of reduce tasks, 1 to [`PARTITIONS_MAX`].
    pub partitions: u32,
    /// Existing directory for spills and output; belongs to the attempt.
    pub dir: PathBuf,
    /// Base name of all files; unique in `dir`.
    pub name: String,
    /// Budget in bytes of the buffers that hold records: arena, entries, sorting scratch, hash table. Beyond it the engine needs under 1
    /// MiB to write, [`READER_MEMORY_BYTES`] per run while merging (as many runs at once as the budget allows, at least two), and the
    /// longest record a few times over.
    pub memory_bytes_max: usize,
    /// Most runs merged at once, at least 2.
    pub merge_factor: usize,
    /// Compression of blocks.
    pub codec: Codec,
    /// Seed of [`crate::partition_of`]; the same for all tasks of a job.
    pub partition_seed: u64,
    /// Flush data and index to the disk before `finish` returns. Off in practice: lost map output is made again.
    pub sync: bool,
}

/// Memory of one open run during a merge, unless it holds longer records.
pub const READER_MEMORY_BYTES: usize = READER_BYTES;

/// Counts of one map output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapOutputStats {
    /// Records emitted.
    pub records: u64,
    /// Key and value bytes emitted (for a combining writer with [`crate::Combine::encoded_bytes`] per value).
    pub bytes: u64,
    /// Bytes of the data file.
    pub materialized_bytes: u64,
    /// Records written to spill and merge files, the output itself included.
    pub spilled_records: u64,
    /// Records given to the combiner.
    pub combine_input_records: u64,
    /// Records that the combiner returned.
    pub combine_output_records: u64,
    /// Sorted runs written from memory.
    pub spills: u64,
    /// Merges of runs, the last one included.
    pub merge_passes: u64,
    /// Time spent, if the writer was given a [`Clock`].
    pub times: MapOutputTimes,
}

/// The time of each step of a map output. The rest of an attempt's time is its reading and its map function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapOutputTimes {
    /// Sorting the records in memory.
    pub sort: Duration,
    /// Writing them to sorted runs, combining included.
    pub spill: Duration,
    /// Merging runs.
    pub merge: Duration,
}

/// Returns the time since some moment of the process. The engine has no clock of its own: callers who want times pass one.
pub type Clock = fn() -> Duration;

/// The clock of callers who want no times.
pub(crate) fn no_clock() -> Duration {
    Duration::ZERO
}

/// A finished map output.
#[derive(Debug, Clone)]
pub struct MapOutput {
    /// Segments of all partitions, back to back.
    pub data: PathBuf,
    /// Their index; read it with [`crate::read_index`].
    pub index: PathBuf,
    /// Counts.
    pub stats: MapOutputStats,
    /// The index's contents.
    pub segments: Vec<SegmentInfo>,
}

/// Spilled runs of one map attempt, in emission order.
#[derive(Debug)]
pub(crate) struct Spills {
    pub(crate) options: MapOutputOptions,
    pub(crate) stats: MapOutputStats,
    runs: Vec<Run>,
    buffers: Option<RunBuffers>,
    file_count: u64,
    clock: Clock,
    pub(crate) life: Life,
}

impl Spills {
    pub(crate) fn new(options: MapOutputOptions) -> Result<Self> {
        if options.partitions == 0 || options.partitions > PARTITIONS_MAX {
            return Err(Error::InvalidOption {
                option: "partitions",
                reason: "must be between 1 and 1048576",
            });
        }
        if options.merge_factor < 2 {
            return Err(Error::InvalidOption {
                option: "merge_factor",
                reason: "must be at least 2",
            });
        }
        Ok(Self {
            options,
            stats: MapOutputStats::default(),
            runs: Vec::new(),
            buffers: None,
            file_count: 0,
            clock: no_clock,
            life: Life::default(),
        })
    }

    pub(crate) fn watch(&mut self, clock: Clock, life: Life) {
        (self.clock, self.life) = (clock, life);
    }

    /// The current time, for [`Spills::since`].
    pub(crate) fn moment(&self) -> Duration {
        (self.clock)()
    }

    /// Time since an earlier [`Spills::moment`].
    pub(crate) fn since(&self, moment: Duration) -> Duration {
        (self.clock)().saturating_sub(moment)
    }

    /// Opens the next run.
    pub(crate) fn begin(&mut self) -> Result<RunWriter> {
        let path = self.path(&format!("spill-{}", self.file_count));
        self.file_count += 1;
        let buffers = self.buffers.take().unwrap_or_else(|| RunBuffers::new(self.options.codec));
        RunWriter::create(path, self.options.partitions, buffers)
    }

    /// Adds a run written from memory.
    pub(crate) fn end(&mut self, writer: RunWriter) -> Result<()> {
        let run = self.close(writer, false)?;
        self.stats.spills += 1;
        self.runs.push(run);
        Ok(())
    }

    /// Writes a run of a single record that no buffer can hold.
    pub(crate) fn write_alone(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<()> {
        let mut writer = self.begin()?;
        writer.push(partition, key, value)?;
        self.end(writer)
    }

    /// Merges the spilled runs into the final files.
    pub(crate) fn finish(
        mut self,
        sink: &mut impl SortedSink,
    ) -> Result<(MapOutput, MapOutputOptions)> {
        let begin = self.moment();
        let fan_in = fan_in(self.options.merge_factor, self.options.memory_bytes_max);
        let sizes = |runs: &[Run]| runs.iter().map(Run::stored).collect::<Vec<_>>();
        while let Some(range) = next_pass(&sizes(&self.runs), fan_in) {
            let run = self.merge(range.clone(), sink)?;
            self.runs.splice(range, [run]);
        }
        let run = match self.runs.len() {
            0 => {
                let writer = self.begin()?;
                self.close(writer, false)?
            }
            1 => self.runs.remove(0),
            count => self.merge(0..count, sink)?,
        };
        self.runs.clear();
        self.stats.times.merge = self.since(begin);
        self.publish(run)
    }

    fn merge(&mut self, range: std::ops::Range<usize>, sink: &mut impl SortedSink) -> Result<Run> {
        let mut writer = self.begin()?;
        merge_runs(&self.runs[range], &mut writer, sink, &self.life)?;
        self.stats.merge_passes += 1;
        self.close(writer, false)
    }

    fn close(&mut self, writer: RunWriter, sync: bool) -> Result<Run> {
        let (run, buffers) = writer.finish(sync)?;
        self.buffers = Some(buffers);
        self.stats.spilled_records += run.records();
        Ok(run)
    }

    fn publish(mut self, run: Run) -> Result<(MapOutput, MapOutputOptions)> {
        let (data, index) = (self.path("data"), self.path("index"));
        let sync = self.options.sync;
        if sync {
            sync_file(run.file.path())?;
        }
        self.stats.materialized_bytes = run.stored();
        let temporary = TemporaryFile::new(self.path("index-tmp"));
        run.file.rename(&data)?;
        write_index(&index, temporary.path(), &run.segments, sync)?;
        if sync {
            sync_file(&self.options.dir)?;
        }
        Ok((MapOutput { data, index, stats: self.stats, segments: run.segments }, self.options))
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.options.dir.join(format!("{}.{suffix}", self.options.name))
    }
}

/// How many runs can be merged at once within a memory budget.
pub(crate) fn fan_in(merge_factor: usize, memory_bytes_max: usize) -> usize {
    merge_factor.min(memory_bytes_max / READER_BYTES).max(2)
}

fn sync_file(path: &Path) -> Result<()> {
    let file = std::fs::File::open(path).map_err(io_error("open", path))?;
    file.sync_all().map_err(io_error("sync", path))
}
