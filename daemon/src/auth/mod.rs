//! Finds out who signed a request: checks signature, destination, clock and nonce against the cluster secret. The head of the request is enough for that; its
//! body is read afterwards (`bodies`).

mod bodies;
mod nonces;
mod signer;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use protocol::auth::{
    CLOCK_SKEW_MAX, Hello, Incarnation, Key, ReadyKey, Role, Service, Signature, SignedRequest,
    answer_key,
};

use self::bodies::Bodies;
use self::nonces::{Nonces, Refused};
use self::signer::Owner;

pub(crate) use self::bodies::BodyError;
pub use self::signer::{Checked, Seal, Signer};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No or no readable `authorization` header.
    #[error("the request is not signed with the cluster secret")]
    Missing,
    /// The signature does not match.
    #[error("the request's signature is wrong: is this the right cluster secret?")]
    Wrong,
    /// It was meant for another daemon, or for this one before a restart.
    #[error("the request was signed for another daemon, or for an earlier start of this one")]
    Misdirected,
    /// Too old or from the future.
    #[error("the request's clock is {skew_ms} ms off; at most 300000 are accepted")]
    Skew {
        /// Difference of the clocks, milliseconds.
        skew_ms: u64,
    },
    /// A task's pass has expired.
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
    /// Later requests of its sender arrived first, too many to determine whether this one was seen.
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
    secret: Key,
    hello: Hello,
    keys: [RoleKeys; 4],
    nonces: Mutex<Nonces>,
    /// Separate, so tasks cannot use up the room kept for the others.
    nonces_of_tasks: Mutex<Nonces>,
    bodies: Bodies,
}

#[derive(Debug)]
struct RoleKeys {
    role: Role,
    requests: ReadyKey,
    answers: Arc<ReadyKey>,
}

impl Authenticator {
    /// Checks requests to this start of a daemon against `secret`.
    pub fn new(secret: &Key, service: Service) -> Self {
        let roles = [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker];
        let keys = roles.map(|role| {
            let key = role.key(secret);
            RoleKeys { role, requests: key.ready(), answers: Arc::new(answer_key(&key).ready()) }
        });
        // This is practically never the nobody incarnation: that is one draw in 2^128.
        let incarnation = Incarnation(rand::random());
        Authenticator {
            inner: Arc::new(Inner {
                secret: secret.clone(),
                hello: Hello { service, incarnation },
                keys,
                nonces: Mutex::default(),
                nonces_of_tasks: Mutex::default(),
                bodies: Bodies::default(),
            }),
        }
    }

    /// This daemon's identity, for those who can sign.
    pub fn hello(&self) -> Hello {
        self.inner.hello
    }

    /// The bodies being read.
    pub(crate) fn bodies(&self) -> &Bodies {
        &self.inner.bodies
    }

    /// Returns who signed `request` for this daemon, if the signer is one of `allowed`.
    ///
    /// # Errors
    /// [`AuthError`].
    pub fn check(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
        allowed: &[Role],
    ) -> Result<Checked, AuthError> {
        self.check_at(header, request, (allowed, self.inner.hello.incarnation), now_ms())
    }

    /// As [`Authenticator::check`], for a request that is addressed to nobody.
    ///
    /// # Errors
    /// [`AuthError`].
    pub(crate) fn check_hello(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
    ) -> Result<Checked, AuthError> {
        let anybody = [Role::Client, Role::Datanode, Role::Worker, Role::Jobtracker, Role::Task];
        self.check_at(header, request, (&anybody, Incarnation::NONE), now_ms())
    }

    fn check_at(
        &self,
        header: Option<&str>,
        request: SignedRequest<'_>,
        (allowed, to): (&[Role], Incarnation),
        now_ms: u64,
    ) -> Result<Checked, AuthError> {
        let signature = header.and_then(Signature::parse).ok_or(AuthError::Missing)?;
        let answers = self.verify(&signature, request).ok_or(AuthError::Wrong)?;
        if signature.to != to {
            return Err(AuthError::Misdirected);
        }
        let skew_ms = now_ms.abs_diff(signature.time_ms);
        if u128::from(skew_ms) > CLOCK_SKEW_MAX.as_millis() {
            return Err(AuthError::Skew { skew_ms });
        }
        let expires_ms = signature.pass.as_ref().map_or(u64::MAX, |pass| pass.expires_ms);
        if now_ms > expires_ms {
            return Err(AuthError::Expired { late_ms: now_ms - expires_ms });
        }
        let (nonces, owner) = match &signature.pass {
            Some(name) => (&self.inner.nonces_of_tasks, Owner::Job(name.job)),
            None => (&self.inner.nonces, Owner::Role(signature.role)),
        };
        let taken = nonces.lock().take(owner, signature.nonce, now_ms);
        taken.map_err(|refused| match refused {
            Refused::Seen => AuthError::Replayed,
            Refused::Late => AuthError::Overtaken,
            Refused::Full => AuthError::Flood,
        })?;
        if !allowed.contains(&signature.role) {
            return Err(AuthError::Role { role: signature.role });
        }
        let signer = match signature.pass {
            Some(name) => Signer::Task(name),
            None => Signer::Trusted(signature.role),
        };
        let seal = Seal { key: answers, nonce: signature.nonce };
        Ok(Checked { signer, body: signature.body, seal })
    }

    /// Verifies the signature; returns the key for the answer.
    fn verify(&self, signature: &Signature, request: SignedRequest<'_>) -> Option<Arc<ReadyKey>> {
        if let Some(name) = &signature.pass {
            let key = name.key(&self.inner.secret);
            let genuine = signature.matches(&key.ready(), request);
            return genuine.then(|| Arc::new(answer_key(&key).ready()));
        }
        let mut keys = self.inner.keys.iter();
        let keys = keys.find(|keys| keys.role == signature.role)?;
        signature.matches(&keys.requests, request).then(|| Arc::clone(&keys.answers))
    }
}

fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::auth::{BodyDigest, Nonce, Occasion};
    use protocol::pass::{Pass, PassName};

    const REQUEST: SignedRequest<'_> = SignedRequest { method: "POST", target: "/rpc" };
    const NOW: u64 = 1_700_000_000_000;

    struct Stand {
        secret: Key,
        auth: Authenticator,
    }

    impl Stand {
        fn new() -> Self {
            let secret = Key::new([1; 32]);
            let auth = Authenticator::new(&secret, Service::Namenode);
            Stand { secret, auth }
        }

        fn occasion(&self, time_ms: u64, number: u64) -> Occasion {
            let to = self.auth.hello().incarnation;
            let nonce = Nonce { stream: 1, number };
            Occasion { time_ms, nonce, to, body: BodyDigest::EMPTY }
        }

        fn header(&self, role: Role, on: Occasion) -> String {
            Signature::sign(&role.key(&self.secret).ready(), role, on, REQUEST).to_header()
        }

        fn check(&self, header: Option<&str>) -> Result<Signer, AuthError> {
            self.check_at(header, &[Role::Client], NOW)
        }

        fn check_at(
            &self,
            header: Option<&str>,
            allowed: &[Role],
            now_ms: u64,
        ) -> Result<Signer, AuthError> {
            let to = self.auth.hello().incarnation;
            let checked = self.auth.check_at(header, REQUEST, (allowed, to), now_ms);
            checked.map(|checked| checked.signer)
        }
    }

    #[test]
    fn only_fresh_signed_requests_of_the_right_role_pass() {
        let stand = Stand::new();
        let header = |role, time, number| stand.header(role, stand.occasion(time, number));
        let check = |header: &str| stand.check(Some(header));
        assert_eq!(stand.check(None), Err(AuthError::Missing));
        assert_eq!(check("Bearer x"), Err(AuthError::Missing));
        assert_eq!(check(&header(Role::Client, NOW, 1)), Ok(Signer::Trusted(Role::Client)));
        assert_eq!(check(&header(Role::Client, NOW, 1)), Err(AuthError::Replayed));
        assert_eq!(
            check(&header(Role::Worker, NOW, 2)),
            Err(AuthError::Role { role: Role::Worker })
        );
        assert_eq!(
            check(&header(Role::Client, NOW - 300_001, 3)),
            Err(AuthError::Skew { skew_ms: 300_001 })
        );
        let early = check(&header(Role::Client, NOW + 300_000, 4));
        assert_eq!(early, Ok(Signer::Trusted(Role::Client)));
        let other = Role::Client.key(&Key::new([2; 32])).ready();
        let forged = Signature::sign(&other, Role::Client, stand.occasion(NOW, 5), REQUEST);
        assert_eq!(check(&forged.to_header()), Err(AuthError::Wrong));
    }

    #[test]
    fn a_request_is_good_for_one_start_of_one_daemon() {
        let (here, elsewhere) = (Stand::new(), Stand::new());
        assert_ne!(here.auth.hello().incarnation, elsewhere.auth.hello().incarnation);
        let header = here.header(Role::Client, here.occasion(NOW, 1));
        assert_eq!(elsewhere.check(Some(&header)), Err(AuthError::Misdirected));
        assert!(here.check(Some(&header)).is_ok());
        let nobody = Occasion { to: Incarnation::NONE, ..here.occasion(NOW, 2) };
        let header = here.header(Role::Client, nobody);
        assert_eq!(here.check(Some(&header)), Err(AuthError::Misdirected));
    }

    #[test]
    fn a_task_is_let_in_where_tasks_are_and_while_its_pass_is_good() {
        let stand = Stand::new();
        let job = protocol::JobId { cluster_start: 1, number: 1 };
        let name = PassName { job, user: "ada".to_owned(), expires_ms: NOW + 1000 };
        let pass = Pass::issue(&stand.secret, name.clone());
        let check = |pass: &Pass, number, now, allowed: &[Role]| {
            let on = stand.occasion(now, number);
            let header = Signature::sign_as_task(pass, on, REQUEST).to_header();
            stand.check_at(Some(&header), allowed, now)
        };
        let both = [Role::Client, Role::Task];
        let signer = check(&pass, 1, NOW, &both).unwrap();
        assert_eq!(signer, Signer::Task(name.clone()));
        assert!(signer.speaks_for("ada") && !signer.speaks_for("bob"));
        let refused = Err(AuthError::Role { role: Role::Task });
        assert_eq!(check(&pass, 2, NOW, &[Role::Client, Role::Worker]), refused);
        assert!(check(&pass, 3, NOW + 1000, &both).is_ok());
        assert_eq!(check(&pass, 4, NOW + 1001, &both), Err(AuthError::Expired { late_ms: 1 }));
        for (number, other) in [
            (5, PassName { user: "bob".to_owned(), ..name.clone() }),
            (6, PassName { expires_ms: u64::MAX, ..name.clone() }),
        ] {
            let forged = Pass { name: other, key: pass.key.clone() };
            assert_eq!(check(&forged, number, NOW, &both), Err(AuthError::Wrong));
        }
    }

    #[test]
    fn a_job_with_many_streams_keeps_no_other_out() {
        let stand = Stand::new();
        let pass = |number| {
            let job = protocol::JobId { cluster_start: 1, number };
            let name = PassName { job, user: "ada".to_owned(), expires_ms: NOW + 1000 };
            Pass::issue(&stand.secret, name)
        };
        let (hostile, other) = (pass(1), pass(2));
        let ask = |pass: &Pass, stream, to| {
            let nonce = Nonce { stream, number: u64::MAX / 2 };
            let on = Occasion { time_ms: NOW, nonce, to, body: BodyDigest::EMPTY };
            let header = Signature::sign_as_task(pass, on, REQUEST).to_header();
            let checked = stand.auth.check_at(Some(&header), REQUEST, (&[Role::Task], to), NOW);
            checked.map(drop)
        };
        // Also by what is addressed to nobody.
        let (own, nobody) = (stand.auth.hello().incarnation, Incarnation::NONE);
        for stream in 0..20_000 {
            let to = if stream % 2 == 0 { own } else { nobody };
            assert_eq!(ask(&hostile, stream, to), Ok(()), "{stream}");
        }
        assert_eq!(ask(&other, 7, own), Ok(()));
        assert_eq!(ask(&hostile, 7, nobody), Err(AuthError::Replayed));
        assert_eq!(ask(&other, 7, own), Err(AuthError::Replayed));
    }

    #[test]
    fn a_nonce_is_remembered_as_long_as_its_signature_is_good() {
        let stand = Stand::new();
        let header = stand.header(Role::Client, stand.occasion(NOW + 300_000, 1));
        for minutes in 0..=10 {
            let outcome = stand.check_at(Some(&header), &[Role::Client], NOW + minutes * 60_000);
            assert_eq!(outcome.is_ok(), minutes == 0, "{minutes}");
        }
    }
}
