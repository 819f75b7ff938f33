//! Records that end attempts are left out where a job allows it: whether user code panics, its process dies or its script does. All else
//! is counted, and what was left out is named beside the output.

use super::tasks::assert_absent;
use super::{Stand, options, with};
use crate::support::report::assert_no_panics;

const TASK_COUNTERS: &str = "org.apache.hadoop.mapreduce.TaskCounter";
/// A job that loses no more than it may is not to be held against workers, nor slowed by copies of attempts.
const VARIABLES: [(&str, &str); 1] = [("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "1")];
/// A script that dies of one line, and counts the others as scripts for Hadoop's skip mode do.
const COUNTS: &str = r#"
while read -r word rest; do
    [ "$word" = bad ] && kill -9 $$
    echo "$word"
    echo reporter:counter:SkippingTaskCounters,MapProcessedRecords,1 >&2
done
"#;
/// The same, uncounted.
const DOES_NOT_COUNT: &str =
    r#"while read -r word rest; do [ "$word" = bad ] && kill -9 $$; echo "$word"; done"#;

#[test]
fn records_that_end_attempts_are_left_out_and_named() {
    let stand = Stand::start(1, with(options(), &VARIABLES));
    panics_and_deaths(&stand);
    too_many(&stand);
    scripts(&stand);
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

fn panics_and_deaths(stand: &Stand) {
    // More bad records than a task has attempts.
    stand.put("/line", "good\npoison \u{7f}\ngood\nabort\npoison a\nabort b\ngood\nexit\n");
    for (output, more) in [("/skipped", &[][..]), ("/skipped-map", &["--map-only"][..])] {
        let words = [more, &["--skip-bad", "5", "/line", output]].concat();
        stand.cluster.example("poison", &words).ok();
        let good = if more.is_empty() { "good\t3\n" } else { "good\t1\ngood\t1\ngood\t1\n" };
        stand.cluster.dfs(&["-cat", &format!("{output}/part-*")]).ok().prints(good);
        let names = stand.cluster.dfs(&["-cat", &format!("{output}/_logs/skip/task_*_m_000000")]);
        names.ok().prints(
            "/line:5\t8\tpoison \\x7f\n/line:19\t5\tabort\n/line:25\t8\tpoison a\n\
             /line:34\t7\tabort b\n/line:47\t4\texit\n",
        );
        let job = &stand.jobs()[0];
        assert_eq!(stand.counter(job, TASK_COUNTERS, "MAP_SKIPPED_RECORDS"), 5);
        assert_eq!(stand.counter(job, TASK_COUNTERS, "MAP_INPUT_RECORDS"), 3);
        let status = stand.hanno(&["job", "-status", job]);
        let line = format!("skipped records: 5, named in {output}/_logs/skip");
        assert!(status.contains(&line) && status.contains("Map skipped records=5"), "{status}");
        assert_absent(&stand.cluster, &format!("{output}/_temporary"));
    }
}

fn too_many(stand: &Stand) {
    stand.put("/line", "good\nabort\npoison\nabort b\n");
    let outcome = stand.cluster.example("poison", &["--skip-bad", "2", "/line", "/bad-many"]);
    let reason = "met 3 bad records and may leave out 2 (mapreduce.map.skip.maxrecords)";
    stand.assert_failed("many", &outcome, &[reason]);
    assert!(outcome.stderr.contains("map failed at /line, byte 18: the task process ended"));
    assert_eq!(stand.attempts(&stand.jobs()[0], "MAP", "failed").len(), 3, "at once");
    // Without leave to skip, the process that died names its record all the same.
    let outcome = stand.cluster.example("poison", &["/line", "/bad-one"]);
    stand.assert_failed("one", &outcome, &["map failed at /line, byte 5: the task process ended"]);
}

fn scripts(stand: &Stand) {
    stand.put("/line", "one\nbad 1\ntwo\nbad 2\nthree\n");
    let count = ["-D", "mapred.skip.map.auto.incr.proc.count=false"];
    let skip = ["-D", "mapred.skip.map.max.skip.records=2"];
    stand.script_with("counted", COUNTS, &[count, skip].concat()).ok();
    let output = stand.cluster.dfs(&["-cat", "/bad-counted/part-*"]).ok();
    output.prints("one\t\ntwo\t\nthree\t\n");
    let names = stand.cluster.dfs(&["-cat", "/bad-counted/_logs/skip/*"]).ok();
    names.prints("/line:4\t5\tbad 1\n/line:14\t5\tbad 2\n");
    // Of a script that does not count, nobody knows where it was: nothing is left out for it.
    let outcome = stand.script_with("uncounted", DOES_NOT_COUNT, &skip);
    stand.assert_failed("uncounted", &outcome, &["failed 4 times"]);
}
