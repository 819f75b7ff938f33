//! Who may do what to jobs and to the JobTracker.
//!
//! All users can see a job's use of the cluster: its [`outline`](protocol::jobs::JobReport::outline). The job can be viewed and changed by
//! its owner, by users whom the owner allows (Hadoop's `mapreduce.job.acl-view-job` and `mapreduce.job.acl-modify-job`), and by the
//! administrators of its queue and of the cluster. Only the administrators of the cluster can reload the rules of the JobTracker.
//!
//! Invariant: the core makes no queries; a call includes its caller's groups.

use std::collections::BTreeMap;

use protocol::property::keys;

use super::jobs::Job;

/// An operation on a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// View it, its tasks, counters, settings and logs.
    View,
    /// End it or its attempts, change its priority.
    Modify,
}

impl Operation {
    /// Hadoop's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Operation::View => "VIEW_JOB",
            Operation::Modify => "MODIFY_JOB",
        }
    }

    /// Property of a job that names others with the right.
    fn property(self) -> &'static str {
        match self {
            Operation::View => keys::ACL_VIEW.name(),
            Operation::Modify => keys::ACL_MODIFY.name(),
        }
    }
}

/// The owner of a job, and the users whom the owner allows an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Whose {
    owner: String,
    queue: String,
    list: Option<String>,
}

impl Whose {
    /// For a job of `owner` in `queue`.
    pub(crate) fn new(
        (owner, queue): (&str, &str),
        properties: &BTreeMap<String, String>,
        operation: Operation,
    ) -> Self {
        let list = properties.get(operation.property()).cloned();
        Whose { owner: owner.to_owned(), queue: queue.to_owned(), list }
    }

    /// For a known job.
    pub(crate) fn of(job: &Job, operation: Operation) -> Self {
        Whose::new((&job.user, &job.queue), &job.spec.properties, operation)
    }
}

/// Users and groups, in Hadoop's form: users with commas, a blank, groups with commas; `*` is everybody.
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

    /// Parses the form; every text is valid.
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

/// The administrators besides the superuser; by default nobody.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Administrators {
    /// Those of the cluster.
    pub(crate) cluster: AccessList,
    /// Those of the jobs of a queue.
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

/// The caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The acting user.
    pub(crate) user: &'a str,
    /// Groups that the user belongs to.
    pub(crate) groups: &'a [String],
    /// The superuser, or a member of the supergroup.
    pub(crate) is_superuser: bool,
}

impl Administrators {
    /// True if `caller` may do the operation for which `whose` was made.
    pub(crate) fn allow(&self, caller: &Caller<'_>, whose: &Whose) -> bool {
        let by_owner =
            || whose.list.as_deref().is_some_and(|list| AccessList::parse(list).holds(caller));
        whose.owner == caller.user || self.administer_queue(caller, &whose.queue) || by_owner()
    }

    /// True if `caller` administers the jobs of a queue.
    pub(crate) fn administer_queue(&self, caller: &Caller<'_>, queue: &str) -> bool {
        self.administer(caller) || self.queues.get(queue).is_some_and(|list| list.holds(caller))
    }

    /// True if `caller` administers the cluster.
    pub(crate) fn administer(&self, caller: &Caller<'_>) -> bool {
        caller.is_superuser || self.cluster.holds(caller)
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
