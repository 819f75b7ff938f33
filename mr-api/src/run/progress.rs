//! The driver's progress messages on stderr while its job runs, in Hadoop's words.

use std::collections::BTreeSet;
use std::io::{IsTerminal, stderr};

use client::job::counters_text;
use mr_model::runner::{draw, say};
use protocol::JobId;
use protocol::jobs::{AttemptReport, Counters, JobReport, JobState};

/// How a driver's messages look.
#[derive(Clone, Copy, Default, Debug)]
pub enum Voice {
    /// Lines for people, and a bar on a terminal.
    #[default]
    Plain,
    /// Lines of a log, as Hadoop's own drivers write them: programs parse those. The function makes the beginning of a line of this level.
    Log(fn(&str, Speaker) -> String),
}

/// Who writes a line of the log, in Hadoop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speaker {
    /// What knows a job that was submitted.
    Job,
    /// What submits it.
    JobSubmitter,
    /// What YARN is asked through.
    YarnClient,
    /// Hadoop Streaming.
    StreamJob,
}

/// Prints progress: lines when the text changes, or one redrawn line on a terminal.
pub(crate) struct Progress {
    quiet: bool,
    voice: Voice,
    terminal: bool,
    last: String,
    drawn: bool,
    /// Failed attempts that it has named, and how many there were then.
    failed: BTreeSet<String>,
    failed_count: u32,
}

/// Width of a bar on a terminal, characters.
const BAR_WIDTH: usize = 24;

impl Progress {
    pub(crate) fn new(quiet: bool, voice: Voice) -> Self {
        Progress {
            quiet,
            voice,
            terminal: matches!(voice, Voice::Plain) && stderr().is_terminal(),
            last: String::new(),
            drawn: false,
            failed: BTreeSet::new(),
            failed_count: 0,
        }
    }

    /// Prints a line of its own.
    pub(crate) fn say(&mut self, text: &str) {
        self.say_as(Speaker::Job, text);
    }

    fn say_as(&mut self, who: Speaker, text: &str) {
        if !self.quiet {
            self.end_line();
            say(format_args!("{}{text}\n", self.lead(who)));
        }
    }

    fn lead(&self, who: Speaker) -> String {
        match self.voice {
            Voice::Plain => String::new(),
            Voice::Log(lead) => lead("INFO", who),
        }
    }

    /// A job on a cluster, with its page. `chosen_later`: the number of reduces is an upper limit.
    pub(crate) fn start(&mut self, (id, page): (JobId, &str), maps: usize, reduces: (u32, bool)) {
        match self.voice {
            Voice::Plain => self.start_plain(&format!("job: {id}"), maps, reduces),
            Voice::Log(_) => {
                self.say_as(Speaker::JobSubmitter, &format!("number of splits:{maps}"));
                let application = id.to_string().replacen("job_", "application_", 1);
                self.say_as(Speaker::YarnClient, &format!("Submitted application {application}"));
                self.say(&format!("The url to track the job: {page}"));
                self.say(&format!("Running job: {id}"));
            }
        }
    }

    /// A job of this process.
    pub(crate) fn start_local(&mut self, number: u32, name: &str, maps: usize, reduces: u32) {
        self.start_plain(&format!("local job {number} `{name}`"), maps, (reduces, false));
    }

    fn start_plain(&mut self, job: &str, maps: usize, (reduces, chosen_later): (u32, bool)) {
        let most = if chosen_later { "up to " } else { "" };
        self.say(&format!("Running {job}: {maps} maps, {most}{reduces} reduces"));
    }

    /// How many attempts have failed, if it names them and there are more than before.
    pub(crate) fn new_failures(&self, report: &JobReport) -> Option<u32> {
        let count = report.maps.failed_attempts + report.reduces.failed_attempts;
        let names_them = !self.quiet && matches!(self.voice, Voice::Log(_));
        (names_them && count > self.failed_count).then_some(count)
    }

    /// Names failed attempts, each once; `count` of them were known when they were asked for.
    pub(crate) fn name_failures<'a>(
        &mut self,
        count: u32,
        failed: impl Iterator<Item = &'a AttemptReport>,
    ) {
        self.failed_count = count;
        for AttemptReport { id, diagnostics, .. } in failed {
            if self.failed.insert(id.clone()) {
                self.say(&format!("Task Id : {id}, Status : FAILED\nError: {diagnostics}"));
            }
        }
    }

    /// How far a job on a cluster is. A terminal also shows how much its maps read.
    pub(crate) fn report(&mut self, report: &JobReport) {
        let JobReport { map_progress, reduce_progress, .. } = *report;
        let rates = match (report.read_records_per_s, report.read_bytes_per_s) {
            (0, 0) => String::new(),
            (records, bytes) => format!(" · {} records/s, {}/s", short(records), size(bytes)),
        };
        self.draw(map_progress, reduce_progress, if self.terminal { &rates } else { "" });
    }

    /// Shares from 0 to 1.
    pub(crate) fn update(&mut self, maps: f32, reduces: f32) {
        self.draw(maps, reduces, "");
    }

    fn draw(&mut self, maps: f32, reduces: f32, rates: &str) {
        let percent = |share: f32| (share.clamp(0.0, 1.0) * 100.0) as u32;
        let text = format!("map {}% reduce {}%{rates}", percent(maps), percent(reduces));
        if self.quiet || text == self.last {
            return;
        }
        if self.terminal {
            // The rest of a longer line goes.
            draw(&format!("\r {} {} {text}\x1b[K", bar(maps), bar(reduces)));
            self.drawn = true;
        } else {
            say(format_args!("{} {text}\n", self.lead(Speaker::Job)));
        }
        self.last = text;
    }

    /// The end of a job on a cluster. The caller reports why it failed.
    pub(crate) fn end(&mut self, JobReport { id, state, diagnostics, counters, .. }: &JobReport) {
        match (self.voice, state) {
            (_, JobState::Succeeded) => self.finish(id, counters),
            (Voice::Plain, _) => self.end_line(),
            (Voice::Log(_), _) => {
                let state = if *state == JobState::Killed { "KILLED" } else { "FAILED" };
                self.say(&format!("Job {id} failed with state {state} due to: {diagnostics}"));
                self.say(counters_text(counters).trim_end());
            }
        }
    }

    /// The counters of a succeeded job.
    pub(crate) fn finish(&mut self, job: &str, counters: &Counters) {
        self.say(&format!("Job {job} completed successfully"));
        self.say(counters_text(counters).trim_end());
    }

    pub(crate) fn end_line(&mut self) {
        if std::mem::take(&mut self.drawn) {
            say(format_args!("\n"));
        }
    }
}

/// A number in few characters: `999`, `12.3k`, `4.5M`.
fn short(number: u64) -> String {
    let scaled = |unit: f64, name| format!("{:.1}{name}", number as f64 / unit);
    match number {
        0..10_000 => number.to_string(),
        10_000..1_000_000 => scaled(1e3, "k"),
        1_000_000..1_000_000_000 => scaled(1e6, "M"),
        _ => scaled(1e9, "G"),
    }
}

/// Bytes in binary units.
fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut amount, mut unit) = (bytes as f64, 0);
    while amount >= 1024.0 && unit + 1 < units.len() {
        (amount, unit) = (amount / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{amount:.1} {}", units[unit]) }
}

fn bar(share: f32) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_WIDTH as f32) as usize;
    format!("[{}{}]", "#".repeat(full), ".".repeat(BAR_WIDTH - full))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Marks the test's child process, which prints.
    const CHILD: &str = "HANNO_TEST_PROGRESS_CHILD";

    #[test]
    fn nobody_has_to_listen() {
        if std::env::var_os(CHILD).is_some() {
            let mut progress = Progress::new(false, Voice::Plain);
            progress.start_local(1, "job", 1, 1);
            progress.update(0.5, 0.0);
            progress.terminal = true;
            progress.update(1.0, 0.5);
            return progress.finish("job", &Counters::default());
        }
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "run::progress::tests::nobody_has_to_listen", "--nocapture"])
            .env(CHILD, "1")
            .stderr(writer)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
}
