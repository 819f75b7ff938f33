//! The side of MapReduce: the JobTracker on its log, workers with the processes of tasks, and clients that submit jobs.
//!
//! ```text
//!   submitters ◄───► JobTracker ◄───► workers ◄───► workers
//!                        │               │     (map outputs)
//!                        └──► NameNode ◄─┘
//! ```
//!
//! What the JobTracker orders of the file system and what tasks write are calls to the simulated NameNode. Files of tasks are empty: what is checked of them is
//! who made them.

mod book;
mod runner;
mod submitter;
mod tracker;
mod worker;

use std::time::Duration;

use host::Now;
use needs::random::Random;

use self::book::{AskNames, Book};
use self::submitter::Submitter;
use self::tracker::Tracker;
use self::worker::{Around, WORKERS, Worker};
use crate::faults::Fault;
use crate::net::{JobMessage, Message, Outbox, Place, Timer};

const SUBMITTERS: usize = 2;

/// All processes of this side; nothing runs in a history without jobs.
pub(crate) struct Jobs {
    tracker: Tracker,
    workers: Vec<Option<Worker>>,
    submitters: Vec<Option<Submitter>>,
    book: Book,
    has_jobs: bool,
}

impl Jobs {
    pub(crate) fn new(has_jobs: bool) -> Self {
        Jobs {
            tracker: Tracker::new(),
            workers: (0..WORKERS).map(|_| None).collect(),
            submitters: (0..SUBMITTERS).map(|_| None).collect(),
            book: Book::default(),
            has_jobs,
        }
    }

    pub(crate) fn has_jobs(&self) -> bool {
        self.has_jobs
    }

    /// All processes; none in a history without jobs.
    pub(crate) fn places(&self) -> Vec<Place> {
        if !self.has_jobs {
            return Vec::new();
        }
        let workers = (0..WORKERS).map(Place::Worker);
        [Place::Tracker]
            .into_iter()
            .chain(workers)
            .chain((0..SUBMITTERS).map(Place::Submitter))
            .collect()
    }

    /// Starts of the JobTracker; and jobs that ended, of those that succeeded, failed, were killed.
    pub(crate) fn counts(&self) -> (u64, [u64; 4]) {
        (self.tracker.starts, self.book.counts())
    }

    pub(crate) fn is_running(&self, place: Place) -> bool {
        match place {
            Place::Tracker => self.tracker.is_running(),
            Place::Worker(number) => self.workers[number].is_some(),
            Place::Submitter(number) => self.submitters[number].is_some(),
            _ => false,
        }
    }

    pub(crate) fn start(
        &mut self,
        (place, life): (Place, u64),
        now: Now,
        random: &mut Random,
        out: &mut Outbox,
    ) {
        match place {
            Place::Tracker => self.tracker.start(now, random, out),
            Place::Worker(number) => {
                let mut around = Around { now: now.at, random, book: &mut self.book, out };
                self.workers[number] = Some(Worker::start(number, life, &mut around));
            }
            Place::Submitter(number) => {
                let mut submitter = Submitter::new(number, life);
                submitter.start(random, out);
                self.submitters[number] = Some(submitter);
            }
            _ => {}
        }
    }

    pub(crate) fn crash(&mut self, place: Place, random: &mut Random) {
        match place {
            Place::Tracker => self.tracker.crash(random, &mut self.book),
            Place::Worker(number) => {
                if let Some(mut worker) = self.workers[number].take() {
                    worker.crash(&mut self.book);
                }
            }
            Place::Submitter(number) => self.submitters[number] = None,
            _ => {}
        }
    }

    /// What the machine of a process that has died says to a message.
    pub(crate) fn refuse(to: Place, message: &Message) -> Option<(Place, Message)> {
        let Message::Job { from, number, body } = message else { return None };
        let is_call =
            matches!(body, JobMessage::Call(_) | JobMessage::Report(_) | JobMessage::Fetch(_));
        let (number, body) = (*number, JobMessage::Dead);
        is_call.then_some((*from, Message::Job { from: to, number, body }))
    }

    pub(crate) fn on_message(
        &mut self,
        (to, message): (Place, Message),
        now: Now,
        random: &mut Random,
        out: &mut Outbox,
    ) {
        let book = &mut self.book;
        match to {
            Place::Tracker => self.tracker.on_message(message, (now, random), out),
            Place::Worker(number) => {
                if let Some(worker) = &mut self.workers[number] {
                    worker.on_message(message, &mut Around { now: now.at, random, book, out });
                }
            }
            Place::Submitter(number) => {
                if let Some(submitter) = &mut self.submitters[number] {
                    submitter.on_message(message, random, book, out);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn on_timer(
        &mut self,
        (place, timer): (Place, &Timer),
        now: Now,
        random: &mut Random,
        out: &mut Outbox,
    ) {
        let book = &mut self.book;
        match place {
            Place::Tracker => self.tracker.on_timer(timer, (now, random), book, out),
            Place::Worker(number) => {
                if let Some(worker) = &mut self.workers[number] {
                    worker.on_timer(timer, &mut Around { now: now.at, random, book, out });
                }
            }
            Place::Submitter(number) => {
                if let Some(submitter) = &mut self.submitters[number] {
                    submitter.on_timer(timer, random, book, out);
                }
            }
            _ => {}
        }
    }

    /// No further jobs are submitted.
    pub(crate) fn calm(&mut self) {
        self.submitters.iter_mut().flatten().for_each(|submitter| submitter.is_stopping = true);
    }

    /// Compares what there is with what was promised; `names` asks the NameNode, without a network.
    pub(crate) fn check(
        &mut self,
        now: Now,
        random: &mut Random,
        out: &mut Outbox,
        names: AskNames<'_>,
    ) -> Result<(), String> {
        if let Some(busy) = self.submitters.iter().flatten().find(|client| !client.is_done()) {
            return Err(busy.to_string());
        }
        if let Some(busy) = self.workers.iter().flatten().find_map(Worker::busy) {
            return Err(busy);
        }
        if !self.has_jobs {
            return Ok(());
        }
        let Jobs { tracker, book, .. } = self;
        let mut ask = |call, book: &mut Book| tracker.ask(call, (now, &mut *random), book, out);
        book.check(&mut ask, names)?;
        match tracker.is_idle() {
            true => Ok(()),
            false => Err("the JobTracker works on files".to_owned()),
        }
    }
}

/// Draws the next fault of this side, and when it comes.
pub(crate) fn draw_fault(random: &mut Random) -> (Duration, Fault) {
    let place = |random: &mut Random| match random.below(WORKERS + 3) {
        0 | 1 => Place::Tracker,
        2 => Place::Master,
        number => Place::Worker(number - 3),
    };
    let worker = Place::Worker(random.below(WORKERS));
    let fault = match random.below(10) {
        0 | 1 => Fault::Kill(Place::Tracker, random.millis(50..6000)),
        2 | 3 => Fault::Kill(worker, random.millis(50..9000)),
        4 => Fault::Kill(Place::Submitter(random.below(SUBMITTERS)), random.millis(50..3000)),
        5 | 6 => Fault::Cut(place(random), place(random)),
        7 => Fault::Cut(Place::Submitter(random.below(SUBMITTERS)), Place::Tracker),
        8 => Fault::Kill(Place::Master, random.millis(50..4000)),
        _ => Fault::Heal,
    };
    (random.millis(20..3000), fault)
}
