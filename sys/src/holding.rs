//! Resources of processes that no list of files shows: memory of every kind, and files that no longer have a name.
//!
//! ```text
//! memory    pages of their own, shared with their children, shared by name or descriptor (memfd), swapped out
//!           memfds and the like that are open but not mapped
//! deleted   files on disks that are open, or mapped, and lie in no directory
//! ```
//!
//! Invariants: what several processes share counts once when a limit is near; a process that is gone holds nothing; a process that cannot be read is an error,
//! as it may hide anything.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;

use crate::family::{PROC, is_dead};

/// Most descriptors that are read; a task whose processes together have more cannot be measured.
const DESCRIPTORS_MAX: usize = 1 << 18;
/// Bytes of a block as `stat` counts them, whatever the block size of the file system.
const STAT_BLOCK_BYTES: u64 = 512;
/// File systems whose files are memory: `tmpfs`, which holds memfds and shared memory too, and huge pages.
const MEMORY_FILES: [u64; 2] = [0x0102_1994, 0x9584_58f6];
/// Names that the kernel gives to mapped memory that is shared: memfds, children, System V, POSIX.
const MEMORY_NAMES: [&str; 4] = ["/memfd:", "/dev/zero", "/SYSV", "/dev/shm/"];
/// What the kernel appends to the name of a file that no longer has one.
const DELETED: &str = " (deleted)";

/// Device and number of a file.
type FileId = (u64, u64);

/// Files without a name that processes hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Nameless {
    /// Bytes of those that are memory.
    memory: BTreeMap<FileId, u64>,
    /// Bytes of those on disks.
    disk: BTreeMap<FileId, u64>,
}

/// Bytes of memory of these processes: a quick upper bound, or the exact number if that bound is more than `limit`.
///
/// # Errors
/// [`io::ErrorKind::PermissionDenied`] if one of them cannot be read; else the system's error.
pub fn memory_bytes(members: &BTreeSet<u32>, limit: Option<u64>) -> io::Result<u64> {
    let processes = living(members)?;
    let nameless = open_files(&processes)?.memory;
    let open = nameless.values().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
    let mapped = sum(&processes, resident)?;
    let most = open.saturating_add(mapped);
    if limit.is_none_or(|limit| most <= limit) {
        return Ok(most);
    }
    let mapped = sum(&processes, |process| proportional(process, &nameless))?;
    Ok(open.saturating_add(mapped))
}

/// Bytes on disk of files that these processes hold and no directory lists.
///
/// # Errors
/// As [`memory_bytes`].
pub fn deleted_bytes(members: &BTreeSet<u32>) -> io::Result<u64> {
    let processes = living(members)?;
    let open = open_files(&processes)?.disk;
    let mut mapped: BTreeMap<FileId, u64> = BTreeMap::new();
    for process in &processes {
        let Some(maps) = seen(fs::read(process.join("maps")))? else { continue };
        // An open file is known exactly; of another, only how much of it is mapped.
        let mappings = String::from_utf8_lossy(&maps);
        let mappings = mappings.lines().filter_map(deleted_mapping);
        for (id, end) in mappings.filter(|(id, _)| !open.contains_key(id)) {
            let bytes = mapped.entry(id).or_default();
            *bytes = end.max(*bytes);
        }
    }
    Ok(open.values().chain(mapped.values()).fold(0, |sum, bytes| sum.saturating_add(*bytes)))
}

/// The `/proc` directories of the living processes. For a process whose first thread has ended, only that of another thread has content.
fn living(members: &BTreeSet<u32>) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::with_capacity(members.len());
    for pid in members {
        let process = Path::new(PROC).join(pid.to_string());
        match state(&process)? {
            None => continue,
            Some(state) if !is_dead(&state) => found.push(process),
            Some(_) => {
                let Some(threads) = seen(fs::read_dir(process.join("task")))? else { continue };
                for thread in threads {
                    let Some(thread) = seen(thread)? else { continue };
                    if state(&thread.path())?.is_some_and(|state| !is_dead(&state)) {
                        found.push(thread.path());
                        break;
                    }
                }
            }
        }
    }
    Ok(found)
}

/// True if files in this directory are memory.
///
/// # Errors
/// The system's error.
pub fn is_memory(directory: &Path) -> io::Result<bool> {
    Ok(MEMORY_FILES.contains(&(rustix::fs::statfs(directory)?.f_type as u64)))
}

fn state(process: &Path) -> io::Result<Option<String>> {
    let Some(stat) = seen(fs::read(process.join("stat")))? else { return Ok(None) };
    let stat = String::from_utf8_lossy(&stat);
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
    Ok(state.map(str::to_owned))
}

fn open_files(processes: &[PathBuf]) -> io::Result<Nameless> {
    let (mut nameless, mut count) = (Nameless::default(), 0);
    for process in processes {
        let Some(descriptors) = seen(fs::read_dir(process.join("fd")))? else { continue };
        for descriptor in descriptors {
            count += 1;
            if count > DESCRIPTORS_MAX {
                let text = format!("more than {DESCRIPTORS_MAX} descriptors are open");
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
            let Some(descriptor) = seen(descriptor)? else { continue };
            let path = descriptor.path();
            let Some(metadata) = seen(path.metadata())? else { continue };
            if !metadata.is_file() || metadata.nlink() > 0 {
                continue;
            }
            let Some(system) = seen(rustix::fs::statfs(&path).map_err(io::Error::from))? else {
                continue;
            };
            let is_memory =
                u64::try_from(system.f_type).is_ok_and(|kind| MEMORY_FILES.contains(&kind));
            let files = if is_memory { &mut nameless.memory } else { &mut nameless.disk };
            let bytes = metadata.blocks().saturating_mul(STAT_BLOCK_BYTES);
            files.insert((metadata.dev(), metadata.ino()), bytes);
        }
    }
    Ok(nameless)
}

fn sum(processes: &[PathBuf], bytes: impl Fn(&Path) -> io::Result<u64>) -> io::Result<u64> {
    processes.iter().try_fold(0u64, |sum, process| Ok(sum.saturating_add(bytes(process)?)))
}

/// Memory of a process; shared memory counts in full.
fn resident(process: &Path) -> io::Result<u64> {
    let status = seen(fs::read(process.join("status")))?;
    let status = status.unwrap_or_default();
    // The name in it may not be UTF-8. A process that has just ended lacks some fields and has none of that memory.
    let status = String::from_utf8_lossy(&status);
    Ok(fields(&status, &["RssAnon:", "RssShmem:", "VmSwap:"]))
}

/// Memory of a process; shared memory counts in parts, and its mappings of `known` not at all. Where the kernel does not report parts, as [`resident`].
fn proportional(process: &Path, known: &BTreeMap<FileId, u64>) -> io::Result<u64> {
    let rollup = seen(fs::read_to_string(process.join("smaps_rollup")));
    let Some(rollup) = rollup?.filter(|rollup| rollup.contains("Pss_Anon:")) else {
        return resident(process);
    };
    let all = fields(&rollup, &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"]);
    if known.is_empty() {
        return Ok(all);
    }
    let maps = seen(fs::read(process.join("smaps")))?.unwrap_or_default();
    Ok(all.saturating_sub(mapped_of(&String::from_utf8_lossy(&maps), known)))
}

/// Bytes in `smaps` of the mappings of known files, without the pages that the process has changed privately.
fn mapped_of(smaps: &str, known: &BTreeMap<FileId, u64>) -> u64 {
    let (mut sum, mut is_known, mut part) = (0u64, false, 0u64);
    for line in smaps.lines() {
        if let Some(mapping) = parse_mapping(line) {
            is_known = known.contains_key(&mapping.id);
        } else if is_known && line.starts_with("Pss:") {
            part = fields(line, &["Pss:"]);
        } else if is_known && line.starts_with("Anonymous:") {
            sum = sum.saturating_add(part.saturating_sub(fields(line, &["Anonymous:"])));
        }
    }
    sum
}

/// The sum of `NAME: <number> kB` lines.
fn fields(text: &str, names: &[&str]) -> u64 {
    let value = |line: &str| {
        let value = names.iter().find_map(|name| line.strip_prefix(name))?;
        value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    text.lines().filter_map(value).fold(0, u64::saturating_add)
}

struct Mapping<'a> {
    id: FileId,
    /// Offset in the file, bytes.
    end: u64,
    name: &'a str,
}

/// `begin-end rights offset major:minor inode name`, all but the inode in hexadecimal digits.
fn parse_mapping(line: &str) -> Option<Mapping<'_>> {
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let mut words = line.splitn(6, ' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let offset = hexadecimal(words.nth(1)?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = rustix::fs::makedev(
        u32::try_from(hexadecimal(major)?).ok()?,
        u32::try_from(hexadecimal(minor)?).ok()?,
    );
    let inode = words.next()?.parse().ok()?;
    let length = hexadecimal(end)?.checked_sub(hexadecimal(begin)?)?;
    let name = words.next().unwrap_or_default().trim_start();
    Some(Mapping { id: (device, inode), end: offset.checked_add(length)?, name })
}

/// A mapping of a file on a disk that no longer has a name, and its end in the file.
fn deleted_mapping(line: &str) -> Option<(FileId, u64)> {
    let mapping = parse_mapping(line)?;
    let is_memory = MEMORY_NAMES.iter().any(|name| mapping.name.starts_with(name));
    (mapping.name.ends_with(DELETED) && !is_memory).then_some((mapping.id, mapping.end))
}

/// The result of reading something of a process; `None` if the process is gone.
fn seen<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f00-8f00 rw-s 00001000 00:01 1024                       /memfd:a b (deleted)
Pss:                  40 kB
Anonymous:             8 kB
9000-a000 rw-p 00000000 00:00 0
Pss:                 100 kB
Anonymous:           100 kB
b000-c000 r--p 00000000 fd:01 77                         /data/x (deleted)
Pss:                   4 kB
Anonymous:             0 kB
";

    #[test]
    fn mappings_are_read_as_the_kernel_writes_them() {
        let shared = parse_mapping(SMAPS.lines().next().unwrap()).unwrap();
        let device = rustix::fs::makedev(0, 1);
        assert_eq!((shared.id, shared.end), ((device, 1024), 0x2000));
        assert_eq!(shared.name, "/memfd:a b (deleted)");
        assert_eq!(mapped_of(SMAPS, &BTreeMap::from([((device, 1024), 0)])), 32 << 10);
        assert_eq!(mapped_of(SMAPS, &BTreeMap::new()), 0);
        let deleted: Vec<_> = SMAPS.lines().filter_map(deleted_mapping).collect();
        assert_eq!(deleted, [((rustix::fs::makedev(0xfd, 1), 77), 0x1000)]);
        for line in ["", "Pss: 4 kB", "9000-8000 r 0 0:0 0", "x-y r 0 0:0 0", "1-2 r 0 0 0", "1-2"]
        {
            assert!(parse_mapping(line).is_none(), "{line}");
        }
        for cut in 0..SMAPS.len() {
            mapped_of(&SMAPS[..cut], &BTreeMap::from([((device, 1024), 0)]));
        }
    }

    #[test]
    fn fields_are_summed_and_what_is_no_number_is_nothing() {
        let text = "RssAnon:\t  3 kB\nRssShmem:\t 5 kB\nRssFile: 9 kB\nVmSwap: x kB\n";
        assert_eq!(fields(text, &["RssAnon:", "RssShmem:", "VmSwap:"]), 8 << 10);
        for line in ["RssAnon: kB", "RssAnon: 3 MB", "RssAnon: 18446744073709551615 kB", ""] {
            assert_eq!(fields(line, &["RssAnon:"]), 0, "{line}");
        }
    }
}
