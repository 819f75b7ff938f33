//! A whole cluster in one thread: a NameNode on its log, DataNodes with their stores on simulated disks, writers, and a network between them. Half of the
//! histories have a JobTracker, workers and jobs, too (`jobs`). All of it is the code of the daemons and of the client; only threads, sockets, disks and clocks
//! are replaced.
//!
//! ```text
//!               messages, streams (net)
//!   writers ◄──────────────────────────► DataNodes ◄──► disks
//!      ▲                                     ▲
//!      └───────────► NameNode ◄──────────────┘
//!                       │
//!                      log
//! ```
//!
//! What happens follows from the seed alone: who writes what, what is lost on the way, delayed or repeated, which link is cut in which direction, which process
//! is killed and which machine loses its power, and when. After a while the faults end; then everything that was acknowledged must be there (`oracle`), and
//! nothing may be left to do.
//!
//! `HANNO_TEST_SEED` is the first seed, `HANNO_TEST_SEEDS` their number; `HANNO_SIM_TRACE` prints all that happens.

mod client;
mod faults;
mod jobs;
mod log;
mod master;
mod net;
mod node;
mod oracle;
mod world;

pub use world::{Report, run};
