//! Snapshots: what a directory has, and what changed between two.

use protocol::DfsPath;
use protocol::namenode::{
    DOT_SNAPSHOT, DiffEntry, DiffKind, FileStatus, SnapshotStatus, SnapshottableDirectory,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::status::FileStatusJson;

/// `SnapshotDiffReport`.
pub fn diff(path: &DfsPath, (from, to): (&str, &str), entries: &[DiffEntry]) -> Value {
    let entry = |entry: &DiffEntry| {
        let kind = match entry.kind {
            DiffKind::Created => "CREATE",
            DiffKind::Deleted => "DELETE",
            DiffKind::Modified => "MODIFY",
            DiffKind::Renamed => "RENAME",
        };
        match &entry.target {
            Some(target) => {
                json!({ "type": kind, "sourcePath": entry.path, "targetPath": target })
            }
            None => json!({ "type": kind, "sourcePath": entry.path }),
        }
    };
    json!({ "SnapshotDiffReport": {
        "snapshotRoot": path.as_str(),
        "fromSnapshot": from,
        "toSnapshot": to,
        "diffList": entries.iter().map(entry).collect::<Vec<Value>>(),
    }})
}

/// `SnapshotDiffReportListing`: the same as lists, from which Java's client makes the report itself.
///
/// It puts what was created and deleted below the changed directory of the same number, and takes a file that is in both for renamed. The
/// numbers mean nothing else, so they are made here, the same in all pages. `done` entries were in the pages before; without `more` this
/// is the last one.
pub fn diff_listing(entries: &[DiffEntry], done: u64, more: bool) -> Value {
    let parent = |path: &str| number_of(path.rsplit_once('/').map_or("", |(parent, _)| parent));
    let entry = |directory: u64, file: u64, path: &str, target: Option<&str>| {
        // A change of a directory that refers to nothing hides what was created and deleted in it.
        let is_reference = target.is_some() || file == directory;
        json!({
            "dirId": directory,
            "fileId": file,
            "sourcePath": path,
            "targetPath": target.unwrap_or_default(),
            "isReference": is_reference,
        })
    };
    let (mut modified, mut created, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for (file, DiffEntry { kind, path, target }) in (done..).zip(entries) {
        match (kind, target) {
            (DiffKind::Modified, _) => {
                let directory = number_of(path);
                modified.push(entry(directory, directory, path, None));
            }
            (DiffKind::Created, _) => created.push(entry(parent(path), file, path, None)),
            (DiffKind::Renamed, Some(target)) => {
                deleted.push(entry(parent(path), file, path, Some(target)));
                created.push(entry(parent(target), file, target, Some(target)));
            }
            _ => deleted.push(entry(parent(path), file, path, None)),
        }
    }
    let last = entries.last().filter(|_| more);
    let last_index = last.map_or(json!(-1), |_| json!(done + entries.len() as u64));
    json!({ "SnapshotDiffReportListing": {
        "modifyList": modified,
        "createList": created,
        "deleteList": deleted,
        "isFromEarlier": true,
        "lastPath": last.map_or("", |last| last.path.as_str()),
        "lastIndex": last_index,
    }})
}

/// Set in the numbers of directories, so that no file has one of them: files have small ones.
const DIRECTORY_BIT: u64 = 1 << 62;

/// The number of a directory: the same wherever and whenever it is made, and positive for Java.
fn number_of(directory: &str) -> u64 {
    let digest = Sha256::digest(directory.as_bytes());
    let (first, _) = digest.split_first_chunk().expect("a digest has 32 bytes");
    u64::from_be_bytes(*first) % DIRECTORY_BIT + DIRECTORY_BIT
}

/// `SnapshottableDirectoryList`; null if there is none.
pub fn directories(directories: &[SnapshottableDirectory]) -> Value {
    let entry = |directory: &SnapshottableDirectory| {
        let parent = directory.path.parent().unwrap_or_else(DfsPath::root);
        let name = directory.path.name().unwrap_or_default();
        let status = FileStatus { name: name.to_owned(), ..directory.status.clone() };
        json!({
            "dirStatus": FileStatusJson::from(&status),
            "parentFullPath": parent.as_str(),
            "snapshotNumber": directory.snapshot_count,
            "snapshotQuota": directory.snapshot_quota,
        })
    };
    let list: Vec<Value> = directories.iter().map(entry).collect();
    json!({ "SnapshottableDirectoryList": if list.is_empty() { Value::Null } else { list.into() } })
}

/// `SnapshotList` of the directory at `path`.
pub fn list(path: &DfsPath, snapshots: &[SnapshotStatus]) -> Value {
    let root = if path.is_root() { "" } else { path.as_str() };
    let entry = |SnapshotStatus { number, status }: &SnapshotStatus| {
        json!({
            "snapshotID": number,
            "deletionStatus": "ACTIVE",
            "fullPath": format!("{root}/{DOT_SNAPSHOT}/{}", status.name),
            "dirStatus": FileStatusJson::from(status),
        })
    };
    let list: Vec<Value> = snapshots.iter().map(entry).collect();
    json!({ "SnapshotList": if list.is_empty() { Value::Null } else { list.into() } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_listing_fit_together() {
        let entry = |kind, path: &str, target: Option<&str>| DiffEntry {
            kind,
            path: path.to_owned(),
            target: target.map(str::to_owned),
        };
        let all = [
            entry(DiffKind::Modified, "", None),
            entry(DiffKind::Created, "a", None),
            entry(DiffKind::Modified, "d", None),
            entry(DiffKind::Renamed, "d/x", Some("y")),
            entry(DiffKind::Deleted, "d/z", None),
        ];
        let lists = ["modifyList", "createList", "deleteList"];
        let whole = diff_listing(&all, 0, false)["SnapshotDiffReportListing"].take();
        assert_eq!((&whole["lastPath"], &whole["lastIndex"]), (&json!(""), &json!(-1)));
        for page in 1..all.len() {
            let mut found: [Vec<Value>; 3] = Default::default();
            let mut done = 0;
            for part in all.chunks(page) {
                let more = done + part.len() < all.len();
                let listing =
                    diff_listing(part, done as u64, more)["SnapshotDiffReportListing"].take();
                done += part.len();
                for (found, list) in found.iter_mut().zip(lists) {
                    found.extend(listing[list].as_array().unwrap().clone());
                }
                let end = match more {
                    true => (json!(part[part.len() - 1].path), json!(done)),
                    false => (json!(""), json!(-1)),
                };
                assert_eq!((listing["lastPath"].clone(), listing["lastIndex"].clone()), end);
            }
            for (found, list) in found.into_iter().zip(lists) {
                assert_eq!(Value::from(found), whole[list], "{list} in pages of {page}");
            }
        }
        let (top, renamed) = (&whole["modifyList"][0], &whole["createList"][1]);
        assert_eq!(
            (&top["dirId"], &top["isReference"]),
            (&whole["createList"][0]["dirId"], &json!(true))
        );
        assert_eq!(renamed["fileId"], whole["deleteList"][0]["fileId"]);
        assert!(i64::try_from(top["dirId"].as_u64().unwrap()).is_ok(), "Java has no larger number");
    }

    #[test]
    fn bodies_have_hadoops_fields() {
        let path = DfsPath::parse("/a/d").unwrap();
        let entries = [
            DiffEntry { kind: DiffKind::Modified, path: String::new(), target: None },
            DiffEntry {
                kind: DiffKind::Renamed,
                path: "x".to_owned(),
                target: Some("y".to_owned()),
            },
        ];
        assert_eq!(
            diff(&path, ("s1", ""), &entries),
            serde_json::from_str::<Value>(r#"{"SnapshotDiffReport":{"diffList":[{"sourcePath":"","type":"MODIFY"},{"sourcePath":"x","targetPath":"y","type":"RENAME"}],"fromSnapshot":"s1","snapshotRoot":"/a/d","toSnapshot":""}}"#).unwrap()
        );
        let status = FileStatus { directory: true, ..crate::json::status::tests::file() };
        let directory = SnapshottableDirectory {
            path: path.clone(),
            status: status.clone(),
            snapshot_count: 2,
            snapshot_quota: 65536,
        };
        let value = directories(&[directory]);
        let entry = &value["SnapshottableDirectoryList"][0];
        assert_eq!((&entry["parentFullPath"], &entry["snapshotNumber"]), (&json!("/a"), &json!(2)));
        assert_eq!(entry["dirStatus"]["pathSuffix"], "d");
        assert_eq!(directories(&[]), json!({ "SnapshottableDirectoryList": null }));
        let status = FileStatus { name: "s1".to_owned(), ..status };
        let value = list(&path, &[SnapshotStatus { number: 7, status }]);
        let entry = &value["SnapshotList"][0];
        assert_eq!(
            (&entry["fullPath"], &entry["snapshotID"]),
            (&json!("/a/d/.snapshot/s1"), &json!(7))
        );
    }
}
