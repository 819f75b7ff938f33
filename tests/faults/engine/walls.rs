//! A task that multiplies beside jobs that do not. What tasks must not reach is tried in `tests/hostile_jobs/`.

use std::fs;

use super::{Stand, options, with};
use crate::support::report::assert_no_panics;

/// Seconds that the sleeps of the fork bomb last: its processes are known by that.
const BOMB_SECONDS: &str = "98765";

/// Its processes leave the process group, the session and their environment behind, and double as long as they can.
#[test]
fn a_task_that_forks_exponentially_is_ended_whole_and_jobs_beside_it_go_on() {
    let limits =
        [("HANNO_WORKER_TASK_PROCESSES_MAX", "40"), ("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "0")];
    let stand = Stand::start(2, with(options(), &limits));
    stand.put("/line", "one line\n");
    let bomb = format!(
        "b() {{ setsid -f env -i sleep {BOMB_SECONDS}; b | b & }}\nwhile :; do b; done 2>/dev/null"
    );
    std::thread::scope(|scope| {
        let exploding = scope.spawn(|| stand.script("explodes", &bomb));
        stand.begin("beside", &[], &[]).succeed();
        let outcome = exploding.join().unwrap();
        stand.assert_failed("explodes", &outcome, &["more than its limit of 40", "exit status"]);
    });
    stand.wait("nothing is left of it", |_| bomb_processes() == 0);
    stand.begin("after", &[], &[]).succeed();
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

fn bomb_processes() -> usize {
    let is_one = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == BOMB_SECONDS.as_bytes())
    };
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(is_one).count()
}
