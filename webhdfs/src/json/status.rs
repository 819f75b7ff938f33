//! `FileStatus` and what is made of it; totals; defaults of the server.

use protocol::DfsPath;
use protocol::namenode::{ClusterStatus, ContentSummary, FileStatus, Room};
use protocol::storage::StoragePolicy;
use serde::Serialize;
use serde_json::{Value, json};

/// Bytes that one checksum covers.
const BYTES_PER_CHECKSUM: u64 = 512;
/// Packet size that HDFS's own clients use; they only read it.
const WRITE_PACKET_BYTES: u64 = 64 << 10;
/// Buffer size that HDFS's own clients use.
const FILE_BUFFER_BYTES: u64 = 4096;

/// Milliseconds of a minute, the unit in which clients learn how long the trash keeps files.
const MINUTE_MS: u64 = 60_000;

/// One file or directory.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub struct FileStatusJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    acl_bit: Option<bool>,
    access_time: u64,
    block_size: u64,
    children_num: u64,
    file_id: u64,
    group: &'a str,
    length: u64,
    modification_time: u64,
    owner: &'a str,
    path_suffix: &'a str,
    permission: String,
    replication: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_enabled: Option<bool>,
    storage_policy: u8,
    #[serde(rename = "type")]
    kind: &'static str,
}

impl<'a> From<&'a FileStatus> for FileStatusJson<'a> {
    fn from(status: &'a FileStatus) -> Self {
        FileStatusJson {
            acl_bit: status.has_acl.then_some(true),
            access_time: status.atime_ms,
            block_size: status.block_size,
            children_num: status.children_count,
            file_id: status.inode.0,
            group: &status.group,
            length: status.length,
            modification_time: status.mtime_ms,
            owner: &status.owner,
            path_suffix: &status.name,
            permission: format!("{:o}", status.mode),
            replication: status.replication,
            snapshot_enabled: status.snapshottable.then_some(true),
            storage_policy: status.storage_policy.map_or(0, |policy| policy.definition().id),
            kind: if status.directory { "DIRECTORY" } else { "FILE" },
        }
    }
}

/// `FsStatus`: the room of the cluster.
pub fn room(room: &Room) -> Value {
    json!({ "FsStatus": {
        "capacity": room.capacity,
        "used": room.used,
        "remaining": room.remaining,
    }})
}

/// `Paths`: whole paths with what is there, in the words that Java's client reads here and nowhere else.
pub fn paths(found: &[(DfsPath, FileStatus)]) -> Value {
    let entry = |(path, status): &(DfsPath, FileStatus)| {
        json!({
            "path": path.as_str(),
            "length": status.length,
            "isdir": status.directory,
            "block_replication": status.replication,
            "blocksize": status.block_size,
            "modification_time": status.mtime_ms,
            "access_time": status.atime_ms,
            "permission": format!("{:o}", status.mode),
            "owner": status.owner,
            "group": status.group,
        })
    };
    json!({ "Paths": found.iter().map(entry).collect::<Vec<Value>>() })
}

/// The entries of a listing as JSON, separated by commas, without brackets.
pub fn entries(entries: &[FileStatus]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() * 320);
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        serde_json::to_writer(&mut bytes, &FileStatusJson::from(entry))
            .expect("writing into memory cannot fail");
    }
    bytes
}

/// `ContentSummary`.
pub fn content_summary(summary: &ContentSummary, directory: bool) -> Value {
    json!({ "ContentSummary": {
        "directoryCount": summary.directory_count,
        "ecPolicy": if directory { "" } else { "Replicated" },
        "fileCount": summary.file_count,
        "length": summary.length,
        "quota": quota(summary.quota),
        "snapshotDirectoryCount": summary.snapshot_directory_count,
        "snapshotFileCount": summary.snapshot_file_count,
        "snapshotLength": summary.snapshot_length,
        "snapshotSpaceConsumed": summary.snapshot_space_consumed,
        "spaceConsumed": summary.space_consumed,
        "spaceQuota": quota(summary.space_quota),
        "typeQuota": {},
    }})
}

/// `QuotaUsage`.
pub fn quota_usage(summary: &ContentSummary) -> Value {
    json!({ "QuotaUsage": {
        "fileAndDirectoryCount": summary.file_count + summary.directory_count,
        "quota": quota(summary.quota),
        "spaceConsumed": summary.space_consumed,
        "spaceQuota": quota(summary.space_quota),
        "typeQuota": {},
    }})
}

/// A quota, or -1 for none.
fn quota(quota: Option<u64>) -> i64 {
    quota.map_or(-1, |quota| i64::try_from(quota).unwrap_or(i64::MAX))
}

/// `FsServerDefaults`.
pub fn server_defaults(status: &ClusterStatus) -> Value {
    json!({ "FsServerDefaults": {
        "blockSize": status.block_size,
        "bytesPerChecksum": BYTES_PER_CHECKSUM,
        "writePacketSize": WRITE_PACKET_BYTES,
        "replication": status.replication,
        "fileBufferSize": FILE_BUFFER_BYTES,
        "encryptDataTransfer": false,
        "trashInterval": status.trash_interval_ms / MINUTE_MS,
        "checksumType": 2,
        "keyProviderUri": "",
        "defaultStoragePolicyId": StoragePolicy::Hot.definition().id,
    }})
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use protocol::InodeId;

    pub(crate) fn file() -> FileStatus {
        FileStatus {
            name: "a\"ü".to_owned(),
            inode: InodeId(16386),
            directory: false,
            length: 24930,
            replication: 3,
            block_size: 134_217_728,
            owner: "webuser".to_owned(),
            group: "supergroup".to_owned(),
            mode: 0o644,
            mtime_ms: 1_320_171_722_771,
            atime_ms: 1_320_171_722_770,
            children_count: 0,
            open: false,
            has_acl: false,
            snapshottable: false,
            storage_policy: None,
        }
    }

    #[test]
    fn a_status_has_hadoops_fields() {
        let directory = FileStatus {
            name: String::new(),
            directory: true,
            mode: 0o1777,
            length: 0,
            atime_ms: 0,
            snapshottable: true,
            storage_policy: Some(StoragePolicy::Warm),
            ..file()
        };
        let text =
            |status: &FileStatus| serde_json::to_string(&FileStatusJson::from(status)).unwrap();
        assert_eq!(
            text(&file()),
            r#"{"accessTime":1320171722770,"blockSize":134217728,"childrenNum":0,"fileId":16386,"group":"supergroup","length":24930,"modificationTime":1320171722771,"owner":"webuser","pathSuffix":"a\"ü","permission":"644","replication":3,"storagePolicy":0,"type":"FILE"}"#
        );
        let text = text(&directory);
        assert!(text.contains(r#""permission":"1777""#) && text.contains(r#""type":"DIRECTORY""#));
        assert!(text.contains(r#""pathSuffix":"""#));
        assert!(text.contains(r#""snapshotEnabled":true,"storagePolicy":5"#), "{text}");
        let listed = String::from_utf8(entries(&[file(), directory])).unwrap();
        let parsed: Value = serde_json::from_str(&format!("[{listed}]")).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), 2);
    }

    #[test]
    fn totals_have_hadoops_fields() {
        let summary = ContentSummary {
            length: 10,
            file_count: 1,
            directory_count: 2,
            space_consumed: 30,
            quota: Some(100),
            ..ContentSummary::default()
        };
        assert_eq!(
            content_summary(&summary, true).to_string(),
            r#"{"ContentSummary":{"directoryCount":2,"ecPolicy":"","fileCount":1,"length":10,"quota":100,"snapshotDirectoryCount":0,"snapshotFileCount":0,"snapshotLength":0,"snapshotSpaceConsumed":0,"spaceConsumed":30,"spaceQuota":-1,"typeQuota":{}}}"#
        );
        assert_eq!(
            quota_usage(&summary).to_string(),
            r#"{"QuotaUsage":{"fileAndDirectoryCount":3,"quota":100,"spaceConsumed":30,"spaceQuota":-1,"typeQuota":{}}}"#
        );
    }
}
