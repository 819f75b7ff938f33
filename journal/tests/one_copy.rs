//! Damage at every place of a log on a real disk, with the real sled: whatever an undamaged byte can still prove is kept, what was
//! acknowledged is never dropped silently, and `verify` says what a start does.

use std::fs;
use std::path::{Path, PathBuf};

use journal::{Change, Journal, JournalError, Options, Recover, RecoverError, Txid, admin};

use crate::support::copy;

/// The last value of each key; a record is a key and a value.
#[derive(Clone, Debug, Default, PartialEq)]
struct Map(std::collections::BTreeMap<u8, Vec<u8>>);

impl Recover for Map {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        self.0.insert(key[0], value.to_vec());
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, body: &[u8]) -> Result<(), RecoverError> {
        self.0.insert(body[0], body[1..].to_vec());
        Ok(())
    }

    fn reset(&mut self) {
        self.0.clear();
    }
}

const RECORDS: u64 = 9;

fn body(txid: u64) -> Vec<u8> {
    let mut body = vec![(txid % 5) as u8];
    body.extend(std::iter::repeat_n(txid as u8, 30 + 120 * (txid % 4) as usize));
    body
}

fn model(last: u64) -> Map {
    let mut map = Map::default();
    (1..=last).for_each(|txid| map.replay(Txid(txid), &body(txid)).unwrap());
    map
}

fn open(options: &Options) -> Result<(Journal, journal::Recovered, Map), JournalError> {
    let mut map = Map::default();
    let fatal = |error: &JournalError| panic!("stopped: {error}");
    let (journal, recovered) =
        Journal::open(options.clone(), &mut map, Box::new(|_| ()), Box::new(fatal))?;
    Ok((journal, recovered, map))
}

fn options(dir: &Path, mirror: bool) -> Options {
    let mirrors = if mirror { vec![dir.join("mirror")] } else { Vec::new() };
    Options { mirrors, cache_bytes: 1 << 20, ..Options::new(dir) }
}

/// Journals with `RECORDS` records, the checkpoint as of `applied`: one after a clean stop, one as a kill leaves it.
fn journals(home: &Path, applied: u64, mirror: bool) -> [PathBuf; 2] {
    let [stopped, killed] = ["stopped", "killed"].map(|name| home.join(name));
    let (journal, _, _) = open(&options(&stopped, mirror)).unwrap();
    for txid in 1..=RECORDS {
        // Batches of one record, and the last of two.
        if txid == RECORDS {
            break;
        }
        let records = if txid == RECORDS - 1 { txid..=txid + 1 } else { txid..=txid };
        let last = journal.append(records.map(body).collect());
        assert!(journal.wait_durable(last));
    }
    if applied > 0 {
        let rows = model(applied).0.into_iter();
        let changes = rows.map(|(key, value)| Change { key: vec![key], value: Some(value) });
        journal.checkpoint(Txid(applied), changes.collect());
        while journal.applied() < Txid(applied) {
            std::thread::yield_now();
        }
    }
    copy(&stopped, &killed);
    journal.close();
    drop(journal);
    [stopped, killed]
}

fn segment(dir: &Path) -> PathBuf {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
    assert_eq!(paths.len(), 1, "{paths:?}");
    paths.remove(0)
}

/// Bytes of the log that are not room for more.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1
}

/// Opens a damaged copy of `good`; what `verify` says first must be what happens.
fn opened(good: &Path, mirror: bool, harm: impl FnOnce(&Path)) -> Result<u64, JournalError> {
    let home = tempfile::tempdir().unwrap();
    let bad = home.path().join("bad");
    copy(good, &bad);
    harm(&bad);
    let report = admin::verify_with(&options(&bad, mirror)).unwrap();
    let opened = open(&options(&bad, mirror));
    assert_eq!(report.start_from.is_some(), opened.is_ok(), "{report:?} {:?}", opened.err());
    let (_, recovered, map) = opened?;
    assert!(map == model(recovered.last.0), "wrong rows: {recovered:?}");
    Ok(recovered.last.0)
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1 << (at % 8);
    fs::write(path, bytes).unwrap();
}

/// Bytes from one place to the next: prime, so that all parts of sectors come up.
const STEP: usize = 131;

#[test]
fn a_flip_in_a_log_that_the_checkpoint_covers_refuses_no_start() {
    let home = tempfile::tempdir().unwrap();
    for good in journals(home.path(), RECORDS, false) {
        let log = fs::read(segment(&good.join("log"))).unwrap();
        for at in (0..used(&log)).step_by(STEP) {
            let last = opened(&good, false, |dir| flip(&segment(&dir.join("log")), at));
            assert_eq!(last.unwrap(), RECORDS, "{} byte {at}", good.display());
        }
    }
}

#[test]
fn a_flip_in_the_only_log_drops_nothing_without_a_word() {
    let home = tempfile::tempdir().unwrap();
    for good in journals(home.path(), 0, false) {
        let log = fs::read(segment(&good.join("log"))).unwrap();
        let mut refused = 0;
        for at in (0..used(&log)).step_by(STEP) {
            match opened(&good, false, |dir| flip(&segment(&dir.join("log")), at)) {
                Ok(last) => assert_eq!(last, RECORDS, "{} byte {at}", good.display()),
                Err(error) => {
                    refused += 1;
                    let text = error.to_string();
                    assert!(text.contains("hanno admin metadata repair --dir"), "{at}: {text}");
                }
            }
        }
        assert!(refused > 0);
    }
}

#[test]
fn a_flip_in_either_copy_is_healed_from_the_other() {
    let home = tempfile::tempdir().unwrap();
    for good in journals(home.path(), 0, true) {
        let log = fs::read(segment(&good.join("log"))).unwrap();
        for at in (0..used(&log)).step_by(STEP) {
            let last = opened(&good, true, |dir| {
                flip(&segment(&dir.join("log")), at);
                // Another place of the other copy: each has what the other lost.
                flip(&segment(&dir.join("mirror/log")), (at + used(&log) / 2) % used(&log));
            });
            assert_eq!(last.unwrap(), RECORDS, "{} byte {at}", good.display());
        }
    }
}

#[test]
fn an_emptied_log_beside_an_epoch_is_an_error() {
    let home = tempfile::tempdir().unwrap();
    let harms: [NamedHarm; 5] = [
        ("no log", |dir| fs::remove_dir_all(dir.join("log")).unwrap()),
        ("moved away", |dir| fs::rename(dir.join("log"), dir.join("log.old")).unwrap()),
        ("no segment", |dir| fs::remove_file(segment(&dir.join("log"))).unwrap()),
        ("emptied", |dir| fs::write(segment(&dir.join("log")), "").unwrap()),
        ("zeros", |dir| fs::write(segment(&dir.join("log")), [0; 8192]).unwrap()),
    ];
    for applied in [0, RECORDS - 4] {
        for good in journals(&home.path().join(applied.to_string()), applied, false) {
            for (what, harm) in harms {
                let text = opened(&good, false, harm).err().map(|error| error.to_string());
                let text = text.unwrap_or_else(|| panic!("{what} {applied}: a new journal"));
                assert!(text.contains("hanno admin metadata repair --dir"), "{what}: {text}");
            }
        }
    }
}

#[test]
fn after_a_clean_stop_a_log_that_is_cut_anywhere_is_an_error_or_whole() {
    let home = tempfile::tempdir().unwrap();
    for applied in [0, RECORDS] {
        let [stopped, killed] = journals(&home.path().join(applied.to_string()), applied, false);
        let log = fs::read(segment(&stopped.join("log"))).unwrap();
        for at in (0..used(&log)).step_by(STEP) {
            let cut = |dir: &Path| {
                fs::write(segment(&dir.join("log")), &log[..at]).unwrap();
            };
            match opened(&stopped, false, cut) {
                Ok(last) => assert_eq!(last, RECORDS, "cut at {at}"),
                Err(error) if applied == 0 => {
                    assert!(error.to_string().contains("hanno admin metadata repair"), "{error}");
                }
                Err(error) => panic!("cut at {at}, but the checkpoint has all: {error}"),
            }
            // A kill leaves no word of how far the log went, but the checkpoint proves what it holds.
            if let Ok(last) = opened(&killed, false, cut) {
                assert!(last >= applied, "cut at {at}: {last}");
            }
        }
    }
}

type NamedHarm = (&'static str, fn(&Path));

fn log(dir: &Path) -> PathBuf {
    segment(&dir.join("log"))
}

/// Record 4 is in the fourth sector.
fn flip_record_4(dir: &Path) {
    flip(&log(dir), 4 * 512 + 100);
}

/// Records 8 and 9 are the last batch.
fn flip_the_last(dir: &Path) {
    flip(&log(dir), used(&fs::read(log(dir)).unwrap()) - 100);
}

fn given(from: u64, to: Option<u64>, is_readable: bool) -> admin::GivenUp {
    admin::GivenUp { from: Txid(from), to: to.map(Txid), is_readable }
}

/// What repair says is what it does: the state up to the first lost record, nothing else is touched, nothing is deleted.
#[test]
fn repair_tells_what_it_gives_up_and_then_the_journal_starts() {
    let home = tempfile::tempdir().unwrap();
    let harms: [NamedHarm; 6] = [
        ("whole", |_| ()),
        ("flip", flip_record_4),
        ("covered flip", flip_record_4),
        ("last", flip_the_last),
        ("header", |dir| flip(&log(dir), 20)),
        ("no log", |dir| fs::remove_dir_all(dir.join("log")).unwrap()),
    ];
    let outcomes = [
        (0, RECORDS, vec![]),
        (0, 3, vec![given(4, Some(4), false), given(5, Some(9), true)]),
        (5, RECORDS, vec![]),
        (0, 7, vec![given(8, Some(9), false)]),
        (0, RECORDS, vec![]),
        (5, 5, vec![given(6, None, false)]),
    ];
    for ((what, harm), (applied, kept, gives_up)) in harms.into_iter().zip(outcomes) {
        let [_, killed] = journals(&home.path().join(what), applied, false);
        harm(&killed);
        check_repair(what, &killed, kept, &gives_up);
    }
}

fn check_repair(what: &str, dir: &Path, kept: u64, gives_up: &[admin::GivenUp]) {
    let options = options(dir, false);
    assert_eq!(open(&options).is_ok(), gives_up.is_empty(), "{what}");
    let repair = admin::Repair::plan(&options).unwrap();
    assert_eq!((repair.kept(), repair.given_up()), (Txid(kept), gives_up), "{what}");
    let mut readable = 0;
    let mut count = |_: Txid, _: journal::Epoch, _: &[u8]| {
        readable += 1;
        Ok(())
    };
    repair.readable(&mut count).unwrap();
    let told = gives_up.iter().filter(|up| up.is_readable);
    assert_eq!(readable, told.map(|up| up.to.unwrap().0 - up.from.0 + 1).sum::<u64>(), "{what}");
    let before: Vec<Vec<u8>> =
        files(&dir.join("log")).iter().map(|path| fs::read(path).unwrap()).collect();
    repair.apply().unwrap();
    let (journal, recovered, map) =
        open(&options).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(recovered.last == Txid(kept) && map == model(kept), "{what}: {recovered:?}");
    assert!(journal.wait_durable(journal.append(vec![body(kept + 1)])));
    journal.close();
    drop(journal);
    let (_, recovered, map) = open(&options).unwrap();
    assert!(recovered.last == Txid(kept + 1) && map == model(kept + 1), "{what}: {recovered:?}");
    if !gives_up.is_empty() {
        let after: Vec<_> =
            files(&dir.join("log")).iter().map(|path| fs::read(path).unwrap()).collect();
        assert!(before.iter().all(|file| after.contains(file)), "{what}: something was deleted");
    }
    // Nothing more is given up by asking again.
    assert_eq!(admin::Repair::plan(&options).unwrap().given_up(), [], "{what}");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}
