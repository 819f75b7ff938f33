//! Map outputs of other workers on this machine, linked to a place where a task that sees only its own job's files can open them: as other
//! names of the same files, beside the outputs held here.
//!
//! Invariant: an output whose path was changed has data and index under that path. If a link cannot be made (another user's file, another
//! file system), nothing changes, and the reduce asks the worker that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use protocol::tracker::MapOutput;
use protocol::{AttemptId, JobId};

use crate::outputs::Outputs;

/// The linked outputs of jobs that run here.
#[derive(Debug, Default)]
pub(crate) struct Near {
    linked: BTreeMap<JobId, BTreeSet<AttemptId>>,
}

impl Near {
    /// Links the outputs of the machine `boot_id` into the directory of the outputs held here.
    pub(crate) fn bring(&mut self, outputs: &mut [MapOutput], boot_id: &str, held: &Outputs) {
        for output in outputs {
            let data = Path::new(&output.data_path);
            if output.boot_id != boot_id || held.has_path(data) {
                continue;
            }
            let linked = self.linked.entry(output.attempt.task.job).or_default();
            if !linked.contains(&output.attempt) {
                if let Err(error) = held.bring(output.attempt, data) {
                    tracing::debug!(output = %output.attempt, %error, "not opened here, but asked for");
                    continue;
                }
                linked.insert(output.attempt);
            }
            output.data_path = held.data_path(output.attempt);
        }
    }

    /// The files of the job are being deleted.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.linked.remove(&job);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use protocol::{TaskId, TaskKind};

    use super::*;
    use crate::scratch::Place;

    const JOB: JobId = JobId { cluster_start: 1, number: 1 };

    fn output(number: u32, boot_id: &str, root: &Path) -> MapOutput {
        let task = TaskId { job: JOB, kind: TaskKind::Map, index: number };
        let attempt = AttemptId { task, number: 0 };
        let data = root.join(JOB.to_string()).join(format!("{attempt}.data"));
        MapOutput {
            attempt,
            http_address: "127.0.0.1:1".to_owned(),
            boot_id: boot_id.to_owned(),
            data_path: data.display().to_string(),
        }
    }

    #[test]
    fn only_outputs_of_this_machine_that_lie_elsewhere_are_linked() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [own, other] = ["own", "other"].map(|name| root.join(name));
        let mut outputs = [
            output(0, "here", &own),
            output(1, "here", &other),
            output(2, "there", &other),
            output(3, "here", &other),
        ];
        for directory in [&own, &other] {
            fs::create_dir_all(directory.join(JOB.to_string())).unwrap();
        }
        for output in &outputs[..3] {
            let data = PathBuf::from(&output.data_path);
            fs::write(&data, "data").unwrap();
            fs::write(data.with_extension("index"), "index").unwrap();
        }
        let before = outputs.clone();
        let held = Outputs::new(Place::open(&own).unwrap());
        let mut near = Near::default();
        for _ in 0..2 {
            near.bring(&mut outputs, "here", &held);
            for unchanged in [0, 2, 3] {
                assert_eq!(outputs[unchanged], before[unchanged]);
            }
            let path = Path::new(&outputs[1].data_path);
            assert!(path.starts_with(&own), "{}", path.display());
            // It no longer matters what its worker does to the files.
            let _ = fs::remove_dir_all(&other);
            assert_eq!(fs::read_to_string(path).unwrap(), "data");
            assert_eq!(fs::read_to_string(path.with_extension("index")).unwrap(), "index");
            outputs[1] = before[1].clone();
        }
        near.forget(JOB);
        near.bring(&mut outputs, "here", &held);
        assert_eq!(outputs[1], before[1], "it is gone");
    }
}
