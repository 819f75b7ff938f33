//! The target of copies and renames, and the checks made before any of a source: HDFS's rules, in its order.
//!
//! With several sources (each match of a pattern counts) the target must be a directory. With one, the target is a directory, a file that may be replaced, or
//! an unused name in an existing directory. The target may be a pattern with one match.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use protocol::namenode::FileStatus;

use super::context::Context;
use super::fs::{Failure, Named, Problem, local, text_of};

/// The last operand of a copy or rename.
pub(super) struct Target {
    pub(super) named: Named,
    pub(super) status: Option<FileStatus>,
    /// The text as typed: a slash at its end requires a directory.
    text: String,
}

impl Target {
    /// Checks what exists there.
    pub(super) fn of(context: &Context, operand: &OsStr) -> Result<Self, Failure> {
        let text = text_of(operand)?.to_owned();
        let mut found = context.expand_any(&operand.to_owned())?;
        let named = match (found.pop(), found.is_empty()) {
            (Some(named), true) => named,
            _ => return Err(Failure::at(text, "Too many matches")),
        };
        let status = context.store.find(&named)?;
        Ok(Target { named, status, text })
    }

    pub(super) fn is_directory(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.directory)
    }

    /// Makes the directories above a new file: what comes from standard input needs none to be there, as in Hadoop.
    pub(super) fn make_parent(&self, context: &Context) -> Result<(), Failure> {
        let is_new_file = self.status.is_none() && !self.text.ends_with('/');
        match self.named.path.parent().filter(|_| is_new_file) {
            Some(path) if !has_parent(context, &self.named)? => {
                let parent = Named { typed: self.named.typed.clone(), path };
                context.store.mkdirs(&parent, context.properties.umask, true)
            }
            _ => Ok(()),
        }
    }

    /// Checks that this many sources may go here.
    pub(super) fn check(
        &self,
        context: &Context,
        source_count: usize,
        overwrite: bool,
    ) -> Result<(), Failure> {
        let typed = &*self.named.typed;
        match &self.status {
            Some(status) if status.directory => Ok(()),
            None if source_count > 1 => Err(Failure::missing(typed)),
            Some(_) if source_count > 1 => Err(Failure::at(typed, Problem::NotDirectory)),
            Some(_) if !overwrite => Err(Failure::at(typed, Problem::Exists)),
            Some(_) => Ok(()),
            None => {
                let wants_directory = self.text.ends_with('/') && !self.named.path.is_root();
                if !wants_directory && has_parent(context, &self.named)? {
                    return Ok(());
                }
                let typed = if wants_directory { &self.text } else { typed };
                let qualified = context.resolver.qualified(&self.named.path);
                Err(Failure::at(typed, format!("No such file or directory: `{qualified}'")))
            }
        }
    }

    /// The destination of a source with this name: into the target if that is a directory, else onto it.
    pub(super) fn place_of(&self, name: Option<&str>) -> Result<Named, Failure> {
        match name {
            Some(name) if self.is_directory() => self.named.child(name),
            _ => Ok(self.named.clone()),
        }
    }
}

/// The same rules for a path of this machine.
pub(super) fn check_local(
    target: &Path,
    source_count: usize,
    overwrite: bool,
) -> Result<(), Failure> {
    let typed = || target.to_string_lossy();
    match fs::metadata(target) {
        Ok(there) if there.is_dir() => Ok(()),
        Ok(_) if source_count > 1 => Err(Failure::at(typed(), Problem::NotDirectory)),
        Ok(_) if !overwrite => Err(Failure::at(typed(), Problem::Exists)),
        Ok(_) => Ok(()),
        Err(_) if source_count > 1 => Err(Failure::missing(typed())),
        Err(_) => local::check_parent(target),
    }
}

/// A directory cannot go onto itself or into itself.
pub(super) fn refuse_itself(context: &Context, from: &Named, to: &Named) -> Result<(), Failure> {
    if to.path == from.path {
        return Err(identical(context, &from.typed, to));
    }
    if to.path.starts_with(&from.path) {
        return Err(inside_itself(&from.typed, to));
    }
    Ok(())
}

/// The same for a source of this machine that is copied, whatever links and names lead to its target. The source is its path, and as typed.
pub(super) fn refuse_itself_here(
    context: &Context,
    (from, typed): (&Path, &str),
    to: &Named,
) -> Result<(), Failure> {
    let Some(path) = to.path.machine() else { return Ok(()) };
    if local::is_same(from, path) {
        return Err(identical(context, typed, to));
    }
    let there = path.ancestors().find_map(|above| above.canonicalize().ok());
    match there.is_some_and(|there| there.ancestors().any(|above| local::is_same(from, above))) {
        true => Err(inside_itself(typed, to)),
        false => Ok(()),
    }
}

fn identical(context: &Context, typed: &str, to: &Named) -> Failure {
    let target = context.resolver.qualified(&to.path);
    Failure::Text(format!("`{typed}' to `{target}': are identical"))
}

fn inside_itself(typed: &str, Named { typed: target, .. }: &Named) -> Failure {
    Failure::Text(format!("`{typed}' to `{target}': is a subdirectory of itself"))
}

/// Rewrites an error about `target`, whose parent is missing, to name `target` with its full address, as Hadoop does: its shell looks for the parent before it
/// asks for anything else.
pub(super) fn missing_parent<T>(
    context: &Context,
    target: &Named,
    outcome: Result<T, Failure>,
) -> Result<T, Failure> {
    let is_missing = match &outcome {
        Ok(_) | Err(Failure::ReaderLeft) => false,
        Err(Failure::At { problem: Problem::Missing, .. }) => true,
        // If that cannot be determined, the first error stands.
        Err(_) => matches!(has_parent(context, target), Ok(false)),
    };
    if !is_missing {
        return outcome;
    }
    let qualified = context.resolver.qualified(&target.path);
    Err(Failure::at(&*target.typed, format!("No such file or directory: `{qualified}'")))
}

/// Makes a directory that was not there; false if somebody else has made it meanwhile, and there may be something in it.
pub(super) fn make_directory(context: &Context, target: &Named) -> Result<bool, Failure> {
    let made = context.store.mkdirs(target, context.properties.umask, false);
    if made.is_err() && context.store.find(target)?.is_some_and(|found| found.directory) {
        return Ok(false);
    }
    missing_parent(context, target, made)?;
    Ok(true)
}

/// True if something lies where `target`'s parent should be.
pub(super) fn has_parent(context: &Context, target: &Named) -> Result<bool, Failure> {
    let Some(path) = target.path.parent() else { return Ok(true) };
    let parent = Named { typed: target.typed.clone(), path };
    Ok(context.store.find(&parent)?.is_some())
}
