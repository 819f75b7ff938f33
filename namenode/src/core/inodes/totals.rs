//! Totals of a subtree. Every directory keeps them, so they include only what changes with its content: quotas are elsewhere.

/// Totals of a subtree, the top included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Bytes of all files.
    pub length: u64,
    /// Files.
    pub file_count: u64,
    /// Directories.
    pub directory_count: u64,
    /// Bytes times replicas; a block that is being written counts with its full size.
    pub space_consumed: u64,
}

impl Totals {
    /// Of an empty directory.
    pub const DIRECTORY: Totals =
        Totals { length: 0, file_count: 0, directory_count: 1, space_consumed: 0 };

    /// Names: files and directories.
    pub fn inode_count(&self) -> u64 {
        self.file_count + self.directory_count
    }

    /// With `other` added.
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        self.replacing(Totals::default(), other)
    }

    /// With `after` in the place of `before`, which is a part of it.
    #[must_use]
    pub fn replacing(self, before: Totals, after: Totals) -> Totals {
        Totals {
            length: self.length + after.length - before.length,
            file_count: self.file_count + after.file_count - before.file_count,
            directory_count: self.directory_count + after.directory_count - before.directory_count,
            space_consumed: self.space_consumed + after.space_consumed - before.space_consumed,
        }
    }
}
