//! Estimates π by throwing points at a circle, evenly instead of at random: the quasi-Monte Carlo method.
//!
//! ```text
//! cargo run --release --example pi -- --local 16 100000
//! ```
//!
//! A circle in a square covers π/4 of it, so about π/4 of all points of the square are in the circle. Points of Halton's sequence fill the
//! square more evenly than random ones, so the estimate is better, and the same in each run. Point `n` can be computed without those before
//! it: this makes the job easy to divide.
//!
//! There is no input: [`rows`] hands each map the numbers of its points. A map only counts, and emits its two numbers in
//! [`Mapper::cleanup`], once it has seen all its points. The program reads the sums from an [`intermediate`] output and prints the estimate.

use std::io::Write;
use std::process::ExitCode;

use mr_api::formats::Rows;
use mr_api::job::{CompleteJob, rows};
use mr_api::{
    Always, Args, Cluster, Emit, Job, Mapper, Program, Result, Sink, Sum, intermediate, parse,
    usage_error,
};
use serde::{Deserialize, Serialize};

const HELP: &str = "\
Estimates pi.

Usage: pi [options] MAPS POINTS

  MAPS                   number of map tasks
  POINTS                 number of points for each

Example:
  pi --local 16 100000
";

fn main() -> ExitCode {
    Program::new(HELP).step(throw).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let operands = args.operands()?;
    let [maps, points] = &operands[..] else {
        return usage_error("the numbers of maps and points are needed");
    };
    let Ok(maps) = maps.parse::<u32>() else {
        return usage_error(format!("`{maps}` is no number of maps"));
    };
    let Ok(points) = points.parse::<u64>() else {
        return usage_error(format!("`{points}` is no number of points"));
    };
    let Some(points) = points.checked_mul(maps.into()).filter(|points| *points > 0) else {
        return usage_error("there must be a point, and less than 2 to the 64th");
    };
    writeln!(
        mr_api::stdout(),
        "Estimated value of Pi is {:.20}",
        estimate(cluster, maps, points)?
    )?;
    Ok(())
}

fn estimate(cluster: &Cluster, maps: u32, points: u64) -> Result<f64> {
    let done = cluster.run(throw, &Throws { maps, points })?;
    let lines = done.lines()?;
    let inside = lines.iter().find_map(|line| Some((line, line.strip_prefix("true\t")?)));
    let (line, inside) = inside.ok_or("no count of the points inside")?;
    let inside: u64 = parse(inside, "count", line)?;
    Ok(4.0 * inside as f64 / points as f64)
}

#[derive(Serialize, Deserialize)]
struct Throws {
    maps: u32,
    points: u64,
}

fn throw(Throws { maps, points }: Throws) -> Result<CompleteJob> {
    Ok(Job::new("pi")
        .input(rows(points, maps))
        .map(Throw::default())
        .reduce(Sum)
        .reducers(Always(1))
        .output(intermediate()))
}

/// Counts the points inside and outside of the circle.
#[derive(Clone, Default)]
struct Throw {
    inside: u64,
    outside: u64,
}

impl Mapper for Throw {
    type In = Rows;
    type Key = bool;
    type Value = u64;

    fn map<S: Sink>(&mut self, row: u64, _: &mut Emit<bool, u64, S>) -> Result<()> {
        let [x, y] = [2, 3].map(|base| radical_inverse(row + 1, base) - 0.5);
        if x * x + y * y > 0.25 {
            self.outside += 1;
        } else {
            self.inside += 1;
        }
        Ok(())
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<bool, u64, S>) -> Result<()> {
        out.emit(true, self.inside)?;
        out.emit(false, self.outside)
    }
}

/// The digits of `number` mirrored at the point: 6 is 110 in base 2, and becomes 0.011. A coordinate of Halton's sequence.
fn radical_inverse(mut number: u64, base: u64) -> f64 {
    let (mut inverse, mut place) = (0.0, 1.0);
    while number > 0 {
        place /= base as f64;
        inverse += (number % base) as f64 * place;
        number /= base;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

    /// What Hadoop's `pi` prints, without the zeros at the end.
    const OF_HADOOP: [(u32, u64, f64); 5] = [
        (2, 10, 3.8),
        (10, 100, 3.148),
        (16, 1000, 3.1425),
        (10, 1000, 3.1408),
        (16, 100_000, 3.141575),
    ];

    #[test]
    fn estimates_are_those_of_hadoop() {
        let cluster = Cluster::local(LocalRunner::new());
        for (maps, points, pi) in OF_HADOOP {
            let found = estimate(&cluster, maps, points * u64::from(maps)).unwrap();
            assert!((found - pi).abs() < 1e-12, "{maps} maps, {points} points: {found}");
        }
    }

    #[test]
    fn the_estimate_does_not_depend_on_the_number_of_maps() {
        let cluster = Cluster::local(LocalRunner::new());
        let all = [1, 3, 7, 50].map(|maps| estimate(&cluster, maps, 4200).unwrap());
        assert!(all.iter().all(|pi| *pi == all[0]), "{all:?}");
    }

    #[test]
    fn digits_are_mirrored() {
        for (number, base, expected) in [(6, 2, 0.375), (1, 3, 1.0 / 3.0), (5, 3, 7.0 / 9.0)] {
            assert!((radical_inverse(number, base) - expected).abs() < 1e-15, "{number} in {base}");
        }
    }
}
