//! Centres of groups: which is nearest to a point, what becomes of the groups, and which of many to begin with.

use serde::{Deserialize, Serialize};

use crate::chance;

/// Choices among the candidates of which the best is taken, for each centre.
const TRIALS: u64 = 8;

/// Centres by coordinate: the first numbers of all, then the second ones. So a coordinate adds to the distances of all centres at once, which
/// compilers turn into wide instructions.
#[derive(Clone, Default)]
pub struct Centres {
    columns: Vec<f64>,
    /// The squares of a point's distances from all of them.
    far: Vec<f64>,
}

impl Centres {
    /// Of points of so many numbers, one after the other.
    pub fn new(points: &[f64], width: usize) -> Self {
        let count = points.len() / width.max(1);
        let column = |at: usize| points[at % count * width + at / count];
        Centres { columns: (0..points.len()).map(column).collect(), far: vec![0.0; count] }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.far.len()
    }

    /// The number of the nearest one, and the square of its distance. Without centres, all points are at distance 1 from nothing.
    #[inline]
    pub fn nearest(&mut self, point: &[f64]) -> (usize, f64) {
        if self.far.is_empty() {
            return (0, 1.0);
        }
        self.far.fill(0.0);
        for (x, column) in point.iter().zip(self.columns.chunks_exact(self.far.len())) {
            self.far.iter_mut().zip(column).for_each(|(sum, y)| *sum += (x - y) * (x - y));
        }
        let mut least = (0, self.far[0]);
        for (number, square) in self.far.iter().enumerate() {
            if *square < least.1 {
                least = (number, *square);
            }
        }
        least
    }
}

/// The groups of points that are nearest to each of some centres.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Groups {
    width: usize,
    /// Of each group: how many points, and the sums of their numbers.
    counts: Vec<u64>,
    sums: Vec<f64>,
    cost: f64,
    /// The points that were drawn, the first ones, and their times.
    drawn: Vec<(f64, Vec<f64>)>,
}

impl Groups {
    /// Makes room for points of so many numbers, and for the groups of these centres; without centres, all points are one group.
    pub fn reserve(&mut self, centres: &[f64], width: usize) {
        self.width = width;
        self.sums.resize(centres.len().max(width), 0.0);
        self.counts.resize(self.sums.len() / width.max(1), 0);
    }

    /// Takes in a point of a group, with the square of its distance from the centre.
    #[inline]
    pub fn add(&mut self, group: usize, square: f64, point: &[f64]) {
        self.cost += square;
        self.counts[group] += 1;
        let sums = &mut self.sums[group * self.width..][..self.width];
        sums.iter_mut().zip(point).for_each(|(sum, x)| *sum += x);
    }

    /// Keeps a point if it is one of the first so many.
    pub fn draw(&mut self, most: usize, time: f64, point: impl FnOnce() -> Vec<f64>) {
        let place = self.drawn.partition_point(|(other, _)| *other <= time);
        if place < most {
            self.drawn.insert(place, (time, point()));
            self.drawn.truncate(most);
        }
    }

    /// Joins the groups of other points around the same centres.
    pub fn merge(&mut self, other: Groups, most: usize) {
        self.width = self.width.max(other.width);
        self.cost += other.cost;
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, part)| *sum += part);
        self.sums.iter_mut().zip(&other.sums).for_each(|(sum, part)| *sum += part);
        other.drawn.into_iter().for_each(|(time, point)| self.draw(most, time, || point));
    }

    /// The numbers of the points that were drawn.
    pub fn drawn(&self) -> impl Iterator<Item = &f64> {
        self.drawn.iter().flat_map(|(_, point)| point)
    }

    /// The means of the groups; a group without points leaves its centre where it is.
    pub fn means(&self, centres: &[f64]) -> Vec<f64> {
        let (mut means, width) = (centres.to_vec(), self.width.max(1));
        let groups = means.chunks_exact_mut(width).zip(self.sums.chunks_exact(width));
        for ((mean, sums), count) in groups.zip(&self.counts).filter(|(_, count)| **count > 0) {
            mean.iter_mut().zip(sums).for_each(|(mean, sum)| *mean = sum / *count as f64);
        }
        means
    }

    /// How many points each group has.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// The sum of the squares of all points' distances from their centres.
    pub fn cost(&self) -> f64 {
        self.cost
    }

    /// How many numbers a point has.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// Chooses `count` of the candidates: those with large groups, far from the ones before, with more probability. Of several choices, the one
/// after which all are nearest to a centre is taken.
pub fn choose(candidates: &[f64], groups: &[u64], count: usize) -> Vec<f64> {
    let width = candidates.len() / groups.len().max(1);
    let candidates: Vec<&[f64]> = candidates.chunks_exact(width.max(1)).collect();
    let sizes: Vec<f64> = groups.iter().map(|size| *size as f64).collect();
    let (mut chosen, mut far) = (Vec::new(), vec![f64::INFINITY; candidates.len()]);
    for turn in 0..count as u64 {
        let share = |(far, size): (&f64, &f64)| if turn == 0 { *size } else { far * size };
        let shares: Vec<f64> = far.iter().zip(&sizes).map(share).collect();
        let all: f64 = shares.iter().sum();
        let mut best = (f64::INFINITY, None);
        for trial in 0..TRIALS {
            let mut left = chance(turn, trial) * all;
            let drawn = shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            let Some(drawn) = drawn else { continue };
            let nearer = |(other, far): (&&[f64], &f64)| far.min(square(candidates[drawn], other));
            let after: Vec<f64> = candidates.iter().zip(&far).map(nearer).collect();
            let cost: f64 = after.iter().zip(&sizes).map(|(far, size)| far * size).sum();
            if cost < best.0 {
                best = (cost, Some((drawn, after)));
            }
        }
        let Some((drawn, after)) = best.1 else { break };
        chosen.extend_from_slice(candidates[drawn]);
        far = after;
    }
    chosen
}

fn square(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_is_that_of_comparing_all() {
        for (count, width) in [(1, 1), (7, 3), (40, 5)] {
            let numbers = |seed: u64, count: usize| -> Vec<f64> {
                (0..count as u64).map(|place| chance(seed, place)).collect()
            };
            let points = numbers(1, count * width);
            let mut centres = Centres::new(&points, width);
            for point in numbers(2, 50 * width).chunks_exact(width) {
                let all = points.chunks_exact(width).map(|centre| square(centre, point));
                let least = all.enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap();
                let (number, far) = centres.nearest(point);
                assert!(number == least.0 && (far - least.1).abs() < 1e-12, "{count} × {width}");
            }
        }
    }

    #[test]
    fn of_three_heaps_one_candidate_each_is_chosen() {
        let candidates = [0.0, 0.1, 50.0, 0.2, 50.1, 99.0, 99.5];
        let mut chosen = choose(&candidates, &[5, 5, 1, 5, 9, 2, 1], 3);
        chosen.sort_by(f64::total_cmp);
        assert!(chosen[0] < 1.0 && (50.0..51.0).contains(&chosen[1]) && chosen[2] > 98.0);
        assert_eq!(choose(&candidates[..2], &[1, 1], 5).len(), 2, "there are no more");
    }
}
