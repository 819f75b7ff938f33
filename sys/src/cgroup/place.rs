//! Finds the group of this process, from the kernel's files (`/proc/self/mountinfo`, `/proc/self/cgroup`) and the file system at that place.
//!
//! Invariant: a place is in a hierarchy of the kernel, never in another file system mounted over it, where the same writes would have no effect.

use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Magic numbers of cgroup file systems, one per version.
const MAGIC_FIRST: u64 = 0x0027_e0eb;
const MAGIC_SECOND: u64 = 0x6367_7270;
/// How `mountinfo` escapes characters that would end a field.
const ESCAPES: [(&str, &str); 4] =
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];

/// Which of the kernel's two kinds of groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// A hierarchy for each controller.
    First,
    /// One hierarchy for all.
    Second,
}

/// The group of this process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Own {
    pub(super) directory: PathBuf,
    /// True if this process can see no group above it: everything here belongs to one container, or to the machine.
    pub(super) is_top: bool,
}

/// The group of this process in the hierarchy of a version; with version 1, in that of the controller `pids`.
pub(super) fn own(version: Version) -> io::Result<Own> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let memberships = fs::read_to_string("/proc/self/cgroup")?;
    let found = find(&mounts, &memberships, version)
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "none is mounted here"))?;
    let magic = match version {
        Version::First => MAGIC_FIRST,
        Version::Second => MAGIC_SECOND,
    };
    if rustix::fs::statfs(&found.directory)?.f_type as u64 != magic {
        let text = format!("{} is hidden by something else", found.directory.display());
        return Err(io::Error::other(text));
    }
    Ok(found)
}

fn find(mounts: &str, memberships: &str, version: Version) -> Option<Own> {
    let below = memberships.lines().find_map(|line| {
        // NUMBER:CONTROLLERS:PATH; version 2 has number 0 and no controllers.
        let mut fields = line.splitn(3, ':');
        let (number, mut controllers) = (fields.next()?, fields.next()?.split(','));
        let is_it = match version {
            Version::First => controllers.any(|name| name == "pids"),
            Version::Second => number == "0",
        };
        fields.next().filter(|_| is_it)
    })?;
    let below = Path::new(below);
    // It is outside the part that this process may see.
    if below.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    // Of several mounts at one place, the last is on top.
    mounts.lines().rev().find_map(|line| {
        // id parent device ROOT POINT options … - TYPE source OPTIONS
        let (before, after) = line.split_once(" - ")?;
        let (mut before, mut after) = (before.split(' ').skip(3), after.split(' '));
        let (root, point) = (plain(before.next()?), plain(before.next()?));
        let (kind, mut options) = (after.next()?, after.nth(1)?.split(','));
        let is_it = match version {
            Version::First => kind == "cgroup" && options.any(|option| option == "pids"),
            Version::Second => kind == "cgroup2",
        };
        let rest = below.strip_prefix(root).ok().filter(|_| is_it)?;
        let directory = rest.components().fold(PathBuf::from(point), |path, part| path.join(part));
        Some(Own { directory, is_top: below == Path::new("/") })
    })
}

fn plain(field: &str) -> String {
    ESCAPES.iter().fold(field.to_owned(), |text, (escape, meant)| text.replace(escape, meant))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "30 23 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n\
        31 30 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n\
        32 30 0:28 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,foo,pids\n\
        33 30 0:29 /docker /sys/fs/cgroup/a\\040b rw - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn the_place_is_found_in_what_the_kernel_tells() {
        for (memberships, first, second) in [
            (
                "9:memory:/a\n8:pids:/docker/x\n0::/docker/u\n",
                Some("/sys/fs/cgroup/pids"),
                Some("/sys/fs/cgroup/a b/u"),
            ),
            (
                "8:foo,pids:/docker/x/y:z\n0::/docker\n",
                Some("/sys/fs/cgroup/pids/y:z"),
                Some("/sys/fs/cgroup/a b"),
            ),
            ("8:pids:/elsewhere\n0::/\n", None, None),
            ("9:memory:/a\n0::/docker/../u\n", None, None),
            ("9:memory:/a\n1:name=systemd:/docker\n", None, None),
            ("0\n\n:::\n", None, None),
            ("", None, None),
        ] {
            for (version, expected) in [(Version::First, first), (Version::Second, second)] {
                let found = find(MOUNTS, memberships, version).map(|own| own.directory);
                assert_eq!(found, expected.map(PathBuf::from), "{version:?}: {memberships}");
            }
        }
        assert_eq!(find("", "8:pids:/docker/x", Version::First), None);
        let whole = "33 30 0:29 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let own = |memberships| find(whole, memberships, Version::Second).unwrap();
        assert_eq!(own("0::/\n"), Own { directory: "/sys/fs/cgroup".into(), is_top: true });
        assert_eq!(
            own("0::/a.slice\n"),
            Own { directory: "/sys/fs/cgroup/a.slice".into(), is_top: false }
        );
        let over = format!("{whole}34 30 0:30 / /elsewhere rw - cgroup2 cgroup2 rw\n");
        assert_eq!(
            find(&over, "0::/\n", Version::Second).unwrap().directory,
            Path::new("/elsewhere")
        );
    }
}
