//! A whole cluster in one thread: a NameNode on its log, DataNodes with their stores on two simulated disks each, writers, readers, a client that changes the
//! tree (`keeper`), and a network between them. Half of the histories have a JobTracker, workers and jobs, too (`jobs`). What decides is the code of the daemons
//! and of the client; threads, sockets, disks and clocks are replaced. Of a DataNode, only what drives its machines is modelled (`node`).
//!
//! ```text
//!               messages, streams (net)
//!   writers ◄──────────────────────────► DataNodes ◄──► disks
//!   readers, keeper                         ▲
//!      ▲                                    │
//!      └───────────► NameNode ◄──────────────┘
//!                       │
//!                      log
//! ```
//!
//! What happens follows from the seed alone: who writes what, what is lost on the way, delayed or repeated, which link is cut in which direction, which process
//! is killed and which machine loses its power, which disk fails, is full or flips a bit of a replica (`disks`), and when. After a while the faults end; then
//! everything that was acknowledged must be there (`oracle`, `tree`), and nothing may be left to do. Readers check all the time that they see what was
//! acknowledged before they asked, and no byte that nobody wrote. The keeper checks that each answer fits the tree that its earlier ones made.
//!
//! `HANNO_TEST_SEED` is the first seed, `HANNO_TEST_SEEDS` their number; `HANNO_SIM_TRACE` prints all that happens.

mod caller;
mod client;
mod content;
mod disks;
mod faults;
mod jobs;
mod keeper;
mod log;
mod master;
mod net;
mod node;
mod oracle;
mod reader;
mod rot;
mod tree;
mod world;

pub use world::{Report, run};
