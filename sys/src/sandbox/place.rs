//! What is open to a confined process.

use std::path::PathBuf;

/// The allowed access to a place and everything below it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Access {
    /// Read, list, execute.
    Read,
    /// Read and write what exists, as for devices.
    Use,
    /// Everything but devices.
    Change,
}

/// A path that is open inside the sandbox.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllowedPath {
    /// A file or directory.
    pub path: PathBuf,
    /// The allowed access.
    pub access: Access,
}

impl AllowedPath {
    /// See the fields.
    pub fn new(path: impl Into<PathBuf>, access: Access) -> Self {
        AllowedPath { path: path.into(), access }
    }
}
