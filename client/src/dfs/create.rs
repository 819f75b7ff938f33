//! How to create a file.

use protocol::DfsPath;
use protocol::property::Umask;

/// Which missing directories above a file are made with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Parents {
    /// None.
    None,
    /// All.
    All,
    /// Those below this directory, which must exist.
    Below(DfsPath),
}

/// See the module.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// Missing directories to make.
    pub parents: Parents,
    /// Wanted replicas; `None` for the NameNode's default.
    pub replication: Option<u16>,
    /// Bytes per block; `None` for the NameNode's default.
    pub block_size: Option<u64>,
    /// Permission bits, after the umask.
    pub mode: u16,
    /// Permission bits before the umask; they count in a directory with a default access control list.
    pub unmasked: Option<u16>,
    /// When it is closed, rename it to this path in the same step: readers never see it half-written.
    pub publish_as: Option<DfsPath>,
    /// Replace an existing file at `publish_as`.
    pub publish_overwrite: bool,
}

impl Default for CreateOptions {
    /// A new file, parents made, the NameNode's replication and block size, mode 0644.
    fn default() -> Self {
        CreateOptions {
            overwrite: false,
            parents: Parents::All,
            replication: None,
            block_size: None,
            mode: 0o644,
            unmasked: None,
            publish_as: None,
            publish_overwrite: false,
        }
    }
}

impl CreateOptions {
    /// The same, with the mode of a new file under a umask; a default access control list replaces the umask.
    pub fn masked(umask: Umask) -> Self {
        let (mode, unmasked) = umask.of_file();
        CreateOptions { mode, unmasked, ..CreateOptions::default() }
    }
}
