//! Checks every message of a task process before the worker acts on it.
//!
//! The process runs a user's code, which can send anything on its socket. It may report on the attempt that it runs and on map outputs of
//! its own job; texts are shortened, numbers limited to their range. A process that sends anything else has violated the protocol and is
//! ended.
//!
//! Invariant: every [`FromRunner`] reaches the worker's loop through [`Speaker::check`].

use protocol::rounds::SUMMARY_BYTES_MAX;
use protocol::runner::FromRunner;
use protocol::tracker::{
    AttemptState, FetchFailure, HotKey, PATH_BYTES_MAX, shortened, status_text,
};
use protocol::{AttemptId, JobId, TaskKind};

use crate::core::News;

/// A task process and the scope of its messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker {
    /// Its job.
    pub(crate) job: JobId,
    /// The attempt that it runs.
    pub(crate) current: Option<AttemptId>,
    /// That attempt is one of a round.
    pub(crate) is_round: bool,
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
    /// What the process does before it is ready.
    Step(String),
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
            FromRunner::Preparing { step } => Ok(CheckedMessage::Step(status_text(&step))),
            FromRunner::Refused { diagnostics } => Ok(CheckedMessage::Over(shortened(diagnostics))),
            FromRunner::Progress { attempt, progress, phase, counters } => {
                self.is_of_its_job(attempt)?;
                counters.check().map_err(|error| error.to_string())?;
                let news = News::Progress { attempt, progress: share(progress), phase, counters };
                Ok(self.unless_late(attempt, news))
            }
            FromRunner::Status { attempt, text } => {
                self.is_of_its_job(attempt)?;
                let news = News::Status { attempt, text: status_text(&text) };
                Ok(self.unless_late(attempt, news))
            }
            FromRunner::FetchFailed(FetchFailure { reduce, map, diagnostics }) => {
                self.is_of_its_job(reduce)?;
                self.is_of_its_job(map)?;
                // Only tasks of rounds read what tasks of rounds made. Of an attempt that is over, nobody knows any more.
                let is_of_a_round = reduce.task.kind == TaskKind::Reduce
                    && (self.is_round || self.current != Some(reduce));
                if map.task.kind != TaskKind::Map && !is_of_a_round {
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
                let (state, progress) = (end(attempt, self.is_round, state), share(progress));
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
fn end(attempt: AttemptId, is_round: bool, state: AttemptState) -> AttemptState {
    let failed = |text: &str| AttemptState::Failed { diagnostics: text.to_owned() };
    match state {
        AttemptState::MapDone { data_path, .. } | AttemptState::RoundDone { data_path, .. }
            if data_path.len() > PATH_BYTES_MAX =>
        {
            failed("the path of the map output is too long")
        }
        AttemptState::MapDone { data_path, .. } if attempt.task.kind == TaskKind::Map => {
            // The worker reads the sizes itself.
            AttemptState::MapDone { data_path, partition_bytes: Vec::new() }
        }
        AttemptState::RoundDone { data_path, summary, measure, kept } if is_round => {
            if summary.bytes.len() > SUMMARY_BYTES_MAX {
                return failed("the summary of a task of a round is too long");
            }
            let measure = measure.filter(|measure| measure.is_finite());
            AttemptState::RoundDone { data_path, summary, measure, kept }
        }
        AttemptState::RoundDone { .. } => failed("a task that is of no round reported one"),
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
    use protocol::rounds::Summary;
    use protocol::tracker::DIAGNOSTICS_BYTES_MAX;
    use protocol::{DfsPath, TaskId};

    use super::*;

    fn attempt(job: u32, kind: TaskKind) -> AttemptId {
        let job = JobId { cluster_start: 1, number: job };
        AttemptId { task: TaskId { job, kind, index: 0 }, number: 0 }
    }

    fn check(current: Option<AttemptId>, message: FromRunner) -> CheckedMessage {
        let job = JobId { cluster_start: 1, number: 1 };
        Speaker { job, current, is_round: false, is_greeted: true }.check(message)
    }

    fn in_round(current: AttemptId) -> Speaker {
        let (job, current) = (current.task.job, Some(current));
        Speaker { job, current, is_round: true, is_greeted: true }
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
    fn the_step_of_a_process_is_shortened() {
        let step = "x".repeat(1 << 20);
        match check(None, FromRunner::Preparing { step: step.clone() }) {
            CheckedMessage::Step(text) => assert_eq!(text, status_text(&step)),
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
            lost(own, reduce),
            lost(attempt(2, TaskKind::Reduce), own),
            ended(other, AttemptState::Killed),
            ended(reduce, AttemptState::Killed),
        ] {
            let checked = check(Some(own), broken);
            assert!(matches!(checked, CheckedMessage::Over(_)), "{checked:?}");
        }
        let checked = check(Some(reduce), lost(reduce, reduce));
        assert!(matches!(checked, CheckedMessage::Over(_)), "it is of no round: {checked:?}");
        let checked = in_round(reduce).check(lost(reduce, reduce));
        assert!(matches!(checked, CheckedMessage::News(News::FetchFailed(_))), "{checked:?}");
        assert!(matches!(check(Some(own), lost(reduce, reduce)), CheckedMessage::Late));
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
    fn only_a_task_of_a_round_ends_a_round() {
        let reduce = attempt(1, TaskKind::Reduce);
        let done = |data_path: &str, bytes: usize, measure: f64| AttemptState::RoundDone {
            data_path: data_path.to_owned(),
            summary: Summary { bytes: vec![7; bytes] },
            measure: Some(measure),
            kept: None,
        };
        let believed_in_round = |state| match in_round(reduce).check(ended(reduce, state)) {
            CheckedMessage::News(News::Ended { state, .. }) => state,
            other => panic!("{other:?}"),
        };
        let right = done("/d", SUMMARY_BYTES_MAX, 0.5);
        assert_eq!(believed_in_round(right.clone()), right);
        let AttemptState::RoundDone { measure: None, .. } =
            believed_in_round(done("/d", 1, f64::INFINITY))
        else {
            panic!("a measure is a number")
        };
        let map_done =
            AttemptState::MapDone { data_path: "/d".to_owned(), partition_bytes: vec![] };
        for refused in [
            believed(reduce, right.clone()),
            believed(attempt(1, TaskKind::Map), right),
            believed_in_round(done(&"/d".repeat(PATH_BYTES_MAX), 1, 0.5)),
            believed_in_round(done("/d", SUMMARY_BYTES_MAX + 1, 0.5)),
            believed_in_round(map_done),
        ] {
            assert!(matches!(refused, AttemptState::Failed { .. }), "{refused:?}");
        }
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
