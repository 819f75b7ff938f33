//! Map outputs of other workers on this machine, linked to a place where a task that sees only its own job's files can open them: as other
//! names of the same files, beside the outputs held here.
//!
//! Invariant: an output whose path was changed has data and index under that path. If a link cannot be made (another user's file, another
//! file system), nothing changes, and the reduce asks the worker that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol::tracker::MapOutput;
use protocol::{AttemptId, JobId};

use super::rules::Rules;

/// The linked outputs of jobs that run here.
#[derive(Debug, Default)]
pub(crate) struct Near {
    linked: BTreeMap<JobId, BTreeSet<AttemptId>>,
}

impl Near {
    /// Those of the outputs that should be linked and are not.
    pub(crate) fn missing(&self, outputs: &[MapOutput], rules: &Rules) -> Vec<MapOutput> {
        let missing = outputs.iter().filter(|output| {
            lies_elsewhere_on_this_machine(output, rules) && !self.is_linked(output.attempt)
        });
        missing.cloned().collect()
    }

    /// These outputs are linked now.
    pub(crate) fn linked(&mut self, attempts: Vec<AttemptId>) {
        for attempt in attempts {
            self.linked.entry(attempt.task.job).or_default().insert(attempt);
        }
    }

    /// Changes the paths of linked outputs to those of the links.
    pub(crate) fn bring(&self, outputs: &mut [MapOutput], rules: &Rules) {
        for output in outputs {
            if lies_elsewhere_on_this_machine(output, rules) && self.is_linked(output.attempt) {
                output.data_path = rules.data_path(output.attempt);
            }
        }
    }

    /// The files of an output are being deleted. False if it is not linked.
    pub(crate) fn drop_output(&mut self, attempt: AttemptId) -> bool {
        let job = attempt.task.job;
        let Some(linked) = self.linked.get_mut(&job) else { return false };
        let was_linked = linked.remove(&attempt);
        if linked.is_empty() {
            self.linked.remove(&job);
        }
        was_linked
    }

    /// The files of the job are being deleted.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.linked.remove(&job);
    }

    fn is_linked(&self, attempt: AttemptId) -> bool {
        self.linked.get(&attempt.task.job).is_some_and(|linked| linked.contains(&attempt))
    }
}

/// True for what another worker on this machine holds.
fn lies_elsewhere_on_this_machine(output: &MapOutput, rules: &Rules) -> bool {
    output.boot_id == rules.register.boot_id
        && !Path::new(&output.data_path).starts_with(&rules.outputs)
}

#[cfg(test)]
impl Near {
    pub(super) fn count(&self) -> usize {
        self.linked.values().map(BTreeSet::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{TaskId, TaskKind};

    use super::super::simulation::rules;
    use super::*;

    const JOB: JobId = JobId { cluster_start: 1, number: 1 };

    fn output(index: u32, boot_id: &str, root: &str) -> MapOutput {
        let task = TaskId { job: JOB, kind: TaskKind::Map, index };
        let attempt = AttemptId { task, number: 0 };
        MapOutput {
            attempt,
            http_address: "127.0.0.1:1".to_owned(),
            boot_id: boot_id.to_owned(),
            data_path: format!("{root}/{JOB}/{attempt}.data"),
        }
    }

    #[test]
    fn only_outputs_of_this_machine_that_lie_elsewhere_are_linked() {
        let rules = rules();
        let (own, here) = (rules.outputs.to_str().unwrap(), &*rules.register.boot_id);
        let before = [
            output(0, here, own),
            output(1, here, "/other"),
            output(2, "there", "/other"),
            output(3, here, "/other"),
        ];
        let mut near = Near::default();
        assert_eq!(near.missing(&before, &rules), [before[1].clone(), before[3].clone()]);
        near.linked(vec![before[1].attempt]);
        assert_eq!(near.missing(&before, &rules), [before[3].clone()], "tried again");
        let mut outputs = before.clone();
        near.bring(&mut outputs, &rules);
        for unchanged in [0, 2, 3] {
            assert_eq!(outputs[unchanged], before[unchanged]);
        }
        assert_eq!(outputs[1].data_path, rules.data_path(before[1].attempt));
        assert!(near.drop_output(before[1].attempt) && !near.drop_output(before[1].attempt));
        assert_eq!(near.missing(&before, &rules), [before[1].clone(), before[3].clone()]);
        near.linked(vec![before[1].attempt]);
        near.forget(JOB);
        let mut outputs = before.clone();
        near.bring(&mut outputs, &rules);
        assert_eq!(outputs, before, "it is gone");
    }
}
