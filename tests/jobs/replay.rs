//! `hanno job replay`: attempts that ran on the cluster run again here, and nothing in the cluster changes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome, data};

const RECORD_AT: &str = "stopped before the record at byte 10";

fn newest_job(cluster: &Cluster) -> String {
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    let job = list.split_whitespace().find(|word| word.starts_with("job_"));
    job.expect("a job").to_owned()
}

fn attempt(cluster: &Cluster, kind: &str, state: &str) -> String {
    let job = newest_job(cluster);
    let ids = cluster.hanno(&["job", "-list-attempt-ids", &job, kind, state]).ok().stdout_text();
    ids.lines().next().expect("an attempt").to_owned()
}

fn replay(cluster: &Cluster, place: &Path, words: &[&str]) -> Command {
    let all = [&["job", "replay"], words].concat();
    let mut command = cluster.command(&hanno_binary(), &all);
    command.current_dir(place);
    command
}

fn names(cluster: &Cluster) -> String {
    cluster.dfs(&["-ls", "-R", "/"]).ok().stdout_text()
}

#[test]
fn a_failed_map_fails_again_here_and_can_be_stopped_before_its_record() {
    let cluster = Cluster::start(Options::tight());
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("in");
    fs::write(&input, "good\nfine\npoison here\nmore\n").unwrap();
    cluster.dfs(&["-put", input.to_str().unwrap(), "/in"]).ok();
    assert_eq!(cluster.example("poison", &["/in", "/out"]).code, 1);
    let failed = attempt(&cluster, "MAP", "failed");
    let before = names(&cluster);

    let again = Outcome::of(replay(&cluster, place.path(), &[&failed]));
    assert_eq!(again.code, 1, "{}", again.stderr);
    assert!(again.stderr.contains("failed again"), "{}", again.stderr);
    assert!(again.stderr.contains("map failed at /in, byte 10: "), "{}", again.stderr);
    let again = Outcome::of(replay(&cluster, place.path(), &[&failed]));
    assert!(again.code == 1 && again.stderr.contains("is not empty"), "{}", again.stderr);

    // `env` stands for a debugger: it starts what it is given.
    let words = ["--stop-before-failure", "--debugger", "env SEEN=1", "--directory", "d", &failed];
    let mut command = replay(&cluster, place.path(), &words);
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let stopped = lines.find(|line| line.contains(RECORD_AT)).expect("it stops");
    let words: Vec<&str> = stopped.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "process").unwrap();
    let pid: u32 = words[at + 1].trim_end_matches(',').parse().unwrap();
    cluster.wait_until("the process is stopped", 60, |_| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('T')
    });
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(environment.split(|byte| *byte == 0).any(|one| one == b"SEEN=1"));
    sys::process::resume(pid).unwrap();
    assert!(lines.any(|line| line.contains("this line is poison")));
    assert_eq!(child.wait().unwrap().code(), Some(1));

    for (words, told) in [
        (&["attempt_1"][..], "is no attempt"),
        (&["--stop-before", "/in", &failed], "is not PATH:BYTE"),
        (&["--binary", "/nothing", "--directory", "e", &failed], "cannot find /nothing"),
        (&["--binary", "/bin/true", "--directory", "f", &failed], "before it took the task"),
    ] {
        let wrong = Outcome::of(replay(&cluster, place.path(), words));
        assert!(wrong.code == 1 && wrong.stderr.contains(told), "{words:?}: {}", wrong.stderr);
    }
    assert_eq!(names(&cluster), before);
}

#[test]
fn a_reduce_of_a_finished_job_writes_the_same_here() {
    let cluster = Cluster::start(Options::tight());
    let place = tempfile::tempdir().unwrap();
    let input = place.path().join("in");
    fs::write(&input, data::text(3, 300_000)).unwrap();
    cluster.dfs(&["-D", "dfs.blocksize=65536", "-put", input.to_str().unwrap(), "/in"]).ok();
    cluster.example("wordcount", &["--reducers", "2", "/in", "/out"]).ok();
    let before = names(&cluster);
    let reduce = attempt(&cluster, "REDUCE", "completed");
    let again = Outcome::of(replay(&cluster, place.path(), &["--directory", "r", &reduce])).ok();
    assert!(again.stderr.contains("all 5 run again first"), "{}", again.stderr);
    assert!(again.stdout_text().contains("Reduce output records="), "{}", again.stdout_text());
    let part = format!("part-r-0000{}", if reduce.contains("_r_000000_") { 0 } else { 1 });
    let here = fs::read(place.path().join("r/output").join(&part)).unwrap();
    assert!(!here.is_empty());
    assert!(cluster.dfs(&["-cat", &format!("/out/{part}")]).ok().stdout == here);
    let map = attempt(&cluster, "MAP", "completed");
    let again = Outcome::of(replay(&cluster, place.path(), &["--directory", "m", &map])).ok();
    assert!(again.stdout_text().contains("Map input records="), "{}", again.stdout_text());
    assert_eq!(names(&cluster), before);
}
