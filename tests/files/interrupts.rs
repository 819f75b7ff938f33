//! Signals while the shell writes: nothing half-written is left, a file that is appended to is closed, and the exit code says which signal it was. Also if the
//! signal ends the writer of a pipe, too.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use protocol::DfsPath;

use crate::support::client::connect;
use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome};

/// Signals with the exit code that shells give for them.
const SIGNALS: [(&str, i32); 3] = [("INT", 130), ("TERM", 143), ("HUP", 129)];

fn begin(cluster: &Cluster, words: &[&str]) -> Child {
    let mut command = cluster.command(&hanno_binary(), words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

fn is_open(cluster: &Cluster, path: &str) -> bool {
    let client = connect(&cluster.namenode);
    client.try_status(&DfsPath::parse(path).unwrap()).unwrap().is_some_and(|status| status.open)
}

#[test]
fn signals_leave_nothing_half_written() {
    let cluster = Cluster::start(Options { datanodes: 1, workers: 1, ..Options::tight() });
    let before = vec![b'a'; 100_000];
    for (signal, code) in SIGNALS {
        let path = format!("/appended-{signal}");
        cluster.put_with_a_pause(&path, (&before, b""), || ()).ok();
        let mut child = begin(&cluster, &["dfs", "-appendToFile", "-", &path]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![b'b'; 3_000_000]).unwrap();
        cluster.wait_until("the file is being appended to", 60, |cluster| is_open(cluster, &path));
        send(signal, &child);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        drop(input);
        assert_eq!(outcome.code, code, "{signal}: {outcome:?}");
        cluster.wait_until("the file is closed", 60, |cluster| !is_open(cluster, &path));
        let content = cluster.dfs(&["-cat", &path]).ok().stdout;
        assert!(content.starts_with(&before), "{signal}: what was there stays");
        assert!(content[before.len()..].iter().all(|byte| *byte == b'b'), "{signal}");
        cluster.put_with_a_pause(&format!("{path}-other"), (b"x", b""), || ()).ok();
        let mut again = begin(&cluster, &["dfs", "-appendToFile", "-", &path]);
        again.stdin.take().unwrap().write_all(b"more").unwrap();
        Outcome::from(again.wait_with_output().unwrap()).ok();

        let path = format!("/put-{signal}");
        let temporary = format!("{path}._COPYING_");
        let mut child = begin(&cluster, &["dfs", "-put", "-", &path]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![b'b'; 3_000_000]).unwrap();
        cluster.wait_until("the file is being written", 60, |cluster| is_open(cluster, &temporary));
        send(signal, &child);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        drop(input);
        assert_eq!(outcome.code, code, "{signal}: {outcome:?}");
        for path in [&path, &temporary] {
            assert_eq!(cluster.dfs(&["-test", "-e", path]).code, 1, "{signal}: {path} is left");
        }
    }
    nothing_is_published_whose_pipe_ends_with_the_signal(&cluster);
    nohup_is_respected(&cluster);
    nothing_of_others_is_ended(&cluster);
}

/// Ctrl-C in a pipeline ends the program that writes into the pipe, too, before or after its reader has the signal: its end is not that of the data.
fn nothing_is_published_whose_pipe_ends_with_the_signal(cluster: &Cluster) {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let named = fifo.to_str().unwrap();
    let here = directory.path().join("here");
    let mut judged = 0;
    for round in 0..20 {
        for source in ["-", named] {
            let path = format!("/cut-{round}-{}", source.len());
            let mut child = begin(cluster, &["dfs", "-put", source, &path]);
            let mut input: Box<dyn Write> = match source {
                "-" => Box::new(child.stdin.take().unwrap()),
                _ => Box::new(std::fs::OpenOptions::new().write(true).open(&fifo).unwrap()),
            };
            input.write_all(&vec![b'b'; 300_000]).unwrap();
            let temporary = format!("{path}._COPYING_");
            cluster.wait_until("the file is written", 60, |it| is_open(it, &temporary));
            let at_once = end_both(&child, input, round);
            let outcome = Outcome::from(child.wait_with_output().unwrap());
            if !at_once {
                continue;
            }
            assert_eq!(outcome.code, 143, "{round} {source}: {outcome:?}");
            assert_eq!(cluster.dfs(&["-test", "-e", &path]).code, 1, "{round} {source}");
        }
        // Onto this machine, where the target is published by a rename.
        let (from, to) = (format!("file://{named}"), here.to_str().unwrap());
        let child = begin(cluster, &["dfs", "-get", &from, to]);
        let mut input = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        input.write_all(b"begin").unwrap();
        let at_once = end_both(&child, Box::new(input), round);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        if at_once {
            assert_eq!(outcome.code, 143, "{round}: {outcome:?}");
            assert!(!here.try_exists().unwrap(), "{round}");
            judged += 1;
        }
        let _ = std::fs::remove_file(&here);
    }
    assert!(judged > 10, "this machine is too slow for any of it: {judged}");
}

/// Ends the writer of a pipe and its reader, the one or the other first. False if the machine was at other things between the two: then the pipe seemed to have
/// ended by itself.
fn end_both(reader: &Child, writer: Box<dyn Write>, round: usize) -> bool {
    let began = Instant::now();
    if round.is_multiple_of(2) {
        sys::process::terminate(reader.id()).unwrap();
        drop(writer);
    } else {
        drop(writer);
        sys::process::terminate(reader.id()).unwrap();
    }
    began.elapsed() < Duration::from_millis(10)
}

/// A file that somebody else has put in the place of one being written stays when that writer is interrupted.
fn nothing_of_others_is_ended(cluster: &Cluster) {
    for signal in ["INT", "TERM", "HUP"] {
        let path = format!("/others-{signal}");
        let mut child = begin(cluster, &["dfs", "-put", "-f", "-d", "-", &path]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(&vec![b'a'; 3_000_000]).unwrap();
        cluster.wait_until("the file is being written", 60, |cluster| is_open(cluster, &path));
        let mut other = begin(cluster, &["dfs", "-put", "-f", "-d", "-", &path]);
        other.stdin.take().unwrap().write_all(b"of others").unwrap();
        Outcome::from(other.wait_with_output().unwrap()).ok();
        send(signal, &child);
        let outcome = Outcome::from(child.wait_with_output().unwrap());
        drop(input);
        assert!(outcome.code >= 129, "{signal}: {outcome:?}");
        cluster.dfs(&["-cat", &path]).ok().prints("of others");
    }
}

/// Who was started to ignore a signal goes on.
fn nohup_is_respected(cluster: &Cluster) {
    let line = format!("trap '' HUP; exec {} dfs -put - /nohup", hanno_binary().display());
    let mut command = cluster.command(Path::new("sh"), &["-c", &line]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"begin ").unwrap();
    cluster.wait_until("the file is being written", 60, |cluster| {
        is_open(cluster, "/nohup._COPYING_")
    });
    send("HUP", &child);
    input.write_all(b"end").unwrap();
    drop(input);
    Outcome::from(child.wait_with_output().unwrap()).ok();
    cluster.dfs(&["-cat", "/nohup"]).ok().prints("begin end");
}
