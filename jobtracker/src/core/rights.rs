//! Who may do what to jobs and to the JobTracker.
//!
//! Reading is free. A job is changed by its owner, those whom the owner lets (Hadoop's `mapreduce.job.acl-modify-job`), the administrators of its
//! queue and those of the cluster; the rules of the JobTracker are read again for the administrators of the cluster alone.
//!
//! Invariant: the core asks nobody; a call brings its caller's groups with it.

use std::collections::BTreeMap;

use protocol::property::keys;
use protocol::{ErrorKind, JobId, RemoteError};

use super::{Core, report};

/// Property of a job that names who else may change it.
const MODIFY_PROPERTY: &str = keys::ACL_MODIFY.name();

/// Users and groups, in Hadoop's form: names of users with commas, a blank, names of groups with commas; `*` is everybody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct AccessList {
    everybody: bool,
    users: Vec<String>,
    groups: Vec<String>,
}

impl AccessList {
    /// Empty.
    #[cfg(test)]
    pub(crate) const NOBODY: Self =
        AccessList { everybody: false, users: Vec::new(), groups: Vec::new() };

    /// Reads the form; every text has a meaning.
    pub(crate) fn parse(text: &str) -> Self {
        let names = |part: Option<&str>| {
            let names = part.unwrap_or_default().split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let mut parts = text.trim_end().splitn(2, ' ');
        let (users, groups) = (names(parts.next()), names(parts.next()));
        AccessList { everybody: text.trim() == "*", users, groups }
    }

    fn holds(&self, caller: &Caller<'_>) -> bool {
        self.everybody
            || self.users.iter().any(|user| user == caller.user)
            || self.groups.iter().any(|group| caller.groups.contains(group))
    }
}

/// Who administers, besides the superuser; by default nobody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Administrators {
    /// The cluster.
    pub(crate) cluster: AccessList,
    /// The jobs of a queue.
    pub(crate) queues: BTreeMap<String, AccessList>,
}

impl Administrators {
    /// The lists in Hadoop's form.
    pub(crate) fn parse(cluster: &str, queues: &BTreeMap<String, String>) -> Self {
        let list = |(queue, text): (&String, &String)| (queue.clone(), AccessList::parse(text));
        Administrators {
            cluster: AccessList::parse(cluster),
            queues: queues.iter().map(list).collect(),
        }
    }
}

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The acting user.
    pub(crate) user: &'a str,
    /// Groups that the user belongs to.
    pub(crate) groups: &'a [String],
    /// The superuser, or a member of the supergroup.
    pub(crate) is_superuser: bool,
}

impl Core {
    /// Refuses who may not change a job.
    pub(crate) fn check_modify(&self, caller: &Caller<'_>, id: JobId) -> Result<(), RemoteError> {
        let job = self.job(id).ok_or_else(|| report::unknown_job(id))?;
        let let_by_owner = || {
            let list = job.spec.properties.get(MODIFY_PROPERTY);
            list.is_some_and(|list| AccessList::parse(list).holds(caller))
        };
        let of_queue = || {
            let list = self.rules.administrators.queues.get(&job.queue);
            list.is_some_and(|list| list.holds(caller))
        };
        if job.user == caller.user || self.administers(caller) || of_queue() || let_by_owner() {
            return Ok(());
        }
        let text = format!("User {} cannot perform operation MODIFY_JOB on {id}", caller.user);
        Err(RemoteError::new(ErrorKind::PermissionDenied, text))
    }

    /// Refuses who does not administer the cluster; `what` is Hadoop's name of the call.
    pub(crate) fn check_administrator(
        &self,
        caller: &Caller<'_>,
        what: &str,
    ) -> Result<(), RemoteError> {
        if self.administers(caller) {
            return Ok(());
        }
        let text = format!("User {} doesn't have permission to call '{what}'", caller.user);
        Err(RemoteError::new(ErrorKind::PermissionDenied, text))
    }

    fn administers(&self, caller: &Caller<'_>) -> bool {
        caller.is_superuser || self.rules.administrators.cluster.holds(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, user: &str, groups: &[&str]) -> bool {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        AccessList::parse(text).holds(&Caller { user, groups: &groups, is_superuser: false })
    }

    #[test]
    fn lists_in_hadoops_form() {
        for (text, user, groups, expected) in [
            ("", "ann", &["ops"][..], false),
            (" ", "ann", &["ops"], false),
            ("*", "ann", &[], true),
            ("ann", "ann", &[], true),
            ("bob, ann", "ann", &[], false),
            ("bob,ann ops", "ann", &[], true),
            ("bob ops,dev", "ann", &["dev"], true),
            (" ops", "ann", &["ops"], true),
            (" ops", "ops", &[], false),
            ("bob ops", "ann", &["bob"], false),
        ] {
            assert_eq!(list(text, user, groups), expected, "{text:?} {user} {groups:?}");
        }
    }
}
