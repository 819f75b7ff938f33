//! Single histories: bounds and their numbers.

use std::time::{Duration, Instant};

use protocol::namenode::{Call, Reply};
use protocol::transfer::{Ack, Status};
use protocol::{DatanodeId, ErrorKind};

use super::namenode::FILE;
use super::{Play, Scene};
use crate::error::Verdict;
use crate::error::WriteError;
use crate::writer::simulated::{CallError, Fault};
use crate::writer::{Goal, Patience, Step};

const SCENE: Scene = Scene {
    nodes: 4,
    replication: 3,
    durable_min: 2,
    block_size: 1 << 20,
    appended: None,
    slow: None,
    closes: true,
};

/// Draws of which none makes a fault.
fn no_faults() -> Vec<u8> {
    vec![0; 100_000]
}

#[test]
fn a_slow_member_is_replaced_once_per_block() {
    for slow in 1..=3 {
        let mut play = Play::new(Scene { slow: Some(slow), ..SCENE }, no_faults());
        play.write(100_000).unwrap();
        assert_eq!(play.world.slow_replaced, 1);
        let id = DatanodeId([slow; 16]);
        assert!(play.writer.pipeline().iter().all(|member| member.id != id));
        assert!(play.writer.excluded.is_empty(), "it did not fail");
        play.close().unwrap();
    }
    // Without a fourth, two are left: they must not become fewer than sync their replicas.
    let alone = Scene { nodes: 3, durable_min: 3, slow: Some(2), ..SCENE };
    let mut play = Play::new(alone, no_faults());
    play.write(100_000).unwrap();
    assert_eq!((play.world.slow_replaced, play.writer.pipeline().len()), (0, 3));
}

/// What a writer that cannot reach anybody does until it gives up.
fn unreachable(play: &mut Play, goal: Goal) -> (u32, WriteError<CallError, Fault>) {
    let mut reports = 0;
    play.writer.begin(goal);
    for _ in 0..1000 {
        match play.writer.next_step(play.world.now) {
            Step::Open { first, .. } => {
                play.world.faulty.insert(first.id);
                play.writer.opened(Err(Fault::Broken));
            }
            Step::Call(call, _) => {
                let answer = play.world.call(call);
                play.writer.answered(answer, play.world.now);
            }
            Step::Pause(_) => play.writer.paused(),
            Step::Report { .. } => reports += 1,
            Step::HangUp => play.world.hang_up(),
            Step::Done(ended) => return (reports, ended.unwrap_err()),
            step => panic!("{step:?}"),
        }
    }
    panic!("it does not end");
}

#[test]
fn failures_without_progress_end() {
    let mut play = Play::new(SCENE, Vec::new());
    play.write(100).unwrap();
    let (reports, error) = unreachable(&mut play, Goal::Close);
    assert_eq!(reports, 9);
    assert!(matches!(error, WriteError::Block { fault: Fault::Broken, .. }), "{error:?}");

    // Acknowledged bytes are not given up for other blocks: who fails is gone.
    let mut play = Play::new(Scene { nodes: 3, ..SCENE }, Vec::new());
    play.write(100).unwrap();
    play.flush(false, false).unwrap();
    play.write(100).unwrap();
    play.writer.hang_up();
    let (reports, error) =
        unreachable(&mut play, Goal::Flush { sync: false, update_length: false });
    assert_eq!(reports, 3);
    assert!(matches!(error, WriteError::Block { .. }), "{error:?}");
}

#[test]
fn who_failed_is_excluded_for_ten_minutes() {
    let mut play = Play::new(SCENE, Vec::new());
    play.writer.excluded.push((DatanodeId([2; 16]), play.world.now));
    play.writer.block = None;
    for (after_s, excluded) in [(599, 1), (600, 0)] {
        play.writer.begin(Goal::Block);
        match play.writer.next_step(play.world.now + Duration::from_secs(after_s)) {
            Step::Call(Call::AddBlock { exclude, .. }, Patience::Usual) => {
                assert_eq!(exclude.len(), excluded);
            }
            step => panic!("{step:?}"),
        }
    }
}

/// Its members have the new stamp only when they were sent something: until then the old one counts.
#[test]
fn an_append_without_data_confirms_nothing() {
    for length in [512, 513] {
        let mut play = Play::new(Scene { appended: Some(length), ..SCENE }, Vec::new());
        play.flush(false, false).unwrap();
        let open = play.world.namenode.open.clone().unwrap();
        assert_eq!(open.prior.is_none(), length == 513, "the bytes of a partial chunk are sent");
        play.flush(true, true).unwrap();
        assert_eq!(play.world.namenode.open.as_ref().unwrap().prior, None);
        play.close().unwrap();
    }
}

/// Closes while the NameNode waits for copies; how long it was asked, and what came of it.
fn close_without_copies(play: &mut Play) -> (Duration, WriteError<CallError, Fault>) {
    let begin = play.world.now;
    play.writer.begin(Goal::Close);
    for _ in 0..2000 {
        match play.writer.next_step(play.world.now) {
            Step::Call(..) => {
                let waits = Err(CallError(Some(ErrorKind::NotReplicatedYet)));
                play.writer.answered(waits, play.world.now);
            }
            Step::Pause(pause) => {
                play.world.now += pause;
                play.writer.paused();
            }
            Step::Done(ended) => return (play.world.now - begin, ended.unwrap_err()),
            step => panic!("{step:?}"),
        }
    }
    panic!("it does not end");
}

#[test]
fn a_close_waits_for_copies_and_says_why_there_are_none() {
    let mut play = Play::new(SCENE, Vec::new());
    play.write(100).unwrap();
    play.run(Goal::EndBlock).unwrap();
    let (waited, error) = close_without_copies(&mut play);
    assert_eq!(waited, Duration::from_secs(150));
    assert!(matches!(error, WriteError::Call(_)), "{error:?}");
    let full = Fault::Found(Verdict::Refused(Status::Full));
    play.writer.refused_by_disk = Some(full);
    let (_, error) = close_without_copies(&mut play);
    assert!(matches!(error, WriteError::Block { fault, .. } if fault == full), "{error:?}");
}

#[test]
fn a_pipeline_that_nobody_joins_is_widened_for_some_time() {
    let mut play =
        Play::new(Scene { nodes: 1, replication: 1, durable_min: 1, ..SCENE }, Vec::new());
    play.write(100).unwrap();
    // The NameNode asks for two from now on.
    play.writer.block.as_mut().unwrap().located.durable_min = 2;
    play.world.namenode.durable_min = 2;
    let begin = play.world.now;
    play.flush(true, false).unwrap();
    let waited = play.world.now - begin;
    assert!(waited >= Duration::from_secs(10) && waited < Duration::from_secs(11), "{waited:?}");
}

/// What becomes of the file, from the calls and their answers.
fn give_up(promised: bool, answers: Vec<Result<Reply, CallError>>) -> (Vec<Call>, bool) {
    let mut play = Play::new(SCENE, Vec::new());
    play.writer.promised = promised;
    let mut calls = Vec::new();
    let mut answers = answers.into_iter();
    let now = Instant::now();
    play.writer.begin(Goal::GiveUp);
    loop {
        match play.writer.next_step(now) {
            Step::Call(call, Patience::Once(_)) => {
                calls.push(call);
                play.writer.answered(answers.next().unwrap(), now);
            }
            Step::Done(ended) => return (calls, ended.is_ok()),
            step => panic!("{step:?}"),
        }
    }
}

#[test]
fn a_file_that_is_given_up_is_ended_once_and_by_its_inode() {
    let lost = || Err(CallError(Some(ErrorKind::LeaseExpired)));
    for promised in [false, true] {
        let (calls, ended) = give_up(promised, vec![Ok(Reply::Flag(true))]);
        assert!(ended);
        assert!(
            matches!(calls[..], [Call::AbandonFile { file: FILE, keep, unused: Some(_) }] if keep == promised),
            "{calls:?}"
        );
        assert!(give_up(promised, vec![lost()]).1, "it is another's by now");
        assert!(!give_up(promised, vec![Err(CallError(None))]).1);
    }
}

#[test]
fn a_block_to_which_nothing_was_sent_is_given_back_with_its_file() {
    for sends in [false, true] {
        let mut play = Play::new(SCENE, no_faults());
        play.writer.promised = true;
        play.run(Goal::Block).unwrap();
        if sends {
            play.write(100).unwrap();
            play.flush(false, false).unwrap();
        }
        let block = play.writer.block.as_ref().map(|block| block.located.id);
        assert!(block.is_some());
        play.writer.begin(Goal::GiveUp);
        let step = loop {
            match play.writer.next_step(Instant::now()) {
                Step::HangUp => {}
                step => break step,
            }
        };
        let Step::Call(Call::AbandonFile { unused, .. }, _) = step else { panic!("{step:?}") };
        assert_eq!(unused, block.filter(|_| !sends));
    }
}

#[test]
fn the_last_words_of_a_broken_pipeline_count() {
    let mut play = Play::new(SCENE, Vec::new());
    play.write(100).unwrap();
    let blamed = |play: &mut Play, acks: Vec<Result<Option<(Ack, Duration)>, Fault>>| {
        let now = play.world.now;
        play.writer.begin(Goal::Flush { sync: false, update_length: false });
        let mut acks = acks.into_iter();
        loop {
            match play.writer.next_step(now) {
                Step::Open { .. } => play.writer.opened(Ok(())),
                Step::Send(_) => play.writer.sent(Err(Fault::Broken)),
                Step::TakeAck { .. } => play.writer.acked(acks.next().unwrap()),
                Step::Report { datanode, fault, .. } => return (datanode, *fault),
                step => panic!("{step:?}"),
            }
        }
    };
    let failed = Ack::new(0, Status::Success).followed_by(&[Status::Success, Status::Full]);
    let told = blamed(&mut play, vec![Ok(Some((failed, Duration::ZERO)))]);
    assert_eq!(told.1, Fault::Found(Verdict::Refused(Status::Full)));
    assert_eq!(told.0, Some(DatanodeId([3; 16])));

    let mut play = Play::new(SCENE, Vec::new());
    play.write(100).unwrap();
    let told = blamed(&mut play, vec![Err(Fault::Refused)]);
    assert_eq!(told, (Some(DatanodeId([1; 16])), Fault::Refused));

    let mut play = Play::new(SCENE, Vec::new());
    play.write(100).unwrap();
    let nonsense = Ack::new(9, Status::Success);
    let told = blamed(&mut play, vec![Ok(Some((nonsense, Duration::ZERO)))]);
    assert_eq!(told, (Some(DatanodeId([1; 16])), Fault::Broken));
}
