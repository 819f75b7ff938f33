//! How fast records become durable: records per second and the time from append to durable, with 1, 64 and
//! 1024 records of 150 bytes in flight.
//!
//! `cargo run --release -p journal --example commit_rate [DIR]`; DIR (default: the system's temporary
//! directory) decides which disk is measured.

use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use journal::{Journal, Options, Recover, RecoverError, Txid};

struct Nothing;

impl Recover for Nothing {
    fn load(&mut self, _: &[u8], _: &[u8]) -> Result<(), RecoverError> {
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, _: &[u8]) -> Result<(), RecoverError> {
        Ok(())
    }

    fn reset(&mut self) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("commit-rate-{}", std::process::id()));
    let result = [1, 64, 1024].into_iter().try_for_each(|batch| measure(&dir, batch));
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &std::path::Path, batch: usize) -> Result<(), Box<dyn Error>> {
    let fatal = |error: &journal::JournalError| {
        eprintln!("commit_rate: {error}");
        std::process::exit(75);
    };
    let (journal, _) =
        Journal::open(Options::new(dir), &mut Nothing, Box::new(|_| ()), Box::new(fatal))?;
    let mut latencies = Vec::new();
    let began = Instant::now();
    while began.elapsed() < TIME_PER_SIZE {
        let bodies = vec![vec![b'x'; RECORD_BYTES]; batch];
        let sent = Instant::now();
        let txid = journal.append(bodies);
        journal.wait_durable(txid);
        latencies.push(sent.elapsed());
    }
    let records = (latencies.len() * batch) as f64 / began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    let percent = |part: usize| latencies[(latencies.len() - 1) * part / 100].as_secs_f64() * 1e3;
    println!(
        "batch {batch:4}: {records:9.0} records/s, commit p50 {:.3} ms, p99 {:.3} ms",
        percent(50),
        percent(99)
    );
    stream(&journal, batch);
    Ok(())
}

/// The same without waiting for each: how a busy daemon uses it.
fn stream(journal: &Journal, size: usize) {
    let before = journal.stats();
    let began = Instant::now();
    let mut last = Txid::ZERO;
    while began.elapsed() < TIME_PER_SIZE {
        last = journal.append(vec![vec![b'x'; RECORD_BYTES]; size]);
    }
    journal.wait_durable(last);
    let time = began.elapsed().as_secs_f64();
    let after = journal.stats();
    let records = after.records - before.records;
    println!(
        "  streamed: {:9.0} records/s, {:.0} records per sync",
        records as f64 / time,
        records as f64 / (after.commits - before.commits) as f64
    );
}

const RECORD_BYTES: usize = 150;
const TIME_PER_SIZE: Duration = Duration::from_secs(2);
