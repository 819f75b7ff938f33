//! What goes wrong with the disks of DataNodes, and when it is over again.
//!
//! Never more than replication bears: the disks of one DataNode at a time fail. How bits flip is in `rot`.

use std::time::Duration;

use needs::random::Random;
use sys::disk::sim::Fault;

/// Data directories of a DataNode, each on a disk of its own.
pub(crate) const DISKS: usize = 2;
/// A DataNode whose disk is repaired has it back in service, and has reported it, after this time.
pub(crate) const BACK_AFTER: Duration = Duration::from_secs(8);

/// What goes wrong with a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskFault {
    /// All operations fail until somebody repairs the disk after this time.
    Broken(Duration),
    /// So many operations of the machine from now, one fails. After that time the disk is repaired, in case that it takes no changes any more.
    Once(u64, Fault, Duration),
    /// Only so many bytes are free until somebody makes room after this time.
    Full(u64, Duration),
    /// A bit of a replica flips.
    Flip,
}

/// Draws a fault.
pub(crate) fn draw(random: &mut Random) -> DiskFault {
    match random.below(10) {
        0 | 1 => DiskFault::Broken(random.millis(50..12_000)),
        2 => DiskFault::Full(random.within(0..6000), random.millis(50..15_000)),
        3 | 4 => {
            let fault = [Fault::Io, Fault::Sync, Fault::Full, Fault::Descriptors][random.below(4)];
            DiskFault::Once(random.within(1..100), fault, random.millis(500..6000))
        }
        5 => {
            let fault = [Fault::PowerCut, Fault::Kill][random.below(2)];
            DiskFault::Once(random.within(1..100), fault, random.millis(50..6000))
        }
        _ => DiskFault::Flip,
    }
}

impl DiskFault {
    /// True if its volume may go out of service: that counts as a failure of its DataNode.
    pub(crate) fn may_fence(self) -> bool {
        matches!(
            self,
            DiskFault::Broken(_) | DiskFault::Once(_, Fault::Io | Fault::Sync | Fault::Full, _)
        )
    }

    /// When somebody sees to the disk.
    pub(crate) fn lasts(self) -> Option<Duration> {
        match self {
            DiskFault::Broken(time) | DiskFault::Once(_, _, time) | DiskFault::Full(_, time) => {
                Some(time)
            }
            DiskFault::Flip => None,
        }
    }
}
