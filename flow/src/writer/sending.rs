//! Packets out, acks in; and more members for a pipeline that is too short.

use std::time::Duration;

use protocol::transfer::Ack;

use super::Writer;
use super::driver::Driver;
use super::open_block::Failure;
use super::phase::{Phase, Repair, Sending, Turn, Widening, WideningStage};
use super::repair::FAILED_ALL_PAUSE;
use crate::error::{Class, Verdict};

/// Packets sent ahead of their acks: the client's buffer is this many MiB. Each of three hops holds up to three: one arriving, one waiting for the disk, one
/// being written; others are in transit.
const PACKETS_IN_FLIGHT_MAX: usize = 12;
/// Attempts to find more members for a pipeline that is shorter than the number of durable replicas the NameNode asks for, [`FAILED_ALL_PAUSE`] apart:
/// DataNodes that restart are back within that time.
const WIDEN_TRIES: u32 = 20;

impl<D: Driver> Writer<D> {
    pub(super) fn sending_turn(&mut self) -> Option<Turn> {
        let (Some(block), Some(sending)) = (&mut self.block, &mut self.sending) else {
            self.sending = None;
            return None;
        };
        let in_flight = block.window.in_flight();
        if sending.broke.is_some() {
            if in_flight > 0 {
                return Some(Turn::TakeAck { waits: true });
            }
            let fault = sending.broke.take()?;
            return self.break_off(Failure::of_first(fault));
        }
        if in_flight > 0 && !sending.drained {
            return Some(Turn::TakeAck { waits: false });
        }
        if !sending.until_acked
            && let Some(member) = block.take_slow()
        {
            return self.break_off(Failure { member, fault: D::fault(Verdict::Slow) });
        }
        if in_flight < PACKETS_IN_FLIGHT_MAX && block.window.has_unsent() {
            return match (block.connected, block.located.replicas.is_empty()) {
                (true, _) => Some(Turn::Send),
                (false, false) => Some(Turn::Open),
                (false, true) => self.break_off(Failure::of_first(D::fault(Verdict::Unexpected))),
            };
        }
        let is_done = match sending.until_acked {
            true => block.window.is_empty(),
            false => in_flight < PACKETS_IN_FLIGHT_MAX,
        };
        if is_done {
            self.sending = None;
            return None;
        }
        Some(Turn::TakeAck { waits: true })
    }

    /// Reports whether there is a connection to the first member.
    pub fn opened(&mut self, opened: Result<(), D::Fault>) {
        match (opened, &mut self.block) {
            (Ok(()), Some(block)) => block.connected = true,
            (Ok(()), None) => {}
            (Err(fault), _) => drop(self.break_off(Failure::of_first(fault))),
        }
    }

    /// Reports that a packet was sent, and how long the first member kept this writer waiting.
    pub fn sent(&mut self, sent: Result<Duration, D::Fault>) {
        let (Some(block), Some(sending)) = (&mut self.block, &mut self.sending) else { return };
        match sent {
            Ok(waited) => {
                block.waited += waited;
                sending.drained = false;
            }
            Err(fault) => sending.broke = Some(fault),
        }
    }

    /// Reports an ack, and how long this writer waited for it; `None` if none has arrived.
    pub fn acked(&mut self, acked: Result<Option<(Ack, Duration)>, D::Fault>) {
        let (Some(block), Some(sending)) = (&mut self.block, &mut self.sending) else { return };
        let failure = match acked {
            Ok(None) => {
                sending.drained = true;
                return;
            }
            Ok(Some((ack, waited))) => {
                block.waited += waited;
                sending.drained = false;
                let length = block.window.acked_length();
                let taken = block.take_ack(&ack);
                if block.window.acked_length() > length {
                    self.failure_count = 0;
                }
                match taken {
                    Ok(()) => return,
                    Err(Failure { member, fault }) => Failure { member, fault: D::fault(fault) },
                }
            }
            Err(fault) => Failure::of_first(fault),
        };
        // What a broken pipeline reported before it broke comes first.
        let failure = match sending.broke.take() {
            Some(fault) if D::class(&failure.fault) != Class::Refused => Failure::of_first(fault),
            _ => failure,
        };
        drop(self.break_off(failure));
    }

    /// The pipeline is broken: it is repaired before anything else.
    fn break_off(&mut self, failure: Failure<D::Fault>) -> Option<Turn> {
        if let Some(sending) = &mut self.sending {
            (sending.drained, sending.broke) = (false, None);
        }
        self.repair = Some(Repair::Failed(failure));
        None
    }

    /// Starts to widen the pipeline; nothing happens if it is long enough.
    pub(super) fn widen(&mut self) {
        self.widening = Some(Widening { tries: WIDEN_TRIES, stage: WideningStage::Check });
    }

    pub(super) fn is_short(&self) -> bool {
        self.block.as_ref().is_some_and(super::open_block::OpenBlock::is_short)
    }

    pub(super) fn widening_turn(&mut self) -> Option<Turn> {
        let is_short = self.is_short();
        let widening = self.widening.as_mut()?;
        match widening.stage {
            WideningStage::Check if is_short && widening.tries > 0 => {
                widening.tries -= 1;
                widening.stage = WideningStage::Ask;
                self.sending = Some(Sending::until_acked());
                None
            }
            WideningStage::Check => {
                self.widening = None;
                if let Phase::Flushing(flush) = &mut self.phase {
                    flush.is_wide = !is_short;
                }
                None
            }
            WideningStage::Ask => {
                widening.stage = WideningStage::Pause;
                self.excluded.clear();
                self.begin_anew_or_recover();
                None
            }
            WideningStage::Pause => Some(Turn::Pause(FAILED_ALL_PAUSE)),
        }
    }

    pub(super) fn widening_paused(&mut self) {
        if let Some(widening) = &mut self.widening {
            widening.stage = WideningStage::Check;
        }
    }
}
