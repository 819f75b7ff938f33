//! A task of a job in rounds: joins what is fixed, state and messages by their keys, and makes the next state and the next messages.
//!
//! ```text
//! segments: fixed, state, messages ─► merge ─► per key: update ─► state segment
//!                                                       send   ─► combining table ─► segments for all partitions
//! ```
//!
//! A value in a segment begins with a byte that tells what it is ([`FIXED`], [`STATE`], [`MESSAGE`]); what maps emit has none.
//!
//! Invariants: user code runs only inside [`guard`]; keys are updated in their order, and messages combined in the order of the sources, so
//! the same inputs give the same bytes.

use std::cell::Cell;
use std::marker::PhantomData;

use protocol::phase::Phase;
use protocol::rounds::{RoundsSpec, SUMMARY_BYTES_MAX, Summary};
use shuffle::{Codec, Combine, CombiningWriter, DecodeError, MapOutput, ReduceInput, SideSegment};

use super::reduce_side::damaged_source;
use super::settings::JobSettings;
use super::side_file::ENGINE_PREFIX;
use super::stage::{ReduceSide, ReduceTask, RoundResult, RoundTask};
use super::total_order;
use crate::datum::{Datum, Put};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::map::{Emit, Sink};
use crate::rounds::{Entry, Round, Rounds, View};
use crate::task::phases::{self, REDUCE_START_PROGRESS};
use crate::task::{Output, TaskState};

/// Marks what maps emitted, joined.
const FIXED: u8 = 0;
/// Marks a state.
const STATE: u8 = 1;
/// Marks combined messages.
const MESSAGE: u8 = 2;
/// How often a task reports its progress, in keys.
const PROGRESS_KEYS: u64 = 1024;

/// A job in rounds.
pub(crate) struct InRounds<R> {
    pub(crate) rounds: R,
    pub(crate) spec: RoundsSpec,
}

impl<R: Rounds> ReduceSide for InRounds<R> {
    fn run(&self, task: ReduceTask) -> Result<(), Error> {
        let what = format!("reduce {} of a job in rounds", task.partition);
        Err(Error::Conversation { what })
    }

    fn rounds(&self) -> Option<RoundsSpec> {
        Some(self.spec)
    }

    fn run_round(&self, task: RoundTask<'_>, settings: &JobSettings) -> Result<RoundResult, Error> {
        let (partition, seen) = (task.partition, Cell::new(0));
        let damaged = Cell::new(None);
        let work = || {
            let run = self.go(task, settings, &seen);
            run.inspect_err(|error| damaged.set(damaged_source(error)))
        };
        guard(work).map_err(|message| match damaged.get() {
            Some(index) => Error::DamagedInput { index, reason: message },
            None => Error::Reduce { partition, group: seen.get(), message },
        })
    }
}

impl<R: Rounds> InRounds<R> {
    fn go(
        &self,
        task: RoundTask<'_>,
        settings: &JobSettings,
        seen: &Cell<u64>,
    ) -> Result<RoundResult> {
        let RoundTask { context, summaries, sources, records, options, .. } = task;
        let mut rounds = self.rounds.clone();
        let total = sum(&rounds, &summaries)?;
        let before = task.round.saturating_sub(1);
        let measure = total.as_ref().and_then(|total| rounds.measure(before, total));
        let is_done = total.as_ref().is_some_and(|total| rounds.is_done(before, total));
        let is_over = is_done || task.is_last;
        let summary = R::Summary::default();
        let (number, partition) = (task.round, task.partition);
        let mut round = Round { number, partition, is_over, total, summary, context: &context };
        let state = TaskState::of(&context);
        state.enter(Phase::ReduceMerge);
        let begin = phases::clock();
        let input = ReduceInput::with_life(sources, options, state.life())?;
        let mut keys = Keys::<R>::new(input, task.round);
        phases::spent(state, Phase::ReduceMerge, phases::clock().saturating_sub(begin));
        state.enter(Phase::Reduce);
        rounds.setup(&mut round)?;
        let update = if is_done || task.is_restored { Update::Keep } else { Update::Make };
        let mut next = match is_over {
            true => Next::Over(Box::new((task.output)()?)),
            false => {
                let partition = total_order::resolve(&settings.partition, None, &context)?;
                let partitioning = partition.to_shuffle(task.messages.partitions);
                let combine = Messages { rounds: rounds.clone() };
                let dir = task.messages.dir.clone();
                let writer =
                    CombiningWriter::with_pool(task.messages, combine, partitioning, &task.pool)?
                        .watched(phases::clock, state.life());
                let sink = MessageSink { writer };
                let segment = |name| {
                    SideSegment::create(&dir, &format!("{ENGINE_PREFIX}{name}"), Codec::None)
                };
                Next::Goes(Box::new(Going {
                    states: segment("state")?,
                    fixed: segment("fixed")?,
                    emit: Emit::new(context.clone(), sink),
                }))
            }
        };
        while keys.next(&mut rounds, &mut round, update)? {
            seen.set(seen.get() + 1);
            if seen.get().is_multiple_of(PROGRESS_KEYS) {
                let share = keys.input.stats().records as f64 / records.max(1) as f64;
                let rest = 1.0 - REDUCE_START_PROGRESS;
                state.set_progress(REDUCE_START_PROGRESS + rest * share);
            }
            next.take(&mut rounds, &keys)?;
        }
        let stats = keys.input.stats();
        state.add("REDUCE_INPUT_GROUPS", stats.groups);
        state.add("REDUCE_INPUT_RECORDS", stats.records);
        let output = next.finish(&mut rounds, &mut round)?;
        phases::spent(state, Phase::Reduce, phases::clock().saturating_sub(begin));
        state.check_counters()?;
        Ok(RoundResult { output, summary: encoded(&round.summary)?, measure })
    }
}

/// The sum of the summaries of a round; `None` of none.
fn sum<R: Rounds>(rounds: &R, summaries: &[Summary]) -> Result<Option<R::Summary>> {
    let mut total: Option<R::Summary> = None;
    for summary in summaries {
        let summary = R::Summary::own(R::Summary::read(&summary.bytes)?);
        match &mut total {
            Some(total) => rounds.add(total, summary),
            None => total = Some(summary),
        }
    }
    Ok(total)
}

fn encoded<S: Datum + Put<S>>(summary: &S) -> Result<Summary> {
    let mut bytes = Vec::new();
    summary.put(&mut bytes);
    if bytes.len() > SUMMARY_BYTES_MAX {
        return Err(Error::SummaryTooLong { bytes: bytes.len(), most: SUMMARY_BYTES_MAX }.into());
    }
    Ok(Summary { bytes })
}

/// Combines messages in the engine's table.
struct Messages<R> {
    rounds: R,
}

impl<R: Rounds> Combine for Messages<R> {
    type Acc = R::Message;

    #[inline]
    fn encode(&self, acc: &R::Message, out: &mut Vec<u8>) {
        out.push(MESSAGE);
        acc.put(out);
    }

    #[inline]
    fn decode(&self, bytes: &[u8]) -> Result<R::Message, DecodeError> {
        let message = bytes.get(1..).ok_or(DecodeError::new("not a message"))?;
        R::Message::read(message).map(R::Message::own)
    }

    #[inline]
    fn merge(&self, into: &mut R::Message, from: R::Message) {
        self.rounds.combine(into, from);
    }
}

/// Takes the messages of a task.
struct MessageSink<R: Rounds> {
    writer: CombiningWriter<Messages<R>>,
}

impl<R: Rounds> Sink for MessageSink<R> {
    #[inline]
    fn accept(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.writer.emit(key, R::Message::own(R::Message::read(value)?))?)
    }
}

/// Whether a round changes the states that it reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    Make,
    Keep,
}

/// The keys of a task, one after the other, each with its new state.
struct Keys<R: Rounds> {
    input: ReduceInput,
    round: u32,
    key: Vec<u8>,
    /// Encoded, behind the byte that tells what it is.
    fixed: Vec<u8>,
    has_fixed: bool,
    old: Vec<u8>,
    has_old: bool,
    state: Vec<u8>,
    rounds: PhantomData<fn() -> R>,
}

impl<R: Rounds> Keys<R> {
    fn new(input: ReduceInput, round: u32) -> Self {
        let (key, fixed, old, state) = Default::default();
        let (has_fixed, has_old, rounds) = (false, false, PhantomData);
        Keys { input, round, key, fixed, has_fixed, old, has_old, state, rounds }
    }

    /// Moves to the next key; false at the end.
    fn next(
        &mut self,
        rounds: &mut R,
        round: &mut Round<'_, R::Summary>,
        update: Update,
    ) -> Result<bool> {
        while self.input.next_group()? {
            self.key.clear();
            self.key.extend_from_slice(self.input.key());
            if self.round == 0 {
                self.read_fixed(rounds)?;
                self.begin(rounds, round)?;
                std::mem::swap(&mut self.old, &mut self.state);
                return Ok(true);
            }
            let message = self.read(rounds)?;
            match update {
                // Only a message that nobody reads any more made the key known.
                Update::Keep if !self.has_old => {}
                Update::Keep => {
                    std::mem::swap(&mut self.old, &mut self.state);
                    return Ok(true);
                }
                Update::Make => {
                    if !self.has_old {
                        self.begin(rounds, round)?;
                    }
                    let state = rounds.update(self.entry(&self.old)?, message, round)?;
                    put(STATE, &state, &mut self.state);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reads and joins what maps emitted for the key.
    fn read_fixed(&mut self, rounds: &R) -> Result<()> {
        let Some(first) = self.input.next_value()? else { return Ok(()) };
        self.fixed.clear();
        self.fixed.push(FIXED);
        self.fixed.extend_from_slice(first);
        self.has_fixed = true;
        let mut joined = None;
        while let Some(value) = self.input.next_value()? {
            let value = R::Fixed::own(R::Fixed::read(value)?);
            let before = match joined.take() {
                None => R::Fixed::own(R::Fixed::read(&self.fixed[1..])?),
                Some(joined) => joined,
            };
            let into = joined.insert(before);
            rounds.join(into, value)?;
        }
        if let Some(joined) = joined {
            put(FIXED, &joined, &mut self.fixed);
        }
        Ok(())
    }

    /// Reads all of the key; returns its messages, combined.
    fn read(&mut self, rounds: &R) -> Result<Option<R::Message>> {
        (self.has_fixed, self.has_old) = (false, false);
        let mut message: Option<R::Message> = None;
        while let Some(value) = self.input.next_value()? {
            match value.split_first() {
                Some((&FIXED, _)) if !self.has_fixed => {
                    self.fixed.clear();
                    self.fixed.extend_from_slice(value);
                    self.has_fixed = true;
                }
                Some((&STATE, _)) if !self.has_old => {
                    self.old.clear();
                    self.old.extend_from_slice(value);
                    self.has_old = true;
                }
                Some((&MESSAGE, rest)) => {
                    let received = R::Message::own(R::Message::read(rest)?);
                    match &mut message {
                        Some(message) => rounds.combine(message, received),
                        None => message = Some(received),
                    }
                }
                _ => return Err(DecodeError::new("not a value of a round").into()),
            }
        }
        Ok(message)
    }

    /// The key's first state becomes its old one.
    fn begin(&mut self, rounds: &mut R, round: &mut Round<'_, R::Summary>) -> Result<()> {
        let fixed = self.fixed()?;
        let state = rounds.begin(R::Key::read(&self.key)?, fixed, round)?;
        put(STATE, &state, &mut self.old);
        Ok(())
    }

    fn fixed(&self) -> Result<Option<View<'_, R::Fixed>>> {
        let fixed = self.has_fixed.then(|| R::Fixed::read(&self.fixed[1..]));
        Ok(fixed.transpose()?)
    }

    fn entry<'a>(&'a self, state: &'a [u8]) -> Result<Entry<'a, R>> {
        let (key, fixed) = (R::Key::read(&self.key)?, self.fixed()?);
        Ok(Entry { key, fixed, state: R::State::read(state.get(1..).unwrap_or_default())? })
    }
}

/// Encodes a value behind the byte that tells what it is.
fn put<D: Datum + Put<D>>(kind: u8, value: &D, out: &mut Vec<u8>) {
    out.clear();
    out.push(kind);
    value.put(out);
}

/// What becomes of the keys of a round.
enum Next<R: Rounds> {
    Goes(Box<Going<R>>),
    Over(Box<Output>),
}

/// What the next round reads.
struct Going<R: Rounds> {
    states: SideSegment,
    fixed: SideSegment,
    emit: Emit<R::Key, R::Message, MessageSink<R>>,
}

impl<R: Rounds> Next<R> {
    fn take(&mut self, rounds: &mut R, keys: &Keys<R>) -> Result<()> {
        let entry = keys.entry(&keys.state)?;
        match self {
            Next::Over(output) => rounds.write(entry, output),
            Next::Goes(going) => {
                going.states.push(&keys.key, &keys.state)?;
                if keys.round == 0 && keys.has_fixed {
                    going.fixed.push(&keys.key, &keys.fixed)?;
                }
                rounds.send(entry, &mut going.emit)
            }
        }
    }

    fn finish(
        self,
        rounds: &mut R,
        round: &mut Round<'_, R::Summary>,
    ) -> Result<Option<MapOutput>> {
        let state = TaskState::of(round.context);
        match self {
            Next::Over(mut output) => {
                rounds.finish(round, &mut output)?;
                state.add("REDUCE_OUTPUT_RECORDS", output.close()?);
                Ok(None)
            }
            Next::Goes(going) => {
                let Going { states, fixed, emit } = *going;
                let output = emit.into_sink().writer.finish()?;
                state.add("MAP_OUTPUT_RECORDS", output.stats.records);
                state.add("MAP_OUTPUT_BYTES", output.stats.bytes);
                state.add("COMBINE_INPUT_RECORDS", output.stats.combine_input_records);
                state.add("COMBINE_OUTPUT_RECORDS", output.stats.combine_output_records);
                state.add("SPILLED_RECORDS", output.stats.spilled_records);
                let output = output.with_partitions(vec![states, fixed], &state.life())?;
                state.add("MAP_OUTPUT_MATERIALIZED_BYTES", output.stats.materialized_bytes);
                Ok(Some(output))
            }
        }
    }
}
