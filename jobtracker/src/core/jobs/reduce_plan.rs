//! Which partitions each reduce of a job has.
//!
//! Invariants: a choice is final, whatever maps run again; sizes are kept only until the choice, those of lost outputs not at all.

use std::collections::BTreeMap;
use std::ops::Range;

use protocol::jobs::JobSpec;
use protocol::sizing::{self, ReduceSizing};

/// How partitions become reduces.
///
/// ```text
/// OneEach
/// Open --all maps are done--> Chosen
/// ```
#[derive(Debug)]
pub(crate) enum ReducePlan {
    /// The user set the number.
    OneEach,
    /// To be chosen when all maps are done.
    Open {
        sizing: ReduceSizing,
        /// Sizes of the partitions of each map's output, by map.
        bytes: BTreeMap<u32, Box<[u64]>>,
    },
    /// For each reduce, the partition after its last one.
    Chosen(Vec<u32>),
}

impl ReducePlan {
    /// The plan of a new job.
    pub(crate) fn new(spec: &JobSpec) -> Self {
        match spec.sizing {
            Some(sizing) if spec.reduce_count > 0 => {
                ReducePlan::Open { sizing, bytes: BTreeMap::new() }
            }
            _ => ReducePlan::OneEach,
        }
    }

    /// True until the reduces are chosen.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, ReducePlan::Open { .. })
    }

    /// A map has made partitions of these sizes.
    pub(crate) fn add(&mut self, map: u32, partition_bytes: &[u64]) {
        if let ReducePlan::Open { bytes, .. } = self {
            bytes.insert(map, partition_bytes.into());
        }
    }

    /// The output of a map is lost.
    pub(crate) fn remove(&mut self, map: u32) {
        if let ReducePlan::Open { bytes, .. } = self {
            bytes.remove(&map);
        }
    }

    /// The reduces for the known sizes, for each the partition after its last one; `None` if the choice is already made.
    pub(crate) fn choose(&self, partition_count: u32) -> Option<Vec<u32>> {
        let ReducePlan::Open { sizing, bytes } = self else { return None };
        let mut totals = vec![0u64; partition_count as usize];
        for sizes in bytes.values() {
            for (total, size) in totals.iter_mut().zip(sizes) {
                *total = total.saturating_add(*size);
            }
        }
        Some(sizing.choose(&totals))
    }

    /// A description for people.
    pub(crate) fn text(&self, partition_count: u32) -> String {
        match self {
            ReducePlan::OneEach => format!("{partition_count}, as given"),
            ReducePlan::Open { .. } => {
                format!("by the size of what the maps make, at most {partition_count}")
            }
            ReducePlan::Chosen(ends) => {
                format!(
                    "{}, by the size of what the maps made in {partition_count} partitions",
                    ends.len()
                )
            }
        }
    }

    /// The partitions of a reduce.
    pub(crate) fn partitions(&self, reduce: u32) -> Range<u32> {
        match self {
            ReducePlan::Chosen(ends) => sizing::partitions_of(ends, reduce),
            ReducePlan::OneEach | ReducePlan::Open { .. } => reduce..reduce.saturating_add(1),
        }
    }
}
