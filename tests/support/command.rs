//! What a command said and how it ended.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::cluster::{SUPERUSER, example_binary, hanno_binary};

/// Time for a killed command to be gone.
const KILLED_MAX: Duration = Duration::from_secs(60);

/// Runs commands against a cluster. It stays true while the cluster's daemons come and go.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) namenode: String,
    pub(crate) jobtracker: String,
}

impl Caller {
    /// A command with the cluster's addresses in its environment.
    pub(crate) fn command<S: AsRef<str>>(&self, binary: &Path, args: &[S]) -> Command {
        let mut command = Command::new(binary);
        command.args(args.iter().map(AsRef::as_ref)).stdin(Stdio::null());
        command.env("HANNO_NAMENODE", &self.namenode).env("HANNO_JOBTRACKER", &self.jobtracker);
        command.env("HADOOP_USER_NAME", SUPERUSER);
        command
    }

    /// `hanno dfs ARGS`.
    pub(crate) fn dfs<S: AsRef<str>>(&self, args: &[S]) -> Command {
        let args: Vec<&str> =
            std::iter::once("dfs").chain(args.iter().map(AsRef::as_ref)).collect();
        self.command(&hanno_binary(), &args)
    }

    /// An example job.
    pub(crate) fn example<S: AsRef<str>>(&self, name: &str, args: &[S]) -> Command {
        self.command(&example_binary(name), args)
    }
}

/// A finished command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Runs it to its end.
    pub(crate) fn of(mut command: Command) -> Self {
        Outcome::from(command.output().expect("the command starts"))
    }

    /// Runs it to its end; `None` if it is killed because that takes longer than `limit`.
    pub(crate) fn within(mut command: Command, limit: Duration) -> Option<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        output_within(command.spawn().expect("the command starts"), limit).map(Outcome::from)
    }

    pub(crate) fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Exit code 0.
    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout_text(), self.stderr);
        self
    }

    /// Standard output, exactly.
    #[track_caller]
    pub(crate) fn prints(self, stdout: &str) -> Self {
        assert_eq!(self.stdout_text(), stdout, "stderr: {}", self.stderr);
        self
    }
}

impl From<Output> for Outcome {
    fn from(Output { status, stdout, stderr }: Output) -> Self {
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Outcome { code: status.code().unwrap_or(-1), stdout, stderr }
    }
}

/// How a child ended and what it said where that is piped; `None` if it is killed because that takes longer than `limit`.
pub(crate) fn output_within(child: Child, limit: Duration) -> Option<Output> {
    let (pid, (sender, ended)) = (child.id(), mpsc::channel());
    thread::spawn(move || sender.send(child.wait_with_output()));
    if let Ok(output) = ended.recv_timeout(limit) {
        return Some(output.unwrap());
    }
    sys::process::kill(pid).unwrap();
    let _ = ended.recv_timeout(KILLED_MAX).expect("a killed command is gone");
    None
}
