//! Entries of access control lists, and their text form `[default:]user|group|mask|other:[name]:[rwx]`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::permission::Action;
use crate::wire::at_most;

/// Most entries of the access list, and of the default list, of one file or directory.
pub const ACL_ENTRIES_MAX: usize = 32;
/// Most entries that a message has room for; the NameNode refuses a list of more than [`ACL_ENTRIES_MAX`], in HDFS's words.
const ENTRIES_SENT_MAX: usize = 1000;

/// Which list an entry belongs to, in the order of lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum AclScope {
    /// Applies to accesses.
    Access,
    /// Is copied to new children of the directory.
    Default,
}

/// Whom an entry is about, in the order of lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum AclKind {
    /// The owner, or the user named.
    User,
    /// The group, or the group named.
    Group,
    /// The most that named entries and the group get.
    Mask,
    /// Everybody else.
    Other,
}

/// One entry. The order of the fields is the order of lists.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct AclEntry {
    /// Its list.
    pub scope: AclScope,
    /// Whom it is about.
    pub kind: AclKind,
    /// Name of a user or group; `None` for the owner, the group, mask and others.
    pub name: Option<String>,
    /// What it grants.
    pub action: Action,
}

impl AclKind {
    /// Its word in the text form.
    pub fn as_str(self) -> &'static str {
        match self {
            AclKind::User => "user",
            AclKind::Group => "group",
            AclKind::Mask => "mask",
            AclKind::Other => "other",
        }
    }

    fn parse(text: &str) -> Option<AclKind> {
        [AclKind::User, AclKind::Group, AclKind::Mask, AclKind::Other]
            .into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }
}

impl AclEntry {
    /// An entry without a name.
    pub fn plain(scope: AclScope, kind: AclKind, action: Action) -> Self {
        AclEntry { scope, kind, name: None, action }
    }

    /// The key: entries with the same key are the same entry.
    pub fn key(&self) -> (AclScope, AclKind, Option<&str>) {
        (self.scope, self.kind, self.name.as_deref())
    }

    /// Reads entries separated by commas; without `has_actions` they only name entries to remove, and end after the name.
    ///
    /// # Errors
    /// [`AclTextError`] in Hadoop's words.
    pub fn parse_list(text: &str, has_actions: bool) -> Result<Vec<AclEntry>, AclTextError> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(|entry| AclEntry::parse(entry, has_actions)).collect()
    }

    fn parse(text: &str, has_action: bool) -> Result<AclEntry, AclTextError> {
        let shape = || AclTextError::Shape { text: text.to_owned() };
        let mut words = text.trim_end_matches(':').split(':').peekable();
        let scope = match words.next_if_eq(&"default") {
            Some(_) => AclScope::Default,
            None => AclScope::Access,
        };
        let kind = words.next().ok_or_else(shape)?;
        let kind =
            AclKind::parse(kind).ok_or_else(|| AclTextError::Kind { text: text.to_owned() })?;
        let name = words.next().filter(|name| !name.is_empty()).map(str::to_owned);
        let action = if has_action {
            let symbol = words.next().ok_or_else(shape)?;
            let action = Action::from_symbol(symbol);
            action.ok_or_else(|| AclTextError::Action { text: text.to_owned() })?
        } else {
            Action::NONE
        };
        match words.next() {
            None => Ok(AclEntry { scope, kind, name, action }),
            Some(_) => Err(shape()),
        }
    }
}

impl fmt::Display for AclEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scope == AclScope::Default {
            f.write_str("default:")?;
        }
        let name = self.name.as_deref().unwrap_or_default();
        write!(f, "{}:{name}:{}", self.kind.as_str(), self.action.symbol())
    }
}

/// Text that is not a list of entries.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AclTextError {
    /// Too few or too many fields.
    #[error("Invalid <aclSpec> : {text}")]
    Shape {
        /// The entry.
        text: String,
    },
    /// Neither user nor group, mask or other.
    #[error("Invalid type of acl in <aclSpec> :{text}")]
    Kind {
        /// The entry.
        text: String,
    },
    /// Not three of `rwx-`.
    #[error("Invalid permission in <aclSpec> : {text}")]
    Action {
        /// The entry.
        text: String,
    },
}

/// The list of a file or directory as the NameNode reports it: owner, group and others are in `mode`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AclStatus {
    /// Owner.
    pub owner: String,
    /// Group.
    pub group: String,
    /// Permission bits; where there are access entries, the group's bits are the mask.
    pub mode: u16,
    /// Named entries and the group's own of the access list, then the whole default list, sorted.
    #[serde(deserialize_with = "at_most::<ENTRIES_SENT_MAX, _, _>")]
    pub entries: Vec<AclEntry>,
}

impl AclStatus {
    /// The whole list: the permission bits as entries, the entries, mask and others, then the default list.
    pub fn whole(&self) -> Vec<AclEntry> {
        let plain = |kind, action| AclEntry::plain(AclScope::Access, kind, action);
        let split = self.entries.partition_point(|entry| entry.scope == AclScope::Access);
        let (access, defaults) = self.entries.split_at(split);
        let mut list = vec![plain(AclKind::User, Action::of_owner(self.mode))];
        let group = Action::of_group(self.mode);
        match access.is_empty() {
            true => list.push(plain(AclKind::Group, group)),
            false => {
                list.extend_from_slice(access);
                list.push(plain(AclKind::Mask, group));
            }
        }
        list.push(plain(AclKind::Other, Action::of_others(self.mode)));
        list.extend_from_slice(defaults);
        list
    }
}

/// How a list changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum AclChange {
    /// Adds entries, and replaces those with the same scope, kind and name.
    Modify(#[serde(deserialize_with = "at_most::<ENTRIES_SENT_MAX, _, _>")] Vec<AclEntry>),
    /// Removes entries; their rights do not matter.
    Remove(#[serde(deserialize_with = "at_most::<ENTRIES_SENT_MAX, _, _>")] Vec<AclEntry>),
    /// Removes the default list.
    RemoveDefault,
    /// Removes all but the permission bits.
    RemoveAll,
    /// Replaces the list of each scope named.
    Replace(#[serde(deserialize_with = "at_most::<ENTRIES_SENT_MAX, _, _>")] Vec<AclEntry>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        let text = "user::rwx,user:bob:r--,group::r-x,mask::rw-,other::---,default:group:etl:r-x";
        let entries = AclEntry::parse_list(text, true).unwrap();
        let again: Vec<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(again.join(","), text);
        assert_eq!(entries[1].name.as_deref(), Some("bob"));
        assert!(entries.is_sorted());
        let keys = AclEntry::parse_list("user:bob,group:etl:,default:user:bob,mask", false);
        let keys: Vec<String> = keys.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(keys, ["user:bob:---", "group:etl:---", "default:user:bob:---", "mask::---"]);
    }

    #[test]
    fn mistakes_speak_hadoop() {
        for (text, has_actions, message) in [
            ("user:bob", true, "Invalid <aclSpec> : user:bob"),
            ("user:bob:rwx:x", true, "Invalid <aclSpec> : user:bob:rwx:x"),
            ("default", true, "Invalid <aclSpec> : default"),
            ("user:bob:rwx", false, "Invalid <aclSpec> : user:bob:rwx"),
            ("usr:bob:rwx", true, "Invalid type of acl in <aclSpec> :usr:bob:rwx"),
            ("user:bob:rwX", true, "Invalid permission in <aclSpec> : user:bob:rwX"),
            ("user:bob:rwz", true, "Invalid permission in <aclSpec> : user:bob:rwz"),
        ] {
            let error = AclEntry::parse_list(text, has_actions).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
