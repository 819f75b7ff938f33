//! What a daemon and its machine use, from one sample to the next.

use std::io;
use std::time::{Duration, Instant};

use sys::machine;
use sys::process::Usage;

/// What a process uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Used {
    /// Processor time since the sample before, in thousandths of one core.
    pub(super) cpu_permille: u64,
    /// Resident memory.
    pub(super) resident_bytes: u64,
}

/// Reads what this process uses, from one sample to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    at: Instant,
    cpu_time: Duration,
}

impl Meter {
    pub(super) fn begin() -> io::Result<Self> {
        let Usage { cpu_time, .. } = sys::process::own_usage()?;
        Ok(Meter { at: Instant::now(), cpu_time })
    }

    /// What was used since the last time.
    pub(super) fn read(&mut self) -> io::Result<Used> {
        let Usage { cpu_time, resident_bytes, .. } = sys::process::own_usage()?;
        let (before, now) = (*self, Instant::now());
        *self = Meter { at: now, cpu_time };
        let share = permille(cpu_time.saturating_sub(before.cpu_time), now - before.at);
        Ok(Used { cpu_permille: share, resident_bytes })
    }
}

fn permille(part: Duration, whole: Duration) -> u64 {
    let share = part.as_micros() * 1000 / whole.as_micros().max(1);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// What all processes of the machine use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct MachineUse {
    /// Processor time since the sample before, in thousandths of one core.
    pub(super) cpu_permille: u64,
    pub(super) memory_bytes: u64,
    /// Bytes per second, like the next three.
    pub(super) disk_read_rate: u64,
    pub(super) disk_write_rate: u64,
    pub(super) receive_rate: u64,
    pub(super) send_rate: u64,
}

/// Reads what the machine uses, from one sample to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineMeter {
    at: Instant,
    usage: machine::Usage,
}

impl MachineMeter {
    pub(super) fn begin() -> io::Result<Self> {
        Ok(MachineMeter { at: Instant::now(), usage: machine::usage()? })
    }

    /// What was used since the last time.
    pub(super) fn read(&mut self) -> io::Result<MachineUse> {
        let before = std::mem::replace(self, MachineMeter::begin()?);
        let time = self.at - before.at;
        let (old, new) = (&before.usage, &self.usage);
        let rate = |count: fn(&machine::Usage) -> u64| growth(count(old), count(new), time) / 1000;
        Ok(MachineUse {
            cpu_permille: permille(new.cpu_time.saturating_sub(old.cpu_time), time),
            memory_bytes: new.memory_bytes,
            disk_read_rate: rate(|usage| usage.disk_read_bytes),
            disk_write_rate: rate(|usage| usage.disk_written_bytes),
            receive_rate: rate(|usage| usage.received_bytes),
            send_rate: rate(|usage| usage.sent_bytes),
        })
    }
}

/// By how much a count grew, in thousandths per second; nothing if it began anew.
fn growth(before: u64, now: u64, time: Duration) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    now.saturating_sub(before).saturating_mul(1_000_000) / ms
}

/// Makes rates of a count that only grows.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    at: Instant,
    count: u64,
}

impl Rate {
    /// Begins with a count.
    pub fn begin(count: u64) -> Self {
        Rate { at: Instant::now(), count }
    }

    /// By how much it grew per second since the last time.
    pub fn per_second(&mut self, count: u64) -> u64 {
        self.permille_per_second(count) / 1000
    }

    /// By how much it grew since the last time, in thousandths per second: what happens now and then is not nothing.
    pub fn permille_per_second(&mut self, count: u64) -> u64 {
        let before = std::mem::replace(self, Rate { at: Instant::now(), count });
        growth(before.count, count, self.at - before.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_rates() {
        let ms = Duration::from_millis;
        for (part, whole, share) in [(0, 10, 0), (5, 10, 500), (20, 10, 2000), (1, 0, 1_000_000)] {
            assert_eq!(permille(ms(part), ms(whole)), share, "{part} of {whole}");
        }
        let mut meter = Meter::begin().unwrap();
        assert!(meter.read().unwrap().resident_bytes > 0);
        let mut rate = Rate::begin(10);
        rate.at -= Duration::from_secs(10);
        let grown = rate.permille_per_second(1010);
        assert!((90_000..=100_000).contains(&grown), "{grown}");
        assert_eq!(rate.permille_per_second(5), 0, "it began anew");
    }
}
