//! `-get`, `-copyToLocal`, `-getmerge`: files and trees of the cluster onto this machine.
//!
//! A file is written beside its target under a temporary name that ends in `._COPYING_`, and renamed when it is complete; on any failure it is removed. Without
//! `-f` it replaces nothing, also nothing that appeared meanwhile. A target that is a link, FIFO, device or socket is written in place.

use std::fs::{self, File, FileTimes, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use protocol::checksum::{CHUNK_BYTES, append_crcs};
use protocol::namenode::FileStatus;
use sys::fs::{create_anew, open_in_place, rename_new, write_cached_at};
use sys::host::users;

use super::interrupt::{self, Input, Temporary};
use super::pool::{self, Queue, Repeatable};
use super::progress::Progress;
use super::{publish, read};
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, FsPath, Item, MODE_MASK, Named, Problem, local};
use crate::dfs::target;

/// Permissions of new files, less the process's mask.
const FILE_MODE: u32 = 0o666;

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
            let set = set_owner(target, status);
            let set = set.and_then(|()| set_mode(target, status.mode)).and_then(|()| {
                sys::fs::set_times(target, Some(status.mtime_ms), Some(status.atime_ms))
                    .map_err(|error| Failure::local(target, &error))
            });
            if let Err(failure) = set {
                self.context.report(&failure);
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
        publish_local(self.context.args.has("f"), target, input, |temporary| {
            self.fill(item, target, temporary, progress)
        })
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
        let mut file = open_in_place(target, FILE_MODE).map_err(fail)?;
        self.context.store.read(&item.named, 0, u64::MAX, &mut |bytes| {
            progress.bytes(bytes.len());
            file.write_all(bytes).map_err(fail)
        })
    }

    fn fill(
        &self,
        item: &Item,
        target: &Path,
        temporary: &Path,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let fail = |error| Failure::local(temporary, &error);
        let file = create_anew(temporary, FILE_MODE).map_err(fail)?;
        let store = &self.context.store;
        if self.context.args.has("crc") {
            // Checksums must cover the bytes in order.
            let (mut sums, mut at) = (Checksums::default(), 0);
            store.read(&item.named, 0, u64::MAX, &mut |bytes| {
                progress.bytes(bytes.len());
                sums.update(bytes);
                write_cached_at(&file, bytes, at).map_err(fail)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
            let path = checksum_path(target);
            let sums = sums.finish();
            let written = create_anew(&path, FILE_MODE).and_then(|mut file| file.write_all(&sums));
            written.map_err(|error| Failure::local(&path, &error))?;
        } else {
            store.read_by_blocks(&item.named, &|at, bytes| {
                progress.bytes(bytes.len());
                write_cached_at(&file, bytes, at).map_err(fail)
            })?;
        }
        if self.context.args.has("p") {
            set_owner(temporary, &item.status)?;
            set_mode(temporary, item.status.mode)?;
            file.set_times(times(&item.status)).map_err(fail)?;
        }
        Ok(())
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

/// The checksum file that Hadoop keeps beside a local file: `"crc\0" | u32 512 | a CRC-32 for each 512 bytes`, big-endian.
struct Checksums {
    out: Vec<u8>,
    /// Start of a chunk that is not complete yet.
    partial: Vec<u8>,
}

impl Default for Checksums {
    fn default() -> Self {
        let chunk = u32::try_from(CHUNK_BYTES).expect("512 fits");
        let out = [&b"crc\0"[..], &chunk.to_be_bytes()].concat();
        Checksums { out, partial: Vec::with_capacity(CHUNK_BYTES) }
    }
}

impl Checksums {
    fn update(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let missing = CHUNK_BYTES - self.partial.len();
            let (now, later) = bytes.split_at(bytes.len().min(missing));
            self.partial.extend_from_slice(now);
            bytes = later;
            if self.partial.len() == CHUNK_BYTES {
                append_crcs(&self.partial, &mut self.out);
                self.partial.clear();
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / CHUNK_BYTES * CHUNK_BYTES);
        append_crcs(whole, &mut self.out);
        self.partial.extend_from_slice(rest);
    }

    fn finish(mut self) -> Vec<u8> {
        append_crcs(&self.partial, &mut self.out);
        self.out
    }
}

/// `.name.crc` beside `name`.
fn checksum_path(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".crc");
    path.with_file_name(name)
}

/// Owner and group, if this machine knows both names.
fn set_owner(path: &Path, status: &FileStatus) -> Result<(), Failure> {
    let fail = |error| Failure::local(path, &error);
    let Some(ids) = users::user_id(&status.owner).zip(users::group_id(&status.group)) else {
        return Ok(());
    };
    let has = fs::metadata(path).map_err(fail)?;
    if (has.uid(), has.gid()) == ids {
        return Ok(());
    }
    chown(path, Some(ids.0), Some(ids.1)).map_err(fail)
}

fn set_mode(path: &Path, mode: u16) -> Result<(), Failure> {
    fs::set_permissions(path, Permissions::from_mode(u32::from(mode) & MODE_MASK))
        .map_err(|error| Failure::local(path, &error))
}

fn times(status: &FileStatus) -> FileTimes {
    let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
    FileTimes::new().set_modified(at(status.mtime_ms)).set_accessed(at(status.atime_ms))
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
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).map_err(|error| Failure::local(parent, &error))?;
    }
    if sys::fs::is_written_in_place(&target) {
        files.iter().try_for_each(|item| refuse_itself_here(context, &item.named, &target))?;
        return merge(context, &files, (&target, open_in_place(&target, FILE_MODE)));
    }
    let input = Input::of_all(files.iter().map(|item| Input::at(&item.named.path)));
    publish_local(true, &target, input, |temporary| {
        merge(context, &files, (temporary, create_anew(temporary, FILE_MODE)))
    })
}

/// Lets `fill` write all of `input` into a file beside `target`, and gives it that name. On any failure the file is removed.
fn publish_local(
    overwrites: bool,
    target: &Path,
    input: Input,
    fill: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let temporary = local::copying(target);
    let guard = Temporary::new(FsPath::Machine(temporary.clone()));
    let done = fill(&temporary).and_then(|()| {
        let _undisturbed = input.ended();
        let renamed = match overwrites {
            true => fs::rename(&temporary, target),
            false => rename_new(&temporary, target),
        };
        renamed.map_err(|error| Failure::local(target, &error))
    });
    if done.is_err() {
        // The file may not exist; the user must see the original failure.
        let _ = fs::remove_file(&temporary);
    }
    drop(guard);
    done
}

fn merge(
    context: &Context,
    files: &[Item],
    (path, file): (&Path, io::Result<File>),
) -> Result<(), Failure> {
    let fail = |error| Failure::local(path, &error);
    let mut out = BufWriter::new(file.map_err(fail)?);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_files_do_not_depend_on_pieces() {
        let data: Vec<u8> = (0..1500u32).map(|n| (n % 251) as u8).collect();
        let mut expected = b"crc\0\0\0\x02\0".to_vec();
        data.chunks(512).for_each(|chunk| append_crcs(chunk, &mut expected));
        for piece in [1, 511, 512, 700, 1500] {
            let mut sums = Checksums::default();
            data.chunks(piece).for_each(|piece| sums.update(piece));
            assert_eq!(sums.finish(), expected, "{piece}");
        }
        assert_eq!(Checksums::default().finish(), b"crc\0\0\0\x02\0");
        assert_eq!(checksum_path(Path::new("/a/b")), Path::new("/a/.b.crc"));
    }
}
