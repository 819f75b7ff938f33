//! Structured log lines on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Environment variable: what to log, e.g. `debug` or `namenode=debug,info`.
pub const VARIABLE: &str = "HANNO_LOG";

/// Starts logging. Without [`VARIABLE`], `default` (a level or filter) holds. A filter that does not parse is reported and
/// replaced by `default`.
pub fn start(default: &str) {
    let filter = match std::env::var(VARIABLE) {
        Ok(text) => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            eprintln!("hanno: ignoring {VARIABLE}: {error}");
            EnvFilter::new(default)
        }),
        Err(_) => EnvFilter::new(default),
    };
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    // A second start in one process keeps the first subscriber.
    let _ = lines.with_ansi(io::stderr().is_terminal()).try_init();
}
