//! Text as output: lines of key, separator and value, or keys and values unchanged.

use protocol::property::keys;

use super::render::ToText;
use crate::error::Result;
use crate::output::{NewFile, OutputFormat, RecordWriter};

/// Lines `key<TAB>value`, with another separator if the job's properties say so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TextOutput {
    /// Writes nothing between and after records.
    pub raw: bool,
}

/// Makes lines.
#[derive(Debug)]
pub struct TextWriter {
    /// Between key and value.
    separator: Vec<u8>,
    /// Written after a record.
    terminator: &'static [u8],
    ready: Vec<u8>,
}

impl OutputFormat for TextOutput {
    fn begin(&self, file: &NewFile<'_>) -> Result<Box<dyn RecordWriter>> {
        let separator = keys::OUTPUT_SEPARATOR.get(file.properties)?;
        let (separator, terminator) = match self.raw {
            true => (Vec::new(), &b""[..]),
            false => (separator.map_or_else(|| b"\t".to_vec(), String::into_bytes), &b"\n"[..]),
        };
        Ok(Box::new(TextWriter { separator, terminator, ready: Vec::new() }))
    }
}

impl TextWriter {
    /// Adds a line. An absent key or value is left out together with the separator; false if both are absent.
    #[inline]
    pub fn line(&mut self, key: impl ToText, value: impl ToText) -> bool {
        let (key_absent, value_absent) = (key.is_absent(), value.is_absent());
        if key_absent && value_absent {
            return false;
        }
        key.write_text(&mut self.ready);
        if !key_absent && !value_absent {
            self.ready.extend_from_slice(&self.separator);
        }
        value.write_text(&mut self.ready);
        self.ready.extend_from_slice(self.terminator);
        true
    }
}

impl RecordWriter for TextWriter {
    fn write(&mut self, key: &dyn ToText, value: &dyn ToText) -> Result<bool> {
        Ok(self.line(key, value))
    }

    #[inline]
    fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.ready
    }
}
