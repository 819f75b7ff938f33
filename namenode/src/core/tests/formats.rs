//! Every form on disk that was ever written is read. `testdata/edits-vN.txt` has a line `NAME HEX` for each kind of edit and answer in a version of
//! the journal's records. `testdata/rows.txt` has a line `KEY VALUE`, both in hex, for each kind of row in each of its versions.

use std::collections::{BTreeMap, BTreeSet};

use protocol::acl::{AclEntry, AclKind, AclScope};
use protocol::permission::Action;
use protocol::xattr::{XattrName, XattrSpace};
use protocol::{
    BlockId, CallId, ClientId, ClusterId, DatanodeId, DfsPath, ErrorKind, FeatureLevel,
    GenerationStamp, InodeId, RemoteError,
};

use crate::core::edit::{Allotted, CallKey, Edit, Outcome, Record};
use crate::core::standing::{NodeAway, ReplicaAway, StandingEdit, Token};
use crate::core::state::Loaded;
use crate::core::tests::harness::canonical;
use crate::error::CoreError;

/// A file for each version ever written, the newest last. The others never change.
const VERSIONS: [&str; 1] = ["edits-v1.txt"];

const ID: InodeId = InodeId(20_000);
const BLOCK: BlockId = BlockId(1 << 30);
const STAMP: GenerationStamp = GenerationStamp(1001);
const HOLDER: ClientId = ClientId([3; 16]);

fn text(text: &str) -> String {
    text.to_owned()
}

fn targets() -> Vec<DatanodeId> {
    vec![DatanodeId([4; 16]), DatanodeId([5; 16])]
}

fn making() -> Vec<Edit> {
    let (owner, group) = (text("ann"), text("sg"));
    let (parent, name, at_ms) = (InodeId::ROOT, text("n"), 300);
    let made = |mode| (parent, name.clone(), owner.clone(), group.clone(), mode);
    let (parent, name, owner, group, mode) = made(0o755);
    let format = Edit::Format {
        cluster: ClusterId([7; 16]),
        owner: owner.clone(),
        group: group.clone(),
        at_ms,
    };
    let directory = Edit::MakeDirectory { id: ID, parent, name, owner, group, mode, at_ms };
    let (parent, name, owner, group, mode) = made(0o644);
    let file = Edit::MakeFile {
        id: ID,
        parent,
        name,
        owner,
        group,
        mode,
        replication: 3,
        block_size: 128 << 20,
        holder: HOLDER,
        at_ms,
    };
    vec![format, directory, file]
}

fn writing() -> Vec<Edit> {
    let (file, block, stamp, at_ms) = (ID, BLOCK, STAMP, 300);
    vec![
        Edit::AddBlock { file, block, stamp, targets: targets() },
        Edit::DropBlock { file, block },
        Edit::CommitBlock { file, block, length: 70_000 },
        Edit::RestampBlock { file, block, stamp, targets: targets(), prior: Some(stamp) },
        Edit::BeginRecovery { file, stamp },
        Edit::Close { file, at_ms },
        Edit::Reopen { file, holder: HOLDER, last: Some((stamp, targets())) },
        Edit::SyncBlock { file, block, length: 70_000 },
        Edit::Truncate { file, length: 5, cut: Some((block, stamp)), at_ms },
        Edit::Concat { target: file, sources: vec![InodeId(20_001)], at_ms },
        Edit::SkipIds { block, stamp },
        Edit::Leap { block, stamp },
    ]
}

fn naming() -> Vec<Edit> {
    let (inode, directory, at_ms) = (ID, ID, 300);
    let entry = AclEntry {
        scope: AclScope::Default,
        kind: AclKind::Group,
        name: Some(text("g")),
        action: Action::ALL,
    };
    let name = XattrName { space: XattrSpace::Trusted, name: text("a") };
    vec![
        Edit::Move { inode, parent: InodeId::ROOT, name: text("m"), at_ms },
        Edit::Delete { inode, at_ms },
        Edit::SetReplication { file: inode, replication: 2 },
        Edit::SetMode { inode, mode: 0o1777 },
        Edit::SetOwner { inode, owner: text("bob"), group: text("sg") },
        Edit::SetTimes { inode, mtime_ms: Some(1), atime_ms: None },
        Edit::SetQuota { directory, names: Some(10), space: None },
        Edit::AllowSnapshot { directory },
        Edit::DisallowSnapshot { directory },
        Edit::CreateSnapshot { directory, name: text("s"), at_ms },
        Edit::RenameSnapshot { directory, from: text("s"), to: text("t"), at_ms },
        Edit::DeleteSnapshot { directory, name: text("t"), at_ms },
        Edit::SetAcl { inode, mode: 0o750, entries: vec![entry] },
        Edit::SetXattr { inode, name, value: Some(vec![1, 2]) },
    ]
}

fn standing() -> Vec<Edit> {
    let datanode = DatanodeId([4; 16]);
    let token = Token {
        owner: text("ann"),
        renewer: text("yarn"),
        issued_ms: 1,
        expires_ms: 300,
        last_ms: 301,
    };
    let node = NodeAway {
        id: datanode,
        host: text("h"),
        transfer_address: text("h:1"),
        http_address: text("h:2"),
        rack: text("/r"),
        boot_id: text("b"),
        local_socket: text("s"),
    };
    let replicas = vec![ReplicaAway { block: BLOCK, stamp: STAMP, length: 300 }];
    let edits = vec![
        StandingEdit::SafeMode { on: true },
        StandingEdit::IssueToken { number: 258, token },
        StandingEdit::RenewToken { number: 258, expires_ms: 300 },
        StandingEdit::CancelToken { number: 258 },
        StandingEdit::KeepNode(node),
        StandingEdit::KeepReplicas { datanode, replicas },
        StandingEdit::KeptNode { datanode },
        StandingEdit::ForgetNode { datanode },
        StandingEdit::SetLevel { level: FeatureLevel(300) },
    ];
    edits.into_iter().map(Edit::Standing).collect()
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    let block = Allotted {
        id: BLOCK,
        stamp: STAMP,
        offset: 1,
        length: 2,
        targets: targets(),
        replication: 3,
    };
    let created = Outcome::Created {
        file: ID,
        block_size: 1000,
        replication: 3,
        first_block: Some(block.clone()),
    };
    let appended = Outcome::Appended {
        file: ID,
        block_size: 1000,
        length: 5,
        last: Some(block.clone()),
        prior: STAMP,
    };
    vec![
        ("answer-Done", Outcome::Done),
        ("answer-Flag", Outcome::Flag(true)),
        ("answer-Created", created),
        ("answer-Block", Outcome::Block(block)),
        ("answer-Refused", Outcome::Refused(RemoteError::new(ErrorKind::Snapshot, "why"))),
        ("answer-Appended", appended),
        ("answer-Path", Outcome::Path(DfsPath::parse("/p").unwrap())),
    ]
}

/// A record with one edit of each kind, and one with each kind of answer.
fn samples() -> Vec<(&'static str, Record)> {
    let key = CallKey { call: CallId { client: HOLDER, number: 300 }, index: 2 };
    let record = |edits, outcome| Record { call: Some(key), at_ms: 1000, edits, outcome };
    let edits = [making(), writing(), naming(), standing()].concat();
    let mut samples: Vec<(&'static str, Record)> =
        edits.into_iter().map(|edit| (name(&edit), record(vec![edit], Outcome::Done))).collect();
    samples.extend(outcomes().into_iter().map(|(name, outcome)| (name, record(vec![], outcome))));
    samples
}

/// Names the kind. A kind that is missing here does not compile.
fn name(edit: &Edit) -> &'static str {
    match edit {
        Edit::Format { .. } => "Format",
        Edit::MakeDirectory { .. } => "MakeDirectory",
        Edit::MakeFile { .. } => "MakeFile",
        Edit::AddBlock { .. } => "AddBlock",
        Edit::DropBlock { .. } => "DropBlock",
        Edit::CommitBlock { .. } => "CommitBlock",
        Edit::RestampBlock { .. } => "RestampBlock",
        Edit::BeginRecovery { .. } => "BeginRecovery",
        Edit::Close { .. } => "Close",
        Edit::Move { .. } => "Move",
        Edit::Delete { .. } => "Delete",
        Edit::SetReplication { .. } => "SetReplication",
        Edit::SetMode { .. } => "SetMode",
        Edit::SetOwner { .. } => "SetOwner",
        Edit::SetTimes { .. } => "SetTimes",
        Edit::SetQuota { .. } => "SetQuota",
        Edit::Reopen { .. } => "Reopen",
        Edit::SyncBlock { .. } => "SyncBlock",
        Edit::Truncate { .. } => "Truncate",
        Edit::Concat { .. } => "Concat",
        Edit::AllowSnapshot { .. } => "AllowSnapshot",
        Edit::DisallowSnapshot { .. } => "DisallowSnapshot",
        Edit::CreateSnapshot { .. } => "CreateSnapshot",
        Edit::RenameSnapshot { .. } => "RenameSnapshot",
        Edit::DeleteSnapshot { .. } => "DeleteSnapshot",
        Edit::SetAcl { .. } => "SetAcl",
        Edit::SetXattr { .. } => "SetXattr",
        Edit::SkipIds { .. } => "SkipIds",
        Edit::Leap { .. } => "Leap",
        Edit::Standing(edit) => match edit {
            StandingEdit::SafeMode { .. } => "standing-SafeMode",
            StandingEdit::IssueToken { .. } => "standing-IssueToken",
            StandingEdit::RenewToken { .. } => "standing-RenewToken",
            StandingEdit::CancelToken { .. } => "standing-CancelToken",
            StandingEdit::KeepNode(_) => "standing-KeepNode",
            StandingEdit::KeepReplicas { .. } => "standing-KeepReplicas",
            StandingEdit::KeptNode { .. } => "standing-KeptNode",
            StandingEdit::ForgetNode { .. } => "standing-ForgetNode",
            StandingEdit::SetLevel { .. } => "standing-SetLevel",
        },
    }
}

fn golden(file: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(file);
    std::fs::read_to_string(path).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn golden_bytes_of_every_edit_and_answer() {
    let lines: String = samples()
        .iter()
        .map(|(name, record)| format!("{name} {}\n", hex(&record.encode())))
        .collect();
    let newest = golden(VERSIONS[VERSIONS.len() - 1]);
    assert!(lines == newest, "a form has changed; a new version has these lines:\n{lines}");
}

#[test]
fn every_version_that_was_ever_written_is_read() {
    let samples = samples();
    for version in VERSIONS.map(golden) {
        assert!(!version.is_empty());
        for line in version.lines() {
            let (name, encoded) = line.split_once(' ').unwrap();
            let record = Record::decode(&bytes(encoded)).unwrap();
            assert!(samples.contains(&(name, record)), "{line}");
        }
    }
}

#[test]
fn every_cut_is_refused() {
    for (name, record) in samples() {
        let mut body = record.encode();
        for end in 0..body.len() {
            assert!(Record::decode(&body[..end]).is_err(), "{name} {end}");
        }
        body.push(0);
        assert!(Record::decode(&body).is_err(), "{name}");
    }
}

/// Standing orders of which each leaves a row.
fn lasting() -> Vec<Edit> {
    let is_kept = |edit: &Edit| {
        use StandingEdit::{CancelToken, ForgetNode, SetLevel};
        !matches!(edit, Edit::Standing(CancelToken { .. } | ForgetNode { .. } | SetLevel { .. }))
    };
    let mut edits: Vec<Edit> = standing().into_iter().filter(is_kept).collect();
    edits.push(Edit::Standing(StandingEdit::SetLevel { level: FeatureLevel::FIRST }));
    edits
}

/// A namespace with a row of each kind: what its rows are made of.
fn all_kinds() -> Loaded {
    let (owner, group, at_ms) = (text("ann"), text("sg"), 300);
    let directory = InodeId(16_386);
    let [file, open, whole] = [16_387, 16_389, 16_388].map(InodeId);
    let make = |id, parent, name: &str| Edit::MakeFile {
        id,
        parent,
        name: text(name),
        owner: owner.clone(),
        group: group.clone(),
        mode: 0o644,
        replication: 3,
        block_size: 1000,
        holder: HOLDER,
        at_ms,
    };
    let format =
        Edit::Format { cluster: ClusterId([7; 16]), owner: text("root"), group: text("sg"), at_ms };
    let mut edits = vec![format];
    edits.push(Edit::MakeDirectory {
        id: directory,
        parent: InodeId::ROOT,
        name: text("d"),
        owner: owner.clone(),
        group: group.clone(),
        mode: 0o755,
        at_ms,
    });
    // More blocks than one row has, in a file that will be cut and in one that will not.
    for (file, name, first) in [(file, "f", 0), (whole, "w", 200)] {
        edits.push(make(file, directory, name));
        for number in first..first + 65 {
            let block = BlockId(BLOCK.0 + number);
            edits.push(Edit::AddBlock { file, block, stamp: STAMP, targets: targets() });
            edits.push(Edit::CommitBlock { file, block, length: 1000 });
        }
        edits.push(Edit::Close { file, at_ms });
    }
    let xattr = |value| Edit::SetXattr {
        inode: file,
        name: XattrName { space: XattrSpace::User, name: text("a") },
        value: Some(vec![value]),
    };
    edits.extend([
        xattr(1),
        Edit::SetQuota { directory, names: Some(100), space: None },
        Edit::AllowSnapshot { directory },
        Edit::CreateSnapshot { directory, name: text("s"), at_ms },
        // The snapshot keeps attributes and all blocks.
        xattr(2),
        Edit::Truncate { file, length: 5, cut: Some((BlockId(BLOCK.0 + 100), STAMP)), at_ms },
        make(open, InodeId::ROOT, "o"),
        Edit::AddBlock {
            file: open,
            block: BlockId(BLOCK.0 + 101),
            stamp: STAMP,
            targets: targets(),
        },
        Edit::RestampBlock {
            file: open,
            block: BlockId(BLOCK.0 + 101),
            stamp: GenerationStamp(STAMP.0 + 1),
            targets: targets()[..1].to_vec(),
            prior: Some(STAMP),
        },
    ]);
    edits.extend(lasting());
    let key = CallKey { call: CallId { client: HOLDER, number: 1 }, index: 0 };
    let outcome = Outcome::Refused(RemoteError::new(ErrorKind::Snapshot, "why"));
    let mut loaded = Loaded::default();
    loaded.replay(&Record { call: Some(key), at_ms, edits, outcome }.encode()).unwrap();
    loaded
}

/// The rows of a namespace, by key.
fn rows(loaded: &mut Loaded) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = loaded.ns.take_rows();
    rows.extend(loaded.standing.take_rows());
    rows.extend(loaded.retry.take_rows(300));
    rows.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

fn stored_rows() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let lines = golden("rows.txt");
    lines
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(k, v)| (bytes(k), bytes(v)))
        .collect()
}

#[test]
fn golden_bytes_of_every_row() {
    let rows = rows(&mut all_kinds());
    let kinds: String =
        rows.keys().map(|key| char::from(key[0])).collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(kinds, "bcfhilmopqrstvwx");
    let lines: String =
        rows.iter().map(|(key, value)| format!("{} {}\n", hex(key), hex(value))).collect();
    assert!(lines == golden("rows.txt"), "the rows are:\n{lines}");
}

#[test]
fn rows_that_were_ever_written_are_read() {
    let mut loaded = Loaded::default();
    for (key, value) in stored_rows() {
        loaded.load_row(&key, &value).unwrap();
    }
    loaded.ns.finish_load().unwrap();
    let mut live = all_kinds();
    assert_eq!(canonical(&mut loaded.ns), canonical(&mut live.ns));
    assert_eq!(loaded.standing.tokens.all(), live.standing.tokens.all());
    assert_eq!(loaded.standing.away.take_whole(), live.standing.away.take_whole());
    assert!(loaded.standing.is_safe_by_hand());
    assert_eq!((loaded.retry.count(), live.retry.count()), (1, 1));
}

/// Loads the stored rows, one of which has another value.
fn load_with(changed: &[u8], value: &[u8]) -> Result<Loaded, CoreError> {
    let mut loaded = Loaded::default();
    for (key, stored) in stored_rows() {
        loaded.load_row(&key, if key == changed { value } else { &stored })?;
    }
    loaded.ns.finish_load()?;
    Ok(loaded)
}

#[test]
fn what_a_newer_program_wrote_is_distinguished_from_damage() {
    let is_newer = |refused| matches!(refused, CoreError::NewerForm { version: 9, .. });
    let rows = stored_rows();
    let with_value = rows.iter().filter(|(_, value)| !value.is_empty());
    let mut kinds = BTreeSet::new();
    for (key, value) in with_value {
        kinds.insert(char::from(key[0]));
        assert!(is_newer(load_with(key, &[0x80, 0, 9, 1, 2]).err().unwrap()), "{key:?}");
        let damaged = load_with(key, &[0x80]).err();
        assert!(matches!(damaged, Some(CoreError::BadRow(_))), "{key:?}: {damaged:?}");
        let stated = [&[0x80, 0, 1][..], value].concat();
        assert!(load_with(key, &stated).is_ok(), "{key:?}");
    }
    // The counters have a version of their own since before the mark.
    assert!(is_newer(load_with(b"c", &[9, 1, 2]).err().unwrap()));
    // Row `h` has no value.
    assert_eq!(kinds.into_iter().collect::<String>(), "bcfilmopqrstvwx");
    let mut loaded = Loaded::default();
    assert!(is_newer(loaded.replay(&[9, 1, 2]).unwrap_err()));
    assert_eq!(loaded.replay(&[0, 1, 2]), Err(CoreError::BadRecord));
}
