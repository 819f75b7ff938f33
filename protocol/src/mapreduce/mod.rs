//! The conversations of MapReduce: clients, JobTracker, workers and task processes, and the types that they share.

pub mod counters;
pub mod history;
pub mod jobs;
mod map_output;
pub mod phase;
pub mod record;
pub mod rounds;
pub mod runner;
pub mod short_paths;
pub mod shuffle;
pub mod sizing;
mod split;
mod splits;
pub mod tracker;
