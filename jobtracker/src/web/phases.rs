//! Where the time of a job or of an attempt went: phases, how long each took and how fast it was.

use daemon::page::format::{self, Unit};
use maud::{Markup, html};
use protocol::TaskKind;
use protocol::jobs::Counters;
use protocol::phase::Phase;

use crate::core::jobs::AttemptState;
use crate::core::views::{AttemptRow, TASK_GROUP};

/// Width of the strip in its own units.
const WIDTH: f64 = 1000.0;
/// A narrower part of the strip is invisible.
const PART_MIN: f64 = 1.0;

/// A job's phases as one strip over all its tasks; empty before a task was measured.
pub(crate) fn of_job(counters: &Counters) -> Markup {
    let all = Phase::ALL.map(|phase| (phase, phase.micros(counters)));
    let total = total(&all);
    html! {
        @if total > 0 {
            h2 { "Where the time went" }
            (strip(&all, total))
            div.legend {
                @for (phase, micros) in all.iter().filter(|(_, micros)| *micros > 0) {
                    span { i.(phase.name()) {} (title(*phase)) " " (format::short_duration(*micros)) " (" (percent(*micros, total)) ")" }
                }
            }
            p.soft { "Of all tasks together whose output counts. The shuffle of a reduce includes its waiting for maps." }
        }
    }
}

/// The phases of one attempt with their rates; empty if they were not measured.
pub(crate) fn of_attempt(kind: TaskKind, counters: &Counters) -> Markup {
    let own = Phase::ALL.into_iter().filter(|phase| phase.kind() == kind);
    let all: Vec<(Phase, u64)> = own.map(|phase| (phase, phase.micros(counters))).collect();
    let total = total(&all);
    html! {
        @if total > 0 {
            h2 { "Phases" }
            (strip(&all, total))
            div.scroll { table.cards {
                caption.unseen { "Time by phase" }
                thead { tr {
                    th scope="col" { "Phase" } th.number scope="col" { "Time" } th.number scope="col" { "Share" } th.number scope="col" { "Bytes" }
                    th.number scope="col" { "Records" }
                } }
                @for (phase, micros) in &all {
                    @let (bytes, records) = work(*phase, counters);
                    tr {
                        td { span.key.(phase.name()) {} (phase.name()) }
                        td.number { (format::short_duration(*micros)) } td.number { (percent(*micros, total)) }
                        td.number { (format::rate(bytes, *micros, Unit::Bytes)) } td.number { (format::rate(records, *micros, Unit::Count)) }
                    }
                }
            } }
        }
    }
}

fn total(phases: &[(Phase, u64)]) -> u64 {
    phases.iter().fold(0, |total, (_, micros)| total.saturating_add(*micros))
}

/// The phase that an attempt is in, or was in when it ended without a result, and its progress in that phase if known.
fn reached(attempt: &AttemptRow) -> Option<(Phase, Option<f32>)> {
    if attempt.state == AttemptState::Succeeded {
        return None;
    }
    let (phase, progress) = (attempt.phase?, attempt.progress);
    // Fetching the input, merging it and reducing it are a third each of a reduce.
    let share = match phase {
        Phase::Map => Some(progress),
        Phase::Shuffle => Some(progress * 3.0),
        Phase::Reduce => Some(progress * 3.0 - 2.0),
        _ => None,
    };
    Some((phase, share.map(|share| share.clamp(0.0, 1.0))))
}

/// The phase that an attempt has reached, displayed beside its progress bar.
pub(crate) fn beside_bar(attempt: &AttemptRow) -> Markup {
    html! { @if let Some(words) = reached_in_words(attempt) { " " span.soft { (words) } } }
}

/// The phase that an attempt has reached, in words.
pub(crate) fn reached_in_words(attempt: &AttemptRow) -> Option<String> {
    let (phase, share) = reached(attempt)?;
    let share = share.map_or(String::new(), |share| format!(" {}", format::percent(share)));
    Some(format!("{}{share}", phase.name()))
}

fn title(phase: Phase) -> String {
    match phase {
        Phase::Merge => "merge of maps".to_owned(),
        Phase::ReduceMerge => "merge of reduces".to_owned(),
        _ => phase.name().to_owned(),
    }
}

fn percent(micros: u64, total: u64) -> String {
    format::percent(micros as f32 / total.max(1) as f32)
}

/// Bytes and records that went through a phase; 0 where they are not counted.
fn work(phase: Phase, counters: &Counters) -> (u64, u64) {
    let of = |name: &str| counters.value(TASK_GROUP, name);
    let read = "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter";
    match phase {
        Phase::Read => (counters.value(read, "BYTES_READ"), 0),
        Phase::Map => (counters.value(read, "BYTES_READ"), of("MAP_INPUT_RECORDS")),
        // A combiner folds most records before they are sorted.
        Phase::Sort => match of("COMBINE_INPUT_RECORDS") {
            0 => (of("MAP_OUTPUT_BYTES"), of("MAP_OUTPUT_RECORDS")),
            _ => (0, of("COMBINE_OUTPUT_RECORDS")),
        },
        Phase::Spill => (0, of("SPILLED_RECORDS")),
        Phase::Merge => (of("MAP_OUTPUT_MATERIALIZED_BYTES"), 0),
        Phase::Shuffle => (of("REDUCE_SHUFFLE_BYTES"), of("REDUCE_INPUT_RECORDS")),
        Phase::ReduceMerge => (0, of("SPILLED_RECORDS")),
        Phase::Reduce => (of("REDUCE_SHUFFLE_BYTES"), of("REDUCE_INPUT_RECORDS")),
    }
}

fn strip(all: &[(Phase, u64)], total: u64) -> Markup {
    let mut x = 0.0;
    let mut parts = Vec::new();
    for (phase, micros) in all {
        let width = *micros as f64 / total.max(1) as f64 * WIDTH;
        if width >= PART_MIN {
            parts.push((*phase, x, width, *micros));
        }
        x += width;
    }
    html! {
        svg.strip viewBox="0 0 1000 14" preserveAspectRatio="none" role="img" aria-label="Time by phase" {
            @for (phase, x, width, micros) in parts {
                rect.(phase.name()) x=(format!("{x:.1}")) y="0" width=(format!("{width:.1}")) height="14" {
                    title { (title(phase)) " " (format::short_duration(micros)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use protocol::phase::GROUP;

    use super::*;

    #[test]
    fn phases_have_times_and_rates() {
        let counters = Counters::from_iter([
            (GROUP, "MAP_MICROS", 2_000_000),
            (GROUP, "MAP_SORT_MICROS", 500),
            (GROUP, "REDUCE_SHUFFLE_MICROS", 1_999_500),
            (TASK_GROUP, "MAP_INPUT_RECORDS", 3_000),
            (TASK_GROUP, "MAP_OUTPUT_RECORDS", 50),
        ]);
        let page = of_attempt(TaskKind::Map, &counters).into_string();
        assert!(page.contains("2.0 s") && page.contains("1\u{202f}500/s"), "{page}");
        assert!(page.contains("500 µs") && page.contains("100\u{202f}000/s"), "{page}");
        assert!(!page.contains("shuffle"), "{page}");
        let page = of_job(&counters).into_string();
        assert!(page.contains("shuffle 2.0 s (50%)"), "{page}");
        assert_eq!(page.matches("<rect").count(), 2, "what nobody would see is not drawn: {page}");
        for nothing in
            [of_job(&Counters::default()), of_attempt(TaskKind::Map, &Counters::default())]
        {
            assert!(nothing.into_string().is_empty());
        }
    }

    #[test]
    fn times_that_a_task_invents_make_a_page_all_the_same() {
        let all = Phase::ALL.map(|phase| (phase.counter().to_owned(), u64::MAX));
        // As they come from a message, not as they are added.
        let counters = Counters([(GROUP.to_owned(), all.into())].into());
        assert!(of_job(&counters).into_string().contains("Where the time went"));
        for kind in [TaskKind::Map, TaskKind::Reduce] {
            assert!(of_attempt(kind, &counters).into_string().contains("Phases"));
        }
    }

    #[test]
    fn an_attempt_without_a_result_tells_where_it_is() {
        let row = |kind, state, phase, progress| AttemptRow {
            kind,
            index: 0,
            number: 0,
            state,
            worker: 0,
            started_ms: 0,
            finished_ms: 0,
            progress,
            phase,
            gathered: None,
        };
        use AttemptState::{Failed, Killed, Running, Succeeded};
        use TaskKind::{Map, Reduce};
        let cases = [
            (row(Map, Running, None, 0.0), None),
            (row(Map, Running, Some(Phase::Map), 0.43), Some("map 43%")),
            (row(Map, Running, Some(Phase::Merge), 1.0), Some("merge")),
            (row(Map, Failed, Some(Phase::Map), 1.0), Some("map 100%")),
            (row(Map, Succeeded, Some(Phase::Merge), 1.0), None),
            (row(Reduce, Running, Some(Phase::Shuffle), 0.2), Some("shuffle 60%")),
            (row(Reduce, Killed, Some(Phase::ReduceMerge), 0.4), Some("merge")),
            (row(Reduce, Failed, Some(Phase::Reduce), 0.6), Some("reduce 0%")),
            (row(Reduce, Running, Some(Phase::Reduce), 0.75), Some("reduce 25%")),
        ];
        for (row, words) in cases {
            assert_eq!(reached_in_words(&row).as_deref(), words, "{row:?}");
        }
    }
}
