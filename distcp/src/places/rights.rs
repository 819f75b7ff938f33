//! Access control lists in the form that the protocol sends.

use protocol::acl::{AclEntry, AclScope};

/// True if the list is no more than permission bits.
pub(super) fn is_plain(entries: &[AclEntry]) -> bool {
    entries.iter().all(|entry| entry.scope == AclScope::Access && entry.name.is_none())
        && entries.len() <= PLAIN_ENTRIES
}

/// True if the list has a default part.
pub(super) fn has_default(entries: &[AclEntry]) -> bool {
    entries.iter().any(|entry| entry.scope == AclScope::Default)
}

/// User, group, others.
const PLAIN_ENTRIES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lists_are_bits() {
        let list = |text: &str| AclEntry::parse_list(text, true).unwrap();
        assert!(is_plain(&list("user::rwx,group::r-x,other::---")));
        for text in [
            "user::rwx,user:bob:r--,group::r-x,mask::r-x,other::---",
            "user::rwx,group::r-x,other::---,default:user::rwx",
        ] {
            assert!(!is_plain(&list(text)), "{text}");
        }
        assert!(has_default(&list("user::rwx,default:user::rwx")));
        assert!(!has_default(&list("user::rwx,user:bob:r--")));
    }
}
