//! `-put`, `-copyFromLocal`, `-moveFromLocal`: local files and trees into the cluster.
//!
//! A file is written under a temporary name ([`publish`]) and published under its final name in the same step that closes it, so nobody ever sees half of one.
//! Whatever goes wrong, the temporary file is deleted.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use client::dfs::SMALL_FILE_BYTES_MAX;
use protocol::namenode::FileStatus;
use sys::host::users;

use super::interrupt::{self, Input};
use super::pool::{self, Queue, Repeatable};
use super::progress::Progress;
use super::publish::{self, Naming};
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, MODE_MASK, Named, Problem, local};
use crate::dfs::target::{Target, make_directory, refuse_itself_here};

/// Copies local files into the cluster.
pub(super) fn put(context: &Context) -> Result<(), Failure> {
    let operands = &context.args.operands;
    let (sources, target) = match operands.split_last() {
        Some((last, sources)) if !sources.is_empty() => (sources, last.as_os_str()),
        _ => (&operands[..], OsStr::new(".")),
    };
    let target = Target::of(context, target)?;
    let overwrite = context.args.has("f");
    let sizes = pool::Sizes::of(context)?;
    interrupt::watch(&context.store)?;
    let put = Put {
        context,
        moves: context.command == "moveFromLocal",
        directories: Mutex::default(),
        emptied: Mutex::default(),
    };
    if sources == ["-"] {
        local::check_stdin()?;
        target.make_parent(context)?;
        target.check(context, 1, overwrite)?;
        return put.standard_input(&target.place_of(Some("-"))?);
    }
    let expanded = sources.iter().map(|source| local::expand(source));
    let sources: Vec<PathBuf> = expanded.collect::<Result<Vec<_>, _>>()?.concat();
    target.check(context, sources.len(), overwrite)?;
    let names = sources.iter().filter_map(|source| source.file_name()?.to_str());
    let naming = Naming::among(names);
    let walk = |queue: &Queue<'_, Task>| {
        for source in &sources {
            // The name of a source matters only if the source keeps it.
            let placed = match target.is_directory() {
                true => local::name_of(source).and_then(|name| target.place_of(Some(&name))),
                false => target.place_of(None),
            };
            let done = placed.and_then(|target| put.source(source, (&target, naming), queue));
            if let Err(failure) = done {
                context.report(&failure);
            }
        }
        Ok(())
    };
    let single = sources.len() == 1 && sources[0].metadata().is_ok_and(|m| !m.is_dir());
    if single || sizes.is_one_at_a_time() {
        pool::run(context, sizes.one_at_a_time(), walk, |task, progress| put.file(task, progress))?;
    } else {
        let copy = |tasks: &[Task], progress: &Progress| put.files(tasks, progress);
        pool::run_grouped(context, sizes, Task::is_small, walk, copy)?;
    }
    put.finish();
    Ok(())
}

struct Put<'a> {
    context: &'a Context,
    moves: bool,
    /// Directories whose attributes are set at the end, children before parents: copying into one changes its time.
    directories: Mutex<Vec<(Named, Metadata)>>,
    /// Source directories to remove at the end of a move, children before parents.
    emptied: Mutex<Vec<PathBuf>>,
}

/// One file to copy.
struct Task {
    source: PathBuf,
    metadata: Metadata,
    target: Named,
    naming: Naming,
}

impl Task {
    /// True if it may be copied together with others. The length of a pipe or a device says nothing.
    fn is_small(&self) -> bool {
        self.metadata.is_file()
            && self.metadata.len() <= SMALL_FILE_BYTES_MAX as u64
            && self.target.cluster().is_ok()
    }

    /// Opens the source, and reads all of it if it is small. What is there now may be more than was seen before, or no file at all.
    fn open(&self) -> io::Result<Opened> {
        let mut rest = File::open(&self.source)?;
        let mut beginning = Vec::new();
        if self.is_small() && rest.metadata()?.is_file() {
            beginning.reserve(self.metadata.len() as usize + 1);
            let most = SMALL_FILE_BYTES_MAX as u64 + 1;
            (&mut rest).take(most).read_to_end(&mut beginning)?;
            if beginning.len() <= SMALL_FILE_BYTES_MAX {
                return Ok(Opened::Small(beginning));
            }
        }
        Ok(Opened::Large(beginning, rest))
    }
}

impl Repeatable for Task {
    fn can_repeat(&self) -> bool {
        self.metadata.is_file()
    }
}

/// A source that is open: a pipe gives its bytes only once.
#[derive(Debug)]
enum Opened {
    /// All of a file.
    Small(Vec<u8>),
    /// What was read already, and where the rest is.
    Large(Vec<u8>, File),
}

/// A directory of the cluster that is being filled.
struct Filled<'a> {
    directory: &'a Named,
    /// True if it was created just now.
    is_new: bool,
    /// How temporary files in it are named.
    naming: Naming,
}

impl Put<'_> {
    /// One operand: a file or a tree.
    fn source(
        &self,
        source: &Path,
        (target, naming): (&Named, Naming),
        queue: &Queue<'_, Task>,
    ) -> Result<(), Failure> {
        let typed = source.to_string_lossy().into_owned();
        publish::check_raw(&(typed, false), &(target.typed.clone(), target.path.is_raw()))?;
        let metadata = fs::metadata(source).map_err(|error| Failure::local(source, &error))?;
        self.refuse_link(source, &metadata)?;
        if metadata.is_dir() {
            refuse_itself_here(self.context, (source, &source.to_string_lossy()), target)?;
        }
        queue.claim(&target.path);
        let existing = self.context.store.find(target)?;
        // A move does not fill a directory that is there, as in Hadoop: its own would be gone.
        if self.moves && existing.as_ref().is_some_and(|status| status.directory) {
            return Err(Failure::at(&*target.typed, Problem::Exists));
        }
        if metadata.is_dir() {
            let mut ancestors = Vec::new();
            self.tree(source, metadata, target, existing, queue, &mut ancestors)?;
            return Ok(());
        }
        publish::check_target(self.context, target, existing.as_ref())?;
        let (source, target) = (source.to_owned(), target.clone());
        queue.push(Task { source, metadata, target, naming })
    }

    /// A directory and everything below it. `ancestors` finds links that lead back up.
    fn tree(
        &self,
        source: &Path,
        metadata: Metadata,
        target: &Named,
        existing: Option<FileStatus>,
        queue: &Queue<'_, Task>,
        ancestors: &mut Vec<(u64, u64)>,
    ) -> Result<(), Failure> {
        let identity = (metadata.dev(), metadata.ino());
        if ancestors.contains(&identity) {
            return Err(Failure::at(source.to_string_lossy(), "Too many levels of symbolic links"));
        }
        let is_new = match existing {
            Some(status) if status.directory => false,
            Some(_) => return Err(Failure::at(&*target.typed, Problem::Exists)),
            None => make_directory(self.context, target)?,
        };
        ancestors.push(identity);
        let entries = local::sorted_entries(source)?;
        let names = entries.iter().filter_map(|entry| entry.file_name()?.to_str());
        let filled = Filled { directory: target, is_new, naming: Naming::among(names) };
        for entry in &entries {
            if let Err(failure) = self.entry(entry, &filled, queue, ancestors) {
                self.context.report(&failure);
            }
        }
        ancestors.pop();
        if self.moves {
            let mut emptied = self.emptied.lock().unwrap_or_else(PoisonError::into_inner);
            emptied.push(source.to_owned());
        }
        if self.context.args.has("p") {
            let mut made = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
            made.push((target.clone(), metadata));
        }
        Ok(())
    }

    /// A move deletes what it copied; what lies behind a link to a directory was not named for that.
    fn refuse_link(&self, source: &Path, metadata: &Metadata) -> Result<(), Failure> {
        if !self.moves || !metadata.is_dir() {
            return Ok(());
        }
        // Without a slash at its end, which leads behind the link.
        let entry: PathBuf = source.components().collect();
        let own = fs::symlink_metadata(&entry).map_err(|error| Failure::local(source, &error))?;
        if own.is_symlink() {
            let text = "it is a link to a directory, and stays";
            return Err(Failure::at(source.to_string_lossy(), text));
        }
        Ok(())
    }

    /// One entry of a local directory. An entry for a new directory of the cluster needs no check there first.
    fn entry(
        &self,
        source: &Path,
        Filled { directory, is_new, naming }: &Filled<'_>,
        queue: &Queue<'_, Task>,
        ancestors: &mut Vec<(u64, u64)>,
    ) -> Result<(), Failure> {
        let metadata = fs::metadata(source).map_err(|error| Failure::local(source, &error))?;
        self.refuse_link(source, &metadata)?;
        let target = directory.child(&local::name_of(source)?)?;
        let existing = if *is_new { None } else { self.context.store.find(&target)? };
        if metadata.is_dir() {
            return self.tree(source, metadata, &target, existing, queue, ancestors);
        }
        if !metadata.is_file() {
            return Err(Failure::at(source.to_string_lossy(), "Operation not supported"));
        }
        publish::check_target(self.context, &target, existing.as_ref())?;
        queue.push(Task { source: source.to_owned(), metadata, target, naming: *naming })
    }

    /// Copies some files; the small ones together.
    fn files(&self, tasks: &[Task], progress: &Progress) -> Vec<Result<(), Failure>> {
        let mut outcomes: Vec<Option<Result<(), Failure>>> = Vec::new();
        let (mut small, mut whole) = (Vec::new(), Vec::new());
        for task in tasks {
            outcomes.push(match task.open() {
                Ok(Opened::Small(bytes)) => {
                    let Task { target, naming, .. } = task;
                    small.push((task, bytes.len()));
                    whole.push(publish::Whole { target, naming: *naming, bytes });
                    None
                }
                Ok(Opened::Large(beginning, rest)) => {
                    let input = Input::opened(&rest);
                    let all = io::Cursor::new(beginning).chain(rest);
                    Some(self.write(task, (all, input), progress))
                }
                Err(error) => Some(Err(Failure::local(&task.source, &error))),
            });
        }
        let written = publish::write_small(self.context, whole);
        let after = |((task, length), written)| self.after_small(task, length, written, progress);
        let mut written = small.into_iter().zip(written).map(after);
        outcomes.into_iter().filter_map(|outcome| outcome.or_else(|| written.next())).collect()
    }

    /// What follows once a small file was written with others, or could not be.
    fn after_small(
        &self,
        task: &Task,
        length: usize,
        written: Result<bool, Failure>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        match written? {
            true => {
                progress.bytes(length);
                self.after(task)
            }
            false => self.file(task, progress),
        }
    }

    fn file(&self, task: &Task, progress: &Progress) -> Result<(), Failure> {
        let file =
            File::open(&task.source).map_err(|error| Failure::local(&task.source, &error))?;
        let input = Input::opened(&file);
        self.write(task, (file, input), progress)
    }

    fn write(
        &self,
        task: &Task,
        (inner, input): (impl Read, Input),
        progress: &Progress,
    ) -> Result<(), Failure> {
        let Task { source, target, naming, .. } = task;
        let typed = source.to_string_lossy();
        match self.moves {
            // Its source is deleted afterwards.
            true => refuse_itself_here(self.context, (source, &typed), target)?,
            false => publish::check_source(self.context, (source, &typed), target)?,
        }
        let mut bytes = Counted { inner, progress };
        publish::write(self.context, (target, *naming), input, &mut |writer| {
            writer.write_from(&mut bytes, &|error| Failure::local(source, error))
        })?;
        self.after(task)
    }

    /// What follows once a file is written.
    fn after(&self, Task { source, metadata, target, .. }: &Task) -> Result<(), Failure> {
        if self.context.args.has("p") {
            self.preserve(target, metadata)?;
        }
        if self.moves {
            fs::remove_file(source).map_err(|error| Failure::local(source, &error))?;
        }
        Ok(())
    }

    fn standard_input(&self, target: &Named) -> Result<(), Failure> {
        let existing = self.context.store.find(target)?;
        publish::check_target(self.context, target, existing.as_ref())?;
        let progress = Progress::new();
        let fail =
            |error: &io::Error| Failure::Text(format!("cannot read standard input: {error}"));
        publish::check_source(self.context, (Path::new("/dev/stdin"), "-"), target)?;
        let mut bytes = Counted { inner: io::stdin().lock(), progress: &progress };
        let (to, input) = ((target, Naming::Plain), Input::standard());
        let written = publish::write(self.context, to, input, &mut |writer| {
            writer.write_from(&mut bytes, &fail)
        });
        progress.end();
        written
    }

    /// Does the work that waits for the last file.
    fn finish(&self) {
        let made = self.directories.lock().unwrap_or_else(PoisonError::into_inner);
        for (target, metadata) in made.iter() {
            if let Err(failure) = self.preserve(target, metadata) {
                self.context.report(&failure);
            }
        }
        if self.context.has_failed() {
            return;
        }
        let emptied = self.emptied.lock().unwrap_or_else(PoisonError::into_inner);
        for directory in emptied.iter() {
            if let Err(error) = fs::remove_dir(directory) {
                self.context.report(&Failure::local(directory, &error));
            }
        }
    }

    /// `-p`: times, owner, group and mode of the source.
    fn preserve(&self, target: &Named, metadata: &Metadata) -> Result<(), Failure> {
        let store = &self.context.store;
        // The times come first: only a superuser may give a file away.
        let ms = |seconds: i64, nanos: i64| u64::try_from(seconds * 1000 + nanos / 1_000_000).ok();
        let mtime = ms(metadata.mtime(), metadata.mtime_nsec());
        let atime = ms(metadata.atime(), metadata.atime_nsec());
        store.set_times(target, mtime, atime)?;
        let owner = users::user_name(metadata.uid());
        let group = users::group_name(metadata.gid());
        store.set_owner(target, &owner, &group)?;
        let mode = u16::try_from(metadata.mode() & MODE_MASK).expect("ten bits");
        store.set_mode(target, mode)
    }
}

/// Counts the bytes that pass through.
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

#[cfg(test)]
mod tests {
    use protocol::DfsPath;

    use super::*;

    #[test]
    fn every_byte_of_a_source_is_read_once() {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("source");
        fs::write(&source, "small").unwrap();
        let target = Named::untyped(DfsPath::parse("/t").unwrap());
        let metadata = fs::metadata(&source).unwrap();
        let mut task = Task { source, metadata, target, naming: Naming::Plain };
        let opened = task.open().unwrap();
        assert!(matches!(&opened, Opened::Small(bytes) if bytes == b"small"), "{opened:?}");
        let large: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
        let all = |opened| match opened {
            Opened::Large(mut bytes, mut rest) => {
                rest.read_to_end(&mut bytes).unwrap();
                bytes
            }
            Opened::Small(bytes) => panic!("{} bytes", bytes.len()),
        };
        fs::write(&task.source, &large).unwrap();
        assert!(all(task.open().unwrap()) == large, "a file that has grown");
        fs::remove_file(&task.source).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&task.source).status().unwrap();
        assert!(made.success());
        // First as if it had taken the place of a small file.
        for _ in 0..2 {
            let (source, data) = (task.source.clone(), large.clone());
            let writer = std::thread::spawn(move || fs::write(source, data).unwrap());
            assert!(all(task.open().unwrap()) == large, "a pipe");
            writer.join().unwrap();
            task.metadata = fs::metadata(&task.source).unwrap();
        }
    }
}
