//! Where attacks are carried out: a cluster with two workers, the job of another user on it, and what they print.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sys::sandbox::User;

use crate::support::cluster::{example_binary, hanno_binary};
use crate::support::command::output_within;
use crate::support::report::assert_no_panics;
use crate::support::{Cluster, Options, Outcome};

/// How long the victim may take to begin; a pass never needs it.
const BEGIN_SECONDS_MAX: u64 = 60;

/// How long the victim waits for the end of all attacks; a pass never needs it.
const VICTIM_SECONDS_MAX: u64 = 1800;
/// Time after which a lying job counts as one that nobody ends; a pass never needs it.
const LIE_MAX: Duration = Duration::from_secs(60);
/// Stands in what such a job printed.
pub(super) const HUNG: &str = "NOBODY ENDED IT";
const LOOT_TEXT: &str = "loot of another user, 24";
const HOME_TEXT: &str = "# what the owner's shell begins with\n";
/// The signal of who reads in a map where there is no file any more.
const SIGBUS: i32 = 7;

/// See the module.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    victim: Child,
    /// The victim's directory on its worker, its attempt, and a process of it.
    victim_place: String,
    victim_attempt: String,
    victim_process: String,
    workers: Vec<Option<u32>>,
    /// Logs that have been looked at.
    seen: RefCell<BTreeSet<PathBuf>>,
    /// Unix sockets of the machine, by path and by name.
    _listeners: [UnixListener; 2],
}

impl Scene {
    pub(super) fn start(walls: bool) -> Scene {
        let mut options = Options { slots: 2, ..Options::tight() };
        // Each attack costs its worker an attempt or more.
        let faults = ("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "0".to_owned());
        options.variables.push(faults);
        if !walls {
            options.variables.push(("HANNO_WORKER_TASK_SANDBOX", "off".to_owned()));
        }
        let cluster = Cluster::start(options);
        cluster.dfs(&["-chmod", "777", "/"]).ok();
        let line = cluster.directory.join("line");
        fs::write(&line, "one line\n").unwrap();
        cluster.dfs(&["-put", line.to_str().unwrap(), "/line"]).ok();
        let marks = cluster.marks();
        let held = format!(
            "cat\necho \"$mapreduce_job_local_dir $mapreduce_task_attempt_id $$\" >{0}/victim.new\nmv {0}/victim.new {0}/victim\n\
             n=0; while ! [ -e {0}/victim-may-end ] && [ $n -lt {VICTIM_SECONDS_MAX} ]; do n=$((n+1)); sleep 1; done\n\
             [ -e {0}/victim-may-end ]\n",
            marks.display()
        );
        let mut command = script(&cluster, "victim", &held);
        command.env("HADOOP_USER_NAME", "ann").stdout(Stdio::null()).stderr(Stdio::null());
        let victim = command.spawn().unwrap();
        let told = marks.join("victim");
        cluster.wait_until("the victim runs", BEGIN_SECONDS_MAX, |_| told.is_file());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("sys/tests/attacks.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-o"]).args([&marks.join("attacks"), &source]);
        Outcome::of(compile).ok();
        let listeners = [
            UnixListener::bind(cluster.directory.join("listener")).unwrap(),
            sys::socket::listen(&abstract_name(&cluster)).unwrap(),
        ];
        let told = fs::read_to_string(told).unwrap();
        let mut words = told.trim().rsplitn(3, ' ').map(str::to_owned);
        let [process, attempt, place] = [(); 3].map(|()| words.next().unwrap());
        let workers = workers(&cluster);
        let scene = Scene {
            cluster,
            victim,
            victim_place: place,
            victim_attempt: attempt,
            victim_process: process,
            workers,
            seen: RefCell::default(),
            _listeners: listeners,
        };
        scene.leave_valuables();
        scene
    }

    /// Files that attacks are after.
    fn leave_valuables(&self) {
        for directory in ["loot", "home"] {
            fs::create_dir(self.cluster.directory.join(directory)).unwrap();
        }
        let loot = self.cluster.directory.join("loot");
        self.prepare("whole", &loot, "");
        fs::write(loot.join("output.data"), LOOT_TEXT).unwrap();
        fs::write(self.home_file(), HOME_TEXT).unwrap();
        fs::write(self.marked_file(), LOOT_TEXT).unwrap();
    }

    fn path(&self, below: &str) -> String {
        self.cluster.directory.join(below).to_str().unwrap().to_owned()
    }

    pub(super) fn secret_file(&self) -> String {
        self.path("secret")
    }

    pub(super) fn secret(&self) -> String {
        fs::read_to_string(self.secret_file()).unwrap().trim().to_owned()
    }

    /// A whole map output where no task may go, and the text in it.
    pub(super) fn loot(&self) -> String {
        self.path("loot/output.data")
    }

    pub(super) fn loot_text(&self) -> &'static str {
        LOOT_TEXT
    }

    /// A file that the owner's shell reads, and what is in it.
    pub(super) fn home_file(&self) -> String {
        self.path("home/.bashrc")
    }

    pub(super) fn home_text(&self) -> &'static str {
        HOME_TEXT
    }

    /// A file where tasks may write.
    pub(super) fn marked_file(&self) -> String {
        self.path("marks/marked")
    }

    pub(super) fn victim_attempt(&self) -> &str {
        &self.victim_attempt
    }

    /// A process of another user's running job.
    pub(super) fn victim_process(&self) -> &str {
        &self.victim_process
    }

    pub(super) fn has_lost_a_worker(&self) -> bool {
        workers(&self.cluster) != self.workers
    }

    /// What the program lays out for its worker, without one: the path it would tell, and the target.
    pub(super) fn lay_out(&self, name: &str, target: &str) -> (PathBuf, PathBuf) {
        let directory = self.cluster.directory.join(format!("laid-out-{name}"));
        fs::create_dir(&directory).unwrap();
        let told = self.prepare(name, &directory, target);
        // Some have none; then it is a name beside what was laid out.
        let target = if target.is_empty() { directory.join("target") } else { target.into() };
        (told, target)
    }

    fn prepare(&self, name: &str, directory: &Path, target: &str) -> PathBuf {
        let words = ["prepare", name, directory.to_str().unwrap(), target];
        let told = self.cluster.example("hostile", &words).ok().stdout_text();
        PathBuf::from(told.trim_end_matches('\n'))
    }

    /// What a job of the lying program printed, its tasks and its driver.
    pub(super) fn lies(&self, name: &str, target: &str) -> String {
        self.fresh_logs();
        let output = format!("/out-{name}");
        let attempts = ["mapreduce.map.maxattempts=1", "mapreduce.reduce.maxattempts=1"];
        let words = ["-D", attempts[0], "-D", attempts[1], "--attack", name];
        let words = [&words[..], &["--target", target, "/line", &output]].concat();
        let mut command = self.cluster.command(&example_binary("hostile"), &words);
        let said = self.cluster.directory.join(format!("driver-{name}"));
        let driver = command.stderr(fs::File::create(&said).unwrap()).spawn().unwrap();
        let hung = output_within(driver, LIE_MAX).map_or(HUNG, |_| "");
        format!("{}{}{hung}", self.fresh_logs(), fs::read_to_string(said).unwrap())
    }

    /// What attempts have printed since the last call, but for the victim.
    fn fresh_logs(&self) -> String {
        let mut text = String::new();
        for worker in ["worker-1", "worker-2"] {
            for attempt in fs::read_dir(self.cluster.directory.join(worker).join("logs")).unwrap() {
                let attempt = attempt.unwrap().path();
                if attempt.ends_with(&self.victim_attempt)
                    || !self.seen.borrow_mut().insert(attempt.clone())
                {
                    continue;
                }
                for stream in ["stdout", "stderr"] {
                    let log = fs::read(attempt.join(stream)).unwrap_or_default();
                    text.push_str(&String::from_utf8_lossy(&log));
                }
            }
        }
        text
    }

    /// The cluster's directory.
    pub(super) fn directory(&self) -> std::path::Display<'_> {
        self.cluster.directory.display()
    }

    /// Where the files of another user's running job are.
    pub(super) fn victim(&self) -> &str {
        &self.victim_place
    }

    /// A line that carries out an attack of `sys/tests/attacks.c`.
    pub(super) fn program(&self, attack: &str, at: &str) -> String {
        format!("{}/attacks {attack} '{at}'", self.cluster.marks().display())
    }

    /// The path of a Unix socket of the machine.
    pub(super) fn listener(&self) -> String {
        self.cluster.directory.join("listener").display().to_string()
    }

    /// The name of another.
    pub(super) fn abstract_listener(&self) -> String {
        abstract_name(&self.cluster)
    }

    /// A name in the memory that all processes of the machine share.
    pub(super) fn shared_memory(&self) -> String {
        format!("/dev/shm/{}", abstract_name(&self.cluster))
    }

    /// The process id of a worker.
    pub(super) fn worker(&self) -> u32 {
        self.cluster.pid("worker-1").unwrap()
    }

    /// What a script printed that ran as a task of a user. Whatever fails in it, the attempt does not.
    pub(super) fn prints(&self, name: &str, attack: &str) -> String {
        let text = format!("cat >/dev/null\n({attack}) 2>&1\nexit 0\n");
        Outcome::of(script(&self.cluster, name, &text)).ok();
        self.cluster.dfs(&["-cat", &format!("/out-{name}/part-*")]).ok().stdout_text()
    }

    /// Nothing of all this harmed anybody else.
    pub(super) fn assert_unharmed(mut self, walls: bool) {
        fs::write(self.cluster.marks().join("victim-may-end"), "").unwrap();
        assert!(self.victim.wait().unwrap().success(), "the victim failed");
        Outcome::of(script(&self.cluster, "afterwards", "cat\n")).ok();
        let printed = self.cluster.dfs(&["-cat", "/out-afterwards/part-*"]).ok();
        printed.prints("one line\t\n");
        let workers = self.cluster.hanno(&["job", "-list-active-trackers"]).stdout_text();
        assert_eq!(workers.lines().count(), 2, "{workers}");
        let url = format!("{}/workers", self.cluster.jobtracker);
        let page = crate::support::http::request("GET", &url, b"").is(200).text();
        assert_eq!(page.contains("no sandbox"), !walls, "{page}");
        let user = User::new(worker::Config::default().task_user_first).unwrap();
        let has_users = sys::sandbox::try_user(user, &[&self.cluster.directory]).is_ok();
        assert_eq!(page.contains("a user of its own for each job"), walls && has_users, "{page}");
        assert_eq!(self.cluster.directory.join("stolen").is_file(), !walls);
        assert_no_panics(&self.cluster);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // Ended already, unless the test fails.
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

fn abstract_name(cluster: &Cluster) -> String {
    format!("hanno-test-scene-{}", cluster.directory.file_name().unwrap().display())
}

/// A map-only job of one script over one line, not started yet.
fn script(cluster: &Cluster, name: &str, text: &str) -> Command {
    let directory: PathBuf = cluster.directory.join(format!("script-{name}"));
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("map.sh"), text).unwrap();
    let output = format!("/out-{name}");
    let mut words = vec!["job", "streaming", "-input", "/line", "-output", &output];
    words.extend(["-file", "map.sh", "-mapper", "sh map.sh", "-reducer", "NONE"]);
    let mut command = cluster.command(&hanno_binary(), &words);
    command.current_dir(directory);
    command
}

fn workers(cluster: &Cluster) -> Vec<Option<u32>> {
    ["worker-1", "worker-2"].map(|worker| cluster.pid(worker)).to_vec()
}

/// True if a process that has mapped a file is ended when the file is cut off.
pub(super) fn map_and_cut(file: &Path) -> bool {
    let mut command = Command::new(example_binary("hostile"));
    let status = command.arg("map-and-cut").arg(file).status().unwrap();
    status.signal() == Some(SIGBUS)
}
