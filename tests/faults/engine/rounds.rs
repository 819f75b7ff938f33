//! Jobs in rounds whose workers and JobTracker die: the same bytes come out, with state that was kept in the file system and without.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use super::options;
use crate::support::cluster::example_binary;
use crate::support::report::assert_no_panics;
use crate::support::{Cluster, Options};

/// How long anything may take here; a pass never needs it.
const SECONDS_MAX: u64 = 60;
const NODES: u64 = 5000;

#[test]
fn workers_and_the_jobtracker_die_between_rounds_and_the_same_bytes_come_out() {
    let stand = Stand::start(options());
    let undisturbed = stand.begin("undisturbed", &[], 0).succeed();
    assert_eq!(undisturbed.len(), 4, "a file for each partition");
    for keep_every in [0, 2] {
        let job = stand.begin(&format!("disturbed-{keep_every}"), &[3, 5, 7], keep_every);
        let worker = job.wait_in(3);
        super::super::kill_and_wait(&stand.cluster, &format!("worker-{worker}"));
        job.open(3);
        job.wait_in(5);
        super::super::kill_and_wait(&stand.cluster, "jobtracker-1");
        job.open(5);
        // The outputs of all rounds, and of round 0, are on the worker that is left.
        let worker = job.wait_in(7);
        super::super::kill_and_wait(&stand.cluster, &format!("worker-{worker}"));
        job.open(7);
        assert_eq!(job.succeed(), undisturbed, "keeping every {keep_every} rounds");
    }
    assert_no_panics(&stand.cluster);
}

/// A cluster with a graph.
struct Stand {
    cluster: Cluster,
}

/// A job, begun.
struct Running<'a> {
    stand: &'a Stand,
    driver: Child,
    marks: PathBuf,
    output: String,
}

impl Stand {
    fn start(options: Options) -> Self {
        let cluster = Cluster::start(options);
        let local = cluster.directory.join("graph");
        let line = |node| format!("{node} {}\n", node * 31 % 997);
        fs::write(&local, (0..NODES).map(line).collect::<String>()).unwrap();
        cluster.dfs(&["-D", "dfs.blocksize=16384", "-put", local.to_str().unwrap(), "/graph"]).ok();
        Stand { cluster }
    }

    /// Starts a job that waits in these rounds.
    fn begin(&self, name: &str, shut: &[u32], keep_every: u32) -> Running<'_> {
        let marks = self.cluster.marks_of(name);
        shut.iter().for_each(|round| drop(fs::File::create(gate(&marks, *round)).unwrap()));
        let (output, keep_every) = (format!("/out-{name}"), keep_every.to_string());
        let args =
            ["--keep-every", &keep_every, marks.to_str().unwrap(), "/graph", output.as_str()];
        let said = fs::File::create(self.cluster.directory.join(format!("driver-{name}"))).unwrap();
        let mut command = self.cluster.command(&example_binary("paced"), &args);
        command.stdout(Stdio::null()).stderr(said);
        Running { stand: self, driver: command.spawn().unwrap(), marks, output }
    }
}

fn gate(marks: &Path, round: u32) -> PathBuf {
    marks.join(format!("shut-{round}"))
}

impl Running<'_> {
    fn open(&self, round: u32) {
        fs::remove_file(gate(&self.marks, round)).unwrap();
    }

    /// Waits until tasks of a round wait at its gate; the number of a worker that runs one.
    fn wait_in(&self, round: u32) -> u32 {
        let begin = format!("round-{round}-");
        let mut worker = None;
        self.stand.cluster.wait_until(&format!("round {round} runs"), SECONDS_MAX, |_| {
            let marks = fs::read_dir(&self.marks).unwrap().map(Result::unwrap);
            let of_round =
                marks.filter(|mark| mark.file_name().to_string_lossy().starts_with(&begin));
            let places: Vec<String> =
                of_round.map(|mark| fs::read_to_string(mark.path()).unwrap()).collect();
            let number = |place: &String| {
                let rest = place.split("worker-").nth(1)?;
                rest.split('/').next()?.parse().ok()
            };
            worker = places.iter().find_map(number);
            worker.is_some()
        });
        worker.expect("it was waited for")
    }

    /// The job ends well; its files by name.
    fn succeed(mut self) -> BTreeMap<String, Vec<u8>> {
        let status = self.driver.wait().unwrap();
        let name = self.output.trim_start_matches("/out-");
        let said = self.stand.cluster.directory.join(format!("driver-{name}"));
        assert!(status.success(), "{}", fs::read_to_string(said).unwrap());
        let left = self.stand.cluster.dfs(&["-test", "-e", &format!("{}/_temporary", self.output)]);
        assert_eq!(left.code, 1, "{} has temporary files", self.output);
        let list = self.stand.cluster.dfs(&["-ls", "-C", &self.output]).ok().stdout_text();
        let parts = list.lines().filter(|path| path.contains("/part-"));
        let content = |path: &str| {
            let file = path.rsplit('/').next().unwrap_or_default().to_owned();
            (file, self.stand.cluster.dfs(&["-cat", path]).ok().stdout)
        };
        parts.map(content).collect()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Ended already, unless the test fails.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
