//! New histories in each run; the program `sim` runs more of them.

use std::sync::Mutex;

/// DataNodes of a cluster: each starts once in any history.
const NODES: u64 = 5;
/// In one history of a hundred or so no DataNode starts again; in none of so many together is as good as impossible.
const HISTORIES_MIN: u64 = 10;

#[test]
fn whatever_fails_what_was_acknowledged_is_there() {
    let starts = Mutex::new((0, 0));
    needs::seeds::for_each_in_parallel(100, |seed| {
        let report = sim::run(seed);
        assert!(report.closed > 10 && report.read > 10, "nothing happens: {report}");
        assert!(report.jobs > 0 || report.tracker_starts == 0, "no job ends: {report}");
        let mut starts = starts.lock().expect("nobody fails under it");
        *starts = (starts.0 + 1, starts.1 + report.node_starts);
    });
    let (histories, node_starts) = starts.into_inner().expect("nobody fails under it");
    let happens = histories < HISTORIES_MIN || node_starts > NODES * histories;
    assert!(happens, "no DataNode starts again in {histories} histories");
}

#[test]
fn a_seed_has_one_history() {
    needs::seeds::for_each(3, |seed| assert_eq!(sim::run(seed), sim::run(seed)));
}
