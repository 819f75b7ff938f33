//! A job of a thousand maps and a hundred reduces on two workers, all of its map outputs over HTTP: none of the hundred thousand segments
//! may make a daemon or a task take more memory than a small job does, but for what the tasks' own records need.

use std::fs;

use crate::support::memory::Watch;
use crate::support::report::assert_no_panics;
use crate::support::{Cluster, Options, data};

const MAPS: usize = 1000;
const REDUCES: usize = 100;
/// How much more than with a small job a worker, a task and the JobTracker may have. A reduce knows a thousand outputs, and the JobTracker eleven
/// hundred tasks with their counters.
const GROWTH_MAX_KIB: u64 = 24 << 10;

#[test]
fn a_thousand_maps_and_a_hundred_reduces_take_little_more_memory_than_a_few() {
    let mut options = Options::default();
    options.variables.push(("HANNO_NAMENODE_BLOCK_SIZE_MIN", "1024".to_owned()));
    options.variables.push(("HANNO_WORKER_SHARED_OUTPUTS", "false".to_owned()));
    let cluster = Cluster::start(options);
    let text = data::text(12, 4_000_000);
    let input = tempfile::tempdir().unwrap();
    let input = input.path().join("text");
    fs::write(&input, &text).unwrap();
    cluster.dfs(&["-put", input.to_str().unwrap(), "/text"]).ok();

    let expected = data::word_count(&text);
    let run = |name: &str, maps: usize, reduces: usize| {
        let pid = |daemon: &str| cluster.pid(daemon).unwrap();
        let watch = Watch::begin(vec![
            (pid("jobtracker-1"), "jobtracker", "jobtracker's"),
            (pid("worker-1"), "worker", "task"),
            (pid("worker-2"), "worker", "task"),
        ]);
        let split = format!("mapreduce.input.fileinputformat.split.maxsize={}", text.len() / maps);
        let (output, reduces) = (format!("/{name}"), reduces.to_string());
        let args = ["-D", &split, "--reducers", &reduces, "/text", &output];
        let said = cluster.example("wordcount", &args).ok().stderr;
        let most = watch.end();
        let words = cluster.dfs(&["-cat", &format!("{output}/part-*")]).ok().stdout;
        assert!(data::sorted_lines(&words) == expected, "{name}: {said}");
        println!("{maps} maps, {reduces} reduces: KiB at most {most:?}");
        most
    };
    let few = run("few", 10, 2);
    let many = run("many", MAPS, REDUCES);
    assert_eq!(launched(&cluster), [MAPS, REDUCES]);
    for (name, most) in many {
        let grown = most.saturating_sub(few.get(name).copied().unwrap_or_default());
        assert!(grown <= GROWTH_MAX_KIB, "{name}: {grown} KiB more");
    }
    assert_no_panics(&cluster);
}

/// Maps and reduces that the newest job launched.
fn launched(cluster: &Cluster) -> [usize; 2] {
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    let id = list.split_whitespace().find(|word| word.starts_with("job_")).expect("a job");
    ["TOTAL_LAUNCHED_MAPS", "TOTAL_LAUNCHED_REDUCES"].map(|name| {
        let group = "org.apache.hadoop.mapreduce.JobCounter";
        let count = cluster.hanno(&["job", "-counter", id, group, name]).ok().stdout_text();
        count.trim().parse().unwrap()
    })
}
