//! What a command said and how it ended.

use std::process::{Command, Output};

/// A finished command.
#[derive(Debug)]
pub struct Outcome {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Outcome {
    /// Runs it to its end.
    pub fn of(mut command: Command) -> Self {
        let Output { status, stdout, stderr } = command.output().expect("the command starts");
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Outcome { code: status.code().unwrap_or(-1), stdout, stderr }
    }

    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Exit code 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout_text(), self.stderr);
        self
    }

    /// Exit code and the whole of standard error.
    #[track_caller]
    pub fn fails(self, code: i32, stderr: &str) -> Self {
        assert_eq!((self.code, self.stderr.trim_end()), (code, stderr), "stdout: {}", self.stdout_text());
        self
    }

    /// Standard output, exactly.
    #[track_caller]
    pub fn prints(self, stdout: &str) -> Self {
        assert_eq!(self.stdout_text(), stdout, "stderr: {}", self.stderr);
        self
    }
}
