//! Tasks that reach for what is not theirs: files of others, processes of others, the kernel. Each attack is also tried with the sandbox off, where it must
//! succeed: else a test of it would say nothing.

use std::fs;
use std::path::Path;

use super::{Stand, options, with};
use crate::support::report::assert_no_panics;

/// Seconds that the sleeps of the fork bomb last: its processes are known by that.
const BOMB_SECONDS: &str = "98765";

impl Stand {
    /// What a script printed that ran as a task of a user.
    fn prints(&self, name: &str, script: &str) -> String {
        // Whatever fails in it, the attempt does not.
        let script = format!("cat >/dev/null\n({script}) 2>&1\nexit 0\n");
        self.script(name, &script).ok();
        self.cluster.dfs(&["-cat", &format!("/bad-{name}/part-*")]).ok().stdout_text()
    }
}

/// What an attack prints when it succeeds.
const SUCCESS: &str = "SUCCEEDED";

/// Attacks.
fn attacks(stand: &Stand, victim: &Path) -> Vec<(&'static str, String)> {
    let cluster = stand.cluster.directory.display();
    let worker = stand.cluster.pid("worker-1").unwrap();
    let victim = victim.display();
    vec![
        ("writes", format!("echo taken >{cluster}/stolen")),
        ("secret", format!("cat {cluster}/secret >/dev/null")),
        ("blocks", format!("ls {cluster}/datanode-1")),
        ("looks", format!("ls {victim}")),
        ("reads", format!("cat {victim}/map.sh")),
        ("spoils", format!("echo x >{victim}/more")),
        ("signals", format!("kill -0 {worker}")),
        ("spies", format!("cat /proc/{worker}/environ >/dev/null")),
        ("unshares", "unshare -rm true".to_owned()),
    ]
}

fn try_all(stand: &Stand, succeed: bool) {
    stand.put("/line", "one line\n");
    stand.cluster.dfs(&["-chmod", "777", "/"]).ok();
    let job = stand.begin_as("ann", "victim", &["mapped"], &[]);
    let at = job.wait_at("mapped", 1);
    let place =
        fs::read_to_string(stand.cluster.marks().join(format!("victim/mapped-{}", at[0].0)));
    let place = place.unwrap();
    for (name, script) in attacks(stand, Path::new(place.trim())) {
        let printed = stand.prints(name, &format!("{script} && echo {SUCCESS}"));
        assert_eq!(printed.contains(SUCCESS), succeed, "{name}: {printed}");
    }
    job.open("mapped");
    job.succeed();
    let stolen = stand.cluster.directory.join("stolen");
    assert_eq!(stolen.is_file(), succeed);
    let health = stand.workers_page();
    assert_eq!(health.contains("no sandbox"), succeed, "{health}");
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

#[test]
fn a_task_reaches_nothing_of_another_user_the_worker_or_the_machine() {
    try_all(&Stand::start(2, options()), false);
}

#[test]
fn without_the_sandbox_each_of_these_attacks_succeeds() {
    try_all(&Stand::start(2, with(options(), &[("HANNO_WORKER_TASK_SANDBOX", "off")])), true);
}

/// Its processes leave the process group, the session and their environment behind, and double as long as they can.
#[test]
fn a_task_that_forks_exponentially_is_ended_whole_and_jobs_beside_it_go_on() {
    let limits =
        [("HANNO_WORKER_TASK_PROCESSES_MAX", "40"), ("HANNO_JOBTRACKER_WORKER_FAULTS_MAX", "0")];
    let stand = Stand::start(2, with(options(), &limits));
    stand.put("/line", "one line\n");
    let bomb = format!(
        "b() {{ setsid -f env -i sleep {BOMB_SECONDS}; b | b & }}\nwhile :; do b; done 2>/dev/null"
    );
    std::thread::scope(|scope| {
        let exploding = scope.spawn(|| stand.script("explodes", &bomb));
        stand.begin("beside", &[], &[]).succeed();
        let outcome = exploding.join().unwrap();
        stand.assert_failed("explodes", &outcome, &["more than its limit of 40", "exit status"]);
    });
    stand.wait("nothing is left of it", |_| bomb_processes() == 0);
    stand.begin("after", &[], &[]).succeed();
    assert_eq!(stand.active_workers(), 2);
    assert_no_panics(&stand.cluster);
}

fn bomb_processes() -> usize {
    let is_one = |entry: &fs::DirEntry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == BOMB_SECONDS.as_bytes())
    };
    fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(is_one).count()
}

impl Stand {
    fn workers_page(&self) -> String {
        let url = format!("{}/workers", self.cluster.jobtracker);
        crate::support::http::request("GET", &url, b"").is(200).text()
    }
}
