//! A chart of the last hour: one line, drawn without a script, with its numbers as text.

use maud::{Markup, html};

/// Width and height in the chart's own units; the style sheet stretches it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;
/// The time that a chart shows.
const SHOWN_MS: u64 = 3_600_000;
/// A longer time between two samples is a gap: the daemon stood still.
const GAP_MS: u64 = 30_000;

/// One figure over time.
#[derive(Clone, Copy, Debug)]
pub struct Chart<'a> {
    /// What it is.
    pub title: &'a str,
    /// Milliseconds since then, with the figure at that time; the oldest first.
    pub points: &'a [(u64, u64)],
    /// How a figure is written.
    pub show: fn(u64) -> String,
}

impl Chart<'_> {
    /// Draws it.
    pub fn draw(&self) -> Markup {
        let &Chart { title, show, .. } = self;
        let seen = self.points.iter().filter(|(age_ms, _)| *age_ms <= SHOWN_MS);
        let points: Vec<(u64, u64)> = seen.copied().collect();
        let values = || points.iter().map(|(_, value)| *value);
        let (Some(least), Some(most), Some(last)) =
            (values().min(), values().max(), values().next_back())
        else {
            return html! { figure.chart { figcaption { (title) ": no figures yet" } } };
        };
        let told = format!("now {}, at least {}, at most {}", show(last), show(least), show(most));
        let place = |(age_ms, value): (u64, u64)| {
            let x = WIDTH - age_ms as f64 / SHOWN_MS as f64 * WIDTH;
            (x, HEIGHT - value as f64 / most.max(1) as f64 * HEIGHT)
        };
        html! {
            figure.chart {
                figcaption { b { (title) } " " span.soft { (told) } }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ (title) " in the last hour: " (told) } {
                    @for piece in pieces(&points) { path.line d=(path(piece, place)) {} }
                }
                div.ends { span { "1 h ago" } span { "0 to " (show(most)) } span { "now" } }
            }
        }
    }
}

/// The points between gaps.
fn pieces(points: &[(u64, u64)]) -> impl Iterator<Item = &[(u64, u64)]> {
    points.chunk_by(|(before, _), (after, _)| before.saturating_sub(*after) <= GAP_MS)
}

/// A line through points. A single one is a short stroke.
fn path(points: &[(u64, u64)], place: impl Fn((u64, u64)) -> (f64, f64)) -> String {
    let mut path = String::new();
    for (index, point) in points.iter().enumerate() {
        let (x, y) = place(*point);
        let letter = if index == 0 { 'M' } else { 'L' };
        path.push_str(&format!("{letter}{x:.1} {y:.1}"));
    }
    if let [only] = points {
        path.push_str(if place(*only).0 < 1.0 { "h1" } else { "h-1" });
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::format;

    fn drawn(points: &[(u64, u64)]) -> String {
        Chart { title: "Calls", points, show: format::count }.draw().into_string()
    }

    #[test]
    fn numbers_are_told_and_what_is_older_is_left_out() {
        let ages_s = [3700, 3600, 1800, 0];
        let points: Vec<(u64, u64)> =
            ages_s.iter().zip([99, 10, 50, 30]).map(|(age, value)| (age * 1000, value)).collect();
        let page = drawn(&points);
        let told = "Calls in the last hour: now 30, at least 10, at most 50";
        assert!(page.contains(&format!("aria-label=\"{told}\"")), "{page}");
        for part in ["M0.0 80.0h1", "M300.0 0.0h-1", "M600.0 40.0h-1"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_line_has_gaps_where_nothing_was_measured() {
        let points: Vec<(u64, u64)> =
            [100, 90, 80, 20, 10].iter().map(|age| (age * 1000, 0)).collect();
        let lines: Vec<usize> = pieces(&points).map(<[_]>::len).collect();
        assert_eq!(lines, [3, 2]);
        let page = drawn(&points);
        assert_eq!(page.matches("<path").count(), 2, "{page}");
        assert!(page.contains("M583.3 100.0L585.0 100.0L586.7 100.0"), "{page}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        for points in [&[][..], &[(SHOWN_MS + 1000, 5)], &[(u64::MAX, 5)]] {
            let page = drawn(points);
            assert!(page.contains("no figures yet") && !page.contains("<svg"), "{page}");
        }
    }
}
