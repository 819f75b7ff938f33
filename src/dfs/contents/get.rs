//! `-get`, `-copyToLocal`, `-getmerge`: files and trees of the cluster onto this machine.
//!
//! A file is written beside its target, and gets its name when it is complete ([`draft`]). Without `-f` it replaces nothing, also nothing that appeared
//! meanwhile. A target that is a link, FIFO, device or socket is written in place.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use protocol::namenode::FileStatus;
use sys::fs::{open_in_place, write_cached_at};

use super::draft::{self, Draft, FILE_MODE};
use super::interrupt::{self, Input};
use super::pool::{self, Queue, Repeatable};
use super::progress::Progress;
use super::{publish, read};
use crate::dfs::context::Context;
use crate::dfs::fs::sums::{self, Checksums};
use crate::dfs::fs::{Failure, FsPath, Item, Named, Problem, local};
use crate::dfs::target;

/// Copies files of the cluster to this machine.
pub(super) fn get(context: &Context) -> Result<(), Failure> {
    let operands = &context.args.operands;
    let (sources, target) = match operands.split_last() {
        Some((last, sources)) if !sources.is_empty() => (sources, local::path_of(last)?),
        _ => (&operands[..], PathBuf::from(".")),
    };
    let sizes = pool::Sizes::of(context)?;
    interrupt::watch(&context.store)?;
    if target.as_os_str() == "-" {
        return read::print_files(context, sources);
    }
    let into_directory = target.is_dir();
    let items = context.expand_all(sources)?;
    target::check_local(&target, items.len(), context.args.has("f"))?;
    let get = Get { context, directories: Mutex::default() };
    let walk = |queue: &Queue<'_, Task>| {
        for item in items {
            let queued = item.and_then(|item| {
                let target = match item.named.path.name() {
                    Some(name) if into_directory && target.as_os_str() == "." => {
                        PathBuf::from(name)
                    }
                    Some(name) if into_directory => target.join(name),
                    _ => target.clone(),
                };
                let onto = (target.to_string_lossy().into_owned(), false);
                publish::check_raw(&(item.named.typed.clone(), item.named.path.is_raw()), &onto)?;
                if item.status.directory {
                    refuse_itself_here(context, &item.named, &target)?;
                }
                queue.claim(&FsPath::Machine(target.clone()));
                get.item(item, target, queue)
            });
            if let Err(failure) = queued {
                context.report(&failure);
            }
        }
        Ok(())
    };
    pool::run(context, sizes, walk, |task, progress| get.file(task, progress))?;
    get.finish();
    Ok(())
}

struct Get<'a> {
    context: &'a Context,
    /// Directories whose attributes are set at the end, children before parents.
    directories: Mutex<Vec<(PathBuf, FileStatus)>>,
}

/// One file to copy.
struct Task {
    item: Item,
    target: PathBuf,
}

impl Repeatable for Task {
    fn can_repeat(&self) -> bool {
        // This machine has no such quotas.
        false
    }
}

impl Get<'_> {
    fn item(&self, item: Item, target: PathBuf, queue: &Queue<'_, Task>) -> Result<(), Failure> {
        if !item.status.directory {
            return self.check_target(&target).and_then(|()| queue.push(Task { item, target }));
        }
        match fs::create_dir(&target) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(Failure::at(target.to_string_lossy(), Problem::Exists));
            }
            Err(error) => return Err(Failure::local(&target, &error)),
        }
        for child in self.context.store.children(&item.named)? {
            let path = target.join(&child.status.name);
            if let Err(failure) = self.item(child, path, queue) {
                self.context.report(&failure);
            }
        }
        if self.context.args.has("p") {
            let mut made = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
            made.push((target, item.status));
        }
        Ok(())
    }

    /// Sets the attributes of directories, once their last file is there.
    fn finish(&self) {
        let made = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        for (target, status) in made.iter() {
            let set = draft::set_owner_and_mode(target, status).and_then(|()| {
                sys::fs::set_times(target, Some(status.mtime_ms), Some(status.atime_ms))
            });
            if let Err(error) = set {
                self.context.report(&Failure::local(target, &error));
            }
        }
    }

    fn check_target(&self, target: &Path) -> Result<(), Failure> {
        match fs::symlink_metadata(target) {
            Ok(metadata) if metadata.is_dir() => {
                Err(Failure::at(target.to_string_lossy(), Problem::IsDirectory))
            }
            Ok(_) if !self.context.args.has("f") => {
                Err(Failure::at(target.to_string_lossy(), Problem::Exists))
            }
            _ => Ok(()),
        }
    }

    fn file(&self, task: &Task, progress: &Progress) -> Result<(), Failure> {
        let Task { item, target } = task;
        // Without -f nothing was there, or it has come since and is refused.
        if self.context.args.has("f") && sys::fs::is_written_in_place(target) {
            return self.fill_in_place(task, progress);
        }
        let input = Input::at(&item.named.path);
        let overwrites = self.context.args.has("f");
        draft::publish(overwrites, target, input, |draft| self.fill(item, draft, progress))
    }

    /// The bytes alone, in order.
    fn fill_in_place(
        &self,
        Task { item, target }: &Task,
        progress: &Progress,
    ) -> Result<(), Failure> {
        if self.context.args.has("p") || self.context.args.has("crc") {
            return Err(Failure::at(target.to_string_lossy(), publish::NO_ATTRIBUTES));
        }
        refuse_itself_here(self.context, &item.named, target)?;
        let fail = |error| Failure::local(target, &error);
        sums::remove_beside(target).map_err(draft::of_sums)?;
        let mut file = open_in_place(target, FILE_MODE).map_err(fail)?;
        self.context.store.read(&item.named, 0, u64::MAX, &mut |bytes| {
            progress.bytes(bytes.len());
            file.write_all(bytes).map_err(fail)
        })
    }

    /// The checksums to keep beside it, if they are wanted.
    fn fill(
        &self,
        item: &Item,
        draft: &Draft<'_>,
        progress: &Progress,
    ) -> Result<Option<Checksums>, Failure> {
        let fail = |error| draft.fail(&error);
        let file = draft.create()?;
        let store = &self.context.store;
        let mut sums = self.context.args.has("crc").then(Checksums::default);
        if let Some(sums) = &mut sums {
            // Checksums must cover the bytes in order.
            let mut at = 0;
            store.read(&item.named, 0, u64::MAX, &mut |bytes| {
                progress.bytes(bytes.len());
                sums.update(bytes);
                write_cached_at(&file, bytes, at).map_err(fail)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
        } else {
            store.read_by_blocks(&item.named, &|at, bytes| {
                progress.bytes(bytes.len());
                write_cached_at(&file, bytes, at).map_err(fail)
            })?;
        }
        if self.context.args.has("p") {
            draft.preserve(&file, &item.status)?;
        }
        Ok(sums)
    }
}

/// A source of this machine does not go onto itself or into itself.
fn refuse_itself_here(context: &Context, from: &Named, target: &Path) -> Result<(), Failure> {
    let Some(path) = from.path.machine() else { return Ok(()) };
    let typed = target.to_string_lossy().into_owned();
    let there = std::path::absolute(target).map_err(|error| Failure::local(target, &error))?;
    let to = Named { typed, path: FsPath::Machine(there) };
    target::refuse_itself_here(context, (path, &from.typed), &to)
}

/// Joins files into one local file.
pub(super) fn getmerge(context: &Context) -> Result<(), Failure> {
    let Some((last, sources)) = context.args.operands.split_last() else {
        return Err(Failure::Usage("Not enough arguments: expected 2 but got 0".to_owned()));
    };
    interrupt::watch(&context.store)?;
    let target = local::path_of(last)?;
    let mut files = Vec::new();
    context.for_each(sources, |item| {
        if item.status.directory {
            let children = context.store.children(&item.named)?;
            files.extend(children.into_iter().filter(|child| !child.status.directory));
        } else {
            files.push(item);
        }
        Ok(())
    })?;
    if context.has_failed() {
        return Ok(());
    }
    if target.is_dir() {
        return Err(Failure::at(target.to_string_lossy(), Problem::IsDirectory));
    }
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::local(parent, &error))?;
    }
    if sys::fs::is_written_in_place(&target) {
        files.iter().try_for_each(|item| refuse_itself_here(context, &item.named, &target))?;
        let fail = |error: io::Error| Failure::local(&target, &error);
        sums::remove_beside(&target).map_err(draft::of_sums)?;
        return merge(context, &files, open_in_place(&target, FILE_MODE).map_err(fail)?, &fail);
    }
    let input = Input::of_all(files.iter().map(|item| Input::at(&item.named.path)));
    draft::publish(true, &target, input, |draft| {
        merge(context, &files, draft.create()?, &|error| draft.fail(&error)).map(|()| None)
    })
}

/// Writes all files, one after the other; `fail` names what they are written to.
fn merge(
    context: &Context,
    files: &[Item],
    file: File,
    fail: &dyn Fn(io::Error) -> Failure,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(file);
    for item in files {
        if item.status.length == 0 && context.args.has("skip-empty-file") {
            continue;
        }
        context
            .store
            .read(&item.named, 0, u64::MAX, &mut |bytes| out.write_all(bytes).map_err(fail))?;
        if context.args.has("nl") {
            out.write_all(b"\n").map_err(fail)?;
        }
    }
    out.flush().map_err(fail)
}
