//! What goes on, or stays, when Ctrl-C ends a driver, and what its user has to know of that.
//!
//! Invariants: while there is a note, nothing is deleted that the session staged or kept: what the note tells of needs it. Nothing begins once the end has
//! begun: no note, no directory, no rename. So the end sees all there is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, io};

use mr_model::runner::say;
use protocol::JobId;

/// The notes of a session.
#[derive(Default)]
pub(in crate::run) struct LeftBehind(Mutex<Notes>);

#[derive(Default)]
struct Notes {
    texts: BTreeMap<u64, String>,
    next: u64,
    /// Directories of this machine that are not complete.
    temporary: BTreeSet<PathBuf>,
    /// Ctrl-C is ending the process.
    ends: bool,
}

/// What the end finds.
pub(in crate::run) struct Left {
    pub(in crate::run) texts: Vec<String>,
    /// Directories of this machine to remove.
    pub(in crate::run) temporary: Vec<PathBuf>,
}

impl LeftBehind {
    /// Holds from now on until the note is dropped.
    pub(in crate::run) fn note(&self, text: String) -> Note<'_> {
        let mut notes = self.unless_ending();
        let number = notes.next;
        notes.next += 1;
        notes.texts.insert(number, text);
        Note { of: self, number }
    }

    /// Makes a directory of this machine, which goes unless it is published.
    pub(in crate::run) fn make_temporary(&self, directory: PathBuf) -> io::Result<Temporary<'_>> {
        let mut notes = self.unless_ending();
        if let Some(parent) = directory.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::create_dir(&directory)?;
        notes.temporary.insert(directory.clone());
        Ok(Temporary { of: self, directory })
    }

    /// What to say and remove at the end, which begins now.
    pub(in crate::run) fn end(&self) -> Left {
        let mut notes = self.notes();
        notes.ends = true;
        Left {
            texts: notes.texts.values().cloned().collect(),
            temporary: std::mem::take(&mut notes.temporary).into_iter().collect(),
        }
    }

    /// Lets the end come first, if it has begun: what fails because of it is nothing to tell.
    pub(in crate::run) fn wait_if_ending(&self) {
        drop(self.unless_ending());
    }

    /// Never returns once the end has begun.
    fn unless_ending(&self) -> MutexGuard<'_, Notes> {
        loop {
            let notes = self.notes();
            if !notes.ends {
                return notes;
            }
            drop(notes);
            std::thread::park();
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See [`LeftBehind::make_temporary`].
pub(in crate::run) struct Temporary<'a> {
    of: &'a LeftBehind,
    directory: PathBuf,
}

impl Temporary<'_> {
    pub(in crate::run) fn path(&self) -> &Path {
        &self.directory
    }

    /// Gives the directory its name.
    pub(in crate::run) fn publish(self, target: &Path) -> io::Result<()> {
        let mut notes = self.of.unless_ending();
        fs::rename(&self.directory, target)?;
        notes.temporary.remove(&self.directory);
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        let is_here = self.of.notes().temporary.remove(&self.directory);
        if is_here {
            remove(&self.directory);
        }
    }
}

/// Removes a directory of this machine; logs a failure.
pub(in crate::run) fn remove(directory: &Path) {
    if let Err(error) = fs::remove_dir_all(directory)
        && error.kind() != io::ErrorKind::NotFound
    {
        say(format_args!("cannot remove {}: {error}\n", directory.display()));
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
        assert_eq!(behind.end().texts, ["one"]);
        drop(one);
        assert_eq!(behind.end().texts, [""; 0]);
    }

    #[test]
    fn directories_go_unless_they_are_published() {
        let (behind, root) = (LeftBehind::default(), tempfile::tempdir().unwrap());
        let place = |name: &str| root.path().join(name);
        behind.make_temporary(place("published")).unwrap().publish(&place("target")).unwrap();
        drop(behind.make_temporary(place("given-up")).unwrap());
        let unpublished = behind.make_temporary(place("unpublished")).unwrap();
        assert!(unpublished.publish(&place("no/target")).is_err());
        let left = behind.make_temporary(place("left")).unwrap();
        assert_eq!(behind.end().temporary, [left.path()]);
        drop(left);
        let mut names: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["left", "target"]);
    }

    #[test]
    fn nothing_begins_after_the_end_has_begun() {
        static BEHIND: LeftBehind = LeftBehind(Mutex::new(Notes {
            texts: BTreeMap::new(),
            next: 0,
            temporary: BTreeSet::new(),
            ends: false,
        }));
        let root = tempfile::tempdir().unwrap();
        let waiting = BEHIND.make_temporary(root.path().join("waiting")).unwrap();
        assert_eq!(BEHIND.end().texts, [""; 0]);
        let (done, is_done) = std::sync::mpsc::channel();
        for attempt in [
            Box::new(|| drop(BEHIND.note("a job".to_owned()))) as Box<dyn FnOnce() + Send>,
            Box::new(move || drop(waiting.publish(Path::new("/nowhere")))),
            Box::new(|| drop(BEHIND.make_temporary("/nowhere".into()))),
        ] {
            let done = done.clone();
            std::thread::spawn(move || {
                attempt();
                done.send(()).unwrap();
            });
        }
        let ended = is_done.recv_timeout(std::time::Duration::from_millis(200));
        assert!(ended.is_err() && BEHIND.end().texts.is_empty());
    }
}
