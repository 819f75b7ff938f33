//! Which groups a user belongs to, asked of the system or of a table and remembered for a while.
//!
//! Invariant: the core never asks; a call brings its caller's groups with it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLock;

use crate::config::{Config, GroupSource};
use crate::core::permission::Caller;

/// Users remembered at once; beyond that everything is asked anew. Bounds what invented names can cost.
const USERS_MAX: usize = 10_000;

/// What is known of a user.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    groups: Arc<[String]>,
    is_superuser: bool,
}

impl Membership {
    /// Names of the groups.
    pub(crate) fn groups(&self) -> &[String] {
        &self.groups
    }

    /// The caller with this user name.
    pub(crate) fn caller<'a>(&'a self, user: &'a str) -> Caller<'a> {
        Caller { user, groups: &self.groups, is_superuser: self.is_superuser }
    }
}

/// The table of users seen.
pub(crate) struct Groups {
    source: Source,
    superuser: String,
    supergroup: String,
    ttl: Duration,
    known: RwLock<HashMap<String, (Membership, Instant)>>,
}

enum Source {
    System,
    Table(BTreeMap<String, Vec<String>>),
}

impl Groups {
    pub(crate) fn new(config: &Config) -> Self {
        let source = match config.groups {
            GroupSource::System => Source::System,
            GroupSource::Static => Source::Table(config.static_groups.clone()),
        };
        Groups {
            source,
            superuser: config.superuser(),
            supergroup: config.supergroup.clone(),
            ttl: Duration::from_millis(config.groups_ttl_ms),
            known: RwLock::default(),
        }
    }

    /// What is known of `user`; asks the system if that is too old.
    pub(crate) async fn of(self: &Arc<Self>, user: &str) -> Membership {
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

    fn ask(&self, user: &str) -> io::Result<Vec<String>> {
        match &self.source {
            Source::System => sys::host::groups_of(user),
            Source::Table(table) => Ok(table.get(user).cloned().unwrap_or_default()),
        }
    }

    fn remember(&self, user: &str, groups: Vec<String>) -> Membership {
        let is_superuser = user == self.superuser || groups.contains(&self.supergroup);
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
        Arc::new(Groups::new(&Config {
            superuser: Some("hdfs".to_owned()),
            supergroup: "admins".to_owned(),
            groups: GroupSource::Static,
            static_groups: table.map(|(user, of)| (user.to_owned(), owned(of))).into(),
            groups_ttl_ms: ttl_ms,
            ..Config::default()
        }))
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
                let caller = membership.caller(user);
                assert_eq!((caller.user, caller.is_superuser), (user, is_superuser));
                assert_eq!(caller.groups, own);
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
