//! Delegation tokens: issued, renewed and cancelled.

use axum::response::Response;
use client::namesystem::Namesystem;
use protocol::delegation::RENEW_INTERVAL_MS;

use super::{Asked, Face, Trust};
use crate::config::Auth;
use crate::error::{Exception, WebError};
use crate::json;
use crate::op::Op;
use crate::token::keeper::Keeper;
use crate::token::manager::Wanted;

impl<N: Namesystem> Face<N> {
    /// Issues, renews and cancels delegation tokens.
    pub(super) async fn tokens(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let Trust { auth, keeper, .. } = &self.inner.settings.trust;
        let Keeper::Local(manager) = keeper else {
            let text = "delegation tokens are issued, renewed and cancelled by the NameNode alone";
            return Err(WebError::unsupported(text));
        };
        if asked.op == Op::GetDelegationToken && asked.query.text("delegation").is_some() {
            return Err(WebError::illegal("delegation parameter is not null."));
        }
        // This answer says that none is needed; Hadoop's clients then ask for none.
        if *auth == Auth::Simple && asked.op == Op::GetDelegationToken {
            return Ok(json::ok(&json::named("Token", ())));
        }
        if asked.by_token && asked.op == Op::GetDelegationToken {
            let text = "Delegation Token can be issued only with kerberos or web authentication";
            return Err(WebError::new(Exception::Io, text));
        }
        let (op, user) = (asked.op, asked.user.as_str());
        if op == Op::GetDelegationToken {
            let service = asked.query.text("service");
            let wanted = Wanted {
                owner: user,
                renewer: asked.query.text("renewer").unwrap_or(user),
                kind: asked.query.text("kind"),
                service: service.unwrap_or(&self.inner.settings.advertised),
                lifetime_ms: RENEW_INTERVAL_MS,
            };
            let url = json::named("urlString", manager.issue(wanted).await?);
            return Ok(json::ok(&json::named("Token", url)));
        }
        let token = asked.query.required(op, "token")?;
        match op {
            Op::RenewDelegationToken => manager.renew(token, Some(user)).await.map(json::long),
            _ => manager.cancel(token, Some(user)).await.map(|()| json::nothing()),
        }
    }
}
