//! [`OpenBlock`]: the block being written, its packets in transit through one pipeline, and who of the pipeline has what.

use std::time::Duration;

use protocol::namenode::{DatanodeInfo, LocatedBlock, WrittenBlock};
use protocol::token::Receipt;
use protocol::transfer::{Ack, Operation, Resume, Write};
use protocol::{ClientId, DatanodeId, GenerationStamp};

use crate::error::Verdict;
use crate::slow::Pace;
use crate::window::{Acked, Slot, Window};

/// The block being written.
#[derive(Debug)]
pub(super) struct OpenBlock<P> {
    pub(super) located: LocatedBlock,
    /// Stamp under which the acknowledged bytes were acknowledged.
    prior: GenerationStamp,
    resume: Option<Resume>,
    /// Members that still have to get the acknowledged bytes: none of them counts as a survivor.
    unfilled: Vec<DatanodeId>,
    /// True while there is a connection to the first member.
    pub(super) connected: bool,
    pub(super) window: Window<P>,
    /// Bytes handed to the window.
    pub(super) length: u64,
    /// How long this writer has waited for the pipeline to take and acknowledge packets while it had more to do.
    pub(super) waited: Duration,
    pace: Pace,
    /// The member that holds up the others, from the last rounds that named one; kept until it is replaced.
    slow: Option<usize>,
    /// True if a slow one was replaced: this block then keeps its members.
    slow_replaced: bool,
    /// What the members that sync gave for the whole block, once its last packet was acknowledged.
    receipts: Vec<Receipt>,
}

/// A member of the pipeline that failed.
#[derive(Debug)]
pub(super) struct Failure<F> {
    pub(super) member: usize,
    pub(super) fault: F,
}

impl<F> Failure<F> {
    /// Of the member that this writer is connected to.
    pub(super) fn of_first(fault: F) -> Self {
        Failure { member: 0, fault }
    }
}

impl<P: Slot> OpenBlock<P> {
    pub(super) fn new(located: LocatedBlock) -> Self {
        OpenBlock {
            prior: located.stamp,
            located,
            resume: None,
            unfilled: Vec::new(),
            connected: false,
            window: Window::new(),
            length: 0,
            waited: Duration::ZERO,
            pace: Pace::default(),
            slow: None,
            slow_replaced: false,
            receipts: Vec::new(),
        }
    }

    /// A block of which the members have a part under the stamp `prior`.
    pub(super) fn resumed(located: LocatedBlock, prior: GenerationStamp) -> Self {
        let length = located.length;
        OpenBlock {
            prior,
            resume: Some(Resume { prior, offset: length, after_break: false }),
            window: Window::resumed(length),
            length,
            ..OpenBlock::new(located)
        }
    }

    /// How many members, from the end, sync before they acknowledge the last packet.
    fn durable(&self) -> u16 {
        let members = u16::try_from(self.located.replicas.len()).unwrap_or(u16::MAX);
        self.located.durable_min.min(members)
    }

    /// True if failures have left fewer members than must have the block on disk.
    pub(super) fn is_short(&self) -> bool {
        self.located.replicas.len() < usize::from(self.located.durable_min)
    }

    /// True if the acknowledged bytes were acknowledged under the block's stamp: members adopt a new stamp with the first packet.
    pub(super) fn is_settled(&self) -> bool {
        self.prior == self.located.stamp
    }

    /// The members that have the acknowledged bytes, without the one that failed.
    pub(super) fn survivors(&self, failed: Option<DatanodeId>) -> Vec<DatanodeId> {
        let members = self.located.replicas.iter().map(|replica| replica.id);
        members.filter(|id| Some(*id) != failed && !self.unfilled.contains(id)).collect()
    }

    /// The place of the first member that has the acknowledged bytes.
    pub(super) fn survivor(&self) -> Option<usize> {
        let has_all = |replica: &DatanodeInfo| !self.unfilled.contains(&replica.id);
        self.located.replicas.iter().position(has_all)
    }

    /// The place of the next member, from `begin` on, that lacks the acknowledged bytes.
    pub(super) fn unfilled_from(&self, begin: usize) -> Option<usize> {
        let members = self.located.replicas.iter().enumerate().skip(begin);
        let mut lacking = members.filter(|(_, replica)| self.unfilled.contains(&replica.id));
        lacking.next().map(|(place, _)| place)
    }

    /// All members have the acknowledged bytes.
    pub(super) fn note_filled(&mut self) {
        self.unfilled.clear();
    }

    /// Starts a different block instead, of which nobody has any bytes.
    pub(super) fn begin_anew(&mut self, located: LocatedBlock) {
        (self.prior, self.resume) = (located.stamp, None);
        self.move_to(located, &[]);
        self.unfilled.clear();
    }

    /// Continues on other members from the acknowledged length; only `survivors` have the bytes before.
    pub(super) fn resume_on(&mut self, located: LocatedBlock, survivors: &[DatanodeId]) {
        self.move_to(located, survivors);
        let offset = self.window.acked_length();
        self.resume = Some(Resume { prior: self.prior, offset, after_break: true });
    }

    fn move_to(&mut self, located: LocatedBlock, survivors: &[DatanodeId]) {
        let members = located.replicas.iter().map(|replica| replica.id);
        self.unfilled = members.filter(|id| !survivors.contains(id)).collect();
        self.located = located;
        self.window.restart();
        (self.waited, self.pace, self.slow) = (Duration::ZERO, Pace::default(), None);
        self.receipts.clear();
    }

    /// The slow member to replace: one per block, and only while enough others sync their replicas.
    pub(super) fn take_slow(&mut self) -> Option<usize> {
        let members = self.located.replicas.len();
        let member = self.slow.take().filter(|member| *member < members)?;
        if self.slow_replaced || members <= usize::from(self.located.durable_min.max(1)) {
            return None;
        }
        self.slow_replaced = true;
        Some(member)
    }

    /// Takes an ack; returns who failed.
    pub(super) fn take_ack(&mut self, ack: &Ack) -> Result<(), Failure<Verdict>> {
        match self.window.on_ack(ack, self.located.replicas.len()) {
            Acked::Packet(packet) => {
                if packet.header().last {
                    let first = ack.receipts().len().saturating_sub(usize::from(self.durable()));
                    self.receipts = ack.receipts()[first..].to_vec();
                }
                self.prior = self.located.stamp;
                let waited_ms = u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX);
                // Acks come in bursts: one that names nobody does not clear the suspect.
                self.slow = self.pace.note(waited_ms, ack.waits_ms()).or(self.slow);
                Ok(())
            }
            Acked::Failed { member, status } => {
                Err(Failure { member, fault: Verdict::Refused(status) })
            }
            Acked::Nonsense => Err(Failure::of_first(Verdict::Unexpected)),
        }
    }

    /// What the first member shall do.
    pub(super) fn write_to_members(&self, client: ClientId) -> Write {
        Write {
            block: self.located.id,
            stamp: self.located.stamp,
            token: self.located.token.name,
            client,
            resume: self.resume,
            prefix_only: false,
            pipeline: self.located.replicas.get(1..).unwrap_or_default().to_vec(),
            durable: self.durable(),
            cached: true,
        }
    }

    /// What a survivor shall do for a new member.
    pub(super) fn fill_operation(&self, target: DatanodeInfo) -> Operation {
        Operation::Transfer {
            block: self.located.id,
            prior: self.prior,
            stamp: self.located.stamp,
            length: self.window.acked_length(),
            target,
            token: self.located.token.name,
        }
    }

    /// The block at the end of a pipeline's failure: what `members` have acknowledged.
    pub(super) fn broken_off(&self, members: &[DatanodeId]) -> WrittenBlock {
        WrittenBlock {
            id: self.located.id,
            stamp: self.located.stamp,
            length: self.window.acked_length(),
            replicas: members.to_vec(),
            receipts: Vec::new(),
        }
    }

    /// The block after its last packet was acknowledged.
    pub(super) fn written(&self) -> WrittenBlock {
        WrittenBlock {
            id: self.located.id,
            stamp: self.located.stamp,
            length: self.length,
            replicas: self.located.replicas.iter().map(|replica| replica.id).collect(),
            receipts: self.receipts.clone(),
        }
    }
}
