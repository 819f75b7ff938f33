//! DataNodes in maintenance and what they hold: a NameNode that starts while they are switched off still knows them.
//!
//! | row | value |
//! |---|---|
//! | `m` + DataNode id | postcard(`(NodeAway, bool)`): the node, and whether all its replicas are kept |
//! | `m` + DataNode id + piece number u32, big endian | postcard(`Vec<ReplicaAway>`), at most [`REPLICAS_PER_ROW`] |
//!
//! The replicas of a large node take several records and steps; the last one marks them as complete. Invariant: a node whose replicas
//! are not all kept counts as unknown, and what it held is copied.
//!
//! Replicas are in memory only until the block manager has them; then they are in rows alone.

use std::collections::BTreeMap;

use protocol::{BlockId, DatanodeId};

use super::edit::{NodeAway, ReplicaAway};
use crate::core::inodes::{Row, decode, encode};
use crate::error::CoreError;

/// First byte of the keys.
pub(in crate::core) const ROW_PREFIX: u8 = b'm';
/// Replicas in one row: at most 30 bytes each, so a row stays under 16 KB.
pub const REPLICAS_PER_ROW: usize = 500;
/// Bytes of a DataNode's id.
const ID_BYTES: usize = 16;

/// The nodes.
#[derive(Default, Debug)]
pub struct NodesAway {
    nodes: BTreeMap<DatanodeId, Away>,
    /// Rows that are not in the checkpoint yet, in order.
    rows: Vec<Row>,
}

/// One node.
#[derive(Debug)]
struct Away {
    node: NodeAway,
    is_whole: bool,
    piece_count: u32,
    /// The last block that is kept.
    last: Option<BlockId>,
    /// Those that the block manager does not have yet.
    replicas: Vec<ReplicaAway>,
}

impl NodesAway {
    /// Their ids.
    pub fn ids(&self) -> impl Iterator<Item = DatanodeId> {
        self.nodes.keys().copied()
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// True if a node is known and all its replicas are kept.
    pub fn is_whole(&self, id: DatanodeId) -> bool {
        self.nodes.get(&id).is_some_and(|away| away.is_whole)
    }

    /// For a node that is known, the last block that is kept.
    pub(in crate::core) fn progress(&self, id: DatanodeId) -> Option<Option<BlockId>> {
        self.nodes.get(&id).map(|away| away.last)
    }

    /// Hands over the nodes that are completely known and their replicas, which are in memory no more.
    pub(in crate::core) fn take_whole(&mut self) -> Vec<(NodeAway, Vec<ReplicaAway>)> {
        let whole = self.nodes.values_mut().filter(|away| away.is_whole);
        whole.map(|away| (away.node.clone(), std::mem::take(&mut away.replicas))).collect()
    }

    /// The block manager has the replicas of a node.
    pub(in crate::core) fn release(&mut self, id: DatanodeId) {
        if let Some(away) = self.nodes.get_mut(&id) {
            away.replicas = Vec::new();
        }
    }

    pub(super) fn keep_node(&mut self, node: &NodeAway) {
        self.forget(node.id);
        self.rows.push((node_key(node.id), Some(encode(&(node, false)))));
        self.nodes.insert(node.id, Away::new(node.clone(), false));
    }

    pub(super) fn keep_replicas(
        &mut self,
        id: DatanodeId,
        replicas: &[ReplicaAway],
    ) -> Result<(), CoreError> {
        let piece = self.add(id, replicas)?;
        self.rows.push((piece_key(id, piece), Some(encode(&replicas))));
        Ok(())
    }

    pub(super) fn complete(&mut self, id: DatanodeId) -> Result<(), CoreError> {
        let away = self.nodes.get_mut(&id).ok_or(CoreError::NoNode { datanode: id })?;
        away.is_whole = true;
        self.rows.push((node_key(id), Some(encode(&(&away.node, true)))));
        Ok(())
    }

    pub(super) fn forget(&mut self, id: DatanodeId) {
        let Some(away) = self.nodes.remove(&id) else { return };
        let pieces = (0..away.piece_count).map(|piece| piece_key(id, piece));
        self.rows.extend(pieces.chain([node_key(id)]).map(|key| (key, None)));
    }

    pub(super) fn dirty_count(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// Takes a row. A node's own row comes before those of its replicas.
    pub(super) fn load_row(&mut self, rest: &[u8], value: &[u8]) -> Result<(), CoreError> {
        const BAD: CoreError = CoreError::BadRow("a node in maintenance");
        let (id, piece) = rest.split_at_checked(ID_BYTES).ok_or(BAD)?;
        let id = DatanodeId(id.try_into().map_err(|_| BAD)?);
        if piece.is_empty() {
            let (node, is_whole): (NodeAway, bool) = decode(value, "a node in maintenance")?;
            if node.id != id {
                return Err(BAD);
            }
            self.nodes.insert(id, Away::new(node, is_whole));
            return Ok(());
        }
        let replicas: Vec<ReplicaAway> = decode(value, "replicas of a node in maintenance")?;
        let piece = u32::from_be_bytes(piece.try_into().map_err(|_| BAD)?);
        match self.add(id, &replicas)? == piece {
            true => Ok(()),
            false => Err(BAD),
        }
    }

    /// Adds replicas; returns the number of the piece.
    fn add(&mut self, id: DatanodeId, replicas: &[ReplicaAway]) -> Result<u32, CoreError> {
        let away = self.nodes.get_mut(&id).ok_or(CoreError::NoNode { datanode: id })?;
        let piece = away.piece_count;
        away.piece_count = piece.checked_add(1).ok_or(CoreError::NoNode { datanode: id })?;
        away.last = replicas.last().map(|replica| replica.block).max(away.last);
        away.replicas.extend_from_slice(replicas);
        Ok(piece)
    }
}

impl Away {
    fn new(node: NodeAway, is_whole: bool) -> Self {
        Away { node, is_whole, piece_count: 0, last: None, replicas: Vec::new() }
    }
}

fn node_key(id: DatanodeId) -> Vec<u8> {
    [&[ROW_PREFIX][..], &id.0].concat()
}

fn piece_key(id: DatanodeId, piece: u32) -> Vec<u8> {
    [&node_key(id)[..], &piece.to_be_bytes()].concat()
}
