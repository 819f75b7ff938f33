//! The bytes of each call and each answer, as they were when it was introduced: programs of different age exchange them.

use super::*;
use crate::acl::{AclChange, AclEntry, AclKind, AclScope, AclStatus};
use crate::auth::Key;
use crate::permission::Action;
use crate::storage::StoragePolicy;
use crate::table::golden::{check, hex};
use crate::token::{AccessMode, Holder, Receipt, TokenKeys, TokenName};
use crate::xattr::{Xattr, XattrFlag};
use crate::{
    BlockId, ClusterId, DatanodeId, DfsPath, Epoch, ErrorKind, GenerationStamp, InodeId,
    RemoteError, wire,
};

const FILE: InodeId = InodeId(300);
const BLOCK: BlockId = BlockId(400);
const STAMP: GenerationStamp = GenerationStamp(500);
const NODE: DatanodeId = DatanodeId([0xd; 16]);

fn dfs(path: &str) -> DfsPath {
    DfsPath::parse(path).unwrap()
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn written() -> WrittenBlock {
    WrittenBlock {
        id: BLOCK,
        stamp: STAMP,
        length: 7,
        replicas: vec![NODE],
        receipts: vec![Receipt([0x5e; 8])],
    }
}

fn entry() -> AclEntry {
    let (scope, kind) = (AclScope::Access, AclKind::User);
    AclEntry { scope, kind, name: Some(text("u")), action: Action::READ }
}

fn replica() -> ReplicaMove {
    ReplicaMove { block: BLOCK, from: NODE, to: DatanodeId([0xe; 16]) }
}

fn status() -> FileStatus {
    FileStatus { name: text("f"), inode: FILE, length: 7, owner: text("o"), ..Default::default() }
}

fn snapshot() -> SnapshotStatus {
    SnapshotStatus { number: 300, status: status() }
}

fn node() -> DatanodeInfo {
    DatanodeInfo { id: NODE, host: text("h"), rack: text("/r"), ..Default::default() }
}

fn located() -> LocatedBlock {
    let name =
        TokenName { mode: AccessMode::Read, period: 1, expires_ms: 2, holder: Holder::CLUSTER };
    LocatedBlock {
        id: BLOCK,
        stamp: STAMP,
        offset: 0,
        length: 7,
        replicas: vec![node()],
        damaged: Vec::new(),
        durable_min: 2,
        corrupt: false,
        open: true,
        has_unseen_members: true,
        token: TokenKeys::new(&Key::new([1; 32])).token(BLOCK, STAMP, name),
    }
}

/// One of each call, in the order of their tags.
fn calls() -> Vec<Call> {
    [calls_of_writers(), calls_of_features()].concat()
}

fn calls_of_writers() -> Vec<Call> {
    let path = dfs("/a");
    let create = Create {
        path: path.clone(),
        mode: 0o644,
        unmasked: Some(0o666),
        overwrite: true,
        parents: false,
        replication: Some(3),
        block_size: None,
        first_block: true,
    };
    let publish = Some(Publish { path: dfs("/b"), overwrite: true });
    let bad = BadReplica { block: BLOCK, stamp: STAMP, datanode: NODE };
    vec![
        Call::Status(path.clone()),
        Call::List { path: path.clone(), start_after: text("b"), limit: 10 },
        Call::ContentSummary(path.clone()),
        Call::Locations { path: path.clone(), offset: 1, length: u64::MAX },
        Call::ClusterStatus,
        Call::Datanodes,
        Call::Fsck { path: path.clone(), after: Some(dfs("/a/b")) },
        Call::Mkdirs { path: path.clone(), mode: 0o755, unmasked: None, parents: true },
        Call::Create(create),
        Call::AddBlock { file: FILE, previous: Some(written()), exclude: vec![NODE] },
        Call::AbandonBlock { file: FILE, block: BLOCK },
        Call::RecoverPipeline { file: FILE, block: written(), failed: vec![], slow: Some(NODE) },
        Call::Complete { file: FILE, last: None, publish },
        Call::RenewLease,
        Call::RecoverLease(path.clone()),
        Call::Rename { from: path.clone(), to: dfs("/b"), overwrite: Some(true) },
        Call::Delete { path: path.clone(), recursive: true },
        Call::SetReplication { path: path.clone(), replication: 2 },
        Call::SetMode { path: path.clone(), mode: 0o700 },
        Call::SetOwner { path: path.clone(), owner: text("o"), group: String::new() },
        Call::SetTimes { path: path.clone(), mtime_ms: Some(1), atime_ms: None },
        Call::ReportBadReplicas(vec![bad]),
        Call::SafeMode(SafeModeAction::Leave),
        Call::SetQuota { path: path.clone(), names: QuotaChange::Set(5), space: QuotaChange::Keep },
        Call::SaveNamespace,
        Call::RollEdits,
        Call::Metasave(text("m")),
        Call::OpenFiles { after: Some(FILE) },
        Call::TriggerBlockReport { datanode: NODE },
        Call::BlockInfo(BLOCK),
        Call::GroupsOf(text("u")),
    ]
}

fn calls_of_features() -> Vec<Call> {
    let path = dfs("/a");
    let (name, to) = (text("s"), text("t"));
    vec![
        Call::Append { path: path.clone(), new_block: true },
        Call::SyncBlock { file: FILE, block: BLOCK, stamp: STAMP, length: 9 },
        Call::Truncate { path: path.clone(), length: 8 },
        Call::Concat { target: path.clone(), sources: vec![dfs("/b"), dfs("/c")] },
        Call::AllowSnapshot(path.clone()),
        Call::DisallowSnapshot(path.clone()),
        Call::CreateSnapshot { path: path.clone(), name: Some(name.clone()) },
        Call::RenameSnapshot { path: path.clone(), from: name.clone(), to: to.clone() },
        Call::DeleteSnapshot { path: path.clone(), name: name.clone() },
        Call::SnapshotDiff { path: path.clone(), from: name.clone(), to, skip: 3 },
        Call::SnapshottableDirectories,
        Call::RefreshNodes,
        Call::SetBalancerBandwidth(1 << 20),
        Call::BlocksOn { datanode: NODE, after: Some(BLOCK), limit: 4 },
        Call::MoveReplicas(vec![replica()]),
        Call::MoveStates(vec![replica()]),
        Call::GetAcl(path.clone()),
        Call::ChangeAcl { path: path.clone(), change: AclChange::Modify(vec![entry()]) },
        Call::GetXattrs { path: path.clone(), names: vec![text("user.a")] },
        Call::SetXattr {
            path: path.clone(),
            name: text("user.a"),
            value: vec![1, 2],
            flag: XattrFlag::Create,
        },
        Call::RemoveXattr { path: path.clone(), name: text("user.a") },
        Call::CheckAccess { path: path.clone(), action: Action::READ_EXECUTE },
        Call::ShutDownDatanode { datanode: NODE },
        Call::ReadImage { name: Some(name), offset: 6 },
        Call::CheckSuperuser,
        Call::RefreshGroups,
        Call::SetStoragePolicy { path: path.clone(), policy: Some(StoragePolicy::Cold) },
        Call::GetStoragePolicy(path.clone()),
        Call::AbandonFile { file: FILE, keep: true, unused: Some(BLOCK) },
        Call::Snapshots { path, after: Some(300) },
        Call::Room,
        Call::Datanode(NODE),
    ]
}

fn fsck() -> FsckPage {
    let path = dfs("/a");
    let block = FsckBlock {
        id: BLOCK,
        stamp: STAMP,
        length: 7,
        replicas: vec![(node(), ReplicaState::Corrupt(CorruptReason::SizeMismatch))],
        misplaced: true,
    };
    let file = FsckFile {
        path: path.clone(),
        status: status(),
        blocks: vec![block],
        lost_bytes: 1,
        awaited: vec![text("h")],
    };
    FsckPage { files: vec![file], directories: vec![(dfs("/"), 1)], next: Some(path.clone()) }
}

fn detail() -> DatanodeDetail {
    let failure = Some(VolumeFailure { reason: text("gone"), age_ms: 300 });
    let (path, device) = (text("/d"), Some(300));
    let volume = Volume { path, device, capacity: 7, used: 1, reserved: 2, remaining: 3, failure };
    let bad = NodeFailure { at_ms: 5, kind: NodeFailureKind::BadReplica(BLOCK) };
    DatanodeDetail {
        report: DatanodeReport { info: node(), ..Default::default() },
        program: text("1.0"),
        volumes: vec![volume],
        bad_replica_count: 1,
        slow_count: 1,
        spared_ms: Some(6),
        failures: vec![NodeFailure { at_ms: 6, kind: NodeFailureKind::Slow }, bad],
    }
}

/// One of each answer, in the order of their tags; [`later_replies`] follow.
fn replies() -> Vec<Reply> {
    let path = dfs("/a");
    let summary = ContentSummary { length: 7, file_count: 1, quota: Some(5), ..Default::default() };
    let cluster = ClusterStatus {
        cluster: ClusterId([3; 16]),
        epoch: Epoch(4),
        safe_mode: Some(text("on")),
        log_dirs_left_out: vec![text("/d")],
        ..Default::default()
    };
    let report =
        DatanodeReport { info: node(), admin: AdminState::InMaintenance, ..Default::default() };
    let created =
        Created { file: FILE, block_size: 64, replication: 3, first_block: Some(located()) };
    let appended =
        Appended { file: FILE, block_size: 64, length: 7, last: None, prior: GenerationStamp(1) };
    let open = OpenFile {
        path: path.clone(),
        client: ClientId([2; 16]),
        host: text("h"),
        holds_drain: true,
    };
    let info = BlockInfo {
        id: BLOCK,
        path: path.clone(),
        replication: 3,
        replicas: vec![(node(), ReplicaState::Live)],
    };
    let diff = DiffEntry { kind: DiffKind::Renamed, path: text("x"), target: Some(text("y")) };
    let snapshottable = SnapshottableDirectory {
        path: path.clone(),
        status: status(),
        snapshot_count: 1,
        snapshot_quota: 2,
    };
    let refusal = RemoteError::new(ErrorKind::NotFound, "no");
    vec![
        Reply::Done,
        Reply::Flag(true),
        Reply::Status(status()),
        Reply::Listing { entries: vec![status()], remaining: 2 },
        Reply::Summary(summary),
        Reply::Located(LocatedBlocks { status: status(), blocks: vec![located()] }),
        Reply::Cluster(Box::new(cluster)),
        Reply::Datanodes(vec![report]),
        Reply::Fsck(fsck()),
        Reply::Created(created),
        Reply::Block(located()),
        Reply::Batch(vec![Ok(Reply::Done), Err(refusal)]),
        Reply::Number(300),
        Reply::OpenFiles { files: vec![open], next: Some(FILE) },
        Reply::BlockInfo(Box::new(info)),
        Reply::Names(vec![text("g")]),
        Reply::Appended(appended),
        Reply::Path(path),
        Reply::SnapshotDiff { entries: vec![diff], remaining: 1 },
        Reply::Snapshottable(vec![snapshottable]),
        Reply::BlocksOn(vec![BlockOn { block: BLOCK, length: 7 }]),
        Reply::Moves(vec![MoveState::Refused, MoveState::Moving, MoveState::Moved]),
        Reply::Acl(AclStatus {
            owner: text("o"),
            group: text("g"),
            mode: 0o640,
            entries: vec![entry()],
        }),
        Reply::Xattrs(vec![Xattr { name: text("user.a"), value: vec![1, 2] }]),
        Reply::Image { name: text("i"), length: 9, bytes: vec![1, 2, 3] },
        Reply::StoragePolicy(StoragePolicy::Hot),
    ]
}

/// Answers that came later.
fn later_replies() -> Vec<Reply> {
    vec![
        Reply::Snapshots { entries: vec![snapshot()], remaining: 2 },
        Reply::Room(Room { capacity: 300, used: 2, non_dfs_used: 3, remaining: 4 }),
        Reply::Datanode(Box::new(detail())),
    ]
}

#[test]
fn calls_are_sent_as_ever() {
    assert_eq!(calls().len(), Call::COUNT, "one for each row of the table");
    check(&calls(), include_str!("golden/calls.hex"));
}

#[test]
fn answers_are_sent_as_ever() {
    let all = [replies(), later_replies()].concat();
    check(&all, include_str!("golden/answers.hex"));
}

#[test]
fn requests_are_sent_as_ever() {
    let one = Request::new(ClientId([1; 16]), 300, "ann", "h", Call::RenewLease);
    let batch = Body::Batch(vec![Call::RenewLease, Call::Status(dfs("/a"))]);
    let batch = Request { body: batch, ..one.clone() };
    let head = "0601010101010101010101010101010101ac0203616e6e0168";
    assert_eq!(hex(&wire::encode(&one)), format!("{head}000d"));
    assert_eq!(hex(&wire::encode(&batch)), format!("{head}01020d00022f61"));
}

#[test]
fn the_columns_of_a_row_agree() {
    for call in calls() {
        let (kind, refused) = (call.kind(), call.refused());
        let mut paths = Vec::new();
        call.each_path(|path| paths.push(path));
        if let Some(Refused { target, .. }) = refused {
            assert_eq!(kind, Kind::Change, "safe mode refuses changes alone: {call:?}");
            assert!(!matches!(target, Target::Path(path) if !paths.contains(&path)), "{call:?}");
        }
        if let Some(changed) = call.logged().and_then(|logged| logged.changed) {
            assert_eq!(kind, Kind::Change, "{call:?}");
            assert!(paths.contains(&changed), "{call:?}");
        }
        let passes = matches!(
            call,
            Call::RenewLease
                | Call::ReportBadReplicas(_)
                | Call::SafeMode(_)
                | Call::SetBalancerBandwidth(_)
        );
        assert_eq!(kind == Kind::Change && refused.is_none(), passes, "{call:?}");
    }
}
