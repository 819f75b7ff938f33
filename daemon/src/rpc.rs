//! Routes that take one signed postcard message and answer with another.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use hyper::body::Body as _;
use protocol::auth::{
    ANSWER_HEADER, BodyDigest, REFUSED_HEADER, REFUSED_SECRET, Role, SCHEME, SignedRequest,
    hello_digest,
};
use protocol::wire::WireError;
use protocol::wire::bundle::{self, BundleError, MESSAGE_BYTES_MAX};
use protocol::{RemoteError, wire};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::auth::{AuthError, Authenticator, BodyError, Checked, Seal, Signer};
use crate::serve::line::Peer;

/// A route that decodes a signed message, passes it to `handler` and encodes its answer.
///
/// `body_bytes_max` limits the request. One that is not signed by one of `roles` gets 401, 403 or 421, and its body is not read; one that does not decode gets
/// 400.
pub fn message<S, Q, A, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    body_bytes_max: usize,
    handler: H,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
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
    /// The remote address, if the service knows it.
    pub address: Option<IpAddr>,
    /// Who signed it.
    pub signer: Signer,
}

/// As [`message`]; `handler` also gets the sender.
pub fn message_from<S, Q, A, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    body_bytes_max: usize,
    handler: H,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(Sender, Q) -> F + Send + Sync + 'static,
    F: Future<Output = Result<A, RemoteError>> + Send + 'static,
{
    let decode = |bytes: &[u8]| wire::decode::<Q>(bytes, "request");
    posted(auth, (roles, body_bytes_max), decode, move |sender, message| {
        let answer = handler(sender, message);
        async move { wire::encode(&answer.await) }
    })
}

/// A route for several messages of a route that [`message_from`] made, in one body ([`protocol::wire::bundle`]); `handler` gets them together and gives an answer for
/// each, in order. One that does not decode has all refused.
pub fn bundle_from<S, Q, A, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    handler: H,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
    Q: DeserializeOwned + Send + 'static,
    A: Serialize + Send + 'static,
    H: Fn(Sender, Vec<Q>) -> F + Send + Sync + 'static,
    F: Future<Output = Vec<Result<A, RemoteError>>> + Send + 'static,
{
    posted(auth, (roles, bundle::BYTES_MAX), decode_bundle::<Q>, move |sender, messages| {
        let answers = handler(sender, messages);
        async move { answers.await.iter().fold(Vec::new(), bundle::append_encoded) }
    })
}

/// A route for signed bodies that `decode` makes messages of; `answer` makes the body of the answer.
fn posted<S, M, E, F>(
    auth: Authenticator,
    limits: (&'static [Role], usize),
    decode: impl Fn(&[u8]) -> Result<M, E> + Copy + Send + Sync + 'static,
    answer: impl Fn(Sender, M) -> F + Send + Sync + 'static,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
    M: Send + 'static,
    E: std::error::Error + Send + 'static,
    F: Future<Output = Vec<u8>> + Send + 'static,
{
    let answer = Arc::new(answer);
    post(move |request: Request| {
        let (auth, answer) = (auth.clone(), Arc::clone(&answer));
        async move {
            match receive(&auth, request, limits, decode).await {
                Ok((sender, seal, message)) => sealed(answer(sender, message).await, &seal),
                Err(refusal) => refusal,
            }
        }
    })
}

fn decode_bundle<Q: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<Q>, MessageError> {
    let messages = bundle::messages(bytes)?;
    if let Some(long) = messages.iter().find(|message| message.len() > MESSAGE_BYTES_MAX) {
        return Err(MessageError::Long { bytes: long.len() });
    }
    let decoded = messages.into_iter().map(|message| wire::decode(message, "request"));
    Ok(decoded.collect::<Result<_, _>>()?)
}

/// Why the bytes of a request are no message.
#[derive(Debug, thiserror::Error)]
enum MessageError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error(
        "a message of {bytes} bytes in a bundle: one of more than {MESSAGE_BYTES_MAX} goes alone"
    )]
    Long { bytes: usize },
}

/// Takes a request whose signature is one of `roles` and whose body has at most so many bytes; or what it is refused with.
async fn receive<M, E: std::error::Error + 'static>(
    auth: &Authenticator,
    request: Request,
    (roles, body_bytes_max): (&[Role], usize),
    decode: impl FnOnce(&[u8]) -> Result<M, E>,
) -> Result<(Sender, Seal, M), Response> {
    let (parts, body) = request.into_parts();
    let checked = match authenticate(auth, &parts, roles) {
        Ok(checked) => checked,
        Err(error) => return Err(unread(refuse(error), &body)),
    };
    let read = auth.bodies().read(&checked, body, body_bytes_max).await;
    let (bytes, room) = read.map_err(|error| closing(refuse_body(error)))?;
    let message = decode(&bytes);
    drop((bytes, room));
    let message = message.map_err(|error| {
        (StatusCode::BAD_REQUEST, protocol::error::chain(&error)).into_response()
    })?;
    let address = parts.extensions.get::<Peer>().map(|peer| peer.address.ip());
    let Checked { signer, seal, .. } = checked;
    Ok((Sender { address, signer }, seal, message))
}

/// A GET route for signed requests; `handler` gets the signer and the request.
pub fn signed_get<S, H, F>(
    auth: Authenticator,
    roles: &'static [Role],
    handler: H,
) -> MethodRouter<S>
where
    S: Clone + Send + Sync + 'static,
    H: Fn(Signer, Request) -> F + Send + Sync + 'static,
    F: Future<Output = Response> + Send + 'static,
{
    let handler = Arc::new(handler);
    get(move |request: Request| {
        let (auth, handler) = (auth.clone(), Arc::clone(&handler));
        async move {
            let (parts, body) = request.into_parts();
            match check(&auth, &parts, roles) {
                Ok(signer) => handler(signer, Request::from_parts(parts, body)).await,
                Err(error) => unread(refuse(error), &body),
            }
        }
    })
}

/// A daemon's identity at `/hello`, for those who can sign.
pub fn hello<S: Clone + Send + Sync + 'static>(auth: Authenticator) -> MethodRouter<S> {
    get(move |request: Request| {
        let auth = auth.clone();
        async move {
            let (parts, body) = request.into_parts();
            match auth.check_hello(authorization(&parts), signed(&parts)) {
                Ok(checked) => {
                    trust(&parts, &checked.signer);
                    let certificate = parts.extensions.get::<Peer>().and_then(|it| it.certificate);
                    let hello = wire::encode(&auth.hello());
                    let digest = hello_digest(&hello, certificate);
                    sealed_over(digest, hello, &checked.seal)
                }
                Err(error) => unread(refuse(error), &body),
            }
        }
    })
}

/// A layer for routes that are open to all: a signed request gets a signed answer, and a wrong signature is refused.
pub async fn seal_if_signed(
    State(auth): State<Authenticator>,
    request: Request,
    next: Next,
) -> Response {
    let (parts, body) = request.into_parts();
    if is_signed(&parts)
        && let Err(error) = check(&auth, &parts, &[Role::Client])
    {
        return unread(refuse(error), &body);
    }
    next.run(Request::from_parts(parts, body)).await
}

/// True if a request claims to be signed in our scheme.
pub fn is_signed(parts: &Parts) -> bool {
    authorization(parts).is_some_and(|header| header.split(' ').next() == Some(SCHEME))
}

/// Returns who signed a request without a body. The answer will be signed on its way out.
///
/// # Errors
/// [`AuthError`].
pub fn check(auth: &Authenticator, parts: &Parts, roles: &[Role]) -> Result<Signer, AuthError> {
    let checked = authenticate(auth, parts, roles)?;
    if checked.body != BodyDigest::EMPTY {
        return Err(AuthError::Wrong);
    }
    if let Some(peer) = parts.extensions.get::<Peer>() {
        peer.line.seal_next(checked.seal);
    }
    Ok(checked.signer)
}

fn authenticate(auth: &Authenticator, parts: &Parts, roles: &[Role]) -> Result<Checked, AuthError> {
    let checked = auth.check(authorization(parts), signed(parts), roles)?;
    trust(parts, &checked.signer);
    Ok(checked)
}

/// Marks the connection as belonging to somebody who can sign.
fn trust(parts: &Parts, signer: &Signer) {
    if let Some(peer) = parts.extensions.get::<Peer>() {
        peer.line.trust(signer.owner());
    }
}

fn authorization(parts: &Parts) -> Option<&str> {
    parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok())
}

fn signed(parts: &Parts) -> SignedRequest<'_> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    SignedRequest { method: parts.method.as_str(), target }
}

/// The answer to a request that is refused.
pub fn refuse(error: AuthError) -> Response {
    let status = match error {
        AuthError::Role { .. } => StatusCode::FORBIDDEN,
        AuthError::Misdirected => StatusCode::MISDIRECTED_REQUEST,
        AuthError::Overtaken | AuthError::Flood => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::UNAUTHORIZED,
    };
    let mut response = (status, error.to_string()).into_response();
    if matches!(error, AuthError::Missing | AuthError::Wrong) {
        let secret = HeaderValue::from_static(REFUSED_SECRET);
        response.headers_mut().insert(HeaderName::from_static(REFUSED_HEADER), secret);
    }
    response
}

fn refuse_body(error: BodyError) -> Response {
    let status = match error {
        BodyError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        BodyError::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
        BodyError::Cut | BodyError::Other => StatusCode::BAD_REQUEST,
    };
    (status, error.to_string()).into_response()
}

/// Ends the connection after an answer, unless the request has no body left unread on it.
pub(crate) fn unread(response: Response, body: &Body) -> Response {
    if body.is_end_stream() { response } else { closing(response) }
}

fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn sealed(bytes: Vec<u8>, seal: &Seal) -> Response {
    sealed_over(BodyDigest::of(&bytes), bytes, seal)
}

fn sealed_over(digest: BodyDigest, bytes: Vec<u8>, seal: &Seal) -> Response {
    let header = seal.header(StatusCode::OK.as_u16(), Some(digest));
    let mut response = Response::new(Body::from(bytes));
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    insert_seal(&mut response, &header);
    response
}

/// Adds the signature header to an answer.
pub(crate) fn insert_seal<B>(response: &mut Response<B>, header: &str) {
    let value = HeaderValue::from_str(header).expect("numbers and hexadecimal digits");
    response.headers_mut().insert(HeaderName::from_static(ANSWER_HEADER), value);
}
