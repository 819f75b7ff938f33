//! The routes of a JobTracker whose log commits when the test says so.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use daemon::access::Auth;
use daemon::inspect;
use daemon::page::live::Board;
use daemon::session::Sessions;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use host::{Follower, Log, Opening, Policy, Running, Start};
use journal::{Change, Txid};
use protocol::auth::{Key, Service};
use protocol::jobs::{Call, Reply, Request};
use protocol::namenode;
use protocol::{CallId, ClientId, Epoch};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use super::*;
use crate::Config;
use crate::audit::Audit;
use crate::core::spec;
use crate::effects::{Calls, Effects};
use crate::history::History;
use crate::resources::Room;
use crate::server::query::{JobHost, LastOverview};
use crate::server::{JobTracker, Outside};
use crate::store::Replay;
use crate::web::charts;

/// A tick that never comes by itself.
const NEVER: Duration = Duration::from_secs(1 << 20);
/// Turns of the host that every answer has time for.
const TURNS: usize = 20;
const CLUSTER_START: u64 = 202_611_201_830;
const JOB: JobId = JobId { cluster_start: CLUSTER_START, number: 1 };

/// Numbers edits; the test commits them.
struct HandLog(Arc<AtomicU64>);

impl Log for HandLog {
    fn append(&self, edits: Vec<Vec<u8>>) -> Txid {
        let count = edits.len() as u64;
        Txid(self.0.fetch_add(count, Ordering::SeqCst) + count)
    }

    fn checkpoint(&self, _: Txid, _: Vec<Change>) {}

    fn backlog(&self) -> u64 {
        0
    }

    fn close(&self) {}
}

/// A NameNode that never answers.
struct Silent;

impl Calls for Silent {
    fn call(&self, _: namenode::Request) -> BoxFuture<'_, namenode::Answer> {
        std::future::pending().boxed()
    }
}

/// A JobTracker with its routes. Nothing is committed yet.
pub(crate) struct Bench {
    pub(crate) shared: Shared,
    running: Running<JobTracker>,
    log: Arc<dyn Follower>,
    /// The last transaction that was appended.
    appended: Arc<AtomicU64>,
    _directory: TempDir,
}

impl Bench {
    pub(crate) fn start() -> Self {
        let opening = Opening::new(|| {});
        let directory = TempDir::new().unwrap();
        let secret = Key::new([1; 32]);
        let sessions =
            Sessions::new(Authenticator::new(&secret, Service::Jobtracker), "jobtracker", "h:1");
        let history = History::open(directory.path(), 1).unwrap();
        let board = Board::default();
        let machine = JobTracker::new(Outside {
            effects: Effects::new(Box::new(Silent), ClientId([9; 16])),
            room: Room::new(Vec::new(), 0),
            exclude_file: PathBuf::new(),
            config_file: None,
            history: history.clone(),
            board: board.clone(),
            spawn: crate::spawner(opening.mailbox()),
            poll_max: NEVER,
            epoch: Epoch(1),
            cluster_start: CLUSTER_START,
        });
        let (log, appended) = (opening.follower(), Arc::new(AtomicU64::new(0)));
        let start = Start {
            name: "jobtracker-test",
            machine,
            state: Replay::new(Config::default().rules()).finish(),
            log: Box::new(HandLog(Arc::clone(&appended))),
            last: Txid(0),
            policy: Policy { rows: usize::MAX, interval: NEVER },
            tick: NEVER,
        };
        let running = opening.start(start).unwrap();
        let shared = Shared {
            host: JobHost::new(running.handle()),
            secret_file: PathBuf::new(),
            namenode: "http://n:1".into(),
            secret,
            groups: Arc::new(Config::default().groups()),
            history,
            board,
            hour: charts::empty(),
            last_overview: LastOverview::default(),
            log_dirs_left_out: Arc::new(Vec::new),
            journal_stats: Arc::new(journal::Stats::default),
            pictures: PictureCache::default(),
            settings: Arc::default(),
            sessions,
            audit: Audit::default(),
            believes_names: false,
            since: Instant::now(),
            started_ms: 0,
        };
        Bench { shared, running, log, appended, _directory: directory }
    }

    /// All routes, for users who say who they are.
    fn routes(&self) -> Routes {
        let auth = Authenticator::new(&self.shared.secret, Service::Jobtracker);
        let access = Access::new(auth.clone(), Some(self.shared.sessions.clone()), Auth::Simple);
        routes(self.shared.clone(), &access, auth)
    }

    /// Returns when the host has taken a turn after all that was sent to it.
    async fn turn(&self) {
        self.running.handle().checkpoint().await.unwrap();
    }

    /// The log commits all that it has.
    fn commit(&self) {
        self.log.committed(Txid(self.appended.load(Ordering::SeqCst)));
    }

    /// Makes a call as ann.
    fn call(&self, number: u64, body: Call) -> JoinHandle<jobs::Answer> {
        let request = Request::new(CallId { client: ClientId([1; 16]), number }, "ann", body);
        let origin = Origin { address: String::new(), protocol: "rpc" };
        let shared = self.shared.clone();
        tokio::spawn(async move { shared.client(request, origin).await })
    }

    /// Submits a job. Its edit is in the state and in the log, but is not committed.
    async fn submit(&self) -> JoinHandle<jobs::Answer> {
        let before = self.appended.load(Ordering::SeqCst);
        let submitted = self.call(1, Call::Submit(Box::new(spec(1, &["host"], 0))));
        while self.appended.load(Ordering::SeqCst) == before {
            self.turn().await;
        }
        submitted
    }
}

#[tokio::test]
async fn the_documentation_lists_every_route_with_whose_it_is() {
    let bench = Bench::start();
    let auth = Authenticator::new(&bench.shared.secret, Service::Jobtracker);
    let access = Access::new(auth, Some(bench.shared.sessions.clone()), Auth::Token);
    let all = bench.routes().merge(inspect::routes(&access, Vec::new()));
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/routes.md");
    let page = std::fs::read_to_string(page).unwrap();
    let table = format!("## JobTracker\n\n{}", all.table());
    assert!(page.contains(&table), "docs/routes.md does not say:\n{table}");
}

/// Routes that display nothing of the state.
const STATELESS: [&str; 18] = [
    "/actions.js",
    "/api/v1/openapi.json",
    "/hello",
    "/icon.svg",
    "/live",
    "/live.js",
    "/live/overview",
    "/login",
    "/logout",
    "/patch.js",
    "/rpc",
    "/rpc/worker",
    "/style.css",
    "/tables.js",
    "/ws/v1/history",
    "/ws/v1/history/info",
    "/ws/v1/mapreduce",
    "/ws/v1/mapreduce/info",
];

/// What a browser asks for: every route that displays the state.
fn targets(routes: &Routes) -> Vec<String> {
    let id = JOB.to_string();
    let number = id.strip_prefix("job_").unwrap();
    let named = |route: &str| {
        let route = route
            .replace("{id}", &id)
            .replace("{job}", &id)
            .replace("{task}", &format!("task_{number}_m_000000"))
            .replace("{attempt}", &format!("attempt_{number}_m_000000_0"))
            .replace("{application}", &format!("application_{number}"))
            .replace("{address}", "h:1");
        format!("{route}?user.name=ann&a={id}&b={id}")
    };
    let table = routes.table();
    let rows = table.lines().skip(2).map(|row| row.split('|').map(str::trim).collect());
    let viewed = rows.filter(|row: &Vec<&str>| !row[2].contains("from a page"));
    let viewed = viewed.map(|row| row[1].trim_matches('`').to_owned());
    viewed.filter(|route| !STATELESS.contains(&&**route)).map(|route| named(&route)).collect()
}

#[tokio::test]
async fn nothing_is_displayed_before_it_is_committed() {
    let bench = Bench::start();
    bench.commit();
    bench.shared.groups.of("ann").await;
    let submitted = bench.submit().await;
    let routes = bench.routes();
    let targets = targets(&routes);
    assert!(targets.len() > 50, "{targets:?}");
    let router = Router::from(routes);
    let mut waiting = Vec::new();
    for target in targets {
        let request = HttpRequest::builder().uri(&target).header("host", "h:1");
        let request = request.body(Body::empty()).unwrap();
        let mut answer = router.clone().oneshot(request).boxed();
        for _ in 0..TURNS {
            assert!((&mut answer).now_or_never().is_none(), "{target} is answered early");
            bench.turn().await;
        }
        waiting.push((target, answer));
    }
    bench.commit();
    for (target, answer) in waiting {
        let status = answer.await.unwrap().status();
        let is_missing = target.contains("attempt_") || target.contains("/workers/");
        let expected = if is_missing { StatusCode::NOT_FOUND } else { StatusCode::OK };
        assert_eq!(status, expected, "{target}");
    }
    submitted.abort();
}

#[tokio::test]
async fn no_call_is_answered_before_what_it_says_is_committed() {
    let bench = Bench::start();
    bench.commit();
    let submitted = bench.submit().await;
    let calls = [
        Call::List,
        Call::Status(JOB),
        Call::Tasks(JOB),
        Call::TrackerStatus,
        Call::Queues,
        Call::AdministeredQueues,
        Call::Workers,
        Call::Kill(JOB),
    ];
    let asked: Vec<_> = (2..).zip(calls).map(|(number, call)| bench.call(number, call)).collect();
    for _ in 0..TURNS {
        bench.turn().await;
        tokio::task::yield_now().await;
    }
    assert!(asked.iter().all(|asked| !asked.is_finished()), "{asked:?}");
    bench.commit();
    for (place, asked) in asked.into_iter().enumerate() {
        let answer = asked.await.unwrap().unwrap();
        match answer {
            Reply::Jobs(jobs) => assert_eq!(jobs[0].id, JOB.to_string()),
            Reply::Job(job) => assert_eq!(job.id, JOB.to_string()),
            Reply::Tasks(tasks) => assert_eq!(tasks.len(), 1),
            Reply::Tracker(status) => assert_eq!(status.running_job_count, 1),
            answer => assert!(place > 3, "{answer:?}"),
        }
    }
    assert!(!submitted.is_finished(), "its directory is not made");
    submitted.abort();
}

/// A route below a job or none, and a query that it refuses with this line.
const REFUSED: [(&str, &str, &str); 20] = [
    (
        "H",
        "state=running",
        "parameter \"state\" is \"running\"; allowed is one of NEW, INITED, RUNNING, SUCCEEDED, FAILED, KILLED, ERROR",
    ),
    ("H", "limit=0", "parameter \"limit\" is \"0\"; allowed is a whole number of at least 1"),
    ("H", "limit=ten", "parameter \"limit\" is \"ten\""),
    ("H", "Limit=1", "did you mean \"limit\"?"),
    ("H", "startedTimeBegin=-1", "parameter \"startedTimeBegin\" is \"-1\""),
    (
        "H",
        "startedTimeBegin=5&startedTimeEnd=4",
        "parameter \"startedTimeEnd\" is \"4\"; allowed is startedTimeBegin, which is 5, or later",
    ),
    ("H", "finishedTimeBegin=5&finishedTimeEnd=4", "finishedTimeEnd"),
    ("H", "startTimeBegin=5", "did you mean \"startedTimeBegin\"?"),
    ("H", "user=ann&user=bob", "parameter \"user\" is given more than once"),
    ("/jobs", "queue=%FF", "not percent-encoded UTF-8"),
    ("J/tasks", "type=map", "parameter \"type\" is \"map\"; allowed is one of m, r"),
    ("J/tasks", "type=M", "parameter \"type\" is \"M\""),
    ("/jmx", "qry=a&qry=b", "parameter \"qry\" is given more than once"),
    ("/jobs", "state=odd", "parameter \"state\" is \"odd\""),
    ("/jobs", "within=soon", "parameter \"within\" is \"soon\""),
    ("/jobs", "page=-1", "parameter \"page\" is \"-1\""),
    ("/compare", "a=job_202611201830_0001", "parameter \"b\" is missing"),
    ("P/attempts", "kind=maps", "parameter \"kind\" is \"maps\"; allowed is one of map, reduce"),
    ("P/attempts", "sort=size", "parameter \"sort\" is \"size\""),
    ("L", "tail=1k", "parameter \"tail\" is \"1k\""),
];

#[tokio::test]
async fn a_parameter_that_is_not_understood_is_named_and_refused() {
    let bench = Bench::start();
    bench.commit();
    bench.shared.groups.of("ann").await;
    let submitted = bench.submit().await;
    bench.commit();
    let router = Router::from(bench.routes());
    let history = "/ws/v1/history/mapreduce/jobs";
    let attempt = format!("attempt_{}_m_000000_0", &JOB.to_string()["job_".len()..]);
    for (route, query, text) in REFUSED {
        let route = match route.split_at(1) {
            ("H", rest) => format!("{history}{rest}"),
            ("J", rest) => format!("{history}/{JOB}{rest}"),
            ("P", rest) => format!("/jobs/{JOB}{rest}"),
            ("L", _) => format!("/api/v1/jobs/{JOB}/attempts/{attempt}/log"),
            _ => route.to_owned(),
        };
        let target = format!("{route}?user.name=ann&{query}");
        let request = HttpRequest::builder().uri(&target).header("host", "h:1");
        let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let body = String::from_utf8(body.to_vec()).unwrap().replace("\\\"", "\"");
        assert_eq!(status, StatusCode::BAD_REQUEST, "{target}: {body}");
        assert!(body.contains(text), "{target}: {body}");
        let is_hadoops = body.contains("\"exception\":\"BadRequestException\"");
        assert_eq!(is_hadoops, target.contains("/ws/v1/"), "{body}");
    }
    submitted.abort();
}
