//! What goes on, or stays, when Ctrl-C ends a driver, and what its user has to know of that.
//!
//! Invariant: while there is a note, nothing is deleted that the session staged or kept: what the note tells of needs it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use protocol::JobId;

/// The notes of a session.
#[derive(Default)]
pub(in crate::run) struct LeftBehind(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    texts: BTreeMap<u64, String>,
    next: u64,
    /// Ctrl-C is ending the process.
    ends: bool,
}

impl LeftBehind {
    /// Holds from now on until the note is dropped.
    pub(in crate::run) fn note(&self, text: String) -> Note<'_> {
        let mut notes = self.notes();
        let number = notes.next;
        notes.next += 1;
        notes.texts.insert(number, text);
        Note { of: self, number }
    }

    /// What to say at the end, which begins now.
    pub(in crate::run) fn end(&self) -> Vec<String> {
        let mut notes = self.notes();
        notes.ends = true;
        notes.texts.values().cloned().collect()
    }

    /// Lets the end come first, if it has begun: what fails because of it is nothing to tell.
    pub(in crate::run) fn wait_if_ending(&self) {
        while self.notes().ends {
            std::thread::park();
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`LeftBehind::note`].
pub(in crate::run) struct Note<'a> {
    of: &'a LeftBehind,
    number: u64,
}

impl Note<'_> {
    pub(super) fn set(&self, text: String) {
        self.of.notes().texts.insert(self.number, text);
    }
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.of.notes().texts.remove(&self.number);
    }
}

/// What becomes of a plan's jobs without their driver.
pub(in crate::run) struct Afterwards<'a> {
    pub(in crate::run) behind: &'a LeftBehind,
    /// The cluster ends with the driver.
    pub(in crate::run) is_embedded: bool,
    /// What fetches the outputs that are to be on this machine.
    pub(in crate::run) fetch_commands: Vec<String>,
}

impl Afterwards<'_> {
    pub(super) fn of_submission(&self) -> String {
        match self.is_embedded {
            true => "the job ends with its embedded cluster".to_owned(),
            false => {
                "a job was being submitted; `hanno job -list` tells whether it runs".to_owned()
            }
        }
    }

    pub(super) fn of_job(&self, id: JobId) -> String {
        if self.is_embedded {
            return format!("{id} ends with its embedded cluster");
        }
        let goes_on = format!(
            "{id} goes on; `hanno job -status {id}` looks at it, `hanno job -kill {id}` ends it"
        );
        match &self.fetch_commands[..] {
            [] => goes_on,
            commands => format!(
                "{goes_on}\nIts output is not copied to this machine then: `{}` does that",
                commands.join("` and `")
            ),
        }
    }

    /// While outputs are fetched.
    pub(in crate::run) fn of_fetch(&self) -> String {
        match self.is_embedded {
            true => "the output of the job ends with its embedded cluster".to_owned(),
            false => format!(
                "the job is done, but its output is not on this machine: `{}` fetches it",
                self.fetch_commands.join("` and `")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_so() {
        let behind = LeftBehind::default();
        let id = JobId { cluster_start: 1, number: 1 };
        let afterwards = |is_embedded, commands: &[&str]| Afterwards {
            behind: &behind,
            is_embedded,
            fetch_commands: commands.iter().map(|command| (*command).to_owned()).collect(),
        };
        let plain = afterwards(false, &[]).of_job(id);
        assert!(plain.ends_with(&format!("`hanno job -kill {id}` ends it")), "{plain}");
        let embedded = afterwards(true, &["hanno dfs -get /a /b"]).of_job(id);
        assert!(!embedded.contains("goes on") && !embedded.contains("-get"), "{embedded}");
        let staged = afterwards(false, &["hanno dfs -get /a /b"]).of_job(id);
        assert!(staged.contains("`hanno dfs -get /a /b` does that"), "{staged}");
    }

    #[test]
    fn notes_hold_until_they_are_dropped() {
        let behind = LeftBehind::default();
        let (one, two) = (behind.note("1".to_owned()), behind.note("2".to_owned()));
        one.set("one".to_owned());
        drop(two);
        assert_eq!(behind.end(), ["one"]);
        drop(one);
        assert_eq!(behind.end(), [""; 0]);
    }
}
