//! The goals of a writer, but for giving up: blocks, flushes, the end of the file.

use std::time::{Duration, Instant};

use protocol::ErrorKind;
use protocol::checksum::CHUNK_BYTES;
use protocol::namenode::{Call, Reply};

use super::driver::{Buffer, Driver};
use super::open_block::OpenBlock;
use super::phase::{BlockEnd, Flush, FlushStage, Phase, Sending, Turn};
use super::step::Patience;
use super::{Parting, Writer, begin_packet};
use crate::error::WriteError;
use crate::window::Slot;

/// How long closing a file can wait for copies of its last block: longer than it takes until a lost DataNode counts as dead.
const COPY_WAIT: Duration = Duration::from_secs(150);
/// Pause between two checks whether the copies exist; jittered.
const COPY_PAUSE: Duration = Duration::from_millis(500);

/// Rounds in which a sync asks members that took the place of others to sync, too. Members that fail in each of so many rounds fail for a reason that one
/// more does not mend; the NameNode decides at the end of the block whether enough disks have it.
const SYNC_ROUNDS_MAX: u32 = 8;

impl<D: Driver> Writer<D> {
    pub(super) fn goal_turn(&mut self, now: Instant) -> Option<Turn> {
        match &mut self.phase {
            Phase::Idle | Phase::Sending => {
                self.succeed();
                None
            }
            Phase::Adding => {
                let (file, previous) = (self.file.inode, self.previous.clone());
                let exclude = self.exclude(now);
                Some(Turn::Call(Call::AddBlock { file, previous, exclude }, Patience::Usual))
            }
            Phase::EndingBlock { stage, closes } => {
                let (stage, closes) = (*stage, *closes);
                self.end_block_turn(stage, closes)
            }
            Phase::Flushing(flush) => {
                let flush = *flush;
                self.flush_turn(flush)
            }
            Phase::Completing { pauses: true, .. } => Some(Turn::Pause(COPY_PAUSE)),
            Phase::Completing { deadline, .. } => {
                deadline.get_or_insert(now + COPY_WAIT);
                let (file, last) = (self.file.inode, self.previous.clone());
                let publish = self.file.publish.clone();
                Some(Turn::Call(Call::Complete { file, last, publish }, Patience::Usual))
            }
            Phase::GivingUp { unused } => {
                let unused = *unused;
                Some(self.giving_up_turn(unused))
            }
        }
    }

    pub(super) fn goal_answered(&mut self, answer: Result<Reply, D::CallError>, now: Instant) {
        match (&mut self.phase, answer) {
            (Phase::GivingUp { .. }, answer) => self.giving_up_answered(answer),
            (Phase::Adding, Ok(Reply::Block(located))) => {
                self.block = Some(OpenBlock::new(located));
                self.synced = 0;
                self.succeed();
            }
            (Phase::EndingBlock { closes, .. }, Ok(Reply::Done)) => {
                let closes = *closes;
                self.block_ended(closes);
            }
            (Phase::Flushing(_), Ok(Reply::Done)) => {
                self.confirmed = self.to_confirm();
                self.flushed();
            }
            (Phase::Completing { .. }, Ok(Reply::Done)) => {
                self.open = false;
                self.succeed();
            }
            (Phase::Completing { deadline, pauses }, Err(error))
                if D::kind(&error) == Some(ErrorKind::NotReplicatedYet)
                    && deadline.is_some_and(|deadline| now < deadline) =>
            {
                *pauses = true;
            }
            (Phase::Adding | Phase::Completing { .. }, Err(error)) => {
                let error = self.explain(error);
                self.fail(error);
            }
            (_, Err(error)) => self.fail(WriteError::Call(error)),
            (_, Ok(_)) => self.fail(WriteError::Unexpected),
        }
    }

    fn end_block_turn(&mut self, stage: BlockEnd, closes: bool) -> Option<Turn> {
        match stage {
            BlockEnd::Begin => self.begin_block_end(closes),
            BlockEnd::Abandon(block) => {
                let abandon = Call::AbandonBlock { file: self.file.inode, block };
                return Some(Turn::Call(abandon, Patience::Usual));
            }
            BlockEnd::Push => {
                self.fill_in_packet();
                self.push_packet(true, false);
                self.sending = Some(Sending::until_acked());
                self.phase = Phase::EndingBlock { stage: BlockEnd::Acknowledged, closes };
            }
            BlockEnd::Acknowledged => {
                if let Some(block) = self.block.take() {
                    self.previous = Some(block.written());
                    let first = block.located.replicas.into_iter().next();
                    self.parting = first.filter(|_| block.connected).map(Parting::GiveBack);
                }
                self.block_ended(closes);
            }
        }
        None
    }

    fn begin_block_end(&mut self, closes: bool) {
        let Some(block) = &self.block else { return self.block_ended(closes) };
        let has_data = self.packet.as_ref().is_some_and(|packet| packet.header().data_bytes > 0);
        if block.length > 0 || has_data {
            self.widen();
            self.phase = Phase::EndingBlock { stage: BlockEnd::Push, closes };
            return;
        }
        // Nothing was written. If it is the only block, the NameNode drops it when the file is completed.
        let id = block.located.id;
        self.hang_up();
        self.block = None;
        if self.previous.is_none() {
            return self.block_ended(closes);
        }
        self.phase = Phase::EndingBlock { stage: BlockEnd::Abandon(id), closes };
    }

    fn block_ended(&mut self, closes: bool) {
        if closes {
            self.phase = Phase::Completing { deadline: None, pauses: false };
        } else {
            self.succeed();
        }
    }

    fn flush_turn(&mut self, flush: Flush) -> Option<Turn> {
        let at = |stage| Phase::Flushing(Flush { stage, ..flush });
        match flush.stage {
            FlushStage::Begin => {
                if flush.sync {
                    self.widen();
                }
                let (rounds, stage) = (flush.rounds + 1, FlushStage::Push);
                self.phase = Phase::Flushing(Flush { rounds, stage, ..flush });
            }
            FlushStage::Push => {
                self.push_all(flush.sync);
                self.phase = at(FlushStage::Sent);
            }
            // Some may have failed meanwhile: those that take their places must sync, too.
            FlushStage::Sent
                if flush.is_wide && self.is_short() && flush.rounds < SYNC_ROUNDS_MAX =>
            {
                self.phase = at(FlushStage::Begin);
            }
            FlushStage::Sent => {
                if flush.sync {
                    self.synced = self.block.as_ref().map_or(0, |it| it.window.acked_length());
                }
                self.phase = at(FlushStage::Confirm);
            }
            FlushStage::Confirm => match self.to_confirm() {
                Some((block, stamp, _))
                    if self.confirmed != self.to_confirm() || flush.update_length =>
                {
                    let length = self.synced_length();
                    let file = self.file.inode;
                    let sync = Call::SyncBlock { file, block, stamp, length };
                    return Some(Turn::Call(sync, Patience::Usual));
                }
                _ => self.flushed(),
            },
        }
        None
    }

    fn flushed(&mut self) {
        self.promised = true;
        self.succeed();
    }

    /// Bytes of the last block that are on disk.
    fn synced_length(&self) -> u64 {
        match (&self.block, &self.previous) {
            (None, Some(previous)) => previous.length,
            _ => self.synced,
        }
    }

    /// What a flush confirms to the NameNode: that every member has the acknowledged bytes, and how many of them are on disk. It does so the first time under
    /// each stamp, since replicas with older stamps lack something from then on; the first time that something is on disk; and whenever the length must become
    /// visible. Bytes that are only in the memory of DataNodes can be lost with their power, so their length is never reported.
    fn to_confirm(&self) -> Option<(protocol::BlockId, protocol::GenerationStamp, bool)> {
        let (id, stamp, acked) = match (&self.block, &self.previous) {
            // Nothing was sent under the new stamp: replicas with the old one still count.
            (Some(block), _) if !block.is_settled() => return None,
            (Some(OpenBlock { located, window, .. }), _) => {
                (located.id, located.stamp, window.acked_length())
            }
            (None, Some(previous)) => (previous.id, previous.stamp, previous.length),
            (None, None) => return None,
        };
        (acked > 0).then_some((id, stamp, self.synced_length() > 0))
    }

    /// Makes sure that there is a packet.
    fn fill_in_packet(&mut self) {
        let begin = self.block.as_ref().map_or(0, |block| block.length);
        self.packet.get_or_insert_with(|| begin_packet(&self.driver, begin));
    }

    /// Hands everything written so far to the window; it is acknowledged when the sending ends.
    fn push_all(&mut self, sync: bool) {
        let Some(block) = &self.block else { return };
        if self.packet.is_none() && sync {
            if block.length == 0 {
                return;
            }
            self.fill_in_packet();
        }
        self.sending = Some(Sending::until_acked());
        let Some(packet) = &self.packet else { return };
        // The last partial chunk is sent again with the data that follows, because packets begin at chunk boundaries.
        let (offset, data) = (packet.header().offset, packet.data());
        let whole = data.len() / CHUNK_BYTES * CHUNK_BYTES;
        let rest = (whole < data.len()).then(|| {
            let mut rest = begin_packet(&self.driver, offset + whole as u64);
            rest.append(&data[whole..]);
            rest
        });
        self.push_packet(false, sync);
        self.packet = rest;
    }
}
