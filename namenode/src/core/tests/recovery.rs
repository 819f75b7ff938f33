//! Recoveries and cuts that take long: slow copies, hung members, leaders that fail, die or start again. An attempt that is under way is left alone, and what
//! it made counts unless a later one can have been begun.

use std::collections::BTreeMap;

use protocol::datanode::{Changes, Command, CommitRecovery, Replica};
use protocol::namenode::{Call, DatanodeState, Reply};
use protocol::{BlockId, DatanodeId, ErrorKind, GenerationStamp};

use super::harness::{Harness, create, dfs, replica};
use crate::core::nodes::beat;
use crate::core::random::Generator;
use crate::core::state::Output;

/// The harness's `recovery_retry_ms`.
const RETRY_MS: u64 = 500;
/// For so long a word of a first attempt is waited for.
const PATIENCE_MS: u64 = 4000;

/// An attempt that was ordered.
#[derive(Clone, Debug)]
struct Ordered {
    leader: u8,
    block: BlockId,
    stamp: GenerationStamp,
    length: u64,
    members: Vec<DatanodeId>,
}

impl Ordered {
    fn of(leader: u8, command: Command) -> Option<Ordered> {
        match command {
            Command::Recover { block, stamp, replicas, .. } => {
                let members = replicas.iter().map(|info| info.id).collect();
                Some(Ordered { leader, block, stamp, length: 500, members })
            }
            Command::Cut { block, stamp, length, targets, .. } => {
                let members = targets.iter().map(|info| info.id).collect();
                Some(Ordered { leader, block, stamp, length, members })
            }
            _ => None,
        }
    }
}

/// What was ordered since the last look.
fn orders(h: &mut Harness) -> Vec<Ordered> {
    let commands = std::mem::take(&mut h.commands);
    let number = |h: &Harness, node| h.nodes.node(node).info.id.0[0];
    commands.into_iter().filter_map(|(node, it)| Ordered::of(number(h, node), it)).collect()
}

#[track_caller]
fn one_order(h: &mut Harness) -> Ordered {
    let mut all = orders(h);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// The leader ends an attempt, on the members that did not hang.
fn end(h: &mut Harness, of: &Ordered, hung: &[u8]) -> Result<(), ErrorKind> {
    let mut replicas = of.members.clone();
    replicas.retain(|member| !hung.contains(&member.0[0]));
    let Ordered { block, stamp, length, .. } = *of;
    let (answered, without) = (replicas.clone(), Vec::new());
    let commit = CommitRecovery { block, stamp, length, replicas, answered, without };
    let (mut out, now) = (Output::default(), h.now);
    let answer = h.state.commit_recovery(&mut h.nodes, &commit, now, &mut out).unwrap();
    h.records.extend(out.records);
    answer.map_err(|error| error.kind)
}

fn fail(h: &mut Harness, number: u8, block: BlockId) {
    h.changes(number, &Changes { copies_failed: vec![block], ..Changes::default() });
}

fn is_open(h: &mut Harness, path: &str) -> bool {
    match h.call(Call::Status(dfs(path))) {
        Ok(Reply::Status(status)) => status.open,
        other => panic!("{other:?}"),
    }
}

/// "/f", which is being cut; the attempt that was ordered.
fn cut(h: &mut Harness) -> Ordered {
    h.write("/f", 500, 3);
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 123 }), Ok(Reply::Flag(false)));
    h.commands.clear();
    h.pass(100, &[1, 2, 3]);
    one_order(h)
}

/// "/f" with 500 synced bytes, whose writer is gone; the attempt that was ordered.
fn abandoned(h: &mut Harness) -> Ordered {
    let Ok(Reply::Created(created)) = h.call(create("/f", false, Some(3), true)) else {
        panic!("not created")
    };
    let (file, block) = (created.file, created.first_block.unwrap());
    let sync = Call::SyncBlock { file, block: block.id, stamp: block.stamp, length: 500 };
    assert_eq!(h.call(sync), Ok(Reply::Done));
    h.commands.clear();
    assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(false)));
    one_order(h)
}

#[test]
fn a_cut_that_takes_longer_than_several_retries_is_accepted() {
    let mut h = Harness::with_nodes(1, 3);
    let cut = cut(&mut h);
    for _ in 0..7 {
        h.pass(RETRY_MS, &[1, 2, 3]);
        assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(false)));
    }
    assert_eq!(orders(&mut h).len(), 0, "it is under way");
    assert_eq!(end(&mut h, &cut, &[]), Ok(()));
    assert!(!is_open(&mut h, "/f"));
    h.check_replay();
}

#[test]
fn a_recovery_that_waits_long_for_a_hung_member_is_accepted_without_it() {
    let mut h = Harness::with_nodes(1, 3);
    let recovery = abandoned(&mut h);
    let hung = recovery.members.iter().map(|it| it.0[0]).find(|it| *it != recovery.leader);
    for _ in 0..5 {
        h.pass(RETRY_MS, &[1, 2, 3]);
        assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(false)));
    }
    assert_eq!(orders(&mut h).len(), 0);
    assert_eq!(end(&mut h, &recovery, &[hung.unwrap()]), Ok(()));
    assert_eq!(h.call(Call::RecoverLease(dfs("/f"))), Ok(Reply::Flag(true)));
    assert_eq!(h.holders(recovery.block).len(), 2);
}

#[test]
fn an_attempt_that_failed_is_followed_by_another_leaders_at_the_next_turn() {
    let mut h = Harness::with_nodes(1, 3);
    let first = cut(&mut h);
    let other = (1..=3).find(|number| *number != first.leader).unwrap();
    fail(&mut h, other, first.block);
    h.pass(RETRY_MS, &[1, 2, 3]);
    assert_eq!(orders(&mut h).len(), 0, "only its leader can say that");
    fail(&mut h, first.leader, first.block);
    h.pass(100, &[1, 2, 3]);
    let second = one_order(&mut h);
    assert!(second.leader != first.leader && second.stamp > first.stamp);
    // Not at once.
    fail(&mut h, second.leader, second.block);
    h.pass(RETRY_MS - 100, &[1, 2, 3]);
    assert_eq!(orders(&mut h).len(), 0);
    h.pass(100, &[1, 2, 3]);
    let third = one_order(&mut h);
    assert_eq!(end(&mut h, &second, &[]), Err(ErrorKind::InvalidArgument));
    assert_eq!(end(&mut h, &third, &[]), Ok(()));
}

#[test]
fn an_attempt_ends_with_its_leaders_process() {
    for restarted in [false, true] {
        let mut h = Harness::with_nodes(1, 3);
        let first = cut(&mut h);
        let others: Vec<u8> = (1..=3).filter(|number| *number != first.leader).collect();
        h.pass(1500, &others);
        assert_eq!(orders(&mut h).len(), 0, "it is silent");
        if restarted {
            h.register(first.leader);
            h.pass(100, &[1, 2, 3]);
        } else {
            h.pass(500, &others);
            assert_eq!(h.nodes.node(h.node(first.leader)).state, DatanodeState::Dead);
        }
        let second = one_order(&mut h);
        assert_ne!(second.leader, first.leader);
        if !restarted {
            assert!(!second.members.contains(&DatanodeId([first.leader; 16])));
            h.register(first.leader);
        }
        // The other one may have been begun meanwhile.
        assert_eq!(end(&mut h, &first, &[]), Err(ErrorKind::InvalidArgument));
        assert_eq!(end(&mut h, &second, &[]), Ok(()));
        assert_eq!(end(&mut h, &first, &[]), Err(ErrorKind::InvalidArgument));
    }
}

/// A leader that was taken for dead comes back with the end of its attempt.
#[test]
fn what_was_made_counts_while_nobody_has_fetched_another_order() {
    let mut h = Harness::with_nodes(1, 3);
    let first = cut(&mut h);
    let others: Vec<u8> = (1..=3).filter(|number| *number != first.leader).collect();
    h.pass(2000, &others);
    let commands = std::mem::take(&mut h.commands);
    let [(node, Command::Cut { .. })] = &commands[..] else { panic!("{commands:?}") };
    let node = *node;
    for (node, command) in commands {
        h.nodes.push_command(node, command);
    }
    h.register(first.leader);
    assert_eq!(end(&mut h, &first, &[]), Ok(()));
    assert_eq!(h.nodes.take_commands(node), [], "it is not begun any more");
    assert!(!is_open(&mut h, "/f"));
    h.check_replay();
}

#[test]
fn where_no_word_comes_each_attempt_is_given_twice_as_long() {
    let mut h = Harness::with_nodes(1, 3);
    let first = cut(&mut h);
    let (mut ordered_ms, mut leader) = (h.now.mono_ms, first.leader);
    for patience_ms in [1, 2, 4, 8, 8].map(|factor| factor * PATIENCE_MS) {
        let next = loop {
            h.pass(100, &[1, 2, 3]);
            if let Some(next) = orders(&mut h).pop() {
                break next;
            }
        };
        assert_ne!(next.leader, leader);
        assert_eq!(h.now.mono_ms - ordered_ms, patience_ms);
        (ordered_ms, leader) = (h.now.mono_ms, next.leader);
    }
}

/// DataNodes that take long, fail, hang, die and start again. Files are cut or lose their writers meanwhile.
struct Slow {
    h: Harness,
    random: Generator,
    /// What is being done, with the time at which it ends.
    works: Vec<(u64, Ordered)>,
    /// The latest stamp that was begun, by block.
    begun: BTreeMap<BlockId, GenerationStamp>,
    /// Numbers of the DataNodes that are silent, and until when.
    silent: BTreeMap<u8, u64>,
    /// Replicas that are cut.
    whole: BTreeMap<u8, Vec<Replica>>,
}

impl Slow {
    const NODES: u8 = 4;

    fn is_silent(&self, number: u8) -> bool {
        self.silent.contains_key(&number)
    }

    fn step(&mut self, faulty: bool) {
        let now_ms = self.h.now.mono_ms;
        if faulty && self.random.below(15) == 0 {
            // Some for so short a time that they are never taken for dead.
            let number = 1 + u8::try_from(self.random.below(usize::from(Self::NODES))).unwrap();
            self.silent.entry(number).or_insert(now_ms + self.random.next_number() % 6000);
        }
        self.silent.retain(|_, until_ms| *until_ms > now_ms && faulty);
        let alive: Vec<u8> = (1..=Self::NODES).filter(|it| !self.is_silent(*it)).collect();
        self.h.pass(100, &alive);
        for number in alive {
            let node = self.h.node(number);
            if self.h.nodes.node(node).state == DatanodeState::Dead {
                self.h.register(number);
                let whole = self.whole.get(&number).cloned().unwrap_or_default();
                self.h.report(number, whole, vec![]);
                // Half of them have only been silent: what they did goes on.
                if self.random.below(2) == 0 {
                    self.works.retain(|(_, work)| work.leader != number);
                }
            }
        }
        for (node, command) in std::mem::take(&mut self.h.commands) {
            self.h.nodes.push_command(node, command);
        }
        self.fetch(faulty);
        self.end_works(faulty);
    }

    fn fetch(&mut self, faulty: bool) {
        for number in 1..=Self::NODES {
            if self.is_silent(number) || (faulty && self.random.below(3) == 0) {
                continue;
            }
            let node = self.h.node(number);
            for command in self.h.nodes.take_commands(node) {
                let Some(work) = Ordered::of(number, command) else { continue };
                if faulty && self.random.below(20) == 0 {
                    // The answer to its heartbeat is lost.
                    continue;
                }
                let latest = self.begun.entry(work.block).or_default();
                *latest = work.stamp.max(*latest);
                let takes_ms = self.random.next_number() % if faulty { 5000 } else { 1500 };
                self.works.push((self.h.now.mono_ms + takes_ms, work));
            }
        }
    }

    fn end_works(&mut self, faulty: bool) {
        let now_ms = self.h.now.mono_ms;
        for (until_ms, work) in std::mem::take(&mut self.works) {
            if until_ms > now_ms || self.is_silent(work.leader) {
                self.works.push((until_ms, work));
            } else if faulty && self.random.below(3) == 0 {
                fail(&mut self.h, work.leader, work.block);
            } else if end(&mut self.h, &work, &[]).is_ok() {
                let stamp = self.h.state.ns.block(work.block).unwrap().stamp;
                assert_eq!(stamp, work.stamp);
                assert_eq!(self.begun[&work.block], stamp, "members may have a later one");
            }
        }
    }
}

#[test]
fn whatever_leaders_do_every_file_is_closed_by_the_last_attempt_that_was_begun() {
    needs::seeds::for_each(60, |seed| {
        let mut slow = Slow {
            h: Harness::with_nodes(seed, Slow::NODES),
            random: Generator::new(seed),
            works: Vec::new(),
            begun: BTreeMap::new(),
            silent: BTreeMap::new(),
            whole: BTreeMap::new(),
        };
        for number in 0..8 {
            let path = format!("/f{number}");
            if number % 2 == 0 {
                let whole = slow.h.write(&path, 500, 3);
                for number in slow.h.holders(whole.id) {
                    slow.whole.entry(number).or_default().push(replica(&whole, 500));
                }
                let cut = Call::Truncate { path: dfs(&path), length: 100 };
                assert_eq!(slow.h.call(cut), Ok(Reply::Flag(false)));
            } else {
                assert!(slow.h.call(create(&path, false, Some(3), true)).is_ok());
                let recover = Call::RecoverLease(dfs(&path));
                assert_eq!(slow.h.call(recover), Ok(Reply::Flag(false)));
            }
        }
        (0..150).for_each(|_| slow.step(true));
        (0..400).for_each(|_| slow.step(false));
        assert_eq!(slow.h.state.ns.leases.file_count(), 0, "seed {seed}: {:?}", slow.works);
        slow.h.check_replay();
    });
}

/// What is before the damage can be saved: every chunk is verified when it is sent.
#[test]
fn a_block_whose_replicas_are_all_damaged_is_cut_from_one_of_them() {
    let mut h = Harness::with_nodes(1, 4);
    let whole = h.write("/f", 500, 3);
    let damaged = h.holders(whole.id);
    for number in &damaged {
        let bad = vec![replica(&whole, 500)];
        h.changes(*number, &Changes { bad, ..Changes::default() });
    }
    assert_eq!(h.holders(whole.id).len(), 0);
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 123 }), Ok(Reply::Flag(false)));
    // Wherever the damage is: each of them has its turn.
    let mut leaders = Vec::new();
    for _ in 0..3 {
        h.commands.clear();
        h.pass(RETRY_MS, &[1, 2, 3, 4]);
        let cut = one_order(&mut h);
        assert!(cut.members.len() >= 2, "{cut:?}");
        leaders.push(cut.leader);
        if leaders.len() < 3 {
            fail(&mut h, cut.leader, cut.block);
            continue;
        }
        assert_eq!(end(&mut h, &cut, &[]), Ok(()));
        assert_eq!(h.holders(cut.block).len(), cut.members.len());
    }
    leaders.sort_unstable();
    assert_eq!(leaders, damaged);
    assert!(!is_open(&mut h, "/f"));
    h.check_replay();
}

#[test]
fn where_the_disks_with_a_block_are_full_its_first_bytes_go_to_others() {
    let mut h = Harness::with_nodes(1, 4);
    let whole = h.write("/f", 500, 2);
    let (holders, all) = (h.holders(whole.id), [1, 2, 3, 4]);
    let others: Vec<u8> = all.into_iter().filter(|number| !holders.contains(number)).collect();
    assert_eq!(h.call(Call::Truncate { path: dfs("/f"), length: 123 }), Ok(Reply::Flag(false)));
    h.commands.clear();
    for number in &holders {
        let node = h.node(*number);
        h.nodes.heartbeat(node, &beat(100), h.now.mono_ms);
    }
    h.pass(100, &others);
    let cut = one_order(&mut h);
    assert!(holders.contains(&cut.leader));
    let mut members: Vec<u8> = cut.members.iter().map(|member| member.0[0]).collect();
    members.sort_unstable();
    assert_eq!(members, others);
    assert_eq!(end(&mut h, &cut, &[]), Ok(()));
    assert_eq!(h.holders(cut.block), others);
}

#[test]
fn a_cut_that_nobody_can_make_is_refused_and_one_that_makes_too_little_does_not_count() {
    let mut h = Harness::with_nodes(1, 3);
    let whole = h.write("/f", 500, 3);
    let truncate = |length| Call::Truncate { path: dfs("/f"), length };
    h.pass(2100, &[]);
    let refused = h.call(truncate(123)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::NotReplicatedYet);
    assert!(refused.message.contains("no replica on a live DataNode"), "{refused}");
    assert!(!is_open(&mut h, "/f"));
    for number in 1..=3 {
        h.register(number);
        h.report(number, vec![replica(&whole, 500)], vec![]);
    }
    assert_eq!(h.call(truncate(123)), Ok(Reply::Flag(false)));
    h.commands.clear();
    h.pass(100, &[1, 2, 3]);
    let cut = one_order(&mut h);
    let short = Ordered { length: 100, ..cut.clone() };
    let nothing = Ordered { members: vec![], ..cut.clone() };
    for wrong in [short, nothing] {
        assert_eq!(end(&mut h, &wrong, &[]), Err(ErrorKind::InvalidArgument));
    }
    assert_eq!(end(&mut h, &cut, &[]), Ok(()));
}

/// More than can be ordered within the least time between two attempts.
#[test]
fn files_that_fail_again_and_again_hold_up_no_others() {
    let mut h = Harness::with_nodes(1, 3);
    let count = 2500;
    for number in 0..count {
        assert!(h.call(create(&format!("/f{number}"), false, Some(1), true)).is_ok());
    }
    h.commands.clear();
    let mut turns: BTreeMap<BlockId, u32> = BTreeMap::new();
    // Their leases end, which is the first turn of each.
    for _ in 0..5000 / 100 + 2 * count / 200 + 5 {
        h.pass(100, &[1, 2, 3]);
        for order in orders(&mut h) {
            fail(&mut h, order.leader, order.block);
            *turns.entry(order.block).or_default() += 1;
        }
    }
    assert_eq!(turns.len(), count);
    assert!(turns.values().all(|count| *count >= 2));
    // What was deleted meanwhile has no turn.
    let delete = |number| Call::Delete { path: dfs(&format!("/f{number}")), recursive: false };
    (10..count).for_each(|number| drop(h.call(delete(number)).unwrap()));
    h.pass(RETRY_MS, &[1, 2, 3]);
    assert_eq!(orders(&mut h).len(), 10);
}
