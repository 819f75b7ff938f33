//! Power cuts of a whole cluster whose disks are file systems of their own: what was acknowledged is there afterwards.
//!
//! Every daemon's data lies on a file-system image ([`Rig`]). While writers, appenders and others work ([`Load`]), all processes are
//! stopped at once, the images are copied as they are, the processes are killed, and the cluster starts on the copies. What was
//! acknowledged is known from a ledger in this process.
//!
//! `HANNO_CUTS` (cuts per file system), `HANNO_TEST_SEED`, `HANNO_POWER_FILE_SYSTEM` (only this one) are for the long suite. It needs
//! root, loop devices and `mkfs.ext4`, `mkfs.xfs`.

mod leftovers;
mod shared_disk;

use crate::support::load::{Counts, Load, Patience};
use crate::support::rig::{self, FileSystem, Rig};
use crate::support::{Options, variable};

/// Cuts in the ordinary tests: enough to see that the rig works.
const CUTS_SHORT: u64 = 2;
/// Cuts per file system in the long suite, unless `HANNO_CUTS` says otherwise.
const CUTS_LONG: u64 = 100;

/// Cuts the power so many times; nothing that was acknowledged is missing, and no file is stuck.
fn cut_repeatedly(file_system: FileSystem, cuts: u64) {
    let mut rig = Rig::start(file_system, Options { workers: 1, ..Options::tight() });
    let seed = variable("HANNO_TEST_SEED", 1);
    let mut all = Counts::default();
    for cut in 0..cuts {
        let load = Load::start(rig.namenode(), seed.wrapping_mul(1000) + cut, Patience::None);
        load.work();
        let mut ledger = None;
        rig.cut(|| ledger = Some(load.stop()));
        let ledger = ledger.expect("the load was stopped");
        let mut counts = ledger.check(&rig.cluster().caller());
        counts.problems.extend(ledger.remove(&rig.cluster().caller()).err());
        all.add(&counts);
        println!("{file_system:?} cut {}: {counts:?}; all so far: {all:?}", cut + 1);
        assert!(counts.problems.is_empty() || std::env::var_os("HANNO_POWER_GO_ON").is_some());
    }
    println!("{file_system:?}: {cuts} cuts, {all:?}");
    assert!(all.problems.is_empty(), "{:#?}", all.problems);
    assert!(all.acknowledged_bytes > 0 && all.changes > 0, "the load has done nothing");
}

#[test]
fn what_was_acknowledged_survives_a_power_cut() {
    if rig::is_possible(FileSystem::Ext4) {
        cut_repeatedly(FileSystem::Ext4, CUTS_SHORT);
    }
}

#[test]
#[ignore = "long: a hundred power cuts on each file system"]
fn what_was_acknowledged_survives_many_power_cuts() {
    let only = std::env::var("HANNO_POWER_FILE_SYSTEM").ok();
    for file_system in FileSystem::ALL {
        if only.as_deref().is_none_or(|only| only == file_system.name()) {
            assert!(rig::is_possible(file_system), "{file_system:?} cannot be mounted here");
            cut_repeatedly(file_system, variable("HANNO_CUTS", CUTS_LONG));
        }
    }
}
