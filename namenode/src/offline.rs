//! The name space as it lies on disk, for tools that look at it while no NameNode has it: an image file, or the directory of a NameNode that was stopped.
//!
//! Reading one takes the memory that a NameNode takes for it. What has been read is as sound as what a start reads: the same checks have passed.

use std::path::{Path, PathBuf};

use journal::admin::{self, Entry};
use journal::{Epoch, JournalError, RecoverError, Txid};
use thiserror::Error;

use crate::core::edit::Record;
use crate::core::namespace::Namespace;
use crate::core::standing::Standing;
use crate::core::state::Loaded;
use crate::error::CoreError;

/// Why metadata cannot be read.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// The journal, the image or the log file refuses.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The rows make no tree.
    #[error("{} holds no sound name space", .path.display())]
    Unsound {
        /// What was read.
        path: PathBuf,
        /// Why.
        #[source]
        source: CoreError,
    },
    /// There is nothing in it.
    #[error("{} holds no metadata of a NameNode; name its data directory, or an image that `hdfs dfsadmin -fetchImage` wrote", .path.display())]
    Nothing {
        /// What was read.
        path: PathBuf,
    },
}

/// A name space, and the record that changed it last.
pub struct Image {
    loaded: Loaded,
    last: Txid,
}

impl Image {
    /// Reads an image file, or from a directory what the next start would read: the checkpoint and the log behind it.
    ///
    /// # Errors
    /// [`OfflineError`].
    pub fn read(path: &Path) -> Result<Image, OfflineError> {
        let mut reading = Reading::default();
        if path.is_dir() {
            reading.last =
                admin::dump(&journal_of(path)?, &mut |entry| reading.take(entry).map_err(unknown))?;
        } else {
            let info = admin::read_image(path, &mut |key, value| {
                reading.take(Entry::Row { key, value }).map_err(RecoverError::new)
            })?;
            reading.last = info.applied;
        }
        let unsound = |source| OfflineError::Unsound { path: path.to_owned(), source };
        reading.tie().map_err(unsound)?;
        if reading.loaded.ns.counters().cluster.is_none() {
            return Err(OfflineError::Nothing { path: path.to_owned() });
        }
        Ok(Image { loaded: reading.loaded, last: reading.last })
    }

    /// The tree.
    pub fn namespace(&self) -> &Namespace {
        &self.loaded.ns
    }

    /// What was arranged beside it.
    pub fn standing(&self) -> &Standing {
        &self.loaded.standing
    }

    /// The last record that it contains.
    pub fn last(&self) -> Txid {
        self.last
    }
}

/// Passes on the records of a log: of one of its files, or all that a directory has.
///
/// # Errors
/// [`OfflineError`]; what came before it is good.
pub fn records(
    path: &Path,
    see: &mut dyn FnMut(Txid, Epoch, &Record) -> Result<(), RecoverError>,
) -> Result<(), OfflineError> {
    let mut each = |txid, epoch, body: &[u8]| {
        let record = Record::decode(body).map_err(unknown)?;
        see(txid, epoch, &record)
    };
    match path.is_dir() {
        true => admin::records(&journal_of(path)?, &mut each)?,
        false => admin::read_log_file(path, &mut each)?,
    }
    Ok(())
}

/// What a NameNode of this version cannot have written. A JobTracker's journal looks the same from outside.
fn unknown(error: CoreError) -> RecoverError {
    match error {
        CoreError::NewerForm { .. } | CoreError::BadRecord | CoreError::BadRow(_) => {
            RecoverError::new(format!("{error}, or this is the metadata of a JobTracker"))
        }
        error => RecoverError::new(error),
    }
}

/// The journal of a NameNode lies below its data directory; its mirrors lie by themselves. A directory that has none is left as it is.
fn journal_of(dir: &Path) -> Result<PathBuf, OfflineError> {
    let below = dir.join("journal");
    let journal = if below.is_dir() { below } else { dir.to_owned() };
    match admin::is_journal(&journal)? {
        true => Ok(journal),
        false => Err(OfflineError::Nothing { path: dir.to_owned() }),
    }
}

/// What has come so far.
#[derive(Default)]
struct Reading {
    loaded: Loaded,
    has_rows: bool,
    last: Txid,
}

impl Reading {
    fn take(&mut self, entry: Entry<'_>) -> Result<(), CoreError> {
        match entry {
            Entry::Row { key, value } => {
                self.has_rows = true;
                self.loaded.load_row(key, value)
            }
            Entry::Record { body, .. } => {
                self.tie()?;
                self.loaded.replay(body)
            }
        }
    }

    /// Makes a tree of the rows, which come before the records.
    fn tie(&mut self) -> Result<(), CoreError> {
        match std::mem::take(&mut self.has_rows) {
            true => self.loaded.ns.finish_load(),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use journal::{Change, Journal, Options, Recover, Recovered};
    use protocol::{ClusterId, DfsPath, InodeId};

    use super::*;
    use crate::core::edit::{Edit, Outcome};

    struct Any;

    impl Recover for Any {
        fn load(&mut self, _: &[u8], _: &[u8]) -> Result<(), RecoverError> {
            Ok(())
        }

        fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
            Ok(())
        }

        fn replay(&mut self, _: Txid, _: &[u8]) -> Result<(), RecoverError> {
            Ok(())
        }

        fn reset(&mut self) {}
    }

    fn open(dir: &Path) -> (Journal, Recovered) {
        let options = Options::new(dir);
        Journal::open(options, &mut Any, Box::new(|_| ()), Box::new(|_| ())).unwrap()
    }

    fn record(edits: Vec<Edit>) -> Vec<u8> {
        Record { call: None, at_ms: 5, edits, outcome: Outcome::Done }.encode()
    }

    fn directory(id: u64, name: &str) -> Edit {
        let (owner, group) = ("ann".to_owned(), "sg".to_owned());
        let (id, parent, name) = (InodeId(id), InodeId::ROOT, name.to_owned());
        Edit::MakeDirectory { id, parent, name, owner, group, mode: 0o755, at_ms: 5 }
    }

    /// A journal with a root and `/a` in its checkpoint, of which there is an image, and `/b` in the log behind them.
    fn filled(dir: &Path) -> PathBuf {
        let (journal, _) = open(dir);
        let (owner, group) = ("ann".to_owned(), "sg".to_owned());
        let format = Edit::Format { cluster: ClusterId([7; 16]), owner, group, at_ms: 4 };
        let edits = vec![format, directory(16_386, "a")];
        let mut state = Loaded::default();
        edits.iter().for_each(|edit| state.ns.apply(edit).unwrap());
        let at = journal.append(vec![record(edits)]);
        let rows = state.ns.take_rows().into_iter();
        journal.checkpoint(at, rows.map(|(key, value)| Change { key, value }).collect());
        assert!(journal.wait_durable(at));
        let image = journal.export_image().unwrap();
        journal.append(vec![record(vec![directory(16_387, "b")])]);
        journal.close();
        image
    }

    fn has(image: &Image, path: &str) -> bool {
        image.namespace().resolve(&DfsPath::parse(path).unwrap()).is_ok()
    }

    #[test]
    fn a_directory_has_the_log_and_an_image_what_it_was_made_of() {
        let home = tempfile::tempdir().unwrap();
        let file = filled(&home.path().join("journal"));
        let all = Image::read(home.path()).unwrap();
        assert!(has(&all, "/a") && has(&all, "/b"));
        assert_eq!(all.last(), Txid(2));
        let image = Image::read(&file).unwrap();
        assert!(has(&image, "/a") && !has(&image, "/b"));
        assert_eq!(image.last(), Txid(1));
    }

    #[test]
    fn records_come_from_a_directory_and_from_a_copied_file() {
        let home = tempfile::tempdir().unwrap();
        filled(home.path());
        let told = |path: &Path| {
            let mut edits = Vec::new();
            let read = records(path, &mut |txid, _, record| {
                edits.push((txid.0, record.edits.len()));
                Ok(())
            });
            read.map(|()| edits)
        };
        assert_eq!(told(home.path()).unwrap(), [(1, 2), (2, 1)]);
        let log = home.path().join("log").join(format!("{:020}.log", 1));
        let copy = home.path().join(log.file_name().unwrap());
        std::fs::copy(&log, &copy).unwrap();
        // An image begins a new file.
        assert_eq!(told(&copy).unwrap(), [(1, 2)]);
        let other = home.path().join("edits");
        std::fs::copy(&log, &other).unwrap();
        let refused = told(&other).unwrap_err();
        assert!(
            matches!(refused, OfflineError::Journal(JournalError::NotALogFile { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn what_is_not_metadata_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let empty = Image::read(home.path()).err();
        assert!(matches!(empty, Some(OfflineError::Nothing { .. })), "{empty:?}");
        let file = filled(&home.path().join("journal"));
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let cut = Image::read(&file).err();
        let is_damage =
            matches!(cut, Some(OfflineError::Journal(JournalError::ImageDamaged { .. })));
        assert!(is_damage, "{cut:?}");
    }
}
