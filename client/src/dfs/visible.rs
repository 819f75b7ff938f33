//! How much of a block being written can be read; its DataNodes know that.

use flow::reader::{Said, VisibleLength};
use protocol::ErrorKind;
use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Operation, Read, Reply};
use transport::TransferFailure;

use super::link::Link;

/// Bytes of `block` that its pipeline has, at least as many as the NameNode knows of; `None` if none can say now.
pub(super) fn visible_length(link: &Link, block: &LocatedBlock) -> Option<u64> {
    let mut visible = VisibleLength::new(block.length, block.has_unseen_members);
    for datanode in &block.replicas {
        let said = match ask(link, block, datanode) {
            Ok(length) => Said::Length(length),
            Err(TransferFailure::Remote(refusal)) if refusal.kind == ErrorKind::NotFound => {
                Said::Absent
            }
            Err(error) => {
                let error = protocol::error::chain(&error);
                tracing::debug!(block = %block.id, datanode = %datanode.id, %error, "cannot tell a length");
                Said::Nothing
            }
        };
        if let Some(length) = visible.take(said) {
            return Some(length);
        }
    }
    visible.end()
}

fn ask(link: &Link, block: &LocatedBlock, datanode: &DatanodeInfo) -> Result<u64, TransferFailure> {
    let mut connection = link.datanodes.take(datanode, block.permit())?;
    let (id, stamp, token) = (block.id, block.stamp, block.token.name);
    let read = Read { block: id, stamp, token, offset: u64::MAX, length: 0 };
    let Reply::Reading { length } = connection.ask(&Operation::Read(read), &block.token)? else {
        return Err(TransferFailure::Unexpected);
    };
    // The rest of the last chunk follows.
    let mut packet = link.packets.take();
    connection.read_packet(&mut packet)?;
    if packet.header.last {
        link.datanodes.give_back(datanode, connection);
    }
    Ok(length)
}
