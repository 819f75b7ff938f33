//! Structured log lines on standard error, and levels that can be set while a daemon runs.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use parking_lot::Mutex;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

/// Environment variable: what to log, e.g. `debug` or `namenode=debug,info`.
pub const VARIABLE: &str = "HANNO_LOG";
/// Names of levels, from nothing to everything.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
/// Loggers whose level was set at most: each event is compared with them.
const SET_MAX: usize = 64;
/// Longest name of a logger.
const NAME_BYTES_MAX: usize = 200;

/// The running filter.
struct Running {
    handle: reload::Handle<EnvFilter, Registry>,
    /// What it was started with.
    base: String,
    /// What was set since: logger, level.
    set: BTreeMap<String, String>,
}

static RUNNING: OnceLock<Mutex<Running>> = OnceLock::new();

/// Why a level cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LevelError {
    /// No such level.
    #[error("Bad Level : {level}; one of off, error, warn, info, debug, trace")]
    Level {
        /// What was asked for.
        level: String,
    },
    /// No name of a logger.
    #[error("Bad Logger : {logger:?}; a name is made of letters, digits, `_`, `:`, `.` and `-`")]
    Logger {
        /// What was asked for.
        logger: String,
    },
    /// The limit is reached.
    #[error("the levels of {SET_MAX} loggers were set already")]
    TooMany,
    /// Logging has not begun, or not here.
    #[error("logging was not started by this program")]
    NotStarted,
}

/// Starts logging. Without [`VARIABLE`], `default` (a level or filter) holds. A filter that does not parse is reported and
/// replaced by `default`.
pub fn start(default: &str) {
    let base = match std::env::var(VARIABLE) {
        Ok(text) => match EnvFilter::try_new(&text) {
            Ok(_) => text,
            Err(error) => {
                eprintln!("hanno: ignoring {VARIABLE}: {error}");
                default.to_owned()
            }
        },
        Err(_) => default.to_owned(),
    };
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&base));
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    // A second start in one process keeps the first subscriber.
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = RUNNING.set(Mutex::new(Running { handle, base, set: BTreeMap::new() }));
    }
}

/// The level at which `logger` (a module, e.g. `namenode::server`) is heard.
pub fn level(logger: &str) -> String {
    match RUNNING.get() {
        Some(running) => {
            let running = running.lock();
            effective(&filter_of(&running.base, &running.set), logger).to_owned()
        }
        None => LEVELS[0].to_owned(),
    }
}

/// Sets it until the daemon ends.
///
/// # Errors
/// [`LevelError`].
pub fn set_level(logger: &str, level: &str) -> Result<(), LevelError> {
    let level = level.to_lowercase();
    if !LEVELS.contains(&level.as_str()) {
        return Err(LevelError::Level { level });
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_:.-".contains(&byte);
    if logger.is_empty() || logger.len() > NAME_BYTES_MAX || !logger.bytes().all(is_name) {
        return Err(LevelError::Logger { logger: logger.chars().take(NAME_BYTES_MAX).collect() });
    }
    let mut running = RUNNING.get().ok_or(LevelError::NotStarted)?.lock();
    if running.set.len() >= SET_MAX && !running.set.contains_key(logger) {
        return Err(LevelError::TooMany);
    }
    let former = running.set.insert(logger.to_owned(), level);
    let filter = EnvFilter::try_new(filter_of(&running.base, &running.set));
    let reloaded =
        filter.map_err(drop).and_then(|filter| running.handle.reload(filter).map_err(drop));
    reloaded.map_err(|()| {
        match former {
            Some(level) => running.set.insert(logger.to_owned(), level),
            None => running.set.remove(logger),
        };
        LevelError::Logger { logger: logger.to_owned() }
    })
}

/// What was set comes last: for one logger the last word counts.
fn filter_of(base: &str, set: &BTreeMap<String, String>) -> String {
    let mut filter = base.to_owned();
    for (logger, level) in set {
        filter.push_str(&format!(",{logger}={level}"));
    }
    filter
}

/// The level that `filter` has for `logger`: that of the longest name that begins it.
fn effective<'a>(filter: &'a str, logger: &str) -> &'a str {
    let mut found = (0, "error");
    for directive in filter.split(',').map(str::trim).filter(|text| !text.contains('[')) {
        let (name, level) = directive.split_once('=').unwrap_or(("", directive));
        let is_level = LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
        if is_level && logger.starts_with(name) && name.len() >= found.0 {
            found = (name.len(), level);
        }
    }
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_name_decides_and_the_last_word_counts() {
        let set = BTreeMap::from([
            ("namenode".to_owned(), "debug".to_owned()),
            ("namenode::http".to_owned(), "off".to_owned()),
        ]);
        let filter = filter_of("namenode=warn,info,x[span]=trace", &set);
        for (logger, level) in [
            ("namenode::server", "debug"),
            ("namenode::http", "off"),
            ("datanode", "info"),
            ("x", "info"),
        ] {
            assert_eq!(effective(&filter, logger), level, "{logger}");
        }
        assert_eq!(effective("namenode=warn", "datanode"), "error");
    }

    #[test]
    fn a_level_changes_what_is_heard() {
        start("info");
        assert_eq!(level("log_test"), "info");
        assert!(!tracing::enabled!(target: "log_test", tracing::Level::DEBUG));
        set_level("log_test", "DEBUG").unwrap();
        assert_eq!(level("log_test"), "debug");
        assert!(tracing::enabled!(target: "log_test", tracing::Level::DEBUG));
        set_level("log_test", "warn").unwrap();
        assert!(!tracing::enabled!(target: "log_test", tracing::Level::INFO));
        for (logger, wrong) in [("a b", "info"), ("", "info"), ("a,b=trace", "info"), ("a", "loud")]
        {
            assert!(set_level(logger, wrong).is_err(), "{logger} {wrong}");
        }
        assert_eq!(level("a"), "info");
    }
}
