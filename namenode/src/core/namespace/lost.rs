//! Files that were closed without bytes that somebody had been promised: no DataNode had them any more.
//!
//! The number of bytes is kept as a system attribute, which no user sees or sets, until the file is deleted or rewritten.

use protocol::xattr::{XattrName, XattrSpace};
use protocol::{BlockId, InodeId};

use super::tree::Namespace;
use crate::core::edit::Edit;
use crate::core::inodes::Features;

const NAME: &str = "hanno.lost-bytes";

/// A loss, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The file.
    pub path: String,
    /// Its last block.
    pub block: BlockId,
    /// Bytes of that block that are left.
    pub length: u64,
    /// Bytes after them that had been promised.
    pub lost: u64,
}

fn name() -> XattrName {
    XattrName { space: XattrSpace::System, name: NAME.to_owned() }
}

/// Bytes that a file has lost.
pub(in crate::core) fn lost_bytes(features: Option<&Features>) -> u64 {
    let value = features.and_then(|features| features.xattrs.get(&name()));
    let bytes = value.and_then(|value| value.as_slice().try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

impl Namespace {
    /// Notes that a file has lost `lost` more bytes.
    pub(in crate::core) fn lose(&self, inode: InodeId, lost: u64) -> Edit {
        let all = lost_bytes(self.features(inode)).saturating_add(lost);
        Edit::SetXattr { inode, name: name(), value: Some(all.to_le_bytes().to_vec()) }
    }
}
