//! Wall clocks that jump: of the whole machine by a day, of single daemons by minutes. A small library that is loaded into each
//! process (`clock.c`, built here with the compiler that Rust links with) shifts what it is told of the time.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use client::dfs::CreateOptions;
use needs::{Need, lacks};
use protocol::DfsPath;

use super::{assert_content, assert_no_panics, connect, live_count, options, put, wait_live};
use crate::support::{Cluster, Outcome, data};

const CLOCKS_VARIABLE: &str = "HANNO_TEST_CLOCKS";
/// Every process that has a clock here.
const PROCESSES: [&str; 6] =
    ["namenode-1", "datanode-1", "datanode-2", "datanode-3", "jobtracker-1", "client"];
const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
/// How long a state must hold after a step: twice the time after which a silent DataNode is dead.
const HOLD: Duration = Duration::from_secs(4);

/// The clocks of one cluster.
struct Clocks {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl Clocks {
    /// `None`, and says why, where no library can be built.
    fn new() -> Option<Clocks> {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/clock.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output();
        match built {
            Ok(output) if output.status.success() => {}
            Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                lacks(Need::Compiler, error);
                return None;
            }
        }
        let clocks = Clocks { directory, library };
        clocks.set(&PROCESSES, 0);
        Some(clocks)
    }

    fn variables(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.to_str().unwrap().to_owned()),
            (CLOCKS_VARIABLE, self.directory.path().to_str().unwrap().to_owned()),
        ]
    }

    /// Steps the clocks of these processes to so much before or after the right time.
    fn set(&self, processes: &[&str], shift_ms: i64) {
        for process in processes {
            let path = self.directory.path().join(process);
            let file = fs::File::options().create(true).write(true).truncate(false).open(path);
            file.unwrap().write_all_at(&shift_ms.to_le_bytes(), 0).unwrap();
        }
    }
}

/// Runs `hanno dfs` with the client's clock.
fn dfs(cluster: &Cluster, clocks: &Clocks, args: &[&str]) -> Outcome {
    let args: Vec<&str> = std::iter::once("dfs").chain(args.iter().copied()).collect();
    let mut command = cluster.command(&crate::support::cluster::hanno_binary(), &args);
    command.envs(clocks.variables());
    Outcome::of(command)
}

fn start(clocks: &Clocks) -> Cluster {
    let mut options = options(3);
    options.variables.extend(clocks.variables());
    Cluster::start(options)
}

fn time_of(cluster: &Cluster, path: &str) -> i64 {
    let text = cluster.dfs(&["-stat", "%Y", path]).ok().stdout_text();
    text.trim().parse().unwrap()
}

#[test]
fn steps_of_the_machines_clock_neither_kill_datanodes_nor_take_leases() {
    let Some(clocks) = Clocks::new() else { return };
    let cluster = start(&clocks);
    let content = data::bytes(1, 1_500_000);
    put(&cluster, "/x", &content, (1 << 20, 3));
    // This process is a client too; its clock is right, so it speaks while clocks are within the allowed skew.
    let client = connect(&cluster.namenode);
    let mut writer =
        client.create(&DfsPath::parse("/open").unwrap(), CreateOptions::default()).unwrap();
    writer.write_all(&content[..700_000]).unwrap();
    writer.hflush().unwrap();
    let pids = PROCESSES.map(|process| cluster.pid(process));
    for shift_ms in [4 * MINUTE_MS, -4 * MINUTE_MS] {
        clocks.set(&PROCESSES, shift_ms);
        let since = Instant::now();
        cluster.wait_until("the step has had its effect", 60, |cluster| {
            assert_eq!(live_count(cluster), 3, "{shift_ms} ms: nobody is declared dead");
            since.elapsed() > HOLD
        });
        let stolen = cluster.dfs(&["-appendToFile", "/dev/null", "/open"]);
        assert_eq!(stolen.code, 1, "{shift_ms} ms: the writer holds its lease");
        assert!(stolen.stderr.contains("currently owned by"), "{shift_ms} ms: {}", stolen.stderr);
    }
    for shift_ms in [DAY_MS, -DAY_MS, 10 * MINUTE_MS, -10 * MINUTE_MS, 0] {
        clocks.set(&PROCESSES, shift_ms);
        let since = Instant::now();
        let mut round = 0;
        while since.elapsed() < HOLD / 2 {
            round += 1;
            let name = format!("/d{shift_ms}-{round}");
            dfs(&cluster, &clocks, &["-mkdir", &name]).ok();
            assert!(dfs(&cluster, &clocks, &["-cat", "/x"]).ok().stdout == content);
        }
        assert!(round > 0);
        assert_eq!(pids, PROCESSES.map(|process| cluster.pid(process)), "{shift_ms} ms");
    }
    assert_eq!(live_count(&cluster), 3);
    let (ahead, behind) =
        (time_of(&cluster, &format!("/d{DAY_MS}-1")), time_of(&cluster, &format!("/d-{DAY_MS}-1")));
    assert!(ahead - behind > DAY_MS, "the clocks were really stepped: {ahead} {behind}");
    // Its lease is its own still.
    writer.write_all(&content[700_000..]).unwrap();
    writer.close().unwrap();
    cluster.wait_healthy(60);
    for path in ["/x", "/open"] {
        assert_content(&cluster, path, &content);
    }
    assert_no_panics(&cluster);
}

#[test]
fn a_daemon_with_a_wrong_clock_works_within_the_allowed_skew_and_is_told_beyond() {
    let Some(clocks) = Clocks::new() else { return };
    let cluster = start(&clocks);
    let content = data::bytes(2, 1_500_000);
    put(&cluster, "/x", &content, (1 << 20, 3));
    for (process, shift_ms) in [
        ("namenode-1", 4 * MINUTE_MS),
        ("namenode-1", -4 * MINUTE_MS),
        ("datanode-1", 4 * MINUTE_MS),
        ("datanode-2", -4 * MINUTE_MS),
        ("client", 4 * MINUTE_MS),
    ] {
        clocks.set(&[process], shift_ms);
        let since = Instant::now();
        cluster.wait_until("the step has had its effect", 60, |cluster| {
            assert_eq!(live_count(cluster), 3, "{process} {shift_ms} ms: nobody is declared dead");
            since.elapsed() > HOLD / 2
        });
        dfs(&cluster, &clocks, &["-put", "-f", "/dev/null", "/y"]).ok();
        assert!(dfs(&cluster, &clocks, &["-cat", "/x"]).ok().stdout == content, "{process}");
        clocks.set(&[process], 0);
    }
    // Beyond, a signature could be an old one that is played again.
    clocks.set(&["datanode-1"], DAY_MS);
    wait_live(&cluster, 2);
    assert!(dfs(&cluster, &clocks, &["-cat", "/x"]).ok().stdout == content);
    cluster.wait_until("its log says why", 60, |cluster| {
        let log = fs::read_to_string(cluster.directory.join("logs/datanode-1.log")).unwrap();
        log.contains("ms off; at most 300000 are accepted")
    });
    clocks.set(&["datanode-1"], 0);
    wait_live(&cluster, 3);
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
}
