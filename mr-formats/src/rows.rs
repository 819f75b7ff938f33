//! Input that is generated, not read: rows with numbers, spread over map tasks. For generators, simulations and lists of work.

use super::input::{Format, Source, SplitRange};
use crate::error::Result;

/// Row numbers; see `mr_api::job::rows`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rows;

/// How often reading rows reports progress, in rows.
const PROGRESS_ROWS: u64 = 1 << 14;

impl Format for Rows {
    type Record<'a> = u64;

    fn read(
        &self,
        split: SplitRange,
        source: &mut dyn Source,
        each: &mut impl FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        for row in split.start..split.end {
            if row.is_multiple_of(PROGRESS_ROWS) {
                source.slice(row)?;
            }
            each(row, row)?;
        }
        Ok(())
    }
}

/// The splits of `rows` numbers.
pub fn ranges(rows: u64, maps: u32) -> impl Iterator<Item = SplitRange> {
    let at = move |map: u32| (u128::from(rows) * u128::from(map) / u128::from(maps)) as u64;
    (0..maps).map(move |map| SplitRange { start: at(map), end: at(map + 1) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_cover_all_rows_once() {
        for (rows, maps) in [(0, 1), (10, 3), (2, 5), (u64::MAX, 7)] {
            let ranges: Vec<SplitRange> = ranges(rows, maps).collect();
            assert_eq!((ranges.len(), ranges[0].start), (maps as usize, 0));
            assert_eq!(ranges.last().unwrap().end, rows);
            assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }
}
