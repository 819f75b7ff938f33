//! Jobs that count without bounds: they fail and say so, and neither the JobTracker nor a job beside them notices.

use super::{Stand, options};

/// One `printf` makes all of them.
fn counts(first: u32, count: u32) -> String {
    format!(
        "cat; awk 'BEGIN {{ for (i = {first}; i < {first} + {count}; i++) print \"reporter:counter:Own,c\" i \",1\" }}' >&2"
    )
}

#[test]
fn a_job_that_counts_too_much_fails_and_says_so_and_harms_nobody() {
    let stand = Stand::start(4, options());
    let jobtracker = stand.cluster.pid("jobtracker-1");
    stand.put("/line", "one line\n");
    let beside = stand.begin("beside", &["map-0"], &[]);
    beside.wait_at("map", 1);
    let long_name = format!("cat; echo 'reporter:counter:Own,{},1' >&2", "n".repeat(300));
    let reserved =
        |group| format!("cat; echo 'reporter:counter:{group},TOTAL_LAUNCHED_MAPS,7' >&2");
    // A million counters are 17 MB: more than a record of the journal holds.
    for (name, script, reason) in [
        ("many", counts(0, 20_000), "Too many counters: a job has at most 10000 different ones"),
        ("million", counts(0, 1_000_000), "Too many counters"),
        ("long", long_name, "The name of a counter or group is longer than 128 bytes: nnn"),
    ] {
        let outcome = stand.script(name, &script);
        assert!(outcome.code != 0 && outcome.stderr.contains(reason), "{}", outcome.stderr);
    }
    // What a script counts in a group of the engine is lost, with a warning in its log, and its work is not.
    for (name, group) in [("job", "Job Counters"), ("engine", "Engine")] {
        let outcome = stand.script(name, &reserved(group)).ok();
        assert!(!outcome.stderr.contains("TOTAL_LAUNCHED_MAPS"), "{}", outcome.stderr);
        let id = outcome.stderr.split_once("Running job: ").unwrap().1.split(':').next().unwrap();
        let logs = stand.cluster.hanno(&["job", "-logs", id]).ok().stdout_text();
        assert!(logs.contains(&format!("warning: The engine counts in {group}")), "{logs}");
    }
    // No single task counts too much, but all together do.
    let apart = "cat >/dev/null; n=${mapreduce_task_partition#0}; awk -v n=$n 'BEGIN { for (i = 0; i < 4000; i++) print \"reporter:counter:Own,c\" n \"-\" i \",1\" }' >&2";
    let marks = stand.cluster.directory.join("apart");
    std::fs::create_dir(&marks).unwrap();
    std::fs::write(marks.join("map.sh"), apart).unwrap();
    let mut command = stand.cluster.command(
        &crate::support::cluster::hanno_binary(),
        &["job", "streaming", "-input", "/in", "-output", "/out-apart", "-file", "map.sh"],
    );
    command.args(["-mapper", "sh map.sh", "-reducer", "NONE"]).current_dir(&marks);
    let outcome = crate::support::Outcome::of(command);
    assert!(
        outcome.code != 0 && outcome.stderr.contains("Too many counters"),
        "{}",
        outcome.stderr
    );
    // Within the bounds everything is kept, the engine's own counters too.
    stand.script("within", &counts(0, 9_000)).ok();
    let job = stand.jobs().remove(0);
    assert_eq!(stand.counter(&job, "Own", "c8999"), 1);
    let engine = "org.apache.hadoop.mapreduce.TaskCounter";
    assert_eq!(stand.counter(&job, engine, "MAP_INPUT_RECORDS"), 1);
    beside.open("map-0");
    beside.succeed();
    assert_eq!(stand.cluster.pid("jobtracker-1"), jobtracker, "the JobTracker did not restart");
}
