//! A machine in memory with disks that lose what was not synced, tear what was being written, and fail or stop at the n-th operation.
//!
//! ```
//! use sys::disk::{self, sim::Machine};
//!
//! let machine = Machine::new(7);
//! let path = machine.add_disk(1 << 20).join("name");
//! disk::File::create_new(&path, 0o600)?.write_all_at(b"not synced", 0)?;
//! machine.cut_power();
//! assert!(disk::length(&path).is_err(), "it is down");
//! machine.start();
//! // Whether the file is there, and how much of it, follows from the seed.
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! What a power cut does is decided by the seed, for each disk on its own; what may happen is written in `inode` and `world`. The same calls after the same seed
//! give the same results: whoever wants that calls from one thread.

use std::collections::BTreeMap;
use std::fs::TryLockError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use super::names::Node;
pub use super::world::Fault;
use super::world::{Down, EIO, Locked, World};

/// A machine; clones are handles to the same one. It exists until the last of them and the last of its files are dropped.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    number: u64,
    /// What its clock starts from.
    start: Instant,
    world: Mutex<World>,
}

/// Above the disks of all machines; the next part of a path is the machine's number.
const ABOVE: &str = "/simulated/";
/// The machines by their numbers.
static MACHINES: RwLock<BTreeMap<u64, Weak<Shared>>> = RwLock::new(BTreeMap::new());
/// How many there are: programs have none, and then nobody asks further.
static MACHINE_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The machine that has a path.
pub(super) fn machine_of(path: &Path) -> Option<Machine> {
    if MACHINE_COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let (number, _) = path.to_str()?.strip_prefix(ABOVE)?.split_once('/')?;
    let machines = MACHINES.read().unwrap_or_else(PoisonError::into_inner);
    machines.get(&number.parse().ok()?)?.upgrade().map(Machine)
}

/// True if the path is on a simulated disk.
pub fn is_simulated(path: &Path) -> bool {
    machine_of(path).is_some()
}

/// Bytes that follow from the seed of the machine that has the path.
pub fn random_bytes(path: &Path) -> Option<[u8; 16]> {
    let machine = machine_of(path)?;
    let mut world = machine.world();
    let numbers = [world.random.next(), world.random.next()];
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&numbers[0].to_le_bytes());
    bytes[8..].copy_from_slice(&numbers[1].to_le_bytes());
    Some(bytes)
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut machines = MACHINES.write().unwrap_or_else(PoisonError::into_inner);
        machines.remove(&self.number);
        MACHINE_COUNT.store(machines.len(), Ordering::Release);
    }
}

impl Machine {
    /// A machine without disks.
    pub fn new(seed: u64) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let shared = Arc::new(Shared {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            start: Instant::now(),
            world: Mutex::new(World::new(seed)),
        });
        let mut machines = MACHINES.write().unwrap_or_else(PoisonError::into_inner);
        machines.insert(shared.number, Arc::downgrade(&shared));
        MACHINE_COUNT.store(machines.len(), Ordering::Release);
        Machine(shared)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a disk; returns its root directory, which is empty.
    pub fn add_disk(&self, capacity_bytes: u64) -> PathBuf {
        let mut world = self.world();
        let number = world.disks.len();
        let root = PathBuf::from(format!("{ABOVE}{}/disk{number}", self.0.number));
        world.add_disk(root.clone(), capacity_bytes);
        root
    }

    /// Changes the capacity of the disk that has a path.
    pub fn set_capacity(&self, path: &Path, capacity_bytes: u64) {
        self.with_disk(path, |disk| disk.capacity = capacity_bytes);
    }

    /// Bytes in use on the disk that has a path.
    pub fn used(&self, path: &Path) -> u64 {
        self.with_disk(path, |disk| disk.used)
    }

    /// Makes every operation on the disk that has a path fail, or none.
    pub fn set_broken(&self, path: &Path, is_broken: bool) {
        self.with_disk(path, |disk| disk.is_broken = is_broken);
    }

    /// Repairs the disk that has a path: its operations succeed, and it takes changes again. What failed syncs dropped stays dropped.
    pub fn repair(&self, path: &Path) {
        self.with_disk(path, |disk| (disk.is_broken, disk.is_read_only) = (false, false));
    }

    fn with_disk<T>(&self, path: &Path, with: impl FnOnce(&mut super::world::Disk) -> T) -> T {
        let mut world = self.world();
        let disk = world.disk_of(path).expect("the path is on a disk of this machine");
        with(&mut world.disks[disk])
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.world().operations
    }

    /// Plans a fault at an operation, counted from now: the next one is 1. A start forgets it.
    pub fn plan(&self, at: u64, fault: Fault) {
        let mut world = self.world();
        let at = world.operations + at;
        world.faults.insert(at, fault);
    }

    /// Forgets the faults that are planned.
    pub fn forget_plan(&self) {
        self.world().faults.clear();
    }

    /// Planned faults that have happened.
    pub fn fired(&self) -> u64 {
        self.world().fired
    }

    /// Loses power now.
    pub fn cut_power(&self) {
        self.world().down = Some(Down::Power);
    }

    /// Ends the process now.
    pub fn kill(&self) {
        self.world().down.get_or_insert(Down::Process);
    }

    /// True from a power cut or the end of the process until the next start.
    pub fn is_down(&self) -> bool {
        self.world().down.is_some()
    }

    /// True from a power cut until the next start.
    pub fn has_no_power(&self) -> bool {
        self.world().down == Some(Down::Power)
    }

    /// Starts the process again, after a power cut without what was not durable; true if there was one.
    ///
    /// # Panics
    /// If the old process still holds a lock: whatever stands for it must be dropped first.
    pub fn start(&self) -> bool {
        self.world().start()
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        self.world().elapsed += time;
    }

    pub(super) fn now(&self) -> Instant {
        self.0.start + self.world().elapsed
    }

    /// All files below a directory.
    pub fn files(&self, below: &Path) -> Vec<PathBuf> {
        self.with_disk(below, |disk| {
            let files = disk.names.below(below).filter(|(_, node)| *node != Node::Directory);
            files.map(|(path, _)| path.to_owned()).collect()
        })
    }

    /// The bytes of a file as a reader sees them, whatever state the machine and its disks are in.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.with_disk(path, |disk| {
            let id = disk.file(path)?;
            Ok(disk.inode(id).data.clone())
        })
    }

    /// Changes the bytes of a file behind everybody's back, durably.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn tamper(&self, path: &Path, change: impl FnOnce(&mut [u8])) -> io::Result<()> {
        self.with_disk(path, |disk| {
            let id = disk.file(path)?;
            let inode = disk.inode(id);
            change(&mut inode.data);
            inode.settle();
            Ok(())
        })
    }

    /// Makes the sectors of some bytes of a file unreadable, until they are written as a whole.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn spoil(&self, path: &Path, bytes: std::ops::Range<usize>) -> io::Result<()> {
        self.with_disk(path, |disk| {
            let id = disk.file(path)?;
            disk.inode(id).spoil(bytes);
            Ok(())
        })
    }

    /// Removes a file behind everybody's back.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`].
    pub fn lose(&self, path: &Path) -> io::Result<()> {
        self.with_disk(path, |disk| disk.remove(path))
    }
}

fn unreadable() -> io::Error {
    io::Error::from_raw_os_error(EIO)
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Read,
    Write,
    CreateNew,
    Create,
    Truncate,
}

/// What the functions of [`super`] do on a machine.
impl Machine {
    pub(super) fn open(&self, path: &Path, how: How) -> io::Result<Handle> {
        let mut world = self.world();
        let number = world.disk_of(path)?;
        let disk = world.open(number, !matches!(how, How::Read | How::Write))?;
        let node = match (how, disk.file(path)) {
            (How::CreateNew, Ok(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            (How::CreateNew | How::Create | How::Truncate, Err(error))
                if error.kind() == io::ErrorKind::NotFound =>
            {
                Node::File(disk.create(path)?)
            }
            (How::Truncate, Ok(id)) => {
                disk.resize(id, 0)?;
                Node::File(id)
            }
            (How::Read, Err(error)) if error.kind() == io::ErrorKind::IsADirectory => {
                Node::Directory
            }
            (_, found) => Node::File(found?),
        };
        if let Node::File(id) = node {
            disk.inode(id).open += 1;
        }
        let start = world.starts;
        drop(world);
        let target = match node {
            Node::Directory => Target::Directory(path.to_owned()),
            Node::File(id) => Target::File { id, may_write: how != How::Read },
        };
        let (machine, position) = (self.clone(), 0);
        Ok(Handle {
            machine,
            disk: number,
            start,
            target,
            position,
            is_locked: AtomicBool::new(false),
        })
    }

    pub(super) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        let disk = world.disk_of(from)?;
        if world.disk_of(to).ok() != Some(disk) {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        world.change(disk)?.rename(from, to)
    }

    pub(super) fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        world.change(disk)?.remove(path)
    }

    pub(super) fn create_dir(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        world.change(disk)?.create_dir(path)
    }

    pub(super) fn is_dir(&self, path: &Path) -> io::Result<bool> {
        Ok(self.node(path)? == Some(Node::Directory))
    }

    pub(super) fn is_file(&self, path: &Path) -> io::Result<bool> {
        Ok(matches!(self.node(path)?, Some(Node::File(_))))
    }

    pub(super) fn try_exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.node(path)?.is_some())
    }

    fn node(&self, path: &Path) -> io::Result<Option<Node>> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        Ok(world.read(disk)?.names.get(path))
    }

    pub(super) fn length(&self, path: &Path) -> io::Result<u64> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        let disk = world.read(disk)?;
        let id = disk.file(path)?;
        Ok(disk.inode(id).data.len() as u64)
    }

    pub(super) fn read_to_string(&self, path: &Path) -> io::Result<String> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        let disk = world.read(disk)?;
        let id = disk.file(path)?;
        let inode = disk.inode(id);
        if !inode.is_readable(&(0..inode.data.len())) {
            return Err(unreadable());
        }
        let text = String::from_utf8(inode.data.clone());
        text.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    pub(super) fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        let disk = world.read(disk)?;
        match disk.names.get(path) {
            Some(Node::Directory) => {}
            Some(Node::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        Ok(disk.names.inside(path).map(Path::to_owned).collect())
    }

    /// Number of the disk.
    pub(super) fn device(&self, path: &Path) -> io::Result<u64> {
        Ok(self.world().disk_of(path)? as u64)
    }

    /// Capacity and free bytes.
    pub(super) fn space(&self, path: &Path) -> io::Result<(u64, u64)> {
        let mut world = self.world();
        let disk = world.disk_of(path)?;
        let disk = world.read(disk)?;
        Ok((disk.capacity, disk.free()))
    }
}

/// An open file of a machine.
#[derive(Debug)]
pub(super) struct Handle {
    machine: Machine,
    disk: usize,
    /// The start of the process that opened it.
    start: u64,
    target: Target,
    /// Where the next [`Handle::append`] writes.
    position: u64,
    is_locked: AtomicBool,
}

#[derive(Debug)]
enum Target {
    Directory(PathBuf),
    File { id: u64, may_write: bool },
}

impl Target {
    fn locked(&self) -> Locked {
        match self {
            Target::Directory(path) => Locked::Directory(path.clone()),
            Target::File { id, .. } => Locked::File(*id),
        }
    }
}

impl Handle {
    /// The machine, unless the process that opened the file has ended.
    fn world(&self) -> io::Result<MutexGuard<'_, World>> {
        let world = self.machine.world();
        if world.starts != self.start {
            return Err(io::Error::other("the simulated process that opened it has ended"));
        }
        Ok(world)
    }

    fn id(&self, wants_write: bool) -> io::Result<u64> {
        match self.target {
            Target::Directory(_) => Err(io::ErrorKind::IsADirectory.into()),
            Target::File { may_write: false, .. } if wants_write => {
                Err(io::ErrorKind::PermissionDenied.into())
            }
            Target::File { id, .. } => Ok(id),
        }
    }

    pub(super) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let id = self.id(false)?;
        let mut world = self.world()?;
        let inode = world.read(self.disk)?.inode(id);
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        let range = begin..begin.checked_add(bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        let found = inode.data.get(range.clone()).ok_or(io::ErrorKind::UnexpectedEof)?;
        if !inode.is_readable(&range) {
            return Err(unreadable());
        }
        bytes.copy_from_slice(found);
        Ok(())
    }

    pub(super) fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let id = self.id(true)?;
        let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.world()?.write(self.disk, id, bytes, offset)
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all_at(bytes, self.position)?;
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    pub(super) fn set_len(&self, length: u64) -> io::Result<()> {
        let id = self.id(true)?;
        let length = usize::try_from(length).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.world()?.change(self.disk)?.resize(id, length)
    }

    pub(super) fn sync_data(&self) -> io::Result<()> {
        let mut world = self.world()?;
        match &self.target {
            Target::Directory(path) => world.sync_names(self.disk, path),
            Target::File { id, .. } => world.sync(self.disk, *id),
        }
    }

    pub(super) fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    pub(super) fn length(&self) -> io::Result<u64> {
        let id = self.id(false)?;
        Ok(self.world()?.read(self.disk)?.inode(id).data.len() as u64)
    }

    /// A directory of a machine is never replaced: what has its path is the same one.
    pub(super) fn is_at(&self, path: &Path) -> io::Result<bool> {
        let mut world = self.world()?;
        let disk = world.disk_of(path)?;
        let node = world.read(disk)?.names.get(path);
        Ok(match &self.target {
            Target::Directory(own) => own == path && node == Some(Node::Directory),
            Target::File { id, .. } => disk == self.disk && node == Some(Node::File(*id)),
        })
    }

    pub(super) fn try_lock(&self) -> Result<(), TryLockError> {
        let mut world = self.world().map_err(TryLockError::Error)?;
        world.read(self.disk).map_err(TryLockError::Error)?;
        if !world.locks.insert((self.disk, self.target.locked())) {
            return Err(TryLockError::WouldBlock);
        }
        self.is_locked.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut world = self.machine.world();
        if world.starts != self.start {
            return;
        }
        if *self.is_locked.get_mut() {
            world.locks.remove(&(self.disk, self.target.locked()));
        }
        if let Target::File { id, .. } = self.target {
            world.disks[self.disk].close(id);
        }
    }
}

#[cfg(test)]
mod tests;
