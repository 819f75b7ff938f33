//! What the replicas of a block agree on when their writer is gone.

use protocol::transfer::ReplicaSummary;
use protocol::{DatanodeId, GenerationStamp};

/// The outcome of a vote.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Agreement {
    /// Length of the block.
    pub length: u64,
    /// Who keeps a replica, in the order they were asked.
    pub members: Vec<DatanodeId>,
}

/// Decides by the states that could be had. Replicas with a stamp older than `old_stamp` missed acknowledged data and have no
/// vote, nor have empty ones. If anyone has the `length_min` bytes that somebody was promised, whoever has fewer has none
/// either: its disk lost them. A finalized replica has everything that was ever acknowledged, so it decides; else the
/// shortest does, which every member that was acknowledged through has.
pub fn agree(
    old_stamp: GenerationStamp,
    length_min: u64,
    states: &[(DatanodeId, Option<ReplicaSummary>)],
) -> Agreement {
    let mut voters: Vec<(DatanodeId, ReplicaSummary)> = states
        .iter()
        .filter_map(|(datanode, state)| state.map(|state| (*datanode, state)))
        .filter(|(_, state)| state.stamp >= old_stamp && state.length > 0)
        .collect();
    if voters.iter().any(|(_, state)| state.length >= length_min) {
        voters.retain(|(_, state)| state.length >= length_min);
    }
    let finalized = voters.iter().filter(|(_, state)| state.finalized);
    let length = finalized
        .map(|(_, state)| state.length)
        .min()
        .or_else(|| voters.iter().map(|(_, state)| state.length).min())
        .unwrap_or(0);
    let members = voters
        .iter()
        .filter(|(_, state)| state.length >= length)
        .map(|(datanode, _)| *datanode)
        .collect();
    Agreement { length, members }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(states: &[Option<(u64, u64, bool)>], length: u64, members: &[u8]) {
        let states: Vec<_> = (0u8..)
            .zip(states)
            .map(|(id, state)| {
                let summary = state.map(|(stamp, length, finalized)| ReplicaSummary {
                    stamp: GenerationStamp(stamp),
                    length,
                    finalized,
                });
                (DatanodeId([id; 16]), summary)
            })
            .collect();
        let members = members.iter().map(|id| DatanodeId([*id; 16])).collect();
        assert_eq!(agree(GenerationStamp(5), 50, &states), Agreement { length, members });
    }

    #[test]
    fn the_right_replicas_decide() {
        check(&[], 0, &[]);
        check(&[None, Some((4, 100, true)), Some((5, 0, false))], 0, &[]);
        check(&[Some((5, 100, false)), Some((5, 90, false)), Some((4, 80, false))], 90, &[0, 1]);
        check(&[Some((5, 100, true)), Some((5, 90, false)), None], 100, &[0]);
        check(&[Some((5, 110, false)), Some((5, 100, true))], 100, &[0, 1]);
        check(&[Some((6, 70, false)), Some((5, 90, false))], 70, &[0, 1]);
        // Fifty bytes were promised.
        check(&[Some((5, 49, false)), Some((5, 60, false)), Some((5, 50, false))], 50, &[1, 2]);
        check(&[Some((5, 40, true)), Some((5, 60, false))], 60, &[1]);
        check(&[Some((5, 40, false)), Some((5, 30, false))], 30, &[0, 1]);
    }
}
