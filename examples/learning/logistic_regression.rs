//! Learns to tell two kinds of records apart: logistic regression by gradient descent.
//!
//! ```text
//! cargo run --release -p learning --example logistic_regression -- --local records.txt
//! ```
//!
//! Reads lines `kind number number …`, kind 0 or 1, and prints the weights: first the constant, then one for each number. The probability
//! that a record is of kind 1 is `1 / (1 + exp(-(w0 + w1 x1 + …)))`.
//!
//! The weights that make the records most probable have no formula. So the program goes downhill, in a job in rounds
//! ([`learning::descent`]): records stay where they are, parsed. In a round each task sums up loss and slopes of its records, and in the next
//! all tasks compute the same new weights from the total. What travels is a few numbers for each task.

use std::io::Write;
use std::process::ExitCode;

use learning::descent::{Loss, fit};
use mr_api::job::CompleteJob;
use mr_api::{Args, Cluster, Program, Result, usage_error};

const HELP: &str = "\
Learns to tell two kinds of records apart.

Usage: logistic_regression [options] IN...

  IN...                  lines `kind number number...`, kind 0 or 1, separated by spaces
  --rounds N             most rounds (default 200)
  --accuracy X           ends when no slope is larger, for columns of variance 1 (default 0.0001)

Example:
  logistic_regression --local records.txt
";

fn main() -> ExitCode {
    Program::new(HELP).step(descend).main(|args, cluster| {
        for line in learn(args, cluster)? {
            writeln!(mr_api::stdout(), "{line}")?;
        }
        Ok(())
    })
}

/// Lines of the number of a weight and the weight.
fn learn(args: &mut Args, cluster: &Cluster) -> Result<Vec<String>> {
    let rounds: u32 = args.value("--rounds")?.unwrap_or(200);
    let accuracy = args.value("--accuracy")?.unwrap_or(1e-4);
    let inputs = args.operands()?;
    if inputs.is_empty() {
        return usage_error("an input is needed");
    }
    cluster.run(descend, &(inputs, (rounds, accuracy)))?.lines()
}

fn descend((inputs, ends): (Vec<String>, (u32, f64))) -> Result<CompleteJob> {
    Ok(fit::<Improbability>("logistic-regression", inputs, ends))
}

/// How improbable the score makes a record: the loss is `-ln p`.
#[derive(Clone)]
struct Improbability;

impl Loss for Improbability {
    fn check(kind: f64) -> Result<()> {
        if kind == 0.0 || kind == 1.0 {
            return Ok(());
        }
        Err(format!("a record is of kind {kind}, which is neither 0 nor 1").into())
    }

    fn of(score: f64, kind: f64) -> (f64, f64) {
        // ln(1 + exp(score)) - kind * score, which does not overflow.
        let loss = score.max(0.0) + (-score.abs()).exp().ln_1p() - kind * score;
        (loss, 1.0 / (1.0 + (-score).exp()) - kind)
    }
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    fn weights(records: &str) -> Vec<f64> {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("in").to_string_lossy().into_owned();
        std::fs::write(&input, records).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(3).split_bytes(100));
        let words = ["--accuracy", "1e-7", "--rounds", "400", &input];
        let lines = learn(&mut Args::from_words(words).unwrap(), &cluster).unwrap();
        let weight = |line: &String| line.split_once('\t').unwrap().1.parse().unwrap();
        lines.iter().map(weight).collect()
    }

    fn logit(p: f64) -> f64 {
        (p / (1.0 - p)).ln()
    }

    #[test]
    fn with_one_number_that_is_0_or_1_there_is_a_formula() {
        // Of 40 records with 0, 10 are of kind 1; of 30 with 1, 24 are.
        let records = [("0 0\n", 30), ("1 0\n", 10), ("0 1\n", 6), ("1 1\n", 24)];
        let text: String = records.iter().map(|(line, count)| line.repeat(*count)).collect();
        let expected = [logit(0.25), logit(0.8) - logit(0.25)];
        for (found, expected) in weights(&text).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} and {expected}");
        }
    }

    #[test]
    fn without_numbers_the_constant_is_the_logit_of_the_share() {
        let found = weights(&("1\n".repeat(9) + &"0\n".repeat(27)));
        assert!(found.len() == 1 && (found[0] - logit(0.25)).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn at_the_end_the_gradient_is_zero() {
        // The second number is large beside the first, as it is where units differ.
        let record = |n: i32| {
            (f64::from(n % 7) - 3.0, f64::from(n * n % 11) * 200.0, n % 3 == 0 || n % 7 > 4)
        };
        let records: Vec<_> = (0..80).map(record).collect();
        let text: String =
            records.iter().map(|(x, y, kind)| format!("{} {x} {y}\n", u8::from(*kind))).collect();
        let found = weights(&text);
        let mut slopes = [0.0; 3];
        for (x, y, kind) in &records {
            let p = 1.0 / (1.0 + (-found[0] - found[1] * x - found[2] * y).exp());
            let excess = p - f64::from(u8::from(*kind));
            slopes = [slopes[0] + excess, slopes[1] + excess * x, slopes[2] + excess * y / 1000.0];
        }
        assert!(slopes.iter().all(|slope| slope.abs() / 80.0 < 1e-5), "{slopes:?}");
    }

    #[test]
    fn records_that_are_none_are_refused() {
        for (records, reason) in [
            ("2 1\n", "neither 0 nor 1"),
            ("1 x\n", "`x` is no finite number"),
            ("1 2\n1 2 3\n", "another has 2"),
            ("", "no rows"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let input = directory.path().join("in").to_string_lossy().into_owned();
            std::fs::write(&input, records).unwrap();
            let cluster = Cluster::local(LocalRunner::new());
            let error = learn(&mut Args::from_words([input]).unwrap(), &cluster).unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{records}: {error:?}");
        }
    }
}
