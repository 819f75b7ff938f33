//! A job in a file format of its own, which it writes and reads: records in groups, with an index of the groups at the end of a file.
//!
//! ```text
//! framed write IN OUT    counts words into such files
//! framed read IN OUT     makes text of them
//!
//! file = group* | begin of each group, u32 | number of groups, u32
//! group = up to 100 of: length u8, word, count u64
//! ```

use std::process::ExitCode;

use mr_api::formats::{
    Cut, Format, NewFile, OutputFormat, RecordWriter, Source, SplitRange, ToText,
};
use mr_api::job::to_files;
use mr_api::{Args, Job, Plan, Result, Sum, from_files, reduce_fn, text, text_out};

/// Records of a group.
const GROUP_RECORDS: u32 = 100;

fn main() -> ExitCode {
    mr_api::main("Usage: framed write|read IN OUT", plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let operands = args.operands()?;
    let [mode, input, output] = &operands[..] else {
        return mr_api::usage_error("three operands are needed");
    };
    Ok(match &mode[..] {
        "write" => Job::new("framed write")
            .input(text([input]))
            .map_fn::<Vec<u8>, u64, _>(|line, out| {
                line.words().try_for_each(|word| out.emit(word, 1u64))
            })
            .combine(Sum)
            .reduce(reduce_fn::<Vec<u8>, u64, _>(|word, counts, out| {
                let count = counts.fold(&Sum)?.unwrap_or_default();
                out.with::<FrameWriter>(|file| file.add(word, count))
            }))
            .output(to_files(output, Frames))
            .into(),
        _ => Job::new("framed read")
            .input(from_files([input], Frames))
            .map_fn::<Vec<u8>, u64, _>(|(word, count), out| out.emit(word, count))
            .output(text_out(output))
            .into(),
    })
}

#[derive(Clone, Debug)]
struct Frames;

#[derive(Default)]
struct FrameWriter {
    ready: Vec<u8>,
    /// Bytes and records so far.
    bytes: u32,
    records: u32,
    groups: Vec<u8>,
}

impl FrameWriter {
    fn add(&mut self, word: &[u8], count: u64) -> Result<()> {
        if self.records.is_multiple_of(GROUP_RECORDS) {
            self.groups.extend(self.bytes.to_be_bytes());
        }
        self.ready.push(u8::try_from(word.len())?);
        self.ready.extend(word);
        self.ready.extend(count.to_be_bytes());
        self.bytes += word.len() as u32 + 9;
        self.records += 1;
        Ok(())
    }
}

impl RecordWriter for FrameWriter {
    fn write(&mut self, _: &dyn ToText, _: &dyn ToText) -> Result<bool> {
        Err("words and counts are added".into())
    }

    fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.ready
    }

    fn end(&mut self) -> Result<()> {
        self.ready.extend(&self.groups);
        self.ready.extend((self.groups.len() as u32 / 4).to_be_bytes());
        Ok(())
    }
}

impl OutputFormat for Frames {
    fn begin(&self, _: &NewFile<'_>) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(FrameWriter::default()))
    }
}

/// The bytes from `start` to `end`.
fn bytes(source: &mut dyn Source, start: u64, end: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while start + (bytes.len() as u64) < end {
        let slice = source.slice(start + bytes.len() as u64)?;
        let missing = (end - start) as usize - bytes.len();
        if slice.is_empty() {
            return Err("the file is cut off".into());
        }
        bytes.extend(&slice[..slice.len().min(missing)]);
    }
    Ok(bytes)
}

/// Where groups begin, and where the last of them ends.
fn index(source: &mut dyn Source) -> Result<(Vec<u64>, u64)> {
    let length = source.length().ok_or("the length of the file is not known")?;
    let number = |bytes: &[u8]| Some(u64::from(u32::from_be_bytes(*bytes.first_chunk()?)));
    let end = length.checked_sub(4).ok_or("the file is cut off")?;
    let count = number(&bytes(source, end, length)?).unwrap_or_default();
    let begin = end.checked_sub(count * 4).ok_or("the file is cut off")?;
    Ok((bytes(source, begin, end)?.chunks(4).filter_map(number).collect(), begin))
}

impl Format for Frames {
    type Record<'a> = (&'a [u8], u64);

    fn cut(&self) -> Cut {
        Cut::Groups
    }

    fn groups(&self, source: &mut dyn Source) -> Result<Vec<u64>> {
        Ok(index(source)?.0)
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, (&[u8], u64)) -> Result<()>,
    ) -> Result<()> {
        let (begins, records_end) = index(source)?;
        let end = begins.iter().copied().find(|begin| *begin >= split.end).unwrap_or(records_end);
        let Some(begin) = begins.into_iter().find(|begin| *begin >= split.start) else {
            return Ok(());
        };
        let group = bytes(source, begin, end.max(begin))?;
        let (mut rest, cut_off) = (&group[..], || "a record is cut off");
        while let Some((length, behind)) = rest.split_first() {
            let at = end - rest.len() as u64;
            let (word, behind) = behind.split_at_checked((*length).into()).ok_or_else(cut_off)?;
            let (count, behind) = behind.split_first_chunk().ok_or_else(cut_off)?;
            each(at, (word, u64::from_be_bytes(*count)))?;
            rest = behind;
        }
        Ok(())
    }
}
