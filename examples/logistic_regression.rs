//! Learns to tell two kinds of records apart: logistic regression by gradient descent.
//!
//! ```text
//! cargo run --release --example logistic_regression -- --local records.txt
//! ```
//!
//! Reads lines `kind number number …`, kind 0 or 1, and prints the weights: first the constant, then one for each number. The probability
//! that a record is of kind 1 is `1 / (1 + exp(-(w0 + w1 x1 + …)))`.
//!
//! The weights that make the records most probable have no formula. So the program goes downhill: a step sums up the gradient over all
//! records, the driver moves the weights against it, and begins again. A map keeps its part of the sum in memory and emits it in
//! [`Mapper::cleanup`]: what travels in a round is a few numbers for each map. The driver doubles its stride as long as the loss falls and
//! halves it when it rises, so no rate has to be chosen.

use std::io::{Write, stdout};
use std::process::ExitCode;

use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::{
    Args, Cluster, Emit, Job, Line, Lines, Mapper, Program, Result, Sink, intermediate, reduce_fn,
    text, usage_error,
};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
Learns to tell two kinds of records apart.

Usage: logistic_regression [options] IN...

  IN...                  lines `kind number number...`, kind 0 or 1, separated by spaces
  --rounds N             most rounds (default 200)
  --accuracy X           ends when no part of the gradient is larger (default 0.0001)

Example:
  logistic_regression --local records.txt
";

fn main() -> ExitCode {
    Program::new(HELP).step(gradient).main(|args, cluster| {
        for (number, weight) in learn(args, cluster)?.iter().enumerate() {
            writeln!(stdout(), "{number}\t{weight}")?;
        }
        Ok(())
    })
}

fn learn(args: &mut Args, cluster: &Cluster) -> Result<Vec<f64>> {
    let rounds: u32 = args.value("--rounds")?.unwrap_or(200);
    let accuracy = args.value("--accuracy")?.unwrap_or(1e-4);
    let inputs = args.operands()?;
    if inputs.is_empty() {
        return usage_error("an input is needed");
    }
    let sums = |weights: &[f64]| -> Result<Sums> {
        let done = cluster.run(gradient, &(inputs.clone(), weights.to_vec()))?;
        let lines = done.lines()?;
        let numbers = lines.first().ok_or("there are no records")?.split(' ').map(str::parse);
        let [loss, gradient @ ..] = &numbers.collect::<Result<Vec<f64>, _>>()?[..] else {
            return Err("there is no loss".into());
        };
        Ok(Sums { loss: *loss, gradient: gradient.to_vec() })
    };
    let (mut weights, mut stride) = (Vec::new(), 1.0);
    let mut here = sums(&weights)?;
    weights.resize(here.gradient.len(), 0.0);
    for _ in 0..rounds {
        if here.gradient.iter().all(|slope| slope.abs() <= accuracy) {
            break;
        }
        let downhill = weights.iter().zip(&here.gradient);
        let there: Vec<f64> = downhill.map(|(weight, slope)| weight - stride * slope).collect();
        let next = sums(&there)?;
        if next.loss <= here.loss {
            (weights, here) = (there, next);
            stride *= 2.0;
        } else {
            stride /= 2.0;
        }
    }
    Ok(weights)
}

/// Of some records: how improbable the weights make them (the sum of `-ln p`), and how that changes with each weight.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Sums {
    loss: f64,
    gradient: Vec<f64>,
}

impl Sums {
    fn add(&mut self, loss: f64, gradient: &[f64]) {
        self.loss += loss;
        self.gradient.resize(gradient.len().max(self.gradient.len()), 0.0);
        self.gradient.iter_mut().zip(gradient).for_each(|(sum, slope)| *sum += slope);
    }
}

/// Means of loss and gradient over all records, in one line.
fn gradient((inputs, weights): (Vec<String>, Vec<f64>)) -> Result<CompleteJob> {
    let mean = reduce_fn::<(), (u64, Serde<Sums>), _>(|(), parts, out| {
        let (mut all, mut count) = (Sums::default(), 0);
        while let Some((more, Serde(part))) = parts.next_value()? {
            count += more;
            all.add(part.loss, &part.gradient);
        }
        let sums = [all.loss].into_iter().chain(all.gradient);
        let means: Vec<String> = sums.map(|sum| (sum / count as f64).to_string()).collect();
        if count == 0 { Ok(()) } else { out.write(means.join(" "), ()) }
    });
    Ok(Job::new("gradient")
        .input(text(inputs))
        .map(Slopes { weights, count: 0, sums: Sums::default() })
        .reduce(mean)
        .reducers(1)
        .output(intermediate()))
}

/// Adds up the slopes of the records of a split.
#[derive(Clone)]
struct Slopes {
    weights: Vec<f64>,
    count: u64,
    sums: Sums,
}

impl Mapper for Slopes {
    type In = Lines;
    type Key = ();
    type Value = (u64, Serde<Sums>);

    fn map<S: Sink>(&mut self, line: Line<'_>, _: &mut Emit<(), Self::Value, S>) -> Result<()> {
        let words = std::str::from_utf8(line.bytes)?.split_whitespace();
        let mut record = words.map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        // The constant takes the place of the kind: its number is always 1.
        let kind = std::mem::replace(record.first_mut().ok_or("an empty line")?, 1.0);
        let score: f64 = record.iter().zip(&self.weights).map(|(x, weight)| x * weight).sum();
        let excess = 1.0 / (1.0 + (-score).exp()) - kind;
        record.iter_mut().for_each(|x| *x *= excess);
        // ln(1 + exp(score)) - kind * score, which does not overflow.
        let loss = score.max(0.0) + (-score.abs()).exp().ln_1p() - kind * score;
        self.sums.add(loss, &record);
        self.count += 1;
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<(), Self::Value, S>) -> Result<()> {
        out.emit((), (self.count, Serde(std::mem::take(&mut self.sums))))
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
        let cluster = Cluster::local(LocalRunner::new().split_bytes(100));
        let words = ["--accuracy", "1e-7", "--rounds", "400", &input];
        learn(&mut Args::from_words(words).unwrap(), &cluster).unwrap()
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
            assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
        }
    }

    #[test]
    fn without_numbers_the_constant_is_the_logit_of_the_share() {
        let found = weights(&("1\n".repeat(9) + &"0\n".repeat(27)));
        assert!(found.len() == 1 && (found[0] - logit(0.25)).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn at_the_end_the_gradient_is_zero() {
        let record =
            |n: i32| (f64::from(n % 7) - 3.0, f64::from(n * n % 11) / 5.0, n % 3 == 0 || n % 7 > 4);
        let records: Vec<_> = (0..80).map(record).collect();
        let text: String =
            records.iter().map(|(x, y, kind)| format!("{} {x} {y}\n", u8::from(*kind))).collect();
        let found = weights(&text);
        let mut slopes = [0.0; 3];
        for (x, y, kind) in &records {
            let p = 1.0 / (1.0 + (-found[0] - found[1] * x - found[2] * y).exp());
            let excess = p - f64::from(u8::from(*kind));
            slopes = [slopes[0] + excess, slopes[1] + excess * x, slopes[2] + excess * y];
        }
        assert!(slopes.iter().all(|slope| slope.abs() / 80.0 < 1e-5), "{slopes:?}");
    }
}
