//! A reader at a terminal, with a clone of the project that is built.
//!
//! Each block of commands is a shell of its own; working directory and variables go from one to the next, as in a terminal. Programs are compiled from the
//! project's sources, as anywhere, but without a network, and without optimisation: that is half a minute of two processors, and less the next time.
//!
//! Invariant: a cluster that the reader started has ended when the reader goes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::cluster::{Ports, hanno_binary};
use crate::support::wait;

/// Time for a block: one that waits for something that never comes fails. Generous, because some compile on a busy machine.
const BLOCK_TIME_MAX_S: &str = "900";
/// Time for a cluster to stop.
const STOP_MAX: Duration = Duration::from_secs(60);
/// The variable in which the tutorial keeps the process id of its cluster.
const CLUSTER_VARIABLE: &str = "CLUSTER";
/// Release builds of the reader's, which shall take little time. Debug assertions stay off: programs that have them say so at each run.
const CARGO_CONFIG: &str = "\
[net]
offline = true
[profile.release]
opt-level = 0
";
/// Where they are kept, from one run of the test to the next.
const BUILD_DIRECTORY: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/tutorial");

pub(super) struct Reader {
    ports: Ports,
    /// Where the reader begins.
    home: tempfile::TempDir,
    /// What goes from one shell to the next: `directory`, `variables`; and `printed`.
    state: tempfile::TempDir,
}

impl Reader {
    pub(super) fn new() -> Reader {
        let (home, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Tasks of users of their own pass through.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(state.path().join("directory"), home.path().to_str().unwrap()).unwrap();
        fs::write(state.path().join("variables"), "").unwrap();
        fs::create_dir(home.path().join(".cargo")).unwrap();
        fs::write(home.path().join(".cargo/config.toml"), CARGO_CONFIG).unwrap();
        Reader { ports: Ports::take(), home, state }
    }

    /// A path from the directory in which the reader is.
    pub(super) fn path(&self, path: &str) -> PathBuf {
        Path::new(self.kept("directory").trim_end()).join(path)
    }

    /// The exit code of commands, and what they print.
    pub(super) fn run(&self, script: &str) -> (i32, String) {
        let state = self.state.path().display();
        let script = format!(
            "set -a\ncd \"$(cat {state}/directory)\"\n. {state}/variables\n\
             trap 'export -p > {state}/variables; pwd > {state}/directory' EXIT\n{script}"
        );
        let binary = hanno_binary();
        let built = binary.parent().expect("the build directory").display();
        let path = format!("{built}:{}", std::env::var("PATH").unwrap_or_default());
        let printed = fs::File::create(self.state.path().join("printed")).unwrap();
        let mut command = Command::new("timeout");
        command.args([BLOCK_TIME_MAX_S, "sh", "-ec", &script]).stdin(Stdio::null());
        command.stdout(printed.try_clone().unwrap()).stderr(printed);
        command.env("HANNO", env!("CARGO_MANIFEST_DIR")).env("PATH", path);
        command.env("PORT", self.ports.base.to_string());
        // Where a machine is busy, a backup would be an attempt more than the page shows.
        command.env("HANNO_JOBTRACKER_SPECULATION_AFTER_MS", "600000");
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET_DIR");
        let status = command.status().expect("the shell starts");
        self.keep_builds();
        (status.code().unwrap_or(-1), self.kept("printed"))
    }

    fn kept(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.state.path().join(name)).unwrap()).into_owned()
    }

    /// Gives each new package of the reader's the kept build directory.
    fn keep_builds(&self) {
        let entries = fs::read_dir(self.home.path()).unwrap().map(|entry| entry.unwrap().path());
        for package in entries.filter(|path| path.join("Cargo.toml").is_file()) {
            fs::create_dir_all(BUILD_DIRECTORY).unwrap();
            // It is there since the block before.
            let _ = symlink(BUILD_DIRECTORY, package.join("target"));
        }
    }

    /// The process of the reader's cluster.
    fn cluster(&self) -> Option<u32> {
        let variables = self.kept("variables");
        let line = variables.lines().find_map(|line| line.split_once(CLUSTER_VARIABLE))?;
        line.1.trim_matches(|sign: char| !sign.is_ascii_digit()).parse().ok()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let Some(pid) = self.cluster() else { return };
        if !has_ended(pid) {
            let _ = sys::process::terminate(pid);
        }
        if !wait::until(STOP_MAX, || has_ended(pid)) {
            eprintln!("the cluster of the tutorial does not end: process {pid}");
        }
    }
}

/// True also for one that nobody has waited for yet.
fn has_ended(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}
