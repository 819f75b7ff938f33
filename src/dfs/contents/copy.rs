//! `-cp`: files and trees to another place, in the cluster, on this machine or from one to the other.
//!
//! Bytes pass through this process, several files at a time. Attributes of directories are set last, because copying into a
//! directory changes its time.

use std::path::Path;
use std::sync::Mutex;

use client::dfs::DfsError;
use protocol::acl::AclChange;
use protocol::namenode::FileStatus;
use protocol::xattr::XattrFlag;

use super::interrupt::{self, Input};
use super::pool::{self, Queue, Repeatable};
use super::progress::Progress;
use super::publish::{self, Naming};
use crate::dfs::context::Context;
use crate::dfs::fs::{Failure, Item, Named, Problem};
use crate::dfs::target::{Target, make_directory, refuse_itself, refuse_itself_here};

/// The attributes that `-p` without letters keeps: times, owner and group, permission bits.
const PRESERVED_DEFAULT: &str = "top";

/// Copies.
pub(super) fn cp(context: &Context) -> Result<(), Failure> {
    let Some((last, sources)) = context.args.operands.split_last() else {
        return Err(Failure::Usage("Not enough arguments: expected 2 but got 0".to_owned()));
    };
    let target = Target::of(context, last)?;
    let sizes = pool::Sizes::of(context)?;
    interrupt::watch(&context.store)?;
    let items = context.expand_all(sources)?;
    target.check(context, items.len(), context.args.has("f"))?;
    let names = items.iter().filter_map(|item| item.as_ref().ok()?.named.path.name());
    let naming = Naming::among(names);
    let copy = Copy { context, directories: Mutex::default() };
    let walk = |queue: &Queue<'_, Task>| {
        for source in items {
            let copied = source.and_then(|source| {
                let to = target.place_of(source.named.path.name())?;
                let side = |named: &Named| (named.typed.clone(), named.path.is_raw());
                publish::check_raw(&side(&source.named), &side(&to))?;
                queue.claim(&to.path);
                let existing = context.store.find(&to)?;
                if source.status.directory {
                    refuse_itself(context, &source.named, &to)?;
                    if let Some(path) = source.named.path.machine() {
                        refuse_itself_here(context, (path, &source.named.typed), &to)?;
                    }
                } else {
                    publish::check_target(context, &to, existing.as_ref())?;
                    if source.named.path == to.path {
                        return Ok(());
                    }
                }
                copy.item(source, (to, naming), existing, queue)
            });
            if let Err(failure) = copied {
                context.report(&failure);
            }
        }
        Ok(())
    };
    pool::run(context, sizes, walk, |task, progress| copy.file(task, progress))?;
    copy.preserve_directories();
    Ok(())
}

struct Copy<'a> {
    context: &'a Context,
    /// New directories with their future attributes; children after parents.
    directories: Mutex<Vec<(Named, Item)>>,
}

/// One file to copy.
struct Task {
    source: Item,
    target: Named,
    naming: Naming,
}

impl Repeatable for Task {
    fn can_repeat(&self) -> bool {
        self.source.named.path.machine().is_none_or(Path::is_file)
    }
}

impl Copy<'_> {
    fn item(
        &self,
        source: Item,
        (target, naming): (Named, Naming),
        existing: Option<FileStatus>,
        queue: &Queue<'_, Task>,
    ) -> Result<(), Failure> {
        if !source.status.directory {
            publish::check_target(self.context, &target, existing.as_ref())?;
            return queue.push(Task { source, target, naming });
        }
        let is_new = match existing {
            Some(status) if status.directory => false,
            Some(_) if self.context.args.has("f") => {
                return Err(Failure::at(target.typed, Problem::NotDirectory));
            }
            Some(_) => return Err(Failure::at(target.typed, Problem::Exists)),
            None => make_directory(self.context, &target)?,
        };
        let children = self.context.store.children(&source.named)?;
        let names = children.iter().map(|child| child.status.name.as_str());
        let naming = Naming::among(names);
        for child in children {
            let copied = target.child(&child.status.name).and_then(|to| {
                let there = if is_new { None } else { self.context.store.find(&to)? };
                self.item(child, (to, naming), there, queue)
            });
            if let Err(failure) = copied {
                self.context.report(&failure);
            }
        }
        let mut made = self.directories.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        made.push((target, source));
        Ok(())
    }

    fn file(&self, task: &Task, progress: &Progress) -> Result<(), Failure> {
        let Task { source, target, naming } = task;
        if let Some(path) = source.named.path.machine() {
            publish::check_source(self.context, (path, &source.named.typed), target)?;
        }
        let input = Input::at(&source.named.path);
        publish::write(self.context, (target, *naming), input, &mut |writer| {
            self.context.store.read(&source.named, 0, u64::MAX, &mut |bytes| {
                progress.bytes(bytes.len());
                writer.write(bytes)
            })
        })?;
        self.preserve(target, source)
    }

    /// Children come before their parents in the list, so a parent's time is set after theirs.
    fn preserve_directories(&self) {
        let made = self.directories.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (target, source) in made.iter() {
            if let Err(failure) = self.preserve(target, source) {
                self.context.report(&failure);
            }
        }
    }

    fn preserve(&self, target: &Named, source: &Item) -> Result<(), Failure> {
        let status = &source.status;
        let letters = match self.context.args.value("p") {
            None => "",
            Some("") => PRESERVED_DEFAULT,
            Some(letters) => letters,
        };
        // Attributes of the namespace `raw` are copied there too.
        let is_raw = source.named.path.is_raw() && target.path.is_raw();
        let store = &self.context.store;
        // The times come first: only a superuser may give a file away.
        if letters.contains('t') {
            let atime = (!status.directory).then_some(status.atime_ms);
            store.set_times(target, Some(status.mtime_ms), atime)?;
        }
        // As with `-get -p`, a cluster's names that this machine does not have are left out.
        if letters.contains('o') && store.knows(target, &status.owner, &status.group) {
            store.set_owner(target, &status.owner, &status.group)?;
        }
        // A list stands for more than the mode, so what asks for the one asks for the other.
        if letters.contains(['p', 'a']) {
            store.set_mode(target, status.mode)?;
        }
        if letters.contains('a') {
            self.preserve_acl(target, source)?;
        }
        match letters.contains('x') {
            true => self.preserve_xattrs(target, source, |_| true)?,
            false if is_raw => {
                self.preserve_xattrs(target, source, |name| name.starts_with("raw."))?;
            }
            false => {}
        }
        Ok(())
    }

    /// The whole access control list, for a directory including the default one.
    fn preserve_acl(&self, target: &Named, source: &Item) -> Result<(), Failure> {
        if !source.status.has_acl {
            return Ok(());
        }
        let (from, to) = (source.named.cluster()?, target.cluster()?);
        let client = self.context.store.client()?;
        let fail = |error: &DfsError| Failure::remote(&target.typed, error);
        let list = client.acl(from).map_err(|error| fail(&error))?;
        let change = AclChange::Replace(list.whole());
        client.change_acl(to, change).map_err(|error| fail(&error))
    }

    /// The requested extended attributes that the user may see.
    fn preserve_xattrs(
        &self,
        target: &Named,
        source: &Item,
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<(), Failure> {
        let (from, to) = (source.named.cluster()?, target.cluster()?);
        let client = self.context.store.client()?;
        let fail = |error: &DfsError| Failure::remote(&target.typed, error);
        let all = client.xattrs(from, &[]).map_err(|error| fail(&error))?;
        for xattr in all.into_iter().filter(|xattr| is_meant(&xattr.name)) {
            let flag = XattrFlag::CreateOrReplace;
            let set = client.set_xattr(to, &xattr.name, &xattr.value, flag);
            set.map_err(|error| fail(&error))?;
        }
        Ok(())
    }
}
