//! The session with the NameNode: register, report everything, then heartbeats and changes at the same time, each message until it is answered.

use std::time::Duration;

use datanode::core::report;
use namenode::sim::Said;
use protocol::datanode::{Command, CommitRecovery, Heartbeat, Register, Reply, Request, VERSION};
use protocol::level::Supported;
use protocol::{Epoch, ErrorKind};

use super::process::{For, Process};
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
        if self.session.beat_sent.is_some() || self.session.report_sent.is_some() {
            return;
        }
        let request = match self.session.epoch {
            None => Request::Register(Register {
                version: VERSION,
                levels: Supported::OWN,
                cluster: self.store.cluster(),
                info: self.session.info.clone(),
            }),
            Some(epoch) => {
                let usage = self.store.usage();
                Request::Heartbeat(Heartbeat {
                    datanode: self.session.info.id,
                    epoch,
                    capacity: usage.capacity,
                    used: usage.used,
                    remaining: usage.remaining,
                    failed_volumes: self.store.failed_volumes(),
                    ..Heartbeat::default()
                })
            }
        };
        self.session.beat_sent = Some(self.ask_master(request, out));
    }

    /// Sends what has changed, unless such a message is on its way or the full report is not over.
    pub(super) fn tell_changes(&mut self, out: &mut Outbox) {
        let Some(epoch) = self.session.epoch else { return };
        if self.session.changes_sent.is_some()
            || self.session.report_sent.is_some()
            || !self.session.report.is_empty()
        {
            return;
        }
        if let Some(changes) = self.store.changes().try_take(self.session.info.id, epoch) {
            let number = self.ask_master(Request::Changes(changes.clone()), out);
            self.session.changes_sent = Some((number, changes));
        }
    }

    /// A message was not answered in time.
    pub(super) fn on_silence(&mut self, number: u64, out: &mut Outbox) {
        if self.asked.get(&number) == Some(&For::Session) {
            let commit = self.session.commits.iter().find(|(sent, _)| *sent == number);
            let again = match (&self.session.changes_sent, &self.session.report_sent) {
                (Some((sent, changes)), _) if *sent == number => {
                    Some(Request::Changes(changes.clone()))
                }
                (_, Some((sent, part))) if *sent == number => Some(part.clone()),
                _ => commit.map(|(_, request)| request.clone()),
            };
            match again {
                // An answer to the message that was given up is none to this one.
                Some(request) => {
                    self.asked.remove(&number);
                    let fresh = self.ask_master(request, out);
                    self.session.renumber(number, fresh);
                }
                None => {
                    self.asked.remove(&number);
                    self.session.beat_sent.take_if(|sent| *sent == number);
                }
            }
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
        session.report_sent.take_if(|(sent, _)| *sent == number);
        session.commits.retain(|(sent, _)| *sent != number);
        let sent = session.changes_sent.take_if(|(sent, _)| *sent == number);
        match answer {
            Ok(Reply::Registered { cluster, epoch, .. }) => self.registered(cluster, epoch),
            Ok(Reply::Commands { epoch, commands }) if self.session.epoch == Some(epoch) => {
                commands.into_iter().for_each(|command| self.obey(command, out));
            }
            Err(refusal) if refusal.kind == ErrorKind::Fenced => {
                if let Some((_, changes)) = sent {
                    self.store.changes().give_back(changes);
                }
                self.end_session();
            }
            _ => {}
        }
        if self.session.report_sent.is_none()
            && let Some(part) = self.session.report.pop_front()
        {
            let number = self.ask_master(part.clone(), out);
            self.session.report_sent = Some((number, part));
        }
        self.tell_changes(out);
    }

    fn registered(&mut self, cluster: protocol::ClusterId, epoch: Epoch) {
        if epoch < self.session.highest_epoch {
            return;
        }
        if self.store.adopt_cluster(cluster).is_err() {
            return;
        }
        self.end_session();
        self.session.highest_epoch = epoch;
        self.session.epoch = Some(epoch);
        self.report_all(epoch);
    }

    fn report_all(&mut self, epoch: Epoch) {
        let parts = report::full_report(self.session.info.id, epoch, self.store.replicas());
        self.session.report.extend(parts.into_iter().map(Request::FullReport));
    }

    fn end_session(&mut self) {
        let session = &mut self.session;
        (session.epoch, session.report_sent) = (None, None);
        session.report.clear();
        session.commits.clear();
        if let Some((_, changes)) = session.changes_sent.take() {
            self.store.changes().give_back(changes);
        }
    }

    fn obey(&mut self, command: Command, out: &mut Outbox) {
        match command {
            Command::Delete(replicas) => {
                for (block, stamp) in replicas {
                    self.store.delete(block, stamp);
                }
            }
            Command::ReportAll => {
                if let Some(epoch) = self.session.epoch {
                    self.report_all(epoch);
                }
            }
            Command::Replicate { block, stamp, targets, token, .. } => {
                self.replicate(block, stamp, (targets, token), out);
            }
            Command::Recover { block, old_stamp, stamp, replicas, token, .. } => {
                self.lead(block, (old_stamp, stamp), (replicas, token), out);
            }
            Command::Cut { .. }
            | Command::Verify(_)
            | Command::SetBalancerBandwidth(_)
            | Command::ShutDown => {}
        }
    }

    /// A recovery that this DataNode led is over.
    pub(super) fn commit(&mut self, commit: CommitRecovery, out: &mut Outbox) {
        let request = Request::CommitRecovery(commit);
        let number = self.ask_master(request.clone(), out);
        self.session.commits.push((number, request));
    }
}
