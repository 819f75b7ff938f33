//! Global total order: each reduce task takes a range of keys, so the outputs, one after the other, are sorted as a whole.
//!
//! ```text
//! driver     places spread over the input ─► the job's own mapper ─► keys ─► boundaries ─► job property
//! map task   boundaries from the property ─► partition of each key
//! ```
//!
//! Invariants: the same input and options give the same boundaries; boundaries decide which task gets a key, never whether the output is
//! right; sampling reads at most [`PLACES`] times [`PLACE_BYTES_MAX`] and ends early once it has enough keys.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use mr_formats::codec::FileCodec;
use mr_formats::{Cut, SplitRange};
use protocol::property::Properties;
use protocol::{AttemptId, JobId, TaskId, TaskKind};
use shuffle::{GroupPrefix, KeyRanges};

use super::map_input::{MapPart, OpenPart};
use super::sampler::{PLACE_BYTES_MAX, SamplePlace, Sampler};
use super::settings::JobSettings;
use super::side_file;
use crate::console::say;
use crate::error::{Error, Result};
use crate::map::Partition;
use crate::scratch::Scratch;
use crate::task::{Context, OpenFile, TaskCounts, TaskState};

/// Job property that holds the boundaries for the tasks: hexadecimal, separated by commas.
pub const BOUNDARIES_PROPERTY: &str = "hanno.total.order.boundaries";
/// Places of the input to sample. Sections of the input may be sorted, so many places with few keys say more than few places with many
/// keys.
const PLACES: u64 = 64;

/// What sampling the input of a job needs.
pub struct Sampling<'a> {
    /// Of the job.
    pub settings: &'a JobSettings,
    /// The job's sampler.
    pub sampler: &'a dyn Sampler,
    /// Inputs of the maps: the number of the job's input each belongs to, and their parts.
    pub splits: &'a [(u32, Vec<MapPart>)],
    /// How many there are.
    pub reduces: u32,
    /// Of the job.
    pub properties: Properties,
    /// The directory that the mapper sees as its attempt's.
    pub directory: Scratch,
    /// Their paths by their names.
    pub side_files: BTreeMap<String, PathBuf>,
    /// Opens files for user code.
    pub open: Arc<OpenFile>,
}

impl Sampling<'_> {
    /// The property with the boundaries.
    ///
    /// # Errors
    /// Those of the input and of the mapper.
    pub fn boundaries(self, open: &OpenPart<'_>) -> Result<String> {
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
        let context = self.context()?;
        let mut keys = sampler.sample(&settings.inputs, &context, &places, open)?;
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

    /// The context of a map task that reads all places, one after the other.
    fn context(&self) -> Result<Context> {
        let job = JobId { cluster_start: 0, number: 0 };
        let task = TaskId { job, kind: TaskKind::Map, index: 0 };
        let context = Context::new(AttemptId { task, number: 0 }, self.properties.clone());
        side_file::link(&self.side_files, self.directory.path())?;
        let state = TaskState::of(&context);
        state.set_directory(self.directory.path().to_owned(), self.side_files.clone());
        state.set_open(self.open.clone());
        let maps = self.splits.len() as u32;
        state.set_task_counts(TaskCounts { maps, reduces: self.reduces });
        Ok(context)
    }
}

/// At most `count` places spread evenly over the input. Where a reader can find records from any byte on, a place begins anywhere and ends
/// before the next. Elsewhere a place is one whole part, taken once.
fn places(
    splits: &[(u32, Vec<MapPart>)],
    count: u64,
    cuttable: impl Fn(u32, &MapPart) -> bool,
) -> Vec<SamplePlace> {
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
            let place = SamplePlace { input, part: MapPart { path: part.path.clone(), range } };
            if range.start < range.end && places.last() != Some(&place) {
                places.push(place);
            }
        }
        passed = end;
    }
    places
}

/// The partitioner of a map task, made from the property that the driver set.
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
