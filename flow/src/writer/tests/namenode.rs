//! The NameNode of a writer, by its rules: stamps rise, blocks are committed once, replacements are found or not.

use std::collections::BTreeMap;

use protocol::auth::Key;
use protocol::namenode::{Call, LocatedBlock, Reply, WrittenBlock};
use protocol::token::{AccessMode, TokenKeys};
use protocol::{BlockId, DatanodeId, ErrorKind, GenerationStamp, InodeId};

use super::network::{World, info};
use crate::writer::simulated::CallError;

pub(super) const FILE: InodeId = InodeId(7);

/// The block being written.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) id: BlockId,
    pub(super) stamp: GenerationStamp,
    pub(super) targets: Vec<DatanodeId>,
    /// Replicas from this stamp on count in a recovery, until the writer has confirmed the current one.
    pub(super) prior: Option<GenerationStamp>,
    pub(super) known: u64,
}

#[derive(Debug)]
pub(super) struct NameNode {
    pub(super) nodes: Vec<DatanodeId>,
    pub(super) replication: usize,
    pub(super) durable_min: u16,
    pub(super) open: Option<Open>,
    /// Each with the disks that have it.
    pub(super) committed: Vec<(WrittenBlock, usize)>,
    offsets: BTreeMap<BlockId, u64>,
    last_number: u64,
    pub(super) closed: bool,
    pub(super) deleted: bool,
    pub(super) recovers: bool,
}

fn refused<T>(kind: ErrorKind) -> Result<T, CallError> {
    Err(CallError(Some(kind)))
}

impl NameNode {
    pub(super) fn new(nodes: u8, replication: usize, durable_min: u16) -> Self {
        NameNode {
            nodes: (1..=nodes).map(|number| DatanodeId([number; 16])).collect(),
            replication,
            durable_min,
            open: None,
            committed: Vec::new(),
            offsets: BTreeMap::new(),
            last_number: 1000,
            closed: false,
            deleted: false,
            recovers: false,
        }
    }

    pub(super) fn offset_of(&self, block: BlockId) -> u64 {
        self.offsets[&block]
    }

    /// Bytes of the blocks before the one being written.
    pub(super) fn committed_length(&self) -> u64 {
        self.committed.iter().map(|(written, _)| written.length).sum()
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The open block as its writer gets it.
    fn located(&self, length: u64) -> LocatedBlock {
        let Open { id, stamp, targets, .. } = self.open.as_ref().unwrap();
        let keys = TokenKeys::new(&Key::new([3; 32]));
        LocatedBlock {
            id: *id,
            stamp: *stamp,
            offset: self.offsets[id],
            length,
            replicas: targets.iter().map(|id| info(*id)).collect(),
            damaged: Vec::new(),
            durable_min: self.durable_min,
            corrupt: false,
            open: true,
            has_unseen_members: false,
            token: keys.issue(*id, *stamp, AccessMode::Write, 0),
        }
    }

    pub(super) fn allot(&mut self, targets: Vec<DatanodeId>) -> LocatedBlock {
        let id = BlockId(self.number());
        let stamp = GenerationStamp(self.number());
        self.offsets.insert(id, self.committed_length());
        self.open = Some(Open { id, stamp, targets, prior: None, known: 0 });
        self.located(0)
    }

    /// Opens the block again at its end, under a new stamp.
    pub(super) fn reopen(&mut self, length: u64) -> (LocatedBlock, GenerationStamp) {
        let stamp = GenerationStamp(self.number());
        let open = self.open.as_mut().unwrap();
        let prior = std::mem::replace(&mut open.stamp, stamp);
        (open.prior, open.known) = (Some(prior), length);
        (self.located(length), prior)
    }

    fn commit(&mut self, written: &WrittenBlock) -> Result<(), CallError> {
        if let Some(open) = self.open.take() {
            assert_eq!((open.id, open.stamp), (written.id, written.stamp), "another block");
            assert!(written.replicas.iter().all(|id| open.targets.contains(id)), "a stranger");
            assert!(written.length >= open.known, "bytes of a block are gone");
            self.committed.push((written.clone(), written.receipts.len()));
        }
        let (last, durable) = self.committed.last().unwrap();
        assert_eq!(last, written, "the last block is committed in the same way again");
        match *durable >= usize::from(self.durable_min) {
            true => Ok(()),
            false => refused(ErrorKind::NotReplicatedYet),
        }
    }
}

impl World {
    /// Places for replicas: the NameNode knows only late who is gone.
    fn choose(&mut self, kept: &[DatanodeId], exclude: &[DatanodeId]) -> Vec<DatanodeId> {
        let wanted = self.namenode.replication.saturating_sub(kept.len());
        let mut found = Vec::new();
        for id in self.namenode.nodes.clone() {
            let is_free = !kept.contains(&id) && !exclude.contains(&id);
            let seems_up = self.nodes[&id].up || self.draws.one_in(4);
            if found.len() < wanted && is_free && seems_up && !self.draws.one_in(9) {
                found.push(id);
            }
        }
        found
    }

    /// The answer to a call. Some calls get none, before they take effect or after.
    pub(super) fn call(&mut self, call: Call) -> Result<Reply, CallError> {
        if self.draws.one_in(120) {
            if self.draws.one_in(2) {
                let _ = self.decide(call);
            }
            return Err(CallError(None));
        }
        // What waits for copies is tried again for a while, below the writer.
        let answer = self.decide(call.clone());
        match answer {
            Err(CallError(Some(ErrorKind::NotReplicatedYet))) if self.copies() => self.decide(call),
            answer => answer,
        }
    }

    /// The last block is copied to another disk.
    fn copies(&mut self) -> bool {
        let is_there = self.draws.are_over() || self.draws.one_in(2);
        let nodes = self.nodes.len();
        match self.namenode.committed.last_mut() {
            Some((_, durable)) if is_there && *durable < nodes => *durable = nodes,
            _ => return false,
        }
        true
    }

    fn decide(&mut self, call: Call) -> Result<Reply, CallError> {
        match call {
            Call::AddBlock { file, previous, exclude } => {
                assert_eq!(file, FILE);
                match &previous {
                    Some(written) => self.namenode.commit(written)?,
                    None => {
                        assert!(self.namenode.open.is_none() && self.namenode.committed.is_empty())
                    }
                }
                match self.choose(&[], &exclude) {
                    targets if targets.is_empty() => refused(ErrorKind::NoDatanodes),
                    targets => Ok(Reply::Block(self.namenode.allot(targets))),
                }
            }
            Call::AbandonBlock { block, .. } => {
                let open = self.namenode.open.take_if(|open| open.id == block);
                assert!(open.is_none_or(|open| open.known == 0), "a block with data is given back");
                Ok(Reply::Done)
            }
            Call::RecoverPipeline { block, failed, slow, .. } => {
                self.recover_pipeline(&block, &failed, slow)
            }
            Call::SyncBlock { block, stamp, length, .. } => {
                let open = self.namenode.open.as_mut().filter(|open| open.id == block);
                if let Some(open) = open {
                    assert_eq!(stamp, open.stamp, "an older stamp is confirmed");
                    open.known = open.known.max(length);
                    open.prior = None;
                }
                Ok(Reply::Done)
            }
            Call::Complete { last, .. } => {
                if let Some(written) = &last {
                    self.namenode.commit(written)?;
                }
                self.namenode.open = None;
                self.namenode.closed = true;
                Ok(Reply::Done)
            }
            Call::AbandonFile { .. } if self.namenode.deleted || self.namenode.closed => {
                refused(ErrorKind::LeaseExpired)
            }
            Call::AbandonFile { file, keep: false, .. } => {
                assert_eq!(file, FILE);
                self.namenode.deleted = true;
                Ok(Reply::Flag(true))
            }
            Call::AbandonFile { file, keep: true, unused } => {
                assert_eq!(file, FILE);
                let open = self.namenode.open.take_if(|open| unused == Some(open.id));
                assert!(open.is_none_or(|open| open.known == 0), "a block with data is given up");
                self.namenode.recovers = true;
                Ok(Reply::Flag(self.namenode.open.is_none()))
            }
            other => panic!("{other:?}"),
        }
    }

    fn recover_pipeline(
        &mut self,
        written: &WrittenBlock,
        failed: &[DatanodeId],
        slow: Option<DatanodeId>,
    ) -> Result<Reply, CallError> {
        assert!(failed.iter().all(|id| self.faulty.contains(id)), "{failed:?} did nothing");
        self.slow_replaced += usize::from(slow.is_some());
        let open = self.namenode.open.clone().unwrap();
        assert_eq!((open.id, open.stamp), (written.id, written.stamp), "another block");
        let mut targets = open.targets.clone();
        targets.retain(|id| !failed.contains(id));
        // A new member that did not get its bytes yet stays a target.
        let is_target = |id: &DatanodeId| targets.contains(id);
        assert!(written.replicas.iter().all(is_target), "a survivor that is none");
        let added = self.choose(&targets, failed);
        targets.extend(added);
        let stamp = GenerationStamp(self.namenode.number());
        let open = self.namenode.open.as_mut().unwrap();
        open.prior.get_or_insert(open.stamp);
        (open.stamp, open.targets) = (stamp, targets);
        Ok(Reply::Block(self.namenode.located(written.length)))
    }
}
