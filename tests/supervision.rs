//! Daemons as services: what they tell the service manager that started them, that they serve, what they do, that their main loops turn, and that they end; and a
//! job where the worker is another user than the others.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::cluster::{SUPERUSER, example_binary, hanno_binary};
use crate::support::{Caller, Outcome};

/// Time for what a daemon tells.
const TOLD_MAX: Duration = Duration::from_secs(60);
/// The time of the watchdog; a sign of life is due four times within it. A DataNode's heartbeat is held for a tenth of a second here.
const WATCHDOG: Duration = Duration::from_secs(8);

/// One of five was silent when telling raced with ending.
const FAST_ENDS: u32 = 20;

/// A daemon, and what it tells.
struct Supervised {
    child: Child,
    messages: Receiver<String>,
    heard: Vec<String>,
}

impl Supervised {
    fn start(folder: &Path, daemon: &str, keys: &str) -> Self {
        let config = folder.join(format!("{daemon}.toml"));
        fs::write(&config, keys).unwrap();
        let path = folder.join(format!("{daemon}.notify"));
        let _ = fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path).unwrap();
        let log = fs::File::create(folder.join(format!("{daemon}.log"))).unwrap();
        let mut command = Command::new(hanno_binary());
        command.arg(daemon).arg("--config").arg(&config);
        command.env("NOTIFY_SOCKET", &path);
        command.env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
        // A worker is nobody special in the file system.
        command.env("HADOOP_USER_NAME", if daemon == "worker" { "worker" } else { SUPERUSER });
        let child = command.stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let (sender, messages) = channel();
        // A socket has room for few messages: they are taken as they come. The thread ends with the test.
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count) = socket.recv(&mut buffer) {
                let text = String::from_utf8(buffer[..count].to_vec()).unwrap();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        Supervised { child, messages, heard: Vec::new() }
    }

    /// The next message; `None` if there is none within `limit`.
    fn next(&mut self, limit: Duration) -> Option<String> {
        let text = self.messages.recv_timeout(limit).ok()?;
        self.heard.push(text.clone());
        Some(text)
    }

    /// Has told it, or tells it in time; each message counts once.
    #[track_caller]
    fn tells(&mut self, message: &str) {
        let deadline = Instant::now() + TOLD_MAX;
        loop {
            if let Some(at) = self.heard.iter().position(|heard| heard == message) {
                self.heard.remove(at);
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let next = (!left.is_zero()).then(|| self.next(left)).flatten();
            assert!(next.is_some(), "no {message}: {:?}", self.heard);
        }
    }

    /// Signs of life for three times the time of the watchdog, none of them too late.
    #[track_caller]
    fn is_alive(&mut self) {
        while self.messages.try_recv().is_ok() {}
        let (start, mut last) = (Instant::now(), Instant::now());
        while start.elapsed() < 3 * WATCHDOG {
            let message = self.next(WATCHDOG);
            assert!(message.is_some() && last.elapsed() < WATCHDOG, "silence: {:?}", self.heard);
            if message.as_deref() == Some("WATCHDOG=1") {
                last = Instant::now();
            }
        }
    }

    fn ends(mut self) {
        sys::process::terminate(self.child.id()).unwrap();
        self.tells("STOPPING=1\nSTATUS=stops");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        // It has ended unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn url(address: &str) -> String {
    format!("http://{address}")
}

/// The worker may read less than the user: it reads the program as the user, and the task has the user's rights.
fn job_of_a_user(caller: &Caller, folder: &Path) {
    let run = |user: &str, mut command: Command| {
        command.env("HADOOP_USER_NAME", user).env("HANNO_SECRET_FILE", folder.join("secret"));
        Outcome::of(command)
    };
    fs::write(folder.join("text"), "b a b\n").unwrap();
    let text = folder.join("text");
    for words in [
        &["-mkdir", "/d"][..],
        &["-put", text.to_str().unwrap(), "/d/in"],
        &["-chmod", "1777", "/d"],
        &["-chown", "ann", "/d/in"],
        &["-chmod", "600", "/d/in"],
    ] {
        run(SUPERUSER, caller.dfs(words)).ok();
    }
    let words = ["--reducers", "1", "-D", "mapreduce.map.maxattempts=1", "/d/in", "/d/out"];
    run("ann", caller.command(&example_binary("wordcount"), &words)).ok();
    let counts = run("ann", caller.dfs(&["-cat", "/d/out/part-*"])).ok();
    assert_eq!(counts.stdout_text(), "a\t1\nb\t2\n");
    let refused = run("worker", caller.dfs(&["-cat", "/d/in"]));
    assert_eq!(refused.code, 1, "{}", refused.stderr);
}

#[test]
fn a_service_manager_hears_of_every_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| format!("{:?}", folder.path().join(name));
    let (namenode, jobtracker) = (free_address(), free_address());
    let secret = format!("secret_file = {}\n", at("secret"));
    let with_namenode = format!("{secret}namenode = \"http://{namenode}\"\n");
    let start = |daemon: &str, keys: String| Supervised::start(folder.path(), daemon, &keys);

    let keys = format!("bind = {namenode:?}\ndata_dir = {}\nheartbeat_ms = 100\n", at("names"));
    let mut names = start("namenode", keys + secret.as_str());
    names.tells("READY=1");
    names.tells("STATUS=serves reads: safe mode is on");
    let keys = format!("data_directories = [{}]\n", at("blocks"));
    let mut blocks = start("datanode", keys + with_namenode.as_str());
    blocks.tells("READY=1");
    blocks.tells("STATUS=serves");
    names.tells("STATUS=serves");
    let keys = format!("bind = {jobtracker:?}\ndata = {}\n", at("jobs"));
    let mut jobs = start("jobtracker", keys + with_namenode.as_str());
    jobs.tells("STATUS=serves");
    jobs.tells("READY=1");
    let keys = format!("data = {}\njobtracker = \"http://{jobtracker}\"\n", at("tasks"));
    let mut tasks = start("worker", keys + with_namenode.as_str());
    tasks.tells("STATUS=waits for the JobTracker");
    tasks.tells("READY=1");
    tasks.tells("STATUS=serves");
    // It has the least to end: it must not be gone before it says so.
    for _ in 0..FAST_ENDS {
        let keys = with_namenode.clone() + "bind = \"127.0.0.1:0\"\n";
        let mut gateway = start("gateway", keys);
        gateway.tells("READY=1");
        gateway.ends();
    }

    // Also with nothing to do.
    thread::scope(|scope| {
        for daemon in [&mut names, &mut blocks, &mut jobs, &mut tasks] {
            scope.spawn(|| daemon.is_alive());
        }
    });
    job_of_a_user(
        &Caller { namenode: url(&namenode), jobtracker: url(&jobtracker) },
        folder.path(),
    );
    for daemon in [tasks, jobs, blocks, names] {
        daemon.ends();
    }
}
