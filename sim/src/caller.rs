//! Calls of the NameNode, one at a time, as the client's RPC makes them: sent again after silence and after a transient refusal, always under the same id, until
//! the caller's patience ends.

use std::time::Duration;

use flow::writer::Patience;
use flow::writer::simulated::CallError;
use needs::random::Random;
use protocol::namenode::{Call, Reply, Request, VERSION};
use protocol::{CallId, ClientId, RemoteError};

use crate::net::{Message, Outbox, Place, Timer};

/// Time after which a call is sent again.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which a call is given up.
const CALL_PATIENCE: Duration = Duration::from_secs(40);

/// Wakes a process once: the last time that was set counts.
pub(crate) struct Alarm {
    generation: u64,
}

impl Alarm {
    /// Of a process in this life of its.
    pub(crate) fn new(life: u64) -> Self {
        Alarm { generation: life << 32 }
    }

    pub(crate) fn set(&mut self, time: Duration, out: &mut Outbox) {
        self.generation += 1;
        out.set(time, Timer::Go(self.generation));
    }

    /// True if it is this one that rings.
    pub(crate) fn is(&self, generation: u64) -> bool {
        generation == self.generation
    }
}

/// Whoever makes calls.
pub(crate) struct Caller {
    place: Place,
    id: ClientId,
    next_call: u64,
    next_number: u64,
    sent: Option<Sent>,
}

struct Sent {
    number: u64,
    request: Box<Request>,
    since: Duration,
    patience: Patience,
}

impl Sent {
    /// Whether it is made again when it has failed at this time.
    fn may_go_on(&self, now: Duration) -> bool {
        self.patience == Patience::Usual && now < self.since + CALL_PATIENCE
    }
}

impl Caller {
    /// Of a process in this life of its.
    pub(crate) fn new(place: Place, life: u64) -> Self {
        let (kind, number) = match place {
            Place::Client(number) => (1, number),
            Place::Keeper => (3, 0),
            _ => (2, number_of(place)),
        };
        let mut id = [kind; 16];
        id[1] = number as u8;
        id[8..].copy_from_slice(&life.to_le_bytes());
        // Numbers of an earlier life are no answer.
        Caller { place, id: ClientId(id), next_call: 0, next_number: life << 32, sent: None }
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    pub(crate) fn id(&self) -> ClientId {
        self.id
    }

    /// A number for a message, or for a stream.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn request(&mut self, call: Call) -> Box<Request> {
        self.next_call += 1;
        Box::new(Request {
            version: VERSION,
            call: CallId { client: self.id, number: self.next_call },
            user: "ann".to_owned(),
            host: format!("client{}", number_of(self.place)),
            body: call.into(),
        })
    }

    /// Makes a call whose answer nobody waits for.
    pub(crate) fn tell(&mut self, call: Call, out: &mut Outbox) {
        let (from, request, number) = (self.place, self.request(call), self.number());
        out.send(Place::Master, Message::Client { from, number, request });
    }

    /// Makes a call; its answer comes from [`Caller::on_said`] or [`Caller::on_silence`].
    pub(crate) fn call(&mut self, call: Call, patience: Patience, now: Duration, out: &mut Outbox) {
        let (request, number) = (self.request(call), self.number());
        self.sent = Some(Sent { number, request, since: now, patience });
        self.send(out);
    }

    fn send(&self, out: &mut Outbox) {
        let Some(Sent { number, request, patience, .. }) = &self.sent else { return };
        let (from, number) = (self.place, *number);
        out.send(Place::Master, Message::Client { from, number, request: request.clone() });
        let timeout = match patience {
            Patience::Usual => CALL_TIMEOUT,
            Patience::Once(timeout) => *timeout,
        };
        out.set(timeout, Timer::Resend(number));
    }

    /// Nothing has come for a message: it is sent again, or the call has failed.
    pub(crate) fn on_silence(
        &mut self,
        number: u64,
        now: Duration,
        out: &mut Outbox,
    ) -> Option<Result<Reply, CallError>> {
        let sent = self.sent.as_ref().filter(|sent| sent.number == number)?;
        if sent.may_go_on(now) {
            self.send(out);
            return None;
        }
        self.sent = None;
        Some(Err(CallError(None)))
    }

    /// The NameNode has answered; `None` if that is no answer to the call, or the call is tried again.
    pub(crate) fn on_said(
        &mut self,
        number: u64,
        answer: Result<Reply, RemoteError>,
        (now, random): (Duration, &mut Random),
        out: &mut Outbox,
    ) -> Option<Result<Reply, CallError>> {
        let fresh = self.next_number + 1;
        let sent = self.sent.as_mut().filter(|sent| sent.number == number)?;
        match answer {
            Err(refusal) if refusal.kind.is_transient() && sent.may_go_on(now) => {
                sent.number = fresh;
                self.next_number = fresh;
                out.set(random.millis(20..1000), Timer::Resend(fresh));
                None
            }
            answer => {
                self.sent = None;
                Some(answer.map_err(|refusal| CallError(Some(refusal.kind))))
            }
        }
    }
}

fn number_of(place: Place) -> usize {
    match place {
        Place::Client(number)
        | Place::Node(number)
        | Place::Reader(number)
        | Place::Worker(number)
        | Place::Submitter(number) => number,
        Place::Master | Place::Keeper | Place::Tracker => 0,
    }
}
