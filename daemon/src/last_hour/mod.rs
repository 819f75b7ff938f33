//! The charts of a daemon's overview: figures of the last hour, one sample every ten seconds. Each daemon names figures of its own; to them come the processor
//! and the memory that it uses, and on nodes those of the machine with its disks and its network (`meters`).
//!
//! Invariant: there are at most `SAMPLES_MAX` samples, however long the daemon runs. They are in memory, and begin anew with the daemon.

mod meters;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

pub use self::meters::Rate;
use self::meters::{MachineMeter, MachineUse, Meter, Used};
use crate::page::chart::Chart;
use crate::page::format;
use crate::page::live::Board;
use crate::shutdown::Shutdown;

/// Time between two samples: finer than a chart of an hour shows.
const PERIOD: Duration = Duration::from_secs(10);
/// Time until the first sample: what a shorter time shows is chance.
const FIRST: Duration = Duration::from_secs(2);
/// Most samples, an hour of them: 40 KB with two figures of a daemon's own.
const SAMPLES_MAX: usize = 360;

/// One of a daemon's own figures.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// What it is.
    pub title: &'static str,
    /// How it is written.
    pub show: fn(u64) -> String,
}

/// How a figure of the machine is taken out of a sample.
type OfMachine = fn(&MachineUse) -> u64;

/// The figures of the machine.
const MACHINE: [(Series, OfMachine); 6] = [
    (Series { title: "Processors of the machine", show: format::cores }, |used| used.cpu_permille),
    (Series { title: "Memory of the machine", show: format::bytes }, |used| used.memory_bytes),
    (Series { title: "Read from its disks", show: format::byte_rate }, |used| used.disk_read_rate),
    (Series { title: "Written to its disks", show: format::byte_rate }, |used| {
        used.disk_write_rate
    }),
    (Series { title: "Received from other machines", show: format::byte_rate }, |used| {
        used.receive_rate
    }),
    (Series { title: "Sent to other machines", show: format::byte_rate }, |used| used.send_rate),
];

/// Figures at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample<const N: usize> {
    /// When it was taken.
    at: Instant,
    own: [u64; N],
    used: Used,
    /// What all of the machine does, where that is measured.
    machine: Option<MachineUse>,
}

/// The samples of the last hour. Clones share them.
#[derive(Clone, Debug)]
pub struct LastHour<const N: usize> {
    /// The name of the daemon.
    daemon: &'static str,
    own: [Series; N],
    has_machine: bool,
    samples: Arc<Mutex<VecDeque<Sample<N>>>>,
    board: Board,
}

impl<const N: usize> LastHour<N> {
    /// Without a sample.
    pub fn new(daemon: &'static str, own: [Series; N]) -> Self {
        let (samples, board) = (Arc::default(), Board::default());
        LastHour { daemon, own, has_machine: false, samples, board }
    }

    /// With figures of the whole machine as well.
    pub fn with_machine(self) -> Self {
        LastHour { has_machine: true, ..self }
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
        let mut machine = self.has_machine.then(MachineMeter::begin).and_then(told);
        let mut ticks = tokio::time::interval_at((Instant::now() + first).into(), period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_told = false;
        loop {
            tokio::select! {
                biased;
                () = shutdown.wait() => return Ok(()),
                _ = ticks.tick() => {}
            }
            let machine = machine.as_mut().and_then(|meter| meter.read().ok());
            match (meter.read(), figures().await) {
                (Ok(used), Some(own)) => {
                    self.keep(Sample { at: Instant::now(), own, used, machine });
                }
                (Err(error), _) if !std::mem::replace(&mut is_told, true) => {
                    tracing::warn!(%error, "a chart has a gap: /proc could not be read");
                }
                _ => {}
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
        // A sample without a figure is a gap, and no nought.
        let chart = |title: &str, show, value: &dyn Fn(&Sample<N>) -> Option<u64>| {
            let point = |sample| Some((age_ms(sample), value(sample)?));
            let points: Vec<(u64, u64)> = samples.iter().filter_map(point).collect();
            Chart { title, points: &points, show }.draw()
        };
        let daemon = self.daemon;
        html! {
            h2 { "The last hour" }
            div.charts {
                @for (index, Series { title, show }) in self.own.iter().enumerate() {
                    (chart(title, *show, &|sample| Some(sample.own[index])))
                }
                (chart(&format!("Processor of the {daemon}"), format::cores, &|sample| Some(sample.used.cpu_permille)))
                (chart(&format!("Memory of the {daemon}"), format::bytes, &|sample| Some(sample.used.resident_bytes)))
                @if samples.iter().any(|sample| sample.machine.is_some()) {
                    @for (Series { title, show }, value) in MACHINE {
                        (chart(title, show, &|sample| sample.machine.as_ref().map(value)))
                    }
                }
            }
        }
    }
}

/// A meter of the machine, or a warning that there is none.
fn told(meter: io::Result<MachineMeter>) -> Option<MachineMeter> {
    meter
        .inspect_err(
            |error| tracing::warn!(%error, "no charts of the machine: /proc cannot be read"),
        )
        .ok()
}

fn age_ms<const N: usize>(sample: &Sample<N>) -> u64 {
    u64::try_from(sample.at.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [Series; 1] = [Series { title: "Calls", show: format::count }];

    fn sample(number: u64) -> Sample<1> {
        Sample { at: Instant::now(), own: [number], used: Used::default(), machine: None }
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
}
