//! The state as reported to people and clients.

use std::sync::Arc;

use daemon::page::live;
use protocol::jobs::{
    AttemptReport, JobReport, JobState, QueueReport, Replay, Splits, TaskReport, TrackerStatus,
    WorkerReport,
};
use protocol::tracker::{Launch, Work};
use protocol::{AttemptId, ErrorKind, JobId, RemoteError, TaskKind};

use crate::core::jobs::{Job, Phase, SPLITS_KEPT_MAX, Task, TaskSet};
use crate::core::rights::{Administrators, Caller, Operation, Whose};
use crate::core::slots::{Queue, Standing};
use crate::core::workers::{Lately, Liveness, Worker};
use crate::core::{Core, Now};

/// A worker as pages list it.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerRow {
    pub(crate) report: WorkerReport,
    /// What ended there in the last hour.
    pub(crate) lately: Lately,
}

impl Core {
    /// All jobs, newest first; of jobs that `caller` may not view, only the outline.
    pub(crate) fn job_reports(&self, caller: &Caller<'_>) -> Vec<JobReport> {
        let report = |job: &Job| match self.may(caller, Operation::View, job) {
            true => job_report(job),
            false => job_report(job).outline(),
        };
        self.jobs.values().rev().map(report).collect()
    }

    /// One job.
    pub(crate) fn job_report(&self, id: JobId) -> Result<JobReport, RemoteError> {
        self.known(id).map(job_report)
    }

    /// Other jobs of the same name that `caller` may view, newest first, at most this many.
    pub(crate) fn other_runs(
        &self,
        caller: &Caller<'_>,
        id: JobId,
        count_max: usize,
    ) -> Result<Vec<JobReport>, RemoteError> {
        let job = self.known(id)?;
        let is_other = |other: &&Job| {
            let is_one = other.id != id && other.spec.name == job.spec.name;
            is_one && self.may(caller, Operation::View, other)
        };
        Ok(self.jobs.values().rev().filter(is_other).take(count_max).map(job_report).collect())
    }

    /// Tasks of a job, maps first.
    pub(crate) fn task_reports(&self, id: JobId) -> Result<Vec<TaskReport>, RemoteError> {
        let job = self.known(id)?;
        let mut reports = Vec::new();
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            let tasks = job.tasks(kind).iter();
            reports.extend(tasks.map(|(index, task)| task_report(job, kind, index, task)));
        }
        Ok(reports)
    }

    /// The data needed to run an attempt again.
    pub(crate) fn replay(&self, id: AttemptId) -> Result<Replay, RemoteError> {
        let job = self.known(id.task.job)?;
        let attempt = job.attempt(id).ok_or_else(|| {
            let text = format!("Could not find attempt {id}");
            RemoteError::new(ErrorKind::InvalidArgument, text)
        })?;
        if job.rounds.is_some() && id.task.kind == TaskKind::Reduce {
            let text = format!(
                "{id} is of a round: it cannot run again alone, since its input was made by other tasks and is deleted with the job. Run the whole job again, on a part of its input, to follow it"
            );
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        let splits = &job.spec.splits;
        if splits.len() < job.maps.len() as usize {
            let text = format!(
                "The input of {} is not known any more: of jobs that ended with more than {SPLITS_KEPT_MAX} maps it is forgotten",
                id.task.job
            );
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        let (work, splits) = match (id.task.kind, splits.get(id.task.index as usize)) {
            (TaskKind::Map, Some(split)) => {
                let skip = job.skip_list(id.task, id.number);
                (Work::Map { split, skip }, Splits::default())
            }
            _ => {
                let over = job.final_state().is_some();
                // Map outputs are deleted with the job.
                let outputs = if over { Vec::new() } else { job.map_outputs() };
                (Work::Reduce(job.reduce_work(id.task.index, outputs)), splits.clone())
            }
        };
        let launch = Launch { attempt: id, program: Arc::new(job.program()), work };
        Ok(Replay { launch, splits, diagnostics: attempt.diagnostics.clone() })
    }

    /// A number that changes when what the overview displays does; the mere passage of time does not count. Copies nothing.
    pub(crate) fn fingerprint(&self) -> u64 {
        let jobs = self.jobs.values().map(|job| {
            let shares = [&job.maps, &job.reduces].map(|tasks| (tasks.progress() * 100.0) as u8);
            let running = [&job.maps, &job.reduces].map(TaskSet::running);
            (job.id, job.final_state().is_some(), shares, running, job.priority)
        });
        let workers = self.workers.iter().map(|worker| {
            let flags = [worker.excluded, worker.blacklisted, self.is_drained(worker)];
            let load = (worker.running.len(), worker.slot_count, worker.tally.failed);
            (worker.http_address.as_str(), worker.liveness as u8, load, flags)
        });
        let queues = self.queues.iter().zip(self.standings()).map(|(queue, standing)| {
            (queue.name.as_str(), queue.slots, standing.demand, standing.share, queue.jobs.len())
        });
        live::fingerprint_of((
            Vec::from_iter(jobs),
            Vec::from_iter(workers),
            Vec::from_iter(queues),
        ))
    }

    /// Workers and slots.
    pub(crate) fn status(&self) -> TrackerStatus {
        let (worker_count, slot_count, busy) = self.workers.totals();
        let running = self.jobs.values().filter(|job| job.final_state().is_none()).count();
        TrackerStatus {
            worker_count,
            slot_count: u32::try_from(slot_count).unwrap_or(u32::MAX),
            busy_slot_count: u32::try_from(busy).unwrap_or(u32::MAX),
            running_job_count: u32::try_from(running).unwrap_or(u32::MAX),
            host_count: u32::try_from(self.workers.host_count()).unwrap_or(u32::MAX),
        }
    }

    /// All jobs, newest first, each with the users who may view it.
    pub(crate) fn jobs_with_viewers(&self) -> (Administrators, Vec<(JobReport, Whose)>) {
        let listed = |job: &Job| (job_report(job), Whose::of(job, Operation::View));
        let jobs = self.jobs.values().rev().map(listed).collect();
        (self.rules.administrators.clone(), jobs)
    }

    /// Jobs that are over, oldest first.
    pub(crate) fn final_jobs(&self) -> impl Iterator<Item = JobId> {
        self.history.iter().copied()
    }

    /// Workers that registered.
    pub(crate) fn worker_reports(&self, now: Now) -> Vec<WorkerReport> {
        let known = self.workers.iter().filter(|worker| worker.liveness != Liveness::Expected);
        known.map(|worker| self.worker_report(worker, now)).collect()
    }

    /// Workers that registered, with what failed there lately.
    pub(crate) fn worker_rows(&self, now: Now) -> Vec<WorkerRow> {
        let known = self.workers.iter().filter(|worker| worker.liveness != Liveness::Expected);
        known.map(|worker| self.worker_row(worker, now)).collect()
    }

    /// A worker for pages.
    pub(crate) fn worker_row(&self, worker: &Worker, now: Now) -> WorkerRow {
        WorkerRow { report: self.worker_report(worker, now), lately: worker.recent.lately(now.at) }
    }

    /// A worker for people.
    fn worker_report(&self, worker: &Worker, now: Now) -> WorkerReport {
        WorkerReport {
            host: worker.host.clone(),
            http_address: worker.http_address.clone(),
            rack: worker.rack.clone(),
            slot_count: worker.slot_count,
            running_count: u32::try_from(worker.running.len()).unwrap_or(u32::MAX),
            isolation: worker.isolation.clone(),
            suspect: worker.liveness == Liveness::Suspect,
            excluded: worker.excluded,
            drained: self.is_drained(worker),
            faults: worker.faults,
            blacklisted: worker.blacklisted,
            silent_ms: u64::try_from(now.at.saturating_sub(worker.last_seen).as_millis())
                .unwrap_or(u64::MAX),
            launched_count: worker.tally.launched,
            succeeded_count: worker.tally.succeeded,
            failed_count: worker.tally.failed,
        }
    }

    /// True if nothing runs on a worker that is being drained, and nothing is needed from it.
    fn is_drained(&self, worker: &Worker) -> bool {
        let is_idle = worker.excluded && worker.running.is_empty();
        is_idle && self.map_outputs.held_by(worker.id).is_empty()
    }

    /// All queues for people, by name.
    pub(crate) fn queue_reports(&self) -> Vec<QueueReport> {
        let slot_total = self.queues.slot_total();
        let report = |(queue, standing): (&Queue, Standing)| {
            let rules = &queue.rules;
            let limit = |cap: u64| u32::try_from(cap).unwrap_or(0);
            QueueReport {
                name: queue.name.clone(),
                running: rules.running,
                policy: rules.policy.name().to_owned(),
                weight: rules.weight,
                slots_min: rules.slots_min,
                slots_max: limit(rules.cap(slot_total)),
                user_slots_max: limit(rules.user_cap(slot_total)),
                running_jobs_max: rules.running_jobs_max,
                share_permille: standing.share,
                slot_count: queue.slots,
                demand: u32::try_from(standing.demand).unwrap_or(u32::MAX),
                job_count: u32::try_from(queue.jobs.len()).unwrap_or(u32::MAX),
                started_job_count: queue.started,
            }
        };
        self.queues.iter().zip(self.standings()).map(report).collect()
    }
}

/// A job for people.
pub(crate) fn job_report(job: &Job) -> JobReport {
    let state = match job.phase {
        Phase::Preparing | Phase::Running | Phase::Ending(_) => JobState::Running,
        Phase::Committing => JobState::Committing,
        Phase::Ended(state) => state,
    };
    let [read_records_per_s, read_bytes_per_s] = job.live.read_per_s();
    JobReport {
        id: job.id.to_string(),
        name: job.spec.name.clone(),
        user: job.user.clone(),
        state,
        maps: job.maps.counts(),
        reduces: job.reduces.counts(),
        map_progress: job.maps.progress(),
        reduce_progress: job.reduce_progress(),
        submitted_ms: job.submitted_ms,
        finished_ms: job.finished_ms,
        counters: job.counters_so_far(),
        read_records_per_s,
        read_bytes_per_s,
        diagnostics: job.diagnostics.clone(),
        output: job.spec.output.clone(),
        queue: job.queue.clone(),
        priority: job.priority,
        slot_count: job.live_count(),
        is_outline: false,
        rounds: job.rounds_report(),
    }
}

fn task_report(job: &Job, kind: TaskKind, index: u32, task: &Task) -> TaskReport {
    let id = job.task_id(kind, index);
    let attempts = task.attempts.iter().map(|attempt| {
        let name = AttemptId { task: id, number: attempt.number }.to_string();
        AttemptReport {
            log_url: format!("/api/v1/jobs/{}/attempts/{name}/log", job.id),
            id: name,
            state: attempt.state.name().to_owned(),
            host: attempt.host.clone(),
            started_ms: attempt.started_ms,
            finished_ms: attempt.finished_ms,
            diagnostics: attempt.diagnostics.clone(),
            progress: attempt.progress,
            phase: attempt.phase.map_or(String::new(), |phase| phase.name().to_owned()),
            status: job.live.status(AttemptId { task: id, number: attempt.number }).to_owned(),
        }
    });
    TaskReport { id, progress: task.progress(), attempts: attempts.collect() }
}
