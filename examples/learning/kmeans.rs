//! Groups points around `k` centres: k-means, from a start that is nearly as good as the end. One job in rounds.
//!
//! ```text
//! cargo run --release -p learning --example kmeans -- --local --k 5 points.txt OUT
//! ```
//!
//! Reads points, a line each, numbers separated by spaces. Writes `centre<TAB>point` to `part-r-…` and the centres to `centres-r-00000`, and
//! prints the centres.
//!
//! Maps parse the points once; these stay where they are, and a round is a pass over them ([`learning::passes`]). In a round of Lloyd's
//! method, each point joins the group of its nearest centre. A task sums up its part of each group. From the sums of all tasks, each computes
//! the same next centres: the means of the groups. The job ends when no centre moves any more.
//!
//! What comes out depends on the start. *k-means||* (Bahmani and others, *Scalable K-Means++*, 2012) draws candidates in a few rounds, far
//! points with more probability. Here these are `2k` in each, by alarm clocks: each point's rings at a random time, the sooner the farther the
//! point is. The first `2k` of all are found as any least values are: each task sends its own first ones. Then a round counts the groups of the
//! candidates, which tells how much each stands for, and `k` of them are chosen.

use std::io::Write;
use std::process::ExitCode;

use learning::centres::{Centres, Groups, choose};
use learning::chance;
use learning::passes::{Passes, Rows, passes};
use learning::rows::{lines_with, words, write_words};
use mr_api::job::CompleteJob;
use mr_api::{Args, Cluster, Output, Program, Result, text_out, usage_error};

const HELP: &str = "\
Groups points around centres.

Usage: kmeans [options] --k N IN... OUT

  IN...                  points: lines of numbers, separated by spaces
  OUT                    a new directory: lines `number of the centre<TAB>point`
  --k N                  number of centres; times the numbers of a point, 10,000 at most
  --rounds N             most moves of the centres (default 50)

Example:
  kmeans --local --k 5 points.txt groups
";

/// Rounds that draw candidates: more improve little.
const DRAWS: u32 = 5;
/// In front of the lines of centres.
const CENTRE: &str = "centre\t";

fn main() -> ExitCode {
    Program::new(HELP).step(group).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let Some(k) = args.value::<usize>("--k")?.filter(|k| (1..=10_000).contains(k)) else {
        return usage_error("--k N is needed, a number from 1 to 10,000");
    };
    let rounds: u32 = args.value("--rounds")?.unwrap_or(50);
    let (inputs, output) = args.inputs_and_output()?;
    let done = cluster.run(group, &(inputs, (k, rounds), output))?;
    lines_with(&done, CENTRE, |centre| Ok(writeln!(mr_api::stdout(), "{centre}")?))
}

fn group(
    (inputs, (k, rounds), output): (Vec<String>, (usize, u32), String),
) -> Result<CompleteJob> {
    let (centres, line) = (Centres::default(), String::new());
    let last = rounds.saturating_add(DRAWS + 1);
    let job = passes("kmeans", inputs, (Means { k, centres, line }, last));
    Ok(job.depends_on(k).output(text_out(output)))
}

/// Moves centres.
#[derive(Clone)]
struct Means {
    k: usize,
    /// Of this pass.
    centres: Centres,
    line: String,
}

impl Passes for Means {
    /// Centres, one after the other.
    type Known = Vec<f64>;
    type Sums = Groups;

    fn learn(&mut self, pass: u32, centres: &Vec<f64>, groups: &Groups) -> Result<Vec<f64>> {
        let next: Vec<f64> = match pass {
            1..=DRAWS => centres.iter().chain(groups.drawn()).copied().collect(),
            _ if pass == DRAWS + 1 => choose(centres, groups.counts(), self.k),
            _ => groups.means(centres),
        };
        self.centres = Centres::new(&next, groups.width());
        Ok(next)
    }

    fn look(&mut self, centres: &Vec<f64>, rows: Rows<'_>, groups: &mut Groups) -> Result<()> {
        groups.reserve(centres, rows.width);
        for (index, point) in rows.iter().enumerate() {
            let (group, square) = self.centres.nearest(point);
            groups.add(group, square, point);
            if rows.pass < DRAWS && square > 0.0 {
                let place = rows.place ^ (index as u64) << 20;
                let time = -(1.0 - chance(rows.pass.into(), place)).ln() / square;
                groups.draw(2 * self.k, time, || point.to_vec());
            }
        }
        Ok(())
    }

    fn add(&self, into: &mut Groups, other: Groups) {
        into.merge(other, 2 * self.k);
    }

    fn is_done(&self, pass: u32, centres: &Vec<f64>, groups: &Groups) -> bool {
        pass > DRAWS && groups.means(centres) == *centres
    }

    fn measure(&self, pass: u32, groups: &Groups) -> Option<f64> {
        (pass > 0).then_some(groups.cost())
    }

    fn write(&mut self, _: &Vec<f64>, rows: Rows<'_>, out: &mut Output) -> Result<()> {
        for point in rows.iter() {
            write_words(point, &mut self.line);
            out.write(self.centres.nearest(point).0 as u64, &self.line)?;
        }
        Ok(())
    }

    fn finish(&mut self, centres: &Vec<f64>, out: &mut Output) -> Result<()> {
        let count = self.centres.count();
        let mut all = centres.chunks_exact(centres.len() / count.max(1)).enumerate();
        all.try_for_each(|(number, centre)| {
            out.write_to("centres", format!("{CENTRE}{number}"), words(centre))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use mr_api::LocalRunner;

    use super::*;

    type Point = Vec<f64>;

    /// Points around four corners, some distance from each other.
    fn points() -> Vec<Point> {
        let corner =
            |n: u64| [(0.0, 0.0), (100.0, 3.0), (-7.0, 90.0), (80.0, 85.0)][n as usize % 4];
        let point = |n| {
            let (x, y) = corner(n);
            vec![x + 8.0 * chance(77, 2 * n), y + 8.0 * chance(77, 2 * n + 1)]
        };
        (0..400).map(point).collect()
    }

    fn numbers(text: &str) -> Point {
        text.split(' ').map(|word| word.parse().unwrap()).collect()
    }

    /// The centres, and the points of each group.
    fn grouped(points: &[Point], options: &[&str]) -> (Vec<Point>, BTreeMap<usize, Vec<Point>>) {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = points.iter().map(|point| words(point) + "\n").collect();
        std::fs::write(path("in"), lines).unwrap();
        let cluster = Cluster::local(LocalRunner::new().reducers(3).split_bytes(500).tiny_memory());
        let places = [path("in"), path("out")];
        let all = options.iter().copied().chain(places.iter().map(String::as_str));
        drive(&mut Args::from_words(all).unwrap(), &cluster).unwrap();
        let text = |name: &str| std::fs::read_to_string(path("out/") + name).unwrap();
        let centres = text("centres-r-00000");
        let centres = centres.lines().map(|line| numbers(line.rsplit('\t').next().unwrap()));
        let mut groups = BTreeMap::<usize, Vec<Point>>::new();
        for part in 0..3 {
            for line in text(&format!("part-r-0000{part}")).lines() {
                let (group, point) = line.split_once('\t').unwrap();
                groups.entry(group.parse().unwrap()).or_default().push(numbers(point));
            }
        }
        (centres.collect(), groups)
    }

    #[test]
    fn groups_that_are_apart_are_found() {
        let points = points();
        let (_, found) = grouped(&points, &["--k", "4"]);
        let sorted = |points: &mut dyn Iterator<Item = &Point>| -> BTreeSet<String> {
            points.map(|point| words(point)).collect()
        };
        let expected: BTreeSet<BTreeSet<String>> =
            (0..4).map(|corner| sorted(&mut points.iter().skip(corner).step_by(4))).collect();
        let found: BTreeSet<BTreeSet<String>> =
            found.values().map(|group| sorted(&mut group.iter())).collect();
        assert!(found == expected);
    }

    #[test]
    fn a_centre_is_the_mean_of_the_points_to_which_it_is_the_nearest() {
        let points: Vec<Point> =
            (0..300).map(|n| (0..3).map(|axis| chance(axis, n)).collect()).collect();
        let (centres, groups) = grouped(&points, &["--k", "7"]);
        assert_eq!(groups.values().map(Vec::len).sum::<usize>(), 300);
        let far =
            |a: &Point, b: &Point| -> f64 { a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum() };
        for (number, group) in groups {
            let own = &centres[number];
            let is_nearest =
                |point: &Point| centres.iter().all(|other| far(own, point) <= far(other, point));
            assert!(group.iter().all(is_nearest), "group {number}");
            for (axis, x) in own.iter().enumerate() {
                let sum: f64 = group.iter().map(|point| point[axis]).sum();
                assert!((x - sum / group.len() as f64).abs() < 1e-9, "group {number}");
            }
        }
    }

    #[test]
    fn fewer_points_than_centres_are_their_own_centres() {
        let (centres, groups) = grouped(&[vec![1.0], vec![5.0]], &["--k", "3", "--rounds", "1"]);
        assert_eq!((centres.len(), groups.len()), (2, 2));
    }
}
