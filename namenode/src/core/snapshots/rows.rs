//! Checkpoint rows of snapshots and what they keep.
//!
//! | key | value (postcard) |
//! |---|---|
//! | `b` + inode id | the moment since which the inode is as it is |
//! | `s` | number of the next snapshot |
//! | `s` + inode id | nothing: the directory may have snapshots |
//! | `s` + inode id + snapshot number | name of the snapshot |
//! | `v` + inode id + last moment | a version, with the first `ROW_BLOCKS` blocks if it has its own list |
//! | `w` + inode id + last moment + chunk number u32 | the next `ROW_BLOCKS` blocks of that list |
//! | `x` + inode id + last moment + chunk number u32 | the next `CHUNK_BYTES` of a version's features, see `inodes::features`; from 0 on |
//!
//! Numbers in keys are big endian, u64 unless stated. `Namespace::tie_history` rebuilds witnesses, former places and sums.

use std::sync::Arc;

use protocol::{BlockId, InodeId};
use serde::{Deserialize, Serialize};

use crate::core::inodes::{
    BlockRow, CHUNK_BYTES, DirtyHistory, Features, FileVersion, NOWHERE, ROW_BLOCKS, Row, Snapshot,
    Totals, Version, VersionBlocks, decode, encode, id_key, with_chunk,
};
use crate::core::namespace::{Block, Namespace};
use crate::error::CoreError;

#[derive(Serialize, Deserialize)]
struct VersionRow<'a> {
    from: u64,
    parent: InodeId,
    name: &'a str,
    owner: &'a str,
    group: &'a str,
    mode: u16,
    mtime_ms: u64,
    atime_ms: u64,
    file: Option<FileVersionRow>,
}

#[derive(Serialize, Deserialize)]
struct FileVersionRow {
    length: u64,
    replication: u16,
    blocks: KeptRow,
}

#[derive(Serialize, Deserialize)]
enum KeptRow {
    First(u64),
    List(Vec<BlockRow>),
}

impl Namespace {
    /// The rows of snapshots that changed since the last call.
    pub(in crate::core) fn push_history_rows(&mut self, rows: &mut Vec<Row>) {
        let dirty = std::mem::take(&mut self.history.dirty);
        let DirtyHistory { versions, stamps, roots, snapshots, next, lists, features } = dirty;
        let history = &self.history;
        if next {
            rows.push((vec![b's'], Some(encode(&history.next))));
        }
        rows.extend(
            stamps.into_iter().map(|id| (id_key(b'b', id), history.stamps.get(&id).map(encode))),
        );
        rows.extend(
            roots
                .into_iter()
                .map(|id| (id_key(b's', id), history.roots.contains_key(&id).then(Vec::new))),
        );
        rows.extend(snapshots.into_iter().map(|(id, at)| {
            let snapshot = history.roots.get(&id).and_then(|root| root.snapshots.get(&at));
            (moment_key(b's', id, at), snapshot.map(|snapshot| encode(&snapshot.name)))
        }));
        for (id, until, count) in lists {
            let chunks = 1..count.div_ceil(ROW_BLOCKS);
            rows.extend(chunks.map(|chunk| (version_key(b'w', id, until, chunk), None)));
        }
        for (id, until, length) in features {
            let chunks = 0..length.div_ceil(CHUNK_BYTES);
            rows.extend(chunks.map(|chunk| (version_key(b'x', id, until, chunk), None)));
        }
        for (id, until) in versions {
            let version = self.versions(id).iter().find(|version| version.until == until);
            match version {
                Some(version) => self.push_version(id, version, rows),
                None => rows.push((moment_key(b'v', id, until), None)),
            }
        }
    }

    fn push_version(&self, id: InodeId, version: &Version, rows: &mut Vec<Row>) {
        let file = version.file.as_ref().map(|file| FileVersionRow {
            length: file.length,
            replication: file.replication,
            blocks: match &file.blocks {
                VersionBlocks::First(count) => KeptRow::First(*count as u64),
                VersionBlocks::List(list) => {
                    for (chunk, blocks) in list.chunks(ROW_BLOCKS).enumerate().skip(1) {
                        let value = encode(&self.block_rows(blocks));
                        rows.push((version_key(b'w', id, version.until, chunk), Some(value)));
                    }
                    KeptRow::List(self.block_rows(&list[..list.len().min(ROW_BLOCKS)]))
                }
            },
        });
        let row = VersionRow {
            from: version.from,
            parent: version.parent,
            name: &version.name,
            owner: self.names.text(version.owner),
            group: self.names.text(version.group),
            mode: version.mode,
            mtime_ms: version.mtime_ms,
            atime_ms: version.atime_ms,
            file,
        };
        rows.push((moment_key(b'v', id, version.until), Some(encode(&row))));
        let features = version.features.as_ref().map(|features| features.encode());
        for (chunk, bytes) in features.unwrap_or_default().chunks(CHUNK_BYTES).enumerate() {
            rows.push((version_key(b'x', id, version.until, chunk), Some(bytes.to_vec())));
        }
    }

    /// Takes a row of snapshots. They come in ascending order of keys, after the inodes.
    ///
    /// # Errors
    /// [`CoreError`] if it is malformed or does not fit.
    pub(in crate::core) fn load_history_row(
        &mut self,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), CoreError> {
        let number = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes);
        let unknown = CoreError::BadRow("an unknown kind");
        let (kind, rest) = key.split_first().ok_or(unknown.clone())?;
        let (ids, tail) = rest.as_chunks::<8>();
        match (*kind, ids, tail) {
            (b'b', [id], []) => {
                let stamp = decode(value, "a stamp")?;
                self.history.stamps.insert(InodeId(number(id)), stamp);
            }
            (b's', [], []) => self.history.next = decode(value, "snapshots")?,
            (b's', [id], []) => {
                self.history.roots.entry(InodeId(number(id))).or_default();
            }
            (b's', [id, at], []) => {
                let name: String = decode(value, "a snapshot")?;
                let (id, at) = (InodeId(number(id)), number(at));
                let root = self.history.roots.entry(id).or_default();
                root.names.insert(name.clone(), at);
                root.snapshots.insert(at, Snapshot { name });
                self.history.live.insert(at, id);
            }
            (b'v', [id, until], []) => {
                self.load_version(InodeId(number(id)), number(until), value)?
            }
            (b'w', [id, until], [_, _, _, _]) => {
                let blocks: Vec<BlockRow> = decode(value, "blocks")?;
                let id = InodeId(number(id));
                let ids = self.load_kept(id, blocks)?;
                let version = self.history.versions.get_mut(&id).and_then(|versions| {
                    versions.iter_mut().find(|version| version.until == number(until))
                });
                match version.and_then(|version| version.file.as_mut()).map(|file| &mut file.blocks)
                {
                    Some(VersionBlocks::List(list)) => list.extend(ids),
                    _ => return Err(CoreError::BadRow("blocks")),
                }
            }
            (b'x', [id, until], chunk) => {
                let bad = CoreError::BadRow("features of a version");
                let chunk: [u8; 4] = chunk.try_into().map_err(|_| bad.clone())?;
                let place = (InodeId(number(id)), number(until));
                let bytes = self.history.loading.entry(place).or_default();
                if bytes.len() != u32::from_be_bytes(chunk) as usize * CHUNK_BYTES
                    || value.is_empty()
                {
                    return Err(bad);
                }
                bytes.extend_from_slice(value);
            }
            _ => return Err(unknown),
        }
        Ok(())
    }

    /// Gives versions the features that were loaded.
    fn tie_features(&mut self) -> Result<(), CoreError> {
        for ((id, until), bytes) in std::mem::take(&mut self.history.loading) {
            let mut features = Arc::new(Features::decode(&bytes)?);
            if let Some(live) = self.shared_features(id).filter(|live| **live == features) {
                features = Arc::clone(live);
            }
            let versions = self.history.versions.get_mut(&id).into_iter().flatten();
            let mut fitting = versions.filter(|version| version.until == until);
            let version = fitting.next().ok_or(CoreError::BadRow("features of a version"))?;
            version.features = Some(features);
        }
        Ok(())
    }

    fn load_version(&mut self, id: InodeId, until: u64, value: &[u8]) -> Result<(), CoreError> {
        let row: VersionRow<'_> = decode(value, "a version")?;
        if row.from >= until {
            return Err(CoreError::BadRow("a version"));
        }
        let file = match row.file {
            None => None,
            Some(file) => Some(FileVersion {
                length: file.length,
                replication: file.replication,
                blocks: match file.blocks {
                    KeptRow::First(count) => {
                        VersionBlocks::First(usize::try_from(count).unwrap_or(usize::MAX))
                    }
                    KeptRow::List(blocks) => VersionBlocks::List(self.load_kept(id, blocks)?),
                },
            }),
        };
        let version = Version {
            from: row.from,
            until,
            parent: row.parent,
            name: row.name.into(),
            owner: self.names.intern(row.owner),
            group: self.names.intern(row.group),
            mode: row.mode,
            mtime_ms: row.mtime_ms,
            atime_ms: row.atime_ms,
            features: None,
            file,
        };
        self.history.versions.entry(id).or_default().push(version);
        Ok(())
    }

    /// Takes blocks of a version's own list; those that the file still has are there already.
    fn load_kept(&mut self, file: InodeId, rows: Vec<BlockRow>) -> Result<Vec<BlockId>, CoreError> {
        let mut ids = Vec::with_capacity(rows.len());
        for BlockRow { id, stamp, length, complete } in rows {
            ids.push(id);
            match self.blocks.get(&id) {
                Some(info) if info.file == file => {}
                Some(_) => return Err(CoreError::BadBlock { inode: file, block: id }),
                None => {
                    self.complete_block_count += u64::from(complete);
                    self.blocks.insert(id, Block { file, stamp, length, complete });
                }
            }
        }
        Ok(ids)
    }

    /// Finds what rows do not record: inodes that only snapshots keep, former places, witnesses, sums. Directories must have their totals.
    ///
    /// # Errors
    /// [`CoreError`] if the tables do not fit the inodes.
    pub(in crate::core) fn tie_history(&mut self) -> Result<(), CoreError> {
        self.tie_features()?;
        let next = self.history.next;
        if self.history.live.keys().next_back().is_some_and(|last| *last >= next) {
            return Err(CoreError::Counter("snapshots"));
        }
        let mut orphans = Vec::new();
        let mut ids: Vec<InodeId> = self.history.versions.keys().copied().collect();
        ids.sort_unstable();
        for &id in &ids {
            let Some(inode) = self.inodes.get(&id) else {
                return Err(CoreError::NoInode { inode: id, expected: "there, as its versions" });
            };
            let is_top = inode.parent == NOWHERE && id != InodeId::ROOT;
            let here = (inode.parent, inode.name.clone());
            let versions = self.history.versions.get(&id).map_or(&[][..], Vec::as_slice);
            for version in versions {
                if (version.parent, &*version.name) != (here.0, &*here.1) {
                    let entry = (version.parent, Arc::clone(&version.name), id);
                    self.history.former.insert(entry);
                }
                orphans.push((id, version.until));
            }
            if is_top {
                let home = self.home(id).unwrap_or(NOWHERE);
                self.history.homes.insert(id, home);
            }
        }
        let mut tops: Vec<InodeId> = self.history.homes.keys().copied().collect();
        tops.sort_unstable();
        // Every top is charged with its own content; what hangs on it is charged through it.
        for id in &tops {
            let total =
                self.inodes.get(id).map(crate::core::inodes::Inode::total).unwrap_or_default();
            self.adjust_above(*id, Totals::default(), total);
        }
        ids.into_iter().for_each(|id| self.recount_versions(id));
        for (id, until) in orphans {
            let from = self.versions(id).iter().find(|v| v.until == until).map_or(0, |v| v.from);
            match self.witness(id, from, until) {
                Some(witness) => {
                    self.history.watch.entry(witness).or_default().insert((id, until));
                }
                None => self.history.orphans.push_back((id, until)),
            }
        }
        tops.into_iter().for_each(|id| self.settle(id));
        Ok(())
    }
}

fn moment_key(prefix: u8, id: InodeId, moment: u64) -> Vec<u8> {
    let mut key = id_key(prefix, id);
    key.extend(moment.to_be_bytes());
    key
}

fn version_key(prefix: u8, id: InodeId, until: u64, chunk: usize) -> Vec<u8> {
    with_chunk(moment_key(prefix, id, until), chunk)
}

#[cfg(test)]
mod tests {
    use protocol::xattr::{XattrName, XattrSpace};
    use protocol::{ClientId, ClusterId, GenerationStamp};

    use super::*;
    use crate::core::edit::Edit;

    const FILE: InodeId = InodeId(16386);

    /// Rows of a file with an attribute, of which a snapshot was taken before the attribute went.
    fn rows() -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut ns = Namespace::default();
        let name = XattrName { space: XattrSpace::User, name: "a".to_owned() };
        let (owner, group) = ("ann".to_owned(), "sg".to_owned());
        let block = BlockId::FIRST;
        for edit in [
            Edit::Format { cluster: ClusterId([7; 16]), owner, group, at_ms: 4 },
            Edit::MakeFile {
                id: FILE,
                parent: InodeId::ROOT,
                name: "f".to_owned(),
                owner: "ann".to_owned(),
                group: "sg".to_owned(),
                mode: 0o644,
                replication: 3,
                block_size: 1000,
                holder: ClientId([1; 16]),
                at_ms: 5,
            },
            Edit::AddBlock { file: FILE, block, stamp: GenerationStamp(1001), targets: vec![] },
            Edit::CommitBlock { file: FILE, block, length: 10 },
            Edit::Close { file: FILE, at_ms: 6 },
            Edit::SetXattr { inode: FILE, name: name.clone(), value: Some(vec![7]) },
            Edit::AllowSnapshot { directory: InodeId::ROOT },
            Edit::CreateSnapshot { directory: InodeId::ROOT, name: "s".to_owned(), at_ms: 7 },
            Edit::SetXattr { inode: FILE, name, value: None },
        ] {
            ns.apply(&edit).unwrap();
        }
        let rows = ns.take_rows().into_iter();
        let mut rows: Vec<_> = rows.filter_map(|(key, value)| Some((key, value?))).collect();
        rows.sort();
        rows
    }

    fn load(rows: &[(Vec<u8>, Vec<u8>)]) -> Result<Namespace, CoreError> {
        let mut ns = Namespace::default();
        rows.iter().try_for_each(|(key, value)| ns.load_row(key, value))?;
        ns.finish_load()?;
        Ok(ns)
    }

    #[test]
    fn golden_bytes() {
        let key = |kind: u8, rest: &[&[u8]]| [&[kind], &rest.concat()[..]].concat();
        let (root, file) = (InodeId::ROOT.0.to_be_bytes(), FILE.0.to_be_bytes());
        let (zero, one) = (0_u64.to_be_bytes(), 1_u64.to_be_bytes());
        let version = [
            &[0, 0x81, 0x80, 1, 1, b'f', 3][..],
            b"ann",
            &[2],
            b"sg",
            &[0xa4, 3, 6, 5, 1, 10, 3, 0, 1],
        ];
        let expected = vec![
            (key(b'b', &[&file]), vec![1]),
            (key(b's', &[]), vec![1]),
            (key(b's', &[&root]), vec![]),
            (key(b's', &[&root, &zero]), vec![1, b's']),
            (key(b'v', &[&file, &one]), version.concat()),
            (key(b'x', &[&file, &one, &[0; 4]]), vec![0, 1, 0, 1, b'a', 1, 7]),
        ];
        let mut rows = rows();
        rows.retain(|(key, _)| b"bsvwx".contains(&key[0]));
        assert_eq!(rows, expected);
    }

    #[test]
    fn damage_is_found() {
        let whole = rows();
        assert!(load(&whole).is_ok());
        for (damaged, (key, value)) in whole.iter().enumerate() {
            let is_history = b"bsvx".contains(&key[0]) && !value.is_empty();
            for end in (0..value.len()).filter(|_| is_history) {
                let mut rows = whole.clone();
                rows[damaged].1.truncate(end);
                assert!(load(&rows).is_err(), "row {damaged} cut at {end}");
            }
        }
        let mut orphan = whole.clone();
        orphan.retain(|(key, _)| key[0] != b'v');
        assert!(load(&orphan).is_err(), "features of a version that is not there");
        let mut gap = whole;
        let last = gap.iter_mut().find(|(key, _)| key[0] == b'x').unwrap();
        *last.0.last_mut().unwrap() = 1;
        assert!(load(&gap).is_err(), "chunks count from 0");
    }
}
