//! How many orders one answer to a worker has: some are long, and many workers may ask at once. Pure.
//!
//! Invariant: an answer has at least one order, so all of them leave. The others wait for the next poll, which comes at once.

use protocol::tracker::Action;
use protocol::wire;

/// Most bytes of the orders in an answer, unless a single one is longer: hundreds of launches of a usual job, and little beside what else the JobTracker
/// has in memory for a worker.
const ORDERS_BYTES_MAX: usize = 16 << 20;

/// How many orders from the front of a queue go into one answer.
pub(super) fn order_count(queue: &[Action]) -> usize {
    let mut bytes = 0;
    let fits = |action: &&Action| {
        bytes += wire::length(*action);
        bytes <= ORDERS_BYTES_MAX
    };
    queue.iter().take_while(fits).count().max(queue.len().min(1))
}
