//! Delegation tokens: issued, renewed and cancelled.

use axum::response::Response;
use client::namesystem::Namesystem;

use super::{Asked, Face, Trust};
use crate::config::Auth;
use crate::error::{Exception, WebError};
use crate::json;
use crate::op::Op;
use crate::token::book::{Order, RENEW_INTERVAL_MS};
use crate::token::keeper::Keeper;

impl<N: Namesystem> Face<N> {
    /// Issues, renews and cancels delegation tokens.
    pub(super) async fn tokens(&self, asked: &Asked<'_>) -> Result<Response, WebError> {
        let Trust { auth, keeper, .. } = &self.inner.settings.trust;
        let Keeper::Book(book) = keeper else {
            let text = "delegation tokens are issued, renewed and cancelled by the NameNode alone";
            return Err(WebError::unsupported(text));
        };
        // This answer says that none is needed; Hadoop's clients then ask for none.
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
