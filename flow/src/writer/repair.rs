//! What a writer does when members of its pipeline fail: it writes another block, or gets a new stamp for the survivors and a replacement.

use std::time::{Duration, Instant};

use protocol::namenode::{Call, LocatedBlock, Reply};
use protocol::{DatanodeId, ErrorKind};

use super::Writer;
use super::driver::Driver;
use super::open_block::Failure;
use super::phase::{Repair, Turn};
use super::step::{Filled, Patience};
use crate::error::{Class, Verdict, WriteError};

/// Consecutive failures of a pipeline without any progress after which the writer gives up the file.
const FAILURES_MAX: u32 = 8;
/// Pause before a block is tried again on DataNodes all of which have failed; jittered.
pub(super) const FAILED_ALL_PAUSE: Duration = Duration::from_millis(500);

impl<D: Driver> Writer<D> {
    pub(super) fn repair_turn(&mut self, now: Instant) -> Option<Turn> {
        let (Some(block), Some(repair)) = (&self.block, &self.repair) else {
            self.repair = None;
            return None;
        };
        match repair {
            Repair::Failed(_) => {
                self.hang_up();
                if let Some(Repair::Failed(failure)) = self.repair.take() {
                    self.repair = Some(Repair::Reported(failure));
                }
                Some(Turn::Report)
            }
            Repair::Reported(_) => {
                if let Some(Repair::Reported(failure)) = self.repair.take() {
                    self.judge(failure, now);
                }
                None
            }
            Repair::Abandoning { .. } => {
                let abandon = Call::AbandonBlock { file: self.file.inode, block: block.located.id };
                Some(Turn::Call(abandon, Patience::Usual))
            }
            Repair::Adding { is_last, .. } => {
                let exclude = if *is_last { Vec::new() } else { self.exclude(now) };
                let (file, previous) = (self.file.inode, self.previous.clone());
                Some(Turn::Call(Call::AddBlock { file, previous, exclude }, Patience::Usual))
            }
            Repair::Pausing { .. } => Some(Turn::Pause(FAILED_ALL_PAUSE)),
            Repair::Recovering { failed, is_slow } => {
                let (failed, is_slow) = (*failed, *is_slow);
                let survivors = block.survivors(failed);
                let block = block.broken_off(&survivors);
                // A member that failed before is no replacement either.
                let all = self.exclude(now).into_iter().chain(failed);
                let recover = Call::RecoverPipeline {
                    file: self.file.inode,
                    block,
                    failed: all.filter(|id| !survivors.contains(id)).collect(),
                    slow: failed.filter(|_| is_slow),
                };
                Some(Turn::Call(recover, Patience::Usual))
            }
            Repair::Filling { begin } => match (block.survivor(), block.unfilled_from(*begin)) {
                (None, _) => {
                    let fault = D::fault(Verdict::Unexpected);
                    self.repair = Some(Repair::Failed(Failure::of_first(fault)));
                    None
                }
                (Some(survivor), Some(member)) => Some(Turn::Fill { survivor, member }),
                (Some(_), None) => {
                    self.repair = None;
                    if let Some(block) = &mut self.block {
                        block.note_filled();
                    }
                    None
                }
            },
        }
    }

    /// Decides what a failure leads to.
    fn judge(&mut self, failure: Failure<D::Fault>, now: Instant) {
        let Some(block) = &self.block else { return };
        let Failure { member, fault } = failure;
        let failed = block.located.replicas.get(member).map(|member| member.id);
        if let Some(refusal) = D::disk_refusal(&fault) {
            self.refused_by_disk = Some(refusal);
        }
        self.failure_count += 1;
        if self.failure_count > FAILURES_MAX {
            let block = block.located.id;
            return self.fail(WriteError::Block { block, fault });
        }
        // The NameNode avoids a slow one as long as there are others.
        if D::class(&fault) != Class::Slow {
            self.excluded.extend(failed.map(|id| (id, now)));
        }
        self.move_on(failed, fault);
    }

    /// Asks for more members of a pipeline of which none has failed.
    pub(super) fn begin_anew_or_recover(&mut self) {
        self.move_on(None, D::fault(Verdict::Unexpected));
    }

    fn move_on(&mut self, failed: Option<DatanodeId>, fault: D::Fault) {
        let Some(block) = &self.block else { return };
        self.repair = Some(if block.window.acked_length() == 0 {
            Repair::Abandoning { fault }
        } else if block.survivors(failed).is_empty() {
            let block = block.located.id;
            return self.fail(WriteError::Block { block, fault });
        } else {
            Repair::Recovering { failed, is_slow: D::class(&fault) == Class::Slow }
        });
    }

    pub(super) fn repair_answered(&mut self, answer: Result<Reply, D::CallError>) {
        match (self.repair.take(), answer) {
            (Some(Repair::Abandoning { fault }), Ok(Reply::Done)) => {
                self.repair = Some(Repair::Adding { fault, is_last: false });
            }
            (Some(Repair::Adding { .. }), Ok(Reply::Block(located))) => self.begin_anew(located),
            (Some(Repair::Adding { fault, is_last }), Err(error))
                if D::kind(&error) == Some(ErrorKind::NoDatanodes) =>
            {
                self.no_datanodes(fault, is_last);
            }
            (Some(Repair::Recovering { failed, .. }), Ok(Reply::Block(located))) => {
                self.hang_up();
                if let Some(block) = &mut self.block {
                    let survivors = block.survivors(failed);
                    block.resume_on(located, &survivors);
                }
                self.repair = Some(Repair::Filling { begin: 0 });
            }
            (_, Ok(_)) => self.fail(WriteError::Unexpected),
            (_, Err(error)) => self.fail(WriteError::Call(error)),
        }
    }

    fn begin_anew(&mut self, located: LocatedBlock) {
        self.hang_up();
        if let Some(block) = &mut self.block {
            block.begin_anew(located);
        }
    }

    fn no_datanodes(&mut self, fault: D::Fault, is_last: bool) {
        match &self.block {
            Some(block) if is_last => {
                let block = block.located.id;
                self.fail(WriteError::Block { block, fault });
            }
            _ => self.repair = Some(Repair::Pausing { fault }),
        }
    }

    pub(super) fn repair_paused(&mut self) {
        if let Some(Repair::Pausing { fault }) = self.repair.take() {
            self.excluded.clear();
            self.repair = Some(Repair::Adding { fault, is_last: true });
        }
    }

    /// Reports how a copy to a new member ended.
    pub fn filled(&mut self, filled: Filled<D::Fault>) {
        let (Some(block), Some(Repair::Filling { begin })) = (&self.block, &mut self.repair) else {
            return;
        };
        let survivor = block.survivor().unwrap_or(0);
        let member = block.unfilled_from(*begin).unwrap_or(0);
        let failure = match filled {
            Filled::Done => {
                *begin = member + 1;
                return;
            }
            Filled::Unreached(fault) => Failure { member: survivor, fault },
            Filled::Failed(fault) => {
                let is_refused = D::class(&fault) == Class::Refused;
                Failure { member: if is_refused { member } else { survivor }, fault }
            }
        };
        self.repair = Some(Repair::Failed(failure));
    }
}
