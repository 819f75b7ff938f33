//! File systems as shell commands call them: the cluster's and this machine's behind one set of operations, each of which runs where its path leads. Every
//! failure is in the shell's words about the path as typed; operations that only the cluster supports are refused for a path of this machine.

use std::error::Error;
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use client::ClientConfig;
use client::dfs::checksum::FileChecksum;
use client::dfs::{CreateOptions, DfsClient, DfsError, DfsReader, DfsWriter, Parents, SmallFile};
use client::interrupt::Undisturbed;
use protocol::acl::AclStatus;
use protocol::namenode::{ClusterStatus, ContentSummary, FileStatus, LocatedBlocks, Room};
use protocol::permission::Action;
use protocol::property::Umask;
use protocol::{DfsPath, ErrorKind, InodeId};
use sys::host::users;

use super::error::{Failure, Problem};
use super::machine::{self, Machine, MachineWriter};
use super::named::{Item, Named};
use super::path::FsPath;
use crate::connect;

/// Entries passed on at once by [`Store::list`].
const PAGE_ENTRIES: usize = 1000;
/// Most bytes passed on at once by [`Store::read`]: large enough for few system calls when they are written.
const SLICE_BYTES: usize = 4 << 20;
/// Most threads that read one file in [`Store::read_by_blocks`], if there are as many cores: a local disk gains nothing from more.
const BLOCK_READERS_MAX: usize = 4;

/// The file systems. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    config: ClientConfig,
    /// Made at the first use of a path of the cluster.
    client: OnceLock<DfsClient>,
    machine: Machine,
    /// True to read files of the cluster even if they are damaged.
    ignores_checksums: bool,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub(crate) struct WriteOptions {
    /// Final path, taken when the file is closed.
    pub(crate) publish_as: Option<FsPath>,
    /// Replace a file at the final path.
    pub(crate) overwrite: bool,
    /// Permission bits to clear.
    pub(crate) umask: Umask,
    /// Replicas; `None` for the default.
    pub(crate) replication: Option<u16>,
    /// Bytes per block; `None` for the default.
    pub(crate) block_size: Option<u64>,
}

impl Store {
    /// A store that has not called anything yet.
    pub(crate) fn new(config: ClientConfig, ignores_checksums: bool) -> Self {
        let (client, machine) = (OnceLock::new(), Machine::default());
        Store { shared: Arc::new(Shared { config, client, machine, ignores_checksums }) }
    }

    /// A store with an existing client.
    pub(crate) fn of(client: &DfsClient) -> Self {
        let (config, machine) = (ClientConfig::default(), Machine::default());
        let client = OnceLock::from(client.clone());
        Store { shared: Arc::new(Shared { config, client, machine, ignores_checksums: false }) }
    }

    /// Acting user.
    pub(crate) fn user(&self) -> String {
        self.shared.config.user()
    }

    /// The client of the cluster, also for calls without a function here. Makes first contact with the NameNode.
    pub(crate) fn client(&self) -> Result<&DfsClient, Failure> {
        let Shared { config, client, .. } = &*self.shared;
        if let Some(client) = client.get() {
            return Ok(client);
        }
        let made = connect::file_system(config)
            .map_err(|error| Failure::Text(connect::describe(error.as_ref())))?;
        Ok(client.get_or_init(|| made))
    }

    fn machine(&self) -> &Machine {
        &self.shared.machine
    }

    /// The status of a path; a failure if nothing exists there.
    pub(crate) fn status(&self, named: &Named) -> Result<FileStatus, Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.status(path)),
            FsPath::Machine(path) => done(named, self.machine().status(path)),
        }
    }

    /// The status of a path, if anything exists there.
    pub(crate) fn find(&self, named: &Named) -> Result<Option<FileStatus>, Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.try_status(path)),
            FsPath::Machine(path) => done(named, self.machine().find(path)),
        }
    }

    /// Entries of a directory in byte order of names, page by page.
    pub(crate) fn list(
        &self,
        named: &Named,
        mut each: impl FnMut(Vec<FileStatus>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let path = match &named.path {
            FsPath::Cluster(path) => path,
            FsPath::Machine(path) => {
                let entries = done(named, self.machine().entries(path))?.into_iter();
                return each(entries.map(|(_, status)| status).collect());
            }
        };
        let mut page = Vec::new();
        for entry in self.client()?.list(path) {
            page.push(entry.map_err(|error| refused(named, &error))?);
            if page.len() == PAGE_ENTRIES {
                each(std::mem::take(&mut page))?;
            }
        }
        each(page)
    }

    /// All entries of a directory with their names.
    pub(crate) fn children(&self, named: &Named) -> Result<Vec<Item>, Failure> {
        if let FsPath::Machine(path) = &named.path {
            let entries = done(named, self.machine().entries(path))?.into_iter();
            let item = |(path, status): (_, FileStatus)| {
                let (typed, path) = (named.typed_child(&status.name), FsPath::Machine(path));
                Item { named: Named { typed, path }, status }
            };
            return Ok(entries.map(item).collect());
        }
        let mut items = Vec::new();
        self.list(named, |page| {
            for status in page {
                items.push(Item { named: named.child(&status.name)?, status });
            }
            Ok(())
        })?;
        Ok(items)
    }

    /// True if a directory has no entry.
    pub(crate) fn is_empty(&self, item: &Item) -> Result<bool, Failure> {
        match &item.named.path {
            FsPath::Cluster(_) => Ok(item.status.children_count == 0),
            FsPath::Machine(path) => done(&item.named, self.machine().is_empty(path)),
        }
    }

    /// Totals of a subtree.
    pub(crate) fn summary(&self, named: &Named) -> Result<ContentSummary, Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.content_summary(path)),
            FsPath::Machine(path) => done(named, self.machine().summary(path)),
        }
    }

    /// The room of the cluster.
    pub(crate) fn room(&self) -> Result<Room, Failure> {
        self.client()?.room().map_err(|error| Failure::remote("", &error))
    }

    /// State of the NameNode.
    pub(crate) fn cluster_status(&self) -> Result<ClusterStatus, Failure> {
        self.client()?.cluster_status().map_err(|error| Failure::remote("", &error))
    }

    /// Opens a file for reading from its start.
    pub(crate) fn open(&self, named: &Named) -> Result<Box<dyn Read + Send>, Failure> {
        Ok(match &named.path {
            FsPath::Cluster(path) => Box::new(self.reader(named, path)?),
            FsPath::Machine(path) => Box::new(done(named, self.machine().open(path))?),
        })
    }

    /// HDFS's checksum of a file; files of this machine have none.
    pub(crate) fn checksum(&self, named: &Named) -> Result<Option<FileChecksum>, Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, FileChecksum::of(self.client()?, path)).map(Some),
            FsPath::Machine(_) => Ok(None),
        }
    }

    /// The locations of a file's blocks.
    pub(crate) fn locations(&self, named: &Named) -> Result<LocatedBlocks, Failure> {
        asked(named, self.client()?.locations(named.cluster()?, 0, u64::MAX))
    }

    /// True if the acting user may do `action` with the path.
    pub(crate) fn allows(&self, named: &Named, action: Action) -> Result<bool, Failure> {
        let path = match &named.path {
            FsPath::Cluster(path) => path,
            FsPath::Machine(path) => return done(named, self.machine().allows(path, action)),
        };
        match self.client()?.check_access(path, action) {
            Ok(()) => Ok(true),
            Err(error) => match error.kind() {
                Some(ErrorKind::PermissionDenied | ErrorKind::NotFound) => Ok(false),
                _ => Err(refused(named, &error)),
            },
        }
    }

    /// The access control list; for files of this machine, the permission bits as one.
    pub(crate) fn acl(&self, item: &Item) -> Result<AclStatus, Failure> {
        let Item { named, status } = item;
        if let FsPath::Cluster(path) = &named.path {
            return asked(named, self.client()?.acl(path));
        }
        let (owner, group) = (status.owner.clone(), status.group.clone());
        Ok(AclStatus { owner, group, mode: status.mode, entries: Vec::new() })
    }

    /// Makes a directory.
    pub(crate) fn mkdirs(&self, named: &Named, umask: Umask, parents: bool) -> Result<(), Failure> {
        match &named.path {
            FsPath::Cluster(path) => {
                asked(named, self.client()?.mkdirs_masked(path, umask, parents))
            }
            FsPath::Machine(path) => done(named, self.machine().mkdirs(path, umask, parents)),
        }
    }

    /// Deletes; false if there was nothing, or nothing that may be deleted.
    pub(crate) fn delete(&self, named: &Named, recursive: bool) -> Result<bool, Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.delete(path, recursive)),
            FsPath::Machine(path) => done(named, self.machine().delete(path, recursive)),
        }
    }

    /// Renames to exactly `to`, which must not exist. Both are of the same file system.
    pub(crate) fn rename(&self, from: &Named, to: &Named) -> Result<(), Failure> {
        match (&from.path, &to.path) {
            (FsPath::Cluster(old), FsPath::Cluster(new)) => {
                asked(to, self.client()?.rename_to(old, new, false))
            }
            (FsPath::Machine(old), FsPath::Machine(new)) => {
                done(to, self.machine().rename(old, new))
            }
            _ => Err(Failure::at(&*from.typed, "Does not match target filesystem")),
        }
    }

    /// Sets the wanted number of replicas; false if it is not a file.
    pub(crate) fn set_replication(&self, named: &Named, wanted: u16) -> Result<bool, Failure> {
        let path = named.cluster()?;
        asked(named, self.client()?.set_replication(path, wanted))
    }

    /// Sets permission bits.
    pub(crate) fn set_mode(&self, named: &Named, mode: u16) -> Result<(), Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.set_mode(path, mode)),
            FsPath::Machine(path) => done(named, self.machine().set_mode(path, mode)),
        }
    }

    /// Sets owner and group; an empty one stays unchanged.
    pub(crate) fn set_owner(&self, named: &Named, owner: &str, group: &str) -> Result<(), Failure> {
        match &named.path {
            FsPath::Cluster(path) => asked(named, self.client()?.set_owner(path, owner, group)),
            FsPath::Machine(path) => done(named, self.machine().set_owner(path, owner, group)),
        }
    }

    /// True if the file system of a path knows both names.
    pub(crate) fn knows(&self, named: &Named, owner: &str, group: &str) -> bool {
        match &named.path {
            FsPath::Cluster(_) => true,
            FsPath::Machine(_) => users::user_id(owner).zip(users::group_id(group)).is_some(),
        }
    }

    /// Sets times, milliseconds since the epoch; `None` leaves one unchanged.
    pub(crate) fn set_times(
        &self,
        named: &Named,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
    ) -> Result<(), Failure> {
        match &named.path {
            FsPath::Cluster(path) => {
                asked(named, self.client()?.set_times(path, mtime_ms, atime_ms))
            }
            FsPath::Machine(path) => {
                done(named, self.machine().set_times(path, mtime_ms, atime_ms))
            }
        }
    }

    /// Opens a file for writing. Its parent must exist.
    pub(crate) fn create(&self, named: &Named, options: &WriteOptions) -> Result<Writer, Failure> {
        let taken = || Failure::at(&*named.typed, Problem::Exists);
        self.try_create(named, options)?.ok_or_else(taken)
    }

    /// The same; `None` if something has this name and may not be replaced.
    pub(crate) fn try_create(
        &self,
        named: &Named,
        options: &WriteOptions,
    ) -> Result<Option<Writer>, Failure> {
        let (mode, _) = options.umask.of_file();
        let publish_as = options.publish_as.as_ref();
        let sink = match &named.path {
            FsPath::Cluster(path) => {
                let create = create_options(named, options)?;
                match self.client()?.create(path, create) {
                    Err(error) if is_taken(&error) && publish_as.is_some() => return Ok(None),
                    created => Sink::Cluster(Box::new(asked(named, created)?)),
                }
            }
            FsPath::Machine(path) => {
                let mismatch = || Failure::at(&*named.typed, "Does not match target filesystem");
                let publish_as = publish_as.map(|place| place.machine().ok_or_else(mismatch));
                let publish_as = publish_as.transpose()?;
                match self.machine().create(path, publish_as, options.overwrite, mode) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                    made => Sink::Machine(done(named, made)?),
                }
            }
        };
        Ok(Some(Writer { sink, named: named.clone() }))
    }

    /// True for a path of this machine that is written in place, whatever else a copy does: a link, a FIFO, a device, a socket.
    pub(crate) fn is_written_in_place(&self, named: &Named) -> bool {
        named.path.machine().is_some_and(sys::fs::is_written_in_place)
    }

    /// Writes files of the cluster as a whole; small ones share messages. Each has its own outcome, in order: false if something has one of its names.
    pub(crate) fn write_small(
        &self,
        files: Vec<(Named, WriteOptions, Vec<u8>)>,
        _: Undisturbed,
    ) -> Vec<Result<bool, Failure>> {
        let client = match self.client() {
            Ok(client) => client,
            Err(failure) => {
                let text = failure.to_string();
                let again = |_| Err(Failure::Text(text.clone()));
                return files.iter().map(again).collect();
            }
        };
        let (mut names, mut outcomes, mut small) = (Vec::new(), Vec::new(), Vec::new());
        for (named, options, bytes) in files {
            let path = named.cluster().cloned();
            match path.and_then(|path| Ok((path, create_options(&named, &options)?))) {
                Ok((path, options)) => {
                    small.push(SmallFile { path, options, bytes });
                    outcomes.push(None);
                }
                Err(failure) => outcomes.push(Some(Err(failure))),
            }
            names.push(named);
        }
        let mut written = client.write_small(small).into_iter();
        let outcome = |(named, outcome): (Named, Option<Result<bool, Failure>>)| match outcome {
            Some(outcome) => outcome,
            None => match written.next().unwrap_or(Err(DfsError::Unexpected)) {
                Err(error) if is_taken(&error) => Ok(false),
                written => asked(&named, written).map(|()| true),
            },
        };
        names.into_iter().zip(outcomes).map(outcome).collect()
    }

    /// Opens a file for writing at its end. Dropping the writer leaves the file with its old content.
    pub(crate) fn append(&self, named: &Named, new_block: bool) -> Result<Writer, Failure> {
        let path = named.cluster()?;
        let writer = asked(named, self.client()?.append(path, new_block))?;
        Ok(Writer { sink: Sink::Cluster(Box::new(writer)), named: named.clone() })
    }

    /// Ends a file of the cluster that a writer of this process will not complete: deletes it, or, with `keep`, has it closed at its present length.
    pub(crate) fn abandon(&self, named: &Named, file: InodeId, keep: bool) -> Result<(), Failure> {
        match self.client()?.abandon(file, keep) {
            // It is not this process's any more.
            Err(error) if error.kind() == Some(ErrorKind::LeaseExpired) => Ok(()),
            ended => asked(named, ended).map(drop),
        }
    }

    /// Truncates a file; returns false if its last block is still being cut.
    pub(crate) fn truncate(&self, named: &Named, length: u64) -> Result<bool, Failure> {
        let path = named.cluster()?;
        asked(named, self.client()?.truncate(path, length))
    }

    /// Moves the blocks of `sources` to the end of a file.
    pub(crate) fn concat(&self, named: &Named, sources: &[DfsPath]) -> Result<(), Failure> {
        let path = named.cluster()?;
        asked(named, self.client()?.concat(path, sources))
    }

    fn reader(&self, named: &Named, path: &DfsPath) -> Result<DfsReader, Failure> {
        let mut reader = asked(named, self.client()?.open(path))?;
        if self.shared.ignores_checksums {
            reader.ignore_checksums();
        }
        Ok(reader)
    }

    /// Passes `length` bytes from `offset` to `sink`, in order, without copying them.
    pub(crate) fn read(
        &self,
        named: &Named,
        offset: u64,
        length: u64,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match &named.path {
            FsPath::Cluster(path) => {
                let mut reader = self.reader(named, path)?;
                let end = offset.saturating_add(length).min(reader.len());
                read_range(&mut reader, named, offset..end, |_, bytes| sink(bytes))
            }
            FsPath::Machine(path) => {
                let mut file = done(named, self.machine().open(path))?;
                let fail = |error: &io::Error| Failure::local(&named.typed, error);
                machine::read_range(&mut file, (offset, length), &fail, |_, bytes| sink(bytes))
            }
        }
    }

    /// Passes all bytes of a file to `sink` with their offsets, from several threads if it has several blocks. Stops at the first failure.
    pub(crate) fn read_by_blocks(
        &self,
        named: &Named,
        sink: &(impl Fn(u64, &[u8]) -> Result<(), Failure> + Sync),
    ) -> Result<(), Failure> {
        let path = match &named.path {
            FsPath::Cluster(path) => path,
            FsPath::Machine(path) => {
                let mut file = done(named, self.machine().open(path))?;
                let fail = |error: &io::Error| Failure::local(&named.typed, error);
                return machine::read_range(&mut file, (0, u64::MAX), &fail, sink);
            }
        };
        let reader = self.reader(named, path)?;
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
        // The system reads several files to tell.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get));
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

/// Passes the bytes of a range to `sink` with their offsets, in order, without copying them.
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
pub(crate) struct Writer {
    sink: Sink,
    named: Named,
}

enum Sink {
    Cluster(Box<DfsWriter>),
    Machine(MachineWriter),
}

impl Writer {
    /// The file, if it is of the cluster.
    pub(crate) fn inode(&self) -> Option<InodeId> {
        match &self.sink {
            Sink::Cluster(writer) => Some(writer.inode()),
            Sink::Machine(_) => None,
        }
    }

    /// Appends everything from `source`; `fail` converts an error of the source itself.
    pub(crate) fn write_from(
        &mut self,
        source: &mut impl Read,
        fail: &dyn Fn(&io::Error) -> Failure,
    ) -> Result<(), Failure> {
        let named = &self.named;
        let writer = match &mut self.sink {
            Sink::Cluster(writer) => writer,
            Sink::Machine(writer) => {
                let fail_write = |error: &io::Error| Failure::local(&named.typed, error);
                return writer.write_from(source, fail, &fail_write);
            }
        };
        match writer.write_from(source) {
            Ok(_) => Ok(()),
            Err(error) => match error.get_ref().and_then(|inner| inner.downcast_ref()) {
                Some(remote) => Err(refused::<DfsError>(named, remote)),
                None => Err(fail(&error)),
            },
        }
    }

    /// Appends `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Cluster(_) => {
                self.write_from(&mut &bytes[..], &|error| Failure::Text(error.to_string()))
            }
            Sink::Machine(writer) => done(&self.named, writer.write(bytes)),
        }
    }

    /// Completes the file and publishes it. Dropping the writer instead deletes the file.
    pub(crate) fn close(self, _: Undisturbed) -> Result<(), Failure> {
        match self.sink {
            Sink::Cluster(writer) => asked(&self.named, writer.close()),
            Sink::Machine(writer) => done(&self.named, writer.close()),
        }
    }
}

/// True if a new file could not be created because something has its name.
fn is_taken(error: &DfsError) -> bool {
    let kinds = [
        ErrorKind::AlreadyExists,
        ErrorKind::AlreadyBeingCreated,
        // Its writer was killed.
        ErrorKind::RecoveryInProgress,
    ];
    error.kind().is_some_and(|kind| kinds.contains(&kind))
}

/// How a file of the cluster is created. One that is published later replaces nothing before: what has its first name may be somebody's file.
fn create_options(named: &Named, options: &WriteOptions) -> Result<CreateOptions, Failure> {
    let mismatch = || Failure::at(&*named.typed, "Does not match target filesystem");
    let publish_as = options.publish_as.as_ref().map(|place| place.cluster().ok_or_else(mismatch));
    let publish_as = publish_as.transpose()?.cloned();
    Ok(CreateOptions {
        overwrite: options.overwrite && publish_as.is_none(),
        parents: Parents::None,
        replication: options.replication,
        block_size: options.block_size,
        publish_as,
        publish_overwrite: options.overwrite,
        ..CreateOptions::masked(options.umask)
    })
}

/// Converts an error of the cluster.
fn asked<T, E: Error + 'static>(named: &Named, answer: Result<T, E>) -> Result<T, Failure> {
    answer.map_err(|error| refused(named, &error))
}

/// Converts an error on this machine.
fn done<T>(named: &Named, outcome: io::Result<T>) -> Result<T, Failure> {
    outcome.map_err(|error| Failure::local(&named.typed, &error))
}

fn refused<E: Error + 'static>(named: &Named, error: &E) -> Failure {
    Failure::remote(&named.typed, error)
}
