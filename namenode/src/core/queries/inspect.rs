//! Reads for operators: files being written, one block and its replicas.

use protocol::namenode::{AdminState, BlockInfo, OpenFile, OpenFilePage};
use protocol::{BlockId, DfsPath, ErrorKind, InodeId, RemoteError};

use crate::core::nodes::{Datanodes, NodeIndex};
use crate::core::state::State;
use crate::error::refuse;

/// Files on a page.
const FILES_MAX: usize = 1000;

impl State {
    pub(in crate::core) fn open_files(
        &self,
        nodes: &Datanodes,
        after: Option<InodeId>,
    ) -> OpenFilePage {
        let mut rest = self.ns.leases.open_files().into_iter();
        let mut files = Vec::new();
        let mut last = None;
        for (inode, client) in rest.by_ref().filter(|(inode, _)| after.is_none_or(|a| *inode > a)) {
            last = Some(inode);
            let path = self.ns.path_of(inode).and_then(|path| DfsPath::parse(&path).ok());
            let host = self.ns.leases.host(client).to_owned();
            let holds_drain = self.holds_drain(nodes, inode);
            files.extend(path.map(|path| OpenFile { path, client, host, holds_drain }));
            if files.len() == FILES_MAX {
                break;
            }
        }
        let next = last.filter(|_| rest.len() > 0);
        OpenFilePage { files, next }
    }

    /// True if a node that is on its way out of service waits for the last block of an open file.
    fn holds_drain(&self, nodes: &Datanodes, file: InodeId) -> bool {
        let open = self.ns.file(file).and_then(|file| file.open.as_deref());
        let targets = open.into_iter().flat_map(|open| &open.targets);
        let is_leaving = |index: NodeIndex| {
            let admin = nodes.node(index).admin;
            matches!(admin, AdminState::DecommissionInProgress | AdminState::EnteringMaintenance)
        };
        self.ns.open_block(file).is_some()
            && targets.filter_map(|id| nodes.index(*id)).any(is_leaving)
    }

    pub(in crate::core) fn block_info(
        &self,
        nodes: &Datanodes,
        block: BlockId,
    ) -> Result<BlockInfo, RemoteError> {
        let missing = || refuse(ErrorKind::NotFound, format!("Block blk_{block} does not exist"));
        let info = self.ns.block(block).ok_or_else(missing)?;
        let file = self.ns.inode(info.file).and_then(|inode| inode.file()).ok_or_else(missing)?;
        let path = self.ns.path_of(info.file).and_then(|path| DfsPath::parse(&path).ok());
        Ok(BlockInfo {
            id: block,
            path: path.ok_or_else(missing)?,
            replication: file.replication,
            replicas: self.all_replicas_of(nodes, (block, info.stamp)),
        })
    }
}
