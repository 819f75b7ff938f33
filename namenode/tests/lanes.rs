//! Brief calls of one process share requests to a real NameNode; a relay between them counts the requests, and loses answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use client::namesystem;
use protocol::auth::Role;
use protocol::namenode::{Call, Reply, Request, SafeModeAction};
use protocol::pass::{Pass, PassName};
use protocol::wire::bundle;
use protocol::{ClientId, DfsPath, ErrorKind, JobId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use transport::RpcError;
use transport::rpc::{CallOptions, PassHolder, RpcClient};

use crate::stand::Server;

const CALLERS: u8 = 40;
const CALLS: u64 = 30;
const OPTIONS: CallOptions =
    CallOptions { attempt_timeout: Duration::from_secs(20), retry_for: Duration::from_secs(20) };

/// How long calls are repeated until two of them share a request.
const BUNDLE_WAIT_MAX: Duration = Duration::from_secs(60);

/// Passes bytes on between clients and a NameNode.
struct Relay {
    base: String,
    /// Requests with a bundle so far.
    bundles: AtomicUsize,
    /// Bundles whose answer is lost with its connection.
    losses: AtomicUsize,
}

impl Relay {
    async fn start(server: &Server, losses: usize) -> Arc<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let (bundles, losses) = (AtomicUsize::new(0), AtomicUsize::new(losses));
        let relay = Arc::new(Relay { base, bundles, losses });
        let (passing, to) = (Arc::clone(&relay), server.base.replace("http://", ""));
        tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let far = TcpStream::connect(&to).await.unwrap();
                let passing = Arc::clone(&passing);
                tokio::spawn(async move { passing.pass(near, far).await });
            }
        });
        relay
    }

    /// Until either side closes, or an answer is to be lost.
    async fn pass(&self, mut near: TcpStream, mut far: TcpStream) {
        let line = format!("POST {} ", bundle::TARGET);
        let (mut request, mut answer) = (vec![0; 1 << 20], vec![0; 1 << 20]);
        let mut is_lost = false;
        loop {
            tokio::select! {
                count = near.read(&mut request) => {
                    let bytes = &request[..count.unwrap_or(0)];
                    // A client sends a head and its body at once.
                    if bytes.starts_with(line.as_bytes()) {
                        self.bundles.fetch_add(1, Ordering::SeqCst);
                        let less = |losses: usize| losses.checked_sub(1);
                        is_lost = self.losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
                    }
                    if bytes.is_empty() || far.write_all(bytes).await.is_err() {
                        return;
                    }
                }
                count = far.read(&mut answer) => {
                    let bytes = &answer[..count.unwrap_or(0)];
                    if is_lost || bytes.is_empty() || near.write_all(bytes).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

fn path(text: String) -> DfsPath {
    DfsPath::parse(&text).unwrap()
}

async fn send(rpc: &RpcClient, caller: u8, number: u64, call: Call) -> Result<Reply, RpcError> {
    let request = Request::new(ClientId([caller; 16]), number, "ann", "", call);
    namesystem::send(rpc, &request, OPTIONS).await
}

/// Each caller makes directories, looks at them, and asks for one that cannot be made.
async fn work(rpc: RpcClient, caller: u8) {
    for number in 0..CALLS {
        let here = path(format!("/d{caller}-{number}"));
        let make = |path| Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: false };
        // A repeated call that was carried out before would be refused if it was taken for a new one.
        let made = send(&rpc, caller, 3 * number + 1, make(here.clone())).await;
        assert!(matches!(made, Ok(Reply::Done)), "{here}: {made:?}");
        let seen = send(&rpc, caller, 3 * number + 2, Call::Status(here.clone())).await;
        assert!(matches!(&seen, Ok(Reply::Status(status)) if status.directory), "{here}: {seen:?}");
        let nowhere = path(format!("/none-{caller}/x"));
        let refused = send(&rpc, caller, 3 * number + 3, make(nowhere)).await.unwrap_err();
        assert_eq!(refused.kind(), Some(ErrorKind::NotFound), "{refused}");
    }
}

async fn work_of_all(losses: usize) -> Arc<Relay> {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let relay = Relay::start(&server, losses).await;
    let rpc = RpcClient::new(&relay.base, Role::Client, Some(&server.secret)).unwrap();
    let leave = Call::SafeMode(SafeModeAction::Leave);
    send(&rpc, CALLERS, 1, leave).await.unwrap();
    let callers: Vec<_> =
        (0..CALLERS).map(|caller| tokio::spawn(work(rpc.clone(), caller))).collect();
    for caller in callers {
        caller.await.unwrap();
    }
    server.stop().await;
    relay
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_that_share_a_request_have_each_its_own_outcome() {
    let relay = work_of_all(0).await;
    let (calls, bundles) = (u64::from(CALLERS) * CALLS * 3, relay.bundles.load(Ordering::SeqCst));
    // Forty callers wait for two requests of a lane: bundles have about twenty calls.
    assert!(bundles > 0 && (bundles as u64) < calls / 4, "{bundles} bundles of {calls} calls");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_whose_answers_are_lost_together_are_made_once_each() {
    const LOSSES: usize = 20;
    let relay = work_of_all(LOSSES).await;
    assert_eq!(relay.losses.load(Ordering::SeqCst), 0, "every loss has happened");
}

/// A bundle opens nothing: who may call in whose name is judged of each of its calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_shares_requests_acts_as_its_own_user_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let relay = Relay::start(&server, 0).await;
    let job = JobId { cluster_start: 1, number: 1 };
    let name = PassName { job, user: "ann".to_owned(), expires_ms: u64::MAX };
    let pass = PassHolder::new(Pass::issue(&server.secret, name));
    let rpc = RpcClient::of_task(&relay.base, &pass).unwrap();
    let look = |caller: u8| {
        let rpc = rpc.clone();
        tokio::spawn(async move {
            let user = if caller.is_multiple_of(2) { "ann" } else { "bob" };
            let status = Call::Status(DfsPath::root());
            let request = Request::new(ClientId([caller; 16]), 1, user, "", status);
            (user, namesystem::send(&rpc, &request, OPTIONS).await)
        })
    };
    // On a busy machine each may be answered before the next one calls.
    let begin = Instant::now();
    while relay.bundles.load(Ordering::SeqCst) == 0 {
        assert!(begin.elapsed() < BUNDLE_WAIT_MAX, "no two calls shared a request");
        let callers: Vec<_> = (0..CALLERS).map(look).collect();
        for caller in callers {
            let (user, answer) = caller.await.unwrap();
            let refused = answer.map_err(|error| error.kind()).err().flatten();
            assert_eq!(refused, (user == "bob").then_some(ErrorKind::PermissionDenied));
        }
    }
    server.stop().await;
}
