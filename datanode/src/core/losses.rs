//! [`Losses`]: what a missing replica says.
//!
//! Invariants: while [`Losses::since`] is some stamp, everything that this DataNode acknowledged under that stamp or a later one has a replica in the
//! table, or was deleted by order. A replica that is given up for any other reason ends that, until the next registration.

use protocol::GenerationStamp;

/// See the module.
#[derive(Debug, Default)]
pub struct Losses {
    since: Option<GenerationStamp>,
    count: u64,
}

impl Losses {
    /// The first stamp of which no acknowledged byte was lost.
    pub fn since(&self) -> Option<GenerationStamp> {
        self.since
    }

    /// How often replicas were given up.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The NameNode hands out stamps from this one on after it has registered the DataNode, for which that asked after `count` losses.
    pub fn vouch_from(&mut self, stamp: GenerationStamp, count: u64) {
        if self.count == count {
            self.since.get_or_insert(stamp);
        }
    }

    /// A replica is given up of which somebody may have been promised bytes.
    pub fn note(&mut self) {
        self.since = None;
        self.count += 1;
    }
}
