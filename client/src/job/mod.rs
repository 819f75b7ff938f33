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

use events::EventReader;
use protocol::auth::{Role, Service};
use protocol::jobs::{
    Counters, JobReport, JobSpec, Priority, QueueReport, Replay, Reply, Request, TaskReport,
    TrackerStatus, TypedCall, WorkerReport, calls,
};
use protocol::{AttemptId, CallId, ClientId, JobId, RemoteError};
use serde::Deserialize;
use transport::RpcError;
use transport::rpc::{Body, CallOptions, RpcClient, runtime};

pub use binary::{Content, hash_file, hash_opened, upload};
pub use counters::{counter_value, counters_text};
pub use error::JobError;

use crate::config::{ClientConfig, Daemon};

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
        self.ask(calls::Submit { spec: Box::new(spec) })
    }

    /// All jobs known, newest first.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn list(&self) -> Result<Vec<JobReport>, JobError> {
        self.ask(calls::List)
    }

    /// One job.
    ///
    /// # Errors
    /// [`JobError`]; the kind is `UnknownJob` if no job has this id.
    pub fn status(&self, id: JobId) -> Result<JobReport, JobError> {
        self.ask(calls::Status { job: id })
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
        self.ask(calls::Kill { job: id })
    }

    /// Tasks of a job with their attempts.
    ///
    /// # Errors
    /// As [`JobClient::status`].
    pub fn tasks(&self, id: JobId) -> Result<Vec<TaskReport>, JobError> {
        self.ask(calls::Tasks { job: id })
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
        self.ask(calls::SetPriority { job: id, priority })
    }

    /// Ends an attempt; another follows. With `fail` it counts against its task's limit.
    ///
    /// # Errors
    /// As [`JobClient::status`]; also if the attempt is not running.
    pub fn stop_attempt(&self, attempt: AttemptId, fail: bool) -> Result<(), JobError> {
        self.ask(calls::StopAttempt { attempt, fail })
    }

    /// Everything needed to run an attempt again.
    ///
    /// # Errors
    /// As [`JobClient::status`]; also if the attempt is unknown.
    pub fn replay(&self, attempt: AttemptId) -> Result<Replay, JobError> {
        self.ask(calls::Replay { attempt })
    }

    /// Queues, by name.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn queues(&self) -> Result<Vec<QueueReport>, JobError> {
        self.ask(calls::Queues)
    }

    /// Workers.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn workers(&self) -> Result<Vec<WorkerReport>, JobError> {
        self.ask(calls::Workers)
    }

    /// Has the JobTracker read its list of workers to be drained.
    ///
    /// # Errors
    /// [`JobError`]; also if the list cannot be read.
    pub fn refresh_nodes(&self) -> Result<(), JobError> {
        self.ask(calls::RefreshNodes)
    }

    /// Has the JobTracker read the rules of its queues again.
    ///
    /// # Errors
    /// [`JobError`]; also if the JobTracker refuses them and keeps the old ones.
    pub fn refresh_queues(&self) -> Result<(), JobError> {
        self.ask(calls::RefreshQueues)
    }

    /// The queues whose jobs this user may view and change, whoever owns the jobs.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn administered_queues(&self) -> Result<Vec<String>, JobError> {
        self.ask(calls::AdministeredQueues)
    }

    /// Has the JobTracker ask the system again for the groups of users.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn refresh_groups(&self) -> Result<(), JobError> {
        self.ask(calls::RefreshGroups)
    }

    /// Workers and slots.
    ///
    /// # Errors
    /// [`JobError`].
    pub fn tracker(&self) -> Result<TrackerStatus, JobError> {
        self.ask(calls::TrackerStatus)
    }

    /// Passes every report of a job to `each` until the job is over; returns the last report. Opens a lost connection again. `each` may make calls of its own.
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
            let mut reports = runtime().block_on(self.reports(id));
            while let Some(report) = reports.as_mut().and_then(|it| runtime().block_on(it.next())) {
                seen = true;
                each(&report);
                if report.state.is_final() {
                    return Ok(report);
                }
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

    /// The stream of a job's reports; `None` if it cannot be opened.
    async fn reports(&self, id: JobId) -> Option<Reports> {
        let target = format!("/api/v1/jobs/{id}/events");
        let body = self.rpc.get_as(&self.user, &target).await;
        let body = body.inspect_err(|error| {
            tracing::debug!(%error, "cannot watch the job, asking instead");
        });
        Some(Reports {
            body: body.ok()?.silent_for(WATCH_SILENCE_MAX),
            reader: EventReader::default(),
        })
    }

    fn status_patiently(&self, id: JobId) -> Result<JobReport, JobError> {
        let options = CallOptions { retry_for: WATCH_RETRY_FOR, ..CallOptions::default() };
        self.ask_with(calls::Status { job: id }, options)
    }

    fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, JobError> {
        self.ask_with(call, CallOptions::default())
    }

    fn ask_with<C: TypedCall>(&self, call: C, options: CallOptions) -> Result<C::Answer, JobError> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let id = CallId { client: self.client, number };
        Ok(runtime().block_on(ask(&self.rpc, (id, &self.user), call, options))?)
    }
}

/// A stream of reports.
struct Reports {
    body: Body,
    reader: EventReader,
}

impl Reports {
    /// The next one; `None` if the stream has broken.
    async fn next(&mut self) -> Option<JobReport> {
        loop {
            if let Some(data) = self.reader.next_event() {
                return serde_json::from_slice(&data).ok();
            }
            self.reader.push(&self.body.next().await.ok()??);
        }
    }
}

/// Makes a call as a user, under an id, and returns the answer that the call names.
///
/// # Errors
/// [`RpcError`].
pub async fn ask<C: TypedCall>(
    rpc: &RpcClient,
    (id, user): (CallId, &str),
    call: C,
    options: CallOptions,
) -> Result<C::Answer, RpcError> {
    let reply: Reply = rpc.call("/rpc", &Request::new(id, user, call), options).await?;
    reply.try_into().map_err(|error| RpcError::Remote(RemoteError::from(error)))
}
