//! How much of a block being written can be read; its DataNodes know that.

use protocol::ErrorKind;
use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Operation, Read, Reply};

use super::link::Link;
use transport::TransferFailure;

/// Bytes of `block` that its pipeline has, at least as many as the NameNode knows of. The first DataNode that reports no fewer decides. `None` if none can say
/// now: locations may have changed meanwhile. A block that no DataNode has yet is empty.
pub(super) fn visible_length(link: &Link, block: &LocatedBlock) -> Option<u64> {
    let mut absent = 0;
    for datanode in &block.replicas {
        match ask(link, block, datanode) {
            Ok(length) if length >= block.length => return Some(length),
            Ok(_) => {}
            Err(TransferFailure::Remote(refusal)) if refusal.kind == ErrorKind::NotFound => {
                absent += 1;
            }
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::debug!(block = %block.id, datanode = %datanode.id, %error, "cannot tell a length");
            }
        }
    }
    (block.length == 0 && absent == block.replicas.len()).then_some(0)
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
