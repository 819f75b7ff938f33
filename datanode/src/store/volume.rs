//! One data directory: its layout, identity, lock, space and trash.
//!
//! ```text
//! VERSION                              layout, cluster, DataNode, volume; replaced atomically
//! lock                                 held while a DataNode uses the directory
//! rbw/blk_<block>_<stamp>[.meta]       being written, or left by a writer that is gone
//! tmp/blk_…                            copies under way; a start removes them
//! finalized/<2 hex>/blk_…              complete; 256 consecutive blocks share a folder
//! small/<16 hex>                       complete ones that are small, many in a file
//! scanner                              where the scanner is
//! trash/blk_…                          deleted, removed after a grace period
//! quarantine/…                         found at start and not understood; never touched again
//! ```

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use protocol::namenode::{Volume as VolumeReport, VolumeFailure};
use protocol::{BlockId, ClusterId, DatanodeId, GenerationStamp};
use sys::disk::{self, File};
use sys::fs::LockError;
use sys::fs::claim::{Claim, ClaimError, Owner};

use super::folder::{Folder, Unsynced};
use super::small::{SMALL_BYTES_MAX, SmallLog};
use crate::core::replica::{Replica, State};
use crate::core::volumes::{self, Disk, Usage};
use crate::error::Error;

/// Version of the layout above. The one before has no `small/`.
const LAYOUT: u32 = 2;
const LAYOUT_WITHOUT_SMALL: u32 = 1;
const VERSION_FILE: &str = "VERSION";
/// Written and removed to check that a disk works.
const PROBE_FILE: &str = ".probe";
pub(super) const RBW: &str = "rbw";
pub(super) const TMP: &str = "tmp";
pub(super) const FINALIZED: &str = "finalized";
pub(super) const SMALL: &str = "small";
pub(super) const TRASH: &str = "trash";
pub(super) const QUARANTINE: &str = "quarantine";
pub(super) const META_SUFFIX: &str = ".meta";

/// What a DataNode makes in its directories. `VERSION` comes after the folders and before anything in them.
const OWNER: Owner = Owner {
    name: "DataNode",
    mark: VERSION_FILE,
    folders: &[RBW, TMP, FINALIZED, SMALL, TRASH, QUARANTINE],
    files: &[PROBE_FILE],
    was_unmarked: false,
};

/// A data directory as configured.
#[derive(Clone, Debug)]
pub struct VolumeConfig {
    /// The directory.
    pub path: PathBuf,
    /// Bytes to leave free for other programs; `None` for the default of [`volumes::reserved_bytes`].
    pub reserved_bytes: Option<u64>,
    /// How long deleted replicas are kept.
    pub trash_grace: Duration,
    /// Replicas without an expected reader are written bypassing the page cache.
    pub bypass_cache: bool,
    /// Replicas of at most so many bytes share files with others. 0: each has its own.
    pub small_bytes_max: u32,
}

/// The owner of the data in a directory, and its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The cluster; `None` before the first contact.
    pub cluster: Option<ClusterId>,
    /// The DataNode.
    pub datanode: DatanodeId,
    /// [`LAYOUT`] or [`LAYOUT_WITHOUT_SMALL`].
    pub layout: u32,
}

impl Identity {
    /// True if a directory with this identity belongs to `owner`. Before the first contact its cluster is not known, and a directory that was out of service
    /// then, or not reached before the process ended, still says so.
    fn is_of(self, owner: Identity) -> bool {
        self.datanode == owner.datanode && (self.cluster.is_none() || self.cluster == owner.cluster)
    }
}

#[derive(Debug)]
pub(super) struct Volume {
    config: VolumeConfig,
    identity: Mutex<Identity>,
    fenced: AtomicBool,
    /// Why and since when it is fenced; `None` exactly if it is not. Locked while `fenced` changes.
    failure: Mutex<Option<(String, Instant)>>,
    /// Held by whoever checks the disk.
    probing: Mutex<()>,
    folders: Mutex<HashMap<u8, Arc<Folder>>>,
    trash: Mutex<VecDeque<(Instant, PathBuf)>>,
    small: SmallLog,
    /// True once the VERSION file says that there may be small replicas: programs that do not know them refuse the directory then.
    takes_small: AtomicBool,
    /// Only who has claimed the directory removes files in it; `None` while it is out of service.
    claim: Mutex<Option<Claim>>,
}

/// Where the two files of a replica are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReplicaPaths {
    pub block: PathBuf,
    pub meta: PathBuf,
}

impl ReplicaPaths {
    pub(super) fn new(folder: &Path, block: BlockId, stamp: GenerationStamp) -> Self {
        ReplicaPaths {
            block: folder.join(format!("blk_{block}_{stamp}")),
            meta: folder.join(format!("blk_{block}_{stamp}{META_SUFFIX}")),
        }
    }

    /// Opens both files for reading.
    pub(super) fn open_for_reading(&self) -> io::Result<(File, File)> {
        Ok((File::open(&self.block)?, File::open(&self.meta)?))
    }

    /// Opens both existing files for writing.
    pub(super) fn open_for_writing(&self) -> io::Result<(File, File)> {
        Ok((File::open_writable(&self.block)?, File::open_writable(&self.meta)?))
    }

    /// Creates both files or none; they must not exist.
    pub(super) fn create(&self) -> io::Result<(File, File)> {
        let block = File::create_new(&self.block, 0o600)?;
        match File::create_new(&self.meta, 0o600) {
            Ok(meta) => Ok((block, meta)),
            Err(error) => {
                // It was created just now and is empty; if it cannot be removed, the next start finds it.
                let _ = disk::remove_file(&self.block);
                Err(error)
            }
        }
    }

    /// Removes whichever of the two files exist.
    pub(super) fn remove_if_there(&self) -> io::Result<()> {
        for path in [&self.block, &self.meta] {
            match disk::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// True if both names are those of these files.
    pub(super) fn are_of(&self, block: &File, meta: &File) -> io::Result<bool> {
        Ok(block.is_at(&self.block)? && meta.is_at(&self.meta)?)
    }

    /// Moves both files or none. The meta file goes first: so a block file in its new place always has one.
    pub(super) fn rename(&self, to: &ReplicaPaths) -> io::Result<()> {
        disk::rename(&self.meta, &to.meta)?;
        disk::rename(&self.block, &to.block).inspect_err(|_| {
            // Where this fails too, a start puts them together.
            let _ = disk::rename(&to.meta, &self.meta);
        })
    }
}

/// Syncs the folders that hold these files.
pub(super) fn sync_folders(replicas: &[&ReplicaPaths]) -> Result<(), Unsynced> {
    let folders: BTreeSet<&Path> =
        replicas.iter().filter_map(|paths| paths.block.parent()).collect();
    folders.into_iter().try_for_each(sync_folder)
}

fn sync_folder(path: &Path) -> Result<(), Unsynced> {
    File::open(path).map_err(Unsynced::Untried)?.sync_all().map_err(Unsynced::Failed)
}

/// Opens all data directories of a DataNode. Up to `tolerated` of them may fail: these start out of service.
pub(super) fn open_all(configs: &[VolumeConfig], tolerated: usize) -> Result<Vec<Volume>, Error> {
    let layout = LAYOUT_WITHOUT_SMALL;
    let fresh = Identity { cluster: None, datanode: fresh_id(configs), layout };
    let (mut identity, mut failed_count): (Option<Identity>, usize) = (None, 0);
    let mut opened = Vec::with_capacity(configs.len());
    for config in configs {
        let (claim, found) = match prepare(config) {
            Ok((claim, found)) => (Ok(claim), found),
            Err(error) if failed_count < tolerated && is_failure(&error) => {
                let (volume, error) = (config.path.display(), protocol::error::chain(&error));
                tracing::error!(%volume, error, "data directory is out of service");
                failed_count += 1;
                (Err(error), None)
            }
            Err(error) => return Err(error),
        };
        if let (Some(known), Some(found)) = (identity, found)
            && !known.is_of(found)
            && !found.is_of(known)
        {
            return Err(Error::Directory {
                path: config.path.clone(),
                reason: "it belongs to another cluster or DataNode than the directories before it"
                    .to_owned(),
            });
        }
        identity = identity.filter(|known| known.cluster.is_some()).or(found).or(identity);
        opened.push((config, claim, found));
    }
    let identity = identity.unwrap_or(fresh);
    let mut volumes = Vec::with_capacity(opened.len());
    for (config, claim, found) in opened {
        let known = found.map_or(LAYOUT_WITHOUT_SMALL, |found| found.layout);
        let layout = if config.small_bytes_max > 0 { LAYOUT } else { known };
        let identity = Identity { layout, ..identity };
        let (claim, failure) = match claim {
            Ok(claim) => (Some(claim), None),
            Err(reason) => (None, Some((reason, disk::now(&config.path)))),
        };
        let volume = Volume {
            config: config.clone(),
            small: SmallLog::new(config.path.join(SMALL)),
            takes_small: AtomicBool::new(known == LAYOUT),
            identity: Mutex::new(identity),
            fenced: AtomicBool::new(claim.is_none()),
            failure: Mutex::new(failure),
            probing: Mutex::default(),
            folders: Mutex::default(),
            trash: Mutex::default(),
            claim: Mutex::new(claim),
        };
        if found != Some(identity) && !volume.is_fenced() {
            let written = match found {
                Some(_) => volume.complete_version(identity),
                None => volume.write_version(identity),
            };
            match written {
                Err(Error::Io { source, .. })
                    if failed_count < tolerated && !sys::fs::is_shortage(&source) =>
                {
                    failed_count += 1;
                    volume.fence(&source);
                }
                written => written?,
            }
        }
        volumes.push(volume);
    }
    Ok(volumes)
}

/// An identity for a DataNode without data.
fn fresh_id(configs: &[VolumeConfig]) -> DatanodeId {
    #[cfg(any(test, feature = "sim"))]
    let simulated = configs.first().and_then(|one| disk::sim::random_bytes(&one.path));
    #[cfg(not(any(test, feature = "sim")))]
    let (simulated, _) = (None, configs);
    DatanodeId(simulated.unwrap_or_else(rand::random))
}

/// True if the disk does not work, as opposed to a directory that belongs to somebody else, or a process without descriptors.
fn is_failure(error: &Error) -> bool {
    match error {
        Error::Io { source, .. }
        | Error::Claim(
            ClaimError::Io { source, .. } | ClaimError::Lock(LockError::Io { source, .. }),
        ) => !sys::fs::is_shortage(source),
        // Nobody knows whose it is, and nothing in it is touched.
        Error::DamagedVersion { .. } => true,
        _ => false,
    }
}

fn prepare(config: &VolumeConfig) -> Result<(Claim, Option<Identity>), Error> {
    let io_error = |source| Error::Io { path: config.path.clone(), source };
    let path = config.path.join(VERSION_FILE);
    if let Ok(text) = disk::read_to_string(&path) {
        // Somebody else's file of this name: nothing is made beside it.
        parse_version(&text, &path)?;
    }
    let claim = Claim::take(&config.path, &OWNER)?;
    for folder in OWNER.folders {
        sys::fs::create_private_dir(&config.path.join(folder)).map_err(io_error)?;
    }
    // What an earlier start created may not be durable: it may have ended too early.
    sync_name(&config.path).and_then(|()| disk::sync_dir(&config.path)).map_err(io_error)?;
    match disk::read_to_string(&path) {
        Ok(text) => Ok((claim, Some(parse_version(&text, &path)?))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((claim, None)),
        Err(source) => Err(Error::Io { path, source }),
    }
}

/// Makes the name of a directory durable. Where this user cannot read the directory above, or its file system cannot be changed, somebody else made it; on a
/// file system that syncs no directories, no more can be done.
fn sync_name(directory: &Path) -> io::Result<()> {
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    match disk::sync_dir(parent.unwrap_or(Path::new("."))) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::ReadOnlyFilesystem
            ) =>
        {
            Ok(())
        }
        synced => synced,
    }
}

/// `crc <8 hex>` in the last line covers the lines before.
pub(super) fn format_version(identity: Identity) -> String {
    let cluster = identity.cluster.map_or_else(|| "none".to_owned(), |id| id.to_string());
    let Identity { datanode, layout, .. } = identity;
    let body = format!("layout {layout}\ncluster {cluster}\ndatanode {datanode}\n");
    format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes()))
}

pub(super) fn parse_version(text: &str, path: &Path) -> Result<Identity, Error> {
    let fail = |reason: &str| Error::Directory { path: path.to_owned(), reason: reason.to_owned() };
    let damaged = || Error::DamagedVersion { path: path.to_owned() };
    let (body, crc) = text.split_at(text.find("crc ").ok_or_else(damaged)?);
    if crc.trim_end() != format!("crc {:08x}", crc32fast::hash(body.as_bytes())) {
        return Err(damaged());
    }
    let field = |name: &str| {
        body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).ok_or_else(damaged)
    };
    let layouts = [LAYOUT, LAYOUT_WITHOUT_SMALL];
    let written = field("layout")?;
    let Some(layout) = layouts.into_iter().find(|layout| layout.to_string() == written) else {
        return Err(fail("it was written by a version of Hanno that this one does not know"));
    };
    let cluster = match field("cluster")? {
        "none" => None,
        id => Some(id.parse().map_err(|_| damaged())?),
    };
    let datanode = field("datanode")?.parse().map_err(|_| damaged())?;
    Ok(Identity { cluster, datanode, layout })
}

impl Volume {
    pub(super) fn bypasses_cache(&self) -> bool {
        self.config.bypass_cache
    }

    pub(super) fn identity(&self) -> Identity {
        *self.identity.lock()
    }

    fn now(&self) -> Instant {
        disk::now(&self.config.path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.config.path
    }

    pub(super) fn adopt_cluster(&self, cluster: ClusterId) -> Result<(), Error> {
        let identity = Identity { cluster: Some(cluster), ..self.identity() };
        let known = std::mem::replace(&mut *self.identity.lock(), identity);
        if identity == known || self.is_fenced() {
            return Ok(());
        }
        self.complete_version(identity)
    }

    /// Adds the cluster to a VERSION file that has none. A full disk keeps the old one, which is as good: see [`Identity::is_of`].
    fn complete_version(&self, identity: Identity) -> Result<(), Error> {
        match self.write_version(identity) {
            Err(Error::Io { path, source }) if sys::fs::is_full(&source) => {
                tracing::warn!(path = %path.display(), "the disk is full: its cluster is not recorded");
                Ok(())
            }
            written => written,
        }
    }

    fn write_version(&self, identity: Identity) -> Result<(), Error> {
        let path = self.config.path.join(VERSION_FILE);
        sys::fs::write_atomic(&path, format_version(identity).as_bytes(), 0o600)
            .map_err(|source| Error::Io { path, source })?;
        self.takes_small.store(identity.layout == LAYOUT, Ordering::Release);
        Ok(())
    }

    /// Where a replica in this state has its files.
    pub(super) fn paths(&self, replica: &Replica) -> ReplicaPaths {
        if replica.is_in_finalized() {
            return self.finalized_paths(replica.block, replica.stamp);
        }
        let folder = if replica.state == State::Copying { TMP } else { RBW };
        ReplicaPaths::new(&self.config.path.join(folder), replica.block, replica.stamp)
    }

    pub(super) fn finalized_paths(&self, block: BlockId, stamp: GenerationStamp) -> ReplicaPaths {
        let folder = format!("{FINALIZED}/{:02x}", folder_of(block));
        ReplicaPaths::new(&self.config.path.join(folder), block, stamp)
    }

    /// The folder of finalized replicas that a block belongs to, durably created if missing; kept open to sync it.
    pub(super) fn finalized_folder(&self, block: BlockId) -> Result<Arc<Folder>, Unsynced> {
        let number = folder_of(block);
        let mut folders = self.folders.lock();
        if let Some(folder) = folders.get(&number) {
            return Ok(Arc::clone(folder));
        }
        let finalized = self.config.path.join(FINALIZED);
        let path = finalized.join(format!("{number:02x}"));
        match disk::create_dir(&path, 0o700) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Unsynced::Untried(error));
            }
            // Whoever created it may have ended, or failed, before the name was durable.
            _ => sync_folder(&finalized)?,
        }
        let folder = Arc::new(Folder::open(path).map_err(Unsynced::Untried)?);
        folders.insert(number, Arc::clone(&folder));
        Ok(folder)
    }

    /// Somebody has removed or replaced the folder of a block: the next who needs it opens, or creates, the one of its name.
    pub(super) fn forget_folder(&self, block: BlockId) {
        self.folders.lock().remove(&folder_of(block));
    }

    /// Makes the name of a replica durable that was moved into the open folder of its block.
    pub(super) fn sync_finalized(&self, block: BlockId, folder: &Folder) -> Result<(), Unsynced> {
        match folder.sync() {
            Err(Unsynced::Vanished) => {
                self.forget_folder(block);
                self.finalized_folder(block)?.sync()
            }
            synced => synced,
        }
    }

    /// Space on the volume when blocks use `used` bytes.
    pub(super) fn usage(&self, used: u64) -> Usage {
        match disk::space(&self.config.path) {
            Ok(space) => {
                let disk = Disk { capacity: space.capacity, available: space.available };
                volumes::usage(disk, used, self.config.reserved_bytes)
            }
            Err(error) => {
                tracing::warn!(volume = %self.config.path.display(), %error, "cannot tell free space");
                Usage { used, ..Usage::default() }
            }
        }
    }

    /// What it reports when blocks use `used` bytes. Out of service it has no space.
    pub(super) fn report(&self, used: u64) -> VolumeReport {
        let path = self.config.path.display().to_string();
        let age = |at| u64::try_from(self.now().duration_since(at).as_millis());
        let failure = self.failure.lock().as_ref().map(|(reason, at)| VolumeFailure {
            reason: reason.clone(),
            age_ms: age(*at).unwrap_or(u64::MAX),
        });
        if failure.is_some() {
            return VolumeReport { path, failure, ..VolumeReport::default() };
        }
        let Usage { capacity, used, reserved, remaining, .. } = self.usage(used);
        let device = disk::device(&self.config.path).ok();
        VolumeReport { path, device, capacity, used, reserved, remaining, failure }
    }

    /// Bytes free for blocks; `None` if it is out of service.
    pub(super) fn remaining(&self) -> Option<u64> {
        (!self.is_fenced()).then(|| self.usage(0).remaining)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Takes the volume out of service; true the first time.
    pub(super) fn fence(&self, cause: &io::Error) -> bool {
        let mut failure = self.failure.lock();
        let first = !self.fenced.swap(true, Ordering::AcqRel);
        if first {
            *failure = Some((cause.to_string(), self.now()));
            drop(failure);
            let volume = self.config.path.display();
            tracing::error!(%volume, error = %cause, "data directory is out of service");
            // Whoever has it may be waiting for the disk; it is cleared before the volume is used again.
            if let Some(mut folders) = self.folders.try_lock() {
                folders.clear();
            }
            self.small.close();
            self.trash.lock().clear();
            // A disk that replaces this one must not find it locked.
            *self.claim.lock() = None;
        }
        first
    }

    /// Checks that the disk works: its identity can be read, its folders listed, and a few bytes written and synced.
    pub(super) fn check(&self) -> io::Result<()> {
        // The probe has one name.
        let _alone = self.probing.lock();
        let path = self.config.path.join(VERSION_FILE);
        let text = disk::read_to_string(&path)?;
        match parse_version(&text, &path) {
            // The cluster is stored at first contact, perhaps just now.
            Ok(found) if found.datanode == self.identity().datanode => {}
            _ => return Err(io::Error::other("its VERSION file is not this DataNode's any more")),
        }
        for folder in [RBW, TMP, FINALIZED, SMALL] {
            disk::read_dir(&self.config.path.join(folder))?.next().transpose()?;
        }
        let probe = self.config.path.join(PROBE_FILE);
        let written = disk::write(&probe, b"probe")
            .and_then(|()| File::open(&probe)?.sync_all())
            .and_then(|()| disk::remove_file(&probe));
        if written.is_err() {
            let _ = disk::remove_file(&probe);
        }
        match written {
            // A full disk is not broken.
            Err(error) if sys::fs::is_full(&error) => Ok(()),
            written => written,
        }
    }

    /// Takes a directory that works again back into service: its old data, or a new disk in its place.
    ///
    /// # Errors
    /// [`Error`]; it stays out of service.
    pub(super) fn reopen(&self) -> Result<(), Error> {
        let io_error = |source| Error::Io { path: self.config.path.clone(), source };
        if !disk::is_dir(&self.config.path).map_err(io_error)? {
            // A newly created directory would hide a disk that is not mounted.
            return Err(io_error(io::ErrorKind::NotFound.into()));
        }
        self.folders.lock().clear();
        let (claim, found) = prepare(&self.config)?;
        match found {
            Some(found) if !found.is_of(self.identity()) => {
                return Err(Error::Directory {
                    path: self.config.path.clone(),
                    reason: "it belongs to another cluster or DataNode".to_owned(),
                });
            }
            Some(found) if found == self.identity() => {}
            _ => self.write_version(self.identity())?,
        }
        self.check().map_err(io_error)?;
        *self.claim.lock() = Some(claim);
        Ok(())
    }

    /// Releases a directory that could not be read after all.
    pub(super) fn fence_again(&self) {
        self.small.close();
        *self.claim.lock() = None;
        self.trash.lock().clear();
    }

    /// Puts the volume back into service.
    pub(super) fn unfence(&self) {
        tracing::info!(volume = %self.config.path.display(), "data directory is in service again");
        let mut failure = self.failure.lock();
        *failure = None;
        self.fenced.store(false, Ordering::Release);
    }

    /// Moves the files of a replica to the trash. Not synced: after a crash the NameNode orders the deletion again.
    pub(super) fn discard(&self, replica: &Replica) {
        let from = self.paths(replica);
        let to = ReplicaPaths::new(&self.config.path.join(TRASH), replica.block, replica.stamp);
        for (from, to) in [(from.block, to.block), (from.meta, to.meta)] {
            match disk::rename(&from, &to) {
                Ok(()) => self.trash.lock().push_back((self.now(), to)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(file = %from.display(), %error, "cannot delete"),
            }
        }
    }

    /// Its small replicas.
    pub(super) fn small(&self) -> &SmallLog {
        &self.small
    }

    /// Most bytes of a replica that shares a file with others.
    pub(super) fn small_bytes_max(&self) -> u32 {
        match self.takes_small.load(Ordering::Acquire) {
            true => self.config.small_bytes_max.min(SMALL_BYTES_MAX),
            false => 0,
        }
    }

    /// True if what was deleted at `since` need not be kept any more.
    pub(super) fn is_grace_over(&self, since: Option<Instant>) -> bool {
        let is_due = |at| self.now().duration_since(at) >= self.config.trash_grace;
        since.is_none_or(is_due) || self.remaining() == Some(0)
    }

    /// Records a file found in the trash at start.
    pub(super) fn found_in_trash(&self, path: PathBuf) {
        self.trash.lock().push_back((self.now(), path));
    }

    /// Removes files that were in the trash for long enough, or all of them if there is no room left, until `is_over`.
    pub(super) fn empty_trash(&self, is_over: &dyn Fn() -> bool) {
        let is_full = !self.trash.lock().is_empty() && self.remaining() == Some(0);
        let is_due = |at| self.now().duration_since(at) >= self.config.trash_grace;
        while !is_over() {
            let due = {
                let mut trash = self.trash.lock();
                let due = trash.front().is_some_and(|(at, _)| is_full || is_due(*at));
                if due { trash.pop_front() } else { None }
            };
            let Some((_, path)) = due else { return };
            match disk::remove_file(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => tracing::warn!(file = %path.display(), %error, "cannot remove"),
            }
        }
    }
}

fn folder_of(block: BlockId) -> u8 {
    block.0.to_le_bytes()[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_golden_text_and_damage() {
        let (cluster, datanode) = (Some(ClusterId([1; 16])), DatanodeId([2; 16]));
        let identity = Identity { cluster, datanode, layout: LAYOUT };
        let old = Identity { layout: LAYOUT_WITHOUT_SMALL, ..identity };
        assert!(format_version(old).starts_with("layout 1\ncluster 01"));
        assert_eq!(parse_version(&format_version(old), Path::new("VERSION")).unwrap(), old);
        let text = format_version(identity);
        let body = "layout 2\ncluster 01010101010101010101010101010101\n\
                    datanode 02020202020202020202020202020202\n";
        assert_eq!(text, format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes())));
        let path = Path::new("VERSION");
        assert_eq!(parse_version(&text, path).unwrap(), identity);
        for end in 0..text.len() - 1 {
            assert!(parse_version(&text[..end], path).is_err(), "cut at {end}");
        }
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let bad = String::from_utf8(bytes).unwrap();
            assert!(parse_version(&bad, path).is_err(), "flipped at {at}");
        }
        let fresh = Identity { cluster: None, ..identity };
        assert_eq!(parse_version(&format_version(fresh), path).unwrap(), fresh);
    }

    #[test]
    fn a_volume_reports_its_room_or_why_it_has_none() {
        let root = tempfile::tempdir().unwrap();
        let config = VolumeConfig {
            path: root.path().join("a"),
            reserved_bytes: Some(4096),
            trash_grace: Duration::ZERO,
            bypass_cache: true,
            small_bytes_max: 0,
        };
        let volume = open_all(&[config], 0).unwrap().remove(0);
        let device = disk::device(root.path()).unwrap();
        let fine = volume.report(1);
        let (path, failure) = (root.path().join("a").display().to_string(), None);
        let space = (fine.capacity, fine.remaining);
        assert!(space.0 > 0, "{fine:?}");
        let expected = VolumeReport {
            path: path.clone(),
            device: Some(device),
            capacity: space.0,
            used: 1,
            reserved: 4096,
            remaining: space.1,
            failure,
        };
        assert_eq!(fine, expected);
        assert!(
            volume.fence(&io::Error::other("gone")) && !volume.fence(&io::Error::other("more"))
        );
        let failed = volume.report(1);
        let reason = failed.failure.as_ref().map(|failure| failure.reason.as_str());
        assert_eq!(reason, Some("gone"), "the first failure is the reason");
        assert_eq!(
            VolumeReport { failure: None, ..failed },
            VolumeReport { path, ..VolumeReport::default() }
        );
        volume.unfence();
        assert_eq!(volume.report(1).failure, None);
    }

    #[test]
    fn a_volume_goes_out_of_service_while_somebody_waits_for_its_disk() {
        let root = tempfile::tempdir().unwrap();
        let config = VolumeConfig {
            path: root.path().join("a"),
            reserved_bytes: None,
            trash_grace: Duration::ZERO,
            bypass_cache: false,
            small_bytes_max: 4096,
        };
        let volume = Arc::new(open_all(&[config], 0).unwrap().remove(0));
        let (folders, small) = (volume.folders.lock(), volume.small.hold());
        let probing = volume.probing.lock();
        let (sender, fenced) = std::sync::mpsc::channel();
        let other = Arc::clone(&volume);
        std::thread::spawn(move || sender.send(other.fence(&io::ErrorKind::TimedOut.into())));
        assert_eq!(fenced.recv_timeout(Duration::from_secs(60)), Ok(true));
        drop((folders, small, probing));
        assert!(volume.small.append((BlockId(1), GenerationStamp(1)), &[], &[]).is_err());
    }

    #[test]
    fn directories_of_different_owners_are_refused_and_locked() {
        let root = tempfile::tempdir().unwrap();
        let config = |name: &str| VolumeConfig {
            path: root.path().join(name),
            reserved_bytes: Some(0),
            trash_grace: Duration::ZERO,
            bypass_cache: true,
            small_bytes_max: 0,
        };
        let first = open_all(&[config("a")], 0).unwrap();
        assert!(matches!(open_all(&[config("a")], 1), Err(Error::Claim(_))));
        drop(open_all(&[config("b")], 0).unwrap());
        let id = first[0].identity();
        drop(first);
        assert!(matches!(open_all(&[config("a"), config("b")], 1), Err(Error::Directory { .. })));
        let grown = open_all(&[config("a"), config("c")], 0).unwrap();
        assert!(grown.iter().all(|volume| volume.identity() == id));
    }

    #[test]
    fn a_directory_with_a_damaged_version_is_left_out_and_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let config = |name: &str| VolumeConfig {
            path: root.path().join(name),
            reserved_bytes: Some(0),
            trash_grace: Duration::ZERO,
            bypass_cache: false,
            small_bytes_max: 0,
        };
        let both = [config("a"), config("b")];
        drop(open_all(&both, 0).unwrap());
        let version = root.path().join("b/VERSION");
        let mut damaged = std::fs::read(&version).unwrap();
        damaged[3] ^= 1;
        std::fs::write(&version, &damaged).unwrap();
        assert!(matches!(open_all(&both, 0), Err(Error::DamagedVersion { .. })));
        let opened = open_all(&both, 1).unwrap();
        let in_service = opened.iter().filter(|volume| !volume.is_fenced());
        assert_eq!(in_service.map(Volume::path).collect::<Vec<_>>(), [root.path().join("a")]);
        assert_eq!(std::fs::read(&version).unwrap(), damaged);
    }

    #[test]
    fn what_no_datanode_made_stays_as_it_is() {
        let root = tempfile::tempdir().unwrap();
        let config = |name: &str| VolumeConfig {
            path: root.path().join(name),
            reserved_bytes: None,
            trash_grace: Duration::ZERO,
            bypass_cache: false,
            small_bytes_max: 0,
        };
        for (name, file, part) in [
            ("project", "tmp/mine", "holds files in tmp, but its VERSION file is missing"),
            ("home", "thesis.tex", "thesis.tex is in it"),
            ("program", "VERSION", "the VERSION file is damaged"),
        ] {
            let path = root.path().join(name).join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "1.2.3").unwrap();
            let error = open_all(&[config(name)], 0).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert_eq!(std::fs::read(&path).unwrap(), b"1.2.3");
            assert_eq!(std::fs::read_dir(root.path().join(name)).unwrap().count(), 1, "{name}");
        }
    }
}
