//! A whole JobTracker over its sockets and its journal, with a model of the NameNode's name space and a hand-driven worker.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod names;
mod restarts;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use axum::Router;
use daemon::Shutdown;
use daemon::access::Auth;
use daemon::auth::Authenticator;
use daemon::serve::door::Door;
use daemon::serve::{self, Limits};
use jobtracker::Config;
use parking_lot::Mutex;
use protocol::auth::{HELLO, Key, Role, Service};
use protocol::jobs::{self, Counters, JobSpec, JobState, Split};
use protocol::level::Supported;
use protocol::namenode;
use protocol::tracker::{self, Action, AttemptState, AttemptUpdate, Register};
use protocol::{
    AttemptId, BinaryHash, CallId, ClientId, DfsPath, Epoch, ErrorKind, InodeId, JobId,
    RemoteError, TaskId, TaskKind, WorkerId,
};
use transport::rpc::{CallOptions, RpcClient};

use self::names::Names;

/// Longest wait for any result; a successful run never takes that long.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stand {
    names: Arc<Mutex<Names>>,
    data: tempfile::TempDir,
    secret: Key,
    namenode: String,
    address: String,
    shutdown: Shutdown,
    tracker: Option<tokio::task::JoinHandle<Result<(), jobtracker::Error>>>,
    epoch: Epoch,
    received: u64,
    calls: u64,
}

const WORKER: WorkerId = WorkerId([5; 16]);

impl Stand {
    async fn start() -> Stand {
        let data = tempfile::tempdir().unwrap();
        let secret = daemon::secret::load(&data.path().join("secret"), true).unwrap();
        let names = Arc::new(Mutex::new(Names::default()));
        let answering = Arc::clone(&names);
        let auth = Authenticator::new(&secret, Service::Namenode);
        let route = daemon::rpc::message(
            auth.clone(),
            &[Role::Client],
            1 << 20,
            move |request: namenode::Request| {
                let answer = answering.lock().call(request);
                async move { answer }
            },
        );
        let listener = serve::bind("127.0.0.1:0", serve::Advertise::Nothing).await.unwrap();
        let namenode = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/rpc", route).route(HELLO, daemon::rpc::hello(auth));
        let hosts = daemon::hosts::Hosts::new("localhost:1", &[], "`hosts`");
        let router = daemon::front::guard(router, hosts);
        let door = Door::new(None, false).unwrap();
        tokio::spawn(serve::serve(listener, door, router, Limits::default(), Shutdown::new()));
        let address = free_address();
        let mut stand = Stand {
            names,
            data,
            secret,
            namenode,
            address,
            shutdown: Shutdown::new(),
            tracker: None,
            epoch: Epoch(0),
            received: 0,
            calls: 0,
        };
        stand.open().await;
        stand
    }

    /// Starts the JobTracker on its data.
    async fn open(&mut self) {
        self.shutdown = Shutdown::new();
        let config = Config {
            data: self.data.path().join("jobtracker"),
            bind: self.address.clone(),
            namenode: self.namenode.clone(),
            secret_file: self.data.path().join("secret"),
            settle_ms: 50,
            poll_ms: 100,
            auth: Auth::Simple,
            ..Config::default()
        };
        self.tracker = Some(tokio::spawn(jobtracker::run(config, self.shutdown.clone())));
        let client = self.client(Role::Client);
        let deadline = Instant::now() + PATIENCE;
        while client.health().await.is_err() {
            assert!(Instant::now() < deadline, "the jobtracker does not come up");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        (self.epoch, self.received) = (Epoch(0), 0);
    }

    async fn close(&mut self) {
        self.shutdown.begin();
        self.tracker.take().unwrap().await.unwrap().unwrap();
    }

    fn client(&self, role: Role) -> RpcClient {
        RpcClient::new(&format!("http://{}", self.address), role, Some(&self.secret)).unwrap()
    }

    async fn ask(&mut self, body: jobs::Call) -> jobs::Answer {
        self.calls += 1;
        let call = CallId { client: ClientId([1; 16]), number: self.calls };
        self.send(call, body).await
    }

    async fn send(&self, call: CallId, body: jobs::Call) -> jobs::Answer {
        let request = jobs::Request::new(call, "ann", body);
        let answer = self.client(Role::Client).call("/rpc", &request, CallOptions::default()).await;
        answer.map_err(|error| match error {
            transport::RpcError::Remote(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    async fn submit(&mut self, spec: JobSpec) -> Result<JobId, RemoteError> {
        match self.ask(jobs::Call::Submit(Box::new(spec))).await? {
            jobs::Reply::Submitted(job) => Ok(job),
            other => panic!("{other:?}"),
        }
    }

    async fn worker_call(&self, request: tracker::Request) -> tracker::Answer {
        let client = self.client(Role::Worker);
        let answer = client.call("/rpc/worker", &request, CallOptions::default()).await;
        answer.map_err(|error| match error {
            transport::RpcError::Remote(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    async fn register(&mut self, running: Vec<AttemptId>) {
        let register = Register { running, ..registration(WORKER) };
        match self.worker_call(tracker::Request::Register(register)).await.unwrap() {
            tracker::Reply::Registered { epoch, .. } => (self.epoch, self.received) = (epoch, 0),
            other => panic!("{other:?}"),
        }
    }

    /// Orders until one satisfies `wanted`.
    async fn poll_for(&mut self, wanted: impl Fn(&Action) -> bool) -> Vec<Action> {
        let deadline = Instant::now() + PATIENCE;
        let mut all = Vec::new();
        while !all.iter().any(&wanted) {
            assert!(Instant::now() < deadline, "no such order: {all:?}");
            let request = tracker::Request::Poll {
                worker: WORKER,
                epoch: self.epoch,
                received: self.received,
            };
            match self.worker_call(request).await.unwrap() {
                tracker::Reply::Actions { number, actions } => {
                    self.received = number;
                    all.extend(actions);
                }
                other => panic!("{other:?}"),
            }
        }
        all
    }

    /// Attempts launched, at least `count`.
    async fn launched(&mut self, count: usize) -> Vec<AttemptId> {
        let mut attempts = Vec::new();
        while attempts.len() < count {
            let orders = self.poll_for(|order| matches!(order, Action::Launch(_))).await;
            attempts.extend(orders.iter().filter_map(|order| match order {
                Action::Launch(launch) => Some(launch.attempt),
                _ => None,
            }));
        }
        attempts
    }

    /// The attempt writes its file and reports.
    async fn finish(&self, attempt: AttemptId) {
        self.finish_in("/out", attempt).await;
    }

    /// The same in a job with this output.
    async fn finish_in(&self, output: &str, attempt: AttemptId) {
        let directory = path(&format!("{output}/_temporary/{attempt}"));
        {
            let mut names = self.names.lock();
            names.entries.insert(directory.clone(), None);
            let file = directory.join(&format!("part-m-{:05}", attempt.task.index)).unwrap();
            names.entries.insert(file, Some(InodeId(7)));
            names.entries.insert(directory.join("side").unwrap(), None);
            let side = directory.join(&format!("side/{}", attempt.task.index)).unwrap();
            names.entries.insert(side, Some(InodeId(8)));
        }
        let mut counters = Counters::default();
        counters.add("test", "records", 10);
        let state = AttemptState::OutputDone { directory, hot_keys: Vec::new() };
        let updates = vec![update(attempt, state, counters)];
        let (worker, epoch) = (WORKER, self.epoch);
        let report =
            tracker::Request::Report { worker, epoch, updates, fetch_failures: Vec::new() };
        self.worker_call(report).await.unwrap();
    }

    /// Follows the events of a job to the last.
    async fn watch(&self, job: JobId) -> jobs::JobReport {
        let target = format!("/api/v1/jobs/{job}/events");
        let client = self.client(Role::Client);
        let text = client.get_as("ann", &target).await.unwrap().text().await.unwrap();
        let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(last.unwrap()).unwrap()
    }

    /// All paths, except the directory for executables.
    fn tree(&self) -> Vec<String> {
        let names = self.names.lock();
        let paths = names.entries.keys().map(ToString::to_string);
        paths.filter(|path| !path.starts_with("/system")).collect()
    }
}

fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

fn spec(map_count: usize) -> JobSpec {
    let split = Split {
        path: path("/in"),
        offset: 0,
        length: 1,
        hosts: vec!["here".to_owned()],
        racks: vec!["/r".to_owned()],
        input: 0,
        more: Vec::new(),
    };
    JobSpec {
        name: "a <job>".to_owned(),
        binary: BinaryHash([1; 32]),
        args: Vec::new(),
        stage: 0,
        fingerprint: 7,
        splits: std::iter::repeat_n(split, map_count).collect(),
        reduce_count: 0,
        sizing: None,
        rounds: None,
        output: path("/out"),
        attempts_max: 2,
        slow_start_permille: 50,
        properties: BTreeMap::new(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_run_published_and_remembered() {
    let mut stand = Stand::start().await;
    stand.register(Vec::new()).await;
    let job = stand.submit(spec(3)).await.unwrap();
    let first = stand.launched(2).await;
    assert_eq!(stand.tree(), ["/out", "/out/_temporary"]);
    for attempt in first {
        stand.finish(attempt).await;
    }
    let last = stand.launched(1).await;
    stand.finish(last[0]).await;
    let report = stand.watch(job).await;
    assert_eq!((report.state, report.maps.completed), (JobState::Succeeded, 3));
    assert_eq!(report.counters.value("test", "records"), 30);
    let expected = [
        "/out",
        "/out/_SUCCESS",
        "/out/part-m-00000",
        "/out/part-m-00001",
        "/out/part-m-00002",
        "/out/side",
        "/out/side/0",
        "/out/side/1",
        "/out/side/2",
    ];
    assert_eq!(stand.tree(), expected);
    stand.poll_for(|order| matches!(order, Action::ForgetJob(id) if *id == job)).await;

    let error = stand.submit(spec(1)).await.unwrap_err();
    assert_eq!(error.message, "Output directory /out already exists");
    assert_eq!(stand.tree(), expected, "nothing was made");

    let pages = reqwest_text(&stand.address, "/").await;
    assert!(
        !pages.contains("a &lt;job&gt;") && pages.contains("auth = &quot;simple&quot;"),
        "{pages}"
    );
    let pages = reqwest_text(&stand.address, "/jobs").await;
    assert!(pages.contains("a &lt;job&gt;") && pages.contains(&job.to_string()), "{pages}");
    let page = reqwest_text(&stand.address, &format!("/jobs/{job}")).await;
    assert!(page.contains("SUCCEEDED") && page.contains("<svg"), "{page}");
    for target in ["/jobs?q=job", "/workers", &format!("/jobs/{job}/attempts?state=SUCCEEDED")] {
        let page = reqwest_text(&stand.address, target).await;
        assert!(page.starts_with("HTTP/1.1 200") && !page.contains("<job>"), "{page}");
    }
    check_reads_for_scripts(&stand.address, job).await;

    stand.close().await;
    stand.open().await;
    let again = stand.watch(job).await;
    assert_eq!(again.counters.value("test", "records"), 30);
    assert_eq!(again, report, "the history survives a restart, from the checkpoint");
    stand.close().await;
}

/// Checks our own API, Hadoop's history API and the metrics, for a finished job of three maps.
async fn check_reads_for_scripts(address: &str, job: JobId) {
    let history = format!("/ws/v1/history/mapreduce/jobs/{job}");
    let task = TaskId { job, kind: TaskKind::Map, index: 1 };
    for (target, wanted) in [
        (format!("/api/v1/jobs/{job}"), "\"state\":\"SUCCEEDED\""),
        ("/ws/v1/history/mapreduce/jobs?state=SUCCEEDED&limit=1".to_owned(), "\"mapsTotal\":3"),
        ("/ws/v1/history/mapreduce/jobs?user=nobody".to_owned(), "{\"jobs\":{\"job\":[]}}"),
        (history.clone(), "\"successfulMapAttempts\":3"),
        (format!("{history}/counters"), "\"totalCounterValue\":30"),
        (format!("{history}/tasks?type=m"), "\"progress\":100.0"),
        (format!("{history}/tasks/{task}/attempts"), "\"state\":\"SUCCEEDED\""),
        ("/metrics".to_owned(), "mr_jobs{state=\"succeeded\"} 1"),
        (format!("/jobs/{job}/trace.json"), "\"ph\":\"X\""),
        (format!("/jobs/{job}/report.html"), "<style>"),
    ] {
        let answer = get(address, &target, "127.0.0.1").await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(wanted),
            "{target}: {answer}"
        );
        assert!(get(address, &target, "evil.example").await.starts_with("HTTP/1.1 421"));
    }
    for missing in [format!("{history}/tasks/{task}9"), history.replace("/job_", "/job_9")] {
        let answer = get(address, &missing, "localhost").await;
        assert!(
            answer.starts_with("HTTP/1.1 404") && answer.contains("RemoteException"),
            "{answer}"
        );
    }
}

/// A page as a browser gets it, with its protective headers checked.
async fn reqwest_text(address: &str, target: &str) -> String {
    let refused = get(address, target, "evil.example").await;
    assert!(refused.starts_with("HTTP/1.1 421"), "a foreign name is refused: {refused}");
    let text = get(address, target, "localhost").await;
    assert!(text.contains("content-security-policy: default-src 'self'"), "{text}");
    text
}

/// Head and body of an answer.
async fn get(address: &str, target: &str, host: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let joint = if target.contains('?') { '&' } else { '?' };
    let target = format!("{target}{joint}user.name=ann");
    let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// Waits until safe mode has refused a call.
async fn until_refused(names: &Mutex<Names>) {
    let deadline = Instant::now() + PATIENCE;
    while names.lock().refused == 0 {
        assert!(Instant::now() < deadline, "nothing was asked in safe mode");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_waits_while_the_namenode_has_no_room_and_deletes_nothing_before() {
    let mut stand = Stand::start().await;
    stand.names.lock().fills_up = true;
    stand.register(Vec::new()).await;
    let job = stand.submit(spec(1)).await.unwrap();
    let attempt = stand.launched(1).await[0];
    stand.finish(attempt).await;
    let names = Arc::clone(&stand.names);
    until_refused(&names).await;
    assert!(stand.tree().contains(&"/out/_temporary/_SUCCESS".to_owned()), "{:?}", stand.tree());
    names.lock().is_full = false;
    let report = stand.watch(job).await;
    assert_eq!(report.state, JobState::Succeeded, "{}", report.diagnostics);
    let tree = stand.tree();
    assert!(tree.contains(&"/out/_SUCCESS".to_owned()), "{tree:?}");
    assert!(!tree.contains(&"/out/_temporary".to_owned()), "{tree:?}");
    stand.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_a_quota_refuses_leaves_no_directory() {
    let mut stand = Stand::start().await;
    let below = |output: &str| JobSpec { output: path(output), ..spec(1) };
    for (most, output) in [(1, "/out"), (0, "/out"), (3, "/a/b/out"), (2, "/a/b/out")] {
        stand.names.lock().most = Some(most);
        let error = stand.submit(below(output)).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NamespaceQuotaExceeded, "{error:?}");
        assert_eq!(stand.tree(), Vec::<String>::new(), "{most} {output}");
    }
    stand.names.lock().entries.insert(path("/a"), None);
    assert!(stand.submit(below("/a/b/out")).await.is_err());
    assert_eq!(stand.tree(), ["/a"], "it was there before");
    stand.names.lock().most = None;
    stand.submit(below("/a/b/out")).await.unwrap();
    assert_eq!(stand.tree(), ["/a", "/a/b", "/a/b/out", "/a/b/out/_temporary"]);
    stand.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_has_the_modes_that_the_umask_of_its_job_leaves() {
    for (umask, directory, file) in [(None, 0o755, 0o644), (Some("077"), 0o700, 0o600)] {
        let mut stand = Stand::start().await;
        stand.register(Vec::new()).await;
        let mut spec = JobSpec { output: path("/a/out"), ..spec(1) };
        let umask = umask.map(|mask| ("fs.permissions.umask-mode".to_owned(), mask.to_owned()));
        spec.properties.extend(umask);
        let job = stand.submit(spec).await.unwrap();
        let attempt = stand.launched(1).await[0];
        stand.finish_in("/a/out", attempt).await;
        let report = stand.watch(job).await;
        assert_eq!(report.state, JobState::Succeeded, "{}", report.diagnostics);
        let modes = std::mem::take(&mut stand.names.lock().modes);
        let directory = |text: &str| (path(text), (directory, Some(0o777)));
        let success = (path("/a/out/_temporary/_SUCCESS"), (file, Some(0o666)));
        let made = modes.into_iter().filter(|(made, _)| made.starts_with(&path("/a")));
        assert_eq!(
            made.collect::<Vec<_>>(),
            [
                directory("/a"),
                directory("/a/out"),
                directory("/a/out/_temporary"),
                success,
                directory("/a/out/side")
            ]
        );
        stand.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_and_killed_jobs_leave_nothing() {
    let mut stand = Stand::start().await;
    stand.register(Vec::new()).await;
    let job = stand.submit(spec(1)).await.unwrap();
    for _ in 0..2 {
        let attempt = stand.launched(1).await[0];
        let state = AttemptState::Failed { diagnostics: "poison at byte 7".to_owned() };
        let counters = Counters::default();
        let updates = vec![update(attempt, state, counters)];
        let (worker, epoch) = (WORKER, stand.epoch);
        let report =
            tracker::Request::Report { worker, epoch, updates, fetch_failures: Vec::new() };
        stand.worker_call(report).await.unwrap();
    }
    let report = stand.watch(job).await;
    assert_eq!(report.state, JobState::Failed);
    assert!(report.diagnostics.contains("poison at byte 7"), "{}", report.diagnostics);
    assert_eq!(stand.tree(), Vec::<String>::new());

    let job = stand.submit(spec(1)).await.unwrap();
    let attempt = stand.launched(1).await[0];
    stand.ask(jobs::Call::Kill(job)).await.unwrap();
    stand.poll_for(|order| matches!(order, Action::Kill(id) if *id == attempt)).await;
    let counters = Counters::default();
    let state = AttemptState::Killed;
    let updates = vec![update(attempt, state, counters)];
    let (worker, epoch) = (WORKER, stand.epoch);
    let report = tracker::Request::Report { worker, epoch, updates, fetch_failures: Vec::new() };
    stand.worker_call(report).await.unwrap();
    assert_eq!(stand.watch(job).await.state, JobState::Killed);
    assert_eq!(stand.tree(), Vec::<String>::new());
    let unknown = JobId { cluster_start: 1, number: 99 };
    let error = stand.ask(jobs::Call::Status(unknown)).await.unwrap_err();
    assert_eq!(error.message, "Could not find job job_000000000001_0099");
    stand.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsigned_and_old_senders_are_refused() {
    let mut stand = Stand::start().await;
    stand.register(Vec::new()).await;
    let stale = tracker::Request::Poll { worker: WORKER, epoch: Epoch(77), received: 0 };
    assert_eq!(stand.worker_call(stale).await.unwrap_err().kind, ErrorKind::Fenced);
    let wrong = RpcClient::new(
        &format!("http://{}", stand.address),
        Role::Client,
        Some(&Key::new([9; 32])),
    )
    .unwrap();
    let health = wrong.health().await.unwrap();
    assert_eq!((health.service.as_str(), health.ready), ("jobtracker", true));
    assert!(health.secret_file.unwrap().ends_with(Path::new("secret")));
    assert!(wrong.get_as("ann", "/api/v1/jobs/job_000000000001_0001/events").await.is_err());
    stand.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_says_that_a_worker_registered_only_if_it_has_and_else_why_not() {
    LazyLock::force(&LINES);
    let mut stand = Stand::start().await;
    let worker = WorkerId([9; 16]);
    let id = worker.to_string();
    let logged = || {
        let all = LINES.lock();
        all.iter().filter(|line| line.contains(&id)).cloned().collect::<Vec<String>>()
    };
    let fitting = registration(worker);
    let wrong = Register { slot_count: 0, ..fitting.clone() };
    let refusal = stand.worker_call(tracker::Request::Register(wrong)).await.unwrap_err();
    let [line] = &logged()[..] else { panic!("{:?}", logged()) };
    assert!(line.starts_with("WARN") && line.contains("worker refused"), "{line}");
    assert!(line.contains(&refusal.message), "{line}");
    stand.worker_call(tracker::Request::Register(fitting)).await.unwrap();
    let [_, line] = &logged()[..] else { panic!("{:?}", logged()) };
    assert!(line.starts_with("INFO") && line.contains("worker registered"), "{line}");
    stand.close().await;
}

/// Lines of `jobtracker::server`, of all tests of this process, once it is used.
static LINES: LazyLock<Mutex<Vec<String>>> = LazyLock::new(|| {
    tracing::subscriber::set_global_default(Log).unwrap();
    Mutex::default()
});

/// Collects [`LINES`].
struct Log;

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "jobtracker::server"
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        LINES.lock().push(line.0);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line(String);

impl tracing::field::Visit for Line {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

fn registration(worker: WorkerId) -> Register {
    Register {
        version: tracker::VERSION,
        levels: Supported::OWN,
        worker,
        host: "here".to_owned(),
        rack: "/r".to_owned(),
        boot_id: "b".to_owned(),
        http_address: "127.0.0.1:1".to_owned(),
        slot_count: 2,
        isolation: String::new(),
        running: Vec::new(),
        held_outputs: Vec::new(),
    }
}

/// A worker's update on an attempt that has ended.
fn update(attempt: AttemptId, state: AttemptState, counters: Counters) -> AttemptUpdate {
    let status = String::new();
    AttemptUpdate { attempt, state, progress: 0.5, phase: None, counters, record: None, status }
}
