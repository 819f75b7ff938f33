//! Which files a job reads and writes, as its author says it: what the paths mean is for the one who runs it.

use crate::formats::Cut;
use crate::task::upstream::JobOutput;

/// What a job reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InputPaths {
    /// Files and directories.
    Paths(Vec<String>),
    /// The output of the job before it in the plan.
    Previous,
    /// Outputs of jobs added to the plan before.
    Outputs(Vec<JobOutput>),
    /// Numbers, without any file.
    Rows { rows: u64, maps: u32 },
}

/// One of the inputs of a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct JobInput {
    pub(crate) paths: InputPaths,
    pub(crate) cut: Cut,
}

/// Where a job writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum OutputPath {
    /// A directory that does not exist yet.
    Path(String),
    /// A directory of its own that goes when the plan is done.
    Intermediate,
}
