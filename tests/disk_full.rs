//! Full disks under every daemon: nothing acknowledged is harmed, the message names the remedy, and room that comes back is used.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::mount::{self, Ballast};
use crate::support::{Cluster, Options, data};

/// A disk on which one block of 128 MiB fits.
const DISK_BYTES: u64 = 150 << 20;

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn report(cluster: &Cluster) -> String {
    cluster.hanno(&["admin", "report", "--json"]).stdout_text()
}

#[test]
fn a_put_goes_on_elsewhere_when_disks_fill_up_in_the_middle_of_a_block() {
    if !mount::is_possible() {
        return;
    }
    let mounts = vec![("datanode-1", DISK_BYTES), ("datanode-2", DISK_BYTES)];
    let cluster = Cluster::start(Options { datanodes: 4, workers: 1, mounts, ..Options::tight() });
    let pids = ["datanode-1", "datanode-2"].map(|daemon| cluster.pid(daemon));
    let content = data::bytes(5, 24 << 20);
    let mut ballast = Vec::new();
    let volumes = ["datanode-1", "datanode-2"].map(|daemon| cluster.seen_by_daemons(daemon));
    let outcome = cluster.put_with_a_pause("/x", content.split_at(6 << 20), || {
        cluster.wait_until("a replica grows on a disk that will be full", 60, |_| {
            volumes.iter().any(|volume| !is_empty(&volume.join("rbw")))
        });
        ballast.extend(volumes.iter().map(|volume| Ballast::fill(volume, 0)));
    });
    outcome.ok();
    assert!(cluster.dfs(&["-cat", "/x"]).ok().stdout == content);
    cluster.wait_until("nothing half-written stays", 60, |_| {
        volumes.iter().all(|volume| is_empty(&volume.join("rbw")))
    });
    cluster.wait_until("both tell that they have no room", 60, |cluster| {
        report(cluster).matches("\"remaining\": 0,").count() == 2
    });
    assert_eq!(pids, ["datanode-1", "datanode-2"].map(|daemon| cluster.pid(daemon)));
    drop(ballast);
    cluster.wait_healthy(60);
    assert!(cluster.dfs(&["-cat", "/x"]).ok().stdout == content);
}

#[test]
fn when_all_disks_are_full_a_put_ends_with_the_remedy_and_leaves_nothing() {
    if !mount::is_possible() {
        return;
    }
    let daemons = ["datanode-1", "datanode-2", "datanode-3"];
    let mounts = daemons.map(|daemon| (daemon, DISK_BYTES)).to_vec();
    let cluster = Cluster::start(Options { workers: 1, mounts, ..Options::tight() });
    let volumes = daemons.map(|daemon| cluster.seen_by_daemons(daemon));
    let content = data::bytes(6, 24 << 20);
    let mut ballast = Vec::new();
    let failed = cluster.put_with_a_pause("/x", content.split_at(6 << 20), || {
        cluster.wait_until("replicas grow", 60, |_| {
            volumes.iter().all(|volume| !is_empty(&volume.join("rbw")))
        });
        ballast.extend(volumes.iter().map(|volume| Ballast::fill(volume, 0)));
    });
    let refused = cluster.put_with_a_pause("/y", (&content[..1000], &[]), || {});
    for outcome in [failed, refused] {
        assert_eq!(outcome.code, 1, "{}", outcome.stderr);
        let lines: Vec<&str> =
            outcome.stderr.lines().filter(|line| line.starts_with("put: ")).collect();
        assert_eq!(lines.len(), 1, "{}", outcome.stderr);
        assert!(
            lines[0].contains("delete files") && lines[0].contains("add disks"),
            "{}",
            lines[0]
        );
    }
    let listing = cluster.dfs(&["-ls", "/"]).ok().stdout_text();
    assert!(!listing.contains("/x") && !listing.contains("/y"), "{listing}");
    cluster.wait_until("nothing half-written stays", 60, |_| {
        volumes.iter().all(|volume| is_empty(&volume.join("rbw")))
    });
    drop(ballast);
    cluster.wait_until("there is room again", 60, |cluster| {
        cluster.put_with_a_pause("/y", (&content, &[]), || {}).code == 0
    });
    assert!(cluster.dfs(&["-cat", "/y"]).ok().stdout == content);
    cluster.wait_healthy(60);
}

#[test]
fn a_namenode_whose_disk_is_nearly_full_takes_deletions_only_until_there_is_room_again() {
    if !mount::is_possible() {
        return;
    }
    let mounts = vec![("namenode-1", 200 << 20)];
    let cluster = Cluster::start(Options { workers: 1, mounts, ..Options::tight() });
    cluster.dfs(&["-mkdir", "/before"]).ok();
    cluster.hanno(&["dfsadmin", "-allowSnapshot", "/before"]).ok();
    cluster.dfs(&["-createSnapshot", "/before", "s"]).ok();
    let put = cluster.put_with_a_pause("/filled", (&data::bytes(7, 3 << 20), &[]), || {});
    put.ok();
    let ballast = Ballast::fill(&cluster.seen_by_daemons("namenode-1"), 50 << 20);
    let is_on = |cluster: &Cluster| {
        cluster.hanno(&["admin", "safemode", "get"]).stdout_text().contains("Safe mode is ON")
    };
    cluster.wait_until("safe mode is on", 60, is_on);
    let refused = cluster.dfs(&["-mkdir", "/x"]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("Name node is in safe mode"), "{}", refused.stderr);
    let left = cluster.hanno(&["admin", "safemode", "leave"]);
    assert_ne!(left.code, 0);
    assert!(left.stderr.contains("Safe mode stays ON. Resources are low"), "{}", left.stderr);
    cluster.dfs(&["-test", "-d", "/before"]).ok();
    // What frees room goes on, to the replicas on the disks of the DataNodes.
    let blocks = cluster.directory.join("datanode-1");
    assert!(replica_count(&blocks) > 0);
    cluster.dfs(&["-rm", "-skipTrash", "/filled"]).ok();
    cluster.wait_until("its replicas are deleted", 60, |_| replica_count(&blocks) == 0);
    cluster.dfs(&["-deleteSnapshot", "/before", "s"]).ok();
    assert!(is_on(&cluster));
    drop(ballast);
    cluster.wait_until("safe mode ends by itself", 60, |cluster| !is_on(cluster));
    cluster.dfs(&["-mkdir", "/x"]).ok();
}

/// Block files below a data directory.
fn replica_count(directory: &Path) -> usize {
    let mut folders = vec![directory.join("finalized")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_namenode_whose_log_meets_a_full_disk_stops_and_recovers_everything_acknowledged() {
    if !mount::is_possible() {
        return;
    }
    let mut options =
        Options { workers: 1, mounts: vec![("namenode-1", 32 << 20)], ..Options::tight() };
    options.variables.push(("HANNO_NAMENODE_FREE_SPACE_MIN", "0".to_owned()));
    let cluster = Cluster::start(options);
    let (done, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let errors = cluster.directory.join("cluster.err");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let path = format!("/{number}-{}", "x".repeat(200));
                if cluster.dfs(&["-mkdir", &path]).code == 0 {
                    acknowledged.lock().unwrap().push(path);
                }
            }
        });
        cluster.wait_until("some are acknowledged", 60, |_| acknowledged.lock().unwrap().len() > 3);
        let ballast = Ballast::fill(&cluster.seen_by_daemons("namenode-1"), 0);
        cluster.wait_until("the NameNode has stopped and said why", 120, |_| {
            fs::read_to_string(&errors).is_ok_and(|text| {
                text.lines()
                    .any(|line| line.contains("namenode-1 ended") && line.contains("No space left"))
            })
        });
        let before = acknowledged.lock().unwrap().len();
        drop(ballast);
        cluster.wait_until("changes are taken again", 90, |_| {
            acknowledged.lock().unwrap().len() > before + 3
        });
        done.store(true, Ordering::Relaxed);
    });
    let listing = cluster.dfs(&["-ls", "/"]).ok().stdout_text();
    for path in acknowledged.into_inner().unwrap() {
        assert!(listing.contains(&format!(" {path}\n")), "{path} is lost");
    }
}

#[test]
fn a_worker_without_room_fails_its_attempts_with_the_remedy_and_others_run_them() {
    if !mount::is_possible() {
        return;
    }
    // Distinct words: nothing is combined, so that maps spill what they read.
    let text: Vec<u8> = (0..800_000u32)
        .flat_map(|n| format!("{:08x}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
        .collect();
    let mut options = Options { mounts: vec![("worker-1", DISK_BYTES)], ..Options::tight() };
    options.variables.push(("HANNO_WORKER_TASK_MEMORY_BYTES_MAX", (4 << 20).to_string()));
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let input = local.path().join("text");
    fs::write(&input, &text).unwrap();
    cluster.dfs(&["-D", "dfs.blocksize=2097152", "-put", input.to_str().unwrap(), "/text"]).ok();
    // Both workers keep the executable; from then on one of them has no room for what a map leaves.
    cluster.example("wordcount", &["--reducers", "1", "/text", "/before"]).ok();
    let jobs = cluster.seen_by_daemons("worker-1").join("jobs");
    cluster.wait_until("what the first job left is removed", 60, |_| is_empty(&jobs));
    let ballast = Ballast::fill(&cluster.seen_by_daemons("worker-1"), 256 << 10);
    let job = cluster.example("wordcount", &["--reducers", "1", "/text", "/out"]);
    assert_eq!(job.code, 0, "{}", job.stderr);
    let found = cluster.dfs(&["-cat", "/out/part-r-00000"]).ok().stdout;
    assert!(found == data::word_count(&text));
    let id = job.stderr.split_once("Running job: ").and_then(|(_, rest)| rest.split(':').next());
    let tasks = cluster.jobs().tasks(id.unwrap().parse().unwrap());
    let attempts: Vec<_> = tasks.unwrap().into_iter().flat_map(|task| task.attempts).collect();
    let failed: Vec<_> = attempts.iter().filter(|attempt| attempt.state == "FAILED").collect();
    assert!(!failed.is_empty(), "one worker has no room: {attempts:?}");
    let place = cluster.directory.join("worker-1").display().to_string();
    for attempt in failed {
        let text = &attempt.diagnostics;
        assert!(text.contains("is full; free space there") && text.contains(&place), "{text}");
    }
    drop(ballast);
    cluster.wait_until("its scratch files are removed", 60, |_| is_empty(&jobs));
}

#[test]
fn a_jobtracker_without_room_takes_no_jobs() {
    let mut options = Options::tight();
    options.variables.push(("HANNO_JOBTRACKER_FREE_SPACE_MIN", (1u64 << 60).to_string()));
    let cluster = Cluster::start(options);
    let local = tempfile::tempdir().unwrap();
    let input = local.path().join("text");
    fs::write(&input, "a b a").unwrap();
    cluster.dfs(&["-put", input.to_str().unwrap(), "/text"]).ok();
    let job = cluster.example("wordcount", &["/text", "/out"]);
    assert_ne!(job.code, 0);
    assert!(
        job.stderr.contains("takes no new jobs") && job.stderr.contains("free_space_min"),
        "{}",
        job.stderr
    );
    assert_eq!(cluster.dfs(&["-test", "-e", "/out"]).code, 1);
}
