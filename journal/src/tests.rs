//! The whole crate against a slow, obviously right model: random work, a fault at every operation in
//! turn, then recovery.
//!
//! After each recovery the restored state must be the model's state after some prefix of the records. The prefix must not be shorter than
//! what was acknowledged, and the epoch must be new.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::places::Places;
use crate::sector::SECTOR_BYTES;
use crate::sim::{Fault, SimKvPlace, SimWorld};

mod epochs;
mod unreadable;

type Rows = BTreeMap<u8, Vec<u8>>;

/// A map of small keys. A record is a key and its new value, or the key alone to remove it.
#[derive(Default)]
struct Map {
    rows: Rows,
    dirty: BTreeSet<u8>,
    last: Txid,
}

impl Map {
    fn edit(rows: &mut Rows, body: &[u8]) {
        match body {
            [key] => drop(rows.remove(key)),
            [key, value @ ..] => drop(rows.insert(*key, value.to_vec())),
            [] => {}
        }
    }

    fn changes(&mut self) -> Vec<Change> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty
            .into_iter()
            .map(|key| Change { key: vec![key], value: self.rows.get(&key).cloned() })
            .collect()
    }
}

impl Recover for Map {
    fn load(&mut self, key: &[u8], value: &[u8]) -> Result<(), RecoverError> {
        match key {
            [key] => assert_eq!(self.rows.insert(*key, value.to_vec()), None),
            _ => return Err(RecoverError::new("strange key")),
        }
        Ok(())
    }

    fn loaded(&mut self, applied: Txid) -> Result<(), RecoverError> {
        self.last = applied;
        Ok(())
    }

    fn replay(&mut self, txid: Txid, body: &[u8]) -> Result<(), RecoverError> {
        assert_eq!(txid, self.last.next(), "a hole");
        self.last = txid;
        Map::edit(&mut self.rows, body);
        self.dirty.extend(body.first());
        Ok(())
    }

    fn reset(&mut self) {
        *self = Map::default();
    }
}

#[derive(Clone, Debug)]
enum Op {
    Commit(Vec<Vec<u8>>),
    Checkpoint,
    Export,
    /// The process is killed and started again; the machine keeps running.
    Restart,
    /// The process ends as it should and is started again.
    Stop,
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    (0..12u8, prop_oneof![Just(0), 1..40usize, 400..1500usize], 0..4u8).prop_map(
        |(key, len, fill)| {
            let mut body = vec![fill; len + 1];
            body[0] = key;
            body
        },
    )
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => prop::collection::vec(body(), 1..6).prop_map(Op::Commit),
        3 => Just(Op::Checkpoint),
        1 => Just(Op::Export),
        1 => Just(Op::Restart),
        1 => Just(Op::Stop),
    ];
    // Each is run again for each operation of the disk that it causes, so the time grows with the square.
    prop::collection::vec(op, 1..13)
}

fn places(world: &SimWorld, mirrors: &[&str]) -> Places {
    Places {
        disk: Arc::new(world.clone()),
        kv: Arc::new(SimKvPlace::new(world)),
        dir: PathBuf::from("/j"),
        mirrors: mirrors.iter().map(PathBuf::from).collect(),
        nonce: 0,
        epoch_min: 0,
        segment_bytes_max: 3000,
        section_bytes: 100,
    }
}

/// One machine, its journal, and what it ought to hold.
struct Run {
    world: SimWorld,
    places: Places,
    /// `history[t]` is the model's state after record `t`.
    history: Vec<Rows>,
    acknowledged: u64,
    /// What the engine must have, unless it may have been put aside.
    applied: Txid,
    may_lose_engine: bool,
    epoch: Epoch,
    map: Map,
    started: Option<Started>,
    /// Whether each directory alone is enough: none was left out, and none lacks an image.
    is_doubled: bool,
}

impl Run {
    fn new(seed: u64, mirrors: &[&str]) -> Run {
        let world = SimWorld::new(seed);
        Run {
            places: places(&world, mirrors),
            world,
            history: vec![Rows::new()],
            acknowledged: 0,
            applied: Txid::ZERO,
            may_lose_engine: false,
            epoch: Epoch(0),
            map: Map::default(),
            started: None,
            is_doubled: false,
        }
    }

    /// Starts and compares. An error only if a fault was planned and has happened.
    fn start(&mut self) -> Result<(), JournalError> {
        self.started = None;
        self.map = Map::default();
        self.places.nonce += 1;
        let started = recover::start(&self.places, &mut self.map)?;
        let last = started.recovered.last;
        assert_eq!(last, self.map.last);
        assert!(last.0 >= self.acknowledged, "record {} lost, end is {last}", self.acknowledged);
        assert!((last.0 as usize) < self.history.len(), "more than was written: {last}");
        assert_eq!(self.map.rows, self.history[last.0 as usize], "state after {last}");
        assert!(started.recovered.epoch > self.epoch, "epoch used twice");
        assert_eq!(started.recovered.fresh, last == Txid::ZERO);
        let applied = started.checkpointer.applied();
        assert!(self.may_lose_engine || applied >= self.applied, "{applied} < {}", self.applied);
        self.applied = applied;
        self.history.truncate(last.0 as usize + 1);
        self.acknowledged = last.0;
        self.epoch = started.recovered.epoch;
        self.is_doubled = started.recovered.left_out.is_empty() && !started.is_image_missing;
        let is_wanted = started.is_image_missing;
        self.started = Some(started);
        if is_wanted { self.step(&Op::Export) } else { Ok(()) }
    }

    /// The process ends and the disk with `prefix` is lost, with the engine if it is the first one; then it starts again.
    fn lose_disk(&mut self, prefix: &str) {
        self.started = None;
        self.world.lose_disk(prefix);
        if prefix == "/j" {
            self.world.lose_engine();
            self.may_lose_engine = true;
        }
        self.start().unwrap_or_else(|error| panic!("without {prefix}: {error}"));
        self.may_lose_engine = false;
        assert!(self.is_doubled, "{prefix} was not filled");
    }

    fn step(&mut self, op: &Op) -> Result<(), JournalError> {
        if matches!(op, Op::Restart) {
            return self.start();
        }
        let started = self.started.as_mut().expect("it runs");
        match op {
            Op::Commit(bodies) => {
                for body in bodies {
                    Map::edit(&mut self.map.rows, body);
                    self.map.dirty.extend(body.first());
                    self.history.push(self.map.rows.clone());
                }
                self.acknowledged = started.log.commit(bodies)?.0;
                assert_eq!(self.acknowledged as usize, self.history.len() - 1);
            }
            Op::Checkpoint => {
                let at = Txid(self.acknowledged);
                started.checkpointer.apply(at, [self.map.changes()])?;
                assert_eq!(started.checkpointer.applied(), at);
                self.applied = at;
            }
            // An image that cannot be written does not stop a journal.
            Op::Export => match started.checkpointer.export() {
                Err(error @ JournalError::Store(_)) => return Err(error),
                Err(_) => {}
                Ok(_) => {
                    let is_left_out = !started.recovered.left_out.is_empty();
                    self.is_doubled = !is_left_out && started.checkpointer.left_out().is_empty();
                }
            },
            Op::Stop => {
                started.log.close()?;
                return self.start();
            }
            Op::Restart => unreachable!("handled above"),
        }
        Ok(())
    }

    /// Works until the end or the first error, then loses power and recovers.
    fn run(&mut self, ops: &[Op]) {
        let result = self.start().and_then(|()| ops.iter().try_for_each(|op| self.step(op)));
        if let Err(error) = result {
            assert!(self.world.has_fired(), "failed without a fault: {error:?}");
            // Not a crash: the process stops and starts again, and what it then has counts as durable.
            if !self.world.is_dead() {
                self.start().expect("it always opens");
            }
        }
        self.power_cut();
    }

    fn power_cut(&mut self) {
        self.started = None;
        self.world.reboot();
        self.start().expect("it always opens");
        let started = self.started.as_ref().expect("it has started");
        assert!(!started.image_wanted, "the log has holes: {:?}", started.recovered.notes);
    }
}

const ONE: &[&str] = &[];
const TWO: &[&str] = &["/m"];

/// Runs `ops` once for each operation they cause, with `fault` at that operation.
fn fault_everywhere(seed: u64, ops: &[Op], mirrors: &[&str], fault: Fault, is_engine_frail: bool) {
    let mut calm = Run::new(seed, mirrors);
    calm.run(ops);
    for at in 1..=calm.world.ops() {
        let mut run = Run::new(seed ^ at, mirrors);
        if is_engine_frail {
            run.world.make_engine_frail();
        }
        // An engine that fails while it is read is put aside.
        run.may_lose_engine = is_engine_frail || fault != Fault::Crash;
        run.world.plan(at, fault);
        run.run(ops);
        // A second fault, while starting; then once more, to see that recovery left good things behind.
        let second = 1 + run.world.below(40);
        run.world.plan(second, fault);
        if run.start().is_err() {
            assert!(run.world.has_fired());
            if !run.world.is_dead() {
                run.start().expect("it always opens");
            }
        }
        run.power_cut();
        for op in &ops[..ops.len().min(5)] {
            run.step(op).expect("it works again");
        }
        run.power_cut();
    }
}

/// Runs `ops` once for each operation they cause, with `fault` at that operation, and then loses one of the two disks, works on, and
/// loses the other one.
fn lose_each_disk_everywhere(seed: u64, ops: &[Op], fault: Fault) {
    let mut calm = Run::new(seed, TWO);
    calm.run(ops);
    for at in 1..=calm.world.ops() {
        for disks in [["/j", "/m"], ["/m", "/j"]] {
            let mut run = Run::new(seed ^ at, TWO);
            run.may_lose_engine = fault != Fault::Crash;
            run.world.plan(at, fault);
            run.run(ops);
            for disk in disks {
                // A fault while it is filled again.
                let second = 1 + run.world.below(60);
                run.world.plan(second, fault);
                run.started = None;
                run.world.lose_disk(disk);
                if disk == "/j" {
                    run.world.lose_engine();
                }
                run.may_lose_engine = true;
                if run.start().is_err() {
                    assert!(run.world.has_fired());
                }
                run.world.reboot();
                // Whatever the fault left half done, the next start ends; an image that failed comes with the one after.
                run.start().expect("it always opens");
                run.start().expect("it always opens");
                assert!(run.is_doubled, "{disk} was not filled");
                run.may_lose_engine = fault != Fault::Crash;
                for op in &ops[..ops.len().min(3)] {
                    run.step(op).expect("it works again");
                }
                run.power_cut();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_time: 20_000, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn crash_at_every_operation(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, ONE, Fault::Crash, false);
    }

    #[test]
    fn crash_at_every_operation_with_a_frail_engine(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, ONE, Fault::Crash, true);
    }

    #[test]
    fn crash_at_every_operation_with_two_log_directories(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, TWO, Fault::Crash, true);
    }

    #[test]
    fn input_output_error_at_every_operation(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, ONE, Fault::Io, false);
    }

    #[test]
    fn input_output_error_at_every_operation_with_two_log_directories(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, TWO, Fault::Io, true);
    }

    #[test]
    fn full_disk_at_every_operation(seed: u64, ops in ops()) {
        fault_everywhere(seed, &ops, ONE, Fault::Full, false);
    }

    /// Any damage to the files of one of two directories is repaired from the other.
    #[test]
    fn a_damaged_directory_is_repaired(seed: u64, ops in ops(), flips in 1..6u64, first: bool) {
        let mut run = Run::new(seed, TWO);
        run.run(&ops);
        run.started = None;
        let (bad, other) = if first { ("/j", "/m") } else { ("/m", "/j") };
        let files = run.world.files(bad);
        for _ in 0..flips {
            let file = &files[run.world.below(files.len() as u64) as usize];
            let (place, kind) = (run.world.below(1 << 20) as usize, run.world.below(4));
            run.world.tamper(file, |bytes| match kind {
                _ if bytes.is_empty() => {}
                0 => { let at = place % bytes.len(); bytes[at] ^= 1 << (place % 8) }
                1 => bytes.truncate(place % bytes.len()),
                2 => { let at = place % bytes.len(); bytes[at..].fill(0) }
                _ => bytes.extend_from_slice(&[7; 300]),
            });
        }
        run.start().unwrap();
        // A bad image is found when it is needed, or when the next one makes it the older of two.
        run.step(&Op::Commit(vec![vec![1, 2]])).unwrap();
        run.step(&Op::Checkpoint).unwrap();
        run.step(&Op::Export).unwrap();
        run.lose_disk(other);
        run.lose_disk(bad);
    }

    /// One flipped bit in the only copy: everything is there, or the start is refused.
    #[test]
    fn damage_to_the_only_log_is_never_a_hole(seed: u64, ops in ops(), place: u64, bit in 0..8u8) {
        let mut run = Run::new(seed, ONE);
        run.run(&ops);
        run.started = None;
        let files = run.world.files("/j/log");
        let file = &files[place as usize % files.len()];
        run.world.tamper(file, |bytes| {
            let at = (place >> 8) as usize % bytes.len();
            bytes[at] ^= 1 << bit;
        });
        // `start` checks that nothing acknowledged is lost, in the last batch too.
        match run.start() {
            Ok(()) => {}
            Err(error) => {
                let message = error.to_string();
                prop_assert!(
                    message.contains("hanno admin metadata repair --dir /j"),
                    "unclear: {message}"
                );
            }
        }
    }
}

proptest! {
    // Each case is some hundred runs with six starts each.
    #![proptest_config(ProptestConfig { max_shrink_time: 20_000, ..ProptestConfig::with_cases(8) })]

    #[test]
    fn either_disk_lost_after_a_crash_at_every_operation(seed: u64, ops in ops()) {
        lose_each_disk_everywhere(seed, &ops[..ops.len().min(7)], Fault::Crash);
    }

    #[test]
    fn either_disk_lost_after_an_error_at_every_operation(seed: u64, ops in ops()) {
        lose_each_disk_everywhere(seed, &ops[..ops.len().min(7)], Fault::Io);
    }
}

/// A mirror that a start left out, at whatever operation it failed, does not suggest that there was nothing.
#[test]
fn a_mirror_that_was_left_out_hides_no_loss() {
    let (mut count, mut at) = (0, 0);
    loop {
        at += 1;
        let mut run = Run::new(at, TWO);
        run.start().unwrap();
        run.step(&Op::Commit(vec![vec![1, 2]])).unwrap();
        run.world.plan(at, Fault::Full);
        let is_started = run.step(&Op::Restart).is_ok();
        if !run.world.has_fired() {
            break;
        }
        let started = run.started.as_ref().filter(|_| is_started);
        if started.is_none_or(|started| started.recovered.left_out.is_empty()) {
            continue;
        }
        count += 1;
        run.step(&Op::Commit(vec![vec![3, 4]])).unwrap();
        run.started = None;
        // The only copy of the last record.
        let path = PathBuf::from("/j/log").join(segment::file_name(Txid(2)));
        run.world.tamper(&path, |bytes| bytes[SECTOR_BYTES..2 * SECTOR_BYTES].fill(1));
        let error = recover::start(&run.places, &mut Map::default()).err();
        assert!(matches!(error, Some(JournalError::LogDamaged { .. })), "{at}: {error:?}");
    }
    assert!(count > 3, "only {count} operations on the mirror");
}

#[test]
fn the_log_is_pruned_only_behind_the_older_of_two_good_images() {
    let mut run = Run::new(3, ONE);
    run.start().unwrap();
    let commit = Op::Commit(vec![vec![1; 1600]]);
    let mut exported = Vec::new();
    for _ in 0..6 {
        for _ in 0..4 {
            run.step(&commit).unwrap();
        }
        run.step(&Op::Checkpoint).unwrap();
        run.step(&Op::Export).unwrap();
        exported.push(run.acknowledged);
        let firsts: Vec<_> = run
            .world
            .files("/j/log")
            .iter()
            .map(|path| segment::first_of(path.file_name().unwrap().to_str().unwrap()).unwrap())
            .collect();
        let older = exported.iter().rev().nth(1).copied().unwrap_or(0);
        assert!(firsts[0].0 <= older + 1, "{firsts:?} does not reach back to {older}");
        assert!(firsts.len() < 14, "nothing is pruned");
    }
    assert_eq!(run.world.files("/j/image").len(), 2);

    // The older image turns bad: the next export keeps the log that the other one needs.
    let images = run.world.files("/j/image");
    run.world.tamper(&images[1], |bytes| bytes[40] ^= 1);
    run.step(&commit).unwrap();
    run.step(&Op::Checkpoint).unwrap();
    run.step(&Op::Export).unwrap();
    assert!(run.world.files("/j/image").iter().any(|path| path.to_str().unwrap().contains("bad")));
    run.power_cut();
}

#[test]
fn nothing_is_written_after_a_failed_sync() {
    let mut run = Run::new(4, ONE);
    run.start().unwrap();
    let log = &mut run.started.as_mut().unwrap().log;
    // The first one also makes room.
    log.commit(&[vec![0]]).unwrap();
    run.world.plan(2, Fault::Io);
    assert!(matches!(log.commit(&[vec![1]]), Err(JournalError::Disk { action: "sync", .. })));
    let ops = run.world.ops();
    assert!(matches!(log.commit(&[vec![2]]), Err(JournalError::Stopped)));
    assert_eq!(run.world.ops(), ops);
}

#[test]
fn losing_the_whole_log_is_refused_not_taken_for_a_new_journal() {
    let mut run = Run::new(5, ONE);
    run.start().unwrap();
    run.step(&Op::Commit(vec![vec![1, 2]])).unwrap();
    run.power_cut();
    run.started = None;
    for file in run.world.files("/j/log") {
        run.world.lose(&file);
    }
    assert!(matches!(run.start(), Err(JournalError::LogMissing { .. })));
}

#[test]
fn a_missing_segment_is_named() {
    let mut run = Run::new(6, ONE);
    run.start().unwrap();
    for _ in 0..6 {
        run.step(&Op::Commit(vec![vec![1; 1400]; 2])).unwrap();
    }
    run.started = None;
    let files = run.world.files("/j/log");
    run.world.lose(&files[1]);
    let error = run.start().expect_err("a segment is gone");
    assert!(matches!(error, JournalError::LogGap { from: Txid(3), .. }), "{error:?}");
}

/// The owner of rows that a newer program wrote.
struct Older;

impl Recover for Older {
    fn load(&mut self, _: &[u8], _: &[u8]) -> Result<(), RecoverError> {
        Err(RecoverError::new("use a newer version"))
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, _: &[u8]) -> Result<(), RecoverError> {
        Err(RecoverError::new("use a newer version"))
    }

    fn reset(&mut self) {}
}

/// That the log alone is not enough then is no reason to give anything up.
#[test]
fn the_owners_reason_against_a_checkpoint_is_the_one_that_a_start_gives() {
    let mut run = Run::new(8, ONE);
    run.start().unwrap();
    for _ in 0..4 {
        for _ in 0..4 {
            run.step(&Op::Commit(vec![vec![1; 1600]])).unwrap();
        }
        run.step(&Op::Checkpoint).unwrap();
        run.step(&Op::Export).unwrap();
    }
    run.started = None;
    let refused = |run: &Run| recover::start(&run.places, &mut Older).err();
    let error = refused(&run);
    assert!(matches!(error, Some(JournalError::Store(StoreError::NotAccepted(_)))), "{error:?}");
    run.world.lose_engine();
    let error = refused(&run);
    let newest = Txid(run.acknowledged);
    assert!(
        matches!(error, Some(JournalError::Restore { applied, .. }) if applied == newest),
        "{error:?}"
    );
    // A program that knows the rows starts.
    run.may_lose_engine = true;
    run.start().unwrap();
    // Damage is another matter: without any checkpoint the log is too short.
    run.started = None;
    run.world.lose_engine();
    for image in run.world.files("/j/image") {
        run.world.tamper(&image, |bytes| bytes[40] ^= 1);
    }
    let error = refused(&run);
    assert!(matches!(error, Some(JournalError::LogGap { from: Txid(1), .. })), "{error:?}");
}

/// What the checkpoint contains had been in the log: a log that ends before it has been damaged, and what came after is unknown. After
/// a clean stop it is known.
#[test]
fn a_log_that_lost_its_end_goes_on_from_the_checkpoint_only_if_nothing_came_after() {
    for is_closed in [false, true] {
        let mut run = Run::new(7, ONE);
        run.start().unwrap();
        run.step(&Op::Commit(vec![vec![1, 1]])).unwrap();
        run.step(&Op::Commit(vec![vec![2, 2], vec![3, 3]])).unwrap();
        run.step(&Op::Checkpoint).unwrap();
        if is_closed {
            run.started.as_mut().unwrap().log.close().unwrap();
        }
        run.started = None;
        let files = run.world.files("/j/log");
        run.world.tamper(&files[0], |bytes| {
            let scan = segment::scan(&[bytes], Txid(1), &mut |_, _, _| ()).unwrap();
            assert_eq!((scan.record_count, &scan.losses[..], scan.torn), (3, &[][..], None));
            bytes.truncate(scan.len as usize - 3);
        });
        if !is_closed {
            let error = run.start().expect_err("records may be lost");
            let (last, proven) = (Txid(1), Txid(3));
            assert!(
                matches!(error, JournalError::LogEnded { last: l, proven: p, .. } if (l, p) == (last, proven)),
                "{error:?}"
            );
            continue;
        }
        run.start().unwrap();
        let started = run.started.as_ref().unwrap();
        assert!(started.image_wanted);
        assert_eq!(started.recovered.last, Txid(3));
        run.step(&Op::Export).unwrap();
        run.step(&Op::Commit(vec![vec![4, 4]])).unwrap();
        run.started = None;
        run.world.reboot();
        run.start().unwrap();
    }
}

/// The real threads on the simulated machine: what the observer saw is there after the crash.
#[test]
fn threads_acknowledge_nothing_that_a_crash_can_undo() {
    needs::seeds::for_each(60, |seed| {
        let world = SimWorld::new(seed);
        let places = places(&world, if seed % 2 == 0 { ONE } else { TWO });
        let fault = [Fault::Crash, Fault::Io, Fault::Full][(seed % 3) as usize];
        let mut map = Map::default();
        let started = recover::start(&places, &mut map).unwrap();
        world.plan(1 + world.below(120), fault);
        let seen = Arc::new(AtomicU64::new(0));
        let fatal_calls = Arc::new(AtomicU64::new(0));
        let limits = Limits {
            batch_records_max: 4,
            batch_bytes_max: 3000,
            queue_bytes_max: 4000,
            image_edits_max: 10,
            image_interval: Duration::from_secs(3600),
        };
        let observer = {
            let seen = seen.clone();
            move |txid: Txid| seen.store(txid.0, Ordering::SeqCst)
        };
        let fatal = {
            let calls = fatal_calls.clone();
            move |_: &JournalError| {
                calls.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (journal, _) =
            Journal::run(started, limits, Vec::new(), Box::new(observer), Box::new(fatal)).unwrap();
        let mut history = vec![Rows::new()];
        for number in 0..80u8 {
            let body = vec![number % 12, number, seed as u8];
            Map::edit(&mut map.rows, &body);
            map.dirty.insert(number % 12);
            history.push(map.rows.clone());
            let txid = journal.append(vec![body]);
            assert_eq!(txid.0, u64::from(number) + 1);
            if number % 7 == 6 {
                journal.checkpoint(txid, map.changes());
            }
        }
        let all_durable = journal.wait_durable(Txid(80));
        journal.close();
        let stopped = fatal_calls.load(Ordering::SeqCst);
        assert!(stopped <= 1, "fatal is called once");
        assert!(all_durable || stopped == 1, "seed {seed}: neither durable nor stopped");
        assert!(journal.durable().0 >= seen.load(Ordering::SeqCst));
        if stopped == 0 {
            assert_eq!(journal.applied(), Txid(77), "closing applies what was handed over");
        }
        drop(journal);
        world.reboot();
        let mut after = Map::default();
        let started = recover::start(&places, &mut after).expect("it always opens");
        assert!(!started.image_wanted, "seed {seed}: the checkpoint was ahead of the log");
        let last = started.recovered.last;
        assert!(last.0 >= seen.load(Ordering::SeqCst), "seed {seed}: acknowledged record lost");
        assert_eq!(after.rows, history[last.0 as usize], "seed {seed}");
    });
}

#[test]
fn a_segment_begins_when_asked() {
    let world = SimWorld::new(1);
    let places = places(&world, ONE);
    let started = recover::start(&places, &mut Map::default()).unwrap();
    let limits = Limits {
        batch_records_max: 4,
        batch_bytes_max: 3000,
        queue_bytes_max: 4000,
        image_edits_max: 1000,
        image_interval: Duration::from_secs(3600),
    };
    let (journal, _) =
        Journal::run(started, limits, Vec::new(), Box::new(|_| {}), Box::new(|_| {})).unwrap();
    assert_eq!(journal.roll().unwrap(), Txid(1), "an empty segment is kept");
    journal.append((1..=3u8).map(|number| vec![number, number]).collect());
    assert!(journal.wait_durable(Txid(3)));
    assert_eq!(journal.roll().unwrap(), Txid(4));
    assert_eq!(journal.roll().unwrap(), Txid(4));
    journal.append(vec![vec![4, 4]]);
    assert!(journal.wait_durable(Txid(4)));
    assert_eq!(journal.roll().unwrap(), Txid(5));
    journal.close();
    assert!(journal.roll().is_err(), "a closed journal says so");
    drop(journal);
    world.reboot();
    assert!(world.files("/j/log").len() >= 3);
    let mut after = Map::default();
    let started = recover::start(&places, &mut after).unwrap();
    assert_eq!((started.recovered.last, after.rows.len()), (Txid(4), 4));
}

/// The newest segment cut, or zero from there on, at each byte of its last 4 KiB. One-sector batches: nothing reveals those that are gone.
#[test]
fn a_torn_tail_is_cut_at_the_last_whole_record() {
    let mut run = Run::new(8, ONE);
    run.places.segment_bytes_max = 64 << 10;
    run.start().unwrap();
    let bodies: Vec<_> =
        (0..40u8).map(|number| vec![number; 1 + usize::from(number) * 7]).collect();
    for body in &bodies {
        run.step(&Op::Commit(vec![body.clone()])).unwrap();
    }
    run.started = None;
    // The mark of the first record says no more than that there were some.
    let machine = run.world.fork();
    let file = machine.files("/j/log").pop().unwrap();
    let len = 41 * SECTOR_BYTES;
    for at in len - 4096..len {
        for is_zeroed in [false, true] {
            run.world = machine.fork();
            run.places = places(&run.world, ONE);
            run.world.tamper(&file, |bytes| {
                let scan = segment::scan(&[bytes], Txid(1), &mut |_, _, _| ()).unwrap();
                assert_eq!((scan.record_count, scan.len as usize), (40, len));
                if is_zeroed { bytes[at..].fill(0) } else { bytes.truncate(at) }
            });
            let mut map = Map::default();
            let started = recover::start(&run.places, &mut map).unwrap();
            // A sector is good with one good head and all of its used payload.
            let whole = bodies.iter().zip(1..).filter(|(body, sector)| {
                let used = if is_zeroed { 40 + 4 + body.len() } else { SECTOR_BYTES };
                sector * SECTOR_BYTES + used <= at
            });
            let whole = whole.count();
            assert_eq!(started.recovered.last, Txid(whole as u64), "at {at}, {is_zeroed}");
            assert_eq!(map.rows, run.history[whole], "at {at}, {is_zeroed}");
        }
    }
}
