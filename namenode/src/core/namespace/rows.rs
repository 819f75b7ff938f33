//! Checkpoint rows of the namespace, as they are in sled.
//!
//! | key | value (postcard) |
//! |---|---|
//! | `c` | version u8 and the counters |
//! | `i` + inode id, big endian | an inode with its first `ROW_BLOCKS` blocks |
//! | `o` + inode id + chunk number u32, big endian | the next `ROW_BLOCKS` blocks |
//! | `b`, `s`, `v`, `w`, `x` … | snapshots and what they keep, see `snapshots::rows` |
//! | `f` + inode id + chunk number u32, big endian | access control list and extended attributes, see `inodes::features` |
//! | `p` + inode id, big endian | who was in the pipeline of an open file, see `Open::former` |
//! | `g` | ids that were left out, see `gaps` |
//! | `q` + inode id, big endian | quotas of a directory, see `inodes::quota` |
//! | `r` + chunk number | answers of recent calls, see `retry_cache` |
//!
//! Every value is under 16 KB. A directory's entries are not stored: they are the inodes that name it as their parent.

use hashbrown::HashSet;
use protocol::{BlockId, ClientId, ClusterId, DatanodeId, GenerationStamp, InodeId};
use serde::{Deserialize, Serialize};

use super::gaps;
use super::sound::check_name;
use super::tree::{Block, Counters, Namespace};
use crate::core::inodes::{
    BlockList, BlockRow, Body, Children, Directory, File, Inode, NOWHERE, Open, ROW_BLOCKS, Row,
    chunk_key, decode, encode, features, id_key, quota,
};
use crate::error::CoreError;

/// First byte of the keys of former members of pipelines.
const FORMER_PREFIX: u8 = b'p';
/// Version of all rows.
const ROWS_VERSION: u8 = 2;

#[derive(Serialize, Deserialize)]
struct InodeRow<'a> {
    parent: InodeId,
    name: &'a str,
    owner: &'a str,
    group: &'a str,
    mode: u16,
    mtime_ms: u64,
    atime_ms: u64,
    file: Option<FileRow>,
}

#[derive(Serialize, Deserialize)]
struct FileRow {
    block_size: u64,
    replication: u16,
    open: Option<OpenRow>,
    blocks: Vec<BlockRow>,
}

#[derive(Serialize, Deserialize)]
struct OpenRow {
    holder: ClientId,
    targets: Vec<DatanodeId>,
    recovery: Option<GenerationStamp>,
    prior: Option<GenerationStamp>,
    known: u64,
    source: Option<BlockRow>,
}

#[derive(Serialize, Deserialize)]
struct CountersRow {
    cluster: Option<ClusterId>,
    next_inode: u64,
    next_block: u64,
    next_stamp: u64,
}

impl Namespace {
    /// How many inode rows are out of date.
    pub fn dirty_count(&self) -> usize {
        self.dirty.inodes.len()
    }

    /// The rows that changed since the last call, as of now.
    pub fn take_rows(&mut self) -> Vec<Row> {
        let dirty = std::mem::take(&mut self.dirty);
        let mut rows = Vec::with_capacity(dirty.inodes.len() + 1);
        if dirty.counters {
            let Counters { cluster, next_inode, next_block, next_stamp } = self.counters;
            let row = CountersRow { cluster, next_inode, next_block, next_stamp };
            rows.push((vec![b'c'], Some(encode(&(ROWS_VERSION, row)))));
        }
        rows.extend(self.gaps.take_row());
        for (id, block_count) in dirty.erased {
            let chunks = 1..=block_count / ROW_BLOCKS;
            rows.extend(chunks.map(|chunk| (chunk_key(b'o', id, chunk), None)));
        }
        rows.extend(self.features.take_rows());
        rows.extend(
            dirty
                .quotas
                .into_iter()
                .map(|id| (id_key(quota::ROW_PREFIX, id), self.quotas.get(&id).map(encode))),
        );
        self.push_history_rows(&mut rows);
        let inodes = dirty.inodes;
        for &id in &inodes {
            match self.inodes.get(&id) {
                Some(inode) => self.push_inode_rows(id, inode, &mut rows),
                None => rows.push((inode_key(id), None)),
            }
        }
        rows.extend(self.former_rows(&inodes));
        rows
    }

    /// Rows of those of `changed` that have or had former members of a pipeline.
    fn former_rows(&mut self, changed: &HashSet<InodeId>) -> Vec<Row> {
        let former = |id: &InodeId| Some(&self.file(*id)?.open.as_deref()?.former);
        let mut rows: Vec<Row> = Vec::new();
        let mut with_row = Vec::new();
        for id in changed {
            match former(id).filter(|former| !former.is_empty()) {
                Some(former) => {
                    with_row.push(*id);
                    rows.push((id_key(FORMER_PREFIX, *id), Some(encode(former))));
                }
                None if self.with_former_row.contains(id) => {
                    rows.push((id_key(FORMER_PREFIX, *id), None));
                }
                None => {}
            }
        }
        self.with_former_row.retain(|id| !changed.contains(id));
        self.with_former_row.extend(with_row);
        rows
    }

    fn push_inode_rows(&self, id: InodeId, inode: &Inode, rows: &mut Vec<Row>) {
        let file = inode.file().map(|file| FileRow {
            block_size: file.block_size,
            replication: file.replication,
            open: file.open.as_deref().map(|open| OpenRow {
                holder: open.holder,
                targets: open.targets.clone(),
                recovery: open.recovery,
                prior: open.prior,
                known: open.known,
                source: open.source.and_then(|block| self.block_rows(&[block]).pop()),
            }),
            blocks: self.block_rows(&file.blocks[..file.blocks.len().min(ROW_BLOCKS)]),
        });
        let row = InodeRow {
            parent: inode.parent,
            name: &inode.name,
            owner: self.names.text(inode.owner),
            group: self.names.text(inode.group),
            mode: inode.mode,
            mtime_ms: inode.mtime_ms,
            atime_ms: inode.atime_ms(),
            file,
        };
        rows.push((inode_key(id), Some(encode(&row))));
        let Some(file) = inode.file() else { return };
        for (chunk, blocks) in file.blocks.chunks(ROW_BLOCKS).enumerate().skip(1) {
            rows.push((chunk_key(b'o', id, chunk), Some(encode(&self.block_rows(blocks)))));
        }
        // A chunk that lost its only block stays behind empty; edits that take more blocks off name the file in `erased`.
        if !file.blocks.is_empty() && file.blocks.len().is_multiple_of(ROW_BLOCKS) {
            rows.push((chunk_key(b'o', id, file.blocks.len() / ROW_BLOCKS), None));
        }
    }

    pub(in crate::core) fn block_rows(&self, blocks: &[BlockId]) -> Vec<BlockRow> {
        let known = blocks.iter().filter_map(|id| Some((id, self.blocks.get(id)?)));
        known
            .map(|(&id, info)| BlockRow {
                id,
                stamp: info.stamp,
                length: info.length,
                complete: info.complete,
            })
            .collect()
    }

    /// Takes one row. Rows come in ascending order of keys, so a file's inode comes before its overflow chunks.
    ///
    /// # Errors
    /// [`CoreError`] if it is malformed or does not fit.
    pub fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), CoreError> {
        match key {
            b"c" => {
                if let Some(&version) = value.first()
                    && (ROWS_VERSION + 1..0x80).contains(&version)
                {
                    return Err(CoreError::NewerForm { what: "the counters", version });
                }
                let (version, row): (u8, CountersRow) = decode(value, "counters")?;
                if version != ROWS_VERSION {
                    return Err(CoreError::BadRow("another version"));
                }
                let CountersRow { cluster, next_inode, next_block, next_stamp } = row;
                self.counters = Counters { cluster, next_inode, next_block, next_stamp };
                Ok(())
            }
            [b'i', id @ ..] => self.load_inode(read_id(id)?, value),
            [b'o', id @ .., _, _, _, _] => {
                let id = read_id(id)?;
                let rows: Vec<BlockRow> = decode(value, "blocks")?;
                self.load_blocks(id, rows)
            }
            [gaps::ROW_KEY] => {
                self.gaps = gaps::Gaps::load(value)?;
                Ok(())
            }
            [features::ROW_PREFIX, rest @ ..] => self.features.load_row(rest, value),
            [FORMER_PREFIX, id @ ..] => {
                let (id, former) = (read_id(id)?, decode(value, "a former pipeline")?);
                let file = self.inodes.get_mut(&id).and_then(|inode| match &mut inode.body {
                    Body::File(file) => file.open.as_deref_mut(),
                    Body::Directory(_) => None,
                });
                file.ok_or(CoreError::BadRow("a pipeline of no open file"))?.former = former;
                self.with_former_row.insert(id);
                Ok(())
            }
            [quota::ROW_PREFIX, id @ ..] => {
                let (id, row) = (read_id(id)?, decode(value, "quotas")?);
                self.quotas.insert(id, row);
                Ok(())
            }
            _ => self.load_history_row(key, value),
        }
    }

    fn load_inode(&mut self, id: InodeId, value: &[u8]) -> Result<(), CoreError> {
        let row: InodeRow<'_> = decode(value, "an inode")?;
        let mut blocks = Vec::new();
        let body = match row.file {
            None => Body::Directory(Box::new(Directory {
                atime_ms: row.atime_ms,
                ..Directory::default()
            })),
            Some(file) => {
                blocks = file.blocks;
                let open = file.open.map(|open| {
                    self.leases.add(open.holder, id);
                    let OpenRow { holder, targets, recovery, prior, known, source } = open;
                    let opened = Open { targets, recovery, prior, known, ..Open::by(holder) };
                    let source = source.map(|row| {
                        let BlockRow { id: block, stamp, length, complete } = row;
                        self.complete_block_count += u64::from(complete);
                        self.blocks.insert(block, Block { file: id, stamp, length, complete });
                        block
                    });
                    Box::new(Open { source, ..opened })
                });
                Body::File(File {
                    length: 0,
                    blocks: BlockList::default(),
                    atime_ms: row.atime_ms,
                    block_size: file.block_size,
                    replication: file.replication,
                    open,
                })
            }
        };
        match id {
            InodeId::ROOT if row.parent != id => {
                return Err(CoreError::Detached { inode: id, parent: row.parent });
            }
            InodeId::ROOT => {}
            _ => check_name(row.name)?,
        }
        let inode = Inode {
            parent: row.parent,
            name: row.name.into(),
            owner: self.names.intern(row.owner),
            group: self.names.intern(row.group),
            mode: row.mode,
            mtime_ms: row.mtime_ms,
            body,
        };
        if self.inodes.insert(id, inode).is_some() {
            return Err(CoreError::Exists { inode: id });
        }
        match blocks.is_empty() {
            true => Ok(()),
            false => self.load_blocks(id, blocks),
        }
    }

    fn load_blocks(&mut self, id: InodeId, rows: Vec<BlockRow>) -> Result<(), CoreError> {
        let Some(Inode { body: Body::File(file), .. }) = self.inodes.get_mut(&id) else {
            return Err(CoreError::NoInode { inode: id, expected: "a file" });
        };
        for BlockRow { id: block, stamp, length, complete } in rows {
            file.blocks.push(block);
            let length_now = file.length.checked_add(if complete { length } else { 0 });
            file.length = length_now.ok_or(CoreError::BadBlock { inode: id, block })?;
            self.complete_block_count += u64::from(complete);
            let info = Block { file: id, stamp, length, complete };
            if let (false, Some(open)) = (complete, &mut file.open) {
                open.writing = true;
            }
            if self.blocks.insert(block, info).is_some() {
                return Err(CoreError::BadBlock { inode: id, block });
            }
        }
        Ok(())
    }

    /// Ties loaded rows together and checks the tree.
    ///
    /// # Errors
    /// [`CoreError`] if they are not one sound tree.
    pub fn finish_load(&mut self) -> Result<(), CoreError> {
        self.features.finish_load()?;
        self.inodes.shrink();
        self.blocks.shrink();
        let mut links: Vec<(InodeId, InodeId)> = Vec::with_capacity(self.inodes.len());
        for (id, inode) in self.inodes.iter() {
            if inode.parent == NOWHERE && self.history.versions.contains_key(&id) {
                self.history.homes.insert(id, NOWHERE);
            } else if inode.parent == NOWHERE {
                self.garbage.push_back(id);
            } else if id != InodeId::ROOT {
                links.push((inode.parent, id));
            }
        }
        links.sort_unstable();
        for siblings in links.chunk_by(|left, right| left.0 == right.0) {
            let parent = siblings[0].0;
            let mut named: Vec<(&[u8], InodeId)> = siblings
                .iter()
                .filter_map(|(_, id)| Some((self.inodes.get(id)?.name.as_bytes(), *id)))
                .collect();
            named.sort_unstable();
            if let Some(pair) = named.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                return Err(CoreError::Exists { inode: pair[1].1 });
            }
            let ids: Vec<InodeId> = named.into_iter().map(|(_, id)| id).collect();
            let Some(Inode { body: Body::Directory(directory), .. }) = self.inodes.get_mut(&parent)
            else {
                return Err(CoreError::Detached { inode: ids[0], parent });
            };
            directory.children = Children::from_sorted(&ids);
        }
        self.sum_up()?;
        self.check_versions()?;
        self.tie_history()?;
        self.check()
    }

    /// Fills in the totals, children before parents. Every inode must be reached from the root or from the top of a deleted tree: a ring would never end for who
    /// follows parents.
    fn sum_up(&mut self) -> Result<(), CoreError> {
        let mut order = Vec::new();
        let mut reached = 0;
        let mut stack: Vec<InodeId> =
            self.garbage.iter().chain(self.history.homes.keys()).copied().collect();
        stack.push(InodeId::ROOT);
        while let Some(id) = stack.pop() {
            reached += 1;
            if let Some(directory) = self.inodes.get(&id).and_then(Inode::directory) {
                order.push(id);
                stack.extend(directory.children.iter());
            }
        }
        if reached < self.inodes.len() {
            return Err(CoreError::Unreachable { count: (self.inodes.len() - reached) as u64 });
        }
        for id in order.into_iter().rev() {
            let total =
                self.inodes.get(&id).and_then(Inode::directory).map(|d| self.sum_children(d));
            if let (Some(total), Some(Inode { body: Body::Directory(directory), .. })) =
                (total, self.inodes.get_mut(&id))
            {
                let Directory { total: slot, .. } = &mut **directory;
                *slot = total;
            }
        }
        Ok(())
    }
}

fn inode_key(id: InodeId) -> Vec<u8> {
    id_key(b'i', id)
}

fn read_id(bytes: &[u8]) -> Result<InodeId, CoreError> {
    let bytes = bytes.try_into().map_err(|_| CoreError::BadRow("an unknown kind"))?;
    Ok(InodeId(u64::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::edit::Edit;

    /// A root with one closed file of one block.
    fn sample() -> Namespace {
        let mut ns = Namespace::default();
        let (file, block) = (InodeId(16386), BlockId::FIRST);
        for edit in [
            Edit::Format {
                cluster: ClusterId([7; 16]),
                owner: "root".to_owned(),
                group: "sg".to_owned(),
                at_ms: 4,
            },
            Edit::MakeFile {
                id: file,
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
            Edit::AddBlock { file, block, stamp: GenerationStamp(1001), targets: vec![] },
            Edit::CommitBlock { file, block, length: 10 },
            Edit::Close { file, at_ms: 6 },
        ] {
            ns.apply(&edit).unwrap();
        }
        ns
    }

    fn rows() -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut rows: Vec<_> = sample()
            .take_rows()
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn golden_bytes() {
        let mut counters = vec![2, 1];
        counters.extend([7; 16]);
        counters.extend([0x83, 0x80, 1, 0x82, 0x80, 0x80, 0x80, 4, 0xea, 7]);
        let root = [&[0x81, 0x80, 1, 0, 4][..], b"root", &[2], b"sg", &[0xed, 3, 5, 0, 0]].concat();
        let file = [
            &[0x81, 0x80, 1, 1, b'f', 3][..],
            b"ann",
            &[2],
            b"sg",
            &[0xa4, 3, 6, 5, 1, 0xe8, 7, 3, 0, 1],
            &[0x81, 0x80, 0x80, 0x80, 4, 0xe9, 7, 10, 1],
        ]
        .concat();
        let expected = vec![
            (b"c".to_vec(), counters),
            (vec![b'i', 0, 0, 0, 0, 0, 0, 0x40, 1], root),
            (vec![b'i', 0, 0, 0, 0, 0, 0, 0x40, 2], file),
        ];
        assert_eq!(rows(), expected);
    }

    #[test]
    fn damage_is_found() {
        for damaged in 0..3 {
            let whole = rows();
            for end in 0..whole[damaged].1.len() {
                let mut ns = Namespace::default();
                let mut load = || {
                    for (index, (key, value)) in whole.iter().enumerate() {
                        let end = if index == damaged { end } else { value.len() };
                        ns.load_row(key, &value[..end])?;
                    }
                    ns.finish_load()
                };
                assert!(load().is_err(), "row {damaged} cut at {end}");
            }
            let mut ns = Namespace::default();
            for (index, (key, value)) in whole.iter().enumerate() {
                if index != damaged {
                    let _ = ns.load_row(key, value);
                }
            }
            assert_eq!(ns.finish_load().is_err(), damaged != 2, "a lost leaf is a smaller tree");
        }
    }
}
