//! `hanno admin doctor` on this machine, and on machines that lack something: few open files, a small disk, no users to give, closed directories.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::cluster::{fresh_directory, hanno_binary};
use crate::support::{Cluster, Options, Outcome, http, mount};

/// What is told of a machine besides the walls around tasks.
const OF_MACHINE: [&str; 5] = ["kernel", "open files", "clock", "room", "inodes"];

fn doctor(directory: &Path) -> Command {
    let mut command = Command::new(hanno_binary());
    command.args(["admin", "doctor", "--json", "--dir"]).arg(directory);
    command
}

/// What was told: the check, its status, what was found, what it takes.
fn findings(outcome: &Outcome) -> Vec<[String; 4]> {
    let told: Vec<Value> = serde_json::from_slice(&outcome.stdout)
        .unwrap_or_else(|error| panic!("{error}: {outcome:?}"));
    let told = told.iter().map(|finding| {
        ["check", "status", "found", "remedy"]
            .map(|name| finding[name].as_str().expect("a text").to_owned())
    });
    told.collect()
}

#[track_caller]
fn finding(outcome: &Outcome, check: &str) -> [String; 4] {
    let mut findings = findings(outcome).into_iter();
    findings.find(|finding| finding[0] == check).unwrap_or_else(|| panic!("{check}: {outcome:?}"))
}

fn is_left(directory: &Path) -> bool {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(".hanno-doctor"))
}

#[test]
fn it_tells_what_a_worker_here_does() {
    let cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::default() });
    let config = fs::read_to_string(cluster.directory.join("conf/worker-1.toml")).unwrap();
    let bind = config.lines().find_map(|line| line.strip_prefix("bind = ")).unwrap();
    let health = format!("http://{}/healthz", bind.trim_matches('"'));
    let health = http::request("GET", &health, b"").is(200).text();
    let health: Value = serde_json::from_str(&health).unwrap();
    let isolation = health["isolation"].as_str().unwrap();
    let outcome = Outcome::of(doctor(&cluster.directory)).ok();
    let told = findings(&outcome);
    let walls: Vec<_> = told.iter().filter(|[check, ..]| check.starts_with("tasks: ")).collect();
    assert!(walls.len() >= 7, "{told:?}");
    for [check, status, found, remedy] in walls {
        // Each worker has numbers of its own.
        let found = found.split_once(": ").unwrap().1;
        let found = found.split_once(" (2").map_or(found, |(before, _)| before);
        assert!(isolation.contains(found), "{check}: `{found}` is not in `{isolation}`");
        assert_eq!(status == "ok", remedy.is_empty(), "{check}: {status}, {remedy}");
    }
    for check in OF_MACHINE {
        finding(&outcome, check);
    }
    assert!(!is_left(&cluster.directory));
    let mut plain = Command::new(hanno_binary());
    plain.args(["admin", "doctor", "--dir"]).arg(&cluster.directory);
    let text = Outcome::of(plain).ok().stdout_text();
    assert!(text.starts_with("ok   kernel "), "{text}");
    assert_eq!(text.lines().count(), told.len());
}

#[test]
fn what_a_machine_lacks_is_told_with_its_remedy() {
    let directory = fresh_directory();
    let missing = Outcome::of(doctor(&directory.join("missing")));
    assert_eq!(missing.code, 1, "{missing:?}");
    for check in ["room", "inodes", "tasks"] {
        let [_, status, found, remedy] = finding(&missing, check);
        assert!(status == "fail" && found.contains("missing") && !remedy.is_empty(), "{missing:?}");
    }
    for (limit, status, code) in [(512, "fail", 1), (4096, "warn", 0)] {
        let mut command = Command::new("prlimit");
        let doctor = doctor(&directory);
        command.arg(format!("--nofile={limit}")).arg(doctor.get_program()).args(doctor.get_args());
        let few = Outcome::of(command);
        let [_, told, found, remedy] = finding(&few, "open files");
        assert_eq!((few.code, &*told), (code, status), "{few:?}");
        assert!(found.contains(&limit.to_string()) && remedy.contains("LimitNOFILE"), "{few:?}");
    }
    let mut off = doctor(&directory);
    off.env("HANNO_WORKER_TASK_SANDBOX", "off");
    let off = Outcome::of(off);
    let [_, status, found, _] = finding(&off, "tasks: sandbox");
    assert!(status == "warn" && found.contains("no sandbox"), "{off:?}");
    fs::write(directory.join("worker.toml"), "task_sandbx = \"off\"\n").unwrap();
    let mut misspelt = doctor(&directory);
    misspelt.arg("--worker-config").arg(directory.join("worker.toml"));
    let misspelt = Outcome::of(misspelt);
    assert!(misspelt.code == 1 && misspelt.stderr.contains("task_sandbox"), "{misspelt:?}");
    if sys::host::user_id() == 0 {
        let closed = directory.join("closed");
        fs::create_dir_all(closed.join("data")).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let outcome = Outcome::of(doctor(&closed.join("data"))).ok();
        let [_, status, found, remedy] = finding(&outcome, "tasks: users");
        assert!(status == "warn" && found.contains("is closed to other users"), "{outcome:?}");
        assert!(remedy.contains("chmod o+x"), "{outcome:?}");
    }
    assert!(!is_left(&directory));
    if mount::is_possible() {
        on_a_small_disk_without_users(&directory);
    }
    fs::remove_dir_all(directory).unwrap();
}

fn on_a_small_disk_without_users(directory: &Path) {
    let script = "mount -t tmpfs -o size=1m,nr_inodes=100 none \"$0\" && exec \"$@\"";
    let mut command = mount::in_namespace(script);
    let doctor = doctor(directory);
    command.arg(directory).arg(doctor.get_program()).args(doctor.get_args());
    command.env("HANNO_WORKER_TASK_SANDBOX", "required");
    let outcome = Outcome::of(command);
    assert_eq!(outcome.code, 1, "{outcome:?}");
    let [_, status, found, _] = finding(&outcome, "room");
    assert!(status == "fail" && found.contains("1"), "{outcome:?}");
    // Who is root there has no other users.
    let [_, status, found, _] = finding(&outcome, "tasks");
    assert!(status == "fail" && found.contains("jobs get no users of their own"), "{outcome:?}");
}
