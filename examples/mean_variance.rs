//! Means and variances of numbers by key, exact also where numbers are large and close together: stable merging.
//!
//! ```text
//! cargo run --release --example mean_variance -- --local measurements.tsv OUT
//! ```
//!
//! Reads `key<TAB>number` and writes `key<TAB>count<TAB>mean<TAB>variance`.
//!
//! The variance is the mean of the squares minus the square of the mean, says the formula. With numbers near a billion that differ by one,
//! both have more digits than a `f64`, and their difference is noise. Instead, a part is kept as count, mean, and the sum of the squares of
//! the distances *from its own mean*. Two parts merge without a difference of large numbers (Chan, Golub and LeVeque, 1979). Since parts
//! merge in any grouping, [`Spread`] is a [`Fold`]: it runs in maps as combiner and finishes in the reduce.
//!
//! [`Moments`] travels from maps to reduces. `#[derive(Datum)]` gives it an encoding, 24 bytes here.

use std::process::ExitCode;

use mr_api::datum::Datum;
use mr_api::formats::KeyValueLines;
use mr_api::{Args, Auto, Fold, Job, Plan, Result, from_files, parse, reduce_fn, text_out};

const HELP: &str = "\
Computes means and variances by key.

Usage: mean_variance [options] IN... OUT

  IN...                  lines `key<TAB>number`
  OUT                    a new directory: lines `key<TAB>count<TAB>mean<TAB>variance`

Example:
  mean_variance --local measurements.tsv spread
";

fn main() -> ExitCode {
    mr_api::main(HELP, plan)
}

fn plan(args: &mut Args) -> Result<Plan> {
    let (inputs, output) = args.inputs_and_output()?;
    let job = Job::new("mean-variance")
        .input(from_files(inputs, KeyValueLines { separator: b'\t' }))
        .map_fn::<Vec<u8>, f64, _>(|(key, number), out| {
            let number = number.trim_ascii();
            let read = |record: &[u8]| parse::<f64>(number, "number", record);
            // The record is put together for the error alone.
            out.emit(key, read(number).or_else(|_| read(&[key, number].join(&b'\t')))?)
        })
        .combine(Spread)
        .reduce(reduce_fn::<Vec<u8>, Moments, _>(|key, parts, out| {
            let mut all = Moments::default();
            while let Some(part) = parts.next_value()? {
                Spread.merge(&mut all, part);
            }
            let Moments { count, mean, squares } = all;
            out.write(key, (count, mean, squares / count as f64))
        }))
        .reducers(Auto)
        .output(text_out(output));
    Ok(job.into())
}

/// What is known of some numbers.
#[derive(Datum, Clone, Copy, Default, Debug)]
struct Moments {
    count: u64,
    mean: f64,
    /// The sum of the squares of their distances from their mean.
    squares: f64,
}

/// Gathers [`Moments`].
#[derive(Clone)]
struct Spread;

impl Fold<f64> for Spread {
    type Acc = Moments;

    fn lift(&self, number: f64) -> Moments {
        Moments { count: 1, mean: number, squares: 0.0 }
    }

    fn merge(&self, into: &mut Moments, other: Moments) {
        let count = into.count + other.count;
        if count == 0 {
            return;
        }
        let (apart, share) = (other.mean - into.mean, other.count as f64 / count as f64);
        into.squares += other.squares + apart * apart * share * into.count as f64;
        into.mean += apart * share;
        into.count = count;
    }
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;
    use mr_api::testing::JobDriver;

    use super::*;

    fn spread(lines: String) -> Vec<(String, f64, f64, f64)> {
        let runner = LocalRunner::new().reducers(1).split_bytes(500).tiny_memory();
        let driver = JobDriver::new().file("in", lines).runner(runner);
        let run = driver.run(|path| plan(&mut Args::from_words([path("in"), path("out")])?));
        let text = run.unwrap().text("part");
        let row = |line: &str| {
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |index: usize| fields[index].parse().unwrap();
            (fields[0].to_owned(), number(1), number(2), number(3))
        };
        text.lines().map(row).collect()
    }

    #[test]
    fn numbers_in_a_row_have_the_variance_of_the_formula() {
        // That of 0, 1, …, n - 1 is (n² - 1) / 12, wherever they begin.
        for begin in [0.0, 1e9, -1e12] {
            let lines = (0..600).map(|n| format!("row\t{}\n", begin + f64::from(n * 7 % 600)));
            let found = spread(lines.collect());
            let [(key, count, mean, variance)] = &found[..] else { panic!("{found:?}") };
            assert_eq!((key.as_str(), *count), ("row", 600.0));
            assert!((mean - begin - 299.5).abs() < 1e-3, "from {begin}: {mean}");
            let expected = (600.0 * 600.0 - 1.0) / 12.0;
            assert!((variance / expected - 1.0).abs() < 1e-6, "from {begin}: {variance}");
        }
    }

    #[test]
    fn keys_are_apart() {
        let found = spread("a\t1\nb\t5\na\t3\n".to_owned());
        assert_eq!(found, [("a".to_owned(), 2.0, 2.0, 1.0), ("b".to_owned(), 1.0, 5.0, 0.0)]);
    }
}
