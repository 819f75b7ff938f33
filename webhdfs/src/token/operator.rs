//! What operators ask of the list of tokens: `POST /rpc/tokens`, signed with the cluster secret ([`protocol::delegation`]).

use axum::routing::MethodRouter;
use daemon::auth::Authenticator;
use daemon::rpc;
use protocol::auth::Role;
use protocol::delegation::{Answer, Call, Reply, Request, VERSION};
use protocol::{ErrorKind, RemoteError};

use crate::error::{Exception, WebError};
use crate::identity::is_user;
use crate::token::book::{Book, Order};

/// Bytes of a request: the longest token with room to spare.
const BYTES_MAX: usize = 64 << 10;

/// The route.
pub fn route(authenticator: Authenticator, book: Book) -> MethodRouter {
    rpc::message(authenticator, &[Role::Client], BYTES_MAX, move |request: Request| {
        let book = book.clone();
        async move {
            let work = move || answer(&book, request, client::rpc::now_ms());
            let stopping = |_| RemoteError::new(ErrorKind::Unavailable, "the NameNode is stopping");
            tokio::task::spawn_blocking(work).await.map_err(stopping)?
        }
    })
}

fn answer(book: &Book, request: Request, now_ms: u64) -> Answer {
    if request.version != VERSION {
        let text = format!("version {} of the protocol is not {VERSION}", request.version);
        return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
    }
    let answered = match request.body {
        Call::Issue { owner, renewer, service, lifetime_ms } => {
            for name in [&owner, &renewer].into_iter().filter(|name| !name.is_empty()) {
                if !is_user(name) {
                    let text = format!("`{}` is no name of a user", name.escape_debug());
                    return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
                }
            }
            let (owner, renewer, service) = (owner.as_str(), renewer.as_str(), service.as_str());
            book.issue(Order { owner, renewer, kind: None, service, lifetime_ms }, now_ms)
                .map(Reply::Token)
        }
        Call::Renew(token) => book.renew(&token, None, now_ms).map(Reply::Until),
        Call::Cancel(token) => {
            book.number(&token).and_then(|number| book.cancel_number(number)).map(|()| Reply::Done)
        }
        Call::CancelNumber(number) => book.cancel_number(number).map(|()| Reply::Done),
        Call::List => Ok(Reply::Tokens(book.list(now_ms))),
    };
    answered.map_err(|error: WebError| {
        let kind = match error.exception {
            Exception::IllegalArgument | Exception::InvalidToken => ErrorKind::InvalidArgument,
            _ => ErrorKind::Storage,
        };
        RemoteError::new(kind, error.message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::auth::Key;

    const NOW: u64 = 1_700_000_000_000;

    #[test]
    fn an_operator_issues_renews_lists_and_ends_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let key = crate::token::token_key(&Key::new([1; 32]));
        let book = Book::open(&directory.path().join("tokens"), key).unwrap();
        let ask = |body, now_ms| answer(&book, Request { version: VERSION, body }, now_ms);
        let issue = |owner: &str| {
            let (owner, renewer) = (owner.to_owned(), String::new());
            let (service, lifetime_ms) = ("nn:9870".to_owned(), 1000);
            ask(Call::Issue { owner, renewer, service, lifetime_ms }, NOW)
        };
        for owner in ["a b", "1a", "x\u{1b}[31m"] {
            assert_eq!(issue(owner).unwrap_err().kind, ErrorKind::InvalidArgument, "{owner}");
        }
        let Ok(Reply::Token(token)) = issue("alice") else { panic!("no token") };
        assert_eq!(book.owner(&token, NOW + 1000).as_deref(), Ok("alice"));
        let Ok(Reply::Until(until)) = ask(Call::Renew(token.clone()), NOW + 1000) else {
            panic!("not renewed")
        };
        assert!(until > NOW + 1000);
        let Ok(Reply::Tokens(list)) = ask(Call::List, NOW) else { panic!("no list") };
        assert_eq!((list.len(), list[0].owner.as_str()), (1, "alice"));
        assert_eq!(ask(Call::Cancel(token.clone()), NOW), Ok(Reply::Done));
        assert!(ask(Call::Cancel(token), NOW).is_err());
        assert!(ask(Call::CancelNumber(list[0].number), NOW).is_err());
        let old = Request { version: VERSION + 1, body: Call::List };
        assert!(answer(&book, old, NOW).is_err());
    }
}
