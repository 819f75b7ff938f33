//! Routes that carry one signed postcard message each way.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use protocol::auth::{Body as SignedBody, Role, SignedRequest};
use protocol::{RemoteError, wire};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{AuthError, Authenticator, Signer};
use crate::serve::Peer;

/// A route that decodes a signed message, hands it to `handler` and encodes its answer.
///
/// `body_bytes_max` bounds the request. A message that is not signed by one of `roles` is answered 401 or 403 and never
/// decoded; one that does not decode is answered 400.
pub fn message<Q, A, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    body_bytes_max: usize,
    handler: H,
) -> MethodRouter
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(Q) -> F + Send + Sync + 'static,
    F: Future<Output = Result<A, RemoteError>> + Send + 'static,
{
    message_from(auth, roles, body_bytes_max, move |_, message| handler(message))
}

/// Who sent a message.
#[derive(Clone, Debug)]
pub struct Sender {
    /// From where, if the service knows it.
    pub address: Option<IpAddr>,
    /// Who signed it.
    pub signer: Signer,
}

/// As [`message`]; `handler` also gets the sender.
pub fn message_from<Q, A, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    body_bytes_max: usize,
    handler: H,
) -> MethodRouter
where
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(Sender, Q) -> F + Send + Sync + 'static,
    F: Future<Output = Result<A, RemoteError>> + Send + 'static,
{
    let handler = Arc::new(handler);
    post(move |request: Request| {
        let (auth, handler) = (auth.clone(), Arc::clone(&handler));
        async move {
            let (bytes, parts) = match read_body(request, body_bytes_max).await {
                Ok(read) => read,
                Err(refusal) => return refusal,
            };
            let signer = match check(&auth, &parts, SignedBody::Bytes(&bytes), roles) {
                Ok(signer) => signer,
                Err(error) => return refuse(error),
            };
            let address = parts.extensions.get::<Peer>().map(|Peer(address)| address.ip());
            drop(parts);
            match wire::decode::<Q>(&bytes, "request") {
                Ok(message) => {
                    let answer: Result<A, RemoteError> =
                        handler(Sender { address, signer }, message).await;
                    binary(wire::encode(&answer))
                }
                Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
            }
        }
    })
}

/// A GET route that is signed; `handler` gets who signed it and the request.
pub fn signed_get<H, F>(auth: Authenticator, roles: &'static [Role], handler: H) -> MethodRouter
where
    H: Fn(Signer, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let handler = Arc::new(handler);
    get(move |request: Request| {
        let (auth, handler) = (auth.clone(), Arc::clone(&handler));
        async move {
            let (parts, body) = request.into_parts();
            match check(&auth, &parts, SignedBody::Bytes(b""), roles) {
                Ok(signer) => handler(signer, Request::from_parts(parts, body)).await,
                Err(error) => refuse(error),
            }
        }
    })
}

/// Who signed a request.
///
/// # Errors
/// [`AuthError`].
pub fn check(
    auth: &Authenticator,
    parts: &axum::http::request::Parts,
    body: SignedBody<'_>,
    roles: &[Role],
) -> Result<Signer, AuthError> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    auth.check(header, SignedRequest { method: parts.method.as_str(), target, body }, roles)
}

/// The answer to a request that is not let in.
pub fn refuse(error: AuthError) -> Response {
    let status = match error {
        AuthError::Role { .. } => StatusCode::FORBIDDEN,
        AuthError::Overtaken | AuthError::Flood => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNAUTHORIZED,
    };
    (status, error.to_string()).into_response()
}

async fn read_body(
    request: Request,
    bytes_max: usize,
) -> Result<(bytes::Bytes, axum::http::request::Parts), Response> {
    let (parts, body) = request.into_parts();
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok((collected.to_bytes(), parts)),
        Err(error) if error.is::<LengthLimitError>() => {
            Err(StatusCode::PAYLOAD_TOO_LARGE.into_response())
        }
        Err(_) => Err(StatusCode::BAD_REQUEST.into_response()),
    }
}

fn binary(bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
