//! Tasks that misbehave in every way people have found: each fails with its reason after four attempts, and a job beside it is not harmed.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Stand, files_below, options, with};
use crate::support::report::{Stop, assert_no_panics};
use crate::support::{Cluster, Outcome, cluster::hanno_binary, mount};

/// Limits that are reached soon.
const LIMITS: [(&str, &str); 7] = [
    ("HANNO_WORKER_TASK_TIMEOUT_MS", "2000"),
    ("HANNO_WORKER_TASK_MEMORY_BYTES_MAX", "16777216"),
    ("HANNO_WORKER_TASK_MEMORY_LIMIT_BYTES", "268435456"),
    ("HANNO_WORKER_TASK_PROCESSES_MAX", "40"),
    ("HANNO_WORKER_TASK_DISK_BYTES_MAX", "67108864"),
    ("HANNO_WORKER_LOG_BYTES_MAX", "100000"),
    ("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "0"),
];

/// Takes memory a mebibyte at a time and tells of each, so that it is not ended for its silence on a busy machine.
const ALLOCATES: &str = r#"awk 'BEGIN {
    s = "x"; for (i = 0; i < 20; i++) s = s s
    while (1) { kept[n++] = s n; print "reporter:status:" n >"/dev/stderr" }
}'"#;

impl Stand {
    pub(super) fn put(&self, path: &str, text: &str) {
        let local = self.cluster.directory.join("line");
        fs::write(&local, text).unwrap();
        self.cluster.dfs(&["-put", "-f", local.to_str().unwrap(), path]).ok();
    }

    /// A map-only job of one script over one line.
    pub(super) fn script(&self, name: &str, script: &str) -> Outcome {
        self.script_with(name, script, &[])
    }

    /// The same, with options.
    pub(super) fn script_with(&self, name: &str, script: &str, more: &[&str]) -> Outcome {
        let scripts = self.cluster.directory.join(format!("script-{name}"));
        fs::create_dir(&scripts).unwrap();
        fs::write(scripts.join("map.sh"), script).unwrap();
        let output = format!("/bad-{name}");
        let first = [&["job", "streaming"], more].concat();
        let words = [
            "-input",
            "/line",
            "-output",
            &output,
            "-file",
            "map.sh",
            "-mapper",
            "sh map.sh",
            "-reducer",
            "NONE",
        ];
        let mut command = self.cluster.command(&hanno_binary(), &[&first, &words[..]].concat());
        command.current_dir(&scripts);
        Outcome::of(command)
    }

    /// The newest job failed after four attempts, for one of the reasons.
    #[track_caller]
    pub(super) fn assert_failed(&self, name: &str, outcome: &Outcome, reasons: &[&str]) {
        assert_eq!(outcome.code, 1, "{name}: {}", outcome.stderr);
        assert!(
            reasons.iter().any(|reason| outcome.stderr.contains(reason)),
            "{name}: {}",
            outcome.stderr
        );
        assert_absent(&self.cluster, &format!("/bad-{name}"));
    }
}

#[track_caller]
pub(super) fn assert_absent(cluster: &Cluster, path: &str) {
    assert_eq!(cluster.dfs(&["-test", "-e", path]).code, 1, "{path} is there");
}

#[test]
fn tasks_that_misbehave_fail_with_their_reason_and_harm_nobody() {
    let stand = Stand::start(2, with(options(), &LIMITS));
    stand.put("/line", "one line\n");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = Stop(&done);
        let beside = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                stand.begin(&format!("beside-{count}"), &[], &[]).succeed();
                count += 1;
            }
            count
        });
        scripts(&stand);
        programs(&stand);
        drop(stop);
        assert!(beside.join().unwrap() > 2, "the others went on");
    });
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

fn scripts(stand: &Stand) {
    for (name, script, reasons) in [
        ("hangs", "sleep 1000", &["no sign of life for 2s"][..]),
        // It says that it is alive, so only the limit can end it.
        (
            "forks",
            "while :; do sleep 1000 & echo reporter:status:alive >&2; done",
            &["more than its limit of 40"],
        ),
        ("allocates", ALLOCATES, &["memory", "exit"]),
        (
            "fills",
            "i=0; while :; do i=$((i+1)); head -c 10000000 /dev/zero | tr '\\0' x >f$i; done",
            &["bytes on disk, more than its limit of 67108864"],
        ),
        ("dies", "kill -9 $$", &["signal"]),
    ] {
        let outcome = stand.script(name, script);
        stand.assert_failed(name, &outcome, reasons);
    }
    // These are no reason to fail.
    let flood = "cat; head -c 1000000000 /dev/zero >&2";
    stand.script("floods", flood).ok();
    let id = job_of(stand, "floods");
    let log = stand.hanno(&["job", "-logs", &id]);
    assert!(log.len() < 200_000 && log.contains("the log was cut off here"), "{}", log.len());
    let every_byte: String = (0..=255).map(|byte: u8| format!("\\{byte:03o}")).collect();
    stand.script("junk", &format!("cat; printf '{every_byte}'")).ok();
    let junk = stand.cluster.dfs(&["-cat", "/bad-junk/part-*"]).ok().stdout;
    assert!(junk.starts_with(b"one line\t\n") && junk.len() >= 256, "{}", junk.len());
}

fn programs(stand: &Stand) {
    for (name, reason) in [("exit", "exit status: 0"), ("spin", "no sign of life for 2s")] {
        stand.put("/line", &format!("good\n{name}\n"));
        let outcome = stand.cluster.example("poison", &["/line", &format!("/bad-{name}")]);
        stand.assert_failed(name, &outcome, &[reason]);
    }
    stand.put("/line", "flood\njunk\ngood\n");
    stand.cluster.example("poison", &["/line", "/flooded"]).ok();
    let output = stand.cluster.dfs(&["-cat", "/flooded/part-*"]).ok();
    output.prints("flood\t1\ngood\t1\njunk\t1\n");
}

/// The job with a script of this name, by the output in its history.
fn job_of(stand: &Stand, name: &str) -> String {
    let (histories, output) =
        (stand.cluster.directory.join("jobtracker-1/history"), format!("/bad-{name}\""));
    let mut found = None;
    stand.wait("the history is written", |_| {
        let files = files_below(&histories, ".jsonl");
        let is_it =
            |file: &&PathBuf| fs::read_to_string(file).is_ok_and(|text| text.contains(&output));
        found =
            files.iter().find(is_it).and_then(|file| file.file_stem()).map(|name| name.to_owned());
        found.is_some()
    });
    found.unwrap().into_string().unwrap()
}

/// The disk is so small that the bound of a task is never reached.
#[test]
fn on_an_almost_full_disk_the_task_that_holds_most_is_ended() {
    if !mount::is_possible() {
        return;
    }
    let mut options = with(options(), &[("HANNO_WORKER_DISK_RESERVE_BYTES", "20000000")]);
    // Two for the maps that wait, one for the task that fills the disk.
    (options.workers, options.slots) = (1, 3);
    options.mounts = vec![("worker-1", 300_000_000)];
    let stand = Stand::start(2, options);
    stand.put("/line", "one line\n");
    let beside = stand.begin("beside", &["map"], &[]);
    beside.wait_at("map", 1);
    let script = "i=0; while :; do i=$((i+1)); head -c 1000000 /dev/zero | tr '\\0' x >f$i; sleep 0.02; done";
    let outcome = stand.script("fills", script);
    stand.assert_failed("fills", &outcome, &["disk_reserve_bytes"]);
    beside.open("map");
    beside.succeed();
}
