//! A job's timeline in the trace event format of Chrome, which `ui.perfetto.dev` and `chrome://tracing` open: a process per worker, a
//! thread per slot, an event per attempt.
//!
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>; times in microseconds since the submission.

use protocol::TaskKind;
use serde::Serialize;

use super::timeline;
use crate::core::views::Picture;

/// The whole file.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trace {
    trace_events: Vec<Event>,
    display_time_unit: &'static str,
}

#[derive(Debug, Serialize)]
struct Event {
    name: String,
    /// Kind of the task, for filters.
    cat: &'static str,
    /// `X`: an event with a duration. `M`: a name for a process or thread.
    ph: &'static str,
    ts: u64,
    dur: u64,
    pid: u32,
    tid: usize,
    args: Args,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Args {
    Name { name: String },
    Attempt { state: &'static str, diagnostics: Option<String> },
}

/// The timeline of a job; running attempts end now.
pub(crate) fn trace(picture: &Picture, now_ms: u64) -> Trace {
    let mut events: Vec<Event> = (0..)
        .zip(&picture.workers)
        .map(|(pid, worker)| {
            name("process_name", pid, 0, format!("{} {}", worker.host, worker.http_address))
        })
        .collect();
    let mut named = 0;
    for (place, lane) in timeline::slots(picture, now_ms) {
        let attempt = &picture.attempts[place];
        if lane == named {
            events.push(name("thread_name", attempt.worker, lane, format!("slot {lane}")));
            named += 1;
        }
        events.push(Event {
            name: picture.attempt_id(attempt).to_string(),
            cat: match attempt.kind {
                TaskKind::Map => "map",
                TaskKind::Reduce => "reduce",
            },
            ph: "X",
            ts: attempt.started_ms.saturating_sub(picture.report.submitted_ms) * 1000,
            dur: attempt.elapsed_ms(now_ms) * 1000,
            pid: attempt.worker,
            tid: lane,
            args: Args::Attempt {
                state: attempt.state.name(),
                diagnostics: picture.diagnostics.get(&place).cloned(),
            },
        });
    }
    Trace { trace_events: events, display_time_unit: "ms" }
}

fn name(what: &str, pid: u32, tid: usize, name: String) -> Event {
    let args = Args::Name { name };
    Event { name: what.to_owned(), cat: "__metadata", ph: "M", ts: 0, dur: 0, pid, tid, args }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::jobs::AttemptState;
    use crate::core::views::AttemptRow;
    use crate::web::tests::picture;

    #[test]
    fn golden_trace() {
        let row = |index, started_ms, finished_ms, state| AttemptRow {
            kind: TaskKind::Map,
            index,
            number: 0,
            state,
            worker: 0,
            started_ms,
            finished_ms,
            progress: 1.0,
            phase: None,
            gathered: None,
        };
        let rows = vec![
            row(0, 1010, 1030, AttemptState::Succeeded),
            row(1, 1020, 0, AttemptState::Running),
        ];
        let mut picture = picture(rows, 1000, 0);
        picture.diagnostics.insert(0, "\"quoted\"".to_owned());
        let trace = serde_json::to_value(trace(&picture, 1100)).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let workers = picture.workers.len();
        assert_eq!(events.len(), workers + 4);
        assert_eq!(events[0]["name"], "process_name");
        let first = &events[workers + 1];
        assert_eq!(first["name"], "attempt_202611201830_0001_m_000000_0");
        assert_eq!((&first["ts"], &first["dur"]), (&10_000.into(), &20_000.into()));
        assert_eq!(first["args"]["state"], "SUCCEEDED");
        assert_eq!(first["args"]["diagnostics"], "\"quoted\"");
        let second = &events[workers + 3];
        assert_eq!((&second["tid"], &second["dur"]), (&1.into(), &80_000.into()));
    }
}
