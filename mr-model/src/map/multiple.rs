//! Several inputs of one job, each with its own format and mapper: two at a time, so everything stays typed.

use mr_formats::{Format, Source, SplitRange};

use super::mapper::{Emit, Mapper, Sink};
use super::records::Records;
use crate::error::Result;
use crate::task::Context;

/// A record of one of two formats.
pub enum Either<A, B> {
    /// Of the first.
    First(A),
    /// Of the second.
    Second(B),
}

/// The formats of two groups of inputs. Each split belongs to one of them; [`Both`] knows which.
#[derive(Clone)]
pub struct BothFormats<F, G> {
    pub(crate) first: F,
    pub(crate) second: G,
}

impl<F: Format, G: Format> Format for BothFormats<F, G> {
    type Record<'a> = Either<F::Record<'a>, G::Record<'a>>;

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, Self::Record<'_>) -> Result<()>,
    ) -> Result<()> {
        self.first.read(split, source, &mut |at, record| each(at, Either::First(record)))
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        match record {
            Either::First(record) => F::bytes(record),
            Either::Second(record) => G::bytes(record),
        }
    }
}

/// Two mappers, each for its own inputs; made by [`crate::Job::also`].
#[derive(Clone)]
pub struct Both<M, N> {
    pub(crate) first: M,
    pub(crate) second: N,
    /// Inputs from this number on are the second's.
    pub(crate) boundary: u32,
}

impl<M, N> Both<M, N> {
    /// Whose split the task reads: its mapper alone is set up and cleaned up.
    fn is_second(&self, context: &Context) -> bool {
        context.input().is_some_and(|input| input.number >= self.boundary)
    }
}

impl<M, N> Mapper for Both<M, N>
where
    M: Mapper,
    N: Mapper<Key = M::Key, Value = M::Value>,
{
    type In = BothFormats<M::In, N::In>;
    type Key = M::Key;
    type Value = M::Value;

    fn setup(&mut self, context: &Context) -> Result<()> {
        match self.is_second(context) {
            false => self.first.setup(context),
            true => self.second.setup(context),
        }
    }

    fn run<S: Sink>(
        &mut self,
        records: Records<'_, Self::In>,
        out: &mut Emit<Self::Key, Self::Value, S>,
    ) -> Result<()> {
        let Records { format, split, source, cursor, input } = records;
        if input < self.boundary {
            let format = &format.first;
            self.first.run(Records { format, split, source, cursor, input }, out)
        } else {
            let format = &format.second;
            self.second.run(Records { format, split, source, cursor, input }, out)
        }
    }

    fn map<S: Sink>(
        &mut self,
        record: Either<<M::In as Format>::Record<'_>, <N::In as Format>::Record<'_>>,
        out: &mut Emit<Self::Key, Self::Value, S>,
    ) -> Result<()> {
        match record {
            Either::First(record) => self.first.map(record, out),
            Either::Second(record) => self.second.map(record, out),
        }
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<Self::Key, Self::Value, S>) -> Result<()> {
        match self.is_second(out.context()) {
            false => self.first.cleanup(out),
            true => self.second.cleanup(out),
        }
    }
}
