//! The figures of a bench, printed as they arrive or as JSON at the end.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;

use crate::output::{print_json, say};

/// One figure.
#[derive(Debug, Serialize)]
struct Figure {
    name: &'static str,
    value: f64,
    unit: &'static str,
}

/// All figures of a run.
pub(super) struct Figures {
    json: bool,
    all: Vec<Figure>,
}

impl Figures {
    pub(super) fn new(json: bool) -> Self {
        if json {
            crate::output::only_json();
        }
        Figures { json, all: Vec::new() }
    }

    pub(super) fn add(&mut self, name: &'static str, value: f64, unit: &'static str) {
        if !self.json {
            say!("{}", line(name, value, unit));
        }
        self.all.push(Figure { name, value, unit });
    }

    /// Prints them, unless they are already printed.
    pub(super) fn finish(&self) -> Result<()> {
        if self.json {
            print_json(&self.all)?;
        }
        Ok(())
    }
}

fn line(name: &str, value: f64, unit: &str) -> String {
    match value {
        value if value.abs() >= 1000.0 => format!("{name:<46} {value:>12.0} {unit}"),
        _ => format!("{name:<46} {value:>12.2} {unit}"),
    }
}

/// Creates the directory of a bench's daemons, which must be empty, and prepares for many sockets.
pub(super) fn prepare(data: &Path) -> Result<()> {
    let is_used = data.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if is_used {
        bail!("{} is not empty: the bench makes a cluster of its own", data.display());
    }
    std::fs::create_dir_all(data).with_context(|| format!("create {}", data.display()))?;
    sys::host::raise_open_files_limit();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(line("a", 1234.5, "x"), format!("{:<46} {:>12} x", "a", "1234"));
        assert_eq!(line("a", 1.234, "x"), format!("{:<46} {:>12} x", "a", "1.23"));
    }
}
