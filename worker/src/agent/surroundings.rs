//! What the worker's loop needs and never changes.

use std::sync::Arc;
use std::time::Duration;

use protocol::JobId;
use protocol::pass::{PASS_LIFETIME, Pass, PassName};
use protocol::runner::Setup;
use protocol::tracker::Program;
use tokio::sync::mpsc;
use transport::rpc::RpcClient;

use crate::binaries::{Binaries, BinarySource};
use crate::core::Event;
use crate::input::Input;
use crate::outputs::Outputs;
use crate::scratch::OpenDir;
use crate::walls::{Sandbox, Watch};

/// See the module.
pub(crate) struct Surroundings {
    /// The directory of all jobs' files.
    pub(crate) jobs: OpenDir,
    pub(crate) logs: OpenDir,
    pub(crate) log_retention: Duration,
    /// Setup data without a program.
    pub(crate) setup: SetupBase,
    pub(crate) start_timeout: Duration,
    pub(crate) log_bytes_max: u64,
    pub(crate) watch: Watch,
    pub(crate) sandbox: Arc<Sandbox>,
    pub(crate) binaries: Binaries,
    pub(crate) source: Arc<dyn BinarySource>,
    pub(crate) outputs: Outputs,
    pub(crate) jobtracker: RpcClient,
    pub(crate) inputs: mpsc::Sender<Input>,
}

/// The data that every runner gets besides its program.
#[derive(Clone)]
pub(crate) struct SetupBase {
    pub(crate) namenode: String,
    /// Name of this machine.
    pub(crate) host: String,
    /// Equal for workers whose tasks can open each other's files.
    pub(crate) boot_id: String,
    /// Signs the passes of tasks; it never leaves the worker.
    pub(crate) secret: protocol::auth::Key,
    pub(crate) memory_bytes_max: u64,
}

impl SetupBase {
    /// The first message to a runner of a job.
    pub(super) fn of(&self, job: JobId, program: Program) -> Setup {
        Setup {
            pass: self.pass(job, &program.user),
            program,
            namenode: self.namenode.clone(),
            host: self.host.clone(),
            boot_id: self.boot_id.clone(),
            memory_bytes_max: self.memory_bytes_max,
            local_output: None,
        }
    }

    /// A pass for tasks of a job.
    pub(super) fn pass(&self, job: JobId, user: &str) -> Pass {
        let lifetime_ms = u64::try_from(PASS_LIFETIME.as_millis()).unwrap_or(u64::MAX);
        let expires_ms = transport::rpc::now_ms().saturating_add(lifetime_ms);
        Pass::issue(&self.secret, PassName { job, user: user.to_owned(), expires_ms })
    }
}

/// Tells the worker's loop what a thread has done.
#[expect(clippy::disallowed_methods, reason = "the loop waits for nobody")]
pub(super) fn tell(inputs: &mpsc::Sender<Input>, event: Event) {
    // If the loop has ended, nobody needs it.
    let _ = inputs.blocking_send(Input::Event(event));
}
