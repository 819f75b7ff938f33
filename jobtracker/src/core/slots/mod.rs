//! Distribution of slots: queues and their shares, the next task for a free slot, backups of slow attempts, and preemption.
//!
//! | decision | file |
//! |---|---|
//! | which job is next, and which has too much | [`queues`], [`shares`], [`preemption`] |
//! | which task goes where | [`scheduler`], [`speculation`] |

mod preemption;
mod queues;
mod scheduler;
mod shares;
mod speculation;

pub(crate) use self::preemption::Standing;
#[cfg(test)]
pub(crate) use self::queues::Policy;
pub(crate) use self::queues::{DEFAULT_QUEUE, Queue, QueueRules, Queues};
