//! The NameNode and its log.

use std::collections::BTreeMap;
use std::time::Duration;

use host::Now;
use namenode::Config;
use namenode::sim::Master;
use needs::random::Random;
use protocol::auth::Key;
use protocol::token::TokenKeys;

use crate::log::Log;
use crate::net::{Message, Outbox, Place, Timer};

/// Rows go to the checkpoint once in so many turns.
const CHECKPOINT_TURNS: u64 = 60;

pub(crate) struct MasterProcess {
    pub(crate) config: Config,
    secret: Key,
    log: Log,
    running: Option<Master>,
    epoch: u64,
    /// Who asked, by the number that the machine has.
    askers: BTreeMap<u64, (Place, u64)>,
    next: u64,
    is_turn_set: bool,
    pub(crate) starts: u64,
}

/// The cluster's.
const SECRET: [u8; 32] = [7; 32];

/// What its daemons make tokens and receipts with.
pub(crate) fn token_keys() -> TokenKeys {
    TokenKeys::new(&Key::new(SECRET))
}

impl MasterProcess {
    pub(crate) fn new(config: Config) -> Self {
        MasterProcess {
            config,
            secret: Key::new(SECRET),
            log: Log::default(),
            running: None,
            epoch: 0,
            askers: BTreeMap::new(),
            next: 0,
            is_turn_set: false,
            starts: 0,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub(crate) fn running(&self) -> Option<&Master> {
        self.running.as_ref()
    }

    pub(crate) fn start(&mut self, now: Now, random: &mut Random, out: &mut Outbox) {
        self.epoch += 1;
        self.starts += 1;
        let terms = (self.epoch, random.bits(), now);
        let started = Master::start(&self.config, &self.secret, &self.log.logged, terms);
        let (master, taken) = started.expect("what was logged loads");
        self.running = Some(master);
        self.is_turn_set = false;
        self.append(taken.edits, random, out);
        out.set(Duration::ZERO, Timer::Tick);
    }

    /// The process dies.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        self.running = None;
        self.askers.clear();
        self.log.crash(random);
    }

    fn append(&mut self, edits: Vec<Vec<u8>>, random: &mut Random, out: &mut Outbox) {
        self.log.append(edits);
        let last = self.running.as_ref().map_or(0, Master::last);
        out.set(random.micros(50..3000), Timer::Committed(last));
    }

    pub(crate) fn on_message(&mut self, message: Message, now: Now, out: &mut Outbox) {
        let Some(master) = &mut self.running else { return };
        self.next += 1;
        match message {
            Message::Client { from, number, request } => {
                self.askers.insert(self.next, (from, number));
                master.client(self.next, *request, now);
            }
            Message::Node { from, number, request } => {
                self.askers.insert(self.next, (from, number));
                master.datanode(self.next, *request, now);
            }
            _ => return,
        }
        if !std::mem::replace(&mut self.is_turn_set, true) {
            out.set(Duration::from_micros(20), Timer::Turn);
        }
    }

    pub(crate) fn on_timer(
        &mut self,
        timer: &Timer,
        now: Now,
        random: &mut Random,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Turn => {
                self.is_turn_set = false;
                self.turn(false, now, random, out);
            }
            Timer::Tick => {
                self.turn(true, now, random, out);
                out.set(Master::tick_interval(&self.config), Timer::Tick);
            }
            Timer::Committed(txid) => self.committed(*txid, out),
            _ => {}
        }
    }

    fn turn(&mut self, is_tick: bool, now: Now, random: &mut Random, out: &mut Outbox) {
        let Some(master) = &mut self.running else { return };
        let taken = master.turn(is_tick, now).expect("a NameNode without a defect");
        if taken.more && !std::mem::replace(&mut self.is_turn_set, true) {
            out.set(Duration::from_micros(20), Timer::Turn);
        }
        if random.one_in(CHECKPOINT_TURNS) {
            self.log.hand_over(master.last(), master.rows(now));
        }
        self.append(taken.edits, random, out);
    }

    fn committed(&mut self, txid: u64, out: &mut Outbox) {
        self.log.commit(txid, |_| ());
        let Some(master) = &mut self.running else { return };
        master.committed(txid);
        for (number, said) in master.answers() {
            if let Some((to, number)) = self.askers.remove(&number) {
                out.send(to, Message::Said { number, said });
            }
        }
    }
}
