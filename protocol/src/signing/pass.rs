//! A task signs its requests with a pass of its job instead of the cluster secret. A pass is valid for a limited time.
//!
//! ```text
//! name   task:<job>:<last moment, ms since the epoch>:<user, hex>       in the place of a role in the header (crate::auth)
//! key    HMAC-SHA256(cluster secret, "hanno task pass: " name)
//! ```
//!
//! Whoever holds the cluster secret can derive the key for any name, so no table lists passes, and no restart of a daemon ends one. The holder of a pass can
//! sign in no other name: it belongs to one job, acts as one user, and only until the time in the name.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::CLOCK_SKEW_MAX;
use super::key::Key;
use crate::{JobId, hex};

/// How long a pass is valid once issued. A task whose pass nobody renews, because its job is over or its worker gone, can do nothing a quarter of an hour
/// later. Clocks that differ by [`CLOCK_SKEW_MAX`] still leave a running task time for several renewals.
pub const PASS_LIFETIME: Duration = Duration::from_secs(15 * 60);
/// How often a running task gets a new pass.
pub const PASS_RENEWAL: Duration = Duration::from_secs(3 * 60);
/// First word of a name.
const TASK: &str = "task";

const _: () = assert!(
    PASS_LIFETIME.as_secs() > CLOCK_SKEW_MAX.as_secs() + 2 * PASS_RENEWAL.as_secs(),
    "a task whose worker is late once still has a pass that is good"
);

/// Who holds a pass.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PassName {
    /// The job whose tasks hold it.
    pub job: JobId,
    /// The user that they act as.
    pub user: String,
    /// Last moment of its validity, milliseconds since the epoch.
    pub expires_ms: u64,
}

impl PassName {
    /// The key that belongs to the name.
    pub fn key(&self, secret: &Key) -> Key {
        secret.derive(&format!("hanno task pass: {self}"))
    }

    /// Reads the form of [`PassName`]'s `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        if parts.next()? != TASK {
            return None;
        }
        let job = parts.next()?.parse().ok()?;
        let expires_ms = parts.next()?.parse().ok()?;
        let digits = parts.next()?;
        let mut user = vec![0; digits.len() / 2];
        hex::read(digits, &mut user)?;
        let user = String::from_utf8(user).ok()?;
        let name = PassName { job, user, expires_ms };
        // Each name has exactly one form, so a signature covers exactly what the receiver understood.
        (parts.next().is_none() && name.to_string() == text).then_some(name)
    }
}

impl fmt::Display for PassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PassName { job, user, expires_ms } = self;
        write!(f, "{TASK}:{job}:{expires_ms}:{}", hex::encode(user.as_bytes()))
    }
}

/// A name with its key.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Pass {
    /// Who holds it.
    pub name: PassName,
    /// The key that signs in that name.
    pub key: Key,
}

impl Pass {
    /// Issues a pass.
    pub fn issue(secret: &Key, name: PassName) -> Self {
        Pass { key: name.key(secret), name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(user: &str) -> PassName {
        let job = JobId { cluster_start: 202_611_201_830, number: 7 };
        PassName { job, user: user.to_owned(), expires_ms: 1_700_000_000_000 }
    }

    #[test]
    fn names_read_as_they_were_written() {
        assert_eq!(name("ada").to_string(), "task:job_202611201830_0007:1700000000000:616461");
        for user in ["ada", "", "a:b c", "jörg"] {
            assert_eq!(PassName::parse(&name(user).to_string()), Some(name(user)), "{user}");
        }
    }

    #[test]
    fn other_texts_are_no_names() {
        for text in [
            "",
            "task",
            "client",
            "task:job_202611201830_0007:1700000000000",
            "task:job_202611201830_0007:1700000000000:6164610",
            "task:job_202611201830_0007:1700000000000:ff",
            "task:job_202611201830_0007:1700000000000:616461:",
            "task:job_202611201830_0007:01700000000000:616461",
            "task:job_202611201830_7:1700000000000:616461",
            "task:job_202611201830_0007:1700000000000:6A",
            "task:nonsense:1700000000000:616461",
            "Task:job_202611201830_0007:1700000000000:616461",
        ] {
            assert_eq!(PassName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn each_name_has_a_key_of_its_own() {
        let secret = Key::new([7; 32]);
        let key = name("ada").key(&secret);
        let later = PassName { expires_ms: u64::MAX, ..name("ada") };
        let mut other_job = name("ada");
        other_job.job.number = 8;
        for other in [name("bob"), later, other_job] {
            assert!(other.key(&secret) != key, "{other}");
        }
        assert!(name("ada").key(&Key::new([8; 32])) != key);
    }
}
