//! Links to map outputs of other workers on this machine, for tasks that see only the files of their job.

use std::path::Path;

use protocol::AttemptId;
use protocol::tracker::MapOutput;

use crate::outputs::Outputs;

/// Links outputs into the directory of the outputs held here. Returns those that could be linked.
pub(super) fn link(outputs: &[MapOutput], held: &Outputs) -> Vec<AttemptId> {
    let mut linked = Vec::new();
    for MapOutput { attempt, data_path, .. } in outputs {
        match held.bring(*attempt, Path::new(data_path)) {
            Ok(_) => linked.push(*attempt),
            Err(error) => {
                tracing::debug!(output = %attempt, %error, "not opened here, but asked for");
            }
        }
    }
    linked
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use protocol::{JobId, TaskId, TaskKind};

    use super::*;
    use crate::scratch::OpenDir;

    const JOB: JobId = JobId { cluster_start: 1, number: 1 };

    fn output(number: u32, root: &Path) -> MapOutput {
        let task = TaskId { job: JOB, kind: TaskKind::Map, index: number };
        let attempt = AttemptId { task, number: 0 };
        let data = root.join(JOB.to_string()).join(format!("{attempt}.data"));
        MapOutput {
            attempt,
            http_address: "127.0.0.1:1".to_owned(),
            boot_id: "here".to_owned(),
            data_path: data.display().to_string(),
        }
    }

    #[test]
    fn outputs_that_are_linked_stay_when_their_worker_goes() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let [own, other] = ["own", "other"].map(|name| root.join(name));
        let outputs = [output(0, &other), output(1, &other)];
        for directory in [&own, &other] {
            fs::create_dir_all(directory.join(JOB.to_string())).unwrap();
        }
        let data = PathBuf::from(&outputs[0].data_path);
        fs::write(&data, "data").unwrap();
        fs::write(data.with_extension("index"), "index").unwrap();
        let held = Outputs::new(OpenDir::open(&own).unwrap());
        for _ in 0..2 {
            assert_eq!(link(&outputs, &held), [outputs[0].attempt], "once or twice");
        }
        // It no longer matters what its worker does to the files.
        fs::remove_dir_all(&other).unwrap();
        let path = held.data_path(outputs[0].attempt);
        assert!(path.starts_with(&own), "{}", path.display());
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
        assert_eq!(fs::read_to_string(path.with_extension("index")).unwrap(), "index");
        assert_eq!(link(&outputs, &held), [], "it is gone");
    }
}
