//! Writing on real processes: append, hflush, hsync, truncate, concat, lost writers, and DataNodes that die or stall at every
//! stage of a pipeline.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::dfs::{CreateOptions, DfsClient, DfsWriter};
use protocol::DfsPath;
use transport::Timeouts;
use transport::rpc::CallOptions;

use crate::support::client::config;
use crate::support::cluster::hanno_binary;
use crate::support::report::wait_live;
use crate::support::{Cluster, Options, data, processes};

/// Bytes per block in these tests: borders are met often.
const BLOCK_BYTES: u64 = 4096;
/// Names the NameNode to the writer in another process.
const CHILD_VARIABLE: &str = "HANNO_TEST_WRITER_NAMENODE";

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

/// A client that gives a silent peer two seconds.
fn connect(namenode: &str) -> DfsClient {
    let timeouts = Timeouts {
        connect: Duration::from_secs(2),
        io: Duration::from_secs(3),
        idle: Duration::from_millis(500),
    };
    DfsClient::connect_with(&config(namenode), CallOptions::default(), timeouts).unwrap()
}

fn create(client: &DfsClient, name: &str, block_size: u64) -> DfsWriter {
    let options = CreateOptions { block_size: Some(block_size), ..CreateOptions::default() };
    client.create(&path(name), options).unwrap()
}

fn content(client: &DfsClient, name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.open(&path(name)).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

fn wait_closed(client: &DfsClient, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.is_file_closed(&path(name)).unwrap() {
        assert!(Instant::now() < deadline, "{name} is not closed");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn recover(client: &DfsClient, name: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !client.recover_lease(&path(name)).unwrap_or(false) {
        assert!(Instant::now() < deadline, "{name} is not recovered");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn options(datanodes: u32) -> Options {
    let mut options = Options { datanodes, workers: 1, ..Options::tight() };
    options.variables.extend([
        ("HANNO_DATANODE_IO_TIMEOUT_MS", "2000".to_owned()),
        ("HANNO_NAMENODE_RECOVERY_RETRY_MS", "1000".to_owned()),
    ]);
    options
}

#[test]
fn flushed_bytes_are_seen_and_random_changes_match_a_list_of_bytes() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    let all = data::bytes(1, 30_000);
    let mut writer = create(&client, "/f", BLOCK_BYTES);
    let mut end = 0;
    for step in [700, 100, 512, 3000, 5000, 1] {
        writer.write_all(&all[end..end + step]).unwrap();
        end += step;
        writer.hflush().unwrap();
        assert!(content(&client, "/f") == all[..end], "{end} bytes are flushed");
    }
    writer.hsync_with_length().unwrap();
    assert_eq!(client.status(&path("/f")).unwrap().length, end as u64);
    writer.close().unwrap();
    assert!(content(&client, "/f") == all[..end]);
    change_at_random(&client);
    cluster.wait_healthy(60);
}

/// `-tail -f` shows the last kilobyte, then what another process flushes, until it is interrupted; then its exit code is the JVM's.
#[test]
fn tail_follows_what_a_writer_flushes() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    let all = data::bytes(3, 10_000);
    let mut writer = create(&client, "/log", BLOCK_BYTES);
    writer.write_all(&all[..1500]).unwrap();
    writer.close().unwrap();
    let tail = ["dfs", "-tail", "-f", "-s", "20", "/log"];
    let mut tail = cluster.command(&hanno_binary(), &tail).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = tail.stdout.take().unwrap();
    let mut expect = |expected: &[u8]| {
        let mut found = vec![0; expected.len()];
        shown.read_exact(&mut found).unwrap();
        assert!(found == expected);
    };
    expect(&all[476..1500]);
    let mut writer = client.append(&path("/log"), false).unwrap();
    let mut end = 1500;
    for step in [1, 700, 3000, 2, 4000] {
        writer.write_all(&all[end..end + step]).unwrap();
        writer.hflush().unwrap();
        expect(&all[end..end + step]);
        end += step;
    }
    writer.close().unwrap();
    let interrupted = Command::new("kill").args(["-INT", &tail.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert_eq!(tail.wait().unwrap().code(), Some(130));
    let mut rest = Vec::new();
    shown.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

fn change_at_random(client: &DfsClient) {
    let mut choices = data::Choices::new(7);
    let mut model = content(client, "/f");
    for round in 0..40 {
        match choices.below(5) {
            0 if !model.is_empty() => {
                let length = choices.below(model.len() as u64 + 1);
                model.truncate(length as usize);
                client.truncate(&path("/f"), length).unwrap();
                assert!(content(client, "/f") == model, "round {round}: while it is cut");
                wait_closed(client, "/f");
            }
            1 if !model.is_empty() => {
                let more = data::bytes(round, 1 + choices.below(6000) as usize);
                let mut writer = create(client, "/more", BLOCK_BYTES);
                writer.write_all(&more).unwrap();
                writer.close().unwrap();
                client.concat(&path("/f"), &[path("/more")]).unwrap();
                model.extend(more);
                assert!(client.try_status(&path("/more")).unwrap().is_none());
            }
            _ => {
                let more = data::bytes(round, choices.below(6000) as usize);
                let mut writer = client.append(&path("/f"), choices.below(4) == 0).unwrap();
                writer.write_all(&more).unwrap();
                model.extend(more);
                if choices.below(2) == 0 {
                    writer.hflush().unwrap();
                    assert!(content(client, "/f") == model, "round {round}: flushed");
                }
                writer.close().unwrap();
            }
        }
        assert!(content(client, "/f") == model, "round {round}");
    }
}

#[test]
fn readers_of_a_growing_file_see_only_right_bytes() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    let all = data::bytes(2, 200_000);
    create(&client, "/f", 65_536).close().unwrap();
    let (done, flushed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (client, all, done, flushed) = (&client, &all, &done, &flushed);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let promised = flushed.load(Ordering::Acquire);
                    let mut reader = client.open(&path("/f")).unwrap();
                    let seen = reader.len();
                    assert!(seen >= promised, "{seen} of {promised} flushed bytes");
                    let from = seen.saturating_sub(3000);
                    reader.seek(SeekFrom::Start(from)).unwrap();
                    let mut bytes = Vec::new();
                    reader.read_to_end(&mut bytes).unwrap();
                    let right = &all[from as usize..seen as usize];
                    let wrong = bytes.iter().zip(right).position(|(found, right)| found != right);
                    assert_eq!((bytes.len(), wrong), (right.len(), None), "at {from} of {seen}");
                }
            });
        }
        let mut choices = data::Choices::new(3);
        let mut at = 0;
        while at < all.len() {
            let mut writer = client.append(&path("/f"), false).unwrap();
            for _ in 0..4 {
                let end = all.len().min(at + choices.below(6000) as usize);
                writer.write_all(&all[at..end]).unwrap();
                writer.hflush().unwrap();
                at = end;
                flushed.store(at as u64, Ordering::Release);
            }
            writer.close().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(content(&client, "/f") == all);
}

#[test]
fn synced_bytes_survive_the_death_of_everything() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    let all = data::bytes(4, 10_000);
    let mut new = create(&client, "/new", BLOCK_BYTES);
    new.write_all(&all[..5000]).unwrap();
    new.hsync().unwrap();
    let mut old = create(&client, "/old", BLOCK_BYTES);
    old.write_all(&all[..3000]).unwrap();
    old.close().unwrap();
    let mut old = client.append(&path("/old"), false).unwrap();
    old.write_all(&all[3000..9000]).unwrap();
    old.hsync_with_length().unwrap();
    let daemons = ["namenode-1", "datanode-1", "datanode-2", "datanode-3"];
    let before = daemons.map(|daemon| cluster.pid(daemon));
    daemons.iter().for_each(|daemon| cluster.kill(daemon));
    cluster.wait_until("all are back", 60, |cluster| {
        let restarted = daemons.iter().zip(before).all(|(daemon, old)| cluster.pid(daemon) != old);
        restarted && cluster.dfs(&["-touchz", "/alive"]).code == 0
    });
    for (name, length) in [("/new", 5000), ("/old", 9000)] {
        recover(&client, name);
        let kept = content(&client, name);
        assert!(kept.len() >= length && kept[..length] == all[..length], "{name}: {}", kept.len());
    }
    drop((new, old));
    cluster.wait_healthy(60);
}

/// A file that ends with its block: what is appended would begin another, and nothing does not.
#[test]
fn nothing_can_be_appended_to_a_file_that_ends_with_its_block() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    for blocks in [1, 2] {
        let (name, length) = (format!("/full-{blocks}"), blocks * BLOCK_BYTES as usize);
        let mut writer = create(&client, &name, BLOCK_BYTES);
        writer.write_all(&data::bytes(1, length)).unwrap();
        writer.close().unwrap();
        cluster.dfs(&["-appendToFile", "/dev/null", &name]).ok();
        let mut writer = client.append(&path(&name), false).unwrap();
        writer.write_from(&mut std::io::empty()).unwrap();
        writer.hsync().unwrap();
        writer.close().unwrap();
        assert!(content(&client, &name) == data::bytes(1, length));
        let mut writer = client.append(&path(&name), false).unwrap();
        writer.write_all(b"more").unwrap();
        writer.close().unwrap();
        assert_eq!(content(&client, &name).len(), length + 4);
    }
    cluster.wait_healthy(60);
}

/// The writer in a process of its own: flushes what it writes, tells how much, and goes on for ever.
#[test]
#[ignore = "is run by another test, which kills it"]
fn a_writer_that_never_ends() {
    let Ok(namenode) = std::env::var(CHILD_VARIABLE) else { return };
    let client = connect(&namenode);
    let all = data::bytes(5, 4 << 20);
    let mut writer = create(&client, "/endless", 100_000);
    for (number, bytes) in all.chunks(777).enumerate() {
        writer.write_all(bytes).unwrap();
        writer.hflush().unwrap();
        println!("\nflushed {}", (number + 1) * 777);
    }
}

#[test]
fn a_file_whose_writer_is_killed_keeps_what_was_flushed() {
    let cluster = Cluster::start(options(3));
    let client = connect(&cluster.namenode);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::writing::a_writer_that_never_ends", "--ignored", "--nocapture"])
        .env(CHILD_VARIABLE, &cluster.namenode)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut flushed = lines.filter_map(|line| line.strip_prefix("flushed ")?.parse::<usize>().ok());
    let mut last = 0;
    while last < 300_000 {
        last = flushed.next().expect("the writer goes on");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    last = flushed.last().unwrap_or(last);
    let command = ["debug", "recoverLease", "-path", "/endless", "-retries", "10"];
    cluster.hanno(&command).ok().prints("recoverLease SUCCEEDED on /endless\n");
    let kept = content(&client, "/endless");
    let all = data::bytes(5, 4 << 20);
    assert!(kept.len() >= last, "{} of {last} bytes are there", kept.len());
    assert!(kept == all[..kept.len()], "and they are right");
    cluster.wait_healthy(60);
    // Others may go on with it.
    client.append(&path("/endless"), false).unwrap().close().unwrap();
    client.delete(&path("/endless"), false).unwrap();
}

/// When a DataNode fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Before the first packet.
    Open,
    /// Between packets.
    Streaming,
    /// After a flush, before more.
    Flushed,
    /// Before the last packet.
    End,
    /// Between an append's call and its first packet.
    Reopened,
}

#[test]
fn a_pipeline_survives_a_datanode_that_fails_at_any_stage() {
    let cluster = Cluster::start(options(4));
    let client = connect(&cluster.namenode);
    let all = data::bytes(6, 6_000_000);
    let stages = [Stage::Open, Stage::Streaming, Stage::Flushed, Stage::End, Stage::Reopened];
    for stage in stages {
        for (member, stalls) in [(0, false), (1, false), (2, false), (1, true)] {
            let name = format!("/{stage:?}-{member}-{stalls}");
            println!("{name}");
            fail_at(&cluster, &client, (&name, &all), (stage, member, stalls));
            assert!(content(&client, &name) == all, "{name}");
            wait_live(&cluster, 4);
        }
    }
    cluster.wait_healthy(90);
}

fn fail_at(
    cluster: &Cluster,
    client: &DfsClient,
    (name, all): (&str, &[u8]),
    (stage, member, stalls): (Stage, usize, bool),
) {
    let mut stopped = None;
    let mut fail = || {
        let located = client.locations(&path(name), 0, u64::MAX).unwrap();
        // A DataNode that failed in the case before may be back too late for this pipeline.
        let members = &located.blocks.last().unwrap().replicas;
        let victim = &members[member.min(members.len() - 1)];
        let pid = pid_of(cluster, &victim.transfer_address);
        if stalls {
            processes::pause(pid);
            stopped = Some(pid);
        } else {
            sys::process::kill(pid).unwrap();
        }
    };
    let mut writer = create(client, name, 4 << 20);
    if stage == Stage::Open {
        fail();
    }
    writer.write_all(&all[..1_000_000]).unwrap();
    match stage {
        Stage::Streaming => {
            writer.write_all(&all[1_000_000..2_500_000]).unwrap();
            fail();
            writer.write_all(&all[2_500_000..]).unwrap();
        }
        Stage::Flushed => {
            writer.hflush().unwrap();
            fail();
            writer.write_all(&all[1_000_000..]).unwrap();
        }
        Stage::Reopened => {
            writer.close().unwrap();
            writer = client.append(&path(name), false).unwrap();
            fail();
            writer.write_all(&all[1_000_000..]).unwrap();
        }
        Stage::Open | Stage::End => writer.write_all(&all[1_000_000..]).unwrap(),
    }
    if stage == Stage::End {
        writer.hflush().unwrap();
        fail();
    }
    writer.close().unwrap();
    if let Some(pid) = stopped {
        sys::process::resume(pid).unwrap();
    }
}

/// The process of the DataNode with this address.
fn pid_of(cluster: &Cluster, address: &str) -> u32 {
    let port: u32 = address.rsplit(':').next().unwrap().parse().unwrap();
    for number in 1..=4 {
        let name = format!("datanode-{number}");
        let config = cluster.directory.join("conf").join(format!("{name}.toml"));
        let text = std::fs::read_to_string(&config).unwrap();
        if text.contains(&format!(":{port}\"")) {
            return cluster.pid(&name).unwrap();
        }
    }
    panic!("nobody has port {port}");
}

#[test]
fn the_shell_appends_cuts_and_joins() {
    let cluster = Cluster::start(options(3));
    let local = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let at = local.path().join(name);
        std::fs::write(&at, text).unwrap();
        at.to_str().unwrap().to_owned()
    };
    let (one, two) = (file("one", "one\n"), file("two", "two\n"));
    cluster.dfs(&["-appendToFile", &one, "/f"]).ok().prints("");
    cluster.dfs(&["-appendToFile", &one, &two, "/f"]).ok().prints("");
    cluster.dfs(&["-appendToFile", "-n", &two, "/f"]).ok();
    cluster.dfs(&["-cat", "/f"]).ok().prints("one\none\ntwo\ntwo\n");
    let authority = cluster.namenode.trim_start_matches("http://");
    let missing = format!("hanno://{authority}/q does not exist or is not file.\n");
    let table: &[(&[&str], &str)] = &[
        (&["-appendToFile", "/f"], "appendToFile: missing destination argument\n"),
        (
            &["-appendToFile", &one, "/"],
            "appendToFile: Cannot append to directory /; already exists as a directory.\n",
        ),
        (
            &["-appendToFile", "/nowhere", "/f"],
            "appendToFile: `/nowhere': No such file or directory\n",
        ),
        (
            &["-appendToFile", "-", &one, "/f"],
            "appendToFile: stdin (-) must be the sole input argument when present\n",
        ),
        (&["-truncate", "1", "/q"], "truncate: `/q': No such file or directory\n"),
        (&["-truncate", "1", "/"], "truncate: `/': Is a directory\n"),
        (&["-concat", "/q", "/f", "/f"], &format!("concat: Target path {missing}")),
        (&["-concat", "/f", "/q", "/f"], &format!("concat: {missing}")),
    ];
    for (arguments, stderr) in table {
        let outcome = cluster.dfs(arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (1, *stderr), "{arguments:?}");
    }
    cluster
        .dfs(&["-truncate", "-w", "6", "/f"])
        .ok()
        .prints("Waiting for /f ...\nTruncated /f to length: 6\n");
    cluster.dfs(&["-truncate", "6", "/f"]).ok().prints("Truncated /f to length: 6\n");
    cluster.dfs(&["-put", &one, "/g"]).ok();
    cluster.dfs(&["-put", &two, "/h"]).ok();
    cluster.dfs(&["-concat", "/f", "/h", "/g"]).ok().prints("");
    cluster.dfs(&["-cat", "/f"]).ok().prints("one\nontwo\none\n");
    assert_eq!(cluster.dfs(&["-test", "-e", "/g"]).code, 1);
    cluster
        .hanno(&["debug", "recoverLease", "-path", "/f"])
        .ok()
        .prints("recoverLease SUCCEEDED on /f\n");
    let missing = cluster.hanno(&["debug", "recoverLease", "-path", "/q"]);
    let expected = "recoverLease got exception: File does not exist: /q\nGiving up on recoverLease for /q after 1 try.\n";
    assert_eq!((missing.code, missing.stderr.as_str()), (1, expected));
    cluster.wait_healthy(60);
}
