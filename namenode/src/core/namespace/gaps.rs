//! Ids of blocks and stamps that were left out: each start of a master begins to hand them out at a place that nobody can foresee.
//!
//! Metadata that comes back from a backup has forgotten what was handed out since. A replica of that time, which a DataNode brings later, must not pass for one
//! of a new file: with the same id, the same stamp and the same length its bytes would be taken. So no two starts from the same metadata go on with the same
//! ids, and what has an id that was left out proves, as one above all others does, that the metadata is older than the data.
//!
//! Invariants: gaps are disjoint and ascending, for blocks and stamps alike; all lie below what comes next.

use protocol::datanode::Replica;
use serde::{Deserialize, Serialize};

use crate::core::inodes::{Row, decode, encode};
use crate::error::CoreError;

/// Key of the row with all gaps.
pub(super) const ROW_KEY: u8 = b'g';
/// Most gaps that are remembered: a start makes at most one, and the oldest goes first. The row stays below 16 KB.
const GAPS_MAX: usize = 256;

/// What one start left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Gap {
    blocks: (u64, u64),
    stamps: (u64, u64),
}

/// What all starts left out.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(in crate::core) struct Gaps {
    all: Vec<Gap>,
    is_dirty: bool,
}

impl Gaps {
    /// True if the id or the stamp of a replica was left out.
    pub(super) fn has(&self, replica: &Replica) -> bool {
        let is_in = |of: fn(&Gap) -> (u64, u64), number: u64| {
            let index = self.all.partition_point(|gap| of(gap).1 <= number);
            self.all.get(index).is_some_and(|gap| of(gap).0 <= number)
        };
        is_in(|gap| gap.blocks, replica.block.0) || is_in(|gap| gap.stamps, replica.stamp.0)
    }

    /// Notes that blocks and stamps of these numbers are left out, each from the first to before the second.
    pub(super) fn add(&mut self, blocks: (u64, u64), stamps: (u64, u64)) {
        let gap = Gap { blocks, stamps };
        self.is_dirty = true;
        match self.all.last_mut() {
            // Nothing was handed out between two starts.
            Some(last) if (last.blocks.1, last.stamps.1) == (gap.blocks.0, gap.stamps.0) => {
                (last.blocks.1, last.stamps.1) = (gap.blocks.1, gap.stamps.1);
            }
            _ => {
                if self.all.len() == GAPS_MAX {
                    self.all.remove(0);
                }
                self.all.push(gap);
            }
        }
    }

    /// Whether they can be what was left out before these numbers.
    pub(super) fn are_sound(&self, next_block: u64, next_stamp: u64) -> bool {
        let (mut block, mut stamp) = (0, 0);
        let mut ascend = |gap: &Gap| {
            let ascends = block <= gap.blocks.0
                && gap.blocks.0 < gap.blocks.1
                && stamp <= gap.stamps.0
                && gap.stamps.0 < gap.stamps.1;
            (block, stamp) = (gap.blocks.1, gap.stamps.1);
            ascends
        };
        self.all.len() <= GAPS_MAX
            && self.all.iter().all(&mut ascend)
            && block <= next_block
            && stamp <= next_stamp
    }

    /// Forgets them: what DataNodes have of them was given up.
    pub(super) fn give_up(&mut self) {
        *self = Gaps { is_dirty: !self.all.is_empty(), ..Gaps::default() };
    }

    /// The row, if it has changed.
    pub(super) fn take_row(&mut self) -> Option<Row> {
        let row = (vec![ROW_KEY], (!self.all.is_empty()).then(|| encode(&self.all)));
        std::mem::take(&mut self.is_dirty).then_some(row)
    }

    pub(super) fn load(value: &[u8]) -> Result<Self, CoreError> {
        Ok(Gaps { all: decode(value, "gaps")?, is_dirty: false })
    }
}
