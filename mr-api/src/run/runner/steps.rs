//! What a task process does before it is ready, as its worker learns of it: a fetch that takes long is no silence.
//!
//! Invariant: a process that has nothing to fetch tells nothing, so a worker that knows no steps can run it.

use std::cell::Cell;
use std::time::Instant;

use super::channel::REPORT_PAUSE;

/// See the module.
pub(super) struct Steps<'a> {
    tell: &'a dyn Fn(String),
    /// When it last told something.
    told: Cell<Option<Instant>>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(tell: &'a dyn Fn(String)) -> Self {
        Steps { tell, told: Cell::new(None) }
    }

    /// So many bytes of a side file are there; none when its fetch begins.
    pub(super) fn fetching(&self, name: &str, bytes: u64) {
        let is_due = self.told.get().is_none_or(|told| told.elapsed() >= REPORT_PAUSE);
        if bytes == 0 || is_due {
            self.say(format!("fetching the side file {name}, of which {bytes} bytes were there"));
        }
    }

    /// All side files are there.
    pub(super) fn rebuilding(&self) {
        if self.told.get().is_some() {
            self.say("rebuilding its job".to_owned());
        }
    }

    fn say(&self, step: String) {
        self.told.set(Some(Instant::now()));
        (self.tell)(step);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_fetch_shows_life_and_floods_nobody() {
        let (heard, begin) = (RefCell::new(Vec::new()), Instant::now());
        let tell = |step| heard.borrow_mut().push(step);
        let steps = Steps::new(&tell);
        steps.rebuilding();
        assert!(heard.borrow().is_empty(), "nothing was fetched");
        let mut bytes = 0;
        while heard.borrow().len() < 3 {
            steps.fetching("words", bytes);
            bytes += 1;
        }
        assert!(begin.elapsed() >= 2 * REPORT_PAUSE && bytes > 3, "{bytes} steps");
        steps.fetching("more", 0);
        steps.rebuilding();
        let heard = heard.into_inner();
        assert!(heard[0].contains("words, of which 0 bytes"), "{heard:?}");
        assert!(heard[3].contains("more, of which 0 bytes"), "{heard:?}");
        assert_eq!(heard[4], "rebuilding its job");
    }
}
