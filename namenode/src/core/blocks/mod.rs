//! The block manager: which DataNode holds which replica, and what follows from that. None of it is durable: it all comes from reports.
//!
//! | file | what |
//! |---|---|
//! | `manager` | [`Blocks`]: the map, and the one place that decides what a block needs |
//! | `block_set`, `replica_set` | the blocks of a node and the nodes of a block, small |
//! | `report`, `unsettled` | taking block reports, and the facts in them that cannot be settled yet |
//! | `redundancy`, `survey` | queues of blocks with too few replicas, of copies and deletions; filling them after a start |
//! | `placement` | where replicas go: pure functions |
//! | `recoveries` | recoveries of files whose writers are gone |

mod block_set;
mod manager;
pub(in crate::core) mod placement;
mod recoveries;
mod redundancy;
mod replica_set;
mod report;
mod survey;
mod unsettled;

pub use self::block_set::BlockSet;
pub use self::manager::{Acknowledged, Blocks};
pub use self::placement::{Problem, choose_targets};
pub use self::recoveries::Recoveries;
pub use self::redundancy::{Doomed, Low, Pending};
pub use self::replica_set::ReplicaSet;
pub use self::report::{Kept, ReportError, Taken};
pub use self::unsettled::{Reports, Sighting};

pub(in crate::core) use self::recoveries::away;
