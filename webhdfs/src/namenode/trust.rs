//! Who calls the NameNode's side: names that are believed, delegation tokens, requests signed with the cluster secret.

use axum::http::request::Parts;
use daemon::auth::Authenticator;
use daemon::rpc;
use daemon::serve::Peer;
use protocol::DfsPath;
use protocol::auth::{Key, Role};

use crate::config::{Auth, Config};
use crate::error::{Exception, WebError};
use crate::op::Op;
use crate::query::Query;
use crate::redirect::Credentials;
use crate::token::keeper::Keeper;
use crate::token::{REDIRECT_LIFETIME_MS, Redirect};
use crate::{cookie, identity};

/// Header in which clients of HttpFS send a delegation token.
const DELEGATION_HEADER: &str = "x-hadoop-delegation-token";

/// How callers are judged.
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
    /// By a delegation token, which must not produce others.
    pub(super) by_token: bool,
}

/// The user for whom a request is made, set by a part of this process that knows; it cannot come from outside.
#[derive(Clone, Debug)]
pub struct KnownUser(pub String);

impl Trust {
    /// Who calls.
    pub(super) async fn identify(
        &self,
        parts: &Parts,
        query: &Query,
        config: &Config,
    ) -> Result<Identity, WebError> {
        if let Some(KnownUser(user)) = parts.extensions.get() {
            return Ok(Identity { user: user.clone(), by_token: false });
        }
        let now_ms = transport::rpc::now_ms();
        if let Some(token) = delegation(parts, query) {
            // A caller that signs as well, such as a gateway, gets a signed answer.
            if rpc::is_signed(parts)
                && let Err(error) = rpc::check(&self.authenticator, parts, &[Role::Client])
            {
                return Err(WebError::new(Exception::Unauthenticated, error.to_string()));
            }
            let owner = self.keeper.owner(token, now_ms).await?;
            // Its connection is its owner's: strangers do not displace it, and what is held for it counts for the owner.
            if let Some(peer) = parts.extensions.get::<Peer>() {
                peer.line.trust(&owner);
            }
            let user = identity::effective(&owner, query, config)?;
            return Ok(Identity { user, by_token: true });
        }
        // Whoever holds the cluster secret can speak for everybody; a body that follows is not covered, and not read here.
        let is_signed = || rpc::check(&self.authenticator, parts, &[Role::Client]).is_ok();
        let user = match self.auth {
            Auth::Simple => match cookie::user(&parts.headers, &self.key, now_ms) {
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

    /// The caller's identity, as a redirect passes it to the daemon that does the second step.
    pub(crate) fn credentials(&self, user: &str, op: Op, path: &DfsPath) -> Credentials {
        match self.auth {
            Auth::Simple => ("user.name", user.to_owned()),
            Auth::Token => {
                let expires_ms = transport::rpc::now_ms().saturating_add(REDIRECT_LIFETIME_MS);
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
