//! The JobTracker, its log, and its calls to the NameNode.

use std::collections::BTreeMap;
use std::time::Duration;

use host::Now;
use jobtracker::Config;
use jobtracker::sim::{self, Master};
use namenode::sim::Said;
use needs::random::Random;
use protocol::jobs;
use protocol::namenode::Request;

use super::book::Book;
use crate::log::Log;
use crate::net::{JobMessage, Message, Outbox, Place, Timer};

/// Rows go to the checkpoint once in so many turns.
const CHECKPOINT_TURNS: u64 = 60;
/// Time after which a call is sent again.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// The number that the run itself asks under.
const OWN: u64 = u64::MAX;

pub(super) struct Tracker {
    config: Config,
    log: Log,
    running: Option<Master>,
    epoch: u64,
    /// Who asked, by the number that the machine has.
    askers: BTreeMap<u64, (Place, u64)>,
    /// The machine's calls to the NameNode, by the number of the message.
    calls: BTreeMap<u64, (u64, Box<Request>)>,
    next: u64,
    is_turn_set: bool,
    pub(super) starts: u64,
}

impl Tracker {
    pub(super) fn new() -> Self {
        let config = Config {
            worker_suspect_ms: 2000,
            worker_dead_ms: 5000,
            poll_ms: 1000,
            settle_ms: 1000,
            stop_wait_ms: 3000,
            locality_wait_ms: 200,
            preemption_timeout_ms: 4000,
            speculation_after_ms: 2000,
            worker_forgive_ms: 3000,
            ..Config::default()
        };
        Tracker {
            config,
            log: Log::default(),
            running: None,
            epoch: 0,
            askers: BTreeMap::new(),
            calls: BTreeMap::new(),
            next: 0,
            is_turn_set: false,
            starts: 0,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// True if it has nothing to do on the file system.
    pub(super) fn is_idle(&self) -> bool {
        self.running.as_ref().is_some_and(Master::is_idle)
    }

    pub(super) fn start(&mut self, now: Now, random: &mut Random, out: &mut Outbox) {
        self.epoch += 1;
        self.starts += 1;
        let terms = (self.epoch, random.bits(), now);
        let started = Master::start(&self.config, &self.log.logged, terms);
        let (master, taken) = started.expect("what was logged loads");
        self.running = Some(master);
        self.is_turn_set = false;
        self.append(taken.edits, random, out);
        out.set(Duration::ZERO, Timer::Tick);
    }

    pub(super) fn crash(&mut self, random: &mut Random, book: &mut Book) {
        self.running = None;
        self.askers.clear();
        self.calls.clear();
        self.log.crash(random).iter().for_each(|edit| book.logged(edit));
    }

    fn append(&mut self, edits: Vec<Vec<u8>>, random: &mut Random, out: &mut Outbox) {
        self.log.append(edits);
        let last = self.running.as_ref().map_or(0, Master::last);
        out.set(random.micros(50..3000), Timer::Committed(last));
    }

    pub(super) fn on_message(
        &mut self,
        message: Message,
        (now, random): (Now, &mut Random),
        out: &mut Outbox,
    ) {
        let Some(master) = &mut self.running else { return };
        self.next += 1;
        match message {
            Message::Job { from, number, body: JobMessage::Call(request) } => {
                self.askers.insert(self.next, (from, number));
                master.client(self.next, *request, now);
            }
            Message::Job { from, number, body: JobMessage::Report(request) } => {
                self.askers.insert(self.next, (from, number));
                master.worker(self.next, *request);
            }
            Message::Said { number, said: Said::Client(answer) } => {
                let Some((call, request)) = self.calls.remove(&number) else { return };
                if !master.answered(call, answer) {
                    // Asked again under the same id.
                    self.calls.insert(self.next, (call, request));
                    out.set(random.millis(20..1000), Timer::Resend(self.next));
                }
                self.send_calls(out);
            }
            _ => return,
        }
        self.set_turn(out);
    }

    /// A turn is taken soon, if there is something for it.
    fn set_turn(&mut self, out: &mut Outbox) {
        let is_due = self.running.as_ref().is_some_and(Master::is_due);
        if is_due && !std::mem::replace(&mut self.is_turn_set, true) {
            out.set(Duration::from_micros(20), Timer::Turn);
        }
    }

    pub(super) fn on_timer(
        &mut self,
        timer: &Timer,
        (now, random): (Now, &mut Random),
        book: &mut Book,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Turn => {
                self.is_turn_set = false;
                self.turn(false, now, random, out);
            }
            Timer::Tick => {
                self.turn(true, now, random, out);
                out.set(Master::tick_interval(), Timer::Tick);
            }
            Timer::Committed(txid) => self.committed(*txid, book, out),
            Timer::Resend(number) => self.send_call(*number, out),
            _ => {}
        }
    }

    fn turn(&mut self, is_tick: bool, now: Now, random: &mut Random, out: &mut Outbox) {
        let Some(master) = &mut self.running else { return };
        let taken = master.turn(is_tick, now);
        if random.one_in(CHECKPOINT_TURNS) {
            self.log.hand_over(master.last(), master.rows(now));
        }
        self.append(taken.edits, random, out);
    }

    fn committed(&mut self, txid: u64, book: &mut Book, out: &mut Outbox) {
        self.log.commit(txid, |edit| book.logged(edit));
        let Some(master) = &mut self.running else { return };
        master.committed(txid);
        for (number, said) in master.answers() {
            if let Some((to, number)) = self.askers.remove(&number) {
                let body = JobMessage::Said(Box::new(said));
                out.send(to, Message::Job { from: Place::Tracker, number, body });
            }
        }
        self.send_calls(out);
        self.set_turn(out);
    }

    /// Sends what the machine's work asks of the NameNode.
    fn send_calls(&mut self, out: &mut Outbox) {
        let calls = self.running.as_mut().map(Master::calls).unwrap_or_default();
        for (call, request) in calls {
            self.next += 1;
            self.calls.insert(self.next, (call, Box::new(request)));
            self.send_call(self.next, out);
        }
    }

    fn send_call(&self, number: u64, out: &mut Outbox) {
        let Some((_, request)) = self.calls.get(&number) else { return };
        let (from, request) = (Place::Tracker, request.clone());
        out.send(Place::Master, Message::Client { from, number, request });
        out.set(CALL_TIMEOUT, Timer::Resend(number));
    }

    /// Asks the JobTracker, without a network.
    pub(super) fn ask(
        &mut self,
        body: jobs::Call,
        (now, random): (Now, &mut Random),
        book: &mut Book,
        out: &mut Outbox,
    ) -> Result<jobs::Reply, String> {
        let client = protocol::ClientId([255; 16]);
        self.next += 1;
        let call = protocol::CallId { client, number: self.next };
        let request = jobs::Request::new(call, "root", body);
        let master = self.running.as_mut().ok_or("the JobTracker is dead")?;
        master.client(self.next, request, now);
        self.askers.insert(self.next, (Place::Tracker, OWN));
        self.turn(false, now, random, out);
        let last = self.running.as_ref().map_or(0, Master::last);
        self.committed(last, book, out);
        let mut answer = Err("no answer".to_owned());
        out.messages.retain(|(_, message)| match message {
            Message::Job { number: OWN, body: JobMessage::Said(said), .. } => {
                if let sim::Said::Client(said) = &**said {
                    answer = said.clone().map_err(|refusal| refusal.to_string());
                }
                false
            }
            _ => true,
        });
        answer
    }
}
