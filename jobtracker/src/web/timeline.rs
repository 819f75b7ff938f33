//! A job over time: which slot ran which attempt, and how many ran at once.
//!
//! Attempts of a worker are placed in as few lanes as they need: a lane stands for a slot. An attempt narrower than a pixel is drawn
//! together with its neighbour of the same kind, so the drawing is bounded by its own size and not by the job's.

use daemon::page::format;
use maud::{Markup, html};
use protocol::TaskKind;
use protocol::phase::Phase;

use super::phases;
use crate::core::jobs::AttemptState;
use crate::core::views::{AttemptRow, Picture};

/// Width of the drawing, in its own units; about the pixels of a wide page.
const WIDTH: f64 = 1200.0;
/// Space for the names of lanes.
const MARGIN: f64 = 150.0;
const LANE_HEIGHT: f64 = 16.0;
const AXIS_HEIGHT: f64 = 22.0;
/// Space that the text beside a mark needs; a mark nearer to the edge has no text.
const LABEL_WIDTH: f64 = 60.0;
/// Lanes drawn; the rest are only counted. Two hundred slots fill a long page.
const LANES_MAX: usize = 200;
/// Columns of the chart of concurrency.
const COLUMNS: usize = 300;
const CHART_HEIGHT: f64 = 90.0;
/// How much a sum of parts may differ from its exact value.
const ROUNDING_MAX: f64 = 1e-6;
/// Bars narrower than this are merged with the next of their kind.
const BAR_WIDTH_MIN: f64 = 0.7;
/// A reduce narrower than this is drawn in one colour, so there are never more bars than the drawing has space for.
const SPLIT_WIDTH_MIN: f64 = 6.0;

/// The drawn span of time.
#[derive(Clone, Copy)]
struct Span {
    begin_ms: u64,
    end_ms: u64,
}

impl Span {
    fn of(picture: &Picture, now_ms: u64) -> Span {
        let begin_ms = picture.report.submitted_ms;
        let end_ms =
            if picture.report.finished_ms == 0 { now_ms } else { picture.report.finished_ms };
        Span { begin_ms, end_ms: end_ms.max(begin_ms + 1) }
    }

    fn x(self, ms: u64) -> f64 {
        let share = ms.saturating_sub(self.begin_ms) as f64 / (self.end_ms - self.begin_ms) as f64;
        MARGIN + share.clamp(0.0, 1.0) * (WIDTH - MARGIN)
    }
}

/// One drawn bar: an attempt, or several that are too narrow to tell apart.
#[derive(Clone, PartialEq, Debug)]
struct Bar {
    from: f64,
    to: f64,
    class: &'static str,
    /// Index of the first attempt in [`Picture::attempts`].
    first: usize,
    count: usize,
}

struct Lane {
    worker: u32,
    bars: Vec<Bar>,
}

/// One row per slot.
pub(crate) fn lanes(picture: &Picture, now_ms: u64) -> Markup {
    let span = Span::of(picture, now_ms);
    let lanes = lay(picture, span, now_ms);
    let drawn = &lanes[..lanes.len().min(LANES_MAX)];
    let height = AXIS_HEIGHT + LANE_HEIGHT * drawn.len() as f64;
    html! {
        div.legend {
            span { i.map {} "map" } span { i.shuffle {} "shuffle" } span { i.merge {} "merge" } span { i.reduce {} "reduce" }
            span { i.failed {} "failed" } span { i.killed {} "killed" }
            span { "paler: still running" }
        }
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="group" aria-label="Attempts over time, one row per slot" {
            (axis(span, height))
            @for (place, lane) in drawn.iter().enumerate() {
                @let y = AXIS_HEIGHT + LANE_HEIGHT * place as f64;
                @if place == 0 || drawn[place - 1].worker != lane.worker {
                    text x="4" y=(y + 12.0) { (worker_name(picture, lane.worker)) }
                }
                @for bar in &lane.bars { (draw(picture, bar, y, now_ms)) }
            }
        }
        @if lanes.len() > LANES_MAX { p.soft { (lanes.len() - LANES_MAX) " more slots are not drawn." } }
    }
}

fn worker_name(picture: &Picture, worker: u32) -> String {
    let name = &picture.workers[worker as usize];
    let port = name.http_address.rsplit(':').next().unwrap_or("");
    format!("{:.14}:{port}", name.host)
}

fn draw(picture: &Picture, bar: &Bar, y: f64, now_ms: u64) -> Markup {
    let attempt = &picture.attempts[bar.first];
    let id = picture.attempt_id(attempt);
    let title = if bar.count == 1 {
        let (state, time) = (attempt.state.name(), format::duration(attempt.elapsed_ms(now_ms)));
        let phase = phases::reached_in_words(attempt).map(|words| format!(" ({words})"));
        format!("{id}: {state}{} in {time}", phase.unwrap_or_default())
    } else {
        format!("{} attempts from {id} on", bar.count)
    };
    html! {
        // The list of attempts has all of them for the keyboard.
        a href={ "/jobs/" (picture.report.id) "/attempts/" (id) } tabindex="-1" {
            rect.(bar.class) x=(round(bar.from)) y=(y + 2.0) width=(round((bar.to - bar.from).max(BAR_WIDTH_MIN))) height=(LANE_HEIGHT - 4.0) {
                title { (title) }
            }
        }
    }
}

fn axis(span: Span, height: f64) -> Markup {
    let step = step_ms(span.end_ms - span.begin_ms);
    let marks = (0..)
        .map(|number| number * step)
        .take_while(|offset| *offset <= span.end_ms - span.begin_ms);
    html! {
        @for offset in marks {
            @let x = round(span.x(span.begin_ms + offset));
            line.axis x1=(x) x2=(x) y1=(AXIS_HEIGHT - 4.0) y2=(height) {}
            @if x < WIDTH - LABEL_WIDTH { text x=(x + 3.0) y="13" { (format::duration(offset)) } }
        }
    }
}

/// A round distance between marks, so that there are at most ten.
fn step_ms(length_ms: u64) -> u64 {
    const STEPS: [u64; 16] = [
        10,
        50,
        100,
        500,
        1_000,
        5_000,
        10_000,
        30_000,
        60_000,
        300_000,
        600_000,
        1_800_000,
        3_600_000,
        14_400_000,
        86_400_000,
        864_000_000,
    ];
    let fits = |step: &u64| length_ms / step <= 10;
    STEPS.into_iter().find(fits).unwrap_or(length_ms / 10 + 1)
}

fn class(attempt: &AttemptRow) -> &'static str {
    match (attempt.state, attempt.kind) {
        (AttemptState::Failed, _) => "failed",
        (AttemptState::Killed | AttemptState::Killing, _) => "killed",
        (AttemptState::Running, TaskKind::Map) => "map running",
        (AttemptState::Running, TaskKind::Reduce) => match attempt.phase {
            Some(Phase::Shuffle) => "shuffle running",
            Some(Phase::ReduceMerge) => "merge running",
            _ => "reduce running",
        },
        (AttemptState::Succeeded, TaskKind::Map) => "map",
        (AttemptState::Succeeded, TaskKind::Reduce) => "reduce",
    }
}

fn lay(picture: &Picture, span: Span, now_ms: u64) -> Vec<Lane> {
    let mut lanes: Vec<Lane> = Vec::new();
    for (place, number) in slots(picture, now_ms) {
        let attempt = &picture.attempts[place];
        if number == lanes.len() {
            lanes.push(Lane { worker: attempt.worker, bars: Vec::new() });
        }
        let end = attempt.started_ms + attempt.elapsed_ms(now_ms);
        let (from, to) = (span.x(attempt.started_ms), span.x(end));
        let bars = &mut lanes[number].bars;
        let whole = Bar { from, to, class: class(attempt), first: place, count: 1 };
        match attempt.gathered_at().filter(|_| to - from >= SPLIT_WIDTH_MIN) {
            None => push(bars, whole),
            Some((shuffled, merged)) => split(bars, &whole, span.x(shuffled), span.x(merged)),
        }
    }
    lanes
}

/// The visible phases of a reduce.
fn split(bars: &mut Vec<Bar>, whole: &Bar, shuffled: f64, merged: f64) {
    let mut from = whole.from;
    for (to, class) in [(shuffled, "shuffle"), (merged, "merge"), (whole.to, whole.class)] {
        if to - from >= BAR_WIDTH_MIN {
            bars.push(Bar { from, to, class, ..whole.clone() });
            from = to;
        }
    }
}

/// The lane of each attempt, as indexes in [`Picture::attempts`] and numbers of lanes; worker by worker, in order of time. Lanes are
/// numbered in the order of their first use.
pub(crate) fn slots(picture: &Picture, now_ms: u64) -> Vec<(usize, usize)> {
    let mut order: Vec<usize> = (0..picture.attempts.len()).collect();
    order.sort_by_key(|place| {
        let attempt = &picture.attempts[*place];
        (attempt.worker, attempt.started_ms, *place)
    });
    let mut free_at: Vec<u64> = Vec::new();
    let (mut worker, mut first_of_worker) = (None, 0);
    let lane = |place: usize| {
        let attempt = &picture.attempts[place];
        if worker != Some(attempt.worker) {
            (worker, first_of_worker) = (Some(attempt.worker), free_at.len());
        }
        let free =
            (first_of_worker..free_at.len()).find(|lane| free_at[*lane] <= attempt.started_ms);
        let lane = free.unwrap_or_else(|| {
            free_at.push(0);
            free_at.len() - 1
        });
        free_at[lane] = attempt.started_ms + attempt.elapsed_ms(now_ms);
        (place, lane)
    };
    order.into_iter().map(lane).collect()
}

fn push(bars: &mut Vec<Bar>, bar: Bar) {
    match bars.last_mut() {
        Some(last)
            if last.class == bar.class
                && bar.from - last.to < BAR_WIDTH_MIN
                && (bar.to - bar.from < BAR_WIDTH_MIN || last.to - last.from < BAR_WIDTH_MIN) =>
        {
            last.to = bar.to;
            last.count += 1;
        }
        _ => bars.push(bar),
    }
}

/// Maps and reduces that ran at once.
pub(crate) fn concurrency(picture: &Picture, now_ms: u64) -> Markup {
    let span = Span::of(picture, now_ms);
    let whole = |attempt: &AttemptRow| {
        // The shortest attempts must be visible, too.
        (attempt.started_ms, attempt.started_ms + attempt.elapsed_ms(now_ms).max(1))
    };
    let of = |kind: TaskKind| picture.attempts.iter().filter(move |attempt| attempt.kind == kind);
    let parts = || of(TaskKind::Reduce).map(|attempt| (whole(attempt), gathered(attempt, now_ms)));
    let maps = running(span, of(TaskKind::Map).map(whole));
    let shuffles = running(span, parts().map(|((from, _), to)| (from, to)));
    let reduces = running(span, parts().map(|((_, to), from)| (from, to)));
    let all = maps.iter().chain(&shuffles).chain(&reduces).copied();
    // Sums of fractions can be slightly more or less than a whole number.
    let most = (all.fold(0.0, f64::max) - ROUNDING_MAX).ceil().max(1.0);
    let height = CHART_HEIGHT + AXIS_HEIGHT;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label="Attempts that ran at once" {
            (axis(span, height))
            text x="4" y=(AXIS_HEIGHT + 10.0) { "at most " (most) " at once" }
            polygon.area-map points=(outline(&maps, most)) {}
            polygon.area-shuffle points=(outline(&shuffles, most)) {}
            polygon.area-reduce points=(outline(&reduces, most)) {}
        }
    }
}

/// When a reduce had fetched and merged its input: until then it is in the shuffle.
fn gathered(attempt: &AttemptRow, now_ms: u64) -> u64 {
    match (attempt.gathered_at(), attempt.state) {
        (Some((_, merged)), _) => merged,
        (None, AttemptState::Running)
            if matches!(attempt.phase, Some(Phase::Shuffle | Phase::ReduceMerge)) =>
        {
            now_ms.max(attempt.started_ms)
        }
        (None, _) => attempt.started_ms,
    }
}

/// How many stretches of time ran at once, as the mean of each column: short ones that follow each other do not count twice.
fn running(span: Span, stretches: impl Iterator<Item = (u64, u64)>) -> Vec<f64> {
    let place = |ms: u64| (span.x(ms) - MARGIN) / (WIDTH - MARGIN) * COLUMNS as f64;
    let mut means = vec![0.0; COLUMNS];
    let mut changes = vec![0.0; COLUMNS];
    for (from, to) in stretches.filter(|(from, to)| from < to) {
        let (from, to) = (place(from), place(to));
        let [first, last] = [from, to].map(|place| (place as usize).min(COLUMNS - 1));
        if first == last {
            means[first] += to - from;
            continue;
        }
        means[first] += (first + 1) as f64 - from;
        means[last] += to - last as f64;
        changes[first + 1] += 1.0;
        changes[last] -= 1.0;
    }
    let mut whole = 0.0;
    for (mean, change) in means.iter_mut().zip(changes) {
        whole += change;
        *mean += whole;
    }
    means
}

fn outline(counts: &[f64], most: f64) -> String {
    let base = CHART_HEIGHT + AXIS_HEIGHT;
    let column = (WIDTH - MARGIN) / counts.len() as f64;
    let mut points = format!("{MARGIN},{base}");
    for (place, count) in counts.iter().enumerate() {
        let y = round(base - CHART_HEIGHT * count / most);
        let x = MARGIN + column * place as f64;
        points.push_str(&format!(" {},{y} {},{y}", round(x), round(x + column)));
    }
    points.push_str(&format!(" {WIDTH},{base}"));
    points
}

/// One decimal: finer than the eye, and half the bytes.
fn round(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::views::Gathered;
    use crate::web::tests::picture;

    fn attempt(index: u32, worker: u32, started_ms: u64, finished_ms: u64) -> AttemptRow {
        AttemptRow {
            kind: TaskKind::Map,
            index,
            number: 0,
            state: AttemptState::Succeeded,
            worker,
            started_ms,
            finished_ms,
            progress: 1.0,
            phase: None,
            gathered: None,
        }
    }

    #[test]
    fn a_lane_is_what_a_slot_did() {
        let attempts = vec![
            attempt(0, 0, 1000, 3000),
            attempt(1, 0, 1000, 2000),
            attempt(2, 0, 2000, 4000),
            attempt(3, 1, 1500, 2500),
        ];
        let picture = picture(attempts, 1000, 5000);
        let lanes = lay(&picture, Span::of(&picture, 9000), 9000);
        let of = |lane: &Lane| lane.bars.iter().map(|bar| bar.first).collect::<Vec<_>>();
        assert_eq!(lanes.iter().map(of).collect::<Vec<_>>(), [vec![0], vec![1, 2], vec![3]]);
        assert_eq!(lanes.iter().map(|lane| lane.worker).collect::<Vec<_>>(), [0, 0, 1]);
    }

    #[test]
    fn a_reduce_is_drawn_in_its_phases() {
        let gathered = Some(Gathered { shuffle_ms: 2000, merge_ms: 0 });
        let reduce = AttemptRow { kind: TaskKind::Reduce, gathered, ..attempt(0, 0, 1000, 5000) };
        let running = AttemptRow {
            kind: TaskKind::Reduce,
            state: AttemptState::Running,
            progress: 0.1,
            phase: Some(Phase::Shuffle),
            ..attempt(1, 1, 2000, 0)
        };
        let picture = picture(vec![reduce, running], 1000, 5000);
        let span = Span::of(&picture, 5000);
        let lanes = lay(&picture, span, 5000);
        let of = |lane: &Lane| {
            lane.bars
                .iter()
                .map(|bar| (bar.class, bar.from.round(), bar.to.round()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&lanes[0]), [("shuffle", 150.0, 675.0), ("reduce", 675.0, 1200.0)]);
        assert_eq!(of(&lanes[1]), [("shuffle running", 413.0, 1200.0)]);
        assert_eq!(
            picture.attempts.iter().map(|row| super::gathered(row, 5000)).collect::<Vec<_>>(),
            [3000, 5000]
        );
    }

    #[test]
    fn a_hundred_thousand_tasks_draw_few_bars() {
        let attempts =
            (0..100_000).map(|n| attempt(n, n % 4, 1000 + u64::from(n), 1004 + u64::from(n)));
        let picture = picture(attempts.collect(), 1000, 101_010);
        let page = lanes(&picture, 101_010).into_string();
        assert!(page.len() < 2_000_000, "{} bytes", page.len());
        assert!(page.contains("attempts from"), "narrow ones are drawn together");
        let stretches = picture.attempts.iter().map(|row| (row.started_ms, row.finished_ms));
        let counts = running(Span::of(&picture, 101_010), stretches);
        assert!(counts.iter().all(|count| *count > 0.0 && *count < 4.01), "{counts:?}");
    }

    #[test]
    fn attempts_that_follow_each_other_are_one_at_once() {
        let span = Span { begin_ms: 0, end_ms: 3_000 };
        let stretches = [(0, 1_003), (1_003, 1_004), (1_004, 1_555), (1_555, 3_000), (10, 10)];
        let means = running(span, stretches.into_iter());
        assert!(means.iter().all(|mean| (mean - 1.0).abs() < ROUNDING_MAX), "{means:?}");
        let means = running(span, [(0, 3_000), (1_000, 2_000), (2_995, 3_000)].into_iter());
        for (column, mean) in [(0, 1.0), (99, 1.0), (100, 2.0), (199, 2.0), (200, 1.0), (299, 1.5)]
        {
            assert!((means[column] - mean).abs() < ROUNDING_MAX, "{column}: {}", means[column]);
        }
        let page = |attempts| concurrency(&picture(attempts, 0, 3_000), 3_000).into_string();
        let page = page(vec![attempt(0, 0, 0, 1_003), attempt(1, 0, 1_003, 3_000)]);
        assert!(page.contains("at most 1 at once"), "{page}");
    }

    #[test]
    fn marks_are_round_and_few() {
        for length in [1, 45, 999, 12_000, 400_000, 90_000_000, u64::MAX / 2] {
            assert!(length / step_ms(length) <= 10, "{length}");
        }
        assert_eq!(step_ms(4_000), 500);
    }
}
