//! Accepts a job: refusals, repeated calls, and the start of a new job.

use protocol::jobs::{ATTEMPTS_MAX, JobSpec};
use protocol::rounds::{PARTITIONS_MAX, ROUNDS_MAX, RoundsSpec};
use protocol::sizing::SIZES_MAX;
use protocol::{CallId, ErrorKind, JobId, RemoteError, wire};

use super::edit::{Edit, Submitted};
use super::jobs::{Phase, Settings};
use super::{Core, Effect, Now, Output, order};

/// Most maps or reduces of a job; a hundred times what the table of a job's page can display.
const TASKS_MAX: usize = 1_000_000;
/// Largest encoded specification, below the limit of one journal record.
const SPEC_BYTES_MAX: usize = 15 << 20;
/// Most bytes of the arguments and properties of a job, which every task gets: twice what the system takes as a command line, since `-D` options are in both.
const PROGRAM_BYTES_MAX: usize = 4 << 20;
/// Longest name of a job, bytes: lists and pages display it in full.
const NAME_BYTES_MAX: usize = 1024;
/// Longest name of a user, bytes: as in the systems that assign them.
const USER_BYTES_MAX: usize = 256;

/// The first answer to a submission.
#[derive(Debug)]
pub(crate) enum Submission {
    /// The job exists already (the call is a repeat).
    Known(JobId),
    /// [`Output::submitted`] will have the answer.
    Waiting(JobId, Output),
}

impl Core {
    /// A job is submitted.
    pub(crate) fn submit(
        &mut self,
        call: CallId,
        user: &str,
        spec: JobSpec,
        now: Now,
    ) -> Result<Submission, RemoteError> {
        let call = call.of(user);
        if let Some(id) = self.calls.get(&call) {
            let preparing = self.jobs.get(id).is_some_and(|job| job.phase == Phase::Preparing);
            return Ok(if preparing {
                Submission::Waiting(*id, Output::default())
            } else {
                Submission::Known(*id)
            });
        }
        check(&spec)?;
        check_name("user", user, USER_BYTES_MAX)?;
        let settings = Settings::parse(&spec.properties)
            .map_err(|error| RemoteError::new(ErrorKind::InvalidArgument, error.to_string()))?;
        let queue = self.queues.admit(settings.queue.as_deref(), user)?;
        self.unfinished.check(&self.rules.bounds, user, &spec)?;
        if self.outputs_claimed.contains_key(&spec.output) {
            return Err(output_exists(&spec));
        }
        let job = JobId { cluster_start: self.cluster_start, number: self.next_number };
        let submitted = Submitted {
            job,
            call,
            user: user.to_owned(),
            submitted_ms: now.wall_ms,
            epoch: self.epoch,
            queue,
            spec,
        };
        let mut out = Output::default();
        self.commit(Edit::Admitted(Box::new(submitted)), &mut out);
        order(&self.jobs[&job], Effect::Setup { resumed: false }, &mut out);
        Ok(Submission::Waiting(job, out))
    }
}

fn check_name(what: &str, name: &str, bytes_max: usize) -> Result<(), RemoteError> {
    if name.len() <= bytes_max {
        return Ok(());
    }
    let text = format!("The name of a {what} has at most {bytes_max} bytes, not {}", name.len());
    Err(RemoteError::new(ErrorKind::LimitExceeded, text))
}

/// Checks the number of tasks, for each of which the core makes room at once (some 15 bytes, and what a split needs): of a submission, and of one that is
/// read from the disk.
///
/// # Errors
/// [`ErrorKind::LimitExceeded`].
pub(crate) fn check_task_count(spec: &JobSpec) -> Result<(), RemoteError> {
    if spec.splits.len() > TASKS_MAX || spec.reduce_count as usize > TASKS_MAX {
        return Err(RemoteError::new(
            ErrorKind::LimitExceeded,
            format!("A job has at most {TASKS_MAX} map and as many reduce tasks"),
        ));
    }
    Ok(())
}

/// Checks how a job goes in rounds: of a submission, and of one that is read from the disk.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`] or [`ErrorKind::LimitExceeded`].
pub(crate) fn check_rounds(spec: &JobSpec, rounds: RoundsSpec) -> Result<(), RemoteError> {
    let refuse = |kind, reason: String| Err(RemoteError::new(kind, reason));
    let RoundsSpec { last, .. } = rounds;
    if spec.reduce_count == 0 {
        let text = "A job in rounds has partitions: its number of reduces is above 0";
        return refuse(ErrorKind::InvalidArgument, text.to_owned());
    }
    if spec.sizing.is_some() {
        let text = "The partitions of a job in rounds are given, and not chosen by size";
        return refuse(ErrorKind::InvalidArgument, text.to_owned());
    }
    if last == 0 || last > ROUNDS_MAX {
        let text = format!("The last round of a job is between 1 and {ROUNDS_MAX}, not {last}");
        return refuse(ErrorKind::LimitExceeded, text);
    }
    if spec.reduce_count > PARTITIONS_MAX {
        let count = spec.reduce_count;
        let text = format!("A job in rounds has at most {PARTITIONS_MAX} partitions, not {count}");
        return refuse(ErrorKind::LimitExceeded, text);
    }
    let task_count = (u64::from(last) + 1) * u64::from(spec.reduce_count);
    if task_count > TASKS_MAX as u64 {
        let text = format!(
            "A job has at most {TASKS_MAX} tasks of rounds, and this one may have {task_count}: give fewer rounds or partitions"
        );
        return refuse(ErrorKind::LimitExceeded, text);
    }
    Ok(())
}

/// The refusal of arguments and properties that take so many bytes.
pub(super) fn program_too_long(bytes: usize) -> RemoteError {
    let text = format!(
        "The arguments and properties of a job have at most {PROGRAM_BYTES_MAX} bytes, not {bytes}: put what is long into a file and ship that"
    );
    RemoteError::new(ErrorKind::LimitExceeded, text)
}

fn check(spec: &JobSpec) -> Result<(), RemoteError> {
    check_name("job", &spec.name, NAME_BYTES_MAX)?;
    let invalid = |reason: &str| Err(RemoteError::new(ErrorKind::InvalidArgument, reason));
    if spec.name.contains(['\n', '\r', '\t', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}']) {
        // In lists of jobs they would begin lines and columns of their own. What steers a terminal is escaped where it is printed.
        return invalid("The name of a job has no tabs and no ends of lines");
    }
    check_task_count(spec)?;
    spec.rounds.map_or(Ok(()), |rounds| check_rounds(spec, rounds))?;
    let program_bytes = wire::length(&(&spec.args, &spec.properties));
    if program_bytes > PROGRAM_BYTES_MAX {
        return Err(program_too_long(program_bytes));
    }
    let bytes = wire::length(spec);
    if bytes > SPEC_BYTES_MAX {
        let (splits, (files, _)) = (spec.splits.len(), spec.splits.input_size());
        let text = format!(
            "The description of the job, with {files} input files in {splits} splits, has {bytes} bytes, and at most {SPEC_BYTES_MAX} fit: give a part of the input to each of several jobs, or larger splits"
        );
        return Err(RemoteError::new(ErrorKind::LimitExceeded, text));
    }
    if spec.attempts_max == 0 || spec.attempts_max > ATTEMPTS_MAX {
        let text = format!("The number of attempts per task must be between 1 and {ATTEMPTS_MAX}");
        return invalid(&text);
    }
    if spec.slow_start_permille > 1000 {
        return invalid("Slow start is at most 1000 per mille");
    }
    if spec.sizing.is_some() && sizes(spec) > SIZES_MAX {
        return Err(RemoteError::new(
            ErrorKind::LimitExceeded,
            format!(
                "The sizes of more than {SIZES_MAX} partitions of maps would be kept; give a number of reduces"
            ),
        ));
    }
    if spec.output.is_root() {
        return Err(output_exists(spec));
    }
    Ok(())
}

/// Sizes that maps will report while the reduces are not chosen yet.
fn sizes(spec: &JobSpec) -> u64 {
    (spec.splits.len() as u64).saturating_mul(u64::from(spec.reduce_count))
}

fn output_exists(spec: &JobSpec) -> RemoteError {
    RemoteError::new(
        ErrorKind::AlreadyExists,
        format!("Output directory {} already exists", spec.output),
    )
}
