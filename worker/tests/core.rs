//! The worker's core through its public face, as another crate drives it: a job of one attempt, by ids and messages alone.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use protocol::jobs::{Counters, Split};
use protocol::level::{FeatureLevel, Supported};
use protocol::phase::Phase;
use protocol::tracker::{
    Action, AttemptState, Launch, Program, Register, Reply, Request, VERSION, Work,
};
use protocol::{AttemptId, BinaryHash, DfsPath, Epoch, JobId, TaskId, TaskKind, WorkerId};
use worker::core::{Answer, CallNumber, Core, Effect, Event, News, Rules, RunnerId};

const JOB: JobId = JobId { cluster_start: 1, number: 1 };

fn rules() -> Rules {
    Rules {
        register: Register {
            version: VERSION,
            levels: Supported::OWN,
            worker: WorkerId([1; 16]),
            host: "host".to_owned(),
            rack: "/rack".to_owned(),
            boot_id: "machine".to_owned(),
            http_address: "10.0.0.1:1".to_owned(),
            slot_count: 1,
            isolation: String::new(),
            running: Vec::new(),
            held_outputs: Vec::new(),
        },
        outputs: PathBuf::from("/data/outputs"),
        links_outputs: true,
        reuses_runners: true,
        silence_max: Duration::from_secs(600),
        idle_max: Duration::from_secs(30),
    }
}

fn launch(attempt: AttemptId) -> Action {
    let program = Program {
        user: "ann".to_owned(),
        binary: BinaryHash([2; 32]),
        args: Vec::new(),
        stage: 0,
        fingerprint: 1,
        properties: BTreeMap::new(),
        partition_count: 0,
        sizes_wanted: false,
        map_count: 1,
        output: DfsPath::parse("/out").unwrap(),
    };
    let split = Split {
        path: DfsPath::parse("/in").unwrap(),
        offset: 0,
        length: 1,
        hosts: Vec::new(),
        racks: Vec::new(),
        input: 0,
        more: Vec::new(),
    };
    let work = Work::Map { split, skip: Vec::new() };
    Action::Launch(Box::new(Launch { attempt, program: program.into(), work }))
}

/// The request of the only call among the effects.
fn call(effects: &[Effect]) -> (CallNumber, Request) {
    let calls = effects.iter().filter_map(|effect| match effect {
        Effect::Call { call, request, .. } => Some((*call, request.clone())),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls.len(), 1, "{effects:?}");
    calls.into_iter().next().unwrap()
}

#[test]
fn an_attempt_runs_and_is_reported() {
    let mut core = Core::new(rules());
    assert_eq!(core.wake_at(), Duration::ZERO);
    let now = Duration::from_millis(1);
    let reply = |call, reply| Event::Answered { call, answer: Answer::Reply(reply) };

    let (register, request) = call(&core.on(Event::Tick, now));
    assert!(matches!(request, Request::Register(_)));
    let welcome = Reply::Registered { epoch: Epoch(3), poll_ms: 1_000, level: FeatureLevel::FIRST };
    let (poll, request) = call(&core.on(reply(register, welcome), now));
    assert!(matches!(request, Request::Poll { epoch: Epoch(3), received: 0, .. }));

    let task = TaskId { job: JOB, kind: TaskKind::Map, index: 0 };
    let attempt = AttemptId { task, number: 0 };
    let orders = Reply::Actions { number: 1, actions: vec![launch(attempt)] };
    let effects = core.on(reply(poll, orders), now);
    assert!(matches!(call(&effects).1, Request::Poll { received: 1, .. }));
    assert!(matches!(effects[1..], [Effect::Prepare(id)] if id == attempt));
    let effects = core.on(Event::Prepared(attempt, Ok(())), now);
    let [Effect::Fetch(binary, _)] = effects[..] else { panic!("{effects:?}") };
    let effects = core.on(Event::Fetched(binary, Ok(())), now);
    let [Effect::Start { runner, .. }, Effect::Give { .. }] = effects[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(core.figures().running[&TaskKind::Map], 1);

    let directory = DfsPath::parse(&format!("/out/_temporary/{attempt}")).unwrap();
    let state = AttemptState::OutputDone { directory, hot_keys: Vec::new() };
    let (counters, progress, phase) = (Counters::default(), 1.0, Phase::Map);
    let ended = News::Ended { attempt, state: state.clone(), counters, progress, phase };
    let (report, request) = call(&core.on(Event::Runner(runner, ended), now));
    let Request::Report { updates, .. } = request else { panic!("{request:?}") };
    assert_eq!((updates[0].attempt, &updates[0].state), (attempt, &state));
    assert!(core.on(reply(report, Reply::Done), now).is_empty(), "it is confirmed");

    let effects = core.on(Event::Shutdown, now);
    assert!(matches!(effects[..], [Effect::Kill(RunnerId(id))] if id == runner.0));
    let gone = News::Gone { diagnostics: String::new() };
    let effects = core.on(Event::Runner(runner, gone), now);
    assert!(matches!(effects[..], [Effect::End]), "{effects:?}");
}
