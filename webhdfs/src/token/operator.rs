//! What operators ask of the list of tokens: `POST /rpc/tokens`, signed with the cluster secret ([`protocol::delegation`]).

use axum::routing::MethodRouter;
use daemon::auth::Authenticator;
use daemon::rpc;
use protocol::auth::Role;
use protocol::delegation::{Answer, Call, Reply, Request, VERSION};
use protocol::{ErrorKind, RemoteError};

use crate::error::{Exception, WebError};
use crate::identity::is_user;
use crate::token::manager::{TokenManager, Wanted};

/// Bytes of a request: the longest token with room to spare.
const BYTES_MAX: usize = 64 << 10;

/// The route.
pub fn route(authenticator: Authenticator, manager: TokenManager) -> MethodRouter {
    rpc::message(authenticator, &[Role::Client], BYTES_MAX, move |request: Request| {
        let manager = manager.clone();
        async move { answer(&manager, request, transport::rpc::now_ms()).await }
    })
}

async fn answer(manager: &TokenManager, request: Request, now_ms: u64) -> Answer {
    RemoteError::check_version(request.version, VERSION)?;
    let answered = match request.body {
        Call::Issue { owner, renewer, service, lifetime_ms } => {
            // Without a renewer nobody renews it over WebHDFS.
            let renewers = Some(&renewer).filter(|name| !name.is_empty());
            for name in [&owner].into_iter().chain(renewers) {
                if !is_user(name) {
                    let text = format!("`{}` is no name of a user", name.escape_debug());
                    return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
                }
            }
            let (owner, renewer, service) = (owner.as_str(), renewer.as_str(), service.as_str());
            let wanted = Wanted { owner, renewer, kind: None, service, lifetime_ms };
            manager.issue(wanted).await.map(Reply::Token)
        }
        Call::Renew(token) => manager.renew(&token, None).await.map(Reply::Until),
        Call::Cancel(token) => manager.cancel(&token, None).await.map(|()| Reply::Done),
        Call::CancelNumber(number) => manager.cancel_number(number).await.map(|()| Reply::Done),
        Call::List => manager.list(now_ms).await.map(Reply::Tokens),
    };
    answered.map_err(|error: WebError| {
        let kind = match error.exception {
            Exception::IllegalArgument | Exception::InvalidToken => ErrorKind::InvalidArgument,
            Exception::SafeMode => ErrorKind::SafeMode,
            Exception::Runtime => ErrorKind::Unavailable,
            _ => ErrorKind::Storage,
        };
        RemoteError::new(kind, error.message)
    })
}
