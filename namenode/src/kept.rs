//! The nodes in maintenance, one file each in `maintenance` of the data directory. A NameNode that restarts while they are switched off
//! still knows them and what they hold.
//!
//! ```text
//! "HNKP" | u32 version | u32 CRC-32 of the body | body: the node and its replicas, as in messages
//! ```
//!
//! Numbers are little-endian. Invariant: a file that is not whole counts as missing: it is logged and ignored, and what its node held is copied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use protocol::{DatanodeId, wire};

use crate::core::upkeep::NodeInMaintenance;

/// Where the files are.
const DIRECTORY: &str = "maintenance";
const SUFFIX: &str = ".kept";
const MAGIC: &[u8; 4] = b"HNKP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 12;
const FILE_MODE: u32 = 0o600;

pub(crate) fn encode(kept: &NodeInMaintenance) -> Vec<u8> {
    let body = wire::encode(kept);
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

/// `None` for what is not one whole file of this version.
pub(crate) fn decode(bytes: &[u8]) -> Option<NodeInMaintenance> {
    let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
    let number = |at: usize| Some(u32::from_le_bytes(header.get(at..at + 4)?.try_into().ok()?));
    let is_whole =
        header.starts_with(MAGIC) && number(4)? == VERSION && number(8)? == crc32fast::hash(body);
    is_whole.then(|| wire::decode_stored(body, "node in maintenance").ok())?
}

/// The files, and whose they are.
pub(crate) struct MaintenanceFiles {
    directory: PathBuf,
    saved: BTreeSet<DatanodeId>,
}

impl MaintenanceFiles {
    /// Reads what an earlier run has left.
    ///
    /// # Errors
    /// If the directory cannot be made or read.
    pub(crate) fn open(data_dir: &Path) -> io::Result<(Self, Vec<NodeInMaintenance>)> {
        let directory = data_dir.join(DIRECTORY);
        sys::fs::create_private_dir(&directory)?;
        let mut all = Vec::new();
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != &SUFFIX[1..]) {
                continue;
            }
            match decode(&fs::read(&path)?) {
                Some(kept) => all.push(kept),
                None => tracing::warn!(
                    path = %path.display(),
                    "what was known of a datanode in maintenance is not readable: what it holds is copied unless it reports"
                ),
            }
        }
        all.sort_by_key(|kept| kept.info.id);
        let saved = all.iter().map(|kept| kept.info.id).collect();
        Ok((MaintenanceFiles { directory, saved }, all))
    }

    /// True if no node is saved.
    pub(crate) fn is_empty(&self) -> bool {
        self.saved.is_empty()
    }

    /// True if a node is saved.
    pub(crate) fn has(&self, id: DatanodeId) -> bool {
        self.saved.contains(&id)
    }

    /// Saves a node. If the disk refuses, that is logged, and the next tick tries again.
    pub(crate) fn save(&mut self, kept: &NodeInMaintenance) {
        let id = kept.info.id;
        match sys::fs::write_atomic(&self.path(id), &encode(kept), FILE_MODE) {
            Ok(()) => drop(self.saved.insert(id)),
            Err(error) => tracing::warn!(
                datanode = %id, %error,
                "datanode in maintenance cannot be written down: after a restart its blocks would be copied"
            ),
        }
    }

    /// Forgets all nodes but these.
    pub(crate) fn retain(&mut self, ids: &BTreeSet<DatanodeId>) {
        let gone: Vec<DatanodeId> = self.saved.difference(ids).copied().collect();
        for id in gone {
            match fs::remove_file(self.path(id)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(datanode = %id, %error, "a file about a datanode in maintenance cannot be deleted");
                    continue;
                }
            }
            self.saved.remove(&id);
        }
    }

    fn path(&self, id: DatanodeId) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }
}

#[cfg(test)]
mod tests {
    use protocol::datanode::Replica;
    use protocol::namenode::DatanodeInfo;
    use protocol::{BlockId, GenerationStamp};

    use super::*;

    fn kept(number: u8) -> NodeInMaintenance {
        let replica =
            |id| Replica { block: BlockId(id), stamp: GenerationStamp(1001), length: 300 };
        NodeInMaintenance {
            info: DatanodeInfo {
                id: DatanodeId([number; 16]),
                host: "h".to_owned(),
                transfer_address: "h:1".to_owned(),
                http_address: "h:2".to_owned(),
                rack: "/r".to_owned(),
                boot_id: String::new(),
                local_socket: String::new(),
            },
            replicas: vec![replica(1), replica(2)],
        }
    }

    #[test]
    fn files_are_read_whole_or_not_at_all() {
        let bytes = encode(&kept(7));
        let golden = "484e4b50010000005848f3ae\
            07070707070707070707070707070707016803683a3103683a32022f7200000201e907ac0202e907ac02";
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, golden);
        assert_eq!(decode(&bytes), Some(kept(7)));
        for end in 0..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "{end}");
        }
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(decode(&bad), None, "{at}");
        }
        assert_eq!(decode(&[&bytes[..], &[0]].concat()), None);
    }

    #[test]
    fn nodes_are_remembered_until_they_are_not_in_maintenance() {
        let directory = tempfile::tempdir().unwrap();
        let (mut book, found) = MaintenanceFiles::open(directory.path()).unwrap();
        assert!(book.is_empty() && found.is_empty());
        book.save(&kept(1));
        book.save(&kept(2));
        fs::write(directory.path().join("maintenance/torn.kept"), "HNKP").unwrap();
        let (mut book, found) = MaintenanceFiles::open(directory.path()).unwrap();
        assert_eq!(found, [kept(1), kept(2)]);
        assert!(book.has(DatanodeId([2; 16])));
        book.retain(&[DatanodeId([2; 16])].into());
        assert_eq!(MaintenanceFiles::open(directory.path()).unwrap().1, [kept(2)]);
    }
}
