//! The groups of users, from the system or from a table, cached for a while.
//!
//! Invariant: a pure core never looks groups up; a call arrives with its caller's groups.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use protocol::{ErrorKind, RemoteError};
use serde::{Deserialize, Serialize};

/// Bytes of a user's name: as many as of a name in the namespace, and more than any system gives.
pub const USER_BYTES_MAX: usize = 255;
/// Most users cached at once; beyond that the cache is emptied. This limits what invented names can cost.
const USERS_MAX: usize = 10_000;

/// Checks the name of a user where it enters a daemon: it is kept, logged and looked up for whoever sends it.
///
/// # Errors
/// A refusal, if it is longer than [`USER_BYTES_MAX`] or has control characters.
pub fn check_user(name: &str) -> Result<(), RemoteError> {
    if name.len() <= USER_BYTES_MAX && !name.chars().any(char::is_control) {
        return Ok(());
    }
    let text = format!(
        "the name of the user is longer than {USER_BYTES_MAX} bytes or has control characters"
    );
    Err(RemoteError::new(ErrorKind::InvalidArgument, text))
}

/// The source of the groups of users.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GroupSource {
    /// `/etc/group` of the daemon's machine.
    System,
    /// The table `static_groups`.
    Static,
}

impl GroupSource {
    /// True unless there is a table that this source does not look at.
    pub fn uses(self, listed: &BTreeMap<String, Vec<String>>) -> bool {
        self == GroupSource::Static || listed.is_empty()
    }
}

/// The groups and rights of a user.
#[derive(Clone, Debug)]
pub struct Membership {
    /// Names of the groups.
    pub groups: Arc<[String]>,
    /// The superuser, or a member of the supergroup.
    pub is_superuser: bool,
}

/// Who has the superuser's rights.
#[derive(Clone, Debug)]
pub struct Superusers {
    /// The user.
    pub user: String,
    /// The group whose members have the same rights.
    pub group: String,
}

/// The cache of users seen.
#[derive(Debug)]
pub struct Groups {
    /// `None`: the system.
    table: Option<BTreeMap<String, Vec<String>>>,
    superusers: Superusers,
    ttl: Duration,
    known: RwLock<HashMap<String, (Membership, Instant)>>,
}

impl Groups {
    /// An empty cache; `listed` is the table for [`GroupSource::Static`].
    pub fn new(
        source: GroupSource,
        listed: &BTreeMap<String, Vec<String>>,
        superusers: Superusers,
        ttl: Duration,
    ) -> Self {
        let table = match source {
            GroupSource::System => None,
            GroupSource::Static => Some(listed.clone()),
        };
        Groups { table, superusers, ttl, known: RwLock::default() }
    }

    /// The groups and rights of `user`; asks the system if the entry is too old. Nobody has a name that [`check_user`] refuses.
    pub async fn of(self: &Arc<Self>, user: &str) -> Membership {
        if check_user(user).is_err() {
            return Membership { groups: Arc::new([]), is_superuser: false };
        }
        if let Some((membership, at)) = self.known.read().get(user)
            && at.elapsed() < self.ttl
        {
            return membership.clone();
        }
        let (this, name) = (Arc::clone(self), user.to_owned());
        let asked = tokio::task::spawn_blocking(move || this.ask(&name)).await;
        let groups = match asked {
            Ok(Ok(groups)) => groups,
            Ok(Err(error)) => {
                tracing::warn!(user, %error, "the groups of a user cannot be read: none count");
                Vec::new()
            }
            // The runtime is stopping.
            Err(_) => Vec::new(),
        };
        self.remember(user, groups)
    }

    /// Forgets everybody: from now on the system is asked again.
    pub fn forget(&self) {
        self.known.write().clear();
    }

    fn ask(&self, user: &str) -> io::Result<Vec<String>> {
        match &self.table {
            None => sys::host::users::groups_of(user),
            Some(table) => Ok(table.get(user).cloned().unwrap_or_default()),
        }
    }

    fn remember(&self, user: &str, groups: Vec<String>) -> Membership {
        let Superusers { user: superuser, group } = &self.superusers;
        let is_superuser = user == superuser || groups.contains(group);
        let membership = Membership { groups: groups.into(), is_superuser };
        let mut known = self.known.write();
        if known.len() >= USERS_MAX {
            known.clear();
        }
        known.insert(user.to_owned(), (membership.clone(), Instant::now()));
        membership
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(ttl_ms: u64) -> Arc<Groups> {
        let table = [("bob", vec!["staff"]), ("eve", vec!["staff", "admins"])];
        let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
        let superusers = Superusers { user: "hdfs".to_owned(), group: "admins".to_owned() };
        Arc::new(Groups::new(
            GroupSource::Static,
            &table.map(|(user, of)| (user.to_owned(), owned(of))).into(),
            superusers,
            Duration::from_millis(ttl_ms),
        ))
    }

    #[tokio::test]
    async fn the_superuser_and_the_supergroup_are_told() {
        for ttl_ms in [0, 60_000] {
            let groups = groups(ttl_ms);
            for (user, own, is_superuser) in [
                ("hdfs", &[][..], true),
                ("bob", &["staff"], false),
                ("eve", &["staff", "admins"], true),
                ("nobody", &[], false),
                ("bob", &["staff"], false),
            ] {
                let membership = groups.of(user).await;
                assert_eq!(membership.is_superuser, is_superuser, "{user}");
                assert_eq!(&*membership.groups, own, "{user}");
            }
        }
    }

    #[tokio::test]
    async fn a_name_that_is_too_long_is_nobodys_and_not_kept() {
        let groups = groups(60_000);
        let longest = "n".repeat(USER_BYTES_MAX);
        for (name, kept) in [(longest.clone(), 1), (longest + "n", 1), ("a\tb".to_owned(), 1)] {
            assert_eq!(check_user(&name).is_ok(), name.len() == USER_BYTES_MAX);
            assert!(groups.of(&name).await.groups.is_empty());
            assert_eq!(groups.known.read().len(), kept);
        }
    }

    #[tokio::test]
    async fn invented_names_do_not_pile_up() {
        let groups = groups(60_000);
        for number in 0..=USERS_MAX {
            groups.remember(&number.to_string(), Vec::new());
        }
        assert_eq!(groups.known.read().len(), 1);
    }
}
