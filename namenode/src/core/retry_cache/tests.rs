//! What is kept, for whom and for how long; rows of the checkpoint; bounds.

use std::collections::BTreeMap;

use protocol::{CallId, ClientId, ErrorKind, RemoteError};

use super::*;

fn key(number: u64) -> CallKey {
    CallKey { call: CallId { client: ClientId([1; 16]), number }, index: 0 }
}

fn at(ms: u64) -> Now {
    Now { mono_ms: ms, wall_ms: ms }
}

fn refused() -> Outcome {
    Outcome::Refused(RemoteError::new(ErrorKind::NotFound, "No such file or directory: /a"))
}

/// Changes of a user until no more are admitted; how many.
fn fill(cache: &mut RetryCache, user: &str, from: u64, now: Now) -> u64 {
    let mut number = from;
    while cache.admits(user, now) {
        cache.insert(key(number), user, cache.time(now), &Outcome::Done);
        number += 1;
    }
    number - from
}

#[test]
fn answers_come_back_from_rows_and_expire_with_them() {
    let mut cache = RetryCache::default();
    for number in 0..1000 {
        match number % 10 {
            0 => cache.insert_unchanged(key(number), "ann", at(number), Outcome::Flag(true)),
            1 => cache.insert(key(number), "ann", number, &refused()),
            _ => cache.insert(key(number), "ann", number, &Outcome::Flag(number % 2 == 0)),
        }
    }
    let rows = cache.take_rows(1000);
    assert!(rows.len() > 3 && rows.iter().all(|(_, value)| value.as_ref().unwrap().len() < 16_000));
    assert!(cache.take_rows(1000).is_empty());
    let mut loaded = RetryCache::default();
    rows.iter().for_each(|(key, value)| {
        loaded.load_row(key, value.as_ref().unwrap()).unwrap();
    });
    assert_eq!(loaded.count(), 900);
    assert_eq!(loaded.answer(&key(7)), Some(Outcome::Flag(false)));
    assert_eq!(loaded.answer(&key(11)), Some(refused()));
    assert_eq!(loaded.answer(&key(10)), None, "calls without effect are not saved");
    loaded.insert(key(5000), "ann", RETAINED_MS + 2000, &Outcome::Done);
    assert_eq!((loaded.count(), loaded.answer(&key(7))), (1, None));
    let after = loaded.take_rows(RETAINED_MS + 2000);
    assert_eq!(after.iter().filter(|(_, value)| value.is_none()).count(), rows.len());
    assert_eq!(after.iter().filter(|(_, value)| value.is_some()).count(), 1);
}

#[test]
fn a_user_with_many_changes_is_refused_more_before_an_answer_goes_or_anybody_else_is_refused() {
    let room = 1_000_000;
    let mut cache = RetryCache::with_room(room);
    cache.insert(key(0), "ann", 0, &Outcome::Flag(true));
    let count = fill(&mut cache, "greedy", 1, at(1000));
    assert!(count > 5_000 && cache.shares.used() < room, "{count}");
    assert!(cache.admits("ann", at(1000)));
    cache.insert(key(1_000_000), "ann", 1000, &Outcome::Done);
    // As long as one of them may be repeated, all are there.
    assert!(!cache.admits("greedy", at(1000 + HELD_MS)));
    assert_eq!(cache.answer(&key(0)), Some(Outcome::Flag(true)));
    assert!((1..=count).all(|number| cache.answer(&key(number)) == Some(Outcome::Done)));
    // Later they make room, although a small cache need not forget them.
    assert!(cache.admits("greedy", at(1001 + RETAINED_MS)));
    assert_eq!((cache.answer(&key(1)), cache.count()), (None, 0));
}

#[test]
fn beyond_what_is_spare_answers_go_as_soon_as_none_is_asked_for() {
    let mut cache = RetryCache::default();
    let count = (SPARE_BYTES / ENTRY_BYTES) as u64 * 2;
    (0..count).for_each(|number| cache.insert(key(number), "ann", 0, &Outcome::Done));
    assert!(cache.admits("ann", at(HELD_MS)));
    assert_eq!(cache.count() as u64, count);
    assert!(cache.admits("ann", at(HELD_MS + 1)));
    assert!(cache.shares.used() <= SPARE_BYTES && cache.count() as u64 > count / 2 - 10);
    assert_eq!(cache.answer(&key(count - 1)), Some(Outcome::Done));
}

#[test]
fn refusals_take_no_room_of_changes_and_none_of_another_user() {
    let mut cache = RetryCache::with_room(10_000);
    cache.unchanged = Unchanged::new(1_000_000);
    cache.insert(key(1), "ann", 0, &Outcome::Flag(true));
    cache.insert_unchanged(key(2), "ann", at(0), refused());
    for number in 10..50_000 {
        cache.insert_unchanged(key(number), "nobody", at(1000), refused());
    }
    assert!((500..5_000).contains(&cache.count()), "{}", cache.count());
    assert_eq!(cache.answer(&key(1)), Some(Outcome::Flag(true)));
    assert_eq!(cache.answer(&key(2)), Some(refused()));
    assert_eq!((cache.answer(&key(10)), cache.answer(&key(49_999))), (None, Some(refused())));
    assert!(cache.admits("nobody", at(1000)));
    // Those of users who are gone go with time.
    let later = at(2000 + HELD_MS);
    (60_000..60_006).for_each(|n| cache.insert_unchanged(key(n), "bob", later, refused()));
    assert_eq!((cache.answer(&key(49_999)), cache.count()), (None, 1 + 6));
}

#[test]
fn a_clock_that_is_set_makes_no_answer_older() {
    let mut cache = RetryCache::default();
    cache.replay(key(1), 5_000_000, &Outcome::Done);
    // The clock went back while the process was down.
    cache.begin(Now { mono_ms: 7, wall_ms: 1_000_000 });
    let later = |ms: u64, wall_ms| Now { mono_ms: 7 + ms, wall_ms };
    assert_eq!(cache.time(later(0, 0)), 5_000_000);
    assert!(cache.admits("ann", later(RETAINED_MS, u64::MAX)));
    assert_eq!(cache.count(), 1);
    assert!(cache.admits("ann", later(RETAINED_MS + 1, 0)));
    assert_eq!(cache.count(), 0);
}

#[test]
fn rows_whose_answers_are_gone_are_deleted_and_what_is_loaded_has_a_bound() {
    let room = 1_000_000;
    let (mut cache, mut rows) = (RetryCache::with_room(room), BTreeMap::new());
    let (mut number, mut now) = (0, 0);
    for _ in 0..4 {
        number += fill(&mut cache, "ann", number, at(now));
        for (key, value) in cache.take_rows(now) {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        now += RETAINED_MS + 1;
    }
    let (kept, saved) = (cache.count(), rows.values().map(Vec::len).sum::<usize>());
    assert!(saved < kept * 40, "{saved} bytes are kept for {kept} answers");
    let load = |room| {
        let mut loaded = RetryCache::with_room(room);
        rows.iter().for_each(|(key, value)| loaded.load_row(key, value).unwrap());
        loaded
    };
    let mut loaded = load(room);
    assert_eq!(loaded.count(), kept);
    assert_eq!(loaded.answer(&key(number - 1)), Some(Outcome::Done));
    loaded.begin(at(now + RETAINED_MS));
    let gone = loaded.take_rows(now + RETAINED_MS);
    assert_eq!(gone.iter().filter(|(_, value)| value.is_none()).count(), rows.len());
    let small = load(room / 10);
    assert!(small.shares.used() <= room / 10 && small.count() > 1000, "{}", small.count());
    assert_eq!(small.answer(&key(number - 1)), Some(Outcome::Done));
}

#[test]
fn damaged_rows_are_refused() {
    let mut cache = RetryCache::default();
    cache.insert(key(1), "ann", 1, &Outcome::Done);
    let (row_key, value) = cache.take_rows(1).remove(0);
    let value = value.unwrap();
    for end in 0..value.len() {
        assert!(RetryCache::default().load_row(&row_key, &value[..end]).is_err());
    }
    assert!(RetryCache::default().load_row(&row_key[..5], &value).is_err());
    // A number after which none is left.
    let last = [&[ROW_PREFIX][..], &[0xff; 8]].concat();
    assert!(RetryCache::default().load_row(&last, &value).is_err());
}
