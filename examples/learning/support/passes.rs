//! A job that goes over rows of numbers again and again, and learns from each pass: [`Rounds`] without messages.
//!
//! ```text
//! maps     parse the rows once and pack them into chunks, which stay where they are
//! pass n   each task: what is known, rows ─► sums; then, from the sums of all tasks, each learns the same for pass n + 1
//! ```
//!
//! What is known travels in the summary of one task. Chunks come in the order of their keys and tasks in that of their partitions, so the
//! sums are the same, bit by bit, whatever fails.

use mr_api::datum::Serde;
use mr_api::job::Job;
use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{Auto, Emit, Output, Result, Sink, text};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::rows::{Chunk, ChunkKey, ChunkView, Pack, check_width, unpack};

/// What a summary can hold.
pub trait Values: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Default + Clone + Send + Sync + 'static> Values for T {}

/// What is done in each pass.
pub trait Passes: Clone + Send + Sync + 'static {
    /// What all tasks know in a pass.
    type Known: Values;
    /// What a pass adds up.
    type Sums: Values;

    /// What is known in this pass, the first of which is 1: by what was known in the pass before, and by its sums.
    ///
    /// # Errors
    /// Any error fails the job.
    fn learn(&mut self, pass: u32, known: &Self::Known, sums: &Self::Sums) -> Result<Self::Known>;

    /// Goes over rows.
    ///
    /// # Errors
    /// Any error fails the job.
    fn look(&mut self, known: &Self::Known, rows: Rows<'_>, sums: &mut Self::Sums) -> Result<()>;

    /// Adds what other tasks summed up.
    fn add(&self, into: &mut Self::Sums, other: Self::Sums);

    /// True if another pass would change nothing.
    fn is_done(&self, pass: u32, known: &Self::Known, sums: &Self::Sums) -> bool;

    /// The job's curve.
    fn measure(&self, pass: u32, sums: &Self::Sums) -> Option<f64>;

    /// Writes rows after the last pass.
    ///
    /// # Errors
    /// Those of the output.
    fn write(&mut self, _: &Self::Known, _: Rows<'_>, _: &mut Output) -> Result<()> {
        Ok(())
    }

    /// Writes what is known after the last pass: in one task.
    ///
    /// # Errors
    /// Those of the output.
    fn finish(&mut self, known: &Self::Known, out: &mut Output) -> Result<()>;
}

/// Some of the rows.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    /// The pass in which they are looked at.
    pub pass: u32,
    /// A number that no other rows have, the same in each pass.
    pub place: u64,
    /// How many numbers each has.
    pub width: usize,
    /// One after the other.
    pub numbers: &'a [f64],
}

impl<'a> Rows<'a> {
    /// Each row.
    pub fn iter(&self) -> impl Iterator<Item = &'a [f64]> {
        self.numbers.chunks_exact(self.width)
    }
}

/// A job of at most so many passes after the first; it needs an output.
pub fn passes<P: Passes>(
    name: &str,
    inputs: Vec<String>,
    (passes, last): (P, u32),
) -> Job<mr_api::job::Iterated<Pack, OverRows<P>>> {
    let over = OverRows { passes, known: P::Known::default(), width: 0, numbers: Vec::new() };
    Job::new(name).input(text(inputs)).map(Pack::default()).rounds(over, last).reducers(Auto)
}

/// [`Passes`] as [`Rounds`].
#[derive(Clone)]
pub struct OverRows<P: Passes> {
    passes: P,
    known: P::Known,
    width: usize,
    numbers: Vec<f64>,
}

/// What tasks tell each other.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Summary<K, S> {
    known: Option<K>,
    sums: S,
    width: usize,
}

type Told<P> = Serde<Summary<<P as Passes>::Known, <P as Passes>::Sums>>;

impl<P: Passes> OverRows<P> {
    /// Unpacks a chunk, and hands its rows on.
    fn with_rows(
        &mut self,
        pass: u32,
        (map, chunk): ChunkKey,
        rows: Option<ChunkView<'_>>,
        each: impl FnOnce(&mut P, &P::Known, Rows<'_>) -> Result<()>,
    ) -> Result<()> {
        let (width, bytes) = rows.ok_or("a chunk without rows")?;
        check_width(self.width, width as usize)?;
        self.width = width as usize;
        unpack(bytes, &mut self.numbers);
        let place = u64::from(map) << 32 | u64::from(chunk);
        let rows = Rows { pass, place, width: self.width, numbers: &self.numbers };
        each(&mut self.passes, &self.known, rows)
    }

    fn look(
        &mut self,
        key: ChunkKey,
        rows: Option<ChunkView<'_>>,
        round: &mut Round<'_, Told<P>>,
    ) -> Result<()> {
        let (pass, Serde(summary)) = (round.number(), round.summary());
        self.with_rows(pass, key, rows, |passes, known, rows| {
            summary.width = rows.width;
            passes.look(known, rows, &mut summary.sums)
        })
    }
}

impl<P: Passes> Rounds for OverRows<P> {
    type Key = ChunkKey;
    type Fixed = Chunk;
    type State = ();
    type Message = ();
    type Summary = Told<P>;

    fn setup(&mut self, round: &mut Round<'_, Told<P>>) -> Result<()> {
        let pass = round.number();
        let Some(Serde(before)) = round.total() else { return Ok(()) };
        if before.width == 0 {
            return Err("the input has no rows".into());
        }
        let known = before.known.clone().unwrap_or_default();
        self.known = self.passes.learn(pass, &known, &before.sums)?;
        self.width = before.width;
        if round.partition() == 0 {
            round.summary().0.known = Some(self.known.clone());
        }
        Ok(())
    }

    fn begin(
        &mut self,
        key: ChunkKey,
        rows: Option<ChunkView<'_>>,
        round: &mut Round<'_, Told<P>>,
    ) -> Result<()> {
        self.look(key, rows, round)
    }

    fn update(
        &mut self,
        chunk: Entry<'_, Self>,
        _: Option<()>,
        round: &mut Round<'_, Told<P>>,
    ) -> Result<()> {
        // Nobody asks for the sums of the last round.
        if round.is_over() { Ok(()) } else { self.look(chunk.key, chunk.fixed, round) }
    }

    fn send<S: Sink>(&mut self, _: Entry<'_, Self>, _: &mut Emit<ChunkKey, (), S>) -> Result<()> {
        Ok(())
    }

    fn combine(&self, (): &mut (), (): ()) {}

    fn add(&self, Serde(into): &mut Told<P>, Serde(other): Told<P>) {
        self.passes.add(&mut into.sums, other.sums);
        into.known = into.known.take().or(other.known);
        into.width = into.width.max(other.width);
    }

    fn is_done(&self, round: u32, Serde(Summary { known, sums, .. }): &Told<P>) -> bool {
        known.as_ref().is_some_and(|known| self.passes.is_done(round, known, sums))
    }

    fn measure(&self, round: u32, Serde(total): &Told<P>) -> Option<f64> {
        self.passes.measure(round, &total.sums)
    }

    fn write(&mut self, chunk: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        let write =
            |passes: &mut P, known: &P::Known, rows: Rows<'_>| passes.write(known, rows, out);
        self.with_rows(0, chunk.key, chunk.fixed, write)
    }

    fn finish(&mut self, round: &mut Round<'_, Told<P>>, out: &mut Output) -> Result<()> {
        if round.partition() == 0 { self.passes.finish(&self.known, out) } else { Ok(()) }
    }
}
