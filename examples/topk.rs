//! Three questions to one column of numbers: the largest ones, how many different ones there are, and how they are spread. Each has its own
//! idiom.
//!
//! ```text
//! cargo run --release --example topk -- --local top 10 numbers.txt OUT
//! cargo run --release --example topk -- --local distinct numbers.txt OUT
//! cargo run --release --example topk -- --local histogram 100 numbers.txt OUT
//! ```
//!
//! **Top** numbers: a map keeps the best it has seen in a heap of fixed size, and emits them in [`Mapper::cleanup`]. So `k` numbers leave
//! each map, not all. The key is `Desc<i64>`: the sort puts the largest first. One reduce task copies the first `k` and ignores the rest.
//!
//! **Distinct** numbers: the number is the key, there is no value, and equal keys meet in one reduce. [`Count`] as combiner already
//! merges those of a map in a hash table.
//!
//! **Histogram**: the key is the bucket, the value is one, and [`Sum`] adds them up on both sides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::ExitCode;

use mr_api::datum::Desc;
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Auto, Count, Emit, Job, Line, Lines, Mapper, Output, Plan, Reducer, Result, Sink,
    Sum, Values, parse, text, text_out, usage_error,
};

const HELP: &str = "\
Finds the largest numbers, the distinct ones, or a histogram of them.

Usage: topk [options] top K IN... OUT
       topk [options] distinct IN... OUT
       topk [options] histogram WIDTH IN... OUT

  IN...                  text files with a whole number in each line
  OUT                    a new directory
  top K                  the K largest numbers, largest first; equal ones count
  distinct               lines `number<TAB>how often`
  histogram WIDTH        lines `first number of the bucket<TAB>how many`
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let mut operands = args.operands()?.into_iter();
    let job = match operands.next().as_deref() {
        Some("top") => {
            let count = number(operands.next())?;
            top(count, paths(operands)?)
        }
        Some("distinct") => distinct(paths(operands)?),
        Some("histogram") => {
            let width = number(operands.next())?;
            histogram(i64::try_from(width)?, paths(operands)?)
        }
        _ => return usage_error("one of top, distinct and histogram is needed"),
    };
    Ok(job.into())
}

fn number(operand: Option<String>) -> Result<usize> {
    let Some(text) = operand else { return usage_error("a number above 0 is needed") };
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => usage_error(format!("`{text}` is no number above 0")),
    }
}

type Paths = (Vec<String>, String);

fn paths(operands: impl Iterator<Item = String>) -> Result<Paths> {
    let mut inputs: Vec<String> = operands.collect();
    match inputs.pop() {
        Some(output) if !inputs.is_empty() => Ok((inputs, output)),
        _ => usage_error("an input and an output path are needed"),
    }
}

fn top(count: usize, (inputs, output): Paths) -> CompleteJob {
    Job::new("top")
        .input(text(inputs))
        .map(Largest { count, kept: BinaryHeap::new() })
        .reduce(First { count })
        .reducers(Always(1))
        .output(text_out(output))
}

/// Keeps the largest numbers of a split; the least of them is on top of the heap.
#[derive(Clone)]
struct Largest {
    count: usize,
    kept: BinaryHeap<Reverse<i64>>,
}

impl Mapper for Largest {
    type In = Lines;
    type Key = Desc<i64>;
    type Value = ();

    fn map<S: Sink>(&mut self, line: Line<'_>, _: &mut Emit<Desc<i64>, (), S>) -> Result<()> {
        self.kept.push(Reverse(read(line)?));
        if self.kept.len() > self.count {
            self.kept.pop();
        }
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<Desc<i64>, (), S>) -> Result<()> {
        self.kept.drain().try_for_each(|Reverse(number)| out.emit(Desc(number), ()))
    }
}

/// Copies the first pairs that come, which are the largest.
#[derive(Clone)]
struct First {
    count: usize,
}

impl Reducer for First {
    type Key = Desc<i64>;
    type Value = ();

    fn reduce(
        &mut self,
        Desc(number): Desc<i64>,
        equal: &mut Values<'_, Desc<i64>, ()>,
        out: &mut Output,
    ) -> Result<()> {
        while self.count > 0 && equal.next_value()?.is_some() {
            self.count -= 1;
            out.write(number, ())?;
        }
        Ok(())
    }
}

fn distinct((inputs, output): Paths) -> CompleteJob {
    Job::new("distinct")
        .input(text(inputs))
        .map_fn::<i64, (), _>(|line, out| out.emit(read(line)?, ()))
        .combine(Count)
        .reduce(Count)
        .reducers(Auto)
        .output(text_out(output))
}

fn histogram(width: i64, (inputs, output): Paths) -> CompleteJob {
    Job::new("histogram")
        .input(text(inputs))
        .map_fn::<i64, u64, _>(move |line, out| {
            let number = read(line)?;
            out.emit(number.saturating_sub(number.rem_euclid(width)), 1u64)
        })
        .combine(Sum)
        .reduce(Sum)
        .reducers(Auto)
        .output(text_out(output))
}

fn read(line: Line<'_>) -> Result<i64> {
    Ok(parse(line.bytes.trim_ascii(), "whole number", line.bytes)?)
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;
    use mr_api::testing::JobDriver;

    use super::*;

    /// Some numbers, many of them several times.
    fn numbers() -> Vec<i64> {
        (0..1000i64).map(|n| (n * n * 7919) % 701 - 350).collect()
    }

    fn answer(question: &[&str]) -> Vec<String> {
        answer_by(1, question)
    }

    fn answer_by(reducers: u32, question: &[&str]) -> Vec<String> {
        let lines: String = numbers().iter().map(|number| format!("{number}\n")).collect();
        let runner = LocalRunner::new().reducers(reducers).split_bytes(300).tiny_memory();
        let run = JobDriver::new().file("in", lines).runner(runner).run(|path| {
            let words = question.iter().map(|word| (*word).to_owned());
            plan(&mut Args::from_words(words.chain([path("in"), path("out")]))?)
        });
        run.unwrap().text("part").lines().map(str::to_owned).collect()
    }

    /// Counts equal neighbours of a sorted list.
    fn runs(mut keys: Vec<i64>) -> Vec<String> {
        keys.sort_unstable();
        keys.chunk_by(|a, b| a == b).map(|run| format!("{}\t{}", run[0], run.len())).collect()
    }

    #[test]
    fn answers_are_those_of_sorting() {
        let mut sorted = numbers();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        for count in [1, 7, 5000] {
            let top: Vec<String> = sorted.iter().take(count).map(i64::to_string).collect();
            assert_eq!(answer(&["top", &count.to_string()]), top, "top {count}");
            assert_eq!(answer_by(4, &["top", &count.to_string()]), top, "one reduce sees all");
        }
        assert_eq!(answer(&["distinct"]), runs(numbers()));
        let begin = |number: &i64| (*number as f64 / 50.0).floor() as i64 * 50;
        assert_eq!(answer(&["histogram", "50"]), runs(numbers().iter().map(begin).collect()));
    }

    #[test]
    fn mistakes_are_named() {
        for words in [&["top", "x", "in", "out"][..], &["histogram", "0", "in", "out"], &["sum"]] {
            assert!(plan(&mut Args::from_words(words.iter().copied()).unwrap()).is_err());
        }
    }
}
