//! What a machine uses as a whole, all processes together: processors, memory, disks, network. From `/proc`; `/sys` tells which devices count.
//!
//! Counts only grow, until the machine starts again or a device is taken out of it.

use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::process::TICKS_PER_SECOND;

/// Bytes of a sector in `/proc/diskstats`, whatever the disk's own sectors are.
const SECTOR_BYTES: u64 = 512;
/// The interface by which a machine talks to itself.
const LOOPBACK: &str = "lo";

/// What is used now, and what was done since the machine started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Time for which a processor was busy, of all processors together.
    pub cpu_time: Duration,
    /// Memory that programs cannot have without swapping.
    pub memory_bytes: u64,
    /// Bytes read from disks.
    pub disk_read_bytes: u64,
    /// Bytes written to disks.
    pub disk_written_bytes: u64,
    /// Bytes received from other machines.
    pub received_bytes: u64,
    /// Bytes sent to other machines.
    pub sent_bytes: u64,
}

/// What this machine uses.
///
/// # Errors
/// The system's error; `InvalidData` if `/proc` is not as in proc(5).
pub fn usage() -> io::Result<Usage> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let is_device = |class: &str, name: &str| {
        let device = Path::new("/sys").join(class).join(name).join("device");
        !name.contains('/') && device.try_exists().unwrap_or(false)
    };
    let is_disk = |name: &str| is_device("block", name);
    let is_adapter = |name: &str| is_device("class/net", name);
    let [disk_read_bytes, disk_written_bytes] =
        disks(&fs::read_to_string("/proc/diskstats")?, is_disk);
    let [received_bytes, sent_bytes] = network(&fs::read_to_string("/proc/net/dev")?, is_adapter);
    Ok(Usage {
        cpu_time: cpu_time(&fs::read_to_string("/proc/stat")?).ok_or_else(invalid)?,
        memory_bytes: memory(&fs::read_to_string("/proc/meminfo")?).ok_or_else(invalid)?,
        disk_read_bytes,
        disk_written_bytes,
        received_bytes,
        sent_bytes,
    })
}

/// The line of all processors: user, nice, system, idle, iowait, irq, softirq, steal. Guests are part of user and nice.
fn cpu_time(stat: &str) -> Option<Duration> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let &[user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = ticks.as_slice() else {
        return None;
    };
    let busy =
        [user, nice, system, irq, softirq, steal].into_iter().try_fold(0, u64::checked_add)?;
    Some(Duration::from_millis(busy.checked_mul(1000)? / TICKS_PER_SECOND))
}

fn memory(meminfo: &str) -> Option<u64> {
    let kib = |name: &str| -> Option<u64> {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    };
    kib("MemTotal")?.checked_sub(kib("MemAvailable")?)?.checked_mul(1024)
}

/// Bytes read and written of whole disks: those of their partitions, and of volumes that are made of them, are counted there.
fn disks(diskstats: &str, is_disk: impl Fn(&str) -> bool) -> [u64; 2] {
    let mut sums = [0u64; 2];
    for line in diskstats.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_major, _minor, name, _, _, read, _, _, _, written, ..] = fields.as_slice() else {
            continue;
        };
        if is_disk(name) {
            add(
                &mut sums,
                [read, written].map(|sectors| number(sectors).saturating_mul(SECTOR_BYTES)),
            );
        }
    }
    sums
}

/// Bytes received and sent by adapters. A container has none of its own, so there all interfaces to others count.
fn network(dev: &str, is_adapter: impl Fn(&str) -> bool) -> [u64; 2] {
    let (mut adapters, mut others) = (None, [0; 2]);
    for line in dev.lines() {
        let Some((name, counts)) = line.split_once(':') else { continue };
        let name = name.trim();
        let counts: Vec<&str> = counts.split_whitespace().collect();
        let &[received, _, _, _, _, _, _, _, sent, ..] = counts.as_slice() else { continue };
        let bytes = [received, sent].map(number);
        if is_adapter(name) {
            add(adapters.get_or_insert_default(), bytes);
        } else if name != LOOPBACK {
            add(&mut others, bytes);
        }
    }
    adapters.unwrap_or(others)
}

fn add(sums: &mut [u64; 2], [first, second]: [u64; 2]) {
    *sums = [sums[0].saturating_add(first), sums[1].saturating_add(second)];
}

/// What the kernel writes is a number; anything else counts as nothing.
fn number(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_measured() {
        let before = usage().unwrap();
        let begin = std::time::Instant::now();
        // Some ticks of work, which count.
        while begin.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
        let after = usage().unwrap();
        assert!(
            after.cpu_time > before.cpu_time && after.memory_bytes > 0,
            "{before:?}, {after:?}"
        );
    }

    #[test]
    fn processors_that_wait_are_not_busy() {
        let stat = "cpu  100 20 300 4000 500 6 7 8 90 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(cpu_time(stat), Some(Duration::from_millis(4410)));
        for bad in ["", "cpu0 1 2 3 4 5 6 7 8\n", "cpu  1 2 3 4 5 6 7", "cpu  1 2 x 4 5 6 7 8"] {
            assert_eq!(cpu_time(bad), None, "{bad}");
        }
        assert_eq!(cpu_time(&format!("cpu  {} 1 1 1 1 1 1 1", u64::MAX)), None);
    }

    #[test]
    fn what_can_be_had_is_not_used() {
        let text = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory(text), Some(600 << 10));
        for bad in ["", "MemTotal: 1000 kB\n", "MemTotal: 1 kB\nMemAvailable: 2 kB\n"] {
            assert_eq!(memory(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_disk_counts_once() {
        let text = " 8 0 sda 1 2 30 4 5 6 70 8 0 1 1\n 8 1 sda1 1 2 30 4 5 6 70 8 0 1 1\n 253 0 dm-0 1 2 30 4 5 6 70 8 0 1 1\n\
                    259 0 nvme0n1 1 2 1 4 5 6 2 8 0 1 1\n9 9 cut 1\n";
        let sums = disks(text, |name| ["sda", "nvme0n1"].contains(&name));
        assert_eq!(sums, [31 * 512, 72 * 512]);
        assert_eq!(disks(text, |_| false), [0, 0]);
    }

    #[test]
    fn adapters_count_and_in_a_container_what_it_has() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets|bytes packets\n\
                    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  eth0:100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\nveth7: 20 1 0 0 0 0 0 0 2 1 0 0 0 0 0 0\n";
        assert_eq!(network(text, |name| name == "eth0"), [100, 40]);
        assert_eq!(network(text, |_| false), [120, 42]);
        assert_eq!(network("", |_| true), [0, 0]);
    }
}
