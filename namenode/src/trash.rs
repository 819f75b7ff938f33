//! The trash emptier: turns every user's `/user/<name>/.Trash/Current` into a checkpoint now and then and deletes checkpoints that
//! are older than the interval.
//!
//! It lives at the rim and works through the same calls as any client, as the owner of the NameNode's process. What to do with
//! one user's trash is `plan`, a function of names and time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::namesystem::{CallOrigin, Namesystem};
use daemon::Shutdown;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use protocol::namenode::{FileStatus, LIST_ENTRIES_MAX, ListPage, RenameTo, TypedCall, calls};
use protocol::{DfsPath, RemoteError};

use crate::config::Config;
use crate::service::{Local, Service};

/// Where deleted files are before the next checkpoint.
pub const CURRENT: &str = "Current";
/// Directory of the trash in a home directory.
pub use crate::core::changes::TRASH;
/// Where home directories are.
pub(crate) const HOMES: &str = "/user";
/// Names of checkpoints, in local time.
const CHECKPOINT_FORMAT: &str = "%y%m%d%H%M%S";
/// Digits of a checkpoint's name.
const CHECKPOINT_DIGITS: usize = 12;

/// Name of a checkpoint that is made at a time.
pub fn checkpoint_name(at_ms: u64, zone: &TimeZone) -> String {
    let at = Timestamp::from_millisecond(i64::try_from(at_ms).unwrap_or(i64::MAX));
    at.unwrap_or_default().to_zoned(zone.clone()).strftime(CHECKPOINT_FORMAT).to_string()
}

/// When a checkpoint was made, by its name (a suffix `-<n>` distinguishes those of one second).
pub fn checkpoint_time(name: &str, zone: &TimeZone) -> Option<u64> {
    let digits = name.split('-').next().filter(|digits| digits.len() == CHECKPOINT_DIGITS)?;
    let local = DateTime::strptime(CHECKPOINT_FORMAT, digits).ok()?;
    u64::try_from(local.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond()).ok()
}

/// What to do with one user's trash.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    /// Delete this checkpoint for good.
    Delete(String),
    /// Rename `Current` to this.
    Checkpoint(String),
}

fn plan(names: &[String], now_ms: u64, interval_ms: u64, zone: &TimeZone) -> Vec<Step> {
    let is_old =
        |name: &str| checkpoint_time(name, zone).is_some_and(|at| at + interval_ms < now_ms);
    let mut steps: Vec<Step> =
        names.iter().filter(|name| is_old(name)).cloned().map(Step::Delete).collect();
    if names.iter().any(|name| name == CURRENT) {
        let name = checkpoint_name(now_ms, zone);
        let taken = |name: &String| names.contains(name);
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name));
        steps.extend(free.map(Step::Checkpoint));
    }
    steps
}

/// How often and how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// How long a checkpoint is kept.
    pub(crate) interval_ms: u64,
    /// Time between checkpoints.
    pub(crate) checkpoint_ms: u64,
}

impl Times {
    pub(crate) fn of(config: &Config) -> Self {
        let Config { trash_interval_ms, trash_checkpoint_ms, .. } = *config;
        Times { interval_ms: trash_interval_ms, checkpoint_ms: trash_checkpoint_ms }
    }
}

/// Empties the trash until the NameNode ends.
pub(crate) async fn run(service: Service, user: String, times: Times, shutdown: Shutdown) {
    if times.interval_ms == 0 {
        return;
    }
    let emptier = Emptier { names: Local::new(service, "local"), user, zone: TimeZone::system() };
    let period = Duration::from_millis(times.checkpoint_ms.clamp(1, times.interval_ms));
    loop {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = shutdown.wait() => return,
        }
        if let Err(error) = emptier.empty_all(times.interval_ms).await {
            tracing::warn!(error = %error, "cannot empty the trash now");
        }
    }
}

struct Emptier {
    names: Local,
    user: String,
    zone: TimeZone,
}

impl Emptier {
    async fn ask<C: TypedCall>(&self, call: C) -> Result<C::Answer, RemoteError> {
        self.names.ask(&self.user, CallOrigin::default(), call).await
    }

    async fn list(&self, path: &DfsPath) -> Result<Vec<FileStatus>, RemoteError> {
        let mut all: Vec<FileStatus> = Vec::new();
        loop {
            let start_after = all.last().map(|entry| entry.name.clone()).unwrap_or_default();
            let call = calls::List { path: path.clone(), start_after, limit: LIST_ENTRIES_MAX };
            let ListPage { entries, remaining } = self.ask(call).await?;
            let is_end = remaining == 0 || entries.is_empty();
            all.extend(entries);
            if is_end {
                return Ok(all);
            }
        }
    }

    async fn empty_all(&self, interval_ms: u64) -> Result<(), RemoteError> {
        let homes = DfsPath::parse(HOMES).expect("the constant is a path");
        let users = match self.list(&homes).await {
            Err(error) if error.kind == protocol::ErrorKind::NotFound => return Ok(()),
            users => users?,
        };
        for user in users.iter().filter(|user| user.directory) {
            // A name that is in the tree fits into a path below its parent; with two more elements it may become too long.
            let Ok(trash) = homes.join(&user.name).and_then(|home| home.join(TRASH)) else {
                continue;
            };
            if let Err(error) = self.empty(&trash, interval_ms).await
                && error.kind != protocol::ErrorKind::NotFound
            {
                tracing::warn!(%trash, error = %error, "cannot empty a user's trash");
            }
        }
        Ok(())
    }

    async fn empty(&self, trash: &DfsPath, interval_ms: u64) -> Result<(), RemoteError> {
        let names: Vec<String> =
            self.list(trash).await?.into_iter().map(|entry| entry.name).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        for step in plan(&names, now_ms, interval_ms, &self.zone) {
            let (Step::Delete(name) | Step::Checkpoint(name)) = &step;
            let Ok(path) = trash.join(name) else { continue };
            match step {
                Step::Delete(_) => {
                    self.ask(calls::Delete { path: path.clone(), recursive: true }).await?;
                    tracing::info!(%path, "trash checkpoint deleted");
                }
                Step::Checkpoint(_) => {
                    let Ok(from) = trash.join(CURRENT) else { continue };
                    self.ask(RenameTo { from, to: path.clone(), overwrite: false }).await?;
                    tracing::info!(%path, "trash checkpoint made");
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: u64 = 1_767_609_005_678;

    #[test]
    fn checkpoints_are_named_by_their_second() {
        assert_eq!(checkpoint_name(NOW_MS, &TimeZone::UTC), "260105103005");
        for (name, ms) in [
            ("260105103005", Some(1_767_609_005_000)),
            ("260105103005-7", Some(1_767_609_005_000)),
            ("Current", None),
            ("2601051030", None),
            ("261305103005", None),
        ] {
            assert_eq!(checkpoint_time(name, &TimeZone::UTC), ms, "{name}");
        }
    }

    #[test]
    fn old_checkpoints_go_and_current_becomes_one() {
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let delete = |name: &str| Step::Delete(name.to_owned());
        let checkpoint = |name: &str| Step::Checkpoint(name.to_owned());
        for (have, steps) in [
            (&[][..], vec![]),
            (&["Current"], vec![checkpoint("260105103005")]),
            (&["260105102904", "260105102906", "x"], vec![delete("260105102904")]),
            (&["260105103005", "260105103005-1", "Current"], vec![checkpoint("260105103005-2")]),
        ] {
            assert_eq!(plan(&names(have), NOW_MS, 60_000, &TimeZone::UTC), steps, "{have:?}");
        }
    }
}
