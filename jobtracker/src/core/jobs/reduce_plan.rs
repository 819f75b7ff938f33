//! Which partitions each reduce of a job has.
//!
//! Invariants: a choice is final, whatever maps run again; each map counts once, with the sizes of its first output, so that memory does not
//! grow with maps times partitions. An output that is lost is made again of the same input, and the choice needs no more than that.

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
        /// Sizes of the partitions over all maps that count.
        totals: Box<[u64]>,
        /// For each map, whether it counts.
        counted: Box<[bool]>,
    },
    /// For each reduce, the partition after its last one.
    Chosen(Vec<u32>),
}

impl ReducePlan {
    /// The plan of a new job.
    pub(crate) fn new(spec: &JobSpec) -> Self {
        match spec.sizing {
            Some(sizing) if spec.reduce_count > 0 => ReducePlan::Open {
                sizing,
                totals: vec![0; spec.reduce_count as usize].into(),
                counted: vec![false; spec.splits.len()].into(),
            },
            _ => ReducePlan::OneEach,
        }
    }

    /// True until the reduces are chosen.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, ReducePlan::Open { .. })
    }

    /// A map has made partitions of these sizes.
    pub(crate) fn add(&mut self, map: u32, partition_bytes: &[u64]) {
        if let ReducePlan::Open { totals, counted, .. } = self
            && let Some(is_counted) = counted.get_mut(map as usize).filter(|counted| !**counted)
        {
            *is_counted = true;
            for (total, bytes) in totals.iter_mut().zip(partition_bytes) {
                *total = total.saturating_add(*bytes);
            }
        }
    }

    /// The reduces for the known sizes, for each the partition after its last one; `None` if the choice is already made.
    pub(crate) fn choose(&self) -> Option<Vec<u32>> {
        let ReducePlan::Open { sizing, totals, .. } = self else { return None };
        Some(sizing.choose(totals))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::simulation::spec;

    const MIB: u64 = 1 << 20;

    fn plan(map_count: usize, partition_count: u32) -> ReducePlan {
        let mut spec = spec(1, &vec!["a"; map_count], partition_count);
        spec.sizing = Some(ReduceSizing { slot_count: 2 });
        ReducePlan::new(&spec)
    }

    #[test]
    fn a_map_that_runs_again_counts_once() {
        let mut plan = plan(2, 4);
        plan.add(0, &[50 * MIB; 4]);
        plan.add(1, &[0, 0, 0, 10 * MIB]);
        let chosen = plan.choose();
        assert_eq!(chosen, Some(vec![2, 4]));
        plan.add(0, &[500 * MIB, 0, 0, 0]);
        plan.add(2, &[500 * MIB, 0, 0, 0]);
        assert_eq!(plan.choose(), chosen);
    }

    #[test]
    fn sizes_that_cannot_be_added_are_the_most() {
        let mut plan = plan(2, 2);
        plan.add(0, &[u64::MAX, 1]);
        plan.add(1, &[u64::MAX, 1]);
        assert_eq!(plan.choose(), Some(vec![1, 2]));
    }
}
