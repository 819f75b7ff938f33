//! The output of `hanno job -events` and `-list-attempt-ids`.

use protocol::jobs::{AttemptReport, TaskReport};
use protocol::{JobId, TaskKind};

/// Attempts that ended, in the order of their ends, `count` of them after the first `from`.
pub(super) fn events(tasks: &[TaskReport], from: usize, count: usize) -> Vec<&AttemptReport> {
    let attempts = tasks.iter().flat_map(|task| &task.attempts);
    let mut ended: Vec<&AttemptReport> =
        attempts.filter(|attempt| attempt.finished_ms > 0).collect();
    ended.sort_by(|left, right| (left.finished_ms, &left.id).cmp(&(right.finished_ms, &right.id)));
    ended.into_iter().skip(from).take(count).collect()
}

/// The same for people.
pub(super) fn events_text(
    (id, address): (JobId, &str),
    tasks: &[TaskReport],
    from: usize,
    count: usize,
) -> String {
    let events = events(tasks, from, count);
    let mut text = format!(
        "Task completion events for {id}\nNumber of events (from {from}) are: {}\n",
        events.len()
    );
    for attempt in events {
        text.push_str(&format!("{} {} {address}{}\n", attempt.state, attempt.id, attempt.log_url));
    }
    text
}

/// Attempts of one kind in one state.
pub(super) fn ids<'a>(tasks: &'a [TaskReport], kind: TaskKind, state: &str) -> Vec<&'a str> {
    let of_kind = tasks.iter().filter(|task| task.id.kind == kind);
    let wanted = of_kind.flat_map(|task| &task.attempts).filter(|attempt| attempt.state == state);
    wanted.map(|attempt| attempt.id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::TaskId;

    fn attempt(id: &str, state: &str, finished_ms: u64) -> AttemptReport {
        AttemptReport {
            id: id.to_owned(),
            state: state.to_owned(),
            host: "h".to_owned(),
            log_url: format!("/log/{id}"),
            started_ms: 1,
            finished_ms,
            diagnostics: String::new(),
            progress: 0.0,
            phase: String::new(),
            status: String::new(),
        }
    }

    #[test]
    fn texts() {
        let job = JobId { cluster_start: 202_611_201_830, number: 1 };
        let task = |kind, attempts| TaskReport {
            id: TaskId { job, kind, index: 0 },
            progress: 0.0,
            attempts,
        };
        let tasks = [
            task(TaskKind::Map, vec![attempt("a", "FAILED", 9), attempt("b", "RUNNING", 0)]),
            task(TaskKind::Reduce, vec![attempt("c", "SUCCEEDED", 5)]),
        ];
        assert_eq!(
            events_text((job, "http://h"), &tasks, 0, 9),
            "Task completion events for job_202611201830_0001\nNumber of events (from 0) are: 2\n\
             SUCCEEDED c http://h/log/c\nFAILED a http://h/log/a\n"
        );
        assert!(
            events_text((job, "http://h"), &tasks, 1, 1)
                .ends_with("are: 1\nFAILED a http://h/log/a\n")
        );
        assert_eq!(ids(&tasks, TaskKind::Map, "RUNNING"), ["b"]);
        assert!(ids(&tasks, TaskKind::Reduce, "RUNNING").is_empty());
    }
}
