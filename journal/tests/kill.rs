//! `kill -9` of a real process on a real disk, during load and during start-up. Every acknowledged record
//! must be there afterwards, and the journal must always open without help.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use needs::random::Random;

struct Victim {
    child: Child,
    lines: Receiver<String>,
}

/// What a victim printed before it ended.
#[derive(Debug, Default)]
struct Said {
    opened: Option<(u64, u64)>,
    acknowledged: u64,
    acks: u64,
    is_done: bool,
}

impl Victim {
    fn start(dir: &Path, records: u64) -> Victim {
        let mut child = Command::new(env!("CARGO_BIN_EXE_journal-torture"))
            .arg(dir)
            .arg(records.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Victim { child, lines }
    }

    /// Waits for the end, killing at `deadline`; an end of its own accord must be a success.
    fn end(mut self, deadline: Instant, said: &mut Said) {
        let mut was_killed = false;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => said.hear(&line),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    self.child.kill().unwrap();
                    was_killed = true;
                    break;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait().unwrap();
        self.lines.iter().for_each(|line| said.hear(&line));
        assert!(was_killed || status.success(), "it failed: {status}; {said:?}");
    }
}

impl Said {
    fn hear(&mut self, line: &str) {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["open", epoch, last] => {
                self.opened = Some((epoch.parse().unwrap(), last.parse().unwrap()));
            }
            ["ack", txid] => {
                self.acknowledged = txid.parse().unwrap();
                self.acks += 1;
            }
            ["done"] => self.is_done = true,
            _ => {}
        }
    }
}

/// One journal directory with the victims it has seen, and what they have promised so far.
struct Ordeal {
    dir: tempfile::TempDir,
    random: Random,
    acknowledged: u64,
    epoch: u64,
    acks: u64,
}

impl Ordeal {
    fn new() -> Ordeal {
        let dir = tempfile::tempdir().unwrap();
        Ordeal { dir, random: Random::new(42), acknowledged: 0, epoch: 0, acks: 0 }
    }

    /// One victim, killed at a random moment before `time_max`; whether it had opened the journal by then.
    fn kill_within(&mut self, time_max: Duration) -> bool {
        let time = self.random.micros(0..time_max.as_micros() as u64);
        self.run(1 << 40, time).opened.is_some()
    }

    /// One victim that is left to finish.
    fn finish(&mut self, records: u64) {
        let said = self.run(records, Duration::from_secs(60));
        assert!(said.is_done, "the last one finishes: {said:?}");
    }

    fn run(&mut self, records: u64, time: Duration) -> Said {
        let mut said = Said { acknowledged: self.acknowledged, ..Said::default() };
        Victim::start(self.dir.path(), records).end(Instant::now() + time, &mut said);
        if let Some((epoch, last)) = said.opened {
            let acknowledged = self.acknowledged;
            assert!(last >= acknowledged, "record {acknowledged} lost, end is {last}");
            assert!(epoch > self.epoch, "epoch {epoch} was used before");
            self.epoch = epoch;
        }
        self.acknowledged = said.acknowledged;
        self.acks += said.acks;
        said
    }
}

#[test]
fn killed_during_load() {
    let mut ordeal = Ordeal::new();
    for _ in 0..40 {
        ordeal.kill_within(Duration::from_millis(400));
    }
    ordeal.finish(500);
    assert!(ordeal.acks > 200, "there was load: {} acknowledgements", ordeal.acks);
}

/// The time that a start takes is the machine's affair, so the range of moments follows it: longer after each
/// kill that came before the journal was open, shorter after each that came too late.
#[test]
fn killed_while_starting() {
    const KILLS: u32 = 30;
    const ROUNDS_MAX: u32 = 600;
    let mut ordeal = Ordeal::new();
    ordeal.finish(8000);
    let mut time_max = Duration::from_millis(100);
    let mut before_open = 0;
    for _ in 0..ROUNDS_MAX {
        if ordeal.kill_within(time_max) {
            time_max = time_max * 4 / 5;
        } else {
            before_open += 1;
            time_max = time_max * 5 / 4;
        }
        if before_open == KILLS {
            break;
        }
    }
    assert_eq!(before_open, KILLS, "kills before the journal was open, in {ROUNDS_MAX} rounds");
    ordeal.finish(500);
}
