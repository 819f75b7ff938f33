//! Reads. They take the state and the table of DataNodes as they are and change nothing.

use std::ops::Deref;

use protocol::namenode::{
    AdminState, Answer, Call, ClusterStatus, DatanodeDetail, DatanodeInfo, DatanodeReport,
    DatanodeState, FileStatus, LIST_ENTRIES_MAX, ListPage, LocatedBlock, LocatedBlocks, TypedCall,
    calls,
};
use protocol::permission::Action;
use protocol::token::{AccessMode, Holder};
use protocol::{BlockId, DatanodeId, DfsPath, ErrorKind, InodeId, RemoteError};

use super::blocks::{Low, placement};
use super::inodes::{File, Inode};
use super::namespace::{Block, Resolved};
use super::nodes::{Datanodes, Node, NodeIndex};
use super::now::Now;
use super::reserved::{Named, is_reserved};
use super::rights::{Caller, Needs};
use super::state::State;
use crate::error::refuse;

/// Who reads, and when.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Who reads.
    pub caller: Caller<'a>,
    /// Machine of the client; may be empty.
    pub host: &'a str,
    /// The time.
    pub now: Now,
    /// Last transaction of the state that is read.
    pub txid: u64,
}

impl State {
    /// Answers a read.
    pub fn query(&self, nodes: &Datanodes, call: &Call, reader: Reader<'_>) -> Answer {
        self.query_with(|| nodes, call, reader)
    }

    /// Answers a read; takes the table of DataNodes only if the answer needs it.
    pub fn query_with<N: Deref<Target = Datanodes>>(
        &self,
        nodes: impl FnOnce() -> N,
        call: &Call,
        reader: Reader<'_>,
    ) -> Answer {
        let named = Named::of(call)?;
        match self.query_namespace(&named, reader.caller) {
            Some(answer) => answer,
            None => self.query_nodes(&nodes(), &named.call, reader),
        }
    }

    /// Answers a read that needs no DataNodes; `None` for the others.
    fn query_namespace(
        &self,
        Named { call, is_raw }: &Named<'_>,
        caller: Caller<'_>,
    ) -> Option<Answer> {
        if let Err(refusal) = self.check_by(call, caller) {
            return Some(Err(refusal));
        }
        Some(match &**call {
            Call::Status(path) => calls::Status::answer(self.stat(path, caller)),
            Call::List { path, start_after, limit } => {
                calls::List::answer(self.list(path, (start_after, *limit), caller))
            }
            Call::ContentSummary(path) => calls::ContentSummary::answer(self.summary(path, caller)),
            Call::SnapshotDiff { path, from, to, skip } => {
                calls::SnapshotDiff::answer(self.snapshot_diff(path, (from, to), *skip, caller))
            }
            Call::Snapshots { path, after } => {
                calls::Snapshots::answer(self.snapshots(path, *after, caller))
            }
            Call::SnapshottableDirectories => {
                calls::SnapshottableDirectories::answer(Ok(self.snapshottable_directories(caller)))
            }
            Call::GetAcl(path) => calls::GetAcl::answer(self.acl_status(path, caller)),
            Call::GetXattrs { path, names } => {
                calls::GetXattrs::answer(self.xattrs(path, names, (caller, *is_raw)))
            }
            Call::GetStoragePolicy(path) => {
                calls::GetStoragePolicy::answer(self.storage_policy(path, caller))
            }
            Call::CheckAccess { path, action } => {
                calls::CheckAccess::answer(self.check_access(path, *action, caller))
            }
            Call::CheckSuperuser => calls::CheckSuperuser::answer(Ok(())),
            _ => return None,
        })
    }

    fn stat(&self, path: &DfsPath, caller: Caller<'_>) -> Result<FileStatus, RemoteError> {
        if let Some(view) = self.view(path, caller) {
            return self.stat_view(path, view?);
        }
        if is_reserved(path) {
            return Ok(self.reserved_status());
        }
        let missing = |path: &DfsPath| format!("File does not exist: {path}");
        match self.lookup(path, (caller, Needs::default()), missing) {
            Ok(Resolved { id, inode }) => Ok(self.ns.status(id, inode, "")),
            // Below a file there is nothing, for the superuser; others may not even look, as in HDFS.
            Err(error) if error.kind == ErrorKind::ParentNotDirectory && caller.is_superuser => {
                Err(refuse(ErrorKind::NotFound, missing(path)))
            }
            Err(error) => Err(error),
        }
    }

    /// Answers the other reads.
    fn query_nodes(&self, nodes: &Datanodes, call: &Call, reader: Reader<'_>) -> Answer {
        match call {
            Call::Locations { path, offset, length } => {
                calls::Locations::answer(self.locations(nodes, path, (*offset, *length), reader))
            }
            Call::ClusterStatus => {
                calls::ClusterStatus::answer(Ok(self.cluster_status(nodes, reader)))
            }
            Call::BlocksOn { datanode, after, limit } => {
                calls::BlocksOn::answer(self.blocks_on(nodes, *datanode, *after, *limit))
            }
            Call::MoveStates(moves) => {
                calls::MoveStates::answer(Ok(self.move_states(nodes, moves)))
            }
            Call::Datanodes => {
                let report = |node| self.datanode_report(node, reader.now);
                calls::Datanodes::answer(Ok(nodes.iter().map(report).collect()))
            }
            Call::Datanode(id) => {
                calls::Datanode::answer(self.datanode_detail(nodes, *id, reader.now))
            }
            Call::Room => calls::Room::answer(Ok(nodes.room())),
            Call::Fsck { path, after } => {
                calls::Fsck::answer(self.fsck(nodes, path, after.as_ref(), reader.caller))
            }
            Call::OpenFiles { after } => {
                calls::OpenFiles::answer(Ok(self.open_files(nodes, *after)))
            }
            Call::BlockInfo(block) => calls::BlockInfo::answer(self.block_info(nodes, *block)),
            Call::SafeMode(_) => calls::SafeMode::answer(Ok(self.safe_mode.is_on())),
            _ => Err(refuse(ErrorKind::InvalidArgument, "not a read")),
        }
    }

    /// Resolves a path that must exist and on which the caller has the rights.
    pub(super) fn lookup<'a>(
        &'a self,
        path: &DfsPath,
        (caller, needs): (Caller<'a>, Needs),
        missing: impl FnOnce(&DfsPath) -> String,
    ) -> Result<Resolved<'a>, RemoteError> {
        let guard = self.guard(caller);
        let way = guard.walk(path)?;
        guard.check(path, &way, needs)?;
        way.found.ok_or_else(|| refuse(ErrorKind::NotFound, missing(path)))
    }

    fn list(
        &self,
        path: &DfsPath,
        (start_after, limit): (&str, u32),
        caller: Caller<'_>,
    ) -> Result<ListPage, RemoteError> {
        if let Some(view) = self.view(path, caller) {
            return self.list_view(path, (start_after, limit), view?, caller);
        }
        if is_reserved(path) {
            let entries = self.reserved_entries(start_after);
            return Ok(ListPage { entries, remaining: 0 });
        }
        let Resolved { id, inode } = self.lookup(path, (caller, Needs::default()), |path| {
            format!("File {path} does not exist.")
        })?;
        let Some(directory) = inode.directory() else {
            return Ok(ListPage { entries: vec![self.ns.status(id, inode, "")], remaining: 0 });
        };
        self.guard(caller).check_inode(id, Action::READ_EXECUTE)?;
        let limit = limit.clamp(1, self.settings.list_limit.min(LIST_ENTRIES_MAX)) as usize;
        let (rest, count) = self.ns.children_after(directory, start_after);
        let above = self.ns.policy(id);
        let entry = |(id, inode): (InodeId, &Inode)| {
            let policy = self.ns.own_policy(id).or(above);
            self.ns.status_with(policy, (id, inode), &inode.name)
        };
        let entries: Vec<_> = rest.take(limit).map(entry).collect();
        let remaining = (count - entries.len()) as u64;
        Ok(ListPage { entries, remaining })
    }

    fn locations(
        &self,
        nodes: &Datanodes,
        path: &DfsPath,
        (start, length): (u64, u64),
        reader: Reader<'_>,
    ) -> Result<LocatedBlocks, RemoteError> {
        if let Some(view) = self.view(path, reader.caller) {
            return self.locations_view(nodes, (path, view?), (start, length), reader);
        }
        let needs = Needs { target: Some(Action::READ), ..Needs::default() };
        let Resolved { id, inode } = self
            .lookup(path, (reader.caller, needs), |path| format!("File does not exist: {path}"))?;
        let Some(file) = inode.file() else {
            return Err(refuse(ErrorKind::IsDirectory, format!("Path is not a file: {path}")));
        };
        self.guard(reader.caller).check_readable(self.ns.features(id))?;
        let end = start.saturating_add(length);
        let holder = self.settings.token_keys.holder(reader.caller.user);
        let mut blocks = Vec::new();
        // All blocks but the last usually have the file's block size: jump close to the start.
        let (mut index, mut offset) = self.skip_to(file, start);
        while let Some(&block) = file.blocks.get(index) {
            let Some(info) = self.ns.block(block) else { break };
            let beyond = offset >= end;
            if beyond && info.complete {
                break;
            }
            let known = if info.complete { info.length } else { file.known_length() };
            let overlaps = offset.saturating_add(known) > start && !beyond;
            if overlaps || (!info.complete && end > offset) {
                blocks.push(self.for_reader(nodes, (block, info, file, offset), (reader, holder)));
            }
            offset += info.length;
            index += 1;
        }
        let status = self.ns.status(id, inode, "");
        Ok(LocatedBlocks { status, blocks })
    }

    /// A block at or before the one that contains byte `start`, and its offset.
    fn skip_to(&self, file: &File, start: u64) -> (usize, u64) {
        let full = |index: usize| {
            let last = file.blocks.len().saturating_sub(1);
            let whole = file.blocks.get(last).and_then(|block| self.ns.block(*block));
            let tail = whole.map_or(0, |info| info.length);
            // Only if every block before the last is full.
            (file.length.saturating_sub(tail) == last as u64 * file.block_size && index <= last)
                .then_some(index)
        };
        let wanted = usize::try_from(start / file.block_size.max(1)).unwrap_or(usize::MAX);
        let index = wanted.min(file.blocks.len().saturating_sub(1));
        match full(index) {
            Some(index) => (index, index as u64 * file.block_size),
            None => (0, 0),
        }
    }

    pub(super) fn for_reader(
        &self,
        nodes: &Datanodes,
        (block, info, file, offset): (BlockId, &Block, &File, u64),
        (reader, holder): (Reader<'_>, Holder),
    ) -> LocatedBlock {
        let open = file.open.as_deref().filter(|_| !info.complete);
        // A block that is being cut is read from the one that it is cut from.
        let source = open.and_then(|open| open.source);
        let block = source.unwrap_or(block);
        let info = self.ns.block(block).unwrap_or(info);
        let open = open.filter(|_| source.is_none());
        let stamp = open.and_then(|open| open.prior).unwrap_or(info.stamp);
        let length = match info.complete && source.is_none() {
            true => info.length,
            false => file.known_length(),
        };
        let corrupt = self.is_corrupt(block);
        let mut damaged: Vec<NodeIndex> = self.blocks.damaged_holders(block).collect();
        let holders: Vec<NodeIndex> = match open {
            Some(open) => open.targets.iter().filter_map(|id| nodes.index(*id)).collect(),
            _ if corrupt => std::mem::take(&mut damaged),
            // Nodes that have acknowledged it but not synced it can be read from as well.
            _ => [self.blocks.holders(block), &self.blocks.arrivals(block).collect::<Vec<_>>()]
                .concat(),
        };
        let mut replicas = nearest_first(nodes, &holders, reader, block);
        // Who asks the members how much there is must not take what only a dead one has for nothing.
        if open.is_some() && !replicas.is_empty() {
            let all = holders.iter().map(|index| nodes.node(*index));
            let dead = all.filter(|node| node.state == DatanodeState::Dead);
            replicas.extend(dead.map(|node| node.info.clone()));
        }
        let has_unseen_members =
            open.is_some_and(|open| open.targets.iter().any(|id| nodes.index(*id).is_none()));
        LocatedBlock {
            id: block,
            stamp,
            offset,
            length,
            replicas,
            damaged: nearest_first(nodes, &damaged, reader, block),
            durable_min: 0,
            corrupt,
            open: open.is_some(),
            has_unseen_members,
            token: self.token_for(holder, (block, stamp), AccessMode::Read, reader.now),
        }
    }

    /// True if all known replicas are damaged.
    pub(super) fn is_corrupt(&self, block: BlockId) -> bool {
        self.blocks.holders(block).is_empty() && self.blocks.damaged_holders(block).next().is_some()
    }

    fn cluster_status(&self, nodes: &Datanodes, reader: Reader<'_>) -> ClusterStatus {
        let complete_count = self.ns.complete_block_count();
        let dead_count = nodes.count(DatanodeState::Dead);
        ClusterStatus {
            cluster: self.cluster(),
            epoch: self.settings.epoch,
            safe_mode: self.safe_mode_reason(nodes, reader.now),
            inode_count: self.ns.inode_count(),
            block_count: self.ns.block_count(),
            low_redundancy_count: self.blocks.low_count(),
            corrupt_count: self.blocks.corrupt_count(),
            missing_count: complete_count.saturating_sub(self.blocks.present_count()),
            missing_single_count: self.blocks.low.count_at(Low::MISSING_SINGLE),
            urgent_count: self.blocks.low.count_at(Low::URGENT),
            pending_replication_count: self.blocks.pending_count(),
            pending_deletion_count: self.blocks.doomed_count(),
            replication: self.settings.replication,
            block_size: self.settings.block_size,
            live_count: u32::try_from(nodes.live_count()).unwrap_or(u32::MAX),
            dead_count: u32::try_from(dead_count).unwrap_or(u32::MAX),
            txid: reader.txid,
            trash_interval_ms: self.settings.trash_interval_ms,
            log_dirs_left_out: self.log_dirs_left_out.clone(),
        }
    }

    fn datanode_report(&self, (index, node): (NodeIndex, &Node), now: Now) -> DatanodeReport {
        DatanodeReport {
            info: node.info.clone(),
            state: node.state,
            capacity: node.capacity,
            used: node.used,
            remaining: node.remaining,
            block_count: self.blocks.held(index).map_or(0, |held| held.len() as u64),
            transfer_count: node.transfer_count,
            last_contact_ms: now.mono_ms.saturating_sub(node.last_contact_ms),
            last_report_ms: node.reported_ms.map(|at| now.mono_ms.saturating_sub(at)),
            non_dfs_used: node.non_dfs_used,
            admin: node.admin,
            drain: self.drains.report(index),
            failed_volumes: node.failed_volumes().map(|volume| volume.path.clone()).collect(),
            balancer_bandwidth: node.balancer_bandwidth,
            maintenance_left_ms: match node.admin.is_maintenance() {
                true => self.drains.maintenance_left_ms(&node.info, now.mono_ms),
                false => None,
            },
        }
    }

    fn datanode_detail(
        &self,
        nodes: &Datanodes,
        id: DatanodeId,
        now: Now,
    ) -> Result<DatanodeDetail, RemoteError> {
        let unknown = || refuse(ErrorKind::NotFound, format!("There is no DataNode {id}."));
        let index = nodes.index(id).ok_or_else(unknown)?;
        let node = nodes.node(index);
        Ok(DatanodeDetail {
            report: self.datanode_report((index, node), now),
            program: node.program.clone(),
            volumes: node.volumes.clone(),
            bad_replica_count: node.failures.bad_replica_count,
            slow_count: node.failures.slow_count,
            spared_ms: nodes.spared_ms(index, now.mono_ms),
            failures: node.failures.recent().collect(),
        })
    }

    /// Status of an inode, by id; for fsck.
    pub(super) fn status_of(&self, id: InodeId) -> Option<(&Inode, &File)> {
        let inode = self.ns.inode(id)?;
        Some((inode, inode.file()?))
    }
}

/// Nodes in the order in which a reader should try them: same machine, same rack, others; late ones and those in maintenance last. Equal
/// nodes on other machines are rotated by block and time, so readers spread. Nodes on the reader's machine share its page cache, so each
/// block has its own node there.
fn nearest_first(
    nodes: &Datanodes,
    holders: &[NodeIndex],
    reader: Reader<'_>,
    block: BlockId,
) -> Vec<DatanodeInfo> {
    let host = reader.host;
    let rack = nodes.on_host(host).first().map(|index| nodes.node(*index).info.rack.as_str());
    let mut order: Vec<NodeIndex> = holders
        .iter()
        .copied()
        .filter(|index| nodes.node(*index).state != DatanodeState::Dead)
        .collect();
    if !order.is_empty() {
        let salt = block.0.wrapping_add(reader.now.mono_ms);
        let shift = usize::try_from(salt % order.len() as u64).unwrap_or(0);
        order.rotate_left(shift);
    }
    let is_late = |index: NodeIndex| {
        let node = nodes.node(index);
        node.state != DatanodeState::Live || node.admin == AdminState::InMaintenance
    };
    let distance = |index: NodeIndex| {
        let info = &nodes.node(index).info;
        match () {
            () if !host.is_empty() && info.host == host => 0,
            () if Some(info.rack.as_str()) == rack => 1,
            () => 2,
        }
    };
    order.sort_by_key(|index| {
        let own = if distance(*index) == 0 { index.0 } else { 0 };
        (is_late(*index), distance(*index), own)
    });
    let own = order.partition_point(|index| !is_late(*index) && distance(*index) == 0);
    if own > 0 {
        order[..own].rotate_left(placement::read_there(block, own));
    }
    order.into_iter().map(|index| nodes.node(index).info.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::nodes::{beat, info};
    use super::*;

    /// How often each place among `hosts` comes first over many blocks, for a reader on `a` at several moments.
    fn firsts(hosts: &[(&str, &str)], moments: std::ops::Range<u64>) -> Vec<Vec<usize>> {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        for (number, (host, rack)) in (1..).zip(hosts) {
            let index = nodes.register(info(number, host, rack), 0);
            nodes.heartbeat(index, &beat(100), 0);
        }
        let holders: Vec<NodeIndex> = (0..hosts.len() as u32).map(NodeIndex).collect();
        let first = |block, mono_ms| {
            let now = Now { mono_ms, ..Now::default() };
            let reader = Reader { caller: Caller::NAMENODE, host: "a", now, txid: 0 };
            let order = nearest_first(&nodes, &holders, reader, BlockId(block));
            holders.iter().position(|holder| nodes.node(*holder).info.id == order[0].id).unwrap()
        };
        let blocks = BlockId::FIRST.0..BlockId::FIRST.0 + 900;
        moments.map(|moment| blocks.clone().map(|block| first(block, moment)).collect()).collect()
    }

    #[test]
    fn a_machine_reads_the_same_replica_of_a_block_again_and_all_its_nodes_share_the_blocks() {
        let chosen = firsts(&[("a", "/r"), ("b", "/r"), ("a", "/r"), ("a", "/r")], 0..5);
        assert!(chosen.iter().all(|moment| *moment == chosen[0]));
        let shares = [0, 1, 2, 3].map(|place| chosen[0].iter().filter(|at| **at == place).count());
        assert_eq!(shares[1], 0, "{shares:?}");
        assert!([0, 2, 3].iter().all(|place| shares[*place] > 200), "{shares:?}");
    }

    #[test]
    fn the_replica_that_the_writers_machine_will_read_is_first_in_the_pipeline() {
        let mut nodes = Datanodes::new(1000, 2000, 100);
        for (number, host) in (1..).zip(["a", "b", "a", "a"]) {
            let index = nodes.register(info(number, host, "/r"), 0);
            nodes.heartbeat(index, &beat(100), 0);
        }
        for block in BlockId::FIRST.0..BlockId::FIRST.0 + 9 {
            for (host, targets) in
                [("a", [0, 1, 2]), ("a", [2, 1, 3]), ("b", [1, 2, 0]), ("", [3, 2, 1])]
            {
                let targets = targets.map(NodeIndex);
                let mut pipeline = targets;
                placement::put_read_first(&nodes, &mut pipeline, host, BlockId(block));
                let now = Now::default();
                let reader = Reader { caller: Caller::NAMENODE, host, now, txid: 0 };
                let order = nearest_first(&nodes, &targets, reader, BlockId(block));
                if host.is_empty() {
                    assert_eq!(pipeline, targets);
                } else {
                    assert_eq!(nodes.node(pipeline[0]).info.id, order[0].id);
                }
                pipeline.sort_unstable();
                let mut sorted = targets;
                sorted.sort_unstable();
                assert_eq!(pipeline, sorted);
            }
        }
    }

    #[test]
    fn readers_spread_over_the_nodes_of_other_machines() {
        let chosen = firsts(&[("b", "/r"), ("c", "/r"), ("d", "/r")], 0..3);
        for block in 0..900 {
            let mut places: Vec<usize> = chosen.iter().map(|moment| moment[block]).collect();
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2], "block {block}");
        }
    }
}
