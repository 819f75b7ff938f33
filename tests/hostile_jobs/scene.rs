//! Where attacks are carried out: a cluster with two workers, the job of another user on it, and what they print.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::cluster::hanno_binary;
use crate::support::report::assert_no_panics;
use crate::support::{Cluster, Options, Outcome};

/// How long the victim may take to begin; a pass never needs it.
const BEGIN_SECONDS_MAX: u64 = 60;

/// See the module.
pub(super) struct Scene {
    pub(super) cluster: Cluster,
    victim: Child,
    /// The victim's directory on its worker.
    victim_place: String,
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
            "cat\necho \"$mapreduce_job_local_dir\" >{0}/victim.new\nmv {0}/victim.new {0}/victim\n\
             while ! [ -e {0}/victim-may-end ]; do sleep 0.05; done\n",
            marks.display()
        );
        let mut command = script(&cluster, "victim", &held);
        command.env("HADOOP_USER_NAME", "ann").stdout(Stdio::null()).stderr(Stdio::null());
        let victim = command.spawn().unwrap();
        let told = marks.join("victim");
        cluster.wait_until("the victim runs", BEGIN_SECONDS_MAX, |_| told.is_file());
        let victim_place = fs::read_to_string(told).unwrap().trim().to_owned();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("sys/tests/attacks.c");
        let mut compile = Command::new("cc");
        compile.args(["-O1", "-o"]).args([&marks.join("attacks"), &source]);
        Outcome::of(compile).ok();
        let listeners = [
            UnixListener::bind(cluster.directory.join("listener")).unwrap(),
            sys::socket::listen(&abstract_name(&cluster)).unwrap(),
        ];
        Scene { cluster, victim, victim_place, _listeners: listeners }
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
