//! The disks of a simulated machine: names, files, faults.
//!
//! - Of the name changes in a directory since its last sync, a prefix is on the disk after a power cut. A rename from one directory to another happens in both
//!   or in neither, as on file systems with a journal.
//! - Where a sync of a directory fails, its file system takes no more changes until the machine starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::inode::{Inode, Random};
use super::names::{Names, Node, is_below};

pub(super) const EIO: i32 = 5;
const EMFILE: i32 = 24;
const ENOSPC: i32 = 28;
/// Least number of inodes of a disk at which unreachable ones are searched for.
const CROWD_MIN: usize = 256;

/// What happens at a chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The machine loses power: every later operation fails until it starts again, without what was not durable.
    PowerCut,
    /// The process ends: every later operation fails until it starts again; nothing is lost.
    Kill,
    /// This one operation fails with an input/output error.
    Io,
    /// This one operation, or the next that needs space, fails for lack of it.
    Full,
    /// This one operation, or the next that opens a file, fails for lack of descriptors.
    Descriptors,
    /// This one operation, or the next sync, fails with an input/output error.
    Sync,
}

/// How a machine went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Down {
    Power,
    Process,
}

/// What an operation can need, and whether it is a sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    /// Space.
    Change,
    /// A descriptor.
    Open,
    /// Both.
    Create,
    Sync,
}

impl Kind {
    fn meets(self, fault: Fault) -> bool {
        match fault {
            Fault::Full => self.changes(),
            Fault::Descriptors => matches!(self, Kind::Open | Kind::Create),
            Fault::Sync => self == Kind::Sync,
            Fault::PowerCut | Fault::Kill | Fault::Io => true,
        }
    }

    fn changes(self) -> bool {
        matches!(self, Kind::Change | Kind::Create | Kind::Sync)
    }
}

#[derive(Clone, Debug)]
enum Change {
    Link(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl Change {
    /// The directories that it changes.
    fn directories(&self) -> impl Iterator<Item = &OsStr> {
        let paths = match self {
            Change::Link(path, _) | Change::Remove(path) => [Some(path), None],
            Change::Rename(from, to) => [Some(from), Some(to)],
        };
        paths.into_iter().flatten().filter_map(|path| path.parent()).map(Path::as_os_str)
    }

    /// True if it changes one of these directories.
    fn is_in(&self, directories: &BTreeSet<OsString>) -> bool {
        self.directories().any(|directory| directories.contains(directory))
    }

    fn apply(&self, names: &mut Names) {
        match self {
            Change::Link(path, node) => names.insert(path, *node),
            Change::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to, node);
                }
            }
            Change::Remove(path) => drop(names.remove(path)),
        }
    }
}

/// One file system.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) root: PathBuf,
    random: Random,
    pub(super) capacity: u64,
    pub(super) used: u64,
    pub(super) is_read_only: bool,
    /// Every operation fails.
    pub(super) is_broken: bool,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// With more inodes than this a search for unreachable ones is worth its time.
    crowd: usize,
    pub(super) names: Names,
    durable_names: Names,
    /// Since they were last synced, in order.
    changes: Vec<Change>,
}

/// What a process can lock.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Locked {
    /// By its inode.
    File(u64),
    Directory(PathBuf),
}

/// A machine.
#[derive(Debug)]
pub(super) struct World {
    pub(super) disks: Vec<Disk>,
    pub(super) random: Random,
    pub(super) operations: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) fired: u64,
    pub(super) down: Option<Down>,
    /// Starts of the process: files opened before the last are closed.
    pub(super) starts: u64,
    pub(super) elapsed: Duration,
    /// What is locked, by disk.
    pub(super) locks: BTreeSet<(usize, Locked)>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        World {
            disks: Vec::new(),
            random: Random::new(seed),
            operations: 0,
            faults: BTreeMap::new(),
            fired: 0,
            down: None,
            starts: 0,
            elapsed: Duration::ZERO,
            locks: BTreeSet::new(),
        }
    }

    pub(super) fn add_disk(&mut self, root: PathBuf, capacity: u64) {
        let mut names = Names::default();
        names.insert(&root, Node::Directory);
        self.disks.push(Disk {
            root,
            random: Random::new(self.random.next()),
            capacity,
            used: 0,
            is_read_only: false,
            is_broken: false,
            inodes: BTreeMap::new(),
            next_inode: 0,
            crowd: CROWD_MIN,
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
        });
    }

    /// The disk that has a path.
    pub(super) fn disk_of(&self, path: &Path) -> io::Result<usize> {
        let found = self.disks.iter().position(|disk| is_below(path, &disk.root));
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Counts an operation on a disk; fails if it is to.
    fn step(&mut self, disk: usize, kind: Kind) -> io::Result<()> {
        if self.down.is_some() {
            return Err(io::Error::other("the simulated machine is down"));
        }
        self.operations += 1;
        let due = self.faults.first_entry().filter(|fault| *fault.key() <= self.operations);
        match due {
            Some(fault) if kind.meets(*fault.get()) => {
                let fault = fault.remove();
                self.fired += 1;
                return Err(match fault {
                    Fault::Io | Fault::Sync => io::Error::from_raw_os_error(EIO),
                    Fault::Full => io::Error::from_raw_os_error(ENOSPC),
                    Fault::Descriptors => io::Error::from_raw_os_error(EMFILE),
                    Fault::PowerCut | Fault::Kill => {
                        let is_cut = fault == Fault::PowerCut;
                        self.down = Some(if is_cut { Down::Power } else { Down::Process });
                        io::Error::other("the simulated machine goes down")
                    }
                });
            }
            _ => {}
        }
        let disk = &self.disks[disk];
        if disk.is_broken {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        if disk.is_read_only && kind.changes() {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        Ok(())
    }

    /// A disk to read from.
    pub(super) fn read(&mut self, disk: usize) -> io::Result<&mut Disk> {
        self.step(disk, Kind::Read)?;
        Ok(&mut self.disks[disk])
    }

    /// A disk to open a file on, which is created where `creates`.
    pub(super) fn open(&mut self, disk: usize, creates: bool) -> io::Result<&mut Disk> {
        self.step(disk, if creates { Kind::Create } else { Kind::Open })?;
        Ok(&mut self.disks[disk])
    }

    /// A disk to change.
    pub(super) fn change(&mut self, disk: usize) -> io::Result<&mut Disk> {
        self.step(disk, Kind::Change)?;
        Ok(&mut self.disks[disk])
    }

    /// Writes; a fault may leave any first part of it.
    pub(super) fn write(
        &mut self,
        disk: usize,
        id: u64,
        bytes: &[u8],
        offset: usize,
    ) -> io::Result<()> {
        let was_down = self.down.is_some();
        let fired = self.fired;
        match self.step(disk, Kind::Change) {
            Ok(()) => self.disks[disk].write(id, bytes, offset),
            Err(error) => {
                if !was_down && self.fired > fired {
                    let disk = &mut self.disks[disk];
                    let part = disk.random.below(bytes.len() + 1);
                    let _ = disk.write(id, &bytes[..part], offset);
                }
                Err(error)
            }
        }
    }

    /// Syncs a file.
    pub(super) fn sync(&mut self, disk: usize, id: u64) -> io::Result<()> {
        let stepped = self.step(disk, Kind::Sync);
        let is_down = self.down.is_some();
        let disk = &mut self.disks[disk];
        let inode = disk.inodes.get_mut(&id).expect("an open file is kept");
        match &stepped {
            Ok(()) => inode.sync(),
            Err(_) if is_down => {}
            Err(_) => inode.fail_sync(&mut disk.random),
        }
        stepped
    }

    /// Syncs the names in a directory.
    pub(super) fn sync_names(&mut self, disk: usize, path: &Path) -> io::Result<()> {
        let stepped = self.step(disk, Kind::Sync);
        let is_down = self.down.is_some();
        let disk = &mut self.disks[disk];
        match &stepped {
            Ok(()) => disk.sync_names(path),
            Err(error) if !is_down && error.raw_os_error() == Some(EIO) => disk.is_read_only = true,
            Err(_) => {}
        }
        stepped
    }

    /// Starts the process again, and the machine if it had lost power, which it returns.
    pub(super) fn start(&mut self) -> bool {
        assert!(self.locks.is_empty(), "the old process has let go of all it had");
        let is_cut = self.down.take() == Some(Down::Power);
        self.starts += 1;
        self.faults.clear();
        for disk in &mut self.disks {
            if is_cut {
                disk.cut();
            }
            disk.start();
        }
        is_cut
    }
}

impl Disk {
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.names.get(path) {
            Some(Node::File(id)) => Ok(id),
            Some(Node::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn inode(&mut self, id: u64) -> &mut Inode {
        self.inodes.get_mut(&id).expect("a file that is named or open is kept")
    }

    fn check_parent(&self, path: &Path) -> io::Result<()> {
        match path.parent().and_then(|parent| self.names.get(parent)) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Creates an empty file.
    pub(super) fn create(&mut self, path: &Path) -> io::Result<u64> {
        self.check_parent(path)?;
        let id = self.next_inode;
        self.next_inode += 1;
        let mut inode = Inode::default();
        inode.links = 1;
        self.inodes.insert(id, inode);
        self.note(Change::Link(path.to_owned(), Node::File(id)));
        Ok(id)
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.check_parent(path)?;
        if self.names.get(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.note(Change::Link(path.to_owned(), Node::Directory));
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.file(from)?;
        self.check_parent(to)?;
        match self.names.get(to) {
            Some(Node::Directory) => return Err(io::ErrorKind::IsADirectory.into()),
            Some(Node::File(other)) if other == id => return Ok(()),
            Some(Node::File(other)) => self.unlink(other),
            None => {}
        }
        self.note(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let id = self.file(path)?;
        self.unlink(id);
        self.note(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn note(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn unlink(&mut self, id: u64) {
        self.inode(id).links -= 1;
        self.free_if_gone(id);
    }

    /// Closes a file once.
    pub(super) fn close(&mut self, id: u64) {
        self.inode(id).open -= 1;
        self.free_if_gone(id);
    }

    /// Frees the space of a file that nobody can reach any more. Its inode stays: after a power cut it may have its name again.
    fn free_if_gone(&mut self, id: u64) {
        let inode = self.inode(id);
        if inode.links == 0 && inode.open == 0 {
            self.used -= self.inodes[&id].room();
        }
    }

    pub(super) fn resize(&mut self, id: u64, length: usize) -> io::Result<()> {
        let before = self.inode(id).room();
        let after = length.next_multiple_of(super::inode::SECTOR_BYTES) as u64;
        if after > before && self.used - before + after > self.capacity {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        self.inode(id).resize(length);
        self.used = self.used - before + after;
        Ok(())
    }

    /// Writes what there is room for.
    fn write(&mut self, id: u64, bytes: &[u8], offset: usize) -> io::Result<()> {
        let before = self.inode(id).room();
        let room = usize::try_from(before + self.free()).unwrap_or(usize::MAX);
        let fitting = bytes.len().min(room.saturating_sub(offset));
        let inode = self.inodes.get_mut(&id).expect("an open file is kept");
        inode.write(offset, &bytes[..fitting], &mut self.random);
        self.used = self.used - before + inode.room();
        match fitting == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(ENOSPC)),
        }
    }

    pub(super) fn free(&self) -> u64 {
        // A disk can be made smaller than what it holds.
        self.capacity.saturating_sub(self.used)
    }

    /// Makes the changes of a directory durable, with all that they depend on.
    fn sync_names(&mut self, path: &Path) {
        let mut wanted = BTreeSet::from([path.as_os_str().to_owned()]);
        let mut done = Vec::new();
        for change in std::mem::take(&mut self.changes).into_iter().rev() {
            if change.is_in(&wanted) {
                wanted.extend(change.directories().map(OsStr::to_owned));
                done.push(change);
            } else {
                self.changes.push(change);
            }
        }
        self.changes.reverse();
        done.iter().rev().for_each(|change| change.apply(&mut self.durable_names));
        if self.inodes.len() > self.crowd {
            self.forget_unnamed();
        }
    }

    /// Forgets files that can have no name again.
    fn forget_unnamed(&mut self) {
        let linked = self.changes.iter().filter_map(|change| match change {
            Change::Link(_, Node::File(id)) => Some(*id),
            _ => None,
        });
        let named = self.names.files().chain(self.durable_names.files());
        let kept: BTreeSet<u64> = named.chain(linked).collect();
        self.inodes.retain(|id, inode| inode.open > 0 || kept.contains(id));
        self.crowd = CROWD_MIN.max(self.inodes.len() * 2);
    }

    /// A power cut.
    fn cut(&mut self) {
        let mut stopped: BTreeSet<OsString> = BTreeSet::new();
        for change in std::mem::take(&mut self.changes) {
            if change.is_in(&stopped) || self.random.chance(3) {
                stopped.extend(change.directories().map(OsStr::to_owned));
            } else {
                change.apply(&mut self.durable_names);
            }
        }
        // What is in a directory that is gone is gone, too.
        let all = self.durable_names.clone();
        let is_reachable = |path: &Path| {
            let mut above = path.ancestors().skip(1).take_while(|path| is_below(path, &self.root));
            above.all(|parent| all.get(parent) == Some(Node::Directory))
        };
        self.durable_names.retain(is_reachable);
        self.names = self.durable_names.clone();
        for inode in self.inodes.values_mut() {
            inode.cut(&mut self.random);
        }
    }

    /// Nothing is open after a start.
    fn start(&mut self) {
        self.is_read_only = false;
        for inode in self.inodes.values_mut() {
            (inode.links, inode.open) = (0, 0);
        }
        for id in self.names.files() {
            self.inodes.get_mut(&id).expect("a named file is kept").links += 1;
        }
        self.used = self.inodes.values().filter(|inode| inode.links > 0).map(Inode::room).sum();
        self.forget_unnamed();
    }
}
