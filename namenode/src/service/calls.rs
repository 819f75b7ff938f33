//! Calls of clients: answered, counted and logged in the audit log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use daemon::Shutdown;
use daemon::shield::shield;
use journal::Journal;
use protocol::namenode::{Answer, Body, Kind, Reply, Request};

use super::audit::{self, Audit, Origin};
use super::load::Load;
use crate::config::Config;
use crate::server::{Answered, Event, Shared, ended};
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
        let kind = request.body.kind();
        if kind == Kind::Read {
            return self.noted(kind, request, origin).await;
        }
        // A change is made even if its caller hangs up, and must be logged.
        let service = self.clone();
        shield(async move { service.noted(kind, request, origin).await }).await
    }

    async fn noted(&self, kind: Kind, request: Request, origin: Origin) -> Answer {
        let begin = Instant::now();
        let detail = |call| audit::detail((&request.user, &origin.address), call);
        let calls = if self.audit.is_some() { request.body.calls() } else { &[] };
        let details: Vec<Option<String>> = calls.iter().map(detail).collect();
        let Answered { answer, permissions } = self.answer(kind, request).await;
        if let Some(audit) = &self.audit {
            let at_ms = self.shared.now().wall_ms;
            let (each, whole) = match &answer {
                Ok(Reply::Batch(answers)) => (answers.as_slice(), None),
                whole => (&[][..], Some(whole)),
            };
            let answers = each.iter().chain(whole.into_iter().cycle());
            // Reads log nobody's permissions.
            let permissions = permissions.into_iter().chain(std::iter::repeat(None));
            for ((detail, permissions), answer) in details.into_iter().zip(permissions).zip(answers)
            {
                let line = detail
                    .and_then(|detail| audit::line((detail, permissions, origin.protocol), answer));
                if let Some(line) = line {
                    audit.note(at_ms, line).await;
                }
            }
        }
        self.load.note(kind, begin, &answer);
        answer
    }

    /// Answers a call on the way of its kind.
    pub(super) async fn answer(&self, kind: Kind, request: Request) -> Answered {
        let membership = self.shared.groups.of(&request.user).await;
        match (kind, &request.body) {
            (Kind::Read, _) => self.shared.read(&request, &membership).await.into(),
            (Kind::Order, Body::One(order)) => {
                self.administer(order, membership.caller(&request.user)).await.into()
            }
            // Among the calls of a batch the core refuses orders.
            _ => {
                let request = Box::new(request);
                let asked = self.shared.host.ask(|sender| Event::Call(request, membership, sender));
                asked.await.unwrap_or_else(|end| Err(ended(end)).into())
            }
        }
    }
}
