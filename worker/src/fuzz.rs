//! Decoders that accept any bytes, for `fuzz/`: messages of a task process on its socket.

use protocol::rounds::SUMMARY_BYTES_MAX;
use protocol::runner::FromRunner;
use protocol::tracker::{AttemptState, HotKey, STATUS_CHARS_MAX};
use protocol::{AttemptId, JobId, TaskId, TaskKind, wire};

use crate::core::News;
use crate::runner::claims::{CheckedMessage, Speaker};

/// The name of a target, and its decoder.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[("task_claims", task_claims)];

/// A task's message to its worker.
pub fn task_claims(bytes: &[u8]) {
    let Ok(message) = wire::decode::<FromRunner>(bytes, "message") else { return };
    let job = JobId { cluster_start: 202_611_201_830, number: 7 };
    let attempt = |kind| AttemptId { task: TaskId { job, kind, index: 3 }, number: 0 };
    let (map, reduce) = (Some(attempt(TaskKind::Map)), Some(attempt(TaskKind::Reduce)));
    for (current, is_round) in [(None, false), (map, false), (reduce, false), (reduce, true)] {
        let speaker = Speaker { job, current, is_round, is_greeted: true };
        match speaker.check(message.clone()) {
            CheckedMessage::News(News::Progress { attempt, progress, counters, .. }) => {
                assert_eq!(Some(attempt), current);
                assert!((0.0..=1.0).contains(&progress) && counters.check().is_ok());
            }
            CheckedMessage::News(News::Status { attempt, text }) => {
                assert_eq!(Some(attempt), current);
                assert!(text.chars().count() <= STATUS_CHARS_MAX);
            }
            CheckedMessage::News(News::Ended { attempt, state, counters, progress, .. }) => {
                assert_eq!(Some(attempt), current);
                assert!((0.0..=1.0).contains(&progress) && counters.check().is_ok());
                match state {
                    AttemptState::OutputDone { hot_keys, .. } => {
                        assert!(hot_keys.len() <= HotKey::COUNT_MAX);
                    }
                    AttemptState::RoundDone { summary, measure, .. } => {
                        assert!(is_round && summary.bytes.len() <= SUMMARY_BYTES_MAX);
                        assert!(measure.is_none_or(f64::is_finite));
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
