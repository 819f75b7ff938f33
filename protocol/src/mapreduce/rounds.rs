//! Jobs that go in rounds: what stays as it is lies where it is needed again, and only what changes moves.
//!
//! ```text
//! maps ──► round 0 ──► round 1 ──► … ──► last round: the job's output
//!          fixed ────────┴──────────────────┘
//! ```
//!
//! A round has one task for each partition of the job. The tasks of round `r` are the reduce tasks `r × partitions` and on. Each makes an output like a map's,
//! with [`EXTRA_PARTITIONS`] more partitions than the job has: the messages for each partition in the next round, then the state of its own keys, then what is
//! fixed of them. Only round 0 fills the last; all others read it from there.
//!
//! Every few rounds the tasks also keep the state of their keys in the file system. A task that must run again then begins there.
//!
//! A task of a later round reads its partition of the messages of all tasks of the round before, the state that its own predecessor left, and what round 0
//! left fixed. Each also receives the summaries of all tasks of the round before, in the order of their partitions. From these alone it decides whether the
//! round is the last, so all of them decide the same.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::map_output::{MapOutput, as_list, at_most_shared};
use crate::DfsPath;
use crate::wire::{ENTRIES_MAX, at_most};

/// Most rounds of a job: far beyond what converges in practice, and it bounds what a job that never does can use.
pub const ROUNDS_MAX: u32 = 10_000;
/// Most partitions of a job in rounds: each of its tasks receives a summary from every other.
pub const PARTITIONS_MAX: u32 = 4096;
/// Longest summary of a task, bytes: hundreds of thousands of numbers, and little beside what tasks exchange.
pub const SUMMARY_BYTES_MAX: usize = 1 << 20;
/// Most bytes of the summaries of a round: every task of the next receives all of them, in one message.
pub const SUMMARIES_BYTES_MAX: usize = 4 << 20;
/// Partitions of a round's output besides those of the job.
pub const EXTRA_PARTITIONS: u32 = 2;

/// Name of the file with kept state, in the directory of its attempt.
pub const STATE_FILE: &str = "state";

/// How a job goes in rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoundsSpec {
    /// The last round, whatever the summaries say: 1 to [`ROUNDS_MAX`].
    pub last: u32,
    /// Every so many rounds the state of all keys is written to the file system, so that a loss costs no more rounds than that; 0 for never.
    pub keep_every: u32,
}

/// A job cannot go in rounds like this.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RoundsError {
    /// None, or too many.
    #[error("the number of rounds must be between 1 and {ROUNDS_MAX}, not {0}")]
    Rounds(u32),
    /// None, or too many.
    #[error("a job in rounds must have between 1 and {PARTITIONS_MAX} reduce tasks, not {0}")]
    Partitions(u32),
}

impl RoundsSpec {
    /// Checks the limits of a job with so many partitions.
    ///
    /// # Errors
    /// [`RoundsError`].
    pub fn check(self, partition_count: u32) -> Result<(), RoundsError> {
        if !(1..=ROUNDS_MAX).contains(&self.last) {
            return Err(RoundsError::Rounds(self.last));
        }
        match (1..=PARTITIONS_MAX).contains(&partition_count) {
            true => Ok(()),
            false => Err(RoundsError::Partitions(partition_count)),
        }
    }
}

/// The work of a task in a round.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoundWork {
    /// From 0.
    pub round: u32,
    /// The partition that it keeps.
    pub partition: u32,
    /// Partitions of the job.
    pub partition_count: u32,
    /// No round follows, whatever the summaries say: it writes the job's output.
    pub is_last: bool,
    /// It also writes the state of its keys to [`STATE_FILE`] in its directory of the file system.
    pub keeps: bool,
    /// An earlier attempt at it kept the state of its keys in this directory: it begins with that and receives no messages.
    pub kept: Option<DfsPath>,
    /// In round 0 the outputs of all maps, later those of all tasks of the round before, in their order; none if the state was kept.
    #[serde(serialize_with = "as_list", deserialize_with = "at_most_shared::<ENTRIES_MAX, _>")]
    pub inputs: Arc<Vec<MapOutput>>,
    /// What the task of its partition made in round 0; `None` in round 0.
    pub fixed: Option<MapOutput>,
    /// The summaries of the round before, in the order of partitions; none in round 0.
    #[serde(deserialize_with = "at_most::<{ PARTITIONS_MAX as usize }, _, _>")]
    pub summaries: Vec<Summary>,
}

impl RoundWork {
    /// The partition of its output, and of its predecessor's, that holds the state of its keys.
    pub fn state_partition(&self) -> u32 {
        self.partition_count
    }

    /// The partition of round 0's output that holds what is fixed of its keys.
    pub fn fixed_partition(&self) -> u32 {
        self.partition_count + 1
    }

    /// Partitions of its output.
    pub fn output_partitions(partition_count: u32) -> u32 {
        partition_count.saturating_add(EXTRA_PARTITIONS)
    }
}

/// What a task tells all tasks of the next round.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    /// What only the job's own code reads.
    #[serde(deserialize_with = "at_most::<SUMMARY_BYTES_MAX, _, _>")]
    pub bytes: Vec<u8>,
}
