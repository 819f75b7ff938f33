//! Who signed a request: signature, clock and nonce, against the cluster secret.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use protocol::auth::{CLOCK_SKEW_MAX, Key, Role, Signature, SignedRequest};

use crate::nonces::{Nonces, Refused};

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No or no readable `authorization` header.
    #[error("the request is not signed with the cluster secret")]
    Missing,
    /// The signature does not match.
    #[error("the request's signature is wrong: is this the right cluster secret?")]
    Wrong,
    /// Too old or from the future.
    #[error("the request's clock is {skew_ms} ms off; at most 300000 are accepted")]
    Skew {
        /// Difference of the clocks, milliseconds.
        skew_ms: u64,
    },
    /// Seen before.
    #[error("the request was sent before")]
    Replayed,
    /// The role may not do this.
    #[error("a {} may not do this", role.as_str())]
    Role {
        /// The role.
        role: Role,
    },
    /// Later requests of its sender came first, too many to say whether this one was seen.
    #[error("the request was overtaken by too many others: send it again")]
    Overtaken,
    /// Too many senders to remember.
    #[error("too many senders at once: try again in some minutes")]
    Flood,
}

/// Checks signatures. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    keys: [(Role, Key); 4],
    nonces: Mutex<Nonces>,
}

impl Authenticator {
    /// Checks against `secret`.
    pub fn new(secret: &Key) -> Self {
        let roles = [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker];
        let keys = roles.map(|role| (role, role.key(secret)));
        Authenticator { inner: Arc::new(Inner { keys, nonces: Mutex::default() }) }
    }

    /// Who signed `request`, if it is one of `allowed`.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn check(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
        allowed: &[Role],
    ) -> Result<Role, AuthError> {
        self.check_at(header, request, allowed, now_ms())
    }

    fn check_at(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
        allowed: &[Role],
        now_ms: u64,
    ) -> Result<Role, AuthError> {
        let signature = header.and_then(Signature::parse).ok_or(AuthError::Missing)?;
        let key =
            self.inner.keys.iter().find(|(role, _)| *role == signature.role).map(|(_, key)| key);
        if !key.is_some_and(|key| signature.matches(key, request)) {
            return Err(AuthError::Wrong);
        }
        let skew_ms = now_ms.abs_diff(signature.time_ms);
        if u128::from(skew_ms) > CLOCK_SKEW_MAX.as_millis() {
            return Err(AuthError::Skew { skew_ms });
        }
        let taken = self.inner.nonces.lock().take(signature.role, signature.nonce, now_ms);
        taken.map_err(|refused| match refused {
            Refused::Seen => AuthError::Replayed,
            Refused::Late => AuthError::Overtaken,
            Refused::Full => AuthError::Flood,
        })?;
        if !allowed.contains(&signature.role) {
            return Err(AuthError::Role { role: signature.role });
        }
        Ok(signature.role)
    }
}

fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::auth::{Body, Nonce};

    const REQUEST: SignedRequest<'_> =
        SignedRequest { method: "POST", target: "/rpc", body: Body::Bytes(b"x") };
    const NOW: u64 = 1_700_000_000_000;

    fn number(number: u64) -> Nonce {
        Nonce { stream: 1, number }
    }

    #[test]
    fn only_fresh_signed_requests_of_the_right_role_pass() {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret);
        let header = |role: Role, time, nonce| {
            Signature::sign(&role.key(&secret), role, time, number(nonce), REQUEST).to_header()
        };
        let check = |header: Option<&str>| auth.check_at(header, REQUEST, &[Role::Client], NOW);
        assert_eq!(check(None), Err(AuthError::Missing));
        assert_eq!(check(Some("Bearer x")), Err(AuthError::Missing));
        assert_eq!(check(Some(&header(Role::Client, NOW, 1))), Ok(Role::Client));
        assert_eq!(check(Some(&header(Role::Client, NOW, 1))), Err(AuthError::Replayed));
        assert_eq!(
            check(Some(&header(Role::Worker, NOW, 2))),
            Err(AuthError::Role { role: Role::Worker })
        );
        assert_eq!(
            check(Some(&header(Role::Client, NOW - 300_001, 3))),
            Err(AuthError::Skew { skew_ms: 300_001 })
        );
        assert_eq!(check(Some(&header(Role::Client, NOW + 300_000, 4))), Ok(Role::Client));
        let other = Role::Client.key(&Key::new([2; 32]));
        let forged = Signature::sign(&other, Role::Client, NOW, number(5), REQUEST).to_header();
        assert_eq!(check(Some(&forged)), Err(AuthError::Wrong));
    }

    #[test]
    fn a_nonce_is_remembered_as_long_as_its_signature_is_good() {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret);
        let header = Signature::sign(
            &Role::Client.key(&secret),
            Role::Client,
            NOW + 300_000,
            number(1),
            REQUEST,
        )
        .to_header();
        for minutes in 0..=10 {
            let outcome =
                auth.check_at(Some(&header), REQUEST, &[Role::Client], NOW + minutes * 60_000);
            assert_eq!(outcome.is_ok(), minutes == 0, "{minutes}");
        }
    }
}
