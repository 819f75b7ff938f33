//! Directories that need not survive a crash: private, made without waiting for the disk, and what they hold.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// What a task is told where its directory cannot be used; a full disk is told with its remedy.
pub(crate) fn failure(action: &str, path: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space there, or give the worker a `data` directory on a larger disk"
        }
        _ => "",
    };
    format!("cannot {action} {}: {error}{remedy}", path.display())
}

/// Makes `directory` and missing parents with mode 0700. One that exists is fine.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Bytes of a block as `stat` counts them, whatever the file system's own blocks are.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes on disk of all files and directories below `directory`; links are not followed. What goes meanwhile does not count.
pub(crate) fn used_bytes(directory: &Path) -> io::Result<u64> {
    let (mut used, mut directories): (u64, _) = (0, vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        let Some(entries) = unless_gone(fs::read_dir(&directory))? else { continue };
        for entry in entries {
            let Some(entry) = unless_gone(entry)? else { continue };
            let Some(metadata) = unless_gone(entry.metadata())? else { continue };
            used = used.saturating_add(metadata.blocks().saturating_mul(STAT_BLOCK_BYTES));
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(used)
}

/// `None` where what was looked at is gone.
pub(crate) fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_bytes_are_those_of_all_files_below_and_nowhere_else() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("large"), vec![7; 1 << 20]).unwrap();
        let deep = root.path().join("a/b/c");
        create(&deep).unwrap();
        let before = used_bytes(root.path()).unwrap();
        std::os::unix::fs::symlink(outside.path(), deep.join("link")).unwrap();
        fs::write(deep.join("file"), vec![7; 300_000]).unwrap();
        fs::File::create(deep.join("holes")).unwrap().set_len(1 << 30).unwrap();
        let used = used_bytes(root.path()).unwrap() - before;
        assert!((300_000..400_000).contains(&used), "{used}");
        assert_eq!(used_bytes(&root.path().join("missing")).unwrap(), 0);
    }
}
