//! Map output with a combiner that processes sorted records, without an algebra: a reducer, or a program of its own.
//!
//! ```text
//! emit ─► first buffer ──full: sort──► combiner ─► second buffer ──full or done: sort──► run (spill)
//! ```
//!
//! The combiner can emit keys in any order, because its records are sorted again. Both buffers together stay within the budget.

use crate::buffer::SortBuffer;
use crate::error::{Error, Result};
use crate::life::Life;
use crate::output::{Clock, MapOutput, MapOutputOptions, Spills};
use crate::partition::check_partition;
use crate::pool::BufferPool;
use crate::run::WriteAll;
use crate::writer::{check_record, push_after_spill, spill};

/// Takes the partition, key and value of a combined record.
pub type EmitCombined<'a> = dyn FnMut(u32, &[u8], &[u8]) -> Result<()> + Send + 'a;

/// A combiner of sorted records.
pub trait SortedCombine: Send {
    /// Combines records that come in order of (partition, key); equal keys are neighbours.
    ///
    /// # Errors
    /// Its own; they fail the map.
    fn combine(
        &mut self,
        records: SortedRecords<'_>,
        emit: &mut EmitCombined<'_>,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// The records of one filling of the buffer, in order.
pub struct SortedRecords<'a> {
    buffer: &'a SortBuffer,
    next: usize,
    life: &'a Life,
}

impl<'a> SortedRecords<'a> {
    /// The key of the next record.
    #[inline]
    pub fn peek_key(&self) -> Option<&'a [u8]> {
        self.buffer.record(self.next).map(|(_, key, _)| key)
    }

    /// The next key and value.
    #[inline]
    pub fn next_record(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        self.life.show();
        let (_, key, value) = self.buffer.record(self.next)?;
        self.next += 1;
        Some((key, value))
    }
}

/// Sorts and combines emitted records and writes them as a map output.
pub struct SortedCombiningWriter<C> {
    combine: C,
    emitted: SortBuffer,
    combined: SortBuffer,
    spills: Spills,
    pool: BufferPool,
    partitions: u32,
}

impl<C: SortedCombine> SortedCombiningWriter<C> {
    /// Makes a writer that takes its buffers from `pool` and returns them when it is done.
    ///
    /// # Errors
    /// Invalid options.
    pub fn with_pool(options: MapOutputOptions, combine: C, pool: &BufferPool) -> Result<Self> {
        let spills = Spills::new(options)?;
        let (half, partitions) = (spills.options.memory_bytes_max / 2, spills.options.partitions);
        Ok(Self {
            combine,
            emitted: SortBuffer::new(half, pool),
            combined: SortBuffer::new(half, pool),
            spills,
            pool: pool.clone(),
            partitions,
        })
    }

    /// Sets the clock that measures the time of each step, and the sign of life that sorting, spilling and merging show.
    pub fn watched(mut self, clock: Clock, life: Life) -> Self {
        self.spills.watch(clock, life);
        self
    }

    /// Adds one record.
    ///
    /// # Errors
    /// Those of the disk and of the combiner.
    #[inline]
    pub fn emit(&mut self, partition: u32, key: &[u8], value: &[u8]) -> Result<()> {
        check_partition(partition, self.partitions)?;
        self.spills.stats.records += 1;
        self.spills.stats.bytes += (key.len() + value.len()) as u64;
        if self.emitted.push(partition, key, value) {
            return Ok(());
        }
        check_record(key, value)?;
        self.combine()?;
        if self.emitted.push(partition, key, value) {
            Ok(())
        } else {
            self.spills.write_alone(partition, key, value)
        }
    }

    /// Combines and merges the emitted records into the final files.
    ///
    /// # Errors
    /// Those of the disk and of the combiner.
    pub fn finish(mut self) -> Result<MapOutput> {
        self.combine()?;
        spill(&mut self.combined, &mut self.spills, &mut WriteAll)?;
        self.emitted.give_back(&self.pool);
        self.combined.give_back(&self.pool);
        let (output, _) = self.spills.finish(&mut WriteAll)?;
        Ok(output)
    }

    /// Moves everything from the first buffer through the combiner into the second.
    fn combine(&mut self) -> Result<()> {
        if self.emitted.is_empty() {
            return Ok(());
        }
        let life = self.spills.life.clone();
        self.emitted.sort(self.partitions, &life);
        let (combined, spills, partitions) =
            (&mut self.combined, &mut self.spills, self.partitions);
        let before = self.emitted.len() as u64;
        let mut after = 0;
        let outcome = self.combine.combine(
            SortedRecords { buffer: &self.emitted, next: 0, life: &life },
            &mut |partition, key, value| {
                check_partition(partition, partitions)?;
                life.show();
                after += 1;
                if combined.push(partition, key, value) {
                    return Ok(());
                }
                push_after_spill(combined, spills, &mut WriteAll, partition, key, value)
            },
        );
        outcome.map_err(|source| Error::Combiner { source })?;
        self.spills.stats.combine_input_records += before;
        self.spills.stats.combine_output_records += after;
        self.emitted.clear();
        Ok(())
    }
}
