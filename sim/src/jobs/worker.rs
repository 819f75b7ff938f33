//! A worker: its core, and around it what the daemon does: calls, files as far as the core names them, processes of tasks, and outputs that others fetch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use flow::creation;
use namenode::sim::Said;
use needs::random::Random;
use protocol::jobs::Counters;
use protocol::level::Supported;
use protocol::namenode::{Answer as NameAnswer, Body, Call, Create, Reply as NameReply, Request};
use protocol::tracker::{self, AttemptState, FetchFailure, Register};
use protocol::{AttemptId, ClientId, DfsPath, ErrorKind, RemoteError, TaskKind, WorkerId};
use worker::core::{Answer, CallNumber, Core, Effect, Event, News, Rules, RunnerId};

use super::book::{Book, COUNTER, part};
use super::runner::{Fate, Runner, Stage, Task};
use crate::net::{JobMessage, Message, Outbox, Place, Timer};

pub(super) const WORKERS: usize = 3;
/// Attempts at once.
const SLOTS: u32 = 2;
/// Time after which a call to the NameNode is sent again.
const NAME_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a task gives up a call to the NameNode.
const NAME_PATIENCE: Duration = Duration::from_secs(30);
/// Time for a fetch of an output.
const FETCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before an output is fetched again.
const FETCH_PAUSE: Duration = Duration::from_millis(700);

/// What the process set a timer for.
enum Due {
    Feed(Event),
    /// The first news of a runner arrive.
    News(RunnerId),
    /// An attempt's next step.
    Step(RunnerId, AttemptId),
}

/// What a message was sent for.
enum Sent {
    Call(CallNumber),
    Name { runner: RunnerId, attempt: AttemptId, request: Box<Request>, since: Duration },
    Fetch { runner: RunnerId, reduce: AttemptId, map: AttemptId },
}

pub(super) struct Worker {
    number: usize,
    id: WorkerId,
    began: Duration,
    core: Core,
    /// When the core's tick is set for.
    tick_at: Option<Duration>,
    next: u64,
    due: BTreeMap<u64, Due>,
    sent: BTreeMap<u64, Sent>,
    runners: BTreeMap<RunnerId, Runner>,
    held: BTreeSet<AttemptId>,
    events: VecDeque<Event>,
}

/// What a worker works with.
pub(super) struct Around<'a> {
    pub(super) now: Duration,
    pub(super) random: &'a mut Random,
    pub(super) book: &'a mut Book,
    pub(super) out: &'a mut Outbox,
}

impl Worker {
    /// The process starts, in this life of its.
    pub(super) fn start(number: usize, life: u64, around: &mut Around<'_>) -> Self {
        let mut id = [number as u8 + 1; 16];
        id[8..].copy_from_slice(&life.to_le_bytes());
        let id = WorkerId(id);
        let register = Register {
            version: tracker::VERSION,
            levels: Supported::OWN,
            worker: id,
            host: format!("worker{number}"),
            rack: "/rack".to_owned(),
            boot_id: format!("machine{number}"),
            http_address: format!("worker{number}:8042"),
            slot_count: SLOTS,
            isolation: String::new(),
            running: Vec::new(),
            held_outputs: Vec::new(),
        };
        let rules = Rules {
            register,
            outputs: PathBuf::from("/data/outputs"),
            links_outputs: false,
            reuses_runners: !number.is_multiple_of(2),
            silence_max: Duration::from_secs(60),
            idle_max: Duration::from_secs(3),
        };
        let mut worker = Worker {
            number,
            id,
            began: around.now,
            core: Core::new(rules),
            tick_at: None,
            next: life << 32,
            due: BTreeMap::new(),
            sent: BTreeMap::new(),
            runners: BTreeMap::new(),
            held: BTreeSet::new(),
            events: VecDeque::from([Event::Tick]),
        };
        worker.feed(around);
        worker
    }

    fn place(&self) -> Place {
        Place::Worker(self.number)
    }

    /// Its processes die with it.
    pub(super) fn crash(&mut self, book: &mut Book) {
        let stopped = self.runners.values_mut().filter_map(|runner| runner.die("crash"));
        stopped.for_each(|attempt| book.stopped(attempt));
    }

    /// What it still does.
    pub(super) fn busy(&self) -> Option<String> {
        let running = self.core.figures().running;
        let busy = self.runners.values().find_map(|runner| runner.task.as_ref());
        let busy = busy.map(|task| format!("{} runs, {:?}", task.attempt, task.stage));
        busy.or_else(|| (!running.is_empty()).then(|| format!("{running:?} wait")))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn set(&mut self, after: Duration, due: Due, around: &mut Around<'_>) {
        let number = self.number();
        self.due.insert(number, due);
        around.out.set(after, Timer::Go(number));
    }

    /// Feeds the core what waits, and performs what it orders.
    fn feed(&mut self, around: &mut Around<'_>) {
        while let Some(event) = self.events.pop_front() {
            if let Event::Runner(id, News::Gone { .. }) = &event {
                self.runners.remove(id);
            }
            for effect in self.core.on(event, around.now - self.began) {
                self.perform(effect, around);
            }
            let busy = self.runners.values().filter(|runner| runner.task.is_some()).count();
            assert!(busy <= SLOTS as usize, "{busy} attempts run in {SLOTS} slots");
        }
        let wake_at = (self.began + self.core.wake_at()).max(around.now);
        if self.tick_at.is_none_or(|tick_at| wake_at < tick_at) {
            self.tick_at = Some(wake_at);
            around.out.set(wake_at - around.now, Timer::Tick);
        }
    }

    fn perform(&mut self, effect: Effect, around: &mut Around<'_>) {
        let random = &mut *around.random;
        match effect {
            Effect::Call { call, request, timeout } => {
                let number = self.number();
                self.sent.insert(number, Sent::Call(call));
                let (from, body) = (self.place(), JobMessage::Report(Box::new(request)));
                around.out.send(Place::Tracker, Message::Job { from, number, body });
                around.out.set(timeout, Timer::Resend(number));
            }
            Effect::Prepare(attempt) => {
                let made = if random.one_in(200) { Err("no space".to_owned()) } else { Ok(()) };
                self.events.push_back(Event::Prepared(attempt, made));
            }
            Effect::Fetch(binary, _) => {
                let fetched = if random.one_in(200) { Err("gone".to_owned()) } else { Ok(()) };
                let after = random.millis(1..100);
                self.set(after, Due::Feed(Event::Fetched(binary, fetched)), around);
            }
            Effect::Link(_) => self.events.push_back(Event::Linked(Vec::new())),
            Effect::Start { runner, program, .. } => {
                let client = self.client(runner);
                self.runners.insert(runner, Runner::new(program, client));
            }
            Effect::Give { runner, attempt, work } => match self.runners.get_mut(&runner) {
                Some(process) if !process.is_dead => {
                    process.task = Some(Task::new(attempt, work, random));
                    self.go_on(runner, around);
                }
                // Before any news for the attempt.
                _ => self.events.push_front(Event::Undelivered { runner, attempt, work }),
            },
            Effect::Announce { runner, available, obsolete } => {
                let process = self.runners.get_mut(&runner);
                if let Some(task) = process.and_then(|process| process.task.as_mut()) {
                    let had_none = task.wanted().is_none();
                    task.announced(available, &obsolete);
                    if had_none && task.stage == Stage::Shuffling {
                        self.go_on(runner, around);
                    }
                }
            }
            Effect::Exit(runner) => {
                if self.runners.get(&runner).is_some_and(|process| process.task.is_none()) {
                    self.end(runner, "exit", around);
                }
            }
            Effect::Kill(runner) => self.end(runner, "killed", around),
            Effect::TakeOutput { attempt, partition_count, .. } => {
                self.held.insert(attempt);
                let sizes = (0..partition_count).map(|_| random.within(1..1 << 30)).collect();
                self.events.push_back(Event::OutputTaken(attempt, Ok(sizes)));
            }
            Effect::ReadRecord(attempt) => {
                self.events.push_back(Event::RecordRead(attempt, None));
            }
            Effect::DeleteAttempt(attempt) => {
                let busy = self.runners.values().any(|runner| runner.has(attempt));
                assert!(!busy, "the files of {attempt} are deleted and it runs");
            }
            Effect::DropOutputs(attempts) => self.held.retain(|held| !attempts.contains(held)),
            Effect::ForgetOutputs(job) => self.held.retain(|map| map.task.job != job),
            Effect::DeleteJob(job) => {
                let after = random.millis(1..500);
                self.set(after, Due::Feed(Event::JobDeleted(job)), around);
            }
            Effect::MeasureDisk => self.events.push_back(Event::DiskMeasured(None)),
            Effect::RenewPass(_) | Effect::PruneLogs | Effect::Log(_) | Effect::End => {}
        }
    }

    fn client(&self, runner: RunnerId) -> ClientId {
        let mut id = self.id.0;
        id[1] = 200;
        id[4..8].copy_from_slice(&(runner.0 as u32).to_le_bytes());
        ClientId(id)
    }

    /// A process ends.
    fn end(&mut self, runner: RunnerId, why: &str, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner).filter(|process| !process.is_dead) else {
            return;
        };
        if let Some(attempt) = process.die(why) {
            around.book.stopped(attempt);
        }
        self.tell(runner, around);
    }

    /// A runner's news are on their way.
    fn tell(&mut self, runner: RunnerId, around: &mut Around<'_>) {
        let after = around.random.micros(10..3000);
        self.set(after, Due::News(runner), around);
    }

    /// An attempt does what comes next.
    fn go_on(&mut self, runner: RunnerId, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner) else { return };
        let map_count = process.program.map_count;
        let Some(task) = process.task.as_mut() else { return };
        let reduce = task.attempt;
        if task.stage == Stage::Shuffling && task.has_all(map_count) {
            task.begin_work();
        }
        match (task.stage, task.wanted().cloned()) {
            (Stage::Working(_), _) => {
                let pace = task.pace();
                self.set(pace, Due::Step(runner, reduce), around);
            }
            (Stage::Shuffling, Some(output)) => {
                let holder = output.http_address.strip_prefix("worker");
                let holder = holder.and_then(|rest| rest.strip_suffix(":8042")?.parse().ok());
                let to = Place::Worker(holder.expect("the address of a worker"));
                let (number, from, map) = (self.number(), self.place(), output.attempt);
                self.sent.insert(number, Sent::Fetch { runner, reduce, map });
                let body = JobMessage::Fetch(map);
                around.out.send(to, Message::Job { from, number, body });
                around.out.set(FETCH_TIMEOUT, Timer::Resend(number));
            }
            // It waits for news of maps, or for the NameNode.
            _ => {}
        }
    }

    pub(super) fn on_timer(&mut self, timer: &Timer, around: &mut Around<'_>) {
        match timer {
            Timer::Tick => {
                self.tick_at = None;
                self.events.push_back(Event::Tick);
            }
            Timer::Go(number) => match self.due.remove(number) {
                Some(Due::Feed(event)) => self.events.push_back(event),
                Some(Due::News(runner)) => {
                    let process = self.runners.get_mut(&runner);
                    let news = process.and_then(|process| process.news.pop_front());
                    self.events.extend(news.map(|news| Event::Runner(runner, news)));
                }
                Some(Due::Step(runner, attempt)) => self.step(runner, attempt, around),
                None => {}
            },
            Timer::Resend(number) => self.on_silence(*number, around),
            _ => {}
        }
        self.feed(around);
    }

    fn on_silence(&mut self, number: u64, around: &mut Around<'_>) {
        match self.sent.remove(&number) {
            Some(Sent::Call(call)) => {
                let answer = Answer::Lost("no answer".to_owned());
                self.events.push_back(Event::Answered { call, answer });
            }
            Some(Sent::Name { runner, attempt, request, since }) => {
                if around.now < since + NAME_PATIENCE {
                    self.send_name((runner, attempt), request, since, around);
                } else {
                    let refusal = RemoteError::new(ErrorKind::Unavailable, "no answer");
                    self.named(runner, attempt, Err(refusal), around);
                }
            }
            Some(Sent::Fetch { runner, reduce, map }) => {
                self.fetched(runner, reduce, map, false, around);
            }
            None => {}
        }
    }

    pub(super) fn on_message(&mut self, message: Message, around: &mut Around<'_>) {
        match message {
            Message::Job { from, number, body: JobMessage::Fetch(map) } => {
                let is_there = match around.random.one_in(60) {
                    true => {
                        self.held.remove(&map);
                        false
                    }
                    false => self.held.contains(&map),
                };
                let (to, from, body) = (from, self.place(), JobMessage::Fetched(is_there));
                around.out.send(to, Message::Job { from, number, body });
            }
            Message::Job { number, body, .. } => match (self.sent.remove(&number), body) {
                (Some(Sent::Call(call)), JobMessage::Said(said)) => {
                    if let jobtracker::sim::Said::Worker(said) = *said {
                        let answer = answered(said);
                        self.events.push_back(Event::Answered { call, answer });
                    }
                }
                (Some(Sent::Call(call)), _) => {
                    let answer = Answer::Lost("refused".to_owned());
                    self.events.push_back(Event::Answered { call, answer });
                }
                (Some(Sent::Fetch { runner, reduce, map }), body) => {
                    let is_there = matches!(body, JobMessage::Fetched(true));
                    self.fetched(runner, reduce, map, is_there, around);
                }
                (Some(Sent::Name { .. }) | None, _) => {}
            },
            Message::Said { number, said: Said::Client(answer) } => {
                let Some(Sent::Name { runner, attempt, request, since }) =
                    self.sent.remove(&number)
                else {
                    return;
                };
                let waits = answer.as_ref().is_err_and(|refusal| refusal.kind.is_transient());
                if waits && around.now < since + NAME_PATIENCE {
                    let number = self.number();
                    self.sent.insert(number, Sent::Name { runner, attempt, request, since });
                    around.out.set(around.random.millis(20..1000), Timer::Resend(number));
                } else {
                    self.named(runner, attempt, answer, around);
                }
            }
            _ => {}
        }
        self.feed(around);
    }

    /// A fetch is over.
    fn fetched(
        &mut self,
        runner: RunnerId,
        reduce: AttemptId,
        map: AttemptId,
        is_there: bool,
        around: &mut Around<'_>,
    ) {
        let Some(process) = self.runners.get_mut(&runner).filter(|process| process.has(reduce))
        else {
            return;
        };
        let Some(task) = &mut process.task else { return };
        if is_there {
            task.fetched(map);
            process.progress();
            self.tell(runner, around);
            return self.go_on(runner, around);
        }
        let diagnostics = "not there".to_owned();
        process.news.push_back(News::FetchFailed(FetchFailure { reduce, map, diagnostics }));
        self.tell(runner, around);
        self.set(FETCH_PAUSE, Due::Step(runner, reduce), around);
    }

    /// An attempt's time has come.
    fn step(&mut self, runner: RunnerId, attempt: AttemptId, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner).filter(|process| process.has(attempt))
        else {
            return;
        };
        let Some(task) = &mut process.task else { return };
        match task.step() {
            Some(Fate::Done) => self.write(runner, around),
            Some(Fate::Fails) => {
                let diagnostics = "poison record".to_owned();
                self.ended(runner, AttemptState::Failed { diagnostics }, around);
            }
            Some(Fate::Dies) => self.end(runner, "signal 11", around),
            None => {
                process.progress();
                self.tell(runner, around);
                self.go_on(runner, around);
            }
        }
    }

    /// The work is done: what it made is written, unless it is a map output.
    fn write(&mut self, runner: RunnerId, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner) else { return };
        let Some(task) = &mut process.task else { return };
        let (attempt, records) = (task.attempt, task.records);
        if attempt.task.kind == TaskKind::Map && process.program.partition_count > 0 {
            around.book.made(attempt, self.id, records, None);
            let (data_path, partition_bytes) = (format!("/data/{attempt}"), Vec::new());
            let state = AttemptState::MapDone { data_path, partition_bytes };
            return self.ended(runner, state, around);
        }
        task.stage = Stage::Creating;
        let directory = directory(&process.program.output, attempt);
        let root = directory.parent().expect("the job's directory");
        let create = Create {
            path: directory.join(&part(attempt.task)).expect("a path"),
            mode: 0o644,
            unmasked: None,
            overwrite: true,
            parents: true,
            replication: None,
            block_size: None,
            first_block: false,
        };
        let calls = creation::below(&root, create);
        self.call_name(runner, Body::Batch(calls), around);
    }

    fn call_name(&mut self, runner: RunnerId, call: impl Into<Body>, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner) else { return };
        let Some(attempt) = process.task.as_ref().map(|task| task.attempt) else { return };
        process.calls += 1;
        let (client, user) = (process.client, &process.program.user);
        let request = Box::new(Request::new(client, process.calls, user, "", call));
        self.send_name((runner, attempt), request, around.now, around);
    }

    fn send_name(
        &mut self,
        (runner, attempt): (RunnerId, AttemptId),
        request: Box<Request>,
        since: Duration,
        around: &mut Around<'_>,
    ) {
        if !self.runners.get(&runner).is_some_and(|process| process.has(attempt)) {
            return;
        }
        let (number, from) = (self.number(), self.place());
        let message = Message::Client { from, number, request: request.clone() };
        self.sent.insert(number, Sent::Name { runner, attempt, request, since });
        around.out.send(Place::Master, message);
        around.out.set(NAME_TIMEOUT, Timer::Resend(number));
    }

    /// The NameNode has answered an attempt.
    fn named(
        &mut self,
        runner: RunnerId,
        attempt: AttemptId,
        answer: NameAnswer,
        around: &mut Around<'_>,
    ) {
        let Some(process) = self.runners.get_mut(&runner).filter(|process| process.has(attempt))
        else {
            return;
        };
        let directory = directory(&process.program.output, attempt);
        let Some(task) = &mut process.task else { return };
        let answer = match answer {
            Ok(NameReply::Batch(answers)) => {
                creation::outcome(answers).expect("an answer to each call")
            }
            answer => answer,
        };
        match (task.stage, answer) {
            (Stage::Creating, Ok(NameReply::Created(created))) => {
                task.stage = Stage::Completing(created.file);
                let call = Call::Complete { file: created.file, last: None, publish: None };
                self.call_name(runner, call, around);
            }
            (Stage::Completing(file), Ok(_)) => {
                around.book.made(attempt, self.id, task.records, Some(file));
                let state = AttemptState::OutputDone { directory, hot_keys: Vec::new() };
                self.ended(runner, state, around);
            }
            (_, answer) => {
                let diagnostics = format!("cannot write: {answer:?}");
                self.ended(runner, AttemptState::Failed { diagnostics }, around);
            }
        }
    }

    /// A process has ended its attempt. Some die soon after that.
    fn ended(&mut self, runner: RunnerId, state: AttemptState, around: &mut Around<'_>) {
        let Some(process) = self.runners.get_mut(&runner) else { return };
        let Some(task) = process.task.take() else { return };
        let mut counters = Counters::default();
        counters.add(COUNTER.0, COUNTER.1, task.records);
        let (attempt, phase, progress) = (task.attempt, task.phase(), 1.0);
        process.news.push_back(News::Ended { attempt, state, counters, progress, phase });
        self.tell(runner, around);
        if around.random.one_in(12) {
            self.end(runner, "signal 9", around);
        }
    }
}

/// The directory of an attempt.
fn directory(output: &DfsPath, attempt: AttemptId) -> DfsPath {
    output.join(&format!("_temporary/{attempt}")).expect("a path")
}

fn answered(said: tracker::Answer) -> Answer {
    match said {
        Ok(reply) => Answer::Reply(reply),
        Err(refusal) if refusal.kind == ErrorKind::Fenced => Answer::Fenced(refusal.message),
        Err(refusal) if refusal.kind.is_transient() => Answer::Lost(refusal.message),
        Err(refusal) => panic!("the JobTracker refuses a worker: {refusal}"),
    }
}
