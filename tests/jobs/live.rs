//! What a job says of itself while it runs, and many small files that share its maps.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use protocol::jobs::{JobReport, JobState};

use super::streaming::Streaming;
use crate::support::cluster::hanno_binary;

const TASK_COUNTERS: &str = "org.apache.hadoop.mapreduce.TaskCounter";
const FILES: usize = 60;
const SECONDS_MAX: u64 = 60;

#[test]
fn small_files_share_maps_and_a_job_reports_while_it_runs() {
    let stand = Streaming::start();
    scripts_see_each_small_file(&stand);
    counters_status_and_rates(&stand);
    safe_mode_is_named_and_waited_for(&stand);
}

/// Nothing is submitted in safe mode: the submission would wait for it, and the driver give it up.
fn safe_mode_is_named_and_waited_for(stand: &Streaming) {
    let cluster = &stand.cluster;
    cluster.hanno(&["dfsadmin", "-safemode", "enter"]).ok();
    let before = cluster.jobs().list().unwrap().len();
    let words = ["job", "streaming", "-input", "/lines", "-output", "/safe", "-mapper", "cat"];
    let mut command = cluster.command(&hanno_binary(), &words);
    let mut driver = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(driver.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("in safe mode: the job waits until it is left")));
    assert_eq!(cluster.jobs().list().unwrap().len(), before);
    cluster.hanno(&["dfsadmin", "-safemode", "leave"]).ok();
    lines.for_each(drop);
    assert!(driver.wait().unwrap().success());
    assert_eq!(stand.output("/safe").lines().count(), 500);
}

/// A script runs once for each file, as if each had a map.
fn scripts_see_each_small_file(stand: &Streaming) {
    let local = stand.scripts.join("many");
    fs::create_dir(&local).unwrap();
    for number in 0..FILES {
        fs::write(local.join(format!("f{number:02}")), "line\n".repeat(number)).unwrap();
    }
    stand.cluster.dfs(&["-put", local.to_str().unwrap(), "/many"]).ok();
    stand.script("count.sh", "echo \"${mapreduce_map_input_file##*/} $(wc -l)\"\n");
    let words =
        ["-input", "/many", "-output", "/counted", "-mapper", "sh count.sh", "-file", "count.sh"];
    stand.run(&[&words[..], &["-numReduceTasks", "1"]].concat()).ok();
    let expected: String = (0..FILES).map(|number| format!("f{number:02} {number}\t\n")).collect();
    assert_eq!(stand.output("/counted"), expected);
    let maps: usize = stand.counter("Job Counters", "TOTAL_LAUNCHED_MAPS").parse().unwrap();
    assert!((2..FILES / 2).contains(&maps), "{FILES} files by {maps} maps");
    let bytes = |name| {
        let value = stand.counter("org.apache.hadoop.mapreduce.FileSystemCounter", name);
        value.parse::<usize>().unwrap()
    };
    assert_eq!(bytes("HDFS_BYTES_READ"), "line\n".len() * (0..FILES).sum::<usize>());
    assert_eq!(bytes("HDFS_BYTES_WRITTEN"), expected.len());
    let spent = stand.counter("Job Counters", "Total time spent by all map tasks (ms)");
    assert!(spent.parse::<u64>().unwrap() >= maps as u64, "{maps} maps in {spent} ms");
}

/// A map that has read its input and waits: its counters, its status and its rates are there.
fn counters_status_and_rates(stand: &Streaming) {
    let marks = stand.cluster.marks_of("live");
    let gate = marks.join("shut");
    fs::write(&gate, "").unwrap();
    stand.put("/lines", "a line\n".repeat(500).as_bytes());
    let script = format!(
        "cat >/dev/null\necho reporter:counter:Mine,seen,7 >&2\n\
         while [ -e {} ]; do echo 'reporter:status:  nearly <there>' >&2; sleep 0.1; done\n",
        gate.display()
    );
    stand.script("wait.sh", &script);
    let words = ["job", "streaming", "-input", "/lines", "-output", "/waited"];
    let words = [&words[..], &["-mapper", "sh wait.sh", "-file", "wait.sh"]].concat();
    let mut command = stand.cluster.command(&hanno_binary(), &words);
    let mut driver = command
        .current_dir(&stand.scripts)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let jobs = stand.cluster.jobs();
    let mut found: Option<JobReport> = None;
    stand.cluster.wait_until("the running map has reported", SECONDS_MAX, |_| {
        found = jobs.list().unwrap().into_iter().find(|job| !job.state.is_final());
        found.as_ref().is_some_and(|job| {
            job.counters.value("Mine", "seen") == 7 && job.read_records_per_s > 0
        })
    });
    let job = found.expect("it was waited for");
    assert_eq!((job.state, job.maps.completed), (JobState::Running, 0));
    assert_eq!(job.counters.value(TASK_COUNTERS, "MAP_INPUT_RECORDS"), 500);
    assert!(job.read_bytes_per_s > job.read_records_per_s, "{job:?}");
    let tasks = jobs.tasks(job.id.parse().unwrap()).unwrap();
    let status = |state: &str| {
        let attempts = tasks.iter().flat_map(|task| &task.attempts);
        attempts
            .filter(|attempt| attempt.state == state)
            .map(|attempt| attempt.status.clone())
            .next()
    };
    assert_eq!(status("RUNNING").as_deref(), Some("nearly <there>"));
    let text = stand.cluster.hanno(&["job", "-status", &job.id]).ok().stdout_text();
    assert!(text.contains("a second\n") && text.contains("seen=7"), "{text}");
    fs::remove_file(&gate).unwrap();
    assert!(driver.wait().unwrap().success());
    let job = jobs.status(job.id.parse().unwrap()).unwrap();
    assert_eq!((job.read_records_per_s, job.read_bytes_per_s), (0, 0), "nothing runs");
    assert_eq!(job.counters.value("Mine", "seen"), 7, "counted once");
    assert_eq!(job.counters.value(TASK_COUNTERS, "MAP_INPUT_RECORDS"), 500);
}
