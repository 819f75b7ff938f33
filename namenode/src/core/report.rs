//! Block reports: full ones in parts, incremental ones, and what they say that cannot be settled yet.
//!
//! - A part of a full report is taken in slices, each merged against the node's replicas in the same range of ids: both are
//!   ascending.
//! - A replica that was recorded within `RECENT_MS` is not taken off because a report lacks it: the report may be older.
//! - Replicas of open blocks wait until the block is complete or recovered.
//! - Unknown blocks are deleted only after a grace period and outside safe mode. If a node's first full report has more than 100
//!   of them and more than a fifth, or any report has blocks with ids that were never handed out, the metadata is probably older
//!   than the data: then they are kept, and one line says so.
//! - Ids and stamps that were never handed out prove it; safe mode looks at how many replicas have such. The highest of them are
//!   kept for the whole run, whatever becomes of their DataNodes: whoever goes on all the same skips them.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use protocol::datanode::{Changes, FullReport, Replica};
use protocol::namenode::CorruptReason;
use protocol::{BlockId, GenerationStamp};

use super::block_set::BlockSet;
use super::blocks::Blocks;
use super::datanodes::{Datanodes, NodeIndex};
use super::namespace::{Counters, Namespace};

/// How long a recorded replica is believed at least although a full report lacks it: longer than a report takes to make and send.
/// At most twice as long.
const RECENT_MS: u64 = 60_000;
/// Unknown blocks in a report from which on their share counts.
const UNKNOWN_MAX: usize = 100;
/// One in this many unknown blocks is too much.
const UNKNOWN_SHARE: usize = 5;
/// Replicas of a report taken in one step; about half a millisecond.
const REPLICAS_PER_SLICE: usize = 1_000;
/// Unknown replicas judged in one step.
const UNKNOWN_PER_STEP: usize = 5_000;
/// Ids and stamps from here on are no reason to skip those below: they will not be reached.
const IDS_END: u64 = 1 << 62;

/// A replica on a DataNode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// Where.
    pub node: NodeIndex,
    /// What.
    pub replica: Replica,
    /// Whether it is finalized.
    pub finalized: bool,
}

/// What reports said that is not settled.
#[derive(Default, Debug)]
pub struct Reports {
    now_ms: u64,
    open: BTreeMap<BlockId, Vec<Sighting>>,
    unknown: BTreeMap<(NodeIndex, BlockId), (Replica, u64)>,
    unknown_order: VecDeque<(u64, NodeIndex, BlockId)>,
    /// Replicas that are ahead, of the nodes that have any.
    ahead: BTreeMap<NodeIndex, u64>,
    /// Highest id and stamp of these, and of those of nodes that are gone.
    ahead_max: Option<(BlockId, GenerationStamp)>,
    recent: BTreeMap<NodeIndex, Recent>,
    progress: HashMap<NodeIndex, Progress>,
}

/// Replicas of one node that were recorded in this span of `RECENT_MS` and in the one before. A time for each would cost forty
/// bytes where a place in a set costs two, and there are millions while files are written fast.
#[derive(Default, Debug)]
struct Recent {
    young: BlockSet,
    old: BlockSet,
    /// When this span began.
    since_ms: u64,
}

impl Recent {
    /// Begins a new span if this one is over, and forgets the one before it.
    fn turn(&mut self, now_ms: u64) {
        let age_ms = now_ms.saturating_sub(self.since_ms);
        if age_ms < RECENT_MS {
            return;
        }
        let young = std::mem::take(&mut self.young);
        self.old = if age_ms < 2 * RECENT_MS { young } else { BlockSet::default() };
        self.since_ms = now_ms;
    }

    fn is_empty(&self) -> bool {
        self.young.is_empty() && self.old.is_empty()
    }
}

#[derive(Default, Debug)]
struct Progress {
    next_part: u32,
    /// Place in that part.
    next_replica: usize,
    cursor: BlockId,
    total: usize,
    unknown: Vec<Replica>,
    /// Replicas with an id or a stamp that was never handed out.
    ahead_count: u64,
}

/// Why a part of a report is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReportError {
    /// A part is missing or comes twice: begin again.
    Part,
    /// The replicas are not ascending.
    Order,
}

/// What became of a slice of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// The part goes on at this replica.
    Slice {
        /// Where.
        next: usize,
    },
    /// The part is done.
    Part {
        /// So many unknown replicas are kept for good because there are too many.
        kept_unknown: usize,
    },
}

impl Reports {
    /// Sets the monotonic time.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// The monotonic time.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// A node registered: its first report is the truth about its past.
    pub fn begin(&mut self, node: NodeIndex) {
        self.forget_node(node);
    }

    /// Notes that a replica was recorded now.
    pub fn note_recent(&mut self, node: NodeIndex, block: BlockId) {
        let recent = self.recent.entry(node).or_default();
        recent.turn(self.now_ms);
        recent.young.insert(block);
    }

    /// Forgets which replicas were recorded long ago.
    pub fn expire_recent(&mut self) {
        let now_ms = self.now_ms;
        self.recent.retain(|_, recent| {
            recent.turn(now_ms);
            !recent.is_empty()
        });
    }

    fn is_recent(&self, node: NodeIndex, block: BlockId) -> bool {
        let recent = self.recent.get(&node);
        recent.is_some_and(|recent| recent.young.contains(&block) || recent.old.contains(&block))
    }

    /// Notes a replica of an open block.
    pub fn note_open(&mut self, sighting: Sighting) {
        let sightings = self.open.entry(sighting.replica.block).or_default();
        sightings.retain(|other| other.node != sighting.node);
        sightings.push(sighting);
    }

    /// Who was seen with a replica of an open block.
    pub fn open_holders(&self, block: BlockId) -> impl Iterator<Item = Sighting> {
        self.open.get(&block).into_iter().flatten().copied()
    }

    /// Takes the sightings of a block out.
    pub fn take_open(&mut self, block: BlockId) -> Vec<Sighting> {
        self.open.remove(&block).unwrap_or_default()
    }

    /// Notes a replica of an unknown block.
    pub fn note_unknown(&mut self, sighting: Sighting) {
        let (node, replica) = (sighting.node, sighting.replica);
        let now_ms = self.now_ms;
        if self.unknown.insert((node, replica.block), (replica, now_ms)).is_none() {
            self.unknown_order.push_back((now_ms, node, replica.block));
        }
    }

    /// True if a replica has an id or a stamp that was never handed out; remembers the highest.
    fn is_ahead(&mut self, ns: &Namespace, replica: &Replica) -> bool {
        let Counters { next_block, next_stamp, .. } = ns.counters();
        let is_ahead = replica.block.0 >= next_block || replica.stamp.0 >= next_stamp;
        if is_ahead {
            let (block, stamp) = self.ahead_max.get_or_insert_default();
            if replica.block.0 < IDS_END {
                *block = replica.block.max(*block);
            }
            if replica.stamp.0 < IDS_END {
                *stamp = replica.stamp.max(*stamp);
            }
        }
        is_ahead
    }

    /// Replicas with an id or a stamp that this NameNode never handed out: its metadata is older than the data.
    pub fn ahead_count(&self) -> u64 {
        self.ahead.values().sum()
    }

    /// The replicas that are ahead are given up: says their highest id and stamp, which must be skipped from now on.
    pub fn give_up_ahead(&mut self) -> Option<(BlockId, GenerationStamp)> {
        self.ahead.clear();
        self.progress.values_mut().for_each(|progress| progress.ahead_count = 0);
        self.ahead_max.take()
    }

    /// True while a node has told a part of its replicas and not yet all.
    pub fn is_one_under_way(&self) -> bool {
        !self.progress.is_empty()
    }

    /// Forgets what is known of one replica.
    pub fn forget(&mut self, node: NodeIndex, block: BlockId) {
        self.unknown.remove(&(node, block));
        if let Some(recent) = self.recent.get_mut(&node) {
            recent.young.remove(&block);
            recent.old.remove(&block);
        }
        if let Some(sightings) = self.open.get_mut(&block) {
            sightings.retain(|sighting| sighting.node != node);
        }
    }

    /// Forgets a node.
    pub fn forget_node(&mut self, node: NodeIndex) {
        self.recent.remove(&node);
        self.progress.remove(&node);
        self.ahead.remove(&node);
        let first = (node, BlockId(0));
        let last = (node, BlockId(u64::MAX));
        let old: Vec<_> = self.unknown.range(first..=last).map(|(key, _)| *key).collect();
        for key in old {
            self.unknown.remove(&key);
        }
        self.open.retain(|_, sightings| {
            sightings.retain(|sighting| sighting.node != node);
            !sightings.is_empty()
        });
    }
}

impl Blocks {
    /// Takes a slice of one part of a full report: `report.finalized` from `from` on, at most `REPLICAS_PER_SLICE`. A whole part
    /// at once would hold everybody else up.
    ///
    /// # Errors
    /// [`ReportError`]; the node begins again with part 0.
    pub fn take_report(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        node: NodeIndex,
        (report, from): (&FullReport, usize),
    ) -> Result<Taken, ReportError> {
        let mut progress = match (report.part, from) {
            (0, 0) => Progress::default(),
            _ => self.reports.progress.remove(&node).ok_or(ReportError::Part)?,
        };
        if (progress.next_part, progress.next_replica) != (report.part, from) {
            return Err(ReportError::Part);
        }
        let to = report.finalized.len().min(from.saturating_add(REPLICAS_PER_SLICE));
        let slice = report.finalized.get(from..to).ok_or(ReportError::Part)?;
        let mut previous = (report.part > 0 || from > 0).then_some(progress.cursor);
        for replica in slice {
            if previous.is_some_and(|previous| previous >= replica.block) {
                return Err(ReportError::Order);
            }
            previous = Some(replica.block);
        }
        let part_ends = to == report.finalized.len();
        self.drop_absent(ns, nodes, (node, &progress), slice, part_ends && report.last);
        for &replica in slice {
            self.take_reported(ns, nodes, node, replica, &mut progress);
        }
        progress.total += slice.len();
        progress.cursor = previous.unwrap_or_default();
        progress.next_replica = to;
        if !part_ends {
            self.reports.progress.insert(node, progress);
            return Ok(Taken::Slice { next: to });
        }
        for &replica in &report.unfinished {
            progress.ahead_count += u64::from(self.reports.is_ahead(ns, &replica));
            self.take_unfinished(ns, node, replica);
        }
        progress.next_part += 1;
        progress.next_replica = 0;
        if !report.last {
            self.reports.progress.insert(node, progress);
            return Ok(Taken::Part { kept_unknown: 0 });
        }
        let sender = nodes.node_mut(node);
        sender.reported = true;
        sender.reported_ms = Some(sender.last_contact_ms);
        let first = !std::mem::replace(&mut sender.ever_reported, true);
        Ok(Taken::Part { kept_unknown: self.judge_unknown(node, progress, first) })
    }

    /// Takes off replicas in the slice's range of ids that the report lacks.
    fn drop_absent(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        (node, progress): (NodeIndex, &Progress),
        slice: &[Replica],
        is_last: bool,
    ) {
        let last = match slice.last() {
            _ if is_last => BlockId(u64::MAX),
            Some(replica) => replica.block,
            None => return,
        };
        let first = match progress.total {
            0 => BlockId(0),
            _ => BlockId(progress.cursor.0.saturating_add(1)),
        };
        if first > last {
            return;
        }
        let mut reported = slice.iter().peekable();
        let held = self.held(node).into_iter().flat_map(|held| held.range(first..=last));
        let absent: Vec<BlockId> = held
            .filter(|block| {
                while reported.next_if(|replica| replica.block < *block).is_some() {}
                reported.peek().is_none_or(|replica| replica.block != *block)
            })
            .filter(|block| !self.reports.is_recent(node, *block))
            .collect();
        for block in absent {
            self.forget(ns, nodes, block, node);
        }
    }

    fn take_reported(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        node: NodeIndex,
        replica: Replica,
        progress: &mut Progress,
    ) {
        progress.ahead_count += u64::from(self.reports.is_ahead(ns, &replica));
        if let Some(info) = ns.block(replica.block).copied() {
            self.take_known(ns, nodes, Sighting { node, replica, finalized: true }, info);
        } else if !self.doomed.is_doomed(node, replica.block) {
            progress.unknown.push(replica);
        }
    }

    fn take_unfinished(&mut self, ns: &Namespace, node: NodeIndex, replica: Replica) {
        let sighting = Sighting { node, replica, finalized: false };
        match ns.block(replica.block) {
            Some(info) if !info.complete => self.reports.note_open(sighting),
            Some(info) if replica.stamp < info.stamp => {
                self.doomed.insert(node, replica.block, replica.stamp);
            }
            // A writer or a copy is about to finish it.
            Some(_) => {}
            None => self.reports.note_unknown(sighting),
        }
    }

    /// How many unknown replicas are kept for good because there are too many.
    fn judge_unknown(&mut self, node: NodeIndex, progress: Progress, first: bool) -> usize {
        let count = progress.unknown.len();
        // Later reports meet metadata that this run has changed itself: many deletions explain many unknown blocks.
        let too_many = first && count > UNKNOWN_MAX && count * UNKNOWN_SHARE > progress.total;
        let kept_unknown = if too_many || progress.ahead_count > 0 { count } else { 0 };
        match progress.ahead_count {
            0 => self.reports.ahead.remove(&node),
            count => self.reports.ahead.insert(node, count),
        };
        if kept_unknown == 0 {
            for replica in progress.unknown {
                self.reports.note_unknown(Sighting { node, replica, finalized: true });
            }
        }
        kept_unknown
    }

    /// Takes what changed on a DataNode.
    pub fn take_changes(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        node: NodeIndex,
        changes: &Changes,
    ) {
        // Until its next heartbeat tells exactly.
        let received: u64 = changes.received.iter().map(|replica| replica.length).sum();
        let sender = nodes.node_mut(node);
        sender.used = sender.used.saturating_add(received).min(sender.capacity);
        sender.remaining = sender.remaining.saturating_sub(received);
        for &replica in &changes.received {
            self.reports.note_recent(node, replica.block);
            self.take_replica(ns, nodes, Sighting { node, replica, finalized: true });
        }
        for &block in &changes.deleted {
            self.note_deleted(ns, nodes, block, node);
        }
        for &replica in &changes.unfinished {
            self.take_unfinished(ns, node, replica);
        }
        for replica in &changes.bad {
            let known = ns.block(replica.block);
            if known.is_some_and(|info| info.stamp == replica.stamp) {
                let reason = CorruptReason::CorruptionReported;
                self.mark_corrupt(ns, nodes, replica.block, (node, reason));
            }
        }
        for &block in &changes.copies_failed {
            self.pending.remove_source(nodes, block, node);
            self.evaluate(ns, nodes, block);
            // Not at once: what stood in the way may stand there for a while.
            self.low.set_stuck(block);
        }
    }

    /// Dooms unknown replicas whose grace is over.
    pub fn expire_unknown(&mut self, ns: &Namespace, nodes: &mut Datanodes, grace_ms: u64) {
        for _ in 0..UNKNOWN_PER_STEP {
            let now_ms = self.reports.now_ms;
            let Some(&(at_ms, node, block)) = self.reports.unknown_order.front() else { return };
            if at_ms.saturating_add(grace_ms) > now_ms {
                return;
            }
            self.reports.unknown_order.pop_front();
            let Some((replica, seen_ms)) = self.reports.unknown.remove(&(node, block)) else {
                continue;
            };
            if seen_ms > at_ms {
                self.reports.unknown.insert((node, block), (replica, seen_ms));
                self.reports.unknown_order.push_back((seen_ms, node, block));
            } else if ns.block(block).is_some() {
                self.take_replica(ns, nodes, Sighting { node, replica, finalized: true });
            } else if block.0 < ns.counters().next_block {
                self.doomed.insert(node, block, replica.stamp);
            }
        }
    }
}
