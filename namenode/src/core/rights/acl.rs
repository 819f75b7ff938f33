//! Access control lists: how a list changes, how it is stored, what new entries of a directory inherit, all as pure functions.
//!
//! Every inode has a list. Without named entries and defaults it is just its permission bits; else the bits hold owner, mask (in the
//! group's place) and others, and the rest is stored ([`Features`](crate::core::inodes::Features)). So `chmod` changes the mask, as POSIX wants it.

use std::collections::BTreeMap;

use protocol::acl::{ACL_ENTRIES_MAX, AclChange, AclEntry, AclKind, AclScope};
use protocol::permission::{Action, STICKY};

type Key = (AclScope, AclKind, Option<String>);
type List = BTreeMap<Key, Action>;

const SCOPES: [AclScope; 2] = [AclScope::Access, AclScope::Default];
const BASE: [AclKind; 3] = [AclKind::User, AclKind::Group, AclKind::Other];

/// What is wrong with a list, in HDFS's words.
pub(in crate::core) fn invalid(text: &str) -> String {
    format!("Invalid ACL: {text}")
}

fn keyed(entries: &[AclEntry]) -> Result<List, String> {
    let mut list = List::new();
    for AclEntry { scope, kind, name, action } in entries {
        if list.insert((*scope, *kind, name.clone()), *action).is_some() {
            return Err(invalid("multiple entries with same scope, type and name."));
        }
    }
    Ok(list)
}

/// The whole list after a change, sorted and complete.
///
/// Why the result would not be a valid list.
/// Why the list would not be one.
pub(in crate::core) fn changed(
    existing: &[AclEntry],
    change: &AclChange,
) -> Result<Vec<AclEntry>, String> {
    let mut list = keyed(existing)?;
    let mut spec = List::new();
    match change {
        AclChange::RemoveAll => {
            let group = list.get(&(AclScope::Access, AclKind::Group, None)).copied();
            list.retain(|(scope, kind, name), _| {
                *scope == AclScope::Access && name.is_none() && *kind != AclKind::Mask
            });
            debug_assert!(group.is_some(), "a whole list has a group");
            return Ok(entries_of(list));
        }
        AclChange::RemoveDefault => {
            list.retain(|(scope, ..), _| *scope == AclScope::Access);
            return Ok(entries_of(list));
        }
        AclChange::Modify(entries) => {
            spec = keyed(entries)?;
            list.extend(spec.clone());
        }
        AclChange::Remove(entries) => {
            for entry in entries {
                let key = (entry.scope, entry.kind, entry.name.clone());
                if list.remove(&key).is_some() {
                    spec.insert(key, Action::NONE);
                }
            }
        }
        AclChange::Replace(entries) => {
            spec = keyed(entries)?;
            for scope in SCOPES {
                if spec.keys().any(|key| key.0 == scope) {
                    list.retain(|key, _| key.0 != scope);
                }
            }
            list.extend(spec.clone());
        }
    }
    copy_defaults(&mut list);
    for scope in SCOPES {
        set_mask(&mut list, scope, &spec)?;
    }
    validate(&list)?;
    Ok(entries_of(list))
}

/// A default list takes what it lacks of owner, group and others from the access list.
fn copy_defaults(list: &mut List) {
    if !list.keys().any(|(scope, ..)| *scope == AclScope::Default) {
        return;
    }
    for kind in BASE {
        if let Some(action) = list.get(&(AclScope::Access, kind, None)).copied() {
            list.entry((AclScope::Default, kind, None)).or_insert(action);
        }
    }
}

/// Keeps a mask that was given or is untouched; else makes it the union of the group and all named entries.
fn set_mask(list: &mut List, scope: AclScope, spec: &List) -> Result<(), String> {
    let mask = (scope, AclKind::Mask, None);
    let is_touched = spec.keys().any(|key| key.0 == scope);
    let is_mask_touched = spec.contains_key(&mask);
    let of_scope = || list.iter().filter(|(key, _)| key.0 == scope);
    if of_scope().all(|(key, _)| *key == mask) {
        // Nothing for a mask to limit: this scope is empty.
        list.remove(&mask);
        return Ok(());
    }
    let is_needed = of_scope().any(|((_, _, name), _)| name.is_some());
    let is_there = list.contains_key(&mask);
    if !is_there && is_needed && is_mask_touched {
        return Err(invalid("mask is required and cannot be deleted."));
    }
    if is_there && (!is_touched || is_mask_touched) {
        return Ok(());
    }
    if is_needed || is_there {
        let union = of_scope()
            .filter(|((_, kind, name), _)| *kind == AclKind::Group || name.is_some())
            .fold(Action::NONE, |union, (_, action)| union.or(*action));
        list.insert(mask, union);
    }
    Ok(())
}

fn validate(list: &List) -> Result<(), String> {
    for ((scope, kind, name), action) in list {
        if name.is_some() && matches!(kind, AclKind::Mask | AclKind::Other) {
            let entry =
                AclEntry { scope: *scope, kind: *kind, name: name.clone(), action: *action };
            return Err(invalid(&format!("this entry type must not have a name: {entry}.")));
        }
    }
    for (scope, which) in [(AclScope::Access, "access"), (AclScope::Default, "default")] {
        let count = list.keys().filter(|key| key.0 == scope).count();
        if count > ACL_ENTRIES_MAX {
            return Err(invalid(&format!(
                "ACL has {count} {which} entries, which exceeds maximum of {ACL_ENTRIES_MAX}."
            )));
        }
        let is_whole = BASE.iter().all(|kind| list.contains_key(&(scope, *kind, None)));
        match scope {
            AclScope::Access if !is_whole => {
                return Err(invalid("the user, group and other entries are required."));
            }
            AclScope::Default if !is_whole && count > 0 => {
                let text = "Invalid default ACL: the user, group and other entries are required.";
                return Err(text.to_owned());
            }
            _ => {}
        }
    }
    Ok(())
}

fn entries_of(list: List) -> Vec<AclEntry> {
    let entry = |((scope, kind, name), action)| AclEntry { scope, kind, name, action };
    list.into_iter().map(entry).collect()
}

/// Splits a whole list into permission bits, over those of `mode`, and the entries to store.
pub(in crate::core) fn stored(mode: u16, list: &[AclEntry]) -> (u16, Vec<AclEntry>) {
    let action = |kind: AclKind| {
        let key = (AclScope::Access, kind, None);
        list.iter().find(|entry| entry.key() == key).map(|entry| entry.action)
    };
    let mask = action(AclKind::Mask);
    let group = mask.or(action(AclKind::Group)).unwrap_or_default();
    let (owner, others) = (action(AclKind::User), action(AclKind::Other));
    let bits = owner.unwrap_or_default().bits() << 6
        | group.bits() << 3
        | others.unwrap_or_default().bits();
    let is_kept = |entry: &&AclEntry| match entry.scope {
        AclScope::Default => true,
        AclScope::Access => {
            mask.is_some() && (entry.kind == AclKind::Group || entry.name.is_some())
        }
    };
    (mode & STICKY | bits, list.iter().filter(is_kept).cloned().collect())
}

/// What the maker of a new entry asked for: a default list takes the place of the umask.
pub(in crate::core) fn asked(defaults: &[AclEntry], mode: u16, unmasked: Option<u16>) -> u16 {
    match unmasked {
        Some(unmasked) if !defaults.is_empty() => unmasked,
        _ => mode,
    }
}

/// Permission bits and stored list of a new entry of a directory with the default list `defaults`; `mode` is what its maker asked
/// for, which limits owner, mask (or the group, without a mask) and others.
pub(in crate::core) fn inherited(
    defaults: &[AclEntry],
    mode: u16,
    is_directory: bool,
) -> (u16, Vec<AclEntry>) {
    if defaults.is_empty() {
        return (mode, Vec::new());
    }
    let has_mask = defaults.iter().any(|entry| entry.kind == AclKind::Mask);
    let mut list: Vec<AclEntry> = defaults
        .iter()
        .map(|entry| {
            let limit = match (entry.kind, &entry.name) {
                (AclKind::User, None) => Action::of_owner(mode),
                (AclKind::Group, None) if !has_mask => Action::of_group(mode),
                (AclKind::Mask, _) => Action::of_group(mode),
                (AclKind::Other, _) => Action::of_others(mode),
                _ => Action::ALL,
            };
            AclEntry { scope: AclScope::Access, action: entry.action.and(limit), ..entry.clone() }
        })
        .collect();
    if is_directory {
        list.extend_from_slice(defaults);
    }
    stored(mode, &list)
}

#[cfg(test)]
mod tests {
    use protocol::acl::AclStatus;

    use super::*;

    fn entries(text: &str) -> Vec<AclEntry> {
        AclEntry::parse_list(text, true).unwrap()
    }

    fn text(entries: &[AclEntry]) -> String {
        entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    const PLAIN: &str = "user::rw-,group::r--,other::r--";
    const NAMED: &str = "user::rwx,user:bob:rwx,group::r-x,mask::r-x,other::---";

    #[test]
    fn changes_are_hdfs() {
        use AclChange::{Modify, Remove, RemoveAll, RemoveDefault, Replace};
        let keys = |text: &str| AclEntry::parse_list(text, false).unwrap();
        for (before, change, after) in [
            (
                PLAIN,
                Modify(entries("user:bob:rwx")),
                "user::rw-,user:bob:rwx,group::r--,mask::rwx,other::r--",
            ),
            (
                NAMED,
                Modify(entries("user:bob:r--")),
                "user::rwx,user:bob:r--,group::r-x,mask::r-x,other::---",
            ),
            (
                NAMED,
                Modify(entries("mask::rwx")),
                "user::rwx,user:bob:rwx,group::r-x,mask::rwx,other::---",
            ),
            (
                NAMED,
                Modify(entries("user:eve:-wx,mask::r--")),
                "user::rwx,user:bob:rwx,user:eve:-wx,group::r-x,mask::r--,other::---",
            ),
            (
                PLAIN,
                Modify(entries("default:user:bob:rwx")),
                "user::rw-,group::r--,other::r--,default:user::rw-,default:user:bob:rwx,default:group::r--,default:mask::rwx,default:other::r--",
            ),
            (NAMED, Remove(keys("user:bob")), "user::rwx,group::r-x,mask::r-x,other::---"),
            (NAMED, Remove(keys("user:bob,mask")), "user::rwx,group::r-x,other::---"),
            (NAMED, Remove(keys("user:nobody")), NAMED),
            (NAMED, RemoveAll, "user::rwx,group::r-x,other::---"),
            (
                "user::rw-,group::r--,other::r--,default:user::rwx,default:group::r-x,default:other::---",
                RemoveDefault,
                PLAIN,
            ),
            (NAMED, Replace(entries(PLAIN)), PLAIN),
            (
                NAMED,
                Replace(entries("default:group::rwx")),
                "user::rwx,user:bob:rwx,group::r-x,mask::r-x,other::---,default:user::rwx,default:group::rwx,default:other::---",
            ),
        ] {
            let list = changed(&entries(before), &change).unwrap();
            assert_eq!(text(&list), after, "{before} after {change:?}");
        }
    }

    #[test]
    fn bad_lists_speak_hdfs() {
        use AclChange::{Modify, Remove, Replace};
        let keys = |text: &str| AclEntry::parse_list(text, false).unwrap();
        let required = "Invalid ACL: the user, group and other entries are required.";
        let many: Vec<String> = (0..32).map(|number| format!("user:u{number}:rwx")).collect();
        for (change, message) in [
            (Remove(keys("mask")), "Invalid ACL: mask is required and cannot be deleted."),
            (Remove(keys("group")), required),
            (Replace(entries("user::rwx")), required),
            (
                Modify(entries("user:a:rwx,user:a:r--")),
                "Invalid ACL: multiple entries with same scope, type and name.",
            ),
            (
                Modify(entries("other:a:rwx")),
                "Invalid ACL: this entry type must not have a name: other:a:rwx.",
            ),
            (
                Modify(entries(&many.join(","))),
                "Invalid ACL: ACL has 37 access entries, which exceeds maximum of 32.",
            ),
        ] {
            assert_eq!(changed(&entries(NAMED), &change).unwrap_err(), message);
        }
    }

    #[test]
    fn a_stored_list_is_read_back_whole() {
        for (mode, list) in [
            (0o1000, PLAIN),
            (0, NAMED),
            (
                0o1000,
                "user::rw-,group::r--,other::r--,default:user::rwx,default:group::r-x,default:other::---",
            ),
        ] {
            let (bits, kept) = stored(mode, &entries(list));
            let status =
                AclStatus { owner: String::new(), group: String::new(), mode: bits, entries: kept };
            assert_eq!(text(&status.whole()), list);
            assert_eq!(bits & STICKY, mode);
        }
        assert_eq!(stored(0, &entries(NAMED)).0, 0o750, "the group's bits are the mask");
    }

    #[test]
    fn new_entries_inherit_defaults_within_their_mode() {
        let plain = entries("default:user::rwx,default:group::rwx,default:other::r-x");
        assert_eq!(inherited(&plain, 0o640, false), (0o640, vec![]));
        let (mode, kept) = inherited(&plain, 0o755, true);
        assert_eq!((mode, kept.as_slice()), (0o755, &plain[..]));
        let named = entries(
            "default:user::rwx,default:user:bob:rwx,default:group::r-x,default:mask::rwx,default:other::r-x",
        );
        let (mode, kept) = inherited(&named, 0o640, false);
        assert_eq!(mode, 0o640);
        assert_eq!(text(&kept), "user:bob:rwx,group::r-x");
        assert_eq!(inherited(&[], 0o755, true), (0o755, vec![]));
    }

    #[test]
    fn a_default_list_takes_the_place_of_the_umask() {
        let defaults = entries("default:user::rwx,default:group::rwx,default:other::r-x");
        for (defaults, unmasked, expected) in [
            (&defaults[..], Some(0o666), 0o666),
            (&defaults[..], None, 0o644),
            (&[], Some(0o666), 0o644),
        ] {
            assert_eq!(asked(defaults, 0o644, unmasked), expected, "{defaults:?} {unmasked:?}");
        }
    }
}
