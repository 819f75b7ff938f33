//! Damage to each kind of file of a journal on a real disk with the real sled: what opens is right, or it
//! is refused with the repair command. Never silently wrong, never a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use journal::{
    Change, Journal, JournalError, Options, Recover, RecoverError, Recovered, Txid, admin,
};

#[derive(Clone, Debug, Default, PartialEq)]
struct Map {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Map {
    fn edit(&mut self, body: &[u8]) {
        self.rows.insert(body[..2].to_vec(), body[2..].to_vec());
    }
}

impl Recover for Map {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        match self.rows.insert(key.to_vec(), value.to_vec()) {
            None => Ok(()),
            Some(_) => Err(RecoverError::new("a row came twice")),
        }
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, body: &[u8]) -> Result<(), RecoverError> {
        self.edit(body);
        Ok(())
    }

    fn reset(&mut self) {
        self.rows.clear();
    }
}

fn body(txid: u64) -> Vec<u8> {
    let mut body = ((txid * 7919 % 700) as u16).to_be_bytes().to_vec();
    body.extend_from_slice(&vec![txid as u8; 10 + (txid % 200) as usize]);
    body
}

/// The state after `last` records.
fn model(last: u64) -> Map {
    let mut map = Map::default();
    (1..=last).for_each(|txid| map.edit(&body(txid)));
    map
}

fn open(options: &Options) -> Result<(Journal, Recovered, Map), JournalError> {
    let mut map = Map::default();
    let fatal = |error: &JournalError| panic!("stopped: {error}");
    let (journal, recovered) =
        Journal::open(options.clone(), &mut map, Box::new(|_| ()), Box::new(fatal))?;
    Ok((journal, recovered, map))
}

/// A journal with records 1 to 1500, checkpoints up to 1200, and images as of 600 and 1200.
fn filled(options: &Options) {
    let (journal, _, _) = open(options).unwrap();
    for round in 0..5 {
        let from = round * 300;
        let txid = journal.append((from + 1..=from + 300).map(body).collect());
        assert!(journal.wait_durable(txid));
        if round < 4 {
            let before = model(from).rows;
            let changes = model(from + 300)
                .rows
                .into_iter()
                .filter(|(key, value)| before.get(key) != Some(value))
                .map(|(key, value)| Change { key, value: Some(value) });
            journal.checkpoint(txid, changes.collect());
        }
        if round % 2 == 1 {
            let image = journal.export_image().unwrap();
            assert!(image.is_file());
        }
    }
    journal.close();
    assert_eq!(journal.applied(), Txid(1200));
}

fn options(dir: &Path) -> Options {
    Options { segment_bytes_max: 48 << 10, cache_bytes: 4 << 20, ..Options::new(dir) }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.is_file());
    paths.sort();
    paths
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Cut,
}

fn damage(path: &Path, how: Damage, place: u64) {
    let mut bytes = fs::read(path).unwrap();
    if bytes.is_empty() {
        return;
    }
    let at = (place % bytes.len() as u64) as usize;
    match how {
        Damage::Flip => bytes[at] ^= 1 << (place % 8),
        Damage::Zero => {
            let end = bytes.len().min(at + 4096);
            bytes[at..end].fill(0);
        }
        Damage::Cut => bytes.truncate(at),
    }
    fs::write(path, bytes).unwrap();
}

/// Damages the files that `choose` names, one copy of the journal per place, and opens each.
fn each_damage(
    places: u64,
    choose: impl Fn(&Path) -> Vec<PathBuf>,
    check: impl Fn(&str, Result<(Journal, Recovered, Map), JournalError>, &Path),
) {
    let home = tempfile::tempdir().unwrap();
    let good = home.path().join("good");
    filled(&options(&good));
    for how in [Damage::Flip, Damage::Zero, Damage::Cut] {
        for place in 0..places {
            let bad = home.path().join("bad");
            copy(&good, &bad);
            let victims = choose(&bad);
            let victim = &victims[place as usize % victims.len()];
            damage(victim, how, place * 7_368_787 + place);
            let what = format!("{how:?} {place} in {}", victim.display());
            check(&what, open(&options(&bad)), &bad);
            fs::remove_dir_all(&bad).unwrap();
        }
    }
}

/// Whatever happens to it, everything is restored from image and log, and works on.
fn is_whole(what: &str, opened: Result<(Journal, Recovered, Map), JournalError>, dir: &Path) {
    let (journal, recovered, map) = opened.unwrap_or_else(|error| panic!("{what}: {error:?}"));
    assert_eq!(recovered.last, Txid(1500), "{what}");
    assert!(map == model(1500), "{what}: wrong rows; {:?}", recovered.notes);
    let txid = journal.append(vec![body(1501)]);
    assert_eq!(txid, Txid(1501));
    let rows = model(1501).rows.into_iter();
    journal.checkpoint(txid, rows.map(|(key, value)| Change { key, value: Some(value) }).collect());
    drop(journal);
    let (journal, recovered, map) = open(&options(dir)).unwrap();
    assert_eq!((recovered.last, journal.applied()), (Txid(1501), Txid(1501)), "{what}");
    assert!(map == model(1501), "{what}: wrong rows after a second start");
}

#[test]
fn damage_in_sled() {
    each_damage(20, |dir| vec![dir.join("sled/db")], is_whole);
}

#[test]
fn damage_in_the_small_files_of_sled() {
    let choose = |dir: &Path| {
        let mut paths = files(&dir.join("sled"));
        paths.retain(|path| !path.ends_with("db"));
        assert!(paths.len() >= 2, "conf and a snapshot: {paths:?}");
        paths
    };
    each_damage(12, choose, is_whole);
}

#[test]
fn damage_in_images_and_the_epoch() {
    let choose = |dir: &Path| {
        let mut paths = files(&dir.join("image"));
        assert_eq!(paths.len(), 2);
        paths.push(dir.join("epoch"));
        paths
    };
    each_damage(9, choose, is_whole);
}

#[test]
fn damage_in_sled_and_the_newest_image() {
    let home = tempfile::tempdir().unwrap();
    filled(&options(home.path()));
    damage(&files(&home.path().join("image"))[1], Damage::Flip, 12345);
    fs::write(home.path().join("sled/db"), b"rubbish").unwrap();
    for snapshot in files(&home.path().join("sled")) {
        fs::write(snapshot, b"rubbish").unwrap();
    }
    is_whole("both", open(&options(home.path())), home.path());
    assert!(home.path().join("sled.bad-1").is_dir(), "the bad one is kept");
}

#[test]
fn no_sled_at_all() {
    let home = tempfile::tempdir().unwrap();
    filled(&options(home.path()));
    fs::remove_dir_all(home.path().join("sled")).unwrap();
    is_whole("no sled", open(&options(home.path())), home.path());
}

#[test]
fn an_unfinished_snapshot_of_sled_does_not_stop_a_start() {
    let home = tempfile::tempdir().unwrap();
    filled(&options(home.path()));
    fs::write(home.path().join("sled/snap.00000000000FF000.generating"), b"").unwrap();
    let opened = open(&options(home.path())).unwrap();
    assert!(opened.1.notes.iter().any(|note| note.contains(".generating")), "{:?}", opened.1);
    is_whole("snapshot", Ok(opened), home.path());
}

#[test]
fn damage_in_the_only_log() {
    let choose = |dir: &Path| files(&dir.join("log"));
    each_damage(25, choose, |what, opened, dir| match opened {
        Ok((_, recovered, map)) => {
            // It was stopped cleanly: there is no end that could be a torn write.
            assert_eq!(recovered.last, Txid(1500), "{what}: {recovered:?}");
            assert!(map == model(1500), "{what}: wrong rows");
        }
        Err(error) => {
            let command = format!("hanno admin metadata repair --dir {}", dir.display());
            assert!(error.to_string().contains(&command), "{what}: {error}");
            let report = admin::verify(dir).unwrap();
            assert!(report.start_from.is_none() && !report.problems.is_empty(), "{report:?}");
        }
    });
}

#[test]
fn a_mirror_makes_up_for_the_loss_of_the_first_directory() {
    let home = tempfile::tempdir().unwrap();
    let (first, mirror) = (home.path().join("j"), home.path().join("m"));
    let two = Options { mirrors: vec![mirror.clone()], ..options(&first) };
    filled(&two);
    for path in files(&first.join("log")) {
        damage(&path, Damage::Flip, 777);
    }
    let report = admin::verify_with(&two).unwrap();
    assert!(!report.problems.is_empty() && report.start_from == Some(Txid(1200)), "{report:?}");
    let (journal, recovered, map) = open(&two).unwrap();
    assert_eq!((recovered.last, map), (Txid(1500), model(1500)));
    drop(journal);
    let report = admin::verify_with(&two).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    // Segments were pruned: the log alone is not enough.
    assert!(report.log_first > Txid(1), "{report:?}");
    let names = |dir: &Path, part: &str| -> Vec<_> {
        let paths = files(&dir.join(part)).into_iter();
        let names = paths.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.filter(|name| !name.contains(".bad-")).collect()
    };

    // A mirror is a journal by itself.
    let report = admin::verify(&mirror).unwrap();
    assert_eq!((report.start_from, report.problems), (Some(Txid(1200)), Vec::new()));
    let mut map = Map::default();
    admin::dump(&mirror, &mut |entry| match entry {
        admin::Entry::Row { key, value } => map.load(key, value),
        admin::Entry::Record { txid, body, .. } => map.replay(txid, body),
    })
    .unwrap();
    assert!(map == model(1500), "a mirror is dumped from its image");

    for lost in [&first, &mirror, &first] {
        fs::remove_dir_all(lost).unwrap();
        let (journal, recovered, map) = open(&two).unwrap();
        assert!((recovered.last, map) == (Txid(1500), model(1500)), "{recovered:?}");
        // What was asked for before comes first.
        journal.export_image().unwrap();
        assert_eq!(journal.left_out(), []);
        drop(journal);
        for part in ["log", "image"] {
            let [ours, theirs] = [&first, &mirror].map(|dir| names(dir, part));
            assert!(ours.iter().all(|name| theirs.contains(name)), "{ours:?} {theirs:?}");
        }
        let report = admin::verify_with(&two).unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
    }
}

#[test]
fn verify_and_dump_say_what_is_there() {
    let home = tempfile::tempdir().unwrap();
    filled(&options(home.path()));
    let report = admin::verify(home.path()).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!((report.log_last, report.store_applied), (Txid(1500), Some(Txid(1200))));
    let rows = model(1200).rows.len() as u64;
    assert_eq!(report.images, [(Txid(1200), rows), (Txid(600), model(600).rows.len() as u64)]);
    assert!(report.log_first > Txid(1) && report.log_first <= Txid(601), "{report:?}");

    let mut map = Map::default();
    let mut records = 0;
    admin::dump(home.path(), &mut |entry| {
        match entry {
            admin::Entry::Row { key, value } => map.load(key, value)?,
            admin::Entry::Record { txid, body, .. } => {
                records += 1;
                map.replay(txid, body)?;
            }
        }
        Ok(())
    })
    .unwrap();
    assert_eq!((map, records), (model(1500), 300));
}

#[test]
fn the_second_opener_is_told_who_has_it() {
    let home = tempfile::tempdir().unwrap();
    let (journal, recovered, _) = open(&options(home.path())).unwrap();
    assert!(recovered.fresh && recovered.notes.is_empty(), "{recovered:?}");
    for error in
        [open(&options(home.path())).err().unwrap(), admin::verify(home.path()).err().unwrap()]
    {
        let pid = format!("process {}", std::process::id());
        assert!(error.to_string().contains(&pid), "{error}");
    }
    journal.close();
    journal.close();
    drop(journal);
    let (_, again, _) = open(&options(home.path())).unwrap();
    assert!(again.fresh && again.epoch > recovered.epoch, "{again:?}");
}

/// A row or record over its limit stops the journal once, and nothing after it is acknowledged.
#[test]
fn limits_stop_the_journal() {
    for case in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let message = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::new(AtomicU64::new(0));
        let fatal = {
            let message = message.clone();
            move |error: &JournalError| message.lock().unwrap().push(error.to_string())
        };
        let observer = {
            let seen = seen.clone();
            move |txid: Txid| seen.store(txid.0, Ordering::SeqCst)
        };
        let mut map = Map::default();
        let (journal, _) =
            Journal::open(options(home.path()), &mut map, Box::new(observer), Box::new(fatal))
                .unwrap();
        let txid = journal.append(vec![body(1)]);
        assert!(journal.wait_durable(txid));
        let row =
            |key: usize, value: usize| Change { key: vec![1; key], value: Some(vec![0; value]) };
        match case {
            0 => drop(journal.append(vec![vec![0; journal::BODY_BYTES_MAX + 1]])),
            1 => journal.checkpoint(txid, vec![row(1, journal::VALUE_BYTES_MAX + 1)]),
            _ => journal.checkpoint(txid, vec![row(journal::KEY_BYTES_MAX + 1, 1)]),
        }
        let later = journal.append(vec![body(2)]);
        assert!(!journal.wait_durable(later));
        assert!(matches!(journal.export_image(), Err(JournalError::Stopped)));
        journal.close();
        assert_eq!(seen.load(Ordering::SeqCst), 1);
        let messages = message.lock().unwrap();
        assert_eq!(messages.len(), 1);
        assert!(messages[0].contains("over the limit of"), "{messages:?}");
    }
}
