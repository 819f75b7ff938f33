//! Jobs with files here: a directory that their tasks may change, and one for their map outputs.
//!
//! Invariants: both directories exist before the first task, because the sandbox admits tasks by inode; while the files of a job are being
//! deleted, the job gets no new ones; its user goes to another job only after that.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::{Duration, Instant};

use protocol::{AttemptId, JobId};
use sys::sandbox::User;

use super::surroundings::Surroundings;
use crate::event::Event;
use crate::outputs::Outputs;
use crate::scratch::Place;
use crate::walls::{Lease, Leaving, Users};

/// A job without running attempts or held outputs is forgotten after this time, in case the JobTracker's message was lost.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// See the module.
#[derive(Default)]
pub(super) struct Jobs {
    known: BTreeMap<JobId, Job>,
    /// Jobs whose files are deleted once no process of theirs is left.
    forgotten: BTreeSet<JobId>,
    /// Jobs whose files are being deleted.
    deleting: BTreeSet<JobId>,
}

/// A job with files here.
pub(super) struct Job {
    /// The directory that its tasks may change freely.
    pub(super) place: Place,
    /// The user of its processes, if that is not the worker's.
    lease: Option<Lease>,
    /// Time of the last event of this job.
    touched: Instant,
}

impl Jobs {
    pub(super) fn get(&self, id: JobId) -> Option<&Job> {
        self.known.get(&id)
    }

    /// True while its files are being deleted.
    pub(super) fn is_going(&self, id: JobId) -> bool {
        self.deleting.contains(&id)
    }

    /// Creates a directory for an attempt in the job's directory, which the first attempt creates.
    pub(super) fn place(&mut self, id: AttemptId, around: &Surroundings) -> io::Result<Place> {
        self.forgotten.remove(&id.task.job);
        let job = match self.known.entry(id.task.job) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Job::open(id.task.job, around)?),
        };
        job.touched = Instant::now();
        job.place.fresh_of(id.to_string(), job.user())
    }

    /// Deletes the files of an attempt that is over. The worker has already taken its result.
    pub(super) fn clear(&mut self, id: AttemptId, around: &Surroundings) {
        if let Some(job) = self.known.get_mut(&id.task.job) {
            job.touched = Instant::now();
            let leaving = around.watch.leaving(&id.to_string());
            delete_later(&job.place, id.to_string(), leaving);
        }
    }

    /// Jobs without an event for a while.
    pub(super) fn idle(&self, now: Instant) -> impl Iterator<Item = JobId> {
        let is_idle = move |job: &Job| now.saturating_duration_since(job.touched) >= IDLE_MAX;
        self.known.iter().filter(move |(_, job)| is_idle(job)).map(|(id, _)| *id)
    }

    /// Marks the files of the job as no longer needed.
    pub(super) fn forget(&mut self, id: JobId) {
        self.forgotten.insert(id);
    }

    /// Deletes the files of a job without processes, if it is forgotten. True if it was.
    pub(super) fn delete_forgotten(&mut self, id: JobId, around: &Surroundings) -> bool {
        let is_forgotten = self.forgotten.remove(&id);
        if is_forgotten && let Some(Job { lease, .. }) = self.known.remove(&id) {
            self.deleting.insert(id);
            let (jobs, outputs) = (around.jobs.clone(), around.outputs.clone());
            let events = around.events.clone();
            tokio::task::spawn_blocking(move || {
                delete(id, lease, &jobs, &outputs);
                let _ = events.blocking_send(Event::Deleted(id));
            });
        }
        is_forgotten
    }

    /// The files of the job are deleted, or cannot be.
    pub(super) fn deleted(&mut self, id: JobId) {
        self.deleting.remove(&id);
    }
}

impl Job {
    /// Creates the directories of a job that begins here.
    fn open(id: JobId, around: &Surroundings) -> io::Result<Self> {
        let lease = around.sandbox.users().map(Users::lease).transpose()?;
        let place = around.jobs.ensure(id.to_string())?;
        let outputs = around.outputs.of_job(id)?;
        if let Some(lease) = &lease {
            place.dir.let_work(lease.user())?;
            outputs.dir.let_read(lease.user())?;
        }
        Ok(Job { place, lease, touched: Instant::now() })
    }

    pub(super) fn user(&self) -> Option<User> {
        self.lease.as_ref().map(Lease::user)
    }
}

/// Deletes an entry of a directory without waiting for the result. `leaving` is dropped when it is done.
fn delete_later(place: &Place, name: String, leaving: Leaving) {
    let place = place.clone();
    tokio::task::spawn_blocking(move || {
        place.remove(&name);
        drop(leaving);
    });
}

/// Ends the remaining processes of a job that is over, and deletes its files. Only then can its user go to another job.
fn delete(job: JobId, lease: Option<Lease>, jobs: &Place, outputs: &Outputs) {
    lease.iter().for_each(Lease::end_all);
    let outputs = outputs.remove_job(job).inspect_err(|error| {
        tracing::warn!(%job, %error, "cannot delete the map outputs of a job");
    });
    let files = jobs.dir.remove(job.to_string()).inspect_err(|error| {
        tracing::warn!(%job, %error, "cannot delete the files of a job");
    });
    if files.and(outputs).is_err() {
        lease.into_iter().for_each(Lease::keep);
    }
}
