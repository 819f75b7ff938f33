//! What does not change while the core runs, and the names of outputs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::AttemptId;
use protocol::tracker::Register;

/// What does not change while the core runs.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The registration, without attempts and outputs.
    pub register: Register,
    /// The directory of the outputs held here, as other processes of this machine know it.
    pub outputs: PathBuf,
    /// Tasks see only files of their job, so outputs of other workers on this machine are linked.
    pub links_outputs: bool,
    /// A runner may take one attempt after the other.
    pub reuses_runners: bool,
    /// Time without a sign of life of an attempt whose job does not set it; zero means no limit.
    pub silence_max: Duration,
    /// Time after which an idle runner ends.
    pub idle_max: Duration,
}

impl Rules {
    /// The path of an output held or linked here, as messages name it.
    pub(super) fn data_path(&self, attempt: AttemptId) -> String {
        data_path(&self.outputs, attempt).to_string_lossy().into_owned()
    }
}

/// The path of an output in the directory of all outputs.
pub(crate) fn data_path(outputs: &Path, attempt: AttemptId) -> PathBuf {
    outputs.join(attempt.task.job.to_string()).join(data_name(attempt))
}

/// Name of the data file of an output, in the directory of its job's outputs.
pub(crate) fn data_name(attempt: AttemptId) -> String {
    format!("{attempt}.data")
}
