//! Opening the files of a replica for its writer.
//!
//! Invariant: whoever cannot open them knows what there is nevertheless, and the store goes on with that.

use std::io;

use protocol::meta::{self, Layout};
use sys::disk::File;

use super::Store;
use super::entry::Entry;
use super::folder::Unsynced;
use super::moves::Moving;
use super::small::Extent;
use super::verify;
use super::volume::{ReplicaPaths, TMP, sync_folders};
use crate::core::replica::{Begin, Replica, State};
use crate::error::StoreError;

/// Bytes of a replica that are read and written again at once.
const REWRITE_BYTES: u64 = 1 << 20;

/// The files of a replica.
pub(super) struct Opened {
    pub(super) block: File,
    pub(super) meta: File,
    /// The meta file has its header.
    pub(super) meta_begun: bool,
}

/// Why a writer could not begin, and the replica that there is.
pub(super) struct NotBegun {
    pub(super) error: StoreError,
    pub(super) left: Option<Replica>,
}

/// Opens or creates the files of `replica`; `old` is what there is. `None` for a new replica that may remain small: its files are created once it does not.
pub(super) fn files(
    store: &Store,
    replica: &Replica,
    (volume, paths): (usize, &ReplicaPaths),
    (begin, old): (Begin, Option<&Entry>),
    moving: &mut Option<Moving<'_>>,
) -> Result<Option<Opened>, NotBegun> {
    let not_begun =
        |left| move |error| NotBegun { error: StoreError::io(replica.block, error), left };
    match (begin, old) {
        (Begin::Resume { .. }, Some(old)) => {
            resume(store, replica, (volume, paths), old, moving).map(Some)
        }
        (Begin::Supersede, old) => {
            let created = paths.remove_if_there().and_then(|()| paths.create());
            created.map(fresh).map(Some).map_err(not_begun(old.map(|old| old.replica)))
        }
        (_, old) => {
            if let Some(old) = old {
                old.discard(&store.volumes);
            }
            if store.volumes[volume].small_bytes_max() > 0 {
                return Ok(None);
            }
            paths.create().map(fresh).map(Some).map_err(not_begun(None))
        }
    }
}

pub(super) fn fresh((block, meta): (File, File)) -> Opened {
    Opened { block, meta, meta_begun: false }
}

/// Opens the files of a replica under its new stamp, where only its writer adds to it.
fn resume(
    store: &Store,
    replica: &Replica,
    (volume, paths): (usize, &ReplicaPaths),
    old: &Entry,
    moving: &mut Option<Moving<'_>>,
) -> Result<Opened, NotBegun> {
    let id = replica.block;
    if let Some(small) = &old.small {
        return unpack(store, replica, (volume, paths), (small, &old.replica), moving);
    }
    let from = store.volumes[volume].paths(&old.replica);
    if from != *paths {
        let left = Some(old.replica);
        from.rename(paths).map_err(|error| NotBegun { error: StoreError::io(id, error), left })?;
    }
    drop(moving.take());
    let left = Some(Replica { state: State::Unfinished, ..*replica });
    let not_begun = |error| NotBegun { error, left };
    if from != *paths {
        // Added bytes must never turn up in a replica that counts as finalized. Nor may bytes promised from now on turn up under a stamp that no longer has a
        // vote.
        sync_folders(&[paths, &from]).map_err(|unsynced| {
            let has_failed = matches!(unsynced, Unsynced::Failed(_));
            let error = StoreError::io(id, unsynced.into());
            if let (StoreError::Io { source, .. }, true) = (&error, has_failed) {
                store.fence(volume, source);
            }
            not_begun(error)
        })?;
    }
    let opened = || -> io::Result<(File, File)> {
        let (block, meta) = paths.open_for_writing()?;
        if old.is_doubtful {
            rewrite(&block, replica.length)?;
            rewrite(&meta, meta.length()?)?;
        }
        Ok((block, meta))
    };
    let (block, meta) = opened().map_err(|error| not_begun(StoreError::io(id, error)))?;
    let (meta, meta_begun) = current_meta(replica, paths, meta).map_err(not_begun)?;
    Ok(Opened { block, meta, meta_begun })
}

/// Gives a small replica files of its own, under its new stamp. They are on disk before they have their names, and have these before the record is gone: all
/// of it was promised.
fn unpack(
    store: &Store,
    replica: &Replica,
    (volume, paths): (usize, &ReplicaPaths),
    (small, old): (&Extent, &Replica),
    moving: &mut Option<Moving<'_>>,
) -> Result<Opened, NotBegun> {
    let not_begun = |error| NotBegun { error, left: Some(*old) };
    let io_error = |error| not_begun(StoreError::io(replica.block, error));
    let aside =
        ReplicaPaths::new(&store.volumes[volume].path().join(TMP), replica.block, replica.stamp);
    let (block, meta) = aside.remove_if_there().and_then(|()| aside.create()).map_err(io_error)?;
    let written = small.contents().and_then(|(crcs, data)| {
        block.write_cached_at(&data, 0)?;
        meta.write_all_at(&crcs, 0)
    });
    let synced = written.map_err(Unsynced::Untried).and_then(|()| {
        let synced = block.sync_data().and_then(|()| meta.sync_data());
        synced.map_err(Unsynced::Failed)?;
        aside.rename(paths).map_err(Unsynced::Untried)?;
        sync_folders(&[paths, &aside])
    });
    synced.map_err(|unsynced| {
        let has_failed = matches!(unsynced, Unsynced::Failed(_));
        let error = StoreError::io(replica.block, unsynced.into());
        if let (StoreError::Io { source, .. }, true) = (&error, has_failed) {
            store.fence(volume, source);
        } else if let Err(error) = aside.remove_if_there().and_then(|()| paths.remove_if_there()) {
            tracing::warn!(block = %replica.block, %error, "cannot remove what was not moved");
        }
        not_begun(error)
    })?;
    drop(moving.take());
    Ok(Opened { block, meta, meta_begun: true })
}

/// Writes the first bytes of a file once more, so that the next sync writes them to the disk.
fn rewrite(file: &File, length: u64) -> io::Result<()> {
    let mut bytes = vec![0; length.min(REWRITE_BYTES) as usize];
    let mut at = 0;
    while at < length {
        let count = (length - at).min(REWRITE_BYTES) as usize;
        file.read_exact_at(&mut bytes[..count], at)?;
        file.write_all_at(&bytes[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

/// The meta file, in the current version, of a replica that a writer continues, and whether its header exists.
fn current_meta(
    replica: &Replica,
    paths: &ReplicaPaths,
    meta_file: File,
) -> Result<(File, bool), StoreError> {
    let id = replica.block;
    let io_error = |error| StoreError::io(id, error);
    match verify::check_header(id, &meta_file) {
        Ok(Layout::CURRENT) => Ok((meta_file, true)),
        Ok(old) => {
            let begin = old.crc_position(0);
            let mut crcs = vec![0; (old.file_bytes(replica.length) - begin) as usize];
            meta_file.read_exact_at(&mut crcs, begin).map_err(io_error)?;
            let bytes = [&meta::header()[..], &crcs].concat();
            sys::fs::write_atomic(&paths.meta, &bytes, 0o600).map_err(io_error)?;
            let (_, meta_file) = paths.open_for_writing().map_err(io_error)?;
            Ok((meta_file, true))
        }
        // Its writer ended before the first packet, or none of its data reached the disk.
        Err(StoreError::Meta { .. }) if replica.length == 0 => Ok((meta_file, false)),
        Err(error) => Err(error),
    }
}
