//! Who gets slots: queues and what each would have, the next task for a free slot, backups of slow attempts, and what is taken back.
//!
//! | decision | file |
//! |---|---|
//! | who is next, and who has too much | [`queues`], [`shares`], [`preemption`] |
//! | which task goes where | [`scheduler`], [`speculation`] |

mod preemption;
mod queues;
mod scheduler;
mod shares;
mod speculation;

pub(crate) use self::preemption::Standing;
#[cfg(test)]
pub(crate) use self::queues::Policy;
pub(crate) use self::queues::{Queue, QueueRules, Queues};
