//! Entry points for `fuzz/`: each function feeds any bytes to decoders, and checks that whatever decodes encodes and decodes to the same value again.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::address::{FileSystem, Site, Typed, jobtracker_address, namenode_address};
use crate::auth::{AnswerSignature, Hello, Key, Signature};
use crate::meta::{self, Tail};
use crate::pass::PassName;
use crate::record::{PLACE_BYTES, RecordAt};
use crate::shuffle::{FetchRequest, SegmentAnswer};
use crate::transfer::{self, ACK_BYTES, Ack, PACKET_HEADER_BYTES, PacketHeader};
use crate::wire::bundle;
use crate::xattr::XattrName;
use crate::{
    AttemptId, DfsPath, JobId, acl, address, datanode, delegation, frame, glob, history, jobs,
    namenode, printable, property, runner, tracker, wire,
};

/// The name of a target, and the function that takes its bytes.
pub type Decoder = (&'static str, fn(&[u8]));

/// Every decoder.
pub const DECODERS: &[Decoder] = &[
    ("signatures", signatures),
    ("transfer_headers", transfer_headers),
    ("transfer_messages", transfer_messages),
    ("shuffle_requests", shuffle_requests),
    ("frames", frames),
    ("bundles", bundles),
    ("rpc_namenode", rpc_namenode),
    ("rpc_datanode", rpc_datanode),
    ("rpc_jobs", rpc_jobs),
    ("rpc_tracker", rpc_tracker),
    ("rpc_runner", rpc_runner),
    ("meta_files", meta_files),
    ("history_lines", history_lines),
    ("names", names),
    ("addresses", addresses),
    ("globs", globs),
    ("properties", properties),
];

fn stable<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let Ok(message) = wire::decode::<T>(bytes, "message") else { return };
    let encoded = wire::encode(&message);
    assert!(encoded.len() <= bytes.len(), "a message is longer than what it was read from");
    let again = wire::decode::<T>(&encoded, "message").expect("what was encoded is a message");
    assert_eq!(wire::encode(&again), encoded);
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

/// Fills an array from the front.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    let count = bytes.len().min(N);
    array[..count].copy_from_slice(&bytes[..count]);
    array
}

/// Puts the matching checksum in its last four bytes.
fn sealed<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let crc = crc32fast::hash(&bytes[..N - 4]);
    bytes[N - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Headers of signed requests and answers, keys, passes.
pub fn signatures(bytes: &[u8]) {
    let text = text(bytes);
    if let Some(signature) = Signature::parse(text) {
        assert_eq!(Signature::parse(&signature.to_header()), Some(signature));
    }
    if let Some(signature) = AnswerSignature::parse(text) {
        assert_eq!(AnswerSignature::parse(&signature.to_header()), Some(signature));
    }
    if let Some(name) = PassName::parse(text) {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(key) = Key::from_file_text(text) {
        assert!(Key::from_file_text(&key.file_text()) == Ok(key));
    }
    stable::<Hello>(bytes);
}

/// The header before each packet, and the ack of one.
pub fn transfer_headers(bytes: &[u8]) {
    let header: [u8; PACKET_HEADER_BYTES] = padded(bytes);
    for header in [header, sealed(header)] {
        if let Ok(decoded) = PacketHeader::decode(header) {
            assert_eq!(decoded.encode(), header);
            assert!(decoded.data_bytes as usize <= transfer::DATA_BYTES_MAX);
            assert!(decoded.end() >= decoded.offset);
        }
    }
    let ack: [u8; ACK_BYTES] = padded(bytes);
    for ack in [ack, sealed(ack)] {
        if let Ok(decoded) = Ack::decode(ack) {
            assert_eq!(decoded.encode(), ack);
            let _ = (decoded.failure(), decoded.waits_ms());
        }
    }
}

/// Operations on blocks and their answers.
pub fn transfer_messages(bytes: &[u8]) {
    stable::<transfer::Operation>(bytes);
    stable::<transfer::Answer>(bytes);
}

/// Requests for map outputs, and the answer before each segment.
pub fn shuffle_requests(bytes: &[u8]) {
    if let Ok(request) = FetchRequest::parse_query(text(bytes)) {
        let target = request.to_target();
        let (_, query) = target.split_once('?').expect("a target has a query");
        assert_eq!(FetchRequest::parse_query(query).as_ref(), Ok(&request));
    }
    stable::<SegmentAnswer>(bytes);
}

/// Messages that share a body.
pub fn bundles(bytes: &[u8]) {
    if let Ok(messages) = bundle::messages(bytes) {
        assert!((1..=bundle::MESSAGES_MAX).contains(&messages.len()));
        let mut again = Vec::new();
        messages.iter().for_each(|message| bundle::append(&mut again, message));
        assert_eq!(again, bytes);
    }
}

/// Messages on sockets, with their length and checksum.
pub fn frames(bytes: &[u8]) {
    const BYTES_MAX: usize = 1 << 20;
    let mut rest = bytes;
    while let Ok(body) = frame::read_body(&mut rest, BYTES_MAX) {
        assert!(body.len() <= BYTES_MAX);
    }
    let mut whole = (bytes.len() as u32).to_le_bytes().to_vec();
    whole.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    whole.extend_from_slice(bytes);
    let body = frame::read_body(&mut &whole[..], bytes.len()).expect("it is a whole frame");
    assert_eq!(body, bytes);
    assert!(bytes.is_empty() || frame::read_body(&mut &whole[..], bytes.len() - 1).is_err());
    let _ = frame::read::<runner::FromRunner>(&mut &whole[..], BYTES_MAX, "message");
}

/// Clients to the NameNode.
pub fn rpc_namenode(bytes: &[u8]) {
    stable::<namenode::Request>(bytes);
    stable::<namenode::Answer>(bytes);
    stable::<delegation::Request>(bytes);
    stable::<delegation::Answer>(bytes);
}

/// DataNodes to the NameNode.
pub fn rpc_datanode(bytes: &[u8]) {
    stable::<datanode::Request>(bytes);
    stable::<datanode::Answer>(bytes);
}

/// Clients to the JobTracker.
pub fn rpc_jobs(bytes: &[u8]) {
    stable::<jobs::Request>(bytes);
    stable::<jobs::Answer>(bytes);
}

/// Workers to the JobTracker.
pub fn rpc_tracker(bytes: &[u8]) {
    stable::<tracker::Request>(bytes);
    stable::<tracker::Answer>(bytes);
}

/// A worker and the processes of a job.
pub fn rpc_runner(bytes: &[u8]) {
    stable::<runner::FromRunner>(bytes);
    stable::<runner::ToRunner>(bytes);
    if let Some(record) = RecordAt::decode(bytes) {
        assert!(bytes.len() >= PLACE_BYTES, "{record:?} of {} bytes", bytes.len());
    }
}

/// Beginnings of meta files of replicas.
pub fn meta_files(bytes: &[u8]) {
    let mut header: [u8; meta::HEADER_BYTES] = padded(bytes);
    for _ in 0..2 {
        if let Ok(layout) = meta::check_header(&header) {
            for at in layout.tail_positions() {
                let tail = header[at as usize..].first_chunk().expect("tails are in the header");
                for tail in [*tail, sealed(*tail)] {
                    if let Some(decoded) = Tail::decode(tail) {
                        assert_eq!(decoded.encode(), tail);
                        assert!(decoded.chunk_begin() < decoded.length);
                        assert!(!decoded.proves(bytes) || decoded.chunk_bytes() == bytes.len());
                    }
                }
            }
        }
        let preamble: [u8; meta::PREAMBLE_BYTES] = padded(&header);
        header[..meta::PREAMBLE_BYTES].copy_from_slice(&sealed(preamble));
    }
}

/// Checksums of lines of histories.
pub fn history_lines(bytes: &[u8]) {
    let mut check = history::LineCheck::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let _ = (check.is_good(line), check.end());
        if line.ends_with(b"}") {
            let mut sealed = line.to_vec();
            history::seal(&mut sealed);
            assert_eq!(history::check(&sealed), history::Seal::Fits);
        }
    }
}

/// Paths, ids, lists of rights, names of attributes.
pub fn names(bytes: &[u8]) {
    let text = text(bytes);
    if let Ok(path) = DfsPath::parse(text) {
        assert_eq!(DfsPath::parse(path.as_str()), Ok(path.clone()));
        let elements = path.elements().collect::<Vec<_>>();
        assert!(path.is_root() || path.as_str() == format!("/{}", elements.join("/")));
        assert!(path.parent().is_none_or(|parent| path.starts_with(&parent)));
    }
    if let Ok(id) = text.parse::<JobId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    if let Ok(id) = text.parse::<AttemptId>() {
        assert_eq!(id.to_string().parse(), Ok(id));
    }
    for has_actions in [false, true] {
        let Ok(list) = acl::AclEntry::parse_list(text, has_actions) else { continue };
        if has_actions {
            let shown = list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            assert_eq!(acl::AclEntry::parse_list(&shown, true).as_ref(), Ok(&list));
        }
    }
    if let Ok(name) = XattrName::parse(text) {
        assert_eq!(XattrName::parse(&name.prefixed()), Ok(name));
    }
    assert!(!printable::printable(text).contains(printable::steers));
}

/// What people type in place of an address or a path.
pub fn addresses(bytes: &[u8]) {
    let text = text(bytes);
    let typed = Typed::new(text);
    assert!(text.starts_with(typed.prefix));
    if let Ok(found) = namenode_address("option", text) {
        assert_eq!(namenode_address("option", &found), Ok(found));
    }
    if let Ok(found) = jobtracker_address("option", text) {
        assert_eq!(jobtracker_address("option", &found), Ok(found));
    }
    let site = Site::new("http://nn:9870", &["alias".to_owned()]);
    let _ = FileSystem::parse("option", text, &site);
    let _ = site.locate(text);
    let path = address::absolute("/user/me", text);
    assert_eq!(address::absolute("/", &path), path);
}

/// Patterns and the names they are matched with, one a line.
pub fn globs(bytes: &[u8]) {
    let text = text(bytes);
    let (pattern, name) = text.split_once('\n').unwrap_or((text, "part-00000"));
    for alternative in glob::expand_braces(pattern).unwrap_or_default() {
        let pattern = glob::Pattern::new(&alternative);
        let matches = pattern.matches(name);
        if let Some(literal) = pattern.literal() {
            assert_eq!(matches, literal == name);
        }
    }
}

/// Properties of jobs, `name=value`.
pub fn properties(bytes: &[u8]) {
    let text = text(bytes);
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    for scope in [property::Scope::Jobs, property::Scope::Streaming] {
        let _ = property::judge(name, value, scope);
    }
    assert_eq!(property::present_name(property::present_name(name)), property::present_name(name));
}

#[cfg(test)]
#[path = "../../fuzz/replay.rs"]
mod replay;
