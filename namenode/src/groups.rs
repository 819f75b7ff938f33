//! Which groups a caller belongs to ([`daemon::groups`]), in the form that the core takes.

use std::sync::Arc;
use std::time::Duration;

use daemon::groups::Superusers;

use crate::config::Config;
use crate::core::rights::Caller;

/// What is known of a user.
#[derive(Clone, Debug)]
pub(crate) struct Membership(daemon::groups::Membership);

impl Membership {
    /// Names of the groups.
    pub(crate) fn groups(&self) -> &[String] {
        &self.0.groups
    }

    /// That of the users of a simulation, who may do everything.
    #[cfg(feature = "sim")]
    pub(crate) fn of_simulation() -> Self {
        Membership(daemon::groups::Membership { groups: [].into(), is_superuser: true })
    }

    /// The caller with this user name.
    pub(crate) fn caller<'a>(&'a self, user: &'a str) -> Caller<'a> {
        Caller { user, groups: &self.0.groups, is_superuser: self.0.is_superuser }
    }
}

/// The table of users seen.
pub(crate) struct Groups(Arc<daemon::groups::Groups>);

impl Groups {
    pub(crate) fn new(config: &Config) -> Self {
        let superusers = Superusers { user: config.superuser(), group: config.supergroup.clone() };
        let ttl = Duration::from_millis(config.groups_ttl_ms);
        let (source, listed) = (config.groups, &config.static_groups);
        Groups(Arc::new(daemon::groups::Groups::new(source, listed, superusers, ttl)))
    }

    /// What is known of `user`; asks the system if that is too old.
    pub(crate) async fn of(&self, user: &str) -> Membership {
        Membership(self.0.of(user).await)
    }

    /// Asks the system anew from here on.
    pub(crate) fn forget(&self) {
        self.0.forget();
    }
}
