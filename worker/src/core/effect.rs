//! What the core orders, and what it has to say to people.

use std::time::Duration;

use protocol::level::FeatureLevel;
use protocol::tracker::{MapOutput, Program, Request, Work};
use protocol::{AttemptId, BinaryHash, Epoch, JobId};

use super::event::{CallNumber, RunnerId};

/// An order of the core. The caller performs effects in their order; the results may come later, as events.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a request to the JobTracker, once. Leads to [`super::Event::Answered`].
    Call {
        /// The number of the call.
        call: CallNumber,
        /// The message.
        request: Request,
        /// Time after which it counts as lost.
        timeout: Duration,
    },
    /// Make the directory of an attempt and, if they are missing, those of its job. Leads to [`super::Event::Prepared`].
    Prepare(AttemptId),
    /// Have an executable ready, from the files of the user if it is not. Leads to [`super::Event::Fetched`].
    Fetch(BinaryHash, String),
    /// Link outputs of other workers on this machine beside those held here. Leads to [`super::Event::Linked`].
    Link(Vec<MapOutput>),
    /// Start a runner. Leads to [`super::Event::Runner`], until [`super::News::Gone`].
    Start {
        /// Its number.
        runner: RunnerId,
        /// Its job.
        job: JobId,
        /// The program and options of its job.
        program: Box<Program>,
        /// Time without a sign of life of an attempt; zero means no limit.
        silence_max: Duration,
    },
    /// Give a runner without an attempt this one. If its process was ready, is over and has not taken it, [`super::Event::Undelivered`] gives it back with all
    /// news for it until then.
    Give {
        /// The runner.
        runner: RunnerId,
        /// The attempt.
        attempt: AttemptId,
        /// Its work.
        work: Work,
    },
    /// Send a runner news for its reduce.
    Announce {
        /// The runner.
        runner: RunnerId,
        /// Map outputs newly available.
        available: Vec<MapOutput>,
        /// Map outputs no longer valid.
        obsolete: Vec<AttemptId>,
    },
    /// Give a runner a new pass.
    RenewPass(RunnerId),
    /// Ask an idle runner to exit.
    Exit(RunnerId),
    /// End a runner at once.
    Kill(RunnerId),
    /// Check the output that a map or a task of a round reports, and move it out of reach of tasks. Leads to [`super::Event::OutputTaken`].
    TakeOutput {
        /// The attempt.
        attempt: AttemptId,
        /// The path that its process reports: any text.
        data_path: String,
        /// Partitions that the output must have.
        partition_count: u32,
    },
    /// Read which record the process of a map named last. Leads to [`super::Event::RecordRead`].
    ReadRecord(AttemptId),
    /// Delete the directory of an attempt that is over.
    DeleteAttempt(AttemptId),
    /// Serve the outputs of a job no longer.
    ForgetOutputs(JobId),
    /// Serve these outputs no longer, and delete them; some may be links to those of another worker.
    DropOutputs(Vec<AttemptId>),
    /// End what is left of a job's processes and delete its files. Leads to [`super::Event::JobDeleted`].
    DeleteJob(JobId),
    /// Measure what the files of jobs use on disk. Leads to [`super::Event::DiskMeasured`].
    MeasureDisk,
    /// Delete old logs.
    PruneLogs,
    /// Log this.
    Log(Note),
    /// The worker is over.
    End,
}

/// Something to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The JobTracker took the registration.
    Registered {
        /// Feature level of the cluster.
        level: FeatureLevel,
        /// Its start.
        epoch: Epoch,
    },
    /// A JobTracker answered that began before one that this worker has obeyed.
    OlderJobtracker {
        /// Its start.
        epoch: Epoch,
        /// The newest start.
        highest: Epoch,
    },
    /// The reply to a registration was another reply.
    OddRegistration,
    /// The reply to a poll was another reply.
    OddPoll,
    /// A registration failed; the reason.
    CannotRegister(String),
    /// The JobTracker does not take this worker; the reason.
    RegistrationRefused(String),
    /// A poll failed; the reason.
    CannotPoll(String),
    /// The JobTracker wants another registration.
    Fenced,
    /// A report failed and is kept; the reason.
    ReportKept(String),
    /// The JobTracker refuses what a report says.
    ReportRefused {
        /// Its reason.
        reason: String,
        /// Ends of attempts in it.
        ends: usize,
        /// Failed fetches in it.
        fetch_failures: usize,
    },
    /// Runners did not end in time when the worker stopped.
    RunnersLeft,
}
