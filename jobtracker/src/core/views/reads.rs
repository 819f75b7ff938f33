//! Calls of clients that change nothing.

use protocol::jobs::{Answer, Call, TypedCall, calls};
use protocol::{ErrorKind, RemoteError};

use crate::core::rights::Caller;
use crate::core::{Core, Now};

impl Core {
    /// Answers a read, if the caller may make it.
    pub(crate) fn read(&self, caller: &Caller<'_>, call: &Call, now: Now) -> Answer {
        self.check_call(caller, call)?;
        match call {
            Call::List => calls::List::answer(Ok(self.job_reports(caller))),
            Call::Status(job) => calls::Status::answer(self.job_report(*job)),
            Call::Tasks(job) => calls::Tasks::answer(self.task_reports(*job)),
            Call::TrackerStatus => calls::TrackerStatus::answer(Ok(self.status())),
            Call::Queues => calls::Queues::answer(Ok(self.queue_reports())),
            Call::Workers => calls::Workers::answer(Ok(self.worker_reports(now))),
            Call::Replay(attempt) => calls::Replay::answer(self.replay(*attempt)),
            Call::AdministeredQueues => {
                calls::AdministeredQueues::answer(Ok(self.administered_queues(caller)))
            }
            Call::Submit(_)
            | Call::Kill(_)
            | Call::SetPriority { .. }
            | Call::StopAttempt { .. }
            | Call::RefreshNodes
            | Call::RefreshQueues
            | Call::RefreshGroups => {
                Err(RemoteError::new(ErrorKind::Internal, "the call does more than read"))
            }
        }
    }
}
