//! Who calls the NameNode's side: names that are believed, delegation tokens, requests signed with the cluster secret.

use axum::http::request::Parts;
use axum::response::Response;
use daemon::auth::Authenticator;
use daemon::rpc;
use protocol::auth::{Key, Role};

use super::{Asked, Face, Namesystem};
use crate::error::{Exception, WebError};
use crate::identity;
use crate::json;
use crate::op::Op;
use crate::query::Query;
use crate::redirect::Credentials;
use crate::token::book::Book;
use crate::token::{REDIRECT_LIFETIME_MS, Redirect};

/// What callers are judged by.
#[derive(Clone, Debug)]
pub enum Trust {
    /// `user.name` is believed.
    Names,
    /// A delegation token, or the signature of one who holds the cluster secret.
    Tokens {
        /// Checks signatures.
        authenticator: Authenticator,
        /// Signs redirects.
        key: Key,
        /// The good delegation tokens.
        book: Book,
    },
}

/// Who calls, and how that is known.
pub(super) struct Identity {
    pub(super) user: String,
    /// By a delegation token, which must not breed others.
    pub(super) by_token: bool,
}

/// Whom a request is made for, put there by a part of this process that knows; it cannot come from outside.
#[derive(Clone, Debug)]
pub struct KnownUser(pub String);

impl<N: Namesystem> Face<N> {
    pub(super) fn identify(&self, parts: &Parts, query: &Query) -> Result<Identity, WebError> {
        if let Some(KnownUser(user)) = parts.extensions.get() {
            return Ok(Identity { user: user.clone(), by_token: false });
        }
        let config = &self.inner.settings.config;
        let Trust::Tokens { authenticator, book, .. } = &self.inner.settings.trust else {
            return Ok(Identity { user: identity::believed(query, config)?, by_token: false });
        };
        if let Some(token) = query.text("delegation") {
            let owner = book.owner(token, client::rpc::now_ms())?;
            let user = identity::effective(&owner, query, config)?;
            return Ok(Identity { user, by_token: true });
        }
        // Whoever holds the cluster secret may speak for everybody; a body that follows is not covered, and not read here.
        match rpc::check(authenticator, parts, &[Role::Client]) {
            Ok(_) => Ok(Identity { user: identity::believed(query, config)?, by_token: false }),
            Err(_) => {
                let text = "Authentication required: a delegation token, or a signature with the cluster secret";
                Err(WebError::new(Exception::Unauthenticated, text))
            }
        }
    }

    /// What a redirect tells the DataNode of the caller.
    pub(super) fn credentials(&self, asked: &Asked<'_>) -> Credentials {
        match &self.inner.settings.trust {
            Trust::Names => ("user.name", asked.user.clone()),
            Trust::Tokens { key, .. } => {
                let expires_ms = client::rpc::now_ms().saturating_add(REDIRECT_LIFETIME_MS);
                let redirect = Redirect { user: asked.user.clone(), expires_ms };
                ("delegation", redirect.seal(key, asked.op, &asked.path))
            }
        }
    }

    /// Issues, renews and cancels delegation tokens.
    pub(super) async fn tokens(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let Trust::Tokens { book, .. } = &self.inner.settings.trust else {
            return match asked.op {
                Op::GetDelegationToken => Ok(json::ok(&json::named("Token", ()))),
                _ => Err(WebError::new(
                    Exception::Io,
                    "there are no delegation tokens where names are believed",
                )),
            };
        };
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
                    let token =
                        book.issue((&user, renewer), (kind.as_deref(), &service), now_ms)?;
                    let url = json::named("urlString", token);
                    Ok(json::ok(&json::named("Token", url)))
                }
                Op::RenewDelegationToken => book.renew(&token, &user, now_ms).map(json::long),
                _ => book.cancel(&token, &user).map(|()| json::nothing()),
            }
        };
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|_| WebError::new(Exception::Runtime, "the NameNode is stopping"))?
    }
}
