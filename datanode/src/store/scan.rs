//! How a start interprets the contents of a data directory.
//!
//! - a finalized pair with matching lengths is a finalized replica (its bytes are verified by readers and the scanner);
//! - a pair in `rbw/` is an unfinished replica, up to the last byte that matches its checksum or that a tail of the meta file proves;
//! - a record in `small/` that is there as a whole is a finalized replica;
//! - what lies in `tmp/` is a copy or a prefix that did not end, and is removed;
//! - a move that was cut between its two renames (meta moved, block not) is completed: of a finalize, of a writer that continues under a new stamp, or of one
//!   that continues a finalized replica; of a prefix that is complete;
//! - of two replicas of a block, the one with the newer stamp stays; with equal stamps, the finalized one; of two finalized ones, the one that is intact. So
//!   many are compared that a start takes no hours: where a whole disk came back, the rest is left to the scanner;
//! - anything else is moved to quarantine and logged.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use protocol::meta::Layout;
use protocol::{BlockId, GenerationStamp};
use sys::disk::{self, File};

use super::entry::Entry;
use super::verify;
use super::volume::{
    FINALIZED, META_SUFFIX, QUARANTINE, RBW, ReplicaPaths, SMALL, TMP, TRASH, Volume, sync_folders,
};
use crate::core::replica::{Replica, State};
use crate::error::{Error, StoreError};

/// Bytes that a start reads to tell which of two equal replicas is intact: at most some minutes of a slow disk.
const INTACT_BYTES_MAX: u64 = 16 << 30;

/// What is found on the volumes.
pub(super) struct Found {
    pub(super) replicas: BTreeMap<BlockId, Entry>,
    /// What may still be read to tell which of two equal replicas is intact.
    pub(super) intact_bytes_left: u64,
}

impl Default for Found {
    fn default() -> Self {
        Found { replicas: BTreeMap::new(), intact_bytes_left: INTACT_BYTES_MAX }
    }
}

/// Adds what is on a volume.
pub(super) fn scan(
    volume: &Volume,
    index: usize,
    volumes: &[Volume],
    found: &mut Found,
) -> Result<(), Error> {
    for path in files_in(&volume.path().join(TRASH))? {
        volume.found_in_trash(path);
    }
    let rbw = volume.path().join(RBW);
    for path in files_in(&rbw)? {
        match parse_name(&path) {
            Some((block, stamp, false)) => {
                complete_finalize(volume, &ReplicaPaths::new(&rbw, block, stamp), block, stamp)?;
            }
            Some((block, stamp, true)) => {
                complete_restamp(volume, &ReplicaPaths::new(&rbw, block, stamp), (block, stamp))?;
            }
            None => {}
        }
    }
    remove_copies(volume)?;
    let finalized_root = volume.path().join(FINALIZED);
    let mut folders = files_in(&finalized_root)?;
    // A process that ended between a rename and its sync has left names that a power cut would take back, after they were reported, or after what they were
    // made of was taken for gone.
    for folder in folders.iter().chain([&finalized_root, &rbw]) {
        if is_dir(folder)? {
            let io_error = |source| Error::Io { path: folder.clone(), source };
            disk::sync_dir(folder).map_err(io_error)?;
        }
    }
    let small = volume.small().open();
    let small = small.map_err(|source| Error::Io { path: volume.path().join(SMALL), source })?;
    for extent in small.extents {
        found.add(Entry::found_small(extent, index), volumes)?;
    }
    for path in &small.strangers {
        quarantine(volume, path)?;
    }
    folders.push(rbw.clone());
    for folder in folders {
        if !is_dir(&folder)? {
            quarantine(volume, &folder)?;
            continue;
        }
        for path in files_in(&folder)? {
            let replica = match parse_name(&path) {
                Some((block, stamp, false)) if folder == rbw => unfinished(&folder, block, stamp)?,
                Some((block, stamp, false))
                    if volume.finalized_paths(block, stamp).block == path =>
                {
                    finalized(&folder, block, stamp)?
                }
                Some((block, stamp, true))
                    if is_file(&ReplicaPaths::new(&folder, block, stamp).block)? =>
                {
                    continue;
                }
                _ => None,
            };
            match replica {
                Some(replica) => found.add(Entry::found(replica, index), volumes)?,
                None => quarantine(volume, &path)?,
            }
        }
    }
    Ok(())
}

/// Completes the copies of which a crash left only the second rename to do, and removes the others.
fn remove_copies(volume: &Volume) -> Result<(), Error> {
    let folder = volume.path().join(TMP);
    for path in files_in(&folder)? {
        if let Some((block, stamp, false)) = parse_name(&path) {
            complete_finalize(volume, &ReplicaPaths::new(&folder, block, stamp), block, stamp)?;
        }
    }
    for path in files_in(&folder)? {
        disk::remove_file(&path).map_err(|source| Error::Io { path, source })?;
    }
    Ok(())
}

impl Found {
    fn add(&mut self, entry: Entry, volumes: &[Volume]) -> Result<(), Error> {
        let block = entry.replica.block;
        let loser = match self.replicas.remove(&block) {
            Some(other) if !self.is_better(&entry, &other, volumes)? => {
                self.replicas.insert(block, other);
                Some(entry)
            }
            other => {
                self.replicas.insert(block, entry);
                other
            }
        };
        if let Some(loser) = loser {
            tracing::warn!(%block, stamp = %loser.replica.stamp, "older replica of a block is deleted");
            loser.discard(volumes);
        }
        Ok(())
    }

    /// True if one replica is worth more than another of the same block. Two of the same kind are there if it was written again while a volume was out of
    /// service: then the one that was left behind may be damaged.
    pub(super) fn is_better(
        &mut self,
        one: &Entry,
        other: &Entry,
        volumes: &[Volume],
    ) -> Result<bool, Error> {
        let rank = |entry: &Entry| (entry.replica.stamp, entry.replica.is_finalized());
        if rank(one) != rank(other) || !one.replica.is_finalized() {
            return Ok(rank(one) > rank(other));
        }
        let cost = one.replica.length.saturating_add(other.replica.length);
        let Some(left) = self.intact_bytes_left.checked_sub(cost) else { return Ok(false) };
        self.intact_bytes_left = left;
        Ok(!is_intact(other, volumes)? && is_intact(one, volumes)?)
    }
}

fn is_intact(entry: &Entry, volumes: &[Volume]) -> Result<bool, Error> {
    let Replica { block, length, .. } = entry.replica;
    let path = volumes[entry.volume].path();
    let io_error = |source| Error::Io { path: path.to_owned(), source };
    let verified = entry
        .place(volumes)
        .open_for_reading()
        .map_err(|error| StoreError::io(block, error))
        .and_then(|(file, meta)| verify::verify_range(block, &file, &meta, 0, length, |_| ()));
    match verified {
        Ok(()) => Ok(true),
        // It says nothing of the replica.
        Err(StoreError::Shortage { source, .. }) => Err(io_error(source)),
        Err(_) => Ok(false),
    }
}

/// Moves the block file after its meta file if a crash came between the two renames.
fn complete_finalize(
    volume: &Volume,
    from: &ReplicaPaths,
    block: BlockId,
    stamp: GenerationStamp,
) -> Result<(), Error> {
    let to = volume.finalized_paths(block, stamp);
    if is_file(&from.meta)? || !is_file(&to.meta)? || is_file(&to.block)? {
        return Ok(());
    }
    let io_error = |source| Error::Io { path: from.block.clone(), source };
    disk::rename(&from.block, &to.block).map_err(io_error)?;
    let folder = volume.finalized_folder(block).map_err(|unsynced| io_error(unsynced.into()))?;
    folder.sync().map_err(|unsynced| io_error(unsynced.into()))
}

/// Moves the block file after its meta file, which is in `to`, if a crash came between the two renames.
fn complete_restamp(
    volume: &Volume,
    to: &ReplicaPaths,
    (block, stamp): (BlockId, GenerationStamp),
) -> Result<(), Error> {
    if is_file(&to.block)? {
        return Ok(());
    }
    let finalized = volume.finalized_paths(block, stamp).block;
    let copies = volume.path().join(TMP);
    let folders = [to.block.parent(), finalized.parent(), Some(&*copies)].into_iter().flatten();
    for folder in folders {
        if !is_dir(folder)? {
            continue;
        }
        for path in files_in(folder)? {
            let Some((found, old, false)) = parse_name(&path) else { continue };
            if found != block
                || old > stamp
                || is_file(&ReplicaPaths::new(folder, block, old).meta)?
            {
                continue;
            }
            let io_error = |source| Error::Io { path: path.clone(), source };
            disk::rename(&path, &to.block).map_err(io_error)?;
            let synced = sync_folders(&[to, &ReplicaPaths::new(folder, block, old)]);
            return synced.map_err(|unsynced| io_error(unsynced.into()));
        }
    }
    Ok(())
}

pub(super) fn finalized(
    folder: &Path,
    block: BlockId,
    stamp: GenerationStamp,
) -> Result<Option<Replica>, Error> {
    let paths = ReplicaPaths::new(folder, block, stamp);
    let io_error = |source| Error::Io { path: paths.block.clone(), source };
    let length = disk::length(&paths.block).map_err(io_error)?;
    match disk::length(&paths.meta) {
        // Reading it shows which version it has.
        Ok(found) if Layout::ALL.iter().any(|one| one.file_bytes(length) == found) => {
            Ok(Some(Replica { block, stamp, length, state: State::Finalized }))
        }
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(error)),
    }
}

/// The replica that a writer left; `None` without both files.
pub(super) fn unfinished(
    folder: &Path,
    block: BlockId,
    stamp: GenerationStamp,
) -> Result<Option<Replica>, Error> {
    let paths = ReplicaPaths::new(folder, block, stamp);
    let io_error = |source| Error::Io { path: paths.block.clone(), source };
    match paths.open_for_writing() {
        Ok((file, meta_file)) => {
            let proved = proved_length(block, &file, &meta_file).or_else(|error| {
                // What cannot be read is damage, as anywhere else, and no reason to do without the rest of the disk.
                match sys::fs::is_shortage(&error) {
                    true => Err(error),
                    false => verify::readable_length(block, &file, &meta_file),
                }
            });
            let length = proved.map_err(io_error)?;
            Ok(Some(Replica { block, stamp, length, state: State::Unfinished }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(error)),
    }
}

/// How many bytes of a replica that a writer left are proved. Where only a tail proves the last of them, their checksum is written to its usual position, where
/// all readers expect it.
pub(super) fn proved_length(block: BlockId, file: &File, meta_file: &File) -> io::Result<u64> {
    let good = verify::good_length(block, file, meta_file)?;
    if let Some((tail, at)) = good.by_tail {
        tracing::info!(%block, length = good.length, "the last bytes are proved by what was synced");
        meta_file.write_all_at(&tail.crc.to_be_bytes(), at)?;
    }
    Ok(good.length)
}

fn quarantine(volume: &Volume, path: &Path) -> Result<(), Error> {
    tracing::warn!(file = %path.display(), "not a replica: moved to quarantine");
    let name = path.file_name().unwrap_or_default();
    let to = volume.path().join(QUARANTINE).join(name);
    match disk::rename(path, &to) {
        // Its companion file may have been moved with it.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

/// `blk_<block>_<stamp>`, and whether it is the meta file.
pub(super) fn parse_name(path: &Path) -> Option<(BlockId, GenerationStamp, bool)> {
    let name = path.file_name()?.to_str()?;
    let (name, is_meta) = match name.strip_suffix(META_SUFFIX) {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (block, stamp) = name.strip_prefix("blk_")?.split_once('_')?;
    let number = |text: &str| {
        let number: u64 = text.parse().ok()?;
        (number.to_string() == text).then_some(number)
    };
    Some((BlockId(number(block)?), GenerationStamp(number(stamp)?), is_meta))
}

/// What a disk does not answer is not guessed: a replica that seems to be none would go to quarantine.
fn is_file(path: &Path) -> Result<bool, Error> {
    disk::is_file(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn is_dir(path: &Path) -> Result<bool, Error> {
    disk::is_dir(path).map_err(|source| Error::Io { path: path.to_owned(), source })
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let io_error = |source| Error::Io { path: folder.to_owned(), source };
    let mut paths = Vec::new();
    for path in disk::read_dir(folder).map_err(io_error)? {
        paths.push(path.map_err(io_error)?);
    }
    // A directory has no defined order; this gives it one.
    paths.sort_unstable();
    Ok(paths)
}
