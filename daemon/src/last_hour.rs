//! Figures of the last hour, for the charts of a daemon's overview: one sample every ten seconds.
//!
//! Invariant: there are at most [`SAMPLES_MAX`] samples of `N` numbers each, however long the daemon runs. They are in memory, and begin anew with the daemon.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sys::process::Usage;
use tokio::time::{Interval, MissedTickBehavior};

use crate::page::live::Board;
use crate::shutdown::Shutdown;

/// Time between two samples: finer than a chart of an hour shows.
pub const PERIOD: Duration = Duration::from_secs(10);
/// Time until the first sample.
pub const FIRST: Duration = Duration::from_secs(2);
/// Most samples, an hour of them: 14 KB with four numbers each.
pub const SAMPLES_MAX: usize = 360;

/// Figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample<const N: usize> {
    /// When it was taken, milliseconds since the epoch.
    pub at_ms: u64,
    /// The figures.
    pub values: [u64; N],
}

/// The samples of the last hour. Clones share them.
#[derive(Clone, Debug)]
pub struct LastHour<const N: usize> {
    samples: Arc<Mutex<VecDeque<Sample<N>>>>,
    board: Board,
}

impl<const N: usize> Default for LastHour<N> {
    fn default() -> Self {
        LastHour { samples: Arc::default(), board: Board::default() }
    }
}

impl<const N: usize> LastHour<N> {
    /// Keeps a sample, in place of the oldest if there are too many.
    pub fn keep(&self, sample: Sample<N>) {
        let mut samples = self.samples.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
        drop(samples);
        self.board.touch();
    }

    /// Where open pages learn of new samples.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// All samples, the oldest first.
    pub fn samples(&self) -> Vec<Sample<N>> {
        self.samples.lock().iter().copied().collect()
    }
}

/// The times at which samples are taken.
#[derive(Debug)]
pub struct Ticks {
    interval: Interval,
    shutdown: Shutdown,
}

impl Ticks {
    /// One each [`PERIOD`] until the daemon ends, the first after [`FIRST`]: what a shorter time shows is chance. Must be called on a runtime.
    pub fn new(shutdown: Shutdown) -> Self {
        Ticks::every(FIRST, PERIOD, shutdown)
    }

    fn every(first: Duration, period: Duration, shutdown: Shutdown) -> Self {
        let mut interval = tokio::time::interval_at((Instant::now() + first).into(), period);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks { interval, shutdown }
    }

    /// Waits for the next one; false when the daemon ends.
    pub async fn next(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.shutdown.wait() => false,
            _ = self.interval.tick() => true,
        }
    }
}

/// What this process uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Processor time since the sample before, in thousandths of one core.
    pub cpu_permille: u64,
    /// Resident memory.
    pub resident_bytes: u64,
}

/// Reads what this process uses, from one sample to the next.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    at: Instant,
    cpu_time: Duration,
}

impl Meter {
    /// Begins to measure.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn begin() -> std::io::Result<Self> {
        let Usage { cpu_time, .. } = sys::process::own_usage()?;
        Ok(Meter { at: Instant::now(), cpu_time })
    }

    /// What was used since the last time.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub fn read(&mut self) -> std::io::Result<Used> {
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

    /// By how much it grew since the last time, in thousandths per second: what happens now and then is not nothing.
    pub fn permille_per_second(&mut self, count: u64) -> u64 {
        let (before, now) = (*self, Instant::now());
        *self = Rate { at: now, count };
        let ms = u64::try_from((now - before.at).as_millis()).unwrap_or(u64::MAX).max(1);
        count.saturating_sub(before.count).saturating_mul(1_000_000) / ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u64) -> Sample<2> {
        Sample { at_ms: number, values: [number, number * 2] }
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let hour = LastHour::default();
        assert_eq!(hour.samples(), Vec::new());
        let count = SAMPLES_MAX as u64 + 5;
        (1..=count).for_each(|number| hour.keep(sample(number)));
        let samples = hour.samples();
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert_eq!((samples[0], samples[SAMPLES_MAX - 1]), (sample(6), sample(count)));
        assert_eq!(PERIOD * u32::try_from(SAMPLES_MAX).unwrap(), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn ticks_come_until_the_daemon_ends() {
        let shutdown = Shutdown::new();
        let mut ticks = Ticks::every(Duration::ZERO, Duration::from_millis(1), shutdown.clone());
        for _ in 0..3 {
            assert!(ticks.next().await);
        }
        shutdown.begin();
        assert!(!ticks.next().await);
    }

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
