//! A sample of the keys that a job's mapper emits, for the key ranges of a total order.
//!
//! Invariant: at most [`PLACE_BYTES_MAX`] are read at a place, and reading ends early once the place has given enough keys.

use std::cell::Cell;
use std::io;

use mr_formats::Source;
use mr_formats::sources::READ_BYTES;
use protocol::property::keys;

use super::map_input::{MapInput, MapPart, OpenPart};
use super::paths::JobInput;
use crate::console::say;
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::map::{Emit, Mapper, Sink, until_enough};
use crate::task::{Context, RecordCursor, TaskState};

/// Keys taken at all places together, as Hadoop's TeraSort does by default: with a hundred reduces each one's share is within a few per
/// cent.
const KEYS_MAX: usize = 100_000;
/// The most that is read at one place (1 MiB), in case the mapper emits little.
pub(crate) const PLACE_BYTES_MAX: u64 = 1 << 20;
/// The most that is read at once (64 KiB): less than the readers' buffers, so each byte is handed out once.
const SLICE_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(SLICE_BYTES_MAX <= READ_BYTES);

/// Runs a job's mapper on places of its input.
pub trait Sampler: Send + Sync {
    /// The keys that the mapper emits on these places.
    ///
    /// # Errors
    /// Those of the input and of the mapper.
    fn sample(
        &self,
        inputs: &[JobInput],
        context: &Context,
        places: &[SamplePlace],
        open: &OpenPart<'_>,
    ) -> Result<Keys>;
    /// How many inputs the mapper reads.
    fn inputs(&self) -> usize;
}

/// Encoded keys, in the order they were emitted.
type Keys = Vec<Vec<u8>>;

pub(crate) struct TypedSampler<M: Mapper> {
    pub(crate) format: M::In,
    pub(crate) mapper: M,
    pub(crate) inputs: usize,
}

/// A place of the input from which keys are sampled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SamplePlace {
    /// Which of the job's inputs it is in.
    pub(crate) input: u32,
    pub(crate) part: MapPart,
}

impl SamplePlace {
    fn is_of_same_file(&self, other: &SamplePlace) -> bool {
        (self.input, &self.part.path) == (other.input, &other.part.path)
    }
}

impl<M: Mapper> Sampler for TypedSampler<M> {
    fn inputs(&self) -> usize {
        self.inputs
    }

    fn sample(
        &self,
        inputs: &[JobInput],
        context: &Context,
        places: &[SamplePlace],
        open: &OpenPart<'_>,
    ) -> Result<Keys> {
        let cells = [Cell::new(0), Cell::new(0)];
        let life = TaskState::of(context).life();
        let cursor = RecordCursor::new([&cells[0], &cells[1]], &[], |_| (), life);
        let map_input = MapInput::new(inputs, &self.format, open, &cursor);
        let mut emit = Emit::new(context.clone(), SampleSink { keys: Vec::new(), keys_max: 0 });
        let skips = keys::SKIP_MAX.get(TaskState::of(context).properties())?;
        let skips = skips.is_some_and(|most| most.0 > 0);
        let mut number = 0;
        for places_of_file in places.chunk_by(SamplePlace::is_of_same_file) {
            let SamplePlace { input, part } = &places_of_file[0];
            part.set_input(*input, context);
            let ran = guard(|| {
                let shares = (number + 1..).map(|number| KEYS_MAX * number / places.len());
                let taken = shares.zip(places_of_file);
                self.sample_file(&map_input, context, taken, &mut emit)
            });
            number += places_of_file.len();
            let Err(message) = ran else { continue };
            let (path, offset) = (part.path.clone(), cursor.position.get());
            let failed = Error::Sample { path, offset, message };
            if !skips {
                return Err(failed.into());
            }
            // The tasks find that record again, and skip it alone.
            say(format_args!("warning: {failed}; the rest of that file is not sampled\n"));
        }
        Ok(emit.into_sink().keys)
    }
}

impl<M: Mapper> TypedSampler<M> {
    /// The places of one file, each with the number of keys after it.
    fn sample_file<'a>(
        &self,
        map_input: &MapInput<'_, M::In>,
        context: &Context,
        places: impl Iterator<Item = (usize, &'a SamplePlace)>,
        emit: &mut Emit<M::Key, M::Value, SampleSink>,
    ) -> Result<()> {
        let mut mapper = self.mapper.clone();
        mapper.setup(context)?;
        let mut read = Ok(());
        for (keys_max, SamplePlace { input, part }) in places {
            emit.sink_mut().keys_max = keys_max;
            let exhausted = Cell::new(false);
            let limited = |source| Limited { source, left: PLACE_BYTES_MAX, exhausted: &exhausted };
            let ran = map_input.run((*input, 0, part), limited, &mut mapper, emit);
            let ran = until_enough(ran);
            if !emit.sink_mut().is_full() && !exhausted.get() {
                read = ran;
            }
            if read.is_err() {
                break;
            }
        }
        emit.sink_mut().keys_max = usize::MAX;
        let cleaned = mapper.cleanup(emit);
        read.and(cleaned)
    }
}

/// Keeps keys until it has enough.
struct SampleSink {
    keys: Keys,
    keys_max: usize,
}

impl SampleSink {
    fn is_full(&self) -> bool {
        self.keys.len() >= self.keys_max
    }
}

impl Sink for SampleSink {
    fn accept(&mut self, key: &[u8], _: &[u8]) -> Result<()> {
        if self.is_full() {
            return Err(Error::SampledEnough.into());
        }
        self.keys.push(key.to_vec());
        Ok(())
    }
}

/// A source that ends with an error once enough has been read. It counts what it hands out as read, so it hands out small pieces.
struct Limited<'a> {
    source: Box<dyn Source>,
    left: u64,
    exhausted: &'a Cell<bool>,
}

impl Source for Limited<'_> {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        if self.left == 0 {
            self.exhausted.set(true);
            return Err(io::Error::other(Error::SampledEnough));
        }
        let slice = self.source.slice(offset)?;
        let slice = &slice[..slice.len().min(SLICE_BYTES_MAX)];
        self.left = self.left.saturating_sub(slice.len() as u64);
        Ok(slice)
    }

    fn length(&self) -> Option<u64> {
        self.source.length()
    }
}
