//! One task process: starts and greets it, gives it one attempt after the other, watches it, and ends it with all its children.
//!
//! ```text
//! spawn -> Hello -> Setup -> Preparing* -> Ready -> (Launch -> Progress* -> Ended)* -> Exit
//!    any step -> exits, is killed, stays silent too long, or breaks the rules -> Gone
//! ```
//!
//! Invariants: the process runs in its own session under limits, and is killed with all its descendants when the runner is over; everything
//! that the process wrote before it reported the end of an attempt is in that attempt's logs; [`News::Gone`] is sent exactly once, last. A deadline
//! measures silence, and never how long work takes.

mod broker;
pub(crate) mod claims;
mod frames;
mod launch;
mod orders;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use protocol::AttemptId;
use protocol::error::chain;
use protocol::frame::{self, BODY_BYTES_MAX};
use protocol::runner::{COOKIE_VARIABLE, FROM_RUNNER_BYTES_MAX, FromRunner, ToRunner};
use protocol::tracker::{AttemptState, Work};
use sys::cgroup::Group;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::Child;
use tokio::sync::mpsc;
use tokio::time::Instant;

use self::claims::{CheckedMessage, Speaker};
use self::frames::FrameReader;
use self::launch::Output;
use crate::core::{Event, News, RunnerId, merge_outputs};
use crate::input::Input;
use crate::logs::AttemptLogs;
use crate::scratch::OpenDir;
use crate::walls::{Sandbox, Watch, Watched};

pub(crate) use self::orders::{Options, Order};

/// Time for messages still in transit after a process has exited (a child of its own can hold the socket open).
const AFTER_EXIT: Duration = Duration::from_millis(200);
/// Time for a process to exit by itself after a request, or after it closed its socket.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The name in errors of what is read from its socket.
const MESSAGE: &str = "message of a task process";
/// Unit in which output of the process is read.
const OUTPUT_CHUNK_BYTES: usize = 64 << 10;
/// Chunks that are read before everything else gets its turn. A pipe holds at most a mebibyte of a user without rights, so this many hold what a
/// process wrote before it reported the end of an attempt, however fast its children go on writing.
const OUTPUT_CHUNKS_MAX: usize = (1 << 20) / OUTPUT_CHUNK_BYTES + 1;
/// The time of silence is waited for in this many parts, of which each counts once however late it ends. So neither a pause of the whole machine
/// nor one of the worker, in which it heard nobody, is taken for the silence of a task.
const SILENCE_PARTS: u32 = 4;

/// Starts a process and drives it to its end. `inputs` gets all its reports; the last is [`News::Gone`].
pub(crate) async fn run(
    options: Options,
    mut orders: mpsc::UnboundedReceiver<Order>,
    runner: RunnerId,
    inputs: mpsc::Sender<Input>,
) {
    let RunnerId(id) = runner;
    let cookie = protocol::auth::Key::new(rand::random()).to_hex();
    let started = async {
        let temporary = options.job.fresh_of(temporary_name(id), options.user)?;
        let process = launch::start(&options, &temporary.path, id, &cookie).await?;
        Ok::<_, io::Error>((process, temporary))
    };
    let diagnostics = match started.await {
        Ok((mut process, temporary)) => {
            let (read, write) = process.socket.into_split();
            let reader = FrameReader::new(read, FROM_RUNNER_BYTES_MAX);
            let brokering = tokio::spawn(broker::serve(process.broker));
            let mut runner = Runner {
                temporary,
                options: &options,
                id,
                inputs: &inputs,
                news: Vec::new(),
                writer: Some(writer(write)),
                is_greeted: false,
                ready: false,
                step: "starting".to_owned(),
                waiting: None,
                current: None,
                is_round: false,
                logs: None,
                silence: Silence::begin(),
                group: process.group,
                watched: options.watch.over(
                    id,
                    process.group,
                    &mark(&cookie),
                    options.job.path.clone(),
                ),
                output: process.output,
            };
            let temporary = name_of(&runner.temporary.path);
            runner.watched.owns(temporary);
            process.pids.iter().for_each(|pids| runner.watched.count_in(Arc::clone(pids)));
            let end = runner.drive(&mut process.child, reader, &mut orders).await;
            // A program that does not become ready takes its attempt with it: it would not in another process either.
            if runner.ready {
                // If the worker's loop has ended, nobody listens.
                let _ = inputs.send(Input::Over { runner: RunnerId(id), orders }).await;
            }
            brokering.abort();
            runner.finish(process.child, process.pids, &cookie, end).await
        }
        Err(error) => format!("cannot start {}: {error}", options.binary.display()),
    };
    // If the worker's loop has ended, nobody listens.
    let _ = inputs.send(Input::Event(Event::Runner(runner, News::Gone { diagnostics }))).await;
}

/// Why a runner is over.
enum End {
    /// The process exited.
    Exited(ExitStatus),
    /// It closed its socket.
    Closed,
    /// The worker ended it, or it violated the protocol.
    Because(String),
}

struct Runner<'a> {
    options: &'a Options,
    id: u64,
    inputs: &'a mpsc::Sender<Input>,
    /// Reports received and not yet sent to the loop.
    news: Vec<News>,
    writer: Option<mpsc::UnboundedSender<Vec<u8>>>,
    /// It has said hello.
    is_greeted: bool,
    ready: bool,
    /// What it does before it is ready.
    step: String,
    waiting: Option<Order>,
    current: Option<AttemptId>,
    /// That one is of a round.
    is_round: bool,
    logs: Option<AttemptLogs>,
    silence: Silence,
    temporary: OpenDir,
    group: u32,
    watched: Watched,
    output: [Output; 2],
}

impl Runner<'_> {
    async fn drive(
        &mut self,
        child: &mut Child,
        mut reader: FrameReader,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> End {
        loop {
            self.forward_news().await;
            let [stdout, stderr] = &self.output;
            let (limit, part) = (self.silence_max(), self.silence.part_began);
            let part_end = part + limit.unwrap_or_default() / SILENCE_PARTS;
            tokio::select! {
                biased;
                message = reader.next(MESSAGE) => match message {
                    Ok(Some(message)) => {
                        if let Some(excess) = self.excess_behind(&message).await {
                            return End::Because(excess);
                        }
                        if let Some(end) = self.receive(message) {
                            return end;
                        }
                    }
                    Ok(None) => return End::Closed,
                    Err(error) => return End::Because(chain(&error)),
                },
                order = orders.recv() => match order {
                    Some(order) => {
                        if let Some(end) = self.obey(order) {
                            return end;
                        }
                    }
                    None => return End::Because("the worker is stopping".to_owned()),
                },
                () = readable(stdout) => self.drain(0),
                () = readable(stderr) => self.drain(1),
                status = child.wait() => {
                    let after = Instant::now() + AFTER_EXIT;
                    while let Ok(Ok(Some(message))) =
                        tokio::time::timeout_at(after, reader.next(MESSAGE)).await
                    {
                        self.receive(message);
                    }
                    self.forward_news().await;
                    return match status {
                        Ok(status) => End::Exited(status),
                        Err(error) => End::Because(format!("cannot wait for it: {error}")),
                    };
                }
                excess = &mut self.watched.verdict => return End::Because(match excess {
                    Ok(excess) => excess.to_string(),
                    Err(_) => "the watch over tasks has ended".to_owned(),
                }),
                () = tokio::time::sleep_until(part_end), if limit.is_some() => {
                    if self.silence.end_part() {
                        return End::Because(self.silence_text());
                    }
                }
            }
        }
    }

    /// That an attempt which reports its failure has too many processes. Its own report says less: nothing more could be started.
    async fn excess_behind(&self, message: &FromRunner) -> Option<String> {
        let is_failure =
            matches!(message, FromRunner::Ended { state: AttemptState::Failed { .. }, .. });
        if !is_failure || self.current.is_none() {
            return None;
        }
        let (watch, id) = (self.options.watch.clone(), self.id);
        match tokio::task::spawn_blocking(move || watch.has_too_many_processes(id)).await {
            Ok(Ok(excess)) => excess.map(|excess| excess.to_string()),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot look at the processes of an attempt that has failed");
                None
            }
            Err(_) => None,
        }
    }

    /// Sends received reports to the loop. While the worker's loop is busy, this runner waits, and so does its process.
    async fn forward_news(&mut self) {
        for news in self.news.drain(..) {
            // If the worker's loop has ended, nobody listens.
            let event = Event::Runner(RunnerId(self.id), news);
            let _ = self.inputs.send(Input::Event(event)).await;
        }
    }

    /// Kills the rest of the group and returns why it is over.
    async fn finish(
        mut self,
        mut child: Child,
        pids: Option<Arc<Group>>,
        cookie: &str,
        end: End,
    ) -> String {
        let group = self.group;
        self.writer = None;
        let (status, reason) = match end {
            End::Exited(status) => (Some(status), None),
            End::Closed => {
                let status = tokio::time::timeout(EXIT_TIMEOUT, child.wait()).await;
                (status.ok().and_then(Result::ok), None)
            }
            End::Because(reason) => (None, Some(reason)),
        };
        let reason = reason.or_else(|| {
            let excess = self.options.watch.ended_for_memory(pids.as_ref()?)?;
            Some(excess.to_string())
        });
        let over = Over { id: self.id, group, pids, mark: mark(cookie) };
        over.end(&self.options.watch, &self.options.sandbox).await;
        remove(self.options.job.clone(), temporary_name(self.id)).await;
        if status.is_none()
            && let Err(error) = child.wait().await
        {
            tracing::warn!(group, %error, "cannot wait for a task process");
        }
        sys::orphans::ended(group);
        (0..self.output.len()).for_each(|index| self.drain(index));
        let mut text = match (status, reason) {
            (_, Some(reason)) => reason,
            (Some(status), None) => format!("the task process ended with {status}"),
            (None, None) => "the task process closed its socket and had to be killed".to_owned(),
        };
        let tail = self.logs.as_ref().map(AttemptLogs::stderr_tail).unwrap_or_default();
        if !tail.is_empty() {
            text.push_str("; its standard error ends with:\n");
            text.push_str(&tail);
        }
        text
    }

    fn receive(&mut self, message: FromRunner) -> Option<End> {
        self.silence = Silence::begin();
        match self.speaker().check(message) {
            CheckedMessage::Hello => {
                self.is_greeted = true;
                "rebuilding its job".clone_into(&mut self.step);
                self.send(&ToRunner::Setup(Box::new(self.options.setup.clone())))
            }
            CheckedMessage::Ready => {
                self.ready = true;
                let waiting = self.waiting.take();
                waiting.and_then(|order| self.obey(order))
            }
            CheckedMessage::Step(step) => {
                self.step = step;
                None
            }
            CheckedMessage::Late => None,
            CheckedMessage::Over(reason) => Some(End::Because(reason)),
            CheckedMessage::News(news) => {
                if matches!(news, News::Ended { .. }) {
                    (0..self.output.len()).for_each(|index| self.drain(index));
                    self.current = None;
                    self.logs = None;
                }
                self.news.push(news);
                None
            }
        }
    }

    fn speaker(&self) -> Speaker {
        let (job, current) = (self.options.setup.pass.name.job, self.current);
        Speaker { job, current, is_round: self.is_round, is_greeted: self.is_greeted }
    }

    fn obey(&mut self, order: Order) -> Option<End> {
        match order {
            Order::Launch { attempt, work, place } => {
                if self.current != Some(attempt) {
                    self.current = Some(attempt);
                    self.is_round = matches!(work, Work::Round(_));
                    self.silence = Silence::begin();
                    let own = [place.path.as_path(), self.temporary.path.as_path()];
                    self.watched.owns(own.into_iter().flat_map(name_of));
                    let limit = self.options.log_bytes_max;
                    match AttemptLogs::create(&self.options.logs.dir, attempt, limit) {
                        Ok(logs) => self.logs = Some(logs),
                        Err(error) => {
                            return Some(End::Because(format!("cannot write logs: {error}")));
                        }
                    }
                }
                if self.ready {
                    let directory = place.path.to_string_lossy().into_owned();
                    return self.send_all(ToRunner::launch(attempt, work, directory));
                }
                self.waiting = Some(Order::Launch { attempt, work, place });
                None
            }
            Order::MapOutputs { available, obsolete } => match &mut self.waiting {
                Some(Order::Launch { work: Work::Reduce(work), .. }) => {
                    merge_outputs(&mut work.outputs, available, &obsolete);
                    None
                }
                _ => self.send_all(ToRunner::map_outputs(available, obsolete)),
            },
            Order::Pass(pass) => self.send(&ToRunner::Pass(pass)),
            Order::Exit => self.send(&ToRunner::Exit),
            Order::Kill => Some(End::Because("killed".to_owned())),
        }
    }

    fn send_all(&self, mut messages: impl Iterator<Item = ToRunner>) -> Option<End> {
        messages.find_map(|message| self.send(&message))
    }

    /// Sends a message; one that its process would refuse ends it with the reason.
    fn send(&self, message: &ToRunner) -> Option<End> {
        let writer = self.writer.as_ref()?;
        match frame::encode_within(message, BODY_BYTES_MAX) {
            // If the writer has ended, it met a closed socket, which the reader detects too.
            Ok(frame) => drop(writer.send(frame)),
            Err(error) => return Some(End::Because(format!("cannot give it its orders: {error}"))),
        }
        None
    }

    /// Moves what the process has written so far into the logs, a pipe's worth at most.
    fn drain(&mut self, index: usize) {
        let output = &mut self.output[index];
        let Some(pipe) = &output.pipe else { return };
        let mut buffer = [0; OUTPUT_CHUNK_BYTES];
        for _ in 0..OUTPUT_CHUNKS_MAX {
            match pipe.try_read(&mut buffer) {
                Ok(0) => {
                    output.pipe = None;
                    return;
                }
                Ok(count) => {
                    self.silence = Silence::begin();
                    if let Some(logs) = &mut self.logs
                        && let Err(error) = logs.append(output.kind, &buffer[..count])
                    {
                        tracing::warn!(%error, "cannot write the log of a task; the rest is dropped");
                        self.logs = None;
                    }
                    if count < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the output of a task");
                    output.pipe = None;
                    return;
                }
            }
        }
    }

    /// How long the process may be silent now; `None` if it may for ever.
    fn silence_max(&self) -> Option<Duration> {
        if !self.ready {
            return Some(self.options.start_timeout);
        }
        let watched = self.current.is_some() && !self.options.silence_max.is_zero();
        watched.then_some(self.options.silence_max)
    }

    fn silence_text(&self) -> String {
        if self.ready {
            format!("the task gave no sign of life for {:?}", self.options.silence_max)
        } else {
            let (limit, step) = (self.options.start_timeout, &self.step);
            format!(
                "the task process was not ready and gave no sign of life for {limit:?} (runner_start_timeout_ms) while it was {step}"
            )
        }
    }
}

/// How long a process has been silent while the runner listened.
struct Silence {
    part_began: Instant,
    parts: u32,
}

impl Silence {
    /// The process has just shown life.
    fn begin() -> Self {
        Silence { part_began: Instant::now(), parts: 0 }
    }

    /// A part has ended without a sign of life. True if it was the last.
    fn end_part(&mut self) -> bool {
        *self = Silence { part_began: Instant::now(), parts: self.parts + 1 };
        self.parts >= SILENCE_PARTS
    }
}

/// The name of a runner's directory for temporary files, in the job's directory.
fn temporary_name(id: u64) -> String {
    format!("tmp-{id}")
}

/// Removes temporary files.
async fn remove(job: OpenDir, name: String) {
    let removed = tokio::task::spawn_blocking(move || job.remove(&name));
    // If this fails, the runtime ends, and the worker with it; the next worker begins with an empty directory.
    let _ = removed.await;
}

/// A task process and all its descendants, wherever they went.
struct Over {
    id: u64,
    group: u32,
    pids: Option<Arc<Group>>,
    mark: String,
}

impl Over {
    /// Kills all of them. If they cannot leave their cgroup, no search is needed. Otherwise the session, the parents and the environment
    /// identify a descendant; one that left all these behind is recognised as an orphan.
    async fn end(self, watch: &Watch, sandbox: &Sandbox) {
        let Over { id, group, pids, mark } = self;
        let (watch, is_held) = (watch.clone(), sandbox.holds_groups());
        let killing = move || {
            let is_ended = pids.as_ref().map_or(Ok(true), |pids| pids.end())?;
            if pids.is_some() && is_held {
                return Ok::<bool, io::Error>(is_ended);
            }
            let is_found = sys::family::kill_family(group, &mark)?;
            Ok(is_ended & is_found & watch.end_orphans(Some(id))?)
        };
        match tokio::task::spawn_blocking(killing).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => tracing::warn!(group, "processes of a task are left"),
            Ok(Err(error)) => tracing::warn!(group, %error, "cannot kill the processes of a task"),
            Err(error) => tracing::warn!(group, %error, "processes of a task were not killed"),
        }
    }
}

/// The mark in the environment of every descendant of a process, unless one removes it.
fn mark(cookie: &str) -> String {
    format!("{COOKIE_VARIABLE}={cookie}")
}

/// The name of an entry of the job's directory.
fn name_of(path: &Path) -> Option<OsString> {
    path.file_name().map(OsString::from)
}

/// Writes in its own task, so a process that does not read cannot block the reading of its output.
fn writer(mut write: OwnedWriteHalf) -> mpsc::UnboundedSender<Vec<u8>> {
    let (sender, mut frames) = mpsc::unbounded_channel::<Vec<u8>>();
    tokio::spawn(async move {
        while let Some(bytes) = frames.recv().await {
            if write.write_all(&bytes).await.is_err() {
                break;
            }
        }
    });
    sender
}

async fn readable(output: &Output) {
    match &output.pipe {
        // An error appears again, and is handled, when the pipe is read.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}
