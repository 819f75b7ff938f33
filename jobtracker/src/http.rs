//! The HTTP interface: signed calls of clients and workers, progress as server-sent events, health. Each route declares its audience
//! ([`daemon::access`]).
//!
//! | module | |
//! |---|---|
//! | [`api`] | routes for scripts and monitors |
//! | [`pages`] | pages for people; drawn by [`crate::web`] |
//! | [`logs`] | logs of attempts, from the workers |
//! | [`desk`], [`shared`] | how handlers ask the host: as one user, and in general |
//! | [`picture_cache`] | pictures of jobs that are over |

mod api;
mod desk;
mod logs;
mod pages;
mod picture_cache;
mod shared;
#[cfg(test)]
pub(crate) mod tests;

#[cfg(any(test, fuzzing))]
pub(crate) use self::api::xml;
pub(crate) use self::picture_cache::PictureCache;
pub(crate) use self::shared::Shared;

use std::convert::Infallible;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::sse::{Event as Sent, KeepAlive, Sse};
use axum::response::{self, IntoResponse, Response};
use axum::routing::get;
use daemon::access::{Access, Audience, Routes};
use daemon::auth::Authenticator;
use daemon::rpc::{self, Sender};
use futures_util::stream;
use protocol::auth::Role;
use protocol::jobs;
use protocol::{JobId, RemoteError, tracker};
use transport::rpc::Health;

use self::desk::Desk;
use self::shared::{Refused, named};
use crate::audit::Origin;
use crate::server::Event;

/// Largest call of a client: the description of a job with a million splits fits the journal's record, and therefore this.
const CLIENT_BODY_BYTES_MAX: usize = 16 << 20;
/// Largest message of a worker: reports of some thousand attempts with their counters.
const WORKER_BODY_BYTES_MAX: usize = 64 << 20;

/// All routes.
pub(crate) fn routes(shared: Shared, access: &Access, auth: Authenticator) -> Routes {
    let (for_clients, for_workers) = (shared.clone(), shared.clone());
    let client_calls = rpc::message_from(
        auth.clone(),
        &[Role::Client],
        CLIENT_BODY_BYTES_MAX,
        move |sender: Sender, request: jobs::Request| {
            let shared = for_clients.clone();
            let address = sender.address.map(|address| address.to_canonical().to_string());
            let origin = Origin { address: address.unwrap_or_default(), protocol: "rpc" };
            async move {
                RemoteError::check_version(request.version, jobs::VERSION)?;
                shared.client(request, origin).await
            }
        },
    );
    let worker_calls = rpc::message(
        auth,
        &[Role::Worker],
        WORKER_BODY_BYTES_MAX,
        move |request: tracker::Request| {
            let shared = for_workers.clone();
            async move { shared.host.ask(|reply| Event::Worker(request, reply)).await? }
        },
    );
    Routes::new(access)
        .route("/rpc", Audience::Signers, client_calls)
        .route("/rpc/worker", Audience::Signers, worker_calls)
        .route("/healthz", Audience::Anybody, get(health))
        .route("/api/v1/jobs/{id}/events", Audience::Users, get(events))
        .merge(pages::routes(access, &shared.sessions))
        .merge(api::routes(access))
        .with_state(shared)
}

async fn health(State(shared): State<Shared>) -> Result<Response, Refused> {
    let state = shared.host.view(|core, _| (core.epoch().0, core.status()));
    let (epoch, status) = state.await.map_err(Refused)?;
    let more = [
        ("epoch", epoch),
        ("worker_count", u64::from(status.worker_count)),
        ("slot_count", u64::from(status.slot_count)),
        ("busy_slot_count", u64::from(status.busy_slot_count)),
        ("running_job_count", u64::from(status.running_job_count)),
    ];
    let health = Health {
        service: "jobtracker".to_owned(),
        secret_file: Some(shared.secret_file.clone()),
        ready: status.worker_count > 0,
        more: more.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect(),
    };
    Ok(Json(health).into_response())
}

/// Reports on a job until it is final.
async fn events(desk: Desk, Path(id): Path<String>) -> response::Result<Response> {
    let id: JobId = named(&id)?;
    let receiver = desk.watch(id).await?;
    let pictures = stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        receiver.changed().await.ok()?;
        let report = Arc::clone(&receiver.borrow_and_update());
        let json = serde_json::to_string(&*report).ok()?;
        let next = (!report.state.is_final()).then_some(receiver);
        Some((Ok::<_, Infallible>(Sent::default().data(json)), next))
    });
    Ok(Sse::new(pictures).keep_alive(KeepAlive::default()).into_response())
}
