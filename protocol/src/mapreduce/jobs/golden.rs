//! The bytes of each call and each answer, as they were when it was introduced.

use std::collections::BTreeMap;

use super::*;
use crate::rounds::RoundsSpec;
use crate::sizing::ReduceSizing;
use crate::table::golden::{check, hex};
use crate::tracker::{Launch, Program, Work};
use crate::{AttemptId, BinaryHash, ClientId, DfsPath, JobId, TaskId, TaskKind, wire};

const JOB: JobId = JobId { cluster_start: 202_601_051_030, number: 300 };
const TASK: TaskId = TaskId { job: JOB, kind: TaskKind::Reduce, index: 5 };
const ATTEMPT: AttemptId = AttemptId { task: TASK, number: 2 };

fn text(text: &str) -> String {
    text.to_owned()
}

fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

fn split() -> Split {
    let part = SplitPart { path: dfs("/b"), offset: 1, length: 2 };
    Split {
        path: dfs("/a"),
        offset: 300,
        length: 7,
        hosts: vec![text("h")],
        racks: vec![text("/r")],
        input: 1,
        more: vec![part],
    }
}

fn splits() -> Splits {
    [split()].into_iter().collect()
}

fn spec() -> JobSpec {
    JobSpec {
        name: text("n"),
        binary: BinaryHash([7; 32]),
        args: vec![text("x")],
        stage: 1,
        fingerprint: 400,
        splits: splits(),
        reduce_count: 3,
        output: dfs("/out"),
        attempts_max: 4,
        slow_start_permille: 50,
        properties: BTreeMap::from([(text("k"), text("v"))]),
        sizing: Some(ReduceSizing { slot_count: 8 }),
        rounds: Some(RoundsSpec { last: 10, keep_every: 5 }),
    }
}

/// One of each call, in the order of their tags.
fn calls() -> Vec<Call> {
    vec![
        Call::Submit(Box::new(spec())),
        Call::List,
        Call::Status(JOB),
        Call::Kill(JOB),
        Call::Tasks(JOB),
        Call::TrackerStatus,
        Call::SetPriority { job: JOB, priority: Priority::High },
        Call::Queues,
        Call::StopAttempt { attempt: ATTEMPT, fail: true },
        Call::Workers,
        Call::RefreshNodes,
        Call::RefreshQueues,
        Call::Replay(ATTEMPT),
        Call::RefreshGroups,
        Call::AdministeredQueues,
    ]
}

fn report() -> JobReport {
    let counts = TaskCounts { total: 300, pending: 1, running: 2, ..TaskCounts::default() };
    let mut counters = Counters::default();
    counters.add("g", "c", 500);
    JobReport {
        id: JOB.to_string(),
        name: text("n"),
        user: text("u"),
        state: JobState::Committing,
        maps: counts,
        reduces: TaskCounts { completed: 3, failed_attempts: 4, killed_attempts: 5, ..counts },
        map_progress: 0.5,
        reduce_progress: 0.25,
        submitted_ms: 1 << 40,
        finished_ms: 0,
        counters,
        read_records_per_s: 1,
        read_bytes_per_s: 2,
        diagnostics: text("d"),
        output: dfs("/out"),
        queue: text("q"),
        priority: Priority::VeryLow,
        slot_count: 2,
        is_outline: false,
        rounds: Some(RoundsReport {
            newest: 3,
            last: 300,
            measures: vec![RoundMeasure { round: 2, measure: 0.5 }],
        }),
    }
}

fn task() -> TaskReport {
    let attempt = AttemptReport {
        id: ATTEMPT.to_string(),
        state: text("RUNNING"),
        host: text("h"),
        log_url: text("/log"),
        started_ms: 300,
        finished_ms: 0,
        diagnostics: text("d"),
        progress: 0.5,
        phase: text("map"),
        status: text("s"),
    };
    TaskReport { id: TASK, progress: 0.5, attempts: vec![attempt] }
}

fn queue() -> QueueReport {
    QueueReport {
        name: text("q"),
        running: true,
        policy: text("fair"),
        weight: 1,
        slots_min: 2,
        slots_max: 300,
        user_slots_max: 3,
        running_jobs_max: 4,
        share_permille: 500,
        slot_count: 5,
        demand: 6,
        job_count: 7,
        started_job_count: 8,
    }
}

fn replay() -> Replay {
    let program = Program {
        user: text("u"),
        binary: BinaryHash([7; 32]),
        args: vec![text("x")],
        stage: 1,
        fingerprint: 400,
        properties: BTreeMap::new(),
        partition_count: 3,
        sizes_wanted: true,
        map_count: 1,
        output: dfs("/out"),
    };
    let work = Work::Map { split: split(), skip: Vec::new() };
    let launch = Launch { attempt: ATTEMPT, program: program.into(), work };
    Replay { launch, splits: splits(), diagnostics: text("d") }
}

/// One of each answer, in the order of their tags.
fn replies() -> Vec<Reply> {
    let status = TrackerStatus {
        worker_count: 1,
        slot_count: 300,
        busy_slot_count: 2,
        running_job_count: 3,
        host_count: 2,
    };
    let worker = WorkerReport {
        host: text("h"),
        http_address: text("h:1"),
        rack: text("/r"),
        slot_count: 4,
        excluded: true,
        faults: 2,
        silent_ms: 300,
        launched_count: 9,
        ..WorkerReport::default()
    };
    vec![
        Reply::Done,
        Reply::Submitted(JOB),
        Reply::Jobs(vec![report()]),
        Reply::Job(Box::new(report())),
        Reply::Tasks(vec![task()]),
        Reply::Tracker(status),
        Reply::Queues(vec![queue()]),
        Reply::Workers(vec![worker]),
        Reply::Replay(Box::new(replay())),
        Reply::Names(vec![text("q")]),
    ]
}

#[test]
fn calls_about_jobs_are_sent_as_ever() {
    assert_eq!(calls().len(), Call::COUNT, "one for each row of the table");
    check(&calls(), include_str!("golden/calls.hex"));
}

#[test]
fn answers_about_jobs_are_sent_as_ever() {
    check(&replies(), include_str!("golden/answers.hex"));
}

#[test]
fn requests_about_jobs_are_sent_as_ever() {
    let call = CallId { client: ClientId([1; 16]), number: 300 };
    let request = Request::new(call, "ann", calls::Kill { job: JOB });
    let head = "0601010101010101010101010101010101ac0203616e6e";
    assert_eq!(
        hex(&wire::encode(&request)),
        format!("{head}{}", hex(&wire::encode(&request.body)))
    );
}

#[test]
fn the_columns_of_a_row_agree() {
    for call in calls() {
        let (kind, logged) = (call.kind(), call.logged());
        assert_eq!(logged.is_none(), kind == Kind::Read, "{call:?}");
        match call.by() {
            By::Anyone => {}
            By::Viewer(job) => assert_eq!((kind, job), (Kind::Read, JOB)),
            By::Modifier(job) => assert_eq!((kind, job), (Kind::Change, JOB)),
            By::Administrator(name) => {
                assert_eq!(logged.map(|logged| logged.command), Some(name));
            }
        }
    }
}
