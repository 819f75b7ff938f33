//! Input formats of streaming jobs.

use mr_formats::{Cut, Format, Line, Lines, NLines, Source, SplitRange};
use mr_model::Result;
use protocol::property::PipeEncoding as Encoding;

use super::io::Field;

/// How input files become records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum InputKind {
    Text,
    KeyValueText,
    /// So many lines for each map.
    NLines(NLines),
}

/// The input formats of streaming jobs, chosen by name.
#[derive(Clone)]
pub(super) struct StreamInput {
    kind: InputKind,
    separator: u8,
}

/// A record of any of them.
pub(super) struct StreamRecord<'a> {
    pub(super) key: Field<'a>,
    pub(super) value: Field<'a>,
    line: &'a [u8],
}

/// Separates key and value of `KeyValueTextInputFormat`, by its property.
const KEY_VALUE_SEPARATOR: u8 = b'\t';

impl StreamInput {
    pub(super) fn new(kind: InputKind, separator: Option<u8>) -> Self {
        StreamInput { kind, separator: separator.unwrap_or(KEY_VALUE_SEPARATOR) }
    }

    fn record<'a>(&self, line: Line<'a>) -> StreamRecord<'a> {
        let text = |bytes| Field::Bytes(bytes, Encoding::Text);
        match self.kind {
            InputKind::Text | InputKind::NLines(_) => {
                let (key, value) = (Field::Number(line.offset), text(line.bytes));
                StreamRecord { key, value, line: line.bytes }
            }
            InputKind::KeyValueText => {
                let (key, value) = match memchr::memchr(self.separator, line.bytes) {
                    Some(at) => (&line.bytes[..at], &line.bytes[at + 1..]),
                    None => (line.bytes, &[][..]),
                };
                StreamRecord { key: text(key), value: text(value), line: line.bytes }
            }
        }
    }
}

impl Format for StreamInput {
    type Record<'a> = StreamRecord<'a>;

    fn cut(&self) -> Cut {
        match self.kind {
            InputKind::NLines(lines) => lines.cut(),
            InputKind::Text | InputKind::KeyValueText => Cut::TextBlocks,
        }
    }

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, StreamRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut each = |at, line: Line<'_>| each(at, self.record(line));
        match self.kind {
            InputKind::NLines(lines) => lines.read(split, source, &mut each),
            InputKind::Text | InputKind::KeyValueText => Lines.read(split, source, &mut each),
        }
    }

    fn bytes<'r>(record: &Self::Record<'r>) -> Option<&'r [u8]> {
        Some(record.line)
    }
}
