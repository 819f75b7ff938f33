//! Global total order: reduce tasks take ranges of keys, so that their outputs, one after the other, are sorted as a whole.
//!
//! ```text
//! driver     places spread over the input ─► the job's own mapper ─► keys ─► boundaries ─► job property
//! map task   boundaries from the property ─► partition of each key
//! ```
//!
//! Invariants: the same input and options give the same boundaries; they change which task gets a key, never whether the output is
//! right; sampling reads at most [`PLACES`] times [`PLACE_BYTES_MAX`] and ends early where it has enough keys.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use protocol::property::Properties;
use protocol::{AttemptId, JobId, TaskId, TaskKind};
use shuffle::{GroupPrefix, KeyRanges};

use crate::Result;
use crate::cache;
use crate::codec::FileCodec;
use crate::context::{Context, OpenFile, TaskCounts};
use crate::error::Error;
use crate::guard::guard;
use crate::input::{Cut, READ_BYTES, Source, SplitRange};
use crate::job::{Job, JobSettings, Mapped};
use crate::map_input::{MapInput, MapPart, OpenPart};
use crate::mapper::{Emit, Mapper, Sink};
use crate::partition::Partition;
use crate::progress::say;
use crate::scratch::Scratch;

/// Job property that carries the boundaries to the tasks: hexadecimal, with commas between.
pub(crate) const BOUNDARIES_PROPERTY: &str = "hanno.total.order.boundaries";
/// Places of the input that are looked at. The input may be sorted in parts, so many places with few keys say more than the reverse.
const PLACES: u64 = 64;
/// Keys taken at all places together, as Hadoop's TeraSort does by default: with a hundred reduces each is within a few per cent.
const KEYS_MAX: usize = 100_000;
/// Read at one place at most (1 MiB), should the mapper emit little.
const PLACE_BYTES_MAX: u64 = 1 << 20;
/// And at once (64 KiB): less than the buffers of readers take, so that each byte is handed out once.
const SLICE_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(SLICE_BYTES_MAX <= READ_BYTES);

impl<M: Mapper> Job<Mapped<M>> {
    /// Sorts the job's output as a whole: every key in `part-r-00000` comes before every key in `part-r-00001`, and so on. The driver
    /// runs the mapper on a sample of the input first, to give each reduce task about as many pairs. With
    /// [`group_by_first`](Job::group_by_first), equal first elements still go to one task.
    ///
    /// Comes after all inputs ([`Job::also`]).
    ///
    /// ```
    /// use mr_api::{Job, LocalRunner, reduce_fn, text, text_out};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let path = |name: &str| scratch.path().join(name).to_string_lossy().into_owned();
    /// std::fs::write(path("in"), "pear\nfig\napple\nplum\n")?;
    /// let job = Job::new("sort")
    ///     .input(text([path("in")]))
    ///     .map_fn::<Vec<u8>, (), _>(|line, out| out.emit(line.bytes, ()))
    ///     .total_order()
    ///     .reduce(reduce_fn::<Vec<u8>, (), _>(|key, values, out| {
    ///         while values.next_value()?.is_some() {
    ///             out.write(key, ())?;
    ///         }
    ///         Ok(())
    ///     }))
    ///     .reducers(2)
    ///     .output(text_out(path("out")));
    /// LocalRunner::new().run(job)?;
    /// let part = |number| std::fs::read_to_string(path(&format!("out/part-r-0000{number}")));
    /// assert_eq!(part(0)? + &part(1)?, "apple\nfig\npear\nplum\n");
    /// # Ok::<(), mr_api::BoxError>(())
    /// ```
    pub fn total_order(mut self) -> Self {
        let Mapped { format, mapper } = &self.state;
        self.settings.partition = Partition::Sampled;
        self.settings.sampler = Some(Arc::new(TypedSampler {
            format: format.clone(),
            mapper: mapper.clone(),
            inputs: self.settings.inputs.len(),
        }));
        self
    }
}

/// Runs a job's mapper on places of its input.
pub(crate) trait Sampler: Send + Sync {
    fn sample(
        &self,
        settings: &JobSettings,
        context: &Context,
        places: &[Place],
        open: &OpenPart<'_>,
    ) -> Result<Keys>;
    /// How many inputs the mapper is for.
    fn inputs(&self) -> usize;
}

/// Encoded keys, in the order they were emitted.
type Keys = Vec<Vec<u8>>;

struct TypedSampler<M: Mapper> {
    format: M::In,
    mapper: M,
    inputs: usize,
}

/// A place of the input that is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) input: u32,
    pub(crate) part: MapPart,
}

impl<M: Mapper> Sampler for TypedSampler<M> {
    fn inputs(&self) -> usize {
        self.inputs
    }

    fn sample(
        &self,
        settings: &JobSettings,
        context: &Context,
        places: &[Place],
        open: &OpenPart<'_>,
    ) -> Result<Keys> {
        let cells = [Cell::new(0), Cell::new(0)];
        let place = crate::place::Place::new([&cells[0], &cells[1]], &[]);
        let map_input = MapInput::new(settings, &self.format, open, &place);
        let mut mapper = self.mapper.clone();
        let mut emit = Emit::new(context.clone(), SampleSink { keys: Vec::new(), keys_max: 0 });
        mapper.setup(context)?;
        let mut read = Ok(());
        for (number, Place { input, part }) in places.iter().enumerate() {
            emit.sink_mut().keys_max = KEYS_MAX * (number + 1) / places.len();
            let exhausted = Cell::new(false);
            let limited = |source| Limited { source, left: PLACE_BYTES_MAX, exhausted: &exhausted };
            let ran = map_input.run((*input, 0, part), limited, &mut mapper, &mut emit);
            if !emit.sink_mut().is_full() && !exhausted.get() {
                read = ran;
            }
            if read.is_err() {
                break;
            }
        }
        emit.sink_mut().keys_max = usize::MAX;
        let cleaned = mapper.cleanup(&mut emit);
        read.and(cleaned)?;
        Ok(emit.into_sink().keys)
    }
}

/// Keeps keys until there are enough.
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

/// A source that ends with an error when enough was read of it. What is handed out counts as read, so it is handed out in small pieces.
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
}

/// What sampling the input of a job needs.
pub(crate) struct Sampling<'a> {
    pub(crate) settings: &'a JobSettings,
    /// The job's.
    pub(crate) sampler: &'a dyn Sampler,
    /// Inputs of the maps: to which of the job's inputs they belong, and their parts.
    pub(crate) splits: &'a [(u32, Vec<MapPart>)],
    pub(crate) reduces: u32,
    pub(crate) properties: Properties,
    /// What the mapper has as its attempt's directory.
    pub(crate) directory: Scratch,
    pub(crate) side_files: BTreeMap<String, PathBuf>,
    pub(crate) open: Arc<OpenFile>,
}

impl Sampling<'_> {
    /// The property with the boundaries.
    pub(crate) fn boundaries(self, open: &OpenPart<'_>) -> Result<String> {
        let Sampling { settings, sampler, reduces, .. } = self;
        if sampler.inputs() != settings.inputs.len() {
            return Err(Error::usage("`total_order` comes after all inputs of a job").into());
        }
        if reduces <= 1 {
            return Ok(String::new());
        }
        let cuttable = |input: u32, part: &MapPart| {
            let cut = settings.inputs.get(input as usize).map(|input| input.cut);
            !matches!(cut, None | Some(Cut::Whole | Cut::Lines { .. }))
                && FileCodec::of_path(&part.path).is_none()
        };
        let places = places(self.splits, PLACES, cuttable);
        let context = self.context(&places)?;
        let sampled = guard(|| sampler.sample(settings, &context, &places, open));
        let mut keys = sampled.map_err(|message| Error::Sample { message })?;
        if keys.is_empty() && !places.is_empty() {
            let job = &settings.name;
            say(format_args!(
                "warning: the sample of the input of `{job}` gave no keys: its first reduce gets all\n"
            ));
        }
        if let Some(prefix_bytes) = settings.group_prefix {
            keys.iter_mut().for_each(|key| key.truncate(prefix_bytes(key)));
        }
        Ok(encode(KeyRanges::from_sample(keys, reduces).boundaries()))
    }

    /// What a map task has that reads all places, one after the other.
    fn context(&self, places: &[Place]) -> Result<Context> {
        let job = JobId { cluster_start: 0, number: 0 };
        let task = TaskId { job, kind: TaskKind::Map, index: 0 };
        let context = Context::new(AttemptId { task, number: 0 }, self.properties.clone());
        cache::link(&self.side_files, self.directory.path())?;
        context.set_directory(self.directory.path().to_owned(), self.side_files.clone());
        context.set_open(self.open.clone());
        let maps = self.splits.len() as u32;
        context.set_task_counts(TaskCounts { maps, reduces: self.reduces });
        if let Some(first) = places.first() {
            first.part.set_input(&context);
        }
        Ok(context)
    }
}

/// At most `count` places spread evenly over the input. Where records can be found from any byte on, a place begins anywhere and ends
/// before the next; elsewhere it is a part as a whole, once.
fn places(
    splits: &[(u32, Vec<MapPart>)],
    count: u64,
    cuttable: impl Fn(u32, &MapPart) -> bool,
) -> Vec<Place> {
    let length = |part: &MapPart| part.range.end.saturating_sub(part.range.start);
    let parts = || splits.iter().flat_map(|(input, parts)| parts.iter().map(move |p| (*input, p)));
    let total: u64 = parts().map(|(_, part)| length(part)).sum();
    let begin = |place: u64| (u128::from(total) * u128::from(place) / u128::from(count)) as u64;
    let (mut places, mut passed, mut next) = (Vec::new(), 0, 0);
    for (input, part) in parts() {
        let end = passed + length(part);
        while next < count {
            let at = begin(next);
            if at >= end {
                break;
            }
            next += 1;
            let range = if cuttable(input, part) {
                let place_end = end.min(begin(next)).min(at.saturating_add(PLACE_BYTES_MAX));
                let start = part.range.start + (at - passed);
                SplitRange { start, end: start + (place_end - at) }
            } else {
                part.range
            };
            let place = Place { input, part: MapPart { path: part.path.clone(), range } };
            if range.start < range.end && places.last() != Some(&place) {
                places.push(place);
            }
        }
        passed = end;
    }
    places
}

/// The partitioner of a map task, from the property that the driver set.
pub(crate) fn resolve(
    partition: &Partition,
    prefix: Option<GroupPrefix>,
    context: &Context,
) -> Result<Partition> {
    let Partition::Sampled = partition else { return Ok(partition.clone()) };
    let text = context.property(BOUNDARIES_PROPERTY).ok_or(Error::NoBoundaries)?;
    let ranges = decode(text).and_then(KeyRanges::new).ok_or(Error::NoBoundaries)?;
    Ok(Partition::Ranges(Arc::new(ranges), prefix))
}

fn encode(boundaries: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for (number, boundary) in boundaries.iter().enumerate() {
        if number > 0 {
            text.push(',');
        }
        for byte in boundary {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

fn decode(text: &str) -> Option<Vec<Vec<u8>>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let boundary = |hex: &str| {
        let pairs = hex.as_bytes().chunks(2);
        pairs.map(|pair| if pair.len() == 2 { byte(pair) } else { None }).collect()
    };
    text.split(',').map(boundary).collect()
}

#[cfg(test)]
#[path = "total_order_tests.rs"]
mod tests;
