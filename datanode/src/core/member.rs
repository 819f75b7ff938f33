//! A member of a pipeline: which packets wait for whom, which are acknowledged to the front, and whom a failure is blamed on.
//!
//! ```text
//! packet -> sent on -> verified -> in flight to the disk -> written ---+
//!             |                                                        +-> ack to the front
//!             +----------> behind ------------> acknowledged behind ---+
//! ```
//!
//! Invariants: acks reach the front in the order of the packets; a packet is acknowledged once this member and all behind it have it; the ack that
//! reports a failure is the last one.

use std::collections::VecDeque;
use std::time::Duration;

use protocol::token::Receipt;
use protocol::transfer::{Ack, PacketHeader, Status};

/// When a replica is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// Before the ack of its last packet.
    Synced,
    /// Soon after that ack: others have it on disk already.
    SyncedBehind,
    /// Whenever the system writes it: the writer wanted no member to sync, as HDFS does by default.
    Unsynced,
}

/// What follows once a packet's data is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Nothing: more packets come, or the replica is finalized when all is acknowledged.
    Go,
    /// The prefix is complete: it stays as what a writer left.
    Leave,
    /// Everything so far is synced.
    Sync,
    /// The replica is complete: it is synced and finalized.
    Finalize,
    /// The replica is complete: it is finalized without a sync.
    FinalizeUnsynced,
}

/// What a silence means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Silence {
    /// The writer has nothing to wait for and sent nothing.
    Writer,
    /// The member behind does not acknowledge.
    Behind,
    /// The disk does not take a packet.
    Disk,
}

/// A packet that is not acknowledged to the front yet.
#[derive(Debug)]
struct Pending {
    sequence: u32,
    /// The end of its data.
    end: u64,
    /// The ack of the members behind.
    behind: Option<Ack>,
}

/// The members behind this one.
#[derive(Debug, Default)]
struct Behind {
    /// Packets that they have not acknowledged: the last ones of [`Member::pending`].
    pending_count: usize,
    /// How long this member has waited for the next one to take packets and to acknowledge them.
    waited: Duration,
}

/// One write, as one member of its pipeline sees it.
#[derive(Debug)]
pub struct Member {
    /// Oldest first.
    pending: VecDeque<Pending>,
    behind: Option<Behind>,
    end: End,
    prefix_only: bool,
    last_received: bool,
}

fn whole_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl Member {
    /// A member with `behind_count` others behind it, of whom the last `durable` sync what they have before they acknowledge its end. With `prefix_only` the
    /// replica stays unfinished.
    pub fn new(behind_count: usize, durable: u16, prefix_only: bool) -> Self {
        let end = match usize::from(durable) {
            0 => End::Unsynced,
            durable if behind_count < durable => End::Synced,
            _ => End::SyncedBehind,
        };
        Member {
            pending: VecDeque::new(),
            behind: (behind_count > 0).then(Behind::default),
            end,
            prefix_only,
            last_received: false,
        }
    }

    /// True if somebody waits for the sync at the end, so that it should be short.
    pub fn syncs_at_end(&self) -> bool {
        self.end == End::Synced
    }

    /// True once all packets have come and all are acknowledged.
    pub fn is_done(&self) -> bool {
        self.last_received && self.pending.is_empty()
    }

    /// True if more packets come.
    pub fn takes_packets(&self) -> bool {
        !self.last_received
    }

    /// True if no packet waits for anything.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Packets that the members behind have not acknowledged.
    pub fn pending_behind(&self) -> usize {
        self.behind.as_ref().map_or(0, |behind| behind.pending_count)
    }

    /// True if a packet that is written here waits for those behind; `in_flight` packets are not written yet.
    pub fn waits_for_behind(&self, in_flight: usize) -> bool {
        self.pending.len() > in_flight
    }

    /// Time has passed in which this member waited for the next one.
    pub fn note_wait(&mut self, waited: Duration) {
        if let Some(behind) = &mut self.behind {
            behind.waited += waited;
        }
    }

    /// Takes a packet, which is sent on and written; returns what follows the write.
    pub fn on_packet(&mut self, header: &PacketHeader) -> Then {
        let pending = Pending { sequence: header.sequence, end: header.end(), behind: None };
        self.pending.push_back(pending);
        if let Some(behind) = &mut self.behind {
            behind.pending_count += 1;
        }
        self.last_received = header.last;
        match self.end {
            _ if !header.last => {
                if header.sync {
                    Then::Sync
                } else {
                    Then::Go
                }
            }
            _ if self.prefix_only => Then::Leave,
            End::Synced => Then::Finalize,
            End::Unsynced => Then::FinalizeUnsynced,
            End::SyncedBehind => Then::Go,
        }
    }

    /// The next ack to the front, and the end of the bytes that this member and all behind it have; the last `in_flight` packets are not written yet. With the
    /// last ack of a replica that is on disk goes the `receipt` for its length.
    pub fn next_ack(
        &mut self,
        in_flight: usize,
        receipt: impl FnOnce(u64) -> Receipt,
    ) -> Option<(Ack, u64)> {
        let is_last = self.last_received && self.pending.len() == 1;
        let Pending { sequence, end, behind: acked } = self.pending.front()?;
        if self.pending.len() <= in_flight || (self.behind.is_some() && acked.is_none()) {
            return None;
        }
        let mut ack = Ack::new(*sequence, Status::Success);
        if let (Some(acked), Some(behind)) = (acked, &self.behind) {
            ack = ack.with_wait(whole_ms(behind.waited)).ahead_of(acked);
        }
        let end = *end;
        if is_last && self.end == End::Synced && !self.prefix_only {
            ack = ack.with_receipt(receipt(end));
        }
        self.pending.pop_front();
        Some((ack, end))
    }

    /// Takes an ack of the members behind.
    ///
    /// # Errors
    /// The last ack to the front, if one of them failed.
    #[allow(
        clippy::result_large_err,
        reason = "an ack is sent at once, whether it is the last or not"
    )]
    pub fn on_ack(&mut self, ack: Ack) -> Result<(), Ack> {
        let oldest = self.pending.len().saturating_sub(self.pending_behind());
        let (oldest, behind) = (self.pending.get_mut(oldest), &mut self.behind);
        match (oldest, behind) {
            (oldest, _) if ack.failure().is_some() => {
                let sequence = oldest.map_or(ack.sequence, |pending| pending.sequence);
                Err(Ack::new(sequence, Status::Success).followed_by(ack.statuses()))
            }
            (Some(pending), Some(behind)) if ack.sequence == pending.sequence => {
                pending.behind = Some(ack);
                behind.pending_count -= 1;
                Ok(())
            }
            _ => Err(self.behind_failed(&[Status::Failed])),
        }
    }

    /// The last ack to the front, if those behind failed before they acknowledged all: it blames them for the oldest packet that they lack.
    pub fn behind_failed(&self, statuses: &[Status]) -> Ack {
        let oldest = self.pending.get(self.pending.len().saturating_sub(self.pending_behind()));
        let sequence = oldest.map_or(0, |pending| pending.sequence);
        Ack::new(sequence, Status::Success).followed_by(statuses)
    }

    /// The last ack to the front, if the packet `sequence` did not reach those behind.
    pub fn not_sent_on(&self, sequence: u32, statuses: &[Status]) -> Ack {
        Ack::new(sequence, Status::Success).followed_by(statuses)
    }

    /// The last ack to the front, if this member failed at the packet `sequence`, or else at the oldest one.
    pub fn failed(&self, sequence: Option<u32>, status: Status) -> Ack {
        let oldest = || self.pending.front().map_or(0, |pending| pending.sequence);
        Ack::new(sequence.unwrap_or_else(oldest), status)
    }

    /// Who is to blame if nothing happens for too long.
    pub fn silence(&self, in_flight: usize) -> Silence {
        match () {
            () if self.is_idle() => Silence::Writer,
            () if self.waits_for_behind(in_flight) => Silence::Behind,
            () => Silence::Disk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(sequence: u32, last: bool) -> PacketHeader {
        let offset = u64::from(sequence) * 512;
        PacketHeader { sequence, offset, data_bytes: 512, last, ..PacketHeader::default() }
    }

    fn receipt(length: u64) -> Receipt {
        Receipt(length.to_le_bytes())
    }

    #[test]
    fn a_receipt_goes_with_the_last_ack_of_what_is_on_disk() {
        for (behind, durable, prefix_only, expected) in [
            (0, 1, false, receipt(1024)),
            (0, 1, true, Receipt::default()),
            (0, 0, false, Receipt::default()),
            (1, 2, false, receipt(1024)),
            (1, 1, false, Receipt::default()),
        ] {
            let mut member = Member::new(behind, durable, prefix_only);
            for (sequence, last) in [(0, false), (1, true)] {
                member.on_packet(&packet(sequence, last));
            }
            let theirs = receipt(7);
            if behind > 0 {
                member.on_ack(Ack::new(0, Status::Success)).unwrap();
                member.on_ack(Ack::new(1, Status::Success).with_receipt(theirs)).unwrap();
            }
            let (first, _) = member.next_ack(0, receipt).unwrap();
            assert!(first.receipts().iter().all(|receipt| *receipt == Receipt::default()));
            let (last, _) = member.next_ack(0, receipt).unwrap();
            assert_eq!(last.receipts()[0], expected, "{behind} {durable} {prefix_only}");
            assert_eq!(last.receipts().get(1), (behind > 0).then_some(&theirs));
            assert_eq!(Ack::decode(last.encode()), Ok(last));
        }
    }

    #[test]
    fn a_packet_is_acknowledged_once_it_is_written_here_and_behind() {
        let mut member = Member::new(1, 2, false);
        assert_eq!(member.on_packet(&packet(0, false)), Then::Go);
        assert_eq!(member.on_packet(&packet(1, true)), Then::Finalize);
        assert_eq!(member.next_ack(2, receipt), None, "nothing is written");
        assert_eq!(member.next_ack(0, receipt), None, "nothing is acknowledged behind");
        assert_eq!(member.silence(2), Silence::Disk);
        assert_eq!(member.silence(1), Silence::Behind);
        member.on_ack(Ack::new(0, Status::Success)).unwrap();
        let (ack, end) = member.next_ack(1, receipt).unwrap();
        assert_eq!((ack.sequence, ack.statuses().len(), end), (0, 2, 512));
        member.on_ack(Ack::new(1, Status::Success)).unwrap();
        assert_eq!(member.next_ack(1, receipt), None, "it is in flight to the disk");
        assert!(!member.is_done() && !member.takes_packets());
        assert_eq!(member.next_ack(0, receipt).unwrap().1, 1024);
        assert!(member.is_done());
        assert_eq!(member.silence(0), Silence::Writer);
    }

    #[test]
    fn the_last_members_sync_before_they_acknowledge_the_end() {
        for (behind, durable, then) in [
            (2, 2, Then::Go),
            (1, 2, Then::Finalize),
            (0, 2, Then::Finalize),
            (0, 1, Then::Finalize),
            (1, 1, Then::Go),
            (2, 0, Then::FinalizeUnsynced),
            (2, 3, Then::Finalize),
        ] {
            let mut member = Member::new(behind, durable, false);
            assert_eq!(member.on_packet(&packet(0, true)), then, "{behind} {durable}");
        }
        let mut prefix = Member::new(0, 2, true);
        assert_eq!(prefix.on_packet(&packet(0, true)), Then::Leave);
        let sync = PacketHeader { sync: true, ..packet(0, false) };
        assert_eq!(Member::new(0, 2, false).on_packet(&sync), Then::Sync);
    }

    #[test]
    fn a_failure_is_blamed_on_who_has_failed() {
        let mut member = Member::new(2, 2, false);
        for sequence in 0..3 {
            member.on_packet(&packet(sequence, false));
        }
        let acked = Ack::new(0, Status::Success).followed_by(&[Status::Success]);
        member.on_ack(acked).unwrap();
        let failed = Ack::new(1, Status::Success).followed_by(&[Status::Full]);
        let told = member.on_ack(failed).unwrap_err();
        assert_eq!((told.sequence, told.failure()), (1, Some((2, Status::Full))));
        let skipped = member.on_ack(Ack::new(2, Status::Success)).unwrap_err();
        assert_eq!((skipped.sequence, skipped.failure()), (1, Some((1, Status::Failed))));
        let own = member.failed(None, Status::Checksum);
        assert_eq!((own.sequence, own.failure()), (0, Some((0, Status::Checksum))));
        let surplus = Member::new(0, 2, false).on_ack(Ack::new(7, Status::Success));
        assert!(surplus.is_err(), "nobody is behind");
    }
}
