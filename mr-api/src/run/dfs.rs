//! Files of the cluster as sources and outputs of tasks.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::dfs::{BlockSlice, DfsClient, DfsReader, DfsWriter};
use mr_formats::{Source, SplitRange};
use mr_model::runner::{MapPart, OpenFile, OutputFile};
use mr_model::{BoxError, Error, Result};
use protocol::DfsPath;
use protocol::jobs::Split;

use super::address;

/// Most bytes of a slice, the unit of progress and memory where the block is not mapped.
const SLICE_BYTES_MAX: usize = 1 << 20;

/// A file, read through mapped blocks if they are on this machine.
struct DfsSource {
    reader: DfsReader,
    slice: Option<BlockSlice>,
}

/// The parts that a map of a split reads, one after the other.
pub(crate) fn map_parts(split: &Split) -> Vec<MapPart> {
    let part = |path: &DfsPath, start: u64, length: u64| MapPart {
        path: path.to_string(),
        range: SplitRange { start, end: start.saturating_add(length) },
    };
    let more = split.more.iter().map(|more| part(&more.path, more.offset, more.length));
    std::iter::once(part(&split.path, split.offset, split.length)).chain(more).collect()
}

/// Opens a part of the input of a map.
pub(crate) fn open_part(dfs: &DfsClient, part: &MapPart) -> Result<Box<dyn Source>> {
    let reader = open(dfs, &DfsPath::parse(&part.path)?)?;
    Ok(Box::new(DfsSource { reader, slice: None }))
}

/// Opens files for user code.
pub(crate) fn opener(dfs: &DfsClient) -> Arc<OpenFile> {
    let dfs = dfs.clone();
    Arc::new(move |path| Ok(Box::new(open(&dfs, &address::of_cluster(&dfs, path)?)?)))
}

fn open(dfs: &DfsClient, path: &DfsPath) -> Result<DfsReader> {
    Ok(dfs.open(path).map_err(Error::dfs("open", path))?)
}

/// Bytes that went between this process and the cluster's file system, but for those of the inputs.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

impl Traffic {
    /// Bytes read and written so far.
    pub(crate) fn so_far(&self) -> [u64; 2] {
        [&self.read, &self.written].map(|bytes| bytes.load(Ordering::Relaxed))
    }
}

/// As [`opener`]; counts the bytes that are read.
pub(crate) fn counting_opener(dfs: &DfsClient, traffic: Arc<Traffic>) -> Arc<OpenFile> {
    let open = opener(dfs);
    Arc::new(move |path| {
        Ok(Box::new(Counting { file: open(path)?, traffic: Arc::clone(&traffic) }))
    })
}

/// A file whose bytes are counted as they are read.
struct Counting {
    file: Box<dyn Read>,
    traffic: Arc<Traffic>,
}

impl Read for Counting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.traffic.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

impl Source for DfsSource {
    fn slice(&mut self, offset: u64) -> io::Result<&[u8]> {
        // The next slice can reuse the last slice's memory.
        self.slice = None;
        let slice = self.reader.next_slice(offset, SLICE_BYTES_MAX)?;
        Ok(self.slice.insert(slice))
    }

    fn length(&self) -> Option<u64> {
        Some(self.reader.len())
    }
}

/// A part file being written, and what counts its bytes.
pub(crate) struct DfsOutput(pub(crate) DfsWriter, pub(crate) Arc<Traffic>);

impl Write for DfsOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.0.write(bytes)?;
        self.1.written.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
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
