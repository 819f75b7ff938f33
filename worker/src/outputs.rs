//! Map outputs held for reduces: which there are, and where their segments lie.
//!
//! Invariant: an output is listed only after its index was read and checked against its data file; attempts are found by their typed
//! id, so no text of a request ever becomes part of a path.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use client::error::chain;
use parking_lot::RwLock;
use protocol::{AttemptId, JobId};
use shuffle::SegmentInfo;

/// A map output.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) data: PathBuf,
    pub(crate) segments: Vec<SegmentInfo>,
}

/// All map outputs held here. Cheap to clone; clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    inner: Arc<RwLock<HashMap<AttemptId, Arc<Held>>>>,
}

impl Outputs {
    /// Takes the output that a finished attempt left at `data_path`, which must lie in the attempt's directory.
    pub(crate) fn insert(
        &self,
        attempt: AttemptId,
        directory: &Path,
        data_path: &str,
    ) -> Result<Arc<Held>, String> {
        let data = PathBuf::from(data_path);
        let inside = data.strip_prefix(directory).is_ok_and(|rest| {
            rest.components().all(|component| matches!(component, Component::Normal(_)))
        });
        if !inside {
            return Err(format!("the map output {data_path} is not in the attempt's directory"));
        }
        let segments =
            shuffle::read_index(&data.with_extension("index")).map_err(|error| chain(&error))?;
        let end = segments.last().map_or(0, |segment| segment.offset + segment.stored);
        let metadata = fs::symlink_metadata(&data)
            .map_err(|error| format!("cannot read the map output {data_path}: {error}"))?;
        if !metadata.is_file() || metadata.len() < end {
            return Err(format!(
                "the map output {data_path} has {} bytes where its index names {end}",
                metadata.len()
            ));
        }
        let held = Arc::new(Held { data, segments });
        self.inner.write().insert(attempt, Arc::clone(&held));
        Ok(held)
    }

    /// The output of an attempt.
    pub(crate) fn held(&self, attempt: AttemptId) -> Option<Arc<Held>> {
        self.inner.read().get(&attempt).cloned()
    }

    /// All, with the paths of their data files.
    pub(crate) fn all(&self) -> Vec<(AttemptId, String)> {
        let outputs = self.inner.read();
        let mut all: Vec<(AttemptId, String)> = outputs
            .iter()
            .map(|(attempt, held)| (*attempt, held.data.to_string_lossy().into_owned()))
            .collect();
        all.sort();
        all
    }

    /// True if an output of the job is held.
    pub(crate) fn holds_job(&self, job: JobId) -> bool {
        self.inner.read().keys().any(|attempt| attempt.task.job == job)
    }

    /// The job is over.
    pub(crate) fn forget_job(&self, job: JobId) {
        self.inner.write().retain(|attempt, _| attempt.task.job != job);
    }
}
