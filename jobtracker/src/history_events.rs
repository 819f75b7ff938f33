//! A job as history events: the contents of its picture, in the order in which they happened, one JSON object a line.
//!
//! Invariant: memory holds, besides the picture, only one line, and sixteen bytes for each event.

use std::io::{self, Write};

use protocol::TaskKind;
use protocol::history::{
    AttemptEnded, AttemptStarted, HistoryEvent, JobEnded, JobInited, JobSubmitted, TaskFinished,
    TaskStarted, Total, VERSION, seal,
};
use protocol::jobs::JobState;

use crate::core::jobs::AttemptState;
use crate::core::views::{AttemptRow, Picture};

/// An event of an attempt: the time, the attempt's index among the job's attempts, and the step. They sort in the order of the lines.
type Moment = (u64, u32, Step);

/// The steps of an attempt, in this order where they happen at once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    TaskStarted,
    Started,
    Ended,
    TaskFinished,
}

/// Writes all events of a job so far, in many small pieces; and, if it is over, that these are all.
pub(crate) fn write_lines(picture: &Picture, out: &mut dyn Write) -> io::Result<()> {
    let (mut text, mut total) = (Vec::new(), Total::default());
    let mut line = |event: &HistoryEvent| {
        text.clear();
        serde_json::to_writer(&mut text, event)?;
        seal(&mut text);
        total.add(&text);
        text.push(b'\n');
        out.write_all(&text)
    };
    beginning(picture).iter().try_for_each(&mut line)?;
    for (_, place, step) in moments(picture) {
        line(&event(picture, place as usize, step))?;
    }
    let Some(last) = end(picture) else { return Ok(()) };
    line(&last)?;
    out.write_all(&total.end_line())?;
    out.write_all(b"\n")
}

fn beginning(picture: &Picture) -> [HistoryEvent; 3] {
    let report = &picture.report;
    let first = picture.attempts.iter().map(|attempt| attempt.started_ms).min();
    [
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
    ]
}

fn moments(picture: &Picture) -> Vec<Moment> {
    let mut moments = Vec::with_capacity(picture.attempts.len() * 4);
    let mut last = None;
    for (place, row) in (0..).zip(&picture.attempts) {
        // Attempts of a task are adjacent.
        if last.replace((row.kind, row.index)) != Some((row.kind, row.index)) {
            moments.push((row.started_ms, place, Step::TaskStarted));
        }
        moments.push((row.started_ms, place, Step::Started));
        if !row.state.is_live() {
            moments.push((row.finished_ms, place, Step::Ended));
        }
        if row.state == AttemptState::Succeeded {
            moments.push((row.finished_ms, place, Step::TaskFinished));
        }
    }
    moments.sort_unstable();
    moments
}

fn event(picture: &Picture, place: usize, step: Step) -> HistoryEvent {
    let row = &picture.attempts[place];
    let (taskid, task_type) = (picture.task_id(row).to_string(), row.kind.name().to_owned());
    match step {
        Step::TaskStarted => {
            HistoryEvent::TaskStarted(TaskStarted { taskid, task_type, start_time: row.started_ms })
        }
        Step::Started => started(picture, row, taskid),
        Step::Ended => ended(picture, place, row, taskid),
        Step::TaskFinished => HistoryEvent::TaskFinished(TaskFinished {
            taskid,
            task_type,
            finish_time: row.finished_ms,
            successful_attempt: picture.attempt_id(row).to_string(),
        }),
    }
}

fn started(picture: &Picture, row: &AttemptRow, taskid: String) -> HistoryEvent {
    let worker = &picture.workers[row.worker as usize];
    let started = AttemptStarted {
        taskid,
        attempt_id: picture.attempt_id(row).to_string(),
        start_time: row.started_ms,
        hostname: worker.host.clone(),
        tracker_name: worker.http_address.clone(),
    };
    match row.kind {
        TaskKind::Map => HistoryEvent::MapAttemptStarted(started),
        TaskKind::Reduce => HistoryEvent::ReduceAttemptStarted(started),
    }
}

fn ended(picture: &Picture, place: usize, row: &AttemptRow, taskid: String) -> HistoryEvent {
    let ended = AttemptEnded {
        taskid,
        attempt_id: picture.attempt_id(row).to_string(),
        finish_time: row.finished_ms,
        hostname: picture.workers[row.worker as usize].host.clone(),
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
    wrap(ended)
}

/// The end of the job; nothing while it runs.
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
            phase: None,
            gathered: None,
        }
    }

    fn lines(picture: &Picture) -> String {
        let mut text = Vec::new();
        write_lines(picture, &mut text).unwrap();
        String::from_utf8(text).unwrap()
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
        let text = lines(&picture);
        let expected = include_str!("../testdata/history-v3.jsonl");
        assert_eq!(text, expected, "\n{text}");
        for line in text.lines() {
            let event: HistoryEvent = serde_json::from_str(line).unwrap();
            let mut again = serde_json::to_vec(&event).unwrap();
            seal(&mut again);
            assert_eq!(again, line.as_bytes());
        }
    }

    #[test]
    fn a_job_that_runs_has_no_end() {
        let mut picture = picture(vec![row(0, 0, AttemptState::Running, (10, 0))], 5, 0);
        picture.report.state = JobState::Running;
        let text = lines(&picture);
        let last = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(matches!(last, HistoryEvent::MapAttemptStarted(_)), "{text}");
    }
}
