//! Least squares: the weights whose products with some rows are nearest to what was wanted.

use nalgebra::{DMatrix, DVector};

/// The normal equations, to which rows are added one after the other.
pub struct LeastSquares {
    matrix: DMatrix<f64>,
    side: DVector<f64>,
}

impl LeastSquares {
    /// For rows of so many numbers.
    pub fn new(width: usize) -> Self {
        LeastSquares { matrix: DMatrix::zeros(width, width), side: DVector::zeros(width) }
    }

    /// Adds a row, and what its product with the weights should be.
    pub fn add(&mut self, row: &[f64], wanted: f64) {
        // The lower half is all that is read.
        let columns = self.matrix.as_mut_slice().chunks_exact_mut(row.len().max(1)).enumerate();
        for (column, sums) in columns {
            let x = row[column];
            self.side[column] += wanted * x;
            sums[column..].iter_mut().zip(&row[column..]).for_each(|(sum, y)| *sum += x * y);
        }
    }

    /// The weights, with a penalty for their squares; `None` if the rows do not determine them.
    pub fn solve(mut self, penalty: f64) -> Option<Vec<f64>> {
        (0..self.side.len()).for_each(|at| self.matrix[(at, at)] += penalty);
        Some(self.matrix.cholesky()?.solve(&self.side).as_slice().to_vec())
    }
}

/// The product of two rows.
pub fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance;

    #[test]
    fn weights_are_found_again_and_penalties_shorten_them() {
        let expected = [2.0, -1.0, 0.5];
        let solved = |count: u64, penalty: f64| {
            let mut equations = LeastSquares::new(3);
            for n in 0..count {
                let row = [chance(1, n), chance(2, n), chance(3, n)];
                equations.add(&row, product(&row, &expected));
            }
            equations.solve(penalty)
        };
        let found = solved(20, 0.0).unwrap();
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        let short = solved(20, 5.0).unwrap();
        assert!(product(&short, &short) < product(&found, &found));
        assert!(solved(2, 0.0).is_none() && solved(2, 0.1).is_some());
    }
}
