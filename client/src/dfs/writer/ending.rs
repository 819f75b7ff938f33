//! The end of a writer that was not closed: its file is deleted, or recovered if some of its bytes were promised.

use std::time::Duration;

use protocol::ErrorKind;
use protocol::namenode::calls;

use super::super::error::DfsError;
use super::DfsWriter;
use crate::rpc::CallOptions;

/// Time to delete a file that was not closed.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

impl DfsWriter {
    /// Has the NameNode close the file at the length that every member has, now instead of when the lease expires.
    fn recover_own(&self) -> Result<(), DfsError> {
        let once = CallOptions::once(ABANDON_TIMEOUT);
        let path = self.path.clone();
        let status = self.link.ask_with(calls::Status { path: path.clone() }, once)?;
        if status.open && status.inode == self.file {
            self.link.ask_with(calls::RecoverLease { path }, once)?;
        }
        Ok(())
    }

    /// Deletes the half-written file, or has it recovered; best effort.
    pub(super) fn give_up(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        self.block = None;
        let ended = if self.promised { self.recover_own() } else { self.delete_own() };
        if let Err(error) = ended {
            let error = crate::error::chain(&error);
            tracing::warn!(path = %self.path, %error, "cannot end a file that was not closed");
        }
    }

    /// Deletes the file at the path if it is still this writer's open file; after a lost lease, a rename or an overwrite it is not.
    fn delete_own(&self) -> Result<(), DfsError> {
        let once = CallOptions::once(ABANDON_TIMEOUT);
        let path = self.path.clone();
        match self.link.ask_with(calls::Status { path: path.clone() }, once) {
            Ok(status) if status.open && status.inode == self.file => {
                let delete = calls::Delete { path, recursive: false };
                self.link.ask_with(delete, once).map(drop)
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == Some(ErrorKind::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
