//! The routes for signing in and out.

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use super::{Actor, Link, Sessions, explain};
use crate::access::{Access, Audience, Routes};
use crate::auth::AuthError;
use crate::params::Params;
use crate::serve::line::Peer;

impl Sessions {
    /// The routes `/login` and `/logout`.
    pub fn routes<S: Clone + Send + Sync + 'static>(&self, access: &Access) -> Routes<S> {
        Routes::new(access)
            .route("/login", Audience::Anybody, get(login))
            .route("/logout", Audience::Changers, post(logout))
            .with_state(self.clone())
    }
}

async fn login(
    State(sessions): State<Sessions>,
    peer: Option<Extension<Peer>>,
    method: Method,
    Params(link): Params<Link>,
) -> Response {
    // Who only looks at a link, as programs do that show it to others, does not use it up.
    if link.proof.is_empty() || method == Method::HEAD {
        return explain(StatusCode::OK, None);
    }
    match sessions.check(&link) {
        Ok(()) => {
            tracing::info!(user = link.user, "signed in at the pages");
            let cookie = sessions.begin(&link.user, is_encrypted(peer));
            let headers = [(header::SET_COOKIE, &*cookie), (header::CACHE_CONTROL, "no-store")];
            (headers, Redirect::to("/")).into_response()
        }
        Err(error) => {
            let reason = match error {
                AuthError::Replayed => "This link was used before.".to_owned(),
                AuthError::Skew { .. } => "This link is too old.".to_owned(),
                AuthError::Misdirected => {
                    "This link was made before the daemon started, or for another one.".to_owned()
                }
                error => format!("This link is not good: {error}."),
            };
            explain(StatusCode::FORBIDDEN, Some(&reason))
        }
    }
}

async fn logout(
    _: Actor,
    State(sessions): State<Sessions>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    let cookie = [(header::SET_COOKIE, sessions.end(&headers, is_encrypted(peer)))];
    (cookie, axum::Json(serde_json::json!({}))).into_response()
}

fn is_encrypted(peer: Option<Extension<Peer>>) -> bool {
    peer.is_some_and(|Extension(peer)| peer.certificate.is_some())
}
