//! The name that a page gives to a change: sent again under it, because an answer was lost, the change is made once.
//!
//! A session counts as one client of the daemon. The page chooses a number at random, so that its windows need not agree on one. A request is the same
//! change only if it asks for the same: its method, path and parameters are a part of the name. Under a number that was used for something else, nobody is
//! told of a success that was never made.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use protocol::CallId;
use sha2::{Digest, Sha256};

use super::{SessionError, Sessions};

/// Header with the number of a change. Without it no two requests are the same change.
pub const CALL_HEADER: &str = "x-hanno-call";

/// The name of a change that a signed-in user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedChange(CallId);

impl NamedChange {
    /// The name of one of its calls. A change that takes several numbers them from 0, each time in the same way.
    pub fn call(self, step: u64) -> CallId {
        CallId { number: self.0.number.wrapping_add(step), ..self.0 }
    }
}

impl Sessions {
    fn named(&self, parts: &Parts) -> Result<NamedChange, SessionError> {
        let session = self.session(&parts.headers).ok_or(SessionError::Missing)?;
        let number = match parts.headers.get(CALL_HEADER) {
            None => rand::random(),
            Some(text) => {
                let text = text.to_str().ok().filter(|text| is_number(text));
                let number = text.and_then(|text| text.parse().ok());
                number_of(number.ok_or(SessionError::Name)?, parts)
            }
        };
        Ok(NamedChange(CallId { client: session.client, number }))
    }
}

/// The number of what is asked for under the page's `number`. The steps of two changes are as far from each other as random numbers are.
fn number_of(number: u64, parts: &Parts) -> u64 {
    let mut hash = Sha256::new();
    hash.update(number.to_be_bytes());
    hash.update(parts.method.as_str());
    hash.update([0]);
    hash.update(parts.uri.path_and_query().map_or("", |asked| asked.as_str()));
    let hash: [u8; 32] = hash.finalize().into();
    u64::from_be_bytes(std::array::from_fn(|at| hash[at]))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

impl<S: Sync> FromRequestParts<S> for NamedChange
where
    Sessions: FromRef<S>,
{
    type Rejection = SessionError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, SessionError> {
        Sessions::from_ref(state).named(parts)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;
    use protocol::auth::{Key, Service};

    use super::*;
    use crate::auth::Authenticator;

    fn asked(
        sessions: &Sessions,
        (method, target): (&str, &str),
        cookie: &str,
        number: Option<&str>,
    ) -> Result<NamedChange, SessionError> {
        let mut request = Request::builder().method(method).uri(target).header("cookie", cookie);
        if let Some(number) = number {
            request = request.header(CALL_HEADER, number);
        }
        sessions.named(&request.body(()).unwrap().into_parts().0)
    }

    fn named(
        sessions: &Sessions,
        cookie: &str,
        number: Option<&str>,
    ) -> Result<NamedChange, SessionError> {
        asked(sessions, ("POST", "/api/v1/files/move?path=/a&to=/b"), cookie, number)
    }

    #[test]
    fn a_name_is_the_same_again_and_differs_by_session_and_step() {
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Namenode);
        let sessions = Sessions::new(auth, "namenode", "127.0.0.1:9870");
        let cookie = || {
            let cookie = sessions.begin("alice", false);
            cookie.split(';').next().unwrap().to_owned()
        };
        let (own, other) = (cookie(), cookie());
        let first = named(&sessions, &own, Some("7")).unwrap();
        assert_eq!(named(&sessions, &own, Some("7")), Ok(first));
        let all = [
            first.call(0),
            first.call(1),
            named(&sessions, &own, Some("9")).unwrap().call(0),
            named(&sessions, &other, Some("7")).unwrap().call(0),
            named(&sessions, &own, None).unwrap().call(0),
            named(&sessions, &own, None).unwrap().call(0),
            asked(&sessions, ("PUT", "/api/v1/files/move?path=/a&to=/b"), &own, Some("7"))
                .unwrap()
                .call(0),
            asked(&sessions, ("POST", "/api/v1/files/move?path=/a&to=/c"), &own, Some("7"))
                .unwrap()
                .call(0),
            asked(&sessions, ("POST", "/api/v1/files/trash?path=/a"), &own, Some("7"))
                .unwrap()
                .call(0),
        ];
        for (place, call) in all.iter().enumerate() {
            assert!(!all[..place].contains(call), "{all:?}");
        }
        let last = NamedChange(CallId { number: u64::MAX, ..first.call(0) });
        assert_eq!(last.call(1).number, 0);
    }

    #[test]
    fn what_is_no_number_or_nobodys_is_refused() {
        let auth = Authenticator::new(&Key::new([1; 32]), Service::Namenode);
        let sessions = Sessions::new(auth, "namenode", "127.0.0.1:9870");
        let cookie = sessions.begin("alice", false);
        let cookie = cookie.split(';').next().unwrap();
        for number in ["", "-1", "+1", "a", "1 2", "18446744073709551616"] {
            let refused = named(&sessions, cookie, Some(number));
            assert_eq!(refused, Err(SessionError::Name), "{number}");
        }
        let stranger = named(&sessions, "hanno-namenode-9870=00", Some("7"));
        assert_eq!(stranger, Err(SessionError::Missing));
    }
}
