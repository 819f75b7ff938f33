//! Calls of clients: answered, counted and logged in the audit log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use daemon::Shutdown;
use daemon::carried::carried;
use journal::Journal;
use protocol::namenode::{Answer, Body, Call, Reply, Request, VERSION};
use protocol::{ErrorKind, RemoteError};

use super::audit::{self, Audit, Origin};
use super::load::Load;
use crate::config::Config;
use crate::lists;
use crate::server::{Event, Shared, ended, stopping};
use crate::topology::Topology;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Journal,
    /// Where files for the operator are written.
    pub(crate) logs_dir: PathBuf,
    pub(crate) shutdown: Shutdown,
    /// The audit log, if there is one.
    pub(crate) audit: Option<Audit>,
    pub(crate) topology: Arc<Topology>,
    pub(crate) config: Arc<Config>,
    /// Calls so far.
    pub(crate) load: Load,
}

impl Service {
    /// Answers a call, counts it and logs it in the audit log.
    pub(crate) async fn client(&self, request: Request, origin: Origin) -> Answer {
        if request.body.is_read() {
            return self.noted(request, origin).await;
        }
        // A change is made even if its caller hangs up, and must be logged.
        let service = self.clone();
        carried(async move { service.noted(request, origin).await }).await
    }

    async fn noted(&self, request: Request, origin: Origin) -> Answer {
        let (is_read, begin) = (request.body.is_read(), Instant::now());
        let answer = self.audited(request, origin).await;
        self.load.note(is_read, begin, &answer);
        answer
    }

    async fn audited(&self, request: Request, origin: Origin) -> Answer {
        let mut permissions = Vec::new();
        let Some(audit) = &self.audit else { return self.answer(request, &mut permissions).await };
        let calls = request.body.calls();
        let detail = |call| audit::detail((&request.user, &origin.address), call);
        let details: Vec<Option<String>> = calls.iter().map(detail).collect();
        let answer = self.answer(request, &mut permissions).await;
        let at_ms = self.shared.now().wall_ms;
        let answers = match &answer {
            Ok(Reply::Batch(answers)) => answers,
            single => std::slice::from_ref(single),
        };
        // Reads log nobody's permissions.
        let permissions = permissions.into_iter().chain(std::iter::repeat(None));
        for ((detail, permissions), answer) in details.into_iter().zip(permissions).zip(answers) {
            let line = detail
                .and_then(|detail| audit::line((detail, permissions, origin.protocol), answer));
            if let Some(line) = line {
                audit.note(at_ms, line).await;
            }
        }
        answer
    }

    /// Answers a call; `permissions` is what the audit log says with it.
    pub(super) async fn answer(
        &self,
        request: Request,
        permissions: &mut Vec<Option<String>>,
    ) -> Answer {
        if request.version != VERSION {
            let text = format!("version {} of the protocol is not {VERSION}", request.version);
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        let membership = self.shared.groups.of(&request.user).await;
        if let Some(answer) = self.administer(&request, &membership).await {
            return answer;
        }
        if request.body.is_read() {
            return self.shared.read(&request, &membership).await;
        }
        if matches!(request.body, Body::One(Call::RefreshNodes)) {
            let caller = membership.caller(&request.user);
            self.shared.state().guard(caller).check_superuser()?;
            return self.refresh_nodes().await;
        }
        let request = Box::new(request);
        let asked = self.shared.host.ask(|sender| Event::Call(request, membership, sender)).await;
        let answered = asked.map_err(ended)?;
        *permissions = answered.permissions;
        answered.answer
    }

    /// Reads the lists of DataNodes again.
    async fn refresh_nodes(&self) -> Answer {
        let config = Arc::clone(&self.config);
        let read = tokio::task::spawn_blocking(move || lists::read(&config)).await;
        let read = read.map_err(|_| stopping())?;
        let lists = read.map_err(|error| {
            RemoteError::new(ErrorKind::InvalidArgument, protocol::error::chain(&error))
        })?;
        self.topology.forget();
        let asked = self.shared.host.ask(|sender| Event::Hosts(lists, sender)).await;
        asked.map_err(ended)?.answer
    }
}
