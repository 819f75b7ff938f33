//! The life of a replica, and which requests it permits in which state.

use protocol::checksum::CHUNK_BYTES;
use protocol::transfer::{ReplicaSummary, Resume, Write};
use protocol::{BlockId, GenerationStamp};

/// The life cycle of a replica.
///
/// ```text
/// write -> Receiving --last packet, synced--> Finalized --resume under a new stamp (its writer lost the last ack)--> Receiving
///             |  ^                                |
///   writer    |  | resume                         | recovery
///   is gone   v  |                                v
///          Unfinished --------recovery-------> Recovering --update--> Finalized
///                                                   +--the rest from another member--> Receiving
///
/// Receiving --files renamed--> Finalizing --folder synced--> Finalized
/// copy -> Copying --as Receiving--> Finalized, or gone
/// any state --delete--> gone
/// ```
///
/// A damaged replica stays Finalized and readable until a good copy replaces it in one step. Nobody goes on with it. A stale one, too, stays until a copy of the
/// current one is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A writer holds it.
    Receiving,
    /// A copy comes, and nobody counts on it: it ends with its writer, and with the process.
    Copying,
    /// Its writer is gone; its bytes match their checksums.
    Unfinished,
    /// A recovery under this stamp examines it; older recoveries and all writers are refused.
    Recovering {
        /// The recovery's stamp.
        recovery: GenerationStamp,
        /// True if it was finalized before.
        finalized: bool,
    },
    /// Complete and in its final place, but after a power cut it may not be there. Its writer holds it.
    Finalizing,
    /// Complete and immutable.
    Finalized,
}

/// A replica and its state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replica {
    /// The block.
    pub block: BlockId,
    /// Its generation stamp.
    pub stamp: GenerationStamp,
    /// Bytes that match their checksums.
    pub length: u64,
    /// Its place in the life cycle.
    pub state: State,
}

/// What somebody wants to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Intent {
    /// A new replica, from its first byte on.
    Create,
    /// What follows in a replica that exists.
    Resume(Resume),
    /// A copy of a finalized one. Nobody is promised anything of it before it is complete.
    Copy,
    /// What the other members of a pipeline have, for a new one: as with a copy, nobody is promised anything of it before all of it is there.
    Prefix,
}

impl Intent {
    /// True if the replica counts only once all that is sent is there.
    pub fn is_whole_or_nothing(self) -> bool {
        matches!(self, Intent::Copy | Intent::Prefix)
    }
}

impl From<&Write> for Intent {
    fn from(write: &Write) -> Self {
        match write.resume {
            Some(resume) => Intent::Resume(resume),
            None if write.prefix_only => Intent::Prefix,
            None if write.is_copy() => Intent::Copy,
            None => Intent::Create,
        }
    }
}

/// How a write may begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Begin {
    /// With new files.
    New,
    /// With new files; the existing replica is removed first.
    Replace,
    /// With new files; the existing replica is damaged or stale and stays until the new one is complete.
    Supersede,
    /// With the existing replica, truncated to this length unless it was finalized: the data that follows then repeats its bytes, and is compared with them.
    Resume {
        /// Length to truncate to.
        offset: u64,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The replica exists already.
    #[error("replica exists already")]
    Exists,
    /// The existing replica has a newer stamp than the request.
    #[error("replica has generation stamp {has}, newer than the request's")]
    Newer {
        /// Stamp of the replica.
        has: GenerationStamp,
    },
    /// There is no replica to continue.
    #[error("no replica to go on with")]
    Missing,
    /// The replica is shorter than the acknowledged length, so its bytes cannot be the writer's.
    #[error("replica has {length} bytes, fewer than the {wanted} wanted")]
    Short {
        /// Length of the replica.
        length: u64,
        /// Bytes wanted.
        wanted: u64,
    },
    /// A recovery holds it.
    #[error("replica is under recovery")]
    UnderRecovery,
    /// Its bytes do not match their checksums.
    #[error("replica is damaged")]
    Damaged,
    /// An append begins before the last chunk of what is complete.
    #[error("replica is complete with {kept} bytes, and the append begins at {offset}")]
    Within {
        /// Bytes that are complete.
        kept: u64,
        /// Where it begins.
        offset: u64,
    },
}

impl Replica {
    /// True while it only grows under its writer.
    pub fn is_incoming(&self) -> bool {
        matches!(self.state, State::Receiving | State::Copying)
    }

    /// True if readers on this machine may map it.
    pub fn is_finalized(&self) -> bool {
        self.state == State::Finalized
    }

    /// True if it is complete and no recovery holds it: under its stamp nobody changes it any more.
    fn is_complete(&self) -> bool {
        matches!(self.state, State::Finalizing | State::Finalized)
    }

    /// True if its files lie among the finalized ones.
    pub fn is_in_finalized(&self) -> bool {
        self.state == State::Finalizing || self.was_finalized()
    }

    /// True if it counts as finalized, even while a recovery examines it.
    pub fn was_finalized(&self) -> bool {
        matches!(self.state, State::Finalized | State::Recovering { finalized: true, .. })
    }

    /// True if nobody needs `other`, a replica of the same block, beside this one.
    pub fn replaces(&self, other: &Replica) -> bool {
        self.was_finalized() && self.stamp >= other.stamp
    }

    /// The summary that a recovery gets.
    pub fn summary(&self) -> ReplicaSummary {
        ReplicaSummary { stamp: self.stamp, length: self.length, finalized: self.was_finalized() }
    }
}

/// How a write under `stamp` begins if `existing` is the replica on disk. Its writer, if it has one, was stopped before. `damaged` says that `existing` does
/// not match its checksums.
///
/// # Errors
/// [`Refusal`].
pub fn begin_write(
    existing: Option<&Replica>,
    stamp: GenerationStamp,
    intent: Intent,
    damaged: bool,
) -> Result<Begin, Refusal> {
    let Some(replica) = existing else {
        return match intent {
            Intent::Resume(Resume { offset: 1.., .. }) => Err(Refusal::Missing),
            _ => Ok(Begin::New),
        };
    };
    match replica.state {
        // Only the recovery itself writes under its stamp: the bytes that this replica lacks. There is something to copy once it has ended elsewhere.
        State::Recovering { recovery, .. }
            if recovery > stamp
                || (recovery == stamp && matches!(intent, Intent::Create | Intent::Prefix)) =>
        {
            return Err(Refusal::UnderRecovery);
        }
        _ if replica.stamp > stamp => return Err(Refusal::Newer { has: replica.stamp }),
        _ => {}
    }
    let is_finalized = replica.stamp == stamp && replica.is_finalized();
    match intent {
        // Whoever goes on with what is complete does so under a new stamp, or under a recovery's.
        Intent::Resume(_) if replica.stamp == stamp && replica.is_complete() => {
            Err(Refusal::Exists)
        }
        Intent::Resume(resume) if replica.stamp >= resume.prior => {
            if replica.length < resume.offset {
                return Err(Refusal::Short { length: replica.length, wanted: resume.offset });
            }
            Ok(Begin::Resume { offset: resume.offset })
        }
        Intent::Resume(Resume { offset: 1.., .. }) => Err(Refusal::Missing),
        Intent::Copy if is_finalized && damaged => Ok(Begin::Supersede),
        _ if is_finalized => Err(Refusal::Exists),
        // The copy may fail, even because its source is damaged.
        _ if intent.is_whole_or_nothing() && replica.stamp < stamp && replica.length > 0 => {
            Ok(Begin::Supersede)
        }
        _ => Ok(Begin::Replace),
    }
}

/// Checks that a write leaves the first `kept` bytes of `replica` alone, which were complete once; returns how it begins. The sender may be any client: what it
/// repeats of these bytes is compared as it comes.
///
/// # Errors
/// [`Refusal`].
pub fn check_kept(
    (replica, kept): (&Replica, u64),
    intent: Intent,
    begin: Begin,
) -> Result<Begin, Refusal> {
    let chunk = CHUNK_BYTES as u64;
    match (begin, intent) {
        // A writer has no business with what another has completed; a DataNode has a copy or a prefix for it.
        (Begin::Replace, Intent::Create | Intent::Resume(_)) if kept > 0 => Err(Refusal::Exists),
        (Begin::Resume { offset }, Intent::Resume(resume))
            if !resume.after_break && offset < kept - kept % chunk =>
        {
            Err(Refusal::Within { kept, offset })
        }
        (Begin::Resume { offset }, _) if !replica.is_in_finalized() => {
            Ok(Begin::Resume { offset: offset.max(kept) })
        }
        (begin, _) => Ok(begin),
    }
}

/// The replica as a recovery under `stamp` finds it.
///
/// # Errors
/// [`Refusal::Newer`] if a newer recovery or write holds it.
pub fn begin_recovery(replica: &Replica, stamp: GenerationStamp) -> Result<Replica, Refusal> {
    match replica.state {
        State::Recovering { recovery, .. } if recovery > stamp => {
            Err(Refusal::Newer { has: recovery })
        }
        // The same stamp: this recovery has been here before and is retried.
        _ if replica.stamp > stamp => Err(Refusal::Newer { has: replica.stamp }),
        _ => {
            let state = State::Recovering { recovery: stamp, finalized: replica.is_in_finalized() };
            Ok(Replica { state, ..*replica })
        }
    }
}

/// Checks that the end of a recovery is valid for the replica.
///
/// # Errors
/// [`Refusal`].
pub fn check_update(replica: &Replica, stamp: GenerationStamp, length: u64) -> Result<(), Refusal> {
    match replica.state {
        State::Recovering { recovery, .. } if recovery == stamp => {}
        State::Finalized if replica.stamp == stamp && replica.length == length => return Ok(()),
        _ => return Err(Refusal::UnderRecovery),
    }
    if replica.length < length {
        return Err(Refusal::Short { length: replica.length, wanted: length });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(stamp: u64, length: u64, state: State) -> Replica {
        Replica { block: BlockId(1), stamp: GenerationStamp(stamp), length, state }
    }

    fn resume(prior: u64, offset: u64) -> Intent {
        Intent::Resume(Resume { prior: GenerationStamp(prior), offset, after_break: false })
    }

    #[test]
    fn writes_begin_as_the_state_permits() {
        let recovering = State::Recovering { recovery: GenerationStamp(9), finalized: false };
        let table = [
            (None, 5, Intent::Create, Ok(Begin::New)),
            (None, 5, resume(4, 0), Ok(Begin::New)),
            (None, 5, resume(4, 10), Err(Refusal::Missing)),
            (Some(replica(5, 10, State::Finalized)), 5, Intent::Create, Err(Refusal::Exists)),
            (Some(replica(5, 10, State::Unfinished)), 5, Intent::Create, Ok(Begin::Replace)),
            (Some(replica(4, 10, State::Finalized)), 5, Intent::Copy, Ok(Begin::Supersede)),
            (Some(replica(4, 10, State::Unfinished)), 5, Intent::Copy, Ok(Begin::Supersede)),
            (Some(replica(4, 0, State::Unfinished)), 5, Intent::Create, Ok(Begin::Replace)),
            (
                Some(replica(6, 10, State::Finalized)),
                5,
                Intent::Create,
                Err(Refusal::Newer { has: GenerationStamp(6) }),
            ),
            (
                Some(replica(4, 10, State::Unfinished)),
                5,
                resume(4, 10),
                Ok(Begin::Resume { offset: 10 }),
            ),
            (
                Some(replica(5, 10, State::Unfinished)),
                5,
                resume(4, 7),
                Ok(Begin::Resume { offset: 7 }),
            ),
            (
                Some(replica(4, 10, State::Finalized)),
                5,
                resume(4, 7),
                Ok(Begin::Resume { offset: 7 }),
            ),
            (Some(replica(5, 10, State::Finalized)), 5, resume(4, 10), Err(Refusal::Exists)),
            (Some(replica(5, 10, State::Finalized)), 5, resume(5, 0), Err(Refusal::Exists)),
            (Some(replica(5, 10, State::Finalizing)), 5, resume(5, 10), Err(Refusal::Exists)),
            (
                Some(replica(4, 6, State::Unfinished)),
                5,
                resume(4, 7),
                Err(Refusal::Short { length: 6, wanted: 7 }),
            ),
            (Some(replica(3, 10, State::Unfinished)), 5, resume(4, 7), Err(Refusal::Missing)),
            (Some(replica(3, 10, State::Unfinished)), 5, resume(4, 0), Ok(Begin::Replace)),
            (Some(replica(4, 10, recovering)), 5, resume(4, 7), Err(Refusal::UnderRecovery)),
            (Some(replica(4, 10, recovering)), 9, Intent::Create, Err(Refusal::UnderRecovery)),
            (Some(replica(4, 10, recovering)), 8, Intent::Copy, Err(Refusal::UnderRecovery)),
            (Some(replica(4, 10, recovering)), 9, Intent::Copy, Ok(Begin::Supersede)),
            (Some(replica(4, 10, recovering)), 9, Intent::Prefix, Err(Refusal::UnderRecovery)),
            (Some(replica(4, 10, State::Finalized)), 5, Intent::Prefix, Ok(Begin::Supersede)),
            (Some(replica(4, 10, State::Finalized)), 4, Intent::Prefix, Err(Refusal::Exists)),
            (Some(replica(4, 10, State::Unfinished)), 4, Intent::Prefix, Ok(Begin::Replace)),
            (Some(replica(4, 10, recovering)), 9, resume(4, 10), Ok(Begin::Resume { offset: 10 })),
            (Some(replica(4, 10, recovering)), 10, resume(4, 7), Ok(Begin::Resume { offset: 7 })),
        ];
        for (existing, stamp, resume, expected) in table {
            let begin = begin_write(existing.as_ref(), GenerationStamp(stamp), resume, false);
            assert_eq!(begin, expected, "{existing:?} {stamp} {resume:?}");
        }
    }

    #[test]
    fn no_writer_replaces_or_cuts_what_was_complete() {
        let (finalized, left) = (State::Finalized, State::Unfinished);
        let again = |offset| {
            Intent::Resume(Resume { prior: GenerationStamp(4), offset, after_break: true })
        };
        let at = |offset| Begin::Resume { offset };
        let within = |offset| Err(Refusal::Within { kept: 1300, offset });
        let table = [
            (finalized, Intent::Create, Begin::Replace, Err(Refusal::Exists)),
            (left, Intent::Create, Begin::Replace, Err(Refusal::Exists)),
            (finalized, again(0), Begin::Replace, Err(Refusal::Exists)),
            (finalized, Intent::Prefix, Begin::Replace, Ok(Begin::Replace)),
            (finalized, Intent::Copy, Begin::Supersede, Ok(Begin::Supersede)),
            (finalized, resume(4, 1300), at(1300), Ok(at(1300))),
            (finalized, resume(4, 1024), at(1024), Ok(at(1024))),
            (finalized, resume(4, 1023), at(1023), within(1023)),
            (left, resume(4, 0), at(0), within(0)),
            (finalized, again(0), at(0), Ok(at(0))),
            (left, again(0), at(0), Ok(at(1300))),
            (left, again(1400), at(1400), Ok(at(1400))),
        ];
        for (state, intent, begin, expected) in table {
            let checked = check_kept((&replica(4, 1500, state), 1300), intent, begin);
            assert_eq!(checked, expected, "{state:?} {intent:?} {begin:?}");
        }
        let never = check_kept((&replica(4, 1500, left), 0), Intent::Create, Begin::Replace);
        assert_eq!(never, Ok(Begin::Replace));
    }

    #[test]
    fn only_the_newest_recovery_has_a_replica() {
        let first = begin_recovery(&replica(4, 10, State::Unfinished), GenerationStamp(5)).unwrap();
        assert_eq!(check_update(&first, GenerationStamp(5), 8), Ok(()));
        assert_eq!(
            check_update(&first, GenerationStamp(5), 11),
            Err(Refusal::Short { length: 10, wanted: 11 })
        );
        let second = begin_recovery(&first, GenerationStamp(6)).unwrap();
        assert_eq!(check_update(&second, GenerationStamp(5), 8), Err(Refusal::UnderRecovery));
        assert!(begin_recovery(&second, GenerationStamp(5)).is_err());
        let done = replica(6, 8, State::Finalized);
        assert_eq!(check_update(&done, GenerationStamp(6), 8), Ok(()));
        assert!(check_update(&done, GenerationStamp(6), 7).is_err());
        let finalized =
            begin_recovery(&replica(4, 10, State::Finalized), GenerationStamp(5)).unwrap();
        assert!(finalized.summary().finalized);
    }
}
