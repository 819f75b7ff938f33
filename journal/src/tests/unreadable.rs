//! Sectors that the disk does not return: they count as damaged ones, for the start and for those who examine a journal.

use super::*;
use crate::admin;

/// A journal with several segments, where the checkpoint has all but the last `behind` records.
fn filled(seed: u64, mirrors: &[&str], behind: u64, is_closed: bool) -> Run {
    let mut run = Run::new(seed, mirrors);
    run.start().unwrap();
    for number in 0..8u8 {
        if u64::from(number) + behind == 8 {
            run.step(&Op::Checkpoint).unwrap();
        }
        let body = vec![number % 5; 100 + 300 * usize::from(number % 3)];
        run.step(&Op::Commit(vec![body])).unwrap();
    }
    if behind == 0 {
        run.step(&Op::Checkpoint).unwrap();
    }
    if is_closed {
        run.started.as_mut().unwrap().log.close().unwrap();
    }
    run.started = None;
    run
}

/// The same machine, harmed in another way; what it holds is compared with the same history.
fn harmed(run: &Run, mirrors: &[&str], harm: impl Fn(&SimWorld)) -> Run {
    let world = run.world.fork();
    harm(&world);
    Run {
        places: places(&world, mirrors),
        world,
        history: run.history.clone(),
        acknowledged: run.acknowledged,
        applied: run.applied,
        may_lose_engine: false,
        epoch: run.epoch,
        map: Map::default(),
        started: None,
        is_doubled: false,
    }
}

/// What examining a harmed journal predicts, and how it starts. `start` checks that nothing acknowledged is lost.
fn outcome(mut run: Run) -> (Option<Txid>, Result<Run, JournalError>) {
    let report = admin::report(&admin::survey_of(run.places.clone()).unwrap());
    assert!(!report.problems.is_empty(), "{report:?}");
    let started = run.start();
    assert_eq!(report.start_from.is_some(), started.is_ok(), "{report:?} {:?}", started.err());
    (report.start_from, started.map(|()| run))
}

/// Harms each sector of each log file in `dir`, once so that it cannot be read and once so that it is other bytes, and returns how often that was survived.
fn compare_everywhere(run: &Run, mirrors: &[&str], dir: &str) -> (usize, usize) {
    let (mut survived, mut refused) = (0, 0);
    for path in run.world.files(dir) {
        let mut sectors = 0;
        run.world.tamper(&path, |bytes| sectors = bytes.len() / SECTOR_BYTES);
        for sector in 0..sectors {
            let place = format!("{} sector {sector}", path.display());
            let (base, unread) = outcome(harmed(run, mirrors, |world| world.spoil(&path, sector)));
            let (other, damaged) = outcome(harmed(run, mirrors, |world| {
                world.tamper(&path, |bytes| bytes[sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(1));
            }));
            assert_eq!((base, unread.is_ok()), (other, damaged.is_ok()), "{place}");
            match unread {
                Ok(mut started) => {
                    survived += 1;
                    // It goes on, and starts again.
                    started.step(&Op::Commit(vec![vec![9, 9]])).unwrap();
                    started.start().unwrap_or_else(|error| panic!("{place}: {error}"));
                }
                Err(error) => {
                    refused += 1;
                    let JournalError::LogUnread { path: told, source, .. } = error else {
                        panic!("{place}: {error}")
                    };
                    assert_eq!((told, source.raw_os_error()), (path.clone(), Some(5)), "{place}");
                }
            }
        }
    }
    (survived, refused)
}

#[test]
fn an_unreadable_sector_of_the_log_is_a_hole_that_the_checkpoint_may_cover() {
    for is_closed in [false, true] {
        let (survived, refused) = compare_everywhere(&filled(1, ONE, 0, is_closed), ONE, "/j/log");
        assert!(survived > 10, "{survived} {refused}");
        assert!(!is_closed || refused == 0, "the checkpoint has everything");
        let (survived, refused) = compare_everywhere(&filled(2, ONE, 3, is_closed), ONE, "/j/log");
        assert!(survived > 5 && refused > 2, "{survived} {refused}");
    }
}

#[test]
fn an_unreadable_sector_of_one_copy_is_read_from_the_other() {
    let run = filled(3, TWO, 8, false);
    for dir in ["/j/log", "/m/log"] {
        let (survived, refused) = compare_everywhere(&run, TWO, dir);
        assert!(survived > 10 && refused == 0, "{survived} {refused}");
    }
}

#[test]
fn a_log_file_of_which_nothing_can_be_read_is_kept() {
    let run = filled(4, ONE, 0, false);
    let path = run.world.files("/j/log").remove(0);
    let world = run.world.fork();
    let (base, started) = outcome(harmed(&run, ONE, |world| {
        (0..100).for_each(|sector| world.spoil(&path, sector));
    }));
    assert_eq!(base, Some(Txid(8)));
    let mut bytes = Vec::new();
    world.tamper(&path, |all| bytes = all.clone());
    let aside = path.with_file_name(format!("{}.bad-1", path.file_name().unwrap().display()));
    started.unwrap().world.tamper(&aside, |kept| assert!(*kept == bytes));
}

/// An error that does not come again has no consequence.
#[test]
fn a_read_that_fails_once_is_no_damage() {
    let run = filled(5, ONE, 0, false);
    for at in 1.. {
        let mut once = harmed(&run, ONE, |world| world.plan(at, Fault::Io));
        once.may_lose_engine = true;
        let started = once.start();
        if !once.world.has_fired() {
            break;
        }
        if started.is_ok() {
            assert!(!once.started.as_ref().unwrap().image_wanted, "operation {at}");
        }
    }
}

/// The marks of starts are read before the log.
#[test]
fn an_unreadable_mark_is_a_damaged_one() {
    let run = filled(6, ONE, 2, false);
    let (base, started) = outcome(harmed(&run, ONE, |world| world.spoil(Path::new("/j/epoch"), 0)));
    assert_eq!(base, Some(Txid(6)));
    let notes = started.unwrap().started.unwrap().recovered.notes;
    assert!(notes.iter().any(|note| note.contains("/j/epoch is damaged")), "{notes:?}");
}
