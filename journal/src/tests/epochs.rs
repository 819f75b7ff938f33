//! Epochs: each start has another, above all that were used.

use super::*;

/// The epoch is in two places: either of them is enough for a new one (`start` checks that it is new).
#[test]
fn an_epoch_is_never_used_twice_though_one_place_of_it_is_lost() {
    let mut run = Run::new(9, ONE);
    for _ in 0..3 {
        run.start().unwrap();
    }
    run.started = None;
    run.world.lose(Path::new("/j/epoch"));
    run.start().unwrap();
    run.started = None;
    run.world.tamper(Path::new("/j/epoch"), |bytes| bytes[12] ^= 1);
    run.start().unwrap();
    assert!(run.started.as_ref().unwrap().recovered.notes[0].contains("damaged"));
    run.started = None;
    let newest = run.world.files("/j/log").pop().unwrap();
    run.world.tamper(&newest, |bytes| bytes[20] ^= 1);
    run.start().unwrap();
    assert_eq!(run.epoch, Epoch(6));
    // Without any header the records show it.
    run.step(&Op::Commit(vec![vec![1, 2]])).unwrap();
    run.started = None;
    let newest = run.world.files("/j/log").pop().unwrap();
    run.world.tamper(&newest, |bytes| bytes[..SECTOR_BYTES].fill(1));
    run.world.lose(Path::new("/j/epoch"));
    run.start().unwrap();
    assert_eq!(run.epoch, Epoch(7));
}

/// What comes back from a backup has forgotten starts; others have obeyed them.
#[test]
fn an_epoch_is_at_least_what_the_clock_says() {
    let mut run = Run::new(9, ONE);
    for (epoch_min, expected) in [(0, 1), (500, 500), (500, 501), (300, 502), (600, 600)] {
        run.places.epoch_min = epoch_min;
        run.start().unwrap();
        assert_eq!(run.epoch, Epoch(expected));
    }
}
