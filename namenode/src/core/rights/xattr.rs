//! Extended attributes: who may see and set which, and which of them share a limit; and the one that closes a file to the superuser.

use protocol::xattr::{XattrName, XattrSpace};
use protocol::{ErrorKind, RemoteError};

use super::permission::Caller;
use crate::core::inodes::Features;
use crate::error::refuse;

pub(in crate::core) const NOT_FOUND: &str =
    "At least one of the attributes provided was not found.";
/// In the namespace `security`: the superuser may not read the file that has it. It has no value, and stays as long as the file.
const UNREADABLE: &str = "hdfs.unreadable.by.superuser";

pub(in crate::core) fn invalid(text: impl Into<String>) -> RemoteError {
    refuse(ErrorKind::InvalidArgument, text)
}

pub(in crate::core) fn is_unreadable(name: &XattrName) -> bool {
    name.space == XattrSpace::Security && name.name == UNREADABLE
}

impl Features {
    /// True if the superuser may not read the file.
    pub(super) fn is_closed_to_superuser(&self) -> bool {
        self.xattrs.keys().any(is_unreadable)
    }
}

/// Whether the caller may see and set an attribute: everybody for `user`, the superuser for `trusted`, callers by a path below
/// `/.reserved/raw` for `raw`, nobody for `system`. In `security` everybody may, but only the one attribute that exists.
pub(in crate::core) fn is_open(name: &XattrName, (caller, is_raw): (Caller<'_>, bool)) -> bool {
    match name.space {
        XattrSpace::User => true,
        XattrSpace::Trusted => caller.is_superuser,
        XattrSpace::Raw => is_raw,
        XattrSpace::Security => is_unreadable(name),
        XattrSpace::System => false,
    }
}

/// The namespaces that share a limit with one, as in HDFS, where others do not crowd out users' attributes. Namespaces without a limit have
/// only attributes that this program knows.
pub(in crate::core) fn counted_with(space: XattrSpace) -> &'static [XattrSpace] {
    match space {
        XattrSpace::User | XattrSpace::Trusted => &[XattrSpace::User, XattrSpace::Trusted],
        XattrSpace::Raw => &[XattrSpace::Raw],
        XattrSpace::Security | XattrSpace::System => &[],
    }
}

pub(in crate::core) fn allowed_name(
    name: &str,
    asks: (Caller<'_>, bool),
) -> Result<XattrName, RemoteError> {
    let name = XattrName::parse(name).map_err(|error| invalid(error.to_string()))?;
    if is_open(&name, asks) {
        return Ok(name);
    }
    let text = format!("User doesn't have permission for xattr: {}", name.prefixed());
    Err(refuse(ErrorKind::PermissionDenied, text))
}
