//! Totals of a subtree. Every directory keeps them, so they include only what changes with its content: quotas are elsewhere.
//!
//! They are counted modulo 2^64. What was added can always be taken off again, and no sum of sizes that clients chose ends the process.

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
        self.file_count.wrapping_add(self.directory_count)
    }

    /// With `other` added.
    #[must_use]
    pub fn plus(self, other: Totals) -> Totals {
        self.replacing(Totals::default(), other)
    }

    /// With `after` in the place of `before`, which is a part of it.
    #[must_use]
    pub fn replacing(self, before: Totals, after: Totals) -> Totals {
        let replaced =
            |all: u64, before: u64, after: u64| all.wrapping_add(after).wrapping_sub(before);
        Totals {
            length: replaced(self.length, before.length, after.length),
            file_count: replaced(self.file_count, before.file_count, after.file_count),
            directory_count: replaced(
                self.directory_count,
                before.directory_count,
                after.directory_count,
            ),
            space_consumed: replaced(
                self.space_consumed,
                before.space_consumed,
                after.space_consumed,
            ),
        }
    }
}
