//! Moments of rows: how many, their means, and how their numbers vary together. Parts merge without a difference of large numbers, as in the
//! example `mean_variance`.

use mr_api::datum::{Key, Serde};
use mr_api::{Context, Emit, Line, Lines, Mapper, Result, Sink, Values};
use serde::{Deserialize, Serialize};

use crate::rows::{check_width, parse};

/// What is known of some rows.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
pub struct Moments {
    /// How many rows.
    pub count: u64,
    /// The mean of each column.
    pub means: Vec<f64>,
    /// Sums of the products of two columns' distances from their means. Only those with row ≤ column are kept.
    products: Vec<f64>,
    /// Distances of a row, kept for their memory.
    #[serde(skip)]
    apart: Vec<f64>,
}

impl Moments {
    /// Takes in a row.
    ///
    /// # Errors
    /// If it is not as long as those before.
    pub fn add(&mut self, row: &[f64]) -> Result<()> {
        let width = row.len();
        check_width(self.means.len(), width)?;
        self.means.resize(width, 0.0);
        self.products.resize(width * width, 0.0);
        self.count += 1;
        let share = 1.0 / self.count as f64;
        self.apart.clear();
        self.apart.extend(row.iter().zip(&self.means).map(|(number, mean)| number - mean));
        self.means.iter_mut().zip(&self.apart).for_each(|(mean, apart)| *mean += apart * share);
        self.add_products(1.0 - share);
        Ok(())
    }

    /// Joins what is known of other rows.
    ///
    /// # Errors
    /// If they are not as long.
    pub fn merge(&mut self, other: &Moments) -> Result<()> {
        if other.count == 0 {
            return Ok(());
        }
        if self.count == 0 {
            self.clone_from(other);
            return Ok(());
        }
        check_width(self.means.len(), other.means.len())?;
        let (before, more) = (self.count as f64, other.count as f64);
        let share = more / (before + more);
        self.count += other.count;
        self.apart.clear();
        self.apart.extend(other.means.iter().zip(&self.means).map(|(there, here)| there - here));
        self.means.iter_mut().zip(&self.apart).for_each(|(mean, apart)| *mean += apart * share);
        self.products.iter_mut().zip(&other.products).for_each(|(sum, part)| *sum += part);
        self.add_products(before * share);
        Ok(())
    }

    /// Adds the products of the distances, times this.
    fn add_products(&mut self, times: f64) {
        let width = self.apart.len();
        for (index, apart) in self.apart.iter().enumerate() {
            let sums = &mut self.products[index * width..][index..width];
            let apart = apart * times;
            sums.iter_mut()
                .zip(&self.apart[index..])
                .for_each(|(sum, other)| *sum += apart * other);
        }
    }

    /// The sum of the products of the distances of two columns from their means.
    pub fn product(&self, a: usize, b: usize) -> f64 {
        self.products[a.min(b) * self.means.len() + a.max(b)]
    }
}

/// One group of all maps, in their order: so the sums are the same in each run.
pub type OfMap = ((), u32);

/// Measures the moments of a split, and emits them at its end.
#[derive(Clone, Default)]
pub struct Measure {
    map: u32,
    row: Vec<f64>,
    moments: Moments,
}

impl Mapper for Measure {
    type In = Lines;
    type Key = OfMap;
    type Value = Serde<Moments>;

    fn setup(&mut self, context: &Context) -> Result<()> {
        self.map = context.attempt().task.index;
        Ok(())
    }

    fn map<S: Sink>(&mut self, line: Line<'_>, _: &mut Emit<OfMap, Self::Value, S>) -> Result<()> {
        parse(line.bytes, &mut self.row)?;
        self.moments.add(&self.row)
    }

    fn cleanup<S: Sink>(&mut self, out: &mut Emit<OfMap, Self::Value, S>) -> Result<()> {
        if self.moments.count == 0 {
            return Ok(());
        }
        out.emit(((), self.map), Serde(std::mem::take(&mut self.moments)))
    }
}

/// The moments of all rows.
///
/// # Errors
/// Those of the input, and rows of different lengths.
pub fn merged<K: Key>(parts: &mut Values<'_, K, Serde<Moments>>) -> Result<Moments> {
    let mut all = Moments::default();
    while let Some(Serde(part)) = parts.next_value()? {
        all.merge(&part)?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_merge_to_the_moments_of_all() {
        let row = |n: u32| [f64::from(n % 7), 1e9 + f64::from(n * n % 11), f64::from(n) * -0.5];
        let rows: Vec<[f64; 3]> = (0..100).map(row).collect();
        let mut whole = Moments::default();
        rows.iter().for_each(|row| whole.add(row).unwrap());
        for cut in [0, 1, 37, 100] {
            let mut parts = [Moments::default(), Moments::default()];
            rows[..cut].iter().for_each(|row| parts[0].add(row).unwrap());
            rows[cut..].iter().for_each(|row| parts[1].add(row).unwrap());
            let [mut all, rest] = parts;
            all.merge(&rest).unwrap();
            assert_eq!(all.count, 100, "cut at {cut}");
            for a in 0..3 {
                let mean = rows.iter().map(|row| row[a]).sum::<f64>() / 100.0;
                assert!((all.means[a] - mean).abs() < 1e-5, "{a}: {} and {mean}", all.means[a]);
                for b in 0..3 {
                    let apart =
                        |row: &[f64; 3]| (row[a] - whole.means[a]) * (row[b] - whole.means[b]);
                    let sum: f64 = rows.iter().map(apart).sum();
                    assert!((all.product(a, b) - sum).abs() < 1e-3, "{a}, {b}");
                }
            }
        }
        assert!(whole.add(&[1.0]).is_err());
    }
}
