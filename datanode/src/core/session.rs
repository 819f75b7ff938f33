//! The session with the NameNode: which registration holds, and which report comes next.
//!
//! ```text
//! unregistered -> registered: parts of the full report, then changes -> ended: unregistered
//! ```
//!
//! Invariants: the highest epoch wins. Reports of a registration are numbered without gaps; one is under way at a time, and it stays the same until it is
//! answered. Changes that were under way when a registration ended are pending again.

use std::collections::VecDeque;
use std::sync::Arc;

use protocol::datanode::{CommitRecovery, FullReport, Register, Report, Request, Sender, VERSION};
use protocol::level::Supported;
use protocol::namenode::DatanodeInfo;
use protocol::{ClusterId, Epoch};

use super::replica::Replica;
use super::report::{PendingChanges, full_report};

/// See the module.
#[derive(Debug)]
pub struct Session {
    info: DatanodeInfo,
    process: u64,
    highest: Epoch,
    sender: Option<Sender>,
    /// Number of the next report.
    number: u64,
    /// Parts of a full report that come before any changes.
    parts: VecDeque<FullReport>,
    /// What is sent until it is answered.
    under_way: Option<Arc<Request>>,
}

/// The NameNode that answered is older than one that was served before.
#[derive(Debug)]
pub struct OlderNameNode;

/// What to do with the end of a recovery.
#[derive(Debug)]
pub enum Commit {
    /// Send it. The answer [`protocol::ErrorKind::Fenced`] means: ask again what to do.
    Send(Box<Request>),
    /// The DataNode has to register first.
    Wait,
    /// Another start of the NameNode knows nothing of it.
    Over,
}

impl Session {
    /// Of a DataNode that has not registered yet; `process` is a number that no other start has.
    pub fn new(info: DatanodeInfo, process: u64) -> Self {
        Session {
            info,
            process,
            highest: Epoch::default(),
            sender: None,
            number: 0,
            parts: VecDeque::new(),
            under_way: None,
        }
    }

    /// The request to register, for data of this `cluster`; `None` if there is no data yet.
    pub fn register(&self, cluster: Option<ClusterId>) -> Request {
        Request::Register(Register {
            version: VERSION,
            levels: Supported::OWN,
            cluster,
            info: self.info.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            process: self.process,
        })
    }

    /// The NameNode has taken the DataNode in, and is to learn of all `replicas`.
    ///
    /// # Errors
    /// [`OlderNameNode`]: nothing has changed, and nothing that it says counts.
    pub fn registered(
        &mut self,
        (epoch, registration): (Epoch, u64),
        replicas: Vec<Replica>,
    ) -> Result<(), OlderNameNode> {
        if epoch < self.highest {
            return Err(OlderNameNode);
        }
        debug_assert!(self.under_way.is_none(), "the registration before is ended first");
        self.highest = epoch;
        self.sender = Some(Sender { datanode: self.info.id, epoch, registration });
        self.number = 0;
        self.report_all(replicas);
        Ok(())
    }

    /// Under which registration messages are sent; `None` before the first and after [`Session::end`].
    pub fn sender(&self) -> Option<Sender> {
        self.sender
    }

    /// What becomes of a recovery that is finished, and that the NameNode of this `epoch` ordered. It outlives a registration.
    pub fn commit(&self, epoch: Epoch, commit: &CommitRecovery) -> Commit {
        match self.sender {
            Some(sender) if sender.epoch == epoch => {
                Commit::Send(Box::new(Request::CommitRecovery(sender, commit.clone())))
            }
            None if self.highest == epoch => Commit::Wait,
            _ => Commit::Over,
        }
    }

    /// All replicas are to be reported, as they are now.
    pub fn report_all(&mut self, replicas: Vec<Replica>) {
        self.parts = full_report(replicas).into();
    }

    /// True until all parts of a full report are answered.
    pub fn is_reporting_all(&self) -> bool {
        let under_way = self.under_way.as_deref();
        let is_part = matches!(under_way, Some(Request::Report { report: Report::Full(_), .. }));
        is_part || !self.parts.is_empty()
    }

    /// The report to send now: the one under way, or the next.
    pub fn report(&mut self, pending: &mut PendingChanges) -> Option<Arc<Request>> {
        let sender = self.sender?;
        if self.under_way.is_none() {
            let report = match self.parts.pop_front() {
                Some(part) => Report::Full(part),
                None => Report::Changes(pending.take()?),
            };
            self.under_way =
                Some(Arc::new(Request::Report { sender, number: self.number, report }));
            self.number += 1;
        }
        self.under_way.clone()
    }

    /// The report under way has arrived.
    pub fn report_arrived(&mut self) {
        self.under_way = None;
    }

    /// The registration no longer holds.
    pub fn end(&mut self, pending: &mut PendingChanges) {
        self.sender = None;
        self.parts.clear();
        if let Some(Request::Report { report: Report::Changes(changes), .. }) =
            self.under_way.take().map(Arc::unwrap_or_clone)
        {
            pending.give_back(changes);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use protocol::{BlockId, GenerationStamp};

    use super::*;
    use crate::core::replica::State;

    pub(crate) fn session() -> Session {
        let info = DatanodeInfo {
            id: protocol::DatanodeId([1; 16]),
            host: "a".to_owned(),
            transfer_address: String::new(),
            http_address: String::new(),
            rack: String::new(),
            boot_id: String::new(),
            local_socket: String::new(),
        };
        Session::new(info, 1)
    }

    fn replica(block: u64) -> Replica {
        let (stamp, state) = (GenerationStamp(1), State::Finalized);
        Replica { block: BlockId(block), stamp, length: 7, state }
    }

    /// The number of the next report, whether it is a part of a full one, and the replicas that it has.
    fn next(session: &mut Session, pending: &mut PendingChanges) -> Option<(u64, bool, usize)> {
        match &*session.report(pending)? {
            Request::Report { number, report: Report::Full(part), .. } => {
                Some((*number, true, part.finalized.len()))
            }
            Request::Report { number, report: Report::Changes(changes), .. } => {
                Some((*number, false, changes.count()))
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn reports_are_numbered_repeated_and_never_lost() {
        let (mut session, mut pending) = (session(), PendingChanges::default());
        pending.bad(&replica(1));
        assert_eq!(next(&mut session, &mut pending), None, "it has not registered");
        session.registered((Epoch(3), 0), vec![replica(1), replica(2)]).unwrap();
        assert!(session.is_reporting_all());
        for _ in 0..2 {
            assert_eq!(next(&mut session, &mut pending), Some((0, true, 2)));
        }
        session.report_arrived();
        assert!(!session.is_reporting_all());
        for _ in 0..2 {
            assert_eq!(next(&mut session, &mut pending), Some((1, false, 1)));
        }
        pending.bad(&replica(2));

        // The registration ends while changes are under way: they come after the next full report, with those made since.
        session.end(&mut pending);
        assert_eq!(next(&mut session, &mut pending), None);
        session.registered((Epoch(3), 1), vec![replica(1)]).unwrap();
        assert_eq!(next(&mut session, &mut pending), Some((0, true, 1)));
        session.report_all(vec![replica(1), replica(2)]);
        assert_eq!(next(&mut session, &mut pending), Some((0, true, 1)), "it is under way");
        session.report_arrived();
        assert_eq!(next(&mut session, &mut pending), Some((1, true, 2)));
        session.report_arrived();
        assert_eq!(next(&mut session, &mut pending), Some((2, false, 2)));
        session.report_arrived();
        assert_eq!(next(&mut session, &mut pending), None);
    }

    #[test]
    fn the_highest_epoch_wins_and_a_recovery_is_ended_where_it_was_ordered() {
        let (mut session, mut pending) = (session(), PendingChanges::default());
        let block = BlockId(1);
        let (stamp, replicas, answered) = (GenerationStamp(2), Vec::new(), Vec::new());
        let without = Vec::new();
        let commit = CommitRecovery { block, stamp, length: 7, replicas, answered, without };
        let is_sent = |session: &Session, registration| match session.commit(Epoch(3), &commit) {
            Commit::Send(request) => {
                matches!(*request, Request::CommitRecovery(sender, _) if sender.registration == registration)
            }
            _ => false,
        };
        session.registered((Epoch(3), 0), Vec::new()).unwrap();
        assert!(session.registered((Epoch(2), 9), Vec::new()).is_err());
        assert!(is_sent(&session, 0));
        session.end(&mut pending);
        assert!(matches!(session.commit(Epoch(3), &commit), Commit::Wait));
        session.registered((Epoch(3), 1), Vec::new()).unwrap();
        assert!(is_sent(&session, 1));
        session.end(&mut pending);
        session.registered((Epoch(4), 0), Vec::new()).unwrap();
        assert!(matches!(session.commit(Epoch(3), &commit), Commit::Over));
    }
}
