//! A process to be killed: works on a journal as fast as it can and prints what was acknowledged.
//!
//! `journal-torture DIR RECORDS` opens the journal in DIR, checks that the restored state is exactly the one that its records describe, and
//! prints `open EPOCH LAST`. Then it appends RECORDS records with checkpoints and images in between, prints `ack TXID` after each sync, and
//! ends with `done`. `tests/kill.rs` kills it.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use journal::{Change, Journal, Options, Recover, RecoverError, Txid};

/// Row `k` holds the largest txid that leaves the remainder `k`.
struct Rows {
    rows: Vec<u64>,
    last: Txid,
}

impl Rows {
    fn new() -> Rows {
        Rows { rows: vec![0; ROW_COUNT as usize], last: Txid::ZERO }
    }

    fn check(&self) -> Result<(), RecoverError> {
        for (row, &txid) in self.rows.iter().enumerate() {
            let row = row as u64;
            let back = (self.last.0 + ROW_COUNT - row) % ROW_COUNT;
            let want = self.last.0.saturating_sub(back);
            let want = if want % ROW_COUNT == row { want } else { 0 };
            if txid != want {
                let last = self.last;
                return Err(RecoverError::new(format!(
                    "row {row} is {txid}, not {want}, as of {last}"
                )));
            }
        }
        Ok(())
    }
}

impl Recover for Rows {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        let row = u64::from_be_bytes(key.try_into().map_err(RecoverError::new)?);
        let value = u64::from_le_bytes(value.try_into().map_err(RecoverError::new)?);
        *self.rows.get_mut(row as usize).ok_or_else(|| RecoverError::new("no such row"))? = value;
        Ok(())
    }

    fn loaded(&mut self, applied: Txid) -> Result<(), RecoverError> {
        self.last = applied;
        self.check()
    }

    fn replay(&mut self, txid: Txid, body: &[u8]) -> Result<(), RecoverError> {
        let stated = body.first_chunk().copied().map(u64::from_le_bytes);
        if txid != self.last.next() || stated != Some(txid.0) {
            return Err(RecoverError::new(format!("record {txid} after {}", self.last)));
        }
        self.last = txid;
        self.rows[(txid.0 % ROW_COUNT) as usize] = txid.0;
        Ok(())
    }

    fn reset(&mut self) {
        *self = Rows::new();
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut cause: Option<&dyn Error> = Some(&*error);
            while let Some(error) = cause {
                eprintln!("journal-torture: {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let dir = PathBuf::from(args.next().ok_or("usage: journal-torture DIR RECORDS")?);
    let count: u64 = args.next().and_then(|arg| arg.to_str()?.parse().ok()).ok_or("no RECORDS")?;
    let mut state = Rows::new();
    let options = Options {
        segment_bytes_max: 64 << 10,
        image_edits_max: 3000,
        image_interval: Duration::from_secs(3600),
        cache_bytes: 4 << 20,
        ..Options::new(dir)
    };
    let observer = |txid: Txid| {
        // The reader may be gone: then this process is about to be killed.
        let _ = writeln!(std::io::stdout().lock(), "ack {txid}");
    };
    let fatal = |error: &journal::JournalError| {
        eprintln!("journal-torture: fatal: {error}");
        std::process::exit(75);
    };
    let (journal, recovered) =
        Journal::open(options, &mut state, Box::new(observer), Box::new(fatal))?;
    state.check()?;
    for note in &recovered.notes {
        println!("note {note}");
    }
    println!("open {} {}", recovered.epoch, recovered.last);
    work(&journal, &mut state, count);
    journal.close();
    println!("done");
    Ok(())
}

fn work(journal: &Journal, state: &mut Rows, count: u64) {
    // What replay changed belongs to the first checkpoint: hand over everything once.
    let mut dirty: Vec<u64> = (0..ROW_COUNT).collect();
    let end = state.last.0 + count;
    while state.last.0 < end {
        let size = 1 + state.last.0 % 7;
        let bodies = (1..=size).map(|step| {
            let txid = state.last.0 + step;
            state.rows[(txid % ROW_COUNT) as usize] = txid;
            dirty.push(txid % ROW_COUNT);
            let mut body = vec![b'x'; 20 + (txid * 37 % 300) as usize];
            body[..8].copy_from_slice(&txid.to_le_bytes());
            body
        });
        let txid = journal.append(bodies.collect());
        state.last = txid;
        if dirty.len() >= 200 {
            dirty.sort_unstable();
            dirty.dedup();
            let changes = dirty.drain(..).map(|row| Change {
                key: row.to_be_bytes().to_vec(),
                value: Some(state.rows[row as usize].to_le_bytes().to_vec()),
            });
            journal.checkpoint(txid, changes.collect());
        }
        while journal.checkpoint_pending() > PENDING_BYTES_MAX {
            std::thread::yield_now();
        }
        if txid.0 > journal.durable().0 + UNACKNOWLEDGED_MAX {
            journal.wait_durable(txid);
        }
    }
}

/// Rows of the checkpoint: enough for a few pages of sled.
const ROW_COUNT: u64 = 1000;

/// Records in flight: a few, so that there are many small batches.
const UNACKNOWLEDGED_MAX: u64 = 40;

/// Bytes of changed rows that may wait, so that the checkpoint keeps up and images appear.
const PENDING_BYTES_MAX: u64 = 64 << 10;
