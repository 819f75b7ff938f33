//! The columns of the table of calls ([`super::Call`]) beside those that all tables have ([`crate::table`]).
//!
//! ```text
//! /// Allows snapshots of a directory.
//! 35: AllowSnapshot(path: DfsPath) -> () = Change, by Superuser, refused cannot("allow snapshot for ", path), logged on("allowSnapshot", path);
//!                                                  |             |                                            |
//!                                                  By            Refused: what safe mode does not let pass     Logged
//! ```
//!
//! A row may leave them out: anyone may make the call (the rights on its paths are the core's matter), safe mode does not refuse it, the audit log does
//! not have it. With `brief true` the call is answered soon and briefly, and may share a request with others.

use crate::{BlockId, DfsPath, InodeId};

/// Who may make a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// Everybody; the rights on its paths decide.
    Anyone,
    /// Only the superuser.
    Superuser,
}

/// What safe mode refuses: "Cannot create directory /a".
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused<'a> {
    /// Up to the target, in HDFS's words.
    pub verb: &'static str,
    /// Whom it would have changed.
    pub target: Target<'a>,
    /// It frees space, and is allowed when safe mode is on for the lack of it.
    pub frees_space: bool,
}

/// What a refused change would have changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    /// Nothing with a name.
    Nothing,
    /// A path.
    Path(&'a DfsPath),
    /// A file by its id.
    File(InodeId),
    /// A block of a file.
    Block(BlockId, InodeId),
}

/// What the audit log says of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Logged<'a> {
    /// Name in HDFS's audit log.
    pub command: &'static str,
    /// Its source.
    pub source: About<'a>,
    /// Its destination.
    pub target: About<'a>,
    /// Whose owner, group and mode are logged, as they are after the call.
    pub changed: Option<&'a DfsPath>,
}

/// What a call is about, for the audit log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum About<'a> {
    /// Nothing with a name.
    Nothing,
    /// A path.
    Path(&'a DfsPath),
    /// Several.
    Paths(&'a [DfsPath]),
    /// A snapshot of a directory.
    Snapshot(&'a DfsPath, &'a str),
    /// A file by its id.
    File(InodeId),
}

impl Refused<'_> {
    /// The same for a call that frees space.
    pub(super) fn which_frees_space(self) -> Self {
        Refused { frees_space: true, ..self }
    }
}

impl<'a> Logged<'a> {
    /// The same with the rights of `path`.
    pub(super) fn changing(self, path: &'a DfsPath) -> Self {
        Logged { changed: Some(path), ..self }
    }
}

/// Safe mode refuses this.
pub(super) fn cannot<'a>(verb: &'static str, target: impl Into<Target<'a>>) -> Refused<'a> {
    Refused { verb, target: target.into(), frees_space: false }
}

/// A call from one thing to another.
pub(super) fn of<'a>(
    command: &'static str,
    source: impl Into<About<'a>>,
    target: impl Into<About<'a>>,
) -> Logged<'a> {
    Logged { command, source: source.into(), target: target.into(), changed: None }
}

/// A call about one path.
pub(super) fn on<'a>(command: &'static str, path: &'a DfsPath) -> Logged<'a> {
    of(command, path, ())
}

/// A call that changes one path.
pub(super) fn changed<'a>(command: &'static str, path: &'a DfsPath) -> Logged<'a> {
    on(command, path).changing(path)
}

/// A call about nothing with a name.
pub(super) fn alone(command: &'static str) -> Logged<'static> {
    of(command, (), ())
}

impl From<()> for Target<'_> {
    fn from((): ()) -> Self {
        Target::Nothing
    }
}

impl<'a> From<&'a DfsPath> for Target<'a> {
    fn from(path: &'a DfsPath) -> Self {
        Target::Path(path)
    }
}

impl From<InodeId> for Target<'_> {
    fn from(file: InodeId) -> Self {
        Target::File(file)
    }
}

impl From<(BlockId, InodeId)> for Target<'_> {
    fn from((block, file): (BlockId, InodeId)) -> Self {
        Target::Block(block, file)
    }
}

impl From<()> for About<'_> {
    fn from((): ()) -> Self {
        About::Nothing
    }
}

impl<'a> From<&'a DfsPath> for About<'a> {
    fn from(path: &'a DfsPath) -> Self {
        About::Path(path)
    }
}

impl<'a> From<&'a [DfsPath]> for About<'a> {
    fn from(paths: &'a [DfsPath]) -> Self {
        About::Paths(paths)
    }
}

impl From<InodeId> for About<'_> {
    fn from(file: InodeId) -> Self {
        About::File(file)
    }
}

impl<'a> From<(&'a DfsPath, &'a str)> for About<'a> {
    fn from((directory, name): (&'a DfsPath, &'a str)) -> Self {
        About::Snapshot(directory, name)
    }
}

impl<'a, T: Into<About<'a>>> From<Option<T>> for About<'a> {
    fn from(named: Option<T>) -> Self {
        named.map_or(About::Nothing, Into::into)
    }
}

/// Makes of the rows the methods that visit the paths of a call.
macro_rules! each_path {
    ({$(
        $(#[doc = $doc:literal])*
        $tag:literal: $name:ident
            $(( $(#[serde $bound:tt])? $only:ident: $only_type:ty $(,)? ))?
            $({ $(
                $(#[doc = $field_doc:literal])*
                $(#[serde $field_bound:tt])?
                $field:ident: $field_type:ty
            ),* $(,)? })?
            $(-> $answer:ty)?
            = $kind:expr
            $(, $column:ident $value:expr)*
    ;)*}) => {
        impl Call {
            /// Passes `visit` each path that the call names.
            pub fn each_path<'a>(&'a self, mut visit: impl FnMut(&'a DfsPath)) {
                match self {$(
                    Call::$name $(($only))? $({ $($field),* })? => {
                        $( $only.each(&mut visit); )?
                        $($( $field.each(&mut visit); )*)?
                    }
                )*}
            }

            /// As [`Call::each_path`], for changing the paths.
            pub fn each_path_mut(&mut self, mut visit: impl FnMut(&mut DfsPath)) {
                match self {$(
                    Call::$name $(($only))? $({ $($field),* })? => {
                        $( $only.each_mut(&mut visit); )?
                        $($( $field.each_mut(&mut visit); )*)?
                    }
                )*}
            }
        }
    };
}

pub(super) use each_path;
