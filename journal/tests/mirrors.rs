//! Mirrors that were away, that belong to something else, or that do not work: directories that are read as one belong together, and what
//! is reported is what happens.

use std::fs;
use std::path::{Path, PathBuf};

use journal::{Change, JournalError, Options, Txid, admin};

use crate::support::{body, copy, files, filled, model, open, options};

/// Flips a bit in the middle of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

/// A journal with a mirror, copies of both directories from before the last start, and the options for both.
struct Stale {
    home: tempfile::TempDir,
    options: Options,
}

impl Stale {
    fn new() -> Stale {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let options = Options { mirrors: vec![at("m")], ..options(&at("j")) };
        filled(&options);
        for name in ["j", "m"] {
            copy(&at(name), &at(&format!("{name}.old")));
        }
        Stale { home, options }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Puts back what `name` was before.
    fn put_back(&self, name: &str) {
        fs::remove_dir_all(self.at(name)).unwrap();
        copy(&self.at(&format!("{name}.old")), &self.at(name));
    }

    /// One more record, with the mirror as it is now or without it.
    fn append(&self, txid: u64, is_mirrored: bool) {
        let mirrors = if is_mirrored { self.options.mirrors.clone() } else { Vec::new() };
        let (journal, recovered, map) = open(&Options { mirrors, ..self.options.clone() }).unwrap();
        assert!((recovered.last, map) == (Txid(txid - 1), model(txid - 1)), "{recovered:?}");
        assert!(journal.wait_durable(journal.append(vec![body(txid)])));
        journal.close();
    }

    fn refusal(&self) -> String {
        let error = open(&self.options).err().expect("these do not belong together");
        assert!(matches!(error, JournalError::OtherJournal { .. }), "{error:?}");
        assert!(admin::verify_with(&self.options).is_err(), "verify says what a start does");
        error.to_string()
    }
}

/// One of the two was away for some starts: it is a part of the other and nothing else.
#[test]
fn a_directory_that_was_away_is_made_whole() {
    for away in ["m", "j"] {
        let stale = Stale::new();
        for txid in 1501..=1503 {
            stale.append(txid, true);
        }
        stale.put_back(away);
        stale.append(1504, true);
        fs::remove_dir_all(stale.at(if away == "m" { "j" } else { "m" })).unwrap();
        stale.append(1505, true);
    }
}

#[test]
fn a_mirror_that_was_away_is_not_taken_for_the_whole() {
    let stale = Stale::new();
    stale.append(1501, false);
    // The first disk loses its log: the mirror has older records, but not this one.
    fs::remove_dir_all(stale.at("j/log")).unwrap();
    let error = open(&stale.options).err().expect("record 1501 is lost");
    assert!(matches!(error, JournalError::LogMissing { .. }), "{error:?}");
}

#[test]
fn directories_that_went_different_ways_are_not_read_as_one() {
    // The first disk comes back after the mirror, which had been away, was started from.
    let stale = Stale::new();
    stale.append(1501, false);
    fs::rename(stale.at("j"), stale.at("j.newer")).unwrap();
    stale.append(1501, true);
    fs::remove_dir_all(stale.at("j")).unwrap();
    fs::rename(stale.at("j.newer"), stale.at("j")).unwrap();
    let text = stale.refusal();
    assert!(text.contains("log_dirs") && text.contains("/m "), "{text}");
    // Emptied, the mirror is filled.
    fs::remove_dir_all(stale.at("m")).unwrap();
    stale.append(1502, true);

    // The first directory is put back from a backup while the mirror is away.
    let stale = Stale::new();
    stale.append(1501, true);
    stale.put_back("j");
    stale.append(1501, false);
    stale.refusal();
}

#[test]
fn a_mirror_of_another_journal_is_refused() {
    let (one, other) = (Stale::new(), Stale::new());
    fs::remove_dir_all(one.at("m")).unwrap();
    copy(&other.at("m"), &one.at("m"));
    one.refusal();
    let before = files(&one.at("m/log"));
    one.refusal();
    assert_eq!(files(&one.at("m/log")), before, "a refusal changes nothing");
}

/// A mirror without a readable mark is rebuilt from the first directory; nothing of it is deleted.
#[test]
fn a_mirror_of_which_nothing_tells_whose_it_is_is_put_aside_and_filled() {
    let harms: [fn(&Path); 2] = [|path| fs::remove_file(path).unwrap(), flip];
    for harm in harms {
        let (one, other) = (Stale::new(), Stale::new());
        other.append(1501, true);
        fs::remove_dir_all(one.at("m")).unwrap();
        copy(&other.at("m"), &one.at("m"));
        harm(&one.at("m/epoch"));
        let report = admin::verify_with(&one.options).unwrap();
        assert!(report.start_from.is_some() && !report.problems.is_empty(), "{report:?}");
        one.append(1501, true);
        let kept = files(&one.at("m/log"));
        assert!(kept.iter().any(|path| path.to_str().unwrap().contains(".bad-")), "{kept:?}");
        let (journal, _, _) = open(&one.options).unwrap();
        journal.export_image().unwrap();
        drop(journal);
        fs::remove_dir_all(one.at("j")).unwrap();
        one.append(1502, true);
    }
}

/// Also where the first disk is lost, too: then there is nothing else to believe.
#[test]
fn a_mirror_whose_mark_is_lost_makes_up_for_the_first_directory() {
    let stale = Stale::new();
    fs::remove_dir_all(stale.at("j")).unwrap();
    flip(&stale.at("m/epoch"));
    stale.append(1501, true);
}

/// An empty first directory is a new journal only if every mirror can say that it holds nothing.
#[test]
fn no_new_journal_is_begun_while_a_mirror_cannot_be_read() {
    let stale = Stale::new();
    fs::remove_dir_all(stale.at("j")).unwrap();
    fs::rename(stale.at("m/log"), stale.at("m/log.away")).unwrap();
    fs::write(stale.at("m/log"), "no directory").unwrap();
    let error = open(&stale.options).err().expect("the mirror may hold everything");
    assert!(matches!(error, JournalError::MirrorNeeded { .. }), "{error:?}");
    assert!(error.to_string().contains("log_dirs"), "{error}");
    fs::remove_file(stale.at("m/log")).unwrap();
    fs::rename(stale.at("m/log.away"), stale.at("m/log")).unwrap();
    stale.append(1501, true);
}

/// The disk of a mirror that cannot be written: it is left out of images, keeps its log, and says so.
#[test]
fn a_mirror_without_room_for_an_image_is_told_and_stays_enough() {
    let stale = Stale::new();
    let (journal, _, _) = open(&stale.options).unwrap();
    let txid = journal.append(vec![body(1501)]);
    let rows = model(1501).rows.into_iter();
    let changes = rows.map(|(key, value)| Change { key, value: Some(value) });
    journal.checkpoint(txid, changes.collect());
    assert!(journal.wait_durable(txid));
    while journal.applied() < txid {
        std::thread::yield_now();
    }
    assert_eq!(journal.dirs(), [stale.at("j"), stale.at("m")]);
    let images = stale.at("m/image");
    fs::rename(&images, stale.at("m/image.away")).unwrap();
    fs::write(&images, "no directory").unwrap();
    journal.export_image().unwrap();
    let left_out = journal.left_out();
    assert_eq!((left_out.len(), journal.stats().left_out), (1, 1));
    assert_eq!(left_out[0].dir, stale.at("m"));
    fs::remove_file(&images).unwrap();
    fs::rename(stale.at("m/image.away"), &images).unwrap();
    copy(&stale.at("m"), &stale.at("alone"));
    journal.export_image().unwrap();
    assert_eq!(journal.left_out(), []);
    drop(journal);
    let (_, recovered, map) = open(&options(&stale.at("alone"))).unwrap();
    assert!((recovered.last, map) == (Txid(1501), model(1501)), "{recovered:?}");
}
