//! `-put`, `-copyFromLocal`, `-moveFromLocal`: local files and trees into the cluster.
//!
//! A file is written under `name._COPYING_` and published under its name in the same step that closes it, so nobody ever sees
//! half of one. Whatever goes wrong, the temporary file is deleted.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use protocol::namenode::FileStatus;

use super::context::Context;
use super::error::Failure;
use super::interrupt::{self, Temporary};
use super::local::{self, COPYING_SUFFIX};
use super::namespace::missing_parent;
use super::path::{Named, text_of};
use super::pool::{self, Queue};
use super::progress::Progress;
use super::store::{WriteOptions, Writer};

/// Replicas with `-l`.
const LAZY_REPLICATION: u16 = 1;

/// Copies local files into the cluster.
pub(super) fn put(context: &Context) -> Result<(), Failure> {
    let operands = &context.args.operands;
    let (sources, target) = match operands.split_last() {
        Some((last, sources)) if !sources.is_empty() => (sources, text_of(last)?),
        _ => (&operands[..], "."),
    };
    let target = context.resolver.resolve(target)?;
    let target_status = context.store.find(&target)?;
    let threads = pool::thread_count(context)?;
    interrupt::watch(&context.store)
        .map_err(|error| Failure::Text(format!("cannot handle signals: {error}")))?;
    let put = Put { context, moves: context.command == "moveFromLocal" };
    if sources == ["-"] {
        let target = put.target(Path::new("-"), &target, target_status.as_ref())?;
        return put.standard_input(&target);
    }
    let sources: Vec<PathBuf> = sources.iter().flat_map(|source| local::expand(source)).collect();
    let into_directory = target_status.as_ref().is_some_and(|status| status.directory);
    if sources.len() > 1 && !into_directory {
        return Err(match target_status {
            Some(_) => Failure::at(target.typed, "Is not a directory"),
            None => Failure::missing(target.typed),
        });
    }
    let walk = |queue: &Queue<Task>| {
        for source in &sources {
            let done = put
                .target(source, &target, target_status.as_ref())
                .and_then(|target| put.source(source, &target, queue));
            if let Err(failure) = done {
                context.report(&failure);
            }
        }
        Ok(())
    };
    let single = sources.len() == 1 && sources[0].metadata().is_ok_and(|m| !m.is_dir());
    pool::run(context, if single { 1 } else { threads }, walk, |task, progress| {
        put.file(&task, progress)
    })
}

struct Put<'a> {
    context: &'a Context,
    moves: bool,
}

/// One file to copy.
struct Task {
    source: PathBuf,
    metadata: Metadata,
    target: Named,
}

impl Put<'_> {
    /// Where `source` goes: into the target if that is a directory, else onto it.
    fn target(
        &self,
        source: &Path,
        target: &Named,
        status: Option<&FileStatus>,
    ) -> Result<Named, Failure> {
        match status {
            Some(status) if status.directory => target.child(&local::name_of(source)?),
            _ => Ok(target.clone()),
        }
    }

    /// One operand: a file or a tree.
    fn source(&self, source: &Path, target: &Named, queue: &Queue<Task>) -> Result<(), Failure> {
        let metadata = fs::metadata(source).map_err(|error| Failure::local(source, &error))?;
        let existing = self.context.store.find(target)?;
        if metadata.is_dir() {
            let mut ancestors = Vec::new();
            self.tree(source, metadata, target, existing, queue, &mut ancestors)?;
            return Ok(());
        }
        self.check_target(target, existing)?;
        queue.push(Task { source: source.to_owned(), metadata, target: target.clone() })
    }

    fn check_target(&self, target: &Named, existing: Option<FileStatus>) -> Result<(), Failure> {
        match existing {
            Some(status) if status.directory => Err(Failure::at(&*target.typed, "Is a directory")),
            Some(_) if !self.context.args.has("f") => {
                Err(Failure::at(&*target.typed, "File exists"))
            }
            _ => Ok(()),
        }
    }

    /// A directory and everything below. `ancestors` finds links that lead back up.
    fn tree(
        &self,
        source: &Path,
        metadata: Metadata,
        target: &Named,
        existing: Option<FileStatus>,
        queue: &Queue<Task>,
        ancestors: &mut Vec<(u64, u64)>,
    ) -> Result<(), Failure> {
        let identity = (metadata.dev(), metadata.ino());
        if ancestors.contains(&identity) {
            return Err(Failure::at(source.to_string_lossy(), "Too many levels of symbolic links"));
        }
        let is_new = match existing {
            Some(status) if status.directory => false,
            Some(_) => return Err(Failure::at(&*target.typed, "Is not a directory")),
            None => {
                let made = self.context.store.mkdirs(target, self.context.properties.umask, false);
                missing_parent(self.context, target, made)?;
                true
            }
        };
        ancestors.push(identity);
        for entry in local::sorted_entries(source)? {
            if let Err(failure) = self.entry(&entry, target, is_new, queue, ancestors) {
                self.context.report(&failure);
            }
        }
        ancestors.pop();
        if self.context.args.has("p") {
            self.preserve(target, &metadata)?;
        }
        Ok(())
    }

    /// One entry of a local directory. What lies in a new directory of the cluster needs no look there first.
    fn entry(
        &self,
        source: &Path,
        directory: &Named,
        is_new: bool,
        queue: &Queue<Task>,
        ancestors: &mut Vec<(u64, u64)>,
    ) -> Result<(), Failure> {
        let metadata = fs::metadata(source).map_err(|error| Failure::local(source, &error))?;
        let target = directory.child(&local::name_of(source)?)?;
        let existing = if is_new { None } else { self.context.store.find(&target)? };
        if metadata.is_dir() {
            return self.tree(source, metadata, &target, existing, queue, ancestors);
        }
        if !metadata.is_file() {
            return Err(Failure::at(source.to_string_lossy(), "Operation not supported"));
        }
        self.check_target(&target, existing)?;
        queue.push(Task { source: source.to_owned(), metadata, target })
    }

    fn file(&self, task: &Task, progress: &Progress) -> Result<(), Failure> {
        let Task { source, metadata, target } = task;
        let file = File::open(source).map_err(|error| Failure::local(source, &error))?;
        let mut file = Counted { inner: file, progress };
        self.write(target, &mut |writer| {
            writer.write_from(&mut file, &|error| Failure::local(source, error))
        })?;
        if self.context.args.has("p") {
            self.preserve(target, metadata)?;
        }
        if self.moves {
            fs::remove_file(source).map_err(|error| Failure::local(source, &error))?;
        }
        Ok(())
    }

    fn standard_input(&self, target: &Named) -> Result<(), Failure> {
        self.check_target(target, self.context.store.find(target)?)?;
        let progress = Progress::new();
        let fail =
            |error: &io::Error| Failure::Text(format!("cannot read standard input: {error}"));
        let mut input = Counted { inner: io::stdin().lock(), progress: &progress };
        let written = self.write(target, &mut |writer| writer.write_from(&mut input, &fail));
        progress.end();
        written
    }

    /// Creates the temporary file, lets `fill` write it, publishes it. A writer that fails deletes what it wrote.
    fn write(
        &self,
        target: &Named,
        fill: &mut dyn FnMut(&mut Writer) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let args = &self.context.args;
        let properties = &self.context.properties;
        let direct = args.has("d");
        let path = if direct {
            target.path.clone()
        } else {
            protocol::DfsPath::parse(&format!("{}{COPYING_SUFFIX}", target.path))
                .map_err(|error| Failure::Text(error.to_string()))?
        };
        let replication =
            if args.has("l") { Some(LAZY_REPLICATION) } else { properties.replication };
        let options = WriteOptions {
            publish_as: (!direct).then(|| target.path.clone()),
            overwrite: args.has("f"),
            umask: properties.umask,
            replication,
            block_size: properties.block_size,
        };
        let temporary = Temporary::dfs(path.clone());
        let named = Named { typed: target.typed.clone(), path };
        let created = self.context.store.create(&named, &options);
        let mut writer = missing_parent(self.context, target, created)?;
        let done = fill(&mut writer).and_then(|()| writer.close());
        drop(temporary);
        done
    }

    /// `-p`: times, owner, group and mode of the source.
    fn preserve(&self, target: &Named, metadata: &Metadata) -> Result<(), Failure> {
        let store = &self.context.store;
        let mode = u16::try_from(metadata.mode() & 0o777).expect("nine bits");
        store.set_mode(target, mode)?;
        let ms = |seconds: i64, nanos: i64| u64::try_from(seconds * 1000 + nanos / 1_000_000).ok();
        let mtime = ms(metadata.mtime(), metadata.mtime_nsec());
        let atime = ms(metadata.atime(), metadata.atime_nsec());
        store.set_times(target, mtime, atime)
    }
}

/// Counts what passes through.
struct Counted<'a, R> {
    inner: R,
    progress: &'a Progress,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.progress.bytes(count);
        Ok(count)
    }
}
