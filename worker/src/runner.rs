//! One task process: started, greeted, given one attempt after the other, watched, ended with all its children.
//!
//! ```text
//! spawn -> Hello with the right cookie -> Setup -> Ready -> (Launch -> Progress* -> Ended)* -> Exit
//!    any step -> exits, is killed, stays silent too long, or breaks the rules -> Gone
//! ```
//!
//! Invariants: the process runs in a group of its own under limits, and the group with all that left it is killed when the runner is over; everything the process
//! wrote before it reported the end of an attempt is in that attempt's logs; [`News::Gone`] is told exactly once, last.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use client::error::chain;
use parking_lot::Mutex;
use protocol::frame::{self, FrameError};
use protocol::jobs::Counters;
use protocol::pass::Pass;
use protocol::phase::Phase;
use protocol::runner::{COOKIE_VARIABLE, FROM_RUNNER_BYTES_MAX, FromRunner, Setup, ToRunner};
use protocol::tracker::{AttemptState, FetchFailure, MapOutput, Work};
use protocol::{AttemptId, WorkerId};
use sys::pids::Group;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Child;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::agent::Event;
use crate::claims::{Heard, Speaker};
use crate::frames::FrameReader;
use crate::launch::{self, Output};
use crate::logs::AttemptLogs;
use crate::sandbox::Sandbox;
use crate::watch::{Watch, Watched};

/// Longest first message: a cookie.
const HELLO_BYTES_MAX: usize = 4 << 10;
/// Time for a connection to say hello; it is the first thing a runner sends.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections that may be about to say hello; more are refused, since only runners of this worker have business here.
const HELLOS_MAX: usize = 256;
/// Time for messages still on their way after a process has exited (a child of its own may hold the socket open).
const AFTER_EXIT: Duration = Duration::from_millis(200);
/// Time for a process to exit by itself after it was asked to, or closed its socket.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after a failed accept (out of descriptors), so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Unit in which output of the process is read.
const OUTPUT_CHUNK_BYTES: usize = 64 << 10;

/// How a runner is started and watched.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// The executable.
    pub(crate) binary: PathBuf,
    /// Its working directory.
    pub(crate) job_directory: PathBuf,
    /// For temporary files, its own.
    pub(crate) temporary: PathBuf,
    /// Directory of the logs of all attempts.
    pub(crate) logs: PathBuf,
    /// What it is told first.
    pub(crate) setup: Setup,
    /// Time to start and rebuild the job.
    pub(crate) start_timeout: Duration,
    /// Time without a sign of life of an attempt; zero is for ever.
    pub(crate) silence_max: Duration,
    /// Limit of each log.
    pub(crate) log_bytes_max: u64,
    /// Knows what it may use, and looks whether it does.
    pub(crate) watch: Watch,
    /// What it can reach.
    pub(crate) sandbox: Arc<Sandbox>,
}

/// Orders for a runner.
#[derive(Debug)]
pub(crate) enum Order {
    /// Run an attempt; the runner has none.
    Launch { attempt: AttemptId, work: Work, directory: String },
    /// News for the running reduce.
    MapOutputs { available: Vec<MapOutput>, obsolete: Vec<AttemptId> },
    /// Another pass in the place of the one it has.
    Pass(Pass),
    /// Exit when idle.
    Exit,
    /// End at once.
    Kill,
}

/// What a runner tells.
#[derive(Debug)]
pub(crate) enum News {
    /// A sign of life.
    Progress { attempt: AttemptId, progress: f32, phase: Phase },
    /// A map output could not be fetched.
    FetchFailed(FetchFailure),
    /// The attempt ended; the runner is free.
    Ended {
        attempt: AttemptId,
        state: AttemptState,
        counters: Counters,
        progress: f32,
        phase: Phase,
    },
    /// The process is over; why, for the attempt it ran.
    Gone { diagnostics: String },
}

/// Where runners arrive: an abstract Unix socket. A connection that does not name an expected cookie is dropped.
#[derive(Debug)]
pub(crate) struct Lobby {
    name: String,
    expected: Mutex<HashMap<String, oneshot::Sender<Arrival>>>,
}

type Arrival = (FrameReader, OwnedWriteHalf);

impl Lobby {
    /// Opens the socket of a worker and accepts on it for as long as the runtime lives.
    pub(crate) fn open(worker: WorkerId) -> io::Result<Arc<Self>> {
        let name = format!("hanno-worker-{worker}");
        let listener = sys::socket::listen(&name)?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let lobby = Arc::new(Lobby { name, expected: Mutex::default() });
        let accepting = Arc::clone(&lobby);
        tokio::spawn(async move {
            let hellos = Arc::new(tokio::sync::Semaphore::new(HELLOS_MAX));
            loop {
                let stream = match listener.accept().await {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a task process");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                let Ok(slot) = Arc::clone(&hellos).try_acquire_owned() else { continue };
                let (read, write) = stream.into_split();
                let lobby = Arc::clone(&accepting);
                tokio::spawn(async move {
                    lobby.greet(read, write).await;
                    drop(slot);
                });
            }
        });
        Ok(lobby)
    }

    fn expect(&self, cookie: String) -> oneshot::Receiver<Arrival> {
        let (sender, receiver) = oneshot::channel();
        self.expected.lock().insert(cookie, sender);
        receiver
    }

    fn forget(&self, cookie: &str) {
        self.expected.lock().remove(cookie);
    }

    async fn greet(&self, read: OwnedReadHalf, write: OwnedWriteHalf) {
        let mut reader = FrameReader::new(read, HELLO_BYTES_MAX);
        let hello = tokio::time::timeout(HELLO_TIMEOUT, reader.next::<FromRunner>("hello")).await;
        let Ok(Ok(Some(FromRunner::Hello { cookie }))) = hello else {
            tracing::warn!("a connection to the task socket said no hello");
            return;
        };
        let sender = self.expected.lock().remove(&cookie);
        match sender {
            Some(sender) => {
                reader.allow(FROM_RUNNER_BYTES_MAX);
                // The runner's owner has given up meanwhile: closing the socket ends the process.
                let _ = sender.send((reader, write));
            }
            None => tracing::warn!("a connection to the task socket had no valid cookie"),
        }
    }
}

/// Starts a process and drives it to its end. `events` gets everything it tells; the last is [`News::Gone`].
pub(crate) async fn run(
    options: Options,
    lobby: Arc<Lobby>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    id: u64,
    events: mpsc::Sender<Event>,
) {
    let cookie = protocol::auth::Key::new(rand::random()).to_hex();
    let arrival = lobby.expect(cookie.clone());
    let diagnostics = match launch::start(&options, id, &lobby.name, &cookie).await {
        Ok(mut process) => {
            let mut runner = Runner {
                options: &options,
                id,
                events: &events,
                news: Vec::new(),
                writer: None,
                ready: false,
                waiting: None,
                current: None,
                logs: None,
                last_sign: Instant::now(),
                group: process.group,
                watched: options.watch.over(id, process.group),
                output: process.output,
            };
            process.pids.iter().for_each(|pids| runner.watched.count_in(Arc::clone(pids)));
            let end = runner.drive(&mut process.child, arrival, &mut orders).await;
            runner.finish(process.child, process.pids, &cookie, end).await
        }
        Err(error) => format!("cannot start {}: {error}", options.binary.display()),
    };
    lobby.forget(&cookie);
    // The worker's loop has ended: nobody listens any more.
    let _ = events.send(Event::Runner(id, News::Gone { diagnostics })).await;
}

/// Why a runner is over.
enum End {
    /// The process exited.
    Exited(ExitStatus),
    /// It closed its socket.
    Closed,
    /// It was to be ended, or broke a rule.
    Because(String),
}

struct Runner<'a> {
    options: &'a Options,
    id: u64,
    events: &'a mpsc::Sender<Event>,
    /// Heard, to be told next.
    news: Vec<News>,
    writer: Option<mpsc::UnboundedSender<Vec<u8>>>,
    ready: bool,
    waiting: Option<Order>,
    current: Option<AttemptId>,
    logs: Option<AttemptLogs>,
    last_sign: Instant,
    group: u32,
    watched: Watched,
    output: [Output; 2],
}

impl Runner<'_> {
    async fn drive(
        &mut self,
        child: &mut Child,
        mut arrival: oneshot::Receiver<Arrival>,
        orders: &mut mpsc::UnboundedReceiver<Order>,
    ) -> End {
        let mut reader: Option<FrameReader> = None;
        loop {
            self.tell().await;
            let [stdout, stderr] = &self.output;
            let deadline = self.deadline();
            tokio::select! {
                biased;
                arrived = &mut arrival, if reader.is_none() => match arrived {
                    Ok((frames, write)) => {
                        reader = Some(frames);
                        self.greet(write);
                    }
                    Err(_) => return End::Because("the task socket closed".to_owned()),
                },
                message = next(&mut reader) => match message {
                    Ok(Some(message)) => {
                        if let Some(end) = self.hear(message) {
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
                        tokio::time::timeout_at(after, next(&mut reader)).await
                    {
                        self.hear(message);
                    }
                    self.tell().await;
                    return match status {
                        Ok(status) => End::Exited(status),
                        Err(error) => End::Because(format!("cannot wait for it: {error}")),
                    };
                }
                excess = &mut self.watched.verdict => return End::Because(match excess {
                    Ok(excess) => excess.to_string(),
                    Err(_) => "the watch over tasks has ended".to_owned(),
                }),
                () = tokio::time::sleep_until(deadline.unwrap_or(self.last_sign)), if deadline.is_some() => {
                    return End::Because(self.silence());
                }
            }
        }
    }

    /// Hands on what was heard. While the worker's loop is busy, this runner waits, and so does its process.
    async fn tell(&mut self) {
        for news in self.news.drain(..) {
            // The worker's loop has ended: nobody listens any more.
            let _ = self.events.send(Event::Runner(self.id, news)).await;
        }
    }

    /// Kills what is left of the group and says why it is over.
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
        end_family(group, pids, self.options.sandbox.holds_files(), cookie).await;
        remove(self.options.temporary.clone()).await;
        if status.is_none()
            && let Err(error) = child.wait().await
        {
            tracing::warn!(group, %error, "cannot wait for a task process");
        }
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

    fn greet(&mut self, mut write: OwnedWriteHalf) {
        let (sender, mut frames) = mpsc::unbounded_channel::<Vec<u8>>();
        // Writing on its own, so that a process that does not read cannot keep its output from being read.
        tokio::spawn(async move {
            while let Some(bytes) = frames.recv().await {
                if write.write_all(&bytes).await.is_err() {
                    break;
                }
            }
        });
        self.writer = Some(sender);
        self.send(&ToRunner::Setup(Box::new(self.options.setup.clone())));
    }

    fn hear(&mut self, message: FromRunner) -> Option<End> {
        self.last_sign = Instant::now();
        match self.speaker().hear(message) {
            Heard::Ready => {
                self.ready = true;
                let waiting = self.waiting.take();
                waiting.and_then(|order| self.obey(order))
            }
            Heard::Late => None,
            Heard::Over(reason) => Some(End::Because(reason)),
            Heard::News(news) => {
                if matches!(news, News::Ended { .. }) {
                    (0..self.output.len()).for_each(|index| self.drain(index));
                    self.current = None;
                    self.logs = None;
                    self.watched.look_into(Vec::new());
                }
                self.news.push(news);
                None
            }
        }
    }

    fn speaker(&self) -> Speaker {
        Speaker { job: self.options.setup.pass.name.job, current: self.current }
    }

    fn obey(&mut self, order: Order) -> Option<End> {
        match order {
            Order::Launch { attempt, work, directory } => {
                if self.current != Some(attempt) {
                    self.current = Some(attempt);
                    self.last_sign = Instant::now();
                    let places = vec![PathBuf::from(&directory), self.options.temporary.clone()];
                    self.watched.look_into(places);
                    let limit = self.options.log_bytes_max;
                    match AttemptLogs::create(&self.options.logs, attempt, limit) {
                        Ok(logs) => self.logs = Some(logs),
                        Err(error) => {
                            return Some(End::Because(format!("cannot write logs: {error}")));
                        }
                    }
                }
                if self.ready {
                    self.send(&ToRunner::Launch { attempt, work, directory });
                } else {
                    self.waiting = Some(Order::Launch { attempt, work, directory });
                }
            }
            Order::MapOutputs { available, obsolete } => match &mut self.waiting {
                Some(Order::Launch { work: Work::Reduce(work), .. }) => {
                    merge_outputs(&mut work.outputs, available, &obsolete);
                }
                _ => self.send(&ToRunner::MapOutputs { available, obsolete }),
            },
            Order::Pass(pass) => self.send(&ToRunner::Pass(pass)),
            Order::Exit => self.send(&ToRunner::Exit),
            Order::Kill => return Some(End::Because("killed".to_owned())),
        }
        None
    }

    fn send(&self, message: &ToRunner) {
        if let Some(writer) = &self.writer {
            // A writer that is gone met a closed socket, which the reader notices too.
            let _ = writer.send(frame::encode(message));
        }
    }

    /// Moves everything that the process has written so far into the logs.
    fn drain(&mut self, index: usize) {
        let output = &mut self.output[index];
        let Some(pipe) = &output.pipe else { return };
        let mut buffer = [0; OUTPUT_CHUNK_BYTES];
        loop {
            match pipe.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    self.last_sign = Instant::now();
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
                    break;
                }
            }
        }
        output.pipe = None;
    }

    fn deadline(&self) -> Option<Instant> {
        if !self.ready {
            return Some(self.last_sign + self.options.start_timeout);
        }
        let watched = self.current.is_some() && !self.options.silence_max.is_zero();
        watched.then(|| self.last_sign + self.options.silence_max)
    }

    fn silence(&self) -> String {
        if self.ready {
            format!("the task gave no sign of life for {:?}", self.options.silence_max)
        } else {
            format!("the task process was not ready within {:?}", self.options.start_timeout)
        }
    }
}

/// Removes temporary files; what cannot be removed goes with the files of the job.
async fn remove(directory: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || match std::fs::remove_dir_all(&directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "temporary files are left");
        }
        _ => {}
    });
    // The runtime ends, and the worker with it; the next one begins with an empty directory.
    let _ = removed.await;
}

/// Kills a task process with everything that came from it, wherever it went. One that is held can leave its cgroup as little as it can reach the files of
/// those: nothing has to be looked for.
async fn end_family(group: u32, pids: Option<Arc<Group>>, is_held: bool, cookie: &str) {
    let mark = format!("{COOKIE_VARIABLE}={cookie}");
    let killing = move || match pids {
        Some(pids) if is_held => pids.end(),
        _ => sys::family::kill_family(group, &mark),
    };
    match tokio::task::spawn_blocking(killing).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => tracing::warn!(group, "processes of a task are left"),
        Ok(Err(error)) => tracing::warn!(group, %error, "cannot kill the processes of a task"),
        Err(error) => tracing::warn!(group, %error, "processes of a task were not killed"),
    }
}

/// Joins news of map outputs into a list of them.
pub(crate) fn merge_outputs(
    outputs: &mut Vec<MapOutput>,
    available: Vec<MapOutput>,
    obsolete: &[AttemptId],
) {
    outputs.extend(available);
    outputs.retain(|output| !obsolete.contains(&output.attempt));
}

async fn next(reader: &mut Option<FrameReader>) -> Result<Option<FromRunner>, FrameError> {
    match reader {
        Some(reader) => reader.next("message of a task process").await,
        None => std::future::pending().await,
    }
}

async fn readable(output: &Output) {
    match &output.pipe {
        // An error shows again, and is handled, when the pipe is read.
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}
