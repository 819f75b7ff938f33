//! A machine in memory for tests: a disk and a key-value engine that lose what was not synced, tear what
//! was being written, and fail or stop at the n-th operation.
//!
//! What a crash may do here, decided by the seed:
//! - each 512-byte sector written since the last sync of its file is there or is not (zeros, or the file
//!   ends before it), independent of the others;
//! - what a failed sync left behind is never written by a later sync, though it can be read until then;
//! - of the name changes in a directory since its last sync, a prefix has happened;
//! - a sector that was chosen does not return what is in it, until its file is written anew;
//! - of the batches applied to the engine since its last sync, a prefix has happened; and now and then the
//!   engine does not open any more, or has silently lost a row.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskFile, ReadFile};
use crate::error::StoreError;
use crate::sector::SECTOR_BYTES;
use crate::store::{Change, Kv, KvPlace, RowFn};

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The machine stops; every later operation fails until `reboot`.
    Crash,
    /// This one operation fails with an input/output error.
    Io,
    /// This one operation fails for lack of space.
    Full,
}

/// The machine; clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct SimWorld(Arc<Mutex<World>>);

#[derive(Clone, Default)]
struct World {
    random: u64,
    ops: u64,
    fault: Option<(u64, Fault)>,
    fired: bool,
    dead: bool,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    name_changes: Vec<(PathBuf, NameChange)>,
    engines: BTreeMap<&'static str, Engine>,
    quarantined: u32,
    is_engine_frail: bool,
}

#[derive(Clone, Default)]
struct Inode {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// A sync failed: the bytes from here on count as clean but are not on the disk.
    dropped_from: Option<usize>,
    /// Sectors that cannot be read.
    unreadable: BTreeSet<usize>,
}

#[derive(Clone)]
enum NameChange {
    Link(PathBuf, usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

#[derive(Clone, Default)]
struct Engine {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    pending: Vec<Vec<Change>>,
    is_broken: bool,
}

impl SimWorld {
    pub(crate) fn new(seed: u64) -> SimWorld {
        SimWorld(Arc::new(Mutex::new(World {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            ..World::default()
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A copy of the machine as it is now.
    pub(crate) fn fork(&self) -> SimWorld {
        SimWorld(Arc::new(Mutex::new(self.world().clone())))
    }

    /// Operations so far.
    pub(crate) fn ops(&self) -> u64 {
        self.world().ops
    }

    /// Lets `fault` happen at operation number `at` (counted from now, the next one is 1).
    pub(crate) fn plan(&self, at: u64, fault: Fault) {
        let mut world = self.world();
        world.fault = Some((world.ops + at, fault));
        world.fired = false;
    }

    /// Whether the planned fault has happened.
    pub(crate) fn has_fired(&self) -> bool {
        self.world().fired
    }

    /// Whether the machine has stopped and waits for `reboot`.
    pub(crate) fn is_dead(&self) -> bool {
        self.world().dead
    }

    /// Makes the engine break now and then in a crash.
    pub(crate) fn make_engine_frail(&self) {
        self.world().is_engine_frail = true;
    }

    /// Loses what was not durable and starts again.
    pub(crate) fn reboot(&self) {
        let mut world = self.world();
        world.dead = false;
        world.fault = None;
        let changes = std::mem::take(&mut world.name_changes);
        let mut stopped: Vec<PathBuf> = Vec::new();
        for (dir, change) in changes {
            if stopped.contains(&dir) {
                continue;
            }
            if world.chance(3) {
                stopped.push(dir);
                continue;
            }
            apply_name(&mut world.durable_names, &change);
        }
        world.names = world.durable_names.clone();
        for index in 0..world.inodes.len() {
            let inode = world.inodes[index].clone();
            let torn = world.tear(&inode);
            let unreadable = inode.unreadable;
            world.inodes[index] =
                Inode { data: torn.clone(), durable: torn, dropped_from: None, unreadable };
        }
        let names: Vec<_> = world.engines.keys().copied().collect();
        for name in names {
            let mut engine = world.engines[name].clone();
            for batch in std::mem::take(&mut engine.pending) {
                if world.chance(2) {
                    break;
                }
                apply_rows(&mut engine.durable, &batch);
            }
            if world.is_engine_frail && world.chance(8) {
                engine.is_broken = true;
            } else if world.is_engine_frail && world.chance(8) {
                engine.durable.pop_first();
            }
            engine.rows = engine.durable.clone();
            world.engines.insert(name, engine);
        }
    }

    /// All files whose path starts with `prefix`.
    pub(crate) fn files(&self, prefix: &str) -> Vec<PathBuf> {
        let world = self.world();
        world.names.keys().filter(|path| path.starts_with(prefix)).cloned().collect()
    }

    /// Changes the bytes of a file behind everybody's back.
    pub(crate) fn tamper(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.world();
        let inode = world.names[path];
        change(&mut world.inodes[inode].data);
        world.inodes[inode].durable = world.inodes[inode].data.clone();
    }

    /// Makes a sector of a file unreadable.
    pub(crate) fn spoil(&self, path: &Path, sector: usize) {
        let mut world = self.world();
        let inode = world.names[path];
        world.inodes[inode].unreadable.insert(sector);
    }

    /// Removes a file behind everybody's back.
    pub(crate) fn lose(&self, path: &Path) {
        let mut world = self.world();
        world.names.remove(path);
        world.durable_names.remove(path);
    }

    /// Removes all files below `prefix`, a whole disk, behind everybody's back.
    pub(crate) fn lose_disk(&self, prefix: &str) {
        let mut world = self.world();
        world.names.retain(|path, _| !path.starts_with(prefix));
        world.durable_names.retain(|path, _| !path.starts_with(prefix));
        world.name_changes.retain(|(dir, _)| !dir.starts_with(prefix));
    }

    /// Removes the engine, which is on a disk that is lost.
    pub(crate) fn lose_engine(&self) {
        self.world().engines.clear();
    }

    /// A number below `bound`.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.world().below(bound)
    }
}

impl World {
    fn below(&mut self, bound: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) % bound
    }

    /// True once in `one_in` times.
    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// Counts one operation; fails if the fault is due.
    fn step(&mut self) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("the machine has stopped"));
        }
        self.ops += 1;
        match self.fault {
            Some((at, fault)) if at == self.ops => {
                self.fired = true;
                self.dead = fault == Fault::Crash;
                Err(match fault {
                    Fault::Crash => io::Error::other("the machine stops"),
                    Fault::Io => io::Error::from_raw_os_error(5),
                    Fault::Full => io::Error::from_raw_os_error(28),
                })
            }
            _ => Ok(()),
        }
    }

    fn tear(&mut self, inode: &Inode) -> Vec<u8> {
        let mut out = inode.durable.clone();
        let sectors = inode.data.len().div_ceil(SECTOR_BYTES);
        for sector in 0..sectors {
            let from = sector * SECTOR_BYTES;
            let to = inode.data.len().min(from + SECTOR_BYTES);
            let is_same = out.get(from..to) == Some(&inode.data[from..to]);
            if is_same || self.chance(2) {
                continue;
            }
            if out.len() < to {
                out.resize(to, 0);
            }
            out[from..to].copy_from_slice(&inode.data[from..to]);
        }
        if inode.data.len() > out.len() && self.chance(4) {
            // The size was written, the last sectors were not.
            out.resize(inode.data.len(), 0);
        }
        out
    }

    fn change_name(&mut self, dir: &Path, change: NameChange) {
        apply_name(&mut self.names, &change);
        self.name_changes.push((dir.to_owned(), change));
    }
}

fn apply_name(names: &mut BTreeMap<PathBuf, usize>, change: &NameChange) {
    match change {
        NameChange::Link(path, inode) => {
            names.insert(path.clone(), *inode);
        }
        NameChange::Rename(from, to) => {
            if let Some(inode) = names.remove(from) {
                names.insert(to.clone(), inode);
            }
        }
        NameChange::Remove(path) => {
            names.remove(path);
        }
    }
}

fn apply_rows(rows: &mut BTreeMap<Vec<u8>, Vec<u8>>, batch: &[Change]) {
    for change in batch {
        match &change.value {
            Some(value) => rows.insert(change.key.clone(), value.clone()),
            None => rows.remove(&change.key),
        };
    }
}

fn dir_of(path: &Path) -> PathBuf {
    path.parent().expect("files are in directories").to_owned()
}

impl Disk for SimWorld {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        self.world().step()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut world = self.world();
        world.step()?;
        let paths = world.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadFile>> {
        let mut world = self.world();
        world.step()?;
        let inode = *world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let Inode { data, unreadable, .. } = world.inodes[inode].clone();
        Ok(Box::new(SimReader { data, unreadable, at: 0 }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        world.step()?;
        let inode = world.inodes.len();
        world.inodes.push(Inode::default());
        world.change_name(&dir_of(path), NameChange::Link(path.to_owned(), inode));
        Ok(Box::new(SimFile { world: self.clone(), inode, length: 0, synced: 0 }))
    }

    fn settle(&self, path: &Path, from: u64, tail: &[u8]) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        let inode = *world.names.get(path).ok_or(io::ErrorKind::NotFound)?;
        let inode = &mut world.inodes[inode];
        let from = from as usize;
        assert_eq!(inode.data[from..from + tail.len()], *tail, "a tail is only ever cut");
        inode.data.truncate(from + tail.len());
        inode.durable = inode.data.clone();
        if let Some(dropped) = inode.dropped_from.take()
            && dropped < from
        {
            inode.durable[dropped..from].fill(0);
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        assert_eq!(from.parent(), to.parent());
        world.change_name(&dir_of(to), NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        world.change_name(&dir_of(path), NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world();
        world.step()?;
        let (done, kept) = std::mem::take(&mut world.name_changes)
            .into_iter()
            .partition::<Vec<_>, _>(|(changed, _)| changed == dir);
        world.name_changes = kept;
        for (_, change) in done {
            apply_name(&mut world.durable_names, &change);
        }
        Ok(())
    }
}

struct SimReader {
    data: Vec<u8>,
    unreadable: BTreeSet<usize>,
    at: usize,
}

impl Read for SimReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let sector = self.at / SECTOR_BYTES;
        let end = self.data.len().min((sector + 1) * SECTOR_BYTES).min(self.at + bytes.len());
        let len = end - self.at;
        self.read_exact_at(&mut bytes[..len], self.at as u64)?;
        self.at = end;
        Ok(len)
    }
}

impl ReadFile for SimReader {
    fn length(&self) -> io::Result<u64> {
        Ok(self.data.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let range = at as usize..at as usize + bytes.len();
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        if self.unreadable.range(sectors).next().is_some() {
            return Err(io::Error::from_raw_os_error(5));
        }
        bytes.copy_from_slice(self.data.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

struct SimFile {
    world: SimWorld,
    inode: usize,
    /// Bytes that were appended.
    length: usize,
    /// Bytes that were appended when it was synced.
    synced: usize,
}

impl DiskFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.world.world();
        let was_dead = world.dead;
        let stepped = world.step();
        let fired_now = stepped.is_err() && !was_dead;
        let written =
            if fired_now { world.below(bytes.len() as u64 + 1) as usize } else { bytes.len() };
        if stepped.is_ok() || fired_now {
            let data = &mut world.inodes[self.inode].data;
            let end = self.length + written;
            data.resize(data.len().max(end), 0);
            data[self.length..end].copy_from_slice(&bytes[..written]);
            self.length = end;
        }
        stepped
    }

    fn reserve(&mut self, bytes: u64) -> io::Result<()> {
        let mut world = self.world.world();
        world.step()?;
        let data = &mut world.inodes[self.inode].data;
        data.resize(data.len().max(self.length + bytes as usize), 0);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut world = self.world.world();
        let stepped = world.step();
        let inode = &mut world.inodes[self.inode];
        assert!(inode.dropped_from.is_none(), "a failed sync was retried");
        match stepped {
            Ok(()) => {
                inode.durable = inode.data.clone();
                self.synced = self.length;
            }
            Err(_) => inode.dropped_from = Some(self.synced),
        }
        stepped
    }
}

/// The engine's place on the machine.
#[derive(Clone)]
pub(crate) struct SimKvPlace {
    world: SimWorld,
}

impl SimKvPlace {
    pub(crate) fn new(world: &SimWorld) -> SimKvPlace {
        SimKvPlace { world: world.clone() }
    }

    /// The same place on a copy of the machine.
    pub(crate) fn fork(&self) -> SimKvPlace {
        SimKvPlace { world: self.world.fork() }
    }

    fn handle(&self, name: &'static str) -> Box<dyn Kv> {
        Box::new(SimKv { world: self.world.clone(), name })
    }
}

fn failed(source: io::Error) -> StoreError {
    StoreError::Disk { action: "use", path: "simulated engine".into(), source }
}

impl KvPlace for SimKvPlace {
    fn is_present(&self) -> Result<bool, StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        Ok(world.engines.contains_key(PROPER))
    }

    fn open(&self, _: &mut Vec<String>) -> Result<Box<dyn Kv>, StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        if world.engines.entry(PROPER).or_default().is_broken {
            return Err(StoreError::Panicked { path: "simulated engine".into() });
        }
        Ok(self.handle(PROPER))
    }

    fn quarantine(&self) -> Result<String, StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        world.engines.remove(PROPER).expect("only a present engine is put aside");
        world.quarantined += 1;
        Ok(format!("simulated.bad-{}", world.quarantined))
    }

    fn build(&self) -> Result<Box<dyn Kv>, StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        world.engines.insert(PROVISIONAL, Engine::default());
        Ok(self.handle(PROVISIONAL))
    }

    fn publish(&self, _: Box<dyn Kv>) -> Result<Box<dyn Kv>, StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        let built = world.engines.remove(PROVISIONAL).expect("it was built");
        assert!(built.pending.is_empty(), "a build is synced before it is published");
        assert!(world.engines.insert(PROPER, built).is_none(), "something was overwritten");
        Ok(self.handle(PROPER))
    }
}

struct SimKv {
    world: SimWorld,
    name: &'static str,
}

impl Kv for SimKv {
    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        let world = self.world.world();
        if let Some(value) = world.engines[self.name].rows.get(key) {
            see(value);
        }
        Ok(())
    }

    fn scan(&self, row: &mut RowFn<'_>) -> Result<(), StoreError> {
        let rows = {
            let mut world = self.world.world();
            world.step().map_err(failed)?;
            world.engines[self.name].rows.clone()
        };
        rows.iter().try_for_each(|(key, value)| row(key, value))
    }

    fn apply(&self, batch: Vec<Change>) -> Result<(), StoreError> {
        let mut world = self.world.world();
        let was_dead = world.dead;
        let stepped = world.step();
        if stepped.is_ok() || (!was_dead && world.chance(2)) {
            let engine = world.engines.get_mut(self.name).expect("an open engine exists");
            apply_rows(&mut engine.rows, &batch);
            engine.pending.push(batch);
        }
        stepped.map_err(failed)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut world = self.world.world();
        world.step().map_err(failed)?;
        let engine = world.engines.get_mut(self.name).expect("an open engine exists");
        engine.pending.clear();
        engine.durable = engine.rows.clone();
        Ok(())
    }
}

const PROPER: &str = "proper";
const PROVISIONAL: &str = "provisional";
