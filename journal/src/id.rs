//! The two numbers that order everything in a journal. Both only ever grow.

use std::fmt;

/// Number of one log record. The first record is 1; 0 stands for the empty history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Txid(pub u64);

impl Txid {
    /// The empty history.
    pub const ZERO: Txid = Txid(0);

    /// No record ever gets this number.
    pub const MAX: Txid = Txid(u64::MAX);

    /// The record after this one.
    pub fn next(self) -> Txid {
        Txid(self.0 + 1)
    }
}

impl fmt::Display for Txid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of one start of the owner. Every start gets a larger one than any start before it.
///
/// A transaction id is not an epoch:
///
/// ```compile_fail
/// let epoch: journal::Epoch = journal::Txid(3);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The start after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
