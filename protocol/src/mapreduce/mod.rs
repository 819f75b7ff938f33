//! The conversations of MapReduce: clients, JobTracker, workers and the processes of tasks, and what they all speak of.

pub mod counters;
pub mod history;
pub mod jobs;
pub mod phase;
pub mod record;
pub mod runner;
pub mod shuffle;
pub mod sizing;
mod split;
pub mod tracker;
