//! The conversation with the JobTracker: registers, then keeps one poll open at all times; starts again when fenced.
//!
//! ```text
//! unregistered -> registered: polls -> fenced: unregistered
//! ```
//!
//! Invariants: one call at a time; the highest epoch wins; orders with a number that was received before are not obeyed again.

use std::time::Duration;

use protocol::Epoch;
use protocol::tracker::{Action, Reply};

use super::effect::Note;
use super::event::{Answer, CallNumber};

/// Pause after a failed call: the worker finds a restarted JobTracker within half a second.
const PAUSE: Duration = Duration::from_millis(200);
/// Pause after a refused registration: only another program changes the answer.
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
/// Time beyond the JobTracker's own limit after which a poll counts as lost.
const POLL_SLACK: Duration = Duration::from_secs(10);
/// Time for a registration.
pub(super) const REGISTER_TIMEOUT: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Session {
    highest: Epoch,
    /// The epoch that it is registered under.
    epoch: Option<Epoch>,
    /// Number of the last orders received under this registration.
    received: u64,
    /// How long the JobTracker may hold a poll.
    poll_max: Duration,
    call: Option<CallNumber>,
    /// Why the JobTracker does not take this worker.
    refusal: Option<String>,
    /// When the next call may begin.
    call_at: Duration,
}

/// What follows from an answer.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// The worker is registered.
    pub(super) is_registered: bool,
    /// Orders, in their order.
    pub(super) actions: Vec<Action>,
    /// What people should know.
    pub(super) note: Option<Note>,
}

impl Session {
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    pub(super) fn received(&self) -> u64 {
        self.received
    }

    /// When the next call is due; `None` while one is under way.
    pub(super) fn call_at(&self) -> Option<Duration> {
        self.call.is_none().then_some(self.call_at)
    }

    /// Time for a poll.
    pub(super) fn poll_timeout(&self) -> Duration {
        self.poll_max.saturating_add(POLL_SLACK)
    }

    pub(super) fn called(&mut self, call: CallNumber) {
        self.call = Some(call);
    }

    pub(super) fn waits_for(&self, call: CallNumber) -> bool {
        self.call == Some(call)
    }

    /// Processes the answer to its call.
    pub(super) fn answered(&mut self, answer: Answer, now: Duration) -> Followed {
        self.call = None;
        match self.epoch {
            None => self.registered(answer, now),
            Some(_) => self.polled(answer, now),
        }
    }

    fn registered(&mut self, answer: Answer, now: Duration) -> Followed {
        let note = match answer {
            Answer::Reply(Reply::Registered { epoch, poll_ms, level }) if epoch >= self.highest => {
                self.highest = epoch;
                self.refusal = None;
                self.epoch = Some(epoch);
                self.received = 0;
                self.poll_max = Duration::from_millis(poll_ms);
                let note = Some(Note::Registered { epoch, level });
                return Followed { is_registered: true, note, ..Followed::default() };
            }
            Answer::Reply(Reply::Registered { epoch, .. }) => {
                Note::OlderJobtracker { epoch, highest: self.highest }
            }
            Answer::Reply(_) => Note::OddRegistration,
            Answer::Refused(reason) => return self.refused(reason, now),
            Answer::Fenced(reason) | Answer::Lost(reason) => Note::CannotRegister(reason),
        };
        self.pause(note, now)
    }

    /// Until somebody starts another program, here or there, the answer stays: it is logged once.
    fn refused(&mut self, reason: String, now: Duration) -> Followed {
        self.call_at = now + REFUSED_PAUSE;
        let is_new = self.refusal.as_ref() != Some(&reason);
        self.refusal = Some(reason.clone());
        let note = is_new.then_some(Note::RegistrationRefused(reason));
        Followed { note, ..Followed::default() }
    }

    fn polled(&mut self, answer: Answer, now: Duration) -> Followed {
        let note = match answer {
            Answer::Reply(Reply::Actions { number, actions }) => {
                let is_fresh = number > self.received;
                self.received = self.received.max(number);
                let actions = if is_fresh { actions } else { Vec::new() };
                return Followed { actions, ..Followed::default() };
            }
            Answer::Reply(_) => Note::OddPoll,
            Answer::Fenced(_) => {
                self.epoch = None;
                return Followed { note: Some(Note::Fenced), ..Followed::default() };
            }
            Answer::Refused(reason) | Answer::Lost(reason) => Note::CannotPoll(reason),
        };
        self.pause(note, now)
    }

    fn pause(&mut self, note: Note, now: Duration) -> Followed {
        self.call_at = now + PAUSE;
        Followed { note: Some(note), ..Followed::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_noted_once_and_followed_by_a_long_pause() {
        let mut session = Session::default();
        let mut answered = |answer, at| {
            let now = Duration::from_secs(at);
            session.called(CallNumber(at));
            let note = session.answered(answer, now).note;
            (note, session.call_at().unwrap() - now)
        };
        let refusal = |text: &str| Answer::Refused(text.to_owned());
        let noted = |text: &str| Some(Note::RegistrationRefused(text.to_owned()));
        assert_eq!(answered(refusal("level 2"), 1), (noted("level 2"), REFUSED_PAUSE));
        assert_eq!(answered(refusal("level 2"), 10), (None, REFUSED_PAUSE));
        assert_eq!(answered(refusal("level 3"), 20), (noted("level 3"), REFUSED_PAUSE));
        let (_, pause) = answered(Answer::Lost("no route".to_owned()), 30);
        assert_eq!(pause, PAUSE);
        assert_eq!(answered(refusal("level 3"), 40), (None, REFUSED_PAUSE));
    }
}
