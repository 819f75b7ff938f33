//! Reads for operators: files being written, one block and its replicas.

use protocol::namenode::{Answer, BlockInfo, OpenFile, Reply};
use protocol::{BlockId, DfsPath, ErrorKind, InodeId};

use super::command::refuse;
use super::datanodes::Datanodes;
use super::permission::Caller;
use super::state::State;

/// Files on a page.
const FILES_MAX: usize = 1000;

impl State {
    pub(super) fn open_files(&self, after: Option<InodeId>, caller: Caller<'_>) -> Answer {
        self.guard(caller).check_superuser()?;
        let mut rest = self.ns.leases.open_files().into_iter();
        let mut files = Vec::new();
        let mut last = None;
        for (inode, client) in rest.by_ref().filter(|(inode, _)| after.is_none_or(|a| *inode > a)) {
            last = Some(inode);
            let path = self.ns.path_of(inode).and_then(|path| DfsPath::parse(&path).ok());
            let host = self.ns.leases.host(client).to_owned();
            files.extend(path.map(|path| OpenFile { path, client, host }));
            if files.len() == FILES_MAX {
                break;
            }
        }
        let next = last.filter(|_| rest.len() > 0);
        Ok(Reply::OpenFiles { files, next })
    }

    pub(super) fn block_info(
        &self,
        nodes: &Datanodes,
        block: BlockId,
        caller: Caller<'_>,
    ) -> Answer {
        self.guard(caller).check_superuser()?;
        let missing = || refuse(ErrorKind::NotFound, format!("Block blk_{block} does not exist"));
        let info = self.ns.block(block).ok_or_else(missing)?;
        let file = self.ns.inode(info.file).and_then(|inode| inode.file()).ok_or_else(missing)?;
        let path = self.ns.path_of(info.file).and_then(|path| DfsPath::parse(&path).ok());
        Ok(Reply::BlockInfo(Box::new(BlockInfo {
            id: block,
            path: path.ok_or_else(missing)?,
            replication: file.replication,
            replicas: self.all_replicas_of(nodes, (block, info.stamp)),
        })))
    }
}
