//! Compares the table of properties with the list of all that Hadoop 3.4 has for jobs and streaming, so no name can go without a class.

use std::collections::BTreeSet;

use protocol::property::{Class, row};

/// One name a line, below headings.
const HADOOPS: &str = include_str!("../testdata/hadoop-properties.txt");
/// Least number of names in it: otherwise nobody would notice names lost from the file.
const COUNT_MIN: usize = 700;

#[test]
fn every_property_of_hadoops_has_a_class() {
    let lines = HADOOPS.lines().filter(|line| !line.starts_with('#'));
    let names: BTreeSet<&str> = lines.collect();
    assert!(names.len() >= COUNT_MIN, "{} names", names.len());
    let missing: Vec<&&str> = names.iter().filter(|name| row(name).is_none()).collect();
    assert!(missing.is_empty(), "without a row in the table: {missing:#?}");
}

#[test]
fn names_before_and_after_a_change_are_of_one_class() {
    for (former, present) in [
        ("mapred.reduce.tasks", "mapreduce.job.reduces"),
        ("mapred.job.tracker.handler.count", "mapreduce.jobtracker.handler.count"),
        ("mapred.tasktracker.map.tasks.maximum", "mapreduce.tasktracker.map.tasks.maximum"),
        ("mapred.jdbc.input.bounding.query", "mapreduce.jdbc.url"),
        ("mapred.max.map.failures.percent", "mapreduce.map.failures.maxpercent"),
    ] {
        let class = |name: &str| match row(name).unwrap().class {
            Class::Honoured { .. } => "honoured",
            Class::Ignored => "ignored",
            Class::Refused { .. } => "refused",
        };
        assert_eq!(class(former), class(present), "{former} {present}");
    }
}
