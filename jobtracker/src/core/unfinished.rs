//! How many jobs are not over, with how many tasks: in all, and of each user.
//!
//! Invariant: the sums are those of the jobs that are in the table. A submission that would exceed a bound is refused; what the journal holds
//! was accepted within the bounds of its time, and is never refused.

use std::collections::BTreeMap;

use protocol::jobs::JobSpec;
use protocol::{ErrorKind, JobId, RemoteError};

/// Jobs and their tasks.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Load {
    pub(crate) jobs: u64,
    pub(crate) tasks: u64,
}

/// The most that there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bounds {
    /// Of all users together.
    pub(crate) all: Load,
    /// Of each user.
    pub(crate) user: Load,
}

/// All jobs that are not over.
#[derive(Debug, Default)]
pub(crate) struct Unfinished {
    jobs: BTreeMap<JobId, (String, u64)>,
    all: Load,
    users: BTreeMap<String, Load>,
}

/// Names of the settings, in the order of [`Load`].
const ALL: [&str; 2] = ["job_count_max", "task_count_max"];
const USER: [&str; 2] = ["user_job_count_max", "user_task_count_max"];

impl Unfinished {
    /// Refuses a job that exceeds a bound together with those in the table.
    ///
    /// # Errors
    /// [`ErrorKind::LimitExceeded`] names the setting.
    pub(crate) fn check(
        &self,
        bounds: &Bounds,
        user: &str,
        spec: &JobSpec,
    ) -> Result<(), RemoteError> {
        let of_user = self.users.get(user).copied().unwrap_or_default();
        let whose = format!("user {user}");
        let checks =
            [("all users", self.all, bounds.all, ALL), (&whose, of_user, bounds.user, USER)];
        for (whose, load, most, [job_setting, task_setting]) in checks {
            let tasks = task_count(spec);
            let (setting, most, there, new, what) = if load.jobs >= most.jobs {
                (job_setting, most.jobs, load.jobs, 1, "jobs")
            } else if load.tasks.saturating_add(tasks) > most.tasks {
                (task_setting, most.tasks, load.tasks, tasks, "tasks")
            } else {
                continue;
            };
            let text = format!(
                "Unfinished jobs of {whose} have at most {most} {what} ({setting}): there are {there}, and this job has {new}"
            );
            return Err(RemoteError::new(ErrorKind::LimitExceeded, text));
        }
        Ok(())
    }

    /// A job was accepted.
    pub(crate) fn enter(&mut self, job: JobId, user: &str, spec: &JobSpec) {
        self.leave(job);
        let tasks = task_count(spec);
        for load in [&mut self.all, self.users.entry(user.to_owned()).or_default()] {
            *load = Load { jobs: load.jobs + 1, tasks: load.tasks + tasks };
        }
        self.jobs.insert(job, (user.to_owned(), tasks));
    }

    /// A job is over, or forgotten.
    pub(crate) fn leave(&mut self, job: JobId) {
        let Some((user, tasks)) = self.jobs.remove(&job) else { return };
        let of_user = self.users.entry(user.clone()).or_default();
        for load in [&mut self.all, &mut *of_user] {
            *load = Load { jobs: load.jobs - 1, tasks: load.tasks - tasks };
        }
        if of_user.jobs == 0 {
            self.users.remove(&user);
        }
    }

    /// The jobs of the table.
    #[cfg(test)]
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }
}

/// Tasks that a job may come to have.
fn task_count(spec: &JobSpec) -> u64 {
    let partitions = u64::from(spec.reduce_count);
    let reduces = match spec.rounds {
        Some(rounds) => (u64::from(rounds.last) + 1) * partitions,
        None => partitions,
    };
    spec.splits.len() as u64 + reduces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::simulation::spec;

    const BOUNDS: Bounds =
        Bounds { all: Load { jobs: 3, tasks: 25 }, user: Load { jobs: 2, tasks: 20 } };

    fn id(number: u32) -> JobId {
        JobId { cluster_start: 1, number }
    }

    #[test]
    fn each_bound_refuses_and_is_named() {
        let mut table = Unfinished::default();
        let refusal = |table: &Unfinished, user: &str, reduces| {
            let checked = table.check(&BOUNDS, user, &spec(1, &["a"], reduces));
            checked.err().map(|error| (error.kind, error.message))
        };
        let expect = |refused: Option<(ErrorKind, String)>, setting: &str| {
            let (kind, text) = refused.unwrap();
            assert_eq!(kind, ErrorKind::LimitExceeded);
            assert!(text.contains(&format!("({setting})")), "{text}");
        };
        assert_eq!(refusal(&table, "ann", 19), None);
        expect(refusal(&table, "ann", 20), "user_task_count_max");
        table.enter(id(1), "ann", &spec(1, &["a"], 14));
        assert_eq!(refusal(&table, "ann", 4), None);
        expect(refusal(&table, "ann", 5), "user_task_count_max");
        assert_eq!(refusal(&table, "bob", 9), None);
        expect(refusal(&table, "bob", 10), "task_count_max");
        table.enter(id(2), "ann", &spec(2, &["a"], 0));
        expect(refusal(&table, "ann", 0), "user_job_count_max");
        table.enter(id(3), "bob", &spec(3, &["a"], 0));
        expect(refusal(&table, "eve", 0), "job_count_max");
        (1..=3).for_each(|number| table.leave(id(number)));
        table.leave(id(3));
        assert_eq!((table.all, table.users.len()), (Load::default(), 0));
    }
}
