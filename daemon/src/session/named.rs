//! The name that a page gives to a change: sent again under it, because an answer was lost, the change is made once.
//!
//! A session counts as one client of the daemon. The page chooses a number at random, so that its windows need not agree on one.

use axum::extract::{FromRef, FromRequestParts};
use axum::http::HeaderMap;
use axum::http::request::Parts;
use protocol::CallId;

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
    fn named(&self, headers: &HeaderMap) -> Result<NamedChange, SessionError> {
        let session = self.session(headers).ok_or(SessionError::Missing)?;
        let number = match headers.get(CALL_HEADER) {
            None => rand::random(),
            Some(text) => {
                let text = text.to_str().ok().filter(|text| is_number(text));
                text.and_then(|text| text.parse().ok()).ok_or(SessionError::Name)?
            }
        };
        Ok(NamedChange(CallId { client: session.client, number }))
    }
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
        Sessions::from_ref(state).named(&parts.headers)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use protocol::auth::{Key, Service};

    use super::*;
    use crate::auth::Authenticator;

    fn named(
        sessions: &Sessions,
        cookie: &str,
        number: Option<&'static str>,
    ) -> Result<NamedChange, SessionError> {
        let mut headers = HeaderMap::new();
        headers.insert("cookie", HeaderValue::from_str(cookie).unwrap());
        if let Some(number) = number {
            headers.insert(CALL_HEADER, HeaderValue::from_static(number));
        }
        sessions.named(&headers)
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
        assert_eq!(first.call(0).number, 7);
        let all = [
            first.call(0),
            first.call(1),
            named(&sessions, &own, Some("9")).unwrap().call(0),
            named(&sessions, &other, Some("7")).unwrap().call(0),
            named(&sessions, &own, None).unwrap().call(0),
            named(&sessions, &own, None).unwrap().call(0),
        ];
        for (place, call) in all.iter().enumerate() {
            assert!(!all[..place].contains(call), "{all:?}");
        }
        let last = named(&sessions, &own, Some("18446744073709551615")).unwrap();
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
