//! One process at a time works on a journal's directory: an advisory lock on the file `lock`, which the
//! system releases however the process ends, and the holder's pid in it for the message.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::disk::{Disk, RealDisk};
use crate::error::{JournalError, disk};

/// Held while open.
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    /// Creates the directory if need be and locks it, or says who has it.
    pub(crate) fn take(dir: &Path) -> Result<DirLock, JournalError> {
        RealDisk.create_dir(dir).map_err(disk("create directory", dir))?;
        let path = dir.join("lock");
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(disk("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Only for the message: without a readable pid it is shorter.
                let _ = file.read_to_string(&mut text);
                return Err(JournalError::Locked { path, pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(source)) => return Err(disk("lock", &path)(source)),
        }
        let mut write = || {
            file.set_len(0)?;
            file.rewind()?;
            writeln!(file, "{}", std::process::id())
        };
        write().map_err(disk("write", &path))?;
        Ok(DirLock { _file: file })
    }
}
