//! Map output without a combiner: sort buffer, spills, final merge.

use crate::buffer::SortBuffer;
use crate::error::{Error, RECORD_BYTES_MAX, Result};
use crate::life::Life;
use crate::output::{Clock, MapOutput, MapOutputOptions, Spills};
use crate::partition::check_partition;
use crate::pool::BufferPool;
use crate::run::{SortedSink, WriteAll};

/// Sorts emitted records by (partition, key, emission order) and writes them as a map output.
///
/// ```
/// use shuffle::{Codec, MapOutputOptions, MapOutputWriter, partition_of, read_index};
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().to_owned();
/// let mut writer = MapOutputWriter::new(MapOutputOptions {
///     partitions: 2,
///     dir,
///     name: "map-0".into(),
///     memory_bytes_max: 64 << 20,
///     merge_factor: 100,
///     codec: Codec::Lz4,
///     partition_seed: 7,
///     sync: false,
/// })?;
/// for (key, value) in [("b", "2"), ("a", "1")] {
///     writer.emit(partition_of(key.as_bytes(), 2, 7), key.as_bytes(), value.as_bytes())?;
/// }
/// let output = writer.finish()?;
/// assert_eq!(output.stats.records, 2);
/// assert_eq!(read_index(&output.index)?, output.segments);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MapOutputWriter {
    buffer: SortBuffer,
    spills: Spills,
    pool: BufferPool,
    partitions: u32,
}

impl MapOutputWriter {
    /// Makes a writer with buffers of its own.
    pub fn new(options: MapOutputOptions) -> Result<Self> {
        Self::with_pool(options, &BufferPool::default())
    }

    /// Makes a writer that takes its buffers from `pool` and returns them when it is done.
    pub fn with_pool(options: MapOutputOptions, pool: &BufferPool) -> Result<Self> {
        let spills = Spills::new(options)?;
        let buffer = SortBuffer::new(spills.options.memory_bytes_max, pool);
        Ok(Self { buffer, pool: pool.clone(), partitions: spills.options.partitions, spills })
    }

    /// Sets the clock that measures the time of each step, and the sign of life that sorting, spilling and merging show.
    pub fn watched(mut self, clock: Clock, life: Life) -> Self {
        self.spills.watch(clock, life);
        self
    }

    /// Adds one record.
    #[inline]
    pub fn emit(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<()> {
        check_partition(partition, self.partitions)?;
        self.spills.stats.records += 1;
        self.spills.stats.bytes += (key.len() + value.len()) as u64;
        if self.buffer.push(partition, key, value) {
            return Ok(());
        }
        push_after_spill(&mut self.buffer, &mut self.spills, &mut WriteAll, partition, key, value)
    }

    /// Sorts and merges the emitted records into the final files.
    pub fn finish(mut self) -> Result<MapOutput> {
        spill(&mut self.buffer, &mut self.spills, &mut WriteAll)?;
        self.buffer.give_back(&self.pool);
        let (output, _) = self.spills.finish(&mut WriteAll)?;
        Ok(output)
    }
}

/// Makes room for a record that the buffer refused, and adds it; a record that can never fit becomes a run of its own.
#[cold]
pub(crate) fn push_after_spill(
    buffer: &mut SortBuffer,
    spills: &mut Spills,
    sink: &mut impl SortedSink,
    partition: u32,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    check_record(key, value)?;
    spill(buffer, spills, sink)?;
    if buffer.push(partition, key, value) {
        Ok(())
    } else {
        spills.write_alone(partition, key, value)
    }
}

/// Writes the buffer's records as a run, if there are any.
pub(crate) fn spill(
    buffer: &mut SortBuffer,
    spills: &mut Spills,
    sink: &mut impl SortedSink,
) -> Result<()> {
    if buffer.is_empty() {
        return Ok(());
    }
    let (begin, life) = (spills.moment(), spills.life.clone());
    buffer.sort(spills.options.partitions, &life);
    spills.stats.times.sort += spills.since(begin);
    let begin = spills.moment();
    let mut run = spills.begin()?;
    buffer.for_each(|partition, key, value| {
        life.show();
        sink.record(&mut run, partition, key, value)
    })?;
    sink.flush(&mut run)?;
    buffer.clear();
    spills.end(run)?;
    spills.stats.times.spill += spills.since(begin);
    Ok(())
}

pub(crate) fn check_record(key: &[u8], value: &[u8]) -> Result<()> {
    let (key_bytes, value_bytes) = (key.len(), value.len());
    if key_bytes.saturating_add(value_bytes) > RECORD_BYTES_MAX {
        return Err(Error::RecordTooLarge { key_bytes, value_bytes });
    }
    Ok(())
}
