//! What `-p` keeps of files and directories.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The attributes that a copy keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Attributes {
    pub(crate) replication: bool,
    pub(crate) block_size: bool,
    pub(crate) user: bool,
    pub(crate) group: bool,
    pub(crate) mode: bool,
    pub(crate) acl: bool,
    pub(crate) xattrs: bool,
    pub(crate) times: bool,
}

/// What `-p` without letters keeps, as in Hadoop.
const DEFAULT: &str = "rbugpct";

impl Attributes {
    /// Reads the letters after `-p`.
    pub(crate) fn parse(letters: &str) -> Result<Self> {
        let mut kept = Attributes::default();
        for letter in if letters.is_empty() { DEFAULT } else { letters }.chars() {
            match letter {
                'r' => kept.replication = true,
                'b' => kept.block_size = true,
                'u' => kept.user = true,
                'g' => kept.group = true,
                'p' => kept.mode = true,
                // There is one type of checksums, CRC-32C.
                'c' => {}
                // The permission bits are a part of the list.
                'a' => (kept.acl, kept.mode) = (true, true),
                'x' => kept.xattrs = true,
                't' => kept.times = true,
                'e' => {
                    return Err(Error::usage(
                        "-pe is not supported: files are replicated, none is erasure coded; -pr keeps their replication",
                    ));
                }
                other => {
                    return Err(Error::usage(format!(
                        "-p: `{other}` is no attribute; there are r b u g p c a x t"
                    )));
                }
            }
        }
        Ok(kept)
    }

    /// True if something is kept of directories.
    pub(crate) fn of_directories(self) -> bool {
        let Attributes { user, group, mode, acl, xattrs, times, .. } = self;
        user || group || mode || acl || xattrs || times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        let all = Attributes::parse("").unwrap();
        assert!(all.replication && all.block_size && all.user && all.group && all.mode);
        assert!(all.times && !all.acl && !all.xattrs && all.of_directories());
        let list = Attributes::parse("a").unwrap();
        assert!(list.acl && list.mode && !list.user);
        let small = Attributes::parse("rbc").unwrap();
        assert!(!small.of_directories());
        let refused = Attributes::parse("e").unwrap_err();
        assert!(
            matches!(&refused, Error::Usage { reason } if reason.contains("-pe")),
            "{refused:?}"
        );
    }
}
