//! Pages of what is large: a job of 100,000 tasks, and a directory of a million files. Each must appear at once, and drawing it many times
//! must not take memory. A command of its own (see docs/testing.md), because the job alone takes minutes.

use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use super::chromium::Browser;
use crate::support::cluster::{fresh_directory, hanno_binary};
use crate::support::{Cluster, Options, Outcome};

/// Tasks of the job; one line of input each.
const TASKS: usize = 100_000;
/// Files of the benchmark that fills the namespace: half of them are in one directory.
const FILES: usize = 2_000_000;
/// Until a page shows its first content, milliseconds, on a machine that does nothing else.
const FIRST_PAINT_MAX_MS: f64 = 300.0;
/// How often each page is drawn to see what that leaves in memory.
const DRAWN: usize = 20;
/// What drawing pages may leave in a daemon, bytes: room for what an allocator keeps.
const LEFT_MAX_BYTES: u64 = 32 << 20;

/// What is measured, and of whom.
struct Viewer<'a> {
    browser: &'a Browser,
    cluster: &'a Cluster,
}

impl Viewer<'_> {
    /// Opens a page of a daemon several times; the first paint of each time must be early.
    fn look(&self, daemon: &str, what: &str, url: &str) {
        let mut paints: Vec<f64> = (0..DRAWN).map(|_| self.first_paint(url)).collect();
        paints.sort_by(f64::total_cmp);
        // By now a daemon has done what it does after its start.
        let before = self.memory(daemon);
        (0..DRAWN).for_each(|_| self.browser.open(url));
        let after = self.memory(daemon);
        let (median, last) = (paints[DRAWN / 2], paints[DRAWN - 1]);
        println!(
            "{what}: first paint {median:.0} ms, at most {last:.0}; {daemon} {} -> {} MiB",
            before >> 20,
            after >> 20
        );
        self.browser.assert_quiet(what);
        assert!(median < FIRST_PAINT_MAX_MS, "{what}: {paints:?}");
        assert!(after.saturating_sub(before) < LEFT_MAX_BYTES, "{what}: {before} -> {after}");
    }

    fn first_paint(&self, url: &str) -> f64 {
        self.browser.open(url);
        let entry = "performance.getEntriesByName('first-contentful-paint')[0]";
        self.browser.wait("the first paint", entry);
        self.browser.script(&format!("return {entry}.startTime")).as_f64().unwrap()
    }

    fn memory(&self, daemon: &str) -> u64 {
        let pid = self.cluster.pid(daemon).unwrap();
        sys::holding::memory_bytes(&BTreeSet::from([pid]), None).unwrap()
    }
}

#[test]
#[ignore = "takes minutes; docs/testing.md names the command"]
fn pages_of_large_things_appear_at_once() {
    let Some(browser) = Browser::start() else { return };
    let directory = fresh_directory();
    fill_namespace(&directory);
    let mut options = Options { slots: 2, ..Options::default() };
    // The blocks of the million files are nowhere.
    options.variables.push(("HANNO_NAMENODE_SAFE_MODE_THRESHOLD", "0".to_owned()));
    let cluster = Cluster::start_in(directory, options);
    let viewer = Viewer { browser: &browser, cluster: &cluster };
    let browse = format!("{}/browse?path=/bench/large", cluster.namenode);
    viewer.look("namenode-1", "a directory of a million files", &browse);

    let input = cluster.directory.join("lines");
    let lines: String = (0..TASKS).map(|line| format!("{line:05} a line\n")).collect();
    fs::write(&input, &lines).unwrap();
    cluster.dfs(&["-put", input.to_str().unwrap(), "/lines"]).ok();
    let split = format!("mapreduce.input.fileinputformat.split.maxsize={}", lines.len() / TASKS);
    let begin = Instant::now();
    cluster.example("wordcount", &["--quiet", "-D", &split, "/lines", "/counts"]).ok();
    println!("{TASKS} tasks took {:.0?}", begin.elapsed());
    let list = cluster.hanno(&["job", "-list", "all"]).ok().stdout_text();
    let job = list.split_whitespace().find(|word| word.starts_with("job_")).unwrap();
    let links = cluster.hanno(&["admin", "open"]).ok().stdout_text();
    let link = links.lines().find_map(|line| line.strip_prefix("JobTracker")).unwrap().trim();
    browser.open(link);
    browser.wait_text("tester");
    let page = format!("{}/jobs/{job}", cluster.jobtracker);
    viewer.look("jobtracker-1", "the job", &page);
    for path in linked(&browser, &page) {
        viewer.look("jobtracker-1", &path, &format!("{}{path}", cluster.jobtracker));
    }
    viewer.look("jobtracker-1", "the overview", &cluster.jobtracker);
}

/// Pages of the job that its page links to, each kind once.
fn linked(browser: &Browser, page: &str) -> Vec<String> {
    browser.open(page);
    let all = browser
        .script("return [...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))");
    let all = all.as_array().unwrap().iter().filter_map(|link| link.as_str());
    let prefix = page.find("/jobs/").map(|at| &page[at..]).unwrap();
    let mut kinds: Vec<String> = Vec::new();
    for link in all.filter(|link| link.starts_with(prefix) && !link.ends_with(".json")) {
        let kind = link.split(['?', '#']).next().unwrap_or(link);
        let known = kinds.iter().any(|known| known.split(['?', '#']).next() == Some(kind));
        if !known && kinds.len() < 12 {
            kinds.push(link.to_owned());
        }
    }
    kinds
}

/// Makes the files by the benchmark's simulated DataNodes, and leaves the metadata where a cluster's NameNode has it.
fn fill_namespace(directory: &std::path::Path) {
    let scale = directory.join("scale");
    let mut command = std::process::Command::new(hanno_binary());
    command.args(["bench", "namenode", "scale", "--heartbeats", "1", "--seconds", "1", "--data"]);
    command.arg(&scale).args(["--files", &FILES.to_string()]);
    Outcome::of(command).ok();
    fs::rename(scale.join("namenode"), directory.join("namenode-1")).unwrap();
    fs::remove_dir_all(&scale).unwrap();
}
