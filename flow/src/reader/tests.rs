//! Readers of files whose replicas fail, are damaged and come back.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::auth::Key;
use protocol::token::{AccessMode, TokenKeys};
use protocol::{BlockId, GenerationStamp};

use super::*;

const BLOCK_BYTES: u64 = 1000;
const FILE: InodeId = InodeId(9);

/// What a replica does when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Health {
    Works,
    Fails,
    Damaged,
}

fn id(number: u8) -> DatanodeId {
    DatanodeId([number; 16])
}

fn block(index: u64, replicas: &[u8]) -> LocatedBlock {
    let (id_of, stamp) = (BlockId(index), GenerationStamp(1));
    let info = |number: &u8| DatanodeInfo { id: id(*number), ..DatanodeInfo::default() };
    LocatedBlock {
        id: id_of,
        stamp,
        offset: index * BLOCK_BYTES,
        length: BLOCK_BYTES,
        replicas: replicas.iter().map(info).collect(),
        damaged: Vec::new(),
        durable_min: 0,
        corrupt: false,
        open: false,
        has_unseen_members: false,
        token: TokenKeys::new(&Key::new([3; 32])).issue(id_of, stamp, AccessMode::Read, 0),
    }
}

/// How a read ended.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ended {
    Bytes { from: DatanodeId, at: u64 },
    Salvaged { at: u64 },
    Failed(ReadError),
}

/// A reader's driver: where the replicas are now, and how they are.
#[derive(Default)]
struct World {
    places: Vec<u8>,
    health: BTreeMap<DatanodeId, Health>,
    /// Health after so many fetches.
    healed_after: Option<usize>,
    fetch_count: usize,
    open: Option<DatanodeId>,
    reports: Vec<DatanodeId>,
    paused: Duration,
}

impl World {
    fn of(health: &[Health]) -> Self {
        let ids = (1..).map(id);
        let places = (1..=health.len() as u8).collect();
        World { places, health: ids.zip(health.iter().copied()).collect(), ..World::default() }
    }

    fn health(&self, id: DatanodeId) -> Health {
        match self.health[&id] {
            Health::Fails if self.healed_after.is_some_and(|after| self.fetch_count >= after) => {
                Health::Works
            }
            health => health,
        }
    }

    fn read(&mut self, reader: &mut Reader, offset: u64) -> Ended {
        let mut attempt = reader.begin(offset).unwrap();
        for _ in 0..200 {
            match reader.next_step(&attempt) {
                Step::Open { datanode, .. } => {
                    self.open = Some(datanode.id);
                    reader.opened(&attempt);
                }
                Step::Read { at, rest } => {
                    let from = self.open.expect("a replica is open");
                    assert_eq!((at, rest), (offset % BLOCK_BYTES, BLOCK_BYTES - at));
                    let health = self.health(from);
                    if health == Health::Works {
                        return Ended::Bytes { from, at };
                    }
                    let failed = reader.failed(health == Health::Damaged).unwrap();
                    assert_eq!(failed.replica.datanode, from);
                    self.reports.extend(failed.report.then_some(from));
                    self.open = None;
                }
                Step::Salvage { at, .. } => return Ended::Salvaged { at },
                Step::Pause(pause) => {
                    self.paused += pause;
                    attempt.paused();
                }
                Step::Fetch { offset } => {
                    self.fetch_count += 1;
                    let found = vec![block(offset / BLOCK_BYTES, &self.places)];
                    reader.fetched(&mut attempt, (FILE, found)).unwrap();
                }
                Step::End(error) => return Ended::Failed(error),
            }
        }
        panic!("it does not end");
    }
}

proptest! {
    /// A read gets bytes if any replica has them, at the same byte; what is damaged is reported once, and nothing else is.
    #[test]
    fn a_read_finds_what_works(
        health in prop::collection::vec(
            prop_oneof![Just(Health::Works), Just(Health::Fails), Just(Health::Damaged)], 0..5),
        offsets in prop::collection::vec(0..2 * BLOCK_BYTES, 1..6),
        healed_after in prop::option::of(0..12usize),
    ) {
        let places: Vec<u8> = (1..=health.len() as u8).collect();
        let mut reader = Reader::new(FILE, vec![block(0, &places), block(1, &places)]);
        let mut world = World { healed_after, ..World::of(&health) };
        let count = |wanted| health.iter().filter(|health| **health == wanted).count();
        for offset in offsets {
            let is_healed_in_time = healed_after.is_some_and(|after| after <= world.fetch_count + 10);
            let fetched = world.fetch_count;
            match world.read(&mut reader, offset) {
                Ended::Bytes { from, at } => {
                    prop_assert_eq!(at, offset % BLOCK_BYTES);
                    prop_assert_eq!(world.health(from), Health::Works);
                }
                Ended::Salvaged { .. } => {
                    prop_assert!(count(Health::Damaged) > 0 && count(Health::Works) == 0);
                }
                Ended::Failed(error) => {
                    let block = BlockId(offset / BLOCK_BYTES);
                    prop_assert_eq!(error, ReadError::Unreachable { block });
                    prop_assert_eq!(count(Health::Works) + count(Health::Damaged), 0);
                    prop_assert!(count(Health::Fails) == 0 || !is_healed_in_time);
                    prop_assert_eq!(world.fetch_count, fetched + FETCH_PAUSES_MS.len());
                }
            }
            prop_assert!(world.fetch_count <= fetched + FETCH_PAUSES_MS.len());
        }
        let is_damaged = |id: &DatanodeId| world.health[id] == Health::Damaged;
        prop_assert!(world.reports.iter().all(is_damaged));
        let once_per_block = 2 * count(Health::Damaged);
        prop_assert!(world.reports.len() <= once_per_block, "{:?}", world.reports);
    }
}

#[test]
fn the_nearest_comes_first_and_stays_open() {
    let mut reader = Reader::new(FILE, vec![block(0, &[1, 2, 3]), block(1, &[1, 2, 3])]);
    let mut world = World::of(&[Health::Damaged, Health::Works, Health::Works]);
    assert_eq!(world.read(&mut reader, 10), Ended::Bytes { from: id(2), at: 10 });
    assert_eq!(world.reports, [id(1)]);
    world.open = Some(id(2));
    assert_eq!(world.read(&mut reader, 700), Ended::Bytes { from: id(2), at: 700 });
    // The next block has a replica there, too: nothing is known of it yet.
    assert_eq!(world.read(&mut reader, 1700), Ended::Bytes { from: id(2), at: 700 });
    assert_eq!(world.reports, [id(1), id(1)]);
    assert_eq!(world.fetch_count, 0);
    assert!(reader.begin(2000).is_none() && reader.len() == 2000);
}

#[test]
fn locations_are_fetched_again_for_some_time() {
    let mut reader = Reader::new(FILE, vec![block(0, &[1, 2])]);
    let mut world = World::of(&[Health::Fails, Health::Fails]);
    let unreachable = Ended::Failed(ReadError::Unreachable { block: BlockId(0) });
    assert_eq!(world.read(&mut reader, 0), unreachable);
    assert_eq!((world.fetch_count, world.paused), (10, Duration::from_millis(15_850)));
    // The next read tries them at once.
    world.health.insert(id(2), Health::Works);
    assert_eq!(world.read(&mut reader, 0), Ended::Bytes { from: id(2), at: 0 });
    assert_eq!(world.fetch_count, 10);

    // One that is damaged is salvaged at once if there is no other, otherwise when the others stay away.
    for (health, fetch_count) in
        [(&[Health::Damaged][..], 0), (&[Health::Damaged, Health::Fails], 10)]
    {
        let places: Vec<u8> = (1..=health.len() as u8).collect();
        let mut reader = Reader::new(FILE, vec![block(0, &places)]);
        let mut world = World::of(health);
        for _ in 0..2 {
            assert_eq!(world.read(&mut reader, 600), Ended::Salvaged { at: 600 });
            assert_eq!((world.fetch_count, &world.reports[..]), (fetch_count, &[id(1)][..]));
        }
    }
}

#[test]
fn a_file_ends_where_it_did_when_it_was_opened() {
    let mut last = block(1, &[1]);
    (last.open, last.length) = (true, 400);
    let mut reader = Reader::new(FILE, vec![block(0, &[1]), last.clone()]);
    assert_eq!(reader.len(), 1400);
    let mut attempt = reader.begin(1399).unwrap();
    assert!(matches!(reader.next_step(&attempt), Step::Open { .. }));
    // The NameNode knows less of an open block than its DataNodes said.
    (last.length, last.replicas) = (100, block(1, &[2]).replicas);
    reader.fetched(&mut attempt, (FILE, vec![last.clone()])).unwrap();
    reader.opened(&attempt);
    assert!(matches!(reader.next_step(&attempt), Step::Read { at: 399, rest: 1 }));
    // It was closed longer: the rest is not part of what was opened. Or shorter: that is an error.
    (last.length, last.open) = (900, false);
    reader.fetched(&mut attempt, (FILE, vec![last.clone()])).unwrap();
    assert!(matches!(reader.next_step(&attempt), Step::Read { at: 399, rest: 1 }));
    last.length = 300;
    reader.fetched(&mut attempt, (FILE, vec![last])).unwrap();
    let short = ReadError::Short { offset: 1399 };
    assert!(matches!(reader.next_step(&attempt), Step::End(error) if error == short));
    assert_eq!(
        reader.fetched(&mut attempt, (FILE, vec![])),
        Err(ReadError::Short { offset: 1000 })
    );
}

#[test]
fn reading_goes_on_in_a_block_that_was_cut() {
    let opened = || {
        let reader = Reader::new(FILE, vec![block(0, &[1]), block(1, &[1])]);
        let mut attempt = reader.begin(1250).unwrap();
        attempt.paused();
        (reader, attempt)
    };
    let mut cut = block(1, &[1, 2]);
    (cut.id, cut.length) = (BlockId(77), 300);
    let (mut reader, mut attempt) = opened();
    assert!(matches!(reader.next_step(&attempt), Step::Open { .. }));
    reader.opened(&attempt);
    reader.failed(true);
    reader.fetched(&mut attempt, (FILE, vec![cut.clone()])).unwrap();
    // What was wrong with a replica of the block before says nothing of this one.
    let next = reader.next_step(&attempt);
    assert!(
        matches!(next, Step::Open { block, datanode } if block.id == cut.id && datanode.id == id(1))
    );
    reader.opened(&attempt);
    assert!(matches!(reader.next_step(&attempt), Step::Read { at: 250, rest: 50 }));
    // Another file that has its name now is not this one, and a cut before the byte leaves nothing to read.
    let (mut reader, mut attempt) = opened();
    let short = Err(ReadError::Short { offset: 1000 });
    let other = (InodeId(FILE.0 + 1), vec![cut.clone()]);
    assert_eq!(reader.fetched(&mut attempt, other), short);
    let longer = LocatedBlock { length: BLOCK_BYTES + 1, ..cut.clone() };
    assert_eq!(reader.fetched(&mut attempt, (FILE, vec![longer])), short);
    cut.length = 250;
    reader.fetched(&mut attempt, (FILE, vec![cut])).unwrap();
    let short = ReadError::Short { offset: 1250 };
    assert!(matches!(reader.next_step(&attempt), Step::End(error) if error == short));
}

#[test]
fn the_first_datanode_that_has_all_decides_on_the_length() {
    let said = |known, all: &[Said]| {
        let mut visible = VisibleLength::new(known, false);
        let decided = all.iter().find_map(|said| visible.take(*said));
        decided.or_else(|| visible.end())
    };
    assert_eq!(said(100, &[Said::Nothing, Said::Length(90), Said::Length(120)]), Some(120));
    assert_eq!(said(100, &[Said::Absent, Said::Length(90)]), None);
    assert_eq!(said(0, &[Said::Absent, Said::Absent]), Some(0));
    assert_eq!(said(0, &[Said::Absent, Said::Nothing]), None);
    assert_eq!(said(1, &[Said::Absent]), None);
    let mut unseen = VisibleLength::new(0, true);
    assert_eq!((unseen.take(Said::Absent), unseen.end()), (None, None), "another may have bytes");
    assert_eq!(VisibleLength::new(0, true).take(Said::Length(5)), Some(5));
    assert_eq!(said(0, &[]), None, "the NameNode does not know yet who has it");
    let pauses: Duration = (0..).map_while(length_pause).sum();
    assert_eq!(pauses, Duration::from_millis(1560));
}
