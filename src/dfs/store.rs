//! The file system as shell commands call it: every failure comes back in the shell's words about the path that was typed.

use std::error::Error;
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::Result as AnyResult;
use client::ClientConfig;
use client::dfs::checksum::FileChecksum;
use client::dfs::{CreateOptions, DfsClient, DfsError, DfsReader, DfsWriter};
use protocol::DfsPath;
use protocol::namenode::{
    ClusterStatus, ContentSummary, DatanodeReport, FileStatus, LocatedBlocks,
};

use super::context::Item;
use super::error::Failure;
use super::path::Named;
use super::properties::Properties;
use crate::connect;

/// Entries handed over at once by [`Store::list`].
const PAGE_ENTRIES: usize = 1000;
/// Most bytes handed over at once by [`Store::read`]: large enough that writing them out is a few system calls.
const SLICE_BYTES: usize = 4 << 20;
/// Most threads that read one file in [`Store::read_by_blocks`], if there are as many cores: a local disk takes no more.
const BLOCK_READERS_MAX: usize = 4;

/// A client of the file system. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Store {
    client: DfsClient,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub(super) struct WriteOptions {
    /// Final path, taken when the file is closed.
    pub(super) publish_as: Option<DfsPath>,
    /// Replace a file at the final path.
    pub(super) overwrite: bool,
    /// Permission bits that it does not get.
    pub(super) umask: u16,
    /// Replicas; `None` for the default.
    pub(super) replication: Option<u16>,
    /// Bytes per block; `None` for the default.
    pub(super) block_size: Option<u64>,
}

impl Store {
    /// Makes first contact with the NameNode.
    pub(super) fn connect(config: &ClientConfig) -> AnyResult<Self> {
        Ok(Store { client: connect::file_system(config)? })
    }

    /// Acting user.
    pub(super) fn user(&self) -> &str {
        self.client.user()
    }

    /// Address of the NameNode.
    pub(super) fn base(&self) -> &str {
        self.client.namenode()
    }

    /// What a path is; a failure if there is nothing.
    pub(super) fn status(&self, named: &Named) -> Result<FileStatus, Failure> {
        self.client.status(&named.path).map_err(|error| refused(named, &error))
    }

    /// What a path is, if anything.
    pub(super) fn find(&self, named: &Named) -> Result<Option<FileStatus>, Failure> {
        self.client.try_status(&named.path).map_err(|error| refused(named, &error))
    }

    /// Entries of a directory in byte order of names, page by page.
    pub(super) fn list(
        &self,
        named: &Named,
        mut each: impl FnMut(Vec<FileStatus>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut page = Vec::new();
        for entry in self.client.list(&named.path) {
            page.push(entry.map_err(|error| refused(named, &error))?);
            if page.len() == PAGE_ENTRIES {
                each(std::mem::take(&mut page))?;
            }
        }
        each(page)
    }

    /// All entries of a directory with their names.
    pub(super) fn children(&self, named: &Named) -> Result<Vec<Item>, Failure> {
        let mut items = Vec::new();
        self.list(named, |page| {
            for status in page {
                items.push(Item { named: named.child(&status.name)?, status });
            }
            Ok(())
        })?;
        Ok(items)
    }

    /// The client itself, for calls that no other command makes.
    pub(super) fn client(&self) -> &DfsClient {
        &self.client
    }

    /// Totals of a subtree.
    pub(super) fn summary(&self, named: &Named) -> Result<ContentSummary, Failure> {
        self.client.content_summary(&named.path).map_err(|error| refused(named, &error))
    }

    /// All DataNodes.
    pub(super) fn datanodes(&self) -> Result<Vec<DatanodeReport>, Failure> {
        self.client.datanodes().map_err(|error| Failure::remote("", &error))
    }

    /// State of the NameNode.
    pub(super) fn cluster_status(&self) -> Result<ClusterStatus, Failure> {
        self.client.cluster_status().map_err(|error| Failure::remote("", &error))
    }

    /// Opens a file for reading from its start.
    pub(super) fn open(&self, named: &Named) -> Result<DfsReader, Failure> {
        self.client.open(&named.path).map_err(|error| refused(named, &error))
    }

    /// HDFS's checksum of a file.
    pub(super) fn checksum(&self, named: &Named) -> Result<FileChecksum, Failure> {
        FileChecksum::of(&self.client, &named.path).map_err(|error| refused(named, &error))
    }

    /// Where a file's blocks are.
    pub(super) fn locations(&self, named: &Named) -> Result<LocatedBlocks, Failure> {
        self.client.locations(&named.path, 0, u64::MAX).map_err(|error| refused(named, &error))
    }

    /// Makes a directory.
    pub(super) fn mkdirs(&self, named: &Named, umask: u16, parents: bool) -> Result<(), Failure> {
        let made = self.client.mkdirs_masked(&named.path, umask, parents);
        made.map_err(|error| refused(named, &error))
    }

    /// Deletes; false if there was nothing.
    pub(super) fn delete(&self, named: &Named, recursive: bool) -> Result<bool, Failure> {
        self.client.delete(&named.path, recursive).map_err(|error| refused(named, &error))
    }

    /// Renames to exactly `to`, which must not exist.
    pub(super) fn rename(&self, from: &Named, to: &Named) -> Result<(), Failure> {
        let renamed = self.client.rename_to(&from.path, &to.path, false);
        renamed.map_err(|error| refused(to, &error))
    }

    /// Sets the wanted number of replicas; false if that is no file.
    pub(super) fn set_replication(&self, named: &Named, wanted: u16) -> Result<bool, Failure> {
        self.client.set_replication(&named.path, wanted).map_err(|error| refused(named, &error))
    }

    /// Sets permission bits.
    pub(super) fn set_mode(&self, named: &Named, mode: u16) -> Result<(), Failure> {
        self.client.set_mode(&named.path, mode).map_err(|error| refused(named, &error))
    }

    /// Sets owner and group; an empty one stays.
    pub(super) fn set_owner(&self, named: &Named, owner: &str, group: &str) -> Result<(), Failure> {
        let set = self.client.set_owner(&named.path, owner, group);
        set.map_err(|error| refused(named, &error))
    }

    /// Sets times, milliseconds since the epoch; `None` stays.
    pub(super) fn set_times(
        &self,
        named: &Named,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> Result<(), Failure> {
        let set = self.client.set_times(&named.path, mtime_ms, atime_ms);
        set.map_err(|error| refused(named, &error))
    }

    /// Makes an empty file, or empties the one that is there.
    pub(super) fn create_empty(
        &self,
        named: &Named,
        properties: &Properties,
    ) -> Result<(), Failure> {
        let options = WriteOptions {
            publish_as: None,
            overwrite: true,
            umask: properties.umask,
            replication: properties.replication,
            block_size: properties.block_size,
        };
        self.create(named, &options)?.close()
    }

    /// Opens a file for writing. Its parent must exist.
    pub(super) fn create(&self, named: &Named, options: &WriteOptions) -> Result<Writer, Failure> {
        let create = CreateOptions {
            // A temporary file may be left over from a writer that was killed.
            overwrite: options.overwrite || options.publish_as.is_some(),
            parents: false,
            replication: options.replication,
            block_size: options.block_size,
            mode: 0o666 & !options.umask,
            unmasked: Some(0o666),
            publish_as: options.publish_as.clone(),
            publish_overwrite: options.overwrite,
        };
        let writer = self.client.create(&named.path, create);
        let writer = writer.map_err(|error| refused(named, &error))?;
        Ok(Writer { writer, named: named.clone() })
    }

    /// Opens a file for writing at its end. A writer that is dropped leaves it with what was there.
    pub(super) fn append(&self, named: &Named, new_block: bool) -> Result<Writer, Failure> {
        let writer = self.client.append(&named.path, new_block);
        let writer = writer.map_err(|error| refused(named, &error))?;
        Ok(Writer { writer, named: named.clone() })
    }

    /// Cuts a file; false if its last block is still being cut.
    pub(super) fn truncate(&self, named: &Named, length: u64) -> Result<bool, Failure> {
        self.client.truncate(&named.path, length).map_err(|error| refused(named, &error))
    }

    /// Moves the blocks of `sources` to the end of a file.
    pub(super) fn concat(&self, named: &Named, sources: &[DfsPath]) -> Result<(), Failure> {
        self.client.concat(&named.path, sources).map_err(|error| refused(named, &error))
    }

    /// Hands `length` bytes from `offset` on to `sink`, in order, without copying them.
    pub(super) fn read(
        &self,
        named: &Named,
        offset: u64,
        length: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut reader = self.client.open(&named.path).map_err(|error| refused(named, &error))?;
        let end = offset.saturating_add(length).min(reader.len());
        read_range(&mut reader, named, offset..end, |_, bytes| sink(bytes))
    }

    /// Hands all bytes of a file to `sink` with their places, from several threads if it has several blocks. Stops at the first
    /// failure.
    pub(super) fn read_by_blocks(
        &self,
        named: &Named,
        sink: &(impl Fn(u64, &[u8]) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let reader = self.client.open(&named.path).map_err(|error| refused(named, &error))?;
        let ranges: Vec<Range<u64>> = reader
            .blocks()
            .map(|block| block.offset..(block.offset + block.length).min(reader.len()))
            .collect();
        let next = AtomicUsize::new(0);
        let read = |mut reader: DfsReader| {
            while let Some(range) = ranges.get(next.fetch_add(1, Ordering::Relaxed)) {
                let result = read_range(&mut reader, named, range.clone(), sink);
                if result.is_err() {
                    next.store(ranges.len(), Ordering::Relaxed);
                    return result;
                }
            }
            Ok(())
        };
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let threads = ranges.len().min(cores).min(BLOCK_READERS_MAX);
        thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|_| reader.another())
                .map(|reader| scope.spawn(|| read(reader)))
                .collect();
            let first = read(reader);
            let joined = others
                .into_iter()
                .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.fold(first, Result::and)
        })
    }
}

/// Hands the bytes of a range to `sink` with their places, in order, without copying them.
fn read_range(
    reader: &mut DfsReader,
    named: &Named,
    range: Range<u64>,
    mut sink: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut at = range.start;
    while at < range.end {
        let max = usize::try_from(range.end - at).unwrap_or(SLICE_BYTES).min(SLICE_BYTES);
        let slice = reader.next_slice(at, max).map_err(|error| refused(named, &error))?;
        if slice.is_empty() {
            return Ok(());
        }
        sink(at, &slice)?;
        at += slice.len() as u64;
    }
    Ok(())
}

/// A file being written.
pub(super) struct Writer {
    writer: DfsWriter,
    named: Named,
}

impl Writer {
    /// Appends everything that `source` gives; `fail` words an error of the source itself.
    pub(super) fn write_from(
        &mut self,
        source: &mut impl Read,
        fail: &dyn Fn(&io::Error) -> Failure,
    ) -> Result<(), Failure> {
        match self.writer.write_from(source) {
            Ok(_) => Ok(()),
            Err(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(remote) => Err(refused::<DfsError>(&self.named, remote)),
                None => Err(fail(&error)),
            },
        }
    }

    /// Appends `bytes`.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.write_from(&mut &bytes[..], &|error| Failure::Text(error.to_string()))
    }

    /// Makes the file durable and publishes it. A writer that is dropped instead deletes it.
    pub(super) fn close(self) -> Result<(), Failure> {
        self.writer.close().map_err(|error| refused(&self.named, &error))
    }
}

fn refused<E: Error + 'static>(named: &Named, error: &E) -> Failure {
    Failure::remote(&named.typed, error)
}
