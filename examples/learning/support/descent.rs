//! Gradient descent, as passes over rows that stay where they are. Only weights and sums of slopes move.
//!
//! ```text
//! pass 0   means and variances of the columns
//! pass n   loss and slopes at the weights of this pass, from which all tasks compute the same next weights
//! ```
//!
//! A step goes against the slopes. The stride doubles as long as the loss falls and is halved when it rises, so nobody has to choose one. The
//! steps are those for columns of mean 0 and variance 1: where columns are of different sizes, the slopes would point across the valley.

use std::marker::PhantomData;

use mr_api::job::CompleteJob;
use mr_api::{Output, Result, intermediate};
use serde::{Deserialize, Serialize};

use crate::passes::{Passes, Rows, passes};

/// How bad a score is.
pub trait Loss: Clone + Send + Sync + 'static {
    /// Refuses what is no target.
    ///
    /// # Errors
    /// With the reason.
    fn check(target: f64) -> Result<()>;

    /// The loss of a score where the target was wanted, and how it changes with the score.
    fn of(score: f64, target: f64) -> (f64, f64);
}

/// Finds the weights with the least loss for rows `target number number …`. The output has lines `index<TAB>weight`, the constant first. It
/// ends when no slope is larger than `accuracy`, or after so many rounds.
pub fn fit<L: Loss>(
    name: &str,
    inputs: Vec<String>,
    (rounds, accuracy): (u32, f64),
) -> CompleteJob {
    let descent = Descent::<L> { accuracy, row: Vec::new(), loss: PhantomData };
    let job = passes(name, inputs, (descent, rounds.saturating_add(1)));
    job.depends_on(accuracy).output(intermediate())
}

/// Goes downhill.
#[derive(Clone)]
struct Descent<L> {
    accuracy: f64,
    row: Vec<f64>,
    loss: PhantomData<L>,
}

/// Where the descent is. The weights and slopes are for columns of mean 0 and variance 1, but for those in `plain`.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Course {
    means: Vec<f64>,
    /// One by the standard deviation.
    scales: Vec<f64>,
    best: Vec<f64>,
    loss: f64,
    slopes: Vec<f64>,
    stride: f64,
    /// The weights of this pass.
    tried: Vec<f64>,
    /// The same for numbers as they come.
    plain: Vec<f64>,
}

/// What a pass adds up.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Sums {
    count: u64,
    loss: f64,
    slopes: Vec<f64>,
    /// In pass 0: of each column, and the sums of the squares of the distances from them.
    means: Vec<f64>,
    squares: Vec<f64>,
}

impl Course {
    fn begin(sums: &Sums) -> Course {
        let scale = |square: &f64| match (square / sums.count as f64).sqrt() {
            0.0 => 0.0,
            deviation => 1.0 / deviation,
        };
        let nothing = vec![0.0; sums.means.len()];
        Course {
            means: sums.means.clone(),
            scales: sums.squares.iter().map(scale).collect(),
            loss: f64::INFINITY,
            stride: 0.5,
            best: nothing.clone(),
            slopes: nothing.clone(),
            tried: nothing.clone(),
            plain: nothing,
        }
    }

    /// The slopes at the weights that were tried. Column 0 is the constant.
    fn slopes(&self, sums: &Sums) -> Vec<f64> {
        let scaled = |column: usize| match column {
            0 => sums.slopes[0],
            _ => (sums.slopes[column] - self.means[column] * sums.slopes[0]) * self.scales[column],
        };
        (0..sums.slopes.len()).map(|column| scaled(column) / sums.count as f64).collect()
    }

    fn is_better(&self, sums: &Sums) -> bool {
        sums.loss / sums.count as f64 <= self.loss
    }

    fn go_on(&mut self, sums: &Sums) {
        if self.is_better(sums) {
            self.loss = sums.loss / sums.count as f64;
            self.slopes = self.slopes(sums);
            self.best.clone_from(&self.tried);
            self.stride *= 2.0;
        } else {
            self.stride /= 2.0;
        }
        let downhill = self.best.iter().zip(&self.slopes);
        self.tried = downhill.map(|(weight, slope)| weight - self.stride * slope).collect();
        self.plain = self.plain(&self.tried);
    }

    /// Weights for numbers as they come.
    fn plain(&self, weights: &[f64]) -> Vec<f64> {
        let mut plain: Vec<f64> =
            weights.iter().zip(&self.scales).map(|(weight, scale)| weight * scale).collect();
        let shift: f64 = plain.iter().zip(&self.means).skip(1).map(|(w, mean)| w * mean).sum();
        plain[0] = weights[0] - shift;
        plain
    }
}

impl Sums {
    fn measure(&mut self, row: &[f64]) {
        let columns = self.means.iter_mut().zip(&mut self.squares);
        for ((mean, squares), x) in columns.zip(row) {
            let apart = x - *mean;
            *mean += apart / self.count as f64;
            *squares += apart * (x - *mean);
        }
    }
}

impl<L: Loss> Passes for Descent<L> {
    type Known = Course;
    type Sums = Sums;

    fn learn(&mut self, pass: u32, before: &Course, sums: &Sums) -> Result<Course> {
        if pass == 1 {
            return Ok(Course::begin(sums));
        }
        let mut course = before.clone();
        course.go_on(sums);
        Ok(course)
    }

    fn look(&mut self, course: &Course, rows: Rows<'_>, sums: &mut Sums) -> Result<()> {
        for columns in [&mut sums.slopes, &mut sums.means, &mut sums.squares] {
            columns.resize(rows.width, 0.0);
        }
        for numbers in rows.iter() {
            sums.count += 1;
            // The constant takes the place of the target: its number is always 1.
            self.row.clear();
            self.row.extend_from_slice(numbers);
            let target = std::mem::replace(&mut self.row[0], 1.0);
            if rows.pass == 0 {
                L::check(target)?;
                sums.measure(&self.row);
                continue;
            }
            let score: f64 = self.row.iter().zip(&course.plain).map(|(x, weight)| x * weight).sum();
            let (loss, slope) = L::of(score, target);
            sums.loss += loss;
            sums.slopes.iter_mut().zip(&self.row).for_each(|(sum, x)| *sum += slope * x);
        }
        Ok(())
    }

    fn add(&self, into: &mut Sums, other: Sums) {
        if into.count == 0 {
            *into = other;
            return;
        }
        let share = other.count as f64 / (into.count + other.count) as f64;
        let columns = into.means.iter_mut().zip(&mut into.squares);
        for ((mean, squares), (there, more)) in columns.zip(other.means.iter().zip(&other.squares))
        {
            let apart = there - *mean;
            *squares += more + apart * apart * share * into.count as f64;
            *mean += apart * share;
        }
        into.count += other.count;
        into.loss += other.loss;
        into.slopes.iter_mut().zip(&other.slopes).for_each(|(sum, part)| *sum += part);
    }

    fn is_done(&self, pass: u32, course: &Course, sums: &Sums) -> bool {
        let is_flat = || course.slopes(sums).iter().all(|slope| slope.abs() <= self.accuracy);
        pass > 0 && course.is_better(sums) && is_flat()
    }

    fn measure(&self, pass: u32, sums: &Sums) -> Option<f64> {
        (pass > 0).then(|| sums.loss / sums.count as f64)
    }

    fn finish(&mut self, course: &Course, out: &mut Output) -> Result<()> {
        let weights = course.plain(&course.best);
        weights.iter().enumerate().try_for_each(|(index, weight)| out.write(index as u64, *weight))
    }
}
