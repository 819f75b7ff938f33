//! What a job's properties ask of the scheduler, under Hadoop's names.
//!
//! Invariant: a job is taken only if all of them can be read, so a job from the journal always has settings.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use protocol::jobs::Priority;

const QUEUE: &str = "mapreduce.job.queuename";
const PRIORITY: &str = "mapreduce.job.priority";
const MAP_LIMIT: &str = "mapreduce.job.running.map.limit";
const REDUCE_LIMIT: &str = "mapreduce.job.running.reduce.limit";
const MAP_SPECULATIVE: &str = "mapreduce.map.speculative";
const REDUCE_SPECULATIVE: &str = "mapreduce.reduce.speculative";
const SKIP_MAX: &str = "mapreduce.map.skip.maxrecords";
const SKIP_START: &str = "mapreduce.task.skip.start.attempts";
const FAILURES_PER_WORKER: &str = "mapreduce.job.maxtaskfailures.per.tracker";
/// Milliseconds; ours.
const LOCALITY_WAIT: &str = "locality_wait";

/// Failed tasks of a job on one worker after which the job avoids it, as in Hadoop's later versions: a worker whose disk is full fails every
/// task that it gets, and one of four attempts should be left for elsewhere.
const FAILURES_PER_WORKER_DEFAULT: u32 = 3;

/// Failed attempts after which a task leaves records out. Hadoop waits for two, as it has to narrow the place down; here it is known.
const SKIP_START_DEFAULT: u32 = 1;

/// See the module. Limits of 0 are none.
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
    /// Failures on one worker after which the job avoids it.
    pub(crate) failures_per_worker: u32,
    /// Most records that a map leaves out because attempts ended in them; 0 is none.
    pub(crate) skip_max: u32,
    /// Failed attempts of a map before it does so.
    pub(crate) skip_start: u32,
    /// How long a map waits for a slot next to its input; `None` as the JobTracker has it.
    pub(crate) locality_wait: Option<Duration>,
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
            failures_per_worker: FAILURES_PER_WORKER_DEFAULT,
            skip_max: 0,
            skip_start: SKIP_START_DEFAULT,
            locality_wait: None,
        }
    }
}

impl Settings {
    /// Reads them; the error names property and value.
    pub(crate) fn parse(properties: &BTreeMap<String, String>) -> Result<Self, String> {
        let default = Settings::default();
        let queue = properties.get(QUEUE).map(|name| name.trim().to_owned());
        let priority = match properties.get(PRIORITY) {
            Some(name) => Priority::from_name(name.trim()).ok_or_else(|| {
                let known = Priority::ALL.map(Priority::name).join(", ");
                format!("{PRIORITY} is one of {known}; {name} is not")
            })?,
            None => default.priority,
        };
        let failures: u32 =
            number(properties, FAILURES_PER_WORKER)?.unwrap_or(default.failures_per_worker);
        Ok(Settings {
            queue: queue.filter(|name| !name.is_empty()),
            priority,
            map_limit: number(properties, MAP_LIMIT)?.unwrap_or(default.map_limit),
            reduce_limit: number(properties, REDUCE_LIMIT)?.unwrap_or(default.reduce_limit),
            map_speculative: number(properties, MAP_SPECULATIVE)?.unwrap_or(true),
            reduce_speculative: number(properties, REDUCE_SPECULATIVE)?.unwrap_or(true),
            failures_per_worker: failures.max(1),
            skip_max: number(properties, SKIP_MAX)?.unwrap_or(default.skip_max),
            skip_start: number(properties, SKIP_START)?.unwrap_or(default.skip_start),
            locality_wait: number(properties, LOCALITY_WAIT)?.map(Duration::from_millis),
        })
    }
}

fn number<T>(properties: &BTreeMap<String, String>, name: &str) -> Result<Option<T>, String>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(text) = properties.get(name) else { return Ok(None) };
    match text.trim().parse() {
        Ok(value) => Ok(Some(value)),
        Err(error) => Err(format!("{name}={text} cannot be used: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::parse(&pairs.collect())
    }

    #[test]
    fn properties_are_read_or_named() {
        assert_eq!(parse(&[]), Ok(Settings::default()));
        assert_eq!(
            parse(&[
                (QUEUE, "etl"),
                (PRIORITY, "very_high"),
                (MAP_LIMIT, "3"),
                (REDUCE_SPECULATIVE, "false"),
                (LOCALITY_WAIT, "250"),
                (FAILURES_PER_WORKER, "0"),
                (SKIP_MAX, "7"),
            ]),
            Ok(Settings {
                queue: Some("etl".to_owned()),
                priority: Priority::VeryHigh,
                map_limit: 3,
                reduce_speculative: false,
                locality_wait: Some(Duration::from_millis(250)),
                failures_per_worker: 1,
                skip_max: 7,
                ..Settings::default()
            })
        );
        for (pair, message) in [
            ((PRIORITY, "URGENT"), "VERY_HIGH, HIGH, NORMAL, LOW, VERY_LOW; URGENT is not"),
            ((MAP_LIMIT, "-1"), "mapreduce.job.running.map.limit=-1 cannot be used"),
            ((MAP_SPECULATIVE, "maybe"), "mapreduce.map.speculative=maybe cannot be used"),
        ] {
            let error = parse(&[pair]).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
