//! Space on data directories: how much is reserved for others, how much can be promised, and which directory takes the next replica.

use std::cmp::Reverse;

use protocol::namenode::Volume;

/// Default reserve for other programs: this many bytes, or [`RESERVED_PER_CENT`] of the disk if that is more.
pub const RESERVED_BYTES_MIN: u64 = 1 << 30;
/// Share of a large disk reserved for others by default.
pub const RESERVED_PER_CENT: u64 = 2;
/// No default reserves more than this share for others: small disks (and tests) stay usable.
pub const RESERVED_PER_CENT_MAX: u64 = 10;
/// Directories whose free space differs by less than this take turns: they fill evenly enough that way.
pub const BALANCED_BYTES: u64 = 10 << 30;

/// A disk as the system sees it, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    /// The whole disk.
    pub capacity: u64,
    /// Free for this user.
    pub available: u64,
}

/// Space for blocks, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// All space, without the reserve for others.
    pub capacity: u64,
    /// Used by blocks.
    pub used: u64,
    /// Used by something else, as far as that exceeds the reserve for others.
    pub non_dfs_used: u64,
    /// Free for blocks.
    pub remaining: u64,
    /// Left to others, beside `capacity`.
    pub reserved: u64,
}

impl Usage {
    /// The sum of the volumes in service.
    pub fn of(volumes: &[Volume]) -> Usage {
        let serving = || volumes.iter().filter(|volume| volume.failure.is_none());
        let sum = |of: fn(&Volume) -> u64| serving().map(of).fold(0, u64::saturating_add);
        Usage {
            capacity: sum(|volume| volume.capacity),
            used: sum(|volume| volume.used),
            non_dfs_used: sum(|volume| {
                volume.capacity.saturating_sub(volume.used).saturating_sub(volume.remaining)
            }),
            remaining: sum(|volume| volume.remaining),
            reserved: sum(|volume| volume.reserved),
        }
    }
}

/// Bytes of a disk that are reserved for others.
pub fn reserved_bytes(capacity: u64, configured: Option<u64>) -> u64 {
    let share = |per_cent: u64| capacity / 100 * per_cent;
    configured.unwrap_or_else(|| {
        RESERVED_BYTES_MIN.max(share(RESERVED_PER_CENT)).min(share(RESERVED_PER_CENT_MAX))
    })
}

/// The space that blocks use and may use on a disk.
pub fn usage(disk: Disk, used: u64, configured_reserve: Option<u64>) -> Usage {
    let reserved = reserved_bytes(disk.capacity, configured_reserve);
    let capacity = disk.capacity.saturating_sub(reserved);
    let remaining = disk.available.saturating_sub(reserved).min(capacity.saturating_sub(used));
    Usage {
        capacity,
        used,
        non_dfs_used: capacity.saturating_sub(used).saturating_sub(remaining),
        remaining,
        reserved: disk.capacity - capacity,
    }
}

/// Chooses among directories by their free bytes (`None`: out of service): those with room take turns while they are about equally full; otherwise the emptier
/// half takes turns. `turn` counts the choices.
pub fn choose(remaining: &[Option<u64>], turn: usize) -> Option<usize> {
    let mut usable: Vec<(u64, usize)> = (0..)
        .zip(remaining)
        .filter_map(|(index, bytes)| bytes.filter(|bytes| *bytes > 0).map(|bytes| (bytes, index)))
        .collect();
    usable.sort_unstable_by_key(|(bytes, index)| (Reverse(*bytes), *index));
    let (most, least) = (usable.first()?.0, usable.last()?.0);
    if most - least >= BALANCED_BYTES {
        usable.truncate(usable.len().div_ceil(2));
    }
    usable.sort_unstable_by_key(|(_, index)| *index);
    usable.get(turn % usable.len()).map(|(_, index)| *index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    #[test]
    fn the_default_reserve_fits_every_size_of_disk() {
        for (capacity, reserved) in [
            (0, 0),
            (100 << 20, 10 << 20),
            (10 * GIB, GIB),
            (40 * GIB, GIB),
            (1000 * GIB, 20 * GIB),
        ] {
            let found = reserved_bytes(capacity, None);
            assert!(found.abs_diff(reserved) <= 100, "{capacity}: {found}");
        }
        assert_eq!(reserved_bytes(100, Some(1 << 40)), 1 << 40);
    }

    #[test]
    fn the_parts_make_the_whole() {
        for (capacity, available, used, reserve) in [
            (100, 100, 0, 0),
            (100, 40, 30, 10),
            (100, 5, 30, 10),
            (100, 0, 100, 0),
            (100, 90, 30, 0),
            (100, 50, 0, 200),
        ] {
            let usage = usage(Disk { capacity, available }, used, Some(reserve));
            assert_eq!(usage.capacity, capacity.saturating_sub(reserve));
            assert!(usage.remaining <= available.saturating_sub(reserve));
            if usage.used <= usage.capacity {
                assert_eq!(usage.used + usage.non_dfs_used + usage.remaining, usage.capacity);
            }
        }
        let full = usage(Disk { capacity: 100, available: 5 }, 30, Some(10));
        assert_eq!((full.remaining, full.non_dfs_used), (0, 60));
    }

    #[test]
    fn what_is_out_of_service_does_not_count() {
        let volume = |capacity, failure| Volume {
            capacity,
            used: 10,
            reserved: 5,
            remaining: 60,
            failure,
            ..Volume::default()
        };
        let failed = Some(protocol::namenode::VolumeFailure::default());
        let sum = Usage::of(&[volume(100, None), volume(200, None), volume(400, failed)]);
        let expected =
            Usage { capacity: 300, used: 20, non_dfs_used: 160, remaining: 120, reserved: 10 };
        assert_eq!(sum, expected);
        assert_eq!(Usage::of(&[]), Usage::default());
    }

    #[test]
    fn directories_take_turns_and_the_emptier_ones_catch_up() {
        let turns = |remaining: &[Option<u64>]| -> Vec<Option<usize>> {
            (0..4).map(|turn| choose(remaining, turn)).collect()
        };
        assert_eq!(turns(&[Some(5), Some(6)]), [Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!(turns(&[Some(5), None, Some(0), Some(1)]), [Some(0), Some(3), Some(0), Some(3)]);
        assert_eq!(turns(&[Some(GIB), Some(90 * GIB)]), [Some(1); 4]);
        let four = [Some(GIB), Some(90 * GIB), Some(2 * GIB), Some(80 * GIB)];
        assert_eq!(turns(&four), [Some(1), Some(3), Some(1), Some(3)]);
        assert_eq!(turns(&[None, Some(0)]), [None; 4]);
        assert_eq!(choose(&[], 0), None);
    }
}
