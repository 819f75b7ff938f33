//! Which files a job reads and writes, as its author wrote them: the runner decides what the paths mean.

use std::fmt;
use std::sync::Arc;

use mr_formats::{Cut, Format, Source};

use crate::error::Result;
use crate::task::upstream::JobOutput;

/// What a job reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputPaths {
    /// Files and directories.
    Paths(Vec<String>),
    /// The output of the job before it in the plan.
    Previous,
    /// Outputs of jobs that were added to the plan earlier.
    Outputs(Vec<JobOutput>),
    /// Numbers, without any file.
    Rows {
        /// How many.
        rows: u64,
        /// Splits.
        maps: u32,
    },
}

/// One of the inputs of a job.
#[derive(Clone, Debug)]
pub struct JobInput {
    /// Where.
    pub paths: InputPaths,
    /// How its files are cut.
    pub cut: Cut,
    groups: Groups,
}

impl JobInput {
    pub(crate) fn new<F: Format>(paths: InputPaths, format: &F) -> Self {
        let (cut, format) = (format.cut(), format.clone());
        JobInput { paths, cut, groups: Groups(Arc::new(move |source| format.groups(source))) }
    }

    /// [`Format::groups`] of the input's format.
    ///
    /// # Errors
    /// Those of the format.
    pub fn groups(&self, source: &mut dyn Source) -> Result<Vec<u64>> {
        (self.groups.0)(source)
    }
}

#[derive(Clone)]
struct Groups(Arc<GroupsOf>);

type GroupsOf = dyn Fn(&mut dyn Source) -> Result<Vec<u64>> + Send + Sync;

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Groups")
    }
}

/// Where a job writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OutputPath {
    /// A directory that does not exist yet.
    Path(String),
    /// A directory of its own, deleted when the plan is done.
    Intermediate,
}
