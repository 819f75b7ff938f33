//! Snapshots of files that are being written: what they show, and what becomes of it when the file is deleted.

use protocol::acl::{AclChange, AclEntry};
use protocol::datanode::Command;
use protocol::namenode::{Appended, Call, LocatedBlock, LocatedBlocks, Reply};
use protocol::xattr::XattrFlag;
use protocol::{BlockId, ErrorKind};

use super::harness::{Harness, create, dfs, written};
use crate::core::query::Reader;
use crate::core::rights::Caller;

fn located(h: &Harness, path: &str) -> LocatedBlocks {
    let reader = Reader { caller: Caller::NAMENODE, host: "", now: h.now, txid: 0 };
    let call = Call::Locations { path: dfs(path), offset: 0, length: u64::MAX };
    match h.state.query(&h.nodes, &call, reader) {
        Ok(Reply::Located(located)) => located,
        other => panic!("{path}: {other:?}"),
    }
}

/// Bytes that a snapshot shows, and that its blocks add up to.
fn length(h: &Harness, path: &str) -> u64 {
    let located = located(h, path);
    assert!(!located.status.open, "{path} does not grow");
    let sum: u64 = located.blocks.iter().map(|block| block.length).sum();
    assert_eq!(located.status.length, sum, "{path}");
    assert!(located.blocks.iter().all(|block| !block.replicas.is_empty()), "{path} can be read");
    sum
}

fn take(h: &mut Harness, name: &str) {
    let call = Call::CreateSnapshot { path: dfs("/d"), name: Some(name.to_owned()) };
    h.call(call).unwrap();
}

fn drop_snapshot(h: &mut Harness, name: &str) {
    h.call(Call::DeleteSnapshot { path: dfs("/d"), name: name.to_owned() }).unwrap();
}

fn delete(h: &mut Harness, path: &str) {
    let call = Call::Delete { path: dfs(path), recursive: true };
    assert_eq!(h.call(call), Ok(Reply::Flag(true)));
}

fn with_directory() -> Harness {
    let mut h = Harness::with_nodes(1, 3);
    h.call(Call::Mkdirs { path: dfs("/d/sub"), mode: 0o755, unmasked: None, parents: true })
        .unwrap();
    h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
    h
}

/// Appends; the file stays open.
fn reopen(h: &mut Harness, path: &str) -> (Appended, LocatedBlock) {
    match h.call(Call::Append { path: dfs(path), new_block: false }) {
        Ok(Reply::Appended(file)) => {
            let last = file.last.clone().unwrap();
            (file, last)
        }
        other => panic!("{other:?}"),
    }
}

fn sync(h: &mut Harness, file: &Appended, block: &LocatedBlock, length: u64) {
    let (file, stamp, block) = (file.file, block.stamp, block.id);
    let call = Call::SyncBlock { file, block, stamp, length };
    assert_eq!(h.call(call), Ok(Reply::Done));
}

/// The least length that the last ordered recovery of a block asks for.
fn ordered(h: &Harness, wanted: BlockId) -> Option<u64> {
    h.commands.iter().rev().find_map(|(_, command)| match command {
        Command::Recover { block, length_min, .. } if *block == wanted => Some(*length_min),
        Command::Cut { block, length, .. } if *block == wanted => Some(*length),
        _ => None,
    })
}

#[test]
fn a_file_that_is_appended_to_keeps_the_length_that_was_known() {
    let mut h = with_directory();
    h.write("/d/f", 500, 3);
    take(&mut h, "before");
    let (file, block) = reopen(&mut h, "/d/f");
    take(&mut h, "open");
    sync(&mut h, &file, &block, 700);
    take(&mut h, "flushed");
    let lengths = |h: &Harness| {
        ["before", "open", "flushed"].map(|name| length(h, &format!("/d/.snapshot/{name}/f")))
    };
    assert_eq!(lengths(&h), [500, 500, 700]);
    h.check_replay();
    let last = Some(written(&block, 900));
    h.call(Call::Complete { file: file.file, last, publish: None }).unwrap();
    assert_eq!(lengths(&h), [500, 500, 700]);
    assert_eq!(located(&h, "/d/f").status.length, 900);
    delete(&mut h, "/d/f");
    h.work();
    assert_eq!(lengths(&h), [500, 500, 700]);
    h.check_replay();
    ["before", "open", "flushed"].iter().for_each(|name| drop_snapshot(&mut h, name));
    h.work();
    assert_eq!(h.state.ns.block_count(), 0);
}

#[test]
fn a_file_that_is_deleted_while_it_is_appended_to_is_recovered_for_its_snapshots() {
    for path in ["/d/f", "/d/sub/f"] {
        let mut h = with_directory();
        h.write(path, 500, 3);
        let (file, block) = reopen(&mut h, path);
        sync(&mut h, &file, &block, 700);
        take(&mut h, "s");
        let kept = path.replace("/d/", "/d/.snapshot/s/");
        delete(&mut h, if path == "/d/f" { path } else { "/d/sub" });
        assert_eq!(length(&h, &kept), 700);
        h.check_replay();
        let lost = h.call(Call::Complete {
            file: file.file,
            last: Some(written(&block, 900)),
            publish: None,
        });
        assert_eq!(lost.unwrap_err().kind, ErrorKind::LeaseExpired);
        h.pass(600, &[1, 2, 3]);
        assert_eq!(ordered(&h, block.id), Some(700), "the DataNodes agree on a length");
        assert_eq!(length(&h, &kept), 700, "meanwhile it can be read");
        h.check_replay();
        h.recover_all();
        h.work();
        assert!(h.state.ns.block(block.id).unwrap().complete);
        assert_eq!(h.holders(block.id), [1, 2, 3]);
        assert_eq!(length(&h, &kept), 700);
        assert_eq!(h.state.ns.leases.file_count(), 0);
        h.check_replay();
        drop_snapshot(&mut h, "s");
        h.work();
        assert_eq!(h.state.ns.block_count(), 0);
        h.check_replay();
    }
}

#[test]
fn a_deleted_file_is_not_recovered_for_a_snapshot_that_goes() {
    let mut h = with_directory();
    h.write("/d/f", 500, 3);
    let (file, block) = reopen(&mut h, "/d/f");
    sync(&mut h, &file, &block, 700);
    take(&mut h, "s");
    delete(&mut h, "/d/f");
    h.pass(600, &[1, 2, 3]);
    assert!(ordered(&h, block.id).is_some());
    drop_snapshot(&mut h, "s");
    // The recovery ends when nobody sees the file any more, before it was taken apart.
    h.recover_all();
    h.work();
    assert_eq!((h.state.ns.block_count(), h.state.ns.leases.file_count()), (0, 0));
    h.check_replay();
}

#[test]
fn what_no_snapshot_saw_of_an_open_file_goes_with_it() {
    let mut h = with_directory();
    take(&mut h, "s");
    let Ok(Reply::Created(created)) = h.call(create("/d/f", false, None, true)) else {
        panic!("not created")
    };
    take(&mut h, "t");
    assert_eq!(length(&h, "/d/.snapshot/t/f"), 0);
    let block = created.first_block.unwrap();
    let (file, stamp) = (created.file, block.stamp);
    h.call(Call::SyncBlock { file, block: block.id, stamp, length: 10 }).unwrap();
    delete(&mut h, "/d/f");
    h.work();
    assert_eq!(length(&h, "/d/.snapshot/t/f"), 0);
    assert_eq!((h.state.ns.block_count(), h.state.ns.leases.file_count()), (0, 0));
    h.check_replay();
}

#[test]
fn a_file_that_is_deleted_while_it_is_cut_keeps_its_bytes() {
    let mut h = with_directory();
    let old = h.write("/d/f", 500, 3);
    take(&mut h, "whole");
    h.call(Call::Truncate { path: dfs("/d/f"), length: 300 }).unwrap();
    take(&mut h, "cut");
    let lengths =
        |h: &Harness| ["whole", "cut"].map(|name| length(h, &format!("/d/.snapshot/{name}/f")));
    assert_eq!(lengths(&h), [500, 300]);
    delete(&mut h, "/d/f");
    h.check_replay();
    assert_eq!(lengths(&h), [500, 300]);
    h.recover_all();
    h.work();
    assert_eq!(lengths(&h), [500, 300]);
    assert_eq!(h.state.ns.block_count(), 2, "the old block and the new one");
    h.check_replay();
    drop_snapshot(&mut h, "whole");
    h.work();
    assert_eq!(length(&h, "/d/.snapshot/cut/f"), 300);
    assert!(h.state.ns.block(old.id).is_none());
    h.check_replay();
}

#[test]
fn lists_and_attributes_are_kept_with_the_version() {
    let mut h = with_directory();
    h.write("/d/f", 10, 3);
    let acl = |h: &mut Harness, text: &str| {
        let change = AclChange::Modify(AclEntry::parse_list(text, true).unwrap());
        h.call(Call::ChangeAcl { path: dfs("/d/f"), change }).unwrap();
    };
    let set = |h: &mut Harness, name: &str, value: Vec<u8>| {
        let (path, name, flag) = (dfs("/d/f"), name.to_owned(), XattrFlag::CreateOrReplace);
        h.call(Call::SetXattr { path, name, value, flag }).unwrap();
    };
    acl(&mut h, "user:bob:rwx");
    // Larger than a row of the checkpoint.
    set(&mut h, "user.a", vec![1; 9000]);
    take(&mut h, "s");
    h.call(Call::SetMode { path: dfs("/d/f"), mode: 0o600 }).unwrap();
    acl(&mut h, "user:bob:r--,user:eve:rw-");
    set(&mut h, "user.a", vec![2]);
    take(&mut h, "t");
    h.call(Call::RemoveXattr { path: dfs("/d/f"), name: "user.a".to_owned() }).unwrap();
    let seen = |h: &mut Harness, path: &str| {
        let (Ok(Reply::Acl(acl)), Ok(Reply::Xattrs(xattrs))) = (
            h.call(Call::GetAcl(dfs(path))),
            h.call(Call::GetXattrs { path: dfs(path), names: vec![] }),
        ) else {
            panic!("{path}")
        };
        let entries: Vec<String> = acl.entries.iter().map(ToString::to_string).collect();
        (entries.join(","), xattrs.iter().map(|xattr| xattr.value.len()).sum::<usize>())
    };
    for _ in 0..2 {
        let old = seen(&mut h, "/d/.snapshot/s/f");
        assert_eq!(old, ("user:bob:rwx,group::r--".to_owned(), 9000));
        let new = ("user:bob:r--,user:eve:rw-,group::r--".to_owned(), 1);
        assert_eq!(seen(&mut h, "/d/.snapshot/t/f"), new);
        assert_eq!(seen(&mut h, "/d/f"), (new.0, 0));
        h.check_replay();
        h.state.ns = h.reload().ns;
    }
    let bob = Caller { user: "bob", groups: &[], is_superuser: false };
    let read = |path: &str| Call::CheckAccess {
        path: dfs(path),
        action: protocol::permission::Action::WRITE,
    };
    assert_eq!(h.call_as(bob, read("/d/.snapshot/s/f")), Ok(Reply::Done), "his old entry");
    let refused = h.call_as(bob, read("/d/.snapshot/t/f")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PermissionDenied);
    assert!(refused.message.ends_with(":-rw-rw----"), "{}", refused.message);
    let diff = Call::SnapshotDiff { path: dfs("/d"), from: "t".into(), to: String::new(), skip: 0 };
    match h.call(diff) {
        Ok(Reply::SnapshotDiff { entries, .. }) => assert_eq!(entries.len(), 1, "{entries:?}"),
        other => panic!("{other:?}"),
    }
    let large = |h: &Harness| h.rows.keys().filter(|key| key[0] == b'x').count();
    h.checkpoint();
    assert_eq!(large(&h), 3, "9000 bytes in two rows, and a small one");
    ["s", "t"].iter().for_each(|name| drop_snapshot(&mut h, name));
    h.work();
    h.checkpoint();
    assert_eq!(large(&h), 0);
}

#[test]
fn replicas_that_only_a_snapshot_wanted_go_with_it() {
    let mut h = with_directory();
    let block = h.write("/d/f", 300, 3).id;
    take(&mut h, "s");
    h.call(Call::SetReplication { path: dfs("/d/f"), replication: 2 }).unwrap();
    h.work();
    assert_eq!(h.holders(block).len(), 3, "the snapshot wants them");
    drop_snapshot(&mut h, "s");
    h.work();
    assert_eq!(h.holders(block).len(), 2);
    h.state.blocks.check(&h.state.ns);
}
