//! The jobs of a plan that are running on the cluster.
//!
//! Invariant: once one job of the plan has failed, no other is submitted, and each submitted job is ended, even one whose submission was in
//! progress.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mr_model::{Error, Result};
use protocol::JobId;

#[derive(Default)]
pub(super) struct Running {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ids: BTreeSet<JobId>,
    failed: bool,
}

impl Running {
    /// Submits a job, unless another one failed; ends it with `kill` if one fails meanwhile.
    pub(super) fn submit(
        &self,
        submit: impl FnOnce() -> Result<JobId>,
        kill: impl FnOnce(JobId),
    ) -> Result<JobId> {
        if self.state().failed {
            return Err(Error::PlanFailed.into());
        }
        let id = submit()?;
        let mut state = self.state();
        state.ids.insert(id);
        if state.failed {
            kill(id);
        }
        Ok(id)
    }

    /// The job is over.
    pub(super) fn remove(&self, id: JobId) {
        self.state().ids.remove(&id);
    }

    /// A job of the plan failed: ends those that run.
    pub(super) fn fail(&self, kill: impl FnMut(JobId)) {
        let mut state = self.state();
        state.failed = true;
        state.ids.iter().copied().for_each(kill);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_failure_ends_what_runs_and_what_comes_late() {
        let id = |number| JobId { cluster_start: 1, number };
        let (running, killed) = (Running::default(), RefCell::new(Vec::new()));
        let kill = |id: JobId| killed.borrow_mut().push(id.number);
        for number in [1, 2] {
            running.submit(|| Ok(id(number)), kill).unwrap();
        }
        running.remove(id(1));
        // Another job fails while the submission of job 3 is in progress.
        let late = || {
            running.fail(kill);
            Ok(id(3))
        };
        assert_eq!(running.submit(late, kill).unwrap(), id(3));
        assert_eq!(*killed.borrow(), [2, 3]);
        let refused = running.submit(|| panic!("it must not be submitted"), kill).unwrap_err();
        assert!(matches!(refused.downcast_ref(), Some(Error::PlanFailed)), "{refused}");
    }
}
