//! A whole worker with real task processes, against a stand-in for the JobTracker that gives prepared orders.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use daemon::Shutdown;
use daemon::auth::Authenticator;
use daemon::serve::door::Door;
use daemon::serve::{self, Limits};
use needs::{Need, lacks};
use parking_lot::Mutex;
use protocol::auth::{HELLO, Key, Role, Service};
use protocol::frame::{self, HEADER_BYTES};
use protocol::jobs::Split;
use protocol::pass::{Pass, PassName};
use protocol::shuffle::{FetchRequest, SegmentAnswer};
use protocol::tracker::{
    Action, AttemptState, AttemptUpdate, Launch, Program, Register, Reply, Request, Work,
};
use protocol::{
    AttemptId, BinaryHash, DfsPath, Epoch, ErrorKind, FeatureLevel, JobId, RemoteError, TaskId,
    TaskKind,
};
use sys::sandbox::User;
use transport::rpc::PassHolder;
use transport::rpc::{RpcClient, now_ms};
use worker::{BinarySource, Config};

/// Longest wait for any result; a successful run never takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The task process of these tests, built as an example beside them.
fn task_process() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples/task_process")
}

struct LocalFile;

impl BinarySource for LocalFile {
    fn copy(&self, _: &DfsPath, _: &str, sink: &mut dyn Write) -> Result<(), String> {
        let copied = File::open(task_process()).and_then(|mut file| io::copy(&mut file, sink));
        copied.map(drop).map_err(|error| error.to_string())
    }
}

#[derive(Default)]
struct Reported {
    epoch: u64,
    registered: Vec<Register>,
    orders: Vec<Action>,
    number: u64,
    ended: Vec<AttemptUpdate>,
    progress: usize,
}

struct Stand {
    reported: Arc<Mutex<Reported>>,
    shutdown: Shutdown,
    secret: Key,
    hash: BinaryHash,
    data: tempfile::TempDir,
    worker: tokio::task::JoinHandle<Result<(), worker::Error>>,
}

impl Stand {
    async fn start(change: impl FnOnce(&mut Config)) -> Stand {
        let data = tempfile::tempdir().unwrap();
        // If the worker is root, users of jobs pass through.
        std::fs::set_permissions(data.path(), Permissions::from_mode(0o711)).unwrap();
        let secret_file = data.path().join("secret");
        let secret = daemon::secret::load(&secret_file, true).unwrap();
        let reported = Arc::new(Mutex::new(Reported { epoch: 1, ..Reported::default() }));
        let shutdown = Shutdown::new();
        let listener = serve::bind("127.0.0.1:0", serve::Advertise::Nothing).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answering = Arc::clone(&reported);
        let auth = Authenticator::new(&secret, Service::Jobtracker);
        let route = daemon::rpc::message(
            auth.clone(),
            &[Role::Worker],
            1 << 20,
            move |request: Request| answer(Arc::clone(&answering), request),
        );
        let router =
            Router::new().route("/rpc/worker", route).route(HELLO, daemon::rpc::hello(auth));
        let hosts = daemon::hosts::Hosts::new("localhost:1", &[], "`hosts`");
        let router = daemon::front::guard(router, hosts);
        let door = Door::new(None, false).unwrap();
        tokio::spawn(serve::serve(listener, door, router, Limits::default(), shutdown.clone()));
        let mut config = Config {
            data: data.path().join("worker"),
            jobtracker: format!("http://{address}"),
            host: "here".to_owned(),
            slot_count: 2,
            secret_file,
            ..Config::default()
        };
        change(&mut config);
        let worker = tokio::spawn(worker::run_with(config, Arc::new(LocalFile), shutdown.clone()));
        let hash = client::job::hash_file(&task_process()).unwrap();
        let stand = Stand { reported, shutdown, secret, hash, data, worker };
        stand.until(|reported| !reported.registered.is_empty()).await;
        stand
    }

    async fn until(&self, done: impl Fn(&Reported) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(&self.reported.lock()) {
            assert!(Instant::now() < deadline, "waited in vain");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn order(&self, action: Action) {
        self.reported.lock().orders.push(action);
    }

    fn launch(&self, index: u32, task: &str) -> AttemptId {
        let launch = self.launch_order(index, task);
        let attempt = launch.attempt;
        self.order(Action::Launch(Box::new(launch)));
        attempt
    }

    fn launch_order(&self, index: u32, task: &str) -> Launch {
        let task_id = TaskId { job: JOB, kind: TaskKind::Map, index };
        let split = Split {
            path: DfsPath::parse(&format!("/do/{task}")).unwrap(),
            offset: 77,
            length: 1,
            hosts: Vec::new(),
            racks: Vec::new(),
            input: 0,
            more: Vec::new(),
        };
        let program = Program {
            user: "ann".to_owned(),
            binary: self.hash,
            args: vec!["in".to_owned(), "out".to_owned()],
            stage: 0,
            fingerprint: 1,
            properties: BTreeMap::new(),
            partition_count: 2,
            sizes_wanted: true,
            map_count: 1,
            output: DfsPath::parse("/out").unwrap(),
        };
        let attempt = AttemptId { task: task_id, number: 0 };
        Launch { attempt, program: program.into(), work: Work::Map { split, skip: Vec::new() } }
    }

    async fn end_of(&self, attempt: AttemptId) -> AttemptUpdate {
        self.until(|reported| reported.ended.iter().any(|update| update.attempt == attempt)).await;
        let reported = self.reported.lock();
        reported.ended.iter().find(|update| update.attempt == attempt).unwrap().clone()
    }

    async fn failure_of(&self, attempt: AttemptId) -> String {
        match self.end_of(attempt).await.state {
            AttemptState::Failed { diagnostics } => diagnostics,
            state => panic!("{state:?}"),
        }
    }

    fn http(&self) -> RpcClient {
        let address = self.reported.lock().registered[0].http_address.clone();
        RpcClient::new(&format!("http://{address}"), Role::Client, Some(&self.secret)).unwrap()
    }

    /// An RPC client with the JobTracker's role.
    fn as_jobtracker(&self) -> RpcClient {
        RpcClient::new(self.http().base(), Role::Jobtracker, Some(&self.secret)).unwrap()
    }

    async fn log(&self, attempt: AttemptId) -> String {
        self.as_jobtracker().get(&format!("/logs/{attempt}")).await.unwrap().text().await.unwrap()
    }

    /// The log of a running attempt, once it contains `word`.
    async fn log_with(&self, attempt: AttemptId, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            assert!(Instant::now() < deadline, "no {word} in the log");
            let response = self.as_jobtracker().get(&format!("/logs/{attempt}")).await;
            if let Ok(response) = response {
                let text = response.text().await.unwrap();
                if text.contains(word) {
                    return text;
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// One of the worker's figures.
    async fn figure(&self, name: &str) -> u64 {
        let text = self.http().get("/metrics").await.unwrap().text().await.unwrap();
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = lines.next().and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("`{name}` is not in:\n{text}"))
    }

    async fn until_figure(&self, name: &str, is_due: impl Fn(u64) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_due(self.figure(name).await) {
            assert!(Instant::now() < deadline, "waited in vain for {name}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn stop(self) {
        self.shutdown.begin();
        self.worker.await.unwrap().unwrap();
        drop(self.data);
    }
}

const JOB: JobId = JobId { cluster_start: 202_611_201_830, number: 1 };

async fn answer(reported: Arc<Mutex<Reported>>, request: Request) -> Result<Reply, RemoteError> {
    let fenced = |epoch: Epoch| match reported.lock().epoch {
        current if epoch.0 == current => Ok(()),
        _ => Err(RemoteError::new(ErrorKind::Fenced, "register again")),
    };
    match request {
        Request::Register(register) => {
            let mut reported = reported.lock();
            reported.registered.push(register);
            reported.number = 0;
            Ok(Reply::Registered {
                epoch: Epoch(reported.epoch),
                poll_ms: 100,
                level: FeatureLevel::FIRST,
            })
        }
        Request::Poll { epoch, received, .. } => {
            let deadline = Instant::now() + Duration::from_millis(100);
            loop {
                fenced(epoch)?;
                {
                    let mut reported = reported.lock();
                    if !reported.orders.is_empty() {
                        reported.number += 1;
                        let actions = std::mem::take(&mut reported.orders);
                        return Ok(Reply::Actions { number: reported.number, actions });
                    }
                }
                if Instant::now() >= deadline {
                    return Ok(Reply::Actions { number: received, actions: Vec::new() });
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        Request::Report { epoch, updates, .. } => {
            fenced(epoch)?;
            let mut reported = reported.lock();
            for update in updates {
                match update.state {
                    AttemptState::Running => reported.progress += 1,
                    _ => reported.ended.push(update),
                }
            }
            Ok(Reply::Done)
        }
    }
}

fn number_after(text: &str, word: &str) -> u32 {
    let mut words = text.split_whitespace().skip_while(|found| *found != word);
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{text}"))
}

async fn until_dead(pid: u32) {
    let deadline = Instant::now() + PATIENCE;
    // A killed orphan is a zombie until its adopter reaps it.
    let is_zombie = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    };
    while sys::process::is_alive(pid) && !is_zombie() {
        assert!(Instant::now() < deadline, "process {pid} still runs");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_is_reused_within_its_job_and_sees_a_clean_environment() {
    let stand = Stand::start(|_| {}).await;
    let mut logs = Vec::new();
    for index in 0..3 {
        let attempt = stand.launch(index, "ok");
        let end = stand.end_of(attempt).await;
        assert!(matches!(end.state, AttemptState::OutputDone { .. }), "{end:?}");
        assert_eq!(end.counters.value("test", "records"), 3);
        logs.push(stand.log(attempt).await);
    }
    assert!(logs.iter().all(|log| number_after(log, "pid") == number_after(&logs[0], "pid")));
    assert_eq!(logs[0].matches("pid").count(), 1, "each attempt has its own log: {}", logs[0]);
    let allowed = ["PATH", "LANG", "HOME", "TMPDIR", "HANNO_TASK_DESCRIPTORS", "HANNO_TASK_COOKIE"];
    let names = logs[0].lines().nth(2).unwrap();
    assert!(names.split(' ').all(|name| allowed.contains(&name)), "{names}");
    let pid = number_after(&logs[0], "pid");
    stand.order(Action::ForgetJob(JOB));
    until_dead(pid).await;
    let job_directory = stand.data.path().join("worker/jobs").join(JOB.to_string());
    let deadline = Instant::now() + PATIENCE;
    while job_directory.try_exists().unwrap() {
        assert!(Instant::now() < deadline, "the job's files are still there");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stand.stop().await;
}

/// Otherwise one would be ended for the time that earlier attempts used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_with_a_limit_of_processor_time_share_no_process() {
    let stand = Stand::start(|config| config.task_cpu_seconds_max = 60).await;
    let mut pids = Vec::new();
    for index in 0..3 {
        let attempt = stand.launch(index, "ok");
        let end = stand.end_of(attempt).await;
        assert!(matches!(end.state, AttemptState::OutputDone { .. }), "{end:?}");
        pids.push(number_after(&stand.log(attempt).await, "pid"));
    }
    assert!(pids[0] != pids[1] && pids[1] != pids[2], "{pids:?}");
    until_dead(pids[2]).await;
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_fails_its_attempt_with_its_last_words() {
    let stand = Stand::start(|_| {}).await;
    let crash = stand.failure_of(stand.launch(0, "boom")).await;
    assert!(
        crash.contains("exit status: 101") && crash.contains("poison record at byte 77"),
        "{crash}"
    );
    let silent_exit = stand.failure_of(stand.launch(1, "exit")).await;
    assert!(silent_exit.contains("exit status: 0"), "{silent_exit}");
    let lie = stand.failure_of(stand.launch(2, "rename")).await;
    assert!(lie.contains("which it does not run"), "{lie}");
    let escape = stand.failure_of(stand.launch(3, "escape")).await;
    assert!(escape.contains("not in the attempt's directory"), "{escape}");
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_attempt_takes_its_children_along() {
    let stand = Stand::start(|_| {}).await;
    let attempt = stand.launch(0, "hang");
    let log = stand.log_with(attempt, "child").await;
    stand.order(Action::Kill(attempt));
    assert_eq!(stand.end_of(attempt).await.state, AttemptState::Killed);
    until_dead(number_after(&log, "pid")).await;
    until_dead(number_after(&log, "child")).await;
    let next = stand.launch(1, "ok");
    assert!(matches!(stand.end_of(next).await.state, AttemptState::OutputDone { .. }));
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silence_ends_an_attempt_and_floods_end_in_a_short_log() {
    let stand = Stand::start(|config| {
        config.task_timeout_ms = 300;
        config.log_bytes_max = 10_000;
    })
    .await;
    let silence = stand.failure_of(stand.launch(0, "silent")).await;
    assert!(silence.contains("no sign of life for 300ms"), "{silence}");
    let flood = stand.launch(1, "flood");
    assert!(matches!(stand.end_of(flood).await.state, AttemptState::OutputDone { .. }));
    let log = stand.log(flood).await;
    assert!(log.len() < 11_000 && log.contains("the log was cut off here"), "{}", log.len());
    // Output without end holds up neither the end of its attempt nor what comes after it.
    let endless = stand.launch(2, "endless");
    let end = stand.end_of(endless).await.state;
    assert!(matches!(end, AttemptState::OutputDone { .. }), "{end:?}");
    let next = stand.launch(3, "ok");
    assert!(matches!(stand.end_of(next).await.state, AttemptState::OutputDone { .. }));
    stand.stop().await;
}

/// What takes long before a process is ready is no failure as long as the process shows life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_not_ready_may_take_its_time_but_not_be_silent() {
    let stand = Stand::start(|config| config.runner_start_timeout_ms = 2_500).await;
    let mut attempts = Vec::new();
    for (index, stage) in [(0, 14), (1, 15)] {
        let mut launch = stand.launch_order(index, "ok");
        Arc::make_mut(&mut launch.program).stage = stage;
        launch.attempt.task.job.number += index;
        attempts.push(launch.attempt);
        stand.order(Action::Launch(Box::new(launch)));
    }
    let diagnostics = stand.failure_of(attempts[1]).await;
    let told = "no sign of life for 2.5s (runner_start_timeout_ms) while it was fetching the last";
    assert!(diagnostics.contains(told), "{diagnostics}");
    let state = stand.end_of(attempts[0]).await.state;
    assert!(matches!(state, AttemptState::OutputDone { .. }), "{state:?}");
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_cannot_run_fails_its_attempts() {
    let stand = Stand::start(|_| {}).await;
    let mut launch = stand.launch_order(0, "ok");
    Arc::make_mut(&mut launch.program).stage = 13;
    let refused = launch.attempt;
    stand.order(Action::Launch(Box::new(launch)));
    assert_eq!(stand.failure_of(refused).await, "another fingerprint");
    let mut launch = stand.launch_order(1, "ok");
    Arc::make_mut(&mut launch.program).binary = BinaryHash([7; 32]);
    let damaged = launch.attempt;
    stand.order(Action::Launch(Box::new(launch)));
    let diagnostics = stand.failure_of(damaged).await;
    assert!(diagnostics.contains("executable has hash"), "{diagnostics}");
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_still_open_for_writing_is_started_when_it_is_not() {
    let stand = Stand::start(|_| {}).await;
    stand.failure_of(stand.launch(0, "exit")).await;
    let program = stand.data.path().join("worker/binaries").join(stand.hash.to_string());
    let held = File::options().append(true).open(program).unwrap();
    let before = stand.reported.lock().progress;
    let attempt = stand.launch(1, "ok");
    stand.until(|reported| reported.progress > before).await;
    drop(held);
    let end = stand.end_of(attempt).await;
    assert!(matches!(end.state, AttemptState::OutputDone { .. }), "{end:?}");
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn map_outputs_are_served_by_partition() {
    let stand = Stand::start(|_| {}).await;
    let (map, other) = (stand.launch(0, "map"), stand.launch(1, "map"));
    stand.end_of(other).await;
    let end = stand.end_of(map).await;
    let AttemptState::MapDone { partition_bytes, .. } = end.state else { panic!("{end:?}") };
    let missing = AttemptId { number: 5, ..map };
    let mut stored = 0;
    for partitions in [0..1, 1..2, 0..2] {
        let maps = vec![missing, map, other];
        let request = FetchRequest { job: JOB, partitions: partitions.clone(), maps };
        let body = stand.http().get(&request.to_target()).await.unwrap().whole().await.unwrap();
        let mut rest = &body[..];
        assert!(
            matches!(header(&mut rest), SegmentAnswer::Lost { attempt, .. } if attempt == missing)
        );
        let of_map = |attempt| partitions.clone().map(move |reduce| (attempt, reduce));
        for (attempt, reduce) in of_map(map).chain(of_map(other)) {
            let SegmentAnswer::Segment(found) = header(&mut rest) else { panic!("lost") };
            assert_eq!((found.attempt, found.reduce, found.records), (attempt, reduce, 1_000));
            let (segment, after) = rest.split_at(usize::try_from(found.stored).unwrap());
            let totals = shuffle::verify_segment(segment).unwrap();
            assert_eq!((totals.records, totals.raw), (found.records, found.raw));
            assert_eq!(partition_bytes[reduce as usize], found.raw, "reported to the JobTracker");
            stored += found.stored;
            rest = after;
        }
        assert!(rest.is_empty());
    }
    let sent = stand.figure("worker_shuffle_served_bytes_total").await;
    assert_eq!(sent, stored);
    let beyond = FetchRequest { job: JOB, partitions: 1..3, maps: vec![map] };
    let body = stand.http().get(&beyond.to_target()).await.unwrap().whole().await.unwrap();
    assert!(matches!(header(&mut &body[..]), SegmentAnswer::Lost { .. }));
    for target in
        ["/mapOutput?job=x", "/mapOutput?job=../../etc&reduce=0&map=passwd", "/logs/..%2fx"]
    {
        assert!(stand.http().get(target).await.is_err(), "{target}");
    }
    stand.until_figure("worker_task_disk_bytes", |bytes| bytes >= stored).await;
    let log = stand.http().get(&format!("/logs/{map}")).await.unwrap_err();
    assert!(log.to_string().contains("403"), "clients ask the JobTracker: {log}");
    let other =
        RpcClient::new(stand.http().base(), Role::Client, Some(&Key::new([1; 32]))).unwrap();
    let error = other.get(&beyond.to_target()).await.unwrap_err();
    assert!(error.to_string().contains("401"), "{error}");
    let foreign = JobId { number: JOB.number + 1, ..JOB };
    for (job, may) in [(JOB, true), (foreign, false)] {
        let name = PassName { job, user: "ada".to_owned(), expires_ms: now_ms() + 60_000 };
        let pass = PassHolder::new(Pass::issue(&stand.secret, name));
        let task = RpcClient::of_task(stand.http().base(), &pass).unwrap();
        let fetched = task.get(&beyond.to_target()).await;
        assert_eq!(fetched.is_ok(), may, "{job}: {fetched:?}");
        let log = task.get(&format!("/logs/{map}")).await.unwrap_err();
        assert!(log.to_string().contains("403"), "{log}");
    }
    stand.stop().await;
}

fn header(rest: &mut &[u8]) -> SegmentAnswer {
    let (head, after) = rest.split_first_chunk::<HEADER_BYTES>().unwrap();
    let (length, crc) = frame::parse_header(*head, 4 << 10).unwrap();
    let (body, after) = after.split_at(length);
    *rest = after;
    frame::decode_body(body, crc, "answer").unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_worker_comes_back_with_what_it_runs_and_holds() {
    let stand = Stand::start(|_| {}).await;
    let map = stand.launch(0, "map");
    let end = stand.end_of(map).await;
    assert!(matches!(end.state, AttemptState::MapDone { .. }), "{end:?}");
    let before = stand.reported.lock().progress;
    let hanging = stand.launch(1, "hang");
    stand.until(|reported| reported.progress > before).await;
    stand.reported.lock().epoch = 2;
    stand.until(|reported| reported.registered.len() > 1).await;
    let again = stand.reported.lock().registered.last().unwrap().clone();
    assert_eq!(again.worker, stand.reported.lock().registered[0].worker);
    assert_eq!(again.running, [hanging]);
    assert_eq!(again.held_outputs.iter().map(|o| o.attempt).collect::<Vec<_>>(), [map]);
    stand.order(Action::Kill(hanging));
    assert_eq!(stand.end_of(hanging).await.state, AttemptState::Killed);
    stand.stop().await;
}

/// Memory of a task in these tests: well above what the task process itself needs.
const MEMORY_LIMIT: u64 = 64 << 20;
/// Files of a task.
const DISK_LIMIT: u64 = 8 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_beyond_their_limits_fail_with_the_reason_and_harm_nobody() {
    let stand = Stand::start(|config| {
        config.task_memory_bytes_max = 1 << 20;
        config.task_memory_limit_bytes = MEMORY_LIMIT;
        config.task_processes_max = 20;
        config.task_disk_bytes_max = DISK_LIMIT;
        config.slot_count = 6;
    })
    .await;
    let health = stand.http().get("/healthz").await.unwrap().text().await.unwrap();
    assert!(health.contains("64 MiB memory, 20 processes, 8 MiB on disk"), "{health}");
    let quiet = stand.launch(9, "silent");
    let forks = stand.launch(8, "forks");
    for (index, task, reasons) in [
        (0, "fork", &["more than its limit of 20"][..]),
        (1, "hog", &["memory allocation of", "more than its limit of 67108864"]),
        (2, "hogs", &["more than its limit of 67108864"]),
        (4, "fill", &["bytes on disk, more than its limit of 8388608"]),
    ] {
        let failure = stand.failure_of(stand.launch(index, task)).await;
        assert!(reasons.iter().any(|reason| failure.contains(reason)), "{task}: {failure}");
    }
    let end = stand.end_of(stand.launch(3, "ok")).await;
    assert!(matches!(end.state, AttemptState::OutputDone { .. }), "{end:?}");
    let end = stand.end_of(forks).await;
    assert!(matches!(end.state, AttemptState::OutputDone { .. }), "memory counted twice: {end:?}");
    assert_eq!(stand.figure("worker_limits_exceeded_total{limit=\"processes\"}").await, 1);
    assert_eq!(stand.figure("worker_limits_exceeded_total{limit=\"disk\"}").await, 1);
    assert!(stand.figure("worker_limits_exceeded_total{limit=\"memory\"}").await >= 1);
    assert_eq!(stand.figure("worker_attempts_running{kind=\"map\"}").await, 1);
    let ended = |state| format!("worker_attempts_ended_total{{kind=\"map\",state=\"{state}\"}}");
    assert_eq!(stand.figure(&ended("failed")).await, 4);
    assert_eq!(stand.figure(&ended("succeeded")).await, 2);
    stand.until_figure("worker_task_memory_bytes", |bytes| bytes > 0).await;
    assert!(!stand.reported.lock().ended.iter().any(|update| update.attempt == quiet));
    stand.stop().await;
}

/// Set for child copies of this program: how they must end tasks.
const ENDED_VARIABLE: &str = "HANNO_TEST_ENDED";

/// Limits and the ending of tasks work with either version of cgroups, if the machine has it, and with none.
#[test]
fn limits_and_ends_hold_with_cgroups_of_either_version_and_with_none() {
    if std::env::var_os(ENDED_VARIABLE).is_some() {
        return;
    }
    let first = "grep -w 'cgroup cgroup' /proc/self/mountinfo | cut -d ' ' -f 5";
    let second = "grep -w 'cgroup2 cgroup2' /proc/self/mountinfo | cut -d ' ' -f 5";
    for (hidden, ended) in [
        (format!("{first}; {second}"), "ended by looks, orphans adopted"),
        (first.to_owned(), "ended as a cgroup of version 2"),
        (second.to_owned(), "ended as a cgroup of version 1"),
    ] {
        // That script sees none of those hierarchies.
        let script = format!(
            "for place in $({hidden}); do umount -l $place || exit; done; exec \"$0\" \"$@\""
        );
        let copy = |arguments: &[&str]| {
            let mut command = std::process::Command::new("unshare");
            command.args(["-m", "sh", "-c", &script]).args(arguments);
            command.env(ENDED_VARIABLE, ended).output().unwrap()
        };
        let can_be = copy(&["sh", "-c", "cat /proc/self/mountinfo"]);
        let mounts = String::from_utf8_lossy(&can_be.stdout).into_owned();
        let is_there = match ended.rsplit_once("version ") {
            Some((_, "2")) => mounts.contains(" - cgroup2 "),
            Some(_) => mounts.contains("pids"),
            None => true,
        };
        if !can_be.status.success() || !is_there {
            lacks(Need::Cgroups, format_args!("{ended}: {can_be:?}"));
            continue;
        }
        let program = std::env::current_exe().unwrap();
        let tests = [
            "tasks_beyond_their_limits_fail_with_the_reason_and_harm_nobody",
            "a_grandchild_that_left_is_killed_too",
        ];
        let [limits, ends] = tests;
        let output = copy(&[program.to_str().unwrap(), "--exact", limits, ends]);
        assert!(output.status.success(), "{ended}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("2 passed"), "{output:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grandchild_that_left_is_killed_too() {
    let stand = Stand::start(|_| {}).await;
    if let Ok(ended) = std::env::var(ENDED_VARIABLE) {
        let health = stand.http().get("/healthz").await.unwrap().text().await.unwrap();
        assert!(health.contains(&ended), "{health}");
    }
    let attempt = stand.launch(0, "leave");
    let deadline = Instant::now() + PATIENCE;
    let log = loop {
        let log = match stand.as_jobtracker().get(&format!("/logs/{attempt}")).await {
            Ok(log) => log.text().await.unwrap(),
            Err(_) => String::new(),
        };
        if log.contains("left ") {
            break log;
        }
        assert!(Instant::now() < deadline, "no grandchild: {log}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    let left = number_after(&log, "left");
    assert!(sys::process::is_alive(left));
    stand.order(Action::Kill(attempt));
    assert!(matches!(stand.end_of(attempt).await.state, AttemptState::Killed));
    until_dead(left).await;
    stand.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_comes_back_while_its_files_are_deleted_is_tried_again_until_they_are() {
    /// Deleting this many files takes a while.
    const FILES: usize = 20_000;
    let stand = Stand::start(|_| {}).await;
    stand.end_of(stand.launch(0, "map")).await;
    let files = stand.data.path().join(format!("worker/jobs/{JOB}"));
    for number in 0..FILES {
        File::create(files.join(format!("left-{number}"))).unwrap();
    }
    stand.order(Action::ForgetJob(JOB));
    let deadline = Instant::now() + PATIENCE;
    while std::fs::read_dir(&files).is_ok_and(|names| names.count() >= FILES) {
        assert!(Instant::now() < deadline, "nothing is deleted");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (mut index, mut state) = (1, AttemptState::Killed);
    while state == AttemptState::Killed {
        assert!(Instant::now() < deadline, "it never runs");
        state = stand.end_of(stand.launch(index, "map")).await.state;
        index += 1;
    }
    assert!(matches!(state, AttemptState::MapDone { .. }), "{state:?}");
    stand.stop().await;
}

/// The user and group that a process acts as.
fn user_of(pid: u32) -> User {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = |name| {
        let line = status.lines().find_map(|line: &str| line.strip_prefix(name)).unwrap();
        let numbers: Vec<u32> =
            line.split_whitespace().map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers, vec![numbers[0]; 4], "{status}");
        numbers[0]
    };
    assert_eq!(number("Uid:"), number("Gid:"), "{status}");
    assert!(status.contains("CapEff:\t0000000000000000"), "{status}");
    User::new(number("Uid:")).expect("a task of root's worker is not root")
}

/// True if a user can open a path with `how`, whatever other walls a task has.
fn opens(user: User, path: &Path, how: &OpenOptions) -> bool {
    user.act(|| how.open(path).map(drop)).is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_of_roots_worker_have_users_of_their_own() {
    let first = User::new(Config::default().task_user_first).unwrap();
    if let Err(error) = sys::sandbox::try_user(first, &[&std::env::temp_dir()]) {
        lacks(Need::Users, error);
        return;
    }
    let stand = Stand::start(|config| config.slot_count = 4).await;
    let health = stand.http().get("/healthz").await.unwrap().text().await.unwrap();
    assert!(health.contains("a user of its own for each job"), "{health}");
    let map = stand.launch(0, "map");
    stand.end_of(map).await;
    let other_job = JobId { number: 2, ..JOB };
    let mut other = stand.launch_order(0, "hang");
    other.attempt.task.job = other_job;
    let (hanging, others) = (stand.launch(1, "hang"), other.attempt);
    stand.order(Action::Launch(Box::new(other)));
    let pids = [
        number_after(&stand.log_with(hanging, "child").await, "pid"),
        number_after(&stand.log_with(others, "child").await, "pid"),
    ];
    let [user, other] = pids.map(user_of);
    assert_ne!(user, other);

    let worker = stand.data.path().join("worker");
    let (files, outputs) =
        (worker.join(format!("jobs/{JOB}")), worker.join(format!("outputs/{JOB}")));
    let data = outputs.join(format!("{map}.data"));
    let own = files.join(hanging.to_string());
    let binary = worker.join(format!("binaries/{}", stand.hash));
    let (read, write) =
        (OpenOptions::new().read(true).clone(), OpenOptions::new().write(true).clone());
    for (path, may_read, may_write) in [
        (&files, [true, false], false),
        (&own, [true, false], false),
        (&outputs, [true, false], false),
        (&data, [true, false], false),
        (&data.with_extension("index"), [true, false], false),
        (&binary, [true, true], false),
        (&worker.join("jobs"), [false, false], false),
        (&worker.join("outputs"), [false, false], false),
        (&worker.join("binaries"), [false, false], false),
        (&worker.join("logs"), [false, false], false),
        (&worker.join("lock"), [false, false], false),
        (&stand.data.path().join("secret"), [false, false], false),
    ] {
        let found = [user, other].map(|user| opens(user, path, &read));
        assert_eq!(found, may_read, "reading {}", path.display());
        let found = [user, other].map(|user| opens(user, path, &write));
        assert_eq!(found, [may_write; 2], "writing {}", path.display());
    }
    let made = |user: User, place: &Path| {
        user.act(|| std::fs::write(place.join("made"), "").map(drop)).is_ok()
    };
    assert!(made(user, &own) && made(user, &files) && !made(user, &outputs));
    assert!(!made(other, &own) && !made(other, &files));
    let renamed = user.act(|| std::fs::rename(&data, own.join("taken")));
    assert!(renamed.is_err(), "an output was taken back");

    // A process that left everything behind ends with its job at the latest.
    let left = user.act(|| std::process::Command::new("sleep").arg("1000").spawn());
    let mut left = left.unwrap();
    stand.order(Action::ForgetJob(JOB));
    let deadline = Instant::now() + PATIENCE;
    while files.is_dir() || outputs.is_dir() || left.try_wait().unwrap().is_none() {
        assert!(Instant::now() < deadline, "something of the job is left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(sys::process::is_alive(pids[1]), "the other job goes on");
    stand.stop().await;
    until_dead(pids[1]).await;
}
