//! How a DataNode sends a replica, or part of one, to others: what it opens, what it sends of it as what, and when everyone has it.
//!
//! ```text
//! Order ──source──► open the replica ──begin──► Copying ──write──► connect ──► packets out, acks in ──► Done
//! ```
//!
//! Invariants: packets begin and end at chunk boundaries of the source, but for its end and that of what is wanted; a copy is done once the last packet is
//! acknowledged by all members, in order; a bounded number of packets waits for acks.

use std::ops::{Range, RangeInclusive};

use protocol::checksum::CHUNK_BYTES;
use protocol::datanode::CommitRecovery;
use protocol::namenode::DatanodeInfo;
use protocol::token::TokenName;
use protocol::transfer::{Ack, Operation, PacketHeader, Resume, Status, Write};
use protocol::{BlockId, ClientId, DatanodeId, GenerationStamp};

use super::replica::Replica;

/// Packets sent ahead of their acks.
const WINDOW: u32 = 4;

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// A finalized replica, as the NameNode orders.
    Whole {
        /// The block.
        block: BlockId,
        /// Its stamp.
        stamp: GenerationStamp,
    },
    /// The first bytes of a finalized replica, as another block, which the NameNode orders.
    Cut {
        /// Block to copy from.
        source: BlockId,
        /// Its stamp.
        source_stamp: GenerationStamp,
        /// The new block.
        block: BlockId,
        /// Its stamp.
        stamp: GenerationStamp,
        /// Its bytes.
        length: u64,
    },
    /// The first bytes of a replica, for a new member of a pipeline.
    Prefix {
        /// The block.
        block: BlockId,
        /// Stamp that the replica has at least.
        prior: GenerationStamp,
        /// Stamp of the copy.
        stamp: GenerationStamp,
        /// Its bytes.
        length: u64,
    },
    /// The bytes that a member of a recovery lacks.
    Rest {
        /// The block.
        block: BlockId,
        /// Stamp that the member's replica has at least.
        prior: GenerationStamp,
        /// Stamp of the recovery.
        stamp: GenerationStamp,
        /// Bytes that the member has.
        offset: u64,
    },
}

/// The replica that is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The one with this stamp.
    Stamped(BlockId, GenerationStamp),
    /// One with such a stamp, whose writer is stopped first.
    Stopped(BlockId, RangeInclusive<GenerationStamp>),
}

/// The replica is not one of which that can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unfit(pub &'static str);

impl Order {
    /// What another asks for: the order, and who gets the bytes. `None` if the operation is something else.
    pub fn of(operation: &Operation) -> Option<(Order, &DatanodeInfo)> {
        match *operation {
            Operation::Transfer { block, prior, stamp, length, ref target, .. } => {
                Some((Order::Prefix { block, prior, stamp, length }, target))
            }
            Operation::CompleteReplica { block, prior, stamp, offset, ref target, .. } => {
                Some((Order::Rest { block, prior, stamp, offset }, target))
            }
            _ => None,
        }
    }

    /// What to open.
    pub fn source(&self) -> Source {
        match *self {
            Order::Whole { block, stamp } | Order::Rest { block, stamp, .. } => {
                Source::Stamped(block, stamp)
            }
            Order::Cut { source, source_stamp, .. } => Source::Stamped(source, source_stamp),
            Order::Prefix { block, prior, stamp, .. } => Source::Stopped(block, prior..=stamp),
        }
    }

    /// The block that the targets get, and its stamp there.
    pub fn target(&self) -> (BlockId, GenerationStamp) {
        match *self {
            Order::Whole { block, stamp }
            | Order::Cut { block, stamp, .. }
            | Order::Prefix { block, stamp, .. }
            | Order::Rest { block, stamp, .. } => (block, stamp),
        }
    }

    /// What to send of the replica that was opened.
    fn range(&self, replica: &Replica) -> Result<Range<u64>, Unfit> {
        let (is_finalized, has) = (replica.is_finalized(), replica.length);
        match *self {
            Order::Whole { .. } if !is_finalized => {
                Err(Unfit("only finalized replicas are copied"))
            }
            Order::Whole { .. } => Ok(0..has),
            Order::Cut { length, .. } if !is_finalized || has < length => {
                Err(Unfit("only what a finalized replica has can be copied"))
            }
            Order::Prefix { length, .. } if has < length => {
                Err(Unfit("the replica is shorter than the prefix wanted"))
            }
            Order::Cut { length, .. } | Order::Prefix { length, .. } => Ok(0..length),
            Order::Rest { offset, .. } if !is_finalized || offset >= has => {
                Err(Unfit("only what a finalized replica has can be sent"))
            }
            // Packets begin at chunk boundaries.
            Order::Rest { offset, .. } => Ok(offset - offset % CHUNK_BYTES as u64..has),
        }
    }

    /// The operation for the first target; `behind` are the others. All of them sync what becomes a complete replica.
    pub fn write(&self, behind: &[DatanodeInfo], token: TokenName) -> Write {
        let (block, stamp) = self.target();
        let resume = match *self {
            Order::Rest { prior, offset, .. } => Some(Resume { prior, offset, after_break: true }),
            _ => None,
        };
        let prefix_only = matches!(self, Order::Prefix { .. });
        let member_count = u16::try_from(behind.len() + 1).unwrap_or(u16::MAX);
        Write {
            block,
            stamp,
            token,
            client: ClientId::default(),
            resume,
            prefix_only,
            pipeline: behind.to_vec(),
            durable: if prefix_only { 0 } else { member_count },
            cached: false,
        }
    }

    /// Begins to send, in packets of at most so many bytes, which is a multiple of a chunk.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn begin<F>(&self, replica: &Replica, packet_bytes: u64) -> Result<Copying<F>, Unfit> {
        Ok(Copying {
            rest: self.range(replica)?,
            source_bytes: replica.length,
            packet_bytes,
            sequence: 0,
            acked: 0,
            is_all_sent: false,
            failed: None,
        })
    }

    /// What the NameNode is told of a copy that every target has.
    pub fn done(&self, targets: impl Iterator<Item = DatanodeId>) -> Option<CommitRecovery> {
        let Order::Cut { block, stamp, length, .. } = *self else { return None };
        let (replicas, answered, without) = (targets.collect(), Vec::new(), Vec::new());
        Some(CommitRecovery { block, stamp, length, replicas, answered, without })
    }

    /// The copy of which the NameNode is told that it failed, because it has ordered it: of others their asker hears.
    pub fn failed(&self) -> Option<BlockId> {
        match *self {
            Order::Whole { block, .. } | Order::Cut { block, .. } => Some(block),
            Order::Prefix { .. } | Order::Rest { .. } => None,
        }
    }
}

/// A packet to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its header.
    pub header: PacketHeader,
    /// The same with all bytes of its last chunk that the replica has: these are read, and verified, because checksums cover whole chunks. If they are more
    /// than the packet's, its last chunk needs a checksum of its own.
    pub read: PacketHeader,
}

/// What the sender does next.
#[derive(Debug)]
pub enum Step<F> {
    /// Reads and verifies a packet, and sends it. -> [`Copying::sent`]
    Send(Piece),
    /// Waits for an ack. -> [`Copying::acked`]
    TakeAck,
    /// Everyone has everything, and nothing is in transit; or somebody has not.
    Done(Result<(), Failure<F>>),
}

/// Why a copy failed. `F` is the driver's error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure<F> {
    /// The source does not return its bytes, or the connection broke, or the operation was refused.
    Fault(F),
    /// A member refuses by an ack: its place in the pipeline, and why.
    Refused(usize, Status),
}

/// A copy under way: a driver performs its steps, one after the other.
#[derive(Debug)]
pub struct Copying<F> {
    /// Not sent.
    rest: Range<u64>,
    /// Bytes of the source.
    source_bytes: u64,
    packet_bytes: u64,
    /// Packets sent.
    sequence: u32,
    /// Packets acknowledged by all.
    acked: u32,
    is_all_sent: bool,
    failed: Option<Failing<F>>,
}

#[derive(Debug)]
enum Failing<F> {
    /// The connection took no more packets: acks that are on their way may say why.
    Breaking(F),
    Failed(Failure<F>),
}

impl<F> Copying<F> {
    /// The next step.
    pub fn next_step(&mut self) -> Step<F> {
        let in_flight = self.sequence - self.acked;
        match self.failed.take() {
            Some(Failing::Breaking(fault)) if in_flight > 0 => {
                self.failed = Some(Failing::Breaking(fault));
                Step::TakeAck
            }
            Some(Failing::Breaking(fault)) => Step::Done(Err(Failure::Fault(fault))),
            Some(Failing::Failed(failure)) => Step::Done(Err(failure)),
            None if in_flight >= WINDOW || (self.is_all_sent && in_flight > 0) => Step::TakeAck,
            None if self.is_all_sent => Step::Done(Ok(())),
            None => Step::Send(self.piece()),
        }
    }

    fn piece(&self) -> Piece {
        let Range { start: offset, end } = self.rest;
        let data_bytes = (end - offset).min(self.packet_bytes);
        let (sequence, last) = (self.sequence, offset + data_bytes == end);
        let header =
            PacketHeader { data_bytes: data_bytes as u32, sequence, offset, last, sync: false };
        let read_end = header.end().next_multiple_of(CHUNK_BYTES as u64).min(self.source_bytes);
        let read = PacketHeader { data_bytes: (read_end - offset) as u32, ..header };
        Piece { header, read }
    }

    /// Reports that the packet was sent, or that the connection broke.
    pub fn sent(&mut self, sent: Result<(), F>) {
        let header = self.piece().header;
        self.rest.start = header.end();
        self.is_all_sent = header.last;
        self.sequence += 1;
        self.failed = sent.err().map(Failing::Breaking);
    }

    /// Reports that the packet cannot be read, or is damaged.
    pub fn unread(&mut self, fault: F) {
        self.failed = Some(Failing::Failed(Failure::Fault(fault)));
    }

    /// Reports an ack, or that none comes any more.
    pub fn acked(&mut self, acked: Result<Ack, F>) {
        let failure = match acked {
            Ok(ack) if ack.sequence == self.acked && ack.failure().is_none() => {
                self.acked += 1;
                return;
            }
            Ok(ack) => {
                let (member, status) = ack.failure().unwrap_or((0, Status::Failed));
                Failure::Refused(member, status)
            }
            Err(fault) => Failure::Fault(fault),
        };
        self.failed = Some(Failing::Failed(failure));
    }
}

#[cfg(test)]
mod tests {
    use protocol::token::{AccessMode, Holder};

    use super::super::replica::State;
    use super::*;

    const BLOCK: BlockId = BlockId(1);
    const OLD: GenerationStamp = GenerationStamp(5);
    const NEW: GenerationStamp = GenerationStamp(6);
    const WHOLE: Order = Order::Whole { block: BLOCK, stamp: OLD };

    fn replica(length: u64, state: State) -> Replica {
        Replica { block: BLOCK, stamp: OLD, length, state }
    }

    fn cut(length: u64) -> Order {
        Order::Cut { source: BLOCK, source_stamp: OLD, block: BlockId(2), stamp: NEW, length }
    }

    fn prefix(length: u64) -> Order {
        Order::Prefix { block: BLOCK, prior: OLD, stamp: NEW, length }
    }

    fn rest(offset: u64) -> Order {
        Order::Rest { block: BLOCK, prior: OLD, stamp: NEW, offset }
    }

    /// Sends to one who acknowledges everything; returns the packets, as offset, bytes, bytes read, and where acks were waited for.
    fn pieces(mut copying: Copying<()>) -> String {
        let (mut steps, mut acked) = (Vec::new(), 0);
        loop {
            match copying.next_step() {
                Step::Send(Piece { header, read }) => {
                    let last = if header.last { "." } else { "" };
                    steps.push(format!(
                        "{}+{}/{}{last}",
                        header.offset, header.data_bytes, read.data_bytes
                    ));
                    assert_eq!((read.offset, read.last), (header.offset, header.last));
                    copying.sent(Ok(()));
                }
                Step::TakeAck => {
                    steps.push("ack".to_owned());
                    copying.acked(Ok(Ack::new(acked, Status::Success)));
                    acked += 1;
                }
                Step::Done(ended) => {
                    assert_eq!(ended, Ok(()));
                    return steps.join(" ");
                }
            }
        }
    }

    #[test]
    fn what_is_sent_of_a_replica() {
        let finalized = |length| replica(length, State::Finalized);
        let unfinished = |length| replica(length, State::Unfinished);
        for (order, replica, sent) in [
            (WHOLE, finalized(0), Some("0+0/0. ack")),
            (WHOLE, finalized(1024), Some("0+1024/1024. ack")),
            (WHOLE, finalized(1100), Some("0+1024/1024 1024+76/76. ack ack")),
            (WHOLE, unfinished(1024), None),
            (WHOLE, replica(1024, State::Finalizing), None),
            (cut(600), finalized(2000), Some("0+600/1024. ack")),
            (cut(600), finalized(700), Some("0+600/700. ack")),
            (cut(600), finalized(600), Some("0+600/600. ack")),
            (cut(600), finalized(599), None),
            (cut(600), unfinished(700), None),
            (prefix(0), unfinished(10), Some("0+0/0. ack")),
            (prefix(1030), unfinished(1500), Some("0+1024/1024 1024+6/476. ack ack")),
            (prefix(1030), finalized(1030), Some("0+1024/1024 1024+6/6. ack ack")),
            (prefix(1031), unfinished(1030), None),
            (rest(0), finalized(10), Some("0+10/10. ack")),
            (rest(600), finalized(2000), Some("512+1024/1024 1536+464/464. ack ack")),
            (rest(600), finalized(600), None),
            (rest(600), unfinished(700), None),
        ] {
            let copying = order.begin(&replica, 1024);
            assert_eq!(copying.ok().map(pieces).as_deref(), sent, "{order:?} of {replica:?}");
        }
    }

    #[test]
    fn few_packets_wait_for_acks() {
        let copying = WHOLE.begin(&replica(3000, State::Finalized), 512).expect("a fit replica");
        let sent = "0+512/512 512+512/512 1024+512/512 1536+512/512 ack 2048+512/512 ack \
                    2560+440/440. ack ack ack ack";
        assert_eq!(pieces(copying), sent);
    }

    #[test]
    fn who_gets_it_learns_what_becomes_of_it() {
        let behind = DatanodeInfo { id: DatanodeId([3; 16]), ..DatanodeInfo::default() };
        let write = |order: Order, behind: &[DatanodeInfo]| {
            let token = TokenName {
                mode: AccessMode::Maintain,
                period: 0,
                expires_ms: 0,
                holder: Holder::CLUSTER,
            };
            let Write { block, stamp, resume, prefix_only, durable, .. } =
                order.write(behind, token);
            (block, stamp, resume, prefix_only, durable)
        };
        let both = std::slice::from_ref(&behind);
        assert_eq!(write(WHOLE, both), (BLOCK, OLD, None, false, 2));
        assert_eq!(write(cut(7), both), (BlockId(2), NEW, None, false, 2));
        assert_eq!(write(prefix(7), &[]), (BLOCK, NEW, None, true, 0));
        let resume = Some(Resume { prior: OLD, offset: 7, after_break: true });
        assert_eq!(write(rest(7), &[]), (BLOCK, NEW, resume, false, 1));
        let told = |order: Order| {
            let done = order.done([behind.id].into_iter());
            (order.failed(), done.map(|it| (it.block, it.stamp, it.length, it.replicas)))
        };
        assert_eq!(told(WHOLE), (Some(BLOCK), None));
        let cut_done = Some((BlockId(2), NEW, 7, vec![behind.id]));
        assert_eq!(told(cut(7)), (Some(BlockId(2)), cut_done));
        assert_eq!((told(prefix(7)), told(rest(7))), ((None, None), (None, None)));
        assert_eq!(prefix(7).source(), Source::Stopped(BLOCK, OLD..=NEW));
        assert_eq!(rest(7).source(), Source::Stamped(BLOCK, NEW));
        assert_eq!(cut(7).source(), Source::Stamped(BLOCK, OLD));
    }

    fn sending(packet_count: u64) -> Copying<&'static str> {
        let replica = replica(packet_count * 512, State::Finalized);
        WHOLE.begin(&replica, 512).expect("a fit replica")
    }

    #[track_caller]
    fn ended(copying: &mut Copying<&'static str>) -> Result<(), Failure<&'static str>> {
        match copying.next_step() {
            Step::Done(ended) => ended,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn any_other_ack_than_the_next_good_one_ends_it() {
        for (ack, failure) in [
            (Ok(Ack::new(1, Status::Success)), Failure::Refused(0, Status::Failed)),
            (
                Ok(Ack::new(0, Status::Success).followed_by(&[Status::Full])),
                Failure::Refused(1, Status::Full),
            ),
            (Err("silent"), Failure::Fault("silent")),
        ] {
            let mut copying = sending(1);
            copying.sent(Ok(()));
            copying.acked(ack);
            assert_eq!(ended(&mut copying), Err(failure));
        }
    }

    #[test]
    fn a_source_that_is_not_read_ends_it_at_once() {
        let mut copying = sending(2);
        copying.sent(Ok(()));
        copying.unread("damaged");
        assert_eq!(ended(&mut copying), Err(Failure::Fault("damaged")));
    }

    #[test]
    fn a_connection_that_takes_no_packet_may_have_said_why() {
        let broken = || {
            let mut copying = sending(3);
            copying.sent(Ok(()));
            copying.sent(Err("broken"));
            assert!(matches!(copying.next_step(), Step::TakeAck));
            copying
        };
        let mut copying = broken();
        copying.acked(Ok(Ack::new(0, Status::Full)));
        assert_eq!(ended(&mut copying), Err(Failure::Refused(0, Status::Full)));
        let mut copying = broken();
        copying.acked(Ok(Ack::new(0, Status::Success)));
        assert!(matches!(copying.next_step(), Step::TakeAck));
        copying.acked(Ok(Ack::new(1, Status::Success)));
        assert_eq!(ended(&mut copying), Err(Failure::Fault("broken")), "not all was sent");
    }
}
