//! What monitors ask for: `/metrics` for Prometheus ([`metrics`]), `/jmx`, `/isActive` and `/startupProgress` for what was built
//! around Hadoop ([`jmx`]); and `/fsck` ([`fsck`]).
//!
//! All but the last are made from one reading of the state, without a signature, and name no user and no path.

mod fsck;
mod jmx;
mod metrics;
mod picture;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use daemon::auth::Authenticator;
use daemon::beans;
use daemon::params::Params;
use protocol::RemoteError;
use protocol::namenode::calls;

use self::picture::Picture;
use crate::service::Local;

#[derive(Clone)]
struct Monitor {
    web: Local,
    address: String,
}

/// The routes.
pub(crate) fn router(web: Local, auth: Authenticator, address: String) -> Router {
    let config = Arc::clone(&web.service().config);
    let checks = fsck::Fsck::new(auth, config, &address);
    Router::new().route("/fsck", get(fsck::fsck)).with_state(checks).merge(figures(web, address))
}

fn figures(web: Local, address: String) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/prom", get(metrics))
        .route("/jmx", get(jmx))
        .route("/isActive", get(is_active))
        .route("/startupProgress", get(startup_progress))
        .with_state(Monitor { web, address })
}

impl Monitor {
    async fn picture(&self) -> Result<Picture, Response> {
        let refused =
            |error: RemoteError| (StatusCode::SERVICE_UNAVAILABLE, error.message).into_response();
        let status = self.web.query(calls::ClusterStatus).await.map_err(refused)?;
        let room = self.web.query(calls::Room).await.map_err(refused)?;
        let nodes = self.web.query(calls::Datanodes).await.map_err(refused)?;
        let service = self.web.service();
        Ok(Picture {
            status,
            room,
            nodes,
            journal: service.journal.stats(),
            load: service.load.clone(),
            address: self.address.clone(),
            up: service.shared.host.now().at,
            startup: service.shared.startup.progress(),
        })
    }
}

async fn metrics(State(monitor): State<Monitor>) -> Result<Response, Response> {
    Ok(daemon::metrics::answer(&metrics::registry(&monitor.picture().await?)))
}

/// What load balancers ask of Hadoop's NameNodes; there is no standby.
async fn is_active() -> &'static str {
    "I am Active!"
}

async fn startup_progress(State(monitor): State<Monitor>) -> Result<Response, Response> {
    Ok(Json(jmx::startup_progress(&monitor.picture().await?)).into_response())
}

async fn jmx(
    State(monitor): State<Monitor>,
    Params(wanted): Params<beans::Wanted>,
) -> Result<Response, Response> {
    Ok(beans::answer(jmx::beans(&monitor.picture().await?), &wanted))
}
