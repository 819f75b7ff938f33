//! Fits a line, or a plane, through records: linear regression, exact or by gradient descent.
//!
//! ```text
//! cargo run --release -p learning --example linear_regression -- --local records.txt
//! cargo run --release -p learning --example linear_regression -- --local --descent records.txt
//! ```
//!
//! Reads lines `target number number …` and prints the weights: first the constant, then one for each number. The weights are those with the
//! least sum of the squares of `target - (w0 + w1 x1 + …)`.
//!
//! **Exact**: the weights solve the normal equations `XᵀX w = Xᵀy`. Both sides are sums over records, of one small matrix for each. So a map
//! adds up its records, however many, and emits one matrix, and one reduce adds those up and solves. The sums are taken around the means
//! ([`learning::moments`]): around 0, columns of large numbers that differ little would leave nothing but rounding. One pass is enough.
//!
//! **Descent**: the same loop as for `logistic_regression`, with another loss. It needs many passes, but no matrix: for more columns than
//! whose products a machine can hold.

use std::io::Write;
use std::process::ExitCode;

use learning::descent::{Loss, fit};
use learning::moments::{Measure, Moments, OfMap, merged};
use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::{
    Always, Args, Cluster, Job, Program, Result, intermediate, reduce_fn, text, usage_error,
};
use nalgebra::{DMatrix, DVector};

const HELP: &str = "\
Fits a line or a plane through records.

Usage: linear_regression [options] IN...

  IN...                  lines `target number number...`, separated by spaces
  --exact                solves the normal equations: one pass (default)
  --descent              goes downhill, in rounds
  --rounds N             most rounds (default 1000)
  --accuracy X           ends when no slope is larger, for columns of variance 1 (default 0.0001)

Example:
  linear_regression --local records.txt
";

/// Of a column's variance, what the other columns leave unexplained: less is taken for nothing.
const UNEXPLAINED_MIN: f64 = 1e-12;

fn main() -> ExitCode {
    Program::new(HELP).step(solve).step(descend).main(|args, cluster| {
        for line in learn(args, cluster)? {
            writeln!(mr_api::stdout(), "{line}")?;
        }
        Ok(())
    })
}

/// Lines of the number of a weight and the weight.
fn learn(args: &mut Args, cluster: &Cluster) -> Result<Vec<String>> {
    let rounds: u32 = args.value("--rounds")?.unwrap_or(1000);
    let accuracy = args.value("--accuracy")?.unwrap_or(1e-4);
    let (is_exact, is_descent) = (args.flag("--exact"), args.flag("--descent"));
    let inputs = args.operands()?;
    if inputs.is_empty() {
        return usage_error("an input is needed");
    }
    let lines = match (is_exact, is_descent) {
        (true, true) => return usage_error("--exact and --descent exclude each other"),
        (_, false) => cluster.run(solve, &inputs)?.lines()?,
        (_, true) => cluster.run(descend, &(inputs, (rounds, accuracy)))?.lines()?,
    };
    if lines.is_empty() { Err("the input has no rows".into()) } else { Ok(lines) }
}

fn solve(inputs: Vec<String>) -> Result<CompleteJob> {
    let solve = reduce_fn::<OfMap, Serde<Moments>, _>(|_, parts, out| {
        let weights = weights(&merged(parts)?)?;
        weights.iter().enumerate().try_for_each(|(index, weight)| out.write(index as u64, *weight))
    });
    let job = Job::new("linear-regression").input(text(inputs)).map(Measure::default());
    Ok(job.group_by_first().reduce(solve).reducers(Always(1)).output(intermediate()))
}

/// Solves the normal equations of rows `target number …`.
fn weights(rows: &Moments) -> Result<Vec<f64>> {
    let width = rows.means.len() - 1;
    // In units of standard deviations: what is singular then does not depend on the units of the columns.
    let units: Vec<f64> = (1..=width).map(|column| rows.product(column, column).sqrt()).collect();
    if let Some(column) = units.iter().position(|unit| *unit == 0.0) {
        let column = column + 1;
        return Err(format!("number {column} is the same in all records: leave it out").into());
    }
    let product = |a: usize, b: usize| rows.product(a + 1, b + 1) / (units[a] * units[b]);
    let matrix = DMatrix::from_fn(width, width, product);
    let side = DVector::from_fn(width, |a, _| rows.product(0, a + 1) / units[a]);
    let solved = matrix.cholesky().filter(|lower| {
        lower
            .l_dirty()
            .diagonal()
            .iter()
            .all(|unexplained| unexplained * unexplained > UNEXPLAINED_MIN)
    });
    let solved = solved.ok_or("the columns depend on each other: leave out some of them")?;
    let solution = solved.solve(&side);
    let mut weights = vec![rows.means[0]];
    weights.extend(solution.iter().zip(&units).map(|(weight, unit)| weight / unit));
    let shift: f64 = weights[1..].iter().zip(&rows.means[1..]).map(|(w, mean)| w * mean).sum();
    weights[0] -= shift;
    Ok(weights)
}

fn descend((inputs, ends): (Vec<String>, (u32, f64))) -> Result<CompleteJob> {
    Ok(fit::<Square>("linear-regression", inputs, ends))
}

/// Half the square of what is missing.
#[derive(Clone)]
struct Square;

impl Loss for Square {
    fn check(_: f64) -> Result<()> {
        Ok(())
    }

    fn of(score: f64, target: f64) -> (f64, f64) {
        let excess = score - target;
        (excess * excess / 2.0, excess)
    }
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    fn learned(records: &str, options: &[&str]) -> Result<Vec<f64>> {
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("in").to_string_lossy().into_owned();
        std::fs::write(&input, records).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(2).split_bytes(100));
        let words = options.iter().copied().chain([input.as_str()]);
        let lines = learn(&mut Args::from_words(words)?, &cluster)?;
        Ok(lines.iter().map(|line| line.split_once('\t').unwrap().1.parse().unwrap()).collect())
    }

    fn assert_near(found: &[f64], expected: &[f64], most: f64) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < most, "{found} and {expected}");
        }
    }

    #[test]
    fn both_ways_find_the_plane_on_which_all_records_lie() {
        let row = |n: i32| {
            let (x, y) = (f64::from(n * 7 % 31), 5000.0 + f64::from(n * n % 17));
            format!("{} {x} {y}\n", 3.0 - 0.5 * x + 2.0 * y)
        };
        let records: String = (0..60).map(row).collect();
        assert_near(&learned(&records, &[]).unwrap(), &[3.0, -0.5, 2.0], 1e-7);
        let options = ["--descent", "--accuracy", "1e-9"];
        assert_near(&learned(&records, &options).unwrap(), &[3.0, -0.5, 2.0], 1e-3);
    }

    #[test]
    fn both_ways_agree_on_records_that_lie_on_no_plane() {
        let row = |n: i32| format!("{} {} {}\n", n * n % 13, n % 7, n * n % 11);
        let records: String = (0..90).map(row).collect();
        let exact = learned(&records, &["--exact"]).unwrap();
        assert_near(
            &learned(&records, &["--descent", "--accuracy", "1e-8"]).unwrap(),
            &exact,
            1e-6,
        );
        // With one column, the slope is the covariance by the variance.
        let pairs: Vec<(f64, f64)> =
            (0..90).map(|n: i32| (f64::from(n * n % 13), f64::from(n % 7))).collect();
        let records: String = pairs.iter().map(|(y, x)| format!("{y} {x}\n")).collect();
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / 90.0;
        let slope = (mean(|(y, x)| x * y) - mean(|(_, x)| *x) * mean(|(y, _)| *y))
            / (mean(|(_, x)| x * x) - mean(|(_, x)| *x).powi(2));
        let constant = mean(|(y, _)| *y) - slope * mean(|(_, x)| *x);
        assert_near(&learned(&records, &[]).unwrap(), &[constant, slope], 1e-9);
    }

    #[test]
    fn columns_that_tell_nothing_of_their_own_are_named() {
        let twice: String = (0..9).map(|n| format!("{} {n} {}\n", n % 4, 3 * n + 1)).collect();
        let same: String = (0..9).map(|n| format!("{} {n} 5\n", n % 4)).collect();
        let none = (String::new(), "no rows");
        for (records, reason) in
            [(twice, "depend on each other"), (same, "number 2 is the same"), none]
        {
            let error = learned(&records, &[]).unwrap_err();
            assert!(format!("{error:?}").contains(reason), "{error:?}");
        }
    }
}
