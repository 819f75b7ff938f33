//! Metadata that is older than the data: safe mode until the right directory is back, or by force and then without using anything
//! of the lost part twice.

use protocol::datanode::{Changes, FullReport, Replica};
use protocol::namenode::{Call, DatanodeState, LocatedBlock, SafeModeAction};
use protocol::{BlockId, DfsPath, GenerationStamp};

use super::harness::{Harness, canonical, create, replica, settings};
use crate::core::blocks::Taken;
use crate::core::nodes::Datanodes;
use crate::core::random::Generator;
use crate::core::safe_mode::SafeMode;
use crate::core::state::State;

/// More than one slice of a report.
const MANY: u64 = 1_100;

/// A namespace of `count` blocks that has just been started, and their replicas.
fn started(count: u64) -> (Harness, Vec<Replica>) {
    let mut h = Harness::with_nodes(1, 3);
    let blocks: Vec<LocatedBlock> =
        (0..count).map(|number| h.write(&format!("/f{number}"), 10, 3)).collect();
    h.state = State::new(h.replay(), settings(), Generator::new(5), h.now);
    h.nodes = Datanodes::new(1000, 2000, 100);
    h.register(1);
    (h, blocks.iter().map(|block| replica(block, 10)).collect())
}

/// Replicas of blocks that the metadata has not handed out yet.
fn ahead(h: &Harness, count: u64) -> Vec<Replica> {
    let counters = h.state.ns.counters();
    let next = (counters.next_block.., counters.next_stamp..);
    next.0
        .zip(next.1)
        .take(usize::try_from(count).unwrap())
        .map(|(block, stamp)| Replica {
            block: BlockId(block),
            stamp: GenerationStamp(stamp),
            length: 10,
        })
        .collect()
}

fn order(h: &mut Harness, action: SafeModeAction) {
    h.call(Call::SafeMode(action)).unwrap();
}

fn is_old(h: &Harness) -> bool {
    matches!(h.state.safe_mode, SafeMode::OldMetadata { .. })
}

#[test]
fn safe_mode_does_not_end_between_the_slices_of_a_report() {
    let (mut h, mut finalized) = started(MANY);
    finalized.extend(ahead(&h, MANY));
    let node = h.node(1);
    let (first, second) = finalized.split_at(finalized.len() - 5);
    for (part, finalized) in [(0, first), (1, second)] {
        let report = FullReport {
            part,
            last: part == 1,
            finalized: finalized.to_vec(),
            unfinished: Vec::new(),
        };
        let mut next = 0;
        loop {
            let State { ns, blocks, .. } = &mut h.state;
            let taken = blocks.take_report(ns, &mut h.nodes, node, (&report, next)).unwrap();
            h.work();
            assert!(h.state.is_safe_mode_on(), "part {part} after {next}");
            match taken {
                Taken::Slice { next: rest } => next = rest,
                Taken::Part { .. } => break,
            }
        }
    }
    assert!(is_old(&h), "{:?}", h.state.safe_mode);
}

#[test]
fn only_force_ends_it_whatever_becomes_of_who_showed_it() {
    let (mut h, mut finalized) = started(5);
    finalized.extend(ahead(&h, 1));
    h.report(1, finalized, vec![]);
    h.work();
    assert!(is_old(&h));
    for action in [SafeModeAction::Leave, SafeModeAction::Enter, SafeModeAction::Leave] {
        order(&mut h, action);
        assert!(is_old(&h), "{action:?}");
    }
    h.pass(3000, &[]);
    assert_eq!(h.nodes.count(DatanodeState::Dead), 1);
    for action in [SafeModeAction::Enter, SafeModeAction::Leave] {
        order(&mut h, action);
        assert!(is_old(&h), "{action:?} without the DataNode");
    }
    order(&mut h, SafeModeAction::ForceLeave);
    assert!(!h.state.is_safe_mode_on());
}

#[test]
fn force_skips_what_data_nodes_hold_and_those_that_come_later() {
    let (mut h, known) = started(5);
    let lost = ahead(&h, 2 * MANY);
    let counters = h.state.ns.counters();
    let (first, later) = lost.split_at(lost.len() / 2);
    // A block of a name that was cut or appended to, and one that was being written.
    let restamped = Replica { stamp: GenerationStamp(counters.next_stamp + 9_000), ..known[4] };
    let writing = Replica { block: BlockId(counters.next_block + 8_000), ..lost[0] };
    h.report(1, [&known[..4], &[restamped], first].concat(), vec![writing]);
    h.work();
    assert!(is_old(&h));
    order(&mut h, SafeModeAction::ForceLeave);
    assert!(!h.state.is_safe_mode_on());
    h.register(2);
    h.register(3);
    h.report(2, later.to_vec(), vec![]);
    h.report(3, vec![], vec![]);
    h.work();
    assert!(!h.state.is_safe_mode_on(), "skipped with the others");
    let new = h.write("/new", 10, 3);
    assert!(new.id > writing.block && new.id > lost.last().unwrap().block, "{}", new.id);
    assert!(new.stamp > restamped.stamp, "{}", new.stamp);
    assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns), "for good");
}

#[test]
fn force_at_another_time_accepts_nothing_in_advance() {
    let (mut h, known) = started(5);
    let before = h.state.ns.counters();
    order(&mut h, SafeModeAction::ForceLeave);
    assert!(!h.state.is_safe_mode_on());
    assert_eq!(h.state.ns.counters(), before, "nothing to skip");
    let lost = ahead(&h, 1);
    h.report(1, [&known[..], &lost].concat(), vec![]);
    h.work();
    assert!(is_old(&h));
}

#[test]
fn ids_that_cannot_be_skipped_stop_nothing() {
    let (mut h, known) = started(5);
    let absurd = Replica { block: BlockId(u64::MAX), stamp: GenerationStamp(u64::MAX), length: 10 };
    h.report(1, [&known[..], &[absurd]].concat(), vec![absurd]);
    h.work();
    assert!(is_old(&h));
    order(&mut h, SafeModeAction::ForceLeave);
    assert!(!h.state.is_safe_mode_on());
    let new = h.write("/new", 10, 1);
    assert!(new.id.0 < u64::MAX / 2);
}

/// Starts anew from the records so far, with one DataNode that has nothing; writes files.
fn start(h: &mut Harness, seed: u64) -> Vec<Replica> {
    h.restart_alone();
    h.state.random = Generator::new(seed);
    h.register(1);
    h.report(1, vec![], vec![]);
    h.work();
    let paths = (0..20).map(|number| format!("/{seed}-{number}"));
    paths.map(|path| replica(&h.write(&path, 10, 1), 10)).collect()
}

/// A DataNode comes late with what was written under a lost history: it is noticed, and nobody takes it or has it deleted.
#[track_caller]
fn check_late(h: &mut Harness, lost: &[Replica]) {
    h.register(1);
    h.register(2);
    h.report(2, lost.to_vec(), vec![]);
    h.work();
    assert!(is_old(h), "{:?}", h.state.safe_mode);
    let late = Changes { received: vec![lost[0]], ..Changes::default() };
    h.changes(2, &late);
    h.pass(2000, &[1, 2]);
    let orders = h.commands.iter().filter(|(node, _)| *node == h.node(2));
    assert_eq!(orders.count(), 0, "nobody asks for them or has them deleted");
}

#[test]
fn no_two_starts_from_the_same_metadata_hand_out_the_same_ids() {
    let mut h = Harness::with_nodes(1, 3);
    h.write("/kept", 10, 3);
    let backup = h.records.clone();
    let lost = start(&mut h, 5);
    h.records = backup;
    let new = start(&mut h, 6);
    let is_new = |lost: &Replica| new.iter().any(|new| new.block == lost.block);
    assert!(!lost.iter().any(is_new));
    check_late(&mut h, &lost);
    assert_eq!(canonical(&mut h.replay().ns), canonical(&mut h.state.ns), "for good");
    // Later starts remember what was left out, from the log and from a checkpoint, also where they write nothing themselves.
    h.restart_alone();
    check_late(&mut h, &lost);
    h.checkpoint();
    h.state = State::new(h.reload(), settings(), Generator::new(9), h.now);
    h.nodes = Datanodes::new(1000, 2000, 100);
    h.commands.clear();
    check_late(&mut h, &lost);
    // By force it is given up.
    order(&mut h, SafeModeAction::ForceLeave);
    h.report(2, lost, vec![]);
    h.work();
    assert!(!h.state.is_safe_mode_on());
    h.check_replay();
}

#[test]
fn starts_without_writes_leave_one_gap_and_many_starts_a_bounded_number() {
    let mut h = Harness::with_nodes(1, 1);
    let mut sizes = Vec::new();
    for seed in 0..300 {
        h.restart_alone();
        h.state.random = Generator::new(seed);
        h.register(1);
        let path = format!("/d{seed}");
        // A directory takes no id of a block.
        let call = match seed < 10 {
            true => Call::Mkdirs {
                path: DfsPath::parse(&path).unwrap(),
                mode: 0o755,
                unmasked: None,
                parents: true,
            },
            false => create(&path, true, Some(1), true),
        };
        h.call(call).unwrap();
        h.checkpoint();
        sizes.push(h.rows[&b"g"[..]].len());
    }
    assert!(sizes[9] < 40, "{sizes:?}");
    assert!(sizes[299] < 16 << 10 && sizes[299] > sizes[20], "{sizes:?}");
    h.check_replay();
}
