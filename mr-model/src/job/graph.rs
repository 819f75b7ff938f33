//! The jobs of a plan and what they wait for.
//!
//! ```text
//! add ──► waiting ──all it needs succeeded──► running ──► succeeded ──► those that need it
//!                                                   └──► failed: nothing more is started, what runs is ended
//! ```
//!
//! Invariants: a job needs only jobs that were added before it, so one can always run until all have; every job that starts reports its
//! end, even after a panic.

use std::collections::BTreeSet;
use std::sync::mpsc;

use crate::engine::{InputPaths, Stage};
use crate::error::{Error, Result};
use crate::guard::guard;

/// Jobs and their order.
#[derive(Default)]
pub struct Graph {
    /// In the order of the plan.
    pub stages: Vec<Box<dyn Stage>>,
    /// For each stage, the stages that must succeed before it begins.
    pub needs: Vec<BTreeSet<usize>>,
}

impl Graph {
    /// All that must be the same in driver and task runner of stage `index`.
    pub fn description(&self, index: usize) -> String {
        let stage = self.stages.get(index).map(|stage| stage.description()).unwrap_or_default();
        format!("stage {index} of {}\n{stage}", self.stages.len())
    }

    /// The stages whose output an input of stage `index` reads.
    ///
    /// # Errors
    /// If they do not come before it.
    pub fn read_by(&self, index: usize, input: &InputPaths) -> Result<Vec<usize>, Error> {
        let read = match input {
            InputPaths::Previous => vec![index.checked_sub(1).ok_or(Error::NoPrevious)?],
            InputPaths::Outputs(jobs) => jobs.iter().map(|job| job.0).collect(),
            InputPaths::Paths(_) | InputPaths::Rows { .. } => Vec::new(),
        };
        if read.iter().any(|other| *other >= index) { Err(Error::NoPrevious) } else { Ok(read) }
    }

    /// Runs `run` for each stage as soon as it may start, several at once; returns the results in order. After the first failure nothing
    /// more starts, and `fail` is called once to end the running jobs.
    ///
    /// # Errors
    /// The first failure.
    pub fn run_stages<T: Send>(
        &self,
        run: impl Fn(usize) -> Result<T> + Sync,
        fail: impl FnOnce(),
    ) -> Result<Vec<T>> {
        let count = self.stages.len();
        let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
        let mut waiting: BTreeSet<usize> = (0..count).collect();
        let (mut failure, mut fail) = (None, Some(fail));
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut running = 0;
            loop {
                let ready = |index: &usize, results: &[Option<T>]| {
                    self.needs[*index]
                        .iter()
                        .all(|need| results.get(*need).is_some_and(Option::is_some))
                };
                while failure.is_none() && running < JOBS_AT_ONCE_MAX {
                    let Some(index) = waiting.iter().copied().find(|i| ready(i, &results)) else {
                        break;
                    };
                    waiting.remove(&index);
                    running += 1;
                    let (sender, run) = (sender.clone(), &run);
                    scope.spawn(move || {
                        let result = guard(|| Ok(run(index)));
                        let panicked =
                            |message| Err(Error::StagePanic { number: index + 1, message }.into());
                        // The receiver outlives the scope.
                        let _ = sender.send((index, result.unwrap_or_else(panicked)));
                    });
                }
                if running == 0 {
                    break;
                }
                let Ok((index, result)) = receiver.recv() else { break };
                running -= 1;
                match result {
                    Ok(result) => results[index] = Some(result),
                    Err(error) => {
                        failure.get_or_insert(error);
                        if let Some(fail) = fail.take() {
                            fail();
                        }
                    }
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        // A job that needs itself or a later one never became ready.
        results.into_iter().collect::<Option<Vec<T>>>().ok_or_else(|| Error::NoPrevious.into())
    }
}

/// Jobs of a plan that run at once: a thread of the driver watches each.
const JOBS_AT_ONCE_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::Graph;
    use crate::job::builder::CompleteJob;
    use crate::job::plan::{Plan, Planned};
    use crate::task::upstream::JobOutput;

    fn job(name: &str) -> CompleteJob {
        crate::Job::new(name)
            .input(crate::text(["in"]))
            .map_fn::<String, u64, _>(|_, _| Ok(()))
            .output(crate::intermediate())
    }

    fn graph(plan: Plan) -> Graph {
        Planned::from(plan).graph
    }

    #[test]
    fn jobs_run_when_what_they_need_is_there_and_independent_ones_at_once() {
        let mut plan = Plan::new();
        let (a, b) = (plan.add(job("a")), plan.add(job("b")));
        let c = plan.add_after(job("c"), [a, b]);
        plan.add_after(job("d"), [c]);
        // a and b can only pass the barrier together.
        let (barrier, order) = (std::sync::Barrier::new(2), std::sync::Mutex::new(Vec::new()));
        let run = |index| {
            if index < 2 {
                barrier.wait();
            }
            order.lock().unwrap().push(index);
            Ok(index * 10)
        };
        let results = graph(plan).run_stages(run, || panic!("nothing failed")).unwrap();
        assert_eq!(results, [0, 10, 20, 30]);
        assert_eq!(order.lock().unwrap()[2..], [2, 3]);
    }

    #[test]
    fn after_a_failure_nothing_is_started() {
        let plan = graph(Plan::from(job("a")).then(job("b")).then(job("c")));
        let ended = std::cell::Cell::new(0);
        let run = |index| if index == 1 { Err("b broke".into()) } else { Ok(index) };
        let error = plan.run_stages(run, || ended.set(ended.get() + 1)).unwrap_err();
        assert_eq!((error.to_string().as_str(), ended.get()), ("b broke", 1));
        let broken = |index| if index == 1 { panic!("b is gone") } else { Ok(index) };
        let error = plan.run_stages(broken, || ()).unwrap_err().to_string();
        assert!(error.contains("job 2 ") && error.contains("b is gone"), "{error}");
        let mut looped = Plan::new();
        looped.add_after(job("a"), [JobOutput(0)]);
        assert!(graph(looped).run_stages(Ok, || ()).is_err());
    }
}
