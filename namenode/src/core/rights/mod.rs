//! Rights: who calls, what they need and have. [`Guard`] follows every path of every call.
//!
//! | file | what |
//! |---|---|
//! | `permission` | permission bits, owners, the superuser |
//! | `acl` | access control lists, as pure functions |
//! | `xattr` | who may see and set which extended attribute |

pub(in crate::core) mod acl;
mod permission;
pub(in crate::core) mod xattr;

pub use self::permission::{Blocked, Caller, Guard, Needs, Way};
