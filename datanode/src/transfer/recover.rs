//! Leads the recovery of a block whose writer is gone.
//!
//! ```text
//! ask everyone -> the longest replica decides -> who has all of it finalizes
//!                                             -> one of them sends the others what they lack; they finalize
//! ```

use std::sync::Arc;

use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{Needs, Operation, ReplicaSummary, Reply};
use protocol::{BlockId, DatanodeId, GenerationStamp};
use transport::TransferFailure;

use super::Service;
use super::part::Rest;
use crate::core::recovery::{Agreement, agree};
use crate::error::OperationError;

/// How a recovery ended, for the NameNode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovered {
    /// Length of the block.
    pub length: u64,
    /// The DataNodes that now have all of it, finalized.
    pub members: Vec<DatanodeId>,
    /// The DataNodes that reported a replica, and could end the recovery if their replica was decisive.
    pub answered: Vec<DatanodeId>,
}

/// A recovery that this DataNode leads.
struct Lead<'a> {
    service: &'a Arc<Service>,
    block: BlockId,
    old_stamp: GenerationStamp,
    stamp: GenerationStamp,
    replicas: &'a [DatanodeInfo],
    token: &'a BlockToken,
}

/// Asks everyone, agrees, and makes everyone finalize the agreed replica. Blocks. If nobody has the `length_min` bytes that were promised, the existing bytes
/// are kept nevertheless: they can be read, and the NameNode decides how long it waits for others.
///
/// # Errors
/// [`OperationError::Invalid`] if nobody could carry out the agreement: the NameNode orders another recovery.
pub fn lead_recovery(
    service: &Arc<Service>,
    block: BlockId,
    (old_stamp, stamp): (GenerationStamp, GenerationStamp),
    length_min: u64,
    replicas: &[DatanodeInfo],
    token: &BlockToken,
) -> Result<Recovered, OperationError> {
    let lead = Lead { service, block, old_stamp, stamp, replicas, token };
    let mut states: Vec<(DatanodeId, Option<ReplicaSummary>)> =
        replicas.iter().map(|datanode| (datanode.id, lead.state_of(datanode))).collect();
    loop {
        let agreement = agree(old_stamp, &states);
        let members = lead.finalize(&agreement);
        if members.is_empty() && agreement.length > 0 {
            // A DataNode that cannot end it has no vote.
            states.retain(|(datanode, _)| !agreement.whole.contains(datanode));
            continue;
        }
        if members.is_empty() && states.len() < replicas.len() {
            return Err(OperationError::Invalid("no member could end the recovery"));
        }
        let length = agreement.length;
        let told = states.iter().filter(|(_, state)| state.is_some());
        let answered = told.map(|(datanode, _)| *datanode).collect();
        let count = members.len();
        if length < length_min {
            tracing::error!(%block, length, promised = length_min, "no replica has all that was promised");
        } else {
            tracing::info!(%block, length, members = count, "block recovered");
        }
        return Ok(Recovered { length, members, answered });
    }
}

impl Lead<'_> {
    fn is_own(&self, datanode: &DatanodeInfo) -> bool {
        datanode.id == self.service.store.datanode()
    }

    fn info(&self, id: DatanodeId) -> Option<&DatanodeInfo> {
        self.replicas.iter().find(|datanode| datanode.id == id)
    }

    fn state_of(&self, datanode: &DatanodeInfo) -> Option<ReplicaSummary> {
        let Lead { service, block, stamp, token, .. } = *self;
        let state = if self.is_own(datanode) {
            service.store.begin_recovery(block, stamp).map_err(OperationError::from)
        } else {
            service.ask_state(datanode, block, stamp, token)
        };
        state.unwrap_or_else(|error| {
            let error = client::error::chain(&error);
            tracing::warn!(%block, datanode = %datanode.id, %error, "no vote in a recovery");
            None
        })
    }

    /// Has everyone finalize the block; returns those who did. Returns nobody if none of those who have all of it could.
    fn finalize(&self, agreement: &Agreement) -> Vec<DatanodeId> {
        let log = |datanode: &DatanodeInfo, error: &OperationError| {
            let (block, error) = (self.block, client::error::chain(error));
            tracing::warn!(%block, datanode = %datanode.id, %error, "lost in a recovery");
        };
        let mut done: Vec<&DatanodeInfo> = Vec::new();
        for datanode in agreement.whole.iter().filter_map(|id| self.info(*id)) {
            match self.update(datanode, agreement.length) {
                Ok(()) => done.push(datanode),
                Err(error) => log(datanode, &error),
            }
        }
        if let Some(source) = done.first().copied() {
            for (id, offset) in &agreement.behind {
                let Some(target) = self.info(*id) else { continue };
                match self.complete(source, target, *offset) {
                    Ok(()) => done.push(target),
                    Err(error) => log(target, &error),
                }
            }
        }
        done.iter().map(|datanode| datanode.id).collect()
    }

    fn update(&self, datanode: &DatanodeInfo, length: u64) -> Result<(), OperationError> {
        let Lead { service, block, stamp, token, .. } = *self;
        match self.is_own(datanode) {
            true => Ok(service.store.update(block, stamp, length)?),
            false => service.ask_update(datanode, block, stamp, length, token),
        }
    }

    /// Has `source` send `target` the bytes it lacks from `offset`.
    fn complete(
        &self,
        source: &DatanodeInfo,
        target: &DatanodeInfo,
        offset: u64,
    ) -> Result<(), OperationError> {
        let Lead { service, block, old_stamp, stamp, token, .. } = *self;
        let prior = old_stamp;
        if self.is_own(source) {
            return service.send_rest(&Rest { block, prior, stamp, offset }, target, token.clone());
        }
        let (target, name) = (target.clone(), token.name);
        let rest = Operation::CompleteReplica { block, prior, stamp, offset, target, token: name };
        match service.ask(source, &rest, token)? {
            Reply::Done => Ok(()),
            _ => Err(TransferFailure::Unexpected.into()),
        }
    }
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
