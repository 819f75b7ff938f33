//! Who may see what a daemon serves: each route declares its audience when it is added, and one layer identifies the caller.
//!
//! | audience | the caller is identified by | anybody else gets |
//! |---|---|---|
//! | [`Audience::Anybody`] | nothing: health, figures, the form of the pages | |
//! | [`Audience::Users`] | a session at the pages; a signature with `user.name`; the name alone where names are trusted | 401 |
//! | [`Audience::Changers`] | a session and what a page of this daemon sends with it ([`crate::session::Actor`]) | 401, 403 |
//! | [`Audience::Signers`] | a signature by a role that the route accepts ([`crate::rpc`]) | 401, 403, 421 |
//!
//! Invariant: a route of [`Routes`] without an audience does not compile; a handler has a [`User`] only if the layer identified the caller.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use futures_util::StreamExt;
use protocol::auth::Role;
use serde::{Deserialize, Serialize};

use crate::auth::Authenticator;
use crate::serve::line::Peer;
use crate::session::{self, SessionError, Sessions, is_user_name};
use crate::{params, rpc};

/// The user of a request without a name where names are trusted: Hadoop's static user of its pages, who has no rights of their own.
pub const STATIC_USER: &str = "dr.who";
/// How a caller proves who it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Auth {
    /// A session, a delegation token, or the signature of a holder of the cluster secret.
    #[default]
    Token,
    /// `user.name` is trusted, as in Hadoop without Kerberos: whoever reaches a port can claim to be anyone, the superuser included.
    Simple,
}

/// The warning wherever names are trusted.
pub const SIMPLE_WARNING: &str = "auth = \"simple\": every user of this machine, and whoever reaches a port, may act as anybody over HTTP";

/// The audience of a route.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Audience {
    /// Everybody who reaches the port. Such a route names no user, no job, no file and no setting.
    Anybody,
    /// Users known by name; they get what that user may see.
    Users,
    /// Users who are signed in at the pages and send the request from one.
    Changers,
    /// Daemons, tasks and commands, by their signature.
    Signers,
}

impl fmt::Display for Audience {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Audience::Anybody => "anybody",
            Audience::Users => "users",
            Audience::Changers => "users, from a page",
            Audience::Signers => "signed calls",
        })
    }
}

/// The user who sent a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The remote address, if known.
    pub address: Option<IpAddr>,
    /// True if the holder of the cluster secret signed for the user.
    pub is_signed: bool,
}

impl<S: Sync> FromRequestParts<S> for User {
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, SessionError> {
        parts.extensions.get::<User>().cloned().ok_or(SessionError::Missing)
    }
}

/// How a daemon identifies callers. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Access {
    auth: Authenticator,
    sessions: Option<Sessions>,
    names: Auth,
}

/// Parameter with the name of the user.
const USER_NAME: &str = "user.name";

impl Access {
    /// Identifies callers by signatures, by the sessions of its pages if it has any, and by names if `names` allows it.
    pub fn new(auth: Authenticator, sessions: Option<Sessions>, names: Auth) -> Self {
        Access { auth, sessions, names }
    }

    /// Checks signatures.
    pub(crate) fn authenticator(&self) -> &Authenticator {
        &self.auth
    }

    /// The user who sent a request.
    #[allow(clippy::result_large_err, reason = "a refusal is the answer as it is sent")]
    fn user(&self, parts: &Parts) -> Result<User, Response> {
        let bad = |text: &'static str| (StatusCode::BAD_REQUEST, text).into_response();
        let address = parts.extensions.get::<Peer>().map(|peer| peer.address.ip().to_canonical());
        let named = || {
            let user = params::one(parts.uri.query().unwrap_or_default(), USER_NAME);
            match user.map_err(IntoResponse::into_response)? {
                Some(user) if !is_user_name(&user) => Err(bad("user.name is no name of a user\n")),
                user => Ok(user),
            }
        };
        if rpc::is_signed(parts) {
            rpc::check(&self.auth, parts, &[Role::Client]).map_err(rpc::refuse)?;
            let text = "a signed question says in whose name: ?user.name=NAME\n";
            return Ok(User { name: named()?.ok_or_else(|| bad(text))?, address, is_signed: true });
        }
        if let Some(name) = self.sessions.as_ref().and_then(|all| all.user(&parts.headers)) {
            return Ok(User { name, address, is_signed: false });
        }
        match self.names {
            Auth::Simple => {
                let name = named()?.unwrap_or_else(|| STATIC_USER.to_owned());
                Ok(User { name, address, is_signed: false })
            }
            Auth::Token => Err(self.nobody(parts)),
        }
    }

    /// The answer to a stranger: a page for a browser, otherwise an answer for programs.
    fn nobody(&self, parts: &Parts) -> Response {
        let accepts = parts.headers.get_all(header::ACCEPT).iter();
        let mut accepts = accepts.filter_map(|value| value.to_str().ok());
        let is_browser = accepts.any(|text| text.contains("text/html"));
        match self.sessions {
            Some(_) if is_browser => session::refused_page(),
            Some(_) => SessionError::Missing.into_response(),
            None => rpc::refuse(crate::auth::AuthError::Missing),
        }
    }
}

async fn find_out(State(access): State<Access>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match access.user(&parts) {
        Ok(user) => {
            let sessions = access.sessions.as_ref().filter(|_| !user.is_signed);
            let end = sessions.and_then(|sessions| sessions.end_of(&parts.headers));
            parts.extensions.insert(user);
            let response = next.run(Request::from_parts(parts, body)).await;
            match end.filter(|_| is_stream_of_events(&response)) {
                Some(end) => {
                    response.map(|body| Body::from_stream(body.into_data_stream().take_until(end)))
                }
                None => response,
            }
        }
        Err(refusal) => rpc::unread(refusal, &body),
    }
}

/// True for an answer that goes on as long as somebody listens; no other may end early, for it would pass for whole.
fn is_stream_of_events(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"))
}

/// Routes that declare their audience.
#[derive(Clone, Debug)]
pub struct Routes<S = ()> {
    access: Access,
    router: Router<S>,
    listed: Vec<(String, Audience)>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    /// An empty set.
    pub fn new(access: &Access) -> Self {
        Routes { access: access.clone(), router: Router::new(), listed: Vec::new() }
    }

    /// Adds the methods of a path for an audience.
    pub fn route(mut self, path: &str, audience: Audience, methods: MethodRouter<S>) -> Self {
        let Access { auth, .. } = &self.access;
        let methods = match audience {
            Audience::Anybody => {
                methods.route_layer(from_fn_with_state(auth.clone(), rpc::seal_if_signed))
            }
            Audience::Users => {
                methods.route_layer(from_fn_with_state(self.access.clone(), find_out))
            }
            Audience::Changers | Audience::Signers => methods,
        };
        self.router = Router::route(self.router, path, methods);
        self.listed.push((path.to_owned(), audience));
        self
    }

    /// Adds other routes.
    pub fn merge(mut self, other: Routes<S>) -> Self {
        self.router = self.router.merge(other.router);
        self.listed.extend(other.listed);
        self
    }

    /// Changes the routes as a whole, for example with a layer.
    pub fn map(mut self, change: impl FnOnce(Router<S>) -> Router<S>) -> Self {
        self.router = change(self.router);
        self
    }

    /// Gives handlers their shared state.
    pub fn with_state<T>(self, state: S) -> Routes<T> {
        let Routes { access, router, listed } = self;
        Routes { access, router: router.with_state(state), listed }
    }

    /// The table of all routes as it stands in the documentation.
    pub fn table(&self) -> String {
        let mut listed = self.listed.clone();
        listed.sort();
        let mut text = String::from("| route | whose it is |\n|---|---|\n");
        for (path, audience) in listed {
            let _ = writeln!(text, "| `{path}` | {audience} |");
        }
        text
    }
}

impl<S> From<Routes<S>> for Router<S> {
    fn from(routes: Routes<S>) -> Router<S> {
        routes.router
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::{get, put};
    use protocol::auth::{
        BodyDigest, Incarnation, Key, Nonce, Occasion, Service, Signature, SignedRequest,
    };
    use tower::ServiceExt;

    use super::*;

    struct Stand {
        secret: Key,
        auth: Authenticator,
    }

    impl Stand {
        fn new() -> Self {
            let secret = Key::new([4; 32]);
            let auth = Authenticator::new(&secret, Service::Jobtracker);
            Stand { secret, auth }
        }

        fn routes(&self, names: Auth) -> Routes {
            let sessions = Sessions::new(self.auth.clone(), "jobtracker", "h:1");
            let access = Access::new(self.auth.clone(), Some(sessions), names);
            Routes::new(&access)
                .route("/open", Audience::Anybody, get(async || "open"))
                .route("/who", Audience::Users, get(async |user: User| user.name))
                .route("/who", Audience::Changers, put(async || "changed"))
        }

        fn signed(&self, target: &str, role: Role, to: Incarnation, number: u64) -> String {
            let now = std::time::SystemTime::now();
            let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
            let on = Occasion {
                time_ms: u64::try_from(now.as_millis()).unwrap(),
                nonce: Nonce { stream: 1, number },
                to,
                body: BodyDigest::EMPTY,
            };
            let request = SignedRequest { method: "GET", target };
            Signature::sign(&role.key(&self.secret).ready(), role, on, request).to_header()
        }
    }

    async fn ask(routes: &Routes, target: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut request = axum::http::Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let router = Router::from(routes.clone());
        let answer = router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = answer.status().as_u16();
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn a_user_is_known_or_refused() {
        let stand = Stand::new();
        let (token, simple) = (stand.routes(Auth::Token), stand.routes(Auth::Simple));
        assert_eq!(ask(&token, "/open", &[]).await, (200, "open".to_owned()));
        for target in ["/who", "/who?user.name=root", "/who?doas=root"] {
            assert_eq!(ask(&token, target, &[]).await.0, 401, "{target}");
        }
        let (status, page) = ask(&token, "/who", &[("accept", "text/html,*/*")]).await;
        assert_eq!((status, page.contains("hanno admin open")), (401, true), "{page}");
        for (target, expected) in [
            ("/who", (200, STATIC_USER)),
            ("/who?user.name=ann", (200, "ann")),
            ("/who?user.name=a%0Ab", (400, "user.name is no name of a user\n")),
            ("/who?user.name=", (400, "user.name is no name of a user\n")),
            (
                "/who?user.name=a&user.name=b",
                (400, "parameter \"user.name\" is given more than once\n"),
            ),
        ] {
            let (status, text) = ask(&simple, target, &[]).await;
            assert_eq!((status, text.as_str()), expected, "{target}");
        }
    }

    #[tokio::test]
    async fn a_signature_speaks_for_the_user_that_it_names() {
        let stand = Stand::new();
        let routes = stand.routes(Auth::Token);
        let here = stand.auth.hello().incarnation;
        let mut number = 0;
        for (signed, asked, role, to, expected) in [
            ("/who?user.name=ann", "/who?user.name=ann", Role::Client, here, 200),
            ("/who?user.name=ann", "/who?user.name=root", Role::Client, here, 401),
            ("/who?user.name=ann", "/who?user.name=ann", Role::Worker, here, 403),
            ("/who?user.name=ann", "/who?user.name=ann", Role::Client, Incarnation::NONE, 421),
            ("/who", "/who", Role::Client, here, 400),
        ] {
            number += 1;
            let header = stand.signed(signed, role, to, number);
            let headers = [("authorization", header.as_str())];
            let (status, text) = ask(&routes, asked, &headers).await;
            assert_eq!(status, expected, "{signed} {asked} {role:?}: {text}");
            assert_eq!(status == 200, text == "ann", "{text}");
        }
    }

    #[tokio::test]
    async fn a_stream_of_events_ends_with_its_session() {
        let stand = Stand::new();
        let sessions = Sessions::new(stand.auth.clone(), "jobtracker", "h:1");
        let access = Access::new(stand.auth.clone(), Some(sessions.clone()), Auth::Token);
        let beat = async || {
            let beats = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
                Some((Ok::<_, std::convert::Infallible>("data: 1\n\n"), ()))
            });
            ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(beats))
        };
        let routes = Routes::<()>::new(&access).route("/beats", Audience::Users, get(beat));
        let cookie = sessions.begin_for_test("ann");
        let request = Request::get("/beats").header("cookie", &cookie).body(Body::empty());
        let response = Router::from(routes).oneshot(request.unwrap()).await.unwrap();
        let mut beats = response.into_body().into_data_stream();
        for _ in 0..3 {
            assert!(beats.next().await.is_some());
        }
        sessions.end_for_test(&cookie);
        let rest = async { while beats.next().await.is_some() {} };
        tokio::time::timeout(std::time::Duration::from_secs(10), rest).await.expect("it ends");
    }

    #[test]
    fn the_table_names_every_route_once_for_each_audience() {
        let table = Stand::new().routes(Auth::Token).table();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(
            rows,
            ["| `/open` | anybody |", "| `/who` | users |", "| `/who` | users, from a page |"]
        );
    }
}
