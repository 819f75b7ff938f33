//! Groups points around `k` centres: k-means, from a start that is nearly as good as the end.
//!
//! ```text
//! cargo run --release --example kmeans -- --local --k 5 points.txt OUT
//! ```
//!
//! Reads points, a line each, numbers separated by spaces; prints the centres and writes `centre<TAB>point`.
//!
//! A round of Lloyd's method: each point joins the group of its nearest centre, and each centre moves to the mean of its group. [`Add`] is
//! a [`Fold`], so a map sends one sum for each group, however many points it reads. The centres are parameters of the step, and so travel
//! to every task. The program ends when no centre moves any more.
//!
//! What comes out depends on the start. *k-means||* (Bahmani and others, *Scalable K-Means++*, 2012) begins with the mean of all points. In
//! a few rounds it draws more candidates, about `2k` in each, and far points with more probability. Then the groups of the candidates tell
//! how much each stands for, and the driver, which can hold so few, draws `k` of them.

use std::io::{Write, stdout};
use std::process::ExitCode;

use mr_api::datum::Serde;
use mr_api::job::CompleteJob;
use mr_api::{
    Args, Cluster, Fold, Job, Program, Result, intermediate, reduce_fn, text, text_out, usage_error,
};

const HELP: &str = "\
Groups points around centres.

Usage: kmeans [options] --k N IN... OUT

  IN...                  points: lines of numbers, separated by spaces
  OUT                    a new directory: lines `number of the centre<TAB>point`
  --k N                  number of centres
  --rounds N             most rounds (default 50)

Example:
  kmeans --local --k 5 points.txt groups
";

type Point = Vec<f64>;

/// Rounds that draw candidates: more improve little.
const DRAWS: u64 = 5;

fn main() -> ExitCode {
    Program::new(HELP).step(gather).step(draw).step(assign).main(drive)
}

fn drive(args: &mut Args, cluster: &Cluster) -> Result<()> {
    let Some(k) = args.value::<usize>("--k")?.filter(|k| *k > 0) else {
        return usage_error("--k N is needed, a number above 0");
    };
    let rounds = args.value("--rounds")?.unwrap_or(50);
    let (inputs, output) = args.inputs_and_output()?;
    cluster.check_new(&output)?;
    let mut centres = start(cluster, &inputs, k)?;
    for _ in 0..rounds {
        let before = centres.clone();
        for group in groups(cluster, &inputs, &before)? {
            centres[group.number] = group.mean;
        }
        if centres == before {
            break;
        }
    }
    for (number, centre) in centres.iter().enumerate() {
        writeln!(stdout(), "{number}\t{}", words(centre))?;
    }
    cluster.run(assign, &(inputs, centres, output))?;
    Ok(())
}

/// The centres to begin with.
fn start(cluster: &Cluster, inputs: &[String], k: usize) -> Result<Vec<Point>> {
    // Everything is nearest to the only centre, whatever it is.
    let all = groups(cluster, inputs, &[Vec::new()])?.pop().ok_or("there are no points")?;
    let mut candidates = vec![all.mean];
    for seed in 0..DRAWS {
        let cost: f64 = groups(cluster, inputs, &candidates)?.iter().map(|group| group.cost).sum();
        if cost == 0.0 {
            break;
        }
        let share = 2.0 * k as f64 / cost;
        let drawn = cluster.run(draw, &(inputs.to_vec(), candidates.clone(), share, seed))?;
        for line in drawn.lines()? {
            candidates.push(point(line.as_bytes())?);
        }
    }
    Ok(choose(&candidates, &groups(cluster, inputs, &candidates)?, k))
}

/// Draws `k` of the candidates, one after the other; far ones with large groups with more probability.
fn choose(candidates: &[Point], groups: &[Group], k: usize) -> Vec<Point> {
    let mut centres: Vec<Point> = Vec::new();
    for turn in 0..k.min(groups.len()) {
        let far = |point: &Point| if turn == 0 { 1.0 } else { nearest(&centres, point).1 };
        let share = |group: &Group| group.count * far(&candidates[group.number]);
        let mut left = chance(turn as u64, 0) * groups.iter().map(share).sum::<f64>();
        let drawn = groups.iter().find(|group| {
            left -= share(group);
            left < 0.0
        });
        centres.extend(drawn.map(|group| candidates[group.number].clone()));
    }
    centres
}

/// The number of the nearest centre, and the square of its distance.
fn nearest(centres: &[Point], point: &[f64]) -> (u32, f64) {
    let square =
        |centre: &Point| -> f64 { centre.iter().zip(point).map(|(a, b)| (a - b) * (a - b)).sum() };
    let all = (0..).zip(centres.iter().map(square));
    all.min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap_or((0, 0.0))
}

/// The points to which a centre is the nearest.
struct Group {
    number: usize,
    count: f64,
    /// The sum of the squares of their distances.
    cost: f64,
    mean: Point,
}

/// The groups of some centres, without empty ones.
fn groups(cluster: &Cluster, inputs: &[String], centres: &[Point]) -> Result<Vec<Group>> {
    let done = cluster.run(gather, &(inputs.to_vec(), centres.to_vec()))?;
    let group = |line: &String| match &point(line.as_bytes())?[..] {
        [number, count, cost, mean @ ..] => {
            Ok(Group { number: *number as usize, count: *count, cost: *cost, mean: mean.to_vec() })
        }
        _ => Err("a line is no group".into()),
    };
    done.lines()?.iter().map(group).collect()
}

/// Makes lines of the number of a centre, and count, cost and mean of its group.
fn gather((inputs, centres): (Vec<String>, Vec<Point>)) -> Result<CompleteJob> {
    let job = Job::new("gather").input(text(inputs)).map_fn::<u32, Sums, _>(move |line, out| {
        let point = point(line.bytes)?;
        let (number, square) = nearest(&centres, &point);
        out.emit(number, Serde((1.0, square, point)))
    });
    let mean = reduce_fn::<u32, Sums, _>(|number, parts, out| {
        let mut all = Serde((0.0, 0.0, Vec::new()));
        while let Some(part) = parts.next_value()? {
            Add.merge(&mut all, part);
        }
        let Serde((count, cost, sums)) = all;
        let means = sums.iter().map(|sum| sum / count);
        out.write(number, words(&[count, cost].into_iter().chain(means).collect::<Point>()))
    });
    Ok(job.combine(Add).reduce(mean).reducers(1).output(intermediate()))
}

/// Of a group or a part of it: how many points, the sum of the squares of their distances, the sums of their numbers.
type Sums = Serde<(f64, f64, Point)>;

/// Adds up. The mean is for the end: means of means would be wrong.
#[derive(Clone)]
struct Add;

impl Fold<Sums> for Add {
    type Acc = Sums;

    fn lift(&self, sums: Sums) -> Sums {
        sums
    }

    fn merge(&self, Serde(into): &mut Sums, Serde((count, cost, sums)): Sums) {
        *into = (into.0 + count, into.1 + cost, std::mem::take(&mut into.2));
        into.2.resize(sums.len().max(into.2.len()), 0.0);
        into.2.iter_mut().zip(sums).for_each(|(sum, number)| *sum += number);
    }
}

/// Draws new candidates, each with this share of the square of its distance as probability.
fn draw(
    (inputs, candidates, share, seed): (Vec<String>, Vec<Point>, f64, u64),
) -> Result<CompleteJob> {
    let job = Job::new("draw").input(text(inputs)).map_fn::<Vec<u8>, (), _>(move |line, out| {
        let (_, square) = nearest(&candidates, &point(line.bytes)?);
        // The same in each attempt of the task.
        if chance(seed, line.offset) < share * square { out.emit(line.bytes, ()) } else { Ok(()) }
    });
    Ok(job.output(intermediate()))
}

/// Writes each point behind the number of its centre.
fn assign((inputs, centres, output): (Vec<String>, Vec<Point>, String)) -> Result<CompleteJob> {
    let job = Job::new("assign").input(text(inputs)).map_fn::<u32, Vec<u8>, _>(move |line, out| {
        out.emit(nearest(&centres, &point(line.bytes)?).0, line.bytes)
    });
    Ok(job.output(text_out(output)))
}

fn point(line: &[u8]) -> Result<Point> {
    let words = std::str::from_utf8(line)?.split_whitespace();
    let point = words.map(str::parse).collect::<Result<Point, _>>()?;
    if point.is_empty() { Err("a line without numbers".into()) } else { Ok(point) }
}

fn words(point: &[f64]) -> String {
    point.iter().map(f64::to_string).collect::<Vec<_>>().join(" ")
}

/// A number from 0 to 1 that looks random and is always the same: the mix of SplitMix64.
fn chance(seed: u64, place: u64) -> f64 {
    let mut mixed =
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place.wrapping_add(1).rotate_left(32);
    for factor in [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb] {
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(factor);
    }
    ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use mr_api::LocalRunner;

    use super::*;

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

    fn assigned(points: &[Point], k: usize) -> Vec<(usize, Point)> {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let lines: String = points.iter().map(|point| words(point) + "\n").collect();
        std::fs::write(path("in"), lines).unwrap();
        // One split, so that the lines of the output are in the order of the input.
        let cluster = Cluster::local(LocalRunner::new().tiny_memory());
        let words = ["--k", &k.to_string(), &path("in"), &path("out")];
        drive(&mut Args::from_words(words).unwrap(), &cluster).unwrap();
        let text = std::fs::read_to_string(path("out/part-m-00000")).unwrap();
        let pairs = text.lines().map(|line| line.split_once('\t').unwrap());
        pairs.map(|(group, at)| (group.parse().unwrap(), point(at.as_bytes()).unwrap())).collect()
    }

    #[test]
    fn groups_that_are_apart_are_found() {
        let points = points();
        let found = assigned(&points, 4);
        assert!(found.iter().map(|(_, point)| point).eq(&points));
        for (index, (group, _)) in found.iter().enumerate() {
            assert_eq!(*group, found[index % 4].0, "point {index} is with those of its corner");
        }
        let numbers: std::collections::BTreeSet<_> = found.iter().map(|(group, _)| group).collect();
        assert_eq!(numbers.len(), 4);
    }

    #[test]
    fn a_round_moves_centres_to_the_means_of_what_is_nearest() {
        let points = points();
        let directory = tempfile::tempdir().unwrap();
        let input = directory.path().join("in").to_string_lossy().into_owned();
        let lines: String = points.iter().map(|point| words(point) + "\n").collect();
        std::fs::write(&input, lines).unwrap();
        let centres = vec![vec![10.0, 20.0], vec![60.0, 50.0], vec![81.0, 0.0]];
        let cluster = Cluster::local(LocalRunner::new().split_bytes(500).tiny_memory());
        for group in groups(&cluster, &[input], &centres).unwrap() {
            let far = |centre: &Point, p: &Point| (centre[0] - p[0]).hypot(centre[1] - p[1]);
            let own = &centres[group.number];
            let is_near = |p: &&Point| centres.iter().all(|centre| far(own, p) <= far(centre, p));
            let near: Vec<&Point> = points.iter().filter(is_near).collect();
            assert_eq!(group.count, near.len() as f64);
            let cost: f64 = near.iter().map(|p| far(own, p).powi(2)).sum();
            assert!((group.cost / cost - 1.0).abs() < 1e-9, "{} and {cost}", group.cost);
            for axis in [0, 1] {
                let sum: f64 = near.iter().map(|point| point[axis]).sum();
                assert!((group.mean[axis] - sum / near.len() as f64).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn fewer_points_than_centres_are_their_own_centres() {
        let two = [vec![1.0], vec![5.0]];
        let found = assigned(&two, 3);
        assert_ne!(found[0].0, found[1].0);
    }
}
