//! Sessions at a daemon's pages: who is signed in, and which of their requests may change something.
//!
//! Whoever can sign with the cluster secret makes a link (`hanno admin open`) that names a user. The link works once, within five minutes. It gives the browser
//! a cookie that scripts cannot read and other sites cannot send. Sessions are kept in memory: they end when their time is over, when the user signs out, and
//! with the daemon. Streams of events that began under a session end with it.
//!
//! Invariant: a request changes something only with all three of a session, an `Origin` that is this daemon, and the header [`HEADER`]. A form cannot send that
//! header, and a script elsewhere would need a preflight, which nothing here allows. The cookie alone would not suffice: everything that listens on the same
//! host shares it.

mod cookie;
mod login;
mod named;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{FromRef, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use maud::html;
use parking_lot::Mutex;
use protocol::ClientId;
use protocol::auth::{LOGIN_METHOD, Role, SignedRequest, login_target};
use tokio::sync::watch;

pub use self::cookie::cookie;
pub use self::named::{CALL_HEADER, NamedChange};

use crate::auth::{AuthError, Authenticator};
use crate::page;
use crate::params::{BadParameter, Given, Parameters};

/// Header that scripts of our pages send with requests that change something.
pub const HEADER: &str = "x-hanno-page";
/// How long one stays signed in: a working day.
const SESSION_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Most sessions at once; beyond that the oldest ends of whoever has most. Each is one person's browser.
const SESSIONS_MAX: usize = 1_000;
/// Longest name of a user.
const USER_BYTES_MAX: usize = 255;

/// The sessions at one daemon's pages. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sessions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    auth: Authenticator,
    service: &'static str,
    cookie: String,
    open: Mutex<HashMap<String, Session>>,
}

#[derive(Clone, Debug)]
struct Session {
    user: String,
    since: Instant,
    /// As whom the daemon knows its changes.
    client: ClientId,
    /// Whoever waits at it sees it dropped with the session.
    end: watch::Sender<()>,
}

/// Why a request may not change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// Nobody is signed in.
    #[error("nobody is signed in here: run `hanno admin open` and follow the link that it prints")]
    Missing,
    /// It does not come from a page of this daemon.
    #[error("changes are only taken from this daemon's own pages")]
    Foreign,
    /// The page named the change in a wrong way.
    #[error("the header x-hanno-call is a whole number of at most 64 bits")]
    Name,
}

impl IntoResponse for SessionError {
    fn into_response(self) -> Response {
        let status = match self {
            SessionError::Missing => StatusCode::UNAUTHORIZED,
            SessionError::Foreign => StatusCode::FORBIDDEN,
            SessionError::Name => StatusCode::BAD_REQUEST,
        };
        (status, axum::Json(serde_json::json!({ "message": self.to_string() }))).into_response()
    }
}

impl Sessions {
    /// Sessions at `service` (`namenode`, `jobtracker`), which listens on `address`: browsers keep cookies per host, not per port, so the name of its cookie
    /// distinguishes it from its neighbours.
    pub fn new(auth: Authenticator, service: &'static str, address: &str) -> Self {
        let port = address.rsplit_once(':').map_or("", |(_, port)| port);
        let cookie = format!("hanno-{service}-{port}");
        Sessions { inner: Arc::new(Inner { auth, service, cookie, open: Mutex::default() }) }
    }

    /// Who is signed in.
    pub fn user(&self, headers: &HeaderMap) -> Option<String> {
        self.session(headers).map(|session| session.user)
    }

    fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let id = self.id(headers)?;
        let open = self.inner.open.lock();
        open.get(id).filter(|session| session.since.elapsed() < SESSION_MAX).cloned()
    }

    /// Waits for the end of the session that a request belongs to; `None` if it belongs to none.
    pub(crate) fn end_of(&self, headers: &HeaderMap) -> Option<impl Future<Output = ()> + use<>> {
        let Session { since, end, .. } = self.session(headers)?;
        let (mut end, rest) = (end.subscribe(), SESSION_MAX.saturating_sub(since.elapsed()));
        Some(async move {
            let ended = async { while end.changed().await.is_ok() {} };
            // What is over by its time is removed when the next session begins.
            let _ = tokio::time::timeout(rest, ended).await;
        })
    }

    /// The user in whose name a request changes something.
    fn acting(&self, headers: &HeaderMap) -> Result<String, SessionError> {
        let has_header = headers.get(HEADER).is_some_and(|value| value == "1");
        if is_from_here(headers) != Some(true) || !has_header {
            return Err(SessionError::Foreign);
        }
        self.user(headers).ok_or(SessionError::Missing)
    }

    fn id<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        cookie(headers, &self.inner.cookie)
    }

    /// Begins a session of `user`; returns its cookie, which over an encrypted connection is for such connections alone.
    fn begin(&self, user: &str, is_encrypted: bool) -> String {
        let id = format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let mut open = self.inner.open.lock();
        open.retain(|_, session| session.since.elapsed() < SESSION_MAX);
        if open.len() >= SESSIONS_MAX {
            let mut counts = HashMap::new();
            open.values().for_each(|session| *counts.entry(&session.user).or_insert(0) += 1);
            let leaving = open.iter().max_by_key(|(_, session)| {
                let count: usize = counts[&session.user];
                (count, Reverse(session.since))
            });
            if let Some(id) = leaving.map(|(id, _)| id.clone()) {
                open.remove(&id);
            }
        }
        let (user, client) = (user.to_owned(), ClientId(rand::random()));
        let end = watch::Sender::new(());
        open.insert(id.clone(), Session { user, since: Instant::now(), client, end });
        self.cookie(&id, SESSION_MAX, is_encrypted)
    }

    /// The cookie of a new session, as a browser sends it.
    #[cfg(test)]
    pub(crate) fn begin_for_test(&self, user: &str) -> String {
        self.begin(user, false).split(';').next().unwrap().to_owned()
    }

    #[cfg(test)]
    pub(crate) fn end_for_test(&self, cookie: &str) {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, cookie.parse().unwrap());
        self.end(&headers, false);
    }

    fn end(&self, headers: &HeaderMap, is_encrypted: bool) -> String {
        if let Some(id) = self.id(headers) {
            self.inner.open.lock().remove(id);
        }
        self.cookie("", Duration::ZERO, is_encrypted)
    }

    fn cookie(&self, id: &str, age: Duration, is_encrypted: bool) -> String {
        let (name, age) = (&self.inner.cookie, age.as_secs());
        let secure = if is_encrypted { "; Secure" } else { "" };
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age}{secure}")
    }

    fn check(&self, link: &Link) -> Result<(), AuthError> {
        if !is_user_name(&link.user) {
            return Err(AuthError::Wrong);
        }
        let target = login_target(self.inner.service, &link.user);
        let request = SignedRequest { method: LOGIN_METHOD, target: &target };
        let proof = link.proof.replace('.', " ");
        self.inner.auth.check(Some(&proof), request, &[Role::Client]).map(drop)
    }
}

/// A signed-in user who may change something. A handler extracts it first, so it reads nothing that the request names for anybody else.
#[derive(Clone, Debug)]
pub struct Actor(pub String);

impl<S: Sync> FromRequestParts<S> for Actor
where
    Sessions: FromRef<S>,
{
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, SessionError> {
        Sessions::from_ref(state).acting(&parts.headers).map(Actor)
    }
}

/// Middleware: refuses changes that a browser sends from elsewhere, on routes that accept names or tokens by themselves. Programs send no `Origin`.
pub async fn refuse_foreign(request: Request, next: Next) -> Response {
    let changes = !matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS");
    if changes && is_foreign(request.headers()) {
        return SessionError::Foreign.into_response();
    }
    next.run(request).await
}

/// True if a browser sent this from a page of another host.
pub fn is_foreign(headers: &HeaderMap) -> bool {
    is_from_here(headers) == Some(false)
}

/// Whether a browser sent this from a page of the same host as the request; `None` if it comes from no browser.
fn is_from_here(headers: &HeaderMap) -> Option<bool> {
    let origin = headers.get(header::ORIGIN)?.to_str().ok();
    let origin = origin.and_then(|origin| origin.split_once("://")).map(|(_, origin)| origin);
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    Some(origin.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host)))
}

#[derive(Debug, Default)]
struct Link {
    user: String,
    proof: String,
}

impl Parameters for Link {
    fn read(given: &Given) -> Result<Self, BadParameter> {
        let (user, proof) = (given.text_or_empty("user")?, given.text_or_empty("proof")?);
        if proof.is_empty() && !user.is_empty() {
            let (name, why) = ("proof".to_owned(), "a link has both".to_owned());
            return Err(BadParameter::Missing { name, why });
        }
        Ok(Link { user, proof })
    }
}

/// True if a text can be the name of a user.
pub(crate) fn is_user_name(text: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c.is_whitespace();
    !text.is_empty() && text.len() <= USER_BYTES_MAX && !text.contains(is_odd)
}

/// The answer to a browser without a signed-in user.
pub(crate) fn refused_page() -> Response {
    explain(StatusCode::UNAUTHORIZED, Some("This is shown to those who are signed in."))
}

fn explain(status: StatusCode, reason: Option<&str>) -> Response {
    let content = html! {
        h1 { "Signing in" }
        @if let Some(reason) = reason { div.alert.bad { (reason) } }
        p { "Who is not signed in sees how the cluster is, not what is in it. To see more and to change something, sign in from a terminal:" }
        pre { "hanno admin open" }
        p {
            "It prints a link for each daemon that signs this browser in, once, under your name; " code { "--user NAME" }
            " asks for another. You stay signed in for 12 hours, until you sign out, or until the daemon restarts."
        }
        p { a href="/" { "Back to the overview" } }
    };
    let site =
        page::Site { name: "Hanno", entries: &[("/", "Overview")], search: None, has_login: true };
    let frame =
        page::Frame { site, title: "Signing in", place: "", live: None, other: None, user: None };
    let mut response = frame.answer(&content);
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body as Sent;
    use axum::http::HeaderValue;
    use axum::middleware::from_fn;
    use protocol::auth::{BodyDigest, Key, Nonce, Occasion, Service, Signature};
    use tower::ServiceExt;

    fn sessions() -> (Sessions, Key) {
        let secret = Key::new([1; 32]);
        (
            Sessions::new(
                Authenticator::new(&secret, Service::Namenode),
                "namenode",
                "127.0.0.1:9870",
            ),
            secret,
        )
    }

    fn link((sessions, secret): (&Sessions, &Key), service: &str, user: &str, number: u64) -> Link {
        let target = login_target(service, user);
        let request = SignedRequest { method: LOGIN_METHOD, target: &target };
        let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now_ms = u64::try_from(elapsed.as_millis()).unwrap();
        let key = Role::Client.key(secret).ready();
        let to = sessions.inner.auth.hello().incarnation;
        let nonce = Nonce { stream: 1, number };
        let on = Occasion { time_ms: now_ms, nonce, to, body: BodyDigest::EMPTY };
        let proof = Signature::sign(&key, Role::Client, on, request).to_header();
        Link { user: user.to_owned(), proof: proof.replace(' ', ".") }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn a_link_is_good_once_for_its_user_at_its_service() {
        let (sessions, secret) = sessions();
        let good = link((&sessions, &secret), "namenode", "alice", 1);
        assert_eq!(sessions.check(&good), Ok(()));
        assert_eq!(sessions.check(&good), Err(AuthError::Replayed));
        let other =
            Link { user: "bob".to_owned(), ..link((&sessions, &secret), "namenode", "alice", 2) };
        assert_eq!(sessions.check(&other), Err(AuthError::Wrong));
        assert_eq!(
            sessions.check(&link((&sessions, &secret), "jobtracker", "alice", 3)),
            Err(AuthError::Wrong)
        );
        assert_eq!(
            sessions.check(&link((&sessions, &secret), "namenode", "a\nb", 4)),
            Err(AuthError::Wrong)
        );
        let forged = link((&sessions, &Key::new([2; 32])), "namenode", "alice", 5);
        assert_eq!(sessions.check(&forged), Err(AuthError::Wrong));
    }

    #[test]
    fn a_change_needs_session_origin_and_header() {
        let (sessions, _) = sessions();
        let cookie = sessions.begin("alice", false);
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; "), "{cookie}");
        let cookie = cookie.split(';').next().unwrap();
        let (host, own) = (("host", "localhost:9870"), ("origin", "http://localhost:9870"));
        let (told, cookie) = ((HEADER, "1"), ("cookie", cookie));
        let acting = |pairs: &[_]| sessions.acting(&headers(pairs));
        assert_eq!(acting(&[host, own, told, cookie]).as_deref(), Ok("alice"));
        for foreign in [
            &[host, told, cookie][..],
            &[host, own, cookie],
            &[own, told, cookie],
            &[host, ("origin", "http://localhost:8088"), told, cookie],
            &[host, ("origin", "null"), told, cookie],
            &[host, own, (HEADER, "0"), cookie],
        ] {
            assert_eq!(acting(foreign), Err(SessionError::Foreign), "{foreign:?}");
        }
        let guess = ("cookie", "hanno-namenode-9870=00");
        assert_eq!(acting(&[host, own, told, guess]), Err(SessionError::Missing));
        assert_eq!(acting(&[host, own, told]), Err(SessionError::Missing));
        sessions.end(&headers(&[cookie]), false);
        assert_eq!(acting(&[host, own, told, cookie]), Err(SessionError::Missing));
    }

    #[tokio::test]
    async fn what_a_browser_sends_from_elsewhere_changes_nothing() {
        let answer = async |method: &str, origin: Option<&[u8]>| {
            let mut request = Request::builder().method(method).uri("/").header("host", "h:1");
            if let Some(origin) = origin {
                request = request.header("origin", HeaderValue::from_bytes(origin).unwrap());
            }
            let routes = Router::new().fallback(async || "done").layer(from_fn(refuse_foreign));
            routes.oneshot(request.body(Sent::empty()).unwrap()).await.unwrap().status()
        };
        let (done, foreign) = (StatusCode::OK, StatusCode::FORBIDDEN);
        for (method, origin, expected) in [
            ("PUT", None, done),
            ("PUT", Some(&b"http://h:1"[..]), done),
            ("PUT", Some(b"http://H:1"), done),
            ("GET", Some(b"http://elsewhere"), done),
            ("PUT", Some(b"http://elsewhere"), foreign),
            ("POST", Some(b"null"), foreign),
            ("DELETE", Some(b"http://h:1\xff"), foreign),
        ] {
            assert_eq!(answer(method, origin).await, expected, "{method} {origin:?}");
        }
    }

    #[test]
    fn sessions_are_bounded() {
        let (sessions, _) = sessions();
        let (first, second) = (sessions.begin("first", false), sessions.begin("more", false));
        (1..SESSIONS_MAX).for_each(|_| drop(sessions.begin("more", false)));
        assert_eq!(sessions.inner.open.lock().len(), SESSIONS_MAX);
        let user = |cookie: &str| {
            let cookie = cookie.split(';').next().unwrap().to_owned();
            sessions.user(&headers(&[("cookie", &cookie)]))
        };
        assert_eq!((user(&first).as_deref(), user(&second)), (Some("first"), None));
    }
}
