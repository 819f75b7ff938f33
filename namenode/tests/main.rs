//! The real server on a socket, two simulated DataNodes and a client, all over signed requests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod amplification;
mod lanes;
mod stand;

use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon::Shutdown;
use journal::{Change, Journal, JournalError, Options, Recover, RecoverError, StoreError, Txid};
use namenode::Error;
use parking_lot::Mutex;
use protocol::auth::{Key, Role};
use protocol::datanode::{
    Changes, Command, FullReport, Heartbeat, Register, Replica, Reply as NodeReply, Report,
    Request as NodeRequest, Sender,
};
use protocol::delegation;
use protocol::level::Supported;
use protocol::namenode::{
    Call, Create, DatanodeInfo, DatanodeState, FileStatus, LocatedBlock, Publish, Reply, Request,
    SafeModeAction, VERSION, WrittenBlock,
};
use protocol::token::TokenKeys;
use protocol::{
    ClientId, ClusterId, DatanodeId, DfsPath, Epoch, ErrorKind, FeatureLevel, RemoteError,
};
use tokio::task::JoinHandle;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient};
use webhdfs::token::{DELEGATION_KIND, Delegation, token_key};

use stand::{Disks, Server};

const ONCE: CallOptions =
    CallOptions { attempt_timeout: Duration::from_secs(20), retry_for: Duration::ZERO };
/// How long a condition may take to come true.
const PATIENCE: Duration = Duration::from_secs(30);

struct Client {
    rpc: RpcClient,
    id: ClientId,
    number: u64,
}

impl Client {
    fn new(server: &Server, id: u8) -> Client {
        Client { rpc: server.rpc(Role::Client), id: ClientId([id; 16]), number: 0 }
    }

    async fn call(&mut self, body: Call) -> Result<Reply, RpcError> {
        self.number += 1;
        self.send(self.number, body).await
    }

    async fn send(&self, number: u64, body: Call) -> Result<Reply, RpcError> {
        let request = Request::new(self.id, number, "ann", "host1", body);
        self.rpc.call("/rpc", &request, ONCE).await
    }

    async fn until(&mut self, body: Call, condition: impl Fn(&Reply) -> bool) -> Reply {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(reply) = self.call(body.clone()).await
                && condition(&reply)
            {
                return reply;
            }
            assert!(Instant::now() < deadline, "not in time: {body:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn out_of_safe_mode(&mut self) {
        self.until(
            Call::ClusterStatus,
            |reply| matches!(reply, Reply::Cluster(status) if status.safe_mode.is_none()),
        )
        .await;
    }

    /// Who holds the first block of a file.
    async fn holders(&mut self, path: &str) -> Vec<DatanodeId> {
        let all = Call::Locations { path: dfs(path), offset: 0, length: u64::MAX };
        match self.call(all).await.unwrap() {
            Reply::Located(located) => {
                located.blocks[0].replicas.iter().map(|info| info.id).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    async fn status(&mut self, path: &str) -> FileStatus {
        match self.call(Call::Status(dfs(path))).await.unwrap() {
            Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }
}

/// A DataNode that obeys at once.
struct SimNode {
    stop: Shutdown,
    replicas: Arc<Mutex<Vec<Replica>>>,
    task: JoinHandle<()>,
}

impl SimNode {
    fn start(server: &Server, number: u8, replicas: Vec<Replica>) -> SimNode {
        let replicas = Arc::new(Mutex::new(replicas));
        let stop = Shutdown::new();
        let rpc = server.rpc(Role::Datanode);
        let disks = Arc::clone(&server.disks);
        disks.lock().insert(DatanodeId([number; 16]), Arc::clone(&replicas));
        let task = tokio::spawn(serve(rpc, number, disks, stop.clone()));
        SimNode { stop, replicas, task }
    }

    async fn stop(self) -> Vec<Replica> {
        self.stop.begin();
        self.task.await.unwrap();
        self.replicas.lock().clone()
    }
}

async fn serve(rpc: RpcClient, number: u8, disks: Disks, stop: Shutdown) {
    let replicas = Arc::clone(&disks.lock()[&DatanodeId([number; 16])]);
    let mut reported = replicas.lock().clone();
    let mut reports = Reports::register(rpc, number, reported.clone()).await;
    while !stop.has_begun() {
        let received: Vec<Replica> =
            replicas.lock().iter().copied().filter(|replica| !reported.contains(replica)).collect();
        if !received.is_empty() {
            reported.extend(&received);
            reports.changes(Changes { received, ..Changes::default() }).await.unwrap();
        }
        let beat = Heartbeat { capacity: 1 << 30, remaining: 1 << 30, ..Heartbeat::default() };
        let beat = NodeRequest::Heartbeat(reports.sender, beat);
        let NodeReply::Commands { commands, .. } = say(&reports.rpc, beat).await else {
            panic!("no commands")
        };
        for command in commands {
            obey(&mut reports, command, &disks).await;
        }
    }
}

/// The reports of a DataNode.
struct Reports {
    rpc: RpcClient,
    sender: Sender,
    number: u64,
}

impl Reports {
    /// Registers a DataNode with these replicas.
    async fn register(rpc: RpcClient, number: u8, mut finalized: Vec<Replica>) -> Reports {
        let datanode = DatanodeId([number; 16]);
        let info = DatanodeInfo {
            id: datanode,
            host: format!("host{number}"),
            transfer_address: format!("127.0.0.1:{}", 5000 + u16::from(number)),
            http_address: String::new(),
            rack: "/default".to_owned(),
            boot_id: String::new(),
            local_socket: String::new(),
        };
        let (version, levels) = (protocol::datanode::VERSION, Supported::OWN);
        let program = String::new();
        let process = u64::from(number);
        let register = Register { version, levels, cluster: None, info, program, process };
        let NodeReply::Registered { epoch, registration, .. } =
            say(&rpc, NodeRequest::Register(register)).await
        else {
            panic!("not registered")
        };
        let sender = Sender { datanode, epoch, registration };
        let mut reports = Reports { rpc, sender, number: 0 };
        finalized.sort_by_key(|replica| replica.block);
        let part = FullReport { part: 0, last: true, finalized, unfinished: Vec::new() };
        reports.send(Report::Full(part)).await.unwrap();
        reports
    }

    async fn send(&mut self, report: Report) -> Result<(), RpcError> {
        let (sender, number) = (self.sender, self.number);
        let report = NodeRequest::Report { sender, number, report };
        self.rpc.call::<_, NodeReply>("/rpc/datanode", &report, ONCE).await?;
        self.number += 1;
        Ok(())
    }

    async fn changes(&mut self, changes: Changes) -> Result<(), RpcError> {
        self.send(Report::Changes(changes)).await
    }
}

async fn say(rpc: &RpcClient, request: NodeRequest) -> NodeReply {
    rpc.call("/rpc/datanode", &request, ONCE).await.unwrap()
}

async fn obey(reports: &mut Reports, command: Command, disks: &Disks) {
    let own = Arc::clone(&disks.lock()[&reports.sender.datanode]);
    match command {
        Command::Delete(doomed) => {
            let deleted: Vec<_> = doomed.iter().map(|(block, _)| *block).collect();
            own.lock().retain(|replica| !deleted.contains(&replica.block));
            reports.changes(Changes { deleted, ..Changes::default() }).await.unwrap();
        }
        Command::Replicate { block, targets, .. } => {
            let replica = *own.lock().iter().find(|r| r.block == block).unwrap();
            // Each target reports it itself.
            for target in targets {
                disks.lock()[&target.id].lock().push(replica);
            }
        }
        Command::Recover { .. }
        | Command::Verify(_)
        | Command::ReportAll
        | Command::Cut { .. }
        | Command::SetBalancerBandwidth(_)
        | Command::ShutDown => {}
    }
}

fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

fn create(path: &str, overwrite: bool) -> Call {
    Call::Create(Create {
        path: dfs(path),
        mode: 0o644,
        unmasked: None,
        overwrite,
        parents: true,
        replication: None,
        block_size: None,
        first_block: true,
    })
}

/// A block as its writer knows it; the last `count` members have it on disk.
fn written(server: &Server, block: &LocatedBlock, length: u64, count: usize) -> WrittenBlock {
    let (id, stamp, keys) = (block.id, block.stamp, TokenKeys::new(&server.secret));
    let replicas: Vec<_> = block.replicas.iter().map(|info| info.id).collect();
    let durable = &replicas[replicas.len() - count..];
    let receipts = durable.iter().map(|node| keys.receipt(*node, id, stamp, length)).collect();
    WrittenBlock { id, stamp, length, replicas, receipts }
}

fn replica(block: &LocatedBlock, length: u64) -> Replica {
    Replica { block: block.id, stamp: block.stamp, length }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_is_written_survives_a_restart_and_loses_a_datanode() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let mut ann = Client::new(&server, 1);
    let refusal = ann
        .call(Call::Mkdirs { path: dfs("/d"), mode: 0o755, unmasked: None, parents: true })
        .await;
    let text = refusal.unwrap_err().to_string();
    assert!(text.starts_with("Cannot create directory /d. Name node is in safe mode."), "{text}");

    let (one, two) = (SimNode::start(&server, 1, vec![]), SimNode::start(&server, 2, vec![]));
    ann.out_of_safe_mode().await;
    ann.until(
        Call::Datanodes,
        |reply| matches!(reply, Reply::Datanodes(nodes) if nodes.len() == 2 && nodes.iter().all(|node| node.remaining > 0)),
    )
    .await;
    let created = ann.call(create("/d/_tmp", false)).await.unwrap();
    let Reply::Created(created) = created else { panic!("{created:?}") };
    let block = created.first_block.unwrap();
    assert_eq!(block.replicas.len(), 2);
    assert_eq!(block.replicas[0].host, "host1", "the writer's machine comes first");
    assert_eq!(block.durable_min, 2);

    let early = written(&server, &block, 600, 1);
    let all = written(&server, &block, 600, 2);
    let complete = |last| Call::Complete {
        file: created.file,
        last: Some(last),
        publish: Some(Publish { path: dfs("/d/file"), overwrite: false }),
    };
    let refusal = ann.call(complete(early)).await.unwrap_err();
    assert!(refusal.is_transient(), "{refusal}");
    one.replicas.lock().push(replica(&block, 600));
    two.replicas.lock().push(replica(&block, 600));
    ann.until(complete(all.clone()), |reply| *reply == Reply::Done).await;
    let repeated = ann.send(ann.number, complete(all.clone())).await.unwrap();
    assert_eq!(repeated, Reply::Done);
    let number = ann.number;
    assert_eq!(ann.status("/d/file").await.length, 600);

    let (on_one, on_two) = (one.stop().await, two.stop().await);
    server.stop().await;

    let server = Server::start(directory.path()).await;
    let mut again = Client { rpc: server.rpc(Role::Client), number, ..ann };
    let repeated = again.send(number, complete(all.clone())).await.unwrap();
    assert_eq!(repeated, Reply::Done, "the answer outlives the restart");
    let (one, two) = (SimNode::start(&server, 1, on_one), SimNode::start(&server, 2, on_two));
    again.out_of_safe_mode().await;
    let three = SimNode::start(&server, 3, vec![]);
    let all = Call::Locations { path: dfs("/d/file"), offset: 0, length: u64::MAX };
    let hosts = |reply: &Reply| match reply {
        Reply::Located(located) => {
            let hosts = located.blocks[0].replicas.iter().map(|info| info.host.clone());
            hosts.collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    again.until(all.clone(), |reply| hosts(reply) == ["host1", "host2"]).await;
    drop(two.stop().await);
    again
        .until(
            Call::Datanodes,
            |reply| matches!(reply, Reply::Datanodes(nodes) if nodes.iter().any(|node| node.state == DatanodeState::Dead)),
        )
        .await;
    again.until(all, |reply| hosts(reply) == ["host1", "host3"]).await;
    one.stop().await;
    three.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_another_version_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    for body in [Call::ClusterStatus, Call::RenewLease, Call::SaveNamespace] {
        let request = Request::new(ClientId([1; 16]), 1, "ann", "", body);
        let request = Request { version: VERSION + 1, ..request };
        let answer = server.rpc(Role::Client).call::<_, Reply>("/rpc", &request, ONCE).await;
        let RpcError::Remote(refusal) = answer.unwrap_err() else { panic!("it is answered") };
        assert_eq!(refusal, RemoteError::check_version(VERSION + 1, VERSION).unwrap_err());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let request = Request::new(ClientId([1; 16]), 1, "ann", "", Call::Status(DfsPath::root()));
    let wrong = RpcClient::new(&server.base, Role::Client, Some(&Key::new([1; 32]))).unwrap();
    assert!(wrong.call::<_, Reply>("/rpc", &request, ONCE).await.is_err());
    let info = DatanodeInfo {
        id: DatanodeId([9; 16]),
        host: "h".to_owned(),
        transfer_address: String::new(),
        http_address: String::new(),
        rack: String::new(),
        boot_id: String::new(),
        local_socket: String::new(),
    };
    let register_at = |levels, cluster| {
        let (version, info) = (protocol::datanode::VERSION, info.clone());
        let program = String::new();
        NodeRequest::Register(Register { version, levels, cluster, info, program, process: 1 })
    };
    let register = |cluster| register_at(Supported::OWN, cluster);
    let client = server.rpc(Role::Client);
    assert!(client.call::<_, NodeReply>("/rpc/datanode", &register(None), ONCE).await.is_err());
    let node = server.rpc(Role::Datanode);
    let other = ClusterId([5; 16]);
    let foreign = register(Some(other));
    let error = node.call::<_, NodeReply>("/rpc/datanode", &foreign, ONCE).await.unwrap_err();
    let RpcError::Remote(foreign) = error else { panic!("it is answered") };
    let later = Supported { oldest: FeatureLevel(300), newest: FeatureLevel(301) };
    let unsupported = later.check(FeatureLevel::FIRST).unwrap_err();
    let later = register_at(later, None);
    let error = node.call::<_, NodeReply>("/rpc/datanode", &later, ONCE).await.unwrap_err();
    let RpcError::Remote(refusal) = error else { panic!("it is answered") };
    let kind = ErrorKind::InvalidArgument;
    assert_eq!(refusal, RemoteError::new(kind, unsupported.to_string()));
    let sender = Sender { datanode: info.id, epoch: Epoch(1), registration: 0 };
    let beat = NodeRequest::Heartbeat(sender, Heartbeat::default());
    let error = node.call::<_, NodeReply>("/rpc/datanode", &beat, ONCE).await.unwrap_err();
    assert!(
        matches!(&error, RpcError::Remote(refusal) if refusal.kind == ErrorKind::Fenced),
        "{error}"
    );
    let NodeReply::Registered { cluster, .. } =
        node.call("/rpc/datanode", &register(None), ONCE).await.unwrap()
    else {
        panic!("it registers")
    };
    let text = format!("this DataNode's data belongs to cluster {other}, not {cluster}");
    assert_eq!(foreign, RemoteError::new(kind, text));
    server.stop().await;
}

/// A process of a DataNode has died, and a message that it sent arrives after the next process has reported.
#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_registration_says_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let (one, two) = (SimNode::start(&server, 1, vec![]), SimNode::start(&server, 2, vec![]));
    let mut ann = Client::new(&server, 7);
    ann.out_of_safe_mode().await;
    ann.until(
        Call::Datanodes,
        |reply| matches!(reply, Reply::Datanodes(nodes) if nodes.len() == 2 && nodes.iter().all(|node| node.remaining > 0)),
    )
    .await;
    let created = ann.call(create("/f", false)).await.unwrap();
    let Reply::Created(created) = created else { panic!("{created:?}") };
    let block = created.first_block.unwrap();
    let replicas = vec![replica(&block, 600)];
    one.replicas.lock().extend(&replicas);
    two.replicas.lock().extend(&replicas);
    let last = Some(written(&server, &block, 600, block.replicas.len()));
    let publish = Some(Publish { path: dfs("/f"), overwrite: true });
    let complete = Call::Complete { file: created.file, last, publish };
    ann.until(complete, |reply| *reply == Reply::Done).await;
    let rpc = || server.rpc(Role::Datanode);
    one.stop().await;

    // The new process has lost the replica.
    let mut late = Reports::register(rpc(), 1, replicas.clone()).await;
    let mut now = Reports::register(rpc(), 1, vec![]).await;
    let received = || Changes { received: replicas.clone(), ..Changes::default() };
    let refusal = late.changes(received()).await.unwrap_err();
    assert_eq!(refusal.kind(), Some(ErrorKind::Fenced));
    assert_eq!(ann.holders("/f").await, [DatanodeId([2; 16])]);

    // A report that is repeated is taken once: a copy of it that comes late changes nothing.
    now.changes(received()).await.unwrap();
    let deleted = vec![block.id];
    now.changes(Changes { deleted, ..Changes::default() }).await.unwrap();
    now.number -= 2;
    now.changes(received()).await.unwrap();
    assert_eq!(ann.holders("/f").await, [DatanodeId([2; 16])]);

    // One that is missing ends the registration.
    now.number += 2;
    assert_eq!(now.changes(received()).await.unwrap_err().kind(), Some(ErrorKind::Fenced));
    two.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_files_and_refuse_foreign_names() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let mut client = Client::new(&server, 1);
    let nodes = [SimNode::start(&server, 1, Vec::new()), SimNode::start(&server, 2, Vec::new())];
    client.out_of_safe_mode().await;
    let path = dfs("/a/<img src=x>&\"");
    client.call(Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: true }).await.unwrap();
    let secret = dfs("/secret");
    client
        .call(Call::Mkdirs { path: secret, mode: 0o700, unmasked: None, parents: true })
        .await
        .unwrap();

    for (target, wanted) in [
        ("/", "live DataNodes"),
        ("/datanodes", "host1"),
        ("/browse", "href=\"/browse?path=%2Fa\""),
        ("/browse?path=%2Fa", "&lt;img src=x&gt;&amp;&quot;/</a>"),
    ] {
        let page = get(&server.base, target, "localhost").await;
        assert!(page.starts_with("HTTP/1.1 200") && page.contains(wanted), "{target}: {page}");
        assert!(page.contains("content-security-policy: default-src 'self'"), "{page}");
        assert!(!page.contains("<img"), "{page}");
        assert!(get(&server.base, target, "evil.example").await.starts_with("HTTP/1.1 421"));
    }
    for (target, status) in [
        ("/browse?path=%2Fsecret", "HTTP/1.1 403"),
        ("/browse?path=%2Fnothing", "HTTP/1.1 404"),
        ("/browse?path=relative", "HTTP/1.1 400"),
    ] {
        let page = get(&server.base, target, "localhost").await;
        assert!(page.starts_with(status), "{target}: {page}");
    }
    for node in nodes {
        node.stop().await;
    }
    server.stop().await;
}

/// Head and body of an answer.
async fn get(base: &str, target: &str, host: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let address = base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

/// What a page answers.
async fn page(server: &Server, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let host = server.base.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{path}: {text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_tells_every_change_and_nothing_that_the_daemon_asks_itself() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let node = SimNode::start(&server, 1, Vec::new());
    let mut ann = Client::new(&server, 1);
    ann.out_of_safe_mode().await;
    let reads = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("namenode_reads_seconds_count"));
        line.unwrap().to_owned()
    };
    let before = reads(&page(&server, "/metrics").await);
    for path in ["/metrics", "/prom", "/jmx", "/", "/datanodes"] {
        page(&server, path).await;
    }
    assert_eq!(reads(&page(&server, "/metrics").await), before, "scrapes are no load");
    // Callers that hang up, sooner and later.
    for number in 0..100 {
        let path = dfs(&format!("/d{number}"));
        let call = Call::Mkdirs { path, mode: 0o755, unmasked: None, parents: false };
        let patience = Duration::from_micros(number * 100);
        // Some of them get their answer.
        let _ = tokio::time::timeout(patience, ann.send(1_000 + number, call)).await;
    }
    let list = Call::List { path: dfs("/"), start_after: String::new(), limit: 1000 };
    let Reply::Listing { entries, .. } = ann.call(list).await.unwrap() else { panic!() };
    assert!(entries.len() > 10, "{}", entries.len());
    node.stop().await;
    server.stop().await;
    let log = std::fs::read_to_string(directory.path().join("namenode/audit.log")).unwrap();
    for entry in entries {
        let line = format!("cmd=mkdirs\tsrc=/{}\tdst=null\tperm=ann:", entry.name);
        assert!(log.contains(&line), "{} is not told", entry.name);
    }
    assert!(log.contains("cmd=listStatus\tsrc=/\t"), "the last call before the end");
    assert!(!log.contains("datanodeReport") && !log.contains("dr.who"), "{log}");
}

/// The list of tokens as earlier versions kept it in a file.
fn old_list(tokens: &[Delegation]) -> String {
    let mut text = "hanno delegation tokens 2\n".to_owned();
    for Delegation { owner, renewer, issued_ms, last_ms, sequence } in tokens {
        text.push_str(&format!("{sequence} {issued_ms} {last_ms} {last_ms} {owner} {renewer}\n"));
    }
    let crc = crc32fast::hash(text.as_bytes());
    format!("{text}crc32 {crc:08x}\n")
}

/// What WebHDFS answers to the holder of a token: true if it knows the user.
async fn is_known(server: &Server, token: &str) -> bool {
    let target = format!("/webhdfs/v1/?op=GETHOMEDIRECTORY&delegation={token}");
    let text = get(&server.base, &target, server.base.strip_prefix("http://").unwrap()).await;
    match text.split(' ').nth(1) {
        Some("200") => true,
        Some("403") => false,
        _ => panic!("{text}"),
    }
}

async fn ask_tokens(server: &Server, body: delegation::Call) -> Option<delegation::Reply> {
    let request = delegation::Request { version: delegation::VERSION, body };
    server.rpc(Role::Client).call("/rpc/tokens", &request, ONCE).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_of_an_earlier_version_are_taken_over_and_what_ended_stays_ended() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let key = token_key(&server.secret);
    server.stop().await;
    let (issued_ms, renewer) = (transport::rpc::now_ms(), "yarn".to_owned());
    let last_ms = issued_ms + 3_600_000;
    let token = |owner: &str, sequence| {
        let (owner, renewer) = (owner.to_owned(), renewer.clone());
        Delegation { owner, renewer, issued_ms, last_ms, sequence }
    };
    let old = [token("alice", 7), token("bob", 9)];
    let [alice, bob] = old.each_ref().map(|token| token.seal(&key, DELEGATION_KIND, ""));
    let file = directory.path().join("namenode/delegation-tokens");
    // Twice, as if the first start had been interrupted before it removed the file.
    for _ in 0..2 {
        std::fs::write(&file, old_list(&old)).unwrap();
        let server = Server::start(directory.path()).await;
        assert!(is_known(&server, &alice).await && is_known(&server, &bob).await);
        assert!(!file.try_exists().unwrap());
        server.stop().await;
    }
    let server = Server::start(directory.path()).await;
    let (owner, service) = ("carol".to_owned(), "nn:1".to_owned());
    for wrong in ["a b", "1a", "x\u{1b}[31m"] {
        let (owner, renewer) = (wrong.to_owned(), String::new());
        let body =
            delegation::Call::Issue { owner, renewer, service: service.clone(), lifetime_ms: 9 };
        assert_eq!(ask_tokens(&server, body).await, None, "{wrong}");
    }
    let body =
        delegation::Call::Issue { owner, renewer: String::new(), service, lifetime_ms: 9000 };
    let Some(delegation::Reply::Token(carol)) = ask_tokens(&server, body).await else {
        panic!("no token")
    };
    let renewed = ask_tokens(&server, delegation::Call::Renew(carol.clone())).await;
    let Some(delegation::Reply::Until(until)) = renewed else { panic!("{renewed:?}") };
    assert!(until > issued_ms + 20 * 3_600_000, "a day from now");
    let done = Some(delegation::Reply::Done);
    assert_eq!(ask_tokens(&server, delegation::Call::CancelNumber(7)).await, done);
    assert_eq!(ask_tokens(&server, delegation::Call::CancelNumber(7)).await, None);
    assert!(!is_known(&server, &alice).await);
    let listed = ask_tokens(&server, delegation::Call::List).await;
    server.stop().await;

    let server = Server::start(directory.path()).await;
    assert!(!is_known(&server, &alice).await);
    assert!(is_known(&server, &bob).await && is_known(&server, &carol).await);
    assert_eq!(ask_tokens(&server, delegation::Call::List).await, listed);
    assert_eq!(ask_tokens(&server, delegation::Call::Cancel(carol.clone())).await, done);
    assert!(!is_known(&server, &carol).await);
    let mut ann = Client::new(&server, 1);
    ann.call(Call::SafeMode(SafeModeAction::Enter)).await.unwrap();
    server.stop().await;

    // Safe mode by hand ends with a restart: what is on now ends by itself.
    let server = Server::start(directory.path()).await;
    let node = SimNode::start(&server, 1, vec![]);
    Client::new(&server, 2).out_of_safe_mode().await;
    node.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_cancels_the_token_that_the_order_holds_and_no_later_one_of_its_number() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path()).await;
    let (owner, renewer, service) = ("carol".to_owned(), String::new(), String::new());
    let issue = delegation::Call::Issue { owner, renewer, service, lifetime_ms: 9000 };
    let issued = ask_tokens(&server, issue).await;
    let Some(delegation::Reply::Token(token)) = issued else { panic!("{issued:?}") };
    let key = token_key(&server.secret);
    let current = Delegation::open(&key, &token).unwrap();
    let ended = Delegation { issued_ms: current.issued_ms - 1, ..current };
    let ended = ended.seal(&key, DELEGATION_KIND, "");
    assert_eq!(ask_tokens(&server, delegation::Call::Cancel(ended)).await, None);
    assert!(is_known(&server, &token).await);
    let done = Some(delegation::Reply::Done);
    assert_eq!(ask_tokens(&server, delegation::Call::Cancel(token.clone())).await, done);
    assert!(!is_known(&server, &token).await);
    server.stop().await;
}

/// Takes what any version wrote.
struct Anything;

impl Recover for Anything {
    fn load(&mut self, _: &[u8], _: &[u8]) -> Result<(), RecoverError> {
        Ok(())
    }

    fn loaded(&mut self, _: Txid) -> Result<(), RecoverError> {
        Ok(())
    }

    fn replay(&mut self, _: Txid, _: &[u8]) -> Result<(), RecoverError> {
        Ok(())
    }

    fn reset(&mut self) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_level_is_refused_with_the_remedy_although_the_log_begins_after_it() {
    let directory = tempfile::tempdir().unwrap();
    Server::start(directory.path()).await.stop().await;
    let dir = directory.path().join("namenode/journal");
    let (journal, _) =
        Journal::open(Options::new(&dir), &mut Anything, Box::new(|_| ()), Box::new(|_| ()))
            .unwrap();
    // Level 300, in both images: the log before them goes.
    for _ in 0..2 {
        let at = journal.append(vec![vec![1]]);
        journal.roll().unwrap();
        journal.checkpoint(at, vec![Change { key: b"l".to_vec(), value: Some(vec![0xac, 2]) }]);
        journal.export_image().unwrap();
    }
    drop(journal);
    let report = journal::admin::verify(&dir).unwrap();
    assert!(report.log_first > Txid(1) && report.images.len() == 2, "{report:?}");

    let server = Server::start(directory.path()).await;
    let refused = server.task.await.unwrap().unwrap_err();
    let Error::Journal(JournalError::Store(StoreError::NotAccepted(reason))) = refused else {
        panic!("{refused:?}")
    };
    let unsupported = Supported::OWN.check(FeatureLevel(300)).unwrap_err();
    assert_eq!(reason.to_string(), unsupported.to_string());
}
