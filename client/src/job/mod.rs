//! Jobs, seen from a client: submit, watch, query, kill. Blocking; for drivers and commands.
//!
//! | part | |
//! |---|---|
//! | [`JobClient`] | calls to the JobTracker |
//! | `events` | cutting server-sent events out of a stream of bytes |
//! | `binary` | the job's executable in the file system |
//! | `elf` | the executable without symbols and debug sections |
//! | `counters` | counters in the words people know |

mod binary;
mod counters;
mod elf;
mod error;
mod events;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::auth::{Role, Service};
use protocol::jobs::{
    Call, Counters, JobReport, JobSpec, Priority, QueueReport, Replay, Reply, Request, TaskReport,
    TrackerStatus, VERSION, WorkerReport,
};
use protocol::{AttemptId, CallId, ClientId, JobId, RemoteError};
use serde::Deserialize;

pub use binary::{Content, binary_path, hash_file, hash_opened, upload};
pub use counters::{counter_value, counters_text};
pub use error::JobError;

use crate::config::{ClientConfig, Daemon};
use crate::rpc::{CallOptions, RpcClient, runtime};
use events::EventReader;

/// First pause before a broken event stream is opened again; the job continues meanwhile.
const WATCH_PAUSE_MIN: Duration = Duration::from_millis(50);
/// Longest pause.
const WATCH_PAUSE_MAX: Duration = Duration::from_secs(2);
/// Time without any byte after which an event stream counts as broken; the JobTracker sends a sign of life every 15 s.
const WATCH_SILENCE_MAX: Duration = Duration::from_secs(45);
/// How long a watcher tries to reach an unreachable JobTracker.
const WATCH_RETRY_FOR: Duration = Duration::from_secs(300);

/// A client of one JobTracker. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct JobClient {
    rpc: RpcClient,
    user: String,
    client: ClientId,
    calls: Arc<AtomicU64>,
}

/// The properties of a job as the JobTracker sends them, in Hadoop's form.
#[derive(Deserialize)]
struct JobConf {
    conf: JobProperties,
}

#[derive(Deserialize)]
struct JobProperties {
    property: Vec<JobProperty>,
}

#[derive(Deserialize)]
struct JobProperty {
    name: String,
    value: String,
}

impl JobClient {
    /// Takes the JobTracker from the configuration. Does not connect yet.
    ///
    /// # Errors
    /// [`JobError::NoJobtracker`] if none is configured; others if address or secret cannot be used.
    pub fn connect(config: &ClientConfig) -> Result<Self, JobError> {
        let address = config.jobtracker.as_deref().ok_or(JobError::NoJobtracker)?;
        let secret = config.secret(Daemon::Jobtracker)?;
        let rpc =
            RpcClient::new(address, Role::Client, secret.as_ref())?.expecting(Service::Jobtracker);
        let client = ClientId(rand::random());
        Ok(JobClient { rpc, user: config.user(), client, calls: Arc::default() })
    }

    /// Address of the JobTracker.
    pub fn address(&self) -> &str {
        self.rpc.base()
    }

    /// Starts a job. A lost answer makes it send the job again; the JobTracker starts it once.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn submit(&self, spec: JobSpec) -> Result<JobId, JobError> {
        match self.call(Call::Submit(Box::new(spec)))? {
            Reply::Submitted(id) => Ok(id),
            _ => Err(self.unexpected()),
        }
    }

    /// All jobs known, newest first.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn list(&self) -> Result<Vec<JobReport>, JobError> {
        match self.call(Call::List)? {
            Reply::Jobs(jobs) => Ok(jobs),
            _ => Err(self.unexpected()),
        }
    }

    /// One job.
    ///
    /// # Errors
    /// [`JobError`]; the kind is `UnknownJob` if no job has this id.
    pub fn status(&self, id: JobId) -> Result<JobReport, JobError> {
        match self.call(Call::Status(id))? {
            Reply::Job(report) => Ok(*report),
            _ => Err(self.unexpected()),
        }
    }

    /// Counters of a job so far.
    ///
    /// # Errors
    /// As [`JobClient::status`].
    pub fn counters(&self, id: JobId) -> Result<Counters, JobError> {
        Ok(self.status(id)?.counters)
    }

    /// Asks a job to end.
    ///
    /// # Errors
    /// As [`JobClient::status`].
    pub fn kill(&self, id: JobId) -> Result<(), JobError> {
        match self.call(Call::Kill(id))? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Tasks of a job with their attempts.
    ///
    /// # Errors
    /// As [`JobClient::status`].
    pub fn tasks(&self, id: JobId) -> Result<Vec<TaskReport>, JobError> {
        match self.call(Call::Tasks(id))? {
            Reply::Tasks(tasks) => Ok(tasks),
            _ => Err(self.unexpected()),
        }
    }

    /// Events of a job, one JSON object a line ([`protocol::history`]); even if it has left the list.
    ///
    /// # Errors
    /// [`JobError`]; the status is 404 if the job is unknown.
    pub fn history(&self, id: JobId) -> Result<String, JobError> {
        let target = format!("/api/v1/jobs/{id}/history");
        runtime().block_on(async { Ok(self.rpc.get_as(&self.user, &target).await?.text().await?) })
    }

    /// Properties that a job was submitted with, even if it has left the list.
    ///
    /// # Errors
    /// [`JobError`]; the status is 404 if the job is unknown.
    pub fn properties(&self, id: JobId) -> Result<Vec<(String, String)>, JobError> {
        let target = format!("/ws/v1/history/mapreduce/jobs/{id}/conf");
        let answer: JobConf = runtime()
            .block_on(async { self.rpc.get_as(&self.user, &target).await?.json().await })?;
        Ok(answer.conf.property.into_iter().map(|set| (set.name, set.value)).collect())
    }

    /// Makes a job more or less urgent.
    ///
    /// # Errors
    /// As [`JobClient::status`]; also if the job has ended.
    pub fn set_priority(&self, id: JobId, priority: Priority) -> Result<(), JobError> {
        match self.call(Call::SetPriority(id, priority))? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Ends an attempt; another follows. With `fail` it counts against its task's limit.
    ///
    /// # Errors
    /// As [`JobClient::status`]; also if the attempt is not running.
    pub fn stop_attempt(&self, attempt: AttemptId, fail: bool) -> Result<(), JobError> {
        match self.call(Call::StopAttempt { attempt, fail })? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Everything needed to run an attempt again.
    ///
    /// # Errors
    /// As [`JobClient::status`]; also if the attempt is unknown.
    pub fn replay(&self, attempt: AttemptId) -> Result<Replay, JobError> {
        match self.call(Call::Replay(attempt))? {
            Reply::Replay(replay) => Ok(*replay),
            _ => Err(self.unexpected()),
        }
    }

    /// Queues, by name.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn queues(&self) -> Result<Vec<QueueReport>, JobError> {
        match self.call(Call::Queues)? {
            Reply::Queues(queues) => Ok(queues),
            _ => Err(self.unexpected()),
        }
    }

    /// Workers.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn workers(&self) -> Result<Vec<WorkerReport>, JobError> {
        match self.call(Call::Workers)? {
            Reply::Workers(workers) => Ok(workers),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the JobTracker read its list of workers to be drained.
    ///
    /// # Errors
    /// [`JobError`]; also if the list cannot be read.
    pub fn refresh_nodes(&self) -> Result<(), JobError> {
        match self.call(Call::RefreshNodes)? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the JobTracker read the rules of its queues again.
    ///
    /// # Errors
    /// [`JobError`]; also if the JobTracker refuses them and keeps the old ones.
    pub fn refresh_queues(&self) -> Result<(), JobError> {
        match self.call(Call::RefreshQueues)? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// The queues whose jobs this user may view and change, whoever owns the jobs.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn administered_queues(&self) -> Result<Vec<String>, JobError> {
        match self.call(Call::AdministeredQueues)? {
            Reply::Names(names) => Ok(names),
            _ => Err(self.unexpected()),
        }
    }

    /// Has the JobTracker ask the system again for the groups of users.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn refresh_groups(&self) -> Result<(), JobError> {
        match self.call(Call::RefreshGroups)? {
            Reply::Done => Ok(()),
            _ => Err(self.unexpected()),
        }
    }

    /// Workers and slots.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn tracker(&self) -> Result<TrackerStatus, JobError> {
        match self.call(Call::TrackerStatus)? {
            Reply::Tracker(status) => Ok(status),
            _ => Err(self.unexpected()),
        }
    }

    /// Passes every report of a job to `each` until the job is over; returns the last report. Opens a lost connection again.
    ///
    /// # Errors
    /// [`JobError`] if the job is unknown or the JobTracker stays unreachable.
    pub fn watch(
        &self,
        id: JobId,
        mut each: impl FnMut(&JobReport),
    ) -> Result<JobReport, JobError> {
        let mut pause = WATCH_PAUSE_MIN;
        loop {
            let mut seen = false;
            let watched = runtime().block_on(self.watch_once(id, &mut |report| {
                seen = true;
                each(report);
            }));
            if let Some(report) = watched {
                return Ok(report);
            }
            pause = if seen { WATCH_PAUSE_MIN } else { pause };
            std::thread::sleep(pause);
            pause = (pause * 2).min(WATCH_PAUSE_MAX);
            let report = self.status_patiently(id)?;
            each(&report);
            if report.state.is_final() {
                return Ok(report);
            }
        }
    }

    /// Text of an attempt's log, which the JobTracker fetches from the worker that ran it ([`protocol::jobs::AttemptReport::log_url`]).
    ///
    /// # Errors
    /// [`JobError`] if the worker is gone or has no log of it.
    pub fn log(&self, log_url: &str) -> Result<Vec<u8>, JobError> {
        runtime().block_on(async { Ok(self.rpc.get_as(&self.user, log_url).await?.whole().await?) })
    }

    /// The last report if the stream delivered it; `None` if it broke before that.
    async fn watch_once(&self, id: JobId, each: &mut impl FnMut(&JobReport)) -> Option<JobReport> {
        let target = format!("/api/v1/jobs/{id}/events");
        let mut body = match self.rpc.get_as(&self.user, &target).await {
            Ok(body) => body.silent_for(WATCH_SILENCE_MAX),
            Err(error) => {
                tracing::debug!(%error, "cannot watch the job, asking instead");
                return None;
            }
        };
        let mut reader = EventReader::default();
        loop {
            reader.push(&body.next().await.ok()??);
            while let Some(data) = reader.next_event() {
                let report: JobReport = serde_json::from_slice(&data).ok()?;
                each(&report);
                if report.state.is_final() {
                    return Some(report);
                }
            }
        }
    }

    fn status_patiently(&self, id: JobId) -> Result<JobReport, JobError> {
        let options = CallOptions { retry_for: WATCH_RETRY_FOR, ..CallOptions::default() };
        match self.call_with(Call::Status(id), options)? {
            Reply::Job(report) => Ok(*report),
            _ => Err(self.unexpected()),
        }
    }

    fn call(&self, body: Call) -> Result<Reply, JobError> {
        self.call_with(body, CallOptions::default())
    }

    fn call_with(&self, body: Call, options: CallOptions) -> Result<Reply, JobError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let call = CallId { client: self.client, number };
        let request = Request { version: VERSION, call, user: self.user.clone(), body };
        Ok(self.rpc.call_blocking::<_, Reply>("/rpc", &request, options)?)
    }

    fn unexpected(&self) -> JobError {
        let kind = protocol::ErrorKind::Internal;
        let message = "the JobTracker's answer does not fit the question";
        JobError::Rpc(RemoteError::new(kind, message).into())
    }
}
