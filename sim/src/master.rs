//! The NameNode and its log. The log commits in order, a little later; after a crash it has all that was committed and perhaps some of what was on the way.

use std::collections::BTreeMap;
use std::time::Duration;

use host::Now;
use namenode::Config;
use namenode::sim::{Logged, Master};
use needs::random::Random;
use protocol::auth::Key;

use crate::net::{Message, Outbox, Place, Timer};

/// Rows go to the checkpoint once in so many turns.
const CHECKPOINT_TURNS: u64 = 60;

pub(crate) struct MasterProcess {
    pub(crate) config: Config,
    secret: Key,
    pub(crate) logged: Logged,
    /// Appended, not committed.
    pending: Vec<Vec<u8>>,
    /// Rows that reach the checkpoint once this transaction is committed.
    rows: Vec<(u64, Vec<journal::Change>)>,
    checkpoint: BTreeMap<Vec<u8>, Vec<u8>>,
    running: Option<Master>,
    epoch: u64,
    /// Who asked, by the number that the machine has.
    askers: BTreeMap<u64, (Place, u64)>,
    next: u64,
    is_turn_set: bool,
    pub(crate) starts: u64,
}

impl MasterProcess {
    pub(crate) fn new(config: Config) -> Self {
        MasterProcess {
            config,
            secret: Key::new([7; 32]),
            logged: Logged::default(),
            pending: Vec::new(),
            rows: Vec::new(),
            checkpoint: BTreeMap::new(),
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
        let started = Master::start(&self.config, &self.secret, &self.logged, terms);
        let (master, taken) = started.expect("what was logged loads");
        self.running = Some(master);
        self.is_turn_set = false;
        self.append(taken.edits, random, out);
        out.set(Duration::ZERO, Timer::Tick);
    }

    /// The process dies. Of what it had appended since the last commit, any first part is there.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        self.running = None;
        self.askers.clear();
        let kept = random.below(self.pending.len() + 1);
        let kept = self.pending.drain(..).take(kept).collect::<Vec<_>>();
        self.logged.edits.extend(kept);
        self.rows.clear();
    }

    fn append(&mut self, edits: Vec<Vec<u8>>, random: &mut Random, out: &mut Outbox) {
        self.pending.extend(edits);
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
            self.rows.push((master.last(), master.rows(now)));
        }
        self.append(taken.edits, random, out);
    }

    fn committed(&mut self, txid: u64, out: &mut Outbox) {
        let durable = self.logged.rows_at + self.logged.edits.len() as u64;
        let count = txid.saturating_sub(durable).min(self.pending.len() as u64);
        self.logged.edits.extend(self.pending.drain(..count as usize));
        let is_due = |(at, _): &(u64, _)| *at <= txid;
        while self.rows.first().is_some_and(is_due) {
            let (at, changes) = self.rows.remove(0);
            self.checkpoint(at, changes);
        }
        let Some(master) = &mut self.running else { return };
        master.committed(txid);
        for (number, said) in master.answers() {
            if let Some((to, number)) = self.askers.remove(&number) {
                out.send(to, Message::Said { number, said });
            }
        }
    }

    fn checkpoint(&mut self, at: u64, changes: Vec<journal::Change>) {
        for journal::Change { key, value } in changes {
            match value {
                Some(value) => drop(self.checkpoint.insert(key, value)),
                None => drop(self.checkpoint.remove(&key)),
            }
        }
        let behind = at.saturating_sub(self.logged.rows_at);
        self.logged.edits.drain(..behind as usize);
        self.logged.rows_at = at;
        self.logged.rows =
            self.checkpoint.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    }
}
