//! Daemons that are stopped for longer than others wait for them, and then go on as if nothing had been.

use std::time::{Duration, Instant};

use super::{Stand, options};
use crate::support::processes;
use crate::support::report::assert_no_panics;

/// Twice as long as it takes to be given up.
const PAUSE: Duration = Duration::from_secs(5);

impl Stand {
    fn pause(&self, daemon: &str) -> u32 {
        let pid = self.cluster.pid(daemon).unwrap();
        processes::pause(pid);
        pid
    }

    /// Stops a daemon for [`PAUSE`]: it is to miss every deadline of the others.
    fn pause_for_long(&self, daemon: &str) {
        let pid = self.pause(daemon);
        let end = Instant::now() + PAUSE;
        self.wait("the pause is over", |_| Instant::now() >= end);
        sys::process::resume(pid).unwrap();
    }
}

/// What the stopped worker's reduce has written is complete, but another attempt's is the result.
#[test]
fn a_worker_that_comes_back_from_the_dead_commits_nothing() {
    let stand = Stand::start(4, options());
    for (name, back_before_the_end) in [("late", false), ("soon", true)] {
        let job = stand.begin(name, &["reduced"], &[]);
        let (first, worker) = job.wait_at("reduced", 1)[0].clone();
        let pid = stand.pause(&format!("worker-{worker}"));
        stand.wait("another attempt has written the output", |_| {
            job.at("reduced").iter().any(|(attempt, _)| *attempt != first)
        });
        let id = stand.jobs().remove(0);
        if back_before_the_end {
            sys::process::resume(pid).unwrap();
            stand.wait("it is back", |_| stand.active_workers() == 2);
        }
        job.open("reduced");
        let output = job.output.clone();
        job.succeed();
        if !back_before_the_end {
            sys::process::resume(pid).unwrap();
            stand.wait("it is back", |_| stand.active_workers() == 2);
        }
        let events = stand.hanno(&["job", "-events", &id, "0", "100"]);
        let succeeded =
            events.lines().filter(|line| line.contains("SUCCEEDED") && line.contains("_r_"));
        assert_eq!(succeeded.count(), 1, "{events}");
        // One that is back in time may still be the first.
        let won = events.contains(&format!("SUCCEEDED {first}"));
        assert!(back_before_the_end || !won, "{events}");
        stand.assert_word_count(&output);
        let lines = stand.text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let read = stand.counter(&id, "Map-Reduce Framework", "Map input records");
        assert_eq!(read, lines, "counters of one attempt per task");
    }
    assert_no_panics(&stand.cluster);
}

#[test]
fn masters_that_stand_still_for_long_lose_no_job_and_run_nothing_twice() {
    let stand = Stand::start(4, options());
    for daemon in ["jobtracker-1", "namenode-1", "datanode-1"] {
        let name = daemon.trim_end_matches("-1");
        let job = stand.begin(name, &["map", "reduce"], &[]);
        job.wait_at("map", 4);
        stand.pause_for_long(daemon);
        job.open("map");
        job.wait_at("reduce", 1);
        stand.pause_for_long(daemon);
        job.open("reduce");
        let attempts = (job.at("map").len(), job.at("reduce").len());
        job.succeed();
        assert_eq!(attempts, (4, 1), "{daemon}");
    }
    stand.cluster.wait_healthy(super::SECONDS_MAX);
    assert_no_panics(&stand.cluster);
}
