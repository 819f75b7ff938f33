//! Recoveries that a DataNode leads, as the daemon's [`Lead`] decides.

use datanode::core::recovery::{Found, Lead, Recovered, Step};
use protocol::datanode::{CommitRecovery, Sender};
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{Operation, Reply};
use protocol::{BlockId, ErrorKind, GenerationStamp};

use super::process::{For, IO_TIMEOUT, Leading, Process, place_of};
use crate::net::{Message, Outbox, Timer};

impl Process {
    pub(super) fn lead(
        &mut self,
        block: BlockId,
        stamps: (GenerationStamp, GenerationStamp),
        (replicas, token): (Vec<DatanodeInfo>, BlockToken),
        out: &mut Outbox,
    ) {
        let Some(Sender { epoch, .. }) = self.session.core.sender() else { return };
        self.next += 1;
        let ids = replicas.iter().map(|datanode| datanode.id).collect();
        let lead = Lead::new(stamps.0, ids);
        let number = self.next;
        self.leads.push(Leading { number, epoch, block, stamps, replicas, token, lead });
        self.lead_on(number, out);
    }

    /// Takes the next step; what is on this very DataNode is done at once.
    fn lead_on(&mut self, number: u64, out: &mut Outbox) {
        loop {
            let Some(leading) = self.leads.iter_mut().find(|it| it.number == number) else {
                return;
            };
            let (old_stamp, stamp) = leading.stamps;
            let (block, token) = (leading.block, leading.token.name);
            let (to, operation) = match leading.lead.step() {
                Step::Ask(id) => (id, Operation::ReplicaState { block, stamp, token }),
                Step::Update { member, length } => {
                    (member, Operation::UpdateReplica { block, stamp, length, token })
                }
                Step::Complete { source, target, offset } => {
                    let Some(target) = leading.info(target).cloned() else { return };
                    let prior = old_stamp;
                    (
                        source,
                        Operation::CompleteReplica { block, prior, stamp, offset, target, token },
                    )
                }
                Step::Done(Recovered { length, members: replicas, answered, without }) => {
                    let epoch = leading.epoch;
                    let commit =
                        CommitRecovery { block, stamp, length, replicas, answered, without };
                    self.leads.retain(|leading| leading.number != number);
                    self.commit(commit, epoch, out);
                    return;
                }
                Step::Failed => {
                    self.leads.retain(|leading| leading.number != number);
                    self.store.note_failed_copy(block);
                    return self.report(out);
                }
            };
            let place = leading.info(to).and_then(place_of);
            if place != Some(self.place) || matches!(operation, Operation::CompleteReplica { .. }) {
                let asked = self.next_number(For::Lead(number));
                let message = Message::Ask {
                    from: self.place,
                    number: asked,
                    operation: Box::new(operation),
                };
                out.send(place.unwrap_or(self.place), message);
                out.set(IO_TIMEOUT * 2, Timer::Resend(asked));
                return;
            }
            let answer = self.own_answer(&operation);
            self.lead_told(number, answer);
        }
    }

    fn own_answer(&mut self, operation: &Operation) -> Result<Reply, ErrorKind> {
        let refused = |_| ErrorKind::Storage;
        match operation {
            Operation::ReplicaState { block, stamp, .. } => {
                self.stop_writer(*block);
                self.store.begin_recovery(*block, *stamp).map(Reply::from).map_err(refused)
            }
            Operation::UpdateReplica { block, stamp, length, .. } => {
                let updated = self.store.update(*block, *stamp, *length);
                updated.map(|()| Reply::Done).map_err(refused)
            }
            _ => Err(ErrorKind::InvalidArgument),
        }
    }

    fn lead_told(&mut self, number: u64, answer: Result<Reply, ErrorKind>) {
        let Some(leading) = self.leads.iter_mut().find(|it| it.number == number) else { return };
        match leading.lead.step() {
            Step::Ask(_) => {
                let found = answer.ok().as_ref().and_then(Found::said);
                leading.lead.on_state(found.unwrap_or(Found::Unknown));
            }
            _ => leading.lead.on_outcome(matches!(answer, Ok(Reply::Done))),
        }
    }

    pub(super) fn on_lead_told(
        &mut self,
        number: u64,
        answer: Result<Reply, ErrorKind>,
        out: &mut Outbox,
    ) {
        self.lead_told(number, answer);
        self.lead_on(number, out);
    }
}
