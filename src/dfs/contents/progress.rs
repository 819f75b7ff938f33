//! The progress of a long copy, on standard error if that is a terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter work displays nothing.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// How often the line is redrawn.
const TICK: Duration = Duration::from_millis(200);
/// The format of the line.
const TEMPLATE: &str = "{spinner} {msg} files, {bytes} ({bytes_per_sec}), {elapsed}";

/// Counts files and bytes of one command. Any thread may count.
pub(super) struct Progress {
    started: Instant,
    visible: bool,
    files: AtomicU64,
    bytes: AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    pub(super) fn new() -> Self {
        Progress {
            started: Instant::now(),
            visible: std::io::stderr().is_terminal(),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bar: OnceLock::new(),
        }
    }

    /// One more file is done.
    pub(super) fn file(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.draw();
    }

    /// More bytes are done.
    pub(super) fn bytes(&self, count: usize) {
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        self.draw();
    }

    /// Runs `print` while nothing is drawn.
    pub(super) fn suspend(&self, print: impl FnOnce()) {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the line.
    pub(super) fn end(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    fn draw(&self) {
        if !self.visible || self.started.elapsed() < SHOW_AFTER {
            return;
        }
        let bar = self.bar.get_or_init(|| {
            let style = ProgressStyle::with_template(TEMPLATE)
                .expect("the template is constant and well-formed");
            let bar =
                ProgressBar::new_spinner().with_style(style).with_elapsed(self.started.elapsed());
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_position(self.bytes.load(Ordering::Relaxed));
        bar.set_message(self.files.load(Ordering::Relaxed).to_string());
    }
}
