//! Who calls the NameNode's side: names that are believed, delegation tokens, requests signed with the cluster secret.

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use daemon::auth::Authenticator;
use daemon::rpc;
use protocol::DfsPath;
use protocol::auth::{Key, Role};

use super::{Asked, Face, Namesystem};
use crate::config::Auth;
use crate::error::{Exception, WebError};
use crate::op::Op;
use crate::query::Query;
use crate::redirect::Credentials;
use crate::token::book::{Order, RENEW_INTERVAL_MS};
use crate::token::keeper::Keeper;
use crate::token::{REDIRECT_LIFETIME_MS, Redirect};
use crate::{cookie, identity, json};

/// Header in which clients of HttpFS send a delegation token.
const DELEGATION_HEADER: &str = "x-hadoop-delegation-token";

/// What callers are judged by.
#[derive(Clone, Debug)]
pub struct Trust {
    /// Whether a name alone is believed.
    pub auth: Auth,
    /// Checks the signatures of those who hold the cluster secret.
    pub authenticator: Authenticator,
    /// Signs redirects and cookies.
    pub key: Key,
    /// Knows the good delegation tokens.
    pub keeper: Keeper,
}

/// Who calls, and how that is known.
pub(crate) struct Identity {
    pub(crate) user: String,
    /// By a delegation token, which must not breed others.
    pub(super) by_token: bool,
}

/// Whom a request is made for, put there by a part of this process that knows; it cannot come from outside.
#[derive(Clone, Debug)]
pub struct KnownUser(pub String);

impl<N: Namesystem> Face<N> {
    pub(crate) async fn identify(
        &self,
        parts: &Parts,
        query: &Query,
    ) -> Result<Identity, WebError> {
        if let Some(KnownUser(user)) = parts.extensions.get() {
            return Ok(Identity { user: user.clone(), by_token: false });
        }
        let (config, trust) = (&self.inner.settings.config, &self.inner.settings.trust);
        let now_ms = client::rpc::now_ms();
        if let Some(token) = delegation(parts, query) {
            // Who signs as well, such as a gateway, gets a signed answer.
            if rpc::is_signed(parts)
                && let Err(error) = rpc::check(&trust.authenticator, parts, &[Role::Client])
            {
                return Err(WebError::new(Exception::Unauthenticated, error.to_string()));
            }
            let owner = trust.keeper.owner(token, now_ms).await?;
            let user = identity::effective(&owner, query, config)?;
            return Ok(Identity { user, by_token: true });
        }
        // Whoever holds the cluster secret may speak for everybody; a body that follows is not covered, and not read here.
        let is_signed = || rpc::check(&trust.authenticator, parts, &[Role::Client]).is_ok();
        let user = match trust.auth {
            Auth::Simple => match cookie::user(&parts.headers, &trust.key, now_ms) {
                Some(user) if query.text("user.name").is_none() => {
                    identity::effective(&user, query, config)?
                }
                _ => identity::believed(query, config)?,
            },
            Auth::Token if is_signed() => identity::believed(query, config)?,
            Auth::Token => return Err(identity::unproven(query)),
        };
        Ok(Identity { user, by_token: false })
    }

    /// What is asked before anything else: which methods there are. Clients of HttpFS send their name with it and want it back signed.
    pub(super) async fn options(&self, parts: &Parts) -> Result<Response, WebError> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let trust = &self.inner.settings.trust;
        let Identity { user, by_token } = self.identify(parts, &query).await?;
        let allow = (header::ALLOW, HeaderValue::from_static("GET,PUT,POST,DELETE,OPTIONS"));
        let mut response = (StatusCode::OK, [allow]).into_response();
        if trust.auth == Auth::Simple && !by_token && query.text("user.name").is_some() {
            let cookie = cookie::sealed(&user, &trust.key, client::rpc::now_ms());
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        Ok(response)
    }

    /// What a redirect tells the DataNode of the caller.
    pub(super) fn credentials(&self, asked: &Asked<'_>) -> Credentials {
        self.inner.settings.trust.credentials(&asked.user, asked.op, &asked.path)
    }

    /// Issues, renews and cancels delegation tokens.
    pub(super) async fn tokens(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let Trust { auth, keeper, .. } = &self.inner.settings.trust;
        let Keeper::Book(book) = keeper else {
            let text = "delegation tokens are issued, renewed and cancelled by the NameNode alone";
            return Err(WebError::unsupported(text));
        };
        // Hadoop's clients ask for none where they are told that none is needed.
        if *auth == Auth::Simple && asked.op == Op::GetDelegationToken {
            return Ok(json::ok(&json::named("Token", ())));
        }
        if asked.by_token && asked.op == Op::GetDelegationToken {
            let text = "Delegation Token can be issued only with kerberos or web authentication";
            return Err(WebError::new(Exception::Io, text));
        }
        let (book, op, user) = (book.clone(), asked.op, asked.user.clone());
        let text = |name: &str| asked.query.text(name).map(str::to_owned);
        let (renewer, kind, service) = (text("renewer"), text("kind"), text("service"));
        let token = match op {
            Op::GetDelegationToken => String::new(),
            op => asked.query.required(op, "token")?.to_owned(),
        };
        let service = service.unwrap_or_else(|| self.inner.settings.advertised.clone());
        let work = move || {
            let now_ms = client::rpc::now_ms();
            match op {
                Op::GetDelegationToken => {
                    let renewer = renewer.as_deref().unwrap_or(&user);
                    let order = Order {
                        owner: &user,
                        renewer,
                        kind: kind.as_deref(),
                        service: &service,
                        lifetime_ms: RENEW_INTERVAL_MS,
                    };
                    let token = book.issue(order, now_ms)?;
                    let url = json::named("urlString", token);
                    Ok(json::ok(&json::named("Token", url)))
                }
                Op::RenewDelegationToken => book.renew(&token, Some(&user), now_ms).map(json::long),
                _ => book.cancel(&token, &user).map(|()| json::nothing()),
            }
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| WebError::new(Exception::Runtime, "the NameNode is stopping"))?
    }
}

impl Trust {
    /// What a redirect tells who does the second step of the caller.
    pub(crate) fn credentials(&self, user: &str, op: Op, path: &DfsPath) -> Credentials {
        match self.auth {
            Auth::Simple => ("user.name", user.to_owned()),
            Auth::Token => {
                let expires_ms = client::rpc::now_ms().saturating_add(REDIRECT_LIFETIME_MS);
                let redirect = Redirect { user: user.to_owned(), expires_ms };
                ("delegation", redirect.seal(&self.key, op, path))
            }
        }
    }
}

/// The delegation token of a request: a parameter, or the header that clients of HttpFS use.
fn delegation<'a>(parts: &'a Parts, query: &'a Query) -> Option<&'a str> {
    let header = || parts.headers.get(DELEGATION_HEADER)?.to_str().ok();
    query.text("delegation").or_else(header)
}
