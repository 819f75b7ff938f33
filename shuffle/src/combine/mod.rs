//! Map output with a combiner: records are combined in a hash table before anything is sorted.
//!
//! ```text
//!            table full, keys repeat: drain as a sorted run
//!              ┌──┐
//!           ┌──▼──┴─┐  fewer than 1.25 records a key: drain, free the table   ┌─────────┐
//! start ───►│ table ├─────────────────────────────────────────────────────►│ buffer │
//!           └──▲────┘                                                     └┬─┬──▲──┘
//!              └──────── a spill combined to half or less: free the buffer ┘ └──┘ full: sort, combine neighbours, spill
//! ```
//!
//! The ratio is checked whenever the table would grow beyond [`RATIO_CHECK_KEYS`] keys or is full.
//! Invariants: only one of table and buffer holds records; the unused one holds no memory.

mod radix;
mod slot;
mod table;

use std::time::Duration;

use self::table::Table;
use crate::buffer::SortBuffer;
use crate::error::{DecodeError, Result};
use crate::key::SHORT_KEY_BYTES_MAX;
use crate::life::Life;
use crate::output::{Clock, MapOutput, MapOutputOptions, Spills};
use crate::partition::Partitioning;
use crate::pool::BufferPool;
use crate::run::{RunWriter, SortedSink};
use crate::writer::{check_record, push_after_spill, spill};

/// Algebra of a combiner over typed accumulators.
///
/// `merge` must be associative and commutative in effect: the engine can apply it any number of times, in any order, on either side.
pub trait Combine: Send + 'static {
    /// The accumulator: small, often a number. Heap memory it owns is not counted against the budget.
    type Acc: Clone + Send + 'static;

    /// Appends the value bytes that the reduce side sees.
    fn encode(&self, acc: &Self::Acc, out: &mut Vec<u8>);

    /// Reads back an accumulator written by [`Combine::encode`].
    fn decode(&self, bytes: &[u8]) -> Result<Self::Acc, DecodeError>;

    /// Adds `from` to `into`.
    fn merge(&self, into: &mut Self::Acc, from: Self::Acc);

    /// The approximate number of bytes to which an emitted accumulator encodes; only for the byte counter.
    #[inline]
    fn encoded_bytes(&self, _acc: &Self::Acc) -> usize {
        size_of::<Self::Acc>()
    }
}

/// Combines emitted records by key and writes them as a map output.
#[derive(Debug)]
pub struct CombiningWriter<C: Combine> {
    combine: C,
    table: Table<C::Acc>,
    in_table: bool,
    /// Records folded into the table since it was last empty.
    folded: u64,
    buffer: SortBuffer,
    value: Vec<u8>,
    partitioning: Partitioning,
    spills: Spills,
    pool: BufferPool,
}

impl<C: Combine> CombiningWriter<C> {
    /// Makes a writer with buffers of its own.
    pub fn new(options: MapOutputOptions, combine: C, partitioning: Partitioning) -> Result<Self> {
        Self::with_pool(options, combine, partitioning, &BufferPool::default())
    }

    /// Makes a writer that takes its buffers from `pool` and returns them when it is done.
    pub fn with_pool(
        options: MapOutputOptions,
        combine: C,
        partitioning: Partitioning,
        pool: &BufferPool,
    ) -> Result<Self> {
        let spills = Spills::new(options)?;
        let budget = spills.options.memory_bytes_max;
        let table = Table::new(budget, spills.options.partition_seed ^ TABLE_SEED, pool);
        Ok(Self {
            combine,
            in_table: table.is_possible(),
            table,
            folded: 0,
            buffer: SortBuffer::new(budget, &BufferPool::default()),
            value: Vec::new(),
            partitioning,
            spills,
            pool: pool.clone(),
        })
    }

    /// Sets the clock that measures the time of each step, and the sign of life that sorting, spilling and merging show.
    pub fn watched(mut self, clock: Clock, life: Life) -> Self {
        self.spills.watch(clock, life);
        self
    }

    /// Adds one record.
    #[inline]
    pub fn emit(&mut self, key: &[u8], acc: C::Acc) -> Result<()> {
        self.spills.stats.records += 1;
        self.spills.stats.bytes += (key.len() + self.combine.encoded_bytes(&acc)) as u64;
        self.add(key, acc)
    }

    #[inline(always)]
    fn add(&mut self, key: &[u8], acc: C::Acc) -> Result<()> {
        if !self.in_table {
            return self.add_sorted(key, acc);
        }
        if key.len() > SHORT_KEY_BYTES_MAX && !self.table.can_hold(key) {
            return self.write_alone(key, &acc);
        }
        self.folded += 1;
        if self.table.stage(key, acc) { Ok(()) } else { self.settle() }
    }

    /// Combines, sorts and merges the emitted records into the final files.
    pub fn finish(mut self) -> Result<MapOutput> {
        self.settle()?;
        self.drain_table()?;
        self.table.give_back(&self.pool);
        self.spill_buffer()?;
        self.buffer.give_back(&self.pool);
        let mut sink = CombineSink::new(&self.combine);
        let (mut output, _) = self.spills.finish(&mut sink)?;
        output.stats.combine_input_records += sink.input_records;
        output.stats.combine_output_records += sink.output_records;
        Ok(output)
    }

    /// Moves the staged records into the table.
    fn settle(&mut self) -> Result<()> {
        while !self.table.settle(|into, from| self.combine.merge(into, from)) {
            if !self.make_room()? {
                self.folded = 0;
                let (mut key, (records, tails)) = (Vec::new(), self.table.unstage());
                return records.into_iter().try_for_each(|record| {
                    record.take_key(&tails, &mut key, |key, acc| self.add(key, acc))
                });
            }
        }
        Ok(())
    }

    /// The table refused a record: grow it, drain it, or (false) give up on it.
    #[cold]
    fn make_room(&mut self) -> Result<bool> {
        let keys = self.table.len() as u64;
        let poor = keys >= RATIO_CHECK_KEYS && self.folded * 4 < keys * 5;
        if !poor && self.table.grow() {
            return Ok(true);
        }
        self.drain_table()?;
        if poor {
            self.table.give_back(&BufferPool::default());
            self.in_table = false;
        }
        Ok(!poor)
    }

    /// Writes the table's contents as a run.
    fn drain_table(&mut self) -> Result<()> {
        if self.table.len() == 0 {
            return Ok(());
        }
        let (partitions, seed) =
            (self.spills.options.partitions, self.spills.options.partition_seed);
        let staged = self.table.staged() as u64;
        self.spills.stats.combine_input_records += self.folded - staged;
        self.spills.stats.combine_output_records += self.table.len() as u64;
        self.folded = staged;
        let (begin, mut sorted) = (self.spills.moment(), Duration::ZERO);
        let life = self.spills.life.clone();
        let mut run = self.spills.begin()?;
        self.table.drain(
            partitions,
            |key| {
                life.show();
                self.partitioning.partition(key, partitions, seed)
            },
            || sorted = self.spills.since(begin),
            |partition, key, acc| {
                life.show();
                self.value.clear();
                self.combine.encode(&acc, &mut self.value);
                check_record(key, &self.value)?;
                run.push(partition, key, &self.value)
            },
        )?;
        self.spills.end(run)?;
        self.spills.stats.times.sort += sorted;
        self.spills.stats.times.spill += self.spills.since(begin).saturating_sub(sorted);
        Ok(())
    }

    fn add_sorted(&mut self, key: &[u8], acc: C::Acc) -> Result<()> {
        let (partitions, seed) =
            (self.spills.options.partitions, self.spills.options.partition_seed);
        let partition = self.partitioning.partition(key, partitions, seed)?;
        self.value.clear();
        self.combine.encode(&acc, &mut self.value);
        if self.buffer.push(partition, key, &self.value) {
            return Ok(());
        }
        let combined_well = self.spill_buffer()?;
        if combined_well && self.table.is_possible() {
            self.buffer.give_back(&BufferPool::default());
            self.in_table = true;
            self.folded = 0;
            return self.add(key, acc);
        }
        let mut sink = CombineSink::new(&self.combine);
        push_after_spill(&mut self.buffer, &mut self.spills, &mut sink, partition, key, &self.value)
    }

    /// Writes the buffer's contents as a run; true if combining at least halved it.
    fn spill_buffer(&mut self) -> Result<bool> {
        let mut sink = CombineSink::new(&self.combine);
        let records = self.buffer.len() as u64;
        spill(&mut self.buffer, &mut self.spills, &mut sink)?;
        self.spills.stats.combine_input_records += sink.input_records;
        self.spills.stats.combine_output_records += sink.output_records;
        Ok(records >= RATIO_CHECK_KEYS && sink.output_records * 2 <= records)
    }

    #[cold]
    fn write_alone(&mut self, key: &[u8], acc: &C::Acc) -> Result<()> {
        check_record(key, &[])?;
        let (partitions, seed) =
            (self.spills.options.partitions, self.spills.options.partition_seed);
        let partition = self.partitioning.partition(key, partitions, seed)?;
        self.value.clear();
        self.combine.encode(acc, &mut self.value);
        check_record(key, &self.value)?;
        self.spills.write_alone(partition, key, &self.value)
    }
}

/// Below this many keys the combine ratio is not judged (32,768: the table still fits the second-level cache).
const RATIO_CHECK_KEYS: u64 = 1 << 15;

/// Keeps the table's hash apart from the partition's.
const TABLE_SEED: u64 = 0x4528_21e6_38d0_1377;

/// Joins neighbouring records of one key. A value that meets no other is passed on unchanged.
struct CombineSink<'c, C: Combine> {
    combine: &'c C,
    holds: bool,
    partition: u32,
    key: Vec<u8>,
    value: Vec<u8>,
    acc: Option<C::Acc>,
    input_records: u64,
    output_records: u64,
}

impl<'c, C: Combine> CombineSink<'c, C> {
    fn new(combine: &'c C) -> Self {
        Self {
            combine,
            holds: false,
            partition: 0,
            key: Vec::new(),
            value: Vec::new(),
            acc: None,
            input_records: 0,
            output_records: 0,
        }
    }
}

impl<C: Combine> SortedSink for CombineSink<'_, C> {
    fn record(
        &mut self,
        out: &mut RunWriter,
        partition: u32,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.input_records += 1;
        if self.holds && self.partition == partition && self.key == key {
            let mut acc = match self.acc.take() {
                Some(acc) => acc,
                None => self.combine.decode(&self.value)?,
            };
            self.combine.merge(&mut acc, self.combine.decode(value)?);
            self.acc = Some(acc);
            return Ok(());
        }
        self.flush(out)?;
        self.holds = true;
        self.partition = partition;
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        Ok(())
    }

    fn flush(&mut self, out: &mut RunWriter) -> Result<()> {
        if !std::mem::take(&mut self.holds) {
            return Ok(());
        }
        if let Some(acc) = self.acc.take() {
            self.value.clear();
            self.combine.encode(&acc, &mut self.value);
            check_record(&self.key, &self.value)?;
        }
        self.output_records += 1;
        out.push(self.partition, &self.key, &self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;

    struct Sum;

    impl Combine for Sum {
        type Acc = u64;

        fn encode(&self, acc: &u64, out: &mut Vec<u8>) {
            out.extend_from_slice(&acc.to_le_bytes());
        }

        fn decode(&self, bytes: &[u8]) -> Result<u64, DecodeError> {
            bytes
                .try_into()
                .map(u64::from_le_bytes)
                .map_err(|_| DecodeError::new("a count has eight bytes"))
        }

        fn merge(&self, into: &mut u64, from: u64) {
            *into += from;
        }
    }

    #[test]
    fn the_table_is_left_when_keys_do_not_repeat_and_taken_up_again_when_they_do() {
        let dir = tempfile::tempdir().unwrap();
        let options = MapOutputOptions {
            partitions: 2,
            dir: dir.path().to_owned(),
            name: "map".into(),
            memory_bytes_max: 6 << 20,
            merge_factor: 10,
            codec: Codec::None,
            partition_seed: 3,
            sync: false,
        };
        let mut writer = CombiningWriter::new(options, Sum, Partitioning::Hash).unwrap();
        let mut emitted = 0u64;
        let mut emit_until = |in_table: bool, distinct: u64| {
            for _ in 0..1_000_000 {
                if writer.in_table == in_table {
                    assert!(writer.buffer.is_empty() || writer.table.len() == 0);
                    return emitted;
                }
                writer.emit(&(emitted % distinct).to_be_bytes(), 1).unwrap();
                emitted += 1;
            }
            panic!("still the same after {emitted} records");
        };
        let distinct_records = emit_until(false, u64::MAX);
        assert!(
            (RATIO_CHECK_KEYS..3 * RATIO_CHECK_KEYS).contains(&distinct_records),
            "{distinct_records}"
        );
        emit_until(true, 1000);
        let output = writer.finish().unwrap();
        assert_eq!(output.segments.iter().map(|s| s.records).sum::<u64>(), distinct_records);
    }
}
