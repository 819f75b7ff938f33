//! Messages of DataNodes: heartbeats, which are held until there are commands, and what goes to the host.

use std::time::Duration;

use protocol::datanode::{self, Heartbeat, REPORT_REPLICAS_MAX, Reply, Request};
use protocol::{ErrorKind, RemoteError};

use super::calls::Service;
use crate::server::{Event, ended};

impl Service {
    /// Answers a DataNode.
    pub(crate) async fn datanode(&self, mut request: Request) -> datanode::Answer {
        if let Request::Register(register) = &mut request {
            register.info.rack = self.topology.rack_of(&register.info).await;
        }
        match &request {
            Request::Heartbeat(beat) => return self.heartbeat(beat).await,
            Request::FullReport(report)
                if report.finalized.len() + report.unfinished.len() > REPORT_REPLICAS_MAX =>
            {
                let text = format!("more than {REPORT_REPLICAS_MAX} replicas in one part");
                return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
            }
            Request::Changes(changes) if changes.count() > REPORT_REPLICAS_MAX => {
                let text = format!("more than {REPORT_REPLICAS_MAX} changes in one message");
                return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
            }
            _ => {}
        }
        let request = Box::new(request);
        let asked = self.shared.host.ask(|sender| Event::Datanode(request, sender)).await;
        asked.map_err(ended)?
    }

    async fn heartbeat(&self, beat: &Heartbeat) -> datanode::Answer {
        let shared = &self.shared;
        let fenced = |text: &str| Err(RemoteError::new(ErrorKind::Fenced, text));
        if beat.epoch != shared.epoch {
            return fenced("the NameNode was restarted: register again");
        }
        let now_ms = shared.now().mono_ms;
        let Some(beat) = shared.nodes.heartbeat(beat, now_ms) else {
            return fenced("this DataNode is not registered or was given up: register again");
        };
        if beat.first {
            // Now it has room: safe mode may end and copies may begin.
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
            commands = shared.nodes.take_commands(beat.index);
        }
        Ok(Reply::Commands { epoch: shared.epoch, commands })
    }
}
