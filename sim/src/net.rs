//! The network: messages that may be lost or late, calls of clients that may come twice, and streams that keep their order or break.
//!
//! Invariants: what is sent over a cut link is lost; a stream that has lost something carries nothing more in that direction, so that its ends notice by silence;
//! a message to a process that has died is answered by the end of the stream if its machine runs; nothing reaches a later start of a process than the one that it
//! was sent to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use namenode::sim::Said;
use needs::random::Random;
use protocol::datanode::Request as NodeRequest;
use protocol::namenode::Request;
use protocol::transfer::{Ack, Operation, PacketHeader, Reply, Status, Write};
use protocol::{AttemptId, ErrorKind, jobs, tracker};

/// Who sends and receives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub(crate) enum Place {
    Master,
    /// From 0.
    Node(usize),
    /// From 0.
    Client(usize),
    /// From 0.
    Reader(usize),
    /// The client that changes the tree.
    Keeper,
    /// The JobTracker.
    Tracker,
    /// From 0.
    Worker(usize),
    /// A client of the JobTracker, from 0.
    Submitter(usize),
}

/// A stream between two processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Conn(pub(crate) u64);

/// A piece of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    /// The operation that a pipeline begins with.
    Write(Box<Write>),
    /// Data.
    Packet(PacketHeader, Vec<u8>),
    /// The operation was refused.
    Refused(Status),
    Ack(Box<Ack>),
    /// The other end has gone.
    End,
}

/// Bytes of a replica.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// Bytes of the replica.
    pub(crate) length: u64,
    pub(crate) header: PacketHeader,
    pub(crate) data: Vec<u8>,
    pub(crate) crcs: Vec<u8>,
}

/// What travels.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// To the master; its answer carries the number.
    Client { from: Place, number: u64, request: Box<Request> },
    /// To the master, from a DataNode.
    Node { from: Place, number: u64, request: Box<NodeRequest> },
    /// The master's answer.
    Said { number: u64, said: Said },
    /// To a DataNode: an operation with one answer.
    Ask { from: Place, number: u64, operation: Box<Operation> },
    /// Its answer.
    Told { number: u64, answer: Result<Reply, ErrorKind> },
    /// Its answer to a read.
    Served { number: u64, answer: Result<Served, ErrorKind> },
    /// A piece of a stream.
    Stream { conn: Conn, from: Place, part: Part },
    /// To and from the JobTracker, and between workers.
    Job { from: Place, number: u64, body: JobMessage },
}

/// What travels on the side of MapReduce.
#[derive(Clone, Debug)]
pub(crate) enum JobMessage {
    /// To the JobTracker, from a client.
    Call(Box<jobs::Request>),
    /// To the JobTracker, from a worker.
    Report(Box<tracker::Request>),
    /// The JobTracker's answer.
    Said(Box<jobtracker::sim::Said>),
    /// To a worker: a reduce wants the output of this map.
    Fetch(AttemptId),
    /// The answer: it is there.
    Fetched(bool),
    /// The process is dead; its machine says so.
    Dead,
}

/// What a process sets for itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// The master's turn.
    Turn,
    /// The master's tick.
    Tick,
    /// The log has committed this much.
    Committed(u64),
    /// A DataNode's heartbeat, or its next try to register.
    Beat,
    /// The DataNode looks after silent streams and what waits for threads.
    Check,
    /// A message has got no answer.
    Resend(u64),
    /// A client goes on.
    Go(u64),
    /// A client renews its leases.
    Renew,
}

/// What a process wants done.
#[derive(Default, Debug)]
pub(crate) struct Outbox {
    pub(crate) messages: Vec<(Place, Message)>,
    pub(crate) timers: Vec<(Duration, Timer)>,
}

impl Outbox {
    pub(crate) fn send(&mut self, to: Place, message: Message) {
        self.messages.push((to, message));
    }

    pub(crate) fn stream(&mut self, to: Place, from: Place, conn: Conn, part: Part) {
        self.send(to, Message::Stream { conn, from, part });
    }

    pub(crate) fn set(&mut self, after: Duration, timer: Timer) {
        self.timers.push((after, timer));
    }
}

/// The links.
#[derive(Debug, Default)]
pub(crate) struct Net {
    /// Cut in this direction.
    cut: BTreeSet<(Place, Place)>,
    /// Neither sends nor receives.
    alone: BTreeSet<Place>,
    /// Messages of all take longer by this, now and then.
    pub(crate) jitter: Duration,
    /// One message in so many is lost; never if zero.
    pub(crate) loss: u64,
    /// When the last piece of a stream arrives, by receiver; `None` if one was lost.
    streams: BTreeMap<(Conn, Place), Option<Duration>>,
}

impl Net {
    pub(crate) fn cut(&mut self, from: Place, to: Place) {
        self.cut.insert((from, to));
    }

    /// Cuts all links of a place, or joins them again.
    pub(crate) fn isolate(&mut self, place: Place, is_alone: bool) {
        match is_alone {
            true => self.alone.insert(place),
            false => self.alone.remove(&place),
        };
    }

    pub(crate) fn heal(&mut self) {
        self.cut.clear();
        self.alone.clear();
        (self.jitter, self.loss) = (Duration::ZERO, 0);
    }

    pub(crate) fn is_cut(&self, from: Place, to: Place) -> bool {
        self.cut.contains(&(from, to)) || self.alone.contains(&from) || self.alone.contains(&to)
    }

    /// When a message that is sent now arrives: never, once or twice.
    pub(crate) fn arrivals(
        &mut self,
        (from, to): (Place, Place),
        message: &Message,
        now: Duration,
        random: &mut Random,
    ) -> Vec<Duration> {
        let late = self.jitter.mul_f64(random.within(0..1000) as f64 / 1000.0);
        let at = now + random.micros(100..2000) + late;
        let is_lost = self.is_cut(from, to) || (self.loss > 0 && random.one_in(self.loss));
        if let Message::Stream { conn, .. } = message {
            let last = self.streams.entry((*conn, to)).or_insert(Some(Duration::ZERO));
            *last = last.filter(|_| !is_lost).map(|last| at.max(last + Duration::from_nanos(1)));
            return last.iter().copied().collect();
        }
        // Whoever gets a signed request a second time refuses it: a sender repeats itself under a new signature, and only clients do so out of order.
        let is_doubled = matches!(
            message,
            Message::Client { .. } | Message::Job { body: JobMessage::Call(_), .. }
        );
        match (is_lost, is_doubled && self.loss > 0 && random.one_in(self.loss)) {
            (true, _) => Vec::new(),
            (false, true) => vec![at, at + random.millis(1..3000)],
            (false, false) => vec![at],
        }
    }
}
