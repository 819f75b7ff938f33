//! The process of a script: starts it in the task's directory with the job's environment, feeds it on one thread and reads it on another.
//!
//! ```text
//! feeding thread  records ─► pipe ─► script ─► pipe ─► pump thread ─► sort buffer or output file
//!                                      └─ stderr ─► listener thread ─► counters, status, the task's log
//! ```
//!
//! Invariants: the script never waits for us while we wait for it, because its output is always being read; the pipes and one chunk on each
//! side bound the buffered data; the process is over, and reaped, when [`run`] returns, whatever happened. A script that fails is not waited for longer than it
//! runs, whatever it leaves behind that holds its pipes.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;

use client::interrupt::Unfinished;
use mr_model::task::Context;
use mr_model::{Error, Result};
use protocol::counters::check_group;
use protocol::property::keys;
use protocol::runner::{COOKIE_VARIABLE, DESCRIPTORS_VARIABLE, SOCKET_VARIABLE};
use sys::pipe::{Over, PipeEnd};

use super::command::locate;
use crate::run::local::undo;
use crate::run::runner::is_task;

/// Bytes written to the script at once; as many as a large pipe takes.
const CHUNK_BYTES: usize = 256 << 10;
/// Longest line of standard error that is treated as one line.
const ERROR_LINE_BYTES_MAX: usize = 16 << 10;
/// First and last lines of standard error that a failure quotes.
const QUOTED_LINES: usize = 8;
/// Most bytes of a quoted line.
const QUOTED_LINE_BYTES: usize = 300;

/// A script and how to start it.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Program and arguments.
    pub(super) words: Vec<String>,
    /// The job's variables: its name, its input and output.
    pub(super) job_variables: Vec<(String, String)>,
    /// Variables given with `-cmdenv`.
    pub(super) variables: Vec<(String, String)>,
    /// Beginning of the lines on standard error that address the reporter.
    pub(super) reporter_prefix: String,
    /// Whether a nonzero exit code fails the attempt.
    pub(super) exit_code_matters: bool,
}

/// The writing end of a script's standard input, with a buffer.
pub(super) struct Feed<'a> {
    pipe: PipeEnd<'a, ChildStdin>,
    buffer: Vec<u8>,
}

impl Feed<'_> {
    /// Lets `put` append a record.
    #[inline]
    pub(super) fn record(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        put(&mut self.buffer);
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.pipe.write_all(&self.buffer);
        self.buffer.clear();
        Ok(written.map_err(|source| Error::ScriptInput { source })?)
    }
}

/// Runs `script`: `feed` writes its input on this thread while `pump` reads its output on another.
pub(super) fn run(
    script: &Script,
    context: &Context,
    feed: impl FnOnce(&mut Feed<'_>) -> Result<()>,
    pump: impl FnOnce(&mut (dyn Read + Send)) -> Result<()> + Send,
) -> Result<()> {
    // In a run of this process, a signal ends the script as long as it may live.
    let (child, _unfinished) = start(script, context)?;
    let mut running = Running(child);
    let child = &mut running.0;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Error::ScriptRecord { reason: "the script has no pipes" }.into());
    };
    // As in Hadoop, the rest of the output of a script that succeeds is waited for, though others may write it.
    let over = match script.exit_code_matters {
        true => Over::if_fails(child.id())?,
        false => Over::new()?,
    };
    let (stdin, mut stdout, mut stderr) =
        (PipeEnd::new(stdin, &over)?, PipeEnd::new(stdout, &over)?, PipeEnd::new(stderr, &over)?);
    let mut listener =
        Listener { script, context, quoted: Quoted::default(), refused: BTreeSet::new() };
    let child_id = child.id();
    let end = || {
        // It may have ended already. It is reaped below, so its id is nobody else's.
        let _ = sys::process::kill(child_id);
        over.say();
    };
    let (fed, pumped, quoted) = thread::scope(|scope| {
        let listening = scope.spawn(|| {
            listener.listen(&mut stderr);
            listener.quoted
        });
        let pumping = scope.spawn(|| {
            let pumped = pump(&mut Heard { pipe: &mut stdout, context });
            // A script must not wait for a reader that has given up.
            drop(stdout);
            if pumped.is_err() {
                end();
            }
            pumped
        });
        let mut input = Feed { pipe: stdin, buffer: Vec::with_capacity(2 * CHUNK_BYTES) };
        let fed = feed(&mut input).and_then(|()| input.flush());
        drop(input);
        if fed.as_ref().is_err_and(|error| !is_closed_input(error)) {
            end();
        }
        (fed, joined(pumping.join()), listening.join().unwrap_or_default())
    });
    let status = child.wait().map_err(|source| Error::ScriptInput { source })?;
    judge(script, status, fed, pumped, &quoted)
}

/// A script that was started: over, and reaped, once this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Of one that was waited for, both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of a script. All that it writes shows life, also what is not yet a whole record.
struct Heard<'a, R> {
    pipe: &'a mut R,
    context: &'a Context,
}

impl<R: Read> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.pipe.read(buffer)?;
        if count > 0 {
            self.context.show_life();
        }
        Ok(count)
    }
}

fn start(script: &Script, context: &Context) -> Result<(Child, Option<Unfinished>)> {
    let directory = context.directory();
    let (program, arguments) =
        script.words.split_first().ok_or_else(|| Error::usage("a command of the job is empty"))?;
    let located = locate(program, directory);
    let variables =
        super::environment::variables(context, &script.job_variables, &script.variables)?;
    let mut command = Command::new(&located);
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove(DESCRIPTORS_VARIABLE)
        .env_remove(SOCKET_VARIABLE)
        .env_remove(COOKIE_VARIABLE)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // The worker of a task ends all of its processes.
    let started = match is_task() {
        true => command.spawn().map(|child| (child, None)),
        false => undo::script(&mut command).map(|(child, held)| (child, Some(held))),
    };
    started.map_err(|source| {
        let hint = hint(&source, (&located, program), &variables);
        Error::ScriptStart { command: script.words.join(" "), hint, source }.into()
    })
}

/// What to do about a program that does not start.
fn hint(
    error: &io::Error,
    (located, program): (&Path, &str),
    variables: &[(String, String)],
) -> String {
    // ENOEXEC has no kind of its own. A side file that nobody may execute would have the right if it were a program.
    let is_no_program = error.raw_os_error() == Some(NO_FORMAT)
        || (error.kind() == io::ErrorKind::PermissionDenied && is_for_nobody(located));
    match error.kind() {
        _ if is_no_program => format!(
            ": it is no program; a script begins with a line like `#!/bin/sh` or `#!/usr/bin/env python3`, or its interpreter is named: `sh {program}`"
        ),
        io::ErrorKind::NotFound if located.is_file() => {
            ": the interpreter that its first line names is not on the worker".to_owned()
        }
        io::ErrorKind::NotFound => {
            format!(": `{program}` is not on the worker; `-file {program}` sends it along")
        }
        io::ErrorKind::PermissionDenied => {
            ": a task may not run it; `task_readable_paths` of the worker opens directories"
                .to_owned()
        }
        io::ErrorKind::ArgumentListTooLong => {
            let longest = variables.iter().max_by_key(|(_, value)| value.len());
            let longest = longest.map_or(String::new(), |(name, value)| {
                format!(": its longest variable is {name}, of {} bytes", value.len())
            });
            let limit = keys::VARIABLE_BYTES_MAX.name();
            format!("{longest}; `-D {limit}=BYTES` cuts those of the job's configuration")
        }
        _ => String::new(),
    }
}

fn is_for_nobody(program: &Path) -> bool {
    let metadata = program.is_absolute().then(|| program.metadata());
    metadata.is_some_and(|found| found.is_ok_and(|file| file.permissions().mode() & 0o111 == 0))
}

/// ENOEXEC: the kernel cannot run the file.
const NO_FORMAT: i32 = 8;

fn joined(result: thread::Result<Result<()>>) -> Result<()> {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// True if the script did not take its input.
pub(super) fn is_of_script(error: &mr_model::BoxError) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::ScriptInput { .. }))
}

fn is_closed_input(error: &mr_model::BoxError) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::ScriptInput { source }) if source.kind() == io::ErrorKind::BrokenPipe)
}

fn is_cut_off(error: &mr_model::BoxError) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::ScriptRecord { .. }))
}

/// The result of the attempt.
fn judge(
    script: &Script,
    status: ExitStatus,
    fed: Result<()>,
    pumped: Result<()>,
    quoted: &Quoted,
) -> Result<()> {
    let command = || script.words.join(" ");
    // A script may read as little of its input as it wants.
    match fed {
        Err(error) if !is_closed_input(&error) => return Err(error),
        _ => {}
    }
    let failed = script.exit_code_matters && !status.success();
    match pumped {
        // It ended in the middle of a record: its exit code says more.
        Err(error) if failed && status.code().is_some() && is_cut_off(&error) => {}
        pumped => pumped?,
    }
    if !failed {
        return Ok(());
    }
    Err(Error::ScriptExit { command: command(), status, stderr: quoted.text() }.into())
}

/// Reads the standard error of a script.
struct Listener<'a> {
    script: &'a Script,
    context: &'a Context,
    quoted: Quoted,
    /// Groups of the engine in which it was told to count.
    refused: BTreeSet<String>,
}

impl Listener<'_> {
    fn listen(&mut self, stderr: &mut impl Read) {
        let (mut buffer, mut end) = (vec![0; ERROR_LINE_BYTES_MAX], 0);
        loop {
            let count = match stderr.read(&mut buffer[end..]) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            if count > 0 {
                self.context.show_life();
            }
            end += count;
            let mut start = 0;
            while let Some(length) = memchr::memchr(b'\n', &buffer[start..end]) {
                self.line(&buffer[start..start + length]);
                start += length + 1;
            }
            if start < end && (count == 0 || end - start == buffer.len()) {
                self.line(&buffer[start..end]);
                start = end;
            }
            if count == 0 {
                return;
            }
            buffer.copy_within(start..end, 0);
            end -= start;
        }
    }

    fn line(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        match text.strip_prefix(self.script.reporter_prefix.as_str()) {
            Some(report) if self.report(report) => {}
            _ => {
                self.quoted.add(&text);
                // The task's log; if it is closed, nobody can be notified.
                let _ = io::stderr().write_all(&[line, b"\n"].concat());
            }
        }
    }

    /// Handles `counter:GROUP,COUNTER,AMOUNT` or `status:TEXT`; false if it is neither.
    fn report(&mut self, report: &str) -> bool {
        if let Some(text) = report.strip_prefix("status:") {
            self.context.status(text);
            return true;
        }
        let Some(counter) = report.strip_prefix("counter:") else { return false };
        let mut parts = counter.rsplitn(2, ',');
        let amount = parts.next().and_then(|amount| amount.trim().parse::<i64>().ok());
        let (Some(amount), Some((group, name))) =
            (amount, parts.next().and_then(|names| names.split_once(',')))
        else {
            return false;
        };
        match check_group(group) {
            Ok(()) => self.context.counter(group, name).add_signed(amount),
            // A failure would take the script's work with it.
            Err(error) => {
                if self.refused.insert(group.to_owned()) {
                    let _ = writeln!(
                        io::stderr(),
                        "warning: {error}; what the script counts there is lost"
                    );
                }
            }
        }
        true
    }
}

/// The first and the last lines of standard error.
#[derive(Default)]
struct Quoted {
    first: Vec<String>,
    last: std::collections::VecDeque<String>,
    left_out: usize,
}

impl Quoted {
    fn add(&mut self, line: &str) {
        let line: String = line.chars().take(QUOTED_LINE_BYTES).collect();
        if self.first.len() < QUOTED_LINES {
            self.first.push(line);
            return;
        }
        self.last.push_back(line);
        if self.last.len() > QUOTED_LINES {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    /// Text for the end of a message: empty, or a colon and the lines.
    fn text(&self) -> String {
        let mut text = String::new();
        for (index, line) in self.first.iter().chain(&self.last).enumerate() {
            if index == 0 {
                text.push_str("; it wrote on standard error:");
            }
            if index == QUOTED_LINES && self.left_out > 0 {
                text.push_str(&format!("\n  … {} lines …", self.left_out));
            }
            text.push_str("\n  ");
            text.push_str(line);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mr_model::runner::TaskState;
    use protocol::{AttemptId, JobId, TaskId, TaskKind};

    use super::*;

    fn context(directory: &Path) -> Context {
        context_with(directory, BTreeMap::new())
    }

    fn context_with(directory: &Path, properties: BTreeMap<String, String>) -> Context {
        let job = JobId { cluster_start: 1, number: 1 };
        let task = TaskId { job, kind: TaskKind::Map, index: 0 };
        let context = Context::new(AttemptId { task, number: 0 }, properties);
        TaskState::of(&context).set_directory(directory.to_owned(), BTreeMap::new());
        context
    }

    fn sh(text: &str) -> Script {
        Script {
            words: vec!["sh".into(), "-c".into(), text.into()],
            job_variables: Vec::new(),
            variables: vec![("GREETING".into(), "hello".into())],
            reporter_prefix: "reporter:".into(),
            exit_code_matters: true,
        }
    }

    /// Feeds `input` in records of 1000 bytes; returns the output.
    fn check(script: &Script, context: &Context, input: &[u8]) -> Result<Vec<u8>> {
        let mut output = Vec::new();
        run(
            script,
            context,
            |feed| {
                input
                    .chunks(1000)
                    .try_for_each(|chunk| feed.record(|out| out.extend_from_slice(chunk)))
            },
            |pipe| {
                pipe.read_to_end(&mut output)?;
                Ok(())
            },
        )?;
        Ok(output)
    }

    #[test]
    fn much_flows_both_ways_without_deadlock() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(directory.path());
        let input: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        assert!(check(&sh("cat"), &context, &input).unwrap() == input);
        let flood = sh("head -c 2000000 /dev/zero; cat >&2; echo $GREETING");
        assert_eq!(check(&flood, &context, &input).unwrap().len(), 2_000_006);
    }

    /// The kernel refuses a variable of 128 KiB. The limit of the configuration's variables holds for those of the job, too.
    #[test]
    fn long_variables_of_a_job_are_cut_like_its_properties() {
        let directory = tempfile::tempdir().unwrap();
        let inputs = "x".repeat(140_000);
        let job_variables = vec![
            ("mapred_job_name".to_owned(), "short".to_owned()),
            ("mapred_input_dir".to_owned(), inputs),
        ];
        let script = Script { job_variables, ..sh("cat > /dev/null; echo ${#mapred_input_dir}") };
        let context = |limit: &[&str]| {
            let limit = limit
                .iter()
                .map(|limit| (keys::VARIABLE_BYTES_MAX.name().to_owned(), (*limit).to_owned()));
            context_with(directory.path(), limit.collect())
        };
        let refused = check(&script, &context(&[]), b"").unwrap_err().to_string();
        for part in ["mapred_input_dir, of 140000 bytes", "-D stream.jobconf.truncate.limit="] {
            assert!(refused.contains(part), "{refused}");
        }
        assert_eq!(check(&script, &context(&["20000"]), b"").unwrap(), b"20000\n");
    }

    #[test]
    fn counters_and_status_come_from_standard_error() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(directory.path());
        let script = "cat > /dev/null; for i in 1 2; do echo 'reporter:counter:My Group,a, b,21' >&2; done
            echo reporter:counter:G,c,-5 >&2; echo reporter:status:busy >&2; printf 'reporter:counter:G,last,1' >&2";
        check(&sh(script), &context, b"").unwrap();
        let counters = TaskState::of(&context).counters();
        assert_eq!(counters.value("My Group", "a, b"), 42);
        assert_eq!(counters.value("G", "c"), 0, "a sum cannot be negative");
        assert_eq!(counters.value("G", "last"), 1);
    }

    #[test]
    fn all_that_a_script_writes_shows_life() {
        let directory = tempfile::tempdir().unwrap();
        for script in ["printf x", "printf x >&2"] {
            let (silent, writing) = (context(directory.path()), context(directory.path()));
            check(&sh(":"), &silent, b"").unwrap();
            check(&sh(script), &writing, b"").unwrap();
            let signs = [&silent, &writing].map(|context| TaskState::of(context).life_signs());
            assert!(signs[1] > signs[0], "{script}: {signs:?}");
        }
    }

    #[test]
    fn a_script_that_fails_is_not_waited_for_longer_than_it_runs() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(directory.path());
        let plenty = vec![b'x'; 4 << 20];
        // One that was left behind holds all pipes, and reads nothing; or keeps writing.
        for left in ["sleep 60 <&3 & echo $!", "yes <&3 & echo $!"] {
            let script = sh(&format!("exec 3<&0; {left} >&2; echo the cause >&2; exit 3"));
            let text = check(&script, &context, &plenty).unwrap_err().to_string();
            assert!(text.contains("exit status: 3") && text.contains("the cause"), "{text}");
            let child = text.lines().find_map(|line| line.trim().parse::<u32>().ok());
            let child = child.unwrap_or_else(|| panic!("{text}"));
            // One that writes ends with its pipe, and its id may be somebody else's then.
            if left.starts_with("sleep") {
                assert!(sys::process::is_alive(child), "{left}");
                sys::process::kill(child).unwrap();
            }
        }
        // What a script that succeeds has left behind is part of it.
        let script = sh("exec 3<&0; (cat; echo late) <&3 & exit 0");
        assert_eq!(check(&script, &context, b"in").unwrap(), b"inlate\n");
    }

    #[test]
    fn failures_name_command_exit_code_and_first_lines() {
        let directory = tempfile::tempdir().unwrap();
        let context = context(directory.path());
        let fails = sh("cat > /dev/null; echo first cause >&2; seq 100 >&2; exit 3");
        let text = check(&fails, &context, b"x").unwrap_err().to_string();
        for part in ["exit status: 3", "first cause", "\n  100", "lines …"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(check(&Script { exit_code_matters: false, ..fails }, &context, b"x").is_ok());
        let plenty = vec![b'x'; 4 << 20];
        for ends_early in ["exit 0", "exec 0<&-; echo said", "head -c 5"] {
            check(&sh(ends_early), &context, &plenty).unwrap();
        }
        let said = check(&sh("exec 0<&-; seq 100000"), &context, &plenty).unwrap();
        assert_eq!(said.iter().filter(|byte| **byte == b'\n').count(), 100_000);
        let dies = check(&sh("echo dead >&2; exit 4"), &context, &plenty).unwrap_err();
        assert!(dies.to_string().contains("exit status: 4"), "{dies}");
        let missing = Script { words: vec!["./no-such-script".into()], ..sh("") };
        let text = mr_model::runner::guard(|| check(&missing, &context, b"")).unwrap_err();
        assert!(text.contains("./no-such-script") && text.contains("No such file"), "{text}");
        assert!(text.contains("`-file ./no-such-script` sends it along"), "{text}");
        std::fs::write(directory.path().join("bare.sh"), "echo hi\n").unwrap();
        let bare = Script { words: vec!["bare.sh".into()], ..sh("") };
        for mode in [0o755, 0o644] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(directory.path().join("bare.sh"), mode).unwrap();
            let text = mr_model::runner::guard(|| check(&bare, &context, b"")).unwrap_err();
            assert!(text.contains("#!/bin/sh"), "{text}");
        }
    }
}
