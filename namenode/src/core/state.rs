//! The whole NameNode as one synchronous state machine: namespace, block manager, answers given, safe mode.
//!
//! The rim calls it with events and the time; it changes itself and hands back journal records, answers and commands. The records
//! must be durable before any answer or command of the same step leaves.

use hashbrown::HashMap;
use protocol::datanode::{Changes, Command};
use protocol::level::Supported;
use protocol::namenode::{AdminState, DatanodeState, LocatedBlock, Reply};
use protocol::token::{AccessMode, BlockToken, Holder, TokenKeys};
use protocol::{BlockId, ClusterId, DatanodeId, Epoch, ErrorKind, GenerationStamp, RemoteError};

use super::blocks::{Acknowledged, Blocks, Recoveries};
use super::edit::{Allotted, Edit, Outcome, Record};
use super::namespace::{Loss, Namespace};
use super::nodes::{Datanodes, Drains, NodeIndex};
use super::now::Now;
use super::random::Generator;
use super::retry_cache::RetryCache;
use super::rights::{Caller, Guard};
use super::safe_mode::{Rule, SafeMode, Situation};
use super::standing::{Standing, StandingEdit};
use crate::error::CoreError;

/// Inodes of deleted trees that are taken apart in one step; about a millisecond.
const COLLECT_PER_STEP: usize = 2_000;

/// The part of the configuration that the core needs. Times in milliseconds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This start of the NameNode.
    pub epoch: Epoch,
    /// Name of the NameNode's machine, as refusals state it.
    pub host: String,
    /// Keys of block tokens.
    pub token_keys: TokenKeys,
    /// Replicas of a file that does not specify a number.
    pub replication: u16,
    /// Bytes per block of a file that does not specify a size.
    pub block_size: u64,
    /// Smallest block size a client may ask for.
    pub block_size_min: u64,
    /// Replicas that must be on disk before a block counts as written.
    pub durable_min: u16,
    /// After this silence another client may take a file over.
    pub lease_soft_ms: u64,
    /// After this silence the NameNode closes a file.
    pub lease_hard_ms: u64,
    /// Least time between two attempts at a block recovery.
    pub recovery_retry_ms: u64,
    /// For this time a recovery that has found no byte waits for DataNodes that are away.
    pub recovery_wait_max_ms: u64,
    /// Copies that one DataNode sends at once.
    pub replication_streams: u32,
    /// Replicas in service that a block must have before another one's DataNode is in maintenance.
    pub maintenance_min: u16,
    /// After this time a copy is ordered again.
    pub pending_timeout_ms: u64,
    /// How long to wait for a replica that was acknowledged before it was on disk.
    pub arrival_timeout_ms: u64,
    /// After this time an unanswered deletion is ordered again.
    pub delete_retry_ms: u64,
    /// How long unknown blocks are kept.
    pub unknown_grace_ms: u64,
    /// Most entries of a listing.
    pub list_limit: u32,
    /// How long deleted files stay in the trash; clients ask for it.
    pub trash_interval_ms: u64,
    /// When safe mode ends.
    pub safe_mode: Rule,
    /// Whether permission bits are enforced.
    pub permissions: bool,
    /// Most entries of one directory.
    pub directory_items_max: usize,
    /// Most blocks of a file.
    pub file_blocks_max: usize,
    /// Whether to return `permissions` for the audit log.
    pub audit: bool,
}

/// Output of a step. None of it may leave before `records` are durable.
#[derive(Default, Debug)]
pub struct Output {
    /// Journal records in order.
    pub records: Vec<Vec<u8>>,
    /// Commands to DataNodes in order.
    pub commands: Vec<(NodeIndex, Command)>,
    /// DataNodes that may be switched off from now on, and those whose time of maintenance is over.
    pub changed_service: Vec<(DatanodeId, AdminState)>,
    /// DataNodes that a writer found to hold up its pipeline.
    pub slow: Vec<DatanodeId>,
    /// Files that were closed without bytes which had been promised.
    pub lost: Vec<Loss>,
    /// Owner, group and mode of what each call changed: `owner:group:rwxr-xr-x`. Empty without an audit log.
    pub permissions: Vec<Option<String>>,
}

/// The state machine.
pub struct State {
    /// Durable metadata.
    pub ns: Namespace,
    /// Replicas.
    pub blocks: Blocks,
    /// What operators and users arranged beside the namespace; durable.
    pub standing: Standing,
    /// Answers given.
    pub(super) retry: RetryCache,
    /// Whether changes are refused.
    pub(super) safe_mode: SafeMode,
    /// A disk of the metadata is nearly full, as the rim measured it last.
    pub(super) resources_low: bool,
    /// Directories of the metadata's mirrors that are left out, each with the reason.
    pub(super) log_dirs_left_out: Vec<String>,
    /// Configuration.
    pub settings: Settings,
    pub(super) random: Generator,
    /// Whether this start has left ids out.
    pub(super) has_leapt: bool,
    /// While a request that makes several files is carried out: the DataNodes of its last block.
    pub(super) company: Option<Vec<NodeIndex>>,
    pub(super) recoveries: Recoveries,
    /// Nodes that leave service or come back.
    pub(super) drains: Drains,
}

impl State {
    /// A state in start-up safe mode, over a namespace that was loaded or replayed.
    pub fn new(loaded: Loaded, settings: Settings, random: Generator, now: Now) -> Self {
        let Loaded { mut ns, standing, mut retry } = loaded;
        retry.begin(now);
        ns.leases.renew_all(now.mono_ms);
        ns.take_effects();
        // What has just been made has no other start.
        let has_leapt = ns.counters().cluster.is_none();
        let mut blocks = Blocks::new(settings.maintenance_min);
        blocks.begin_survey(&ns);
        State {
            ns,
            blocks,
            standing,
            retry,
            safe_mode: SafeMode::Startup { reached_ms: None },
            resources_low: false,
            log_dirs_left_out: Vec::new(),
            settings,
            random,
            has_leapt,
            company: None,
            recoveries: Recoveries::default(),
            drains: Drains::default(),
        }
    }

    /// Makes the first record of an empty namespace.
    ///
    /// # Errors
    /// [`CoreError`] if it is not empty.
    pub fn format(
        &mut self,
        cluster: ClusterId,
        (owner, group): (&str, &str),
        now: Now,
    ) -> Result<Vec<u8>, CoreError> {
        let format = Edit::Format {
            cluster,
            owner: owner.to_owned(),
            group: group.to_owned(),
            at_ms: now.wall_ms,
        };
        let level = StandingEdit::SetLevel { level: Supported::OWN.newest };
        let edits = vec![format, Edit::Standing(level)];
        apply(&mut self.ns, &mut self.standing, &edits)?;
        let record = Record { call: None, at_ms: now.wall_ms, edits, outcome: Outcome::Done };
        Ok(record.encode())
    }

    /// The cluster; the default id before [`State::format`].
    pub fn cluster(&self) -> ClusterId {
        self.ns.counters().cluster.unwrap_or_default()
    }

    /// Sets the time for work that no event triggers.
    pub fn set_now(&mut self, now: Now) {
        self.ns.leases.set_now(now.mono_ms);
        self.blocks.reports.set_now(now.mono_ms);
    }

    /// Applies planned edits, journals them and lets the block manager follow.
    ///
    /// # Errors
    /// [`CoreError`]: a defect; the process must stop, since memory and journal may differ.
    pub(super) fn commit(
        &mut self,
        nodes: &mut Datanodes,
        record: &Record,
        written: &HashMap<BlockId, Acknowledged>,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        apply(&mut self.ns, &mut self.standing, &record.edits)?;
        out.records.push(record.encode());
        let arrival_ms = self.settings.arrival_timeout_ms;
        let effects = self.ns.take_effects();
        self.blocks.follow(&self.ns, nodes, effects, (written, arrival_ms));
        Ok(())
    }

    /// Applies and journals changes of the standing orders.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub(super) fn commit_standing(
        &mut self,
        nodes: &mut Datanodes,
        edits: Vec<StandingEdit>,
        now: Now,
        out: &mut Output,
    ) -> Result<(), CoreError> {
        let edits = edits.into_iter().map(Edit::Standing).collect();
        let record = Record { call: None, at_ms: now.wall_ms, edits, outcome: Outcome::Done };
        self.commit(nodes, &record, &HashMap::new(), out)
    }

    /// Housekeeping that does not wait for a tick: collects deleted trees and dead nodes' replicas, in bounded steps, and
    /// orders copies and deletions. True if there is more to do at once.
    pub fn work(&mut self, nodes: &mut Datanodes, now: Now, out: &mut Output) -> bool {
        let mut more = self.ns.collect(COLLECT_PER_STEP);
        let effects = self.ns.take_effects();
        self.blocks.follow(&self.ns, nodes, effects, (&HashMap::new(), 0));
        more |= self.blocks.bury_step(&self.ns, nodes);
        self.safe_mode.note_ahead(self.blocks.reports.ahead_count());
        let starting = matches!(self.safe_mode, SafeMode::Startup { .. });
        if starting {
            let situation = self.situation(nodes);
            more |= self.safe_mode.update(&self.settings.safe_mode, situation, now.mono_ms);
        }
        self.safe_mode.note_resources(self.resources_low);
        if !starting {
            more |= self.blocks.survey_step(&self.ns, nodes, now.mono_ms);
        }
        if !self.safe_mode.stops_orders() {
            more |= self.schedule(nodes, now, out);
        }
        more
    }

    /// What happens with time: dead DataNodes, lost copies, silent writers, unknown blocks.
    ///
    /// # Errors
    /// [`CoreError`]: a defect.
    pub fn tick(
        &mut self,
        nodes: &mut Datanodes,
        now: Now,
        out: &mut Output,
    ) -> Result<Vec<DatanodeId>, CoreError> {
        let mut dead = Vec::new();
        for node in nodes.tick(now.mono_ms) {
            dead.push(nodes.node(node).info.id);
            match nodes.node(node).admin.is_maintenance() {
                true => self.blocks.set_aside(&self.ns, nodes, node),
                false => self.blocks.bury(&self.ns, nodes, node),
            }
        }
        self.retry_late(nodes, now);
        let changed = [self.end_maintenance(nodes), self.sweep(nodes)].concat();
        out.changed_service.extend(changed.into_iter().map(|node| {
            let node = nodes.node(node);
            (node.info.id, node.admin)
        }));
        self.keep_maintenance(nodes, now, out)?;
        self.blocks.low.changed = true;
        self.blocks.reports.expire_recent();
        // What frees room goes on while there is too little: a deleted file's replicas on a DataNode that was away, what a dead writer holds, cuts.
        if !self.safe_mode.stops_orders() {
            self.blocks.expire_unknown(&self.ns, nodes, self.settings.unknown_grace_ms);
            self.check_leases(nodes, now, out)?;
        }
        Ok(dead)
    }

    /// Takes what changed on a DataNode. Returns the blocks with enough replicas of which it has one that nobody has asked for: it is to delete that.
    pub fn take_changes(
        &mut self,
        nodes: &mut Datanodes,
        node: NodeIndex,
        changes: &Changes,
    ) -> Vec<BlockId> {
        for block in &changes.copies_failed {
            if let Some(info) = self.ns.block(*block).filter(|info| !info.complete) {
                self.recoveries.note_failed(info.file, node);
            }
        }
        self.blocks.take_changes(&self.ns, nodes, node, changes)
    }

    /// Notes what the rim measured on the disks of the metadata, and turns safe mode on or off. True if it was turned on.
    pub fn note_resources(&mut self, low: bool) -> bool {
        self.resources_low = low;
        self.safe_mode.note_resources(low)
    }

    /// What was measured last: true if a disk of the metadata is nearly full.
    pub fn is_low_on_resources(&self) -> bool {
        self.resources_low
    }

    /// Notes which mirrors of the metadata are left out, as the rim reports them.
    pub fn note_left_out(&mut self, left_out: Vec<String>) {
        self.log_dirs_left_out = left_out;
    }

    /// True while changes are refused.
    pub fn is_safe_mode_on(&self) -> bool {
        self.safe_mode.is_on()
    }

    /// The facts that safe mode depends on.
    pub fn situation(&self, nodes: &Datanodes) -> Situation {
        Situation {
            block_count: self.ns.complete_block_count(),
            present_count: self.blocks.present_count(),
            datanode_count: nodes.usable_count(),
            all_reported: nodes.all_reported(),
            report_under_way: self.blocks.reports.is_one_under_way(),
        }
    }

    /// Why changes are refused now.
    pub fn safe_mode_reason(&self, nodes: &Datanodes, now: Now) -> Option<String> {
        self.safe_mode.reason(&self.settings.safe_mode, self.situation(nodes), now.mono_ms)
    }

    /// Replicas that must be on disk before a block of this replication counts as written: fewer where there are fewer DataNodes, but never
    /// none. A NameNode that was stopped for a while takes all of them for dead for a moment, and one that has just started knows none.
    pub fn durable_min(&self, nodes: &Datanodes, replication: u16) -> u16 {
        self.durable_min_of(nodes, replication, 1)
    }

    /// As [`State::durable_min`], for a pipeline: its members are there, whatever else is known.
    fn durable_min_of(&self, nodes: &Datanodes, replication: u16, members: usize) -> u16 {
        let available = u16::try_from(nodes.registered_count().max(members)).unwrap_or(u16::MAX);
        self.settings.durable_min.min(replication).min(available)
    }

    /// The checks of a call.
    pub fn guard<'a>(&'a self, caller: Caller<'a>) -> Guard<'a> {
        Guard::new(&self.ns, caller, self.settings.permissions)
    }

    /// A token for a block, for the cluster's own work.
    pub fn token(
        &self,
        block: BlockId,
        stamp: GenerationStamp,
        mode: AccessMode,
        now: Now,
    ) -> BlockToken {
        self.settings.token_keys.issue(block, stamp, mode, now.wall_ms)
    }

    /// A token for a block that somebody asks for.
    pub fn token_for(
        &self,
        holder: Holder,
        (block, stamp): (BlockId, GenerationStamp),
        mode: AccessMode,
        now: Now,
    ) -> BlockToken {
        self.settings.token_keys.issue_to(holder, block, stamp, (mode, now.wall_ms))
    }

    /// Turns an outcome into the answer to a user: fills in addresses and tokens.
    ///
    /// # Errors
    /// The refusal the outcome is, or `Unavailable` if the DataNodes of a block are not known yet after a restart.
    pub fn answer(
        &self,
        nodes: &Datanodes,
        outcome: &Outcome,
        to: (&str, Now),
    ) -> Result<Reply, RemoteError> {
        match outcome {
            Outcome::Done => Ok(Reply::Done),
            Outcome::Flag(flag) => Ok(Reply::Flag(*flag)),
            Outcome::Refused(error) => Err(error.clone()),
            Outcome::Path(path) => Ok(Reply::Path(path.clone())),
            Outcome::Block(block) => Ok(Reply::Block(self.for_writer(nodes, block, to)?)),
            Outcome::Appended { file, block_size, length, last, prior } => {
                let terms = (*file, *block_size, *length);
                self.for_append(nodes, terms, (last.as_ref(), *prior), to)
            }
            Outcome::Created { file, block_size, replication, first_block } => {
                let first_block = match first_block {
                    Some(block) => Some(self.for_writer(nodes, block, to)?),
                    None => None,
                };
                Ok(Reply::Created(protocol::namenode::Created {
                    file: *file,
                    block_size: *block_size,
                    replication: *replication,
                    first_block,
                }))
            }
        }
    }

    fn for_append(
        &self,
        nodes: &Datanodes,
        (file, block_size, length): (protocol::InodeId, u64, u64),
        (last, prior): (Option<&Allotted>, GenerationStamp),
        to: (&str, Now),
    ) -> Result<Reply, RemoteError> {
        let last = last.map(|block| self.for_writer(nodes, block, to)).transpose()?;
        let appended = protocol::namenode::Appended { file, block_size, length, last, prior };
        Ok(Reply::Appended(appended))
    }

    fn for_writer(
        &self,
        nodes: &Datanodes,
        block: &Allotted,
        (user, now): (&str, Now),
    ) -> Result<LocatedBlock, RemoteError> {
        let replicas: Vec<_> = block
            .targets
            .iter()
            .filter_map(|id| nodes.index(*id))
            .map(|index| nodes.node(index).info.clone())
            .collect();
        if replicas.is_empty() {
            let text = format!("the DataNodes of block {} have not registered yet", block.id);
            return Err(RemoteError::new(ErrorKind::Unavailable, text));
        }
        let durable_min = self.durable_min_of(nodes, block.replication, replicas.len());
        let holder = self.settings.token_keys.holder(user);
        Ok(LocatedBlock {
            id: block.id,
            stamp: block.stamp,
            offset: block.offset,
            length: block.length,
            replicas,
            damaged: Vec::new(),
            durable_min,
            corrupt: false,
            open: true,
            has_unseen_members: false,
            token: self.token_for(holder, (block.id, block.stamp), AccessMode::Write, now),
        })
    }

    /// False if a DataNode is not in the list of those that may register.
    pub fn allows(&self, info: &protocol::namenode::DatanodeInfo) -> bool {
        self.drains.lists().allows(info)
    }

    /// A DataNode registered.
    pub fn note_registered(&mut self, nodes: &mut Datanodes, node: NodeIndex) {
        debug_assert!(nodes.node(node).state == DatanodeState::Live);
        let next_stamp = GenerationStamp(self.ns.counters().next_stamp);
        nodes.node_mut(node).known_from.get_or_insert(next_stamp);
        self.blocks.revive(&self.ns, nodes, node);
        self.set_admin(nodes, node);
        self.retry_stuck();
    }

    /// How many rows are out of date, those of answers aside, for deciding when to write a checkpoint.
    pub fn dirty_count(&self) -> usize {
        self.ns.dirty_count() + self.standing.dirty_count()
    }

    /// Rows of the checkpoint that changed.
    pub fn take_rows(&mut self, now: Now) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let mut rows = self.ns.take_rows();
        rows.extend(self.standing.take_rows());
        rows.extend(self.retry.take_rows(self.retry.time(now)));
        rows
    }
}

/// What recovery builds before a [`State`] exists: checkpoint rows, then journal records.
#[derive(Default)]
pub struct Loaded {
    /// The namespace.
    pub ns: Namespace,
    /// Standing orders.
    pub standing: Standing,
    /// Answers given.
    pub retry: RetryCache,
}

impl Loaded {
    /// Takes a checkpoint row.
    ///
    /// # Errors
    /// [`CoreError`].
    pub fn load_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), CoreError> {
        if let Some(loaded) = self.standing.load_row(key, value) {
            return loaded;
        }
        match key.first() {
            Some(&super::retry_cache::ROW_PREFIX) => self.retry.load_row(key, value),
            _ => self.ns.load_row(key, value),
        }
    }

    /// Takes a journal record.
    ///
    /// # Errors
    /// [`CoreError`].
    pub fn replay(&mut self, body: &[u8]) -> Result<(), CoreError> {
        let record = Record::decode(body)?;
        apply(&mut self.ns, &mut self.standing, &record.edits)?;
        self.ns.take_effects();
        if let Some(key) = record.call {
            self.retry.replay(key, record.at_ms, &record.outcome);
        }
        Ok(())
    }
}

/// Applies the edits of a record, live and on replay.
fn apply(ns: &mut Namespace, standing: &mut Standing, edits: &[Edit]) -> Result<(), CoreError> {
    edits.iter().try_for_each(|edit| match edit {
        Edit::Standing(edit) => standing.apply(edit),
        edit => ns.apply(edit),
    })
}
