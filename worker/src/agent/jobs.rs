//! The directories of jobs here, one that their tasks may change and one for their map outputs, and their users.
//!
//! Invariants: both directories exist before the first task, because the sandbox admits tasks by inode; a job's user goes to another job
//! only after its files are deleted.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;

use protocol::{AttemptId, JobId};
use sys::sandbox::User;

use super::surroundings::{Surroundings, tell};
use crate::core::Event;
use crate::outputs::Outputs;
use crate::scratch::{self, OpenDir};
use crate::walls::{Lease, Leaving, Users};

/// See the module.
#[derive(Default)]
pub(super) struct Jobs {
    known: BTreeMap<JobId, Job>,
}

/// A job with files here.
pub(super) struct Job {
    /// The directory that its tasks may change freely.
    pub(super) place: OpenDir,
    /// The user of its processes, if that is not the worker's.
    lease: Option<Lease>,
    /// The directories of its attempts, in there.
    attempts: BTreeMap<AttemptId, OpenDir>,
}

impl Jobs {
    pub(super) fn get(&self, id: JobId) -> Option<&Job> {
        self.known.get(&id)
    }

    /// The directory of an attempt.
    pub(super) fn place(&self, id: AttemptId) -> Option<&OpenDir> {
        self.known.get(&id.task.job)?.attempts.get(&id)
    }

    /// Creates a directory for an attempt in the job's directory, which the first attempt creates.
    pub(super) fn prepare(&mut self, id: AttemptId, around: &Surroundings) -> Result<(), String> {
        self.try_prepare(id, around).map_err(|error| {
            let directory = around.jobs.path.join(id.task.job.to_string());
            scratch::failure("make", &directory, &error)
        })
    }

    fn try_prepare(&mut self, id: AttemptId, around: &Surroundings) -> io::Result<()> {
        let job = match self.known.entry(id.task.job) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(Job::open(id.task.job, around)?),
        };
        let place = job.place.fresh_of(id.to_string(), job.user())?;
        job.attempts.insert(id, place);
        Ok(())
    }

    /// Deletes the files of an attempt that is over. The worker has already taken its result.
    pub(super) fn clear(&mut self, id: AttemptId, around: &Surroundings) {
        if let Some(job) = self.known.get_mut(&id.task.job) {
            job.attempts.remove(&id);
            let leaving = around.watch.leaving(&id.to_string());
            delete_later(&job.place, id.to_string(), leaving);
        }
    }

    /// Deletes the files of a job without processes.
    pub(super) fn delete(&mut self, id: JobId, around: &Surroundings) {
        let lease = self.known.remove(&id).and_then(|job| job.lease);
        let (jobs, outputs) = (around.jobs.clone(), around.outputs.clone());
        let inputs = around.inputs.clone();
        tokio::task::spawn_blocking(move || {
            delete(id, lease, &jobs, &outputs);
            tell(&inputs, Event::JobDeleted(id));
        });
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
        Ok(Job { place, lease, attempts: BTreeMap::new() })
    }

    pub(super) fn user(&self) -> Option<User> {
        self.lease.as_ref().map(Lease::user)
    }
}

/// Deletes an entry of a directory without waiting for the result. `leaving` is dropped when it is done.
fn delete_later(place: &OpenDir, name: String, leaving: Leaving) {
    let place = place.clone();
    tokio::task::spawn_blocking(move || {
        place.remove(&name);
        drop(leaving);
    });
}

/// Ends the remaining processes of a job that is over, and deletes its files. Only then can its user go to another job.
fn delete(job: JobId, lease: Option<Lease>, jobs: &OpenDir, outputs: &Outputs) {
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
