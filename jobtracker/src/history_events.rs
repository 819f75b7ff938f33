//! A job as history events: what its picture tells, in the order in which it happened.

use protocol::TaskKind;
use protocol::history::{
    AttemptEnded, AttemptStarted, HistoryEvent, JobEnded, JobInited, JobSubmitted, TaskFinished,
    TaskStarted, VERSION,
};
use protocol::jobs::JobState;

use crate::core::picture::{AttemptRow, Picture};
use crate::core::task::AttemptState;
use crate::web::attempts::attempt_id;

/// All events of a job so far.
pub(crate) fn events(picture: &Picture) -> Vec<HistoryEvent> {
    let report = &picture.report;
    let first = picture.attempts.iter().map(|attempt| attempt.started_ms).min();
    let mut events = vec![
        HistoryEvent::HistoryVersion { version: VERSION },
        HistoryEvent::JobSubmitted(JobSubmitted {
            jobid: report.id.clone(),
            job_name: report.name.clone(),
            user_name: report.user.clone(),
            submit_time: report.submitted_ms,
            job_queue_name: report.queue.clone(),
            priority: report.priority.name().to_owned(),
            output: report.output.to_string(),
            arguments: picture.args.clone(),
            properties: picture.properties.clone(),
        }),
        HistoryEvent::JobInited(JobInited {
            jobid: report.id.clone(),
            launch_time: first.unwrap_or(report.submitted_ms),
            total_maps: report.maps.total,
            total_reduces: report.reduces.total,
        }),
    ];
    let mut timed: Vec<(u64, HistoryEvent)> = Vec::with_capacity(picture.attempts.len() * 3);
    let mut last = None;
    for (place, row) in picture.attempts.iter().enumerate() {
        let is_first = last != Some((row.kind, row.index));
        last = Some((row.kind, row.index));
        attempt_events(picture, place, row, is_first, &mut timed);
    }
    // Attempts are in task order: the sort is stable, so what happened at once stays in it.
    timed.sort_by_key(|(time, _)| *time);
    events.extend(timed.into_iter().map(|(_, event)| event));
    events.extend(end(picture));
    events
}

fn attempt_events(
    picture: &Picture,
    place: usize,
    row: &AttemptRow,
    is_first: bool,
    events: &mut Vec<(u64, HistoryEvent)>,
) {
    let job = &picture.report.id;
    let (attempt, taskid) = (attempt_id(job, row), task_id(job, row));
    let worker = &picture.workers[row.worker as usize];
    let task_type = type_name(row.kind).to_owned();
    if is_first {
        let (taskid, task_type) = (taskid.clone(), task_type.clone());
        let started = TaskStarted { taskid, task_type, start_time: row.started_ms };
        events.push((row.started_ms, HistoryEvent::TaskStarted(started)));
    }
    let started = AttemptStarted {
        taskid: taskid.clone(),
        attempt_id: attempt.clone(),
        start_time: row.started_ms,
        hostname: worker.host.clone(),
        tracker_name: worker.http_address.clone(),
    };
    let started = match row.kind {
        TaskKind::Map => HistoryEvent::MapAttemptStarted(started),
        TaskKind::Reduce => HistoryEvent::ReduceAttemptStarted(started),
    };
    events.push((row.started_ms, started));
    if row.state.is_live() {
        return;
    }
    let ended = AttemptEnded {
        taskid: taskid.clone(),
        attempt_id: attempt.clone(),
        finish_time: row.finished_ms,
        hostname: worker.host.clone(),
        status: row.state.name().to_owned(),
        error: picture.diagnostics.get(&place).cloned().unwrap_or_default(),
    };
    let wrap = match (row.kind, row.state) {
        (TaskKind::Map, AttemptState::Succeeded) => HistoryEvent::MapAttemptFinished,
        (TaskKind::Map, AttemptState::Failed) => HistoryEvent::MapAttemptFailed,
        (TaskKind::Map, _) => HistoryEvent::MapAttemptKilled,
        (TaskKind::Reduce, AttemptState::Succeeded) => HistoryEvent::ReduceAttemptFinished,
        (TaskKind::Reduce, AttemptState::Failed) => HistoryEvent::ReduceAttemptFailed,
        (TaskKind::Reduce, _) => HistoryEvent::ReduceAttemptKilled,
    };
    events.push((row.finished_ms, wrap(ended)));
    if row.state == AttemptState::Succeeded {
        let finished = TaskFinished {
            taskid,
            task_type,
            finish_time: row.finished_ms,
            successful_attempt: attempt,
        };
        events.push((row.finished_ms, HistoryEvent::TaskFinished(finished)));
    }
}

/// How the job ended; nothing while it runs.
fn end(picture: &Picture) -> Option<HistoryEvent> {
    let report = &picture.report;
    let (wrap, status): (fn(JobEnded) -> HistoryEvent, _) = match report.state {
        JobState::Succeeded => (HistoryEvent::JobFinished, "SUCCEEDED"),
        JobState::Failed => (HistoryEvent::JobFailed, "FAILED"),
        JobState::Killed => (HistoryEvent::JobKilled, "KILLED"),
        JobState::Running | JobState::Committing => return None,
    };
    Some(wrap(JobEnded {
        jobid: report.id.clone(),
        finish_time: report.finished_ms,
        finished_maps: report.maps.completed,
        finished_reduces: report.reduces.completed,
        failed_maps: report.maps.failed_attempts,
        failed_reduces: report.reduces.failed_attempts,
        job_status: status.to_owned(),
        diagnostics: report.diagnostics.clone(),
        total_counters: report.counters.0.clone(),
    }))
}

fn task_id(job: &str, row: &AttemptRow) -> String {
    let letter = row.kind.letter();
    format!("task_{}_{letter}_{:06}", job.trim_start_matches("job_"), row.index)
}

fn type_name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Map => "MAP",
        TaskKind::Reduce => "REDUCE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::tests::picture;

    fn row(index: u32, number: u32, state: AttemptState, times: (u64, u64)) -> AttemptRow {
        AttemptRow {
            kind: TaskKind::Map,
            index,
            number,
            state,
            worker: 0,
            started_ms: times.0,
            finished_ms: times.1,
            progress: 1.0,
        }
    }

    /// The lines are a format: they change only with its version.
    #[test]
    fn golden_lines() {
        let mut picture = picture(
            vec![
                row(0, 0, AttemptState::Failed, (10, 20)),
                row(0, 1, AttemptState::Succeeded, (20, 40)),
                row(1, 0, AttemptState::Killed, (15, 30)),
            ],
            5,
            50,
        );
        picture.diagnostics.insert(0, "a \"bad\"\nrecord".to_owned());
        picture.report.counters.add("g", "n", 7);
        let text = crate::history::lines(&picture);
        let expected = include_str!("../testdata/history-v1.jsonl");
        assert_eq!(text, expected, "\n{text}");
        for line in text.lines() {
            let event: HistoryEvent = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
    }

    #[test]
    fn a_job_that_runs_has_no_end() {
        let mut picture = picture(vec![row(0, 0, AttemptState::Running, (10, 0))], 5, 0);
        picture.report.state = JobState::Running;
        let events = events(&picture);
        assert!(matches!(events.last(), Some(HistoryEvent::MapAttemptStarted(_))), "{events:?}");
    }
}
