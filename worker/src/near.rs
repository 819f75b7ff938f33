//! Map outputs of other workers on this machine, brought where a task of the job that sees only its own files can open them: as links in the job's directory.
//!
//! Invariant: an output whose path was changed lies, data and index, under that path; where a link cannot be made (another user's file, another file system) nothing
//! is changed, and the reduce asks the worker that has it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

use protocol::tracker::MapOutput;
use protocol::{AttemptId, JobId};

use crate::scratch;

/// Directory of the links in that of the job.
pub(crate) const NEAR: &str = "near";
/// Extension of an index, beside its data.
const INDEX: &str = "index";

/// What was brought here, of jobs that run here.
#[derive(Debug, Default)]
pub(crate) struct Near {
    linked: BTreeMap<JobId, BTreeSet<AttemptId>>,
}

impl Near {
    /// Brings outputs of the machine `boot_id` into the directory of their job.
    pub(crate) fn bring(&mut self, outputs: &mut [MapOutput], boot_id: &str, directory: &Path) {
        for output in outputs {
            let data = Path::new(&output.data_path);
            if output.boot_id != boot_id || data.starts_with(directory) {
                continue;
            }
            let linked = self.linked.entry(output.attempt.task.job).or_default();
            let near = directory.join(NEAR).join(output.attempt.to_string());
            let target = near.with_extension("data");
            if !linked.contains(&output.attempt) {
                let made = scratch::create(&directory.join(NEAR))
                    .and_then(|()| link(data, &target))
                    .and_then(|()| link(&data.with_extension(INDEX), &near.with_extension(INDEX)));
                if let Err(error) = made {
                    tracing::debug!(output = %output.attempt, %error, "not opened here, but asked for");
                    continue;
                }
                linked.insert(output.attempt);
            }
            output.data_path = target.to_string_lossy().into_owned();
        }
    }

    /// The files of the job are going.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.linked.remove(&job);
    }
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{TaskId, TaskKind};

    fn output(number: u32, boot_id: &str, data: &Path) -> MapOutput {
        let job = JobId { cluster_start: 1, number: 1 };
        let task = TaskId { job, kind: TaskKind::Map, index: number };
        MapOutput {
            attempt: AttemptId { task, number: 0 },
            http_address: "127.0.0.1:1".to_owned(),
            boot_id: boot_id.to_owned(),
            data_path: data.display().to_string(),
        }
    }

    #[test]
    fn only_outputs_of_this_machine_that_lie_elsewhere_are_linked() {
        let root = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| root.path().join(name));
        for directory in [&own, &other] {
            fs::create_dir(directory).unwrap();
            fs::write(directory.join("out.data"), "data").unwrap();
            fs::write(directory.join("out.index"), "index").unwrap();
        }
        let data = [
            (own.join("out.data"), "here"),
            (other.join("out.data"), "here"),
            (other.join("out.data"), "there"),
            (other.join("missing.data"), "here"),
        ];
        let mut outputs: Vec<MapOutput> = (0..)
            .zip(&data)
            .map(|(number, (path, boot_id))| output(number, boot_id, path))
            .collect();
        let before = outputs.clone();
        let mut near = Near::default();
        for _ in 0..2 {
            near.bring(&mut outputs, "here", &own);
            for unchanged in [0, 2, 3] {
                assert_eq!(outputs[unchanged], before[unchanged]);
            }
            let path = Path::new(&outputs[1].data_path);
            assert!(path.starts_with(&own), "{}", path.display());
            // What its worker does to its files does not matter any more.
            let _ = fs::remove_dir_all(&other);
            assert_eq!(fs::read_to_string(path).unwrap(), "data");
            assert_eq!(fs::read_to_string(path.with_extension(INDEX)).unwrap(), "index");
            outputs[1] = before[1].clone();
        }
        near.forget(before[1].attempt.task.job);
        near.bring(&mut outputs, "here", &own);
        assert_eq!(outputs[1], before[1], "it is gone");
    }
}
