//! Answers of WebHDFS, as Hadoop writes them.
//!
//! Invariant: what an answer names is below the directory that was asked for: a copy puts files there, and deletes what else is there.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use protocol::acl::{AclEntry, AclStatus};
use protocol::namenode::{DiffEntry, DiffKind};
use protocol::permission::STICKY;
use protocol::xattr::Xattr;
use serde::Deserialize;

use crate::error::PlaceError;
use crate::places::files::{Outcome, Status};

#[derive(Deserialize)]
pub(super) struct Failed {
    #[serde(rename = "RemoteException")]
    pub(super) exception: Exception,
}

#[derive(Deserialize)]
pub(super) struct Exception {
    pub(super) exception: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Deserialize)]
pub(super) struct StatusAnswer {
    #[serde(rename = "FileStatus")]
    pub(super) status: FileStatus,
}

#[derive(Deserialize)]
pub(super) struct ListAnswer {
    #[serde(rename = "FileStatuses")]
    pub(super) statuses: Statuses,
}

#[derive(Deserialize)]
pub(super) struct Statuses {
    #[serde(rename = "FileStatus")]
    pub(super) list: Vec<FileStatus>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileStatus {
    path_suffix: String,
    #[serde(rename = "type")]
    kind: String,
    length: u64,
    replication: u16,
    block_size: u64,
    owner: String,
    group: String,
    permission: String,
    modification_time: u64,
    access_time: u64,
    #[serde(default)]
    acl_bit: bool,
}

/// Refuses what is no name of an entry: another cluster could lead a copy out of its target.
fn check_name(name: &str) -> Outcome<()> {
    match name.is_empty() || matches!(name, "." | "..") || name.contains(['/', '\0']) {
        true => Err(PlaceError::Name { name: name.to_owned() }),
        false => Ok(()),
    }
}

/// Refuses what is no path below a directory; the empty one is the directory itself.
fn check_relative(path: &str) -> Outcome<()> {
    match path.is_empty() {
        true => Ok(()),
        false => path.split('/').try_for_each(check_name),
    }
}

impl FileStatus {
    /// As an entry of a directory.
    pub(super) fn into_entry(self) -> Outcome<Status> {
        check_name(&self.path_suffix)?;
        self.into_status()
    }

    pub(super) fn into_status(self) -> Outcome<Status> {
        Ok(Status {
            name: self.path_suffix,
            directory: match self.kind.as_str() {
                "DIRECTORY" => true,
                "FILE" => false,
                _ => return Err(PlaceError::Lacks { what: "links" }),
            },
            length: self.length,
            replication: self.replication,
            block_size: self.block_size,
            owner: self.owner,
            group: self.group,
            mode: octal(&self.permission)?,
            mtime_ms: self.modification_time,
            atime_ms: self.access_time,
            has_acl: self.acl_bit,
        })
    }
}

fn octal(text: &str) -> Outcome<u16> {
    u16::from_str_radix(text, 8).map_err(|_| PlaceError::Answer)
}

#[derive(Deserialize)]
pub(super) struct LocationAnswer {
    #[serde(rename = "Location")]
    pub(super) location: String,
}

#[derive(Deserialize)]
pub(super) struct OutcomeAnswer {
    #[serde(rename = "boolean")]
    pub(super) outcome: bool,
}

impl OutcomeAnswer {
    pub(super) fn into_true(self) -> Outcome<()> {
        if self.outcome { Ok(()) } else { Err(PlaceError::Answer) }
    }
}

#[derive(Deserialize)]
pub(super) struct ChecksumAnswer {
    #[serde(rename = "FileChecksum")]
    pub(super) checksum: FileChecksum,
}

#[derive(Deserialize)]
pub(super) struct FileChecksum {
    pub(super) algorithm: String,
    pub(super) bytes: String,
    /// Bytes of it.
    pub(super) length: usize,
}

#[derive(Deserialize)]
pub(super) struct AclAnswer {
    #[serde(rename = "AclStatus")]
    status: AclStatusAnswer,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AclStatusAnswer {
    entries: Vec<String>,
    owner: String,
    group: String,
    permission: String,
    #[serde(default)]
    sticky_bit: bool,
}

impl AclAnswer {
    /// The whole list.
    pub(super) fn whole(self) -> Outcome<Vec<AclEntry>> {
        let AclStatusAnswer { entries, owner, group, permission, sticky_bit } = self.status;
        let entries = match entries.is_empty() {
            true => Vec::new(),
            false => {
                AclEntry::parse_list(&entries.join(","), true).map_err(|_| PlaceError::Answer)?
            }
        };
        let sticky = if sticky_bit { STICKY } else { 0 };
        Ok(AclStatus { owner, group, mode: octal(&permission)? | sticky, entries }.whole())
    }
}

#[derive(Deserialize)]
pub(super) struct XattrsAnswer {
    #[serde(rename = "XAttrs")]
    list: Vec<XattrAnswer>,
}

#[derive(Deserialize)]
struct XattrAnswer {
    name: String,
    value: Option<String>,
}

impl XattrsAnswer {
    pub(super) fn into_xattrs(self) -> Outcome<Vec<Xattr>> {
        let one = |XattrAnswer { name, value }| {
            let text = value.unwrap_or_default();
            let text = text.strip_prefix("0s").or(text.strip_prefix("0S")).unwrap_or_default();
            let value = STANDARD.decode(text).map_err(|_| PlaceError::Answer)?;
            Ok(Xattr { name, value })
        };
        self.list.into_iter().map(one).collect()
    }
}

/// A value as it is sent.
pub(super) fn base64_of(value: &[u8]) -> String {
    format!("0s{}", STANDARD.encode(value))
}

#[derive(Deserialize)]
pub(super) struct DiffAnswer {
    #[serde(rename = "SnapshotDiffReport")]
    report: DiffReport,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DiffReport {
    diff_list: Vec<Diff>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    #[serde(rename = "type")]
    kind: String,
    source_path: String,
    target_path: Option<String>,
}

impl DiffAnswer {
    pub(super) fn into_entries(self) -> Outcome<Vec<DiffEntry>> {
        let one = |Diff { kind, source_path, target_path }| {
            let kind = match kind.as_str() {
                "CREATE" => DiffKind::Created,
                "DELETE" => DiffKind::Deleted,
                "MODIFY" => DiffKind::Modified,
                "RENAME" => DiffKind::Renamed,
                _ => return Err(PlaceError::Answer),
            };
            [Some(&source_path), target_path.as_ref()]
                .into_iter()
                .flatten()
                .try_for_each(|path| check_relative(path))?;
            Ok(DiffEntry { kind, path: source_path, target: target_path })
        };
        self.report.diff_list.into_iter().map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_others_refused() {
        let status = r#"{"FileStatus":{"accessTime":2,"blockSize":4,"childrenNum":0,"fileId":1,"group":"g","length":3,"modificationTime":1,"owner":"o","pathSuffix":"a","permission":"1755","replication":3,"storagePolicy":0,"type":"FILE"}}"#;
        let read =
            |text: &str| serde_json::from_str::<StatusAnswer>(text).unwrap().status.into_status();
        let found = read(status).unwrap();
        assert_eq!(
            (found.mode, found.length, found.directory, found.has_acl),
            (0o1755, 3, false, false)
        );
        assert!(read(&status.replace("FILE\"", "DIRECTORY\"")).unwrap().directory);
        assert!(matches!(
            read(&status.replace("FILE\"", "SYMLINK\"")),
            Err(PlaceError::Lacks { .. })
        ));
        assert!(matches!(read(&status.replace("1755", "9")), Err(PlaceError::Answer)));
        let entry = |name: &str| {
            let text =
                status.replace("\"pathSuffix\":\"a\"", &format!("\"pathSuffix\":\"{name}\""));
            serde_json::from_str::<StatusAnswer>(&text).unwrap().status.into_entry()
        };
        for name in ["", ".", "..", "/a", "a/b", "../a", "a\\u0000b"] {
            assert!(matches!(entry(name), Err(PlaceError::Name { .. })), "{name}");
        }
        for name in ["a", "...", "..a", " ", "a\\\\b"] {
            assert!(entry(name).is_ok(), "{name}");
        }
        let acl = r#"{"AclStatus":{"entries":["user:bob:rwx","group::r-x"],"group":"g","owner":"o","permission":"775","stickyBit":false}}"#;
        let list = serde_json::from_str::<AclAnswer>(acl).unwrap().whole().unwrap();
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        assert_eq!(list, ["user::rwx", "user:bob:rwx", "group::r-x", "mask::rwx", "other::r-x"]);
        let xattrs =
            r#"{"XAttrs":[{"name":"user.a","value":"0sMTI="},{"name":"user.b","value":null}]}"#;
        let list = serde_json::from_str::<XattrsAnswer>(xattrs).unwrap().into_xattrs().unwrap();
        assert_eq!((list[0].value.as_slice(), list[1].value.as_slice()), (&b"12"[..], &b""[..]));
        assert_eq!(base64_of(b"12"), "0sMTI=");
        let diff = r#"{"SnapshotDiffReport":{"diffList":[{"type":"RENAME","sourcePath":"a","targetPath":"b"},{"type":"MODIFY","sourcePath":""}]}}"#;
        let list = serde_json::from_str::<DiffAnswer>(diff).unwrap().into_entries().unwrap();
        assert_eq!((list[0].target.as_deref(), list[1].kind), (Some("b"), DiffKind::Modified));
        for (good, bad) in
            [("\"b\"", "\"../b\""), ("\"a\"", "\"/a\""), ("\"a\"", "\"a//b\""), ("\"a\"", "\"a/\"")]
        {
            let list = serde_json::from_str::<DiffAnswer>(&diff.replace(good, bad)).unwrap();
            assert!(matches!(list.into_entries(), Err(PlaceError::Name { .. })), "{bad}");
        }
    }
}
