//! Damage to each kind of file of a journal on a real disk with the real sled: what opens is right, or it
//! is refused with the repair command. Never silently wrong, never a panic.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use journal::{Change, Journal, JournalError, Options, Recover, Recovered, Txid, admin};

use crate::support::{Map, body, copy, files, filled, model, open, options};

/// Far more than a start takes.
const START_MAX: Duration = Duration::from_secs(60);

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

/// Nobody waits for what is written into a FIFO that lies in the place of a file: the start goes on without that file, or is refused.
#[test]
fn a_fifo_in_the_place_of_a_file_holds_no_start_up() {
    let home = tempfile::tempdir().unwrap();
    let good = home.path().join("good");
    filled(&options(&good));
    let names = |dir: &str| files(&good.join(dir)).into_iter();
    let all = names("log").chain(names("image")).chain([good.join("epoch")]);
    for file in all.collect::<Vec<_>>() {
        let name = file.strip_prefix(&good).unwrap();
        let bad = home.path().join("bad");
        copy(&good, &bad);
        fs::remove_file(bad.join(name)).unwrap();
        let made = std::process::Command::new("mkfifo").arg(bad.join(name)).status().unwrap();
        assert!(made.success());
        let (ended, end) = mpsc::channel();
        let options = options(&bad);
        thread::spawn(move || ended.send(open(&options).map(|(_, _, map)| map)).unwrap());
        let opened = end.recv_timeout(START_MAX);
        let opened = opened.unwrap_or_else(|_| panic!("{} holds a start up", name.display()));
        assert!(opened.is_err() || opened.unwrap() == model(1500), "{}", name.display());
        fs::remove_dir_all(&bad).unwrap();
    }
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

#[test]
fn one_file_of_a_log_is_read_alone_and_its_damage_is_told() {
    let home = tempfile::tempdir().unwrap();
    filled(&options(home.path()));
    let log = files(&home.path().join("log")).remove(0);
    let copy = home.path().join(log.file_name().unwrap());
    fs::copy(&log, &copy).unwrap();
    let read = |path: &Path| {
        let mut numbers = Vec::new();
        let read = admin::read_log_file(path, &mut |txid, _, _| {
            numbers.push(txid.0);
            Ok(())
        });
        read.map(|()| numbers)
    };
    let numbers = read(&copy).unwrap();
    let first: u64 = log.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    assert!(numbers.len() > 1 && numbers.iter().copied().eq((first..).take(numbers.len())));
    let mut of_directory = Vec::new();
    admin::records(home.path(), &mut |txid, _, _| {
        of_directory.push(txid.0);
        Ok(())
    })
    .unwrap();
    assert!(of_directory.starts_with(&numbers), "{of_directory:?}");

    // The first sector of a record: what is behind it shows that it was there.
    let mut bytes = fs::read(&log).unwrap();
    bytes[700] ^= 1;
    fs::write(&copy, bytes).unwrap();
    let damaged = read(&copy).unwrap_err();
    assert!(matches!(damaged, JournalError::LogFileDamaged { .. }), "{damaged:?}");
    let other = home.path().join("1.log");
    fs::copy(&log, &other).unwrap();
    assert!(matches!(read(&other), Err(JournalError::NotALogFile { .. })));
}
