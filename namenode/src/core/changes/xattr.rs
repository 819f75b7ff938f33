//! Extended attributes: who may see and set which, and their limits; and the one that closes a file to the superuser.

use protocol::permission::{Action, STICKY};
use protocol::xattr::{XATTR_BYTES_MAX, XATTRS_MAX, XattrFlag, XattrSpace};
use protocol::{DfsPath, ErrorKind, RemoteError};

use super::planner::{Planned, Planner};
use crate::core::edit::{Edit, Outcome};
use crate::core::namespace::Resolved;
use crate::core::rights::Needs;
use crate::core::rights::xattr::{allowed_name, counted_with, invalid, is_unreadable};
use crate::error::refuse;

impl Planner<'_> {
    pub(super) fn set_xattr(
        &mut self,
        path: &DfsPath,
        (name, value): (&str, &[u8]),
        flag: XattrFlag,
    ) -> Planned {
        let name = allowed_name(name, (self.asked.caller, self.is_raw))?;
        let size = name.name.len() + value.len();
        if size > XATTR_BYTES_MAX {
            let text = format!(
                "The XAttr is too big. The maximum combined size of the name and value is {XATTR_BYTES_MAX}, but the total size is {size}"
            );
            return Err(refuse(ErrorKind::TooLarge, text));
        }
        let prefixed = name.prefixed();
        if is_unreadable(&name) && !value.is_empty() {
            let text = format!(
                "Attempt to set a value for '{prefixed}'. Values are not allowed for this xattr."
            );
            return Err(refuse(ErrorKind::PermissionDenied, text));
        }
        let Resolved { id, inode } = self.changeable(path, name.space)?;
        if is_unreadable(&name) && inode.file().is_none() {
            return Err(invalid(format!("Can only set '{prefixed}' on a file.")));
        }
        let features = self.state.ns.features(id);
        let exists = features.is_some_and(|features| features.xattrs.contains_key(&name));
        match flag {
            XattrFlag::Create if exists => {
                let name = &name.name;
                return Err(invalid(format!(
                    "XAttr: {name} already exists. The REPLACE flag must be specified."
                )));
            }
            XattrFlag::Replace if !exists => {
                let name = &name.name;
                return Err(invalid(format!(
                    "XAttr: {name} does not exist. The CREATE flag must be specified."
                )));
            }
            _ => {}
        }
        let counted = counted_with(name.space);
        let names = features.into_iter().flat_map(|features| features.xattrs.keys());
        let count = names.filter(|name| counted.contains(&name.space)).count();
        if !exists && count >= XATTRS_MAX {
            return Err(invalid(format!(
                "Cannot add additional XAttr to inode, would exceed limit of {XATTRS_MAX}"
            )));
        }
        self.edits.push(Edit::SetXattr { inode: id, name, value: Some(value.to_vec()) });
        Ok(Outcome::Done)
    }

    pub(super) fn remove_xattr(&mut self, path: &DfsPath, name: &str) -> Planned {
        let name = allowed_name(name, (self.asked.caller, self.is_raw))?;
        let Resolved { id, .. } = self.changeable(path, name.space)?;
        let features = self.state.ns.features(id);
        if features.is_none_or(|features| !features.xattrs.contains_key(&name)) {
            return Err(invalid("No matching attributes found for remove operation"));
        }
        if is_unreadable(&name) {
            let text = format!("The xattr '{}' can not be deleted.", name.prefixed());
            return Err(refuse(ErrorKind::PermissionDenied, text));
        }
        self.edits.push(Edit::SetXattr { inode: id, name, value: None });
        Ok(Outcome::Done)
    }

    /// An inode whose attributes of a namespace the caller may change. Attributes that any user sets need WRITE; on a directory with the
    /// sticky bit they need ownership.
    fn changeable(&self, path: &DfsPath, space: XattrSpace) -> Result<Resolved<'_>, RemoteError> {
        let guard = self.guard();
        let way = guard.walk(path)?;
        if matches!(space, XattrSpace::User | XattrSpace::Security) {
            let is_sticky = way.found.as_ref().is_some_and(|Resolved { inode, .. }| {
                inode.directory().is_some() && inode.mode & STICKY != 0
            });
            let needs = match is_sticky {
                true => Needs { ownership: true, ..Needs::default() },
                false => Needs { target: Some(Action::WRITE), ..Needs::default() },
            };
            guard.check(path, &way, needs)?;
        }
        let missing = || refuse(ErrorKind::NotFound, format!("cannot find {path}"));
        way.found.ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use protocol::namenode::{Answer, Call, Reply};

    use super::*;
    use crate::core::query::Reader;
    use crate::core::rights::Caller;
    use crate::core::tests::harness::{Harness, dfs};

    const OWNER: Caller<'_> = Caller { user: "bob", groups: &[], is_superuser: false };
    const OTHER: Caller<'_> = Caller { user: "eve", groups: &[], is_superuser: false };
    const ROOT: Caller<'_> = Caller { user: "root", groups: &[], is_superuser: true };
    const CLOSED: &str = "security.hdfs.unreadable.by.superuser";

    fn set(path: &str, name: &str, value: &[u8]) -> Call {
        let (name, value) = (name.to_owned(), value.to_vec());
        Call::SetXattr { path: dfs(path), name, value, flag: XattrFlag::CreateOrReplace }
    }

    fn remove(path: &str, name: &str) -> Call {
        Call::RemoveXattr { path: dfs(path), name: name.to_owned() }
    }

    fn ask(harness: &Harness, caller: Caller<'_>, body: &Call) -> Answer {
        let reader = Reader { caller, host: "", now: harness.now, txid: 0 };
        harness.state.query(&harness.nodes, body, reader)
    }

    fn names(harness: &Harness, caller: Caller<'_>, path: &str) -> Result<Vec<String>, ErrorKind> {
        let call = Call::GetXattrs { path: dfs(path), names: Vec::new() };
        match ask(harness, caller, &call) {
            Ok(Reply::Xattrs(found)) => Ok(found.into_iter().map(|xattr| xattr.name).collect()),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.kind),
        }
    }

    fn refused(h: &mut Harness, caller: Caller<'_>, call: Call, kind: ErrorKind, part: &str) {
        let error = h.call_as(caller, call).unwrap_err();
        assert!(error.kind == kind && error.message.contains(part), "{error:?}");
    }

    /// `/d/f`, of bob, in a directory that may have snapshots.
    fn of_bob() -> Harness {
        let mut h = Harness::with_nodes(1, 3);
        h.write("/d/f", 100, 3);
        for path in ["/d", "/d/f"] {
            let owner = "bob".to_owned();
            let call = Call::SetOwner { path: dfs(path), owner, group: String::new() };
            assert_eq!(h.call(call), Ok(Reply::Done));
        }
        h.call(Call::AllowSnapshot(dfs("/d"))).unwrap();
        h.call(Call::SetMode { path: dfs("/d/f"), mode: 0o600 }).unwrap();
        h
    }

    fn snapshot(h: &mut Harness, name: &str) {
        h.call(Call::CreateSnapshot { path: dfs("/d"), name: Some(name.to_owned()) }).unwrap();
    }

    #[test]
    fn a_file_can_be_closed_to_the_superuser_for_good() {
        let mut h = of_bob();
        let read = |path: &str| Call::Locations { path: dfs(path), offset: 0, length: 100 };
        assert!(ask(&h, ROOT, &read("/d/f")).is_ok());
        let denied = ErrorKind::PermissionDenied;
        let invalid = ErrorKind::InvalidArgument;
        refused(
            &mut h,
            OWNER,
            set("/d/f", CLOSED, b"x"),
            denied,
            "Values are not allowed for this",
        );
        refused(&mut h, OWNER, set("/d/f", "security.x", b""), denied, "security.x");
        refused(&mut h, ROOT, set("/d/f", "system.x", b""), denied, "system.x");
        refused(&mut h, OTHER, set("/d/f", CLOSED, b""), denied, "eve");
        refused(&mut h, OWNER, set("/d", CLOSED, b""), invalid, "' on a file.");
        refused(&mut h, OWNER, remove("/d/f", CLOSED), invalid, "No matching attributes");
        assert_eq!(h.call_as(OWNER, set("/d/f", CLOSED, b"")), Ok(Reply::Done));
        assert_eq!(h.call_as(OWNER, set("/d/f", CLOSED, b"")), Ok(Reply::Done), "again");
        snapshot(&mut h, "s");
        let text = "Access is denied for root since the superuser is not allowed to perform this operation.";
        let is_closed = |h: &Harness, path: &str| {
            let error = ask(h, ROOT, &read(path)).unwrap_err();
            assert_eq!((error.kind, error.message.as_str()), (denied, text), "{path}");
            assert!(ask(h, OWNER, &read(path)).is_ok(), "{path}");
        };
        for path in ["/d/f", "/d/.snapshot/s/f", "/.reserved/raw/d/f"] {
            is_closed(&h, path);
            assert_eq!(names(&h, OWNER, path), Ok(vec![CLOSED.to_owned()]), "{path}");
        }
        refused(&mut h, ROOT, remove("/d/f", CLOSED), denied, "can not be deleted");
        refused(&mut h, OWNER, remove("/d/f", CLOSED), denied, "can not be deleted");
        // Its bytes do not become those of another file, either.
        h.write("/d/g", 100, 3);
        let concat = Call::Concat { target: dfs("/d/g"), sources: vec![dfs("/d/f")] };
        refused(&mut h, ROOT, concat, denied, "the superuser is not allowed");
        let rename = Call::Rename { from: dfs("/d/f"), to: dfs("/d/h"), overwrite: None };
        assert_eq!(h.call_as(ROOT, rename), Ok(Reply::Flag(true)));
        is_closed(&h, "/d/h");
        let replayed = h.replay();
        h.restart(replayed);
        is_closed(&h, "/d/h");
        h.checkpoint();
        let loaded = h.reload();
        h.restart(loaded);
        is_closed(&h, "/d/h");
        let delete = Call::Delete { path: dfs("/d/h"), recursive: false };
        assert_eq!(h.call_as(ROOT, delete), Ok(Reply::Flag(true)));
    }

    #[test]
    fn a_value_that_is_too_large_is_refused_as_such() {
        let mut h = of_bob();
        let fits = vec![b'x'; XATTR_BYTES_MAX - "a".len()];
        assert_eq!(h.call_as(OWNER, set("/d/f", "user.a", &fits)), Ok(Reply::Done));
        let large = [fits.as_slice(), b"x"].concat();
        let text = format!("but the total size is {}", XATTR_BYTES_MAX + 1);
        // Whoever asks, and whether or not there is a file.
        for (caller, path) in [(OWNER, "/d/f"), (OTHER, "/d/f"), (ROOT, "/x")] {
            refused(&mut h, caller, set(path, "user.a", &large), ErrorKind::TooLarge, &text);
        }
    }

    #[test]
    fn without_permissions_nothing_is_closed() {
        let mut h = of_bob();
        h.state.settings.permissions = false;
        assert_eq!(h.call_as(OWNER, set("/d/f", CLOSED, b"")), Ok(Reply::Done));
        let read = Call::Locations { path: dfs("/d/f"), offset: 0, length: 100 };
        assert!(ask(&h, ROOT, &read).is_ok());
    }

    #[test]
    fn raw_attributes_are_set_by_the_superuser_and_seen_below_the_raw_path_alone() {
        let mut h = of_bob();
        let raw = "/.reserved/raw/d/f";
        let denied = ErrorKind::PermissionDenied;
        let no_right = "User doesn't have permission for xattr: raw.a";
        refused(&mut h, ROOT, set("/d/f", "raw.a", b"1"), denied, no_right);
        refused(&mut h, OWNER, set("/d/f", "raw.a", b"1"), denied, no_right);
        refused(&mut h, OWNER, set(raw, "raw.a", b"1"), denied, "Superuser privilege is required");
        assert_eq!(h.call_as(ROOT, set(raw, "raw.a", b"1")), Ok(Reply::Done));
        assert_eq!(h.call_as(ROOT, set("/d/f", "user.a", b"2")), Ok(Reply::Done));
        refused(&mut h, ROOT, remove("/d/f", "raw.a"), denied, no_right);
        refused(&mut h, OWNER, remove(raw, "raw.a"), denied, "Superuser privilege is required");
        snapshot(&mut h, "s");
        let rename = Call::Rename { from: dfs("/d/f"), to: dfs("/d/g"), overwrite: None };
        h.call_as(OWNER, rename).unwrap();
        let both = || Ok(vec!["user.a".to_owned(), "raw.a".to_owned()]);
        let check = |h: &Harness| {
            for path in ["/d/g", "/d/.snapshot/s/f"] {
                let raw = format!("/.reserved/raw{path}");
                for caller in [ROOT, OWNER] {
                    assert_eq!(names(h, caller, path), Ok(vec!["user.a".to_owned()]), "{path}");
                    assert_eq!(names(h, caller, &raw), both(), "{raw}");
                }
                assert_eq!(names(h, OTHER, path), Err(denied));
                assert_eq!(names(h, OTHER, &raw), Err(denied));
            }
            let named =
                |path: &str| Call::GetXattrs { path: dfs(path), names: vec!["raw.a".to_owned()] };
            assert!(ask(h, ROOT, &named("/.reserved/raw/d/g")).is_ok());
            assert_eq!(ask(h, ROOT, &named("/d/g")).unwrap_err().kind, denied);
        };
        check(&h);
        let replayed = h.replay();
        h.restart(replayed);
        check(&h);
        assert_eq!(h.call_as(ROOT, remove("/.reserved/raw/d/g", "raw.a")), Ok(Reply::Done));
        assert_eq!(names(&h, ROOT, "/.reserved/raw/d/g"), Ok(vec!["user.a".to_owned()]));
        assert_eq!(names(&h, ROOT, "/.reserved/raw/d/.snapshot/s/f"), both());
    }

    #[test]
    fn the_systems_attributes_take_no_room_from_the_users() {
        let mut h = of_bob();
        let raw = "/.reserved/raw/d/f";
        assert_eq!(h.call_as(ROOT, set(raw, CLOSED, b"")), Ok(Reply::Done));
        for number in 0..XATTRS_MAX {
            assert!(h.call_as(ROOT, set(raw, &format!("raw.{number}"), b"")).is_ok());
            let space = if number % 2 == 0 { "user" } else { "trusted" };
            assert!(h.call_as(ROOT, set("/d/f", &format!("{space}.{number}"), b"")).is_ok());
        }
        let kind = ErrorKind::InvalidArgument;
        for (path, name) in [("/d/f", "user.x"), ("/d/f", "trusted.x"), (raw, "raw.x")] {
            refused(&mut h, ROOT, set(path, name, b""), kind, "would exceed limit of 32");
        }
        assert_eq!(h.call_as(ROOT, set(raw, "raw.0", b"new")), Ok(Reply::Done));
    }
}
