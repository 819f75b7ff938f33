//! The core joined to simulated workers and a simulated file system, with a hand-driven clock and seeded faults.
//!
//! Laws checked at every step: replaying the journal gives the live state; no worker gets more attempts than it has slots, no job or queue
//! one beyond its limits; the incremental state of queues and workers matches a full recount; a job is published once, with one winner per
//! task, whose files were complete. While no task ends, no job waits for long beside a free slot that it may have. At the end: every job is
//! final, and failed only with a reason.

mod avoidance;
mod boundaries;
mod orders;
mod pools;
mod progress;
mod random;
mod rights;
mod rounds;
mod rules;
mod skipping;
mod world;

pub(crate) use world::spec;
