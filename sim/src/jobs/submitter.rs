//! A client of the JobTracker: it submits one job after the other, watches each to its end, and meddles with some.

use std::time::Duration;

use jobtracker::sim::Said;
use needs::random::Random;
use protocol::jobs::{Call, JobSpec, Priority, Reply, Request, Split, VERSION};
use protocol::sizing::ReduceSizing;
use protocol::{BinaryHash, CallId, ClientId, DfsPath, ErrorKind, JobId, RemoteError};

use super::book::{ATTEMPTS_MAX, Book};
use super::worker::WORKERS;
use crate::net::{JobMessage, Message, Outbox, Place, Timer};

/// Time after which a call is sent again.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Most jobs of one process.
const JOBS_MAX: u64 = 4;

/// What the client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// Another job, after a pause.
    Next,
    Submit,
    /// To see the end of its job.
    Watch(JobId),
}

pub(super) struct Submitter {
    number: usize,
    id: ClientId,
    next: u64,
    jobs: u64,
    plan: Plan,
    /// The call under way, sent again until it is answered.
    sent: Option<(u64, Box<Request>)>,
    ended: Vec<JobId>,
    pub(super) is_stopping: bool,
}

impl Submitter {
    pub(super) fn new(number: usize, life: u64) -> Self {
        let mut id = [number as u8 + 1; 16];
        id[1] = 100;
        id[8..].copy_from_slice(&life.to_le_bytes());
        let (plan, sent, ended, is_stopping) = (Plan::Next, None, Vec::new(), false);
        Submitter {
            number,
            id: ClientId(id),
            next: life << 32,
            jobs: 0,
            plan,
            sent,
            ended,
            is_stopping,
        }
    }

    pub(super) fn start(&mut self, random: &mut Random, out: &mut Outbox) {
        out.set(random.millis(100..3000), Timer::Go(self.next));
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_stopping && self.plan == Plan::Next && self.sent.is_none()
    }

    fn call(&mut self, body: Call, out: &mut Outbox) {
        self.next += 1;
        let call = CallId { client: self.id, number: self.next };
        let user = if self.number == 0 { "ann" } else { "bob" }.to_owned();
        let request = Request { version: VERSION, call, user, body };
        self.sent = Some((self.next, Box::new(request)));
        self.send(out);
    }

    fn send(&self, out: &mut Outbox) {
        let Some((number, request)) = &self.sent else { return };
        let (from, number) = (Place::Submitter(self.number), *number);
        let body = JobMessage::Call(request.clone());
        out.send(Place::Tracker, Message::Job { from, number, body });
        out.set(CALL_TIMEOUT, Timer::Resend(number));
    }

    pub(super) fn on_timer(
        &mut self,
        timer: &Timer,
        random: &mut Random,
        book: &mut Book,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Resend(number) if self.sent.as_ref().is_some_and(|sent| sent.0 == *number) => {
                self.send(out);
            }
            Timer::Go(number) if *number == self.next && self.sent.is_none() => {
                self.choose(random, book, out);
            }
            _ => {}
        }
    }

    fn choose(&mut self, random: &mut Random, book: &mut Book, out: &mut Outbox) {
        match self.plan {
            Plan::Submit => {}
            Plan::Next if self.is_stopping || self.jobs >= JOBS_MAX => {
                if let Some(job) = random.pick(&self.ended).filter(|_| !self.is_stopping) {
                    self.call(Call::Status(job), out);
                }
            }
            Plan::Next => {
                self.jobs += 1;
                self.plan = Plan::Submit;
                let spec = self.spec(random);
                self.call(Call::Submit(Box::new(spec)), out);
            }
            Plan::Watch(job) => match random.below(60) {
                0 => {
                    book.kill_asked(job);
                    self.call(Call::Kill(job), out);
                }
                1 => self.call(
                    Call::SetPriority {
                        job,
                        priority: random.pick(&Priority::ALL).unwrap_or_default(),
                    },
                    out,
                ),
                2 => self.call(Call::Tasks(job), out),
                3 => {
                    let job = random.pick(&self.ended).unwrap_or(job);
                    self.call(Call::Status(job), out);
                }
                _ => self.call(Call::Status(job), out),
            },
        }
    }

    fn spec(&self, random: &mut Random) -> JobSpec {
        let map_count = random.below(6);
        let reduce_count = random.within(0..4) as u32;
        let split = |offset: usize, random: &mut Random| Split {
            path: DfsPath::parse("/in").expect("a path"),
            offset: offset as u64,
            length: 1,
            hosts: vec![format!("worker{}", random.below(WORKERS))],
            racks: Vec::new(),
            input: 0,
            more: Vec::new(),
        };
        // A backup can hide that an attempt was forgotten.
        let has_backups = random.one_in(2).to_string();
        let properties = ["mapreduce.map.speculative", "mapreduce.reduce.speculative"]
            .map(|key| (key.to_owned(), has_backups.clone()))
            .into();
        let splits = (0..map_count).map(|offset| split(offset, random)).collect();
        let output = format!("/jobs/s{}/{}", self.number, self.next);
        let sizing =
            (reduce_count > 0 && random.one_in(4)).then_some(ReduceSizing { slot_count: 4 });
        JobSpec {
            name: "job".to_owned(),
            binary: BinaryHash([random.below(3) as u8; 32]),
            args: Vec::new(),
            stage: 0,
            fingerprint: 1,
            splits,
            reduce_count,
            output: DfsPath::parse(&output).expect("a path"),
            attempts_max: ATTEMPTS_MAX,
            slow_start_permille: [0, 500, 1000][random.below(3)],
            properties,
            sizing,
            rounds: None,
        }
    }

    pub(super) fn on_message(
        &mut self,
        message: Message,
        random: &mut Random,
        book: &mut Book,
        out: &mut Outbox,
    ) {
        let Message::Job { number, body: JobMessage::Said(said), .. } = message else { return };
        let Said::Client(answer) = *said else { return };
        let Some((_, request)) = self.sent.take_if(|sent| sent.0 == number) else { return };
        match answer {
            Ok(reply) => self.answered(&request.body, reply, random, book, out),
            Err(refusal) if refusal.kind.is_transient() => {
                self.sent = Some((number, request));
                return;
            }
            Err(refusal) => self.refused(&request.body, &refusal, book),
        }
        if self.sent.is_none() {
            let pause = if self.plan == Plan::Next { 100..8000 } else { 50..1500 };
            out.set(random.millis(pause), Timer::Go(self.next));
        }
    }

    fn answered(
        &mut self,
        call: &Call,
        reply: Reply,
        random: &mut Random,
        book: &mut Book,
        out: &mut Outbox,
    ) {
        match (call, reply) {
            (Call::Submit(_), Reply::Submitted(job)) => {
                book.acknowledged(job);
                self.plan = Plan::Watch(job);
            }
            (Call::Kill(job), Reply::Done) => book.kill_granted(*job),
            (Call::Status(job), Reply::Job(report)) => {
                let is_over = book.read(&report);
                if is_over && self.plan == Plan::Watch(*job) {
                    self.ended.push(*job);
                    self.plan = Plan::Next;
                }
            }
            (Call::Tasks(_), Reply::Tasks(tasks)) => {
                let attempts = tasks.iter().flat_map(|task| &task.attempts);
                let running = attempts.filter(|attempt| attempt.state == "RUNNING");
                let running: Vec<&str> = running.map(|attempt| &*attempt.id).collect();
                if let Some(attempt) = random.pick(&running) {
                    let attempt = attempt.parse().expect("the id of an attempt");
                    self.call(Call::StopAttempt { attempt, fail: random.one_in(2) }, out);
                }
            }
            _ => {}
        }
    }

    fn refused(&mut self, call: &Call, refusal: &RemoteError, book: &Book) {
        match call {
            Call::Submit(spec) => panic!("a job for {} is refused: {refusal}", spec.output),
            // The job is over, or publishes its output.
            Call::Kill(_) if refusal.kind == ErrorKind::InvalidArgument => {}
            Call::Status(job) | Call::Kill(job) | Call::Tasks(job) => {
                book.unknown(*job);
                panic!("{call:?} is refused: {refusal}");
            }
            // The job, or the attempt, is over.
            _ => {}
        }
    }
}

impl std::fmt::Display for Submitter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "submitter {}, {:?}", self.number, self.plan)
    }
}
