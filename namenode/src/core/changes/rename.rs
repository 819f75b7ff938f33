//! The two renames of HDFS: without options (false instead of most errors, moves into directories) and with.

use protocol::path::{DEPTH_MAX, PATH_BYTES_MAX, PathError};
use protocol::permission::Action;
use protocol::{DfsPath, ErrorKind, InodeId, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::namespace::{Resolved, Room};
use crate::core::rights::{Blocked, Needs, Way};
use crate::error::refuse;

/// Directory of the trash in a home directory.
pub const TRASH: &str = ".Trash";

/// How to read the target of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Target {
    /// A directory takes the source into it.
    Into,
    /// The path itself, whose entry may be replaced.
    Exactly,
}

/// Both ends of a move, followed once, for a caller that may make it.
pub(super) struct Move<'a> {
    source: Way<'a>,
    target: Result<Way<'a>, FileInTheWay>,
}

/// Why a target cannot be followed: the path of the file that would have to be a directory.
type FileInTheWay = String;

impl<'a> Planner<'a> {
    /// Rename without options.
    pub(super) fn rename(&mut self, from: &DfsPath, to: &DfsPath) -> Planned {
        let no = Ok(Outcome::Flag(false));
        let Move { source, target } = self.check_move(from, to, Target::Into)?;
        let Some(source) = source.found else { return no };
        if from.is_root() {
            return no;
        }
        let is_file = Ok(Outcome::Flag(source.inode.file().is_some()));
        if from == to {
            return is_file;
        }
        let Ok(target) = target else { return no };
        let (parent, path) = match target.found {
            Some(Resolved { id, inode }) => {
                let (Some(directory), Some(name)) = (inode.directory(), from.name()) else {
                    return no;
                };
                let Ok(path) = to.join(name) else { return no };
                if path == *from {
                    // Into the directory where it already is: nothing to do for a file, as in HDFS.
                    return is_file;
                }
                if self.state.ns.child(directory, name).is_some() {
                    return no;
                }
                (id, path)
            }
            None => match target.parent() {
                Some(parent) => (parent.id, to.clone()),
                None => return no,
            },
        };
        if path.starts_with(from) {
            return no;
        }
        self.check_depth(&source, (from, &path))?;
        self.push_move(source.id, parent, &path);
        Ok(Outcome::Flag(true))
    }

    /// Rename with options.
    pub(super) fn rename_with_options(
        &mut self,
        from: &DfsPath,
        to: &DfsPath,
        overwrite: bool,
    ) -> Planned {
        let ends = self.check_move(from, to, Target::Exactly)?;
        if ends.source.found.is_none() {
            return Err(refuse(ErrorKind::NotFound, format!("rename source {from} not found.")));
        }
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
        self.move_onto(&ends, (from, to), overwrite)?;
        Ok(Outcome::Done)
    }

    /// Follows both ends and checks the rights to move `from` to, or into, `to`: WRITE on the directory that loses an entry and on the one
    /// that gains it, and on both the sticky bit. HDFS does not check the sticky bit for the entry that is replaced; that would let anybody
    /// delete it.
    ///
    /// # Errors
    /// A refusal, or `ParentNotDirectory` if `from` cannot be followed.
    pub(super) fn check_move(
        &self,
        from: &DfsPath,
        to: &DfsPath,
        kind: Target,
    ) -> Result<Move<'a>, RemoteError> {
        let guard = self.guard();
        let source = guard.walk(from)?;
        let target = match guard.walk(to) {
            // Nothing can be gained there; the caller decides which refusal comes first.
            Err(Blocked::FileInTheWay(file)) => Err(file),
            walked => Ok(walked?),
        };
        let found = target.as_ref().ok().and_then(|target| target.found.as_ref());
        let into = found.filter(|found| kind == Target::Into && found.inode.directory().is_some());
        let inside = into.and(from.name()).and_then(|name| to.join(name).ok());
        // The superuser later deletes what lies in the trash, so whoever puts it there needs the right to delete it.
        let carries = || {
            let directory = source.found.and_then(|source| source.inode.directory());
            directory.is_some_and(|directory| self.state.ns.child(directory, TRASH).is_some())
        };
        let trashed = ends_in_trash(inside.as_ref().unwrap_or(to), carries);
        let subtree = trashed.then_some(Action::ALL);
        let leave = Needs { parent: Some(Action::WRITE), subtree, ..Needs::default() };
        guard.check(from, &source, leave)?;
        if let Ok(way) = &target {
            match (kind, into) {
                (Target::Into, Some(directory)) => {
                    guard.check_inode(directory.id, Action::WRITE)?;
                }
                (Target::Into, None) => {
                    let enter = Needs { ancestor: Some(Action::WRITE), ..Needs::default() };
                    guard.check(to, way, enter)?;
                }
                (Target::Exactly, _) => {
                    let access = Some(Action::WRITE);
                    let replace = Needs { ancestor: access, parent: access, ..Needs::default() };
                    guard.check(to, way, replace)?;
                }
            }
        }
        Ok(Move { source, target })
    }

    /// Moves to a path that may exist, by the rules of rename with options. Nothing happens if there is no source.
    pub(super) fn move_onto(
        &mut self,
        ends: &Move<'a>,
        (from, to): (&DfsPath, &DfsPath),
        overwrite: bool,
    ) -> Result<(), RemoteError> {
        let Some(source) = ends.source.found else { return Ok(()) };
        let parent_path = || to.parent().unwrap_or_else(DfsPath::root);
        let target = match &ends.target {
            Ok(target) => target,
            Err(file) if *file == parent_path().as_str() => {
                let text = format!("rename destination parent {file} is a file.");
                return Err(refuse(ErrorKind::ParentNotDirectory, text));
            }
            Err(file) => {
                let text = format!("{file} (is not a directory)");
                return Err(refuse(ErrorKind::ParentNotDirectory, text));
            }
        };
        if let Some(existing) = &target.found {
            let is_directory = source.inode.directory().is_some();
            self.check_replaceable((from, is_directory), to, existing, overwrite)?;
            self.edits.push(Edit::Delete { inode: existing.id, at_ms: self.now.wall_ms });
        }
        let Some(parent) = target.parent() else {
            let text = format!("rename destination parent {} not found.", parent_path());
            return Err(refuse(ErrorKind::NotFound, text));
        };
        self.check_depth(&source, (from, to))?;
        self.push_move(source.id, parent.id, to);
        Ok(())
    }

    /// Refuses to push a tree below what a path can name: nobody could read, move or delete it there.
    fn check_depth(
        &self,
        source: &Resolved<'_>,
        (from, to): (&DfsPath, &DfsPath),
    ) -> Result<(), RemoteError> {
        let depth = |path: &DfsPath| path.elements().count();
        let (deeper, longer) = (depth(to) > depth(from), to.as_str().len() > from.as_str().len());
        let Some(directory) = source.inode.directory().filter(|_| deeper || longer) else {
            return Ok(());
        };
        let room =
            Room { elements: DEPTH_MAX - depth(to), bytes: PATH_BYTES_MAX - to.as_str().len() };
        match self.state.ns.beyond(directory, room) {
            None => Ok(()),
            Some(id) => {
                let entry = self.state.ns.path_of(id).unwrap_or_default();
                let text = format!("rename: {} {entry} would be below {to}", PathError::Long);
                Err(refuse(ErrorKind::LimitExceeded, text))
            }
        }
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

/// True if anything of what moves to `path` will lie in `/user/<name>/.Trash`: all of it, or, if `path` is a home, something that it `carries` there.
fn ends_in_trash(path: &DfsPath, carries: impl FnOnce() -> bool) -> bool {
    let mut elements = path.elements();
    elements.next() == Some("user")
        && elements.next().is_some()
        && elements.next().map_or_else(carries, |name| name == TRASH)
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Call, Reply};

    use super::*;
    use crate::core::tests::harness::{Harness, dfs};

    fn make(harness: &mut Harness, path: &str) {
        let call = Call::Mkdirs { path: dfs(path), mode: 0o755, unmasked: None, parents: true };
        assert_eq!(harness.call(call), Ok(Reply::Done), "{path}");
    }

    /// Nothing is pushed below what a path can name, by either rename, and what just fits is moved and can be read.
    #[test]
    fn a_tree_is_not_pushed_beyond_the_depth_that_can_be_read() {
        let mut harness = Harness::new(1);
        let chain = |count: usize| "/d".repeat(count);
        make(&mut harness, &format!("/a{}", chain(980)));
        make(&mut harness, &format!("/long/{}", vec!["x".repeat(255); 30].join("/")));
        for depth in [19, 20] {
            make(&mut harness, &format!("/deep{depth}{}", "/e".repeat(depth - 1)));
        }
        let rename = |from: &str, to: String, overwrite| Call::Rename {
            from: dfs(from),
            to: dfs(&to),
            overwrite,
        };
        let below = |depth: usize| format!("/deep{depth}{}", "/e".repeat(depth - 1));
        for overwrite in [None, Some(false), Some(true)] {
            for (from, to) in [
                ("/a", format!("{}/a", below(20))),
                ("/long", format!("/{}/long", ["y".repeat(250), "y".repeat(250)].join("/"))),
            ] {
                if from == "/long" {
                    make(&mut harness, to.rsplit_once('/').unwrap().0);
                }
                let refused = harness.call(rename(from, to.clone(), overwrite)).unwrap_err();
                assert_eq!(refused.kind, ErrorKind::LimitExceeded, "{to}");
                let text = "rename: Pathname too long.  Limit 8000 characters, 1000 levels. ";
                assert!(refused.message.starts_with(text), "{}", refused.message);
            }
        }
        // Into a directory, as it is without options.
        let into = harness.call(rename("/a", below(20), None)).unwrap_err();
        assert_eq!(into.kind, ErrorKind::LimitExceeded);
        let fits = format!("{}/a", below(19));
        assert_eq!(harness.call(rename("/a", fits.clone(), None)), Ok(Reply::Flag(true)));
        let deepest = Call::Status(dfs(&format!("{fits}{}", chain(980))));
        assert!(matches!(harness.read(&deepest), Ok(Reply::Status(_))));
        // A tree that does not get deeper is never searched.
        assert_eq!(harness.call(rename(&fits, "/a".to_owned(), Some(false))), Ok(Reply::Done));
    }
}
