//! Calls of clients: answered, counted and logged in the audit log.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use daemon::Shutdown;
use daemon::shield::shield;
use futures_util::future::join_all;
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

/// A call that is being answered, as far as it is counted and logged.
struct Begun {
    kind: Kind,
    protocol: &'static str,
    /// Of each call, if the audit log has it.
    details: Vec<Option<String>>,
    at: Instant,
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

    /// Answers calls that came together: brief changes in one turn of the core.
    pub(crate) async fn clients(&self, requests: Vec<(Request, Origin)>) -> Vec<Answer> {
        let is_change = |(request, _): &(Request, Origin)| {
            request.body.kind() == Kind::Change && request.body.is_brief()
        };
        if !requests.iter().all(is_change) {
            let answers = requests.into_iter().map(|(request, from)| self.client(request, from));
            return join_all(answers).await;
        }
        let service = self.clone();
        shield(async move {
            let begun: Vec<Begun> =
                requests.iter().map(|(request, from)| service.begin(request, from)).collect();
            let mut events = Vec::with_capacity(requests.len());
            for (request, _) in requests {
                let membership = service.shared.groups.of(&request.user).await;
                let request = Box::new(request);
                events.push(move |sender| Event::Call(request, membership, sender));
            }
            let mut answers = Vec::with_capacity(begun.len());
            let outcomes = service.shared.host.ask_all(events).await;
            for (begun, outcome) in begun.into_iter().zip(outcomes) {
                let answered = outcome.unwrap_or_else(|end| Err(ended(end)).into());
                answers.push(service.end(begun, answered).await);
            }
            answers
        })
        .await
    }

    async fn noted(&self, kind: Kind, request: Request, origin: Origin) -> Answer {
        let begun = self.begin(&request, &origin);
        let answered = self.answer(kind, request).await;
        self.end(begun, answered).await
    }

    /// What of a call is noted when it is answered.
    fn begin(&self, request: &Request, origin: &Origin) -> Begun {
        let detail = |call| audit::detail((&request.user, &origin.address), call);
        let calls = if self.audit.is_some() { request.body.calls() } else { &[] };
        let details = calls.iter().map(detail).collect();
        let (kind, protocol) = (request.body.kind(), origin.protocol);
        Begun { kind, protocol, details, at: Instant::now() }
    }

    /// Logs an answered call in the audit log, and counts it.
    async fn end(&self, begun: Begun, answered: Answered) -> Answer {
        let Begun { kind, protocol, details, at } = begun;
        let Answered { answer, permissions } = answered;
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
                let line =
                    detail.and_then(|detail| audit::line((detail, permissions, protocol), answer));
                if let Some(line) = line {
                    audit.note(at_ms, line).await;
                }
            }
        }
        self.load.note(kind, at, &answer);
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
