//! What can go wrong in a job's process, apart from what user code reports itself. There is one type, for the model and for what runs it, because an
//! author gets either from one call.

use std::path::PathBuf;

use protocol::DfsPath;

pub use mr_formats::{BoxError, Result};

/// How [`Error::Map`] begins; [`crate::replay::RecordPlace`] reads it.
pub(crate) use protocol::record::MAP_FAILED;

/// The position of a record, behind its file.
fn at_byte(offset: Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(", byte {offset}"))
}

/// Failures that this crate itself reports.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line is wrong; the user should read the program's usage.
    #[error("{reason}\nTry `--help`.")]
    Usage {
        /// What is wrong.
        reason: String,
    },
    /// A property does not accept the given value.
    #[error(transparent)]
    Property(#[from] protocol::property::PropertyError),
    /// The author gave a job a property that it cannot have.
    #[error("the job `{job}`: {reason}")]
    JobProperty {
        /// Its name.
        job: String,
        /// What is wrong.
        reason: String,
    },
    /// A task asked for something that only the driver's machine has, and the driver did not ask for.
    #[error(
        "the job's function asks for the {what} {name} here, and did not in the driver: nothing was sent"
    )]
    NotShipped {
        /// The kind of thing: a file, a value.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The job's function fails when it runs again on a worker.
    #[error(
        "the job's function ran again on a worker, to rebuild the job, and failed there: {message}\n\
         What it reads must come along: `Args::file` sends a file, `Args::once` a value that only the driver makes; variables of the environment come along by themselves."
    )]
    Rebuild {
        /// Error or panic message.
        message: String,
    },
    /// The driver runs a step that workers could not find.
    #[error(
        "the program does not name the step {name}, so workers could not build it: add `.step(…)` for it to the Program"
    )]
    StepUnknown {
        /// Its function.
        name: String,
    },
    /// A worker is to build a step that this executable does not have.
    #[error("this executable has no step {name}")]
    StepMissing {
        /// What the driver sent.
        name: String,
    },
    /// The parameters of a step cannot be sent, or not be read again.
    #[error("the parameters of the step {step}: {reason}")]
    Parameters {
        /// Its function.
        step: String,
        /// What is wrong.
        reason: String,
    },
    /// An output is too long to be kept in memory at once.
    #[error("the output {path} has more than {most} bytes: read it with Done::for_each")]
    OutputTooLong {
        /// The output.
        path: String,
        /// The limit.
        most: usize,
    },
    /// The user gave `--help`: not a failure.
    #[error("help was asked for")]
    HelpAsked,
    /// User code exceeds the limits of counters.
    #[error(transparent)]
    Counters(#[from] protocol::counters::CountersError),
    /// A path of this machine where only a path of the cluster makes sense.
    #[error(
        "{path} is a path of this machine, which tasks do not see: give it with --files, or put it into the cluster"
    )]
    NotOfCluster {
        /// As given.
        path: String,
    },
    /// A path of a cluster although there is none.
    #[error(
        "{path} is a path of a cluster, and this job runs on files of this machine: set HANNO_NAMENODE and HANNO_JOBTRACKER, without --local"
    )]
    NotOfMachine {
        /// As given.
        path: String,
    },
    /// A path without a character.
    #[error("Can not create a Path from an empty string")]
    EmptyPath,
    /// Nothing matches an input path.
    #[error("Input path does not exist: {path}")]
    NoInput {
        /// As given.
        path: String,
    },
    /// A glob without matches.
    #[error("Input pattern {pattern} matches 0 files")]
    NoMatch {
        /// As given.
        pattern: String,
    },
    /// A directory in an input directory.
    #[error(
        "Not a file: {path} (-D mapreduce.input.fileinputformat.input.dir.recursive=true reads directories in input directories)"
    )]
    NotAFile {
        /// The directory.
        path: String,
    },
    /// A pipe, a device, a directory where a file is needed.
    #[error("{} is not a file", path.display())]
    NotRegular {
        /// What it is.
        path: PathBuf,
    },
    /// A file whose length is not that of its content.
    #[error(
        "{} says that it is empty, and is not: copy it to an ordinary file first",
        path.display()
    )]
    NoLength {
        /// The file.
        path: PathBuf,
    },
    /// The job would have more maps than allowed.
    #[error("the job would have {count} maps, and may have {most} (mapreduce.job.max.map)")]
    TooManyMaps {
        /// Splits.
        count: usize,
        /// The limit.
        most: u32,
    },
    /// The output already exists.
    #[error("Output directory {path} already exists")]
    OutputExists {
        /// As given.
        path: String,
    },
    /// A stage reads the output of the one before it, but there is none.
    #[error("the first job of a plan cannot read the output of a job before it")]
    NoPrevious,
    /// A mapper failed while the driver sampled the input.
    #[error("sampling the input failed at {path}{}: {message}", at_byte(*.offset))]
    Sample {
        /// File that was read.
        path: String,
        /// First byte of the record, if one was being read.
        offset: Option<u64>,
        /// Error or panic message.
        message: String,
    },
    /// Ends the reading of a split, because user code has seen enough; not a failure. See [`crate::map::enough`].
    #[error("enough was seen")]
    SeenEnough,
    /// Ends the reading of a sample; not a failure.
    #[error("enough was sampled")]
    SampledEnough,
    /// Maps emitted several values for a key of a job in rounds that joins none.
    #[error(
        "maps emitted several values for one key: what is fixed of a key is one value, unless `Rounds::join` joins them"
    )]
    SeveralFixed,
    /// A job cannot go in such rounds.
    #[error(transparent)]
    Rounds(#[from] protocol::rounds::RoundsError),
    /// A task of a round has more to tell the next than messages can carry.
    #[error("the summary of the task has {bytes} bytes, and may have {most}")]
    SummaryTooLong {
        /// As encoded.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// A map did not receive the key ranges of the reduces.
    #[error("the job's key ranges are missing")]
    NoBoundaries,
    /// A merge join needs sorted files.
    #[error("{path} is not sorted by its keys")]
    NotSorted {
        /// The file.
        path: String,
    },
    /// A merge join got keys out of rising order.
    #[error("a key of {path} was asked for that comes before the one asked for last")]
    KeysFall {
        /// The file.
        path: String,
    },
    /// A typed pair for an output that is text.
    #[error("`append` writes to SequenceFiles alone: see `sequence_out`")]
    NoSequenceFile,
    /// A record for a writer other than the output format's.
    #[error("the output is not written by {writer}")]
    OutputWriter {
        /// Its type.
        writer: &'static str,
    },
    /// The operating system refused an operation on a local file.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// As a verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// An operation on the file system of the cluster failed.
    #[error("cannot {operation} {path}")]
    Dfs {
        /// As a verb.
        operation: &'static str,
        /// The file.
        path: DfsPath,
        /// Cause.
        #[source]
        source: BoxError,
    },
    /// User code failed or panicked in a map.
    #[error("{MAP_FAILED}{path}{}: {message}", at_byte(*.offset))]
    Map {
        /// Input file.
        path: String,
        /// Position of the record in it, bytes; unknown where a script had read ahead.
        offset: Option<u64>,
        /// Error or panic message.
        message: String,
    },
    /// User code failed or panicked in a reduce.
    #[error("reduce of partition {partition} failed at group {group}: {message}")]
    Reduce {
        /// Partition number.
        partition: u32,
        /// How many groups were begun.
        group: u64,
        /// Error or panic message.
        message: String,
    },
    /// A segment of a reduce's input is damaged.
    #[error("input segment {index} cannot be used: {reason}")]
    DamagedInput {
        /// Position in the list of sources.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A reduce found damaged input too often.
    #[error("damaged map outputs were met {count} times")]
    TooManyDamagedInputs {
        /// How often.
        count: u32,
    },
    /// What the program was asked to print is lost.
    #[error("cannot write to standard output")]
    Unprinted(#[source] std::io::Error),
    /// The output of a job that succeeded could not be copied to this machine.
    #[error("the job is done, but its output cannot be fetched; `{commands}` fetches it")]
    Unfetched {
        /// What does so once the cause is gone.
        commands: String,
        /// An output lies where the driver had staged it.
        is_staged: bool,
        /// Cause.
        #[source]
        source: BoxError,
    },
    /// A job ended without success.
    #[error("Job {name} failed: {diagnostics}")]
    JobFailed {
        /// Its name or id.
        name: String,
        /// Why.
        diagnostics: String,
    },
    /// A panic outside user code.
    #[error("job {number} of the plan could not be run: {message}")]
    StagePanic {
        /// Position in the plan, from 1.
        number: usize,
        /// The panic's message and place.
        message: String,
    },
    /// A job was not run, or was ended, because another job of the plan failed.
    #[error("another job of the plan failed")]
    PlanFailed,
    /// A job was killed.
    #[error("Job {name} was killed")]
    JobKilled {
        /// Its id.
        name: String,
    },
    /// The program found no `hanno` binary to start an embedded cluster with.
    #[error(
        "no cluster is configured and no `hanno` binary was found to start one: set HANNO_NAMENODE and HANNO_JOBTRACKER, \
         or HANNO_BIN to the path of `hanno`, or give --local"
    )]
    NoClusterBinary,
    /// What should start an embedded cluster is named, and not there.
    #[error("{variable} names {}, and no file is there", path.display())]
    NoBinaryThere {
        /// What names it.
        variable: &'static str,
        /// Its path.
        path: PathBuf,
    },
    /// The embedded cluster did not come up.
    #[error("the embedded cluster did not start: {reason}")]
    ClusterStart {
        /// The last lines it wrote.
        reason: String,
    },
    /// The job rebuilt from the arguments differs from the submitted one.
    #[error("this executable builds another job than was submitted: {difference}")]
    Fingerprint {
        /// The first line that differs.
        difference: String,
    },
    /// A script of a streaming job does not start.
    #[error("cannot start `{command}`{hint}")]
    ScriptStart {
        /// The command.
        command: String,
        /// Empty, or what to do about it.
        hint: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// Writing to a script's input failed.
    #[error("cannot write to the standard input of the command")]
    ScriptInput {
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A script exited with a failure.
    #[error("the command `{command}` ended with {status}{stderr}")]
    ScriptExit {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// Empty, or the lines it wrote on standard error.
        stderr: String,
    },
    /// A script printed something that is not a record.
    #[error("the output of the command is malformed: {reason}")]
    ScriptRecord {
        /// What is wrong.
        reason: &'static str,
    },
    /// Malformed typed bytes.
    #[error("malformed typed bytes: {reason}")]
    TypedBytes {
        /// What is wrong.
        reason: &'static str,
    },
    /// A task asks for a side file that the job does not have.
    #[error("the job has no side file `{name}`: give it with --files or Job::side_file")]
    NoSideFile {
        /// Its name.
        name: String,
    },
    /// The directory of an attempt has another file of this name.
    #[error(
        "no side file can have the name `{name}`, which is taken in the directories of tasks: give it another with PATH#NAME"
    )]
    SideFileTaken {
        /// The name.
        name: String,
    },
    /// A side file arrived with bytes that differ from those submitted.
    #[error("the side file `{name}` is not the one that was submitted (its hash differs)")]
    SideFileChanged {
        /// Its name.
        name: String,
    },
    /// A value that Hadoop's aggregate library does not know.
    #[error("not for the aggregate library: `{text}`")]
    Aggregate {
        /// Key or value.
        text: String,
    },
    /// A field of a record is not what it should be.
    #[error("`{field}` is no {expected} ({reason}), in the record `{record}`")]
    Field {
        /// Its text.
        field: String,
        /// What it should be, as a noun.
        expected: String,
        /// Why it is not.
        reason: String,
        /// The text of the record.
        record: String,
    },
    /// An invalid name for a named output.
    #[error(
        "`{name}` cannot be the name of an output: letters, digits, `-`, `_`, `.`, and not `part`"
    )]
    OutputName {
        /// The name.
        name: String,
    },
    /// A named output with the base name of the main one.
    #[error(
        "`{name}` cannot be the name of an output: {file} is the main file of this task (mapreduce.output.basename)"
    )]
    OutputIsMain {
        /// The name.
        name: String,
        /// The main file.
        file: String,
    },
    /// Two outputs of a task with one file.
    #[error("two outputs of this task would write the file {file}")]
    OutputTwice {
        /// Its name.
        file: String,
    },
    /// The system refused to tell of signals.
    #[error("cannot watch for signals")]
    Signals {
        /// Why.
        source: std::io::Error,
    },
    /// The worker violated the protocol.
    #[error("unexpected message from the worker: {what}")]
    Conversation {
        /// What it sent.
        what: String,
    },
}

impl Error {
    /// The job that the error is about, if it is about one that ran.
    pub fn job(&self) -> Option<&str> {
        match self {
            Error::JobFailed { name, .. } | Error::JobKilled { name } => Some(name),
            _ => None,
        }
    }

    /// The command line is wrong, for this reason.
    pub fn usage(reason: impl Into<String>) -> Error {
        Error::Usage { reason: reason.into() }
    }

    /// An operation, as a verb, on a file of this machine failed.
    pub fn file(
        operation: &'static str,
        path: &std::path::Path,
    ) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::File { operation, path: path.to_owned(), source }
    }

    /// An operation, as a verb, on a file of the cluster failed.
    pub fn dfs<E: Into<BoxError>>(
        operation: &'static str,
        path: &DfsPath,
    ) -> impl FnOnce(E) -> Error {
        move |source| Error::Dfs { operation, path: path.clone(), source: source.into() }
    }
}
