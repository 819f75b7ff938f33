//! Checks every message of a task process before the worker acts on it.
//!
//! The process runs a user's code, which can send anything on its socket. It may report on the attempt that it runs and on map outputs of
//! its own job; texts are shortened, numbers limited to their range. A process that sends anything else has violated the protocol and is
//! ended.
//!
//! Invariant: every [`FromRunner`] reaches the worker's loop through [`Speaker::check`].

use protocol::runner::FromRunner;
use protocol::tracker::{AttemptState, FetchFailure, HotKey, PATH_BYTES_MAX, shortened};
use protocol::{AttemptId, JobId, TaskKind};

use crate::core::News;

/// A task process and the scope of its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker {
    /// Its job.
    pub(crate) job: JobId,
    /// The attempt that it runs.
    pub(crate) current: Option<AttemptId>,
    /// It has said hello.
    pub(crate) is_greeted: bool,
}

/// A checked message.
#[derive(Debug)]
pub(crate) enum CheckedMessage {
    /// The process is there.
    Hello,
    /// The process has rebuilt the job, and it is the same.
    Ready,
    /// A report for the worker's loop.
    News(News),
    /// A report on an attempt that is over, from a thread that did not know it yet.
    Late,
    /// The process cannot continue, or violated the protocol; the reason.
    Over(String),
}

impl Speaker {
    /// Checks a message.
    pub(crate) fn check(self, message: FromRunner) -> CheckedMessage {
        self.validate(message).unwrap_or_else(CheckedMessage::Over)
    }

    fn validate(self, message: FromRunner) -> Result<CheckedMessage, String> {
        match message {
            FromRunner::Hello { .. } if !self.is_greeted => Ok(CheckedMessage::Hello),
            FromRunner::Hello { .. } => Err("the task process said hello twice".to_owned()),
            FromRunner::Ready => Ok(CheckedMessage::Ready),
            FromRunner::Refused { diagnostics } => Ok(CheckedMessage::Over(shortened(diagnostics))),
            FromRunner::Progress { attempt, progress, phase, .. } => {
                self.is_of_its_job(attempt)?;
                let news = News::Progress { attempt, progress: share(progress), phase };
                Ok(self.unless_late(attempt, news))
            }
            FromRunner::FetchFailed(FetchFailure { reduce, map, diagnostics }) => {
                self.is_of_its_job(reduce)?;
                self.is_of_its_job(map)?;
                if map.task.kind != TaskKind::Map {
                    return Err(format!("the task process could not fetch {map}, which is no map"));
                }
                let diagnostics = shortened(diagnostics);
                let news = News::FetchFailed(FetchFailure { reduce, map, diagnostics });
                Ok(self.unless_late(reduce, news))
            }
            FromRunner::Ended { attempt, state, counters, progress, phase } => {
                if self.current != Some(attempt) {
                    return Err(format!(
                        "the task process reported the end of {attempt}, which it does not run"
                    ));
                }
                counters.check().map_err(|error| error.to_string())?;
                let (state, progress) = (end(attempt, state), share(progress));
                Ok(CheckedMessage::News(News::Ended { attempt, state, counters, progress, phase }))
            }
        }
    }

    fn is_of_its_job(self, attempt: AttemptId) -> Result<(), String> {
        if attempt.task.job == self.job {
            return Ok(());
        }
        Err(format!("the task process of {} spoke of {attempt}", self.job))
    }

    fn unless_late(self, attempt: AttemptId, news: News) -> CheckedMessage {
        if self.current == Some(attempt) {
            CheckedMessage::News(news)
        } else {
            CheckedMessage::Late
        }
    }
}

/// The end of an attempt, as far as its process can know it.
fn end(attempt: AttemptId, state: AttemptState) -> AttemptState {
    let failed = |text: &str| AttemptState::Failed { diagnostics: text.to_owned() };
    match state {
        AttemptState::MapDone { data_path, .. } if attempt.task.kind == TaskKind::Map => {
            if data_path.len() > PATH_BYTES_MAX {
                return failed("the path of the map output is too long");
            }
            // The worker reads the sizes itself.
            AttemptState::MapDone { data_path, partition_bytes: Vec::new() }
        }
        AttemptState::MapDone { .. } => failed("a reduce reported a map output"),
        AttemptState::OutputDone { directory, mut hot_keys } => {
            hot_keys.truncate(HotKey::COUNT_MAX);
            hot_keys.retain(|key| key.text.chars().count() <= HotKey::CHARS_MAX);
            AttemptState::OutputDone { directory, hot_keys }
        }
        AttemptState::Failed { diagnostics } => {
            AttemptState::Failed { diagnostics: shortened(diagnostics) }
        }
        // Only the worker stops attempts: one that claims it of itself would be retried endlessly.
        AttemptState::Running | AttemptState::Killed => {
            failed("the task process ended the attempt without a result")
        }
    }
}

fn share(progress: f32) -> f32 {
    if progress.is_finite() { progress.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use protocol::counters::{COUNTERS_MAX, ENGINE_COUNTERS_MAX};
    use protocol::jobs::Counters;
    use protocol::phase::Phase;
    use protocol::tracker::DIAGNOSTICS_BYTES_MAX;
    use protocol::{DfsPath, TaskId};

    use super::*;

    fn attempt(job: u32, kind: TaskKind) -> AttemptId {
        let job = JobId { cluster_start: 1, number: job };
        AttemptId { task: TaskId { job, kind, index: 0 }, number: 0 }
    }

    fn check(current: Option<AttemptId>, message: FromRunner) -> CheckedMessage {
        let job = JobId { cluster_start: 1, number: 1 };
        Speaker { job, current, is_greeted: true }.check(message)
    }

    fn ended(attempt: AttemptId, state: AttemptState) -> FromRunner {
        let (counters, phase) = (Counters::default(), Phase::Map);
        FromRunner::Ended { attempt, state, counters, progress: f32::NAN, phase }
    }

    /// The state after the check.
    fn believed(attempt: AttemptId, state: AttemptState) -> AttemptState {
        match check(Some(attempt), ended(attempt, state)) {
            CheckedMessage::News(News::Ended { state, progress, .. }) => {
                assert_eq!(progress, 0.0);
                state
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_process_speaks_of_its_own_attempt_and_job_alone() {
        let (own, other) = (attempt(1, TaskKind::Map), attempt(2, TaskKind::Map));
        let reduce = attempt(1, TaskKind::Reduce);
        let progress = |attempt| FromRunner::Progress {
            attempt,
            progress: 9.0,
            phase: Phase::Map,
            counters: Counters::default(),
        };
        let lost = |reduce, map| {
            FromRunner::FetchFailed(FetchFailure { reduce, map, diagnostics: String::new() })
        };
        let CheckedMessage::News(News::Progress { progress: share, .. }) =
            check(Some(own), progress(own))
        else {
            panic!()
        };
        assert_eq!(share, 1.0);
        let checked = check(Some(reduce), lost(reduce, own));
        assert!(matches!(checked, CheckedMessage::News(News::FetchFailed(_))), "{checked:?}");
        for late in [progress(own), lost(reduce, own)] {
            assert!(matches!(check(None, late), CheckedMessage::Late));
        }
        let hello = FromRunner::Hello { cookie: String::new() };
        for broken in [
            hello,
            progress(other),
            lost(reduce, other),
            lost(reduce, reduce),
            lost(attempt(2, TaskKind::Reduce), own),
            ended(other, AttemptState::Killed),
            ended(reduce, AttemptState::Killed),
        ] {
            let checked = check(Some(own), broken);
            assert!(matches!(checked, CheckedMessage::Over(_)), "{checked:?}");
        }
        let checked = check(None, ended(own, AttemptState::Killed));
        assert!(matches!(checked, CheckedMessage::Over(_)), "it ends once: {checked:?}");
    }

    #[test]
    fn results_are_those_that_the_attempt_can_have() {
        let (map, reduce) = (attempt(1, TaskKind::Map), attempt(1, TaskKind::Reduce));
        let output = |data_path: &str| AttemptState::MapDone {
            data_path: data_path.to_owned(),
            partition_bytes: vec![7; 9],
        };
        let plain = AttemptState::MapDone { data_path: "/d".to_owned(), partition_bytes: vec![] };
        assert_eq!(believed(map, output("/d")), plain);
        for (attempt, state) in [
            (reduce, output("/d")),
            (map, output(&"/d".repeat(PATH_BYTES_MAX))),
            (map, AttemptState::Killed),
            (map, AttemptState::Running),
        ] {
            let believed = believed(attempt, state);
            assert!(matches!(believed, AttemptState::Failed { .. }), "{believed:?}");
        }
        let diagnostics = "é".repeat(DIAGNOSTICS_BYTES_MAX);
        let AttemptState::Failed { diagnostics } =
            believed(map, AttemptState::Failed { diagnostics })
        else {
            panic!()
        };
        assert_eq!(diagnostics.len(), DIAGNOSTICS_BYTES_MAX);
        let key = |chars: usize| HotKey { text: "k".repeat(chars), records: 1 };
        let state = AttemptState::OutputDone {
            directory: DfsPath::root(),
            hot_keys: vec![key(HotKey::CHARS_MAX + 1), key(1), key(1), key(1), key(1), key(1)],
        };
        let AttemptState::OutputDone { hot_keys, .. } = believed(reduce, state) else { panic!() };
        assert_eq!(hot_keys.len(), HotKey::COUNT_MAX - 1);
    }

    #[test]
    fn too_many_counters_end_the_process() {
        let own = attempt(1, TaskKind::Map);
        let mut counters = Counters::default();
        (0..=COUNTERS_MAX + ENGINE_COUNTERS_MAX)
            .for_each(|index| counters.add("g", &index.to_string(), 1));
        let message = FromRunner::Ended {
            attempt: own,
            state: AttemptState::Killed,
            counters,
            progress: 1.0,
            phase: Phase::Map,
        };
        let CheckedMessage::Over(reason) = check(Some(own), message) else { panic!() };
        assert!(reason.starts_with("Too many counters"), "{reason}");
    }
}
