//! Messages that are signed and small, and would be large or deep.

use protocol::auth::Role;
use protocol::namenode::{Call, Request};
use protocol::wire::{self, bundle};
use protocol::{CallId, ClientId, DfsPath};
use transport::RpcError;
use transport::rpc::RpcClient;

use super::{Attack, Raw, Stand, TRY};
use crate::support::Options;

/// Levels of what is nested.
const LEVELS: usize = 20_000;
/// Variants that an enum of ours may have.
const VARIANTS: u8 = 96;
/// Elements of what is long: as many as fit into a request.
const ELEMENTS: usize = 15 << 20;

const ATTACKS: &[Attack] = &[
    ("batches in batches", nested_calls),
    ("a flat batch of millions of calls", long_batch),
    ("lists in lists to the JobTracker", nested_submissions),
    ("a job of millions of splits", long_submission),
    ("a worker's report that announces what does not follow", announced_updates),
    ("a block report that announces what does not follow", announced_replicas),
    ("a text of almost the whole request", long_text),
    ("half a message", half_a_message),
    ("no message at all", noise),
    ("bundles that are none", broken_bundles),
    ("calls in a bundle that are none", broken_calls_in_bundles),
    ("a bundle of more than a bundle may have", long_bundle),
];

#[test]
fn signed_messages_cost_what_their_bytes_say() {
    Stand::start(Options::default()).suffer(ATTACKS);
}

/// A request of a client up to what is asked.
fn head() -> Vec<u8> {
    let call = CallId { client: ClientId([7; 16]), number: 1 };
    wire::encode(&(protocol::namenode::VERSION, call, "tester", ""))
}

/// A good call.
fn status() -> Vec<u8> {
    let call = CallId { client: ClientId([7; 16]), number: 1 };
    let status = Call::Status(DfsPath::parse("/").expect("a path"));
    wire::encode(&Request::new(call.client, call.number, "tester", "", status))
}

fn submission() -> Vec<u8> {
    let call = CallId { client: ClientId([7; 16]), number: 1 };
    wire::encode(&(protocol::jobs::VERSION, call, "tester"))
}

fn is_refused(rpc: &RpcClient, target: &str, bytes: Vec<u8>) {
    let answer: Result<protocol::namenode::Reply, RpcError> =
        rpc.call_blocking(target, &Raw(bytes), TRY);
    assert!(matches!(answer, Err(RpcError::Status { status: 400, .. })), "{answer:?}");
}

fn nested_calls(stand: &Stand) {
    for variant in 0..VARIANTS {
        is_refused(
            &stand.namenode(Role::Client),
            "/rpc",
            [head(), vec![1, 1], [variant, 1].repeat(LEVELS)].concat(),
        );
        is_refused(
            &stand.namenode(Role::Client),
            "/rpc",
            [head(), [variant, 1].repeat(LEVELS)].concat(),
        );
    }
}

fn long_batch(stand: &Stand) {
    let count = wire::encode(&ELEMENTS);
    for variant in 0..VARIANTS {
        // Each is the shortest call there is.
        let batch = [head(), vec![variant], count.clone(), vec![4; ELEMENTS]].concat();
        is_refused(&stand.namenode(Role::Client), "/rpc", batch);
    }
}

fn nested_submissions(stand: &Stand) {
    for variant in 0..VARIANTS {
        let bytes = [submission(), [variant, 1].repeat(LEVELS)].concat();
        is_refused(&stand.jobtracker(Role::Client), "/rpc", bytes);
    }
}

fn long_submission(stand: &Stand) {
    let name_and_binary = wire::encode(&("a job", [7u8; 32]));
    let options = wire::encode(&(Vec::<String>::new(), 0u32, 0u64, ELEMENTS));
    let bytes = [submission(), vec![0], name_and_binary, options, vec![0; ELEMENTS]].concat();
    is_refused(&stand.jobtracker(Role::Client), "/rpc", bytes);
}

fn announced_updates(stand: &Stand) {
    for count in [1 << 20, u64::MAX] {
        let head = wire::encode(&(2u8, [7u8; 16], 1u64, count));
        is_refused(&stand.jobtracker(Role::Worker), "/rpc/worker", head);
    }
}

fn announced_replicas(stand: &Stand) {
    for count in [50_001, u64::from(u32::MAX), u64::MAX] {
        let head = wire::encode(&(2u8, [7u8; 16], 1u64, 0u32, true, count));
        let replicas = [7, 7, 7].repeat(1 << 20);
        is_refused(&stand.namenode(Role::Datanode), "/rpc/datanode", [head, replicas].concat());
    }
}

fn long_text(stand: &Stand) {
    let call = CallId { client: ClientId([7; 16]), number: 1 };
    let user = "x".repeat(ELEMENTS);
    let bytes = wire::encode(&(protocol::namenode::VERSION, call, user, "", 0u8, 4u8));
    is_refused(&stand.namenode(Role::Client), "/rpc", bytes);
}

fn half_a_message(stand: &Stand) {
    for end in 0..head().len() {
        is_refused(&stand.namenode(Role::Client), "/rpc", head()[..end].to_vec());
    }
}

fn broken_bundles(stand: &Stand) {
    let mut whole = Vec::new();
    (0..2).for_each(|_| bundle::append(&mut whole, &status()));
    let ends = (0..whole.len()).filter(|end| *end != whole.len() / 2);
    let cut = ends.map(|end| whole[..end].to_vec());
    let announced = [1, 1 << 20, u32::MAX].map(|length: u32| length.to_le_bytes().to_vec());
    let mut many = Vec::new();
    (0..=bundle::MESSAGES_MAX).for_each(|_| bundle::append(&mut many, &status()));
    for bytes in cut.chain(announced).chain([many]) {
        is_refused(&stand.namenode(Role::Client), bundle::TARGET, bytes);
    }
}

/// One call that does not decode, or is not written as one, has its whole bundle refused.
fn broken_calls_in_bundles(stand: &Stand) {
    let nested = [head(), [1, 1].repeat(4000)].concat();
    let longer = [status(), vec![0]].concat();
    for call in [nested, longer, Vec::new(), vec![0xff; 1000]] {
        let mut bytes = Vec::new();
        [status(), call].iter().for_each(|call| bundle::append(&mut bytes, call));
        is_refused(&stand.namenode(Role::Client), bundle::TARGET, bytes);
    }
}

fn long_bundle(stand: &Stand) {
    let mut bytes = Vec::new();
    bundle::append(&mut bytes, &vec![0; bundle::BYTES_MAX]);
    let rpc = stand.namenode(Role::Client);
    let answer: Result<protocol::namenode::Reply, RpcError> =
        rpc.call_blocking(bundle::TARGET, &Raw(bytes), TRY);
    // Its body is not read, so the connection may end while it is still sent.
    let is_refused =
        matches!(answer, Err(RpcError::Status { status: 413, .. } | RpcError::Unreachable { .. }));
    assert!(is_refused, "{answer:?}");
}

fn noise(stand: &Stand) {
    for byte in [0x80, 0xff] {
        is_refused(&stand.namenode(Role::Client), "/rpc", vec![byte; 1 << 20]);
        is_refused(&stand.jobtracker(Role::Worker), "/rpc/worker", vec![byte; 1 << 20]);
    }
}
