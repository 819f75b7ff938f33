//! Who signed a request: signature, clock and nonce, against the cluster secret.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use protocol::auth::{CLOCK_SKEW_MAX, Key, Role, Signature, SignedRequest};
use protocol::pass::PassName;

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
    /// The time of a task's pass is over.
    #[error("the task's pass expired {late_ms} ms ago")]
    Expired {
        /// How long ago, milliseconds.
        late_ms: u64,
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

/// Who signed a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signer {
    /// One that holds the cluster secret, or the key of a role; speaks for whom it says.
    Trusted(Role),
    /// A task; speaks for the user of its job alone.
    Task(PassName),
}

impl Signer {
    /// True if the signer may act as `user`.
    pub fn speaks_for(&self, user: &str) -> bool {
        match self {
            Signer::Trusted(_) => true,
            Signer::Task(name) => name.user == user,
        }
    }
}

/// Checks signatures. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Authenticator {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    secret: Key,
    keys: [(Role, Key); 4],
    nonces: Mutex<Nonces>,
    /// Apart, so that no task can use up what is kept for the others.
    nonces_of_tasks: Mutex<Nonces>,
}

impl Authenticator {
    /// Checks against `secret`.
    pub fn new(secret: &Key) -> Self {
        let roles = [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker];
        let keys = roles.map(|role| (role, role.key(secret)));
        Authenticator {
            inner: Arc::new(Inner {
                secret: secret.clone(),
                keys,
                nonces: Mutex::default(),
                nonces_of_tasks: Mutex::default(),
            }),
        }
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
    ) -> Result<Signer, AuthError> {
        self.check_at(header, request, allowed, now_ms())
    }

    fn check_at(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
        allowed: &[Role],
        now_ms: u64,
    ) -> Result<Signer, AuthError> {
        let signature = header.and_then(Signature::parse).ok_or(AuthError::Missing)?;
        if !self.is_genuine(&signature, request) {
            return Err(AuthError::Wrong);
        }
        let skew_ms = now_ms.abs_diff(signature.time_ms);
        if u128::from(skew_ms) > CLOCK_SKEW_MAX.as_millis() {
            return Err(AuthError::Skew { skew_ms });
        }
        let expires_ms = signature.pass.as_ref().map_or(u64::MAX, |pass| pass.expires_ms);
        if now_ms > expires_ms {
            return Err(AuthError::Expired { late_ms: now_ms - expires_ms });
        }
        let nonces = match signature.pass {
            Some(_) => &self.inner.nonces_of_tasks,
            None => &self.inner.nonces,
        };
        let taken = nonces.lock().take(signature.role, signature.nonce, now_ms);
        taken.map_err(|refused| match refused {
            Refused::Seen => AuthError::Replayed,
            Refused::Late => AuthError::Overtaken,
            Refused::Full => AuthError::Flood,
        })?;
        if !allowed.contains(&signature.role) {
            return Err(AuthError::Role { role: signature.role });
        }
        Ok(match signature.pass {
            Some(name) => Signer::Task(name),
            None => Signer::Trusted(signature.role),
        })
    }

    fn is_genuine(&self, signature: &Signature, request: SignedRequest<'_>) -> bool {
        if let Some(name) = &signature.pass {
            return signature.matches(&name.key(&self.inner.secret), request);
        }
        let mut keys = self.inner.keys.iter();
        let key = keys.find(|(role, _)| *role == signature.role);
        key.is_some_and(|(_, key)| signature.matches(key, request))
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
    use protocol::pass::Pass;

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
        assert_eq!(check(Some(&header(Role::Client, NOW, 1))), Ok(Signer::Trusted(Role::Client)));
        assert_eq!(check(Some(&header(Role::Client, NOW, 1))), Err(AuthError::Replayed));
        assert_eq!(
            check(Some(&header(Role::Worker, NOW, 2))),
            Err(AuthError::Role { role: Role::Worker })
        );
        assert_eq!(
            check(Some(&header(Role::Client, NOW - 300_001, 3))),
            Err(AuthError::Skew { skew_ms: 300_001 })
        );
        let early = check(Some(&header(Role::Client, NOW + 300_000, 4)));
        assert_eq!(early, Ok(Signer::Trusted(Role::Client)));
        let other = Role::Client.key(&Key::new([2; 32]));
        let forged = Signature::sign(&other, Role::Client, NOW, number(5), REQUEST).to_header();
        assert_eq!(check(Some(&forged)), Err(AuthError::Wrong));
    }

    #[test]
    fn a_task_is_let_in_where_tasks_are_and_while_its_pass_is_good() {
        let secret = Key::new([1; 32]);
        let auth = Authenticator::new(&secret);
        let job = protocol::JobId { cluster_start: 1, number: 1 };
        let name = PassName { job, user: "ada".to_owned(), expires_ms: NOW + 1000 };
        let pass = Pass::issue(&secret, name.clone());
        let check = |pass: &Pass, nonce, now, allowed: &[Role]| {
            let header = Signature::sign_as_task(pass, now, number(nonce), REQUEST).to_header();
            auth.check_at(Some(&header), REQUEST, allowed, now)
        };
        let both = [Role::Client, Role::Task];
        let signer = check(&pass, 1, NOW, &both).unwrap();
        assert_eq!(signer, Signer::Task(name.clone()));
        assert!(signer.speaks_for("ada") && !signer.speaks_for("bob"));
        let refused = Err(AuthError::Role { role: Role::Task });
        assert_eq!(check(&pass, 2, NOW, &[Role::Client, Role::Worker]), refused);
        assert!(check(&pass, 3, NOW + 1000, &both).is_ok());
        assert_eq!(check(&pass, 4, NOW + 1001, &both), Err(AuthError::Expired { late_ms: 1 }));
        for (nonce, other) in [
            (5, PassName { user: "bob".to_owned(), ..name.clone() }),
            (6, PassName { expires_ms: u64::MAX, ..name.clone() }),
        ] {
            let forged = Pass { name: other, key: pass.key.clone() };
            assert_eq!(check(&forged, nonce, NOW, &both), Err(AuthError::Wrong));
        }
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
