//! The largest eigenvalues of a sparse symmetric matrix, as a job in rounds: subspace iteration.
//!
//! ```text
//! M        N × N, far too large for a machine as a whole; a task has some of its rows
//! Y        N × r, thin: a row is the state of its key
//! round n  Y ← M X, X = Y T: rows go as messages, each times its number in M; T makes the columns of Y orthonormal
//! ```
//!
//! T is the inverse root of YᵀY, a small matrix which is a sum over rows: so it travels in summaries, and each task computes T of it. A row is
//! sent before T of its round is known, and T is applied by the one who received: `M (Y T) = (M Y) T`. So an iteration is one round.
//!
//! The columns of X turn towards the eigenvectors of the largest eigenvalues, in absolute terms. At the end those of XᵀMX, small again, turn X
//! exactly.
//!
//! A message is a sum of many, in an order that nobody knows. So its numbers are whole ones, in units of a small fraction: these add up to the
//! same in any order.

use mr_api::datum::Serde;
use mr_api::rounds::{Entry, Round, Rounds};
use mr_api::{Emit, Output, Result, Sink};
use nalgebra::{DMatrix, SymmetricEigen};
use serde::{Deserialize, Serialize};

use crate::chance;
use crate::rows::{unpack, words};

/// Columns beside those that are wanted: the wanted ones converge faster.
const SPARE: usize = 8;
/// Most eigenvalues, so that two matrices of so many rows and columns fit a summary.
pub const COUNT_MAX: usize = 200;
/// Sums stay below this: with room for rounding, it fits an `i64`.
const SUM_MAX: f64 = (1u64 << 61) as f64;
/// Eigenvalues of YᵀY that are smaller than this part of the largest are rounding.
const PART_MIN: f64 = 1e-13;

/// An entry of a row as maps emit it, at the end of those before: column and number.
pub fn entry(column: u32, number: f64) -> [u8; 12] {
    let mut entry = [0; 12];
    entry[..4].copy_from_slice(&column.to_be_bytes());
    entry[4..].copy_from_slice(&number.to_be_bytes());
    entry
}

/// Finds eigenvalues. Writes, for each row, its number and its numbers in the eigenvectors, each times the root of the eigenvalue.
#[derive(Clone)]
pub struct Spectrum {
    count: usize,
    columns: usize,
    /// Makes columns orthonormal.
    turn: DMatrix<f64>,
    /// One by the unit of messages.
    units: f64,
    sends: bool,
    row: Vec<f64>,
    message: Vec<u8>,
}

/// What a round tells the next. Of symmetric matrices only the entries with row ≤ column are kept.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Sums {
    /// The squares of all entries of M, and how many rows it has.
    squares: f64,
    rows: u64,
    /// YᵀY and XᵀMX.
    products: Vec<f64>,
    ritz: Vec<f64>,
}

impl Spectrum {
    /// For so many eigenvalues.
    pub fn new(count: usize) -> Self {
        let (columns, turn) = (count + SPARE, DMatrix::zeros(0, 0));
        let (units, sends, row, message) = (0.0, false, Vec::new(), Vec::new());
        Spectrum { count, columns, turn, units, sends, row, message }
    }

    fn symmetric(&self, kept: &[f64]) -> DMatrix<f64> {
        let size = self.columns;
        DMatrix::from_fn(size, size, |a, b| {
            let (a, b) = (a.min(b), a.max(b));
            kept.get(a * size - a * (a + 1) / 2 + b).copied().unwrap_or(0.0)
        })
    }

    /// T, such that YT is orthonormal; columns that Y lacks are 0.
    fn orthonormal(&self, sums: &Sums) -> DMatrix<f64> {
        let SymmetricEigen { mut eigenvectors, eigenvalues } =
            self.symmetric(&sums.products).symmetric_eigen();
        let least = eigenvalues.max() * PART_MIN;
        for (mut column, value) in eigenvectors.column_iter_mut().zip(&eigenvalues) {
            column *= if *value > least { 1.0 / value.sqrt() } else { 0.0 };
        }
        eigenvectors
    }

    /// Turns X to the eigenvectors, each times the root of its eigenvalue; the largest come first.
    fn directions(&self, sums: &Sums) -> DMatrix<f64> {
        let SymmetricEigen { eigenvectors, eigenvalues } =
            self.symmetric(&sums.ritz).symmetric_eigen();
        let mut order: Vec<usize> = (0..self.columns).collect();
        order.sort_by(|a, b| eigenvalues[*b].abs().total_cmp(&eigenvalues[*a].abs()));
        DMatrix::from_fn(self.columns, self.count, |row, column| {
            eigenvectors[(row, order[column])] * eigenvalues[order[column]].abs().sqrt()
        })
    }
}

/// A row times a matrix.
fn times(row: &[f64], matrix: &DMatrix<f64>) -> Vec<f64> {
    let product = |column: nalgebra::DVectorView<'_, f64>| {
        row.iter().zip(column.iter()).map(|(a, b)| a * b).sum()
    };
    matrix.column_iter().map(product).collect()
}

/// Adds the products of the numbers of two rows.
fn add_products(sums: &mut Vec<f64>, a: &[f64], b: &[f64]) {
    sums.resize(a.len() * (a.len() + 1) / 2, 0.0);
    let mut sums = sums.iter_mut();
    for (index, x) in a.iter().enumerate() {
        b[index..].iter().zip(&mut sums).for_each(|(y, sum)| *sum += x * y);
    }
}

fn bytes(numbers: &[f64]) -> impl Iterator<Item = u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes())
}

fn entries(row: Option<&[u8]>) -> impl Iterator<Item = (u32, f64)> {
    row.unwrap_or_default().as_chunks::<12>().0.iter().map(|&[a, b, c, d, ref number @ ..]| {
        (u32::from_be_bytes([a, b, c, d]), f64::from_be_bytes(*number))
    })
}

impl Rounds for Spectrum {
    type Key = u32;
    type Fixed = Vec<u8>;
    /// A row of Y, and behind it one of X.
    type State = Vec<u8>;
    type Message = Vec<u8>;
    type Summary = Serde<Sums>;

    fn setup(&mut self, round: &mut Round<'_, Serde<Sums>>) -> Result<()> {
        let Some(Serde(before)) = round.total() else { return Ok(()) };
        if before.squares == 0.0 {
            return Err("the matrix has no numbers but 0".into());
        }
        // No row of MY, nor a part of its sum, is longer than this (Cauchy and Schwarz).
        let longest = before.squares.sqrt().max((before.rows as f64).sqrt());
        self.units = SUM_MAX / (before.squares.sqrt() * longest);
        self.sends = true;
        self.turn = match round.is_over() {
            true => self.directions(before),
            false => self.orthonormal(before),
        };
        let (squares, rows) = (before.squares, before.rows);
        if round.partition() == 0 {
            let Serde(sums) = round.summary();
            (sums.squares, sums.rows) = (squares, rows);
        }
        Ok(())
    }

    fn join(&self, into: &mut Vec<u8>, other: Vec<u8>) -> Result<()> {
        into.extend_from_slice(&other);
        Ok(())
    }

    fn begin(
        &mut self,
        number: u32,
        row: Option<&[u8]>,
        round: &mut Round<'_, Serde<Sums>>,
    ) -> Result<Vec<u8>> {
        let Serde(sums) = round.summary();
        sums.squares += entries(row).map(|(_, number)| number * number).sum::<f64>();
        sums.rows += 1;
        let places = 0..self.columns as u64;
        let random: Vec<f64> = places.map(|place| chance(number.into(), place) - 0.5).collect();
        Ok(bytes(&random).collect())
    }

    fn update(
        &mut self,
        row: Entry<'_, Self>,
        message: Option<Vec<u8>>,
        round: &mut Round<'_, Serde<Sums>>,
    ) -> Result<Vec<u8>> {
        if round.is_over() {
            return Ok(row.state.to_vec());
        }
        unpack(row.state, &mut self.row);
        let (is_first, Serde(sums)) = (round.number() == 1, round.summary());
        if is_first {
            // Nothing was sent yet, and nobody knows a unit in which to send.
            add_products(&mut sums.products, &self.row, &self.row);
            return Ok(row.state.to_vec());
        }
        // A row that nobody sent anything is 0.
        let mut received = vec![0.0; self.columns];
        let message = message.unwrap_or_default();
        let numbers = message.as_chunks().0.iter();
        for (sum, number) in received.iter_mut().zip(numbers) {
            *sum = i64::from_le_bytes(*number) as f64 / self.units;
        }
        let (y, x) = (times(&received, &self.turn), times(&self.row[..self.columns], &self.turn));
        add_products(&mut sums.products, &y, &y);
        add_products(&mut sums.ritz, &x, &y);
        Ok(bytes(&y).chain(bytes(&x)).collect())
    }

    fn send<S: Sink>(
        &mut self,
        row: Entry<'_, Self>,
        out: &mut Emit<u32, Vec<u8>, S>,
    ) -> Result<()> {
        if !self.sends {
            return Ok(());
        }
        unpack(row.state, &mut self.row);
        for (column, number) in entries(row.fixed) {
            self.message.clear();
            for y in &self.row[..self.columns] {
                let whole = (number * y * self.units).round() as i64;
                self.message.extend_from_slice(&whole.to_le_bytes());
            }
            out.emit(column, self.message.as_slice())?;
        }
        Ok(())
    }

    fn combine(&self, into: &mut Vec<u8>, other: Vec<u8>) {
        let numbers = into.as_chunks_mut().0.iter_mut().zip(other.as_chunks().0);
        for (sum, more) in numbers {
            let both = i64::from_le_bytes(*sum).saturating_add(i64::from_le_bytes(*more));
            *sum = both.to_le_bytes();
        }
    }

    fn add(&self, Serde(into): &mut Serde<Sums>, Serde(other): Serde<Sums>) {
        into.squares += other.squares;
        into.rows += other.rows;
        for (sums, parts) in [(&mut into.products, other.products), (&mut into.ritz, other.ritz)] {
            sums.resize(sums.len().max(parts.len()), 0.0);
            sums.iter_mut().zip(&parts).for_each(|(sum, part)| *sum += part);
        }
    }

    /// The length of MX, which grows to that of the largest eigenvalues.
    fn measure(&self, round: u32, Serde(sums): &Serde<Sums>) -> Option<f64> {
        (round > 1).then(|| self.symmetric(&sums.products).trace().sqrt())
    }

    fn write(&mut self, row: Entry<'_, Self>, out: &mut Output) -> Result<()> {
        unpack(row.state, &mut self.row);
        let x = self.row.get(self.columns..).unwrap_or_default();
        out.write(row.key, words(&times(x, &self.turn)))
    }
}
