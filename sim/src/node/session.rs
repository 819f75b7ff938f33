//! The session with the NameNode: register, report everything, then heartbeats and changes at the same time, each message until it is answered.

use std::time::Duration;

use datanode::core::copy::Order;
use datanode::core::session::Commit;
use datanode::core::volumes::Usage;
use namenode::sim::Said;
use protocol::datanode::{Command, CommitRecovery, Heartbeat, Reply, Request};
use protocol::{Epoch, ErrorKind, GenerationStamp};

use super::process::{Ending, For, Process};
use crate::net::{Message, Outbox, Place, Timer};

/// Between heartbeats, and between tries to register.
const BEAT_INTERVAL: Duration = Duration::from_millis(300);
/// Time after which a message is sent again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl Process {
    fn ask_master(&mut self, request: Request, out: &mut Outbox) -> u64 {
        let number = self.next_number(For::Session);
        let request = Box::new(request);
        out.send(Place::Master, Message::Node { from: self.place, number, request });
        out.set(ANSWER_TIMEOUT, Timer::Resend(number));
        number
    }

    pub(super) fn on_beat(&mut self, out: &mut Outbox) {
        out.set(BEAT_INTERVAL, Timer::Beat);
        if self.session.beat_sent.is_some() || self.session.core.is_reporting_all() {
            return;
        }
        let request = match self.session.core.sender() {
            None => {
                self.session.loss_count = self.store.loss_count();
                self.session.core.register(self.store.cluster())
            }
            Some(sender) => {
                let volumes = self.store.volume_reports();
                let usage = Usage::of(&volumes);
                let beat = Heartbeat {
                    capacity: usage.capacity,
                    used: usage.used,
                    remaining: usage.remaining,
                    volumes,
                    ..Heartbeat::default()
                };
                Request::Heartbeat(sender, beat)
            }
        };
        self.session.beat_sent = Some(self.ask_master(request, out));
    }

    /// Sends the next report, unless one is on its way, and the ends of recoveries that are not.
    pub(super) fn report(&mut self, out: &mut Outbox) {
        if self.session.report_sent.is_none()
            && let Some(report) = self.next_report()
        {
            self.session.report_sent = Some(self.ask_master(report, out));
        }
        for mut ending in std::mem::take(&mut self.session.commits) {
            if ending.sent.is_none() {
                match self.session.core.commit(ending.epoch, &ending.commit) {
                    Commit::Send(request) => ending.sent = Some(self.ask_master(*request, out)),
                    Commit::Wait => {}
                    Commit::Over => continue,
                }
            }
            self.session.commits.push(ending);
        }
    }

    fn next_report(&mut self) -> Option<Request> {
        let report = self.session.core.report(&mut self.store.changes().pending())?;
        Some(Request::clone(&report))
    }

    /// A message was not answered in time.
    pub(super) fn on_silence(&mut self, number: u64, out: &mut Outbox) {
        if self.asked.get(&number) == Some(&For::Session) {
            // An answer to the message that is given up is none to the next one.
            self.asked.remove(&number);
            let session = &mut self.session;
            session.beat_sent.take_if(|sent| *sent == number);
            session.report_sent.take_if(|sent| *sent == number);
            for ending in &mut session.commits {
                ending.sent.take_if(|sent| *sent == number);
            }
            self.report(out);
        } else if let Some(For::Lead(lead)) = self.asked.remove(&number) {
            self.on_lead_told(lead, Err(ErrorKind::Unavailable), out);
        }
    }

    pub(super) fn on_said(&mut self, number: u64, said: Said, out: &mut Outbox) {
        let Said::Datanode(answer) = said else { return };
        if self.asked.remove(&number).is_none() {
            return;
        }
        let session = &mut self.session;
        session.beat_sent.take_if(|sent| *sent == number);
        let is_refused_for_now =
            answer.as_ref().is_err_and(|no| no.kind == ErrorKind::Fenced || no.kind.is_transient());
        match is_refused_for_now {
            true => session.commits.iter_mut().for_each(|ending| {
                ending.sent.take_if(|sent| *sent == number);
            }),
            false => session.commits.retain(|ending| ending.sent != Some(number)),
        }
        let is_report = session.report_sent.take_if(|sent| *sent == number).is_some();
        match answer {
            Ok(Reply::Registered { cluster, epoch, registration, next_stamp, .. }) => {
                self.registered(cluster, (epoch, registration), next_stamp);
            }
            Ok(Reply::Commands { epoch, commands })
                if self.session.core.sender().is_some_and(|sender| sender.epoch == epoch) =>
            {
                commands.into_iter().for_each(|command| self.obey(command, out));
            }
            Ok(_) if is_report => self.session.core.report_arrived(),
            Err(refusal) if refusal.kind == ErrorKind::Fenced => self.end_session(),
            _ => {}
        }
        self.report(out);
    }

    fn registered(
        &mut self,
        cluster: protocol::ClusterId,
        registration: (Epoch, u64),
        next_stamp: GenerationStamp,
    ) {
        if self.store.adopt_cluster(cluster).is_ok() {
            self.end_session();
            // One that is older than another that was served before does not count.
            let replicas = self.store.replicas();
            if self.session.core.registered(registration, replicas).is_ok() {
                self.store.vouch_from(next_stamp, self.session.loss_count);
            }
        }
    }

    fn end_session(&mut self) {
        let session = &mut self.session;
        session.core.end(&mut self.store.changes().pending());
        session.report_sent = None;
    }

    fn obey(&mut self, command: Command, out: &mut Outbox) {
        match command {
            Command::Delete(replicas) => {
                for (block, stamp) in replicas {
                    self.store.delete(block, stamp);
                }
            }
            Command::ReportAll => {
                self.session.core.report_all(self.store.replicas());
            }
            Command::Replicate { block, stamp, targets, token, .. } => {
                self.copy(Order::Whole { block, stamp }, (&targets, &token), out);
            }
            Command::Cut { source, source_stamp, block, stamp, length, targets, token } => {
                let cut = Order::Cut { source, source_stamp, block, stamp, length };
                self.copy(cut, (&targets, &token), out);
            }
            Command::Recover { block, old_stamp, stamp, replicas, token, .. } => {
                self.lead(block, (old_stamp, stamp), (replicas, token), out);
            }
            Command::Verify(replicas) => {
                replicas.iter().for_each(|(block, _)| self.store.suspect(*block));
            }
            Command::SetBalancerBandwidth(_) | Command::ShutDown => {}
        }
    }

    /// A recovery or a cut that the NameNode of this `epoch` has ordered is over.
    pub(super) fn commit(&mut self, commit: CommitRecovery, epoch: Epoch, out: &mut Outbox) {
        self.session.commits.push(Ending { sent: None, epoch, commit });
        self.report(out);
    }
}
