//! Block reports: full ones in parts, incremental ones, and the facts in them that cannot be settled yet.
//!
//! - A part of a full report is taken in slices, each merged against the node's replicas in the same range of ids: both are
//!   ascending.
//! - A replica that was recorded within `RECENT_MS` is kept even if a report lacks it: the report may be older.
//! - Replicas of open blocks wait until the block is complete or recovered.
//! - Unknown blocks are deleted only after a grace period and outside safe mode. The metadata is probably older than the data in two cases:
//!   a node's first full report has more than 100 of them and more than a fifth, or any report has blocks with ids that were never handed
//!   out. Then they are kept, until the node's next full report or for good, and one line in the log says so.
//! - Ids and stamps that were never handed out prove it; safe mode counts the replicas that have one. The highest of them are remembered
//!   for the whole run, whatever becomes of their DataNodes: if an operator forces the metadata into use, they are skipped.

use protocol::BlockId;
use protocol::datanode::{Changes, FullReport, Replica};
use protocol::namenode::CorruptReason;

use super::manager::Blocks;
use super::unsettled::{Progress, Sighting};
use crate::core::namespace::Namespace;
use crate::core::nodes::{Datanodes, NodeIndex};

/// Number of unknown blocks in a report above which their share matters.
const UNKNOWN_MAX: usize = 100;
/// More than one block in this many being unknown is too much.
const UNKNOWN_SHARE: usize = 5;
/// Replicas of a report taken in one step; about half a millisecond.
const REPLICAS_PER_SLICE: usize = 1_000;
/// Unknown replicas judged in one step.
const UNKNOWN_PER_STEP: usize = 5_000;

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
    /// The part continues at this replica.
    Slice {
        /// Where.
        next: usize,
    },
    /// The part is done.
    Part {
        /// Unknown replicas that are kept.
        kept: Option<Kept>,
    },
}

/// Why unknown replicas are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// So many are more than deletions usually explain: until the node's next full report.
    UntilNextReport(usize),
    /// So many, with some whose ids were never handed out: as long as those are there.
    Ahead(usize),
}

impl Blocks {
    /// Takes a slice of one part of a full report: `report.finalized` from `from` on, at most `REPLICAS_PER_SLICE`. Taking a whole part at
    /// once would hold up everybody else.
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
            self.take_unfinished(ns, nodes, node, replica);
        }
        progress.next_part += 1;
        progress.next_replica = 0;
        if !report.last {
            self.reports.progress.insert(node, progress);
            return Ok(Taken::Part { kept: None });
        }
        let sender = nodes.node_mut(node);
        sender.reported = true;
        sender.reported_ms = Some(sender.last_contact_ms);
        let first = !std::mem::replace(&mut sender.ever_reported, true);
        Ok(Taken::Part { kept: self.judge_unknown(node, progress, first) })
    }

    /// Removes replicas in the slice's range of ids that the report lacks.
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
            self.take_known(ns, nodes, Sighting::reported(node, replica), info);
        } else if !self.doomed.contains(node, replica.block, replica.stamp) {
            progress.unknown.push(replica);
        }
    }

    /// Judges a replica that is still being written, or that a failed writer left behind with an older stamp.
    pub(super) fn take_unfinished(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        node: NodeIndex,
        replica: Replica,
    ) {
        if self.doomed.contains(node, replica.block, replica.stamp) {
            return;
        }
        let sighting = Sighting { finalized: false, ..Sighting::reported(node, replica) };
        match ns.block(replica.block) {
            Some(info) if !info.complete => self.reports.note_open(sighting),
            // Its node has acknowledged more since, or is about to get all of it.
            Some(_)
                if self.holders(replica.block).contains(&node)
                    || self.pending.targets(replica.block).any(|target| target == node) => {}
            Some(info) if replica.stamp < info.stamp => {
                self.mark_stale(ns, nodes, replica.block, node);
            }
            // A writer may be about to finish it. What one left behind is not needed once there are enough.
            Some(info) => {
                let expected = usize::from(ns.replication_of(info));
                if self.serving_count(nodes, replica.block) >= expected {
                    self.doomed.insert(node, replica.block, replica.stamp);
                }
            }
            None => self.reports.note_unknown(sighting),
        }
    }

    /// Notes unknown replicas, which then go after their grace, unless they are kept.
    fn judge_unknown(&mut self, node: NodeIndex, progress: Progress, first: bool) -> Option<Kept> {
        let count = progress.unknown.len();
        // Later reports meet metadata that this run has changed itself: many deletions explain many unknown blocks.
        let too_many = first && count > UNKNOWN_MAX && count * UNKNOWN_SHARE > progress.total;
        let kept = match progress.ahead_count {
            0 => too_many.then_some(Kept::UntilNextReport(count)),
            _ => (count > 0).then_some(Kept::Ahead(count)),
        };
        match progress.ahead_count {
            0 => self.reports.ahead.remove(&node),
            ahead => self.reports.ahead.insert(node, ahead),
        };
        if kept.is_none() {
            for replica in progress.unknown {
                self.reports.note_unknown(Sighting::reported(node, replica));
            }
        }
        kept
    }

    /// Takes what changed on a DataNode. Returns the blocks with enough replicas of which it has one that nobody has asked for: it is to delete that.
    pub(in crate::core) fn take_changes(
        &mut self,
        ns: &Namespace,
        nodes: &mut Datanodes,
        node: NodeIndex,
        changes: &Changes,
    ) -> Vec<BlockId> {
        let mut needless = Vec::new();
        // An estimate, until its next heartbeat reports the exact value.
        let lengths = changes.received.iter().map(|replica| replica.length);
        let received = lengths.fold(0, u64::saturating_add);
        let sender = nodes.node_mut(node);
        sender.used = sender.used.saturating_add(received).min(sender.capacity);
        sender.remaining = sender.remaining.saturating_sub(received);
        for &replica in &changes.received {
            self.reports.note_recent(node, replica.block);
            let sighting = Sighting { is_change: true, ..Sighting::reported(node, replica) };
            self.take_replica(ns, nodes, sighting);
            if self.reports.is_unasked(node, replica.block)
                && self.doomed.is_doomed(node, replica.block)
            {
                needless.push(replica.block);
            }
        }
        for &block in &changes.deleted {
            self.note_deleted(ns, nodes, block, node);
        }
        for &replica in &changes.unfinished {
            self.take_unfinished(ns, nodes, node, replica);
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
            // Not at once: the obstacle may last for a while.
            self.low.set_stuck(block);
        }
        needless
    }

    /// Dooms unknown replicas whose grace is over.
    pub fn expire_unknown(&mut self, ns: &Namespace, nodes: &mut Datanodes, grace_ms: u64) {
        for _ in 0..UNKNOWN_PER_STEP {
            let now_ms = self.reports.now_ms();
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
                self.take_replica(ns, nodes, Sighting::reported(node, replica));
            } else if !ns.never_handed_out(&replica) {
                self.doomed.insert(node, block, replica.stamp);
            }
        }
    }
}
