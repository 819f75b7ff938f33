//! The trash of who deletes from a page: as `-rm` of the shell, a page moves what it deletes to `/user/<you>/.Trash/Current/<original path>`.
//!
//! Every call has its number ([`Hand::change`]), so a request that is sent again goes through the same calls and moves nothing twice.

use protocol::namenode::{DIRECTORY_MODE, RenameTo, calls};
use protocol::{DfsPath, ErrorKind, RemoteError};
use transport::rpc::now_ms;

use super::context::{Hand, refused_path};
use crate::trash::{CURRENT, HOMES, TRASH};

/// Names tried for a file before giving up: each is of another millisecond.
const CLASHES_MAX: u64 = 16;
/// Only its owner can read the trash.
const TRASH_MODE: u16 = 0o700;
/// Bits before any umask, which count where a default access control list replaces it.
const UNMASKED: u16 = 0o777;
/// Numbers of the calls.
const MAKE_HOME: u64 = 0;
const MAKE_BASE: u64 = 1;
const MAKE_OTHER_BASE: u64 = 2;
/// And of the first try to move.
const MOVE: u64 = 3;

/// The trash of a user.
#[derive(Clone, Debug)]
pub(super) struct Trash {
    home: DfsPath,
    root: DfsPath,
    /// How long it keeps things, milliseconds.
    pub(super) interval_ms: u64,
}

impl Trash {
    /// `None` if there is none: it is turned off, or the name of the user is none of a directory.
    pub(super) fn of(user: &str, interval_ms: u64) -> Option<Self> {
        let home = DfsPath::parse(&format!("{HOMES}/{user}")).ok()?;
        let root = home.join(TRASH).ok()?;
        (interval_ms > 0).then_some(Trash { home, root, interval_ms })
    }

    /// False for what is in it, and for what it is in.
    pub(super) fn takes(&self, path: &DfsPath) -> bool {
        !path.starts_with(&self.root) && !self.home.starts_with(path)
    }

    /// Moves what is at `path` into the trash.
    ///
    /// # Errors
    /// A refusal of the NameNode, or that this trash does not take it.
    pub(super) async fn take(&self, hand: &Hand, path: &DfsPath) -> Result<(), RemoteError> {
        if !self.takes(path) {
            let text = format!("{path} is in the trash or holds it: delete it for good");
            return Err(RemoteError::new(ErrorKind::InvalidArgument, text));
        }
        self.move_there(hand, path).await.map_err(|error| {
            let text = format!("{path} cannot be moved to the trash: {}", error.message);
            RemoteError::new(error.kind, text)
        })
    }

    async fn move_there(&self, hand: &Hand, path: &DfsPath) -> Result<(), RemoteError> {
        let parent = path.parent().unwrap_or_else(DfsPath::root);
        let base = self.make_base(hand, &parent).await?;
        let name = path.name().unwrap_or_default();
        let mut to = base.join(name).map_err(refused_path)?;
        if hand.find(&to).await?.is_some() {
            to = base.join(&with_time(name)).map_err(refused_path)?;
        }
        for step in MOVE..MOVE + CLASHES_MAX {
            let call = RenameTo { from: path.clone(), to: to.clone(), overwrite: false };
            match hand.change(step, call).await {
                Err(error) if error.kind == ErrorKind::AlreadyExists => {
                    to = base.join(&with_time(name)).map_err(refused_path)?;
                }
                moved => return moved,
            }
        }
        let text = format!("{to} already exists");
        Err(RemoteError::new(ErrorKind::AlreadyExists, text))
    }

    /// Makes the directory for `parent` below `Current`. If a deleted file is in the way, that element gets the time as a suffix.
    async fn make_base(&self, hand: &Hand, parent: &DfsPath) -> Result<DfsPath, RemoteError> {
        if hand.find(&self.home).await?.is_none() {
            // Only the trash itself is private: a home directory is like any other.
            make(hand, MAKE_HOME, (&self.home, DIRECTORY_MODE)).await?;
        }
        let mut base = self.root.join(CURRENT).map_err(refused_path)?;
        let straight = base.join(parent.as_str()).map_err(refused_path)?;
        match make(hand, MAKE_BASE, (&straight, TRASH_MODE)).await {
            Ok(()) => return Ok(straight),
            Err(error) if is_blocked(error.kind) => {}
            Err(error) => return Err(error),
        }
        for element in parent.elements() {
            let mut next = base.join(element).map_err(refused_path)?;
            if hand.find(&next).await?.is_some_and(|status| !status.directory) {
                next = base.join(&with_time(element)).map_err(refused_path)?;
            }
            base = next;
        }
        make(hand, MAKE_OTHER_BASE, (&base, TRASH_MODE)).await?;
        Ok(base)
    }
}

async fn make(hand: &Hand, step: u64, (path, mode): (&DfsPath, u16)) -> Result<(), RemoteError> {
    let path = path.clone();
    hand.change(step, calls::Mkdirs { path, mode, unmasked: Some(UNMASKED), parents: true }).await
}

/// True if a file lies where one of the directories of a path should be.
fn is_blocked(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::AlreadyExists | ErrorKind::ParentNotDirectory)
}

fn with_time(name: &str) -> String {
    format!("{name}{}", now_ms())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_neither_itself_nor_what_holds_it() {
        let trash = Trash::of("ann", 1).unwrap();
        for (path, takes) in [
            ("/", false),
            ("/user", false),
            ("/user/ann", false),
            ("/user/ann/.Trash", false),
            ("/user/ann/.Trash/Current/x", false),
            ("/user/ann/x", true),
            ("/user/ann/.Trash2", true),
            ("/user/bob/.Trash", true),
            ("/x", true),
        ] {
            assert_eq!(trash.takes(&DfsPath::parse(path).unwrap()), takes, "{path}");
        }
        assert!(Trash::of("ann", 0).is_none(), "it is turned off");
        assert!(Trash::of("..", 1).is_none(), "no directory has that name");
    }
}
