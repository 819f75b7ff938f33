//! A process with everything that came from it: found in `/proc`, counted, ended.
//!
//! A process belongs to the family of `root` if it is in the group that `root` leads, descends from a member, or carries the family's mark in the environment it
//! was started with (a child that left the group and whose parent is gone). A child that left all three behind is not found.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use crate::process;

/// Rounds of looking and killing; a family that grows faster than it is killed loses some at each, as forks fail while a signal is pending.
const ROUNDS_MAX: u32 = 50;
/// Time for killed processes to go.
const ROUND_PAUSE: Duration = Duration::from_millis(10);
/// Bytes of a page, as `statm` counts; every system that this runs on has it at least.
const PAGE_BYTES: u64 = 4096;

/// What a family is made of at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Family {
    /// Process ids.
    pub members: BTreeSet<u32>,
    /// Memory that is theirs alone or written by them: pages mapped from files are left out.
    pub memory_bytes: u64,
}

/// One line of the process table.
struct Row {
    pid: u32,
    parent: u32,
    group: u32,
}

/// Looks for the family of `root`; with `mark`, also by it (slower).
///
/// # Errors
/// If `/proc` cannot be read.
pub fn family(root: u32, mark: Option<&str>) -> io::Result<Family> {
    let rows = table()?;
    let mut members: BTreeSet<u32> = BTreeSet::new();
    for row in &rows {
        let is_marked = || mark.is_some_and(|mark| carries(row.pid, mark));
        if row.group == root || is_marked() {
            members.insert(row.pid);
        }
    }
    loop {
        let before = members.len();
        let children = rows.iter().filter(|row| members.contains(&row.parent));
        let children: Vec<u32> = children.map(|row| row.pid).collect();
        members.extend(children);
        if members.len() == before {
            break;
        }
    }
    let memory_bytes = members.iter().map(|pid| memory(*pid)).sum();
    Ok(Family { members, memory_bytes })
}

/// Ends every process of the family of `root`. True if none was left at the last look.
///
/// # Errors
/// If `/proc` cannot be read or a process cannot be killed.
pub fn kill_family(root: u32, mark: &str) -> io::Result<bool> {
    for _ in 0..ROUNDS_MAX {
        process::kill_group(root)?;
        let left = family(root, Some(mark))?.members;
        if left.is_empty() {
            return Ok(true);
        }
        left.iter().try_for_each(|pid| process::kill(*pid))?;
        std::thread::sleep(ROUND_PAUSE);
    }
    Ok(false)
}

/// All processes but the dead that nobody has looked at yet.
fn table() -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // It may be gone meanwhile.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
        rows.extend(stat.ok().and_then(|stat| parse(pid, &stat)));
    }
    Ok(rows)
}

/// `pid (name) state parent group …`; the name may hold anything.
fn parse(pid: u32, stat: &str) -> Option<Row> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X").then_some(Row { pid, parent, group })
}

/// Resident bytes that are not shared.
fn memory(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = statm.split_whitespace().skip(1).map(|field| field.parse::<u64>());
    match (fields.next(), fields.next()) {
        (Some(Ok(resident)), Some(Ok(shared))) => resident.saturating_sub(shared) * PAGE_BYTES,
        _ => 0,
    }
}

fn carries(pid: u32, mark: &str) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn lines_with_odd_names() {
        let row = parse(7, "7 (a) b) (c) S 3 5 5 0 -1").unwrap();
        assert_eq!((row.pid, row.parent, row.group), (7, 3, 5));
        assert!(parse(7, "7 (dead) Z 3 5 5 0 -1").is_none());
        assert!(parse(7, "7 (short) S 3").is_none() && parse(7, "").is_none());
    }

    #[test]
    fn grandchildren_that_left_the_group_are_found_by_their_mark_and_killed() {
        let mark = format!("HANNO_TEST_FAMILY={}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        // The child in the middle ends at once: the one in a session of its own is nobody's.
        let mut child = Command::new("sh")
            .args(["-c", "(setsid sleep 1000 & setsid sleep 1000 &); sleep 1000 & wait"])
            .env(name, value)
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let root = child.id();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while family(root, Some(&mark)).unwrap().members.len() < 4 {
            assert!(std::time::Instant::now() < deadline, "{:?}", family(root, Some(&mark)));
            std::thread::sleep(ROUND_PAUSE);
        }
        assert!(family(root, None).unwrap().memory_bytes > 0);
        assert!(kill_family(root, &mark).unwrap());
        child.wait().unwrap();
        assert_eq!(family(root, Some(&mark)).unwrap(), Family::default());
    }
}
