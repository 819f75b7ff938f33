//! Recovery of files whose writers are gone.
//!
//! ```text
//! lease over -> no open block -> close
//!            -> open block -> new stamp, order a DataNode to lead -> CommitRecovery -> close
//!                  ^               | that DataNode could not do it, has started again or is dead, or nothing is heard of it for long
//!                  +---------------+
//!                    also while a member is silent that may have more of what was promised, up to the hard limit:
//!                    then the file is closed at what there is, if anything, and marked;
//!                    and where nobody has a byte, while a member is silent that may have some, for `recovery_wait_max_ms`,
//!                    unless a member of the pipeline vouches that nobody was promised any
//!            -> no DataNode of its pipeline for `recovery_wait_max_ms` -> close without the block
//! ```

use hashbrown::HashMap;
use protocol::datanode::{Command, CommitRecovery};
use protocol::namenode::DatanodeState;
use protocol::token::AccessMode;
use protocol::{BlockId, DatanodeId, ErrorKind, GenerationStamp, InodeId, RemoteError};

use crate::core::blocks::{Acknowledged, away};
use crate::core::edit::{Edit, Outcome, Record};
use crate::core::inodes::{File, Leases, Open};
use crate::core::namespace::{Block, Loss};
use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::now::Now;
use crate::core::state::{Output, State};
use crate::error::CoreError;

/// Files whose recovery is begun or repeated per tick.
const FILES_PER_TICK: usize = 200;

impl State {
    /// Closes files of silent writers and repeats late recoveries.
    pub(in crate::core) fn check_leases(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let hard_ms = self.settings.lease_hard_ms;
        for file in self.ns.leases.expired(now.mono_ms, hard_ms, FILES_PER_TICK) {
            self.recover(nodes, file, now, out)?;
        }
        let ns = &self.ns;
        self.recoveries.retain(|file| {
            let open = ns.file(file).and_then(|file| file.open.as_deref());
            open.is_some_and(|open| open.holder == Leases::RECOVERER)
        });
        let files = ns.leases.files(Leases::RECOVERER);
        let due = self.recoveries.due(files, nodes, now.mono_ms, FILES_PER_TICK);
        for file in due {
            self.recover(nodes, file, now, out)?;
        }
        Ok(())
    }

    /// Begins or repeats the recovery of an open file, unless an attempt is under way. True if it is closed now.
    pub(in crate::core) fn recover(
        &mut self,
        nodes: &mut Datanodes,
        file: InodeId,
        now: Now,
        out: &mut Output,
    ) -> Result<bool, CoreError> {
        // An edit can name a deleted file only if a snapshot sees it: on replay the others may be collected already.
        if !self.ns.is_recoverable(file) {
            return Ok(true);
        }
        let Some(block) = self.ns.open_block(file) else {
            let edits = vec![Edit::Close { file, at_ms: now.wall_ms }];
            self.commit_own(nodes, edits, now, out)?;
            self.recoveries.remove(file);
            return Ok(true);
        };
        if self.recoveries.is_under_way(file, nodes, now.mono_ms) {
            return Ok(false);
        }
        let candidates = self.candidates(nodes, file, block);
        let retry_ms = self.settings.recovery_retry_ms;
        let (count, waited_ms) = self.recoveries.take_turn(file, now.mono_ms, retry_ms);
        if candidates.is_empty() {
            return self.wait_or_drop(nodes, (file, block), waited_ms, now, out);
        }
        let info = self.ns.block(block).copied();
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let prior = open.and_then(|open| open.prior);
        let old_stamp = prior.or(info.map(|info| info.stamp)).unwrap_or_default();
        let length_min = open.map_or(0, |open| open.known);
        let source = open.and_then(|open| open.source);
        let bytes = match source {
            Some(_) => length_min,
            None => self.ns.file(file).map_or(0, |file| file.block_size),
        };
        let stamp = self.take_over(nodes, file, now, out)?;
        let leader = pick_leader(nodes, &candidates, count);
        let (ordered, times) = ((stamp, leader, bytes), (now.mono_ms, retry_ms));
        self.recoveries.note_ordered(nodes, (file, block), ordered, times);
        if let Some(source) = source {
            self.order_cut(nodes, (source, block, stamp, length_min), (leader, count), now, out);
            return Ok(false);
        }
        let command = Command::Recover {
            block,
            old_stamp,
            stamp,
            length_min,
            replicas: candidates.iter().map(|node| nodes.node(*node).info.clone()).collect(),
            token: self.token(block, stamp, AccessMode::Maintain, now),
        };
        out.commands.push((leader, command));
        Ok(false)
    }

    /// Nobody is there who may have a replica. Waits for bytes that somebody was promised, and for what may have been flushed; then closes the file without the
    /// block. True if it is closed now.
    fn wait_or_drop(
        &mut self,
        nodes: &mut Datanodes,
        (file, block): (InodeId, BlockId),
        waited_ms: u64,
        now: Now,
        out: &mut Output,
    ) -> Result<bool, CoreError> {
        let known = self.ns.file(file).map_or(0, File::known_length);
        if waited_ms < self.settings.recovery_wait_max_ms || known > 0 {
            let open = self.ns.file(file).and_then(|file| file.open.as_deref());
            // Once it is taken from its writer, there is no new stamp without an order: what a leader does who comes back may count.
            if open.is_some_and(|open| open.holder != Leases::RECOVERER) {
                self.take_over(nodes, file, now, out)?;
            }
            return Ok(false);
        }
        let edits = vec![Edit::DropBlock { file, block }, Edit::Close { file, at_ms: now.wall_ms }];
        self.commit_own(nodes, edits, now, out)?;
        self.recoveries.remove(file);
        Ok(true)
    }

    /// Takes the file from its writer under a new stamp.
    fn take_over(
        &mut self,
        nodes: &mut Datanodes,
        file: InodeId,
        now: Now,
        out: &mut Output,
    ) -> Result<GenerationStamp, CoreError> {
        self.leap(nodes, now, out)?;
        let stamp = GenerationStamp(self.ns.counters().next_stamp);
        self.commit_own(nodes, vec![Edit::BeginRecovery { file, stamp }], now, out)?;
        Ok(stamp)
    }

    /// DataNodes that are not dead and may have a replica of an open block, or of the one that it is cut from.
    fn candidates(&self, nodes: &Datanodes, file: InodeId, block: BlockId) -> Vec<NodeIndex> {
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        if let Some(source) = open.and_then(|open| open.source) {
            return self.sources(nodes, source);
        }
        let members = open.into_iter().flat_map(Open::members);
        let mut all: Vec<NodeIndex> = members.filter_map(|id| nodes.index(id)).collect();
        for sighting in self.blocks.reports.open_holders(block) {
            if !all.contains(&sighting.node) {
                all.push(sighting.node);
            }
        }
        all.retain(|node| nodes.node(*node).state != DatanodeState::Dead);
        all
    }

    /// A DataNode finished the recovery of a block.
    ///
    /// # Errors
    /// The outer one is a defect. A refusal if the recovery was replaced by another.
    pub fn commit_recovery(
        &mut self,
        nodes: &mut Datanodes,
        commit: &CommitRecovery,
        now: Now,
        out: &mut Output,
    ) -> Result<Result<(), RemoteError>, CoreError> {
        let CommitRecovery { block, stamp, length, ref replicas, .. } = *commit;
        let refuse = |text: String| Ok(Err(RemoteError::new(ErrorKind::InvalidArgument, text)));
        let attached = |info: &Block| self.ns.is_recoverable(info.file);
        let Some(info) = self.ns.block(block).copied().filter(attached) else {
            return refuse(format!("block {block} is gone"));
        };
        if info.complete && info.stamp == stamp {
            return Ok(Ok(()));
        }
        let file = info.file;
        if let Err(text) = self.check_end(nodes, (info, commit), now) {
            self.recoveries.note_refused(file, stamp);
            return refuse(text);
        }
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let left = if replicas.is_empty() { 0 } else { length };
        let lost = open.map_or(0, |open| open.known).saturating_sub(left);
        let close = Edit::Close { file, at_ms: now.wall_ms };
        let mut edits = if replicas.is_empty() || length == 0 {
            vec![Edit::DropBlock { file, block }, close]
        } else {
            let targets = replicas.clone();
            let restamp = Edit::RestampBlock { file, block, stamp, targets, prior: None };
            vec![restamp, Edit::CommitBlock { file, block, length }, close]
        };
        if lost > 0 {
            edits.push(self.ns.lose(file, lost));
            let path = self.ns.path_of(file).unwrap_or_default();
            out.lost.push(Loss { path, block, length: left, lost });
        }
        let record = Record { call: None, at_ms: now.wall_ms, edits, outcome: Outcome::Done };
        let written = HashMap::from_iter([(block, Acknowledged::durable(replicas.clone()))]);
        self.commit(nodes, &record, &written, out)?;
        self.recoveries.remove(file);
        Ok(Ok(()))
    }

    /// Whether an attempt may end the recovery of a block: `Err` says why not. It is the last one, or the last one is taken back.
    fn check_end(
        &self,
        nodes: &mut Datanodes,
        (info, commit): (Block, &CommitRecovery),
        now: Now,
    ) -> Result<(), String> {
        let CommitRecovery { block, stamp, length, ref replicas, .. } = *commit;
        let file = info.file;
        let over = || Err(format!("the recovery of block {block} under stamp {stamp} is over"));
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let Some(open) = open.filter(|open| !info.complete && open.recovery >= Some(stamp)) else {
            return over();
        };
        let is_last = open.recovery == Some(stamp);
        let are_known = replicas.iter().all(|id| nodes.index(*id).is_some());
        if !are_known || replicas.len() > nodes.iter().count() {
            return Err(format!("block {block} was recovered on DataNodes that are not known"));
        }
        let block_size = self.ns.file(file).map_or(0, |file| file.block_size);
        if length > block_size {
            return Err(format!("block {block} has {length} bytes where {block_size} fit"));
        }
        let left = if replicas.is_empty() { 0 } else { length };
        if open.source.is_some() && left != open.known {
            // What it is copied from is there, and has all of that.
            let known = open.known;
            return Err(format!("block {block} was cut to {left} bytes instead of {known}"));
        }
        self.check_found(nodes, (file, commit), (left, open.known), now)?;
        if is_last || self.recoveries.is_last_taken_back(nodes, (file, block), stamp) {
            return Ok(());
        }
        over()
    }

    /// Whether a recovery that found `left` bytes may end, where `known` were promised; `Err` says why others have to be asked first.
    fn check_found(
        &self,
        nodes: &Datanodes,
        (file, commit): (InodeId, &CommitRecovery),
        (left, known): (u64, u64),
        now: Now,
    ) -> Result<(), String> {
        let CommitRecovery { block, answered, without, .. } = commit;
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let members = open.into_iter().flat_map(Open::members);
        let holders = self.blocks.reports.open_holders(*block);
        let holders = holders.map(|sighting| nodes.node(sighting.node).info.id);
        let mut unheard = members.chain(holders).filter(|member| !answered.contains(member));
        let waited_ms = self.recoveries.waited_ms(file, now.mono_ms);
        let is_late = left > 0 && waited_ms >= self.settings.lease_hard_ms;
        if left < known && !is_late && unheard.next().is_some() {
            return Err(format!(
                "block {block} has {left} bytes where {known} were promised, and not everybody who may have them was heard"
            ));
        }
        // What was flushed is promised to readers, and only the members know of it. One that is away, even dead, may come back with it. Who is there and has
        // nothing on any disk will not: after a power cut nobody has what was not synced.
        let is_over = waited_ms >= self.settings.recovery_wait_max_ms;
        if left > 0 || is_over || self.is_vouched(nodes, (file, commit)) {
            return Ok(());
        }
        if unheard.any(|member| !without.contains(&member)) {
            return Err(format!(
                "nobody who was heard has a byte of block {block}, and others may have some"
            ));
        }
        Ok(())
    }

    /// Whether nobody was promised a byte: every member of a pipeline acknowledges what is flushed, and one says that it has acknowledged nothing. New members of
    /// a pipeline that was rebuilt may not have got it yet, and one that had not registered when the pipeline was handed out is not one of the writer's.
    fn is_vouched(&self, nodes: &Datanodes, (file, commit): (InodeId, &CommitRecovery)) -> bool {
        let CommitRecovery { block, answered, without, .. } = commit;
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let (Some(open), Some(info)) = (open, self.ns.block(*block)) else { return false };
        let was_given = |id: &DatanodeId| {
            let node = nodes.index(*id).map(|node| nodes.node(node));
            node.and_then(|node| node.known_from).is_some_and(|from| from <= info.stamp)
        };
        let mut targets = open.targets.iter();
        open.prior.is_none()
            && targets.any(|id| without.contains(id) && answered.contains(id) && was_given(id))
    }

    /// The dead DataNodes that the recovery of an open file waits for, because they may have what was promised.
    pub(in crate::core) fn awaited(&self, nodes: &Datanodes, file: InodeId) -> Vec<DatanodeId> {
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let is_waited_for =
            |open: &&Open| open.holder == Leases::RECOVERER && self.recoveries.contains(file);
        match open.filter(is_waited_for) {
            Some(open) if self.ns.open_block(file).is_some() => away(nodes, open),
            _ => Vec::new(),
        }
    }

    /// Journals what the NameNode decided by itself.
    pub(in crate::core) fn commit_own(
        &mut self,
        nodes: &mut Datanodes,
        edits: Vec<Edit>,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let record = Record { call: None, at_ms: now.wall_ms, edits, outcome: Outcome::Done };
        self.commit(nodes, &record, &HashMap::new(), out)
    }
}

/// Who leads the next attempt after `count` others: each in turn, those first that were heard of lately.
fn pick_leader(nodes: &Datanodes, candidates: &[NodeIndex], count: usize) -> NodeIndex {
    let is_live = |node: &&NodeIndex| nodes.node(**node).state == DatanodeState::Live;
    let live: Vec<NodeIndex> = candidates.iter().filter(is_live).copied().collect();
    let pool = if live.is_empty() { candidates } else { &live };
    pool[count % pool.len()]
}
