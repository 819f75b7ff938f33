//! What a command said and how it ended.

use std::process::{Command, Output};

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
