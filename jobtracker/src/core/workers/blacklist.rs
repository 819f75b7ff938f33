//! Workers that a job avoids, that all jobs avoid for a while, and that are drained.
//!
//! Invariants: a job avoids at most a quarter of the workers that may get work (but one of two), and those only for a while when all others
//! are full ([`crate::core::slots`]), so it never runs out of them. After each tick, at most half of the workers that are not drained are on
//! the list for all jobs. That list counts only failures of jobs that succeeded elsewhere, so a bad job harms nobody else. A worker's faults
//! are forgiven one by one, and all when its process starts anew.

use std::collections::BTreeSet;

use protocol::jobs::JobState;
use protocol::{JobId, WorkerId};

use super::table::Worker;
use crate::core::{Core, Now, Output};

/// Of this many workers that may get work, a job may avoid one.
const AVOIDED_SHARE: usize = 4;

impl Core {
    /// True if a job has failed too often on a worker.
    pub(crate) fn avoids(&self, id: JobId, worker: WorkerId) -> bool {
        let Some(job) = self.jobs.get(&id) else { return false };
        if !job.failures.contains_key(&worker) {
            return false;
        }
        let usable_count = self.workers.usable_count();
        let mut bad = self.bad_for(id);
        bad.retain(|bad| self.workers.worker(*bad).is_some_and(Worker::is_usable));
        // The worst are avoided; the rest must do.
        bad.truncate((usable_count / AVOIDED_SHARE).max(1));
        usable_count > bad.len() && bad.contains(&worker)
    }

    /// Workers on which a job has failed too often, worst first.
    fn bad_for(&self, id: JobId) -> Vec<WorkerId> {
        let Some(job) = self.jobs.get(&id) else { return Vec::new() };
        let is_bad = |(worker, count): &(&WorkerId, &u32)| {
            **count >= job.settings.failures_per_worker && self.workers.worker(**worker).is_some()
        };
        let mut bad: Vec<(u32, WorkerId)> =
            job.failures.iter().filter(is_bad).map(|(worker, count)| (*count, *worker)).collect();
        bad.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
        bad.into_iter().map(|(_, worker)| worker).collect()
    }

    /// A job is over: if it succeeded, the workers that were bad for it get a fault.
    pub(crate) fn note_faults(&mut self, id: JobId, state: JobState, now: Now) {
        if state == JobState::Succeeded {
            for worker in self.bad_for(id) {
                self.workers.add_fault(worker, now.at, self.rules.worker_faults_max);
            }
        }
    }

    /// Names the workers to drain: machines, or `host:port` of single workers.
    pub(crate) fn set_excluded(&mut self, names: BTreeSet<String>, now: Now) -> Output {
        let mut out = Output::default();
        self.workers.set_excluded(names);
        self.to_offer.everywhere();
        self.schedule(now, &mut out);
        out
    }
}

/// The names in a list: separated by white space, `#` begins a comment.
pub(crate) fn parse_names(text: &str) -> BTreeSet<String> {
    let words =
        text.lines().flat_map(|line| line.split('#').next().unwrap_or("").split_whitespace());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_words() {
        let names = parse_names("a b # c\n#d\n\n  e:50060\r\n");
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["a", "b", "e:50060"]);
    }
}
