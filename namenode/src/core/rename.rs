//! The two renames of HDFS: without options (false instead of most errors, moves into directories) and with.

use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::command::{Planned, Planner, refuse};
use super::edit::{Edit, Outcome};
use super::namespace::{Resolved, Unresolved};
use super::permission::{Blocked, Needs};

/// Directory of the trash in a home directory.
pub const TRASH: &str = ".Trash";

/// How the target of a move is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A directory takes the source into it.
    Into,
    /// The path itself, whose entry may be replaced.
    Exactly,
}

impl Planner<'_> {
    /// Rename without options.
    pub(super) fn rename(&mut self, from: &DfsPath, to: &DfsPath) -> Planned {
        let ns = &self.state.ns;
        let no = Ok(Outcome::Flag(false));
        match self.check_move(from, to, Target::Into) {
            Ok(()) => {}
            // Without options, what cannot be followed is only a false.
            Err(error) if error.kind == ErrorKind::NotDirectory => return no,
            Err(error) => return Err(error),
        }
        let Ok(source) = ns.resolve(from) else { return no };
        if from.is_root() {
            return no;
        }
        if from == to {
            return Ok(Outcome::Flag(source.inode.file().is_some()));
        }
        let mut target = to.clone();
        match ns.resolve(to) {
            Ok(Resolved { inode, .. }) if inode.directory().is_some() => {
                match from.name().map(|name| to.join(name)) {
                    Some(Ok(into)) => target = into,
                    _ => return no,
                }
                if target == *from {
                    // Into the directory where it is: nothing to do for a file, as HDFS.
                    return Ok(Outcome::Flag(source.inode.file().is_some()));
                }
                if ns.resolve(&target).is_ok() {
                    return no;
                }
            }
            Ok(_) => return no,
            Err(_) => {}
        }
        if target.starts_with(from) {
            return no;
        }
        let parent = target.parent().map(|parent| ns.resolve(&parent));
        match parent {
            Some(Ok(parent)) if parent.inode.directory().is_some() => {
                self.push_move(source.id, parent.id, &target);
                Ok(Outcome::Flag(true))
            }
            _ => no,
        }
    }

    /// Rename with options.
    pub(super) fn rename_with_options(
        &mut self,
        from: &DfsPath,
        to: &DfsPath,
        overwrite: bool,
    ) -> Planned {
        self.check_move(from, to, Target::Exactly)?;
        let source =
            self.expect(from, Needs::default(), || format!("rename source {from} not found."))?;
        if from == to {
            let text = format!("The source {from} and destination {to} are the same");
            return Err(refuse(ErrorKind::AlreadyExists, text));
        }
        if from.is_root() {
            return Err(refuse(ErrorKind::InvalidArgument, "rename source cannot be the root"));
        }
        if to.starts_with(from) {
            let text =
                format!("Rename destination {to} is a directory or file under source {from}");
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        if to.is_root() {
            let text = "rename destination cannot be the root";
            return Err(refuse(ErrorKind::InvalidArgument, text));
        }
        self.move_onto((from, source.id), to, overwrite)?;
        Ok(Outcome::Done)
    }

    /// Checks the rights to move `from` to, or into, `to`: WRITE on the directory that loses an entry and on the one that gains it,
    /// and on both the sticky bit. HDFS asks no sticky bit of the entry that is replaced; that would let anybody delete it.
    ///
    /// # Errors
    /// A refusal, or `NotDirectory` if `from` cannot be followed.
    pub(super) fn check_move(
        &self,
        from: &DfsPath,
        to: &DfsPath,
        kind: Target,
    ) -> Result<(), RemoteError> {
        let guard = self.guard();
        let source = guard.walk(from)?;
        let target = match guard.walk(to) {
            // Nothing can be gained there: which refusal comes first is the caller's to say.
            Err(Blocked::FileInTheWay(_)) => None,
            walked => Some(walked?),
        };
        let found = target.as_ref().and_then(|target| target.found.as_ref());
        let into = found.filter(|found| kind == Target::Into && found.inode.directory().is_some());
        let inside = into.and(from.name()).and_then(|name| to.join(name).ok());
        let carries = from.join(TRASH).is_ok_and(|trash| self.state.ns.resolve(&trash).is_ok());
        // What lies in the trash is deleted later by the superuser, so whoever puts it there needs the right to delete it.
        let trashed = ends_in_trash(inside.as_ref().unwrap_or(to), carries);
        let subtree = trashed.then_some(Action::ALL);
        let leave = Needs { parent: Some(Action::WRITE), subtree, ..Needs::default() };
        guard.check(from, &source, leave)?;
        let Some(target) = target.as_ref() else { return Ok(()) };
        match (kind, into) {
            (Target::Into, Some(directory)) => guard.check_inode(directory.id, Action::WRITE),
            (Target::Into, None) => {
                let enter = Needs { ancestor: Some(Action::WRITE), ..Needs::default() };
                guard.check(to, target, enter)
            }
            (Target::Exactly, _) => {
                let access = Some(Action::WRITE);
                let replace = Needs { ancestor: access, parent: access, ..Needs::default() };
                guard.check(to, target, replace)
            }
        }
    }

    /// Moves an inode to a path that may exist, by the rules of rename with options.
    pub(super) fn move_onto(
        &mut self,
        (from, source): (&DfsPath, InodeId),
        to: &DfsPath,
        overwrite: bool,
    ) -> Result<(), RemoteError> {
        let ns = &self.state.ns;
        let source_is_directory = ns.inode(source).is_some_and(|i| i.directory().is_some());
        match ns.resolve(to) {
            Ok(existing) => {
                self.check_replaceable((from, source_is_directory), to, &existing, overwrite)?;
                self.edits.push(Edit::Delete { inode: existing.id, at_ms: self.now.wall_ms });
            }
            Err(Unresolved::Missing | Unresolved::FileInTheWay(_)) => {}
        }
        let parent_path = to.parent().unwrap_or_else(DfsPath::root);
        let parent = match ns.resolve(&parent_path) {
            Ok(parent) => parent,
            Err(Unresolved::Missing) => {
                let text = format!("rename destination parent {parent_path} not found.");
                return Err(refuse(ErrorKind::NotFound, text));
            }
            Err(Unresolved::FileInTheWay(file)) => {
                return Err(refuse(
                    ErrorKind::NotDirectory,
                    format!("{file} (is not a directory)"),
                ));
            }
        };
        if parent.inode.directory().is_none() {
            let text = format!("rename destination parent {parent_path} is a file.");
            return Err(refuse(ErrorKind::NotDirectory, text));
        }
        self.push_move(source, parent.id, to);
        Ok(())
    }

    fn check_replaceable(
        &self,
        (from, source_is_directory): (&DfsPath, bool),
        to: &DfsPath,
        existing: &Resolved<'_>,
        overwrite: bool,
    ) -> Result<(), RemoteError> {
        let children = existing.inode.directory().map(|directory| directory.children.len());
        if source_is_directory != children.is_some() {
            let text = format!("Source {from} and destination {to} must both be directories");
            return Err(refuse(ErrorKind::AlreadyExists, text));
        }
        if !overwrite {
            let text = format!("rename destination {to} already exists");
            return Err(refuse(ErrorKind::AlreadyExists, text));
        }
        if children.is_some_and(|count| count > 0) {
            let text = format!("rename destination directory is not empty: {to}");
            return Err(refuse(ErrorKind::NotEmpty, text));
        }
        Ok(())
    }

    fn push_move(&mut self, inode: InodeId, parent: InodeId, to: &DfsPath) {
        let name = to.name().unwrap_or_default().to_owned();
        self.edits.push(Edit::Move { inode, parent, name, at_ms: self.now.wall_ms });
    }
}

/// True if something of what moves to `path` will lie in `/user/<name>/.Trash`: all of it, or, as a home, what it `carries` there.
fn ends_in_trash(path: &DfsPath, carries: bool) -> bool {
    let mut elements = path.elements();
    elements.next() == Some("user")
        && elements.next().is_some()
        && elements.next().map_or(carries, |name| name == TRASH)
}
