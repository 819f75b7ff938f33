//! Messages of DataNodes: heartbeats, which are held until there are commands, and what goes to the host.

use std::time::Duration;

use protocol::datanode::{self, Heartbeat, REPORT_REPLICAS_MAX, Reply, Report, Request, Sender};
use protocol::{ErrorKind, RemoteError};

use super::calls::Service;
use crate::server::{Event, ended};

/// Refuses a message that names more replicas than one may.
pub(crate) fn check_bounds(request: &Request) -> Result<(), RemoteError> {
    let Request::Report { report, .. } = request else { return Ok(()) };
    let (count, what) = match report {
        Report::Full(part) => {
            (part.finalized.len() + part.unfinished.len(), "replicas in one part")
        }
        Report::Changes(changes) => (changes.count(), "changes in one message"),
    };
    match count > REPORT_REPLICAS_MAX {
        true => {
            let text = format!("more than {REPORT_REPLICAS_MAX} {what}");
            Err(RemoteError::new(ErrorKind::InvalidArgument, text))
        }
        false => Ok(()),
    }
}

impl Service {
    /// Answers a DataNode.
    pub(crate) async fn datanode(&self, mut request: Request) -> datanode::Answer {
        if let Request::Register(register) = &mut request {
            register.info.rack = self.topology.rack_of(&register.info).await;
        }
        check_bounds(&request)?;
        if let Request::Heartbeat(sender, beat) = &request {
            return self.heartbeat(*sender, beat).await;
        }
        let request = Box::new(request);
        let asked = self.shared.host.ask(|sender| Event::Datanode(request, sender)).await;
        asked.map_err(ended)?
    }

    async fn heartbeat(&self, sender: Sender, beat: &Heartbeat) -> datanode::Answer {
        let shared = &self.shared;
        let beat = shared.nodes.heartbeat((sender, beat), shared.epoch, shared.now().mono_ms)?;
        if beat.first {
            shared.host.tick();
        }
        let mut commands = beat.commands;
        if commands.is_empty() {
            let held = tokio::time::timeout(
                Duration::from_millis(shared.heartbeat_ms),
                beat.wake.notified(),
            );
            tokio::select! {
                _ = held => {}
                () = self.shutdown.wait() => {}
            }
            commands = shared.nodes.take_commands(sender, shared.epoch)?;
        }
        Ok(Reply::Commands { epoch: shared.epoch, commands })
    }
}
