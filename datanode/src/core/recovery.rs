//! How the replicas of a block agree when their writer is gone.

use protocol::transfer::ReplicaSummary;
use protocol::{DatanodeId, GenerationStamp};

/// The outcome of a vote.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Length of the block.
    pub length: u64,
    /// The DataNodes that have all of it, in the order of the questions.
    pub whole: Vec<DatanodeId>,
    /// The DataNodes that have less, and how much: they get the rest from one that has all.
    pub behind: Vec<(DatanodeId, u64)>,
}

/// Decides from the known states: the block is as long as the longest replica.
///
/// A replica holds only bytes that its writer sent, and its checksums prove them; all replicas with the same stamp hold the same bytes, as far as they go. So
/// the longest has everything that was ever acknowledged, synced or seen by a reader, and no other has anything else. A replica with a stamp older than
/// `old_stamp` missed acknowledged data, and the bytes after that may come from a writer that was given up. It has no vote; nor has one without bytes.
pub fn agree(
    old_stamp: GenerationStamp,
    states: &[(DatanodeId, Option<ReplicaSummary>)],
) -> Agreement {
    let voters = || {
        let states = states.iter().filter_map(|(datanode, state)| Some((*datanode, (*state)?)));
        states.filter(|(_, state)| state.stamp >= old_stamp && state.length > 0)
    };
    let length = voters().map(|(_, state)| state.length).max().unwrap_or(0);
    let mut agreement = Agreement { length, ..Agreement::default() };
    for (datanode, state) in voters() {
        match state.length == length {
            true => agreement.whole.push(datanode),
            false => agreement.behind.push((datanode, state.length)),
        }
    }
    agreement
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> DatanodeId {
        DatanodeId([number; 16])
    }

    fn check(states: &[Option<(u64, u64, bool)>], length: u64, whole: &[u8], behind: &[(u8, u64)]) {
        let states: Vec<_> = (0u8..)
            .zip(states)
            .map(|(number, state)| {
                let summary = state.map(|(stamp, length, finalized)| ReplicaSummary {
                    stamp: GenerationStamp(stamp),
                    length,
                    finalized,
                });
                (id(number), summary)
            })
            .collect();
        let whole = whole.iter().map(|number| id(*number)).collect();
        let behind = behind.iter().map(|(number, length)| (id(*number), *length)).collect();
        assert_eq!(agree(GenerationStamp(5), &states), Agreement { length, whole, behind });
    }

    #[test]
    fn the_longest_replica_that_counts_decides() {
        check(&[], 0, &[], &[]);
        check(&[None, Some((4, 100, true)), Some((5, 0, false))], 0, &[], &[]);
        let stale = Some((4, 180, false));
        check(&[Some((5, 100, false)), Some((5, 90, false)), stale], 100, &[0], &[(1, 90)]);
        check(&[Some((5, 100, true)), Some((5, 90, false)), None], 100, &[0], &[(1, 90)]);
        // Finalized by a recovery that did not know of the longer one, or before somebody appended.
        check(&[Some((5, 110, false)), Some((5, 100, true))], 110, &[0], &[(1, 100)]);
        check(&[Some((6, 70, false)), Some((5, 90, false))], 90, &[1], &[(0, 70)]);
        check(&[Some((5, 60, true)), Some((6, 60, false))], 60, &[0, 1], &[]);
    }
}
