//! Every daemon is killed with SIGKILL at random moments; nothing acknowledged may be lost, no output may differ.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::support::report::{assert_no_panics, wait_live};
use crate::support::{Cluster, Options, data};

/// Kills in the mixed test.
const KILLS: u32 = 32;

#[test]
fn acknowledged_files_and_job_outputs_survive_kills_of_every_daemon() {
    let seed =
        std::env::var("HANNO_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(7);
    println!("HANNO_TEST_SEED={seed}");
    let cluster = Cluster::start(Options::tight());
    let local = tempfile::tempdir().unwrap();
    let text = data::text(seed, 4_000_000);
    let input = local.path().join("text");
    fs::write(&input, &text).unwrap();
    cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", input.to_str().unwrap(), "/text"]).ok();
    let expected = data::word_count(&text);

    let acknowledged = Mutex::new(BTreeMap::new());
    let (done, jobs) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (cluster, acknowledged, done, local) =
                (&cluster, &acknowledged, &done, local.path());
            scope.spawn(move || put_until(cluster, writer, local, done, acknowledged));
        }
        let (cluster_ref, done_ref, jobs_ref, expected) = (&cluster, &done, &jobs, &expected);
        scope.spawn(move || {
            while !done_ref.load(Ordering::Relaxed) || jobs_ref.load(Ordering::Relaxed) < 2 {
                let number = jobs_ref.load(Ordering::Relaxed);
                run_word_count(cluster_ref, &format!("/out-{number}"), expected);
                jobs_ref.fetch_add(1, Ordering::Relaxed);
            }
        });
        kill_at_random(&cluster, seed);
        done.store(true, Ordering::Relaxed);
    });

    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > 10, "only {} files were acknowledged", acknowledged.len());
    for (path, sum) in &acknowledged {
        let content = cluster.dfs(&["-cat", path]).ok().stdout;
        assert!(data::sha256(&content) == *sum, "{path} differs");
    }
    println!("{} files, {} jobs, {KILLS} kills", acknowledged.len(), jobs.load(Ordering::Relaxed));
    cluster.wait_healthy(90);
    assert_no_panics(&cluster);
}

fn put_until(
    cluster: &Cluster,
    writer: u64,
    local: &std::path::Path,
    done: &AtomicBool,
    acknowledged: &Mutex<BTreeMap<String, [u8; 32]>>,
) {
    for number in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let content =
            data::bytes(writer * 10_000 + number, 1 + (number as usize * 77_777) % 3_000_000);
        let (source, path) =
            (local.join(format!("put-{writer}")), format!("/put-{writer}-{number}"));
        fs::write(&source, &content).unwrap();
        let outcome =
            cluster.dfs(&["-D", "dfs.blocksize=1048576", "-put", source.to_str().unwrap(), &path]);
        if outcome.code == 0 {
            acknowledged.lock().unwrap().insert(path, data::sha256(&content));
        } else {
            println!("{path}: {}", outcome.stderr.trim_end());
        }
    }
}

fn run_word_count(cluster: &Cluster, output: &str, expected: &[u8]) {
    let outcome = cluster.example("wordcount", &["--reducers", "2", "/text", output]);
    assert_eq!(outcome.code, 0, "a job must survive kills: {}", outcome.stderr);
    let parts = cluster
        .dfs(&["-cat", &format!("{output}/part-r-00000"), &format!("{output}/part-r-00001")])
        .ok();
    assert!(
        data::sorted_lines(&parts.stdout) == expected,
        "{output} differs from the fault-free result"
    );
    cluster.dfs(&["-test", "-z", &format!("{output}/_SUCCESS")]).ok();
    assert_eq!(
        cluster.dfs(&["-test", "-e", &format!("{output}/_temporary")]).code,
        1,
        "temporary files are left"
    );
}

/// Kills daemons one at a time, each the next when the last is back, so that two of three replicas are always up. The pause before each is
/// random, so that kills fall into every stage of what runs meanwhile.
fn kill_at_random(cluster: &Cluster, seed: u64) {
    let daemons = [
        "namenode-1",
        "datanode-1",
        "datanode-2",
        "datanode-3",
        "jobtracker-1",
        "worker-1",
        "worker-2",
    ];
    let mut choices = data::Choices::new(seed);
    for number in 0..KILLS {
        std::thread::sleep(Duration::from_millis(100 + choices.below(900)));
        let daemon = daemons[(number as usize + choices.below(2) as usize) % daemons.len()];
        let Some(before) = cluster.pid(daemon) else { continue };
        println!("kill {daemon}");
        cluster.kill(daemon);
        cluster.wait_until("the daemon is restarted", 60, |cluster| {
            cluster.pid(daemon).is_some_and(|pid| pid != before)
        });
        if daemon.starts_with("datanode") || daemon.starts_with("namenode") {
            wait_live(cluster, 3);
        }
    }
}

#[test]
fn the_namenode_always_opens_however_often_it_dies_while_starting() {
    let cluster = Cluster::start(Options { workers: 1, ..Options::tight() });
    let local = tempfile::tempdir().unwrap();
    let source = local.path().join("x");
    fs::write(&source, "content").unwrap();
    let mut choices = data::Choices::new(3);
    for number in 0..30 {
        cluster.wait_until("the NameNode answers", 60, |cluster| {
            cluster.dfs(&["-test", "-d", "/"]).code == 0
        });
        cluster.dfs(&["-put", source.to_str().unwrap(), &format!("/f-{number}")]).ok();
        // The second kill hits the start-up that the first one caused, at a random moment of it.
        let first = cluster.pid("namenode-1").unwrap();
        cluster.kill("namenode-1");
        cluster.wait_until("a new process is there", 60, |cluster| {
            cluster.pid("namenode-1").is_some_and(|pid| pid != first)
        });
        let moment = Instant::now() + Duration::from_micros(choices.below(60_000));
        while Instant::now() < moment {
            std::hint::spin_loop();
        }
        cluster.kill("namenode-1");
    }
    cluster.wait_until("the NameNode answers", 60, |cluster| {
        cluster.dfs(&["-test", "-d", "/"]).code == 0
    });
    for number in 0..30 {
        cluster.dfs(&["-cat", &format!("/f-{number}")]).ok().prints("content");
    }
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
}

#[test]
fn a_datanode_that_dies_in_a_put_is_replaced() {
    let cluster = Cluster::start(Options { datanodes: 4, workers: 1, ..Options::tight() });
    let content = data::bytes(9, 60_000_000);
    let datanodes = ["datanode-1", "datanode-2", "datanode-3", "datanode-4"];
    for round in 0..4 {
        let path = format!("/x-{round}");
        let outcome = cluster.put_with_a_pause(&path, content.split_at((round + 1) << 22), || {
            let members = || datanodes.iter().filter(|datanode| cluster.is_receiving(datanode));
            cluster.wait_until("a pipeline of three", 60, |_| members().count() == 3);
            let victim = members().nth(round % 3).unwrap();
            cluster.kill(victim);
        });
        outcome.ok();
        assert!(cluster.dfs(&["-cat", &path]).ok().stdout == content, "{path}");
        wait_live(&cluster, 4);
        cluster.wait_until("nothing half-written stays", 60, |cluster| {
            !datanodes.iter().any(|datanode| cluster.is_receiving(datanode))
        });
    }
    cluster.wait_healthy(60);
    assert_no_panics(&cluster);
}
