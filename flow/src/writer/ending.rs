//! The end of a writer that was not closed: its file is deleted, or recovered if some of its bytes were promised.

use std::time::Duration;

use protocol::ErrorKind;
use protocol::namenode::{Call, Reply};

use super::Writer;
use super::driver::Driver;
use super::phase::{GiveUp, Phase, Turn};
use super::step::Patience;
use crate::error::WriteError;

/// Time to delete a file that was not closed.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

impl<D: Driver> Writer<D> {
    /// Nothing is written any more; a writer that was closed or given up has nothing to do.
    pub(super) fn begin_giving_up(&mut self) {
        (self.widening, self.sending, self.repair) = (None, None, None);
        self.hang_up();
        self.block = None;
        match std::mem::take(&mut self.open) {
            true => self.phase = Phase::GivingUp(GiveUp::Check),
            false => self.succeed(),
        }
    }

    /// Deletes the file at the path if it is still this writer's open file; after a lost lease, a rename or an overwrite it is not. If bytes were promised, has
    /// the NameNode close the file at the length that every member has, now instead of when the lease expires.
    pub(super) fn giving_up_turn(&self, stage: GiveUp) -> Turn {
        let path = self.file.path.clone();
        let call = match stage {
            GiveUp::Check => Call::Status(path),
            GiveUp::End if self.promised => Call::RecoverLease(path),
            GiveUp::End => Call::Delete { path, recursive: false },
        };
        Turn::Call(call, Patience::Once(ABANDON_TIMEOUT))
    }

    pub(super) fn giving_up_answered(
        &mut self,
        stage: GiveUp,
        answer: Result<Reply, D::CallError>,
    ) {
        match (stage, answer) {
            (GiveUp::Check, Ok(Reply::Status(status)))
                if status.open && status.inode == self.file.inode =>
            {
                self.phase = Phase::GivingUp(GiveUp::End);
            }
            (_, Ok(_)) => self.succeed(),
            (GiveUp::Check, Err(error))
                if !self.promised && D::kind(&error) == Some(ErrorKind::NotFound) =>
            {
                self.succeed();
            }
            (_, Err(error)) => self.fail(WriteError::Call(error)),
        }
    }
}
