//! A step that has run: its counters and its output.

use std::fs::File;
use std::slice;

use client::dfs::DfsClient;
use mr_formats::codec::FileCodec;
use mr_formats::sources::{DecodedSource, LocalSource};
use mr_formats::{Format, Lines, Source, SplitRange};
use mr_model::runner::{MapPart, until_enough};
use mr_model::task::{CounterGroup, counted};
use mr_model::{Error, Result};
use protocol::jobs::Counters;

use super::place::Place;
use crate::run::driver::{self, ran::Output};
use crate::run::inputs::Subdirectories;
use crate::run::session::Session;
use crate::run::{dfs, local};

/// Most bytes that [`Done::lines`] keeps in memory.
const LINES_BYTES_MAX: usize = 256 << 20;

/// A step that has run: see [`Cluster::run`](crate::Cluster::run). An intermediate output is deleted when this is dropped.
pub struct Done<'a> {
    place: &'a Place,
    counters: Counters,
    output: Output,
    /// The output as an input of other steps.
    path: String,
    is_intermediate: bool,
}

impl<'a> Done<'a> {
    pub(super) fn new(
        place: &'a Place,
        counters: Counters,
        output: Output,
        is_intermediate: bool,
    ) -> Self {
        let path = match &output {
            Output::Machine(path) => path.to_string_lossy().into_owned(),
            Output::Cluster(path) => Session::name_of(path),
        };
        Done { place, counters, output, path, is_intermediate }
    }

    /// The counters of all jobs of the plan together.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A typed counter of all jobs of the plan together.
    pub fn counted<G: CounterGroup>(&self, counter: G) -> u64 {
        counted(&self.counters, counter)
    }

    /// The directory of the output, as an input of other steps.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The lines of a text output, file by file in the order of their names. Can be read again.
    ///
    /// # Errors
    /// Those of the file system, lines that are not UTF-8, and more than 256 MiB.
    pub fn lines(&self) -> Result<Vec<String>> {
        let (mut lines, mut length) = (Vec::new(), 0);
        self.for_each(&Lines, |line| {
            length += line.bytes.len() + size_of::<String>();
            if length > LINES_BYTES_MAX {
                let (path, most) = (self.path.clone(), LINES_BYTES_MAX);
                return Err(Error::OutputTooLong { path, most }.into());
            }
            lines.push(std::str::from_utf8(line.bytes)?.to_owned());
            Ok(())
        })?;
        Ok(lines)
    }

    /// Hands each record of the output to `each`, file by file in the order of their names. Compressed files are decompressed.
    ///
    /// ```
    /// use mr_api::job::{CompleteJob, rows};
    /// use mr_api::sequence::SequencePairs;
    /// use mr_api::{Cluster, Job, LocalRunner, Result, intermediate, reduce_fn};
    ///
    /// fn sums(count: u64) -> Result<CompleteJob> {
    ///     let job = Job::new("sums").input(rows(count, 2));
    ///     Ok(job
    ///         .map_fn::<bool, u64, _>(|row, out| out.emit(row % 2 == 0, row))
    ///         .reduce(reduce_fn::<bool, u64, _>(|is_even, values, out| {
    ///             let mut sum = 0;
    ///             while let Some(value) = values.next_value()? {
    ///                 sum += value as i64;
    ///             }
    ///             out.append(i32::from(is_even), sum)
    ///         }))
    ///         .reducers(1)
    ///         .output(intermediate().sequence::<i32, i64>()))
    /// }
    ///
    /// let cluster = Cluster::local(LocalRunner::new());
    /// let mut pairs = Vec::new();
    /// cluster.run(sums, &10)?.for_each(&SequencePairs::<i32, i64>::new(), |pair| {
    ///     pairs.push(pair);
    ///     Ok(())
    /// })?;
    /// assert_eq!(pairs, [(0, 25), (1, 20)]);
    /// # Ok::<(), mr_api::BoxError>(())
    /// ```
    ///
    /// [`enough`](crate::map::enough) ends the reading early.
    ///
    /// # Errors
    /// Those of the file system, of the format and of `each`.
    pub fn for_each<F: Format>(
        &self,
        format: &F,
        each: impl FnMut(F::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        until_enough(self.read_all(format, each))
    }

    fn read_all<F: Format>(
        &self,
        format: &F,
        mut each: impl FnMut(F::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        match (&self.output, self.place) {
            (Output::Cluster(path), Place::Cluster(session)) => {
                let dfs: DfsClient = session.dfs()?;
                for (path, length) in driver::files(&dfs, path)? {
                    let range = SplitRange { start: 0, end: length };
                    let path = path.to_string();
                    let mut source = dfs::open_part(&dfs, &MapPart { path: path.clone(), range })?;
                    read(format, &path, (range, &mut *source), &mut each)?;
                }
            }
            (Output::Cluster(_), Place::Here { .. }) => {}
            (Output::Machine(path), _) => {
                let inner = Subdirectories::Ignored;
                for file in local::files::expand(slice::from_ref(path), inner)? {
                    let opened = File::open(&file.path).map_err(Error::file("open", &file.path))?;
                    let mut source = LocalSource::new(opened);
                    let range = SplitRange { start: 0, end: file.length };
                    let path = file.path.to_string_lossy();
                    read(format, &path, (range, &mut source), &mut each)?;
                }
            }
        }
        Ok(())
    }
}

/// Reads a whole file.
fn read<F: Format>(
    format: &F,
    path: &str,
    (range, source): (SplitRange, &mut dyn Source),
    each: &mut impl FnMut(F::Record<'_>) -> Result<()>,
) -> Result<()> {
    let mut each = |_: u64, record: F::Record<'_>| each(record);
    match FileCodec::of_path(path) {
        None => format.read(range, source, &mut each),
        Some(codec) => {
            let range = SplitRange { start: 0, end: u64::MAX };
            format.read(range, &mut DecodedSource::open(codec, source)?, &mut each)
        }
    }
}

impl Drop for Done<'_> {
    fn drop(&mut self) {
        if self.is_intermediate {
            self.place.forget(&self.output);
        }
    }
}
