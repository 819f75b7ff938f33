//! Leading the recovery of a block whose writer is gone.

use std::sync::Arc;

use client::dfs::transfer::TransferFailure;
use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{Needs, Operation, ReplicaSummary, Reply};
use protocol::{BlockId, DatanodeId, GenerationStamp};

use super::Service;
use crate::core::recovery::{Agreement, agree};
use crate::error::OperationError;

/// Asks everyone, agrees, and makes everyone finalize what was agreed. Blocks. The result is for the NameNode: length and
/// members that hold it now.
///
/// # Errors
/// [`OperationError::Invalid`] if nobody could carry out what was agreed: the NameNode orders another recovery.
pub fn lead_recovery(
    service: &Arc<Service>,
    block: BlockId,
    (old_stamp, length_min): (GenerationStamp, u64),
    stamp: GenerationStamp,
    replicas: &[DatanodeInfo],
    token: &BlockToken,
) -> Result<Agreement, OperationError> {
    let own = service.store.datanode();
    let states: Vec<(DatanodeId, Option<ReplicaSummary>)> = replicas
        .iter()
        .map(|datanode| {
            let state = if datanode.id == own {
                service.store.begin_recovery(block, stamp).map_err(OperationError::from)
            } else {
                service.ask_state(datanode, block, stamp, token)
            };
            let state = state.unwrap_or_else(|error| {
                let error = client::error::chain(&error);
                tracing::warn!(%block, datanode = %datanode.id, %error, "no vote in a recovery");
                None
            });
            (datanode.id, state)
        })
        .collect();
    let agreement = agree(old_stamp, length_min, &states);
    let mut members = Vec::new();
    for datanode in replicas.iter().filter(|datanode| agreement.members.contains(&datanode.id)) {
        let updated = if datanode.id == own {
            service.store.update(block, stamp, agreement.length).map_err(OperationError::from)
        } else {
            service.ask_update(datanode, block, stamp, agreement.length, token)
        };
        match updated {
            Ok(()) => members.push(datanode.id),
            Err(error) => {
                let error = client::error::chain(&error);
                tracing::warn!(%block, datanode = %datanode.id, %error, "lost in a recovery");
            }
        }
    }
    if members.is_empty() && agreement.length > 0 {
        return Err(OperationError::Invalid("no member could end the recovery"));
    }
    tracing::info!(%block, length = agreement.length, members = members.len(), "block recovered");
    Ok(Agreement { length: agreement.length, members })
}

impl Service {
    fn ask_state(
        &self,
        datanode: &DatanodeInfo,
        block: BlockId,
        stamp: GenerationStamp,
        token: &BlockToken,
    ) -> Result<Option<ReplicaSummary>, OperationError> {
        match self.ask(
            datanode,
            &Operation::ReplicaState { block, stamp, token: token.name },
            token,
        )? {
            Reply::State(state) => Ok(state),
            _ => Err(TransferFailure::Unexpected.into()),
        }
    }

    fn ask_update(
        &self,
        datanode: &DatanodeInfo,
        block: BlockId,
        stamp: GenerationStamp,
        length: u64,
        token: &BlockToken,
    ) -> Result<(), OperationError> {
        let update = Operation::UpdateReplica { block, stamp, length, token: token.name };
        match self.ask(datanode, &update, token)? {
            Reply::Done => Ok(()),
            _ => Err(TransferFailure::Unexpected.into()),
        }
    }

    fn ask(
        &self,
        datanode: &DatanodeInfo,
        operation: &Operation,
        token: &BlockToken,
    ) -> Result<Reply, OperationError> {
        let Needs { block, stamp, .. } = operation.needs();
        let mut connection = self.peers.take(datanode, (block, stamp, token))?;
        let reply = connection.ask(operation, token)?;
        self.peers.give_back(datanode, connection);
        Ok(reply)
    }
}
