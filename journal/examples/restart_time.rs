//! How long a start takes, and the peak memory of the process: ROWS rows of 100 bytes, changed in no particular order of their keys, in the
//! checkpoint and ROWS / 4 records after it.
//!
//! `cargo run --release -p journal --example restart_time [ROWS] [DIR]`; by default a million rows in the
//! system's temporary directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use journal::{Change, Journal, Options, Recover, RecoverError, Txid};

/// Counts what it is given: the owner's own work is not measured.
#[derive(Default)]
struct Count {
    rows: u64,
    records: u64,
}

impl Recover for Count {
    fn load(&mut self, _: &[u8], _: &[u8]) -> Result<(), RecoverError> {
        self.rows += 1;
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, _: &[u8]) -> Result<(), RecoverError> {
        self.records += 1;
        Ok(())
    }

    fn reset(&mut self) {
        *self = Count::default();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let rows = match args.next() {
        Some(rows) => rows.to_str().ok_or("ROWS is not a number")?.parse()?,
        None => 1_000_000,
    };
    let parent = args.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = parent.join(format!("restart-time-{}", std::process::id()));
    let result = measure(&dir, rows);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(dir: &Path, rows: u64) -> Result<(), Box<dyn Error>> {
    let (journal, _) = open(dir)?;
    let began = Instant::now();
    for from in (0..rows).step_by(ROWS_PER_STEP) {
        let step = from..rows.min(from + ROWS_PER_STEP as u64);
        let txid = journal.append(step.clone().map(|_| vec![b'e'; 150]).collect());
        let change = |row: u64| Change {
            key: row.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec(),
            value: Some(body(row)),
        };
        journal.checkpoint(txid, step.map(change).collect());
        while journal.checkpoint_pending() > PENDING_BYTES_MAX {
            std::thread::yield_now();
        }
    }
    journal.export_image()?;
    println!(
        "{rows} rows checkpointed and exported in {:.1} s; {}",
        began.elapsed().as_secs_f64(),
        memory()?
    );
    journal.append((0..rows / 4).map(|_| vec![b'e'; 150]).collect());
    journal.close();
    drop(journal);
    report(dir, "start from sled")?;
    println!(
        "sled takes {} MiB for {} MiB of rows",
        size(&dir.join("sled"))? >> 20,
        (rows * 108) >> 20
    );
    std::fs::remove_dir_all(dir.join("sled"))?;
    report(dir, "start from the image, sled rebuilt")
}

/// The value of a row: half of it does not compress.
fn body(row: u64) -> Vec<u8> {
    let mut state = row;
    let mut body = vec![b'v'; 50];
    body.extend((0..50).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    }));
    body
}

fn report(dir: &Path, what: &str) -> Result<(), Box<dyn Error>> {
    let began = Instant::now();
    let (journal, count) = open(dir)?;
    let time = began.elapsed().as_secs_f64();
    println!(
        "{what}: {} rows and {} records in {time:.2} s; {}",
        count.rows,
        count.records,
        memory()?
    );
    journal.close();
    Ok(())
}

fn open(dir: &Path) -> Result<(Journal, Count), Box<dyn Error>> {
    let mut count = Count::default();
    let fatal = |error: &journal::JournalError| {
        eprintln!("restart_time: {error}");
        std::process::exit(75);
    };
    let (journal, _) =
        Journal::open(Options::new(dir), &mut count, Box::new(|_| ()), Box::new(fatal))?;
    Ok((journal, count))
}

/// Memory of this process, now and at most.
fn memory() -> Result<String, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines =
        status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM"));
    let lines: Vec<_> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    Ok(lines.join(", "))
}

fn size(dir: &Path) -> Result<u64, Box<dyn Error>> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        total += if metadata.is_dir() { size(&entry.path())? } else { metadata.len() };
    }
    Ok(total)
}

const ROWS_PER_STEP: usize = 10_000;
const PENDING_BYTES_MAX: u64 = 16 << 20;
