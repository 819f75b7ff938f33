//! How much of a block that is being written can be read: its DataNodes know.

use protocol::namenode::{DatanodeInfo, LocatedBlock};
use protocol::transfer::{Operation, Read, Reply};

use super::client::DfsClient;
use super::transfer::TransferFailure;

/// Bytes of `block` that a DataNode of its pipeline has, at least what the NameNode knows of. The first that answers with no less
/// decides; one that has no replica yet has none of it.
pub(super) fn visible_length(client: &DfsClient, block: &LocatedBlock) -> u64 {
    for datanode in &block.replicas {
        match ask(client, block, datanode) {
            Ok(length) if length >= block.length => return length,
            Ok(_) => {}
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::debug!(block = %block.id, datanode = %datanode.id, %error, "cannot tell a length");
            }
        }
    }
    block.length
}

fn ask(
    client: &DfsClient,
    block: &LocatedBlock,
    datanode: &DatanodeInfo,
) -> Result<u64, TransferFailure> {
    let mut connection = client.inner.datanodes.take(datanode)?;
    let (id, stamp, token) = (block.id, block.stamp, block.token.clone());
    let read = Read { block: id, stamp, token, offset: u64::MAX, length: 0 };
    let Reply::Reading { length } = connection.ask(&Operation::Read(read))? else {
        return Err(TransferFailure::Unexpected);
    };
    // The rest of the last chunk follows.
    let mut packet = client.inner.packets.take();
    connection.read_packet(&mut packet)?;
    if packet.header.last {
        client.inner.datanodes.give_back(datanode, connection);
    }
    Ok(length)
}
