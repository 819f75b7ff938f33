//! How the replicas of a block agree when their writer is gone, and who leads them there ([`Lead`]).
//!
//! ```text
//! ask everyone -> the longest replica decides -> who has all of it finalizes
//!                                             -> one of them sends the others what they lack; they finalize
//! ```

use protocol::transfer::{ReplicaSummary, Reply};
use protocol::{DatanodeId, GenerationStamp};

/// What a DataNode has of a block that is recovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A replica.
    Replica(ReplicaSummary),
    /// None. Whatever it acknowledged under the stamp `since` or a later one is still there, so that nobody was promised a byte of a block whose pipeline has
    /// such a stamp and this member.
    Nothing {
        /// `None` if it may have acknowledged bytes that are gone.
        since: Option<GenerationStamp>,
    },
    /// No replica now; there may be one on a disk that is out of service.
    Unknown,
}

impl From<Found> for Reply {
    fn from(found: Found) -> Reply {
        match found {
            Found::Replica(summary) => Reply::State(Some(summary)),
            Found::Nothing { since } => Reply::Nothing { since },
            Found::Unknown => Reply::State(None),
        }
    }
}

impl Found {
    /// The replica, if there is one.
    pub fn replica(self) -> Option<ReplicaSummary> {
        match self {
            Found::Replica(summary) => Some(summary),
            Found::Nothing { .. } | Found::Unknown => None,
        }
    }

    /// Whether it is sure that it never acknowledged a byte to a pipeline with this stamp.
    fn vouches(self, pipeline: GenerationStamp) -> bool {
        matches!(self, Found::Nothing { since: Some(since) } if since <= pipeline)
    }

    /// What an answer says; `None` if it answers something else.
    pub fn said(reply: &Reply) -> Option<Found> {
        match reply {
            Reply::State(Some(summary)) => Some(Found::Replica(*summary)),
            Reply::State(None) => Some(Found::Unknown),
            Reply::Nothing { since } => Some(Found::Nothing { since: *since }),
            _ => None,
        }
    }
}

/// How a recovery ended, for the NameNode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Length of the block.
    pub length: u64,
    /// The DataNodes that now have all of it, finalized.
    pub members: Vec<DatanodeId>,
    /// The DataNodes that reported a replica, and could end the recovery if their replica was decisive, or that they have none and vouch
    /// for it. Where one does not, a disk with a replica may come back.
    pub answered: Vec<DatanodeId>,
    /// Those that have none on any disk.
    pub without: Vec<DatanodeId>,
}

/// What the leader does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Asks a DataNode for its replica, which it then holds for this recovery: [`Lead::on_state`].
    Ask(DatanodeId),
    /// Has a DataNode finalize its replica, which has all bytes: [`Lead::on_outcome`].
    Update {
        /// The DataNode.
        member: DatanodeId,
        /// The agreed length.
        length: u64,
    },
    /// Has a DataNode send another what it lacks, which finalizes it: [`Lead::on_outcome`].
    Complete {
        /// Has all bytes, finalized.
        source: DatanodeId,
        /// Lacks some.
        target: DatanodeId,
        /// Bytes that it has.
        offset: u64,
    },
    /// The recovery is over.
    Done(Recovered),
    /// Nobody could carry out the agreement: the NameNode orders another recovery.
    Failed,
}

/// A recovery under way, as its leader sees it.
#[derive(Debug)]
pub struct Lead {
    old_stamp: GenerationStamp,
    replicas: Vec<DatanodeId>,
    /// Answers of those who were asked and have a vote.
    states: Vec<(DatanodeId, Found)>,
    asked_count: usize,
    agreement: Agreement,
    /// Members of the agreement that were ordered to finalize, the whole ones first.
    ordered_count: usize,
    finalized: Vec<DatanodeId>,
}

impl Lead {
    /// Among these DataNodes. Bytes acknowledged under `old_stamp` or later count.
    pub fn new(old_stamp: GenerationStamp, replicas: Vec<DatanodeId>) -> Self {
        Lead {
            old_stamp,
            replicas,
            states: Vec::new(),
            asked_count: 0,
            agreement: Agreement::default(),
            ordered_count: 0,
            finalized: Vec::new(),
        }
    }

    /// What to do now. Its outcome must be given back before the next one is asked for.
    pub fn step(&mut self) -> Step {
        if let Some(id) = self.replicas.get(self.asked_count) {
            return Step::Ask(*id);
        }
        loop {
            let Agreement { length, whole, behind } = &self.agreement;
            let (length, order) = (*length, self.ordered_count);
            if let Some(member) = whole.get(order) {
                return Step::Update { member: *member, length };
            }
            let incomplete = behind.get(order - whole.len());
            if let (Some((target, offset)), Some(source)) = (incomplete, self.finalized.first()) {
                return Step::Complete { source: *source, target: *target, offset: *offset };
            }
            if !self.finalized.is_empty() || length == 0 {
                break;
            }
            // A DataNode that cannot end it has no vote.
            self.states.retain(|(datanode, _)| !whole.contains(datanode));
            self.agree();
        }
        if self.finalized.is_empty() && self.states.len() < self.replicas.len() {
            return Step::Failed;
        }
        let which = |is_one: fn(Found, GenerationStamp) -> bool| {
            let ones = self.states.iter().filter(|(_, found)| is_one(*found, self.old_stamp));
            ones.map(|(datanode, _)| *datanode).collect()
        };
        Step::Done(Recovered {
            length: self.agreement.length,
            members: self.finalized.clone(),
            answered: which(|found, pipeline| found.replica().is_some() || found.vouches(pipeline)),
            without: which(|found, _| matches!(found, Found::Nothing { .. })),
        })
    }

    /// What the DataNode that was asked has; [`Found::Unknown`] if it did not answer.
    pub fn on_state(&mut self, state: Found) {
        self.states.extend(self.replicas.get(self.asked_count).map(|id| (*id, state)));
        self.asked_count += 1;
        if self.asked_count == self.replicas.len() {
            self.agree();
        }
    }

    /// The DataNode that was to finalize its replica has done so, or not.
    pub fn on_outcome(&mut self, is_done: bool) {
        let Agreement { whole, behind, .. } = &self.agreement;
        let behind = behind.iter().map(|(id, _)| id);
        let member = whole.iter().chain(behind).nth(self.ordered_count);
        self.finalized.extend(member.filter(|_| is_done));
        self.ordered_count += 1;
    }

    fn agree(&mut self) {
        self.agreement = agree(self.old_stamp, &self.states);
        self.ordered_count = 0;
    }
}

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
pub fn agree(old_stamp: GenerationStamp, states: &[(DatanodeId, Found)]) -> Agreement {
    let voters = || {
        let states =
            states.iter().filter_map(|(datanode, found)| Some((*datanode, found.replica()?)));
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
                (id(number), summary.map_or(Found::Unknown, Found::Replica))
            })
            .collect();
        let whole = whole.iter().map(|number| id(*number)).collect();
        let behind = behind.iter().map(|(number, length)| (id(*number), *length)).collect();
        assert_eq!(agree(GenerationStamp(5), &states), Agreement { length, whole, behind });
    }

    /// Leads among replicas of these lengths; those in `broken` cannot finalize. Returns what was ordered, and how it ended.
    fn lead(lengths: &[Option<u64>], broken: &[u8]) -> (Vec<(u8, Option<u8>)>, Step) {
        let stamp = GenerationStamp(5);
        let replica = |length| Found::Replica(ReplicaSummary { stamp, length, finalized: false });
        let found: Vec<_> =
            lengths.iter().map(|length| length.map_or(Found::Unknown, replica)).collect();
        lead_among(&found, broken)
    }

    fn lead_among(found: &[Found], broken: &[u8]) -> (Vec<(u8, Option<u8>)>, Step) {
        let count = found.len();
        let mut lead = Lead::new(GenerationStamp(5), (0..).map(id).take(count).collect());
        let mut orders = Vec::new();
        loop {
            match lead.step() {
                Step::Ask(asked) => {
                    lead.on_state(found[usize::from(asked.0[0])]);
                }
                Step::Update { member, .. } => {
                    orders.push((member.0[0], None));
                    lead.on_outcome(!broken.contains(&member.0[0]));
                }
                Step::Complete { source, target, .. } => {
                    orders.push((target.0[0], Some(source.0[0])));
                    lead.on_outcome(!broken.contains(&target.0[0]));
                }
                end => return (orders, end),
            }
        }
    }

    fn done(length: u64, members: &[u8], answered: &[u8]) -> Step {
        let ids = |numbers: &[u8]| numbers.iter().copied().map(id).collect();
        let (members, answered, without) = (ids(members), ids(answered), Vec::new());
        Step::Done(Recovered { length, members, answered, without })
    }

    #[test]
    fn a_leader_completes_the_others_from_one_that_has_all() {
        let lengths = [Some(70), Some(100), None, Some(100)];
        let orders = vec![(1, None), (3, None), (0, Some(1))];
        assert_eq!(lead(&lengths, &[]), (orders, done(100, &[1, 3, 0], &[0, 1, 3])));
        let orders = vec![(1, None), (3, None), (0, Some(3))];
        assert_eq!(lead(&lengths, &[1]), (orders, done(100, &[3, 0], &[0, 1, 3])));
    }

    #[test]
    fn who_cannot_finalize_has_no_vote() {
        let lengths = [Some(70), Some(100), None];
        let orders = vec![(1, None), (0, None)];
        assert_eq!(lead(&lengths, &[1]), (orders, done(70, &[0], &[0])));
        let (orders, end) = lead(&lengths, &[0, 1]);
        assert_eq!((orders.len(), end), (2, Step::Failed));
        assert_eq!(lead(&[None, Some(0)], &[]), (vec![], done(0, &[], &[1])));
    }

    #[test]
    fn who_has_nothing_vouches_for_a_pipeline_that_is_no_older_than_its_memory() {
        let nothing = |since: Option<u64>| Found::Nothing { since: since.map(GenerationStamp) };
        let found = [nothing(Some(5)), nothing(Some(6)), nothing(None), Found::Unknown];
        let (_, end) = lead_among(&found, &[]);
        let Step::Done(Recovered { length, members, answered, without }) = end else {
            panic!("{end:?}");
        };
        assert_eq!((length, members), (0, vec![]));
        assert_eq!((answered, without), (vec![id(0)], vec![id(0), id(1), id(2)]));
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
