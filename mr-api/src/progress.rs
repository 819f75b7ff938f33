//! What a driver says while its job runs, on stderr, in Hadoop's words.

use std::io::{IsTerminal, Write, stderr};

use client::job::counters_text;
use protocol::jobs::Counters;

/// Prints progress: lines when the text changes, or one redrawn line on a terminal.
pub(crate) struct Progress {
    quiet: bool,
    terminal: bool,
    last: String,
    drawn: bool,
}

/// Width of a bar on a terminal, characters.
const BAR_WIDTH: usize = 24;

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Progress { quiet, terminal: stderr().is_terminal(), last: String::new(), drawn: false }
    }

    /// A line of its own.
    pub(crate) fn say(&mut self, text: &str) {
        if !self.quiet {
            self.end_line();
            eprintln!("{text}");
        }
    }

    pub(crate) fn start(&mut self, job: &str, map_count: usize, reduce_count: u32) {
        self.say(&format!("Running {job}: {map_count} maps, {reduce_count} reduces"));
    }

    /// Shares from 0 to 1.
    pub(crate) fn update(&mut self, maps: f32, reduces: f32) {
        let percent = |share: f32| (share.clamp(0.0, 1.0) * 100.0) as u32;
        let text = format!("map {}% reduce {}%", percent(maps), percent(reduces));
        if self.quiet || text == self.last {
            return;
        }
        if self.terminal {
            eprint!("\r {} {} {text}  ", bar(maps), bar(reduces));
            // A bar that cannot be drawn is no reason to fail a job.
            let _ = stderr().flush();
            self.drawn = true;
        } else {
            eprintln!(" {text}");
        }
        self.last = text;
    }

    /// The counters of a succeeded job.
    pub(crate) fn finish(&mut self, job: &str, counters: &Counters) {
        self.say(&format!("Job {job} completed successfully"));
        if !self.quiet {
            eprint!("{}", counters_text(counters));
        }
    }

    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprintln!();
        }
    }
}

fn bar(share: f32) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_WIDTH as f32) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_WIDTH - full))
}
