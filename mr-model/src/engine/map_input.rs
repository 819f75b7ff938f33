//! How a mapper gets its input: the same for a map task and for the driver's sample.

use std::sync::Arc;

use mr_formats::codec::FileCodec;
use mr_formats::sources::{DecodedSource, NoSource, Ruled};
use mr_formats::{Cut, PassedOver, Source, SplitRange, TextRules};

use super::paths::{InputPaths, JobInput};
use crate::console::say;
use crate::error::Result;
use crate::map::{Emit, Mapper, Records, Sink};
use crate::task::replay::RecordPlace;
use crate::task::{Context, RecordCursor, TaskInput, TaskState};

/// A part of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapPart {
    /// The file.
    pub path: String,
    /// Its part.
    pub range: SplitRange,
}

impl MapPart {
    /// Tells the task that it reads this part of the job's input with this number.
    pub(crate) fn set_input(&self, number: u32, context: &Context) {
        let SplitRange { start, end } = self.range;
        let length = end.saturating_sub(start);
        let path = self.path.clone();
        TaskState::of(context).set_input(TaskInput { path, start, length, number });
    }
}

/// Opens a part of the input.
pub(crate) type OpenPart<'a> = dyn Fn(&MapPart) -> Result<Box<dyn Source>> + 'a;

/// The input of a job's maps and how far the reading has come.
pub(crate) struct MapInput<'a, F> {
    inputs: &'a [JobInput],
    format: &'a F,
    open: &'a OpenPart<'a>,
    cursor: &'a RecordCursor<'a>,
    stop_before: Option<RecordPlace>,
}

impl<'a, F> MapInput<'a, F> {
    pub(crate) fn new(
        inputs: &'a [JobInput],
        format: &'a F,
        open: &'a OpenPart<'a>,
        cursor: &'a RecordCursor<'a>,
    ) -> Self {
        MapInput { inputs, format, open, cursor, stop_before: None }
    }

    /// Has the process stop before it hands out this record.
    pub(crate) fn stopping_before(self, stop_before: Option<RecordPlace>) -> Self {
        MapInput { stop_before, ..self }
    }

    /// Runs `mapper` on the records of one part, which has this index in its split and belongs to the job's input number `input`. `around`
    /// wraps the source of the part's stored bytes.
    pub(crate) fn run<M: Mapper<In = F>, S: Sink, W: Source>(
        &self,
        (input, index, part): (u32, usize, &MapPart),
        around: impl FnOnce(Box<dyn Source>) -> W,
        mapper: &mut M,
        emit: &mut Emit<M::Key, M::Value, S>,
    ) -> Result<()> {
        self.cursor.position.set(Some(part.range.start));
        let rows = matches!(
            self.inputs.get(input as usize),
            Some(JobInput { paths: InputPaths::Rows { .. }, .. })
        );
        let source = around(if rows { Box::new(NoSource) } else { (self.open)(part)? });
        let mut source = Ruled { source, rules: text_rules(emit.context())? };
        let mut decoded;
        let (split, source): (SplitRange, &mut dyn Source) = match FileCodec::of_path(&part.path) {
            Some(FileCodec::Bzip2) if self.cut(input) == Some(Cut::TextBlocks) => {
                decoded = DecodedSource::enter(part.range, &mut source)?;
                (SplitRange { start: part.range.start, end: u64::MAX }, &mut decoded)
            }
            Some(codec) => {
                decoded = DecodedSource::open(codec, &mut source)?;
                (SplitRange { start: 0, end: u64::MAX }, &mut decoded)
            }
            None => (part.range, &mut source),
        };
        let stop_before = self.stop_before.as_ref().filter(|place| place.path == part.path);
        let stop_before = stop_before.map_or(u64::MAX, |place| place.offset);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let cursor = self.cursor.in_part(index, stop_before);
        mapper.run(Records::new(self.format, (split, source), cursor, input), emit)
    }

    fn cut(&self, input: u32) -> Option<Cut> {
        self.inputs.get(input as usize).map(|input| input.cut)
    }
}

/// The engine's counter of skipped lines.
const TOO_LONG: &str = "LINES_TOO_LONG";

/// How the properties of a task want text to be read. Skipped lines are counted and logged.
fn text_rules(context: &Context) -> Result<TextRules> {
    let state = TaskState::of(context);
    let mut rules = TextRules::of_job(state.properties())?;
    if rules.bytes_max.is_some() {
        let counter = state.engine_counter(TOO_LONG);
        rules.passed_over = Some(PassedOver(Arc::new(move |offset, length| {
            counter.increment();
            say(format_args!("passed over a line of {length} bytes at {offset}\n"));
        })));
    }
    Ok(rules)
}
