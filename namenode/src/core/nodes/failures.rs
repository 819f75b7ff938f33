//! What went wrong on DataNodes that go on: bad replicas that they report, pipelines that they hold up. Kept since the NameNode started.

use std::collections::VecDeque;

use protocol::BlockId;
use protocol::namenode::{FAILURES_MAX, NodeFailure, NodeFailureKind};

/// Failures of one DataNode.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// Replicas that it reported as bad.
    pub bad_replica_count: u64,
    /// Times that it held up a pipeline.
    pub slow_count: u64,
    /// The last of both, newest first; at most [`FAILURES_MAX`].
    recent: VecDeque<NodeFailure>,
}

impl Failures {
    /// Notes replicas that the node reports as bad.
    pub fn note_bad(&mut self, blocks: impl Iterator<Item = BlockId>, at_ms: u64) {
        for block in blocks {
            self.bad_replica_count += 1;
            self.note(NodeFailure { at_ms, kind: NodeFailureKind::BadReplica(block) });
        }
    }

    /// Notes that a writer found the node slow.
    pub fn note_slow(&mut self, at_ms: u64) {
        self.slow_count += 1;
        self.note(NodeFailure { at_ms, kind: NodeFailureKind::Slow });
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.bad_replica_count.saturating_add(self.slow_count)
    }

    /// The last ones, newest first.
    pub fn recent(&self) -> impl Iterator<Item = NodeFailure> {
        self.recent.iter().copied()
    }

    fn note(&mut self, failure: NodeFailure) {
        self.recent.truncate(FAILURES_MAX - 1);
        self.recent.push_front(failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_the_last_ones_are_kept() {
        let mut failures = Failures::default();
        failures.note_slow(1);
        failures.note_bad((0..FAILURES_MAX as u64).map(BlockId), 2);
        failures.note_slow(3);
        let recent: Vec<NodeFailure> = failures.recent().collect();
        assert_eq!((failures.bad_replica_count, failures.slow_count), (FAILURES_MAX as u64, 2));
        assert_eq!(recent.len(), FAILURES_MAX);
        assert_eq!(recent[0], NodeFailure { at_ms: 3, kind: NodeFailureKind::Slow });
        let newest = BlockId(FAILURES_MAX as u64 - 1);
        assert_eq!(recent[1].kind, NodeFailureKind::BadReplica(newest));
    }
}
