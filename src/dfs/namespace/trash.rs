//! The trash: `-rm` first moves what it deletes to `/user/<you>/.Trash/Current/<original path>`. Also `-expunge`.
//!
//! The NameNode determines how long it keeps the trash; with 0 on both sides there is none. `-expunge` and the NameNode's own emptier turn `Current` into
//! checkpoints named by time (`yyMMddHHmmss`) and delete those older than the interval.

use namenode::trash::{CURRENT, TRASH, checkpoint_name, checkpoint_time};
use protocol::DfsPath;
use protocol::property::Umask;

use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, FsPath, Named, Problem};
use crate::output::{local_zone, report};

/// Only its owner can read the trash.
const TRASH_UMASK: Umask = Umask(0o077);
/// Names tried for a checkpoint or a file before giving up.
const CLASHES_MAX: u32 = 1000;

/// The trash of the acting user.
pub(super) struct Trash<'a> {
    context: &'a Context,
    root: DfsPath,
    interval_ms: u64,
}

impl<'a> Trash<'a> {
    /// Asks the NameNode once; its interval takes precedence over `-D fs.trash.interval`, as in HDFS.
    pub(super) fn new(context: &'a Context) -> Result<Self, Failure> {
        let server = context.store.cluster_status()?.trash_interval_ms;
        let interval_ms = if server > 0 { server } else { context.properties.trash_interval_ms };
        let home = format!("/user/{}/{TRASH}", context.store.user());
        let root = DfsPath::parse(&home)?;
        Ok(Trash { context, root, interval_ms })
    }

    pub(super) fn is_on(&self) -> bool {
        self.interval_ms > 0
    }

    /// Moves what is at `path`, typed as `named`, into the trash; false if it is already there and must be deleted for good.
    pub(super) fn take(&self, named: &Named, path: &DfsPath) -> Result<bool, Failure> {
        if path.starts_with(&self.root) {
            return Ok(false);
        }
        let home = self.root.parent().unwrap_or_else(DfsPath::root);
        if home.starts_with(path) {
            let qualified = self.context.resolver.qualified(&named.path);
            return Err(Failure::Text(format!(
                "Cannot move \"{qualified}\" to the trash, as it contains the trash. Consider using -skipTrash option"
            )));
        }
        match self.move_there(named, path) {
            Ok(to) => {
                let resolver = &self.context.resolver;
                let (from, to) = (resolver.qualified(&named.path), resolver.qualified(&to));
                report!("Moved: '{from}' to trash at: {to}");
                Ok(true)
            }
            Err(failure) => {
                let resolver = &self.context.resolver;
                let root = resolver.qualified(&FsPath::Cluster(self.root.clone()));
                let from = resolver.qualified(&named.path);
                let to = format!("{root}/{CURRENT}{path}");
                let failed = format!("Failed to move {from} to trash {to}: {failure}");
                // What is missing cannot be deleted in any way.
                Err(Failure::Text(match failure.problem() {
                    Some(Problem::Missing) => failed,
                    _ => format!(
                        "{}. Consider using -skipTrash option",
                        failed.trim_end_matches('.')
                    ),
                }))
            }
        }
    }

    /// Renames to the same path below `Current`; a name that is taken gets the time in milliseconds as a suffix.
    fn move_there(&self, named: &Named, path: &DfsPath) -> Result<FsPath, Failure> {
        let store = &self.context.store;
        let base = self.make_base(path.parent().unwrap_or_else(DfsPath::root))?;
        let name = path.name().unwrap_or_default();
        let mut target = unnamed(base.join(name)?);
        if store.find(&target)?.is_some() {
            target = unnamed(base.join(&with_time(name))?);
        }
        for _ in 0..CLASHES_MAX {
            match store.rename(named, &target) {
                Ok(()) => return Ok(target.path),
                // Another client deleted a file of that name in the same millisecond.
                Err(Failure::At { problem: Problem::Exists, .. }) => {
                    target = unnamed(base.join(&with_time(name))?);
                }
                // The missing path is the one to delete.
                Err(Failure::At { problem: Problem::Missing, .. }) => {
                    return Err(Failure::missing(&*named.typed));
                }
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::at(&*target.typed, Problem::Exists))
    }

    /// Makes the directory for `parent` below `Current`. If a deleted file is in the way, that element gets the time as a suffix.
    fn make_base(&self, parent: DfsPath) -> Result<DfsPath, Failure> {
        let home = unnamed(self.root.parent().unwrap_or_else(DfsPath::root));
        if self.context.store.find(&home)?.is_none() {
            // Only the trash itself is private: a home directory is like any other.
            self.context.store.mkdirs(&home, self.context.properties.umask, true)?;
        }
        let mut base = self.root.join(CURRENT)?;
        let straight = base.join(parent.as_str())?;
        match self.context.store.mkdirs(&unnamed(straight.clone()), TRASH_UMASK, true) {
            Ok(()) => return Ok(straight),
            Err(failure) if !self.is_blocked(&straight)? => return Err(failure),
            Err(_) => {}
        }
        for element in parent.elements() {
            let mut next = base.join(element)?;
            let there = self.context.store.find(&unnamed(next.clone()))?;
            if there.is_some_and(|status| !status.directory) {
                next = base.join(&with_time(element))?;
            }
            base = next;
        }
        self.context.store.mkdirs(&unnamed(base.clone()), TRASH_UMASK, true)?;
        Ok(base)
    }

    /// True if a file lies where one of the directories of a path should be.
    fn is_blocked(&self, path: &DfsPath) -> Result<bool, Failure> {
        let mut at = Some(path.clone());
        while let Some(path) = at {
            match self.context.store.find(&unnamed(path.clone())) {
                Ok(Some(status)) => return Ok(!status.directory),
                Ok(None) => {}
                // Only the superuser gets no error below a file.
                Err(Failure::FileAbove(_)) => return Ok(true),
                Err(failure) => return Err(failure),
            }
            at = path.parent();
        }
        Ok(false)
    }

    /// Deletes checkpoints that are older than the interval (with `immediate`: everything).
    fn delete_checkpoints(&self, now_ms: u64, immediate: bool) -> Result<(), Failure> {
        let root = unnamed(self.root.clone());
        let entries = match self.context.store.children(&root) {
            Ok(entries) => entries,
            Err(Failure::At { problem: Problem::Missing, .. }) => return Ok(()),
            Err(failure) => return Err(failure),
        };
        let zone = local_zone();
        for entry in entries {
            let name = &entry.status.name;
            let made_ms = checkpoint_time(name, zone);
            if !immediate && name == CURRENT {
                continue;
            }
            if !immediate && made_ms.is_none() {
                report!("Unexpected item in trash: {}. Ignoring.", entry.named.path);
                continue;
            }
            let is_old = made_ms.is_some_and(|at| now_ms.saturating_sub(self.interval_ms) > at);
            if (immediate || is_old) && self.context.store.delete(&entry.named, true)? {
                report!("Deleted trash checkpoint: {}", entry.named.path);
            }
        }
        Ok(())
    }

    /// Gives `Current` the name of this second.
    fn make_checkpoint(&self, now_ms: u64) -> Result<(), Failure> {
        let current = unnamed(self.root.join(CURRENT)?);
        if self.context.store.find(&current)?.is_none() {
            return Ok(());
        }
        let name = checkpoint_name(now_ms, local_zone());
        for attempt in 0..CLASHES_MAX {
            let name = if attempt == 0 { name.clone() } else { format!("{name}-{attempt}") };
            let target = unnamed(self.root.join(&name)?);
            match self.context.store.rename(&current, &target) {
                Ok(()) => {
                    report!("Created trash checkpoint: {}", target.path);
                    return Ok(());
                }
                Err(Failure::At { problem: Problem::Exists, .. }) => {}
                Err(failure) => return Err(failure),
            }
        }
        Err(Failure::Text(format!("Failed to checkpoint trash: {}", current.path)))
    }
}

/// Deletes old checkpoints and makes a new one; with `-immediate` deletes all.
pub(super) fn expunge(context: &Context) -> Result<(), Failure> {
    let trash = Trash::new(context)?;
    if context.store.find(&unnamed(trash.root.clone()))?.is_none() {
        return Ok(());
    }
    let immediate = context.args.has("immediate");
    let now_ms = transport::rpc::now_ms();
    report!(
        "TrashPolicyDefault#deleteCheckpoint for trashRoot: {}",
        context.resolver.qualified(&FsPath::Cluster(trash.root.clone()))
    );
    trash.delete_checkpoints(now_ms, immediate)?;
    if immediate { Ok(()) } else { trash.make_checkpoint(now_ms) }
}

/// A path that no user typed.
fn unnamed(path: DfsPath) -> Named {
    Named::untyped(path)
}

fn with_time(name: &str) -> String {
    format!("{name}{}", transport::rpc::now_ms())
}
