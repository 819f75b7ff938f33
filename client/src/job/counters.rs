//! Counters in words: Hadoop's display names, and a lookup of a counter under any of its names.
//!
//! Invariant: only the engine's own counters are translated; counters of users keep their names, in any group.

use protocol::counters::{FILE_SYSTEM_GROUP, JOB_GROUP};
use protocol::jobs::Counters;

/// A group of the engine's counters.
struct Group {
    /// As tasks and the JobTracker name it.
    name: &'static str,
    /// As people see it.
    display: &'static str,
    /// Name and display name of its counters.
    counters: &'static [(&'static str, &'static str)],
}

const GROUPS: [Group; 7] = [
    Group {
        name: JOB_GROUP,
        display: "Job Counters",
        counters: &[
            ("NUM_FAILED_MAPS", "Failed map tasks"),
            ("NUM_FAILED_REDUCES", "Failed reduce tasks"),
            ("NUM_KILLED_MAPS", "Killed map tasks"),
            ("NUM_KILLED_REDUCES", "Killed reduce tasks"),
            ("TOTAL_LAUNCHED_MAPS", "Launched map tasks"),
            ("TOTAL_LAUNCHED_REDUCES", "Launched reduce tasks"),
            ("DATA_LOCAL_MAPS", "Data-local map tasks"),
            ("RACK_LOCAL_MAPS", "Rack-local map tasks"),
            ("OTHER_LOCAL_MAPS", "Other local map tasks"),
            ("SLOTS_MILLIS_MAPS", "Total time spent by all maps in occupied slots (ms)"),
            ("SLOTS_MILLIS_REDUCES", "Total time spent by all reduces in occupied slots (ms)"),
            ("MILLIS_MAPS", "Total time spent by all map tasks (ms)"),
            ("MILLIS_REDUCES", "Total time spent by all reduce tasks (ms)"),
            ("VCORES_MILLIS_MAPS", "Total vcore-milliseconds taken by all map tasks"),
            ("VCORES_MILLIS_REDUCES", "Total vcore-milliseconds taken by all reduce tasks"),
        ],
    },
    Group {
        name: "org.apache.hadoop.mapreduce.TaskCounter",
        display: "Map-Reduce Framework",
        counters: &[
            ("MAP_INPUT_RECORDS", "Map input records"),
            ("MAP_SKIPPED_RECORDS", "Map skipped records"),
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
            ("GC_TIME_MILLIS", "GC time elapsed (ms)"),
            ("CPU_MILLISECONDS", "CPU time spent (ms)"),
            ("PHYSICAL_MEMORY_BYTES", "Physical memory (bytes) snapshot"),
            ("VIRTUAL_MEMORY_BYTES", "Virtual memory (bytes) snapshot"),
        ],
    },
    Group {
        name: FILE_SYSTEM_GROUP,
        display: "File System Counters",
        counters: &[
            ("HDFS_BYTES_READ", "HDFS: Number of bytes read"),
            ("HDFS_BYTES_WRITTEN", "HDFS: Number of bytes written"),
        ],
    },
    Group {
        name: "org.apache.hadoop.mapreduce.lib.input.FileInputFormatCounter",
        display: "File Input Format Counters",
        counters: &[("BYTES_READ", "Bytes Read")],
    },
    Group {
        name: "org.apache.hadoop.mapreduce.lib.output.FileOutputFormatCounter",
        display: "File Output Format Counters",
        counters: &[("BYTES_WRITTEN", "Bytes Written")],
    },
    Group {
        name: "org.apache.hadoop.tools.mapred.CopyMapper$Counter",
        display: "DistCp Counters",
        counters: &[
            ("COPY", "Files Copied"),
            ("DIR_COPY", "Directories Copied"),
            ("SKIP", "Files Skipped"),
            ("FAIL", "Files Failed"),
            ("BYTESCOPIED", "Bytes Copied"),
            ("BYTESEXPECTED", "Bytes Expected"),
            ("BYTESFAILED", "Bytes Failed"),
            ("BYTESSKIPPED", "Bytes Skipped"),
            ("DELETED", "Files Deleted"),
        ],
    },
    Group {
        name: "Engine",
        display: "Engine",
        counters: &[("LOCAL_SHUFFLE_BYTES", "Shuffle bytes opened directly")],
    },
];

/// All counters by group, as Hadoop's tools print them.
pub fn counters_text(counters: &Counters) -> String {
    let count: usize = counters.0.values().map(|names| names.len()).sum();
    let mut text = format!("Counters: {count}\n");
    for (group, names) in &counters.0 {
        text.push_str(&format!("\t{}\n", group_display(group)));
        for (name, value) in names {
            text.push_str(&format!("\t\t{}={value}\n", counter_display(group, name)));
        }
    }
    text
}

/// One counter under any of its and its group's names; 0 if it was never counted.
pub fn counter_value(counters: &Counters, group: &str, name: &str) -> u64 {
    let wanted = counter_display(group, name);
    counters
        .0
        .iter()
        .filter(|(known, _)| same(group_display(known), group_display(group)))
        .flat_map(|(group, names)| names.iter().map(move |counter| (group, counter)))
        .find(|(group, (known, _))| same(counter_display(group, known), wanted))
        .map_or(0, |(_, (_, value))| *value)
}

fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name || same(group.display, name))
}

fn group_display(name: &str) -> &str {
    group(name).map_or(name, |group| group.display)
}

fn counter_display<'a>(group_name: &str, name: &'a str) -> &'a str {
    group(group_name)
        .and_then(|group| group.counters.iter().find(|(known, _)| *known == name))
        .map_or(name, |(_, display)| display)
}

/// Names are the same if their letters and digits are.
fn same(left: &str, right: &str) -> bool {
    letters(left).eq(letters(right))
}

fn letters(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "org.apache.hadoop.mapreduce.TaskCounter";

    fn sample() -> Counters {
        let mut counters = Counters::default();
        counters.add(TASK, "MAP_INPUT_RECORDS", 7);
        counters.add(TASK, "SPILLED_RECORDS", 4);
        counters.add("org.apache.hadoop.mapreduce.JobCounter", "TOTAL_LAUNCHED_MAPS", 2);
        counters.add("Mine", "Bad lines", 3);
        counters.add("Mine", "MAP_INPUT_RECORDS", 9);
        counters
    }

    #[test]
    fn counters_read_as_hadoops() {
        assert_eq!(
            counters_text(&sample()),
            "Counters: 5\n\tMine\n\t\tBad lines=3\n\t\tMAP_INPUT_RECORDS=9\n\
             \tJob Counters\n\t\tLaunched map tasks=2\n\
             \tMap-Reduce Framework\n\t\tMap input records=7\n\t\tSpilled Records=4\n"
        );
    }

    #[test]
    fn counters_have_several_names() {
        let counters = sample();
        for (group, name, value) in [
            (TASK, "MAP_INPUT_RECORDS", 7),
            (TASK, "Map input records", 7),
            ("Map-Reduce Framework", "Map input records", 7),
            ("Map-Reduce Framework", "MAP_INPUT_RECORDS", 7),
            ("map-reduce framework", "Spilled records", 4),
            ("org.apache.hadoop.mapreduce.JobCounter", "TOTAL_LAUNCHED_MAPS", 2),
            ("Job Counters ", "Launched map tasks", 2),
            ("Mine", "Bad lines", 3),
            ("Mine", "MAP_INPUT_RECORDS", 9),
            ("Mine", "Good lines", 0),
            ("Other", "Bad lines", 0),
        ] {
            assert_eq!(counter_value(&counters, group, name), value, "{group} {name}");
        }
    }

    #[test]
    fn names_lead_to_one_counter() {
        for (index, group) in GROUPS.iter().enumerate() {
            for other in &GROUPS[index + 1..] {
                assert!(!same(group.display, other.display), "{}", other.name);
            }
            for (index, (name, display)) in group.counters.iter().enumerate() {
                for (other, other_display) in &group.counters[index + 1..] {
                    assert!(name != other && !same(display, other_display), "{other}");
                }
            }
        }
    }
}
