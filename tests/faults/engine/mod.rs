//! MapReduce under faults, on real processes: tasks that misbehave, daemons that die or stop and come back, damaged and lost map
//! outputs, races of attempts. What comes out is compared with what the same input gives without a fault.

mod counting;
mod deaths;
mod executables;
mod many;
mod outputs;
mod passes;
mod races;
mod rounds;
mod skipping;
mod tasks;
mod walls;
mod zombies;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::support::cluster::{SUPERUSER, hanno_binary};
use crate::support::{Cluster, Options, Outcome, data};

/// How long anything may take here; a pass never needs it.
const SECONDS_MAX: u64 = 60;

/// What every script begins with: it tells that its attempt runs, and waits while the gate of its name is shut.
const GATE: &str = r#"
gate() {
    echo "$mapreduce_job_local_dir" >"$MARKS/$1-$mapreduce_task_attempt_id"
    while [ -e "$MARKS/shut-$1" ] || [ -e "$MARKS/shut-$1-$mapreduce_task_partition" ]; do sleep 0.05; done
}
"#;

/// A word count by scripts that stop where a test wants them to: `map`, `mapped` (all is printed), `reduce` and `reduced`.
struct Stand {
    cluster: Cluster,
    text: Vec<u8>,
}

/// A job of a [`Stand`], begun.
struct Running<'a> {
    stand: &'a Stand,
    driver: Child,
    marks: PathBuf,
    output: String,
}

impl Stand {
    /// A cluster with an input of so many maps.
    fn start(maps: usize, options: Options) -> Self {
        let cluster = Cluster::start(options);
        let text = data::text(29, maps * 65_536 - 30_000);
        let local = cluster.directory.join("input");
        fs::write(&local, &text).unwrap();
        cluster.dfs(&["-D", "dfs.blocksize=65536", "-put", local.to_str().unwrap(), "/in"]).ok();
        Stand { cluster, text }
    }

    /// Starts a job with these gates shut.
    fn begin(&self, name: &str, shut: &[&str], more: &[&str]) -> Running<'_> {
        self.begin_as(SUPERUSER, name, shut, more)
    }

    fn begin_as(&self, user: &str, name: &str, shut: &[&str], more: &[&str]) -> Running<'_> {
        let marks = self.cluster.marks_of(name);
        shut.iter().for_each(|gate| drop(fs::File::create(marks.join(format!("shut-{gate}")))));
        let begin = format!("MARKS={}\n{GATE}", marks.display());
        let words = r#"awk '{ n = split($0, w, /[ \t\r\f]+/); for (i = 1; i <= n; i++) if (w[i] != "") print w[i] "\t" 1 }'"#;
        let sums = r#"awk -F '\t' '$1 != word { if (NR > 1) print word "\t" sum; word = $1; sum = 0 } { sum += $2 } END { if (NR) print word "\t" sum }'"#;
        let scripts = self.cluster.directory.join(format!("scripts-{name}"));
        fs::create_dir(&scripts).unwrap();
        for (file, [before, after], work) in
            [("map.sh", ["map", "mapped"], words), ("reduce.sh", ["reduce", "reduced"], sums)]
        {
            let text = format!("{begin}gate {before}\n{work} || exit 1\ngate {after}\n");
            fs::write(scripts.join(file), text).unwrap();
        }
        let output = format!("/out-{name}");
        let mut args = vec!["job", "streaming"];
        args.extend(more);
        args.extend(["-input", "/in", "-output", &output, "-file", "map.sh", "-file", "reduce.sh"]);
        args.extend(["-mapper", "sh map.sh", "-reducer", "sh reduce.sh"]);
        let errors =
            fs::File::create(self.cluster.directory.join(format!("driver-{name}"))).unwrap();
        let mut command = self.cluster.command(&hanno_binary(), &args);
        command.env("HADOOP_USER_NAME", user);
        command.current_dir(&scripts).stdout(Stdio::null()).stderr(errors);
        let driver = command.spawn().unwrap();
        Running { stand: self, driver, marks, output }
    }

    fn hanno(&self, words: &[&str]) -> String {
        self.cluster.hanno(words).ok().stdout_text()
    }

    /// Ids of all jobs, newest first.
    fn jobs(&self) -> Vec<String> {
        let list = self.cluster.hanno(&["job", "-list", "all"]).stdout_text();
        let words = list.split_whitespace().filter(|word| word.starts_with("job_"));
        words.map(str::to_owned).collect()
    }

    fn counter(&self, job: &str, group: &str, name: &str) -> u64 {
        self.hanno(&["job", "-counter", job, group, name]).trim().parse().unwrap()
    }

    fn wait(&self, what: &str, condition: impl FnMut(&Cluster) -> bool) {
        self.cluster.wait_until(what, SECONDS_MAX, condition);
    }

    /// Kills a daemon and waits until it is there again.
    fn kill(&self, daemon: &str) {
        super::kill_and_wait(&self.cluster, daemon);
    }

    /// Ids of attempts in a state: `running`, `completed`, `failed`, `killed`.
    fn attempts(&self, job: &str, kind: &str, state: &str) -> Vec<String> {
        let ids = self.cluster.hanno(&["job", "-list-attempt-ids", job, kind, state]).stdout_text();
        ids.lines().map(str::to_owned).collect()
    }

    /// The number of the worker that runs or ran an attempt.
    fn worker_of(&self, attempt: &str) -> Option<u32> {
        let place = format!("logs/{attempt}");
        (1..=2)
            .find(|number| self.cluster.directory.join(format!("worker-{number}/{place}")).is_dir())
    }

    fn active_workers(&self) -> usize {
        self.cluster.hanno(&["job", "-list-active-trackers"]).stdout_text().lines().count()
    }

    /// A directory holds what a job without faults writes, all of it and nothing else.
    fn assert_word_count(&self, output: &str) {
        let parts = self.cluster.dfs(&["-cat", &format!("{output}/part-*")]).ok().stdout;
        let same = data::sorted_lines(&parts) == data::word_count(&self.text);
        assert!(same, "{output} differs from the fault-free result");
        self.cluster.dfs(&["-test", "-z", &format!("{output}/_SUCCESS")]).ok();
        let left = self.cluster.dfs(&["-test", "-e", &format!("{output}/_temporary")]).code;
        assert_eq!(left, 1, "{output} has temporary files");
    }
}

impl Running<'_> {
    fn open(&self, gate: &str) {
        fs::remove_file(self.marks.join(format!("shut-{gate}"))).unwrap();
    }

    /// The attempts that have come to a gate, and the number of the worker that each runs on.
    fn at(&self, gate: &str) -> Vec<(String, u32)> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.marks).unwrap().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(attempt) = name.strip_prefix(&format!("{gate}-attempt_")) else { continue };
            let place = fs::read_to_string(entry.path()).unwrap();
            let worker = place.split("worker-").nth(1).and_then(|rest| rest.split('/').next());
            if let Some(worker) = worker.and_then(|number| number.parse().ok()) {
                found.push((format!("attempt_{attempt}"), worker));
            }
        }
        found.sort();
        found
    }

    /// Waits until so many attempts have come to a gate.
    fn wait_at(&self, gate: &str, count: usize) -> Vec<(String, u32)> {
        let what = format!("{count} attempts are at `{gate}` of {}", self.output);
        self.stand.wait(&what, |_| self.at(gate).len() >= count);
        self.at(gate)
    }

    /// The job ends well, with the right output.
    fn succeed(mut self) {
        let (status, said) = self.end();
        assert!(status.success(), "{}: {said}", self.output);
        self.stand.assert_word_count(&self.output);
    }

    /// The job fails; what its driver said.
    fn fail(mut self) -> String {
        let (status, said) = self.end();
        assert!(!status.success(), "{} succeeded", self.output);
        let left = self.stand.cluster.dfs(&["-test", "-e", &self.output]).code;
        assert_eq!(left, 1, "{} is there", self.output);
        said
    }

    /// How the driver ended and what it said.
    fn end(&mut self) -> (ExitStatus, String) {
        let status = self.driver.wait().unwrap();
        let name = self.output.trim_start_matches("/out-");
        let said = self.stand.cluster.directory.join(format!("driver-{name}"));
        (status, fs::read_to_string(said).unwrap())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Ended already, unless the test fails.
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// Two workers with two slots each, and timers that notice a death within two seconds.
fn options() -> Options {
    Options { slots: 2, ..Options::tight() }
}

fn with(mut options: Options, variables: &[(&'static str, &str)]) -> Options {
    let more = variables.iter().map(|(name, value)| (*name, (*value).to_owned()));
    options.variables.extend(more);
    options
}

/// Files below a directory whose names end so.
fn files_below(directory: &std::path::Path, end: &str) -> Vec<PathBuf> {
    let mut command = Command::new("find");
    command.arg(directory).args(["-type", "f", "-name", &format!("*{end}")]);
    let found = Outcome::of(command).stdout_text();
    found.lines().map(PathBuf::from).collect()
}
