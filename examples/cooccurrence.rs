//! Counts what stands together in a text: n-grams, and which words are in each other's company, in the two classic ways.
//!
//! ```text
//! cargo run --release --example cooccurrence -- --local ngrams 3 book.txt OUT
//! cargo run --release --example cooccurrence -- --local pairs 2 book.txt OUT
//! cargo run --release --example cooccurrence -- --local stripes 2 book.txt OUT
//! ```
//!
//! **N-grams** are WordCount with `N` words in a row for a key.
//!
//! **Pairs** and **stripes** both write `word<TAB>other<TAB>part`: of all words that stand within so many words of `word`, the part that is
//! `other` (Lin and Dyer, *Data-Intensive Text Processing with MapReduce*, 2010).
//!
//! *Pairs* have two words for a key, and a number for a value: small records, many of them. The part needs the sum over all others of a word
//! before the first of them. So the mapper emits each pair twice, once as `(word, None)`. `None` sorts before all words: its count is the sum,
//! and comes first in the group of the word. The order does what would else take memory.
//!
//! *Stripes* have one word for a key, and all its others with their counts for a value. These are fewer and larger records. They combine
//! better, but all others of a word must fit in memory.

use std::collections::BTreeMap;
use std::process::ExitCode;

use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::{Args, Auto, Fold, Job, Plan, Result, Sum, reduce_fn, text, text_out, usage_error};

const HELP: &str = "\
Counts what stands together in a text.

Usage: cooccurrence [options] ngrams N IN... OUT
       cooccurrence [options] pairs WINDOW IN... OUT
       cooccurrence [options] stripes WINDOW IN... OUT

  IN...                  text files; words are separated by spaces
  OUT                    a new directory
  ngrams N               lines `words<TAB>count` of N words in a row in a line
  pairs, stripes WINDOW  lines `word<TAB>other<TAB>part`: of the words within WINDOW words of `word`
";

/// Most words in a row, and of a window on each side.
const WORDS_MAX: usize = 100;

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let (mut inputs, output) = args.inputs_and_output()?;
    if inputs.len() < 3 {
        return usage_error(
            "ngrams, pairs or stripes, a number, an input and an output are needed",
        );
    }
    let inputs_of_text = inputs.split_off(2);
    let count = match inputs[1].parse() {
        Ok(count) if (1..=WORDS_MAX).contains(&count) => count,
        _ => return usage_error(format!("`{}` is no number from 1 to {WORDS_MAX}", inputs[1])),
    };
    let job = match inputs[0].as_str() {
        "ngrams" => ngrams(count, inputs_of_text, output),
        "pairs" => pairs(count, inputs_of_text, output),
        "stripes" => stripes(count, inputs_of_text, output),
        way => return usage_error(format!("`{way}` is none of ngrams, pairs and stripes")),
    };
    Ok(job.into())
}

fn ngrams(count: usize, inputs: Vec<String>, output: String) -> CompleteJob {
    let job = Job::new("ngrams").input(text(inputs)).map_fn::<Vec<u8>, u64, _>(move |line, out| {
        let words: Vec<&[u8]> = line.words().collect();
        words.windows(count).try_for_each(|words| out.emit(words.join(&b' '), 1u64))
    });
    job.combine(Sum).reduce(Sum).reducers(Auto).output(text_out(output))
}

/// Hands out each word with each other one in its window.
fn each_pair(
    words: &[&[u8]],
    window: usize,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    for (at, word) in words.iter().enumerate() {
        let near = at.saturating_sub(window)..words.len().min(at + window + 1);
        near.filter(|other| *other != at).try_for_each(|other| each(word, words[other]))?;
    }
    Ok(())
}

/// A word, and another one or all of them.
type Pair = (Vec<u8>, Option<Vec<u8>>);

fn pairs(window: usize, inputs: Vec<String>, output: String) -> CompleteJob {
    let job = Job::new("pairs").input(text(inputs)).map_fn::<Pair, u64, _>(move |line, out| {
        each_pair(&line.words().collect::<Vec<_>>(), window, |word, other| {
            out.emit((word, None::<&[u8]>), 1u64)?;
            out.emit((word, Some(other)), 1u64)
        })
    });
    // The count of all comes first; then equal pairs come together, a count from each map.
    let divide = reduce_fn::<Pair, u64, _>(|(word, _), counts, out| {
        let (mut all, mut count, mut last) = (0, 0, Vec::new());
        while let Some(more) = counts.next_value()? {
            match counts.current_key()?.1 {
                None => all += more,
                Some(other) if other == last => count += more,
                Some(other) => {
                    if count > 0 {
                        out.write(&word, (&last, count as f64 / all as f64))?;
                    }
                    (count, last) = (more, other.to_vec());
                }
            }
        }
        out.write(&word, (&last, count as f64 / all as f64))
    });
    let job = job.group_by_first().combine(Sum).reduce(divide).reducers(Auto);
    job.output(text_out(output))
}

/// How often each other word stands near a word.
type Stripe = Serde<BTreeMap<Vec<u8>, u64>>;

fn stripes(window: usize, inputs: Vec<String>, output: String) -> CompleteJob {
    let job =
        Job::new("stripes").input(text(inputs)).map_fn::<Vec<u8>, Stripe, _>(move |line, out| {
            let mut stripes = BTreeMap::<&[u8], BTreeMap<Vec<u8>, u64>>::new();
            let words: Vec<&[u8]> = line.words().collect();
            each_pair(&words, window, |word, other| {
                let word = words.iter().find(|own| **own == word).unwrap_or(&words[0]);
                *stripes.entry(word).or_default().entry(other.to_vec()).or_default() += 1;
                Ok(())
            })?;
            stripes.into_iter().try_for_each(|(word, stripe)| out.emit(word, Serde(stripe)))
        });
    let divide = reduce_fn::<Vec<u8>, Stripe, _>(|word, stripes, out| {
        let Serde(stripe) = stripes.fold(&Join)?.unwrap_or_default();
        let all: u64 = stripe.values().sum();
        stripe
            .iter()
            .try_for_each(|(other, count)| out.write(word, (other, *count as f64 / all as f64)))
    });
    job.combine(Join).reduce(divide).reducers(Auto).output(text_out(output))
}

/// Adds stripes up.
#[derive(Clone)]
struct Join;

impl Fold<Stripe> for Join {
    type Acc = Stripe;

    fn lift(&self, stripe: Stripe) -> Stripe {
        stripe
    }

    fn merge(&self, Serde(into): &mut Stripe, Serde(other): Stripe) {
        for (word, count) in other {
            *into.entry(word).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use mr_api::LocalRunner;
    use mr_api::testing::{JobDriver, assert_fold_laws};

    use super::*;

    fn sample() -> String {
        let word = |n: usize| ["a", "bb", "c", "a", "dd", "e"][(n * n + n / 7) % 6];
        let line = |n: usize| (0..n % 9).map(|i| word(n + i * 5)).collect::<Vec<_>>().join(" ");
        (0..60).map(|n| line(n) + "\n").collect()
    }

    fn output(way: &str, count: &str) -> String {
        let runner = LocalRunner::new().reducers(1).split_bytes(100).tiny_memory();
        let run = JobDriver::new().file("in", sample()).runner(runner).run(|path| {
            plan(&mut Args::from_words([way.into(), count.into(), path("in"), path("out")])?)
        });
        run.unwrap().text("part")
    }

    /// Counts in memory, by comparing all places of a line with each other.
    fn slow(window: usize) -> String {
        let mut counts = BTreeMap::<(String, String), u64>::new();
        let text = sample();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            for (a, b) in (0..words.len()).flat_map(|a| (0..words.len()).map(move |b| (a, b))) {
                if a != b && a.abs_diff(b) <= window {
                    *counts.entry((words[a].into(), words[b].into())).or_default() += 1;
                }
            }
        }
        let mut lines = String::new();
        for ((word, other), count) in &counts {
            let of_word = counts.iter().filter(|((first, _), _)| first == word);
            let all: u64 = of_word.map(|(_, count)| count).sum();
            writeln!(lines, "{word}\t{other}\t{}", *count as f64 / all as f64).unwrap();
        }
        lines
    }

    #[test]
    fn pairs_and_stripes_write_the_same() {
        for window in [1, 2, 50] {
            let expected = slow(window);
            assert_eq!(output("pairs", &window.to_string()), expected, "pairs {window}");
            assert_eq!(output("stripes", &window.to_string()), expected, "stripes {window}");
        }
    }

    #[test]
    fn ngrams_are_counted_within_lines() {
        for count in [1, 2, 5] {
            let mut counts = BTreeMap::<String, u64>::new();
            for line in sample().lines().filter(|line| !line.is_empty()) {
                let words: Vec<&str> = line.split(' ').collect();
                words
                    .windows(count)
                    .for_each(|words| *counts.entry(words.join(" ")).or_default() += 1);
            }
            let expected: String =
                counts.iter().map(|(words, count)| format!("{words}\t{count}\n")).collect();
            assert_eq!(output("ngrams", &count.to_string()), expected, "{count} words");
        }
    }

    #[test]
    fn stripes_can_be_joined_in_any_order() {
        let stripe = |words: [(&str, u64); 2]| {
            Serde(
                words.into_iter().map(|(word, count)| (word.as_bytes().to_vec(), count)).collect(),
            )
        };
        let stripes = [[("a", 1), ("b", 2)], [("b", 5), ("c", 1)], [("a", 9), ("", 3)]];
        assert_fold_laws(&Join, &stripes.map(stripe));
    }

    #[test]
    fn mistakes_are_named() {
        for words in
            [&["pairs", "in", "out"][..], &["pairs", "0", "a", "b"], &["sum", "1", "a", "b"]]
        {
            assert!(plan(&mut Args::from_words(words.iter().copied()).unwrap()).is_err());
        }
    }
}
