//! What a driver says while its job runs, on stderr, in Hadoop's words.

use std::io::{IsTerminal, Write, stderr};

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

/// Counters by group, with the names people know.
pub(crate) fn counters_text(counters: &Counters) -> String {
    let count: usize = counters.0.values().map(|names| names.len()).sum();
    let mut text = format!("Counters: {count}\n");
    for (group, names) in &counters.0 {
        text.push_str(&format!("\t{}\n", display_name(group)));
        for (name, value) in names {
            text.push_str(&format!("\t\t{}={value}\n", display_name(name)));
        }
    }
    text
}

/// Hadoop's display name of a group or counter; the name itself if it has none.
fn display_name(name: &str) -> &str {
    DISPLAY_NAMES.iter().find(|(known, _)| *known == name).map_or(name, |(_, display)| display)
}

const DISPLAY_NAMES: [(&str, &str); 34] = [
    ("org.apache.hadoop.mapreduce.TaskCounter", "Map-Reduce Framework"),
    ("org.apache.hadoop.mapreduce.JobCounter", "Job Counters"),
    ("org.apache.hadoop.mapreduce.FileSystemCounter", "File System Counters"),
    ("org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter", "File Input Format Counters"),
    (
        "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
        "File Output Format Counters",
    ),
    ("MAP_INPUT_RECORDS", "Map input records"),
    ("MAP_OUTPUT_RECORDS", "Map output records"),
    ("MAP_OUTPUT_BYTES", "Map output bytes"),
    ("MAP_OUTPUT_MATERIALIZED_BYTES", "Map output materialized bytes"),
    ("SPLIT_RAW_BYTES", "Input split bytes"),
    ("COMBINE_INPUT_RECORDS", "Combine input records"),
    ("COMBINE_OUTPUT_RECORDS", "Combine output records"),
    ("REDUCE_INPUT_GROUPS", "Reduce input groups"),
    ("REDUCE_SHUFFLE_BYTES", "Reduce shuffle bytes"),
    ("REDUCE_INPUT_RECORDS", "Reduce input records"),
    ("REDUCE_OUTPUT_RECORDS", "Reduce output records"),
    ("SPILLED_RECORDS", "Spilled Records"),
    ("SHUFFLED_MAPS", "Shuffled Maps"),
    ("FAILED_SHUFFLE", "Failed Shuffles"),
    ("MERGED_MAP_OUTPUTS", "Merged Map outputs"),
    ("CPU_MILLISECONDS", "CPU time spent (ms)"),
    ("PHYSICAL_MEMORY_BYTES", "Physical memory (bytes) snapshot"),
    ("BYTES_READ", "Bytes Read"),
    ("BYTES_WRITTEN", "Bytes Written"),
    ("NUM_FAILED_MAPS", "Failed map tasks"),
    ("NUM_FAILED_REDUCES", "Failed reduce tasks"),
    ("NUM_KILLED_MAPS", "Killed map tasks"),
    ("NUM_KILLED_REDUCES", "Killed reduce tasks"),
    ("TOTAL_LAUNCHED_MAPS", "Launched map tasks"),
    ("TOTAL_LAUNCHED_REDUCES", "Launched reduce tasks"),
    ("DATA_LOCAL_MAPS", "Data-local map tasks"),
    ("RACK_LOCAL_MAPS", "Rack-local map tasks"),
    ("OTHER_LOCAL_MAPS", "Other local map tasks"),
    ("LOCAL_SHUFFLE_BYTES", "Shuffle bytes opened directly"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_read_as_hadoops() {
        let mut counters = Counters::default();
        counters.add("org.apache.hadoop.mapreduce.TaskCounter", "MAP_INPUT_RECORDS", 2);
        counters.add("Mine", "Bad lines", 1);
        assert_eq!(
            counters_text(&counters),
            "Counters: 2\n\tMine\n\t\tBad lines=1\n\tMap-Reduce Framework\n\t\tMap input records=2\n"
        );
    }
}
