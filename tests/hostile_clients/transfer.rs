//! The block transfer service: operations without right, and others in a DataNode's place.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use needs::{Need, lacks};
use protocol::auth::{Key, Role, Service};
use protocol::namenode::{self, Call, DatanodeInfo, LocatedBlock};
use protocol::token::{AccessMode, BlockToken, TokenKeys, TokenName};
use protocol::transfer::{
    MoreBlock, Operation, PACKET_HEADER_BYTES, PROOF_BYTES, PacketHeader, Reply, Resume,
    WRITE_MANY_BYTES_MAX, Write as WriteOperation, WriteMany, local_socket_name,
};
use protocol::{BlockId, ClientId, DfsPath, GenerationStamp, RemoteError, frame};
use sys::sandbox::User;
use transport::RpcError;
use transport::rpc::{CallOptions, RpcClient, now_ms};
use transport::{Connection, ConnectionPool, Packet, Stream, Timeouts, TransferFailure};

use super::{Attack, Stand};
use crate::support::Options;

/// How long a DataNode may take to end a connection.
const PATIENCE: Duration = Duration::from_secs(30);
/// A number that nobody has.
const ANOTHER_USER: u32 = 1_900_000_300;
/// A client. Zero would be a DataNode.
const WRITER: ClientId = ClientId([9; 16]);
/// Idle connections to each transfer port.
const FLOOD: usize = 1_060;

const ATTACKS: &[Attack] = &[
    ("operations before hello", no_hello),
    ("operations with a proof of nothing", wrong_proofs),
    ("a proof of one connection on another", proof_elsewhere),
    ("a token of another block, stamp or mode", other_tokens),
    ("a writer's token after the end of the file", left_over_tokens),
    ("one block among several without its token", block_among_others),
    ("several blocks that are not new, small, or of one packet", unfit_blocks),
    ("tokens that are over, or that an old key made", old_tokens),
    ("tokens of another secret", foreign_tokens),
    ("frames that announce gigabytes", huge_frames),
    ("every cut of a frame", cut_frames),
    ("packets that announce gigabytes", huge_packets),
    ("idle connections to the transfer port", idle_transfers),
    ("another program on a DataNode's port", impostor_over_tcp),
    ("another program on a DataNode's local socket", impostor_on_local_socket),
    ("another user's program on a DataNode's local socket", impostor_of_another_user),
    ("another user asks for open files", another_users_descriptors),
    ("another user's idle connections to the local socket", another_users_flood),
    ("a DataNode's port that leads to another DataNode", relay),
    ("another program on a master's port", impostor_master),
    ("a master of another kind", other_service),
];

#[test]
fn nobody_passes_for_a_datanode_or_reads_without_right() {
    Stand::start(Options { workers: 1, ..Options::default() }.with_files()).suffer(ATTACKS);
}

impl Stand {
    /// A block of a file, with a token to read it.
    pub(super) fn a_block(&self) -> LocatedBlock {
        self.works("a block");
        let client = crate::support::client::connect(&self.cluster.namenode);
        let path = DfsPath::parse("/a-block").unwrap();
        client.locations(&path, 0, u64::MAX).unwrap().blocks.remove(0)
    }
}

fn timeouts() -> Timeouts {
    Timeouts { io: PATIENCE, ..Timeouts::default() }
}

pub(super) fn read_of(block: &LocatedBlock, token: TokenName) -> Operation {
    let (id, stamp) = (block.id, block.stamp);
    Operation::Read(protocol::transfer::Read { block: id, stamp, token, offset: 0, length: 1 })
}

fn raw(datanode: &DatanodeInfo) -> TcpStream {
    let stream = TcpStream::connect(&datanode.transfer_address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// What the DataNode answers to these bytes, if it answers.
fn answer(datanode: &DatanodeInfo, bytes: &[u8]) -> Option<Result<Reply, RemoteError>> {
    let mut stream = raw(datanode);
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    frame::read(&mut stream, 1 << 20, "answer").ok()
}

fn is_refused(answer: Option<Result<Reply, RemoteError>>) {
    assert!(matches!(&answer, None | Some(Err(_))), "{answer:?}");
}

/// A connection on which the DataNode has proven itself.
pub(super) fn greeted(block: &LocatedBlock) -> Connection {
    let token = (block.id, block.stamp, &block.token);
    Connection::connect_over_tcp(&block.replicas[0], timeouts(), token).unwrap()
}

fn no_hello(stand: &Stand) {
    let block = stand.a_block();
    let bytes = [frame::encode(&read_of(&block, block.token.name)), vec![0; PROOF_BYTES]].concat();
    is_refused(answer(&block.replicas[0], &bytes));
    is_refused(answer(&block.replicas[0], &frame::encode(&write_of(&block, block.token.name))));
}

fn write_of(block: &LocatedBlock, token: TokenName) -> Operation {
    Operation::Write(WriteOperation {
        block: block.id,
        stamp: block.stamp,
        token,
        client: WRITER,
        resume: None,
        prefix_only: false,
        pipeline: Vec::new(),
        durable: 0,
        cached: false,
    })
}

fn wrong_proofs(stand: &Stand) {
    let block = stand.a_block();
    for byte in [0, 0xff] {
        let mut connection = greeted(&block);
        let bytes = frame::encode(&read_of(&block, block.token.name));
        connection.send_bytes(&[bytes, vec![byte; PROOF_BYTES]].concat()).unwrap();
        assert!(matches!(connection.read_answer(), Err(TransferFailure::Remote(_))));
    }
}

fn proof_elsewhere(stand: &Stand) {
    let block = stand.a_block();
    let (mut first, mut second) = (greeted(&block), greeted(&block));
    let bytes = first.sealed(&read_of(&block, block.token.name), &block.token);
    second.send_bytes(&bytes).unwrap();
    assert!(matches!(second.read_answer(), Err(TransferFailure::Remote(_))));
    first.send_bytes(&bytes).unwrap();
    assert!(matches!(first.read_answer(), Ok(Reply::Reading { .. })));
}

/// Asks with a token that is not the one for what is asked.
fn is_refused_with(block: &LocatedBlock, operation: &Operation, token: &BlockToken) {
    let mut connection = greeted(block);
    let answer = connection.ask(operation, token);
    assert!(matches!(answer, Err(TransferFailure::Remote(_))), "{operation:?}: {answer:?}");
}

fn other_tokens(stand: &Stand) {
    let block = stand.a_block();
    let (token, name) = (&block.token, block.token.name);
    let as_write = TokenName { mode: AccessMode::Write, ..name };
    is_refused_with(&block, &write_of(&block, name), token);
    is_refused_with(&block, &write_of(&block, as_write), token);
    let mut other = block.clone();
    other.id = BlockId(block.id.0 + 1);
    is_refused_with(&block, &read_of(&other, name), token);
    other = LocatedBlock { stamp: GenerationStamp(block.stamp.0 + 1), ..block.clone() };
    is_refused_with(&block, &read_of(&other, name), token);
    let longer = TokenName { expires_ms: name.expires_ms + 1, ..name };
    is_refused_with(&block, &read_of(&block, longer), token);
}

/// Whoever wrote a file has a token for its last block for some minutes more.
fn left_over_tokens(stand: &Stand) {
    let block = stand.a_block();
    let contents = stand.cluster.dfs(&["-cat", "/a-block"]).ok().stdout;
    let token =
        TokenKeys::new(&stand.secret).issue(block.id, block.stamp, AccessMode::Write, now_ms());
    let (id, stamp, name) = (block.id, block.stamp, token.name);
    let mine = LocatedBlock { token: token.clone(), ..block.clone() };
    let Operation::Write(write) = write_of(&block, name) else { panic!("a write") };
    let resume = |offset| {
        let resume = Some(Resume { prior: stamp, offset, after_break: false });
        Operation::Write(WriteOperation { resume, ..write.clone() })
    };
    let target = block.replicas[0].clone();
    for operation in [
        read_of(&block, name),
        Operation::ReplicaState { block: id, stamp, token: name },
        Operation::UpdateReplica { block: id, stamp, length: 0, token: name },
        Operation::CompleteReplica {
            block: id,
            prior: stamp,
            stamp,
            offset: 0,
            target,
            token: name,
        },
        Operation::Write(write.clone()),
        Operation::Write(WriteOperation { client: ClientId::default(), ..write.clone() }),
        Operation::Write(WriteOperation { prefix_only: true, ..write.clone() }),
        resume(0),
        resume(block.length),
    ] {
        is_refused_with(&mine, &operation, &token);
    }
    // Nor does a DataNode send what it has to somebody who only claims to be another.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut target = block.replicas[0].clone();
    target.transfer_address = listener.local_addr().unwrap().to_string();
    target.local_socket = local_socket_name(sys::host::user_id(), rand::random());
    let heard = listen(move || listener.accept().ok().map(|(stream, _)| Box::new(stream) as _));
    let (prior, length) = (stamp, block.length);
    let send = Operation::Transfer { block: id, prior, stamp, length, target, token: name };
    is_refused_with(&mine, &send, &token);
    let heard = heard.recv_timeout(PATIENCE).unwrap();
    assert!(!heard.windows(contents.len()).any(|bytes| bytes == contents), "{heard:?}");
    assert_eq!(stand.cluster.dfs(&["-cat", "/a-block"]).ok().stdout, contents);
}

/// Blocks that nobody has, with tokens to write them.
fn new_blocks(stand: &Stand, like: &LocatedBlock, count: u64) -> Vec<LocatedBlock> {
    let keys = TokenKeys::new(&stand.secret);
    let block = |number| {
        let id = BlockId(like.id.0 + 2_000_000 + number);
        let token = keys.issue(id, like.stamp, AccessMode::Write, now_ms());
        LocatedBlock { id, token, ..like.clone() }
    };
    (0..count).map(block).collect()
}

/// A write of several blocks on this connection, with a permit for each that has a token.
fn write_many(connection: &Connection, blocks: &[(&LocatedBlock, &BlockToken)]) -> WriteMany {
    let [(first, _), more @ ..] = blocks else { panic!("no blocks") };
    let Operation::Write(first) = write_of(first, first.token.name) else { panic!("a write") };
    let more = more.iter().map(|(block, token)| MoreBlock {
        block: block.id,
        stamp: block.stamp,
        token: block.token.name,
        permit: connection.permit(token, block.id, block.stamp).unwrap(),
    });
    WriteMany { first, more: more.collect() }
}

fn block_among_others(stand: &Stand) {
    let block = stand.a_block();
    let blocks = new_blocks(stand, &block, 3);
    let foreign = TokenKeys::new(&Key::new([9; 32]));
    let forged = foreign.token(blocks[2].id, blocks[2].stamp, blocks[2].token.name);
    let own: Vec<_> = blocks.iter().map(|block| (block, &block.token)).collect();
    let mut is_taken = [false; 4];
    for (case, taken) in is_taken.iter_mut().enumerate() {
        let mut connection = greeted(&blocks[0]);
        let mut given = own.clone();
        let mut writes = write_many(&connection, &given);
        match case {
            // A token of another secret, a permit of another block, and one of another connection.
            0 => {
                given[2].1 = &forged;
                writes = write_many(&connection, &given);
            }
            1 => writes.more[1].permit = writes.more[0].permit,
            2 => writes.more[1].permit = write_many(&greeted(&blocks[0]), &own).more[1].permit,
            _ => {}
        }
        connection.send(&Operation::WriteMany(writes), &blocks[0].token).unwrap();
        let mut packet = Packet::default();
        for block in &blocks {
            packet.reset(PacketHeader { last: true, data_bytes: 1, ..PacketHeader::default() });
            packet.data_mut()[0] = block.id.0 as u8;
            packet.seal();
            // A DataNode that has refused may have gone.
            let _ = connection.send_packet(&[], &packet);
        }
        *taken = matches!(connection.read_answer(), Ok(Reply::Writing));
    }
    assert_eq!(is_taken, [false, false, false, true]);
}

fn unfit_blocks(stand: &Stand) {
    let block = stand.a_block();
    let blocks = new_blocks(stand, &block, 2);
    let own: Vec<_> = blocks.iter().map(|block| (block, &block.token)).collect();
    for case in 0..4 {
        let mut connection = greeted(&blocks[0]);
        let mut writes = write_many(&connection, &own);
        let resume = Resume { prior: block.stamp, offset: 0, after_break: false };
        let (mut bytes, mut last) = (1, true);
        match case {
            0 => writes.first.resume = Some(resume),
            1 => writes.first.prefix_only = true,
            2 => bytes = WRITE_MANY_BYTES_MAX + 1,
            _ => last = false,
        }
        connection.send(&Operation::WriteMany(writes), &blocks[0].token).unwrap();
        let mut packet = Packet::default();
        packet.reset(PacketHeader { last, data_bytes: bytes, ..PacketHeader::default() });
        packet.seal();
        let _ = connection.send_packet(&[], &packet);
        let answer = connection.read_answer();
        assert!(answer.is_err(), "{case}: {answer:?}");
    }
}

fn old_tokens(stand: &Stand) {
    let block = stand.a_block();
    let keys = TokenKeys::new(&stand.secret);
    let hour_ms = 3_600_000;
    let old = keys.issue(block.id, block.stamp, AccessMode::Read, now_ms() - hour_ms);
    is_refused_with(&block, &read_of(&block, old.name), &old);
    // With a key of an earlier period nothing can be made that is good now.
    let name = TokenName { expires_ms: now_ms() + 60_000, ..old.name };
    let name = TokenName { period: name.period - 2, ..name };
    let forged = keys.token(block.id, block.stamp, name);
    is_refused_with(&block, &read_of(&block, forged.name), &forged);
    let early = TokenName { period: old.name.period + 3, ..name };
    let forged = keys.token(block.id, block.stamp, early);
    is_refused_with(&block, &read_of(&block, forged.name), &forged);
}

fn foreign_tokens(stand: &Stand) {
    let block = stand.a_block();
    let keys = TokenKeys::new(&Key::new([9; 32]));
    let token = keys.issue(block.id, block.stamp, AccessMode::Read, now_ms());
    is_refused_with(&block, &read_of(&block, token.name), &token);
    // Whoever has it does not believe the DataNode either.
    let permit = (block.id, block.stamp, &token);
    let met = Connection::connect_over_tcp(&block.replicas[0], timeouts(), permit);
    assert!(matches!(met, Err(TransferFailure::Impostor { .. })), "{met:?}");
}

fn huge_frames(stand: &Stand) {
    let datanode = stand.a_block().replicas.remove(0);
    for length in [(64 << 10) + 1, 1 << 30, u32::MAX] {
        let head = [length.to_le_bytes(), [0; 4]].concat();
        is_refused(answer(&datanode, &[head, vec![7; 1 << 20]].concat()));
    }
}

fn cut_frames(stand: &Stand) {
    let block = stand.a_block();
    let bytes = frame::encode(&read_of(&block, block.token.name));
    for end in 0..bytes.len() {
        is_refused(answer(&block.replicas[0], &bytes[..end]));
    }
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 0x55;
        is_refused(answer(&block.replicas[0], &altered));
    }
}

fn huge_packets(stand: &Stand) {
    let block = stand.a_block();
    let keys = TokenKeys::new(&stand.secret);
    let id = BlockId(block.id.0 + 1_000_000);
    let token = keys.issue(id, block.stamp, AccessMode::Write, now_ms());
    let other = LocatedBlock { id, token: token.clone(), ..block };
    let mut connection = greeted(&other);
    let mut bytes = connection.sealed(&write_of(&other, token.name), &token);
    let mut header = [0xff; PACKET_HEADER_BYTES];
    header[16..20].fill(0);
    // A frame has the same checksum behind its length.
    let sealed = frame::encode(&super::Raw(header[..20].to_vec()));
    header[20..].copy_from_slice(&sealed[4..8]);
    bytes.extend_from_slice(&header);
    connection.send_bytes(&bytes).unwrap();
    // It goes, whether or not it says why.
    let answered = connection.read_answer().and_then(|_| connection.read_ack().map(drop));
    assert!(answered.is_err(), "{answered:?}");
}

fn idle_transfers(stand: &Stand) {
    sys::process::raise_open_files();
    let mut held = Vec::new();
    for datanode in stand.datanodes() {
        for _ in 0..FLOOD {
            held.extend(TcpStream::connect(&datanode.transfer_address));
        }
        stand.works("among idle connections to the transfer port");
    }
    // Over TCP, too, as from another machine.
    let block = stand.a_block();
    greeted(&block);
    drop(held);
}

/// Takes connections, answers none, and tells what was sent on each.
fn listen(mut accept: impl FnMut() -> Option<Box<dyn Read>> + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, heard) = mpsc::channel();
    std::thread::spawn(move || {
        while let Some(mut stream) = accept() {
            let mut bytes = vec![0; 1 << 16];
            let read = stream.read(&mut bytes).unwrap_or_default();
            bytes.truncate(read);
            if sender.send(bytes).is_err() {
                return;
            }
        }
    });
    heard
}

/// Neither data nor what would be good elsewhere was said to an impostor.
fn is_harmless(block: &LocatedBlock, heard: &[u8]) {
    let (block, stamp, token) = (block.id, block.stamp, block.token.name);
    let mut hello = frame::encode(&Operation::Hello { block, stamp, token, nonce: [0; 16] });
    assert_eq!(heard.len(), hello.len());
    let nonce_at = hello.len() - 16;
    hello.truncate(nonce_at);
    assert_eq!(heard[frame::HEADER_BYTES..nonce_at], hello[frame::HEADER_BYTES..]);
}

fn impostor_over_tcp(stand: &Stand) {
    let block = stand.a_block();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut datanode = block.replicas[0].clone();
    datanode.transfer_address = listener.local_addr().unwrap().to_string();
    let heard = listen(move || listener.accept().ok().map(|(stream, _)| Box::new(stream) as _));
    let pool = ConnectionPool::new(timeouts(), false);
    let met = pool.take(&datanode, block.permit());
    assert!(met.is_err(), "{met:?}");
    is_harmless(&block, &heard.recv_timeout(PATIENCE).unwrap());
}

fn impostor_on_local_socket(stand: &Stand) {
    let block = stand.a_block();
    let name = local_socket_name(sys::host::user_id(), rand::random());
    let listener = sys::socket::listen(&name).unwrap();
    let mut datanode = block.replicas[0].clone();
    datanode.local_socket = name;
    let heard = listen(move || listener.accept().ok().map(|(stream, _)| Box::new(stream) as _));
    let pool = ConnectionPool::new(timeouts(), true);
    let met = pool.take(&datanode, block.permit());
    assert!(met.is_err(), "{met:?}");
    is_harmless(&block, &heard.recv_timeout(PATIENCE).unwrap());
}

/// Somebody else of this machine; `None`, and says so, where the tests may not act as one.
fn another_user() -> Option<User> {
    let user = User::new(ANOTHER_USER).unwrap();
    let possible = sys::sandbox::try_user(user, &[]);
    possible.inspect_err(|error| lacks(Need::Users, error)).ok().map(|()| user)
}

fn impostor_of_another_user(stand: &Stand) {
    let Some(user) = another_user() else { return };
    let block = stand.a_block();
    // The DataNode of that name has ended.
    let name = local_socket_name(sys::host::user_id(), rand::random());
    let listener = user.act(|| sys::socket::listen(&name)).unwrap();
    let mut datanode = block.replicas[0].clone();
    datanode.local_socket = name;
    let heard = listen(move || listener.accept().ok().map(|(stream, _)| Box::new(stream) as _));
    let connection = ConnectionPool::new(timeouts(), true).take(&datanode, block.permit()).unwrap();
    assert!(!connection.passes_files(), "the DataNode itself is met over TCP");
    assert_eq!(heard.recv_timeout(PATIENCE).unwrap(), b"", "nothing was said to the other");
}

/// A connection to the local socket of a DataNode, made by a user.
fn local(user: User, datanode: &DatanodeInfo) -> std::io::Result<UnixStream> {
    user.act(|| sys::socket::connect_now(&datanode.local_socket))
}

fn another_users_descriptors(stand: &Stand) {
    let Some(user) = another_user() else { return };
    let block = stand.a_block();
    let datanode = &block.replicas[0];
    let (id, stamp, token) = (block.id, block.stamp, block.token.name);
    let ask = Operation::Descriptors { block: id, stamp, token };
    let own = sys::socket::connect(&datanode.local_socket).unwrap();
    let mut own = Connection::greet(Stream::from(own), datanode, block.permit()).unwrap();
    own.ask_descriptors(&ask, &block.token).unwrap();
    // Somebody who has been given the very same token: he may read, as over TCP.
    let theirs = local(user, datanode).unwrap();
    let mut theirs = Connection::greet(Stream::from(theirs), datanode, block.permit()).unwrap();
    let refused = theirs.ask_descriptors(&ask, &block.token).map(drop);
    assert!(matches!(refused, Err(TransferFailure::Remote(_))), "{refused:?}");
    let answer = theirs.ask(&read_of(&block, token), &block.token);
    assert!(matches!(answer, Ok(Reply::Reading { .. })), "{answer:?}");
}

fn another_users_flood(stand: &Stand) {
    let Some(user) = another_user() else { return };
    sys::process::raise_open_files();
    let block = stand.a_block();
    let mut held = Vec::new();
    for datanode in stand.datanodes() {
        for _ in 0..FLOOD {
            held.extend(local(user, &datanode));
        }
    }
    for datanode in &block.replicas {
        // Another one's flood takes neither the way of files on this machine nor that of others.
        let pool = ConnectionPool::new(timeouts(), true);
        let connection = pool.take(datanode, block.permit()).unwrap();
        assert!(connection.passes_files(), "the local socket is taken");
    }
    greeted(&block);
    stand.works("among another user's idle connections");
    drop(held);
}

/// Leads every connection elsewhere, in both directions.
fn lead_to(address: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let far = TcpStream::connect(&address).unwrap();
            let (mut near_again, mut far_again) =
                (near.try_clone().unwrap(), far.try_clone().unwrap());
            let (mut near, mut far) = (near, far);
            std::thread::spawn(move || std::io::copy(&mut near, &mut far));
            std::thread::spawn(move || std::io::copy(&mut far_again, &mut near_again));
        }
    });
    own
}

fn relay(stand: &Stand) {
    let block = stand.a_block();
    let mut datanode = block.replicas[0].clone();
    datanode.transfer_address = lead_to(block.replicas[1].transfer_address.clone());
    let met = Connection::connect_over_tcp(&datanode, timeouts(), block.permit());
    assert!(matches!(met, Err(TransferFailure::Impostor { .. })), "{met:?}");
    // Led to the right one, it is.
    datanode.transfer_address = lead_to(block.replicas[0].transfer_address.clone());
    Connection::connect_over_tcp(&datanode, timeouts(), block.permit()).unwrap();
}

fn call_of(rpc: &RpcClient) -> Result<namenode::Reply, RpcError> {
    let call = Call::Status(DfsPath::parse("/a-secret-name").unwrap());
    let request = namenode::Request::new(ClientId([9; 16]), 1, "tester", "", call);
    rpc.call_blocking("/rpc", &request, CallOptions::once(PATIENCE))
}

fn impostor_master(stand: &Stand) {
    let says = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n\0\0";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let heard = listen(move || {
        let (mut stream, _) = listener.accept().ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut heard = vec![0; 1 << 16];
        let read = stream.read(&mut heard).unwrap_or_default();
        heard.truncate(read);
        let _ = stream.write_all(says);
        Some(Box::new(std::io::Cursor::new(heard)) as _)
    });
    let rpc = RpcClient::new(&base, Role::Client, Some(&stand.secret)).unwrap();
    let answer = call_of(&rpc);
    assert!(matches!(answer, Err(RpcError::Unproven { .. })), "{answer:?}");
    let heard = heard.recv_timeout(PATIENCE).unwrap();
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.starts_with("GET /hello ") && !heard.contains("secret-name"), "{heard}");
}

fn other_service(stand: &Stand) {
    let rpc = RpcClient::new(&stand.cluster.jobtracker, Role::Client, Some(&stand.secret)).unwrap();
    let answer = call_of(&rpc.expecting(Service::Namenode));
    let expected = Service::Jobtracker.as_str();
    assert!(
        matches!(&answer, Err(RpcError::OtherDaemon { found, .. }) if found == expected),
        "{answer:?}"
    );
}
