//! Clients' requests to the JobTracker: `POST /rpc` with a [`Request`], answered by `Result<Reply, RemoteError>`. The JobTracker pushes the progress of a job
//! on `GET /api/v1/jobs/{id}/events` as server-sent events, each a [`JobReport`] in JSON.

mod call;
#[cfg(test)]
mod golden;
mod reply;
mod reports;
mod spec;
mod table;

use serde::{Deserialize, Serialize};

use crate::{BinaryHash, CallId, DfsPath, PathError};

pub use self::call::{Call, TypedCall, calls};
pub use self::reply::{Answer, Reply};
pub use self::reports::{
    AttemptReport, JobReport, JobState, QueueReport, Replay, RoundMeasure, RoundsReport,
    TaskCounts, TaskReport, TrackerStatus, WorkerReport,
};
pub use self::spec::{ATTEMPTS_MAX, JobSpec, Priority};
pub use self::table::{Argument, By, Logged};
pub use super::counters::{COUNTER_GROUPS_SENT_MAX, Counters};
pub use super::split::{HOSTS_MAX, SPLIT_PARTS_MAX, Split, SplitPart};
pub use super::splits::{
    Part, SPLIT_BYTES_MAX, SPLITS_MAX, Splits, Table as SplitTable, TableError, TableRow,
};
pub use super::tracker::{ARGS_MAX, PROPERTIES_MAX};
pub use crate::table::Kind;

/// Version of this conversation; both sides must agree.
pub const VERSION: u16 = 6;
/// Where the executables and side files of jobs are kept, in a directory for each user.
pub const FILES_DIR: &str = "/system/hanno/bin";
/// Its mode: everybody can add entries, and remove only their own.
pub const FILES_DIR_MODE: u16 = 0o1777;

/// Where a file with this hash is kept for the jobs of `user`. Nobody else may put files there, so nobody can be the first with other bytes.
///
/// # Errors
/// If the name of the user cannot be the name of a directory.
pub fn job_file(user: &str, hash: BinaryHash) -> Result<DfsPath, PathError> {
    DfsPath::parse(FILES_DIR)?.join(user)?.join(&hash.to_string())
}

/// A call and who makes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Request {
    /// [`VERSION`].
    pub version: u16,
    /// A repeated submission gets the first answer.
    pub call: CallId,
    /// Acting user.
    pub user: String,
    /// The call itself.
    pub body: Call,
}

impl Request {
    /// Builds a request.
    pub fn new(call: CallId, user: &str, body: impl Into<Call>) -> Self {
        Request { version: VERSION, call, user: user.to_owned(), body: body.into() }
    }
}
