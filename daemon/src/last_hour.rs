//! The charts of a daemon's overview: figures of the last hour, one sample every ten seconds. Each daemon names figures of its own; to them come the processor
//! and the memory that it uses.
//!
//! Invariant: there are at most `SAMPLES_MAX` samples, however long the daemon runs. They are in memory, and begin anew with the daemon.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use parking_lot::Mutex;
use sys::process::Usage;
use tokio::time::MissedTickBehavior;

use crate::page::chart::Chart;
use crate::page::format;
use crate::page::live::Board;
use crate::shutdown::Shutdown;

/// Time between two samples: finer than a chart of an hour shows.
const PERIOD: Duration = Duration::from_secs(10);
/// Time until the first sample: what a shorter time shows is chance.
const FIRST: Duration = Duration::from_secs(2);
/// Most samples, an hour of them: 12 KB with two figures of a daemon's own.
const SAMPLES_MAX: usize = 360;

/// One of a daemon's own figures.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// What it is.
    pub title: &'static str,
    /// How it is written.
    pub show: fn(u64) -> String,
}

/// Figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample<const N: usize> {
    /// When it was taken.
    at: Instant,
    own: [u64; N],
    used: Used,
}

/// What a process uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Used {
    /// Processor time since the sample before, in thousandths of one core.
    cpu_permille: u64,
    /// Resident memory.
    resident_bytes: u64,
}

/// The samples of the last hour. Clones share them.
#[derive(Clone, Debug)]
pub struct LastHour<const N: usize> {
    /// The name of the daemon.
    daemon: &'static str,
    own: [Series; N],
    samples: Arc<Mutex<VecDeque<Sample<N>>>>,
    board: Board,
}

impl<const N: usize> LastHour<N> {
    /// Without a sample.
    pub fn new(daemon: &'static str, own: [Series; N]) -> Self {
        LastHour { daemon, own, samples: Arc::default(), board: Board::default() }
    }

    /// Takes samples until the daemon ends; `figures` returns its own ones, or nothing if they cannot be had now.
    pub async fn record<F: Future<Output = Option<[u64; N]>>>(
        self,
        shutdown: Shutdown,
        figures: impl FnMut() -> F,
    ) {
        if let Err(error) = self.take((FIRST, PERIOD), shutdown, figures).await {
            tracing::warn!(%error, "the overview has no charts: /proc cannot be read");
        }
    }

    async fn take<F: Future<Output = Option<[u64; N]>>>(
        self,
        (first, period): (Duration, Duration),
        shutdown: Shutdown,
        mut figures: impl FnMut() -> F,
    ) -> io::Result<()> {
        let mut meter = Meter::begin()?;
        let mut ticks = tokio::time::interval_at((Instant::now() + first).into(), period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = shutdown.wait() => return Ok(()),
                _ = ticks.tick() => {}
            }
            let used = meter.read()?;
            if let Some(own) = figures().await {
                self.keep(Sample { at: Instant::now(), own, used });
            }
        }
    }

    /// Keeps a sample, in place of the oldest if there are too many.
    fn keep(&self, sample: Sample<N>) {
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

    /// The charts.
    pub fn draw(&self) -> Markup {
        let samples: Vec<Sample<N>> = self.samples.lock().iter().copied().collect();
        let chart = |title: &str, show, value: &dyn Fn(&Sample<N>) -> u64| {
            let point = |sample| (age_ms(sample), value(sample));
            let points: Vec<(u64, u64)> = samples.iter().map(point).collect();
            Chart { title, points: &points, show }.draw()
        };
        let daemon = self.daemon;
        html! {
            h2 { "The last hour" }
            div.charts {
                @for (index, Series { title, show }) in self.own.iter().enumerate() {
                    (chart(title, *show, &|sample| sample.own[index]))
                }
                (chart(&format!("Processor of the {daemon}"), format::cores, &|sample| sample.used.cpu_permille))
                (chart(&format!("Memory of the {daemon}"), format::bytes, &|sample| sample.used.resident_bytes))
            }
        }
    }
}

fn age_ms<const N: usize>(sample: &Sample<N>) -> u64 {
    u64::try_from(sample.at.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Reads what this process uses, from one sample to the next.
#[derive(Clone, Copy, Debug)]
struct Meter {
    at: Instant,
    cpu_time: Duration,
}

impl Meter {
    fn begin() -> io::Result<Self> {
        let Usage { cpu_time, .. } = sys::process::own_usage()?;
        Ok(Meter { at: Instant::now(), cpu_time })
    }

    /// What was used since the last time.
    fn read(&mut self) -> io::Result<Used> {
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

    const OWN: [Series; 1] = [Series { title: "Calls", show: format::count }];

    fn sample(number: u64) -> Sample<1> {
        Sample { at: Instant::now(), own: [number], used: Used::default() }
    }

    #[test]
    fn an_hour_is_kept_and_no_more() {
        let hour = LastHour::new("NameNode", OWN);
        assert!(hour.samples.lock().is_empty());
        let count = SAMPLES_MAX as u64 + 5;
        (1..=count).for_each(|number| hour.keep(sample(number)));
        let samples = hour.samples.lock();
        assert_eq!(samples.len(), SAMPLES_MAX);
        assert_eq!((samples[0].own, samples[SAMPLES_MAX - 1].own), ([6], [count]));
        assert_eq!(hour.board.number(), count, "each is told");
        assert_eq!(PERIOD * u32::try_from(SAMPLES_MAX).unwrap(), Duration::from_secs(3600));
    }

    #[tokio::test]
    async fn samples_are_taken_until_the_daemon_ends_and_left_out_where_there_are_none() {
        let (hour, shutdown) = (LastHour::new("NameNode", OWN), Shutdown::new());
        let mut count = 0;
        let ending = shutdown.clone();
        let figures = move || {
            count += 1;
            if count == 4 {
                ending.begin();
            }
            async move { (count != 2).then_some([count]) }
        };
        hour.clone()
            .take((Duration::ZERO, Duration::from_millis(1)), shutdown, figures)
            .await
            .unwrap();
        let taken: Vec<[u64; 1]> = hour.samples.lock().iter().map(|sample| sample.own).collect();
        assert_eq!(taken, [[1], [3], [4]]);
        let page = hour.draw().into_string();
        for title in ["Calls", "Processor of the NameNode", "Memory of the NameNode"] {
            assert!(page.contains(&format!("{title} in the last hour: now ")), "{title}: {page}");
        }
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
