//! Short requests for long answers: what several calls in one request may cost is bounded, and honest clients ask for the rest.

use std::time::Duration;

use client::ClientConfig;
use client::dfs::DfsClient;
use client::namesystem;
use protocol::auth::Role;
use protocol::namenode::{Body, Call, Reply, Request, SafeModeAction, calls};
use protocol::wire;
use protocol::{ClientId, DfsPath, ErrorKind, RemoteError};
use transport::RpcError;
use transport::rpc::{CallOptions, Lane, RpcClient};

use crate::stand::Server;

/// Entries of the directory: a full page.
const ENTRIES: u32 = 1000;
/// What the answers of one request may have together, with the last of them.
const ANSWER_BYTES_MAX: usize = 18 << 20;

fn path(text: &str) -> DfsPath {
    DfsPath::parse(text).unwrap()
}

fn list() -> Call {
    Call::List { path: path("/d"), start_after: String::new(), limit: ENTRIES }
}

async fn ask(rpc: &RpcClient, number: u64, body: impl Into<Body>) -> Result<Reply, RpcError> {
    let request = Request::new(ClientId([7; 16]), number, "ann", "", body);
    namesystem::send(rpc, &request, CallOptions::default()).await
}

/// A NameNode with a directory whose names are long.
async fn server(directory: &std::path::Path) -> (Server, RpcClient) {
    let server = Server::start(directory).await;
    let rpc = server.rpc(Role::Client);
    ask(&rpc, 1, Call::SafeMode(SafeModeAction::Leave)).await.unwrap();
    let make = |number| Call::Mkdirs {
        path: path(&format!("/d/{number:0250}")),
        mode: 0o755,
        unmasked: None,
        parents: true,
    };
    let made = ask(&rpc, 2, Body::Batch((0..ENTRIES).map(make).collect())).await.unwrap();
    assert!(matches!(made, Reply::Batch(answers) if answers.iter().all(Result::is_ok)));
    (server, rpc)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_batch_of_long_listings_gets_a_bounded_answer() {
    let directory = tempfile::tempdir().unwrap();
    let (server, rpc) = server(directory.path()).await;
    let Reply::Batch(answers) =
        ask(&rpc, 3, Body::Batch((0..ENTRIES).map(|_| list()).collect())).await.unwrap()
    else {
        panic!("a batch")
    };
    let made = answers.iter().take_while(|answer| answer.is_ok()).count();
    assert!((20..100).contains(&made), "{made}");
    let refused = |answer: &Result<Reply, RemoteError>| matches!(answer, Err(no) if no.kind == ErrorKind::Unavailable);
    assert!(answers[made..].iter().all(refused));
    assert!(wire::encode(&answers).len() < ANSWER_BYTES_MAX);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_asks_for_what_was_too_much_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (server, _) = server(directory.path()).await;
    let config = ClientConfig {
        namenode: Some(server.base.clone()),
        secret: Some(server.secret.clone()),
        user: Some("ann".to_owned()),
        ..ClientConfig::default()
    };
    let asked = tokio::task::spawn_blocking(move || {
        let client = DfsClient::connect(&config).unwrap();
        let list = calls::List { path: path("/d"), start_after: String::new(), limit: ENTRIES };
        client.ask_all((0..150).map(|_| list.clone())).unwrap()
    });
    let pages = asked.await.unwrap();
    assert_eq!(pages.len(), 150);
    for page in pages {
        assert_eq!(page.unwrap().entries.len(), ENTRIES as usize);
    }
    server.stop().await;
}

/// Whatever a client puts into a bundle, the answers in it are brief. Alone each of these calls is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_takes_no_call_with_a_long_answer() {
    let directory = tempfile::tempdir().unwrap();
    let (server, rpc) = server(directory.path()).await;
    let call = |number: u64| {
        let rpc = rpc.clone();
        tokio::spawn(async move {
            let body = match number % 3 {
                0 => Body::One(Call::Status(path("/d"))),
                1 => Body::One(list()),
                _ => Body::Batch(vec![list(); 3]),
            };
            let request = Request::new(ClientId([7; 16]), 10 + number, "ann", "", body);
            let options = CallOptions::once(Duration::from_secs(20));
            let answer: Result<Reply, RpcError> = rpc.call_in(Lane::Reads, &request, options).await;
            (number % 3, answer.map_err(|error| error.kind()))
        })
    };
    let callers: Vec<_> = (0..60).map(call).collect();
    let mut refused = [0; 3];
    for caller in callers {
        let (kind, answer) = caller.await.unwrap();
        match answer {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, Some(ErrorKind::InvalidArgument));
                refused[kind as usize] += 1;
            }
        }
    }
    assert!(refused[0] == 0 && refused[1] > 10 && refused[2] > 10, "{refused:?}");
    server.stop().await;
}
