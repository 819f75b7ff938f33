//! How a file's blocks are written and read: the conversation with the NameNode and the DataNodes, as state machines without I/O.
//!
//! Whoever drives a machine asks it for the next step, performs the step and reports the outcome. The driver decides nothing, and the machine has no clock,
//! socket, buffer pool or thread. So a client drives it on real connections, and a simulation drives the same machine on simulated ones.
//!
//! ```text
//!            begin(goal) / next(now)                      the step, performed
//! caller ──────────────────────────► machine ── Step ──► driver ─────────────► NameNode, DataNodes
//!                                       ▲                  │
//!                                       └──── outcome ◄────┘
//! ```
//!
//! | module | |
//! |---|---|
//! | [`writer`] | the life of a file being written: blocks, pipelines, what happens when members fail |
//! | [`reader`] | which replica is read next, when locations are fetched again, when a read gives up |
//! | [`creation`] | which calls create a file whose directory others may delete |
//! | [`lease`] | when the leases of open writers are renewed |
//! | [`window`] | the packets of a block in transit |
//! | [`slow`] | which member of a pipeline holds up all others |
//!
//! Invariants: time comes in as an argument; a driver reports the outcome of each step before it asks for the next; errors of a driver pass through a machine
//! untouched, and the machine decides on their class alone.

pub mod creation;
pub mod error;
pub mod lease;
pub mod reader;
pub mod slow;
pub mod window;
pub mod writer;
