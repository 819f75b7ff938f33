//! Structured log lines on standard error, and levels that can be set while a daemon runs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::Level;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt, reload};

/// Environment variable: what to log, e.g. `debug` or `namenode=debug,info`.
pub const VARIABLE: &str = "HANNO_LOG";
/// From nothing to everything.
const LEVELS: [(&str, LevelFilter); 6] = [
    ("off", LevelFilter::OFF),
    ("error", LevelFilter::ERROR),
    ("warn", LevelFilter::WARN),
    ("info", LevelFilter::INFO),
    ("debug", LevelFilter::DEBUG),
    ("trace", LevelFilter::TRACE),
];
/// Level of loggers that a filter does not name.
const LEVEL_OF_OTHERS: LevelFilter = LevelFilter::ERROR;
/// Most loggers with a level of their own: each event is compared with them.
const SET_MAX: usize = 64;
/// Longest name of a logger.
const NAME_BYTES_MAX: usize = 200;

/// Time after which [`Repeats`] lets the same line through again: one tells that something still waits, and thousands would push out the rest.
const REPEAT_INTERVAL: Duration = Duration::from_secs(60);

/// What was logged last by something that is tried again and again, so that the same line comes once, and then once a minute.
#[derive(Debug, Default)]
pub struct Repeats {
    last: Option<(String, Instant)>,
}

impl Repeats {
    /// True if this is to be logged now.
    pub fn is_due(&mut self, text: &str) -> bool {
        self.is_due_at(text, Instant::now())
    }

    fn is_due_at(&mut self, text: &str, now: Instant) -> bool {
        let is_recent = self.last.as_ref().is_some_and(|(last, at)| {
            last == text && now.saturating_duration_since(*at) < REPEAT_INTERVAL
        });
        if !is_recent {
            self.last = Some((text.to_owned(), now));
        }
        !is_recent
    }
}

/// The running filter.
struct Running {
    handle: reload::Handle<Targets, Registry>,
    /// The filter at the start.
    base: Targets,
    /// The levels set since.
    set: BTreeMap<String, LevelFilter>,
}

impl Running {
    /// Levels set later come last: for one logger the last setting counts.
    fn filter(&self) -> Targets {
        let set = self.set.iter().map(|(logger, level)| (logger.clone(), *level));
        self.base.clone().with_targets(set)
    }
}

static RUNNING: OnceLock<Mutex<Running>> = OnceLock::new();

/// Why a level cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// No such level.
    #[error("Bad Level : {level}; one of off, error, warn, info, debug, trace")]
    Level {
        /// The requested level.
        level: String,
    },
    /// Not the name of a logger.
    #[error("Bad Logger : {logger:?}; a name is made of letters, digits, `_`, `:`, `.` and `-`")]
    Logger {
        /// The requested logger.
        logger: String,
    },
    /// The limit is reached.
    #[error("the levels of {SET_MAX} loggers were set already")]
    TooMany,
    /// Logging has not started, or another subscriber is in use.
    #[error("logging was not started by this program")]
    NotStarted,
}

/// Starts logging. Without [`VARIABLE`], `default` (a level or filter) holds. A filter that does not parse is reported and
/// replaced by `default`.
pub fn start(default: &str) {
    let filter_of_default = || parse(default).expect("a daemon names a level");
    let base = match std::env::var(VARIABLE) {
        Ok(text) => parse(&text).unwrap_or_else(|error| {
            eprintln!("hanno: ignoring {VARIABLE}: {error}");
            filter_of_default()
        }),
        Err(_) => filter_of_default(),
    };
    let (filter, handle) = reload::Layer::new(base.clone());
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    // A second start in one process keeps the first subscriber.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = RUNNING.set(Mutex::new(Running { handle, base, set: BTreeMap::new() }));
    }
}

fn parse(text: &str) -> Result<Targets, String> {
    let filter = Targets::from_str(text).map_err(|error| error.to_string())?;
    if let Some(wrong) = text.split(',').find(|directive| directive.contains('[')) {
        return Err(format!("{wrong}: levels are by module, not by span or field"));
    }
    Ok(match filter.default_level() {
        Some(_) => filter,
        None => filter.with_default(LEVEL_OF_OTHERS),
    })
}

/// The level of `logger` (a module, e.g. `namenode::server`).
pub fn level(logger: &str) -> &'static str {
    RUNNING.get().map_or(LEVELS[0].0, |running| effective(&running.lock().filter(), logger))
}

/// The level that `filter` has for `logger`: that of the longest matching prefix.
fn effective(filter: &Targets, logger: &str) -> &'static str {
    let is_logged = |level: &LevelFilter| {
        level.into_level().is_none_or(|level: Level| filter.would_enable(logger, &level))
    };
    LEVELS.iter().rfind(|(_, level)| is_logged(level)).map_or(LEVELS[0].0, |(name, _)| name)
}

/// Sets the level of `logger` until the daemon ends.
///
/// # Errors
/// [`LevelError`].
pub fn set_level(logger: &str, level: &str) -> Result<(), LevelError> {
    let level = level.to_lowercase();
    let Some((_, level)) = LEVELS.into_iter().find(|(name, _)| *name == level) else {
        return Err(LevelError::Level { level });
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte);
    if logger.is_empty() || logger.len() > NAME_BYTES_MAX || !logger.bytes().all(is_name) {
        return Err(LevelError::Logger { logger: logger.chars().take(NAME_BYTES_MAX).collect() });
    }
    let mut running = RUNNING.get().ok_or(LevelError::NotStarted)?.lock();
    if running.set.len() >= SET_MAX && !running.set.contains_key(logger) {
        return Err(LevelError::TooMany);
    }
    running.set.insert(logger.to_owned(), level);
    // It fails only if the subscriber is gone, and the subscriber lives as long as the program.
    running.handle.reload(running.filter()).map_err(|_| LevelError::NotStarted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides_and_others_are_heard_when_they_fail() {
        let filter = parse("namenode=warn,info,namenode::http=off").unwrap();
        for (logger, level) in
            [("namenode::server", "warn"), ("namenode::http", "off"), ("datanode", "info")]
        {
            assert_eq!(effective(&filter, logger), level, "{logger}");
        }
        assert_eq!(effective(&parse("namenode=warn").unwrap(), "datanode"), "error");
        for wrong in ["namenode=loud", "x[span]=trace", "x[{field}]=trace", "a=b=c"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_line_comes_once_a_minute() {
        let mut repeats = Repeats::default();
        let begin = Instant::now();
        let mut is_due =
            |text, second| repeats.is_due_at(text, begin + Duration::from_secs(second));
        assert!(is_due("a", 0) && !is_due("a", 1) && !is_due("a", 59) && is_due("a", 60));
        assert!(!is_due("a", 119) && is_due("b", 119) && is_due("a", 119));
    }

    #[test]
    fn a_level_changes_what_is_heard() {
        start("info");
        assert_eq!(level("log_test"), "info");
        assert!(!tracing::enabled!(target: "log_test", Level::DEBUG));
        set_level("log_test", "DEBUG").unwrap();
        assert_eq!(level("log_test"), "debug");
        assert!(tracing::enabled!(target: "log_test", Level::DEBUG));
        set_level("log_test", "warn").unwrap();
        assert!(!tracing::enabled!(target: "log_test", Level::INFO));
        for (logger, wrong) in [("a b", "info"), ("", "info"), ("a,b=trace", "info"), ("a", "loud")]
        {
            assert!(set_level(logger, wrong).is_err(), "{logger} {wrong}");
        }
        assert_eq!(level("a"), "info");
    }
}
