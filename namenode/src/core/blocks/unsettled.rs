//! Facts from block reports that cannot be settled yet: replicas of open blocks, of unknown blocks, and ahead of the metadata; replicas
//! that were recorded just now; and the progress of each full report.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use protocol::datanode::Replica;
use protocol::{BlockId, GenerationStamp};

use super::block_set::BlockSet;
use crate::core::namespace::Namespace;
use crate::core::nodes::NodeIndex;

/// Minimum time for which a recorded replica is believed although a full report lacks it: longer than a report takes to make and send. The
/// maximum is twice as long.
const RECENT_MS: u64 = 60_000;
/// Ids and stamps from here on are no reason to skip those below: the counters will never reach them.
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
    /// Whether it was reported as a change. Changes arrive in their order: only the word of a writer can overtake one.
    pub is_change: bool,
}

impl Sighting {
    /// A finalized replica in a report of everything, or one of which only that is known.
    pub fn reported(node: NodeIndex, replica: Replica) -> Self {
        Sighting { node, replica, finalized: true, is_change: false }
    }
}

/// Facts from reports that are not settled yet.
#[derive(Default, Debug)]
pub struct Reports {
    now_ms: u64,
    open: BTreeMap<BlockId, Vec<Sighting>>,
    pub(in crate::core) unknown: BTreeMap<(NodeIndex, BlockId), (Replica, u64)>,
    pub(super) unknown_order: VecDeque<(u64, NodeIndex, BlockId)>,
    /// Replicas that are ahead, of the nodes that have any.
    pub(in crate::core) ahead: BTreeMap<NodeIndex, u64>,
    /// Highest id and stamp of these, and of those of nodes that are gone.
    ahead_max: Option<(BlockId, GenerationStamp)>,
    recent: BTreeMap<NodeIndex, Recent>,
    /// Those of the recent ones that only a writer has reported.
    unconfirmed: BTreeMap<NodeIndex, Recent>,
    /// Replicas that came to a complete block although nobody had ordered or acknowledged them: any token that is left lets its holder write one.
    unasked: BTreeMap<NodeIndex, BlockSet>,
    pub(in crate::core) progress: HashMap<NodeIndex, Progress>,
}

/// Replicas of one node that were recorded in this span of `RECENT_MS` and in the one before. A time for each would cost forty bytes where
/// a place in a set costs two, and there are millions while files are written fast.
#[derive(Default, Debug)]
struct Recent {
    young: BlockSet,
    old: BlockSet,
    /// When this span began.
    since_ms: u64,
}

impl Recent {
    fn insert(&mut self, block: BlockId, now_ms: u64) {
        self.turn(now_ms);
        self.young.insert(block);
    }

    fn remove(&mut self, block: BlockId) {
        self.young.remove(&block);
        self.old.remove(&block);
    }

    fn contains(&self, block: BlockId) -> bool {
        self.young.contains(&block) || self.old.contains(&block)
    }

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

/// Progress of the full report of one node.
#[derive(Default, Debug)]
pub(in crate::core) struct Progress {
    pub(super) next_part: u32,
    /// Place in that part.
    pub(super) next_replica: usize,
    pub(in crate::core) cursor: BlockId,
    pub(in crate::core) total: usize,
    pub(in crate::core) unknown: Vec<Replica>,
    /// Replicas with an id or a stamp that was never handed out.
    pub(in crate::core) ahead_count: u64,
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
        self.recent.entry(node).or_default().insert(block, self.now_ms);
    }

    /// Notes that a replica was recorded now because its writer says that the node acknowledged it.
    pub fn note_acknowledged(&mut self, node: NodeIndex, block: BlockId) {
        self.note_recent(node, block);
        self.unconfirmed.entry(node).or_default().insert(block, self.now_ms);
    }

    /// Notes that a node has reported a replica itself.
    pub(super) fn confirm(&mut self, node: NodeIndex, block: BlockId) {
        if let Some(unconfirmed) = self.unconfirmed.get_mut(&node) {
            unconfirmed.remove(block);
        }
    }

    /// Forgets which replicas were recorded long ago.
    pub fn expire_recent(&mut self) {
        let now_ms = self.now_ms;
        for sets in [&mut self.recent, &mut self.unconfirmed] {
            sets.retain(|_, recent| {
                recent.turn(now_ms);
                !recent.is_empty()
            });
        }
    }

    pub(super) fn is_recent(&self, node: NodeIndex, block: BlockId) -> bool {
        self.recent.get(&node).is_some_and(|recent| recent.contains(block))
    }

    /// True if a replica was recorded a short while ago and its node has not reported it yet.
    pub(super) fn is_unconfirmed(&self, node: NodeIndex, block: BlockId) -> bool {
        self.unconfirmed.get(&node).is_some_and(|unconfirmed| unconfirmed.contains(block))
    }

    /// Notes whether a replica that came was asked for.
    pub(super) fn note_asked(&mut self, node: NodeIndex, block: BlockId, is_asked: bool) {
        if is_asked {
            self.forget_unasked(node, block);
        } else {
            self.unasked.entry(node).or_default().insert(block);
        }
    }

    /// True if a replica came unasked, and its node has not told all that it has since.
    pub fn is_unasked(&self, node: NodeIndex, block: BlockId) -> bool {
        self.unasked.get(&node).is_some_and(|blocks| blocks.contains(&block))
    }

    fn forget_unasked(&mut self, node: NodeIndex, block: BlockId) {
        if let Some(blocks) = self.unasked.get_mut(&node)
            && blocks.remove(&block)
            && blocks.is_empty()
        {
            self.unasked.remove(&node);
        }
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
    pub(super) fn is_ahead(&mut self, ns: &Namespace, replica: &Replica) -> bool {
        let is_ahead = ns.never_handed_out(replica);
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

    /// Gives up the replicas that are ahead; returns their highest id and stamp, which must be skipped from now on.
    pub fn give_up_ahead(&mut self) -> Option<(BlockId, GenerationStamp)> {
        self.ahead.clear();
        self.progress.values_mut().for_each(|progress| progress.ahead_count = 0);
        self.ahead_max.take()
    }

    /// True while a node has reported some of its replicas but not all.
    pub fn is_one_under_way(&self) -> bool {
        !self.progress.is_empty()
    }

    /// Forgets what is known of one replica.
    pub fn forget(&mut self, node: NodeIndex, block: BlockId) {
        self.unknown.remove(&(node, block));
        self.forget_unasked(node, block);
        for sets in [&mut self.recent, &mut self.unconfirmed] {
            if let Some(recent) = sets.get_mut(&node) {
                recent.remove(block);
            }
        }
        if let Some(sightings) = self.open.get_mut(&block) {
            sightings.retain(|sighting| sighting.node != node);
        }
    }

    /// Forgets a node.
    pub fn forget_node(&mut self, node: NodeIndex) {
        self.recent.remove(&node);
        self.unconfirmed.remove(&node);
        self.unasked.remove(&node);
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
