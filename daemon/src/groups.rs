//! The groups of users, from the system or from a table, cached for a while.
//!
//! Invariant: a pure core never looks groups up; a call arrives with its caller's groups.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};

/// Most users cached at once; beyond that the cache is emptied. This limits what invented names can cost.
const USERS_MAX: usize = 10_000;

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

    /// The groups and rights of `user`; asks the system if the entry is too old.
    pub async fn of(self: &Arc<Self>, user: &str) -> Membership {
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
            None => sys::host::groups_of(user),
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
    async fn invented_names_do_not_pile_up() {
        let groups = groups(60_000);
        for number in 0..=USERS_MAX {
            groups.remember(&number.to_string(), Vec::new());
        }
        assert_eq!(groups.known.read().len(), 1);
    }
}
