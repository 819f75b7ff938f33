//! A client that changes the tree: it makes, moves, joins, cuts and deletes directories and files, and takes, renames and deletes snapshots of all of it.
//!
//! Each answer is compared with a model ([`Tree`]). A change whose answer was lost was made or not: from then on there are several trees that may be, until
//! later answers decide. The files are ones that writers have closed; from then on they are the keeper's.
//!
//! A file that is cut within a block is open until DataNodes have made its new last block. It is moved and deleted meanwhile, too. But what must find it closed,
//! or shows it as it is, waits until it is.

use std::collections::BTreeSet;
use std::time::Duration;

use flow::writer::Patience;
use flow::writer::simulated::CallError;
use namenode::sim::Said;
use needs::random::Random;
use protocol::ErrorKind;
use protocol::namenode::{Call, Reply};

use crate::caller::{Alarm, Caller};
use crate::net::{Message, Outbox, Place, Timer};
use crate::oracle::Oracle;
use crate::tree::{Change, Kept, Tree, path_of};

/// After this time no message of a call that was given up is on its way.
const GONE_AFTER: Duration = Duration::from_secs(6);
/// Most trees that may be.
const TREES_MAX: usize = 1 << 10;
/// Most files that the keeper owns outside of the tree.
const OUTSIDE_MAX: usize = 3;

/// What the keeper waits for an answer to.
#[derive(Clone, Debug)]
enum Asked {
    /// Its directory is made.
    Top,
    /// Snapshots of it are allowed.
    Allow,
    Change(Change),
    /// Whether a file is still being cut, by its number, which may be at one of these paths: at the last one first.
    Cut(u64, Vec<String>),
}

pub(crate) struct Keeper {
    caller: Caller,
    asked: Option<Asked>,
    /// Its directory is there, with snapshots allowed.
    pub(crate) is_set_up: bool,
    /// All that may be.
    pub(crate) trees: Vec<Tree>,
    /// Files that may be open because they are being cut, by their numbers.
    cut: BTreeSet<u64>,
    /// Changes that were made for sure.
    pub(crate) change_count: u64,
    alarm: Alarm,
    rests_until: Duration,
    pub(crate) is_running: bool,
    pub(crate) is_stopping: bool,
}

impl Keeper {
    pub(crate) fn new() -> Self {
        Keeper {
            caller: Caller::new(Place::Keeper, 0),
            asked: None,
            is_set_up: false,
            trees: vec![Tree::default()],
            cut: BTreeSet::new(),
            change_count: 0,
            alarm: Alarm::new(0),
            rests_until: Duration::ZERO,
            is_running: false,
            is_stopping: false,
        }
    }

    /// True if nothing is under way.
    pub(crate) fn is_done(&self) -> bool {
        self.is_stopping && self.asked.is_none()
    }

    pub(crate) fn start(
        &mut self,
        life: u64,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        self.caller = Caller::new(Place::Keeper, life);
        (self.is_running, self.alarm) = (true, Alarm::new(life));
        self.alarm.set(self.rests_until.saturating_sub(now) + random.millis(1..500), out);
    }

    /// The process dies; what it remembers of the tree is written down.
    pub(crate) fn crash(&mut self, now: Duration) {
        self.is_running = false;
        self.lost(now);
    }

    pub(crate) fn on_timer(
        &mut self,
        timer: &Timer,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        match timer {
            Timer::Go(generation)
                if self.alarm.is(*generation) && self.asked.is_none() && !self.is_stopping =>
            {
                self.ask((now, random), oracle, out);
            }
            Timer::Resend(sent) => {
                if let Some(answer) = self.caller.on_silence(*sent, now, out) {
                    self.answered(&answer, (now, random), out);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_message(
        &mut self,
        message: Message,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        if let Message::Said { number, said: Said::Client(answer) } = message
            && let Some(answer) = self.caller.on_said(number, answer, (now, random), out)
        {
            self.answered(&answer, (now, random), out);
        }
    }

    fn ask(
        &mut self,
        (now, random): (Duration, &mut Random),
        oracle: &mut Oracle,
        out: &mut Outbox,
    ) {
        let (asked, call) = match self.is_set_up {
            true => {
                let change = self.draw(random, oracle);
                match self.cut.first().copied().filter(|_| change.wants_rest()) {
                    Some(number) => {
                        let places = self.trees.iter().filter_map(|tree| tree.place_of(number));
                        let places: BTreeSet<&String> = places.collect();
                        let places = places.into_iter().cloned().collect();
                        return self.ask_after((number, places), (now, random), out);
                    }
                    None => {
                        let call = change.call();
                        (Asked::Change(change), call)
                    }
                }
            }
            false => {
                let path = path_of("");
                (Asked::Top, Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: true })
            }
        };
        self.asked = Some(asked);
        self.caller.call(call, Patience::Usual, now, out);
    }

    /// Asks whether a file is open; nobody else changes the tree, so it is at one of these places, or gone.
    fn ask_after(
        &mut self,
        (number, places): (u64, Vec<String>),
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        match places.last() {
            Some(place) => {
                let call = Call::Status(path_of(place));
                self.asked = Some(Asked::Cut(number, places));
                self.caller.call(call, Patience::Usual, now, out);
            }
            None => {
                self.cut.remove(&number);
                self.alarm.set(random.millis(1..20), out);
            }
        }
    }

    fn draw(&mut self, random: &mut Random, oracle: &mut Oracle) -> Change {
        if self.trees[0].outside.len() < OUTSIDE_MAX
            && let Some(file) = oracle.give_away(random)
        {
            for tree in &mut self.trees {
                tree.outside.insert(file);
            }
        }
        let outside: Vec<u64> = self.trees[0].outside.iter().copied().collect();
        let file = random.pick(&outside).map(|number| {
            let content = oracle.content(number);
            (Kept { number, content }, oracle.path(number))
        });
        Change::draw(&self.trees[0], file, random)
    }

    fn answered(
        &mut self,
        answer: &Result<Reply, CallError>,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) {
        match (self.asked.take(), answer) {
            (Some(Asked::Top), Ok(_)) => {
                self.asked = Some(Asked::Allow);
                let call = Call::AllowSnapshot(path_of(""));
                return self.caller.call(call, Patience::Usual, now, out);
            }
            (Some(Asked::Allow), Ok(_)) => self.is_set_up = true,
            (Some(Asked::Cut(number, mut places)), answer) => {
                let is_open = match answer {
                    Ok(Reply::Status(status)) => status.open,
                    Err(CallError(Some(ErrorKind::NotFound))) => false,
                    _ => true,
                };
                if !is_open {
                    places.pop();
                    return self.ask_after((number, places), (now, random), out);
                }
            }
            (Some(Asked::Change(change)), answer) => match answer {
                Ok(Reply::Flag(false)) if matches!(change, Change::Truncate(..)) => {
                    self.may_be_cut(&change);
                    self.made(&change);
                }
                Ok(Reply::Flag(false)) => self.refused(&change, answer),
                Ok(_) => self.made(&change),
                Err(CallError(Some(kind))) if !kind.is_transient() => self.refused(&change, answer),
                Err(_) => {
                    self.asked = Some(Asked::Change(change));
                    self.lost(now);
                }
            },
            _ => {}
        }
        self.alarm.set(self.rests_until.saturating_sub(now) + random.millis(1..150), out);
    }

    fn may_be_cut(&mut self, change: &Change) {
        let Change::Truncate(path, _) = change else { return };
        let files = self.trees.iter().filter_map(|tree| tree.file(path));
        self.cut.extend(files.map(|file| file.number));
    }

    fn made(&mut self, change: &Change) {
        let after: Vec<Tree> = self.trees.iter().filter_map(|tree| tree.after(change)).collect();
        assert!(!after.is_empty(), "{change:?} was made, of {:?}", self.trees);
        self.change_count += 1;
        self.trees = after;
    }

    fn refused(&mut self, change: &Change, answer: &Result<Reply, CallError>) {
        let before = self.trees.clone();
        self.trees.retain(|tree| tree.after(change).is_none());
        assert!(!self.trees.is_empty(), "{change:?} was refused ({answer:?}), of {before:?}");
    }

    /// Nobody will hear what became of a change.
    fn lost(&mut self, now: Duration) {
        let Some(asked) = self.asked.take() else { return };
        self.rests_until = now + GONE_AFTER;
        let Asked::Change(change) = asked else { return };
        self.may_be_cut(&change);
        for tree in self.trees.clone() {
            let after = tree.after(&change).filter(|after| !self.trees.contains(after));
            self.trees.extend(after);
        }
        assert!(self.trees.len() <= TREES_MAX, "too many answers were lost");
    }
}
