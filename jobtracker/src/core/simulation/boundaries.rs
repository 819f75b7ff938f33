//! A restart at each single step of three jobs: no finished work is repeated, and the history is complete.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::jobs::JobState;
use protocol::sizing::ReduceSizing;
use protocol::{AttemptId, JobId, TaskId, WorkerId};

use super::world::{ROOT, World, spec};

/// Steps that suffice several times over for the jobs to end.
const STEPS_MAX: usize = 2_000;

/// Reduces of the job that chooses them: it has 378 MiB, and each of two slots would have more than 64 MiB.
const CHOSEN: u64 = 2;

/// Drives the jobs one small step at a time.
struct Run {
    world: World,
    workers: Vec<WorkerId>,
    jobs: Vec<JobId>,
    submitted: u64,
}

impl Run {
    fn new() -> Self {
        let mut world = World::new();
        let workers = vec![world.add_worker("a", 2), world.add_worker("bb", 2)];
        Run { world, workers, jobs: Vec::new(), submitted: 0 }
    }

    /// Submits, performs an effect, ends an attempt or lets a worker report: one of these.
    fn step(&mut self, number: usize) {
        let world = &mut self.world;
        let ready: Vec<JobId> = world
            .effects
            .iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(job, _)| *job)
            .collect();
        match (number % 3, ready.first()) {
            (0, _) if self.submitted < 3 => {
                self.submitted += 1;
                let mut spec =
                    spec(self.submitted, &["a", "bb", "a"], u32::from(self.submitted < 3));
                // The second job chooses its reduces: two, of nine partitions.
                if self.submitted == 2 {
                    spec.reduce_count = 9;
                    spec.sizing = Some(ReduceSizing { slot_count: 2 });
                }
                self.jobs.push(world.submit(self.submitted, spec).unwrap());
            }
            (0, Some(job)) => world.do_effect(*job),
            (1, _) => {
                let worker = self.workers[number / 3 % self.workers.len()];
                world.contact(worker, true);
            }
            _ => {
                let worker = self.workers[number / 6 % self.workers.len()];
                if let Some(attempt) = world.running(worker).first().copied() {
                    world.succeed(worker, attempt);
                }
                world.advance(Duration::from_millis(300));
            }
        }
        world.check_replay();
    }

    fn is_over(&self) -> bool {
        self.jobs.len() == 3 && self.jobs.iter().all(|job| self.world.state(*job).is_some())
    }

    /// Steps until all jobs are over; restarts the JobTracker before step `restart`.
    fn go(mut self, restart: Option<usize>) -> (usize, World, Vec<JobId>) {
        for number in 0..STEPS_MAX {
            if restart == Some(number) {
                self.world.restart();
            }
            self.step(number);
            if self.is_over() {
                return (number + 1, self.world, self.jobs);
            }
        }
        panic!(
            "not over with a restart before step {restart:?}: {:#?}",
            self.world.core.job_reports(&ROOT)
        );
    }
}

#[test]
fn a_restart_at_any_step_runs_nothing_twice_and_loses_nothing() {
    let (steps, ..) = Run::new().go(None);
    assert!(steps > 40, "{steps} steps");
    for restart in 0..steps {
        let (_, world, jobs) = Run::new().go(Some(restart));
        let mut attempts = BTreeMap::<TaskId, Vec<AttemptId>>::new();
        for attempt in &world.launched {
            attempts.entry(attempt.task).or_default().push(*attempt);
        }
        assert_eq!(attempts.len(), 3 * 3 + 1 + CHOSEN as usize, "every task ran");
        let twice: Vec<_> = attempts.values().filter(|tried| tried.len() > 1).collect();
        assert!(twice.is_empty(), "ran twice with a restart before step {restart}: {twice:?}");
        for job in jobs {
            assert_eq!(world.state(job), Some(JobState::Succeeded), "step {restart}");
            let job = world.core.job(job).unwrap();
            let launched = (job.launched.maps, job.launched.reduces);
            let reduces = match (job.spec.sizing, job.spec.reduce_count) {
                (Some(_), _) => CHOSEN,
                (None, count) => u64::from(count),
            };
            assert_eq!(launched, (3, reduces), "step {restart}");
            let counters = job.counters();
            let tasks = 3 + reduces;
            assert_eq!(counters.value("test", "attempts"), tasks, "each winner counts once");
        }
    }
}
