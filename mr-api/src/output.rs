//! Text output of reduces and of map-only jobs: `key`, separator, `value`, newline.

use std::fs::File;
use std::io::{self, Write};

use crate::Result;
use crate::context::{Context, OUTPUT_COUNTERS};
use crate::error::BoxError;
use crate::text::ToText;

/// Name of the property that holds the separator between key and value; a tab by default.
pub(crate) const SEPARATOR_PROPERTY: &str = "mapreduce.output.textoutputformat.separator";
/// Written at once: large calls are cheaper, and this still fits the second-level cache.
const BUFFER_BYTES: usize = 256 << 10;

/// The file that an [`Output`] fills.
pub(crate) trait OutputFile: Write + Send {
    /// Makes the file complete and durable.
    fn close(self: Box<Self>) -> Result<(), BoxError>;
}

impl OutputFile for File {
    fn close(self: Box<Self>) -> Result<(), BoxError> {
        Ok(())
    }
}

/// Takes the output records of a task.
pub struct Output {
    buffer: Vec<u8>,
    file: Box<dyn OutputFile>,
    separator: Vec<u8>,
    context: Context,
    records: u64,
    bytes: u64,
}

impl Output {
    pub(crate) fn new(file: Box<dyn OutputFile>, context: Context) -> Self {
        let separator = context.property(SEPARATOR_PROPERTY).unwrap_or("\t").as_bytes().to_vec();
        let buffer = Vec::with_capacity(BUFFER_BYTES + 4096);
        Output { buffer, file, separator, context, records: 0, bytes: 0 }
    }

    /// Writes a line. An absent key or value (`()`, `None`) is left out together with the separator; nothing at all is written if
    /// both are absent.
    ///
    /// # Errors
    /// What the file system says.
    #[inline]
    pub fn write(&mut self, key: impl ToText, value: impl ToText) -> Result<()> {
        let (key_absent, value_absent) = (key.is_absent(), value.is_absent());
        if key_absent && value_absent {
            return Ok(());
        }
        key.write_text(&mut self.buffer);
        if !key_absent && !value_absent {
            self.buffer.extend_from_slice(&self.separator);
        }
        value.write_text(&mut self.buffer);
        self.buffer.push(b'\n');
        self.records += 1;
        if self.buffer.len() >= BUFFER_BYTES { Ok(self.flush()?) } else { Ok(()) }
    }

    /// The task's surroundings.
    pub fn context(&self) -> &Context {
        &self.context
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bytes += self.buffer.len() as u64;
        self.file.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Completes the file; the number of records written.
    pub(crate) fn close(mut self) -> Result<u64> {
        self.flush()?;
        self.file.close()?;
        self.context.counter(OUTPUT_COUNTERS, "BYTES_WRITTEN").add(self.bytes);
        Ok(self.records)
    }
}
