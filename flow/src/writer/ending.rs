//! The end of a writer that was not closed: its file is deleted, or recovered if some of its bytes were promised.

use std::time::Duration;

use protocol::namenode::{Call, Reply};
use protocol::{BlockId, ErrorKind};

use super::Writer;
use super::driver::Driver;
use super::phase::{Phase, Turn};
use super::step::Patience;
use crate::error::WriteError;

/// Time to delete a file that was not closed.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

impl<D: Driver> Writer<D> {
    /// Nothing is written any more; a writer that was closed or given up has nothing to do.
    pub(super) fn begin_giving_up(&mut self) {
        (self.widening, self.sending, self.repair) = (None, None, None);
        self.hang_up();
        let unused = self.block.take().filter(|block| block.length == 0);
        let unused = unused.map(|block| block.located.id);
        match std::mem::take(&mut self.open) {
            true => self.phase = Phase::GivingUp { unused },
            false => self.succeed(),
        }
    }

    /// Has the NameNode delete the file. If bytes were promised, it closes the file at the length that its DataNodes can prove, now instead of when the lease
    /// expires. Either is of the inode, under this writer's lease: whatever others have put at the path stays.
    pub(super) fn giving_up_turn(&self, unused: Option<BlockId>) -> Turn {
        let abandon = Call::AbandonFile { file: self.file.inode, keep: self.promised, unused };
        Turn::Call(abandon, Patience::Once(ABANDON_TIMEOUT))
    }

    pub(super) fn giving_up_answered(&mut self, answer: Result<Reply, D::CallError>) {
        match answer {
            Ok(_) => self.succeed(),
            // It is not this writer's any more.
            Err(error) if D::kind(&error) == Some(ErrorKind::LeaseExpired) => self.succeed(),
            Err(error) => self.fail(WriteError::Call(error)),
        }
    }
}
