//! `hanno job replay`: runs an attempt of a job again on this machine, from its recorded program, arguments, split and configuration.
//!
//! This process takes the place of the worker: it starts the program, sends it the job over the task socket ([`protocol::runner`]) and receives the result of
//! the attempt. A reduce gets the map outputs that its job still has; if some are missing, it first runs all maps again.
//!
//! Invariant: nothing in the cluster is changed. The attempt writes to a directory on this machine, which is kept.

use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Parser;
use client::ClientConfig;
use client::dfs::DfsClient;
use client::job::{counters_text, hash_file};
use mr_api::replay::{RecordPlace, STOP_PROPERTY};
use protocol::auth::Key;
use protocol::frame::{self, BODY_BYTES_MAX};
use protocol::jobs::{Counters, Replay, Splits, job_file};
use protocol::pass::{Pass, PassName};
use protocol::runner::{COOKIE_VARIABLE, FromRunner, SOCKET_VARIABLE, Setup, ToRunner};
use protocol::tracker::{AttemptState, MapOutput, Program, ReduceWork, Work};
use protocol::{AttemptId, JobId, TaskId, TaskKind};
use transport::rpc::now_ms;

use super::exit::with_args;
use crate::connect::{Overrides, file_system_config, job_client, namenode_address};
use crate::output::{EXIT_FAILED, EXIT_OK, report, say};

/// Longest first message: a cookie.
const HELLO_BYTES_MAX: usize = 4 << 10;
/// How long the task may read the cluster's files: a debugger may hold it for a day.
const PASS_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Memory for sort buffers and shuffle: a worker's default.
const MEMORY_BYTES: u64 = 256 << 20;

/// Run an attempt of a job again on this machine, from its recorded program, arguments, input and configuration.
///
/// Nothing in the cluster is changed: what the attempt writes goes to a directory here. Its standard output and error are those of
/// this command.
#[derive(Parser)]
#[command(
    name = "hanno job replay",
    after_help = "Examples:
  hanno job replay attempt_202611201830_0001_m_000005_3
  hanno job replay --stop-before-failure --debugger 'gdb --args' attempt_202611201830_0001_m_000005_3
  hanno job replay --debugger 'perf record -g --' attempt_202611201830_0001_r_000000_0"
)]
struct Args {
    /// The attempt, e.g. as `hanno job -list-attempt-ids` names it
    attempt: String,
    /// Where it works; must be empty or missing, and is kept [default: the attempt's name]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Run this program instead of the recorded one, e.g. one with more prints in it; it must describe the same job
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Start the program under this command
    #[arg(long, value_name = "COMMAND")]
    debugger: Option<String>,
    /// Stop the process before a map gets the record that begins at this byte of a file
    #[arg(long, value_name = "PATH:BYTE", conflicts_with = "stop_before_failure")]
    stop_before: Option<String>,
    /// Stop the process before a map gets the record that it failed at
    #[arg(long)]
    stop_before_failure: bool,
}

/// The pass that the task signs with.
fn pass(config: &ClientConfig, attempt: AttemptId, program: &Program) -> Result<Pass> {
    let secret = config
        .secret(client::Daemon::Namenode)?
        .context("no secret of the cluster is known: set `secret_file`")?;
    let lifetime_ms = u64::try_from(PASS_LIFETIME.as_millis()).unwrap_or(u64::MAX);
    let expires_ms = now_ms().saturating_add(lifetime_ms);
    let name = PassName { job: attempt.task.job, user: program.user.clone(), expires_ms };
    Ok(Pass::issue(&secret, name))
}

/// Runs the command line after `job replay` and returns the exit code.
pub(super) fn run(arguments: &[std::ffi::OsString], overrides: &Overrides) -> u8 {
    with_args("hanno job replay", arguments, |args: Args| replay(&args, overrides))
}

fn replay(args: &Args, overrides: &Overrides) -> Result<u8> {
    let Ok(attempt) = args.attempt.parse::<AttemptId>() else {
        bail!("{} is no attempt; an example is attempt_202611201830_0001_m_000005_0", args.attempt);
    };
    let config = file_system_config(&overrides.config()?)?;
    let mut replay = job_client(&config)?.replay(attempt)?;
    let program = Arc::make_mut(&mut replay.launch.program);
    if let Some(place) = stop_place(args, &replay.diagnostics)? {
        program.properties.insert(STOP_PROPERTY.to_owned(), place.to_string());
    }
    let dfs = DfsClient::connect(&config)?;
    let directory = work_directory(args, attempt)?;
    let binary = match &args.binary {
        Some(path) => {
            path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?
        }
        None => fetch(&dfs, program, &directory)?,
    };
    program.user = config.user();
    let output = directory.join("output");
    fs::create_dir(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let setup = Setup {
        program: program.clone(),
        namenode: namenode_address(&config)?.to_owned(),
        pass: pass(&config, attempt, program)?,
        host: sys::host::host_name(),
        boot_id: sys::host::boot_id(),
        memory_bytes_max: MEMORY_BYTES,
        local_output: Some(output.to_string_lossy().into_owned()),
    };
    let begin = Instant::now();
    let mut task = Task::start(&binary, args.debugger.as_deref(), setup, &directory)?;
    let (state, counters) = task.replay(replay, &directory)?;
    drop(task);
    say!("{}", counters_text(&counters).trim_end());
    let took = begin.elapsed().as_secs_f64();
    let kept = format!("everything is in {}", directory.display());
    if let AttemptState::Failed { diagnostics } = state {
        report!("{attempt} failed again, after {took:.1} s: {diagnostics}\n{kept}");
        return Ok(EXIT_FAILED);
    }
    report!("{attempt} succeeded after {took:.1} s; {kept}");
    Ok(EXIT_OK)
}

/// The record to stop before, if the options name one.
fn stop_place(args: &Args, diagnostics: &str) -> Result<Option<RecordPlace>> {
    if args.stop_before_failure {
        let place = RecordPlace::of_failure(diagnostics);
        return place.map(Some).ok_or_else(|| match diagnostics {
            "" => anyhow!("{} has not failed", args.attempt),
            _ => anyhow!("{} did not fail at a record: {diagnostics}", args.attempt),
        });
    }
    let Some(text) = &args.stop_before else { return Ok(None) };
    let place = RecordPlace::parse(text);
    place.map(Some).with_context(|| format!("{text} is not PATH:BYTE, e.g. /logs/monday:4096"))
}

/// The directory of a replay: empty, absolute, private.
fn work_directory(args: &Args, attempt: AttemptId) -> Result<PathBuf> {
    let path = args.directory.clone().unwrap_or_else(|| attempt.to_string().into());
    let context = || format!("cannot use {}", path.display());
    fs::create_dir_all(&path).with_context(context)?;
    if fs::read_dir(&path).with_context(context)?.next().is_some() {
        bail!("{} is not empty: give another directory with --directory", path.display());
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).with_context(context)?;
    path.canonicalize().with_context(context)
}

/// The recorded executable, in a file.
fn fetch(dfs: &DfsClient, program: &Program, directory: &Path) -> Result<PathBuf> {
    let path = directory.join("program");
    let context = || {
        let path = path.display();
        format!("cannot fetch the job's program to {path} (--binary gives another copy of it)")
    };
    let stored = job_file(&program.user, program.binary).with_context(context)?;
    let mut source = dfs.open(&stored).with_context(context)?;
    let mut file = fs::File::create(&path).with_context(context)?;
    io::copy(&mut source, &mut file).with_context(context)?;
    file.set_permissions(fs::Permissions::from_mode(0o700)).with_context(context)?;
    drop(file);
    if hash_file(&path)? != program.binary {
        bail!("{} is not the program that was submitted", path.display());
    }
    Ok(path)
}

/// An event of a task's process.
enum Event {
    /// It has connected with the right cookie.
    Arrived(UnixStream),
    Said(Box<FromRunner>),
    Exited(io::Result<ExitStatus>),
}

/// A running program that accepts attempts; ended when dropped.
struct Task {
    pid: u32,
    exited: bool,
    events: Receiver<Event>,
    stream: UnixStream,
    boot_id: String,
}

impl Task {
    /// Starts the program and waits until it has rebuilt the job.
    fn start(
        binary: &Path,
        debugger: Option<&str>,
        setup: Setup,
        directory: &Path,
    ) -> Result<Self> {
        let cookie = Key::new(rand::random()).to_hex();
        let socket = format!("hanno-replay-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let listener = sys::socket::listen(&socket).context("cannot listen for the task")?;
        let (sender, events) = mpsc::channel();
        let expected = cookie.clone();
        let arrivals = sender.clone();
        thread::spawn(move || relay(&listener, &expected, &arrivals));
        let mut command = command(binary, debugger, &setup.program.args, directory);
        command.env(SOCKET_VARIABLE, &socket).env(COOKIE_VARIABLE, &cookie).current_dir(directory);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        let pid = child.id();
        // The receiver may be gone.
        thread::spawn(move || drop(sender.send(Event::Exited(child.wait()))));
        let stream = match events.recv()? {
            Event::Arrived(stream) => stream,
            Event::Exited(status) => {
                bail!("the program ended before it took the task: {}", status?)
            }
            Event::Said(message) => bail!("the program began with {message:?}"),
        };
        let boot_id = setup.boot_id.clone();
        let mut task = Task { pid, exited: false, events, stream, boot_id };
        task.say(&ToRunner::Setup(Box::new(setup)))?;
        loop {
            match task.next()? {
                FromRunner::Ready => return Ok(task),
                FromRunner::Preparing { .. } => {}
                FromRunner::Refused { diagnostics } => bail!("{diagnostics}"),
                message => bail!("the program answered {message:?} to the job"),
            }
        }
    }

    /// Runs the attempt; before a reduce that lacks outputs, it runs all maps of the job.
    fn replay(&mut self, replay: Replay, directory: &Path) -> Result<(AttemptState, Counters)> {
        let Replay { launch, splits, .. } = replay;
        let work = match launch.work {
            Work::Reduce(work) if work.outputs.len() < splits.len() => {
                let outputs = Arc::new(self.maps(launch.attempt.task.job, &splits, directory)?);
                Work::Reduce(ReduceWork { outputs, ..work })
            }
            work => work,
        };
        self.attempt(launch.attempt, work, &directory.join("task"))
    }

    fn maps(&mut self, job: JobId, splits: &Splits, directory: &Path) -> Result<Vec<MapOutput>> {
        let count = splits.len();
        report!("the outputs of the maps are gone: all {count} run again first");
        let mut outputs = Vec::with_capacity(count);
        for (index, split) in (0..).zip(splits.iter()) {
            let task = TaskId { job, kind: TaskKind::Map, index };
            let attempt = AttemptId { task, number: 0 };
            let (state, _) = self.attempt(
                attempt,
                Work::Map { split, skip: Vec::new() },
                &directory.join(task.to_string()),
            )?;
            match state {
                AttemptState::MapDone { data_path, .. } => outputs.push(MapOutput {
                    attempt,
                    http_address: String::new(),
                    boot_id: self.boot_id.clone(),
                    data_path,
                }),
                AttemptState::Failed { diagnostics } => bail!("map {index} failed: {diagnostics}"),
                other => bail!("map {index} ended as {other:?}"),
            }
        }
        Ok(outputs)
    }

    fn attempt(
        &mut self,
        attempt: AttemptId,
        work: Work,
        directory: &Path,
    ) -> Result<(AttemptState, Counters)> {
        fs::create_dir(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let directory = directory.to_string_lossy().into_owned();
        for order in ToRunner::launch(attempt, work, directory) {
            self.say(&order)?;
        }
        let terminal = io::stderr().is_terminal();
        loop {
            match self.next()? {
                FromRunner::Progress { progress, .. } if terminal => {
                    crate::output::draw(&format!("\r{attempt} {:3.0} %\r", progress * 100.0));
                }
                FromRunner::Progress { .. } | FromRunner::Status { .. } => {}
                FromRunner::FetchFailed(failure) => {
                    bail!("the output of {} cannot be read: {}", failure.map, failure.diagnostics)
                }
                FromRunner::Ended { state, counters, .. } => return Ok((state, counters)),
                message => bail!("the program said {message:?} while it ran the task"),
            }
        }
    }

    fn say(&mut self, order: &ToRunner) -> Result<()> {
        frame::write(&mut self.stream, order).context("the program does not listen any more")
    }

    fn next(&mut self) -> Result<FromRunner> {
        match self.events.recv()? {
            Event::Said(message) => Ok(*message),
            Event::Exited(status) => {
                self.exited = true;
                bail!("the program ended in the middle of the task: {}", status?)
            }
            Event::Arrived(_) => bail!("the program connected twice"),
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if self.exited {
            return;
        }
        // A program that does not respond is killed; one that is already gone needs nothing.
        if self.say(&ToRunner::Exit).is_err() {
            let _ = sys::process::kill(self.pid);
        }
        while let Ok(event) = self.events.recv() {
            if matches!(event, Event::Exited(_)) {
                return;
            }
        }
    }
}

/// The program as a worker starts it; under a debugger, with a terminal and the user's own environment.
fn command(binary: &Path, debugger: Option<&str>, args: &[String], directory: &Path) -> Command {
    let mut words = debugger.unwrap_or_default().split_whitespace();
    let mut command = match words.next() {
        Some(debugger) => {
            let mut command = Command::new(debugger);
            command.args(words).arg(binary);
            command
        }
        None => {
            let mut command = Command::new(binary);
            command.env_clear().env("HOME", directory).stdin(Stdio::null());
            for name in ["PATH", "LANG"] {
                if let Some(value) = std::env::var_os(name) {
                    command.env(name, value);
                }
            }
            command
        }
    };
    command.args(args).env("TMPDIR", directory);
    command
}

/// Waits for the program to connect, and passes on its messages until it disconnects.
fn relay(listener: &UnixListener, cookie: &str, events: &Sender<Event>) {
    let mut stream = loop {
        let Ok((mut stream, _)) = listener.accept() else { return };
        let hello = frame::read::<FromRunner>(&mut stream, HELLO_BYTES_MAX, "hello");
        if matches!(hello, Ok(FromRunner::Hello { cookie: said }) if said == cookie) {
            break stream;
        }
    };
    let Ok(writer) = stream.try_clone() else { return };
    let mut open = events.send(Event::Arrived(writer)).is_ok();
    while open {
        let Ok(message) = frame::read(&mut stream, BODY_BYTES_MAX, "news of the task") else {
            return;
        };
        open = events.send(Event::Said(Box::new(message))).is_ok();
    }
}
