//! `kill -9` of a real process on a real disk, during load and during start-up. Every acknowledged record
//! must be there afterwards, and the journal must always open without help.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

struct Victim {
    child: Child,
    lines: Receiver<String>,
}

/// What a victim said before it ended.
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

/// Small and good enough for times; the seed is fixed, the scheduler adds the rest.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Starts victims and kills them after up to `time_max`, then lets one finish.
fn kill_loop(kills: u32, time_max: impl Fn(&Path) -> Duration) -> (u64, u32) {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(42);
    let (mut acknowledged, mut epoch, mut acks, mut before_open) = (0, 0, 0, 0);
    let time_max = time_max(dir.path());
    for round in 0..=kills {
        let is_last = round == kills;
        let time = if is_last {
            Duration::from_secs(60)
        } else {
            Duration::from_micros(random.below(time_max.as_micros() as u64))
        };
        let mut said = Said { acknowledged, ..Said::default() };
        let records = if is_last { 500 } else { 1 << 40 };
        Victim::start(dir.path(), records).end(Instant::now() + time, &mut said);
        if let Some((new_epoch, last)) = said.opened {
            assert!(
                last >= acknowledged,
                "round {round}: record {acknowledged} lost, end is {last}"
            );
            assert!(new_epoch > epoch, "round {round}: epoch {new_epoch} was used before");
            epoch = new_epoch;
        } else {
            before_open += 1;
        }
        assert!(!is_last || said.is_done, "the last one finishes: {said:?}");
        acknowledged = said.acknowledged;
        acks += said.acks;
    }
    (acks, before_open)
}

#[test]
fn killed_during_load() {
    let (acks, _) = kill_loop(40, |_| Duration::from_millis(400));
    assert!(acks > 200, "there was load: {acks} acknowledgements");
}

#[test]
fn killed_while_starting() {
    let (_, before_open) = kill_loop(60, |dir| {
        // Something to recover from first; and how long a start takes here.
        Victim::start(dir, 8000)
            .end(Instant::now() + Duration::from_secs(60), &mut Said::default());
        let began = Instant::now();
        Victim::start(dir, 1).end(Instant::now() + Duration::from_secs(60), &mut Said::default());
        began.elapsed()
    });
    assert!(before_open >= 30, "only {before_open} of 60 were killed before they had opened");
}
