//! What an administrator does or gets wrong: safe mode with few blocks, draining the only copy, restarting everything in turn,
//! another version's data, two daemons on one directory.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::{
    Stop, address, admin_state, assert_content, assert_no_panics, copy_tree, has_reported_since,
    kill_and_wait, live_count, options, put, safe_mode_reason, wait_live,
};
use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome, data, processes};

#[test]
fn safe_mode_ends_when_enough_blocks_are_reported_and_says_how_many_are_missing() {
    let cluster = Cluster::start(options(3).with_files());
    for number in 0..9 {
        put(&cluster, &format!("/f{number}"), &data::bytes(number, 5000), (1 << 20, 1));
    }
    let daemons = ["datanode-1", "datanode-2", "datanode-3"];
    let counts = [1, 2, 3]
        .map(|number| cluster.replicas().iter().filter(|(holder, _)| *holder == number).count());
    assert_eq!(counts.iter().sum::<usize>(), 9, "one replica of each");
    daemons.iter().for_each(|daemon| {
        processes::pause(cluster.pid(daemon).unwrap());
    });
    kill_and_wait(&cluster, "namenode-1");
    let mut reported = 0;
    for (daemon, count) in daemons.iter().zip(counts) {
        // With 8 of 9 the threshold is reached: what is missing is rounded down once everybody who is there has reported.
        if reported < 8 {
            let missing = format!("The reported blocks {reported} needs additional ");
            cluster.wait_until("the missing blocks are counted", 60, |cluster| {
                safe_mode_reason(cluster).contains(&missing)
            });
            cluster.dfs(&["-ls", "/f0"]).ok();
        }
        sys::process::resume(cluster.pid(daemon).unwrap()).unwrap();
        reported += count;
    }
    cluster.hanno(&["dfsadmin", "-safemode", "wait"]).ok().prints("Safe mode is OFF\n");
    cluster.dfs(&["-mkdir", "/x"]).ok();
    // By hand.
    cluster.hanno(&["dfsadmin", "-safemode", "enter"]).ok().prints("Safe mode is ON\n");
    assert_eq!(cluster.dfs(&["-mkdir", "/y"]).code, 1);
    assert!(safe_mode_reason(&cluster).contains("It was turned on manually"));
    cluster.hanno(&["dfsadmin", "-safemode", "leave"]).ok().prints("Safe mode is OFF\n");
    cluster.dfs(&["-mkdir", "/y"]).ok();
}

#[test]
fn a_drain_of_the_only_copy_waits_until_there_is_another() {
    let exclude = tempfile::NamedTempFile::new().unwrap();
    let mut options = options(2);
    let file = exclude.path().to_str().unwrap().to_owned();
    options.variables.push(("HANNO_NAMENODE_HOSTS_EXCLUDE_FILE", file));
    let cluster = Cluster::start(options);
    let content = data::bytes(1, 700_000);
    put(&cluster, "/x", &content, (1 << 20, 1));
    let [(holder, _)] = cluster.replicas()[..] else { panic!("one replica") };
    let other = format!("datanode-{}", 3 - holder);
    processes::pause(cluster.pid(&other).unwrap());
    wait_live(&cluster, 1);
    let drained = address(&cluster, holder);
    fs::write(exclude.path(), format!("{drained}\n")).unwrap();
    cluster.hanno(&["dfsadmin", "-refreshNodes"]).ok();
    cluster.wait_until("the drain waits for that block", 60, |cluster| {
        let report = cluster.hanno(&["dfsadmin", "-report"]).stdout_text();
        admin_state(cluster, &drained) == "DecommissionInProgress"
            && report.contains("Decommission Status : Decommission in progress")
    });
    assert_content(&cluster, "/x", &content);
    sys::process::resume(cluster.pid(&other).unwrap()).unwrap();
    cluster.wait_until("it is drained", 60, |cluster| {
        admin_state(cluster, &drained) == "Decommissioned"
    });
    let elsewhere = cluster.replicas().iter().any(|(number, path)| {
        *number != holder && fs::read(path).is_ok_and(|bytes| bytes == content)
    });
    assert!(elsewhere, "the other one has it");
    cluster.kill(&format!("datanode-{holder}"));
    assert_content(&cluster, "/x", &content);
}

#[test]
fn everything_is_restarted_in_turn_under_load_and_nobody_notices() {
    let cluster = Cluster::start(Options { workers: 2, ..Options::tight() });
    let text = data::text(5, 2_000_000);
    put(&cluster, "/text", &text, (1 << 20, 3));
    let expected = data::word_count(&text);
    let (done, files) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                let (path, content) = (format!("/f{number}"), data::bytes(number, 1_300_000));
                put(&cluster, &path, &content, (1 << 20, 3));
                assert_content(&cluster, &path, &content);
                files.lock().unwrap().push((path, content));
            }
        });
        scope.spawn(|| {
            for number in 0.. {
                if done.load(Ordering::Relaxed) && number > 0 {
                    return;
                }
                let output = format!("/out{number}");
                let job = cluster.example("wordcount", &["--reducers", "1", "/text", &output]);
                assert_eq!(job.code, 0, "{}", job.stderr);
                let part = cluster.dfs(&["-cat", &format!("{output}/part-r-00000")]).ok();
                assert!(part.stdout == expected, "{output}");
            }
        });
        let _stop = Stop(&done);
        for daemon in [
            "datanode-1",
            "datanode-2",
            "datanode-3",
            "namenode-1",
            "worker-1",
            "worker-2",
            "jobtracker-1",
        ] {
            let (before, begin) = (cluster.pid(daemon), Instant::now());
            sys::process::terminate(before.unwrap()).unwrap();
            let number = daemon.strip_prefix("datanode-").map(|number| number.parse().unwrap());
            cluster.wait_until("the daemon is back", 60, |cluster| {
                cluster.pid(daemon).is_some_and(|pid| Some(pid) != before)
                    && live_count(cluster) == 3
                    && number.is_none_or(|number| has_reported_since(cluster, number, begin))
            });
        }
    });
    let files = files.into_inner().unwrap();
    assert!(!files.is_empty());
    for (path, content) in &files {
        assert_content(&cluster, path, content);
    }
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
    let errors = fs::read_to_string(cluster.directory.join("cluster.err")).unwrap();
    let bad_ends =
        errors.lines().filter(|line| line.contains(" ended (") && !line.contains("status: 0"));
    assert_eq!(bad_ends.collect::<Vec<_>>(), Vec::<&str>::new(), "each was asked and ended well");
}

/// Exit code of `timeout` where what it runs did not end.
const TIMED_OUT: i32 = 124;

/// Runs a daemon of a stopped or running cluster by itself; it is expected to end.
fn daemon(cluster: &Cluster, kind: &str, variables: &[(&str, String)]) -> Outcome {
    let config = cluster.directory.join(format!("conf/{kind}-1.toml"));
    let mut command = Command::new("timeout");
    command.arg("30").arg(hanno_binary()).arg(kind).arg("--config").arg(config);
    command.envs(variables.iter().map(|(name, value)| (*name, value.as_str())));
    Outcome::of(command)
}

#[test]
fn nobody_is_told_an_address_that_is_none() {
    let mut cluster = Cluster::start(options(1));
    cluster.stop();
    for (kind, key, remedy) in [
        ("namenode", "bind", "advertise"),
        ("datanode", "bind", "advertise"),
        ("datanode", "http_bind", "http_advertise"),
        ("worker", "bind", "advertise"),
    ] {
        let variable = |key: &str| format!("HANNO_{kind}_{key}").to_uppercase();
        let bind = variable(key);
        let variables = [(bind.as_str(), "0.0.0.0:0".to_owned())];
        let refused = daemon(&cluster, kind, &variables);
        let told = refused.stderr.lines().last().unwrap_or_default();
        assert!(refused.code != 0 && refused.code != TIMED_OUT, "{kind} {key}: {told}");
        assert!(told.contains(&format!("{key} = \"0.0.0.0:0\"")), "{kind} {key}: {told}");
        assert!(told.contains(&format!("set `{remedy} = ")), "{kind} {key}: {told}");
    }
}

#[test]
fn data_of_another_version_is_refused_in_one_line_and_untouched() {
    let mut cluster = Cluster::start(options(2));
    let content = data::bytes(1, 100_000);
    put(&cluster, "/x", &content, (1 << 20, 2));
    cluster.wait_healthy(60);
    cluster.stop();

    let version = cluster.directory.join("datanode-1/VERSION");
    let right = fs::read_to_string(&version).unwrap();
    let body = right[..right.find("crc ").unwrap()].replacen("layout 2\n", "layout 3\n", 1);
    let newer = format!("{body}crc {:08x}\n", crc32fast::hash(body.as_bytes()));
    let segment = newest_segment(&cluster.directory.join("namenode-1"));
    let log = fs::read(&segment).unwrap();
    let mut newer_log = log.clone();
    newer_log[8..12].copy_from_slice(&3u32.to_le_bytes());
    let crc = crc32fast::hash(&newer_log[..28]);
    newer_log[28..32].copy_from_slice(&crc.to_le_bytes());
    for (kind, file, newer, right) in [
        ("datanode", &version, newer.as_bytes(), right.as_bytes()),
        ("namenode", &segment, &newer_log[..], &log[..]),
    ] {
        fs::write(file, newer).unwrap();
        let refused = daemon(&cluster, kind, &[]);
        assert_eq!(refused.code, 1, "{kind}: {}", refused.stderr);
        let last = refused.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("hanno {kind}: ")) && last.contains("version"), "{last}");
        assert!(fs::read(file).unwrap() == newer, "{kind}: untouched");
        fs::write(file, right).unwrap();
    }
    cluster.restart();
    assert_content(&cluster, "/x", &content);
    cluster.wait_healthy(60);
}

/// The log segment that was written last.
fn newest_segment(directory: &Path) -> std::path::PathBuf {
    let mut folders = vec![directory.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if fs::read(entry.path()).is_ok_and(|bytes| bytes.starts_with(b"HANNOLOG")) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found.pop().expect("a log segment")
}

#[test]
fn a_second_daemon_on_a_directory_is_refused_with_the_first_ones_pid() {
    let cluster = Cluster::start(options(2));
    let content = data::bytes(1, 100_000);
    put(&cluster, "/x", &content, (1 << 20, 2));
    let ports = ["HANNO_NAMENODE_BIND", "HANNO_DATANODE_BIND", "HANNO_DATANODE_HTTP_BIND"]
        .map(|name| (name, "127.0.0.1:0".to_owned()));
    for (kind, ports) in [("namenode", &ports[..1]), ("datanode", &ports[1..])] {
        let refused = daemon(&cluster, kind, ports);
        assert_eq!(refused.code, 1, "{kind}: {}", refused.stderr);
        let pid = cluster.pid(&format!("{kind}-1")).unwrap();
        let expected = format!("is in use by process {pid}");
        assert!(refused.stderr.contains(&expected), "{kind}: {}", refused.stderr);
    }
    assert_content(&cluster, "/x", &content);
    cluster.dfs(&["-mkdir", "/y"]).ok();
}

/// A copy of a DataNode's directory, and its configuration there.
fn copied(cluster: &Cluster) -> std::path::PathBuf {
    let (own, copy) = (cluster.directory.join("datanode-1"), cluster.directory.join("copy"));
    copy_tree(&own, &copy);
    let config = fs::read_to_string(cluster.directory.join("conf/datanode-1.toml")).unwrap();
    let config = config.replace(own.to_str().unwrap(), copy.to_str().unwrap());
    let path = cluster.directory.join("conf/copy.toml");
    fs::write(&path, config).unwrap();
    path
}

#[test]
fn of_two_datanodes_with_one_identity_one_ends_and_says_why() {
    let cluster = Cluster::start(options(2));
    let content = data::bytes(1, 100_000);
    put(&cluster, "/x", &content, (1 << 20, 2));
    let config = copied(&cluster);
    let mut command = Command::new("timeout");
    command.arg("60").arg(hanno_binary()).args(["datanode", "--config"]).arg(config);
    command.envs([
        ("HANNO_DATANODE_BIND", "127.0.0.1:0"),
        ("HANNO_DATANODE_HTTP_BIND", "127.0.0.1:0"),
    ]);
    // It takes the identity. The one of the cluster is refused and ends, and is started anew: of two starts the later one stays.
    let refused = Outcome::of(command);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let told = refused.stderr.lines().last().unwrap_or_default();
    assert!(told.contains("its data directory is a copy of this one, or this one of it"), "{told}");
    wait_live(&cluster, 2);
    assert_content(&cluster, "/x", &content);
    cluster.wait_healthy(60);
}
