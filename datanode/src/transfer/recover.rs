//! Leads the recovery of a block whose writer is gone, as [`core::recovery::Lead`](crate::core::recovery::Lead) decides.

use std::sync::Arc;

use protocol::namenode::DatanodeInfo;
use protocol::token::BlockToken;
use protocol::transfer::{Needs, Operation, Reply};
use protocol::{BlockId, DatanodeId, GenerationStamp};
use transport::TransferFailure;

use super::Service;
use crate::core::copy::Order;
use crate::core::recovery::{Found, Lead, Recovered, Step};
use crate::error::OperationError;

/// A recovery that this DataNode leads.
struct Leader<'a> {
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
    let leader = Leader { service, block, old_stamp, stamp, replicas, token };
    let mut lead = Lead::new(old_stamp, replicas.iter().map(|datanode| datanode.id).collect());
    loop {
        match lead.step() {
            Step::Ask(id) => {
                lead.on_state(leader.info(id).map_or(Found::Unknown, |it| leader.state_of(it)))
            }
            Step::Update { member, length } => {
                lead.on_outcome(leader.is_done(member, |it| leader.update(it, length)));
            }
            Step::Complete { source, target, offset } => {
                let complete = |it: &DatanodeInfo| match leader.info(source) {
                    Some(source) => leader.complete(source, it, offset),
                    None => Err(TransferFailure::Unexpected.into()),
                };
                lead.on_outcome(leader.is_done(target, complete));
            }
            Step::Done(recovered) => {
                let Recovered { length, members, .. } = &recovered;
                if *length < length_min {
                    tracing::error!(%block, length, promised = length_min, "no replica has all that was promised");
                } else {
                    tracing::info!(%block, length, members = members.len(), "block recovered");
                }
                return Ok(recovered);
            }
            Step::Failed => {
                return Err(OperationError::Invalid("no member could end the recovery"));
            }
        }
    }
}

impl Leader<'_> {
    fn is_own(&self, datanode: &DatanodeInfo) -> bool {
        datanode.id == self.service.store.datanode()
    }

    fn info(&self, id: DatanodeId) -> Option<&DatanodeInfo> {
        self.replicas.iter().find(|datanode| datanode.id == id)
    }

    fn state_of(&self, datanode: &DatanodeInfo) -> Found {
        let Leader { service, block, stamp, token, .. } = *self;
        let state = if self.is_own(datanode) {
            service.store.begin_recovery(block, stamp).map_err(OperationError::from)
        } else {
            service.ask_state(datanode, block, stamp, token)
        };
        state.unwrap_or_else(|error| {
            let error = protocol::error::chain(&error);
            tracing::warn!(%block, datanode = %datanode.id, %error, "no vote in a recovery");
            Found::Unknown
        })
    }

    /// Has a member finalize the block; true if it did.
    fn is_done(
        &self,
        member: DatanodeId,
        finalize: impl FnOnce(&DatanodeInfo) -> Result<(), OperationError>,
    ) -> bool {
        let outcome = self.info(member).map_or(Err(TransferFailure::Unexpected.into()), finalize);
        let is_done = outcome.inspect_err(|error| {
            let (block, error) = (self.block, protocol::error::chain(error));
            tracing::warn!(%block, datanode = %member, %error, "lost in a recovery");
        });
        is_done.is_ok()
    }

    fn update(&self, datanode: &DatanodeInfo, length: u64) -> Result<(), OperationError> {
        let Leader { service, block, stamp, token, .. } = *self;
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
        let Leader { service, block, old_stamp, stamp, token, .. } = *self;
        let prior = old_stamp;
        if self.is_own(source) {
            let rest = Order::Rest { block, prior, stamp, offset };
            return service.send(&rest, std::slice::from_ref(target), (token, false));
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
    ) -> Result<Found, OperationError> {
        let ask = Operation::ReplicaState { block, stamp, token: token.name };
        let reply = self.ask(datanode, &ask, token)?;
        Found::said(&reply).ok_or_else(|| TransferFailure::Unexpected.into())
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
