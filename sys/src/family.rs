//! A process with all its descendants: found in `/proc`, measured, ended.
//!
//! A process belongs to the family of `root` in any of three cases: it is in the group that `root` leads; it descends from a member; or it has the family's
//! mark in the environment it was started with (for a child that left the group and whose parent is gone). A child that has escaped all three is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::process;

/// Rounds of listing and killing; a family that grows faster than it is killed loses some in each, since forks fail while a signal is pending.
const ROUNDS_MAX: u32 = 50;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// A line of the process table: a name of at most 64 bytes, and 51 numbers of at most 20 digits.
const STAT_BYTES_MAX: usize = 2048;
/// Where the kernel shows processes.
pub(crate) const PROC: &str = "/proc";

/// All processes at one moment, with the relations that define families.
#[derive(Clone, Debug, Default)]
pub struct Table {
    by_group: BTreeMap<u32, Vec<u32>>,
    by_parent: BTreeMap<u32, Vec<u32>>,
    /// Processes that have ended and were not waited for.
    dead_by_parent: BTreeMap<u32, Vec<u32>>,
    /// When each was started, in the kernel's ticks; together with its id this identifies a process for good.
    started: BTreeMap<u32, u64>,
}

/// One line of the process table.
struct Row {
    pid: u32,
    parent: u32,
    group: u32,
    started: u64,
    is_dead: bool,
}

impl Table {
    /// Reads all processes, including those that have ended and were not waited for.
    ///
    /// # Errors
    /// If `/proc` cannot be read, or is not a real one: this very process is not in it.
    pub fn read() -> io::Result<Table> {
        Table::read_in(Path::new(PROC))
    }

    fn read_in(proc: &Path) -> io::Result<Table> {
        let (mut table, mut has_own) = (Table::default(), false);
        let (mut line, mut path) = ([0; STAT_BYTES_MAX], PathBuf::new());
        for entry in fs::read_dir(proc)? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            path.clear();
            path.extend([proc, Path::new(&name), Path::new("stat")]);
            // The kernel returns all of it at once.
            let read = File::open(&path).and_then(|mut stat| stat.read(&mut line));
            let Some(count) = seen(read)? else { continue };
            has_own |= pid == std::process::id();
            // The name in it may not be UTF-8.
            match parse(pid, &String::from_utf8_lossy(&line[..count])) {
                Some(row) if row.is_dead => {
                    table.dead_by_parent.entry(row.parent).or_default().push(pid);
                }
                row => table.extend(row),
            }
        }
        if !has_own {
            let text = format!("{} does not show the processes", proc.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        Ok(table)
    }

    /// The process ids of the family of `root`.
    pub fn family(&self, root: u32) -> BTreeSet<u32> {
        self.with_descendants(self.by_group.get(&root).cloned().unwrap_or_default())
    }

    /// As [`Table::family`], plus the descendants of this process that have `mark` (slower: it reads their environments). Processes whose parents are gone are
    /// among them, since this process adopts them ([`crate::orphans::adopt`]).
    fn marked_family(&self, root: u32, mark: &str) -> BTreeSet<u32> {
        let below = self.with_descendants(self.children(std::process::id()).to_vec());
        let mut members: Vec<u32> = below.into_iter().filter(|pid| carries(*pid, mark)).collect();
        members.extend(self.by_group.get(&root).into_iter().flatten());
        self.with_descendants(members)
    }

    /// The living children of a process.
    pub(crate) fn children(&self, parent: u32) -> &[u32] {
        self.by_parent.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// The children of a process that have ended and were not waited for.
    pub(crate) fn dead_children(&self, parent: u32) -> &[u32] {
        self.dead_by_parent.get(&parent).map_or(&[], Vec::as_slice)
    }

    /// When a process was started.
    pub(crate) fn started(&self, process: u32) -> Option<u64> {
        self.started.get(&process).copied()
    }

    pub(crate) fn with_descendants(&self, mut fresh: Vec<u32>) -> BTreeSet<u32> {
        let mut members = BTreeSet::new();
        while let Some(pid) = fresh.pop() {
            if members.insert(pid) {
                fresh.extend(self.by_parent.get(&pid).into_iter().flatten());
            }
        }
        members
    }
}

impl Extend<Row> for Table {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        for row in rows {
            self.by_group.entry(row.group).or_default().push(row.pid);
            self.by_parent.entry(row.parent).or_default().push(row.pid);
            self.started.insert(row.pid, row.started);
        }
    }
}

/// Ends every process of the family of `root`. True if the last listing found none.
///
/// # Errors
/// If `/proc` cannot be read or a process cannot be killed.
pub fn kill_family(root: u32, mark: &str) -> io::Result<bool> {
    for _ in 0..ROUNDS_MAX {
        process::kill_group(root)?;
        let table = Table::read()?;
        let left = table.marked_family(root, mark);
        if left.is_empty() {
            return Ok(true);
        }
        for pid in left {
            kill_exactly(pid, table.started.get(&pid).copied())?;
        }
        std::thread::sleep(ROUND_PAUSE);
    }
    Ok(false)
}

/// Ends the process `pid` that was started at `started`. One that is already gone is fine, even if another process has its id now: with thousands of short
/// processes, ids are reused within a second.
pub(crate) fn kill_exactly(pid: u32, started: Option<u64>) -> io::Result<()> {
    let Some(id) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
    let process = match pidfd_open(id, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => return Ok(()),
        // Kernels before 5.3.
        Err(Errno::NOSYS) => return process::kill(pid),
        Err(error) => return Err(error.into()),
    };
    // The descriptor refers to one process; it is the right one if its start is the one in the table.
    let stat = seen(fs::read(format!("{PROC}/{pid}/stat")))?;
    let row = stat.and_then(|stat| parse(pid, &String::from_utf8_lossy(&stat)));
    if row.is_none_or(|row| row.is_dead || Some(row.started) != started) {
        return Ok(());
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Err(Errno::SRCH) => Ok(()),
        result => Ok(result?),
    }
}

/// The result of reading something of a process; `None` if it is gone, or not visible: in a `/proc` mounted that way, another user's process, none of ours.
fn seen<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Ok(None),
            _ => Err(error),
        },
    }
}

/// `pid (name) state parent group …`, the 20th field counts threads, the 22nd is the start; the name may contain anything. A process whose first thread has
/// ended looks dead, but lives as long as it has others.
fn parse(pid: u32, stat: &str) -> Option<Row> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let threads: u64 = fields.nth(14)?.parse().ok()?;
    let started = fields.nth(1)?.parse().ok()?;
    let is_dead = is_dead(state) && threads <= 1;
    Some(Row { pid, parent, group, started, is_dead })
}

/// True for a state of the process table in which nothing runs any more.
pub(crate) fn is_dead(state: &str) -> bool {
    matches!(state, "Z" | "X")
}

/// True if the process was started with `mark`, a variable with its value, in its environment.
pub fn carries(pid: u32, mark: &str) -> bool {
    let environment = fs::read(format!("{PROC}/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    fn marked(script: &str, mark: &str) -> Child {
        let (name, value) = mark.split_once('=').unwrap();
        Command::new("sh")
            .args(["-c", script])
            .env(name, value)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn until(what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done() {
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            std::thread::sleep(ROUND_PAUSE);
        }
    }

    fn line(name: &str, state: char) -> String {
        line_of_threads(name, state, 1)
    }

    fn line_of_threads(name: &str, state: char, threads: u32) -> String {
        format!("7 ({name}) {state} 3 5 5 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 {threads} 0 99 1000 1")
    }

    /// The id belonged to another process at the time of the listing.
    #[test]
    fn a_process_that_has_the_id_of_a_dead_one_is_spared() {
        let mut child = marked("exec sleep 1000", "HANNO_TEST_SPARED=1");
        let started = Table::read().unwrap().started[&child.id()];
        for other in [Some(started + 1), None] {
            kill_exactly(child.id(), other).unwrap();
            assert!(child.try_wait().unwrap().is_none());
        }
        kill_exactly(child.id(), Some(started)).unwrap();
        child.wait().unwrap();
        kill_exactly(child.id(), Some(started)).unwrap();
    }

    #[test]
    fn lines_with_odd_names() {
        let row = parse(7, &line("a) b) (c", 'S')).unwrap();
        assert_eq!((row.pid, row.parent, row.group, row.started), (7, 3, 5, 99));
        assert!(parse(7, &line("dead", 'Z')).unwrap().is_dead && !row.is_dead);
        assert!(!parse(7, &line_of_threads("lives on", 'Z', 2)).unwrap().is_dead);
        assert!(parse(7, "7 (short) S 3").is_none() && parse(7, "").is_none());
    }

    #[test]
    fn families_are_groups_with_descendants() {
        let mut table = Table::default();
        let rows =
            [(10, 1, 10), (11, 10, 10), (12, 11, 12), (13, 12, 13), (14, 1, 10), (20, 1, 20)];
        table.extend(rows.map(|(pid, parent, group)| Row {
            pid,
            parent,
            group,
            started: 1,
            is_dead: false,
        }));
        for (root, members) in
            [(10, &[10, 11, 12, 13, 14][..]), (12, &[12, 13]), (20, &[20]), (11, &[]), (99, &[])]
        {
            assert_eq!(table.family(root), members.iter().copied().collect(), "{root}");
        }
    }

    #[test]
    fn a_table_that_cannot_be_read_is_an_error() {
        let proc = tempfile::tempdir().unwrap();
        let error = Table::read_in(proc.path()).unwrap_err();
        assert!(error.to_string().contains("does not show the processes"), "{error}");
        assert!(Table::read_in(&proc.path().join("none")).is_err());
        let own = proc.path().join(std::process::id().to_string());
        fs::create_dir(&own).unwrap();
        // It has ended between the listing and the read.
        assert!(Table::read_in(proc.path()).is_err());
        fs::write(own.join("stat"), b"1 (\xff) S 3 5 5 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 9").unwrap();
        assert_eq!(Table::read_in(proc.path()).unwrap().family(5).len(), 1);
        fs::remove_file(own.join("stat")).unwrap();
        fs::create_dir(own.join("stat")).unwrap();
        assert_eq!(Table::read_in(proc.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn grandchildren_that_left_the_group_are_found_by_their_mark_and_killed() {
        crate::orphans::adopt().unwrap();
        let mark = format!("HANNO_TEST_FAMILY={}", std::process::id());
        // The child in the middle ends at once: the one in a session of its own is then an orphan.
        let script = "(setsid sleep 1000 & setsid sleep 1000 &); sleep 1000 & wait";
        let mut child = marked(script, &mark);
        let root = child.id();
        let members = || Table::read().unwrap().marked_family(root, &mark);
        until("four processes", || members().len() == 4);
        assert!(kill_family(root, &mark).unwrap());
        child.wait().unwrap();
        assert_eq!(members(), BTreeSet::new());
    }
}
