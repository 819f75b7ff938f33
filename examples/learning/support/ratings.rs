//! Ratings as bytes: in the list of a node, and in messages, where a vector goes with each.
//!
//! ```text
//! rating   number of the other node, 8 bytes; rating, 8 bytes
//! entry    rating; the other node's vector, 8 bytes for each number
//! ```

use mr_api::{Result, parse};

use crate::least_squares::{LeastSquares, product};
use crate::rows::unpack;

/// Bytes of a number.
const NUMBER: usize = 8;

/// Reads a line `user item rating`.
///
/// # Errors
/// What is none.
pub fn read(line: &str) -> Result<(u64, u64, f64)> {
    let &[user, item, rating] = &line.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("`{line}` is no `user item rating`").into());
    };
    let stars = parse::<f64>(rating, "finite number", line)?;
    if !stars.is_finite() {
        return Err(format!("`{rating}` is no finite number, in the record `{line}`").into());
    }
    let whole = |text: &str| parse::<u64>(text, "whole number", line);
    Ok((whole(user)?, whole(item)?, stars))
}

/// A rating in a list.
pub fn rating_bytes(other: u64, rating: f64) -> [u8; 2 * NUMBER] {
    let mut bytes = [0; 2 * NUMBER];
    bytes[..NUMBER].copy_from_slice(&other.to_be_bytes());
    bytes[NUMBER..].copy_from_slice(&rating.to_be_bytes());
    bytes
}

/// The ratings of a list: the other node, and the rating.
pub fn ratings(list: Option<&[u8]>) -> impl Iterator<Item = (u64, f64)> {
    let pairs = list.unwrap_or_default().as_chunks::<NUMBER>().0.as_chunks::<2>().0;
    pairs.iter().map(|[other, rating]| (u64::from_be_bytes(*other), f64::from_be_bytes(*rating)))
}

/// Bytes of an entry with a vector of so many numbers.
pub fn entry_bytes(rank: usize) -> usize {
    (2 + rank) * NUMBER
}

/// Makes an entry of a rating by a node with this vector.
pub fn write_entry((number, rating): (u64, f64), vector: &[u8], entry: &mut Vec<u8>) {
    entry.clear();
    entry.extend_from_slice(&rating_bytes(number, rating));
    entry.extend_from_slice(vector);
}

/// The vector whose products with those of the entries are nearest to the ratings, and the sum of the squares of what is wrong. The order of
/// the entries does not matter. `None` if they do not determine a vector.
///
/// # Errors
/// Entries of another rank.
pub fn solve(entries: &[u8], rank: usize, regularisation: f64) -> Result<Option<(Vec<f64>, f64)>> {
    let mut sorted: Vec<&[u8]> = entries.chunks(entry_bytes(rank)).collect();
    sorted.sort_unstable();
    let (mut equations, mut vector) = (LeastSquares::new(rank), Vec::with_capacity(rank));
    let read = |entry: &[u8], vector: &mut Vec<f64>| -> Result<f64> {
        let (rating, bytes) = entry.split_at_checked(2 * NUMBER).ok_or("an entry is cut off")?;
        unpack(bytes, vector);
        Ok(f64::from_be_bytes(rating[NUMBER..].try_into()?))
    };
    for entry in &sorted {
        let rating = read(entry, &mut vector)?;
        equations.add(&vector, rating);
    }
    let Some(solved) = equations.solve(regularisation * sorted.len() as f64) else {
        return Ok(None);
    };
    let mut squares = 0.0;
    for entry in &sorted {
        let wrong = read(entry, &mut vector)? - product(&vector, &solved);
        squares += wrong * wrong;
    }
    Ok(Some((solved, squares)))
}
