//! Bad replicas, and a NameNode that has started again and knows nothing of them.

use protocol::Epoch;
use protocol::datanode::{Changes, FullReport, Report, Request};

use super::{STAMP, open, packet, sample};
use crate::core::replica::Intent;
use crate::core::session::Session;
use crate::core::session::tests::session;
use crate::store::*;

const COUNT: u64 = 3;

fn filled() -> (tempfile::TempDir, Arc<Store>, Session) {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path());
    for block in 1..=COUNT {
        let mut writer = store.write(BlockId(block), STAMP, Intent::Create, None).unwrap();
        writer.write(packet(0, &sample(700))).unwrap();
        writer.finalize().unwrap();
    }
    drop(store.changes().pending().take());
    (root, store, session())
}

fn replica(store: &Store, block: u64) -> Replica {
    store.open_any(BlockId(block)).unwrap().replica
}

/// All that is told, in order.
fn told(store: &Store, session: &mut Session) -> Vec<Report> {
    let mut told = Vec::new();
    while let Some(request) = session.report(&mut store.changes().pending()) {
        let Request::Report { report, .. } = &*request else { panic!("{request:?}") };
        told.push(report.clone());
        session.report_arrived();
    }
    told
}

/// Checks that all replicas are told, and then that these are bad.
#[track_caller]
fn check(told: &[Report], bad: &[u64]) {
    let Some((Report::Full(FullReport { finalized, last: true, .. }), rest)) = told.split_first()
    else {
        panic!("{told:?}")
    };
    let all: Vec<u64> = finalized.iter().map(|one| one.block.0).collect();
    assert_eq!(all, (1..=COUNT).collect::<Vec<_>>());
    let changes = |report: &Report| match report {
        Report::Changes(Changes { bad, .. }) => bad.iter().map(|one| one.block.0).collect(),
        Report::Full(_) => panic!("{told:?}"),
    };
    let rest: Vec<Vec<u64>> = rest.iter().map(changes).collect();
    assert_eq!(rest.concat(), bad);
}

#[test]
fn each_full_report_is_followed_by_what_is_known_to_be_bad() {
    let (_root, store, mut session) = filled();
    store.report_bad(&replica(&store, 2));
    for registration in 0..2 {
        // The NameNode that was told is gone, with what was on the way to it.
        session.end(&mut store.changes().pending());
        drop(store.changes().pending().take());
        let registration = (Epoch(registration + 1), 0);
        store.report_all(|all| session.registered(registration, all)).unwrap();
        check(&told(&store, &mut session), &[2]);
    }
    store.report_all(|all| session.report_all(all));
    check(&told(&store, &mut session), &[2]);
}

#[test]
fn what_turns_bad_while_the_report_is_made_is_told_after_it() {
    let (_root, store, mut session) = filled();
    store.report_all(|all| session.registered((Epoch(1), 0), all)).unwrap();
    check(&told(&store, &mut session), &[]);
    store.report_all(|all| {
        store.report_bad(&replica(&store, 3));
        let before = told(&store, &mut session);
        assert!(matches!(&before[..], [Report::Changes(_)]), "{before:?}");
        session.report_all(all);
    });
    check(&told(&store, &mut session), &[3]);
}

/// The registration ends when the report was sent, and nothing after it.
#[test]
fn what_is_bad_is_not_lost_with_a_registration() {
    let (_root, store, mut session) = filled();
    store.report_bad(&replica(&store, 1));
    drop(store.changes().pending().take());
    store.report_all(|all| session.registered((Epoch(1), 0), all)).unwrap();
    session.report(&mut store.changes().pending());
    session.report_arrived();
    session.report(&mut store.changes().pending());
    session.end(&mut store.changes().pending());
    store.report_all(|all| session.registered((Epoch(2), 0), all)).unwrap();
    check(&told(&store, &mut session), &[1]);
}

#[test]
fn one_that_is_good_again_or_replaced_is_not_told_to_be_bad() {
    let (root, store, mut session) = filled();
    (1..=COUNT).for_each(|block| store.report_bad(&replica(&store, block)));
    // The first is good after all, as the DataNode finds when a copy comes.
    assert!(store.write(BlockId(1), STAMP, Intent::Copy, None).is_err());
    // The second is damaged, and is replaced by a copy.
    let paths = store.volumes[0].paths(&replica(&store, 2));
    assert!(paths.block.starts_with(root.path()));
    std::fs::write(&paths.block, &sample(701)[1..]).unwrap();
    let mut copy = store.write(BlockId(2), STAMP, Intent::Copy, None).unwrap();
    copy.write(packet(0, &sample(700))).unwrap();
    copy.finalize().unwrap();
    drop(store.changes().pending().take());
    store.report_all(|all| session.registered((Epoch(1), 0), all)).unwrap();
    check(&told(&store, &mut session), &[3]);
}
