//! Jobs whose right output is known without them: a word count and a sort, in turn.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::load::{Flaw, Problem};
use crate::support::signal::Signal;
use crate::support::{Caller, Outcome, data, wait};

/// Bytes of the text.
const TEXT_BYTES: usize = 3_000_000;
/// Records to sort, of 100 bytes each.
const RECORDS: usize = 30_000;
const RECORD_BYTES: usize = 100;
const KEY_BYTES: usize = 10;
/// Time for a job among faults; a quiet one takes a second.
const JOB_MAX: Duration = Duration::from_secs(600);
/// Time for a command on its output, and for so many tries that one succeeds.
const COMMAND_MAX: Duration = Duration::from_secs(300);
const TEXT: &str = "/in/text";
const UNSORTED: &str = "/in/records";

/// See the module.
#[derive(Debug)]
pub(super) struct Jobs {
    counted: Vec<u8>,
    sorted: Vec<u8>,
    /// Jobs that came out right.
    done: AtomicU64,
}

impl Jobs {
    /// Puts the inputs.
    pub(super) fn prepare(caller: &Caller, local: &Path, seed: u64) -> Self {
        let text = data::text(seed, TEXT_BYTES);
        let unsorted = data::bytes(seed, RECORDS * RECORD_BYTES);
        for (path, content) in [(TEXT, &text), (UNSORTED, &unsorted)] {
            let source = local.join("input");
            fs::write(&source, content).unwrap();
            let words = ["-D", "dfs.blocksize=1048576", "-put", source.to_str().unwrap(), path];
            Outcome::of(caller.dfs(&["-mkdir", "-p", "/in"])).ok();
            Outcome::of(caller.dfs(&words)).ok();
        }
        let mut records: Vec<&[u8]> = unsorted.chunks(RECORD_BYTES).collect();
        records.sort_by(|one, other| one[..KEY_BYTES].cmp(&other[..KEY_BYTES]));
        let sorted = records.concat();
        Jobs { counted: data::word_count(&text), sorted, done: AtomicU64::new(0) }
    }

    pub(super) fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// One job after the other until told to stop; the last one is waited for.
    pub(super) fn run(&self, caller: &Caller, over: &Signal) -> Result<(), Problem> {
        while over.count() == 0 {
            let number = self.count();
            let output = format!("/out-{number}");
            let (name, more, expected) = match number % 3 {
                0 => ("wordcount", ["--reducers", "2", TEXT], &self.counted),
                1 => ("terasort", ["--reducers", "2", UNSORTED], &self.sorted),
                _ => ("wordcount", ["--reducers", "1", TEXT], &self.counted),
            };
            let job = caller.example(name, &[&more[..], &[&output]].concat());
            let stuck = || (Flaw::Stuck, format!("{name} {output} does not end"));
            let outcome = Outcome::within(job, JOB_MAX).ok_or_else(stuck)?;
            if outcome.code != 0 {
                let text = format!("{name} {output} fails: {}", outcome.stderr);
                return Err((Flaw::Lost, text));
            }
            let parts = read(caller, &output)?;
            let found = if number.is_multiple_of(3) { data::sorted_lines(&parts) } else { parts };
            if found != *expected {
                let lengths = (found.len(), expected.len());
                return Err((Flaw::Wrong, format!("{name} {output} differs: {lengths:?}")));
            }
            remove(caller, &output)?;
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// All parts of an output, which is complete and holds nothing else.
fn read(caller: &Caller, output: &str) -> Result<Vec<u8>, Problem> {
    let listed = attempt(caller, &["-ls", "-C", output])?.stdout_text();
    let mut names = listed.lines().map(|path| path.rsplit('/').next().unwrap_or(path));
    let is_complete = names.clone().any(|name| name == "_SUCCESS");
    if !is_complete || !names.all(|name| name == "_SUCCESS" || name.starts_with("part-r-")) {
        return Err((Flaw::Wrong, format!("{output} has {listed}")));
    }
    attempt(caller, &["-cat", &format!("{output}/part-*")]).map(|outcome| outcome.stdout)
}

fn remove(caller: &Caller, output: &str) -> Result<(), Problem> {
    attempt(caller, &["-rm", "-r", "-f", "-skipTrash", output]).map(drop)
}

/// A command that may be told an error while faults go on, but not for ever.
fn attempt(caller: &Caller, words: &[&str]) -> Result<Outcome, Problem> {
    let mut last = None;
    let is_done = wait::until(COMMAND_MAX, || {
        last = Outcome::within(caller.dfs(words), COMMAND_MAX);
        last.as_ref().is_none_or(|outcome| outcome.code == 0)
    });
    match last {
        Some(outcome) if is_done => Ok(outcome),
        Some(outcome) => Err((Flaw::Lost, format!("dfs {}: {}", words.join(" "), outcome.stderr))),
        None => Err((Flaw::Stuck, format!("dfs {}: no end", words.join(" ")))),
    }
}
