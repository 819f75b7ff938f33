//! What the pages are looked at with: a cluster with a job that succeeded, one that failed, one that runs until it is let go, and names that
//! try to be more than text.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use super::HOSTILE;
use crate::support::cluster::hanno_binary;
use crate::support::{Cluster, Options, Outcome, data};

/// Words of the text that jobs count, bytes.
const TEXT_BYTES: usize = 300 << 10;
/// Lines that are all the same, in a file that has a quarter as many others.
const HOT_LINES: usize = 6_000;

pub(super) struct Stage {
    pub(super) cluster: Cluster,
    pub(super) scripts: PathBuf,
    pub(super) succeeded: String,
    /// A job most of whose records have one key.
    pub(super) skewed: String,
    pub(super) failed: String,
    running: Vec<Child>,
}

impl Stage {
    pub(super) fn start() -> Self {
        let options = Options { slots: 2, ..Options::tight() };
        let cluster = Cluster::start(options);
        let scripts = cluster.directory.join("scripts");
        fs::create_dir(&scripts).unwrap();
        let (succeeded, skewed, failed) = (String::new(), String::new(), String::new());
        let mut stage = Stage { cluster, scripts, succeeded, skewed, failed, running: Vec::new() };
        stage.files();
        let count = ["-D", "mapreduce.job.reduces=5", "/texts", "/counts"];
        stage.cluster.example("wordcount", &count).ok();
        stage.succeeded = stage.newest();
        stage.cluster.example("wordcount", &["/texts", "/counts-again"]).ok();
        stage.skewed = stage.count_lines();
        assert_ne!(stage.cluster.example("poison", &["/poison", "/nothing"]).code, 0);
        stage.failed = stage.newest();
        stage
    }

    fn files(&self) {
        let hostile = format!("/{HOSTILE}");
        self.cluster.dfs(&["-mkdir", "/texts", "/shared", &hostile]).ok();
        self.put("/texts/first", &data::text(1, TEXT_BYTES));
        self.put("/texts/second", &data::text(2, TEXT_BYTES / 2));
        self.put(&format!("{hostile}/{HOSTILE}"), HOSTILE.as_bytes());
        let lines = format!("{HOSTILE}\n").repeat(HOT_LINES);
        let cold: String = (0..HOT_LINES / 4).map(|line| format!("{line}\n")).collect();
        self.put("/skewed", [lines, cold].concat().as_bytes());
        self.put("/poison", b"a good line\npoison\n");
        self.cluster.hanno(&["dfsadmin", "-allowSnapshot", "/shared"]).ok();
        self.put("/shared/kept", b"kept");
        self.put("/shared/gone", b"gone");
        self.cluster.dfs(&["-createSnapshot", "/shared", "monday"]).ok();
        self.cluster.dfs(&["-rm", "-skipTrash", "/shared/gone"]).ok();
        self.put("/shared/new", b"new");
        self.cluster.dfs(&["-createSnapshot", "/shared", "tuesday"]).ok();
    }

    pub(super) fn put(&self, path: &str, bytes: &[u8]) {
        let local = self.scripts.join("input");
        fs::write(&local, bytes).unwrap();
        let words = ["-D", "dfs.blocksize=65536", "-put", "-f", local.to_str().unwrap(), path];
        self.cluster.dfs(&words).ok();
    }

    /// Counts lines, without a combiner.
    fn count_lines(&self) -> String {
        let words =
            ["job", "streaming", "-D", "mapreduce.job.reduces=3", "-D", "mapreduce.job.name=lines"];
        let more =
            ["-input", "/skewed", "-output", "/lines", "-mapper", "cat", "-reducer", "uniq -c"];
        self.cluster.hanno(&[&words[..], &more[..]].concat()).ok();
        self.newest()
    }

    /// The newest job.
    fn newest(&self) -> String {
        let jobs = self.jobs();
        jobs[0]["id"].as_str().expect("a job").to_owned()
    }

    pub(super) fn jobs(&self) -> Vec<serde_json::Value> {
        let jobs = self.cluster.hanno(&["job", "-list", "all", "--json"]).ok().stdout_text();
        serde_json::from_str(&jobs).expect("a list")
    }

    pub(super) fn state(&self, id: &str) -> String {
        let jobs = self.jobs();
        let job = jobs.iter().find(|job| job["id"] == id).expect("the job is known");
        job["state"].as_str().unwrap().to_owned()
    }

    /// Starts a job whose maps wait for a file, after they have written hostile texts to log and counters. Returns its id.
    pub(super) fn start_waiting(&mut self, name: &str, gate: &str) -> String {
        let script = format!(
            "#!/bin/sh\ncat >/dev/null\necho '{HOSTILE}' >&2\necho 'reporter:counter:{HOSTILE},{HOSTILE},1' >&2\n\
             while [ ! -e {gate} ]; do echo still waiting >&2; sleep 0.2; done\necho done\n",
            gate = self.gate(gate).display()
        );
        fs::write(self.scripts.join("wait.sh"), script).unwrap();
        let before = self.jobs().len();
        let (title, output) = (format!("mapreduce.job.name={name}"), format!("/out-{gate}"));
        let words = [
            "job",
            "streaming",
            "-D",
            &title,
            "-D",
            "mapreduce.job.maps=6",
            "-files",
            "wait.sh",
            "-input",
            "/texts",
            "-output",
            &output,
            "-mapper",
            "sh wait.sh",
            "-reducer",
            "cat",
        ];
        let mut command: Command = self.cluster.command(&hanno_binary(), &words);
        command.current_dir(&self.scripts).stdout(Stdio::null()).stderr(Stdio::null());
        self.running.push(command.spawn().unwrap());
        self.cluster.wait_until("the waiting job runs", 60, |_| {
            let jobs = self.jobs();
            jobs.len() > before && jobs[0]["maps"]["running"].as_u64() > Some(0)
        });
        self.newest()
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.scripts.join(format!("gate-{name}"))
    }

    /// Lets the maps of a waiting job go.
    pub(super) fn open_gate(&self, name: &str) {
        fs::write(self.gate(name), "").unwrap();
    }

    /// The link that signs a browser in at a daemon.
    pub(super) fn login(&self, daemon: &str) -> String {
        let links: Outcome = self.cluster.hanno(&["admin", "open"]).ok();
        let text = links.stdout_text();
        let line = text.lines().find_map(|line| line.strip_prefix(daemon));
        line.expect("a link for each daemon").trim().to_owned()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
