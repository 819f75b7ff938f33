//! What the worker's loop needs and never changes.

use std::sync::Arc;
use std::time::Duration;

use client::rpc::RpcClient;
use protocol::JobId;
use protocol::pass::{PASS_LIFETIME, Pass, PassName};
use protocol::runner::Setup;
use protocol::tracker::{Launch, Register};
use tokio::sync::mpsc;

use crate::binaries::{Binaries, BinarySource};
use crate::event::Event;
use crate::outputs::Outputs;
use crate::scratch::Place;
use crate::walls::{Sandbox, Watch};

/// See the module.
pub(crate) struct Surroundings {
    /// The registration, without attempts and outputs.
    pub(crate) register: Register,
    /// The directory of all jobs' files.
    pub(crate) jobs: Place,
    pub(crate) logs: Place,
    pub(crate) log_retention: Duration,
    /// Setup data without a program.
    pub(crate) setup: SetupBase,
    pub(crate) start_timeout: Duration,
    pub(crate) silence_max: Duration,
    pub(crate) idle_max: Duration,
    pub(crate) log_bytes_max: u64,
    pub(crate) watch: Watch,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) binaries: Binaries,
    pub(crate) source: Arc<dyn BinarySource>,
    pub(crate) outputs: Outputs,
    pub(crate) jobtracker: RpcClient,
    pub(crate) events: mpsc::Sender<Event>,
}

/// The data that every runner gets besides its program.
#[derive(Clone)]
pub(crate) struct SetupBase {
    pub(crate) namenode: String,
    /// Signs the passes of tasks; it never leaves the worker.
    pub(crate) secret: protocol::auth::Key,
    pub(crate) memory_bytes_max: u64,
}

impl SetupBase {
    /// A pass for tasks of a job.
    pub(super) fn pass(&self, job: JobId, user: &str) -> Pass {
        let lifetime_ms = u64::try_from(PASS_LIFETIME.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = client::rpc::now_ms().saturating_add(lifetime_ms);
        Pass::issue(&self.secret, PassName { job, user: user.to_owned(), expires_ms })
    }
}

impl Surroundings {
    pub(super) fn setup(&self, launch: &Launch) -> Setup {
        Setup {
            program: launch.program.clone(),
            namenode: self.setup.namenode.clone(),
            pass: self.setup.pass(launch.attempt.task.job, &launch.program.user),
            host: self.register.host.clone(),
            boot_id: self.register.boot_id.clone(),
            memory_bytes_max: self.setup.memory_bytes_max,
            local_output: None,
        }
    }
}
