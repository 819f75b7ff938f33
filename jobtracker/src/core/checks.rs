//! The core's checks of a caller's rights before a call on a job or on the JobTracker, by the lists in [`super::rights`].

use protocol::jobs::{By, Call};
use protocol::{ErrorKind, JobId, RemoteError};

use super::Core;
use super::jobs::Job;
use super::rights::{Caller, Operation, Whose};

impl Core {
    /// Refuses callers who may not make a call.
    pub(crate) fn check_call(&self, caller: &Caller<'_>, call: &Call) -> Result<(), RemoteError> {
        match call.by() {
            By::Anyone => Ok(()),
            By::Viewer(job) => self.check(caller, Operation::View, job),
            By::Modifier(job) => self.check(caller, Operation::Modify, job),
            By::Administrator(what) => self.check_administrator(caller, what),
        }
    }

    /// Refuses callers without the right to this operation on a job.
    pub(crate) fn check(
        &self,
        caller: &Caller<'_>,
        operation: Operation,
        id: JobId,
    ) -> Result<(), RemoteError> {
        let job = self.known(id)?;
        match self.may(caller, operation, job) {
            true => Ok(()),
            false => Err(refusal(caller, operation, id)),
        }
    }

    /// True if `caller` has the right to this operation on a job.
    pub(super) fn may(&self, caller: &Caller<'_>, operation: Operation, job: &Job) -> bool {
        self.rules.administrators.allow(caller, &Whose::of(job, operation))
    }

    /// Refuses callers who may not view a job that is known only from its history.
    pub(crate) fn check_kept(
        &self,
        caller: &Caller<'_>,
        whose: &Whose,
        id: JobId,
    ) -> Result<(), RemoteError> {
        match self.rules.administrators.allow(caller, whose) {
            true => Ok(()),
            false => Err(refusal(caller, Operation::View, id)),
        }
    }

    /// The queues whose jobs `caller` may view and change, whoever owns them.
    pub(crate) fn administered_queues(&self, caller: &Caller<'_>) -> Vec<String> {
        let all = self.queue_reports().into_iter().map(|queue| queue.name);
        all.filter(|queue| self.rules.administrators.administer_queue(caller, queue)).collect()
    }

    /// Refuses callers who do not administer the cluster; `what` is Hadoop's name of the call.
    fn check_administrator(&self, caller: &Caller<'_>, what: &str) -> Result<(), RemoteError> {
        if self.rules.administrators.administer(caller) {
            return Ok(());
        }
        let text = format!("User {} doesn't have permission to call '{what}'", caller.user);
        Err(RemoteError::new(ErrorKind::PermissionDenied, text))
    }
}

/// The refusal of an operation on a job.
fn refusal(caller: &Caller<'_>, operation: Operation, id: JobId) -> RemoteError {
    let (user, operation) = (caller.user, operation.name());
    let text = format!("User {user} cannot perform operation {operation} on {id}");
    RemoteError::new(ErrorKind::PermissionDenied, text)
}
