//! A client that writes files: the client's own [`Writer`], driven by messages instead of sockets.
//!
//! It writes one file after the other, in pieces, with flushes and syncs in between; some it appends to, some it leaves behind as a process that died.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use flow::writer::simulated::{CallError, Fault, Simulated};
use flow::writer::{Buffer, File, Filled, Goal, Patience, Step, Writer};
use namenode::sim::Said;
use needs::random::Random;
use protocol::namenode::{Call, Create, Reply};
use protocol::transfer::{Ack, Reply as TransferReply, Write};

use crate::caller::{Alarm, Caller};
use crate::content::byte_at;
use crate::net::{Conn, Message, Outbox, Part, Place, Timer};
use crate::node::{IO_TIMEOUT, place_of};
use crate::oracle::Oracle;

/// How often leases are renewed.
const RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// Bytes of a block; must divide into chunks.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// What the client waits for.
#[derive(Debug)]
enum Waits {
    /// Nothing: it goes on by its timer.
    Idle,
    /// Its timer, to go on with what the writer does.
    Turn,
    /// The answer to a call.
    Call,
    /// An ack.
    Ack { since: Duration },
    /// A copy to a new member.
    Fill { number: u64 },
    /// The end of a pause of the writer.
    Pause,
}

/// What the writer is doing for the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    Open,
    Write,
    Flush { sync: bool, update_length: bool },
    Close,
    GiveUp,
}

pub(crate) struct Client {
    number: usize,
    caller: Caller,
    file: u64,
    flow: Option<Writer<Simulated>>,
    plan: Plan,
    waits: Waits,
    conn: Option<(Conn, Place)>,
    before: Option<Box<Write>>,
    acks: VecDeque<Result<Ack, Fault>>,
    alarm: Alarm,
    base: Instant,
    pub(crate) is_stopping: bool,
}

impl Client {
    pub(crate) fn new(number: usize, life: u64, base: Instant) -> Self {
        Client {
            number,
            caller: Caller::new(Place::Client(number), life),
            file: 0,
            flow: None,
            plan: Plan::Open,
            waits: Waits::Idle,
            conn: None,
            before: None,
            acks: VecDeque::new(),
            alarm: Alarm::new(life),
            base,
            is_stopping: false,
        }
    }

    /// True if no file is open.
    pub(crate) fn is_done(&self) -> bool {
        self.is_stopping && self.flow.is_none() && matches!(self.waits, Waits::Idle)
    }

    pub(crate) fn start(&mut self, random: &mut Random, out: &mut Outbox) {
        self.alarm.set(random.millis(1..500), out);
        out.set(RENEW_INTERVAL, Timer::Renew);
    }

    fn send_call(&mut self, call: Call, patience: Patience, now: Duration, out: &mut Outbox) {
        self.waits = Waits::Call;
        self.caller.call(call, patience, now, out);
    }

    pub(crate) fn on_timer(
        &mut self,
        timer: &Timer,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Go(generation) if self.alarm.is(*generation) => match self.waits {
                Waits::Pause => {
                    if let Some(flow) = &mut self.flow {
                        flow.paused();
                    }
                    self.drive((now, random), oracle, out);
                }
                Waits::Turn => self.drive((now, random), oracle, out),
                Waits::Idle => self.choose((now, random), oracle, out),
                Waits::Ack { since } if now >= since + IO_TIMEOUT => {
                    self.acks.push_back(Err(Fault::Broken));
                    self.take_ack((now, random), oracle, out);
                }
                Waits::Fill { .. } => {
                    self.filled(Filled::Failed(Fault::Broken), (now, random), oracle, out);
                }
                _ => {}
            },
            Timer::Resend(sent) => {
                if let Some(answer) = self.caller.on_silence(*sent, now, out) {
                    self.answered(answer, (now, random), oracle, out);
                }
            }
            Timer::Renew => {
                out.set(RENEW_INTERVAL, Timer::Renew);
                if self.flow.is_some() {
                    self.caller.tell(Call::RenewLease, out);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_message(
        &mut self,
        message: Message,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match message {
            Message::Said { number, said: Said::Client(answer) } => {
                if let Some(answer) = self.caller.on_said(number, answer, (now, random), out) {
                    self.answered(answer, (now, random), oracle, out);
                }
            }
            Message::Told { number, answer } => {
                let waits = matches!(&self.waits, Waits::Fill { number: sent } if *sent == number);
                if waits {
                    let filled = match answer {
                        Ok(TransferReply::Done) => Filled::Done,
                        Ok(_) => Filled::Failed(Fault::Broken),
                        Err(_) => Filled::Failed(Fault::Refused),
                    };
                    self.filled(filled, (now, random), oracle, out);
                }
            }
            Message::Stream { conn, part, .. } => {
                if self.conn.map(|(own, _)| own) != Some(conn) {
                    return;
                }
                self.acks.push_back(match part {
                    Part::Ack(ack) => Ok(*ack),
                    Part::Refused(_) => Err(Fault::Refused),
                    _ => Err(Fault::Broken),
                });
                if matches!(self.waits, Waits::Ack { .. }) {
                    self.take_ack((now, random), oracle, out);
                }
            }
            _ => {}
        }
    }

    fn take_ack(&mut self, at: (Duration, &mut Random), oracle: &mut Oracle, out: &mut Outbox) {
        let Some(next) = self.acks.pop_front() else { return };
        if let Some(flow) = &mut self.flow {
            flow.acked(next.map(|ack| Some((ack, Duration::ZERO))));
        }
        self.drive(at, oracle, out);
    }

    fn filled(
        &mut self,
        filled: Filled<Fault>,
        at: (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        if let Some(flow) = &mut self.flow {
            flow.filled(filled);
        }
        self.drive(at, oracle, out);
    }

    fn answered(
        &mut self,
        answer: Result<Reply, CallError>,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        self.waits = Waits::Idle;
        let at = self.base + now;
        if let Some(flow) = &mut self.flow {
            flow.answered(answer, at);
            self.drive((now, random), oracle, out);
            return;
        }
        let path = oracle.path(self.file);
        let flow = match answer {
            Ok(Reply::Created(created)) => {
                oracle.created(self.file);
                let block_size = created.block_size;
                let file = File { path, inode: created.file, block_size, publish: None };
                Writer::create(Simulated, self.caller.id(), file, created.first_block)
            }
            Ok(Reply::Appended(appended)) => {
                let (begin, length) =
                    appended.last.as_ref().map_or((0, 0), |it| (it.offset, it.length));
                let partial = length % 512;
                let position = begin + length - partial;
                let mut flow = Writer::append(Simulated, self.caller.id(), path, appended);
                oracle.reopened(self.file, flow.position());
                if partial > 0 {
                    let tail: Vec<u8> =
                        (position..position + partial).map(|at| byte_at(self.file, at)).collect();
                    flow.begin_at(length - partial, &tail);
                }
                flow
            }
            _ => {
                oracle.unknown(self.file);
                self.alarm.set(random.millis(10..500), out);
                return;
            }
        };
        self.flow = Some(flow);
        self.plan = Plan::Write;
        self.alarm.set(random.micros(10..5000), out);
    }

    /// The client decides what to do next with its file.
    fn choose(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(flow) = &mut self.flow else {
            if !self.is_stopping {
                self.open((now, random), oracle, out);
            }
            return;
        };
        let goal = if flow.needs_block() {
            self.plan = Plan::Write;
            Goal::Block
        } else {
            match random.below(8) {
                0 => {
                    self.plan = Plan::Close;
                    Goal::Close
                }
                1 | 2 => {
                    let (sync, update_length) = (random.one_in(2), random.one_in(3));
                    self.plan = Plan::Flush { sync, update_length };
                    Goal::Flush { sync, update_length }
                }
                _ => {
                    let begin = flow.position();
                    let wanted = [1, 100, 512, 700, 2000][random.below(5)];
                    let (packet, limit) = flow.packet();
                    let room = limit - packet.data().len();
                    let count = wanted.min(room);
                    let bytes: Vec<u8> =
                        (begin..begin + count as u64).map(|at| byte_at(self.file, at)).collect();
                    packet.append(&bytes);
                    oracle.written(self.file);
                    self.plan = Plan::Write;
                    match flow.added(count, limit) {
                        Some(goal) => goal,
                        None => return self.alarm.set(random.micros(10..20_000), out),
                    }
                }
            }
        };
        flow.begin(goal);
        self.drive((now, random), oracle, out);
    }

    fn open(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let again = oracle.closed_of(self.number, random).filter(|_| random.one_in(4));
        self.plan = Plan::Open;
        let call = match again {
            Some(file) => {
                self.file = file;
                oracle.wanted(file);
                Call::Append { path: oracle.path(file), new_block: random.one_in(4) }
            }
            None => {
                self.file = oracle.create(self.number);
                Call::Create(Create {
                    path: oracle.path(self.file),
                    mode: 0o644,
                    unmasked: None,
                    overwrite: false,
                    parents: true,
                    replication: Some(3),
                    block_size: Some(BLOCK_BYTES),
                    first_block: random.one_in(2),
                })
            }
        };
        self.send_call(call, Patience::Usual, now, out);
    }

    /// Does what the writer says until it waits for something.
    fn drive(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        self.waits = Waits::Idle;
        loop {
            let place = self.caller.place();
            let Some(flow) = &mut self.flow else { return };
            match flow.next_step(self.base + now) {
                Step::Call(call, patience) => {
                    return self.send_call(call, patience, now, out);
                }
                Step::Open { first, write, .. } => {
                    let conn = Conn((self.number as u64 + 101) << 48 | self.caller.number());
                    self.conn = place_of(first).map(|target| (conn, target));
                    self.before = Some(Box::new(write));
                    self.acks.clear();
                    flow.opened(Ok(()));
                }
                Step::Send(packet) => {
                    let part = Part::Packet(packet.header, packet.data.clone());
                    let sent = self.conn.ok_or(Fault::Broken).map(|(conn, target)| {
                        let write = self.before.take().map(Part::Write);
                        let parts = write.into_iter().chain([part]);
                        parts.for_each(|part| out.stream(target, place, conn, part));
                        Duration::ZERO
                    });
                    flow.sent(sent);
                }
                Step::TakeAck { waits } => match self.acks.pop_front() {
                    Some(ack) => flow.acked(ack.map(|ack| Some((ack, Duration::ZERO)))),
                    None if !waits => flow.acked(Ok(None)),
                    None => {
                        self.waits = Waits::Ack { since: now };
                        return self.alarm.set(IO_TIMEOUT, out);
                    }
                },
                Step::Fill { survivor, operation, .. } => {
                    let Some(target) = place_of(survivor) else {
                        flow.filled(Filled::Unreached(Fault::Broken));
                        continue;
                    };
                    let number = self.caller.number();
                    let operation = Box::new(operation);
                    out.send(target, Message::Ask { from: place, number, operation });
                    self.waits = Waits::Fill { number };
                    return self.alarm.set(IO_TIMEOUT * 2, out);
                }
                Step::Pause(pause) => {
                    self.waits = Waits::Pause;
                    return self.alarm.set(pause, out);
                }
                Step::Report { .. } => {}
                Step::HangUp => {
                    if let Some((conn, target)) = self.conn.take() {
                        out.stream(target, place, conn, Part::End);
                    }
                }
                Step::GiveBack(_) => self.conn = None,
                Step::Done(ended) => {
                    let ended = ended.map_err(|error| format!("{error:?}"));
                    return self.ended(ended, random, oracle, out);
                }
            }
        }
    }

    /// The writer has reached its goal, or cannot.
    fn ended(
        &mut self,
        ended: Result<(), String>,
        random: &mut Random,
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let Some(flow) = &mut self.flow else { return };
        let position = flow.position();
        match (self.plan, ended) {
            (Plan::Close, Ok(())) => {
                oracle.closed(self.file, position);
                self.flow = None;
            }
            (Plan::GiveUp, _) => {
                oracle.unknown(self.file);
                self.flow = None;
            }
            (Plan::Flush { sync, update_length }, Ok(())) => {
                oracle.flushed(self.file, position, (sync, update_length));
            }
            (_, Ok(())) => {}
            (_, Err(_)) => {
                // From now on it may delete a file that has nothing.
                oracle.unknown(self.file);
                self.plan = Plan::GiveUp;
                flow.begin(Goal::GiveUp);
                self.waits = Waits::Turn;
                return self.alarm.set(Duration::ZERO, out);
            }
        }
        self.alarm.set(random.micros(10..20_000), out);
    }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}, file {}, {:?}, {:?}", self.number, self.file, self.plan, self.waits)
    }
}
