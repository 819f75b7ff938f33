//! Writing files: create, blocks, pipeline repair, complete, lease recovery.

use std::collections::BTreeSet;

use protocol::namenode::{BLOCK_SIZE_MAX, Create, DatanodeState, Publish, WrittenBlock};
use protocol::permission::Action;
use protocol::token::Receipt;
use protocol::transfer::WRITE_MANY_BYTES_MAX;
use protocol::{BlockId, DatanodeId, DfsPath, ErrorKind, InodeId, RemoteError};

use super::limits::{check_mode, check_replication};
use super::planner::{Planned, Planner};
use super::rename::Target;
use crate::core::blocks::{Acknowledged, Problem, placement};
use crate::core::edit::{Allotted, Edit, Outcome};
use crate::core::inodes::{File, Leases, Open};
use crate::core::namespace::{Block, Resolved};
use crate::core::nodes::{Node, NodeIndex};
use crate::core::rights::{Needs, acl};
use crate::error::refuse;

/// Room that each block of several files made in one message is expected to take, bytes: more is not written together.
const TOGETHER_BYTES: u64 = WRITE_MANY_BYTES_MAX as u64;

/// Result of committing a block.
enum Committed {
    /// It is on enough disks; the file grows by this many bytes.
    Durable(u64),
    /// It is on a disk, but on too few. It is committed so that copies are made, and the writer asks again.
    Waits(RemoteError),
}

impl Committed {
    fn judge(length: u64, live: usize, durable_min: usize, (block, path): (BlockId, &str)) -> Self {
        if live >= durable_min {
            return Committed::Durable(length);
        }
        let text = format!(
            "Not replicated yet: block {block} of {path} is on disk on {live} of {durable_min} DataNodes"
        );
        Committed::Waits(refuse(ErrorKind::NotReplicatedYet, text))
    }
}

impl Planner<'_> {
    pub(super) fn create(&mut self, create: &Create) -> Planned {
        let settings = &self.state.settings;
        let path = &create.path;
        let replication = create.replication.unwrap_or(settings.replication);
        let block_size = create.block_size.unwrap_or(settings.block_size);
        check_replication(path, replication)?;
        if block_size < settings.block_size_min {
            let text = format!(
                "Specified block size is less than configured minimum value (dfs.namenode.fs-limits.min-block-size): {block_size} < {}",
                settings.block_size_min
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if block_size > BLOCK_SIZE_MAX {
            let text = format!(
                "Specified block size is greater than the largest ({BLOCK_SIZE_MAX}): {block_size}"
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        check_mode(create.mode)?;
        create.unmasked.map_or(Ok(()), check_mode)?;
        let needs = Needs { ancestor: Some(Action::WRITE), ..Needs::default() };
        let way = self.way(path, needs)?;
        if let Some(existing) = &way.found
            && let Some(refusal) = self.replace(create, existing)?
        {
            return Ok(refusal);
        }
        let (parent, group) =
            self.make_parents((path, &way), create.parents, |mode, _| mode | 0o300)?;
        let file = self.new_inode();
        let mode = acl::asked(&self.defaults, create.mode, create.unmasked);
        let (mode, acl) = acl::inherited(&self.defaults, mode, false);
        self.edits.push(Edit::MakeFile {
            id: file,
            parent,
            name: path.name().unwrap_or_default().to_owned(),
            owner: self.asked.caller.user.to_owned(),
            group,
            mode,
            replication,
            block_size,
            holder: self.asked.id().client,
            at_ms: self.now.wall_ms,
        });
        self.push_acl(file, mode, acl);
        self.copy_policy(file, way.ancestor.id);
        let first_block = match create.first_block {
            true => match self.allot(path.as_str(), file, (replication, block_size, 0), &[]) {
                // A file that stays empty needs none. A writer asks for one again, and is refused then.
                Err(refusal) if refusal.kind == ErrorKind::NoDatanodes => None,
                allotted => Some(allotted?),
            },
            false => None,
        };
        Ok(Outcome::Created { file, block_size, replication, first_block })
    }

    /// Makes way for a new file, or refuses; the refusal is an outcome if it begins a recovery. As in HDFS, `overwrite` also replaces a
    /// file that is being written: its writer then finds its lease gone.
    fn replace(
        &mut self,
        create: &Create,
        existing: &Resolved<'_>,
    ) -> Result<Option<Outcome>, RemoteError> {
        let path = &create.path;
        let Some(file) = existing.inode.file() else {
            let text = format!("{path} already exists as a directory");
            return Err(refuse(ErrorKind::AlreadyExists, text));
        };
        if create.overwrite {
            self.guard().check_inode(existing.id, Action::WRITE)?;
            self.edits.push(Edit::Delete { inode: existing.id, at_ms: self.now.wall_ms });
            return Ok(None);
        }
        if let Some(refusal) = self.refuse_if_open("CREATE_FILE", path, (existing.id, file))? {
            return Ok(Some(refusal));
        }
        let client = self.asked.host;
        let text = format!("{path} for client {client} already exists");
        Err(refuse(ErrorKind::AlreadyExists, text))
    }

    /// Refuses what is not permitted on a file that is being written. If its writer has been silent for the soft limit, the refusal is an
    /// outcome: the file's recovery begins.
    pub(super) fn refuse_if_open(
        &mut self,
        verb: &str,
        path: &DfsPath,
        (id, file): (InodeId, &File),
    ) -> Result<Option<Outcome>, RemoteError> {
        let Some(open) = file.open.as_deref() else { return Ok(None) };
        let soft_ms = self.state.settings.lease_soft_ms;
        let leases = &self.state.ns.leases;
        if open.holder != Leases::RECOVERER
            && leases.is_expired(open.holder, self.now.mono_ms, soft_ms)
        {
            self.recover = Some(id);
            let open = Open { holder: Leases::RECOVERER, ..open.clone() };
            return Ok(Some(Outcome::Refused(self.refuse_open(verb, path, &open))));
        }
        Err(self.refuse_open(verb, path, open))
    }

    fn refuse_open(&self, verb: &str, path: &DfsPath, open: &Open) -> RemoteError {
        let (holder, host) = (self.asked.id().client, self.asked.host);
        if open.holder == Leases::RECOVERER {
            let mut text = format!(
                "Failed to {verb} {path} for {holder} on {host} because lease recovery is in progress. Try again later."
            );
            let away = crate::core::blocks::away(self.nodes, open);
            let away: Vec<String> = away.iter().map(ToString::to_string).collect();
            if !away.is_empty() {
                let away = away.join(", ");
                text.push_str(&format!(" Its last block may need datanodes that are dead: {away}"));
            }
            return refuse(ErrorKind::RecoveryInProgress, text);
        }
        if open.holder == holder {
            let text = format!(
                "Failed to {verb} {path} for {holder} on {host} because current leaseholder is trying to recreate file."
            );
            return refuse(ErrorKind::AlreadyBeingCreated, text);
        }
        let text = format!(
            "Failed to {verb} {path} for {holder} on {host} because this file lease is currently owned by {}",
            open.holder
        );
        refuse(ErrorKind::AlreadyBeingCreated, text)
    }

    /// Allocates the next block of a file.
    fn allot(
        &mut self,
        path: &str,
        file: InodeId,
        (replication, block_size, offset): (u16, u64, u64),
        exclude: &[DatanodeId],
    ) -> Result<Allotted, RemoteError> {
        let mut targets = self.choose(path, (replication, block_size), &[], exclude)?;
        let (block, stamp) = (self.new_block(), self.new_stamp());
        placement::put_read_first(self.nodes, &mut targets, self.asked.host, block);
        let targets: Vec<DatanodeId> =
            targets.iter().map(|target| self.nodes.node(*target).info.id).collect();
        self.edits.push(Edit::AddBlock { file, block, stamp, targets: targets.clone() });
        Ok(Allotted { id: block, stamp, offset, length: 0, targets, replication })
    }

    /// Chooses DataNodes for a block so that it has `replication`, `existing` included.
    fn choose(
        &mut self,
        path: &str,
        (replication, block_size): (u16, u64),
        existing: &[NodeIndex],
        exclude: &[DatanodeId],
    ) -> Result<Vec<NodeIndex>, RemoteError> {
        let excluded: Vec<NodeIndex> =
            exclude.iter().filter_map(|id| self.nodes.index(*id)).collect();
        let problem = Problem {
            nodes: self.nodes,
            count: usize::from(replication).saturating_sub(existing.len()),
            existing,
            excluded: &excluded,
            writer_host: self.asked.host,
            bytes: self.room(block_size),
        };
        let company = std::mem::take(&mut self.company);
        let is_plain = existing.is_empty() && excluded.is_empty();
        let targets = match is_plain && placement::fit_again(&problem, &company) {
            true => company,
            false => self.draw_targets(problem),
        };
        if existing.is_empty() {
            self.check_enough(path, (replication, block_size), (targets.len(), excluded.len()))?;
        }
        let room = self.room(block_size);
        self.chosen.extend(targets.iter().map(|target| (*target, room)));
        Ok(targets)
    }

    fn draw_targets(&mut self, problem: Problem<'_>) -> Vec<NodeIndex> {
        let mut spared = problem.excluded.to_vec();
        spared.extend(self.nodes.slow(self.now.mono_ms));
        let targets =
            placement::choose_targets(Problem { excluded: &spared, ..problem }, self.random);
        if targets.len() < problem.count && spared.len() > problem.excluded.len() {
            // A slow node is better than none.
            return placement::choose_targets(problem, self.random);
        }
        targets
    }

    /// Room that a new block is expected to take, bytes: whoever makes several files in one message has what they hold, which is little.
    fn room(&self, block_size: u64) -> u64 {
        if self.is_together { block_size.min(TOGETHER_BYTES) } else { block_size }
    }

    /// Refuses a block that nobody can take, or that too few nodes have room for: it would never be on enough disks. Nodes that are merely
    /// away may come back while it is written.
    fn check_enough(
        &self,
        path: &str,
        (replication, block_size): (u16, u64),
        (count, excluded_count): (usize, usize),
    ) -> Result<(), RemoteError> {
        let least = usize::from(self.state.durable_min(self.nodes, replication)).max(1);
        let is_full = |node: &Node| node.state == DatanodeState::Live && node.is_full(block_size);
        let full_count = self.nodes.iter().filter(|(_, node)| is_full(node)).count();
        if count >= least || (count > 0 && full_count == 0) {
            return Ok(());
        }
        let mut text = format!(
            "File {path} could only be written to {count} of the {least} minReplication nodes. There are {} datanode(s) running and {excluded_count} node(s) are excluded in this operation.",
            self.nodes.count(DatanodeState::Live),
        );
        if full_count > 0 {
            text.push_str(&format!(
                " {full_count} datanode(s) have no room for a block of {block_size} bytes: delete files, or add disks or datanodes."
            ));
        }
        Err(refuse(ErrorKind::NoDatanodes, text))
    }

    /// A file that this client writes, and its path. Inodes are counted, so of a file that it does not write it learns the path only if it may go there.
    pub(super) fn held(&self, id: InodeId) -> Result<(&File, &Open, String), RemoteError> {
        let lost = |text: String| Err(refuse(ErrorKind::LeaseExpired, text));
        let (ns, me) = (&self.state.ns, self.asked.id().client);
        let file = ns.file(id);
        let open = file.and_then(|file| file.open.as_deref());
        match (ns.path_of(id), file, open) {
            (Some(path), Some(file), Some(open)) if open.holder == me => Ok((file, open, path)),
            (Some(path), _, open) if self.may_go_to(&path) => lost(match open {
                Some(open) => format!(
                    "Client (={me}) is not the lease owner (={}): {path} (inode {id})",
                    open.holder
                ),
                None => format!("File is not open for writing: {path} (inode {id})"),
            }),
            _ => lost(format!(
                "File does not exist: (inode {id}) Holder {me} does not have any open files."
            )),
        }
    }

    /// Whether the caller has EXECUTE on every directory of the way.
    fn may_go_to(&self, path: &str) -> bool {
        DfsPath::parse(path).is_ok_and(|path| self.guard().walk(&path).is_ok())
    }

    /// Whether the caller could delete a file by its path.
    fn may_delete(&self, path: &str) -> bool {
        let needs = Needs { parent: Some(Action::WRITE), ..Needs::default() };
        let guard = self.guard();
        DfsPath::parse(path).is_ok_and(|path| {
            let way = guard.walk(&path);
            way.is_ok_and(|way| guard.check(&path, &way, needs).is_ok())
        })
    }

    pub(super) fn add_block(
        &mut self,
        id: InodeId,
        previous: Option<&WrittenBlock>,
        exclude: &[DatanodeId],
    ) -> Planned {
        let (file, _, path) = self.held(id)?;
        let (replication, block_size) = (file.replication, file.block_size);
        let mut offset = file.length;
        match (previous, self.state.ns.open_block(id)) {
            (Some(written), _) => match self.commit_block(id, &path, written)? {
                Committed::Durable(length) => offset += length,
                Committed::Waits(refusal) => return Ok(Outcome::Refused(refusal)),
            },
            (None, Some(block)) => {
                let text = format!("block {block} of {path} is not committed");
                return Err(refuse(ErrorKind::InvalidArgument, text));
            }
            (None, None) => {}
        }
        let terms = (replication, block_size, offset);
        self.allot(&path, id, terms, exclude).map(Outcome::Block)
    }

    /// Commits a block that was written. A block that is committed already, in the same way, is fine.
    ///
    /// # Errors
    /// If it is not this file's block, it is too long or too short, its writer names DataNodes that it never had, or it is on no disk.
    fn commit_block(
        &mut self,
        id: InodeId,
        path: &str,
        written: &WrittenBlock,
    ) -> Result<Committed, RemoteError> {
        let WrittenBlock { id: block, stamp, length, .. } = *written;
        let info = self.own_block(id, path, block)?;
        if info.stamp != stamp || (info.complete && info.length != length) {
            let text = format!(
                "block {block} of {path} has stamp {} and length {}, not {stamp} and {length}",
                info.stamp, info.length
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let (replication, block_size, known) = self
            .state
            .ns
            .file(id)
            .map(|file| (file.replication, file.block_size, file.known_length()))
            .unwrap_or_default();
        let durable_min = usize::from(self.state.durable_min(self.nodes, replication));
        if info.complete {
            let live = self.state.blocks.holders(block).len();
            return Ok(Committed::judge(0, live, durable_min, (block, path)));
        }
        if length > block_size {
            let text = format!("block {block} of {path} has {length} bytes where {block_size} fit");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if length < known {
            let text = format!("block {block} of {path} has {known} bytes already, not {length}");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if length == 0 {
            self.edits.push(Edit::DropBlock { file: id, block });
            return Ok(Committed::Durable(0));
        }
        self.check_members(id, path, written)?;
        // What its members have finalized without a sync does not count either.
        if durable_min > 0 && written.receipts.is_empty() {
            let text = format!("Not replicated yet: block {block} of {path} is on no disk");
            return Err(refuse(ErrorKind::NotReplicatedYet, text));
        }
        let durable = self.durable_holders(written);
        self.edits.push(Edit::CommitBlock { file: id, block, length });
        let holders = written.replicas.iter().filter_map(|id| self.nodes.index(*id));
        let room = self.room(block_size);
        self.released.extend(holders.map(|node| (node, room.saturating_sub(length))));
        let replicas = written.replicas.clone();
        let durable_count = written.receipts.len();
        self.written.insert(block, Acknowledged { replicas, durable_count });
        Ok(Committed::judge(length, durable.len(), durable_min, (block, path)))
    }

    /// Refuses a block whose writer names DataNodes outside its pipeline, names one twice, names only ones that have not registered yet, or says of one that it
    /// has the block on disk which has not said so.
    fn check_members(
        &self,
        file: InodeId,
        path: &str,
        written: &WrittenBlock,
    ) -> Result<(), RemoteError> {
        let block = written.id;
        let open = self.state.ns.file(file).and_then(|file| file.open.as_ref());
        let pipeline = open.map_or(&[][..], |open| &open.targets);
        let is_twice = |(at, id): (usize, &DatanodeId)| written.replicas[..at].contains(id);
        if written.replicas.iter().enumerate().any(is_twice) {
            let text = format!("a DataNode is named twice for block {block} of {path}");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if let Some(stranger) = written.replicas.iter().find(|id| !pipeline.contains(id)) {
            let text = format!("{stranger} is not in the pipeline of block {block} of {path}");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let WrittenBlock { stamp, length, ref replicas, ref receipts, .. } = *written;
        let keys = &self.state.settings.token_keys;
        let is_own = |(id, receipt): (&DatanodeId, &Receipt)| {
            keys.receipt(*id, block, stamp, length) == *receipt
        };
        if receipts.len() > replicas.len()
            || !replicas.iter().rev().zip(receipts.iter().rev()).all(is_own)
        {
            let text = format!(
                "block {block} of {path} comes with a receipt that is not of the DataNode that it is said to be of"
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if written.replicas.iter().all(|id| self.nodes.index(*id).is_none()) {
            let text =
                format!("Not replicated yet: no DataNode of block {block} of {path} is known");
            return Err(refuse(ErrorKind::NotReplicatedYet, text));
        }
        Ok(())
    }

    /// Live DataNodes that have the whole of a block on disk, according to its writer and to their own reports.
    fn durable_holders(&self, written: &WrittenBlock) -> BTreeSet<NodeIndex> {
        let durable = written.replicas.iter().rev().take(written.receipts.len());
        let told = durable.filter_map(|id| self.nodes.index(*id));
        let seen = self.state.blocks.reports.open_holders(written.id).filter(|sighting| {
            let replica = sighting.replica;
            sighting.finalized && (replica.stamp, replica.length) == (written.stamp, written.length)
        });
        told.chain(seen.map(|sighting| sighting.node))
            .filter(|node| self.nodes.node(*node).state != DatanodeState::Dead)
            .collect()
    }

    /// The last block of a file, which must be `block`.
    pub(super) fn own_block(
        &self,
        id: InodeId,
        path: &str,
        block: BlockId,
    ) -> Result<Block, RemoteError> {
        let last = self.state.ns.file(id).and_then(|file| file.blocks.last());
        match self.state.ns.block(block) {
            Some(info) if last == Some(&block) => Ok(*info),
            _ => {
                let text = format!("block {block} is not the last of {path}");
                Err(refuse(ErrorKind::InvalidArgument, text))
            }
        }
    }

    pub(super) fn abandon_block(&mut self, id: InodeId, block: BlockId) -> Planned {
        let (_, _, path) = self.held(id)?;
        if self.state.ns.block(block).is_none() {
            return Ok(Outcome::Done);
        }
        let has_data = self.held(id)?.1.known > 0;
        if self.own_block(id, &path, block)?.complete || has_data {
            let text = format!("block {block} of {path} has data");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        self.edits.push(Edit::DropBlock { file: id, block });
        Ok(Outcome::Done)
    }

    pub(super) fn recover_pipeline(
        &mut self,
        id: InodeId,
        written: &WrittenBlock,
        (failed, slow): (&[DatanodeId], Option<DatanodeId>),
    ) -> Planned {
        let (file, open, path) = self.held(id)?;
        let (replication, block_size) = (file.replication, file.block_size);
        let (offset, prior) = (file.length, open.prior);
        // A writer judges those that it wrote to.
        let slow = slow.filter(|id| open.targets.contains(id));
        let slow = slow.and_then(|id| self.nodes.index(id));
        let mut targets: Vec<DatanodeId> =
            open.targets.iter().filter(|target| !failed.contains(target)).copied().collect();
        let info = self.own_block(id, &path, written.id)?;
        if info.complete || info.stamp != written.stamp {
            let text = format!(
                "block {} of {path} has stamp {}, not {}",
                written.id, info.stamp, written.stamp
            );
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        let survivors: Vec<NodeIndex> =
            targets.iter().filter_map(|target| self.nodes.index(*target)).collect();
        if survivors.is_empty() {
            let text = format!("all DataNodes of block {} of {path} failed", written.id);
            return Err(refuse(ErrorKind::NoDatanodes, text));
        }
        // Others of the pipeline may have nothing of it yet: a NameNode that has just started may know only those.
        let mut holders = written.replicas.iter().filter(|id| targets.contains(id)).peekable();
        if holders.peek().is_some() && holders.all(|id| self.nodes.index(*id).is_none()) {
            let text = format!(
                "no DataNode that has block {} of {path} has registered since this NameNode started",
                written.id
            );
            return Err(refuse(ErrorKind::Unavailable, text));
        }
        self.slow = slow;
        let prior = prior.unwrap_or(info.stamp);
        let added = self.choose(&path, (replication, block_size), &survivors, failed)?;
        targets.extend(added.iter().map(|target| self.nodes.node(*target).info.id));
        let stamp = self.new_stamp();
        let block = written.id;
        self.edits.push(Edit::RestampBlock {
            file: id,
            block,
            stamp,
            targets: targets.clone(),
            prior: Some(prior),
        });
        let length = written.length;
        Ok(Outcome::Block(Allotted { id: block, stamp, offset, length, targets, replication }))
    }

    pub(super) fn complete(
        &mut self,
        id: InodeId,
        last: Option<&WrittenBlock>,
        publish: Option<&Publish>,
    ) -> Planned {
        let (_, open, path) = self.held(id)?;
        let known = open.known;
        match (last, self.state.ns.open_block(id)) {
            (Some(written), _) => {
                if let Committed::Waits(refusal) = self.commit_block(id, &path, written)? {
                    return Ok(Outcome::Refused(refusal));
                }
            }
            // A block that was never written to: of an empty file, or after full ones.
            (None, Some(block)) if known == 0 => {
                self.edits.push(Edit::DropBlock { file: id, block });
            }
            (None, Some(block)) => {
                let text = format!("block {block} of {path} is not committed");
                return Err(refuse(ErrorKind::InvalidArgument, text));
            }
            (None, None) => {}
        }
        self.edits.push(Edit::Close { file: id, at_ms: self.now.wall_ms });
        if let Some(publish) = publish
            && publish.path.as_str() != path
        {
            let from = DfsPath::parse(&path)
                .map_err(|error| refuse(ErrorKind::InvalidArgument, error.to_string()))?;
            if publish.path.is_root() || publish.path.starts_with(&from) {
                let text = format!(
                    "Rename destination {} is a directory or file under source {from}",
                    publish.path
                );
                return Err(refuse(ErrorKind::InvalidArgument, text));
            }
            let ends = self.check_move(&from, &publish.path, Target::Exactly)?;
            self.move_onto(&ends, (&from, &publish.path), publish.overwrite)?;
        }
        Ok(Outcome::Done)
    }

    /// Ends a file of this client's that will not be completed. Whoever may only write to it cannot delete it: it is closed at its present length, as an append
    /// to it is no way round the rights of its directory.
    pub(super) fn abandon_file(
        &mut self,
        file: InodeId,
        keep: bool,
        unused: Option<BlockId>,
    ) -> Planned {
        let (_, open, path) = self.held(file)?;
        let at_ms = self.now.wall_ms;
        if !keep && self.may_delete(&path) {
            self.edits.push(Edit::Delete { inode: file, at_ms });
            return Ok(Outcome::Flag(true));
        }
        match self.state.ns.open_block(file) {
            Some(block) if unused == Some(block) && open.known == 0 => {
                self.edits.push(Edit::DropBlock { file, block });
            }
            Some(_) => {
                self.recover = Some(file);
                return Ok(Outcome::Flag(false));
            }
            None => {}
        }
        self.edits.push(Edit::Close { file, at_ms });
        Ok(Outcome::Flag(true))
    }

    pub(super) fn recover_lease(&mut self, path: &DfsPath) -> Planned {
        let needs = Needs { target: Some(Action::WRITE), ..Needs::default() };
        let found = self.expect(path, needs, || format!("File does not exist: {path}"))?;
        let Some(file) = found.inode.file() else {
            let text = format!("Path is not a file: {path}");
            return Err(refuse(ErrorKind::IsDirectory, text));
        };
        let Some(open) = file.open.as_deref() else { return Ok(Outcome::Flag(true)) };
        if open.holder != Leases::RECOVERER {
            self.recover = Some(found.id);
        }
        Ok(Outcome::Flag(false))
    }
}
