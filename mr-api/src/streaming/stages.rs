//! Mapper, combiner and reducer of a streaming job.

use std::sync::Arc;

use mr_model::Result;
use mr_model::map::{Emit, Mapper, Records, Sink};
use mr_model::reduce::{Groups, Reducer, Values};
use mr_model::runner::{CombineFilling, EmitPair, SortedPairs, TaskState};
use mr_model::task::{Context, Output};
use protocol::property::PipeEncoding as Encoding;

use super::args::{Spec, Work};
use super::input::{StreamInput, StreamRecord};
use super::io::{Field, RecordReader, RecordWriter, encode};
use super::key_field::KeyFields;
use super::read_ahead::ReadAhead;
use super::{aggregate, key_field, process, typed};
use crate::run::options;

/// Keys and values are bytes; the encodings of the job define their meaning.
type Bytes = Vec<u8>;

#[derive(Clone)]
pub(super) struct StreamMapper {
    work: Work,
    ignore_key: bool,
    writer: RecordWriter,
    reader: RecordReader,
    comparator: Option<Arc<KeyFields>>,
    /// How its pairs are encoded for the combiner and the reducer; text if there is no reduce.
    encoding: Encoding,
    /// There is no reduce: writes what a script prints in this encoding as text.
    to_text: Option<Encoding>,
}

impl StreamMapper {
    pub(super) fn new(spec: &Spec) -> Self {
        StreamMapper {
            work: spec.mapper.clone(),
            ignore_key: spec.ignore_key,
            writer: spec.map_input.clone(),
            reader: spec.map_output.clone(),
            comparator: spec.comparator.clone().filter(|_| !spec.is_map_only()),
            encoding: match spec.is_map_only() {
                true => Encoding::Text,
                false => spec.map_output.encoding,
            },
            to_text: spec.is_map_only().then_some(spec.map_output.encoding),
        }
    }
}

impl Mapper for StreamMapper {
    type In = StreamInput;
    type Key = Bytes;
    type Value = Bytes;

    fn run<S: Sink>(
        &mut self,
        records: Records<'_, StreamInput>,
        out: &mut Emit<Bytes, Bytes, S>,
    ) -> Result<()> {
        let StreamMapper { work, ignore_key, writer, reader, comparator, encoding, to_text } = self;
        let context = out.context().clone();
        // Records that no script has seen are text.
        let written = to_text.filter(|_| matches!(work, Work::Script(_)));
        let mut scratch = (Vec::new(), Vec::new());
        let mut emit = |key: &[u8], value: &[u8]| {
            if let Some(encoding) = written {
                let (key, value) = written_texts((key, value), encoding, &mut scratch);
                return out.emit(key, value);
            }
            match comparator {
                None => out.emit(key, value),
                Some(fields) => {
                    scratch.0.clear();
                    fields.encode(key, &mut scratch.0);
                    out.emit(&scratch.0[..], value)
                }
            }
        };
        let Work::Script(script) = work else {
            let (mut key, mut value) = (Vec::new(), Vec::new());
            return records.for_each(|record| {
                key.clear();
                value.clear();
                encode(record.key, *encoding, &mut key);
                encode(record.value, *encoding, &mut value);
                emit(&key, &value)
            });
        };
        let cursor = records.cursor();
        let mut ahead = options::script_counts(TaskState::of(&context).properties())?
            .then(|| ReadAhead::new(&context));
        let mut unreadable = false;
        let ran = process::run(
            script,
            &context,
            |feed| {
                let fed = records.feed(|at, StreamRecord { key, value, .. }| {
                    if let Some(ahead) = &mut ahead {
                        ahead.fed(at);
                    }
                    let key = (!*ignore_key).then_some(key);
                    feed.record(|pipe| writer.put(key, value, pipe))
                });
                unreadable = fed.as_ref().is_err_and(|error| !process::is_of_script(error));
                fed
            },
            |pipe| reader.read(pipe, &mut emit),
        );
        if ran.is_err() && !unreadable {
            // The script may be far behind what was written to it.
            match ahead.as_mut().and_then(ReadAhead::current) {
                Some(at) => cursor.blame(at),
                None => cursor.blame_none(),
            }
        }
        ran
    }

    fn map<S: Sink>(&mut self, _: StreamRecord<'_>, _: &mut Emit<Bytes, Bytes, S>) -> Result<()> {
        Ok(())
    }
}

/// The key that the map printed.
fn plain_key(key: &[u8], sorted: bool) -> &[u8] {
    if sorted { key_field::decode(key) } else { key }
}

#[derive(Clone)]
pub(super) struct StreamReducer {
    work: Work,
    /// How the map's pairs are encoded.
    encoding: Encoding,
    writer: RecordWriter,
    reader: RecordReader,
    sorted: bool,
}

impl StreamReducer {
    pub(super) fn new(spec: &Spec) -> Self {
        StreamReducer {
            work: spec.reducer.clone().unwrap_or(Work::Identity),
            encoding: spec.map_output.encoding,
            writer: spec.reduce_input.clone(),
            reader: spec.reduce_output.clone(),
            sorted: spec.comparator.is_some(),
        }
    }
}

impl Reducer for StreamReducer {
    type Key = Bytes;
    type Value = Bytes;

    fn run(&mut self, groups: &mut Groups<'_, Bytes, Bytes>, out: &mut Output) -> Result<()> {
        let StreamReducer { work, encoding, writer, reader, sorted } = self;
        let mut scratch = (Vec::new(), Vec::new());
        match work {
            Work::Script(script) => {
                let context = out.context().clone();
                // What a script prints about no input at all is dropped, as in Hadoop.
                let is_empty = groups.is_empty();
                process::run(
                    script,
                    &context,
                    |feed| {
                        while let Some((key, mut values)) = groups.next_group()? {
                            let key = Field::Bytes(plain_key(key, *sorted), *encoding);
                            while let Some(value) = values.next_value()? {
                                let value = Field::Bytes(value, *encoding);
                                feed.record(|pipe| writer.put(Some(key), value, pipe))?;
                            }
                        }
                        Ok(())
                    },
                    |pipe| {
                        reader.read(pipe, |key, value| {
                            if is_empty {
                                return Ok(());
                            }
                            let texts = (key, value);
                            let (key, value) = written_texts(texts, reader.encoding, &mut scratch);
                            out.write(key, value)
                        })
                    },
                )
            }
            Work::Identity => {
                while let Some((key, mut values)) = groups.next_group()? {
                    while let Some(value) = values.next_value()? {
                        let pair = (plain_key(key, *sorted), value);
                        let (key, value) = written_texts(pair, *encoding, &mut scratch);
                        out.write(key, value)?;
                    }
                }
                Ok(())
            }
            Work::Aggregate { unique_max } => {
                while let Some((key, mut values)) = groups.next_group()? {
                    let (mut sum, name) = aggregate::begin(plain_key(key, *sorted), *unique_max)?;
                    while let Some(value) = values.next_value()? {
                        sum.add(value)?;
                    }
                    out.write(name, sum.report())?;
                }
                Ok(())
            }
        }
    }

    fn reduce(&mut self, _: &[u8], _: &mut Values<'_, Bytes, Bytes>, _: &mut Output) -> Result<()> {
        Ok(())
    }
}

/// [`written_text`] of a pair.
fn written_texts<'a>(
    (key, value): (&'a [u8], &'a [u8]),
    encoding: Encoding,
    (key_text, value_text): &'a mut (Vec<u8>, Vec<u8>),
) -> (&'a [u8], &'a [u8]) {
    (written_text(key, encoding, key_text), written_text(value, encoding, value_text))
}

/// The text of a key or value in the output, which is `toString` of Hadoop's class for this encoding; made in `scratch` if it differs.
fn written_text<'a>(bytes: &'a [u8], encoding: Encoding, scratch: &'a mut Vec<u8>) -> &'a [u8] {
    scratch.clear();
    match encoding {
        Encoding::Text => return bytes,
        Encoding::Raw => typed::put_hex(bytes, " ", scratch),
        Encoding::Typed => typed::put_text(bytes, scratch),
    }
    scratch
}

/// A command (or the aggregate library) that reduces a map's sorted output before it is written.
#[derive(Clone)]
pub(super) struct StreamCombiner {
    work: Work,
    encoding: Encoding,
    writer: RecordWriter,
    reader: RecordReader,
    comparator: Option<Arc<KeyFields>>,
}

impl StreamCombiner {
    /// The job's combiner, if any: `-combiner`, or that of `-reducer aggregate`.
    pub(super) fn new(spec: &Spec) -> Option<Self> {
        let work = match (&spec.combiner, &spec.reducer) {
            (Some(work), _) => work.clone(),
            (None, Some(work @ Work::Aggregate { .. })) => work.clone(),
            _ => return None,
        };
        Some(StreamCombiner {
            work,
            encoding: spec.map_output.encoding,
            writer: spec.reduce_input.clone(),
            reader: spec.map_output.clone(),
            comparator: spec.comparator.clone(),
        })
    }
}

impl CombineFilling for StreamCombiner {
    type Key = Bytes;
    type Value = Bytes;

    fn combine_filling(
        &mut self,
        context: &Context,
        pairs: &mut SortedPairs<'_>,
        emit: &mut EmitPair<'_>,
    ) -> Result<()> {
        let StreamCombiner { work, encoding, writer, reader, comparator } = self;
        let sorted = comparator.is_some();
        let mut scratch = Vec::new();
        let mut emit = |key: &[u8], value: &[u8]| match comparator {
            None => emit(key, value),
            Some(fields) => {
                scratch.clear();
                fields.encode(key, &mut scratch);
                emit(&scratch, value)
            }
        };
        match work {
            Work::Identity => {
                while let Some((key, value)) = pairs.next_pair() {
                    emit(plain_key(key, sorted), value)?;
                }
                Ok(())
            }
            Work::Aggregate { unique_max } => {
                let mut current: Option<(Vec<u8>, aggregate::Aggregate)> = None;
                while let Some((key, value)) = pairs.next_pair() {
                    let key = plain_key(key, sorted);
                    if current.as_ref().is_none_or(|(known, _)| known != key) {
                        if let Some((known, sum)) = current.take() {
                            sum.parts(|part| emit(&known, part))?;
                        }
                        current = Some((key.to_vec(), aggregate::begin(key, *unique_max)?.0));
                    }
                    if let Some((_, sum)) = &mut current {
                        sum.add(value)?;
                    }
                }
                match current {
                    Some((known, sum)) => sum.parts(|part| emit(&known, part)),
                    None => Ok(()),
                }
            }
            Work::Script(script) => process::run(
                script,
                context,
                |feed| {
                    while let Some((key, value)) = pairs.next_pair() {
                        let key = Field::Bytes(plain_key(key, sorted), *encoding);
                        let value = Field::Bytes(value, *encoding);
                        feed.record(|pipe| writer.put(Some(key), value, pipe))?;
                    }
                    Ok(())
                },
                |pipe| reader.read(pipe, &mut emit),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_the_text_of_hadoops_classes() {
        let double = [&[6][..], &1e10f64.to_be_bytes()].concat();
        for (encoding, bytes, text) in [
            (Encoding::Text, &b"a\xff"[..], &b"a\xff"[..]),
            (Encoding::Raw, b"", b""),
            (Encoding::Raw, b"a\xff\0", b"61 ff 00"),
            (Encoding::Typed, &double, b"1.0E10"),
            (Encoding::Typed, b"\0\0\0\0\x02a\xff", b"61ff"),
        ] {
            assert_eq!(written_text(bytes, encoding, &mut Vec::new()), text, "{encoding:?}");
        }
    }
}
