//! The standing orders live, on replay and from checkpoints.

use std::collections::BTreeMap;

use protocol::delegation::{Order, Refusal, TOKENS_MAX, TOKENS_PART, TokenInfo};
use protocol::level::{Supported, Unsupported};
use protocol::namenode::{Call, Reply, SafeModeAction};
use protocol::{BlockId, DatanodeId, FeatureLevel, GenerationStamp};

use super::{NodeAway, REPLICAS_PER_ROW, ReplicaAway, Standing, StandingEdit, Token};
use crate::core::edit::{Edit, Outcome, Record};
use crate::core::nodes::Datanodes;
use crate::core::random::Generator;
use crate::core::safe_mode::SafeMode;
use crate::core::state::{Loaded, Output, State};
use crate::core::tests::harness::{Harness, settings};
use crate::error::CoreError;

const DAY: u64 = 24 * 3_600_000;

fn at(h: &mut Harness, wall_ms: u64) {
    h.now.wall_ms = wall_ms;
}

fn order(h: &mut Harness, order: &Order) -> Result<TokenInfo, Refusal> {
    let mut out = Output::default();
    let answer = h.state.order_token(&mut h.nodes, order, h.now, &mut out).unwrap();
    assert_eq!(out.records.len(), usize::from(answer.is_ok()), "a refusal changes nothing");
    h.records.extend(out.records);
    answer
}

fn commit(h: &mut Harness, edits: Vec<StandingEdit>) {
    let mut out = Output::default();
    h.state.commit_standing(&mut h.nodes, edits, h.now, &mut out).unwrap();
    h.records.extend(out.records);
}

fn issue(owner: &str, renewer: &str) -> Order {
    let (owner, renewer) = (owner.to_owned(), renewer.to_owned());
    Order::Issue { owner, renewer, lifetime_ms: DAY }
}

fn renew(token: &TokenInfo, by: Option<&str>) -> Order {
    let (number, issued_ms) = (token.number, token.issued_ms);
    Order::Renew { number, issued_ms, by: by.map(str::to_owned) }
}

fn cancel(token: &TokenInfo, by: Option<&str>) -> Order {
    let (number, issued_ms) = (token.number, Some(token.issued_ms));
    Order::Cancel { number, issued_ms, by: by.map(str::to_owned) }
}

fn away(number: u8) -> NodeAway {
    NodeAway {
        id: DatanodeId([number; 16]),
        host: "h".to_owned(),
        transfer_address: "h:1".to_owned(),
        http_address: "h:2".to_owned(),
        rack: "/r".to_owned(),
        boot_id: String::new(),
        local_socket: String::new(),
    }
}

fn replica(id: u64) -> ReplicaAway {
    ReplicaAway { block: BlockId(id), stamp: GenerationStamp(1001), length: 300 }
}

/// Everything that is known, as text.
fn canonical(standing: &Standing) -> String {
    let away = &standing.away;
    let nodes: Vec<_> = away.ids().map(|id| (id, away.is_whole(id), away.progress(id))).collect();
    format!("{} {:?} {nodes:?}", standing.is_safe_by_hand(), standing.tokens.all())
}

#[test]
fn the_life_of_a_token() {
    let mut h = Harness::new(1);
    let start = h.now.wall_ms;
    let token = order(&mut h, &issue("alice", "yarn")).unwrap();
    assert_eq!((token.issued_ms, token.expires_ms), (start, start + DAY));
    assert_eq!(token.last_ms, start + 7 * DAY);
    assert_eq!(order(&mut h, &renew(&token, Some("alice"))), Err(Refusal::NotRenewer));
    let other = TokenInfo { issued_ms: start + 1, ..token.clone() };
    assert_eq!(order(&mut h, &renew(&other, Some("yarn"))), Err(Refusal::Missing));
    for day in 1..=7 {
        at(&mut h, start + day * DAY);
        let renewed = order(&mut h, &renew(&token, Some("yarn"))).unwrap();
        assert_eq!(renewed.expires_ms, start + (day + 1).min(7) * DAY);
    }
    at(&mut h, start + 7 * DAY + 1);
    assert_eq!(order(&mut h, &renew(&token, Some("yarn"))), Err(Refusal::Expired));
    assert_eq!(order(&mut h, &renew(&token, None)), Err(Refusal::Expired), "for an operator, too");
    assert_eq!(order(&mut h, &cancel(&token, Some("eve"))), Err(Refusal::NotOwner));
    assert_eq!(order(&mut h, &cancel(&token, Some("alice"))).unwrap().number, token.number);
    assert_eq!(order(&mut h, &cancel(&token, None)), Err(Refusal::Missing));
    assert_eq!(h.state.standing.tokens.all(), []);
}

#[test]
fn nobody_renews_a_token_without_a_renewer_and_a_renewal_takes_nothing_away() {
    let mut h = Harness::new(1);
    let week =
        Order::Issue { owner: "alice".to_owned(), renewer: String::new(), lifetime_ms: 7 * DAY };
    let token = order(&mut h, &week).unwrap();
    assert_eq!(order(&mut h, &renew(&token, Some(""))), Err(Refusal::NotRenewer));
    assert_eq!(order(&mut h, &renew(&token, None)).unwrap().expires_ms, token.expires_ms);
}

#[test]
fn while_a_disk_is_nearly_full_tokens_can_only_be_cancelled() {
    for mode in [SafeMode::Startup { reached_ms: None }, SafeMode::Off, SafeMode::Manual] {
        let mut h = Harness::new(1);
        let token = order(&mut h, &issue("alice", "yarn")).unwrap();
        h.state.safe_mode = mode;
        h.state.note_resources(true);
        for (verb, asked) in [("issue", issue("bob", "")), ("renew", renew(&token, Some("yarn")))] {
            let Err(Refusal::SafeMode(text)) = order(&mut h, &asked) else { panic!("{verb}") };
            let start = format!(
                "Cannot {verb} delegation token. Name node is in safe mode.\nResources are low on NN."
            );
            assert!(text.starts_with(&start), "{text}");
        }
        let leaked = order(&mut h, &cancel(&token, None)).unwrap();
        assert_eq!((leaked.number, h.state.standing.tokens.all()), (token.number, vec![]));
        h.state.note_resources(false);
        order(&mut h, &issue("bob", "")).unwrap();
    }
}

#[test]
fn expired_tokens_leave_with_the_next_one_on_every_replica_and_there_are_not_too_many() {
    let mut h = Harness::new(1);
    let first = order(&mut h, &issue("a", "")).unwrap();
    let passing = h.now.wall_ms + DAY + 1;
    at(&mut h, passing);
    assert_eq!(h.state.standing.tokens.all().len(), 1);
    let second = order(&mut h, &issue("b", "")).unwrap();
    assert_eq!(h.state.standing.tokens.get(first.number), None);
    for replica in [h.replay().standing, h.reload().standing] {
        assert_eq!(replica.tokens.all(), std::slice::from_ref(&second));
    }
    let refused = std::iter::repeat_with(|| order(&mut h, &issue("c", ""))).find_map(Result::err);
    let count = (TOKENS_MAX - 1) * TOKENS_PART / (TOKENS_PART + 1);
    assert_eq!(refused, Some(Refusal::Share { owner: "c".to_owned(), count }));
    let others = TOKENS_MAX - 1 - count;
    for number in 0..others {
        order(&mut h, &issue(&format!("d{number}"), "")).unwrap();
    }
    assert_eq!(order(&mut h, &issue("d", "")), Err(Refusal::Full));
    at(&mut h, passing + DAY + 1);
    order(&mut h, &issue("d", "")).unwrap();
    assert_eq!(h.state.standing.tokens.all().len(), 1);
}

#[test]
fn checkpoint_and_log_say_what_the_log_alone_says_and_what_is_live() {
    needs::seeds::for_each(30, |seed| {
        let (mut h, mut random) = (Harness::new(seed), Generator::new(seed));
        let mut known: Vec<TokenInfo> = Vec::new();
        for step in 0..120 {
            h.now.wall_ms += random.next_number() % (DAY / 4);
            let node = away(1 + u8::try_from(random.below(3)).unwrap());
            let id = node.id;
            match random.below(8) {
                0 | 1 => known.extend(order(&mut h, &issue("alice", "yarn"))),
                2 if !known.is_empty() => {
                    let _ = order(&mut h, &renew(&known[random.below(known.len())], None));
                }
                3 if !known.is_empty() => {
                    let token = known.remove(random.below(known.len()));
                    let _ = order(&mut h, &cancel(&token, None));
                }
                4 => {
                    let on = random.below(2) == 0;
                    commit(&mut h, vec![StandingEdit::SafeMode { on }]);
                }
                5 => commit(&mut h, vec![StandingEdit::KeepNode(node)]),
                6 => match h.state.standing.away.progress(id) {
                    Some(last) => {
                        let first = last.map_or(0, |last| last.0 + 1);
                        let replicas = (first..first + 40).map(replica).collect();
                        let mut edits = vec![StandingEdit::KeepReplicas { datanode: id, replicas }];
                        if random.below(3) == 0 {
                            edits.push(StandingEdit::KeptNode { datanode: id });
                        }
                        commit(&mut h, edits);
                    }
                    None => commit(&mut h, vec![StandingEdit::ForgetNode { datanode: id }]),
                },
                _ => h.checkpoint(),
            }
            let live = canonical(&h.state.standing);
            let (mut reloaded, mut replayed) = (h.reload().standing, h.replay().standing);
            assert_eq!(canonical(&reloaded), live, "seed {seed} step {step}");
            assert_eq!(canonical(&replayed), live, "seed {seed} step {step}");
            assert_eq!(reloaded.away.take_whole(), replayed.away.take_whole(), "seed {seed}");
        }
        // Nothing is left in the checkpoint of what is gone.
        let (tokens, nodes) = (h.state.standing.tokens.all(), h.state.standing.away.ids());
        let mut edits: Vec<StandingEdit> =
            nodes.map(|datanode| StandingEdit::ForgetNode { datanode }).collect();
        edits.extend(tokens.iter().map(|t| StandingEdit::CancelToken { number: t.number }));
        edits.push(StandingEdit::SafeMode { on: false });
        commit(&mut h, edits);
        h.checkpoint();
        assert!(h.rows.keys().all(|key| !b"htm".contains(&key[0])), "seed {seed}");
        assert_eq!(h.state.standing.dirty_count(), 0);
    });
}

#[test]
fn a_node_that_was_not_kept_completely_is_unknown_and_forgotten() {
    let mut h = Harness::new(1);
    let id = away(1).id;
    let replicas: Vec<ReplicaAway> = (1..=10).map(replica).collect();
    commit(
        &mut h,
        vec![
            StandingEdit::KeepNode(away(1)),
            StandingEdit::KeepReplicas { datanode: id, replicas },
        ],
    );
    let mut restarted = State::new(h.replay(), settings(), Generator::new(2), h.now);
    assert_eq!(restarted.restore_maintenance(&mut Datanodes::new(1000, 2000, 100), h.now), []);
    h.state = restarted;
    h.pass(100, &[]);
    assert!(h.state.standing.away.is_empty() && h.replay().standing.away.is_empty());
}

#[test]
fn safe_mode_by_hand_is_not_logged_and_ends_with_a_restart() {
    let mut h = Harness::with_nodes(1, 3);
    let logged = h.records.len();
    for (action, is_on) in [
        (SafeModeAction::Get, false),
        (SafeModeAction::Enter, true),
        (SafeModeAction::Enter, true),
        (SafeModeAction::Leave, false),
        (SafeModeAction::Leave, false),
        (SafeModeAction::Enter, true),
        (SafeModeAction::ForceLeave, false),
        (SafeModeAction::Enter, true),
    ] {
        assert_eq!(h.call(Call::SafeMode(action)), Ok(Reply::Flag(is_on)), "{action:?}");
    }
    assert_eq!(h.records.len(), logged);
    h.state = State::new(h.replay(), settings(), Generator::new(2), h.now);
    h.register(1);
    h.report(1, vec![], vec![]);
    h.work();
    assert!(!h.state.is_safe_mode_on());
}

/// What some rows say, each of which is good.
fn loaded(rows: &[(Vec<u8>, Vec<u8>)]) -> Standing {
    let mut standing = Standing::default();
    for (key, value) in rows {
        assert_eq!(standing.load_row(key, value), Some(Ok(())));
    }
    standing
}

#[test]
fn golden_rows_and_every_cut_of_them() {
    let mut standing = Standing::default();
    let token = Token {
        owner: "a b".to_owned(),
        renewer: String::new(),
        issued_ms: 1,
        expires_ms: 300,
        last_ms: 3,
    };
    for edit in [
        StandingEdit::SafeMode { on: true },
        StandingEdit::IssueToken { number: 258, token },
        StandingEdit::KeepNode(away(7)),
        StandingEdit::KeepReplicas { datanode: away(7).id, replicas: vec![replica(5)] },
        StandingEdit::KeptNode { datanode: away(7).id },
    ] {
        standing.apply(&edit).unwrap();
    }
    let rows: BTreeMap<Vec<u8>, Vec<u8>> =
        standing.take_rows().into_iter().map(|(key, value)| (key, value.unwrap())).collect();
    let id = [7; 16];
    let node = [&id[..], &[1, b'h', 3], b"h:1", &[3], b"h:2", &[2], b"/r", &[0, 0, 1]].concat();
    let expected = [
        (b"h".to_vec(), vec![]),
        ([b"m", &id[..]].concat(), node),
        ([b"m", &id[..], &[0; 4]].concat(), vec![1, 5, 0xe9, 7, 0xac, 2]),
        (vec![b't', 0, 0, 1, 2], [&[3][..], b"a b", &[0, 1, 0xac, 2, 3]].concat()),
    ];
    assert_eq!(rows.into_iter().collect::<Vec<_>>(), expected);
    for (index, (key, value)) in expected.iter().enumerate() {
        for end in 0..value.len() {
            let loaded = loaded(&expected[..index]).load_row(key, &value[..end]);
            assert!(matches!(loaded, Some(Err(_))), "{index} {end}");
        }
        let longer = [&value[..], &[0]].concat();
        let longer = loaded(&expected[..index]).load_row(key, &longer);
        assert!(matches!(longer, Some(Err(_))), "{index}");
        let other = loaded(&expected[..index]).load_row(&[&key[..], &[0]].concat(), value);
        assert!(matches!(other, Some(Err(_))), "{index}");
    }
    // A piece without its node, and one out of order.
    let [_, (node_key, node), (piece_key, piece), _] = &expected;
    assert!(matches!(Standing::default().load_row(piece_key, piece), Some(Err(_))));
    let mut standing = Standing::default();
    assert_eq!(standing.load_row(node_key, node), Some(Ok(())));
    let second = [b"m", &id[..], &[0, 0, 0, 1]].concat();
    assert!(matches!(standing.load_row(&second, piece), Some(Err(_))));
}

#[test]
fn a_log_or_checkpoint_of_a_later_level_is_refused_and_names_the_remedy() {
    let h = Harness::new(1);
    assert_eq!(h.state.standing.level(), Supported::OWN.newest);
    assert_eq!(h.replay().standing.level(), Supported::OWN.newest);
    assert_eq!(Standing::default().level(), FeatureLevel::FIRST, "a log that records none");
    let level = FeatureLevel(300);
    let record = Record {
        call: None,
        at_ms: 1,
        edits: vec![Edit::Standing(StandingEdit::SetLevel { level })],
        outcome: Outcome::Done,
    };
    let refused = h.replay().replay(&record.encode()).unwrap_err();
    let supported = Supported::OWN;
    assert_eq!(refused, CoreError::Level(Unsupported { cluster: level, supported }));
    let mut loaded = Loaded::default();
    assert_eq!(loaded.load_row(b"l", &[1]), Ok(()));
    assert_eq!(loaded.load_row(b"l", &[0xac, 2]), Err(refused));
}

/// A DataNode chooses its id.
#[test]
fn a_node_in_maintenance_is_known_again_whatever_its_id_begins_with() {
    for start in [[0x80, 0, 9], [0x80, 0, 1], [0, 0, 0]] {
        let mut node = away(1);
        node.id.0[..3].copy_from_slice(&start);
        let mut standing = Standing::default();
        for edit in [
            StandingEdit::KeepNode(node.clone()),
            StandingEdit::KeepReplicas { datanode: node.id, replicas: vec![replica(5)] },
            StandingEdit::KeptNode { datanode: node.id },
        ] {
            standing.apply(&edit).unwrap();
        }
        let rows: BTreeMap<Vec<u8>, Vec<u8>> = standing
            .take_rows()
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect();
        let mut loaded = loaded(&rows.into_iter().collect::<Vec<_>>());
        assert_eq!(loaded.away.take_whole(), [(node, vec![replica(5)])]);
    }
}

#[test]
fn the_longest_row_fits() {
    let longest = ReplicaAway {
        block: BlockId(u64::MAX),
        stamp: GenerationStamp(u64::MAX),
        length: u64::MAX,
    };
    let mut standing = Standing::default();
    standing.apply(&StandingEdit::KeepNode(away(1))).unwrap();
    let replicas = vec![longest; REPLICAS_PER_ROW];
    standing.apply(&StandingEdit::KeepReplicas { datanode: away(1).id, replicas }).unwrap();
    let longest = standing.take_rows().into_iter().filter_map(|(_, value)| Some(value?.len()));
    assert!(longest.max().unwrap() < 16 << 10);
}
