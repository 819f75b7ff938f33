//! Reduce input: merges the segments of one partition from all maps and streams groups.
//!
//! ```text
//! new ──► between groups ──next_group──► in a group ──next_value = None──► between groups ──► ... ──next_group = false
//!                                          │    ▲
//!                                          └────┘ next_value = Some
//! ```
//!
//! Invariants: records come in key order, equal keys in the order of the given sources; a group of any size needs no more memory than one
//! of a single record; sources are merged through the disk, neighbours only, if there are more than can be open at once or if those in
//! memory exceed the budget.

use std::path::PathBuf;

use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::life::Life;
use crate::merge::{Merge, next_pass};
use crate::output::fan_in;
use crate::run::{Run, RunBuffers, RunWriter};
use crate::segment::{SegmentReader, SegmentSource};

/// Returns the length of the part of a key that groups records; the rest only sorts.
pub type GroupPrefix = fn(&[u8]) -> usize;

/// How the input of one reduce attempt is merged.
#[derive(Debug, Clone)]
pub struct ReduceOptions {
    /// Existing directory for intermediate merges; belongs to the attempt.
    pub dir: PathBuf,
    /// Base name of all files; unique in `dir`.
    pub name: String,
    /// Budget in bytes for segments kept in memory and for the buffers of open ones
    /// ([`crate::READER_MEMORY_BYTES`] each, at least two).
    pub memory_bytes_max: usize,
    /// Most segments merged at once, at least 2.
    pub merge_factor: usize,
    /// Compression of intermediate merges.
    pub codec: Codec,
    /// Secondary sort: records whose keys share this prefix form one group. `None`: the whole key.
    pub group_prefix: Option<GroupPrefix>,
}

/// Counts of one reduce input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReduceStats {
    /// Groups begun.
    pub groups: u64,
    /// Records returned or skipped.
    pub records: u64,
    /// Records written by intermediate merges.
    pub spilled_records: u64,
    /// Intermediate merges.
    pub merge_passes: u64,
}

/// A segment to merge: one of the caller's, or a run of our own.
#[derive(Debug)]
enum Pending {
    Source(usize, SegmentSource),
    Run(Run),
}

impl Pending {
    fn stored(&self) -> u64 {
        match self {
            Self::Source(_, source) => source.stored(),
            Self::Run(run) => run.stored(),
        }
    }

    fn memory_bytes(&self) -> u64 {
        match self {
            Self::Source(_, SegmentSource::Memory(bytes)) => bytes.len() as u64,
            _ => 0,
        }
    }
}

/// Streams the groups of one partition.
///
/// ```
/// # use shuffle::{Codec, ReduceInput, ReduceOptions};
/// # fn reduce(sources: Vec<shuffle::SegmentSource>, options: ReduceOptions) -> shuffle::Result<()> {
/// let mut input = ReduceInput::new(sources, options)?;
/// while input.next_group()? {
///     let key = input.key().to_vec();
///     let mut count = 0;
///     while let Some(_value) = input.next_value()? {
///         count += 1;
///     }
///     println!("{key:?} {count}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ReduceInput {
    merge: Merge,
    /// Files of intermediate merges; removed with the input.
    runs: Vec<Run>,
    group_prefix: Option<GroupPrefix>,
    group_key: Vec<u8>,
    group_prefix_bytes: usize,
    state: State,
    stats: ReduceStats,
    life: Life,
}

/// The position of the merge relative to the groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing read yet.
    New,
    /// At the first record of the group, not returned yet.
    First,
    /// At a record of the group that was already returned.
    Within,
    /// At the first record of the next group.
    Before,
    /// No record is left.
    End,
}

impl ReduceInput {
    /// Opens the sources; merges through the disk first if the options demand it.
    pub fn new(sources: Vec<SegmentSource>, options: ReduceOptions) -> Result<Self> {
        Self::with_life(sources, options, Life::default())
    }

    /// The same, with the sign of life that each merged, returned or skipped record shows.
    pub fn with_life(
        sources: Vec<SegmentSource>,
        options: ReduceOptions,
        life: Life,
    ) -> Result<Self> {
        if options.merge_factor < 2 {
            return Err(Error::InvalidOption {
                option: "merge_factor",
                reason: "must be at least 2",
            });
        }
        let mut stats = ReduceStats::default();
        let pending = reduce_pending(sources, &options, &mut stats, &life)?;
        let (readers, runs) = open_all(pending)?;
        Ok(Self {
            merge: Merge::new(readers)?,
            runs,
            group_prefix: options.group_prefix,
            group_key: Vec::new(),
            group_prefix_bytes: 0,
            state: State::New,
            stats,
            life,
        })
    }

    /// Moves to the next group, skipping the rest of the current one; false at the end.
    pub fn next_group(&mut self) -> Result<bool> {
        self.life.show();
        match self.state {
            State::First | State::Within => while self.next_value()?.is_some() {},
            State::New if !self.merge.advance()? => self.end(),
            State::New | State::Before | State::End => {}
        }
        if self.state == State::End {
            return Ok(false);
        }
        self.state = State::First;
        self.stats.groups += 1;
        let key = self.merge.key();
        self.group_key.clear();
        self.group_key.extend_from_slice(key);
        self.group_prefix_bytes = match self.group_prefix {
            Some(prefix_bytes) => prefix_bytes(key).min(key.len()),
            None => key.len(),
        };
        Ok(true)
    }

    /// The key of the current record; outside a group, the first key of the last group.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if self.state == State::Within { self.merge.key() } else { &self.group_key }
    }

    /// The next value of the current group; `None` at its end.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<&[u8]>> {
        self.life.show();
        match self.state {
            State::First => self.state = State::Within,
            State::Within => {
                if !self.merge.advance()? {
                    self.end();
                    return Ok(None);
                }
                if !self.merge.repeated() && !self.is_in_group() {
                    self.state = State::Before;
                    return Ok(None);
                }
            }
            State::New | State::Before | State::End => return Ok(None),
        }
        self.stats.records += 1;
        Ok(Some(self.merge.value()))
    }

    /// Counts so far.
    pub fn stats(&self) -> ReduceStats {
        self.stats
    }

    fn is_in_group(&self) -> bool {
        let key = self.merge.key();
        let group = &self.group_key[..self.group_prefix_bytes];
        match self.group_prefix {
            Some(prefix_bytes) => key[..prefix_bytes(key).min(key.len())] == *group,
            None => key == group,
        }
    }

    fn end(&mut self) {
        self.state = State::End;
        self.runs.clear();
    }
}

/// Merges neighbours through the disk until all can be open at once and those in memory fit the budget.
fn reduce_pending(
    sources: Vec<SegmentSource>,
    options: &ReduceOptions,
    stats: &mut ReduceStats,
    life: &Life,
) -> Result<Vec<Pending>> {
    let mut pending: Vec<Pending> = sources
        .into_iter()
        .enumerate()
        .map(|(index, source)| Pending::Source(index, source))
        .collect();
    let width = fan_in(options.merge_factor, options.memory_bytes_max);
    let mut buffers = Some(RunBuffers::new(options.codec));
    let mut merge = |pending: &mut Vec<Pending>, range: std::ops::Range<usize>| -> Result<()> {
        let path = options.dir.join(format!("{}.merge-{}", options.name, stats.merge_passes));
        let inputs: Vec<Pending> = pending.splice(range.clone(), []).collect();
        let (readers, _runs) = open_all(inputs)?;
        let mut merge = Merge::new(readers)?;
        let mut out = RunWriter::create(
            path,
            1,
            buffers.take().unwrap_or_else(|| RunBuffers::new(options.codec)),
        )?;
        while merge.advance()? {
            life.show();
            out.push(0, merge.key(), merge.value())?;
        }
        let (run, back) = out.finish(false)?;
        buffers = Some(back);
        stats.merge_passes += 1;
        stats.spilled_records += run.records();
        pending.insert(range.start, Pending::Run(run));
        Ok(())
    };
    while pending.iter().map(Pending::memory_bytes).sum::<u64>() > options.memory_bytes_max as u64 {
        let range = largest_in_memory(&pending, width);
        merge(&mut pending, range)?;
    }
    loop {
        let sizes: Vec<u64> = pending.iter().map(Pending::stored).collect();
        let Some(range) = next_pass(&sizes, width) else { return Ok(pending) };
        merge(&mut pending, range)?;
    }
}

/// The neighbouring sources in memory, `width` at most, that free the most when written to disk.
fn largest_in_memory(pending: &[Pending], width: usize) -> std::ops::Range<usize> {
    let mut best = (0, 0..1);
    let mut start = 0;
    for end in 1..=pending.len() {
        if pending[end - 1].memory_bytes() == 0 {
            start = end;
            continue;
        }
        start = start.max(end.saturating_sub(width));
        let bytes: u64 = pending[start..end].iter().map(Pending::memory_bytes).sum();
        if bytes > best.0 {
            best = (bytes, start..end);
        }
    }
    best.1
}

/// Readers in order, and the runs whose files they read.
fn open_all(pending: Vec<Pending>) -> Result<(Vec<SegmentReader<'static>>, Vec<Run>)> {
    let mut readers = Vec::with_capacity(pending.len());
    let mut runs = Vec::new();
    for item in pending {
        match item {
            Pending::Source(index, source) => readers.push(SegmentReader::open(source, index)?),
            Pending::Run(run) => {
                let source = SegmentSource::Path {
                    path: run.file.path().to_owned(),
                    offset: 0,
                    stored: run.stored(),
                };
                readers.push(SegmentReader::open(source, 0)?);
                runs.push(run);
            }
        }
    }
    Ok((readers, runs))
}
