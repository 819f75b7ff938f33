//! Files of the cluster as sources and outputs of tasks.

use std::io::{self, Write};

use client::dfs::{BlockSlice, DfsReader, DfsWriter};

use crate::error::BoxError;
use crate::input::Source;
use crate::output::OutputFile;

/// Most bytes of a slice: progress and memory go by it where the block is not mapped.
const SLICE_BYTES_MAX: usize = 1 << 20;

/// A file read through mapped blocks where they are on this machine.
pub(crate) struct DfsSource {
    reader: DfsReader,
    slice: Option<BlockSlice>,
}

impl DfsSource {
    pub(crate) fn new(reader: DfsReader) -> Self {
        DfsSource { reader, slice: None }
    }
}

impl Source for DfsSource {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        // The last slice's memory can be used for the next one.
        self.slice = None;
        let slice = self.reader.next_slice(offset, SLICE_BYTES_MAX)?;
        Ok(self.slice.insert(slice))
    }
}

/// A part file being written.
pub(crate) struct DfsOutput(pub(crate) DfsWriter);

impl Write for DfsOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl OutputFile for DfsOutput {
    fn close(self: Box<Self>) -> Result<(), BoxError> {
        Ok(self.0.close()?)
    }
}
