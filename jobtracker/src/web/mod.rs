//! The contents of the pages; their frame is [`daemon::page`].
//!
//! | page | file |
//! |---|---|
//! | cluster at a glance | [`overview`], with [`charts`] |
//! | all jobs, filtered and sorted | [`jobs`] |
//! | one job | [`job`], with [`timeline`], [`phases`], [`rounds`], [`spread`] and [`advice`] |
//! | attempts of a job, one attempt, one task | [`attempts`], [`task`] |
//! | two runs of a job side by side | [`compare`] |
//! | queues | [`queues`] |
//! | workers, one worker | [`workers`] |
//! | a job's timeline for trace viewers | [`trace`] |
//!
//! Invariant: the size of a page is bounded, whatever the size of the job: long tables are paged, long charts merge parts narrower than a
//! pixel.

pub(crate) mod advice;
pub(crate) mod attempts;
pub(crate) mod charts;
pub(crate) mod compare;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod overview;
pub(crate) mod phases;
pub(crate) mod queues;
pub(crate) mod rounds;
pub(crate) mod spread;
pub(crate) mod task;
pub(crate) mod timeline;
pub(crate) mod trace;
pub(crate) mod workers;

use daemon::page::{Action, action};
use maud::{Markup, html};
use protocol::jobs::JobState;

/// A job's state, coloured.
pub(crate) fn state(state: JobState) -> Markup {
    let (class, name) = match state {
        JobState::Running => ("run", "RUNNING"),
        JobState::Committing => ("run", "COMMITTING"),
        JobState::Succeeded => ("good", "SUCCEEDED"),
        JobState::Failed => ("bad", "FAILED"),
        JobState::Killed => ("warn", "KILLED"),
    };
    html! { span class={ "state " (class) } { (name) } }
}

/// Buttons that end attempts: those of a task, or one.
pub(crate) fn stop_buttons(url: &str, what: &str) -> Markup {
    let url = format!("{url}/state");
    let kill = format!("Kill {what}? Another attempt follows.");
    let fail =
        format!("Fail {what}? It counts against the limit of attempts; then another follows.");
    let how = |confirm, body| Action { confirm, body: Some(body), then: None, danger: true };
    html! {
        (action("PUT", &url, "Kill", &how(Some(kill.as_str()), r#"{"state":"KILLED"}"#)))
        (action("PUT", &url, "Fail", &how(Some(fail.as_str()), r#"{"state":"FAILED"}"#)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeMap;

    use protocol::jobs::{Counters, JobReport, Priority, TaskCounts};
    use protocol::tracker::HotKey;
    use protocol::{DfsPath, JobId};

    use super::*;
    use crate::core::jobs::AttemptState;
    use crate::core::jobs::Launched;
    use crate::core::views::{AttemptPicture, AttemptRow, Picture, WorkerName};

    pub(crate) fn report(name: &str, submitted_ms: u64, finished_ms: u64) -> JobReport {
        JobReport {
            id: "job_202611201830_0001".to_owned(),
            name: name.to_owned(),
            user: name.to_owned(),
            state: if finished_ms == 0 { JobState::Running } else { JobState::Succeeded },
            maps: TaskCounts::default(),
            reduces: TaskCounts::default(),
            map_progress: 0.5,
            reduce_progress: 0.0,
            submitted_ms,
            finished_ms,
            counters: Counters::default(),
            read_records_per_s: 0,
            read_bytes_per_s: 0,
            diagnostics: String::new(),
            output: DfsPath::parse("/out").unwrap(),
            queue: "default".to_owned(),
            priority: Priority::Normal,
            slot_count: 0,
            is_outline: false,
            rounds: None,
        }
    }

    /// A finished job with these attempts, on as many workers as they name.
    pub(crate) fn picture(
        attempts: Vec<AttemptRow>,
        submitted_ms: u64,
        finished_ms: u64,
    ) -> Picture {
        let count = attempts.iter().map(|attempt| attempt.worker + 1).max().unwrap_or(0);
        let name = |port| WorkerName { host: "host".to_owned(), http_address: format!("h:{port}") };
        Picture {
            id: JobId { cluster_start: 202_611_201_830, number: 1 },
            report: report("a job", submitted_ms, finished_ms),
            binary: String::new(),
            args: Vec::new(),
            stage: 0,
            attempts_max: [4, 4],
            input: None,
            slow_start_permille: 50,
            reduce_plan: String::new(),
            properties: BTreeMap::new(),
            launched: Launched::default(),
            workers: (0..count).map(name).collect(),
            attempts,
            diagnostics: BTreeMap::new(),
            statuses: BTreeMap::new(),
            metrics: Vec::new(),
            hot_keys: Vec::new(),
        }
    }

    #[test]
    fn hostile_texts_are_escaped_everywhere() {
        let hostile = "\"><img src=x onerror=alert(1)>";
        let row = AttemptRow {
            kind: protocol::TaskKind::Map,
            index: 0,
            number: 0,
            state: AttemptState::Failed,
            worker: 0,
            started_ms: 1,
            finished_ms: 2,
            progress: 1.0,
            phase: None,
            gathered: None,
        };
        let mut picture = picture(vec![row], 1, 5);
        picture.report.name = hostile.to_owned();
        picture.report.user = hostile.to_owned();
        picture.report.diagnostics = hostile.to_owned();
        picture.report.counters.add(hostile, hostile, 1);
        picture.args = vec![hostile.to_owned()];
        picture.properties = [(hostile.to_owned(), hostile.to_owned())].into();
        picture.diagnostics = [(0, hostile.to_owned())].into();
        picture.hot_keys = vec![(0, HotKey { text: hostile.to_owned(), records: 7 })];
        picture.workers[0].host = hostile.to_owned();
        let worker = picture.workers[0].clone();
        let attempt = AttemptPicture {
            row,
            worker,
            diagnostics: hostile.to_owned(),
            input: Some(hostile.to_owned()),
            is_winner: false,
            is_pending: true,
            counters: picture.report.counters.clone(),
            status: hostile.to_owned(),
        };
        let log = attempts::Log::Text(hostile.to_owned());
        let id = picture.attempt_id(&row);
        let contents = [
            job::page(&picture, std::slice::from_ref(&picture.report), true, 9),
            compare::page(&picture, &picture, 9),
            task::page(&picture, id.task, true, 9),
            attempts::table(&picture, &attempts::Query::default(), 9),
            attempts::one(id, &attempt, &log, true, 9),
            jobs::page(
                &[Cow::Borrowed(&picture.report)],
                &jobs::Query { q: hostile.to_owned(), ..Default::default() },
                9,
            ),
            jobs::table(&[&picture.report], false, 9),
        ];
        for content in &contents {
            let page = content.clone().into_string();
            assert!(!page.contains("<img") && page.contains("&lt;img"), "{page}");
        }
    }
}
