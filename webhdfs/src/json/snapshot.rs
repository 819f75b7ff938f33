//! Snapshots: what a directory has, and what changed between two.

use std::collections::BTreeMap;

use protocol::DfsPath;
use protocol::namenode::{DOT_SNAPSHOT, DiffEntry, DiffKind, FileStatus, SnapshottableDirectory};
use serde_json::{Value, json};

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
/// numbers mean nothing else, so they are made here.
pub fn diff_listing(entries: &[DiffEntry]) -> Value {
    let parent = |path: &str| path.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned();
    // No file has the number of a directory: those have the first ones.
    let first_file = 2 * entries.len() + 1;
    let mut directories: BTreeMap<String, usize> = BTreeMap::new();
    let mut number_of = |directory: String| {
        let next = directories.len();
        *directories.entry(directory).or_insert(next)
    };
    let entry = |directory: usize, file: usize, path: &str, target: Option<&str>| {
        // A change of a directory that refers to nothing hides what was created and deleted in it.
        let is_reference = target.is_some() || file < first_file;
        json!({
            "dirId": directory,
            "fileId": file,
            "sourcePath": path,
            "targetPath": target.unwrap_or_default(),
            "isReference": is_reference,
        })
    };
    let (mut modified, mut created, mut deleted) = (Vec::new(), Vec::new(), Vec::new());
    for (index, DiffEntry { kind, path, target }) in entries.iter().enumerate() {
        let file = first_file + index;
        match (kind, target) {
            (DiffKind::Modified, _) => {
                let directory = number_of(path.clone());
                modified.push(entry(directory, directory, path, None));
            }
            (DiffKind::Created, _) => {
                created.push(entry(number_of(parent(path)), file, path, None))
            }
            (DiffKind::Renamed, Some(target)) => {
                deleted.push(entry(number_of(parent(path)), file, path, Some(target)));
                created.push(entry(number_of(parent(target)), file, target, Some(target)));
            }
            _ => deleted.push(entry(number_of(parent(path)), file, path, None)),
        }
    }
    json!({ "SnapshotDiffReportListing": {
        "modifyList": modified,
        "createList": created,
        "deleteList": deleted,
        "isFromEarlier": true,
        "lastPath": "",
        "lastIndex": -1,
    }})
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
pub fn list(path: &DfsPath, snapshots: &[FileStatus]) -> Value {
    let root = if path.is_root() { "" } else { path.as_str() };
    let entry = |(number, status): (usize, &FileStatus)| {
        json!({
            "snapshotID": number,
            "deletionStatus": "ACTIVE",
            "fullPath": format!("{root}/{DOT_SNAPSHOT}/{}", status.name),
            "dirStatus": FileStatusJson::from(status),
        })
    };
    let list: Vec<Value> = snapshots.iter().enumerate().map(entry).collect();
    json!({ "SnapshotList": if list.is_empty() { Value::Null } else { list.into() } })
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let value = list(&path, &[FileStatus { name: "s1".to_owned(), ..status }]);
        assert_eq!(value["SnapshotList"][0]["fullPath"], "/a/d/.snapshot/s1");
    }
}
