//! Jobs with files here.
//!
//! ```text
//! known -> forgotten -> no process left: being deleted -> deleted
//!   ^----------'  a new attempt
//! ```
//!
//! Invariants: files of a job are deleted only when no process of it is left; meanwhile the job gets no new ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol::JobId;

/// A job without running attempts or held outputs is forgotten after this time, in case the JobTracker's message was lost.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Jobs with files, and the time of the last event of each.
    known: BTreeMap<JobId, Duration>,
    /// Jobs whose files are deleted once no process of theirs is left.
    forgotten: BTreeSet<JobId>,
    /// Jobs whose files are being deleted.
    deleting: BTreeSet<JobId>,
}

impl Jobs {
    pub(super) fn is_known(&self, id: JobId) -> bool {
        self.known.contains_key(&id)
    }

    /// True while its files are being deleted.
    pub(super) fn is_going(&self, id: JobId) -> bool {
        self.deleting.contains(&id)
    }

    /// An attempt of the job begins here.
    pub(super) fn begin(&mut self, id: JobId, now: Duration) {
        self.forgotten.remove(&id);
        self.known.insert(id, now);
    }

    /// Something of the job ended here. True if it has files.
    pub(super) fn touch(&mut self, id: JobId, now: Duration) -> bool {
        self.known.get_mut(&id).map(|touched| *touched = now).is_some()
    }

    /// Jobs without an event for a while.
    pub(super) fn idle(&self, now: Duration) -> impl Iterator<Item = JobId> {
        let is_idle = move |touched: Duration| now.saturating_sub(touched) >= IDLE_MAX;
        self.known.iter().filter(move |(_, touched)| is_idle(**touched)).map(|(id, _)| *id)
    }

    /// Marks the files of the job as no longer needed.
    pub(super) fn forget(&mut self, id: JobId) {
        self.forgotten.insert(id);
    }

    /// The job has no process left: true if it is forgotten.
    pub(super) fn leave_forgotten(&mut self, id: JobId) -> bool {
        self.forgotten.remove(&id)
    }

    /// Begins to delete the files of the job. True if it has some.
    pub(super) fn delete(&mut self, id: JobId) -> bool {
        let has_files = self.known.remove(&id).is_some();
        if has_files {
            self.deleting.insert(id);
        }
        has_files
    }

    /// The files of the job are deleted, or cannot be.
    pub(super) fn deleted(&mut self, id: JobId) {
        self.deleting.remove(&id);
    }
}

#[cfg(test)]
impl Jobs {
    /// Jobs that are remembered for any reason.
    pub(super) fn all(&self) -> BTreeSet<JobId> {
        let known = self.known.keys().chain(&self.forgotten).chain(&self.deleting);
        known.copied().collect()
    }
}
