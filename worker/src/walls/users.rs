//! A separate user of the machine for each job, if this worker runs as root: tasks of two jobs can then touch neither each other's files
//! nor each other's processes, whatever other walls there are.
//!
//! Invariants: no two jobs with files or processes here share a user, not even with another worker of this machine, because each worker
//! locks its share of the numbers. A number in use is never given. A number whose files could not all be removed is not given again. When a
//! job is over, no process of its user is left.

use std::collections::BTreeSet;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sys::fs::{LockError, LockFile};
use sys::sandbox::User;

use crate::config::Config;
use crate::scratch::OpenDir;

/// Numbers that a worker takes: as many jobs can have files on it at once, and the default range is enough for 256 workers of a machine.
const SHARE: u32 = 4096;
/// Directory of the locks of shares, for all workers of the machine.
const LOCKS: &str = "/run/hanno/task-users";
/// Created and removed at the start, to find out whether files can change their owner.
const PROBE: &str = "probe";

/// The users of this worker's jobs. Cheap to clone; clones share.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    share: RangeInclusive<u32>,
    /// Numbers in use by others.
    used: Vec<RangeInclusive<u32>>,
    state: Mutex<State>,
    _lock: LockFile,
}

#[derive(Debug)]
struct State {
    /// Where the search continues, so that a number rests for as long as possible.
    next: u32,
    given: BTreeSet<u32>,
}

impl Users {
    /// Takes a share of the numbers; otherwise returns why tasks run as the worker's user. `jobs` is where their files will be, `passed`
    /// the other directories on their way.
    pub(crate) fn open(
        config: &Config,
        jobs: &OpenDir,
        passed: &[&OpenDir],
    ) -> Result<Users, String> {
        let all = config.task_users().ok_or("task_user_count is 0")?;
        let probe = User::new(*all.start()).ok_or("task_user_first is 0")?;
        // The free test, which changes nothing, comes first.
        sys::sandbox::try_user(probe, &[]).map_err(|error| error.to_string())?;
        let passed: Vec<&OpenDir> = passed.iter().copied().chain([jobs]).collect();
        for place in &passed {
            place.dir.let_pass().map_err(|error| format!("{}: {error}", place.path.display()))?;
        }
        let paths: Vec<&Path> = passed.iter().map(|place| place.path.as_path()).collect();
        sys::sandbox::try_user(probe, &paths).map_err(|error| error.to_string())?;
        let given = jobs.fresh(PROBE).and_then(|place| place.dir.give_to(probe));
        let given = given.and_then(|()| jobs.dir.remove(PROBE));
        given.map_err(|error| {
            format!("files cannot be given away in {}: {error}", jobs.path.display())
        })?;
        let (share, lock) = take_share(&all, Path::new(LOCKS))?;
        let used = sys::sandbox::numbers_in_use(&share)
            .map_err(|error| format!("cannot tell which users there are: {error}"))?;
        let next = share.start() + rand::random_range(0..=share.end() - share.start());
        let state = Mutex::new(State { next, given: BTreeSet::new() });
        Ok(Users { inner: Arc::new(Inner { share, used, state, _lock: lock }) })
    }

    /// A user for a job.
    pub(crate) fn lease(&self) -> io::Result<Lease> {
        let Inner { share, used, state, .. } = &*self.inner;
        let mut state = state.lock();
        for _ in share.clone() {
            let number = state.next;
            state.next = if number == *share.end() { *share.start() } else { number + 1 };
            let is_free =
                !state.given.contains(&number) && !used.iter().any(|used| used.contains(&number));
            if let Some(user) = User::new(number).filter(|_| is_free) {
                state.given.insert(number);
                return Ok(Lease { user, users: self.clone() });
            }
        }
        let text = format!(
            "all users from {} to {} are taken (task_user_first, task_user_count)",
            share.start(),
            share.end()
        );
        Err(io::Error::other(text))
    }

    /// The directories that these users may pass through: the same for all of them, because the system knows none of them.
    pub(crate) fn open_to(&self, directories: Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
        let Some(user) = self.any() else { return Ok(directories) };
        sys::sandbox::open_to(user, directories)
    }

    /// One of them, to test what any of them may do.
    pub(crate) fn any(&self) -> Option<User> {
        User::new(*self.inner.share.start())
    }

    /// Describes them for people.
    pub(crate) fn describe(&self) -> String {
        let share = &self.inner.share;
        format!("a user of its own for each job ({} to {})", share.start(), share.end())
    }

    /// Ends all processes of all jobs.
    pub(crate) fn end_all(&self) {
        let given = self.inner.state.lock().given.clone();
        given.into_iter().filter_map(User::new).for_each(end);
    }
}

/// A job's user, until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    user: User,
    users: Users,
}

impl Lease {
    /// The user.
    pub(crate) fn user(&self) -> User {
        self.user
    }

    /// Ends what is left of the job's processes, wherever they went.
    pub(crate) fn end_all(&self) {
        end(self.user);
    }

    /// The worker does not give this number again, because files of it are left.
    pub(crate) fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.users.inner.state.lock().given.remove(&self.user.number());
    }
}

fn end(user: User) {
    if let Err(error) = user.end_all() {
        tracing::warn!(user = user.number(), %error, "cannot end the processes of a job");
    }
}

/// The first share of `all` that no worker of this machine holds.
fn take_share(
    all: &RangeInclusive<u32>,
    locks: &Path,
) -> Result<(RangeInclusive<u32>, LockFile), String> {
    let cannot = |error: &dyn std::fmt::Display| {
        format!("cannot lock a share of the users in {}: {error}", locks.display())
    };
    sys::fs::create_private_dir(locks).map_err(|error| cannot(&error))?;
    // Shares begin at the same numbers for all workers, whatever their ranges.
    for share in all.start() / SHARE..=all.end() / SHARE {
        match LockFile::acquire(&locks.join(share.to_string())) {
            Ok(lock) => {
                let first = (share * SHARE).max(*all.start());
                let last = (share * SHARE + (SHARE - 1)).min(*all.end());
                return Ok((first..=last, lock));
            }
            Err(LockError::Held { .. }) => {}
            Err(error) => return Err(cannot(&error)),
        }
    }
    Err("other workers of this machine have all of them (task_user_count)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(share: RangeInclusive<u32>, used: Vec<RangeInclusive<u32>>) -> Users {
        let directory = tempfile::tempdir().unwrap();
        let lock = LockFile::acquire(&directory.path().join("lock")).unwrap();
        let state = Mutex::new(State { next: *share.end(), given: BTreeSet::new() });
        Users { inner: Arc::new(Inner { share, used, state, _lock: lock }) }
    }

    #[test]
    fn nobody_gets_a_number_that_is_somebodys() {
        let users = users(0..=9, vec![2..=3, 8..=20]);
        let leases: Vec<Lease> = (0..5).map(|_| users.lease().unwrap()).collect();
        let mut numbers: Vec<u32> = leases.iter().map(|lease| lease.user().number()).collect();
        numbers.sort();
        assert_eq!(numbers, [1, 4, 5, 6, 7]);
        let refused = users.lease().unwrap_err().to_string();
        assert!(refused.contains("all users from 0 to 9 are taken"), "{refused}");
        drop(leases);
        let next = users.lease().unwrap();
        assert_eq!(next.user().number(), 1, "after all others");
        next.keep();
        let again: Vec<u32> =
            (0..4).map(|_| users.lease().unwrap()).map(|l| l.user().number()).collect();
        assert!(!again.contains(&1), "{again:?}");
    }

    #[test]
    fn workers_of_a_machine_have_shares_of_their_own() {
        let locks = tempfile::tempdir().unwrap();
        let all = SHARE + 10..=3 * SHARE + 9;
        let take = || take_share(&all, locks.path());
        let taken = [take().unwrap(), take().unwrap(), take().unwrap()];
        let shares: Vec<_> = taken.iter().map(|(share, _)| share.clone()).collect();
        let expected =
            [SHARE + 10..=2 * SHARE - 1, 2 * SHARE..=3 * SHARE - 1, 3 * SHARE..=3 * SHARE + 9];
        assert_eq!(shares, expected);
        assert!(take().unwrap_err().contains("other workers"));
        // A share of another range that overlaps.
        let other = take_share(&(0..=2 * SHARE), locks.path()).unwrap();
        assert_eq!(other.0, 0..=SHARE - 1);
        drop(taken);
        assert_eq!(take().unwrap().0, SHARE + 10..=2 * SHARE - 1);
    }
}
