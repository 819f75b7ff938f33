//! Counts the words of text files: the first program for every MapReduce.
//!
//! ```text
//! cargo run --release --example wordcount -- --local book.txt counts        # this process, local files
//! cargo run --release --example wordcount -- --top 10 book.txt counts       # an embedded cluster
//! HANNO_NAMENODE=… HANNO_JOBTRACKER=… wordcount /books /counts              # a cluster that runs
//! ```
//!
//! The input is cut into splits. For each split a task runs [`Words::map`] on every line, which emits the pair `(word, 1)` for each word.
//! [`Sum`] as *combiner* adds up the ones of a word in memory, so the task writes about one pair per word. The engine sorts the pairs and
//! spreads them over the reduce tasks by word. There `Sum` as *reducer* adds up the counts of all maps and writes `word<TAB>count`.
//!
//! Words are bytes, separated by space, tab, newline, carriage return and form feed; the text need not be UTF-8. Key and value types
//! ([`Words::Key`], [`Words::Value`]) determine how pairs are encoded; emitting copies the word's bytes once and allocates nothing.
//!
//! The same executable is the driver, which submits the job, and the task runner, which workers start: [`mr_api::main`] decides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;
use std::process::ExitCode;

use mr_api::{
    Args, Auto, Emit, Finished, Job, Line, Lines, Mapper, Plan, Result, Sink, Sum, parse, text,
    text_out,
};

const HELP: &str = "\
Counts the words of text files.

Usage: wordcount [options] IN... OUT

  IN...                  files or directories
  OUT                    a new directory for the result: lines `word<TAB>count`
  --top N                at the end, print the N most frequent words

Examples:
  wordcount --local book.txt counts              on this machine, without a cluster
  wordcount --top 10 book.txt counts             on an embedded cluster
  wordcount --reducers 4 /books /counts          on the cluster of HANNO_NAMENODE and HANNO_JOBTRACKER
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

/// Describes the job. Depends only on the arguments, because the workers' runners call it too.
fn plan(args: &mut Args) -> Result<Plan> {
    let top: Option<usize> = args.value("--top")?;
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("wordcount")
        .input(text(inputs))
        .map(Words)
        .combine(Sum)
        .reduce(Sum)
        .reducers(Auto)
        .output(text_out(output));
    let plan = Plan::from(job);
    Ok(match top {
        Some(count) => plan.after(move |output| print_top(count, output)),
        None => plan,
    })
}

/// Emits each word of a line with the number one.
#[derive(Clone)]
struct Words;

impl Mapper for Words {
    type In = Lines;
    type Key = Vec<u8>;
    type Value = u64;

    fn map<S: Sink>(&mut self, line: Line<'_>, out: &mut Emit<Vec<u8>, u64, S>) -> Result<()> {
        line.words().try_for_each(|word| out.emit(word, 1u64))
    }
}

/// Prints the most frequent words, keeping no more than `count` of them in memory.
fn print_top(count: usize, output: &mut Finished<'_>) -> Result<()> {
    let mut top = BinaryHeap::new();
    output.for_each_line(|line| {
        let tab = line.iter().rposition(|byte| *byte == b'\t').ok_or("a line without a tab")?;
        let number: u64 = parse(&line[tab + 1..], "count", line)?;
        top.push(Reverse((number, Reverse(line[..tab].to_vec()))));
        if top.len() > count {
            top.pop();
        }
        Ok(())
    })?;
    let mut out = mr_api::stdout();
    for Reverse((number, Reverse(word))) in top.into_sorted_vec() {
        writeln!(out, "{number:>12} {}", String::from_utf8_lossy(&word))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use mr_api::LocalRunner;

    use super::*;

    /// Bytes of all kinds, from a fixed linear congruential generator.
    fn sample() -> Vec<u8> {
        let mut state = 12345u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let alphabet = b"abcde \n\t\r\x0c\x0b\x00\xff\xc3\xa9";
        (0..20_000).map(|_| alphabet[next() as usize % alphabet.len()]).collect()
    }

    fn slow(bytes: &[u8]) -> BTreeMap<Vec<u8>, u64> {
        let mut counts = BTreeMap::new();
        for word in bytes.split(|byte| b" \t\n\r\x0c".contains(byte)) {
            if !word.is_empty() {
                *counts.entry(word.to_vec()).or_default() += 1;
            }
        }
        counts
    }

    fn count(runner: &LocalRunner, text: &[u8]) -> (BTreeMap<Vec<u8>, u64>, Vec<Vec<u8>>) {
        let scratch = tempfile::tempdir().unwrap();
        let (input, output) = (scratch.path().join("in"), scratch.path().join("out"));
        fs::write(&input, text).unwrap();
        let words = [input.to_str().unwrap(), output.to_str().unwrap()];
        runner.run(plan(&mut Args::from_words(words).unwrap()).unwrap()).unwrap();
        assert!(output.join("_SUCCESS").is_file());
        assert!(!output.join("_temporary").is_dir());
        let (mut counts, mut parts) = (BTreeMap::new(), Vec::new());
        for number in 0.. {
            let Ok(part) = fs::read(output.join(format!("part-r-{number:05}"))) else { break };
            let lines: Vec<&[u8]> = part.split_inclusive(|byte| *byte == b'\n').collect();
            assert!(lines.is_sorted_by(|a, b| word(a) < word(b)), "each part is sorted");
            for line in lines {
                let tab = word(line).len();
                let number = std::str::from_utf8(&line[tab + 1..line.len() - 1]).unwrap();
                assert!(counts.insert(word(line).to_vec(), number.parse().unwrap()).is_none());
            }
            parts.push(part);
        }
        (counts, parts)
    }

    fn word(line: &[u8]) -> &[u8] {
        &line[..line.iter().rposition(|byte| *byte == b'\t').unwrap()]
    }

    #[test]
    fn counts_are_those_of_an_independent_program_however_it_runs() {
        let text = sample();
        let expected = slow(&text);
        let plain = LocalRunner::new().reducers(3);
        let (counts, parts) = count(&plain, &text);
        assert_eq!(counts, expected);
        for runner in [
            plain.clone().split_bytes(1000),
            plain.clone().split_bytes(777).threads(1),
            plain.clone().split_bytes(3000).tiny_memory(),
        ] {
            assert_eq!(count(&runner, &text).1, parts, "byte for byte: {runner:?}");
        }
        assert_eq!(count(&LocalRunner::new().reducers(40).split_bytes(512), &text).0, expected);
        assert_eq!(count(&plain, b"").0, BTreeMap::new());
    }
}
