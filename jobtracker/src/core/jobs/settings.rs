//! A job's properties for the scheduler, under Hadoop's names.
//!
//! Invariant: the JobTracker accepts a job only if all of them can be read, so a job from the journal always has settings.

use std::time::Duration;

use protocol::TaskKind;
use protocol::jobs::Priority;
use protocol::property::{Properties, PropertyError, Umask, keys};

/// Failed tasks of a job on one worker after which the job avoids it, as in Hadoop's later versions. A worker whose disk is full fails
/// every task that it gets, and one of four attempts should be left for another worker.
const FAILURES_PER_WORKER_DEFAULT: u32 = 3;

/// Failed attempts after which a task skips records. Hadoop waits for two, because it has to narrow the place down; here it is known.
const SKIP_START_DEFAULT: u32 = 1;

/// See the module. A limit of 0 is no limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Settings {
    pub(crate) queue: Option<String>,
    pub(crate) priority: Priority,
    /// Most attempts of maps at once.
    pub(crate) map_limit: u32,
    /// Most attempts of reduces at once.
    pub(crate) reduce_limit: u32,
    pub(crate) map_speculative: bool,
    pub(crate) reduce_speculative: bool,
    /// Attempts of a map before the job fails; `None`: as in the job's description for all tasks.
    pub(crate) map_attempts_max: Option<u32>,
    /// The same for reduces.
    pub(crate) reduce_attempts_max: Option<u32>,
    /// Failures on one worker after which the job avoids it.
    pub(crate) failures_per_worker: u32,
    /// Most records that a map skips because attempts ended in them; 0 is none.
    pub(crate) skip_max: u32,
    /// Failed attempts of a map before it skips records.
    pub(crate) skip_start: u32,
    /// How long a map waits for a slot next to its input; `None`: as configured for the JobTracker.
    pub(crate) locality_wait: Option<Duration>,
    /// Permission bits that its output does not get.
    pub(crate) umask: Umask,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            queue: None,
            priority: Priority::Normal,
            map_limit: 0,
            reduce_limit: 0,
            map_speculative: true,
            reduce_speculative: true,
            map_attempts_max: None,
            reduce_attempts_max: None,
            failures_per_worker: FAILURES_PER_WORKER_DEFAULT,
            skip_max: 0,
            skip_start: SKIP_START_DEFAULT,
            locality_wait: None,
            umask: Umask::default(),
        }
    }
}

impl Settings {
    /// Reads the properties; the error names property and value.
    pub(crate) fn parse(properties: &Properties) -> Result<Self, PropertyError> {
        let default = Settings::default();
        let queue = keys::QUEUE.get(properties)?.map(|name| name.trim().to_owned());
        let failures = keys::FAILURES_PER_WORKER.get(properties)?;
        keys::TASK_TIMEOUT.get(properties)?;
        Ok(Settings {
            queue: queue.filter(|name| !name.is_empty()),
            priority: keys::PRIORITY.get(properties)?.unwrap_or(default.priority),
            map_limit: keys::MAP_LIMIT.get(properties)?.map_or(default.map_limit, |most| most.0),
            reduce_limit: keys::REDUCE_LIMIT
                .get(properties)?
                .map_or(default.reduce_limit, |most| most.0),
            map_speculative: keys::MAP_SPECULATIVE.get(properties)?.unwrap_or(true),
            reduce_speculative: keys::REDUCE_SPECULATIVE.get(properties)?.unwrap_or(true),
            map_attempts_max: keys::MAP_ATTEMPTS.get(properties)?.map(|count| count.0),
            reduce_attempts_max: keys::REDUCE_ATTEMPTS.get(properties)?.map(|count| count.0),
            failures_per_worker: failures.map_or(default.failures_per_worker, |count| count.0),
            skip_max: keys::SKIP_MAX.get(properties)?.map_or(default.skip_max, |most| most.0),
            skip_start: keys::SKIP_START.get(properties)?.unwrap_or(default.skip_start),
            locality_wait: keys::LOCALITY_WAIT.get(properties)?.map(Duration::from_millis),
            umask: keys::UMASK.get(properties)?.unwrap_or_default(),
        })
    }

    /// Attempts of a task of this kind before the job fails, if the job sets a number.
    pub(crate) fn attempts_max(&self, kind: TaskKind) -> Option<u32> {
        match kind {
            TaskKind::Map => self.map_attempts_max,
            TaskKind::Reduce => self.reduce_attempts_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, PropertyError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::parse(&pairs.collect())
    }

    #[test]
    fn properties_are_read_or_named() {
        assert_eq!(parse(&[]), Ok(Settings::default()));
        assert_eq!(
            parse(&[
                (keys::QUEUE.name(), "etl"),
                (keys::PRIORITY.name(), "very_high"),
                (keys::MAP_LIMIT.name(), "3"),
                (keys::REDUCE_SPECULATIVE.name(), "false"),
                (keys::LOCALITY_WAIT.name(), "250"),
                (keys::FAILURES_PER_WORKER.name(), "1"),
                (keys::SKIP_MAX.name(), "7"),
                (keys::UMASK.name(), "077"),
            ]),
            Ok(Settings {
                queue: Some("etl".to_owned()),
                priority: Priority::VeryHigh,
                map_limit: 3,
                reduce_speculative: false,
                locality_wait: Some(Duration::from_millis(250)),
                failures_per_worker: 1,
                skip_max: 7,
                umask: Umask(0o077),
                ..Settings::default()
            })
        );
        for (pair, message) in [
            (
                (keys::PRIORITY.name(), "URGENT"),
                "`URGENT` is not one of VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW",
            ),
            ((keys::MAP_LIMIT.name(), "x"), "mapreduce.job.running.map.limit: `x`"),
            ((keys::MAP_ATTEMPTS.name(), "200"), "mapreduce.map.maxattempts: `200`"),
            (
                (keys::FAILURES_PER_WORKER.name(), "0"),
                "mapreduce.job.maxtaskfailures.per.tracker: `0`",
            ),
            ((keys::MAP_SPECULATIVE.name(), "maybe"), "mapreduce.map.speculative: `maybe`"),
        ] {
            let error = parse(&[pair]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
