//! What a job is, and how urgent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::rounds::RoundsSpec;
use super::super::sizing::ReduceSizing;
use super::super::splits::Splits;
use super::super::tracker::{ARGS_MAX, PROPERTIES_MAX};
use crate::wire::at_most;
use crate::{BinaryHash, DfsPath};

/// Most attempts of a task that a job may set: far beyond what helps against failures by chance.
pub const ATTEMPTS_MAX: u32 = 100;

/// Everything the cluster needs to run a job.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobSpec {
    /// For people.
    pub name: String,
    /// The executable, stored at [`job_file`](super::job_file).
    pub binary: BinaryHash,
    /// Arguments of the driver; the task runner gets them too.
    #[serde(deserialize_with = "at_most::<ARGS_MAX, _, _>")]
    pub args: Vec<String>,
    /// Number of the job within its program, from 0, for programs that run several.
    pub stage: u32,
    /// Hash over types, encodings and options of the job; the task runner must compute the same.
    pub fingerprint: u64,
    /// One map task each.
    pub splits: Splits,
    /// Number of reduce tasks; 0 for a map-only job. With `sizing`: the number of partitions, neighbours of which will share a reduce.
    pub reduce_count: u32,
    /// Output directory; appears when the job succeeds.
    pub output: DfsPath,
    /// Attempts per task before the job fails.
    pub attempts_max: u32,
    /// Share of maps that must have finished before reduces start, in per mille.
    pub slow_start_permille: u16,
    /// Everything given with `-D`.
    #[serde(deserialize_with = "at_most::<PROPERTIES_MAX, _, _>")]
    pub properties: BTreeMap<String, String>,
    /// Reduces are chosen once the sizes of all map outputs are known; `None`: one per partition.
    pub sizing: Option<ReduceSizing>,
    /// The job goes in rounds, each with a task for every partition; `None`: it has reduces.
    pub rounds: Option<RoundsSpec>,
}

/// How urgent a job is among those of its queue.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Priority {
    /// After everything else.
    VeryLow,
    /// After most.
    Low,
    /// As most jobs.
    #[default]
    Normal,
    /// Before most.
    High,
    /// Before everything else.
    VeryHigh,
}

impl Priority {
    /// All, most urgent first.
    pub const ALL: [Priority; 5] =
        [Priority::VeryHigh, Priority::High, Priority::Normal, Priority::Low, Priority::VeryLow];

    /// Hadoop's name.
    pub fn name(self) -> &'static str {
        match self {
            Priority::VeryHigh => "VERY_HIGH",
            Priority::High => "HIGH",
            Priority::Normal => "NORMAL",
            Priority::Low => "LOW",
            Priority::VeryLow => "VERY_LOW",
        }
    }

    /// The priority of this name, in letters of any case; `DEFAULT` means [`Priority::Normal`].
    pub fn from_name(name: &str) -> Option<Self> {
        if name.eq_ignore_ascii_case("DEFAULT") {
            return Some(Priority::Normal);
        }
        Priority::ALL.into_iter().find(|priority| priority.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_have_names_and_an_order() {
        for priority in Priority::ALL {
            assert_eq!(Priority::from_name(&priority.name().to_lowercase()), Some(priority));
        }
        assert!(Priority::ALL.is_sorted_by(|left, right| left > right));
        assert_eq!(Priority::from_name("default"), Some(Priority::Normal));
        assert_eq!(Priority::from_name("URGENT"), None);
    }
}
