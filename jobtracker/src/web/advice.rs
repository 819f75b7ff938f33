//! Suggestions from a job's numbers, in sentences. Each rule names its figures, and its threshold has a reason.

use daemon::page::format::{self, Unit};
use protocol::TaskKind;
use protocol::jobs::Counters;
use protocol::property::keys;

use super::spread::{self, Quantiles, durations};
use crate::core::jobs::AttemptState;
use crate::core::views::Picture;

const TASK_GROUP: &str = "org.apache.hadoop.mapreduce.TaskCounter";
/// A combiner that keeps more than this share of its input costs more than it saves.
const COMBINER_KEEPS_MAX_PERCENT: u64 = 90;
/// A partition this many times the median delays the job.
const SKEW_FACTOR: u64 = 3;
/// Below these a skewed partition costs too little time to mention.
const SKEW_BYTES_MIN: u64 = 16 << 20;
const SKEW_RECORDS_MIN: u64 = 1_000_000;
/// Maps shorter than this spend a large part of their time on starting.
const SHORT_MAP_MS: u64 = 100;
/// This many short maps are worth combining.
const SHORT_MAPS_MIN: usize = 50;
/// Files and splits below this are small: a map reads as much in about the time that starting one takes.
const SMALL_FILE_BYTES: u64 = 16 << 20;
/// An attempt this many times the median is a straggler.
const STRAGGLER_FACTOR: u64 = 4;
/// And only if it took this long.
const STRAGGLER_MS_MIN: u64 = 5_000;
/// More remote reads than this share are a reason to check placement.
const REMOTE_MAX_PERCENT: u64 = 25;
/// Failures on one worker that make it suspicious.
const WORKER_FAILURES_MIN: usize = 3;

/// All suggestions that apply, most useful first.
pub(crate) fn advice(picture: &Picture) -> Vec<String> {
    let rules: [fn(&Picture) -> Option<String>; 6] =
        [bad_worker, skew, stragglers, useless_combiner, short_maps, remote_reads];
    rules.iter().filter_map(|rule| rule(picture)).collect()
}

fn counter(counters: &Counters, name: &str) -> u64 {
    counters.value(TASK_GROUP, name)
}

fn bad_worker(picture: &Picture) -> Option<String> {
    let mut failures = vec![0; picture.workers.len()];
    let failed = picture.attempts.iter().filter(|attempt| attempt.state == AttemptState::Failed);
    failed.for_each(|attempt| failures[attempt.worker as usize] += 1);
    let total: usize = failures.iter().sum();
    let (worker, count) = failures.iter().copied().enumerate().max_by_key(|(_, count)| *count)?;
    let worker = &picture.workers[worker];
    (picture.workers.len() > 1 && count >= WORKER_FAILURES_MIN && count * 10 >= total * 8).then(
        || {
            format!(
                "{count} of {total} failed attempts ran on {} ({}): look at that machine.",
                worker.host, worker.http_address
            )
        },
    )
}

/// Partitions by records as well as by bytes: those are compressed, and records that are alike take few.
fn skew(picture: &Picture) -> Option<String> {
    let (partition, size, median) = skewed(picture, "REDUCE_SHUFFLE_BYTES", SKEW_BYTES_MIN)
        .or_else(|| skewed(picture, "REDUCE_INPUT_RECORDS", SKEW_RECORDS_MIN))?;
    let mut text = format!("Partition {partition} has {size}, the median {median}.");
    match hottest(picture, partition) {
        Some((key, share)) => text
            .push_str(&format!(" {} of its records have the key `{key}`.", format::percent(share))),
        None => text.push_str(" A few keys hold most records."),
    }
    text.push_str(match counter(&picture.report.counters, "COMBINE_INPUT_RECORDS") {
        0 => " A combiner, which this job does not have, sends one record of a key for each map.",
        _ => " A key with more parts, such as a number from a small range, spreads them; a second job adds the parts up.",
    });
    Some(text)
}

/// The largest partition by a metric, if it delays the job; with its value and the median, as text.
fn skewed(picture: &Picture, name: &str, least: u64) -> Option<(u32, String, String)> {
    let metric = picture.metrics.iter().find(|metric| metric.name == name)?;
    let quantiles = Quantiles::of(metric.values.iter().map(|(_, value)| *value).collect())?;
    let (partition, value) = metric.values.iter().copied().max_by_key(|(_, value)| *value)?;
    let is_skewed = value >= least && value > quantiles.median.saturating_mul(SKEW_FACTOR);
    let text = |value: u64| match metric.unit {
        Unit::Count => format!("{} records", format::count(value)),
        unit => format::value(value, unit),
    };
    (metric.values.len() > 2 && is_skewed).then(|| (partition, text(value), text(quantiles.median)))
}

/// The key with most records of a partition, and its share of them.
fn hottest(picture: &Picture, partition: u32) -> Option<(&str, f32)> {
    let keys = picture.hot_keys.iter().filter(|(of, _)| *of == partition);
    let key = keys.map(|(_, key)| key).max_by_key(|key| key.records)?;
    let all = spread::records_of(picture, partition)?;
    Some((&key.text, key.records as f32 / all.max(1) as f32))
}

fn stragglers(picture: &Picture) -> Option<String> {
    [(TaskKind::Map, "map"), (TaskKind::Reduce, "reduce")].into_iter().find_map(|(kind, name)| {
        let quantiles = Quantiles::of(durations(picture, kind))?;
        let is_late = quantiles.max >= STRAGGLER_MS_MIN
            && quantiles.max > quantiles.median.saturating_mul(STRAGGLER_FACTOR);
        is_late.then(|| {
            format!(
                "The slowest {name} took {}, the median {}: the timeline shows where it ran.",
                format::duration(quantiles.max),
                format::duration(quantiles.median)
            )
        })
    })
}

fn useless_combiner(picture: &Picture) -> Option<String> {
    let counters = &picture.report.counters;
    let (input, output) =
        (counter(counters, "COMBINE_INPUT_RECORDS"), counter(counters, "COMBINE_OUTPUT_RECORDS"));
    let keeps = output.saturating_mul(100).checked_div(input)?;
    (keeps > COMBINER_KEEPS_MAX_PERCENT).then(|| {
        format!(
            "The combiner kept {keeps}% of {} records: it saves next to nothing here.",
            format::count(input)
        )
    })
}

fn short_maps(picture: &Picture) -> Option<String> {
    let times = durations(picture, TaskKind::Map);
    let count = times.len();
    let median = Quantiles::of(times)?.median;
    if count < SHORT_MAPS_MIN || median >= SHORT_MAP_MS {
        return None;
    }
    let what = format!("{count} maps with a median of {}", format::duration(median));
    let input = picture.input?;
    let each = input.bytes / input.file_count.max(1);
    if input.file_count > count as u64 {
        return None;
    }
    // About as many maps as files: each map reads one file.
    let is_by_file = input.file_count.saturating_mul(2) > count as u64;
    if is_by_file && each < SMALL_FILE_BYTES {
        return Some(format!(
            "{what}: the input is {} small files of {} on average, one for each map. A larger {}, or `CombinedLines`, gives fewer, longer maps.",
            format::count(input.file_count),
            format::bytes(each),
            keys::FILES_PER_MAP.name()
        ));
    }
    let split = input.bytes / count as u64;
    (!is_by_file && split < SMALL_FILE_BYTES).then(|| {
        format!(
            "{what}: the splits are small, {} on average, though the input is only {} files. A larger {} gives fewer, longer maps.",
            format::bytes(split),
            format::count(input.file_count),
            keys::SPLIT_MIN.name()
        )
    })
}

fn remote_reads(picture: &Picture) -> Option<String> {
    let launched = picture.launched;
    let far = launched.other_local.saturating_mul(100).checked_div(launched.maps)?;
    (launched.node_local > 0 && far > REMOTE_MAX_PERCENT).then(|| {
        format!(
            "{far}% of {} maps read their input from another rack: more replicas, or a better spread of the files, brings them closer.",
            launched.maps
        )
    })
}

#[cfg(test)]
mod tests {
    use protocol::tracker::HotKey;

    use super::*;
    use crate::core::views::{AttemptRow, InputSize, Metric};
    use crate::web::tests::picture;

    #[test]
    fn a_plain_job_needs_none() {
        assert!(advice(&picture(Vec::new(), 0, 1)).is_empty());
    }

    #[test]
    fn short_maps_are_laid_to_files_only_where_there_are_many() {
        let row = |index| AttemptRow {
            kind: TaskKind::Map,
            index,
            number: 0,
            state: AttemptState::Succeeded,
            worker: 0,
            started_ms: 1,
            finished_ms: 11,
            progress: 1.0,
            phase: None,
            gathered: None,
        };
        let mut picture = picture((0..60).map(row).collect(), 0, 100);
        assert!(advice(&picture).is_empty(), "of what is not known nothing is said");
        let mut said = |file_count, bytes| {
            picture.input = Some(InputSize { file_count, bytes });
            advice(&picture).concat()
        };
        let files = said(60, 60 << 10);
        assert!(files.contains("60 small files of 1.0 KiB on average"), "{files}");
        let splits = said(1, 60 << 10);
        assert!(splits.contains("only 1 files") && splits.contains("1.0 KiB"), "{splits}");
        assert_eq!(said(60, 60 << 30), "", "large files that are read fast are no fault");
    }

    #[test]
    fn skew_and_a_useless_combiner_are_named() {
        let mut picture = picture(Vec::new(), 0, 1);
        picture.metrics.push(Metric {
            kind: TaskKind::Reduce,
            name: "REDUCE_SHUFFLE_BYTES",
            label: "Shuffled bytes",
            unit: Unit::Bytes,
            values: vec![(0, 1 << 20), (1, 1 << 20), (2, 100 << 20), (3, 2 << 20)],
        });
        picture.report.counters.add(TASK_GROUP, "COMBINE_INPUT_RECORDS", 1000);
        picture.report.counters.add(TASK_GROUP, "COMBINE_OUTPUT_RECORDS", 990);
        let texts = advice(&picture);
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(texts[0].contains("Partition 2 has 100.0 MiB, the median"), "{texts:?}");
        assert!(texts[0].contains("A few keys") && texts[0].contains("more parts"), "{texts:?}");
        assert!(texts[1].contains("kept 99%"), "{texts:?}");
    }

    #[test]
    fn records_that_are_alike_are_skew_too_and_their_key_is_named() {
        let mut picture = picture(Vec::new(), 0, 1);
        picture.metrics.push(Metric {
            kind: TaskKind::Reduce,
            name: "REDUCE_INPUT_RECORDS",
            label: "Input records",
            unit: Unit::Count,
            values: vec![(0, 10), (1, 4_000_000), (2, 20)],
        });
        let key = |text: &str, records| HotKey { text: text.to_owned(), records };
        picture.hot_keys = vec![(0, key("x", 9)), (1, key("the", 3_000_000)), (1, key("a", 5))];
        let texts = advice(&picture);
        let [text] = &texts[..] else { panic!("{texts:?}") };
        assert!(text.contains("75% of its records have the key `the`"), "{text}");
        assert!(text.contains("A combiner, which this job does not have"), "{text}");
    }
}
