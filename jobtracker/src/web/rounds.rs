//! How far a job in rounds has come: the newest round, and the curve of what the job measured itself.

use std::fmt::Write as _;

use maud::{Markup, html};
use protocol::jobs::{RoundMeasure, RoundsReport};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 120.0;
/// Space for a line of text above the curve.
const MARGIN: f64 = 16.0;
/// Rows of the table; the newest are shown.
const ROWS_MAX: usize = 100;
/// Points of the curve; of more rounds, only every so many are drawn.
const POINTS_MAX: usize = 500;

/// The section of a job's page.
pub(crate) fn section(progress: &RoundsReport) -> Markup {
    let RoundsReport { newest, last, measures } = progress;
    html! {
        h2 { "Rounds" }
        p { "Round " (newest) " of at most " (last) "." }
        @if measures.len() > 1 { (curve(measures)) }
        @if !measures.is_empty() {
            details { summary { "Measures" }
                div.scroll { table.cards {
                    caption.unseen { "Measures after rounds" }
                    thead { tr { th.number scope="col" { "After round" } th.number scope="col" { "Measure" } } }
                    @for RoundMeasure { round, measure } in measures.iter().rev().take(ROWS_MAX) {
                        tr { td.number { (round) } td.number { (measure) } }
                    }
                } }
                @if measures.len() > ROWS_MAX { p.soft { "The newest " (ROWS_MAX) " of " (measures.len()) "." } }
            }
        }
    }
}

/// The measures over the rounds. A measure that falls by the same factor each round is a straight line.
fn curve(measures: &[RoundMeasure]) -> Markup {
    let is_logarithmic = measures.iter().all(|at| at.measure > 0.0);
    let scaled = |measure: f64| if is_logarithmic { measure.ln() } else { measure };
    let values = || measures.iter().map(|at| scaled(at.measure));
    let (least, most) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
    // Far apart, their difference would be infinite.
    let height = |value: f64| match most / 2.0 - least / 2.0 {
        span if span > 0.0 => (value / 2.0 - least / 2.0) / span,
        _ => 0.5,
    };
    let step = measures.len().div_ceil(POINTS_MAX);
    let (first, last) = (measures[0].round, measures[measures.len() - 1].round);
    let width = f64::from(last.saturating_sub(first).max(1));
    let mut points = format!("0,{HEIGHT} ");
    let drawn = measures.iter().enumerate();
    for (_, at) in drawn.filter(|(place, _)| place % step == 0 || *place == measures.len() - 1) {
        let x = WIDTH * f64::from(at.round.saturating_sub(first)) / width;
        let y = HEIGHT - (HEIGHT - MARGIN) * height(scaled(at.measure));
        write!(points, "{x:.1},{y:.1} ").expect("writing to a String cannot fail");
    }
    write!(points, "{WIDTH},{HEIGHT}").expect("writing to a String cannot fail");
    let newest = measures[measures.len() - 1].measure;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="The job's own measure after each round" {
            polygon.area-reduce points=(points) {}
            text x="4" y="11" {
                "after round " (last) ": " (newest)
                @if is_logarithmic { " (logarithmic)" }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(measures: &[f64]) -> RoundsReport {
        let at = |(round, measure): (u32, &f64)| RoundMeasure { round, measure: *measure };
        RoundsReport { newest: 3, last: 10, measures: (0..).zip(measures).map(at).collect() }
    }

    #[test]
    fn a_curve_stays_inside_its_picture() {
        for measures in [
            vec![8.0, 4.0, 2.0],
            vec![1.0, 1.0],
            vec![-1.0, 0.0, 3.0],
            vec![f64::MAX, f64::MIN],
            vec![f64::MIN_POSITIVE, f64::MAX],
            (0..5_000).map(f64::from).collect(),
        ] {
            let page = section(&report(&measures)).into_string();
            let points = page.split_once("points=\"").unwrap().1.split_once('"').unwrap().0;
            assert!(points.split(' ').count() <= POINTS_MAX + 3);
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let [x, y] = [x, y].map(|number| number.parse::<f64>().unwrap());
                assert!((0.0..=WIDTH).contains(&x) && (0.0..=HEIGHT).contains(&y), "{point}");
            }
        }
        // Three equal factors make a straight line.
        let page = section(&report(&[8.0, 4.0, 2.0])).into_string();
        assert!(page.contains("0.0,16.0 500.0,68.0 1000.0,120.0 "), "{page}");
        assert!(page.contains("Round 3 of at most 10."), "{page}");
    }

    #[test]
    fn without_measures_there_is_no_curve() {
        let page = section(&report(&[])).into_string();
        assert!(!page.contains("svg") && !page.contains("table"), "{page}");
    }
}
