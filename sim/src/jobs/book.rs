//! What clients of the JobTracker were promised, what processes of tasks did, and what the log decided.
//!
//! - A job that was acknowledged is known and ends; what is said of an ended job never changes. A kill that was granted is how it ends.
//! - A task has one winner: an attempt that has ended well in its process, on the worker that the log names; until its output is lost, no other wins. Nothing
//!   wins that was stopped, that failed, or whose job is over.
//! - The output of a job that succeeded has the winners' files and no others; its counters are theirs. Of another job, nothing is left.

use std::collections::{BTreeMap, BTreeSet};

use jobtracker::sim::{Decision, decision};
use protocol::jobs::{Call, JobReport, JobState, Reply, TaskReport};
use protocol::namenode::{self, LIST_ENTRIES_MAX};
use protocol::{AttemptId, DfsPath, ErrorKind, InodeId, JobId, TaskId, TaskKind, WorkerId};

/// Attempts of a task of which the last fails the job.
pub(super) const ATTEMPTS_MAX: u32 = 4;
/// Group and name of the tasks' own counter.
pub(super) const COUNTER: (&str, &str) = ("sim", "records");

/// Makes a call of the NameNode, without a network.
pub(super) type AskNames<'a> =
    &'a mut dyn FnMut(namenode::Call) -> Result<namenode::Reply, ErrorKind>;
/// Makes a call of the JobTracker, without a network.
pub(super) type AskJobs<'a> = &'a mut dyn FnMut(Call, &mut Book) -> Result<Reply, String>;

/// What a process made that ended well.
#[derive(Clone, Copy, Debug)]
struct Made {
    worker: WorkerId,
    records: u64,
    /// Its file, unless it is a map output.
    file: Option<InodeId>,
}

#[derive(Default)]
pub(super) struct Book {
    acknowledged: BTreeSet<JobId>,
    kill_asked: BTreeSet<JobId>,
    kill_granted: BTreeSet<JobId>,
    /// What was said of jobs that are over.
    finals: BTreeMap<JobId, JobReport>,
    made: BTreeMap<AttemptId, Made>,
    /// Their processes were ended before they were done.
    stopped: BTreeSet<AttemptId>,
    failed: BTreeSet<AttemptId>,
    winners: BTreeMap<TaskId, AttemptId>,
    ended: BTreeMap<JobId, JobState>,
}

impl Book {
    pub(super) fn acknowledged(&mut self, job: JobId) {
        self.acknowledged.insert(job);
    }

    pub(super) fn kill_asked(&mut self, job: JobId) {
        self.kill_asked.insert(job);
    }

    pub(super) fn kill_granted(&mut self, job: JobId) {
        self.kill_granted.insert(job);
        if let Some(state) = self.ended.get(&job) {
            assert_eq!(*state, JobState::Killed, "the kill of {job} was granted after its end");
        }
    }

    /// A process has done its work, before its worker learns of that.
    pub(super) fn made(
        &mut self,
        attempt: AttemptId,
        worker: WorkerId,
        records: u64,
        file: Option<InodeId>,
    ) {
        assert!(!self.stopped.contains(&attempt), "{attempt} goes on after it was stopped");
        let before = self.made.insert(attempt, Made { worker, records, file });
        assert!(before.is_none(), "{attempt} ends twice");
    }

    /// A process is ended before it is done.
    pub(super) fn stopped(&mut self, attempt: AttemptId) {
        self.stopped.insert(attempt);
    }

    /// The log has an edit, for ever.
    pub(super) fn logged(&mut self, edit: &[u8]) {
        match decision(edit) {
            Some(Decision::Won(attempt, worker)) => self.won(attempt, worker),
            Some(Decision::Lost(map)) => {
                let before = self.winners.remove(&map.task);
                assert_eq!(before, Some(map), "the output of {map} counted");
            }
            Some(Decision::Failed(attempt)) => {
                let winner = self.winners.get(&attempt.task);
                assert_ne!(winner, Some(&attempt), "a winner fails");
                self.failed.insert(attempt);
            }
            Some(Decision::Ended(job, state)) => {
                let before = self.ended.insert(job, state);
                assert_eq!(before, None, "{job} ends twice");
                let is_kept = state == JobState::Killed || !self.kill_granted.contains(&job);
                assert!(is_kept, "the kill of {job} was granted and it ends as {state:?}");
            }
            None => {}
        }
    }

    fn won(&mut self, attempt: AttemptId, worker: WorkerId) {
        let made = self.made.get(&attempt);
        let made = made.unwrap_or_else(|| panic!("{attempt} won and has made nothing"));
        assert_eq!(made.worker, worker, "{attempt} ran elsewhere");
        assert!(!self.stopped.contains(&attempt), "{attempt} won although it was stopped");
        assert!(!self.failed.contains(&attempt), "{attempt} won although it failed");
        let job = attempt.task.job;
        assert_eq!(self.ended.get(&job), None, "{attempt} won after its job's end");
        let before = self.winners.insert(attempt.task, attempt);
        assert_eq!(before, None, "{} has one winner, {attempt} is another", attempt.task);
    }

    /// A client reads what a job has come to. True if it is over.
    pub(super) fn read(&mut self, report: &JobReport) -> bool {
        let job: JobId = report.id.parse().expect("the id of a job");
        if !report.state.is_final() {
            assert!(!self.finals.contains_key(&job), "{job} goes on after its end");
            return false;
        }
        assert_eq!(self.ended.get(&job), Some(&report.state), "{job}: said before it is logged");
        let first = self.finals.entry(job).or_insert_with(|| report.clone());
        assert_eq!(first, report, "what is said of {job} changes");
        if report.state == JobState::Killed {
            assert!(self.kill_asked.contains(&job), "nobody killed {job}");
        }
        true
    }

    /// A client asked about a job.
    pub(super) fn unknown(&self, job: JobId) {
        assert!(!self.acknowledged.contains(&job), "{job} was acknowledged and is unknown");
    }

    /// Counts of jobs by their ends: all, succeeded, failed, killed.
    pub(super) fn counts(&self) -> [u64; 4] {
        let of = |state| self.ended.values().filter(|ended| **ended == state).count() as u64;
        let each = [JobState::Succeeded, JobState::Failed, JobState::Killed].map(of);
        [self.ended.len() as u64, each[0], each[1], each[2]]
    }

    /// Everything is over; compares what there is with what was promised.
    pub(super) fn check(&mut self, jobs: AskJobs<'_>, names: AskNames<'_>) -> Result<(), String> {
        let reports = match jobs(Call::List, self)? {
            Reply::Jobs(reports) => reports,
            other => return Err(format!("another answer: {other:?}")),
        };
        let listed: BTreeSet<&str> = reports.iter().map(|report| &*report.id).collect();
        let missing = self.acknowledged.iter().find(|job| !listed.contains(&*job.to_string()));
        assert_eq!(missing, None, "it was acknowledged");
        if let Some(open) = reports.iter().find(|report| !report.state.is_final()) {
            return Err(format!("{} is {:?}: {open:?}", open.id, open.state));
        }
        match jobs(Call::TrackerStatus, self)? {
            Reply::Tracker(status) if status.busy_slot_count == 0 => {}
            other => return Err(format!("slots are taken: {other:?}")),
        }
        match jobs(Call::Queues, self)? {
            Reply::Queues(queues) if queues.iter().all(|queue| queue.slot_count == 0) => {}
            other => return Err(format!("queues hold slots: {other:?}")),
        }
        for report in reports {
            assert!(self.read(&report));
            let job: JobId = report.id.parse().expect("the id of a job");
            let tasks = match jobs(Call::Tasks(job), self)? {
                Reply::Tasks(tasks) => tasks,
                other => return Err(format!("another answer: {other:?}")),
            };
            self.check_job(&report, &tasks, names)?;
        }
        Ok(())
    }

    fn check_job(
        &self,
        report: &JobReport,
        tasks: &[TaskReport],
        names: AskNames<'_>,
    ) -> Result<(), String> {
        let succeeded = report.state == JobState::Succeeded;
        if report.state == JobState::Failed {
            let has_reason = tasks.iter().any(|task| failed_count(task) >= ATTEMPTS_MAX as usize);
            assert!(has_reason, "{} failed, no task did: {}", report.id, report.diagnostics);
        }
        let mut records = 0;
        for task in tasks {
            let won = task.attempts.iter().filter(|attempt| attempt.state == "SUCCEEDED");
            let won: Vec<&str> = won.map(|attempt| &*attempt.id).collect();
            let winner = self.winners.get(&task.id);
            let expected: Vec<String> = winner.iter().map(ToString::to_string).collect();
            assert_eq!(won, expected, "{}: the winner", task.id);
            // A reduce can be done before a map whose output was lost has run again.
            let is_needed = task.id.kind == TaskKind::Reduce || report.reduces.total == 0;
            assert!(!succeeded || !is_needed || winner.is_some(), "{} has no winner", task.id);
            records += winner.map_or(0, |winner| self.made[winner].records);
        }
        if succeeded {
            let counted = report.counters.value(COUNTER.0, COUNTER.1);
            assert_eq!(counted, records, "{}: counters", report.id);
        }
        let there = listing(&report.output, names)?;
        let expected = succeeded.then(|| self.expected(tasks, report.reduces.total > 0));
        match there == expected {
            true => Ok(()),
            false => Err(format!("{}: {:?}, {there:?}, not {expected:?}", report.id, report.state)),
        }
    }

    /// The files of a job that succeeded.
    fn expected(
        &self,
        tasks: &[TaskReport],
        has_reduces: bool,
    ) -> BTreeMap<String, Option<InodeId>> {
        let kind = if has_reduces { TaskKind::Reduce } else { TaskKind::Map };
        let winners = tasks.iter().filter(|task| task.id.kind == kind);
        let winners = winners.filter_map(|task| self.winners.get(&task.id));
        let files = winners.map(|winner| (part(winner.task), self.made[winner].file));
        files.chain([("_SUCCESS".to_owned(), None)]).collect()
    }
}

fn failed_count(task: &TaskReport) -> usize {
    task.attempts.iter().filter(|attempt| attempt.state == "FAILED").count()
}

/// The name of a task's file.
pub(super) fn part(task: TaskId) -> String {
    format!("part-{}-{:05}", task.kind.letter(), task.index)
}

/// The entries of an output directory, each with its file unless it is the mark of success; `None` if there is no directory.
fn listing(
    output: &DfsPath,
    names: AskNames<'_>,
) -> Result<Option<BTreeMap<String, Option<InodeId>>>, String> {
    let (path, limit) = (output.clone(), LIST_ENTRIES_MAX);
    match names(namenode::Call::List { path, start_after: String::new(), limit }) {
        Ok(namenode::Reply::Listing { entries, .. }) => {
            if let Some(open) = entries.iter().find(|entry| entry.open) {
                return Err(format!("{output}/{} is open", open.name));
            }
            let file = |name: &str, inode| (name != "_SUCCESS").then_some(inode);
            let each =
                entries.iter().map(|entry| (entry.name.clone(), file(&entry.name, entry.inode)));
            Ok(Some(each.collect()))
        }
        Err(ErrorKind::NotFound) => Ok(None),
        other => Err(format!("{output}: {other:?}")),
    }
}
