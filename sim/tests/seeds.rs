//! New histories in each run; the program `sim` runs more of them.

#[test]
fn whatever_fails_what_was_acknowledged_is_there() {
    needs::seeds::for_each_in_parallel(100, |seed| {
        let report = sim::run(seed);
        let happens = report.closed > 10 && report.node_starts > 5 && report.read > 10;
        assert!(happens, "nothing happens: {report}");
        assert!(report.jobs > 0 || report.tracker_starts == 0, "no job ends: {report}");
    });
}

#[test]
fn a_seed_has_one_history() {
    needs::seeds::for_each(3, |seed| assert_eq!(sim::run(seed), sim::run(seed)));
}
